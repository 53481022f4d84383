/* A vocabulary in the order of its tokens' bytes: a trie as a sorted list, each token with the number of bytes that it
 * has in common with the one before. And the masks that were worked out, the newest MASKS_MAX. */
#ifndef TEXT_GRAMMAR_VOCAB_H
#define TEXT_GRAMMAR_VOCAB_H

#include "text/grammar.h"
#include "text/grammar_run.h"

#define GRAMMAR_MASKS_MAX 96u
#define GRAMMAR_EXITS_MAX 16384u /* of one mask; with more it is not kept */

/* Where a walk left the rule that it began in: the first token of those that share `depth` bytes. What follows depends
 * on the stack. */
struct grammar_exit {
    uint32_t token, depth;
};

/* What a configuration allows whatever its stack is. */
struct grammar_mask {
    uint64_t answer;               /* whose automaton; 0: states that every automaton has */
    uint32_t state, missing, room; /* missing: of the counter to its least; room: to its most; both clamped */
    uint64_t *bits;
    struct grammar_exit *exits;
    uint32_t n_exits;
};

struct text_grammar_vocab {
    const struct text_tokenizer *tokenizer;
    size_t n_vocab, n_words;
    uint32_t n;        /* tokens that have bytes */
    uint32_t *ids;     /* [n] */
    uint32_t *offsets; /* [n + 1] into bytes */
    uint16_t *common;  /* [n] */
    char *bytes;
    int32_t *ends, *controls; /* tokens that end generation; other control tokens */
    uint32_t n_ends, n_controls;
    uint32_t longest; /* bytes */

    struct grammar_mask masks[GRAMMAR_MASKS_MAX];
    uint32_t next_mask;
    uint64_t n_answers; /* so far */
    /* Of a walk, by depth: where the set begins and ends, and how many nodes there were. */
    uint32_t *begins, *ends_at, *nodes;
    struct run run;             /* for walks whose stack is unknown */
    struct grammar_exit *exits; /* [GRAMMAR_EXITS_MAX] of the walk that is under way */
    uint32_t n_exits;
    bool too_many_exits;
};

/* Marks in `bits` the tokens from `first` on that share `depth` bytes with it and whose other bytes the set
 * run->configs[begin, n_configs) reads. Takes away what it appended to `run`. */
void grammar_walk(struct text_grammar_vocab *v, struct run *run, uint32_t begin, uint32_t first, uint32_t depth,
                  uint64_t *bits);
/* The mask of a configuration that reads, with an unknown stack; NULL: it must be walked with its own (too many exits),
 * or there is no memory (run.no_memory). */
const struct grammar_mask *grammar_mask_of(struct text_grammar_vocab *v, const struct automaton *a, uint64_t answer,
                                           const struct run_config *c);

#endif
