/* Byte-pair encoding: merges pairs of tokens in the order of the file's list. Symbols are bytes, written in GPT-2's
 * alphabet, or (raw) characters as they are, with U+2581 for a space and byte tokens for those that are no token. */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "text/heap.h"
#include "text/vocab.h"
#include "text/watch.h"

struct text_bpe {
    const struct text_vocab *vocab;
    bool raw;
    struct text_merge {
        int32_t left, right, result;
    } * merges; /* [n] in order of rank; left is TEXT_NO_TOKEN where the merge is of no use */
    uint32_t n;
    uint32_t *slots; /* hash of (left, right) to rank + 1; 0: free */
    uint32_t slot_mask;
    int32_t byte_ids[256];
};

/* Memory of one word being merged: grows to the longest word. */
struct text_bpe_work {
    int32_t *ids;
    uint32_t *before, *after;
    struct text_heap heap;
    size_t room; /* bytes of the longest word that fits */
};

enum sluice_status text_bpe_init(struct text_bpe *b, const struct text_vocab *v, bool raw, const struct gguf *g,
                                 const struct base_log *log, struct sluice_error *err);
void text_bpe_free(struct text_bpe *b);
void text_bpe_work_free(struct text_bpe_work *w);
size_t text_bpe_memory_bytes(const struct text_bpe *b);

/* The tokens of a word, left in w->ids (*n of them). A byte without a token gives `unknown`, or an error if that is
 * TEXT_NO_TOKEN; SLUICE_CANCELLED where `steps` says so. O(bytes log bytes). */
enum sluice_status text_bpe_word(const struct text_bpe *b, struct text_bpe_work *w, const char *word, size_t bytes,
                                 int32_t unknown, struct text_steps *steps, size_t *n, struct sluice_error *err);
/* The token of U+FFFD, or of '?', for bytes without a token; or TEXT_NO_TOKEN. */
int32_t text_bpe_replacement(const struct text_bpe *b);
/* The token that is this word as a whole, or TEXT_NO_TOKEN. */
int32_t text_bpe_whole(const struct text_bpe *b, const char *word, size_t bytes);

/* GPT-2's alphabet: each byte is written as one printable character. */
uint32_t text_bpe_character(unsigned char byte);
/* The byte behind a character, or -1. */
int text_bpe_byte(uint32_t character);

#endif
