/* Sampling. One pass copies the logits into candidates, the filters shrink the front part of that array, one draw ends
 * it.
 *
 * Nothing sorts the whole vocabulary. Top-k keeps a heap of k candidates whose root is the worst one; top-p without
 * top-k makes a heap of all of them whose root is the best one and takes out as many as the mass needs. Both heaps
 * order by (value, id), a total order, so the result does not depend on the algorithm.
 *
 * Sums are doubles added in a fixed order; exp is math_exp. Random numbers: xoshiro256** seeded by splitmix64
 * (Blackman and Vigna, public domain, https://prng.di.unimi.it). */
#include "sample/sample.h"

#include "base/math.h"

#include <math.h>
#include <stdbool.h>

struct candidate {
    float value; /* the logit; after soften() its weight in [0, 1], 1 for the best */
    uint32_t id;
};

enum sluice_status sample_check(const struct sample_params *p, struct sluice_error *err)
{
    if (!(p->temperature >= 0.0f && isfinite(p->temperature)))
        return base_fail(err, SLUICE_ERR_USAGE, "0 takes the most likely token; usual values are 0.2 to 1.5",
                         "temperature is %g; it must be a number of at least 0", (double)p->temperature);
    if (!(p->top_p >= 0.0f && p->top_p <= 1.0f))
        return base_fail(err, SLUICE_ERR_USAGE, "1 turns it off", "top_p is %g; it must be from 0 to 1",
                         (double)p->top_p);
    if (!(p->min_p >= 0.0f && p->min_p <= 1.0f))
        return base_fail(err, SLUICE_ERR_USAGE, "0 turns it off", "min_p is %g; it must be from 0 to 1",
                         (double)p->min_p);
    if (!(p->repeat_penalty > 0.0f && isfinite(p->repeat_penalty)))
        return base_fail(err, SLUICE_ERR_USAGE, "1 turns it off; usual values are 1.0 to 1.3",
                         "repeat_penalty is %g; it must be a number above 0", (double)p->repeat_penalty);
    if (!(p->presence_penalty >= -2.0f && p->presence_penalty <= 2.0f))
        return base_fail(err, SLUICE_ERR_USAGE, "0 turns it off", "presence_penalty is %g; it must be from -2 to 2",
                         (double)p->presence_penalty);
    if (!(p->frequency_penalty >= -2.0f && p->frequency_penalty <= 2.0f))
        return base_fail(err, SLUICE_ERR_USAGE, "0 turns it off", "frequency_penalty is %g; it must be from -2 to 2",
                         (double)p->frequency_penalty);
    for (size_t i = 0; i < p->n_bias; i++)
        if (!(p->bias[i].by >= -100.0f && p->bias[i].by <= 100.0f))
            return base_fail(err, SLUICE_ERR_USAGE, "-100 all but forbids a token, 100 all but forces it",
                             "the logit bias of token %d is %g; it must be from -100 to 100", (int)p->bias[i].id,
                             (double)p->bias[i].by);
    return SLUICE_OK;
}

void sample_init(struct sample_state *s, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        s->random[i] = z ^ (z >> 31);
    }
}

static uint64_t rotate_left(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t random_u64(struct sample_state *s)
{
    uint64_t *r = s->random;
    uint64_t result = rotate_left(r[1] * 5, 7) * 9;
    uint64_t t = r[1] << 17;
    r[2] ^= r[0];
    r[3] ^= r[1];
    r[1] ^= r[2];
    r[0] ^= r[3];
    r[2] ^= t;
    r[3] = rotate_left(r[3], 45);
    return result;
}

/* Uniform in [0, 1), all 53 bits of a double. */
static double random_unit(struct sample_state *s) { return (double)(random_u64(s) >> 11) * 0x1p-53; }

size_t sample_scratch_bytes(size_t n_vocab) { return n_vocab * sizeof(struct candidate); }

static bool better(const struct candidate *a, const struct candidate *b)
{
    return a->value > b->value || (a->value == b->value && a->id < b->id);
}

static bool worse(const struct candidate *a, const struct candidate *b) { return better(b, a); }

/* Restores the heap below `at`; `above(a, b)`: a belongs nearer to the root than b. */
static void sink(struct candidate *c, size_t n, size_t at,
                 bool (*above)(const struct candidate *, const struct candidate *))
{
    struct candidate moving = c[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && above(&c[child + 1], &c[child])) child++;
        if (!above(&c[child], &moving)) break;
        c[at] = c[child];
        at = child;
    }
    c[at] = moving;
}

