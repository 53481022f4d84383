/* The automaton that a schema becomes: rules, each a small automaton over bytes that can call rules, as an ATN has it.
 * A call pushes where to go on; a rule's end pops. A rule has one counter (characters of a string, items of an array),
 * which its edges count up, compare and set to 0. */
#ifndef TEXT_GRAMMAR_AUTOMATON_H
#define TEXT_GRAMMAR_AUTOMATON_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUTOMATON_STATES_MAX 60000u
#define AUTOMATON_EDGES_MAX 120000u
#define AUTOMATON_RULES_MAX 60000u
#define AUTOMATON_HEIGHT_MAX 256u /* calls inside one another while a document is written */
#define AUTOMATON_NO_MOST UINT32_MAX
#define AUTOMATON_ENDLESS UINT32_MAX /* height of what never comes to an end */

enum automaton_edge_kind { EDGE_BYTES, EDGE_CALL, EDGE_EMPTY };
enum automaton_edge_flag {
    EDGE_BELOW = 1, /* only while the counter is below `most` */
    EDGE_LEAST = 2, /* only if it is at least `least` */
    EDGE_COUNT = 4, /* counts */
    EDGE_RESET = 8, /* to 0 */
};

struct automaton_edge {
    uint8_t kind, flags, low, high; /* BYTES: low to high */
    uint32_t to;
    uint32_t rule; /* CALL */
    uint32_t next; /* while it is built: the state's next edge */
};

struct automaton_state {
    uint32_t rule, height; /* height: calls inside one another from here to the rule's end, at least */
    uint32_t edges, n_edges;
    bool accepts, reads; /* the rule may end here; there are edges with bytes */
    bool literal;        /* made by automaton_word: further words may share it */
};

struct automaton_rule {
    uint32_t start, height;
    uint32_t least, most; /* of the counter */
};

struct automaton {
    struct automaton_state *states;
    struct automaton_edge *edges;
    struct automaton_rule *rules;
    uint32_t n_states, n_edges, n_rules;
    uint32_t room_states, room_edges, room_rules;
    bool no_memory, too_large;
};

void automaton_free(struct automaton *a);
size_t automaton_memory_bytes(const struct automaton *a);

/* Building. What fails (memory, limits) is kept in the two flags and seen by automaton_finish; ids stay valid. */
uint32_t automaton_rule(struct automaton *a, uint32_t least, uint32_t most); /* with a start state */
uint32_t automaton_state(struct automaton *a, uint32_t rule);
void automaton_accept(struct automaton *a, uint32_t state);
void automaton_bytes(struct automaton *a, uint32_t from, uint8_t low, uint8_t high, uint32_t to, unsigned flags);
void automaton_call(struct automaton *a, uint32_t from, uint32_t rule, uint32_t to, unsigned flags);
void automaton_empty(struct automaton *a, uint32_t from, uint32_t to, unsigned flags);
/* A path for these bytes, shared with the paths of other words from the same state; returns its end. */
uint32_t automaton_word(struct automaton *a, uint32_t from, const char *bytes, size_t n);
/* From here to a fresh state by one byte. */
uint32_t automaton_byte(struct automaton *a, uint32_t from, char byte);

/* Edges in order; heights; edges that lead nowhere are taken away, so that from every state that is left the rule's end
 * can be reached. SLUICE_ERR_USAGE: too large, rule `root` is endless, higher than AUTOMATON_HEIGHT_MAX, or a rule that
 * calls itself before it reads a byte. */
enum sluice_status automaton_finish(struct automaton *a, uint32_t root, struct sluice_error *err);

#endif
