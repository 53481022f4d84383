/* The self-check of a level: its functions against the scalar ones on fixed pseudo-random values, to the bit. It finds
 * a processor, an emulator or a compiler that does not do what the level's authors had in front of them; the shapes
 * reach every way through a product (few tokens, many, tiles; whole groups of rows and a rest). The tests of the room
 * are far wider. */
#include "kernel/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N 512     /* two blocks of the longest format */
#define ROWS 17   /* a group of 16 rows, or two of 8, and a rest */
#define TOKENS 49 /* four tiles of 16: two pairs */
#define COMPARED 5
#define ROW_BYTES_MAX (N * sizeof(float))
#define D_HEAD 96
#define POSITIONS 9
#define QUERIES 31 /* and some smaller numbers, for which kernels have ways of their own */

/* Working memory, too much for a worker's stack; kernel_check is not reached by workers. */
struct check {
    const struct kernel_table *reference, *level;
    struct kernel_fault *fault;
    uint64_t seed;
    float x[TOKENS * N];
    int8_t q[QUANT_FORMS][TOKENS * N];
    float d[QUANT_FORMS][TOKENS * N / 16];
    int16_t sums[QUANT_FORMS][TOKENS * N / 16];
    uint8_t w[ROWS * ROW_BYTES_MAX];
};

static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* -2 .. 2 */
static float random_float(uint64_t *seed) { return ((float)(next_random(seed) >> 40) * 0x1p-24f - 0.5f) * 4.0f; }

static void random_floats(uint64_t *seed, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = random_float(seed);
}

static bool differ(struct check *c, const char *function, const char *type)
{
    *c->fault = (struct kernel_fault){.function = function, .type = type};
    return false;
}

static bool same(const float *a, const float *b, size_t n) { return memcmp(a, b, n * sizeof *a) == 0; }

/* Random bytes, drawn again until they decode to values of a sane size: bits that a file need not have, in all fields
 * but the scales. */
static void random_block(const struct quant_type *type, uint8_t *block, uint64_t *seed)
{
    float values[256];
    for (int tries = 0; tries < 2000; tries++) {
        for (size_t i = 0; i < type->block_bytes; i += 8) {
            uint64_t r = next_random(seed);
            memcpy(block + i, &r, type->block_bytes - i < 8 ? type->block_bytes - i : 8);
        }
        type->decode(block, values, type->block_len);
        float top = 0;
        bool sane = true;
        for (size_t i = 0; i < type->block_len; i++) {
            float size = fabsf(values[i]);
            sane = sane && size < 1e4f; /* false for NaN */
            top = size > top ? size : top;
        }
        if (sane && top > 1e-3f) return;
    }
    memset(block, 0, type->block_bytes); /* not reached by the formats that there are */
}

static bool check_product(struct check *c, const struct quant_type *type)
{
    static const size_t counts[] = {TOKENS, 17, 5, 1};
    const size_t first = c->level->many_rows ? 0 : 1; /* kernels with tiles of tokens, which begin at 16 */
    static const uint32_t compared[COMPARED] = {0, 1, 4, 16, 48};
    if (type->block_len == 1) {
        float row[N];
        for (size_t r = 0; r < ROWS; r++) {
            random_floats(&c->seed, row, N);
            type->encode(row, c->w + r * N * type->block_bytes, N);
        }
    } else {
        for (size_t b = 0; b < ROWS * N / type->block_len; b++)
            random_block(type, c->w + b * type->block_bytes, &c->seed);
    }
    struct kernel_acts acts = {.x = c->x, .n = N, .n_tokens = TOKENS};
    for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS; f++) {
        acts.q[f] = c->q[f];
        acts.d[f] = c->d[f];
        acts.sums[f] = c->sums[f];
    }
    float want[COMPARED][ROWS], got[TOKENS][ROWS];
    c->reference->product[type->id](c->w, ROWS, &acts, compared, COMPARED, want[0], ROWS, NULL);
    for (size_t k = first; k < sizeof counts / sizeof counts[0]; k++) {
        memset(got, 0xff, sizeof got);
        c->level->product[type->id](c->w, ROWS, &acts, NULL, counts[k], got[0], ROWS, NULL);
        for (size_t i = 0; i < COMPARED && compared[i] < counts[k]; i++)
            if (!same(got[compared[i]], want[i], ROWS)) return differ(c, "product", type->name);
    }
    return true;
}

