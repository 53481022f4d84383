/* SentencePiece's byte-pair encoding: merges neighbours into the token with the best score. */
#ifndef TEXT_SPM_H
#define TEXT_SPM_H

#include "text/heap.h"
#include "text/vocab.h"
#include "text/watch.h"

struct text_spm {
    const struct text_vocab *vocab;
    float *scores; /* [vocab->n] */
    int32_t byte_ids[256];
};

/* Memory of one text being merged: grows to the longest text between special tokens. */
struct text_spm_work {
    char *text; /* spaces written as U+2581 */
    size_t text_room;
    struct text_spm_symbol {
        uint32_t at, bytes; /* of text; bytes 0: merged into its left neighbour */
        uint32_t before, after;
    } * symbols;
    size_t symbols_room;
    struct text_heap heap;
};

#define TEXT_SPM_SPACE "\xe2\x96\x81" /* U+2581 */
#define TEXT_SPM_SPACE_BYTES 3

enum sluice_status text_spm_init(struct text_spm *s, const struct text_vocab *v, const struct gguf *g,
                                 struct sluice_error *err);
void text_spm_free(struct text_spm *s);
void text_spm_work_free(struct text_spm_work *w);
size_t text_spm_memory_bytes(const struct text_spm *s);

/* Takes one token of the result. */
typedef void text_token_fn(void *user, int32_t id);
/* The tokens of a text, with a space in front if `prefix`. A byte without a token gives `unknown`, or an error if that
 * is TEXT_NO_TOKEN; SLUICE_CANCELLED where `steps` says so. O(bytes log bytes). */
enum sluice_status text_spm_encode(const struct text_spm *s, struct text_spm_work *w, const char *text, size_t bytes,
                                   bool prefix, int32_t unknown, text_token_fn *token, void *user,
                                   struct text_steps *steps, struct sluice_error *err);

/* The byte that a text of the form <0xXX> stands for, or -1. */
int text_spm_byte(const char *text, size_t bytes);

#endif
