/* From logits to a token: pure and seeded. The same logits, history and state give the same token on every machine
 * (base/math). */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct sample_bias {
    int32_t id;
    float by; /* added to the token's logit */
};

struct sample_params {
    float temperature;    /* 0: greedy */
    uint32_t top_k;       /* 0: off */
    float top_p, min_p;   /* 1 and 0: off */
    float repeat_penalty; /* 1: off; logits of tokens in the last repeat_last are divided (positive) or multiplied
                             (negative) */
    uint32_t repeat_last;
    float presence_penalty,
        frequency_penalty;          /* 0: off; of tokens of the answer: logit - count * frequency - presence */
    const struct sample_bias *bias; /* [n_bias] borrowed; an id that is there twice gets both */
    size_t n_bias;
    uint64_t seed;
};

struct sample_state {
    uint64_t random[4]; /* xoshiro256** */
};

/* Order: bias, repeat penalty, frequency and presence penalties, mask, top-k, softmax at temperature, top-p, min-p,
 * draw. Ties take the lower id. Checks ranges: SLUICE_ERR_USAGE names the parameter. */
enum sluice_status sample_check(const struct sample_params *p, struct sluice_error *err);
void sample_init(struct sample_state *s, uint64_t seed);
size_t sample_scratch_bytes(size_t n_vocab);
/* history: the tokens so far, most recent last; those from `answer` on were generated (n_history: none). logits are not
 * changed. A non-finite maximum is the caller's to reject. */
uint32_t sample_token(const struct sample_params *p, struct sample_state *s, const float *logits, size_t n_vocab,
                      const int32_t *history, size_t n_history, size_t answer, void *scratch);
/* The same among the tokens whose bit is set (bit id % 64 of word id / 64); at least one is. */
uint32_t sample_token_of(const struct sample_params *p, struct sample_state *s, const float *logits, size_t n_vocab,
                         const uint64_t *mask, const int32_t *history, size_t n_history, size_t answer, void *scratch);

#endif
