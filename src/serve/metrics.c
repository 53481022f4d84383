#include "serve/metrics.h"

/* Seconds. */
static const double bounds[METRICS_BUCKETS] = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

void metrics_observe(struct metrics_histogram *h, uint64_t ns)
{
    const double seconds = (double)ns / 1e9;
    int i = 0;
    while (i < METRICS_BUCKETS && seconds > bounds[i]) i++;
    atomic_fetch_add(&h->count[i], 1);
    atomic_fetch_add(&h->sum_us, ns / 1000);
}

void metrics_write(struct buffer *out, const char *name, const char *type, const char *help, double value)
{
    buffer_format(out, "# HELP sluice_%s %s\n# TYPE sluice_%s %s\nsluice_%s %.17g\n", name, help, name, type, name,
                  value);
}

void metrics_write_histogram(struct buffer *out, const char *name, const char *help, struct metrics_histogram *h)
{
    unsigned long long n = 0;
    buffer_format(out, "# HELP sluice_%s %s\n# TYPE sluice_%s histogram\n", name, help, name);
    for (int i = 0; i < METRICS_BUCKETS; i++) {
        n += atomic_load(&h->count[i]);
        buffer_format(out, "sluice_%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], n);
    }
    n += atomic_load(&h->count[METRICS_BUCKETS]);
    buffer_format(out, "sluice_%s_bucket{le=\"+Inf\"} %llu\nsluice_%s_sum %.6f\nsluice_%s_count %llu\n", name, n, name,
                  (double)atomic_load(&h->sum_us) / 1e6, name, n);
}
