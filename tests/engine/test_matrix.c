/* The invariance matrix: for one model and prompt the logits are the same bits whatever the cache size, eviction
 * policy, thread count, read back end, prefill chunk, instruction set, guesses and prefill
 * route. `make test` covers every pair of settings (a
 * greedy covering array); SLUICE_MATRIX=full runs the whole product. This test may never be weakened. */
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BUDGET, POLICY, THREADS, IO, CHUNK, ISA, PREFETCH, ROUTE, FACTORS };
#define VALUES_MAX 8

enum budget { FLOOR, FLOOR_AND_ONE, HALF, ALL };
static const char *const budget_names[] = {"floor", "floor+1", "half", "all"};
static const char *const policies[] = {"lru", "hotness", "lfu", "freq-age", "expected", "recall"};
static const uint32_t thread_counts[] = {1, 2, 3, 8};
static const char *const backends[] = {"uring", "threads", "sync", "uring:buffered", "threads:buffered"};
static const uint32_t chunks[] = {1, 2, 7, 32, 512};
static const char *levels[KERNEL_LEVELS];

static const char *const prefetches[] = {"off", "auto", "lookahead,transitions,next"};
static const char *const routes[] = {"auto", "token", "selected", "layers"};

static unsigned n_values[FACTORS] = {4, 6, 4, 5, 5, 0, 3, 4};

struct config {
    unsigned v[FACTORS];
};

struct subject {
    const char *path;
    int32_t *ids;
    size_t n, n_vocab;
    float *want;
    uint64_t floor_bytes, all_bytes, one_bytes; /* of expert slots */
};

static bool uring_works(const char *model)
{
    static int known = -1;
    if (known < 0) {
        struct sluice_options o = support_options(model);
        o.io = "uring";
        o.plan_only = true;
        sluice_engine *e;
        known = !sluice_engine_open(&o, &e, NULL);
        if (known) sluice_engine_close(e);
    }
    return known;
}

/* What this machine offers: a back end or a level that is missing is left out, with a line. */
static void find_values(const char *model)
{
    struct os_cpu cpu;
    os_cpu(&cpu);
    static const char *const names[] = {"scalar", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct kernel_table *t;
        if (!kernel_select(&cpu, names[i], &t, NULL))
            levels[n_values[ISA]++] = names[i];
        else
            print_message("matrix: this CPU has no %s\n", names[i]);
    }
    if (!uring_works(model)) print_message("matrix: io_uring cannot be had here; its rows use threads\n");
}

static void plan_subject(struct subject *s)
{
    struct sluice_options o = support_options(s->path);
    o.plan_only = true;
    sluice_engine *e;
    struct sluice_error err;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    struct sluice_ledger l;
    sluice_ledger(e, &l);
    s->floor_bytes = l.slots_floor_bytes;
    s->all_bytes = l.slots_all_bytes;
    for (uint32_t i = 0; i < expert_catalog_n_classes(e->catalog); i++) {
        uint64_t b = expert_catalog_class(e->catalog, i)->slot_bytes;
        if (b > s->one_bytes) s->one_bytes = b;
    }
    sluice_engine_close(e);
}

static void describe(const struct config *c, char *out, size_t bytes)
{
    snprintf(out, bytes, "budget %s, policy %s, %u threads, io %s, chunk %u, cpu %s, prefetch %s, route %s",
             budget_names[c->v[BUDGET]], policies[c->v[POLICY]], thread_counts[c->v[THREADS]], backends[c->v[IO]],
             chunks[c->v[CHUNK]], levels[c->v[ISA]], prefetches[c->v[PREFETCH]], routes[c->v[ROUTE]]);
}

static void run_one(const struct subject *s, const struct config *c)
{
    char what[200], experts[32];
    describe(c, what, sizeof what);
    const uint64_t bytes[] = {s->floor_bytes, s->floor_bytes + s->one_bytes,
                              s->all_bytes / 2 > s->floor_bytes ? s->all_bytes / 2 : s->floor_bytes, s->all_bytes};
    snprintf(experts, sizeof experts, "%lluB", (unsigned long long)bytes[c->v[BUDGET]]);
    struct sluice_options o = support_options(s->path);
    o.experts = experts;
    o.policy = policies[c->v[POLICY]];
    o.threads = thread_counts[c->v[THREADS]];
    o.io = backends[c->v[IO]];
    if (!uring_works(s->path) && !strncmp(o.io, "uring", 5)) o.io = o.io[5] ? "threads:buffered" : "threads";
    o.chunk = chunks[c->v[CHUNK]];
    o.cpu = levels[c->v[ISA]];
    o.prefetch = prefetches[c->v[PREFETCH]];
    o.route = routes[c->v[ROUTE]];
    float *got;
    size_t n_vocab;
    struct sluice_error err;
    if (support_logits(NULL, &o, s->ids, s->n, &got, &n_vocab, &err))
        fail_msg("%s: %s (%s)", what, err.message, err.hint);
    assert_int_equal(n_vocab, s->n_vocab);
    if (memcmp(got, s->want, s->n * n_vocab * sizeof *got)) {
        size_t i = 0;
        while (!memcmp(&got[i], &s->want[i], sizeof *got)) i++;
        fail_msg("%s: %s: logits differ from token %zu, entry %zu on: %.9g, expected %.9g", s->path, what, i / n_vocab,
                 i % n_vocab, (double)got[i], (double)s->want[i]);
    }
    free(got);
}

/* ---- covering array: configurations until every pair of values of every two factors has been seen together ---- */

