/* Private to the room: the tables of all instruction sets that this build holds. */
#ifndef KERNEL_TABLES_H
#define KERNEL_TABLES_H

#include "kernel/kernel.h"

extern const struct kernel_table kernel_table_scalar;

/* Tables beyond the scalar one, best first; NULL ends the list. The build picks the source that defines it. */
extern const struct kernel_table *const kernel_native_tables[];

/* The self-check of a level (check.c). */
struct kernel_fault {
    const char *function; /* as the table calls it */
    const char *type;     /* of weights or of the cache; NULL: none */
};
bool kernel_check(const struct kernel_table *t, struct kernel_fault *fault); /* false: see fault */

/* kernel_select and kernel_passed_over with other tables than this build's. */
enum sluice_status kernel_select_from(const struct kernel_table *const *tables, const struct os_cpu *cpu,
                                      const char *level_name, const struct kernel_table **out,
                                      struct sluice_error *err);
enum sluice_status kernel_passed_over_from(const struct kernel_table *const *tables, const struct os_cpu *cpu,
                                           const struct kernel_table *chosen, struct sluice_error *err);

/* The products of the scalar table, for levels that have none of their own for a format. */
#define KERNEL_DECLARE_SCALAR(name)                                                                                 \
    void kernel_scalar_##name(const void *w, size_t n_rows, const struct kernel_acts *acts, const uint32_t *tokens, \
                              size_t n_tokens, float *out, size_t out_stride, const uint32_t *out_rows)

KERNEL_DECLARE_SCALAR(F32);
KERNEL_DECLARE_SCALAR(F16);
KERNEL_DECLARE_SCALAR(BF16);
KERNEL_DECLARE_SCALAR(Q4_0);
KERNEL_DECLARE_SCALAR(Q4_1);
KERNEL_DECLARE_SCALAR(Q5_0);
KERNEL_DECLARE_SCALAR(Q5_1);
KERNEL_DECLARE_SCALAR(Q8_0);
KERNEL_DECLARE_SCALAR(IQ4_NL);
KERNEL_DECLARE_SCALAR(MXFP4);
KERNEL_DECLARE_SCALAR(Q2_K);
KERNEL_DECLARE_SCALAR(Q3_K);
KERNEL_DECLARE_SCALAR(Q4_K);
KERNEL_DECLARE_SCALAR(Q5_K);
KERNEL_DECLARE_SCALAR(Q6_K);
KERNEL_DECLARE_SCALAR(IQ4_XS);
KERNEL_DECLARE_SCALAR(IQ1_S);
KERNEL_DECLARE_SCALAR(IQ1_M);
KERNEL_DECLARE_SCALAR(IQ2_XXS);
KERNEL_DECLARE_SCALAR(IQ2_XS);
KERNEL_DECLARE_SCALAR(IQ2_S);
KERNEL_DECLARE_SCALAR(IQ3_XXS);
KERNEL_DECLARE_SCALAR(IQ3_S);
KERNEL_DECLARE_SCALAR(TQ1_0);
KERNEL_DECLARE_SCALAR(TQ2_0);
KERNEL_DECLARE_SCALAR(NVFP4);

/* The functions of generic/elementwise.c, which is compiled once a level. */
#define KERNEL_DECLARE_ELEMENTWISE(level)                                                                       \
    float kernel_dot_f32_##level(const float *a, const float *b, size_t n);                                     \
    void kernel_rms_norm_##level(const float *x, const float *w, size_t n, float eps, float *out);              \
    void kernel_silu_mul_##level(const float *gate, const float *up, size_t n, float *out);                     \
    void kernel_act_mul_##level(enum kernel_act act, float limit, const float *gate, const float *up, size_t n, \
                                float *out);                                                                    \
    void kernel_add_##level(float *acc, const float *x, size_t n);                                              \
    void kernel_add_scaled_##level(float *acc, const float *x, float s, size_t n);                              \
    void kernel_scale_##level(float *x, float s, size_t n);                                                     \
    float kernel_exp_sum_##level(float *x, size_t n, float *max);                                               \
    void kernel_softmax_##level(float *x, size_t n);                                                            \
    void kernel_rope_##level(float *x, size_t n_heads, size_t d_head, size_t n_rot, const float *cos,           \
                             const float *sin, int neox);                                                       \
    void kernel_angles_##level(double pos, const double *freq, size_t n, float *cos, float *sin);               \
    void kernel_attn_join_##level(float *acc, float *max, float *sum, const float *block, float block_max,      \
                                  float block_sum, size_t n);                                                   \
    void kernel_attn_merge_##level(float *acc, const float *block, float a, float b, size_t n)

KERNEL_DECLARE_ELEMENTWISE(scalar);
KERNEL_DECLARE_ELEMENTWISE(avx2);
KERNEL_DECLARE_ELEMENTWISE(avx512);

#endif
