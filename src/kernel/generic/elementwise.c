/* Elementwise kernels, written once and compiled once an instruction set (KERNEL_LEVEL names it). Every operation is an
 * IEEE operation on floats (for angles, doubles) or a fused one, in an order that the source fixes, and nothing may be
 * contracted, so all copies give the same bits however the compiler vectorises them. Sums have 16 lanes for that
 * reason. */
#include "base/math_turn.h"
#include "kernel/tables.h"

#include <math.h>
#include <string.h>

#define PASTE(a, b) a##_##b
#define PASTE_EXPANDED(a, b) PASTE(a, b)
#define NAME(function) PASTE_EXPANDED(function, KERNEL_LEVEL)

#define LANES 16

/* Lane i with i + 8, then + 4, + 2, + 1. */
static inline float sum_lanes(const float lane[LANES])
{
    float t[8];
    for (int i = 0; i < 8; i++) t[i] = lane[i] + lane[i + 8];
    for (int i = 0; i < 4; i++) t[i] = t[i] + t[i + 4];
    return (t[0] + t[2]) + (t[1] + t[3]);
}

/* math_exp, its steps one by one (base/math.c), so that a loop over it vectorises. */
static inline float exp_lane(float x)
{
    x = 89.0f < x ? 89.0f : x;
    x = -104.5f > x ? -104.5f : x;
    const float magic = 0x1.8p+23f;
    float t = fmaf(x, 0x1.715476p+0f, magic);
    float n = t - magic;
    uint32_t k, magic_bits;
    memcpy(&k, &t, sizeof k);
    memcpy(&magic_bits, &magic, sizeof magic_bits);
    k -= magic_bits;
    float r = fmaf(n, -0x1.62e4p-1f, x);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float q = 0x1.6a2434p-10f;
    q = fmaf(q, r, 0x1.1239e2p-7f);
    q = fmaf(q, r, 0x1.5558f2p-5f);
    q = fmaf(q, r, 0x1.555492p-3f);
    q = fmaf(q, r, 0x1.fffffcp-2f);
    float s = r * r;
    float p = fmaf(q, s, r);
    float y = 1.0f + p;
    uint32_t k1 = ((k + 256u) >> 1) - 128u;
    uint32_t a_bits = (k1 + 127u) << 23, b_bits = (k - k1 + 127u) << 23;
    float a, b;
    memcpy(&a, &a_bits, sizeof a);
    memcpy(&b, &b_bits, sizeof b);
    return y * a * b;
}

float NAME(kernel_dot_f32)(const float *a, const float *b, size_t n)
{
    float lane[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = fmaf(a[i + l], b[i + l], lane[l]);
    for (size_t l = 0; i + l < n; l++) lane[l] = fmaf(a[i + l], b[i + l], lane[l]);
    return sum_lanes(lane);
}

void NAME(kernel_rms_norm)(const float *x, const float *w, size_t n, float eps, float *out)
{
    float mean = NAME(kernel_dot_f32)(x, x, n) / (float)n;
    float r = 1.0f / sqrtf(mean + eps);
    if (w)
        for (size_t i = 0; i < n; i++) out[i] = x[i] * r * w[i];
    else
        for (size_t i = 0; i < n; i++) out[i] = x[i] * r;
}

void NAME(kernel_silu_mul)(const float *gate, const float *up, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = gate[i] / (1.0f + exp_lane(-gate[i])) * up[i];
}

static inline float clamp_lane(float x, float limit)
{
    x = x > limit ? limit : x;
    return x < -limit ? -limit : x;
}

void NAME(kernel_act_mul)(enum kernel_act act, float limit, const float *gate, const float *up, size_t n, float *out)
{
    switch (act) {
    case KERNEL_SILU: NAME(kernel_silu_mul)(gate, up, n, out); return;
    case KERNEL_SILU_LIMIT:
        for (size_t i = 0; i < n; i++) {
            float g = gate[i] > limit ? limit : gate[i];
            out[i] = g / (1.0f + exp_lane(-g)) * clamp_lane(up[i], limit);
        }
        return;
    case KERNEL_SILU_OAI:
        for (size_t i = 0; i < n; i++) {
            float g = gate[i] > limit ? limit : gate[i];
            out[i] = g / (1.0f + exp_lane(-1.702f * g)) * (clamp_lane(up[i], limit) + 1.0f);
        }
        return;
    case KERNEL_GELU:
        for (size_t i = 0; i < n; i++) {
            float g = gate[i];
            float inner = g * fmaf(0.044715f * g, g, 1.0f);
            out[i] = g / (1.0f + exp_lane(-1.5957691216f * inner)) * up[i]; /* 2 sqrt(2 / pi) */
        }
        return;
    }
}

void NAME(kernel_add)(float *acc, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) acc[i] += x[i];
}

