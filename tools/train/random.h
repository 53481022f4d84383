/* A small random generator (xorshift64), so that a run can be repeated exactly. */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H

#include <math.h>
#include <stdint.h>

struct random {
    uint64_t state; /* never 0 */
};

#define RANDOM_SEED UINT64_C(88172645463325252)

static inline uint64_t random_next(struct random *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state;
}

/* In [0, 1). */
static inline float random_uniform(struct random *r) { return (float)(random_next(r) >> 40) / 16777216.0f; }

/* Normal, mean 0, deviation 1 (Box-Muller). */
static inline float random_gauss(struct random *r)
{
    float u = random_uniform(r) + 1e-7f, v = random_uniform(r);
    return sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
}

#endif
