/* Text to token ids and back, from GGUF metadata: byte-level BPE ("gpt2") with named pre-tokenizers, SentencePiece BPE
 * ("llama"), BPE of plain characters ("gemma4"), and "no_vocab" (ids only). Immutable after creation. Linear in the
 * text's length up to a logarithm. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "base/log.h"
#include "gguf/gguf.h"
#include "text/watch.h"

struct text_tokenizer; /* opaque */

#define TEXT_NO_TOKEN (-1)

/* g must outlive the tokenizer (token texts point into it). Unknown model or pre-tokenizer: SLUICE_ERR_MODEL with the
 * list of the known ones; a missing `pre` is a warning. */
enum sluice_status text_tokenizer_create(const struct gguf *g, const struct base_log *log, struct text_tokenizer **out,
                                         struct sluice_error *err);
/* The same with another pre-tokenizer than the file names (NULL: the file's). SLUICE_ERR_USAGE if the name is not
 * known, with the list, or if the file's tokenizer has none. */
enum sluice_status text_tokenizer_create_as(const struct gguf *g, const char *pre, const struct base_log *log,
                                            struct text_tokenizer **out, struct sluice_error *err);
/* Whether the name is known: else SLUICE_ERR_USAGE with the list. */
enum sluice_status text_pre_check(const char *pre, struct sluice_error *err);
void text_tokenizer_destroy(struct text_tokenizer *t);

size_t text_n_vocab(const struct text_tokenizer *t); /* 0 for no_vocab */
int32_t text_bos(const struct text_tokenizer *t);    /* or TEXT_NO_TOKEN; likewise below */
int32_t text_eos(const struct text_tokenizer *t);
bool text_adds_bos(const struct text_tokenizer *t);
bool text_adds_eos(const struct text_tokenizer *t);
bool text_ends_generation(const struct text_tokenizer *t, int32_t id); /* eos, eot, eom and the like */
bool text_is_control(const struct text_tokenizer *t, int32_t id);
/* Exact text of one special token, e.g. "<|im_end|>"; TEXT_NO_TOKEN if absent. */
int32_t text_find_special(const struct text_tokenizer *t, const char *text, size_t bytes);

/* Bytes [begin, end) of a text. */
struct text_range {
    size_t begin, end;
};

struct text_encode_options {
    bool special; /* recognise control tokens in the text; user-defined ones are text and always recognised */
    bool bos;     /* put BOS in front if the model asks for it (or, with force, always) */
    bool force_bos;
    /* With `special`: stretches, ascending and disjoint, in which control tokens are ordinary text all the same (what a
     * user said, inside a chat template's marks). The text is cut into words as if they were not there. */
    const struct text_range *plain;
    size_t n_plain;
    struct text_watch watch; /* looked at every TEXT_WATCH_STEPS words and pairs of symbols */
};
/* ids: room for ids_max; *n is the number needed (SLUICE_ERR_USAGE if it does not fit; ids may be NULL with ids_max 0
 * to count). A bound that always suffices: bytes + 8. Invalid UTF-8 is taken byte by byte (byte fallback), never
 * refused. Special tokens are found leftmost first, the longest at one place. EOS is never added: see text_adds_eos.
 * Where the vocabulary has no token for a byte (some lack those that never occur in UTF-8), the token of U+FFFD, of '?'
 * or the unknown token stands for it; SLUICE_ERR_MODEL if there is none of them. SLUICE_CANCELLED: `watch` says so. */
enum sluice_status text_encode(const struct text_tokenizer *t, const char *text, size_t bytes,
                               const struct text_encode_options *options, int32_t *ids, size_t ids_max, size_t *n,
                               struct sluice_error *err);

/* Streaming detokenising: a decoder holds back the bytes of an unfinished UTF-8 character. */
struct text_decoder {
    unsigned char held[4];
    unsigned n_held;
    bool begun; /* SentencePiece: the first token loses its leading space; set it to keep that (text that goes on) */
};
#define TEXT_PIECE_BYTES_MAX 1024
void text_decoder_init(struct text_decoder *d);
/* Appends the text of id to out (at least TEXT_PIECE_BYTES_MAX bytes): returns the number of bytes written, not
 * terminated; complete characters only, invalid bytes become U+FFFD. special: whether control tokens show their text
 * (else they give nothing). */
size_t text_decode(const struct text_tokenizer *t, struct text_decoder *d, int32_t id, bool special, char *out);
size_t text_decode_end(struct text_decoder *d, char *out); /* what is still held, as U+FFFD */
/* Raw bytes of one token without UTF-8 repair; returns the length (0 for control tokens unless special). */
size_t text_token_bytes(const struct text_tokenizer *t, int32_t id, bool special, char *out, size_t out_max);

size_t text_tokenizer_memory_bytes(const struct text_tokenizer *t);

#endif
