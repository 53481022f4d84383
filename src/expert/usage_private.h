/* What usage.c (heat) and usage_file.c (the file) share. */
#ifndef EXPERT_USAGE_PRIVATE_H
#define EXPERT_USAGE_PRIVATE_H

#include "expert/usage.h"

/* Heat is stored times `weight`, which doubles every half life: so a token's decay is one number's growth, and adding 1
 * of heat is adding `weight`. */
struct expert_usage {
    const struct expert_catalog *catalog;
    uint64_t fingerprint;
    uint32_t n_experts;

    uint64_t age;          /* tokens since weight was 1 */
    double weight;         /* 2^(age / half life) */
    double *known, *added; /* [n_experts], times weight: what the file held; what this run adds since its last save */
    double known_tokens, added_tokens; /* the same for tokens */
    uint64_t since;                    /* tokens since the last save, not decayed */
    bool changed;

    uint32_t *heap; /* [n_experts] scratch of expert_usage_hottest */
    uint8_t *image; /* [image_bytes] the whole file, while it is read or written */
    size_t image_bytes;
};

size_t usage_image_bytes(const struct expert_catalog *catalog); /* of the file; they follow from the model alone */
double usage_decay(uint64_t n_tokens);                          /* 2^(-n_tokens / half life) */

#endif
