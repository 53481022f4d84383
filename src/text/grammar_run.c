#include "text/grammar_run.h"

#include <stdlib.h>
#include <string.h>

#define COMPARED_NODES_MAX 256u /* newest nodes that a new one is compared with */

void run_free(struct run *r)
{
    free(r->configs);
    free(r->nodes);
    r->configs = NULL;
    r->nodes = NULL;
}

static void *room_for(struct run *r, void *at, uint32_t n, uint32_t *room, size_t bytes)
{
    if (n < *room || r->no_memory) return at;
    const uint32_t more = *room ? *room * 2 : 64;
    void *grown = more > *room ? realloc(at, more * bytes) : NULL;
    if (!grown) {
        r->no_memory = true;
        return at;
    }
    *room = more;
    return grown;
}

uint32_t run_push(struct run *r, struct run_node node)
{
    const uint32_t oldest =
        r->n_nodes > r->first_node + COMPARED_NODES_MAX ? r->n_nodes - COMPARED_NODES_MAX : r->first_node;
    for (uint32_t i = r->n_nodes; i-- > oldest;)
        if (r->nodes[i].state == node.state && r->nodes[i].count == node.count && r->nodes[i].below == node.below)
            return i;
    r->nodes = room_for(r, r->nodes, r->n_nodes, &r->room_nodes, sizeof *r->nodes);
    if (r->no_memory) return RUN_NO_NODE;
    node.depth = node.below == RUN_NO_NODE ? 1 : r->nodes[node.below].depth + 1;
    r->nodes[r->n_nodes] = node;
    return r->n_nodes++;
}

static uint32_t depth_of(const struct run *r, uint32_t node) { return node == RUN_NO_NODE ? 0 : r->nodes[node].depth; }

/* Into the set that begins at `begin`, if it is not there and what is left of the stack suffices to get out again. */
static void add(struct run *r, uint32_t begin, struct run_config c)
{
    if (depth_of(r, c.node) + r->a->states[c.state].height > AUTOMATON_HEIGHT_MAX) return;
    for (uint32_t i = r->n_configs; i-- > begin;)
        if (r->configs[i].state == c.state && r->configs[i].count == c.count && r->configs[i].node == c.node) return;
    if (r->n_configs - begin < RUN_SET_MAX) run_put(r, c);
}

void run_put(struct run *r, struct run_config c)
{
    r->configs = room_for(r, r->configs, r->n_configs, &r->room_configs, sizeof *r->configs);
    if (!r->no_memory) r->configs[r->n_configs++] = c;
}

/* The counter behind an edge; false: the edge is not open. */
static bool count_over(const struct run *r, const struct run_config *c, const struct automaton_edge *e, uint32_t *count)
{
    *count = c->count;
    if (!e->flags) return true;
    const struct automaton_rule *rule = &r->a->rules[r->a->states[c->state].rule];
    if (e->flags & EDGE_BELOW && c->count >= rule->most) return false;
    if (e->flags & EDGE_LEAST && c->count < rule->least) return false;
    if (e->flags & EDGE_RESET) *count = 0;
    /* Without a limit only whether the least is reached matters. */
    if (e->flags & EDGE_COUNT && (rule->most != AUTOMATON_NO_MOST || *count < rule->least)) ++*count;
    return true;
}

static void pop(struct run *r, uint32_t begin, uint32_t node)
{
    if (node == RUN_NO_NODE)
        r->done = true;
    else if (node == r->base_node)
        r->popped = true;
    else
        add(r, begin, (struct run_config){r->nodes[node].state, r->nodes[node].count, r->nodes[node].below});
}

/* Follows what needs no byte from configs[begin, n_configs), which grows meanwhile; leaves those that read. */
static void close_set(struct run *r, uint32_t begin)
{
    for (uint32_t i = begin; i < r->n_configs && !r->no_memory; i++) {
        const struct run_config c = r->configs[i];
        const struct automaton_state *s = &r->a->states[c.state];
        uint32_t count;
        if (s->accepts) pop(r, begin, c.node);
        for (uint32_t k = 0; k < s->n_edges; k++) {
            const struct automaton_edge *e = &r->a->edges[s->edges + k];
            if (e->kind == EDGE_BYTES || !count_over(r, &c, e, &count)) continue;
            if (e->kind == EDGE_EMPTY) {
                add(r, begin, (struct run_config){e->to, count, c.node});
                continue;
            }
            const uint32_t depth = depth_of(r, c.node);
            if (depth + 1 + r->a->rules[e->rule].height > AUTOMATON_HEIGHT_MAX ||
                depth + r->a->states[e->to].height > AUTOMATON_HEIGHT_MAX)
                continue;
            const uint32_t node = run_push(r, (struct run_node){.state = e->to, .count = count, .below = c.node});
            if (!r->no_memory) add(r, begin, (struct run_config){r->a->rules[e->rule].start, 0, node});
        }
    }
    uint32_t kept = begin;
    for (uint32_t i = begin; i < r->n_configs; i++)
        if (r->a->states[r->configs[i].state].reads) r->configs[kept++] = r->configs[i];
    r->n_configs = kept;
}

static void begin_set(struct run *r)
{
    r->done = r->popped = false;
    r->first_node = r->n_nodes;
}

void run_close(struct run *r, struct run_config from)
{
    const uint32_t begin = r->n_configs;
    begin_set(r);
    add(r, begin, from);
    close_set(r, begin);
}

void run_pop(struct run *r, uint32_t node)
{
    const uint32_t begin = r->n_configs;
    begin_set(r);
    pop(r, begin, node);
    close_set(r, begin);
}

void run_step(struct run *r, uint32_t begin, uint32_t end, uint8_t byte)
{
    const uint32_t to = r->n_configs;
    begin_set(r);
    for (uint32_t i = begin; i < end && !r->no_memory; i++) {
        const struct run_config c = r->configs[i];
        const struct automaton_state *s = &r->a->states[c.state];
        for (uint32_t k = 0; k < s->n_edges; k++) {
            const struct automaton_edge *e = &r->a->edges[s->edges + k];
            uint32_t count;
            if (e->kind != EDGE_BYTES || byte < e->low || byte > e->high || !count_over(r, &c, e, &count)) continue;
            add(r, to, (struct run_config){e->to, count, c.node});
        }
    }
    close_set(r, to);
}

void run_compact(struct run *r, uint32_t begin)
{
    const uint32_t n = r->n_configs - begin;
    memmove(r->configs, r->configs + begin, n * sizeof *r->configs);
    r->n_configs = n;
    /* A node lies above those that it stands on: what is used is found from the top, and moved from the bottom. */
    uint32_t *places = calloc(r->n_nodes ? r->n_nodes : 1, sizeof *places);
    if (!places) {
        r->no_memory = true;
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        if (r->configs[i].node != RUN_NO_NODE) places[r->configs[i].node] = 1;
    for (uint32_t i = r->n_nodes; i-- > 0;)
        if (places[i] && r->nodes[i].below != RUN_NO_NODE) places[r->nodes[i].below] = 1;
    const uint32_t n_nodes = r->n_nodes;
    r->n_nodes = r->first_node = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        if (!places[i]) continue;
        struct run_node node = r->nodes[i];
        if (node.below != RUN_NO_NODE) node.below = places[node.below];
        places[i] = run_push(r, node);
    }
    for (uint32_t i = 0; i < n; i++)
        if (r->configs[i].node != RUN_NO_NODE) r->configs[i].node = places[r->configs[i].node];
    free(places);
}
