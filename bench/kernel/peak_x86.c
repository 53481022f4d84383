#include "peak.h"

#include "os/os.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define ROUNDS 500000
/* Sums that do not wait for each other: more than latency times throughput of either instruction. Named one by one, for
 * an array would stay in memory. */
#define CHAINS 12
#define EACH(x) x(0) x(1) x(2) x(3) x(4) x(5) x(6) x(7) x(8) x(9) x(10) x(11)

static double now(void) { return (double)os_system()->now_ns(os_system()->user) * 1e-9; }

__attribute__((target("avx2"))) static double bytes_avx2(void)
{
    __m256i w = _mm256_set1_epi8(1), x = _mm256_set1_epi8(2);
#define BEGIN(i) __m256i sum##i = _mm256_setzero_si256();
#define STEP(i)                                                           \
    __asm__ volatile("vpmaddubsw %2, %1, %0" : "=x"(p) : "x"(w), "x"(x)); \
    sum##i = _mm256_add_epi16(sum##i, p);                                 \
    __asm__ volatile("" : "+x"(sum##i));
    EACH(BEGIN)
    double t = now();
    for (int r = 0; r < ROUNDS; r++) {
        __m256i p;
        EACH(STEP)
    }
#undef BEGIN
#undef STEP
    return 32.0 * CHAINS * ROUNDS / (now() - t);
}

#define FUSED_STEP(fused, i)      \
    sum##i = fused(sum##i, w, x); \
    __asm__ volatile("" : "+v"(sum##i));

/* A loop of one instruction that multiplies `lanes` pairs and adds them to a sum. BEGIN and STEP are its chains'. */
#define FUSED_LOOP(name, isa, vector, w_is, x_is, lanes)      \
    __attribute__((target(isa))) static double name(void)     \
    {                                                         \
        vector w = w_is, x = x_is;                            \
        EACH(BEGIN)                                           \
        double t = now();                                     \
        for (int r = 0; r < ROUNDS; r++) {                    \
            __asm__ volatile("" : "+v"(w), "+v"(x));          \
            EACH(STEP)                                        \
        }                                                     \
        return (double)(lanes)*CHAINS * ROUNDS / (now() - t); \
    }

#define BEGIN(i) __m256 sum##i = _mm256_setzero_ps();
#define FUSED(sum, w, x) _mm256_fmadd_ps(w, x, sum)
#define STEP(i) FUSED_STEP(FUSED, i)
FUSED_LOOP(floats_avx2, "avx2,fma", __m256, _mm256_set1_ps(1.0f), _mm256_set1_ps(2.0f), 8)
#undef BEGIN
#undef FUSED

#define BEGIN(i) __m512 sum##i = _mm512_setzero_ps();
#define FUSED(sum, w, x) _mm512_fmadd_ps(w, x, sum)
FUSED_LOOP(floats_avx512, "avx512f", __m512, _mm512_set1_ps(1.0f), _mm512_set1_ps(2.0f), 16)
#undef BEGIN
#undef FUSED

#define BEGIN(i) __m512i sum##i = _mm512_setzero_si512();
#define FUSED(sum, w, x) _mm512_dpbusd_epi32(sum, w, x)
FUSED_LOOP(bytes_avx512, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8(1), _mm512_set1_epi8(2), 64)
#undef BEGIN
#undef FUSED
#undef STEP

/* Whole tiles of int8, with two of weights and two of tokens in turn, as the products use them. */
__attribute__((target("amx-tile,amx-int8"))) static double bytes_amx(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.rows[i] = 16;
        c.row_bytes[i] = 64;
    }
    __asm__ volatile("" : : "r"(&c) : "memory"); /* gcc 12 does not know that the instruction reads it */
    _tile_loadconfig(&c);
    double t = now();
    for (int r = 0; r < ROUNDS / 10; r++) {
        _tile_dpbusd(4, 0, 2);
        _tile_dpbusd(5, 1, 2);
        _tile_dpbusd(6, 0, 3);
        _tile_dpbusd(7, 1, 3);
    }
    t = now() - t;
    _tile_release();
    return 4.0 * 16 * 16 * 64 * (ROUNDS / 10) / t;
}

static double best(double (*loop)(void))
{
    double most = 0;
    for (int i = 0; i < 5; i++) {
        double rate = loop();
        if (rate > most) most = rate;
    }
    return most;
}

double bench_peak_bytes(const char *level)
{
    if (strcmp(level, "avx2") == 0) return best(bytes_avx2);
    if (strcmp(level, "avx512") == 0) return best(bytes_avx512);
    return strcmp(level, "amx") == 0 ? best(bytes_amx) : 0;
}

double bench_peak_floats(const char *level)
{
    if (strcmp(level, "avx2") == 0) return best(floats_avx2);
    return strcmp(level, "avx512") == 0 || strcmp(level, "amx") == 0 ? best(floats_avx512) : 0;
}