void NAME(kernel_add_scaled)(float *acc, const float *x, float s, size_t n)
{
    for (size_t i = 0; i < n; i++) acc[i] = fmaf(x[i], s, acc[i]);
}

void NAME(kernel_scale)(float *x, float s, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] *= s;
}

/* A NaN is never the maximum; it reaches the sum through its own exp. */
static inline float max_of(const float *x, size_t n)
{
    float lane[LANES];
    for (int l = 0; l < LANES; l++) lane[l] = -INFINITY;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    for (size_t l = 0; i + l < n; l++) lane[l] = x[i + l] > lane[l] ? x[i + l] : lane[l];
    float max = lane[0];
    for (int l = 1; l < LANES; l++) max = lane[l] > max ? lane[l] : max;
    return max + 0.0f; /* never -0, in whatever order the lanes are compared */
}

float NAME(kernel_exp_sum)(float *x, size_t n, float *max)
{
    float m = *max = max_of(x, n);
    float lane[LANES] = {0};
    for (size_t i = 0; i < n; i++) x[i] = exp_lane(x[i] - m);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += x[i + l];
    for (size_t l = 0; i + l < n; l++) lane[l] += x[i + l];
    return sum_lanes(lane);
}

void NAME(kernel_softmax)(float *x, size_t n)
{
    float max, sum = NAME(kernel_exp_sum)(x, n, &max);
    for (size_t i = 0; i < n; i++) x[i] /= sum;
}

void NAME(kernel_rope)(float *x, size_t n_heads, size_t d_head, size_t n_rot, const float *cos, const float *sin,
                       int neox)
{
    size_t half = n_rot / 2;
    for (size_t h = 0; h < n_heads; h++, x += d_head) {
        if (neox) {
            for (size_t i = 0; i < half; i++) {
                float a = x[i], b = x[i + half];
                x[i] = fmaf(a, cos[i], -(b * sin[i]));
                x[i + half] = fmaf(a, sin[i], b * cos[i]);
            }
        } else {
            for (size_t i = 0; i < half; i++) {
                float a = x[2 * i], b = x[2 * i + 1];
                x[2 * i] = fmaf(a, cos[i], -(b * sin[i]));
                x[2 * i + 1] = fmaf(a, sin[i], b * cos[i]);
            }
        }
    }
}

/* Of which one: mask has either all bits or none. */
static inline double select_lane(uint64_t mask, double yes, double no)
{
    uint64_t a, b;
    memcpy(&a, &yes, sizeof a);
    memcpy(&b, &no, sizeof b);
    a = (a & mask) | (b & ~mask);
    memcpy(&yes, &a, sizeof yes);
    return yes;
}

static inline double negate_lane(uint64_t sign, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= sign;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* math_cos_d and math_sin_d without their branches, so that the loop vectorises. */
void NAME(kernel_angles)(double pos, const double *freq, size_t n, float *cos, float *sin)
{
    for (size_t i = 0; i < n; i++) {
        const double x = pos * freq[i], known = fabs(x) <= MATH_ANGLE_MAX ? 0.0 : (double)NAN;
        uint64_t quadrant;
        const struct math_pair r = math_reduce_angle(x, &quadrant);
        const double s = math_sin_series(r), c = math_cos_series(r);
        const uint64_t turned = 0 - (quadrant & 1);
        cos[i] = (float)(negate_lane((quadrant + 1) << 62 & UINT64_C(1) << 63, select_lane(turned, s, c)) + known);
        sin[i] = (float)(negate_lane(quadrant << 62 & UINT64_C(1) << 63, select_lane(turned, c, s)) + known);
    }
}

void NAME(kernel_attn_merge)(float *acc, const float *block, float a, float b, size_t n)
{
    for (size_t i = 0; i < n; i++) acc[i] = fmaf(block[i], b, acc[i] * a);
}

void NAME(kernel_attn_join)(float *acc, float *max, float *sum, const float *block, float block_max, float block_sum,
                            size_t n)
{
    const float both = block_max > *max ? block_max : *max;
    const float old_part = exp_lane(*max - both), new_part = exp_lane(block_max - both);
    *sum = fmaf(block_sum, new_part, *sum * old_part);
    NAME(kernel_attn_merge)(acc, block, old_part, new_part, n);
    *max = both;
}
