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

struct text_answer; /* where one answer stands in its grammar; g and v must outlive it */
enum sluice_status text_answer_create(const struct text_grammar *g, struct text_grammar_vocab *v,
                                      struct text_answer **out, struct sluice_error *err);
void text_answer_destroy(struct text_answer *a);
void text_answer_reset(struct text_answer *a);
/* The answer is a whole document: it may end here. */
bool text_answer_complete(const struct text_answer *a);
/* Bit id % 64 of word id / 64: the token may come next. Tokens that end generation exactly when the document is
 * complete. Valid until the answer's next call. SLUICE_ERR_MEMORY; SLUICE_ERR_MODEL: no token of this vocabulary goes
 * on. */
enum sluice_status text_answer_mask(struct text_answer *a, const uint64_t **mask, struct sluice_error *err);
size_t text_answer_mask_words(const struct text_answer *a);
/* SLUICE_ERR_USAGE: the token is not allowed, and nothing changed. A token that ends generation changes nothing. */
enum sluice_status text_answer_accept(struct text_answer *a, int32_t id, struct sluice_error *err);
/* The same for bytes, however they are cut into tokens. */
enum sluice_status text_answer_accept_bytes(struct text_answer *a, const char *bytes, size_t n,
                                            struct sluice_error *err);

#endif
