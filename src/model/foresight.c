#include "model/foresight.h"

#include "model/moe.h"
#include "model/router.h"

#include <stdlib.h>
#include <string.h>

#define NEXT_READS_MAX 16u   /* experts that are read for the next token while this one ends */
#define FULL_STEPS 16u       /* without a miss: then everything is there, and looking ahead only costs its computing */
#define LOOK_WIDTH_FACTOR 2u /* ranks that are looked at: so many times top-k */

static uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

size_t model_foresight_memory_bytes(const struct model *m)
{
    const struct model_hparams *hp = &m->hp;
    return sizeof(struct model_foresight) +
           (size_t)hp->n_layer *
               (PREDICT_SOURCES * sizeof(struct foresight_names) + hp->n_expert_used * sizeof(uint16_t)) +
           2 * (size_t)hp->n_expert * sizeof(uint32_t);
}

enum sluice_status model_foresight_create(const struct model *m, struct model_foresight **out, struct sluice_error *err)
{
    const struct model_hparams *hp = &m->hp;
    struct model_foresight *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for guesses");
    f->names = calloc((size_t)PREDICT_SOURCES * hp->n_layer + 1, sizeof *f->names);
    f->last = calloc((size_t)hp->n_layer * hp->n_expert_used + 1, sizeof *f->last);
    f->ids = calloc((size_t)hp->n_expert + 1, sizeof *f->ids);
    f->counts = calloc((size_t)hp->n_expert + 1, sizeof *f->counts);
    f->whole_cost = 1;
    if (!f->names || !f->last || !f->ids || !f->counts) {
        model_foresight_destroy(f);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for guesses");
    }
    *out = f;
    return SLUICE_OK;
}

void model_foresight_destroy(struct model_foresight *f)
{
    if (!f) return;
    free(f->counts);
    free(f->ids);
    free(f->last);
    free(f->names);
    free(f);
}

static struct foresight_names *names_of(const struct model_run *r, enum predict_source source, uint32_t layer)
{
    return &r->foresight->names[(size_t)source * r->model->hp.n_layer + layer];
}

/* ---- what a table gives ---- */

void foresight_begin(struct model_run *r, const struct model_step *s)
{
    const struct model *m = r->model;
    if (!r->foresight || !r->foresight->certain) return;
    for (uint32_t layer = 0; layer < m->hp.n_layer; layer++) {
        const struct model_layer_hparams *l = &m->hp.layer[layer];
        const int32_t *table = m->layers[layer].table.data;
        bool named[MODEL_EXPERTS_MAX] = {false};
        uint32_t n = 0;
        if (!l->by_table) continue;
        for (size_t t = 0; t < s->n_tokens; t++)
            for (uint32_t i = 0; i < l->n_expert_used; i++) {
                const uint32_t e = (uint32_t)table[(size_t)s->ids[t] * l->n_expert_used + i];
                if (e < l->n_expert) named[e] = true; /* else the layer refuses it */
            }
        for (uint32_t e = 0; e < l->n_expert; e++)
            if (named[e]) r->scratch.wanted[n++] = e;
        expert_guess(r->cache, EXPERT_CERTAIN, true, layer, r->scratch.wanted, n);
    }
}

/* ---- what became of it ---- */

static void judge(struct model_run *r, enum predict_source source, uint32_t layer, const uint32_t *chosen, uint32_t k)
{
    struct foresight_names *names = names_of(r, source, layer);
    bool came_true[PREDICT_WIDTH_MAX];
    if (!names->n) return;
    for (uint32_t i = 0; i < names->n; i++) {
        came_true[i] = false;
        for (uint32_t j = 0; j < k; j++) came_true[i] = came_true[i] || chosen[j] == names->ids[i];
    }
    predict_outcome(r->foresight->predict, source, came_true, names->asked, names->n);
    names->n = 0;
}

void foresight_learn(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    struct model_foresight *f = r->foresight;
    const uint32_t k = r->model->hp.layer[layer].n_expert_used;
    const uint32_t *ids = r->scratch.ids;
    if (!f) return;
    uint16_t *last = f->last + (size_t)layer * r->model->hp.n_expert_used;
    for (uint32_t j = 0; j < k; j++) last[j] = (uint16_t)ids[(s->n_tokens - 1) * k + j];
    if (!f->predict) return;
    for (int source = 0; source < PREDICT_SOURCES; source++)
        if (s->n_tokens == 1 && !s->origin)
            judge(r, (enum predict_source)source, layer, ids, k);
        else
            names_of(r, (enum predict_source)source, layer)->n = 0;
    for (size_t t = 0; t < s->n_tokens; t++) predict_selected(f->predict, layer, ids + t * k, k, (uint32_t)t);
}

/* ---- naming ---- */

