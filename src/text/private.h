/* The tokenizer's inside, shared by tokenizer.c (making, encoding) and decode.c. */
#ifndef TEXT_PRIVATE_H
#define TEXT_PRIVATE_H

#include "text/bpe.h"
#include "text/special.h"
#include "text/split.h"
#include "text/spm.h"
#include "text/tokenizer.h"

enum text_model { TEXT_MODEL_NONE, TEXT_MODEL_BPE, TEXT_MODEL_SPM };

#define TEXT_ENDS_MAX 40

struct text_tokenizer {
    enum text_model model;
    struct text_vocab vocab;
    struct text_split *split; /* BPE alone */
    struct text_bpe bpe;
    struct text_spm spm;
    struct text_special special, user; /* with and without control tokens */
    int32_t bos, eos, unknown;
    int32_t stand_in; /* for bytes and characters that have no token */
    bool add_bos, add_eos, add_space_prefix, ignore_merges;
    bool raw;                    /* BPE whose tokens are spelt as SentencePiece does */
    int32_t ends[TEXT_ENDS_MAX]; /* tokens that end generation */
    size_t n_ends;
};

/* Whether the output of every token fits TEXT_PIECE_BYTES_MAX, whatever came before it. */
enum sluice_status text_check_piece_bytes(const struct text_tokenizer *t, struct sluice_error *err);

#endif