static bool check_quantize(struct check *c)
{
    int8_t q[N];
    float d[N / 16];
    int16_t sums[N / 16];
    for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS; f++) {
        size_t n_d = N / quant_form_len(f);
        c->level->quantize(f, c->x, N, q, d, sums);
        if (memcmp(q, c->q[f], N) != 0 || memcmp(sums, c->sums[f], sizeof sums) != 0 || !same(d, c->d[f], n_d))
            return differ(c, "quantize", NULL);
    }
    return true;
}

#define N_ELEMENTS 83

/* Calls a function of both tables on the same values, in p and q. */
#define COMPARE(name, arguments_p, arguments_q)                     \
    do {                                                            \
        memcpy(p, x, sizeof p);                                     \
        memcpy(q, x, sizeof q);                                     \
        c->reference->name arguments_p;                             \
        c->level->name arguments_q;                                 \
        if (!same(p, q, N_ELEMENTS)) return differ(c, #name, NULL); \
    } while (0)

static bool check_exp_rows(struct check *c)
{
    enum { N_ROWS = 7 }; /* whole groups of rows and a rest */
    float p[N_ROWS][64], q[N_ROWS][64], sum[2][N_ROWS], max[2][N_ROWS];
    if (!c->level->exp_sum_many) return true;
    memcpy(p, c->x, sizeof p);
    memcpy(q, c->x, sizeof q);
    for (size_t r = 0; r < N_ROWS; r++) sum[0][r] = c->reference->exp_sum(p[r], 64, &max[0][r]);
    c->level->exp_sum_many(q, N_ROWS, sum[1], max[1]);
    if (!same(sum[0], sum[1], N_ROWS) || !same(max[0], max[1], N_ROWS) || !same(p[0], q[0], N_ROWS * 64))
        return differ(c, "exp_sum_many", NULL);
    return true;
}

static bool check_elementwise(struct check *c)
{
    const float *x = c->x, *y = c->x + N;
    float p[N_ELEMENTS], q[N_ELEMENTS], max[2], sum[2];
    sum[0] = c->reference->dot_f32(x, y, N_ELEMENTS);
    sum[1] = c->level->dot_f32(x, y, N_ELEMENTS);
    if (!same(&sum[0], &sum[1], 1)) return differ(c, "dot_f32", NULL);
    COMPARE(rms_norm, (x, y, N_ELEMENTS, 1e-5f, p), (x, y, N_ELEMENTS, 1e-5f, q));
    COMPARE(silu_mul, (x, y, N_ELEMENTS, p), (x, y, N_ELEMENTS, q));
    for (enum kernel_act a = KERNEL_SILU; a <= KERNEL_GELU; a++)
        COMPARE(act_mul, (a, 1.1f, x, y, N_ELEMENTS, p), (a, 1.1f, x, y, N_ELEMENTS, q));
    COMPARE(add, (p, y, N_ELEMENTS), (q, y, N_ELEMENTS));
    COMPARE(add_scaled, (p, y, 0.3f, N_ELEMENTS), (q, y, 0.3f, N_ELEMENTS));
    COMPARE(scale, (p, 0.3f, N_ELEMENTS), (q, 0.3f, N_ELEMENTS));
    COMPARE(softmax, (p, N_ELEMENTS), (q, N_ELEMENTS));
    COMPARE(attn_merge, (p, y, 0.3f, 0.7f, N_ELEMENTS), (q, y, 0.3f, 0.7f, N_ELEMENTS));
    memcpy(p, x, sizeof p);
    memcpy(q, x, sizeof q);
    for (int higher = 0; higher < 2; higher++) {
        max[0] = max[1] = 0.5f;
        sum[0] = sum[1] = 2.5f;
        c->reference->attn_join(p, &max[0], &sum[0], y, 0.25f + (float)higher, 1.5f, N_ELEMENTS);
        c->level->attn_join(q, &max[1], &sum[1], y, 0.25f + (float)higher, 1.5f, N_ELEMENTS);
        if (!same(&sum[0], &sum[1], 1) || !same(&max[0], &max[1], 1) || !same(p, q, N_ELEMENTS))
            return differ(c, "attn_join", NULL);
    }
    COMPARE(rope, (p, 2, 41, 38, y, y + 19, 0), (q, 2, 41, 38, y, y + 19, 0));
    COMPARE(rope, (p, 2, 41, 38, y, y + 19, 1), (q, 2, 41, 38, y, y + 19, 1));
    double freq[N_ELEMENTS / 2];
    for (size_t i = 0; i < N_ELEMENTS / 2; i++) freq[i] = (double)x[i];
    COMPARE(angles, (977, freq, N_ELEMENTS / 2, p, p + N_ELEMENTS / 2),
            (977, freq, N_ELEMENTS / 2, q, q + N_ELEMENTS / 2));
    memcpy(p, x, sizeof p);
    memcpy(q, x, sizeof q);
    sum[0] = c->reference->exp_sum(p, N_ELEMENTS, &max[0]);
    sum[1] = c->level->exp_sum(q, N_ELEMENTS, &max[1]);
    if (!same(&sum[0], &sum[1], 1) || !same(&max[0], &max[1], 1) || !same(p, q, N_ELEMENTS))
        return differ(c, "exp_sum", NULL);
    return check_exp_rows(c);
}

/* Several queries together, against one after the other. */
struct queries {
    struct quant_x x[QUERIES];
    float p[QUERIES][64], acc[QUERIES][D_HEAD], joined[QUERIES][D_HEAD], max[QUERIES], sum[QUERIES];
};

#define BLOCK_MAX(i) (0.25f * (float)(i)-2.0f) /* above and below what has been found so far, 0.5 */

static bool check_join(struct check *c, const struct quant_type *type, size_t stride, const struct queries *want,
                       size_t n)
{
    struct kernel_join join[QUERIES];
    float acc[QUERIES][D_HEAD], max[QUERIES], sum[QUERIES];
    if (!c->level->attn_values_join) return true;
    memcpy(acc, c->x, sizeof acc);
    for (size_t i = 0; i < n; i++) {
        max[i] = 0.5f;
        sum[i] = 2.5f;
        join[i] = (struct kernel_join){acc[i], &max[i], &sum[i], BLOCK_MAX(i), 1.5f, i % 5 == 1};
    }
    c->level->attn_values_join(type->id, want->p, n, c->w, stride, D_HEAD, POSITIONS, join);
    if (!same(acc[0], want->joined[0], n * D_HEAD) || !same(max, want->max, n) || !same(sum, want->sum, n))
        return differ(c, "attn_values_join", type->name);
    return true;
}

/* The positions are in w. */
static bool check_queries(struct check *c, const struct quant_type *type, size_t stride)
{
    static const size_t counts[] = {QUERIES, 13, 10, 3};
    struct queries want = {0};
    memcpy(want.joined, c->x, sizeof want.joined);
    for (size_t i = 0; i < QUERIES; i++) {
        const size_t at = i * D_HEAD;
        want.x[i] = (struct quant_x){.x = c->x + at,
                                     .q = c->q[QUANT_FORM_32] + at,
                                     .d = c->d[QUANT_FORM_32] + at / 32,
                                     .sums = c->sums[QUANT_FORM_32] + at / 16};
        c->reference->attn_scores(type->id, want.x[i].x, &want.x[i], c->w, stride, D_HEAD, POSITIONS, 0.1f, want.p[i]);
        c->reference->attn_values(type->id, want.p[i], c->w, stride, D_HEAD, POSITIONS, want.acc[i]);
        want.max[i] = i % 5 == 1 ? BLOCK_MAX(i) : 0.5f;
        want.sum[i] = i % 5 == 1 ? 1.5f : 2.5f;
        if (i % 5 == 1)
            memcpy(want.joined[i], want.acc[i], sizeof want.acc[i]);
        else
            c->reference->attn_join(want.joined[i], &want.max[i], &want.sum[i], want.acc[i], BLOCK_MAX(i), 1.5f,
                                    D_HEAD);
    }
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        const size_t n = counts[k];
        float p[QUERIES][64] = {{0}}, acc[QUERIES][D_HEAD] = {{0}}, *rows[QUERIES];
        for (size_t i = 0; i < n; i++) rows[i] = acc[i];
        if (c->level->attn_scores_many) {
            c->level->attn_scores_many(type->id, want.x, n, c->w, stride, D_HEAD, POSITIONS, 0.1f, p);
            if (!same(p[0], want.p[0], n * 64)) return differ(c, "attn_scores_many", type->name);
        }
        if (c->level->attn_values_many) {
            c->level->attn_values_many(type->id, want.p, n, c->w, stride, D_HEAD, POSITIONS, rows);
            if (!same(acc[0], want.acc[0], n * D_HEAD)) return differ(c, "attn_values_many", type->name);
        }
        if (!check_join(c, type, stride, &want, n)) return false;
    }
    return true;
}