/* Remembers a ranked list for its outcome, and tells the cache its leading ranks; returns how many of those were not
 * there. */
static uint32_t name(struct model_run *r, enum predict_source source, enum expert_source as, uint32_t layer,
                     const uint32_t *ids, uint32_t n)
{
    struct foresight_names *names = names_of(r, source, layer);
    const uint32_t width = predict_width(r->foresight->predict, source, n);
    uint32_t n_asked = 0;
    for (uint32_t i = 0; i < n; i++) {
        names->ids[i] = (uint16_t)ids[i];
        names->asked[i] = !expert_known(r->cache, layer, ids[i]);
        n_asked += i < width && names->asked[i];
    }
    names->n = (uint8_t)n;
    expert_guess(r->cache, as, false, layer, ids, width);
    return n_asked;
}

/* The scores by which the router of `layer` would choose on the present residual stream of tokens [begin, begin + n),
 * in scratch.ahead_router. */
static void look(struct model_run *r, uint32_t layer, size_t begin, size_t n)
{
    const struct model_hparams *hp = &r->model->hp;
    struct model_scratch *sc = &r->scratch;
    const uint32_t n_expert = hp->layer[layer].n_expert;
    struct kernel_acts acts;
    moe_router_logits(r, layer, sc->x + begin * hp->n_embd, n, sc->ahead_h, sc->ahead_acts, &acts, sc->ahead_router);
    for (size_t t = 0; t < n; t++)
        router_scores(r->kernel.table, &hp->moe.router, sc->ahead_router + t * n_expert,
                      model_vector(&r->model->layers[layer].probs_bias), n_expert);
}

static void name_for_token(struct model_run *r, uint32_t layer, uint32_t to)
{
    struct model_foresight *f = r->foresight;
    const struct model_layer_hparams *here = &r->model->hp.layer[layer], *next = &r->model->hp.layer[to];
    uint32_t ids[PREDICT_WIDTH_MAX];
    const uint32_t most = smaller(smaller(LOOK_WIDTH_FACTOR * next->n_expert_used, PREDICT_WIDTH_MAX), next->n_expert);
    if (predict_on(f->predict, PREDICT_LOOKAHEAD)) {
        look(r, to, 0, 1);
        router_rank(r->scratch.ahead_router, next->n_expert, most, ids);
        name(r, PREDICT_LOOKAHEAD, EXPERT_LOOKAHEAD, to, ids, most);
    }
    if (predict_on(f->predict, PREDICT_TRANSITIONS)) {
        uint32_t there,
            n = predict_transitions(f->predict, layer, r->scratch.ids, here->n_expert_used, &there, ids, most);
        if (n) name(r, PREDICT_TRANSITIONS, EXPERT_TRANSITIONS, there, ids, n);
    }
}

/* Counts what the router of layer `to` would choose for tokens [begin, begin + n), n <= FORESIGHT_TOKENS. */
static void count_choices(struct model_run *r, uint32_t to, size_t begin, size_t n)
{
    const struct model_layer_hparams *hp = &r->model->hp.layer[to];
    const uint32_t k = smaller(hp->n_expert_used, PREDICT_WIDTH_MAX);
    uint32_t ids[PREDICT_WIDTH_MAX];
    look(r, to, begin, n);
    for (size_t t = 0; t < n; t++) {
        router_rank(r->scratch.ahead_router + t * hp->n_expert, hp->n_expert, k, ids);
        for (uint32_t i = 0; i < k; i++) r->foresight->counts[ids[i]]++;
    }
}

/* What the next layer's router would choose for those tokens of a prompt that get there: f->ids, ascending; returns how
 * many. */
static uint32_t look_all(struct model_run *r, const struct model_step *s, uint32_t to)
{
    struct model_foresight *f = r->foresight;
    const struct model_layer_hparams *hp = &r->model->hp.layer[to];
    uint32_t n = 0;
    memset(f->counts, 0, hp->n_expert * sizeof *f->counts);
    if (model_narrows(r, s, to))
        for (size_t i = 0; i < s->n_spans; i++) count_choices(r, to, s->spans[i].first + s->spans[i].n_tokens - 1, 1);
    else
        for (size_t t = 0; t < s->n_tokens; t += FORESIGHT_TOKENS)
            count_choices(r, to, t, s->n_tokens - t < FORESIGHT_TOKENS ? s->n_tokens - t : FORESIGHT_TOKENS);
    for (uint32_t e = 0; e < hp->n_expert; e++)
        if (f->counts[e]) f->ids[n++] = e;
    return n;
}

static uint32_t missing(const struct model_run *r, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    uint32_t n_missing = 0;
    for (uint32_t i = 0; i < n; i++) n_missing += !expert_known(r->cache, layer, ids ? ids[i] : i);
    return n_missing;
}

