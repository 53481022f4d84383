/* Reading a whole model in order and summing up its units: what `checksum` writes and `verify` compares. */
#ifndef CLI_CHECKSUM_H
#define CLI_CHECKSUM_H

#include "cli/report.h"
#include "expert/sums.h"
#include "gguf/gguf.h"

/* The units of one tensor: it alone, or its experts one behind the other. */
struct checksum_tensor {
    const struct gguf_tensor *tensor;
    bool experts;
    uint32_t layer, expert; /* of an expert tensor; expert: the first */
    const char *part;       /* "gate", "up", "down", "gate and up" */
};

struct checksum_plan {
    struct checksum_tensor *tensors; /* [sums->n_groups], in the order of the groups */
    struct expert_sums *sums;        /* all 0 until checksum_read */
    uint64_t total_bytes, n_experts, n_dense;
};

enum sluice_status checksum_plan_make(const struct gguf *g, struct checksum_plan *out, struct sluice_error *err);
void checksum_plan_free(struct checksum_plan *p);

/* Reads every unit and fills in its sum, with a line of progress. Memory is bounded whatever the model's size; Ctrl-C
 * is SLUICE_CANCELLED. verb: "checking". */
enum sluice_status checksum_read(const struct os_calls *os, const struct gguf *g, const struct checksum_plan *p,
                                 struct report *r, const char *verb, struct sluice_error *err);

#endif
