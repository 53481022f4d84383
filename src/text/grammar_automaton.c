#include "text/grammar_automaton.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

void automaton_free(struct automaton *a)
{
    free(a->states);
    free(a->edges);
    free(a->rules);
    *a = (struct automaton){0};
}

size_t automaton_memory_bytes(const struct automaton *a)
{
    return a->room_states * sizeof *a->states + a->room_edges * sizeof *a->edges + a->room_rules * sizeof *a->rules;
}

/* Room for one more of n things; false: there is none, which is noted. */
static bool grow(struct automaton *a, void **at, uint32_t n, uint32_t *room, uint32_t most, size_t bytes)
{
    if (n < *room) return true;
    if (n >= most) {
        a->too_large = true;
        return false;
    }
    uint32_t more = *room ? *room * 2 : 256;
    if (more > most) more = most;
    void *grown = realloc(*at, more * bytes);
    if (!grown) {
        a->no_memory = true;
        return false;
    }
    *at = grown;
    *room = more;
    return true;
}

uint32_t automaton_state(struct automaton *a, uint32_t rule)
{
    void *at = a->states;
    const bool room = grow(a, &at, a->n_states, &a->room_states, AUTOMATON_STATES_MAX, sizeof *a->states);
    a->states = at;
    if (!room) return 0;
    a->states[a->n_states] = (struct automaton_state){.rule = rule, .edges = NONE, .height = AUTOMATON_ENDLESS};
    return a->n_states++;
}

uint32_t automaton_rule(struct automaton *a, uint32_t least, uint32_t most)
{
    void *at = a->rules;
    const bool room = grow(a, &at, a->n_rules, &a->room_rules, AUTOMATON_RULES_MAX, sizeof *a->rules);
    a->rules = at;
    if (!room) return 0;
    const uint32_t rule = a->n_rules++;
    a->rules[rule] = (struct automaton_rule){.least = least, .most = most, .height = AUTOMATON_ENDLESS};
    const uint32_t start = automaton_state(a, rule);
    a->rules[rule].start = start;
    return rule;
}

void automaton_accept(struct automaton *a, uint32_t state)
{
    if (a->n_states) a->states[state].accepts = true;
}

static void edge(struct automaton *a, uint32_t from, struct automaton_edge e)
{
    void *at = a->edges;
    const bool room = grow(a, &at, a->n_edges, &a->room_edges, AUTOMATON_EDGES_MAX, sizeof *a->edges);
    a->edges = at;
    if (!room || !a->n_states) return;
    e.next = a->states[from].edges;
    a->edges[a->n_edges] = e;
    a->states[from].edges = a->n_edges++;
    a->states[from].reads = a->states[from].reads || e.kind == EDGE_BYTES;
}

void automaton_bytes(struct automaton *a, uint32_t from, uint8_t low, uint8_t high, uint32_t to, unsigned flags)
{
    edge(a, from,
         (struct automaton_edge){.kind = EDGE_BYTES, .flags = (uint8_t)flags, .low = low, .high = high, .to = to});
}

void automaton_call(struct automaton *a, uint32_t from, uint32_t rule, uint32_t to, unsigned flags)
{
    edge(a, from, (struct automaton_edge){.kind = EDGE_CALL, .flags = (uint8_t)flags, .rule = rule, .to = to});
}

void automaton_empty(struct automaton *a, uint32_t from, uint32_t to, unsigned flags)
{
    edge(a, from, (struct automaton_edge){.kind = EDGE_EMPTY, .flags = (uint8_t)flags, .to = to});
}

uint32_t automaton_byte(struct automaton *a, uint32_t from, char byte)
{
    if (!a->n_states) return 0;
    const uint32_t to = automaton_state(a, a->states[from].rule);
    automaton_bytes(a, from, (uint8_t)byte, (uint8_t)byte, to, 0);
    return to;
}

uint32_t automaton_word(struct automaton *a, uint32_t from, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n && a->n_states; i++) {
        uint32_t e = a->states[from].edges;
        const uint8_t byte = (uint8_t)bytes[i];
        while (e != NONE && !(a->edges[e].kind == EDGE_BYTES && a->edges[e].low == byte && a->edges[e].high == byte &&
                              !a->edges[e].flags && a->states[a->edges[e].to].literal))
            e = a->edges[e].next;
        if (e != NONE)
            from = a->edges[e].to;
        else {
            from = automaton_byte(a, from, bytes[i]);
            a->states[from].literal = true;
        }
        if (a->too_large || a->no_memory) break;
    }
    return from;
}

/* ---- finishing ---- */

/* The height through an edge, from what is known so far. */
static uint32_t through(const struct automaton *a, const struct automaton_edge *e)
{
    const uint32_t rest = a->states[e->to].height;
    uint32_t call = 0;
    if (e->kind == EDGE_CALL) call = a->rules[e->rule].height;
    if (rest == AUTOMATON_ENDLESS || call == AUTOMATON_ENDLESS) return AUTOMATON_ENDLESS;
    if (e->kind == EDGE_CALL) call++;
    return call > rest ? call : rest;
}

