/* For processors whose peak nobody has written a loop for. */
#include "peak.h"

double bench_peak_bytes(const char *level)
{
    (void)level;
    return 0;
}

double bench_peak_floats(const char *level)
{
    (void)level;
    return 0;
}
