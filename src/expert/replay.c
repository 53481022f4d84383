#include "expert/replay.h"

#include "expert/slots_sim.h"

#include <stdlib.h>
#include <string.h>

struct simulation {
    const struct trace *trace;
    const struct replay_config *config;
    struct replay_result *out;
    struct slots_sim slots;
    struct policy_layer *layers; /* [n_layers] */
    uint32_t *ids;               /* [largest n_expert] */
    float *weights;              /* the same */
    bool *wanted;                /* [largest n_expert] */
};

uint32_t replay_n_used(const struct trace *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_layers; i++)
        if (t->layer_at[i + 1] - t->layer_at[i] > n) n = t->layer_at[i + 1] - t->layer_at[i];
    return n;
}

static enum sluice_status too_few(uint32_t slots, uint32_t n_used, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_USAGE, "give at least K slots (K: experts used a token)",
                     "%u slots cannot hold the %u experts of one token", slots, n_used);
}

/* ---- steps ---- */

static void want(struct simulation *s, uint32_t layer, uint32_t n, bool decode)
{
    struct replay_result *r = s->out;
    const uint32_t n_hits = slots_want(&s->slots, layer, s->ids, n);
    r->all_hits += n_hits;
    r->all_misses += n - n_hits;
    if (!decode) return;
    r->hits += n_hits;
    r->misses += n - n_hits;
    r->read_bytes += (n - n_hits) * s->trace->layers[layer].expert_bytes;
}

/* Tokens [begin, end) layer by layer, each expert wanted once, in ascending order. */
static void run_step(struct simulation *s, uint32_t begin, uint32_t end)
{
    const struct trace *t = s->trace;
    for (uint32_t layer = 0; layer < t->n_layers; layer++) {
        const uint32_t n_expert = s->layers[layer].n_expert;
        uint32_t n = 0;
        if (!n_expert) continue;
        memset(s->wanted, 0, n_expert * sizeof *s->wanted);
        for (uint32_t token = begin; token < end; token++) {
            n = trace_choice(t, token, layer, s->ids, s->weights);
            if (n) policy_route(s->slots.policy, layer, s->ids, s->weights, n, token - begin);
            for (uint32_t i = 0; i < n; i++) s->wanted[s->ids[i]] = true;
        }
        if (end - begin > 1) {
            n = 0;
            for (uint32_t e = 0; e < n_expert; e++)
                if (s->wanted[e]) s->ids[n++] = e;
        }
        want(s, layer, n, t->flags[begin] & TRACE_DECODE);
    }
    policy_tick(s->slots.policy, end - begin);
}

static void run_all(struct simulation *s)
{
    const struct trace *t = s->trace;
    for (uint32_t begin = 0, end; begin < t->n_tokens; begin = end) {
        end = begin + 1;
        while (!s->config->slots_per_layer && end < t->n_tokens && !(t->flags[end] & TRACE_STEP)) end++;
        if (t->flags[begin] & TRACE_PROMPT) policy_prompt(s->slots.policy);
        run_step(s, begin, end);
        if (t->flags[begin] & TRACE_DECODE) s->out->n_tokens += end - begin;
    }
}

static uint32_t shape(struct simulation *s, uint32_t *largest)
{
    const struct trace *t = s->trace;
    uint32_t n_keys = 0;
    *largest = 0;
    for (uint32_t i = 0; i < t->n_layers; i++) {
        s->layers[i] = (struct policy_layer){.first_key = n_keys,
                                             .n_expert = t->layers[i].n_expert,
                                             .n_used = t->layer_at[i + 1] - t->layer_at[i],
                                             .class_index = s->config->slots_per_layer ? i : 0};
        n_keys += t->layers[i].n_expert;
        if (t->layers[i].n_expert > *largest) *largest = t->layers[i].n_expert;
    }
    return s->config->slots_per_layer ? t->n_layers : 1;
}

enum sluice_status replay_run(const struct trace *t, const struct replay_config *config, struct replay_result *out,
                              struct sluice_error *err)
{
    struct simulation s = {.trace = t, .config = config, .out = out};
    const uint32_t slots = config->slots_per_layer ? config->slots_per_layer : config->slots;
    memset(out, 0, sizeof *out);
    if (slots < replay_n_used(t)) return too_few(slots, replay_n_used(t), err);
    enum sluice_status status = SLUICE_ERR_MEMORY;
    uint64_t *ones = NULL;
    s.layers = calloc((size_t)t->n_layers + 1, sizeof *s.layers);
    if (!s.layers) goto fail;
    uint32_t largest, n_classes = shape(&s, &largest);
    ones = calloc((size_t)n_classes + 1, sizeof *ones);
    s.ids = calloc((size_t)largest + 1, sizeof *s.ids);
    s.weights = calloc((size_t)largest + 1, sizeof *s.weights);
    s.wanted = calloc((size_t)largest + 1, sizeof *s.wanted);
    if (!ones || !s.ids || !s.weights || !s.wanted) goto fail;
    for (uint32_t i = 0; i < n_classes; i++) ones[i] = 1; /* room is counted in slots */
    struct policy_shape model = config->tuning;
    model.layers = s.layers;
    model.n_layers = t->n_layers;
    model.n_classes = n_classes;
    const struct slots_config how = {.policy = config->policy,
                                     .shape = &model,
                                     .slot_bytes = ones,
                                     .room_bytes = slots,
                                     .room_each = config->slots_per_layer != 0};
    status = slots_create(&s.slots, &how, err);
    if (!status) run_all(&s);
    out->evictions = s.slots.evictions;
    slots_destroy(&s.slots);

fail:
    free(s.wanted);
    free(s.weights);
    free(s.ids);
    free(ones);
    free(s.layers);
    return status == SLUICE_ERR_MEMORY ? base_fail(err, status, NULL, "no memory for a replay") : status;
}

