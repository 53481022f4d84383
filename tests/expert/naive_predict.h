/* What the learned tables must name, written so that it cannot be wrong: the whole past is kept and counted again for
 * each question. Tokens are told one by one, whatever steps the tables saw. */
#ifndef TESTS_EXPERT_NAIVE_PREDICT_H
#define TESTS_EXPERT_NAIVE_PREDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NAIVE_TOKENS_MAX 4096
#define NAIVE_PREDICT_LAYERS 5
#define NAIVE_PREDICT_USED 4
#define NAIVE_EXPERTS_MAX 64

/* The constants of predict_tables.c. */
#define NAIVE_ROW 64
#define NAIVE_POPULAR_KEPT 0.998
#define NAIVE_UNSURE 0.5
#define NAIVE_WEIGHT_TRANSITIONS 2.0
#define NAIVE_WEIGHT_NEXT 1.0

struct naive_predict {
    uint32_t n_experts[NAIVE_PREDICT_LAYERS], n_used[NAIVE_PREDICT_LAYERS]; /* 0: a layer without experts */
    uint32_t n_tokens;
    struct {
        uint32_t ids[NAIVE_PREDICT_LAYERS][NAIVE_PREDICT_USED];
        bool prompt;  /* a new prompt begins here */
        bool teaches; /* transitions: not too far into its step */
    } tokens[NAIVE_TOKENS_MAX];
};

static inline bool naive_chose(const struct naive_predict *p, uint32_t token, uint32_t layer, uint32_t e)
{
    for (uint32_t i = 0; i < p->n_used[layer]; i++)
        if (p->tokens[token].ids[layer][i] == e) return true;
    return false;
}

static inline bool naive_ever(const struct naive_predict *p, uint32_t layer, uint32_t e)
{
    for (uint32_t t = 0; t < p->n_tokens; t++)
        if (naive_chose(p, t, layer, e)) return true;
    return false;
}

/* The share of tokens that choose e. */
static inline double naive_popular(const struct naive_predict *p, uint32_t layer, uint32_t e)
{
    double chosen = 0, all = 0;
    for (uint32_t t = 0; t < p->n_tokens; t++) {
        chosen = chosen * NAIVE_POPULAR_KEPT + naive_chose(p, t, layer, e);
        all = all * NAIVE_POPULAR_KEPT + 1;
    }
    const double share = (chosen + NAIVE_UNSURE * p->n_used[layer] / p->n_experts[layer]) / (all + NAIVE_UNSURE);
    return share < 1e-5 ? 1e-5 : share > 1 - 1e-5 ? 1 - 1e-5 : share;
}

/* P(e in `to` | given in `from`): of the same token, or of the token after it in the same layer. */
static inline double naive_share(const struct naive_predict *p, uint32_t from, uint32_t given, uint32_t to, uint32_t e)
{
    const double weight = from == to ? NAIVE_WEIGHT_NEXT : NAIVE_WEIGHT_TRANSITIONS;
    uint32_t count = 0, uses = 0;
    for (uint32_t t = 0; t < p->n_tokens; t++) {
        uint32_t of = t;
        if (from == to) {
            if (p->tokens[t].prompt || t == 0) continue;
            of = t - 1;
        } else if (!p->tokens[t].teaches) {
            continue;
        }
        if (!naive_chose(p, of, from, given)) continue;
        count += naive_chose(p, t, to, e);
        if (++uses < NAIVE_ROW) continue;
        count /= 2;
        uses /= 2;
    }
    return (count + weight * naive_popular(p, to, e)) / (uses + weight);
}

static inline double naive_rating(const struct naive_predict *p, uint32_t from, const uint32_t *ids, uint32_t n,
                                  uint32_t to, uint32_t e)
{
    const double b = naive_popular(p, to, e), odds = b / (1 - b);
    double sum = 0, product = odds;
    for (uint32_t i = 0; i < n; i++) {
        const double share = naive_share(p, from, ids[i], to, e);
        sum += share;
        product *= share / (1 - share) / odds;
    }
    return from == to ? sum : product;
}

#endif
