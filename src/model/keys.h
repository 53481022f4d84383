/* Reads the metadata keys "ARCH.*" with their legal ranges and remembers which were asked for, so that a file's other
 * keys can be named (bind.h). The first failure sticks: later calls do nothing. */
#ifndef MODEL_KEYS_H
#define MODEL_KEYS_H

#include "base/error.h"
#include "gguf/gguf.h"

#include <stdbool.h>
#include <stdint.h>

struct model_keys {
    const struct gguf *g;
    const char *arch; /* prefix */
    struct sluice_error *err;
    enum sluice_status status; /* of the first failure */
    bool *used;                /* [gguf_n_values], or NULL: nobody wants to know */
};

/* Absent optional keys leave *out as it was, and so does every failure: who asked may go on with it until it looks at
 * the status. Out of range: SLUICE_ERR_MODEL with key, value and limits. */
void keys_u32(struct model_keys *k, const char *suffix, bool required, uint32_t min, uint32_t max, uint32_t *out);
void keys_f32(struct model_keys *k, const char *suffix, bool required, float *out);
void keys_bool(struct model_keys *k, const char *suffix, bool required, bool *out);
void keys_str(struct model_keys *k, const char *suffix, bool required, struct gguf_str *out);
/* A number for all layers or an array with one a layer (longer arrays: the rest is for MTP blocks). `at` is the first
 * layer's value, the next is stride_bytes further. Arrays of booleans give 0 and 1. */
void keys_layers(struct model_keys *k, const char *suffix, bool required, uint32_t min, uint32_t max, uint32_t n_layer,
                 uint32_t *at, size_t stride_bytes);
bool keys_has(struct model_keys *k, const char *suffix);
/* The keys are known and need no use here (descriptions; what the tensors' shapes say as well). */
void keys_known(struct model_keys *k, const char *const *suffixes, size_t n);
/* Reports a fault of the file that concerns a key: "PATH: key 'ARCH.suffix' ..."; sticks. */
void keys_fail(struct model_keys *k, const char *suffix, const char *hint, const char *format, ...) BASE_PRINTF(4, 5);

#endif
