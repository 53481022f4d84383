#include "peak.h"

#include "os/os.h"

#include <immintrin.h>
#include <string.h>

#define ROUNDS 500000
#define CHAINS 12 /* more than latency times throughput of either instruction */

static double now(void) { return (double)os_system()->now_ns(os_system()->user) * 1e-9; }

__attribute__((target("avx2"))) static double bytes_avx2(void)
{
    __m256i sum[CHAINS], w = _mm256_set1_epi8(1), x = _mm256_set1_epi8(2);
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_setzero_si256();
    double t = now();
    for (int r = 0; r < ROUNDS; r++) {
        __asm__ volatile("" : "+x"(w), "+x"(x)); /* or one product would do for all rounds */
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            __m256i p;
            __asm__("vpmaddubsw %2, %1, %0" : "=x"(p) : "x"(w), "x"(x));
            sum[i] = _mm256_add_epi16(sum[i], p);
            __asm__ volatile("" : "+x"(sum[i]));
        }
    }
    return 32.0 * CHAINS * ROUNDS / (now() - t);
}

__attribute__((target("avx2,fma"))) static double floats_avx2(void)
{
    __m256 sum[CHAINS], w = _mm256_set1_ps(1.0f), x = _mm256_set1_ps(2.0f);
    for (int i = 0; i < CHAINS; i++) sum[i] = _mm256_setzero_ps();
    double t = now();
    for (int r = 0; r < ROUNDS; r++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) {
            sum[i] = _mm256_fmadd_ps(w, x, sum[i]);
            __asm__ volatile("" : "+x"(sum[i]));
        }
    }
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