static void make_heap(struct candidate *c, size_t n, bool (*above)(const struct candidate *, const struct candidate *))
{
    for (size_t i = n / 2; i-- > 0;) sink(c, n, i, above);
}

/* Leaves the k best at the front, best first. O(n log k). k < n. */
static void keep_best(struct candidate *c, size_t n, size_t k)
{
    make_heap(c, k, worse);
    for (size_t i = k; i < n; i++) {
        if (!better(&c[i], &c[0])) continue;
        c[0] = c[i];
        sink(c, k, 0, worse);
    }
    for (size_t left = k; left > 1; left--) { /* the worst goes to the back */
        struct candidate last = c[left - 1];
        c[left - 1] = c[0];
        c[0] = last;
        sink(c, left - 1, 0, worse);
    }
}

static size_t index_of_best(const struct candidate *c, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (better(&c[i], &c[best])) best = i;
    return best;
}

/* A mark in a candidate's id while penalties are applied: the token was seen. */
#define SEEN UINT32_C(0x80000000)

/* The candidate of a token that was seen, or NULL: none of the vocabulary. */
static struct candidate *candidate_of(struct candidate *c, size_t n_vocab, int32_t id)
{
    return id < 0 || (size_t)id >= n_vocab ? NULL : &c[id];
}

static void forget_seen(struct candidate *c, size_t n_vocab, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct candidate *seen = candidate_of(c, n_vocab, ids[i]);
        if (seen) seen->id &= ~SEEN;
    }
}

/* A token that occurs several times is penalised once. */
static void penalise_repeats(struct candidate *c, size_t n_vocab, float penalty, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct candidate *seen = candidate_of(c, n_vocab, ids[i]);
        if (!seen || seen->id & SEEN) continue;
        seen->value = seen->value > 0.0f ? seen->value / penalty : seen->value * penalty;
        seen->id |= SEEN;
    }
    forget_seen(c, n_vocab, ids, n);
}

/* logit - count * frequency - (count > 0) * presence, as OpenAI's API documents its two penalties. */
static void penalise_answer(const struct sample_params *p, struct candidate *c, size_t n_vocab, const int32_t *ids,
                            size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct candidate *seen = candidate_of(c, n_vocab, ids[i]);
        if (!seen) continue;
        seen->value -= p->frequency_penalty;
        if (!(seen->id & SEEN)) seen->value -= p->presence_penalty;
        seen->id |= SEEN;
    }
    forget_seen(c, n_vocab, ids, n);
}

static void adjust(const struct sample_params *p, struct candidate *c, size_t n_vocab, const int32_t *history,
                   size_t n_history, size_t answer)
{
    for (size_t i = 0; i < p->n_bias; i++) {
        struct candidate *biased = candidate_of(c, n_vocab, p->bias[i].id);
        if (biased) biased->value += p->bias[i].by;
    }
    if (p->repeat_penalty != 1.0f) {
        const size_t n = n_history < p->repeat_last ? n_history : p->repeat_last;
        if (n) penalise_repeats(c, n_vocab, p->repeat_penalty, history + (n_history - n), n);
    }
    if ((p->presence_penalty != 0.0f || p->frequency_penalty != 0.0f) && answer < n_history)
        penalise_answer(p, c, n_vocab, history + answer, n_history - answer);
}

