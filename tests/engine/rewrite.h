/* Makes variants of a GGUF file: tensors renamed, dropped, split up, patched, spread over shards. */
#ifndef TESTS_ENGINE_REWRITE_H
#define TESTS_ENGINE_REWRITE_H

#include "gguf/gguf.h"

#include <stdbool.h>

struct rewrite {
    bool single_experts; /* blk.N.ffn_gate_exps.weight becomes blk.N.ffn_gate.E.weight, one tensor an expert */
    unsigned n_shards;   /* 0 or 1: one file; else to is a prefix and PREFIX-00001-of-0000N.gguf are written */
    const char *drop;    /* this tensor is left out */
    const char *patch;   /* this tensor's bytes are changed by patch_bytes */
    void (*patch_bytes)(uint8_t *data, size_t bytes);
    const char *drop_like[2]; /* tensors whose names contain one of these are left out */
    void (*patch_each)(const char *name, uint8_t *data, size_t bytes); /* every tensor's bytes go through this */
    const char *set_u32_key;                                           /* this metadata key gets another value */
    uint32_t set_u32;
    const char *put_str_key, *put_str; /* this one is a text, whether there was one or not */
};

/* Exits the test program with a message on any failure. */
void rewrite_gguf(const char *from, const char *to, const struct rewrite *r);

#endif
