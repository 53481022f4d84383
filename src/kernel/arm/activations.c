/* The contract's quantisation of activations (quant/README.md). */
#include "kernel/arm/arm.h"

#include "base/assert.h"

#include <math.h>

ARM_INLINE float largest(const float *x, size_t len)
{
    /* magnitudes as bits: a NaN or an infinity is the largest of all */
    uint32x4_t top = vdupq_n_u32(0);
    for (size_t i = 0; i < len; i += 4)
        top = vmaxq_u32(top, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), vdupq_n_u32(0x7fffffff)));
    const uint32_t bits = vmaxvq_u32(top);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* 16 values to bytes and their sum. The conversion rounds half to even, as the contract's addition does. */
ARM_INLINE void quantize_16(const float *x, float inverse, int8_t *q, int16_t *sum)
{
    int32x4_t v[4];
    for (int i = 0; i < 4; i++) v[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse));
    const int16x8_t low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1])),
                    high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    *sum = vaddvq_s16(vaddq_s16(low, high));
}

void kernel_neon_quantize(enum quant_form form, const float *x, size_t n, int8_t *q, float *d, int16_t *sums)
{
    if (form == QUANT_FORM_FLOAT) return;
    const size_t len = quant_form_len(form);
    BASE_ASSERT(n % len == 0, "K2 a form needs rows that are multiples of its block");
    for (size_t b = 0; b < n / len; b++, x += len, q += len, sums += len / 16) {
        const float top = largest(x, len), inverse = 127.0f / top;
        const bool finite = top <= 0x1.fffffep+127f;
        if (!finite || isinf(inverse)) {
            const uint32_t nan_bits = 0x7fc00000;
            d[b] = 0.0f;
            if (!finite) memcpy(&d[b], &nan_bits, sizeof nan_bits);
            memset(q, 0, len);
            memset(sums, 0, len / 16 * sizeof *sums);
            continue;
        }
        d[b] = top / 127.0f;
        for (size_t i = 0; i < len; i += 16) quantize_16(x + i, inverse, q + i, sums + i / 16);
    }
}