static void name_for_prompt(struct model_run *r, const struct model_step *s, uint32_t to)
{
    struct model_foresight *f = r->foresight;
    const uint32_t n_expert = r->model->hp.layer[to].n_expert;
    const bool looks = f->predict && predict_on(f->predict, PREDICT_LOOKAHEAD);
    const bool few = model_narrows(r, s, to);
    uint32_t n = 0;
    if (few && s->want == MODEL_LOGITS_NONE) return; /* nobody gets there */
    if (looks && (few || f->route != FORESIGHT_LAYERS)) n = look_all(r, s, to);
    bool whole = !few && f->route == FORESIGHT_LAYERS;
    if (!few && f->route == FORESIGHT_BY_COST && n) {
        /* what is missing of all, against what is missing of the named ones */
        const uint32_t n_missing = missing(r, to, f->ids, n);
        whole = n_missing && f->whole_cost * missing(r, to, NULL, n_expert) <= n_missing;
    }
    if (whole) {
        for (uint32_t e = 0; e < n_expert; e++) f->ids[e] = e;
        expert_guess(r->cache, EXPERT_LAYERS, true, to, f->ids, n_expert);
        f->layers_whole++;
    } else {
        if (n) expert_guess(r->cache, EXPERT_LOOKAHEAD, true, to, f->ids, n);
        f->layers_selected++;
    }
}

void foresight_ahead(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    struct model_foresight *f = r->foresight;
    uint32_t to = layer + 1;
    /* The first miss of a step ends that, so that a prompt on something new is read ahead from its first layers on. */
    if (!f || (f->n_full >= FULL_STEPS && expert_cache_misses(r->cache) == f->misses)) return;
    while (to < r->model->hp.n_layer && !r->model->layers[to].is_moe) to++;
    if (to == r->model->hp.n_layer || r->model->hp.layer[to].by_table) return; /* its router does not choose */
    if (s->n_tokens > 1)
        name_for_prompt(r, s, to);
    else if (f->predict)
        name_for_token(r, layer, to);
}

/* ---- the end of a step ---- */

static void name_for_next(struct model_run *r)
{
    struct model_foresight *f = r->foresight;
    const struct model_hparams *hp = &r->model->hp;
    uint32_t ids[PREDICT_WIDTH_MAX], last[PREDICT_WIDTH_MAX], n_reads = 0;
    for (uint32_t layer = 0; layer < hp->n_layer && n_reads < NEXT_READS_MAX; layer++) {
        if (!r->model->layers[layer].is_moe || (f->certain && hp->layer[layer].by_table)) continue;
        const uint32_t most = smaller(hp->layer[layer].n_expert_used, PREDICT_WIDTH_MAX);
        for (uint32_t j = 0; j < most; j++) last[j] = f->last[(size_t)layer * hp->n_expert_used + j];
        uint32_t n = predict_next(f->predict, layer, last, most, ids, most);
        if (!n) return;
        n_reads += name(r, PREDICT_NEXT, EXPERT_NEXT, layer, ids, n);
    }
}

/* What guesses saved and cost since the last step: a useful one saved its read, a late one about half of it; one for
 * nothing has used the disk for its read, and half of that was idle time that nobody missed. */
static void settle(struct model_run *r)
{
    static const enum expert_source as[PREDICT_SOURCES] = {EXPERT_LOOKAHEAD, EXPERT_TRANSITIONS, EXPERT_NEXT};
    struct model_foresight *f = r->foresight;
    struct expert_source_stats now[EXPERT_SOURCES];
    expert_cache_sources(r->cache, now);
    for (int s = 0; s < PREDICT_SOURCES; s++) {
        const struct expert_source_stats *a = &f->seen[as[s]], *b = &now[as[s]];
        uint64_t halves = 2 * (b->useful - a->useful) + (b->late - a->late);
        if (halves) predict_saved(f->predict, (enum predict_source)s, halves * f->expert_read_ns / 2);
        if (b->wasted > a->wasted)
            predict_cost(f->predict, (enum predict_source)s, (b->wasted - a->wasted) * f->expert_read_ns / 2);
    }
    memcpy(f->seen, now, sizeof now);
}

void foresight_end(struct model_run *r, const struct model_step *s)
{
    struct model_foresight *f = r->foresight;
    if (!f || !f->predict) return;
    const uint64_t misses = expert_cache_misses(r->cache);
    f->n_full = misses == f->misses ? f->n_full + 1 : 0;
    f->misses = misses;
    settle(r);
    predict_tick(f->predict, (uint32_t)s->n_tokens);
    if (f->n_full < FULL_STEPS && predict_on(f->predict, PREDICT_NEXT)) name_for_next(r);
}