static bool lower(struct automaton *a, uint32_t s)
{
    struct automaton_state *state = &a->states[s];
    uint32_t best = state->accepts ? 0 : AUTOMATON_ENDLESS;
    for (uint32_t e = state->edges; e != NONE; e = a->edges[e].next) {
        const uint32_t h = through(a, &a->edges[e]);
        if (h < best) best = h;
    }
    if (best >= state->height) return false;
    state->height = best;
    if (a->rules[state->rule].start == s) a->rules[state->rule].height = best;
    return true;
}

/* Heights only fall, and states are mostly made front to back: a few rounds from the back suffice. */
static void find_heights(struct automaton *a)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t s = a->n_states; s-- > 0;) changed = lower(a, s) || changed;
    }
}

/* Puts each state's edges beside one another, in the order in which they were made, without those that lead nowhere. */
static bool order_edges(struct automaton *a)
{
    struct automaton_edge *ordered = malloc((a->n_edges ? a->n_edges : 1) * sizeof *ordered);
    uint32_t n = 0;
    if (!ordered) return false;
    for (uint32_t s = 0; s < a->n_states; s++) {
        struct automaton_state *state = &a->states[s];
        const uint32_t begin = n;
        state->reads = false;
        for (uint32_t e = state->edges; e != NONE; e = a->edges[e].next) {
            if (through(a, &a->edges[e]) == AUTOMATON_ENDLESS) continue;
            ordered[n++] = a->edges[e];
            state->reads = state->reads || a->edges[e].kind == EDGE_BYTES;
        }
        for (uint32_t i = begin, j = n; i + 1 < j; i++) {
            const struct automaton_edge swap = ordered[i];
            ordered[i] = ordered[--j];
            ordered[j] = swap;
        }
        state->edges = begin;
        state->n_edges = n - begin;
    }
    free(a->edges);
    a->edges = ordered;
    a->n_edges = n;
    a->room_edges = n ? n : 1;
    return true;
}

/* Rules that a rule can be at before it has read a byte: a depth-first walk over states; a rule that comes up while it
 * is open calls itself. marks: 0 new, 1 open, 2 done; of states. A rule that may be empty (white space) is passed. */
enum { NEW, OPEN, DONE };

struct left_walk {
    const struct automaton *a;
    uint8_t *states, *rules;
    bool *empties; /* rules that may be empty */
    unsigned depth;
    bool found;
};

static void left(struct left_walk *w, uint32_t s)
{
    if (w->states[s] != NEW || w->found) return;
    w->states[s] = OPEN;
    for (uint32_t i = 0; i < w->a->states[s].n_edges && !w->found; i++) {
        const struct automaton_edge *e = &w->a->edges[w->a->states[s].edges + i];
        if (e->kind == EDGE_EMPTY) left(w, e->to);
        if (e->kind != EDGE_CALL) continue;
        if (w->rules[e->rule] == OPEN || w->depth > 4 * AUTOMATON_HEIGHT_MAX) {
            w->found = true;
            return;
        }
        if (w->rules[e->rule] == NEW) {
            w->rules[e->rule] = OPEN;
            w->depth++;
            left(w, w->a->rules[e->rule].start);
            w->depth--;
            w->rules[e->rule] = DONE;
        }
        if (w->empties[e->rule]) left(w, e->to);
    }
    w->states[s] = DONE;
}

static enum sluice_status check_left(const struct automaton *a, struct sluice_error *err)
{
    struct left_walk w = {.a = a, .states = calloc(a->n_states, 1), .rules = calloc(a->n_rules, 1)};
    w.empties = calloc(a->n_rules, sizeof *w.empties);
    const bool memory = w.states && w.rules && w.empties;
    if (memory) {
        for (uint32_t r = 0; r < a->n_rules; r++) w.empties[r] = a->states[a->rules[r].start].accepts;
        for (uint32_t r = 0; r < a->n_rules; r++) {
            if (w.rules[r] != NEW) continue;
            w.rules[r] = OPEN;
            left(&w, a->rules[r].start);
            w.rules[r] = DONE;
        }
    }
    free(w.states);
    free(w.rules);
    free(w.empties);
    if (!memory) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a schema");
    if (!w.found) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE, "put an object or an array between",
                     "the schema has a $ref that leads to itself with nothing between");
}

enum sluice_status automaton_finish(struct automaton *a, uint32_t root, struct sluice_error *err)
{
    if (a->no_memory) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a schema");
    if (a->too_large)
        return base_fail(err, SLUICE_ERR_USAGE, "fewer properties and enum values",
                         "the schema is too large: more than %u states", AUTOMATON_STATES_MAX);
    find_heights(a);
    if (a->rules[root].height == AUTOMATON_ENDLESS)
        return base_fail(err, SLUICE_ERR_USAGE, "is something required that holds itself, or that cannot be?",
                         "no document fits the schema");
    if (a->rules[root].height > AUTOMATON_HEIGHT_MAX / 2)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "the schema's documents are nested too deep");
    if (!order_edges(a)) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a schema");
    return check_left(a, err);
}
