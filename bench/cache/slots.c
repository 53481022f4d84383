/* What an expert costs the cache, and that it does not grow with the number of slots: ns a lookup (wanted, found,
 * pinned, taken, given back) and ns a claim (wanted, missing: a slot is acquired, its expert evicted, a read submitted,
 * reported and taken in) at 500, 2000 and 20,000 slots, for each policy. The disk is none: a read returns at once with
 * nothing, so that bookkeeping alone is measured, the policy's and io's included.
 *
 * The model grows with the cache (5, 20 and 200 layers of 256 experts, 8 used a token, 100 slots a layer), and hits are
 * equal by construction: lookups choose experts that are there, claims experts that are not. Sizes take turns within a
 * run; of several runs the least counts.
 *
 * Beside them, what the processor's caches cost by themselves: ns to read and write a word at a random place of a plain
 * array that is as large as the cache's books grow with its slots (that of 20,000 slots is larger than many a second
 * cache), one after the other.
 *
 *     slots [RUNS] [POLICY] */
#include "expert/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_EXPERT 256u
#define N_USED 8u
#define SLOTS_PER_LAYER 100u
#define N_SIZES 3
#define LAYERS_MAX 200u
#define PART_BYTES 1024u
#define SELECTIONS 160000u /* of each kind in a run */

static const uint32_t n_layers_of[N_SIZES] = {5, 20, LAYERS_MAX};

#define TOUCHES (1u << 20)

enum what { LOOKUP, CLAIM, WHATS };
static const char *const what_names[WHATS] = {"lookup", "claim"};

static void must(bool good, const struct sluice_error *err)
{
    if (good) return;
    fprintf(stderr, "slots: %s\n", err->message[0] ? err->message : "out of memory");
    exit(1);
}

/* ---- a disk that takes no time ---- */

static int file_info(void *user, int fd, struct os_file_info *info)
{
    (void)user;
    (void)fd;
    *info = (struct os_file_info){.bytes = UINT64_C(1) << 40, .regular = true};
    return 0;
}

static ssize_t read_nothing(void *user, int fd, void *buf, size_t bytes, uint64_t offset)
{
    (void)user;
    (void)fd;
    (void)buf;
    (void)offset;
    return (ssize_t)bytes;
}

static int drop_nothing(void *user, int fd, uint64_t offset, uint64_t bytes)
{
    (void)user;
    (void)fd;
    (void)offset;
    (void)bytes;
    return 0;
}

/* ---- one cache ---- */

struct rig {
    struct os_calls os;
    struct io *io;
    struct expert_catalog *catalog;
    struct expert_cache *cache;
    uint32_t n_layers;
    uint64_t random;
};

static uint32_t next(struct rig *r)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->random >> 33);
}

static void rig_open(struct rig *r, enum policy_kind policy, uint32_t n_layers)
{
    static struct expert_layer layers[LAYERS_MAX];
    struct sluice_error err = {0};
    uint32_t file;
    *r = (struct rig){.os = *os_system(), .n_layers = n_layers, .random = n_layers};
    r->os.file_info = file_info;
    r->os.pread = read_nothing;
    r->os.drop_cached = drop_nothing;
    const struct io_config io = {.os = &r->os, .backend = IO_SYNC, .buffered = true};
    must(!io_open(&io, &r->io, &err), &err);
    must(!io_file_add(r->io, "/dev/null", &file, &err), &err);
    for (uint32_t l = 0; l < n_layers; l++) {
        layers[l] = (struct expert_layer){.n_expert = N_EXPERT, .n_used = N_USED, .n_parts = 3, .n_parts_first = 2};
        for (uint32_t p = 0; p < 3; p++) {
            layers[l].part[p].file = file;
            layers[l].part[p].offset = (uint64_t)(l * 3 + p) * N_EXPERT * PART_BYTES;
            layers[l].part[p].bytes = PART_BYTES;
            layers[l].part[p].stride_bytes = PART_BYTES;
        }
    }
    must(!expert_catalog_create(layers, n_layers, 1, &r->catalog, &err), &err);
    const struct expert_cache_config config = {.os = &r->os,
                                               .io = r->io,
                                               .catalog = r->catalog,
                                               .policy = policy,
                                               .slots_bytes = (uint64_t)n_layers * SLOTS_PER_LAYER *
                                                              expert_catalog_class(r->catalog, 0)->slot_bytes};
    must(!expert_cache_create(&config, &r->cache, &err), &err);
}

static void rig_close(struct rig *r)
{
    expert_cache_destroy(r->cache);
    expert_catalog_destroy(r->catalog);
    io_close(r->io);
}

static void walk(struct rig *r, uint32_t layer, const uint32_t ids[N_USED])
{
    struct sluice_error err = {0};
    struct expert_view view;
    must(!expert_want(r->cache, layer, ids, N_USED, &err), &err);
    for (uint32_t i = 0; i < N_USED; i++) {
        must(!expert_take(r->cache, &view, &err) && !expert_finish(r->cache, &view, &err), &err);
        expert_give(r->cache, &view);
    }
}

