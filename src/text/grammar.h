/* Constrained decoding: which tokens may come next so that the answer becomes a document that a schema describes. */
#ifndef TEXT_GRAMMAR_H
#define TEXT_GRAMMAR_H

#include "text/tokenizer.h"

/* ---- a schema ---- */

struct text_grammar; /* opaque; immutable: any number of answers may use it */
/* schema: JSON Schema text, NULL: any JSON object. Errors: SLUICE_ERR_USAGE (no JSON, a keyword that is not supported,
 * by name and place, nothing fits it, too large), SLUICE_ERR_MEMORY. */
enum sluice_status text_grammar_create(const char *schema, size_t bytes, struct text_grammar **out,
                                       struct sluice_error *err);
void text_grammar_destroy(struct text_grammar *g);
/* Texts with one of which an answer may begin instead (blanks may come before it), and anything behind it: n >= 1.
 * SLUICE_ERR_USAGE: an empty one, or more than these bytes in all. */
#define TEXT_OPENERS_BYTES_MAX 32768u
enum sluice_status text_grammar_openers(const char *const *texts, size_t n, struct text_grammar **out,
                                        struct sluice_error *err);

/* ---- a vocabulary ---- */

/* The vocabulary's tokens in the order of their bytes, and masks that were worked out. One thread at a time. */
struct text_grammar_vocab;
/* n_vocab: tokens of the model; ids beyond those of the tokenizer are never allowed. t must outlive it. */
enum sluice_status text_grammar_vocab_create(const struct text_tokenizer *t, size_t n_vocab,
                                             struct text_grammar_vocab **out, struct sluice_error *err);
void text_grammar_vocab_destroy(struct text_grammar_vocab *v);
/* At most, with `n_answers` answers at once, each with a schema of its own. */
uint64_t text_grammar_memory_bytes(const struct text_tokenizer *t, size_t n_vocab, uint32_t n_answers);

/* ---- an answer ---- */

struct text_answer; /* where one answer stands in its grammar; g, openers and v must outlive it */
/* openers: made by text_grammar_openers, or NULL: none. */
enum sluice_status text_answer_create(const struct text_grammar *g, const struct text_grammar *openers,
                                      struct text_grammar_vocab *v, struct text_answer **out, struct sluice_error *err);
void text_answer_destroy(struct text_answer *a);
void text_answer_reset(struct text_answer *a);
/* OPEN: an opener may still come, or go on. DOCUMENT: none can. FREE: one is whole, and everything is allowed. */
enum text_branch { TEXT_BRANCH_OPEN, TEXT_BRANCH_DOCUMENT, TEXT_BRANCH_FREE };
enum text_branch text_answer_branch(const struct text_answer *a);
/* The answer is a whole document, or free: it may end here. */
bool text_answer_complete(const struct text_answer *a);
/* Bit id % 64 of word id / 64: the token may come next. Tokens that end generation exactly when the answer is
 * complete; other control tokens only as (part of) an opener, and all of them once it is free. Valid until the answer's
 * next call. SLUICE_ERR_MEMORY; SLUICE_ERR_MODEL: no token of this vocabulary goes on. */
enum sluice_status text_answer_mask(struct text_answer *a, const uint64_t **mask, struct sluice_error *err);
size_t text_answer_mask_words(const struct text_answer *a);
/* SLUICE_ERR_USAGE: the token is not allowed, and nothing changed. A token that ends generation changes nothing. */
enum sluice_status text_answer_accept(struct text_answer *a, int32_t id, struct sluice_error *err);
/* The same for bytes, however they are cut into tokens. */
enum sluice_status text_answer_accept_bytes(struct text_answer *a, const char *bytes, size_t n,
                                            struct sluice_error *err);

#endif
