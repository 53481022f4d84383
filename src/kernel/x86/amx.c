/* The AMX table, and from how many tokens on tiles are worth it: measured once on the machine, for weights take
 * their time to be unpacked and tokens theirs to be turned, and processors differ. The result is the same either way.
 */
#include "kernel/x86/amx.h"

/* Used until the measurement has been made, and by the self-check before it. */
#define AMX_FROM 16

atomic_size_t kernel_amx_from_32 = AMX_FROM, kernel_amx_from_256 = AMX_FROM;

#define TUNE_N 1024
#define TUNE_ROWS 256
#define TUNE_TOKENS 32
#define TUNE_TIMES 5

typedef void product_function(AVX2_PRODUCT_ARGS);

/* The best of a few times, in nanoseconds: the first ones find cold caches. */
static uint64_t time_of(product_function *product, const void *w, const struct kernel_acts *acts, size_t n_tokens,
                        float *out)
{
    const struct os_calls *os = os_system();
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TUNE_TIMES; i++) {
        uint64_t begin = os->now_ns(os->user);
        product(w, TUNE_ROWS, acts, NULL, n_tokens, out, TUNE_ROWS, NULL);
        uint64_t taken = os->now_ns(os->user) - begin;
        if (taken < best) best = taken;
    }
    return best;
}

/* The least of 4, 8, 16 and 32 tokens for which tiles are faster; SIZE_MAX: none. */
static size_t tiles_win_from(product_function *tiles, product_function *vectors, const void *w,
                             const struct kernel_acts *acts, float *out, atomic_size_t *from)
{
    static const size_t counts[] = {4, 8, 16, 32};
    size_t best = SIZE_MAX;
    for (size_t i = sizeof counts / sizeof counts[0]; i-- > 0;) {
        uint64_t vector_ns = time_of(vectors, w, acts, counts[i], out);
        atomic_store_explicit(from, 1, memory_order_relaxed);
        uint64_t tile_ns = time_of(tiles, w, acts, counts[i], out);
        if (tile_ns >= vector_ns) break;
        best = counts[i];
    }
    return best;
}

void kernel_amx_tune(void)
{
    /* All values are 0: the time does not depend on them. As many rows as a call has of an expert cut in three, for
     * tokens are prepared once a call. The form of 256 is the longer. */
    static const uint8_t w[TUNE_ROWS * TUNE_N / 256 * 144];
    static const int8_t q[TUNE_TOKENS * TUNE_N];
    static const float d[TUNE_TOKENS * TUNE_N / 32];
    static const int16_t sums[TUNE_TOKENS * TUNE_N / 16];
    float out[TUNE_TOKENS * TUNE_ROWS];
    struct kernel_acts acts = {.n = TUNE_N, .n_tokens = TUNE_TOKENS};
    for (enum quant_form f = QUANT_FORM_32; f <= QUANT_FORM_256; f++) {
        acts.q[f] = (int8_t *)(uintptr_t)q; /* products only read */
        acts.d[f] = (float *)(uintptr_t)d;
        acts.sums[f] = (int16_t *)(uintptr_t)sums;
    }
    size_t from_32 = tiles_win_from(kernel_amx_q4_0, kernel_avx512_q4_0, w, &acts, out, &kernel_amx_from_32);
    size_t from_256 = tiles_win_from(kernel_amx_q4_k, kernel_avx512_q4_k, w, &acts, out, &kernel_amx_from_256);
    atomic_store_explicit(&kernel_amx_from_32, from_32, memory_order_relaxed);
    atomic_store_explicit(&kernel_amx_from_256, from_256, memory_order_relaxed);
}