/* ---- the limit ---- */

struct belady {
    uint32_t *next;  /* [n_tokens][n_used] when the expert chosen here is chosen again */
    uint32_t *again; /* [n_expert] when it is chosen next */
    uint32_t *ids;   /* [n_used] */
    float *weights;
    bool *there, *current; /* [n_expert] */
};

static uint32_t used_last(const struct belady *b, uint32_t n_expert)
{
    uint32_t best = POLICY_NONE;
    for (uint32_t e = 0; e < n_expert; e++)
        if (b->there[e] && !b->current[e] && (best == POLICY_NONE || b->again[e] > b->again[best])) best = e;
    return best;
}

static void belady_layer(const struct trace *t, uint32_t layer, uint32_t slots, struct belady *b,
                         struct replay_result *out)
{
    const uint32_t n_expert = t->layers[layer].n_expert, n_used = t->layers[layer].n_used;
    uint32_t n_there = 0;
    for (uint32_t e = 0; e < n_expert; e++) b->again[e] = UINT32_MAX;
    for (uint32_t token = t->n_tokens; token-- > 0;) {
        uint32_t n = trace_choice(t, token, layer, b->ids, b->weights);
        for (uint32_t k = 0; k < n; k++) {
            b->next[(size_t)token * n_used + k] = b->again[b->ids[k]];
            b->again[b->ids[k]] = token;
        }
    }
    memset(b->there, 0, n_expert * sizeof *b->there);
    for (uint32_t token = 0; token < t->n_tokens; token++) {
        const bool decode = t->flags[token] & TRACE_DECODE;
        uint32_t n = trace_choice(t, token, layer, b->ids, b->weights);
        memset(b->current, 0, n_expert * sizeof *b->current);
        for (uint32_t k = 0; k < n; k++) {
            b->current[b->ids[k]] = true;
            b->again[b->ids[k]] = b->next[(size_t)token * n_used + k];
        }
        for (uint32_t k = 0; k < n; k++) {
            const bool hit = b->there[b->ids[k]];
            out->all_hits += hit;
            out->all_misses += !hit;
            out->hits += decode && hit;
            out->misses += decode && !hit;
            if (hit) continue;
            if (decode) out->read_bytes += t->layers[layer].expert_bytes;
            if (n_there < slots) {
                n_there++;
            } else {
                b->there[used_last(b, n_expert)] = false;
                out->evictions++;
            }
            b->there[b->ids[k]] = true;
        }
    }
}

enum sluice_status replay_belady(const struct trace *t, uint32_t slots_per_layer, struct replay_result *out,
                                 struct sluice_error *err)
{
    const uint32_t n_used = replay_n_used(t);
    uint32_t largest = 0;
    memset(out, 0, sizeof *out);
    if (slots_per_layer < n_used) return too_few(slots_per_layer, n_used, err);
    for (uint32_t i = 0; i < t->n_layers; i++)
        if (t->layers[i].n_expert > largest) largest = t->layers[i].n_expert;
    struct belady b = {.next = calloc((size_t)t->n_tokens * n_used + 1, sizeof *b.next),
                       .again = calloc((size_t)largest + 1, sizeof *b.again),
                       .ids = calloc((size_t)n_used + 1, sizeof *b.ids),
                       .weights = calloc((size_t)n_used + 1, sizeof *b.weights),
                       .there = calloc((size_t)largest + 1, sizeof *b.there),
                       .current = calloc((size_t)largest + 1, sizeof *b.current)};
    const bool good = b.next && b.again && b.ids && b.weights && b.there && b.current;
    for (uint32_t i = 0; good && i < t->n_layers; i++) {
        uint32_t n_expert = t->layers[i].n_expert;
        if (n_expert) belady_layer(t, i, slots_per_layer < n_expert ? slots_per_layer : n_expert, &b, out);
    }
    for (uint32_t i = 0; i < t->n_tokens; i++) out->n_tokens += (t->flags[i] & TRACE_DECODE) != 0;
    free(b.current);
    free(b.there);
    free(b.weights);
    free(b.ids);
    free(b.again);
    free(b.next);
    return good ? SLUICE_OK : base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a replay");
}