static bool check_attention(struct check *c, const struct quant_type *type)
{
    size_t stride = quant_row_bytes(type, D_HEAD);
    uint8_t other[D_HEAD * sizeof(float)];
    float p[POSITIONS], q[POSITIONS], acc_p[D_HEAD] = {0}, acc_q[D_HEAD] = {0};
    for (size_t i = 0; i < POSITIONS; i++) {
        c->reference->store_kv(type->id, c->x + (i + 1) * D_HEAD, D_HEAD, c->w + i * stride);
        c->level->store_kv(type->id, c->x + (i + 1) * D_HEAD, D_HEAD, other);
        if (memcmp(other, c->w + i * stride, stride) != 0) return differ(c, "store_kv", type->name);
    }
    struct quant_x x = {.x = c->x, .q = c->q[QUANT_FORM_32], .d = c->d[QUANT_FORM_32], .sums = c->sums[QUANT_FORM_32]};
    c->reference->attn_scores(type->id, c->x, &x, c->w, stride, D_HEAD, POSITIONS, 0.1f, p);
    c->level->attn_scores(type->id, c->x, &x, c->w, stride, D_HEAD, POSITIONS, 0.1f, q);
    if (!same(p, q, POSITIONS)) return differ(c, "attn_scores", type->name);
    c->reference->attn_values(type->id, p, c->w, stride, D_HEAD, POSITIONS, acc_p);
    c->level->attn_values(type->id, p, c->w, stride, D_HEAD, POSITIONS, acc_q);
    if (!same(acc_p, acc_q, D_HEAD)) return differ(c, "attn_values", type->name);
    return check_queries(c, type, stride);
}

static bool check_all(struct check *c)
{
    random_floats(&c->seed, c->x, TOKENS * N);
    for (enum quant_form f = QUANT_FORM_32; f < QUANT_FORMS; f++)
        c->reference->quantize(f, c->x, TOKENS * N, c->q[f], c->d[f], c->sums[f]);
    if (!check_quantize(c) || !check_elementwise(c)) return false;
    if (!check_attention(c, quant_type(QUANT_F32)) || !check_attention(c, quant_type(QUANT_F16)) ||
        !check_attention(c, quant_type(QUANT_Q8_0)))
        return false;
    for (uint32_t id = 0; id < QUANT_IDS; id++)
        if (quant_type(id) && !check_product(c, quant_type(id))) return false;
    return true;
}

bool kernel_check(const struct kernel_table *t, struct kernel_fault *fault)
{
    *fault = (struct kernel_fault){0};
    struct check *c = calloc(1, sizeof *c);
    if (!c) return true; /* nothing is known against the level; whoever asked will notice the lack of memory */
    c->reference = &kernel_table_scalar;
    c->level = t;
    c->fault = fault;
    bool good = check_all(c);
    free(c);
    return good;
}
