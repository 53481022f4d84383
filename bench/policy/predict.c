/* What can be guessed from recorded routings: of the first w names of `transitions` and `next`, which share comes true
 * (precision), and which share of what is wanted is among them (recall). Learned as the trace goes, as the engine does;
 * tokens of decode are counted. Over all choices, and over misses only: of names that are not resident, and of wanted
 * experts that are not, in a cache of TIMES * K slots a layer that all layers share (K: experts used a token), with the
 * default policy and without any guess. `auto` is the width that predict_width chooses, by the outcomes of all names.
 * `popular` names what its layer chose most often so far, for comparison. The table is in docs/CACHE-MEASURED.md.
 *
 *     predict TIMES TRACE... */
#include "expert/predict.h"
#include "expert/replay.h"
#include "expert/slots_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_WIDTHS 6
#define AUTO N_WIDTHS             /* the place of the width that predict_width chooses */
#define POPULAR PREDICT_LOOKAHEAD /* in its place: look-ahead needs the model */
#define KINDS 3

static const uint32_t widths[N_WIDTHS] = {1, 2, 4, 6, 8, 12};
static const char *const kinds[PREDICT_SOURCES] = {"popular", "transitions", "next"};

struct names {
    uint32_t ids[PREDICT_WIDTH_MAX], n;
};

struct score {
    uint64_t named, came_true; /* among the first w */
};

struct scene {
    const struct trace *trace;
    struct expert_catalog *catalog;
    const struct policy_layer *layers;
    struct slots_sim slots;
    struct predict *predict;
    uint32_t *counts; /* [n_keys] */
    uint32_t *ids;
    float *weights;
    bool *wanted;
    struct names *next;  /* [n_layers] for the next token */
    struct names across; /* for the next layer */
    struct score all[PREDICT_SOURCES][AUTO + 1], missing[PREDICT_SOURCES][AUTO + 1];
    uint64_t auto_width[PREDICT_SOURCES], n_lists; /* sums */
    uint64_t n_wanted, n_missed;
};

static void *room(size_t n, size_t bytes)
{
    void *p = calloc(n + 1, bytes);
    if (!p) exit(4);
    return p;
}

static void need(enum sluice_status status, const struct sluice_error *err)
{
    if (!status) return;
    fprintf(stderr, "%s\n", err->message);
    exit(1);
}

static struct expert_catalog *catalog_of(const struct trace *t)
{
    struct expert_layer *layers = room(t->n_layers, sizeof *layers);
    struct expert_catalog *c = NULL;
    struct sluice_error err;
    for (uint32_t i = 0; i < t->n_layers; i++) {
        layers[i] = (struct expert_layer){
            .n_expert = t->layers[i].n_expert, .n_used = t->layers[i].n_used, .n_parts = 1, .n_parts_first = 1};
        layers[i].part[0].bytes = 1; /* one class, so that all layers share the slots */
        layers[i].part[0].stride_bytes = 1;
    }
    need(expert_catalog_create(layers, t->n_layers, 1, &c, &err), &err);
    free(layers);
    return c;
}

static void name_popular(const struct scene *s, uint32_t layer, struct names *out)
{
    const uint32_t *counts = s->counts + s->layers[layer].first_key;
    out->n = 0;
    for (uint32_t e = 0; e < s->layers[layer].n_expert; e++) {
        if (!counts[e]) continue;
        uint32_t at = out->n < PREDICT_WIDTH_MAX ? out->n++ : PREDICT_WIDTH_MAX - 1;
        if (at + 1 == out->n && out->n == PREDICT_WIDTH_MAX && at && counts[e] <= counts[out->ids[at - 1]]) continue;
        for (; at && counts[e] > counts[out->ids[at - 1]]; at--) out->ids[at] = out->ids[at - 1];
        out->ids[at] = e;
    }
}

static void judge(struct scene *s, uint32_t layer, enum predict_source kind, const struct names *names)
{
    const uint32_t first = s->layers[layer].first_key;
    const uint32_t chosen = predict_width(s->predict, kind, PREDICT_WIDTH_MAX);
    bool came_true[PREDICT_WIDTH_MAX], asked[PREDICT_WIDTH_MAX];
    for (uint32_t i = 0; i < names->n; i++) {
        came_true[i] = s->wanted[names->ids[i]];
        asked[i] = !slots_there(&s->slots, first + names->ids[i]);
        for (uint32_t w = 0; w <= AUTO; w++) {
            if (i >= (w == AUTO ? chosen : widths[w])) continue;
            s->all[kind][w].named++;
            s->all[kind][w].came_true += came_true[i];
            s->missing[kind][w].named += asked[i];
            s->missing[kind][w].came_true += asked[i] && came_true[i];
        }
    }
    s->auto_width[kind] += chosen;
    predict_outcome(s->predict, kind, came_true, asked, names->n);
}

