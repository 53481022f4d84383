#include "peak.h"

#include "os/os.h"

#include <immintrin.h>
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

__attribute__((target("avx2,fma"))) static double floats_avx2(void)
{
    __m256 w = _mm256_set1_ps(1.0f), x = _mm256_set1_ps(2.0f);
#define BEGIN(i) __m256 sum##i = _mm256_setzero_ps();
#define STEP(i)                             \
    sum##i = _mm256_fmadd_ps(w, x, sum##i); \
    __asm__ volatile("" : "+x"(sum##i));
    EACH(BEGIN)
    double t = now();
    for (int r = 0; r < ROUNDS; r++) {
        __asm__ volatile("" : "+x"(w), "+x"(x));
        EACH(STEP)
    }
#undef BEGIN
#undef STEP
    return 8.0 * CHAINS * ROUNDS / (now() - t);
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

double bench_peak_bytes(const char *level) { return strcmp(level, "avx2") == 0 ? best(bytes_avx2) : 0; }
double bench_peak_floats(const char *level) { return strcmp(level, "avx2") == 0 ? best(floats_avx2) : 0; }
