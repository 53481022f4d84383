/* One tensor of the model that lives in memory: where it is in the file and, once loaded, where its bytes are. */
#ifndef MODEL_TENSOR_H
#define MODEL_TENSOR_H

#include "kernel/kernel.h"
#include "quant/quant.h"

#include <stdbool.h>
#include <stdint.h>

struct model_tensor {
    const char *name; /* as in the file; lives as long as the gguf. NULL: the file has no such tensor */
    const struct quant_type *type;
    uint64_t dims[3]; /* ne0 first */
    uint32_t file;    /* shard */
    uint64_t offset, bytes;
    bool is_vector;   /* wanted as F32: converted when loaded if the file has 16-bit floats */
    const void *data; /* NULL until loaded */
};

/* A matrix product's weight; dims [n_in][n_out]. */
static inline struct kernel_weight model_weight(const struct model_tensor *t)
{
    return (struct kernel_weight){.type = t->type, .data = t->data, .n_in = t->dims[0], .n_out = t->dims[1]};
}

/* Vectors (norms, biases, scales) are F32 in memory whatever the file has. NULL if absent. */
static inline const float *model_vector(const struct model_tensor *t) { return t->data; }

#endif
