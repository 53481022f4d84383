/* Finds special tokens in a text: leftmost first, and at one place the longest, as the tokenizers that models are
 * trained with do. A sorted array searched byte by byte; places whose byte begins no special token cost one look. */
#ifndef TEXT_SPECIAL_H
#define TEXT_SPECIAL_H

#include "text/vocab.h"

struct text_special {
    const struct text_vocab *vocab;
    int32_t *ids; /* [n] sorted by text */
    uint32_t n;
    bool first[256]; /* bytes that begin one */
};

struct text_special_match {
    size_t at, bytes;
    int32_t id; /* TEXT_NO_TOKEN: none; at is then the text's length */
};

/* Which tokens: user-defined ones; with `control` also control and unknown ones. */
enum sluice_status text_special_init(struct text_special *s, const struct text_vocab *v, bool control,
                                     struct sluice_error *err);
void text_special_free(struct text_special *s);
/* The first match that begins at or after `from`. */
struct text_special_match text_special_next(const struct text_special *s, const char *text, size_t bytes, size_t from);

#endif
