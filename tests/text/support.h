/* What the tokenizer's tests share: files, GGUF metadata put together in memory, short ways to encode and decode. */
#ifndef TEST_TEXT_SUPPORT_H
#define TEST_TEXT_SUPPORT_H

#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct blob {
    char *at;
    size_t bytes;
};

/* Ends the program with 77 and a line if the folder of oracle files is absent. */
void need_shared(void);
/* The file NAME under $SLUICE_SHARED, with a NUL after it; fails the test if it cannot be read. */
struct blob load_shared(const char *name);
struct gguf *open_shared(const char *name);

/* Metadata: add keys, then meta_open. Arrays of NULL texts are not allowed; n_values counts itself. */
struct meta {
    uint8_t *data;
    size_t bytes, room;
    uint64_t n_values;
};
void meta_str(struct meta *m, const char *key, const char *v);
void meta_u32(struct meta *m, const char *key, uint32_t v);
void meta_bool(struct meta *m, const char *key, bool v);
void meta_strs(struct meta *m, const char *key, const char *const *v, size_t n);
void meta_texts(struct meta *m, const char *key, const struct gguf_str *v, size_t n);
void meta_i32s(struct meta *m, const char *key, const int32_t *v, size_t n);
void meta_f32s(struct meta *m, const char *key, const float *v, size_t n);
struct gguf *meta_open(struct meta *m); /* frees m */

struct text_tokenizer *tokenizer_of(const struct gguf *g);
/* Number of tokens; *ids is malloc'ed. Fails the test on an error. Checks the bound that the contract promises. */
size_t encode(const struct text_tokenizer *t, const char *text, size_t bytes, bool special, int32_t **ids);
/* malloc'ed, NUL-terminated. */
char *decode(const struct text_tokenizer *t, const int32_t *ids, size_t n, bool special, size_t *bytes);
char *decode_raw(const struct text_tokenizer *t, const int32_t *ids, size_t n, size_t *bytes); /* bytes, no repair */
void assert_ids(const struct text_tokenizer *t, const char *text, bool special, const int32_t *ids, size_t n);
/* Encoding and decoding give the same bytes; for SentencePiece a first space more is allowed for, and for vocabularies
 * that lack bytes which never occur in UTF-8, their stand-ins. */
void assert_round_trip(const struct text_tokenizer *t, const char *text, size_t bytes);

#endif
