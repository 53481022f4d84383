/* Cuts a text into the words of a named pre-tokenizer. */
#ifndef TEXT_SPLIT_H
#define TEXT_SPLIT_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct text_split;      /* compiled expressions; immutable, shared by threads */
struct text_split_work; /* what one text being cut needs */

/* What the name of a pre-tokenizer stands for. */
struct text_split_facts {
    bool ignore_merges; /* a word that is a token is taken whole */
    bool add_bos;       /* unless the file says otherwise */
    bool no_bos;        /* the family has no BOS token unless the file names one */
    bool raw_text;      /* tokens are spelt in UTF-8 with U+2581 for spaces, not in GPT-2's alphabet */
};

bool text_split_known(const char *name, size_t name_bytes);
const char *text_split_name(size_t i); /* the known names; NULL: there are no more */
/* "default, gpt-2, ...": one name for each way of cutting, as many as there is room for. */
void text_split_list(char *out, size_t room);
/* name: tokenizer.ggml.pre. Unknown: SLUICE_ERR_MODEL with that list. */
enum sluice_status text_split_create(const char *name, size_t name_bytes, struct text_split **out,
                                     struct text_split_facts *facts, struct sluice_error *err);
void text_split_destroy(struct text_split *s);
size_t text_split_memory_bytes(const struct text_split *s);

enum sluice_status text_split_work_create(struct text_split_work **out, struct sluice_error *err);
void text_split_work_destroy(struct text_split_work *w);

/* Called for every word in order; the words cover the text without gaps. An error ends the cutting. */
typedef enum sluice_status text_word_fn(void *user, const char *word, size_t bytes, struct sluice_error *err);
/* Bytes that are no valid UTF-8 count as control characters while cutting and reach `word` as they are. */
enum sluice_status text_split_run(const struct text_split *s, struct text_split_work *w, const char *text, size_t bytes,
                                  text_word_fn *word, void *user, struct sluice_error *err);

#endif
