/* What the arithmetic of a level could do at most: multiply-adds a second of one thread on registers alone. */
#ifndef BENCH_KERNEL_PEAK_H
#define BENCH_KERNEL_PEAK_H

/* Of bytes (AVX2: into 16 bits; AVX-512: dpbusd; AMX: whole tiles), and of floats; each runs for some milliseconds. 0
 * for levels that have no such loop. */
double bench_peak_bytes(const char *level);
double bench_peak_floats(const char *level);

#endif
