/* Counters and histograms of the server itself; what the engine counts is in the scheduler's snapshot. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "serve/buffer.h"

#include <stdatomic.h>
#include <stdint.h>

#define METRICS_BUCKETS 14

struct metrics_histogram {
    atomic_ullong count[METRICS_BUCKETS + 1];
    atomic_ullong sum_us;
};

struct metrics {
    atomic_ullong requests, refused, overloaded, unauthorized; /* HTTP requests; 4xx; 429; 401 and 403 */
    atomic_ullong jobs_started, jobs_finished, jobs_cancelled, jobs_failed;
    atomic_ullong prompt_tokens, prompt_tokens_reused, generated_tokens;
    atomic_ullong steps, step_sequences; /* decode steps; sequences in them */
    atomic_ullong chunks;                /* of prompts */
    atomic_ullong connections;           /* open now */
    atomic_ullong timed_out, displaced;  /* connections: see link.h */
    struct metrics_histogram first_token, queue, duration;
};

void metrics_observe(struct metrics_histogram *h, uint64_t ns);
void metrics_write_histogram(struct buffer *out, const char *name, const char *help, struct metrics_histogram *h);
void metrics_write(struct buffer *out, const char *name, const char *type, const char *help, double value);

#endif