static void run_layer(struct scene *s, uint32_t token, uint32_t layer)
{
    const uint32_t first = s->layers[layer].first_key;
    const uint32_t n = trace_choice(s->trace, token, layer, s->ids, s->weights);
    uint32_t to;
    memset(s->wanted, 0, s->layers[layer].n_expert * sizeof *s->wanted);
    for (uint32_t i = 0; i < n; i++) s->wanted[s->ids[i]] = true;
    if (s->trace->flags[token] & TRACE_DECODE) {
        struct names popular;
        name_popular(s, layer, &popular);
        judge(s, layer, POPULAR, &popular);
        judge(s, layer, PREDICT_TRANSITIONS, &s->across);
        judge(s, layer, PREDICT_NEXT, &s->next[layer]);
        s->n_wanted += n;
        s->n_lists++;
        for (uint32_t i = 0; i < n; i++) s->n_missed += !slots_there(&s->slots, first + s->ids[i]);
    }
    for (uint32_t i = 0; i < n; i++) s->counts[first + s->ids[i]]++;
    policy_route(s->slots.policy, layer, s->ids, s->weights, n, 0);
    slots_want(&s->slots, layer, s->ids, n);
    predict_selected(s->predict, layer, s->ids, n, 0);
    s->across.n = predict_transitions(s->predict, layer, s->ids, n, &to, s->across.ids, PREDICT_WIDTH_MAX);
    s->next[layer].n = predict_next(s->predict, layer, s->ids, n, s->next[layer].ids, PREDICT_WIDTH_MAX);
}

static void run(struct scene *s)
{
    const struct trace *t = s->trace;
    for (uint32_t token = 0; token < t->n_tokens; token++) {
        if (t->flags[token] & TRACE_PROMPT) {
            policy_prompt(s->slots.policy);
            predict_prompt(s->predict);
            for (uint32_t i = 0; i < t->n_layers; i++) s->next[i].n = 0;
        }
        s->across.n = 0;
        for (uint32_t layer = 0; layer < t->n_layers; layer++)
            if (s->layers[layer].n_expert) run_layer(s, token, layer);
        policy_tick(s->slots.policy, 1);
        predict_tick(s->predict, 1);
    }
}

static void print_row(const char *name, const char *kind, const char *over, const struct score *scores, uint64_t n,
                      double width)
{
    printf("| %s | %s | %s |", name, kind, over);
    for (uint32_t w = 0; w <= AUTO; w++) {
        const double came_true = (double)scores[w].came_true;
        printf(" %.0f/%.0f |", scores[w].named ? 100 * came_true / (double)scores[w].named : 0,
               n ? 100 * came_true / (double)n : 0);
    }
    printf(" %.1f |\n", width);
}

static void report(const char *path, uint32_t times)
{
    struct trace t;
    struct sluice_error err;
    struct scene s = {.trace = &t};
    need(trace_read(path, &t, &err), &err);
    s.catalog = catalog_of(&t);
    const struct policy_shape *shape = expert_catalog_policy_shape(s.catalog);
    s.layers = shape->layers;
    const uint64_t slot_bytes[1] = {1};
    struct slots_config config = {.policy = POLICY_AUTO, .shape = shape, .slot_bytes = slot_bytes};
    for (uint32_t i = 0; i < t.n_layers; i++) config.room_bytes += times * shape->layers[i].n_used;
    need(slots_create(&s.slots, &config, &err), &err);
    need(predict_create(s.catalog, 1u << PREDICT_TRANSITIONS | 1u << PREDICT_NEXT, &s.predict, &err), &err);
    const uint32_t n_keys = expert_catalog_n_experts(s.catalog);
    s.counts = room(n_keys, sizeof *s.counts);
    s.ids = room(EXPERT_COUNT_MAX, sizeof *s.ids);
    s.weights = room(EXPERT_COUNT_MAX, sizeof *s.weights);
    s.wanted = room(EXPERT_COUNT_MAX, sizeof *s.wanted);
    s.next = room(t.n_layers, sizeof *s.next);
    run(&s);
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (int kind = 0; kind < KINDS; kind++) {
        const double width = (double)s.auto_width[kind] / (double)s.n_lists;
        print_row(name, kinds[kind], "all", s.all[kind], s.n_wanted, width);
        print_row(name, kinds[kind], "misses", s.missing[kind], s.n_missed, width);
    }
    fprintf(stderr, "%s: %llu slots, %.1f %% of choices missed\n", name, (unsigned long long)config.room_bytes,
            100.0 * (double)s.n_missed / (double)s.n_wanted);
    free(s.next);
    free(s.wanted);
    free(s.weights);
    free(s.ids);
    free(s.counts);
    predict_destroy(s.predict);
    slots_destroy(&s.slots);
    expert_catalog_destroy(s.catalog);
    trace_free(&t);
}

int main(int argc, char **argv)
{
    const long times = argc > 2 ? strtol(argv[1], NULL, 10) : 0;
    if (times < 1 || times > 10000) {
        fprintf(stderr, "predict TIMES TRACE...\n");
        return 2;
    }
    printf("| trace | source | over | w 1 | 2 | 4 | 6 | 8 | 12 | auto | its w "
           "|\n|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (int i = 2; i < argc; i++) report(argv[i], (uint32_t)times);
    return 0;
}
