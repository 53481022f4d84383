/* What is known beforehand: the heat of experts, learned over runs and kept in a small file beside the model.
 *
 * Heat of an expert: its selections by tokens, decayed by half for every EXPERT_USAGE_HALF_LIFE tokens that were
 * evaluated since, so that it follows what the user does now. `n_tokens` is the same sum for tokens themselves:
 * heat / n_tokens is the probability that a token selects the expert. A heuristic (E7): it never changes a result.
 *
 * The file, little-endian:
 *
 *     "SLUICUSE", u32 version (1), u32 n_layers, u64 fingerprint of the model, f64 n_tokens (decayed),
 *     n_layers times: u32 n_expert
 *     for every expert of every layer, in order: f32 heat
 *     u64 XXH64 (seed 0) of everything before
 */
#ifndef EXPERT_USAGE_H
#define EXPERT_USAGE_H

#include "expert/catalog.h"
#include "os/os.h"

#define EXPERT_USAGE_SUFFIX ".sluice-usage"
#define EXPERT_USAGE_VERSION 1u
#define EXPERT_USAGE_HALF_LIFE 65536u /* tokens */

struct expert_usage; /* opaque: what was learned before, and what this run adds */

/* Empty heat for this model. The catalog must live as long. Nothing is allocated later, not even by load and save. */
enum sluice_status expert_usage_create(const struct expert_catalog *catalog, uint64_t fingerprint,
                                       struct expert_usage **out, struct sluice_error *err);
void expert_usage_free(struct expert_usage *u);
size_t expert_usage_memory_bytes(const struct expert_catalog *catalog); /* the file's image for saving included */

/* Takes in the file. None at this path: SLUICE_OK, nothing learned. Damaged, of another version or of another model, or
 * no ordinary file (a symbolic link, a directory, a pipe): SLUICE_ERR_USAGE with a sentence that names the file and
 * what is wrong (the way out: remove it, or give --usage or --no-usage). Not readable: SLUICE_ERR_IO. After an error
 * all is as before. What this run has added stays. */
enum sluice_status expert_usage_load(struct expert_usage *u, const struct os_calls *os, const char *path,
                                     struct sluice_error *err);

/* One token's choice in one layer; one call for n tokens that have passed, after their choices. */
void expert_usage_selected(struct expert_usage *u, uint32_t layer, const uint32_t *ids, uint32_t n);
void expert_usage_tick(struct expert_usage *u, uint32_t n_tokens);
bool expert_usage_changed(const struct expert_usage *u); /* something was added since the last save */

/* Adds what this run has added since its last save to what the file holds now (another process may have written it
 * meanwhile), under an exclusive lock of PATH.lock, and replaces the file by rename. What the file holds decays by the
 * tokens of this run since its last save: runs that overlap count as one behind the other, in the order of their saves.
 * Nothing is written if nothing was added. A file that has become foreign or damaged is refused as by load and left as
 * it is. Waits for the lock at most wait_ms; then SLUICE_ERR_IO. After any error the file is as it was, and what was
 * added is kept for the next save. */
enum sluice_status expert_usage_save(struct expert_usage *u, const struct os_calls *os, const char *path,
                                     uint32_t wait_ms, struct sluice_error *err);

/* Probability that a token selects the expert, file and run together, 0 if nothing was learned. */
double expert_usage_probability(const struct expert_usage *u, uint32_t key);
double expert_usage_tokens(const struct expert_usage *u); /* decayed */

/* The experts by probability, most likely first, ties by key; at most max, only those with a probability of at least
 * `least` (> 0). Returns how many. keys: [max]. O(n log n), scratch is inside. */
uint32_t expert_usage_hottest(struct expert_usage *u, double least, uint32_t *keys, uint32_t max);

#endif
