/* The known pre-tokenizers: names, and what stands behind them. */
#ifndef TEXT_SPLIT_TABLE_H
#define TEXT_SPLIT_TABLE_H

#include "text/split.h"

#include <stdint.h>

#define SPLIT_STAGES_MAX 6

/* A scheme is a list of expressions. The first cuts the text into matches and the gaps between them, the next cuts each
 * of those, and so on; an expression sees one piece at a time. */
struct split_scheme {
    const char *stages[SPLIT_STAGES_MAX];
    uint8_t threes; /* bits of stages whose matches are cut further: every three characters, counted from their end */
};

struct split_name {
    const char *name;
    const struct split_scheme *scheme;
    struct text_split_facts facts;
};

extern const struct split_name split_names[];
extern const size_t split_n_names;

#endif
