/* Whether a source pays in this run. It is judged at the end of a window of tokens: if it has cost more than it saved,
 * it rests, each time twice as long, and is tried again for a window. A window that clearly pays makes the next rest
 * short again; one in between changes nothing, so that noise neither switches a source off nor forgives it. */
#include "expert/predict_private.h"

#define WINDOW_TOKENS 32u
#define REST_TOKENS_MIN 64u
#define REST_TOKENS_MAX 4096u
#define MARGIN_DIVISOR 8u /* one side must exceed the other by an eighth to count */

static void gate_begin(struct predict_gate *g)
{
    g->saved_ns = g->cost_ns = 0;
    g->window_tokens = g->rest_tokens = 0;
    g->next_rest = REST_TOKENS_MIN;
}

void predict_gates_begin(struct predict *p)
{
    for (int s = 0; s < PREDICT_SOURCES; s++) {
        struct predict_gate *g = &p->gates[s];
        g->kept = s == PREDICT_LOOKAHEAD || (s == PREDICT_TRANSITIONS ? p->across.counts : p->along.counts) != NULL;
        g->allowed = g->automatic = true;
        gate_begin(g);
    }
}

static void add(uint64_t *sum, uint64_t ns) { *sum = *sum > UINT64_MAX - ns ? UINT64_MAX : *sum + ns; }

void predict_saved(struct predict *p, enum predict_source s, uint64_t ns) { add(&p->gates[s].saved_ns, ns); }
void predict_cost(struct predict *p, enum predict_source s, uint64_t ns) { add(&p->gates[s].cost_ns, ns); }

static bool exceeds(uint64_t a, uint64_t b) { return a > b && a - b > b / MARGIN_DIVISOR; }

static void judge(struct predict_gate *g)
{
    if (exceeds(g->cost_ns, g->saved_ns)) {
        g->rest_tokens = g->next_rest;
        g->next_rest = g->next_rest < REST_TOKENS_MAX / 2 ? 2 * g->next_rest : REST_TOKENS_MAX;
    } else if (exceeds(g->saved_ns, g->cost_ns)) {
        g->next_rest = REST_TOKENS_MIN;
    }
    g->saved_ns = g->cost_ns = 0;
    g->window_tokens = 0;
}

void predict_tick(struct predict *p, uint32_t n_tokens)
{
    predict_ranks_tick(p, n_tokens);
    for (int s = 0; s < PREDICT_SOURCES; s++) {
        struct predict_gate *g = &p->gates[s];
        if (!g->allowed || !g->automatic) continue;
        if (g->rest_tokens) {
            g->rest_tokens = g->rest_tokens > n_tokens ? g->rest_tokens - n_tokens : 0;
            g->saved_ns = g->cost_ns = 0; /* late reports about what was guessed before */
            continue;
        }
        g->window_tokens = n_tokens > WINDOW_TOKENS ? WINDOW_TOKENS : g->window_tokens + n_tokens;
        if (g->window_tokens >= WINDOW_TOKENS) judge(g);
    }
}

bool predict_on(const struct predict *p, enum predict_source s)
{
    const struct predict_gate *g = &p->gates[s];
    return g->kept && g->allowed && (!g->automatic || !g->rest_tokens);
}

void predict_allow(struct predict *p, enum predict_source s, bool allowed, bool automatic)
{
    struct predict_gate *g = &p->gates[s];
    g->allowed = allowed;
    g->automatic = automatic;
    gate_begin(g);
}
