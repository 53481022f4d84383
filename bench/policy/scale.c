/* What a selection costs the policies, and that it does not grow with the cache: ns a selection at 100, 1000 and 20,000
 * slots. The model grows with the cache (1, 10 and 200 layers of 256 experts, 8 used a token), so that hits and misses
 * stay in the same proportion. The trace is synthetic: experts of falling popularity, and some of a token's are those
 * of the token before. Every selection is what the engine makes of it: the router's choice is told, a resident expert
 * is pinned and given back, a miss takes a victim out and another one in. Time is that of the thread's processor, the
 * least of some runs. The table is in docs/CACHE-MEASURED.md.
 *
 *     scale [RUNS] */
#include "expert/policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_EXPERT 256u
#define N_USED 8u
#define N_REPEATED 3u /* of them chosen by the token before */
#define N_SIZES 3
#define SLOTS_PER_LAYER 100u
#define LAYERS_MAX 200u
#define N_SELECTIONS 1600000u

static const uint32_t n_layers_of[N_SIZES] = {1, 10, LAYERS_MAX};

struct rng {
    uint64_t state;
};

static uint32_t next(struct rng *r)
{
    r->state = r->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->state >> 33);
}

/* Falling popularity: the product of two uniform numbers. */
static uint32_t draw(struct rng *r, uint32_t n)
{
    uint64_t a = next(r) & 0xffff, b = next(r) & 0xffff;
    return (uint32_t)(a * b * n >> 32);
}

static bool has(const uint32_t *ids, uint32_t n, uint32_t id)
{
    while (n > 0 && ids[n - 1] != id) n--;
    return n > 0;
}

/* [n_tokens][n_layers][N_USED], distinct within a layer */
static uint32_t *make_trace(uint32_t n_layers, uint32_t n_tokens)
{
    struct rng r = {n_layers};
    const size_t step = (size_t)n_layers * N_USED;
    uint32_t *ids = malloc(n_tokens * step * sizeof *ids);
    if (!ids) exit(1);
    for (size_t at = 0; at < n_tokens * step; at += N_USED)
        for (uint32_t n = 0; n < N_USED; n++) {
            uint32_t id = at >= step && n < N_REPEATED ? ids[at - step + 2 * n] : draw(&r, N_EXPERT);
            while (has(ids + at, n, id)) id = (id + 1) % N_EXPERT;
            ids[at + n] = id;
        }
    return ids;
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* not what others take of the processor */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

struct run {
    struct policy *policy;
    bool *resident; /* [n_layers * N_EXPERT] */
    uint32_t n_free;
    uint64_t n_misses;
};

static void select_one(struct run *r, uint32_t key)
{
    if (r->resident[key]) {
        policy_remove(r->policy, 0, key);
        return;
    }
    r->n_misses++;
    r->resident[key] = true;
    if (r->n_free) {
        r->n_free--;
        return;
    }
    uint32_t victim = policy_victim(r->policy, 0);
    policy_remove(r->policy, 0, victim);
    r->resident[victim] = false;
}

/* ns a selection, all calls of the policy included. */
static double measure(enum policy_kind kind, uint32_t n_layers, const uint32_t *ids, uint32_t n_tokens, double *misses)
{
    struct policy_layer layers[LAYERS_MAX];
    struct run r = {.n_free = SLOTS_PER_LAYER * n_layers};
    for (uint32_t l = 0; l < n_layers; l++)
        layers[l] = (struct policy_layer){.first_key = l * N_EXPERT, .n_expert = N_EXPERT, .n_used = N_USED};
    struct policy_shape shape = {.layers = layers, .n_layers = n_layers, .n_classes = 1};
    struct sluice_error err;
    r.resident = calloc((size_t)n_layers * N_EXPERT, sizeof *r.resident);
    if (!r.resident || policy_create(kind, &shape, &r.policy, &err)) exit(1);
    const uint32_t warm = n_tokens / 3; /* the cache fills */
    double begin = 0;
    for (uint32_t t = 0; t < n_tokens; t++) {
        if (t == warm) {
            begin = now_ns();
            r.n_misses = 0;
        }
        for (uint32_t l = 0; l < n_layers; l++, ids += N_USED) {
            policy_route(r.policy, l, ids, NULL, N_USED, 0);
            for (uint32_t i = 0; i < N_USED; i++) select_one(&r, l * N_EXPERT + ids[i]);
            for (uint32_t i = 0; i < N_USED; i++) policy_insert(r.policy, 0, l * N_EXPERT + ids[i]);
        }
        policy_tick(r.policy, 1);
    }
    const double n = (double)(n_tokens - warm) * n_layers * N_USED, ns = (now_ns() - begin) / n;
    *misses = 100 * (double)r.n_misses / n;
    policy_destroy(r.policy);
    free(r.resident);
    return ns;
}

int main(int argc, char **argv)
{
    const int n_runs = argc > 1 ? atoi(argv[1]) : 5;
    double best[POLICY_KINDS][N_SIZES], misses[POLICY_KINDS][N_SIZES];
    if (n_runs < 1) return 2;
    for (int s = 0; s < N_SIZES; s++) {
        const uint32_t n_tokens = N_SELECTIONS / (n_layers_of[s] * N_USED);
        uint32_t *ids = make_trace(n_layers_of[s], n_tokens);
        for (int n = 0; n < n_runs; n++)
            for (int kind = 0; kind < POLICY_KINDS; kind++) {
                double ns = measure((enum policy_kind)kind, n_layers_of[s], ids, n_tokens, &misses[kind][s]);
                if (n == 0 || ns < best[kind][s]) best[kind][s] = ns;
            }
        free(ids);
    }
    printf("| policy | 100 slots | 1000 | 20,000 | 20,000 / 100 | misses |\n|---|---|---|---|---|---|\n");
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        printf("| %s | %.0f | %.0f | %.0f | %.1f | %.0f, %.0f, %.0f %% |\n", policy_name((enum policy_kind)kind),
               best[kind][0], best[kind][1], best[kind][2], best[kind][2] / best[kind][0], misses[kind][0],
               misses[kind][1], misses[kind][2]);
    return 0;
}
