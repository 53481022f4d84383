/* The token table of a model file: id to text and type (in the file's own bytes), text to id (a hash table here). */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "base/log.h"
#include "gguf/gguf.h"

/* Longer token texts are refused. (Command R has one of 1024 bytes: 512 spaces in GPT-2's alphabet.) */
#define TEXT_TOKEN_BYTES_MAX 2048

enum text_token_type { /* numbers of tokenizer.ggml.token_type */
                       TEXT_TOKEN_UNDEFINED,
                       TEXT_TOKEN_NORMAL,
                       TEXT_TOKEN_UNKNOWN,
                       TEXT_TOKEN_CONTROL,
                       TEXT_TOKEN_USER,
                       TEXT_TOKEN_UNUSED,
                       TEXT_TOKEN_BYTE,
};

struct text_vocab {
    const struct gguf_value *tokens; /* array of strings */
    uint32_t n;
    size_t token_bytes_max; /* longest text */
    uint8_t *types;         /* [n] enum text_token_type */
    struct text_vocab_slot {
        uint32_t hash;
        int32_t id; /* TEXT_NO_TOKEN: free */
    } * slots;      /* open addressing, linear probing */
    uint32_t slot_mask;
};

enum sluice_status text_vocab_init(struct text_vocab *v, const struct gguf *g, const struct base_log *log,
                                   struct sluice_error *err);
void text_vocab_free(struct text_vocab *v);
struct gguf_str text_vocab_text(const struct text_vocab *v, int32_t id); /* id in range */
/* The lowest id with this text, or TEXT_NO_TOKEN. */
int32_t text_vocab_find(const struct text_vocab *v, const char *text, size_t bytes);
/* The same for text of the user: control, unknown and byte tokens are never found, however the text spells them. */
int32_t text_vocab_find_plain(const struct text_vocab *v, const char *text, size_t bytes);
size_t text_vocab_memory_bytes(const struct text_vocab *v);

uint32_t text_hash(const char *text, size_t bytes);
/* Smallest power of two that keeps n entries at most two thirds full. */
uint32_t text_table_size(uint32_t n);

#endif
