/* What the products of the IQ2 and IQ3 formats share: bits of sign and scales. */
#ifndef KERNEL_X86_IQ_H
#define KERNEL_X86_IQ_H

#include "kernel/x86/block256.h"
#include "quant/iq_tables.h"

/* Bytes of seven sign bits: the eighth makes the number of set bits even. */
AVX2_INLINE __m256i eighth_signs(__m256i seven)
{
    const __m256i odd = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128,
                                                                  0, -128, -128, 0)); /* top bit: of an odd nibble */
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256i low = _mm256_shuffle_epi8(odd, _mm256_and_si256(seven, nibble));
    __m256i high = _mm256_shuffle_epi8(odd, _mm256_and_si256(_mm256_srli_epi16(seven, 4), nibble));
    return _mm256_or_si256(seven, _mm256_xor_si256(low, high));
}

/* Eight words of four times seven sign bits (the top four bits are a scale). */
AVX2_INLINE __m256i signs_of_words(__m256i w)
{
    __m256i a = _mm256_and_si256(w, _mm256_set1_epi32(0x7f));
    __m256i b = _mm256_and_si256(_mm256_slli_epi32(w, 1), _mm256_set1_epi32(0x7f00));
    __m256i c = _mm256_and_si256(_mm256_slli_epi32(w, 2), _mm256_set1_epi32(0x7f0000));
    __m256i d = _mm256_and_si256(_mm256_slli_epi32(w, 3), _mm256_set1_epi32(0x7f000000));
    return eighth_signs(_mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d)));
}

/* 2 s + 1 for the scales s in the top four bits of eight words; each is wanted twice. */
AVX2_INLINE __m128i scales_of_words(__m256i w)
{
    __m256i s = _mm256_srli_epi32(w, 28);
    s = _mm256_add_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
    s = _mm256_or_si256(s, _mm256_slli_epi32(s, 8));
    return _mm_packus_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
}

/* 2 s + 1 for the nibbles s of the lower eight bytes, low ones first. */
AVX2_INLINE __m128i scales_of_nibbles(__m128i bytes)
{
    __m128i v = _mm_unpacklo_epi8(bytes, _mm_srli_epi16(bytes, 4));
    v = _mm_and_si128(v, _mm_set1_epi8(15));
    return _mm_add_epi8(_mm_add_epi8(v, v), _mm_set1_epi8(1));
}

AVX2_INLINE void store(void *to, __m256i v) { _mm256_store_si256((__m256i *)to, v); }

/* 16 bytes as words. */
AVX2_INLINE __m256i load_words(const uint8_t *p) { return _mm256_cvtepu8_epi16(avx2_load_half(p)); }

AVX2_INLINE __m128i load_low_8(const uint8_t *p) { return _mm_loadl_epi64((const __m128i *)(const void *)p); }

AVX2_INLINE uint64_t load_u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
