/* Running the automaton: sets of configurations. A configuration is a state, its rule's counter, and a stack of where
 * to go on, kept as a tree of nodes that configurations share. */
#ifndef TEXT_GRAMMAR_RUN_H
#define TEXT_GRAMMAR_RUN_H

#include "text/grammar_automaton.h"

#define RUN_SET_MAX 2048u /* configurations at once; of more ambiguous documents the later ways are left out */
#define RUN_NO_NODE UINT32_MAX

struct run_config {
    uint32_t state, count, node; /* node: of the stack's top, or RUN_NO_NODE */
};

struct run_node {
    uint32_t state, count, below;
    uint32_t depth; /* nodes from here down */
};

/* Sets lie behind one another in `configs`, nodes in `nodes`: a walk through a trie takes back both ends. */
struct run {
    const struct automaton *a;
    struct run_config *configs;
    struct run_node *nodes;
    uint32_t n_configs, room_configs, n_nodes, room_nodes;
    uint32_t first_node; /* nodes from here on may be shared by the set that is being made */
    uint32_t base_node;  /* a stand-in for an unknown stack, or RUN_NO_NODE: popping it sets `popped` */
    bool done, popped;   /* in the set made last: the root rule is over; the stand-in was popped */
    bool no_memory;
};

void run_free(struct run *r);
/* Appends the configuration itself. */
void run_put(struct run *r, struct run_config c);
/* Appends the set of what can be reached from the configuration without reading a byte. */
void run_close(struct run *r, struct run_config from);
/* The same, from what follows a call: as if the node were popped. */
void run_pop(struct run *r, uint32_t node);
/* Appends the set that configs[begin, end) become by this byte. */
void run_step(struct run *r, uint32_t begin, uint32_t end, uint8_t byte);
uint32_t run_push(struct run *r, struct run_node node);
/* Keeps configs[begin, n_configs) alone, at the front, and of the nodes those that they use. */
void run_compact(struct run *r, uint32_t begin);

#endif
