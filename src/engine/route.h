/* How a prompt is read: token by token, selected experts in batches, or whole layers one behind the other, chosen for
 * each chunk from what was measured in this run. */
#ifndef ENGINE_ROUTE_H
#define ENGINE_ROUTE_H

#include "sluice.h"

enum engine_route { ROUTE_TOKEN, ROUTE_SELECTED, ROUTE_LAYERS, ROUTES, ROUTE_AUTO = ROUTES };

#define ROUTE_SIZES 13 /* chunks of 1, 2, 3-4, 5-8, ... 4096 tokens */

/* What is known of this machine and this model; 0: not measured yet. */
struct route_facts {
    double read_bytes_ns;                /* bytes a nanosecond: experts, many at once */
    double whole_bytes_ns;               /* long reads, as of the dense weights */
    double compute_ns[ROUTE_SIZES];      /* of one token in a chunk of that size, without waiting */
    double expert_bytes;                 /* of one */
    uint32_t n_layers, n_expert, n_used; /* layers with experts; of the largest */
    double missing;                      /* share of wanted experts' bytes that had to be read, lately, 0..1 */
    double crowd; /* distinct experts of a chunk, against what independent uniform choices would give; 1: as
                     many */
};

struct route_choice {
    enum engine_route route;
    double ns[ROUTES]; /* predicted; < 0: cannot be told yet */
};

/* Pure. asked: ROUTE_AUTO, or the user's. A chunk of one token has one way. */
void route_choose(const struct route_facts *f, enum engine_route asked, uint32_t n_tokens, struct route_choice *out);
/* The expected number of distinct experts of n tokens in one layer. */
double route_union(const struct route_facts *f, uint32_t n_tokens);
unsigned route_size(uint32_t n_tokens); /* index into compute_ns */

struct engine_routes {
    struct route_facts facts;
    struct {
        uint64_t steps, tokens, layers, predicted_ns, ns, read_bytes;
    } of[ROUTES];
    /* when the running chunk began */
    uint64_t began_ns, wait_ns, read_bytes, wants, busy_ns, io_bytes;
    uint64_t layers_whole, layers_selected;
};

const char *route_name(enum engine_route route); /* "token", "selected", "layers", "auto" */
void routes_open(sluice_engine *e);
/* Chooses for the next n tokens of a prompt; returns how many of them are to be one step (all, unless divisible). */
uint32_t routes_begin(sluice_engine *e, uint32_t n_tokens, bool decode, bool divisible, struct route_choice *choice);
/* What it really took. */
void routes_end(sluice_engine *e, uint32_t n_tokens, bool decode, const struct route_choice *choice);

#endif