/* Logits to weights relative to the best one; returns their sum. */
static double soften(struct candidate *c, size_t n, float best, float temperature)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        c[i].value = math_exp((c[i].value - best) / temperature);
        sum += (double)c[i].value;
    }
    return sum;
}

/* Reduces c[0, n) to the smallest set of the best candidates that holds top_p of the mass `sum`, best first, at the
 * front. `sorted`: c is best first already. Returns its size. */
static size_t keep_mass(struct candidate *c, size_t n, bool sorted, double sum, float top_p)
{
    double wanted = sum * (double)top_p, mass = 0.0;
    if (sorted) {
        for (size_t i = 0; i < n; i++) {
            mass += (double)c[i].value;
            if (mass >= wanted) return i + 1;
        }
        return n;
    }
    make_heap(c, n, better);
    size_t left = n;
    while (left > 0) { /* the best moves to c[left - 1]; the taken ones lie behind the heap, best last */
        struct candidate best = c[0];
        c[0] = c[left - 1];
        c[left - 1] = best;
        left--;
        if (left > 1) sink(c, left, 0, better);
        mass += (double)best.value;
        if (mass >= wanted) break;
    }
    size_t kept = n - left;
    for (size_t i = 0, j = n - 1; i < j; i++, j--) { /* reversing brings the taken ones to the front, best first */
        struct candidate t = c[i];
        c[i] = c[j];
        c[j] = t;
    }
    return kept;
}

/* Drops candidates whose weight is below min_p of the best (1), keeping the order. */
static size_t keep_likely(struct candidate *c, size_t n, float min_p)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].value >= min_p) c[kept++] = c[i];
    return kept;
}

static uint32_t draw(struct sample_state *s, const struct candidate *c, size_t n)
{
    double sum = 0.0, passed = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)c[i].value;
    double at = random_unit(s) * sum;
    size_t last = 0; /* rounding can leave `at` at the very end: then the last one that can be drawn */
    for (size_t i = 0; i < n; i++) {
        if (!(c[i].value > 0.0f)) continue;
        last = i;
        passed += (double)c[i].value;
        if (at < passed) break;
    }
    return c[last].id;
}

/* Leaves the candidates that the mask names, in order. */
static size_t keep_allowed(struct candidate *c, size_t n, const uint64_t *mask)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (mask[i / 64] >> i % 64 & 1) c[kept++] = c[i];
    return kept;
}

uint32_t sample_token_of(const struct sample_params *p, struct sample_state *s, const float *logits, size_t n_vocab,
                         const uint64_t *mask, const int32_t *history, size_t n_history, size_t answer, void *scratch)
{
    struct candidate *c = scratch;
    size_t n = n_vocab;
    if (n == 0) return 0;
    for (size_t i = 0; i < n; i++)
        c[i] = (struct candidate){.value = isnan(logits[i]) ? -INFINITY : logits[i], .id = (uint32_t)i};
    adjust(p, c, n_vocab, history, n_history, answer);
    if (mask) n = keep_allowed(c, n, mask);
    if (n == 0) return 0;

    size_t best_at = index_of_best(c, n);
    float best = c[best_at].value;
    if (p->temperature == 0.0f || !isfinite(best)) return c[best_at].id;

    bool sorted = p->top_k > 0 && p->top_k < n;
    if (sorted) {
        keep_best(c, n, p->top_k);
        n = p->top_k;
    }
    double sum = soften(c, n, best, p->temperature);
    if (p->top_p < 1.0f) n = keep_mass(c, n, sorted, sum, p->top_p);
    if (p->min_p > 0.0f) n = keep_likely(c, n, p->min_p);
    return draw(s, c, n);
}

uint32_t sample_token(const struct sample_params *p, struct sample_state *s, const float *logits, size_t n_vocab,
                      const int32_t *history, size_t n_history, size_t answer, void *scratch)
{
    return sample_token_of(p, s, logits, n_vocab, NULL, history, n_history, answer, scratch);
}
