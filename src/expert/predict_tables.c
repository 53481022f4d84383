/* The learned tables.
 *
 * Two tables count pairs: `across`, from an expert of a layer to those that the same token chose in the next layer with
 * experts; `along`, from an expert to those that the next token chose in the same layer. A row has the number of its
 * uses n beside its counts c; when n reaches ROW_USES_MAX the row is halved, so that it follows the text and a count
 * fits in a byte. `popular` has the decayed share b of tokens that choose an expert: what is known without a table.
 *
 * From a choice S of the one layer, expert e' of the other is rated by
 *
 *     transitions: the odds of b, times for each e in S the factor odds(P(e'|e)) / odds(b)  (as if S were independent)
 *     next:        the sum over e in S of P(e'|e)
 *
 * with P(e'|e) = (c + a b) / (n + a), a being the weight of popularity in a row that has seen little. Each is the
 * better of the two on recorded routings, for its table (docs/CACHE-MEASURED.md). Odds need no logarithms: products of
 * over = c + a b and under = n - c + a (1 - b) are divided once an expert. */
#include "expert/predict_private.h"

#include "base/assert.h"

#include <string.h>

#define ROW_USES_MAX 64u
#define POPULAR_KEPT 0.998f /* a token: half-life 346 tokens, not less than a row remembers */
#define POPULAR_TINY 1e-20f
#define POPULAR_UNSURE 0.5 /* tokens of an even choice that are added */
#define WEIGHT_TRANSITIONS 2.0
#define WEIGHT_NEXT 1.0
#define SHARE_MIN 1e-5 /* keeps products of NAMED_BY_MAX factors far from the ends of a double */
#define NAMED_BY_MAX 32u

/* ---- learning ---- */

/* One use of each of `from`: all of `to` followed it. */
static void teach(struct predict_table *t, size_t rows_at, uint32_t first_key, const uint16_t *from, uint32_t n_from,
                  const uint32_t *to, uint32_t n_to, uint32_t n_target)
{
    for (uint32_t i = 0; i < n_from; i++) {
        uint8_t *row = t->counts + rows_at + (size_t)from[i] * n_target, *uses = &t->uses[first_key + from[i]];
        for (uint32_t k = 0; k < n_to; k++) row[to[k]]++;
        if (++*uses < ROW_USES_MAX) continue;
        for (uint32_t e = 0; e < n_target; e++) row[e] /= 2;
        *uses /= 2;
    }
}

static void count_popular(struct predict *p, struct predict_layer *l, const uint32_t *ids, uint32_t n)
{
    float *popular = p->popular + l->first_key;
    for (uint32_t e = 0; e < l->n_expert; e++) {
        const float x = popular[e] * POPULAR_KEPT;
        popular[e] = popular[e] > 0 && x < POPULAR_TINY ? POPULAR_TINY : x; /* what was seen once stays above 0 */
    }
    for (uint32_t i = 0; i < n; i++) popular[ids[i]] += 1;
    l->n_tokens = l->n_tokens * POPULAR_KEPT + 1;
}

static void step_begin(struct predict_step *s, uint32_t layer)
{
    s->layer = layer;
    memset(s->n, 0, sizeof s->n);
}

void predict_tables_forget_step(struct predict *p)
{
    step_begin(&p->step[0], PREDICT_NO_LAYER);
    step_begin(&p->step[1], PREDICT_NO_LAYER);
    p->last_ahead = 0;
}

/* The running layer has changed, or a step that was given up begins again. */
static void follow_step(struct predict *p, uint32_t layer, uint32_t ahead)
{
    if (layer == p->step[0].layer && ahead > p->last_ahead) {
        p->last_ahead = ahead;
        return;
    }
    if (layer == p->step[0].layer) {
        step_begin(&p->step[1], PREDICT_NO_LAYER);
    } else {
        const struct predict_step old = p->step[1];
        p->step[1] = p->step[0];
        p->step[0] = old;
    }
    step_begin(&p->step[0], layer);
    p->last_ahead = ahead;
}

static void learn_across(struct predict *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t ahead)
{
    const struct predict_layer *l = &p->layers[layer];
    follow_step(p, layer, ahead);
    if (ahead >= PREDICT_AHEAD_MAX) return;
    const struct predict_step *before = &p->step[1];
    if (l->before != PREDICT_NO_LAYER && before->layer == l->before)
        teach(&p->across, p->layers[l->before].across_at, p->layers[l->before].first_key,
              before->ids + (size_t)ahead * p->k_max, before->n[ahead], ids, n, l->n_expert);
    uint16_t *mine = p->step[0].ids + (size_t)ahead * p->k_max;
    for (uint32_t i = 0; i < n; i++) mine[i] = (uint16_t)ids[i];
    p->step[0].n[ahead] = n;
}

static void learn_along(struct predict *p, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    struct predict_layer *l = &p->layers[layer];
    uint16_t *last = p->last + (size_t)layer * p->k_max;
    teach(&p->along, l->along_at, l->first_key, last, l->n_last, ids, n, l->n_expert);
    for (uint32_t i = 0; i < n; i++) last[i] = (uint16_t)ids[i];
    l->n_last = n;
}