struct pairs {
    bool seen[FACTORS][VALUES_MAX][FACTORS][VALUES_MAX];
    size_t left;
};

static void pairs_init(struct pairs *p)
{
    memset(p, 0, sizeof *p);
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++) p->left += (size_t)n_values[a] * n_values[b];
}

static size_t pairs_new(struct pairs *p, const struct config *c, bool take)
{
    size_t n = 0;
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++) {
            bool *seen = &p->seen[a][c->v[a]][b][c->v[b]];
            if (*seen) continue;
            n++;
            if (take) *seen = true;
        }
    if (take) p->left -= n;
    return n;
}

static bool next_config(struct config *c)
{
    for (int f = 0; f < FACTORS; f++) {
        if (++c->v[f] < n_values[f]) return true;
        c->v[f] = 0;
    }
    return false;
}

static void run_matrix(struct subject *s)
{
    /* Under a sanitizer a token costs ten times as much: a shorter prompt, the same settings. */
    if (getenv("SLUICE_TEST_COMPACT") && s->n > 12) s->n = 12;
    plan_subject(s);
    /* The reference: everything in memory, one thread, scalar, the whole prompt in one chunk. */
    struct sluice_options o = support_options(s->path);
    o.threads = 1;
    o.cpu = "scalar";
    o.io = "sync";
    struct sluice_error err;
    if (support_logits(NULL, &o, s->ids, s->n, &s->want, &s->n_vocab, &err)) fail_msg("%s (%s)", err.message, err.hint);

    const char *mode = getenv("SLUICE_MATRIX");
    const bool full = mode && !strcmp(mode, "full");
    struct pairs p;
    pairs_init(&p);
    size_t runs = 0;
    struct config c = {{0}};
    if (full) {
        do {
            run_one(s, &c);
            runs++;
        } while (next_config(&c));
    } else {
        while (p.left) {
            struct config best = {{0}};
            size_t best_new = 0;
            c = (struct config){{0}};
            do {
                size_t n = pairs_new(&p, &c, false);
                if (n > best_new) {
                    best_new = n;
                    best = c;
                }
            } while (next_config(&c));
            assert_true(best_new > 0);
            pairs_new(&p, &best, true);
            run_one(s, &best);
            runs++;
        }
    }
    print_message("matrix: %s: %zu configurations (%s), %zu tokens, all bits equal\n", s->path, runs,
                  full ? "full product" : "every pair", s->n);
    free(s->want);
    free(s->ids);
}

static void bundled_model(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX], path[SUPPORT_PATH_MAX];
    support_source("models/demo.gguf", model);
    support_source("tests/golden/demo/demo-tokens.txt", path);
    struct subject s = {.path = model};
    s.ids = support_tokens(path, &s.n);
    find_values(model);
    run_matrix(&s);
}

static void mixed_precision(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX], path[SUPPORT_PATH_MAX];
    assert_true(support_golden("blend/blend.gguf", model));
    assert_true(support_golden("quant/tokens.txt", path));
    struct subject s = {.path = model};
    s.ids = support_tokens(path, &s.n);
    run_matrix(&s);
}

static void rare_formats(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX], path[SUPPORT_PATH_MAX];
    assert_true(support_golden("rare/rare.gguf", model));
    assert_true(support_golden("quant/tokens.txt", path));
    struct subject s = {.path = model};
    s.ids = support_tokens(path, &s.n);
    run_matrix(&s);
}

static void shared_expert(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX], path[SUPPORT_PATH_MAX];
    assert_true(support_golden("arch/qwen2moe-moe.gguf", model));
    assert_true(support_golden("arch/tokens.txt", path));
    struct subject s = {.path = model};
    s.ids = support_tokens(path, &s.n);
    run_matrix(&s);
}

/* Architectures whose layers have more to get wrong: windows, sinks and biases; recurrent state; heads by layer and one
 * tensor for gate and up. SLUICE_MATRIX_ARCHS names others, comma-separated, and then nothing else is run
 * (engine.matrix_archs: all the others). */
static void architectures(void **state)
{
    (void)state;
    const char *list = getenv("SLUICE_MATRIX_ARCHS");
    const size_t most = list ? 20 : 40; /* 40: past the windows of the models that have some */
    char names[1024];
    snprintf(names, sizeof names, "%s",
             list ? list : "gpt-oss-yarn,lfm2moe-moe,qwen35moe-moe,gemma4-moe,deepseek4-table");
    char *rest = names;
    for (const char *name; (name = strsep(&rest, ","));) {
        char gguf[96], model[SUPPORT_PATH_MAX], path[SUPPORT_PATH_MAX];
        snprintf(gguf, sizeof gguf, "arch/%s.gguf", name);
        if (!support_golden(gguf, model)) {
            assert_non_null(list); /* the repository has those of every day */
            continue;
        }
        if (list && !levels[0]) find_values(model);
        assert_true(support_golden("arch/tokens.txt", path));
        struct subject s = {.path = model};
        s.ids = support_tokens(path, &s.n);
        if (s.n > most) s.n = most;
        run_matrix(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bundled_model), cmocka_unit_test(mixed_precision),
                                       cmocka_unit_test(rare_formats), cmocka_unit_test(shared_expert),
                                       cmocka_unit_test(architectures)};
    const struct CMUnitTest others[] = {cmocka_unit_test(architectures)};
    if (getenv("SLUICE_MATRIX_ARCHS")) return cmocka_run_group_tests(others, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
