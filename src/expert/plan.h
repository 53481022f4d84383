/* How much memory for what: arithmetic without I/O. DESIGN.md section 6. */
#ifndef EXPERT_PLAN_H
#define EXPERT_PLAN_H

#include "base/error.h"
#include "expert/catalog.h"

#include <stdbool.h>

#define PLAN_ROWS_MAX 16
#define PLAN_ROW_PREFIXES "prefixes"
#define PLAN_CTX_AUTO_MAX 8192u /* a longer context is only made if it is asked for */

/* A size as the user wrote it: "8G", "1.5GiB", "50%", "auto", "4854" (a count; experts only). G means GiB, GB means
 * 10^9, likewise K and M. */
enum plan_unit { PLAN_AUTO, PLAN_BYTES, PLAN_PERCENT, PLAN_COUNT };
struct plan_size {
    enum plan_unit unit;
    double value;
};
/* text NULL is auto. count: whether a bare number is a count (else bytes). what: the option's name for messages. */
enum sluice_status plan_parse_size(const char *text, bool count, const char *what, struct plan_size *out,
                                   struct sluice_error *err);

struct plan_input {
    uint64_t machine_limit_bytes;  /* what may be used at most: min(cgroup limit - others' use, available + own) */
    unsigned auto_percent;         /* of it that an automatic budget takes */
    uint64_t machine_total_bytes;  /* for messages */
    const char *machine_limit_why; /* "available memory" or the cgroup's path */
    struct plan_size memory, experts;
    const struct expert_catalog *catalog; /* NULL or no experts: a dense model */
    /* fixed rows */
    uint64_t process_bytes; /* the process as it stands, stacks, libraries, tokenizer, metadata */
    uint64_t dense_bytes, staging_bytes;
    uint64_t prefix_bytes;                   /* kept prefixes */
    uint64_t text_bytes, text_bytes_per_ctx; /* texts while they are read and cut into tokens */
    uint64_t
        hint_margin_bytes; /* added to the smallest budget that a refusal names: the process row is a measurement */
    uint64_t book_bytes;   /* catalog, policy, cache bookkeeping */
    /* rows that depend on choices */
    /* The KV cache: never less for a longer context or a larger chunk. */
    uint64_t (*kv_bytes)(const void *user, uint32_t ctx, uint32_t chunk);
    const void *kv_user;
    uint32_t ctx_asked, ctx_model; /* 0: choose; the model's own limit */
    uint64_t scratch_bytes_per_chunk_token, scratch_fixed_bytes, scratch_bytes_per_ctx;
    uint64_t output_bytes_per_chunk_token; /* expert outputs kept: k * n_embd * 4 */
    uint32_t chunk_asked;                  /* 0: choose */
};

struct plan_row {
    const char *name;
    uint64_t bytes;
};

struct plan {
    uint64_t budget_bytes;
    struct plan_row rows[PLAN_ROWS_MAX]; /* sum <= budget */
    size_t n_rows;
    uint64_t slots_bytes, slots_needed_bytes /* all experts */, slots_floor_bytes;
    uint32_t ctx, chunk;
    uint64_t
        smallest_bytes; /* the smallest budget to name, with the margin; set by a refusal for too little memory too */
    uint64_t slots_asked_bytes; /* explicitly; 0: nothing was said. More than all experts: those are held */
};
/* What all rows come to: at most the budget. */
uint64_t plan_rows_bytes(const struct plan *p);
/* The budget that a wish comes to on a machine with this limit, whether it can be had or not. auto_percent: of the
 * limit, without a wish. */
uint64_t plan_budget(const struct plan_size *memory, uint64_t machine_limit_bytes, unsigned auto_percent);
/* SLUICE_ERR_MEMORY: over the machine's limit, or under the floor; both numbers and the smallest that would do are in
 * the text. */
enum sluice_status plan_make(const struct plan_input *in, struct plan *out, struct sluice_error *err);
/* Whether a plan that nobody has asked for by --experts leaves the experts so little that nearly everything is read
 * again for each token. *out then says what takes the memory, and what other options would leave them. smaller_kv: the
 * same input with a smaller type of KV cache, or NULL. */
#define PLAN_ADVICE_BYTES 640
bool plan_advise(const struct plan_input *in, const struct plan *p, const struct plan_input *smaller_kv,
                 char out[PLAN_ADVICE_BYTES]);
/* "1.50 GiB", for messages; returns out. */
const char *plan_format_bytes(uint64_t bytes, char out[24]);

#endif