void predict_selected(struct predict *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t ahead)
{
    BASE_ASSERT(layer < p->n_layers && n <= p->layers[layer].n_used, "a choice is at most the top-k of its layer");
    for (uint32_t i = 0; i < n; i++) BASE_ASSERT(ids[i] < p->layers[layer].n_expert, "an expert of its layer");
    if (!p->popular || !p->layers[layer].n_expert) return;
    count_popular(p, &p->layers[layer], ids, n);
    if (p->across.counts) learn_across(p, layer, ids, n, ahead);
    if (p->along.counts) learn_along(p, layer, ids, n);
}

void predict_prompt(struct predict *p)
{
    for (uint32_t i = 0; i < p->n_layers; i++) p->layers[i].n_last = 0;
    predict_tables_forget_step(p);
}

/* ---- naming ---- */

/* The share of tokens that choose each expert of the target. */
static void rate_popular(const struct predict *p, const struct predict_layer *target)
{
    const float *popular = p->popular + target->first_key;
    const double even = POPULAR_UNSURE * target->n_used / target->n_expert;
    const double factor = 1 / ((double)target->n_tokens + POPULAR_UNSURE);
    for (uint32_t e = 0; e < target->n_expert; e++) {
        const double share = ((double)popular[e] + even) * factor;
        p->base[e] = share < SHARE_MIN ? SHARE_MIN : share > 1 - SHARE_MIN ? 1 - SHARE_MIN : share;
    }
}

/* Leaves the ratings in p->over. */
static void rate_odds(const struct predict *p, const uint8_t *rows, const uint8_t *uses, const uint32_t *ids,
                      uint32_t n, uint32_t n_target)
{
    double *over = p->over, *under = p->under;
    const double *base = p->base;
    for (uint32_t e = 0; e < n_target; e++) over[e] = under[e] = 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *row = rows + (size_t)ids[i] * n_target;
        const double n_uses = uses[ids[i]] + WEIGHT_TRANSITIONS;
        for (uint32_t e = 0; e < n_target; e++) {
            const double with = row[e] + WEIGHT_TRANSITIONS * base[e];
            over[e] *= with;
            under[e] *= n_uses - with;
        }
    }
    for (uint32_t e = 0; e < n_target; e++) {
        const double against = (1 - base[e]) / base[e];
        double rating = over[e] / under[e];
        for (uint32_t i = 1; i < n; i++) rating *= against;
        over[e] = rating;
    }
}

static void rate_sum(const struct predict *p, const uint8_t *rows, const uint8_t *uses, const uint32_t *ids, uint32_t n,
                     uint32_t n_target)
{
    double *over = p->over;
    for (uint32_t e = 0; e < n_target; e++) over[e] = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *row = rows + (size_t)ids[i] * n_target;
        const double factor = 1 / (uses[ids[i]] + WEIGHT_NEXT);
        for (uint32_t e = 0; e < n_target; e++) over[e] += (row[e] + WEIGHT_NEXT * p->base[e]) * factor;
    }
}

/* The best rated of those that were ever chosen. O(n_expert) when few pass the worst of the names, as is usual. */
static uint32_t name_best(const struct predict *p, const struct predict_layer *target, uint32_t *out, uint32_t max)
{
    const float *popular = p->popular + target->first_key;
    uint32_t n = 0;
    if (max > PREDICT_WIDTH_MAX) max = PREDICT_WIDTH_MAX;
    for (uint32_t e = 0; max && e < target->n_expert; e++) {
        if (popular[e] <= 0 || (n == max && p->over[e] <= p->over[out[n - 1]])) continue;
        uint32_t at = n < max ? n++ : max - 1;
        for (; at && p->over[e] > p->over[out[at - 1]]; at--) out[at] = out[at - 1];
        out[at] = e;
    }
    return n;
}

/* How many of a choice are looked at. */
static uint32_t check_choice(const struct predict_layer *l, const uint32_t *ids, uint32_t n)
{
    if (n > NAMED_BY_MAX) n = NAMED_BY_MAX;
    for (uint32_t i = 0; i < n; i++) BASE_ASSERT(ids[i] < l->n_expert, "an expert of its layer");
    return n;
}

uint32_t predict_transitions(const struct predict *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t *to,
                             uint32_t *out, uint32_t max)
{
    BASE_ASSERT(layer < p->n_layers, "a layer of the model");
    const struct predict_layer *l = &p->layers[layer];
    *to = l->after;
    if (!p->across.counts || !l->n_expert || l->after == PREDICT_NO_LAYER || !n) return 0;
    const struct predict_layer *target = &p->layers[l->after];
    n = check_choice(l, ids, n);
    rate_popular(p, target);
    rate_odds(p, p->across.counts + l->across_at, p->across.uses + l->first_key, ids, n, target->n_expert);
    return name_best(p, target, out, max);
}

uint32_t predict_next(const struct predict *p, uint32_t layer, const uint32_t *ids, uint32_t n, uint32_t *out,
                      uint32_t max)
{
    BASE_ASSERT(layer < p->n_layers, "a layer of the model");
    const struct predict_layer *l = &p->layers[layer];
    if (!p->along.counts || !l->n_expert || !n) return 0;
    n = check_choice(l, ids, n);
    rate_popular(p, l);
    rate_sum(p, p->along.counts + l->along_at, p->along.uses + l->first_key, ids, n, l->n_expert);
    return name_best(p, l, out, max);
}
