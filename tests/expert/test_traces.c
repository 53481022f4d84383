/* The policies on recorded routings: hit rates in decode with a cache of some times K experts a layer (K: experts used
 * a token), next to those measured with plain models. `lru` must be the same; `hotness` at least as good as counts that
 * are halved as integers (real halving is better where few experts are used a token). Skipped without the traces. */
#include "expert/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_EXPERT 128
#define LAYERS_MAX 64
#define ROWS_MAX 60000
#define USED_MAX 8

struct row {
    uint32_t phase, step, layer, expert;
};
struct trace {
    struct row rows[ROWS_MAX];
    uint32_t n_rows, n_layers, n_used;
};

static struct trace trace;

static bool load(const char *name)
{
    char path[4096], line[256];
    const char *shared = getenv("SLUICE_SHARED");
    snprintf(path, sizeof path, "%s/traces/%s.csv", shared ? shared : ".", name);
    FILE *f = fopen(path, "r");
    if (!f) return false;
    trace.n_rows = trace.n_layers = trace.n_used = 0;
    while (fgets(line, sizeof line, f)) {
        unsigned turn, phase, step, layer, slot, expert;
        if (sscanf(line, "%u,%u,%u,%u,%u,%u", &turn, &phase, &step, &layer, &slot, &expert) != 6) continue;
        assert_true(trace.n_rows < ROWS_MAX && layer < LAYERS_MAX && expert < N_EXPERT && slot < USED_MAX);
        trace.rows[trace.n_rows++] = (struct row){phase, step, layer, expert};
        if (layer >= trace.n_layers) trace.n_layers = layer + 1;
        if (slot >= trace.n_used) trace.n_used = slot + 1;
    }
    fclose(f);
    return true;
}

/* Per cent of decode's experts that were there. */
static double replay(enum policy_kind kind, uint32_t slots)
{
    static bool there[LAYERS_MAX * N_EXPERT];
    uint32_t n_there[LAYERS_MAX] = {0}, n_prefill = 0, hits = 0, wanted = 0;
    struct policy *p = NULL;
    memset(there, 0, sizeof there);
    struct policy_layer layers[LAYERS_MAX];
    for (uint32_t l = 0; l < trace.n_layers; l++)
        layers[l] = (struct policy_layer){l * N_EXPERT, N_EXPERT, trace.n_used, l};
    struct policy_shape shape = {.layers = layers, .n_layers = trace.n_layers, .n_classes = trace.n_layers};
    assert_int_equal(policy_create(kind, &shape, &p, NULL), SLUICE_OK);
    policy_prompt(p);
    for (uint32_t i = 0, n; i < trace.n_rows; i += n) {
        const struct row *r = &trace.rows[i];
        bool decode = r->phase == 1;
        for (n = 1; i + n < trace.n_rows && r[n].step == r->step && r[n].layer == r->layer; n++) {
        }
        assert_true(n <= USED_MAX);
        if (decode && (i == 0 || r[-1].phase == 0)) policy_tick(p, n_prefill);
        if (decode && r[-1].phase == 1 && r[-1].step != r->step) policy_tick(p, 1);
        if (!decode && r->step >= n_prefill) n_prefill = r->step + 1;
        bool miss[USED_MAX];
        uint32_t ids[USED_MAX];
        for (uint32_t k = 0; k < n; k++) ids[k] = r[k].expert;
        policy_route(p, r->layer, ids, NULL, n, decode ? 0 : r->step);
        for (uint32_t k = 0; k < n; k++) { /* hits are pinned */
            uint32_t key = r->layer * N_EXPERT + r[k].expert;
            miss[k] = !there[key];
            if (!miss[k]) policy_remove(p, r->layer, key);
            hits += decode && !miss[k];
            wanted += decode;
        }
        for (uint32_t k = 0; k < n; k++) {
            if (!miss[k]) continue;
            if (n_there[r->layer] == slots) {
                uint32_t victim = policy_victim(p, r->layer);
                policy_remove(p, r->layer, victim);
                there[victim] = false;
            } else {
                n_there[r->layer]++;
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            policy_insert(p, r->layer, r->layer * N_EXPERT + r[k].expert);
            there[r->layer * N_EXPERT + r[k].expert] = true;
        }
    }
    policy_destroy(p);
    return 100.0 * hits / wanted;
}

static const struct {
    const char *name;
    double lru[5], hotness[5]; /* at 2K, 3K, 4K, 6K, 8K */
} measured[] = {
    {"qwen", {52.2, 64.7, 72.8, 85.0, 91.7}, {56.6, 67.3, 75.2, 85.9, 92.1}},
    {"gemma", {52.3, 64.6, 72.2, 83.0, 90.7}, {57.4, 67.9, 74.9, 83.7, 90.6}},
    {"gptoss", {33.8, 45.4, 51.6, 59.6, 65.7}, {30.9, 40.8, 47.3, 56.2, 62.8}},
};
#define CLOSE 1.0 /* points: those models broke ties otherwise */

int main(void)
{
    static const uint32_t times[5] = {2, 3, 4, 6, 8};
    int failures = 0;
    for (size_t t = 0; t < sizeof measured / sizeof *measured; t++) {
        if (!load(measured[t].name)) {
            printf("skipped: no traces/%s.csv\n", measured[t].name);
            return 77;
        }
        for (int i = 0; i < 5; i++) {
            double lru = replay(POLICY_LRU, times[i] * trace.n_used),
                   heat = replay(POLICY_HOTNESS, times[i] * trace.n_used);
            double off_lru = lru - measured[t].lru[i], off_heat = heat - measured[t].hotness[i];
            bool good = off_lru < CLOSE && off_lru > -CLOSE && off_heat > -CLOSE;
            printf("%-7s %uK  lru %.1f (%+.1f)  hotness %.1f (%+.1f)%s\n", measured[t].name, times[i], lru, off_lru,
                   heat, off_heat, good ? "" : "  too far");
            failures += !good;
        }
    }
    return failures ? 1 : 0;
}