/* Distinct experts of the layer that are there, or are not; false: it has too few. */
static bool choose(struct rig *r, uint32_t layer, bool resident, uint32_t ids[N_USED])
{
    const uint32_t begin = next(r) % N_EXPERT, stride = next(r) % (N_EXPERT / 2) * 2 + 1; /* odd: meets all */
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_EXPERT && n < N_USED; i++) {
        const uint32_t id = (begin + i * stride) % N_EXPERT;
        if (expert_resident(r->cache, layer, id) == resident) ids[n++] = id;
    }
    return n == N_USED;
}

/* Token after token; only the cache's work is timed: the choice is told, wanted, taken and given. */
static double measure(struct rig *r, enum what what, uint32_t selections)
{
    uint64_t ns = 0, n = 0;
    while (n < selections) {
        expert_step(r->cache, 1, true);
        for (uint32_t l = 0; l < r->n_layers; l++) {
            uint32_t ids[N_USED];
            if (!choose(r, l, what == LOOKUP, ids)) continue;
            const uint64_t begin = r->os.now_ns(r->os.user);
            expert_selected(r->cache, l, ids, NULL, N_USED, 0);
            walk(r, l, ids);
            ns += r->os.now_ns(r->os.user) - begin;
            n += N_USED;
        }
        expert_tick(r->cache, 1);
    }
    return (double)ns / (double)n;
}

/* ---- a plain array ---- */

static size_t book_bytes(uint32_t n_layers)
{
    struct rig r;
    rig_open(&r, POLICY_AUTO, n_layers);
    const uint64_t slots_bytes = (uint64_t)n_layers * SLOTS_PER_LAYER * expert_catalog_class(r.catalog, 0)->slot_bytes;
    const size_t bytes = expert_cache_memory_bytes(r.catalog, slots_bytes);
    rig_close(&r);
    return bytes;
}

/* Each place depends on what was found at the one before, which is 0. */
static double touch(volatile uint64_t *words, size_t n_words)
{
    struct rig r = {.random = n_words};
    const struct os_calls *os = os_system();
    uint64_t x = 0;
    const uint64_t begin = os->now_ns(os->user);
    for (uint32_t i = 0; i < TOUCHES; i++) {
        const size_t at = (next(&r) + x) * n_words >> 31;
        x = words[at];
        words[at] = x;
    }
    return (double)(os->now_ns(os->user) - begin) / TOUCHES;
}

static void print_touches(int n_runs)
{
    const size_t least = book_bytes(n_layers_of[0]), most = book_bytes(n_layers_of[N_SIZES - 1]);
    const double per_layer = (double)(most - least) / (n_layers_of[N_SIZES - 1] - n_layers_of[0]);
    uint64_t *words = calloc(1, most);
    double b[N_SIZES] = {0};
    must(words != NULL, &(struct sluice_error){0});
    for (int run = 0; run < n_runs; run++)
        for (int s = 0; s < N_SIZES; s++) {
            const double ns = touch(words, (size_t)(per_layer * n_layers_of[s]) / sizeof *words);
            if (run == 0 || ns < b[s]) b[s] = ns;
        }
    free(words);
    printf("| plain array of %.0f bytes a slot | touch | %.1f | %.1f | %.1f | %.2f | %.2f |\n",
           per_layer / SLOTS_PER_LAYER, b[0], b[1], b[2], b[1] / b[0], b[2] / b[0]);
}

int main(int argc, char **argv)
{
    static double best[POLICY_KINDS][WHATS][N_SIZES];
    static struct rig rigs[N_SIZES];
    const int n_runs = argc > 1 ? atoi(argv[1]) : 5;
    enum policy_kind only = POLICY_AUTO;
    if (n_runs < 1 || (argc > 2 && !policy_by_name(argv[2], &only))) return 2;
    for (int kind = 0; kind < POLICY_KINDS; kind++) {
        if (argc > 2 && kind != (int)only) continue;
        for (int s = 0; s < N_SIZES; s++) {
            rig_open(&rigs[s], (enum policy_kind)kind, n_layers_of[s]);
            measure(&rigs[s], CLAIM, 3 * n_layers_of[s] * SLOTS_PER_LAYER); /* it fills */
        }
        for (int run = 0; run < n_runs; run++)
            for (int s = 0; s < N_SIZES; s++)
                for (int what = 0; what < WHATS; what++) {
                    const double ns = measure(&rigs[s], (enum what)what, SELECTIONS);
                    if (run == 0 || ns < best[kind][what][s]) best[kind][what][s] = ns;
                }
        for (int s = 0; s < N_SIZES; s++) rig_close(&rigs[s]);
    }
    printf("| policy | what | 500 slots, ns | 2000 | 20,000 | 2000 / 500 | 20,000 / 500 "
           "|\n|---|---|---|---|---|---|---|\n");
    print_touches(n_runs);
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        for (int what = 0; what < WHATS; what++) {
            const double *b = best[kind][what];
            if (argc > 2 && kind != (int)only) continue;
            printf("| %s | %s | %.0f | %.0f | %.0f | %.2f | %.2f |\n", policy_name((enum policy_kind)kind),
                   what_names[what], b[0], b[1], b[2], b[1] / b[0], b[2] / b[0]);
        }
    return 0;
}
