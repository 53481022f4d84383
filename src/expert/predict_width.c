/* How many leading ranks of a list of names are worth reading.
 *
 * For each source and rank two decayed sums are kept: how often a name of this rank was not resident, and how often
 * such a name came true. A width w is worth sum over its ranks of asked * (precision - PRECISION_WORTH); the width with
 * the largest worth is used. One rank that is unlucky for a while does not hide better ones behind it.
 *
 * Outcomes of ranks beyond the width cost nothing to observe, and whoever tells them too needs no exploration. For a
 * caller that tells only what it has read, the width is EXPLORE_RANKS wider during one token in EXPLORE_TICKS while the
 * ranks behind it are not told; so a width of 0 recovers. */
#include "expert/predict_private.h"

#include <string.h>

/* A guess that comes true saves at most the read that a demand would have waited for, and often only a part of it; a
 * wrong one costs idle time of the disk, as it gives way to demands, and sometimes a slot that held something. So the
 * border is somewhat below a half. It is the precision of the last rank that is used: over all of them it is about a
 * half, for a fifth of the misses (docs/CACHE-MEASURED.md). Values from 0.25 to 0.45 trade one for the other evenly. */
#define PRECISION_WORTH 0.35f
#define KEPT (1.0f - 1.0f / 256) /* an outcome: half-life 177 */
#define PRIOR_ASKED 16.0f        /* outcomes that the prior is worth */
#define PRIOR_GOOD 0.6f          /* precision of the ranks of one top-k */
#define PRIOR_BAD 0.2f           /* of those behind them */
#define EXPLORE_TICKS 16u
#define EXPLORE_RANKS 2u

static uint32_t best_width(const struct predict_ranks *r)
{
    float worth = 0, best = 0;
    uint32_t width = 0;
    for (uint32_t i = 0; i < PREDICT_WIDTH_MAX; i++) {
        worth += r->came_true[i] - PRECISION_WORTH * r->asked[i];
        if (worth <= best) continue;
        best = worth;
        width = i + 1;
    }
    return width;
}

void predict_ranks_begin(struct predict *p)
{
    for (int s = 0; s < PREDICT_SOURCES; s++) {
        struct predict_ranks *r = &p->ranks[s];
        for (uint32_t i = 0; i < PREDICT_WIDTH_MAX; i++) {
            r->asked[i] = PRIOR_ASKED;
            r->came_true[i] = PRIOR_ASKED * (i < p->k_max ? PRIOR_GOOD : PRIOR_BAD);
        }
        r->width = best_width(r);
    }
}

void predict_outcome(struct predict *p, enum predict_source s, const bool *came_true, const bool *asked, uint32_t n)
{
    struct predict_ranks *r = &p->ranks[s];
    if (n > PREDICT_WIDTH_MAX) n = PREDICT_WIDTH_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (!asked[i]) continue;
        r->told[i] = r->told[i] || !r->exploring;
        r->asked[i] = r->asked[i] * KEPT + 1;
        r->came_true[i] = r->came_true[i] * KEPT + (came_true[i] ? 1.0f : 0.0f);
    }
    r->width = best_width(r);
}

void predict_ranks_tick(struct predict *p, uint32_t n_tokens)
{
    const uint64_t now = p->n_ticks + n_tokens;
    const bool due = now / EXPLORE_TICKS != p->n_ticks / EXPLORE_TICKS;
    p->n_ticks = now;
    for (int s = 0; s < PREDICT_SOURCES; s++) {
        struct predict_ranks *r = &p->ranks[s];
        r->exploring = due && r->width < PREDICT_WIDTH_MAX && !r->told[r->width];
        if (due) memset(r->told, 0, sizeof r->told);
    }
}

uint32_t predict_width(const struct predict *p, enum predict_source s, uint32_t max)
{
    const struct predict_ranks *r = &p->ranks[s];
    uint32_t width = r->width + (r->exploring ? EXPLORE_RANKS : 0);
    if (!p->gates[s].kept) return 0;
    if (width > PREDICT_WIDTH_MAX) width = PREDICT_WIDTH_MAX;
    return width < max ? width : max;
}
