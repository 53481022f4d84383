/* Where every routed expert's bytes are, and how large a slot it needs. Built once from plain extents; knows no GGUF.
 *
 * An expert has up to EXPERT_PARTS_MAX parts, in the order in which they are needed (gate, up, down). A part is one
 * extent of one file. Experts of one layer have the same size; layers may differ (mixed precision). Layers whose part
 * sizes are equal share a size class. */
#ifndef EXPERT_CATALOG_H
#define EXPERT_CATALOG_H

#include "base/error.h"
#include "expert/policy.h"

#include <stddef.h>
#include <stdint.h>

#define EXPERT_PARTS_MAX 4
#define EXPERT_CLASSES_MAX 64
#define EXPERT_LAYERS_MAX 1024
#define EXPERT_COUNT_MAX 4096 /* a layer */

struct expert_extent {
    uint32_t file; /* index in io */
    uint32_t bytes;
    uint64_t offset;
};

/* What model/bind says of one layer. A dense layer has n_expert 0. */
struct expert_layer {
    uint32_t n_expert, n_used; /* experts; top-k */
    uint32_t n_parts;
    uint32_t n_parts_first; /* parts that must be there before the expert can be started (gate and up: 2) */
    struct {
        uint32_t file;
        uint64_t offset;       /* of expert 0 */
        uint64_t stride_bytes; /* from one expert to the next */
        uint32_t bytes;
    } part[EXPERT_PARTS_MAX];
    const struct expert_extent *each; /* NULL, or [n_expert][n_parts] for files with one tensor an expert (copied) */
};

struct expert_class {
    uint32_t n_parts;
    uint32_t
        part_at[EXPERT_PARTS_MAX]; /* offset of each part's region in a slot; regions leave room for alignment slack */
    uint32_t slot_bytes;           /* multiple of the alignment and of the page */
    uint32_t k_max;                /* largest top-k of its layers */
    uint32_t n_experts;            /* of all its layers */
    uint64_t expert_bytes;         /* real bytes of one expert */
};

struct expert_catalog; /* opaque */

/* align: of direct reads (1 if all files are read buffered). */
enum sluice_status expert_catalog_create(const struct expert_layer *layers, uint32_t n_layers, uint32_t align,
                                         struct expert_catalog **out, struct sluice_error *err);
void expert_catalog_destroy(struct expert_catalog *c);

uint32_t expert_catalog_n_layers(const struct expert_catalog *c);
uint32_t expert_catalog_align(const struct expert_catalog *c);
const struct expert_layer *expert_catalog_layer(const struct expert_catalog *c, uint32_t layer);
uint32_t expert_catalog_n_classes(const struct expert_catalog *c);
const struct expert_class *expert_catalog_class(const struct expert_catalog *c, uint32_t i);
uint32_t expert_catalog_class_of(const struct expert_catalog *c, uint32_t layer);
struct expert_extent expert_catalog_extent(const struct expert_catalog *c, uint32_t layer, uint32_t expert,
                                           uint32_t part);
uint32_t expert_catalog_n_experts(const struct expert_catalog *c); /* of all layers */
uint32_t expert_catalog_key(const struct expert_catalog *c, uint32_t layer,
                            uint32_t expert); /* dense id, 0 .. n_experts-1 */
void expert_catalog_unkey(const struct expert_catalog *c, uint32_t key, uint32_t *layer, uint32_t *expert);
const struct policy_shape *expert_catalog_policy_shape(const struct expert_catalog *c); /* lives as long */
uint64_t expert_catalog_total_bytes(const struct expert_catalog *c);                    /* real bytes of all experts */
uint64_t expert_catalog_token_bytes(const struct expert_catalog *c); /* real bytes of the experts that one token uses */
uint32_t
expert_catalog_common_class(const struct expert_catalog *c); /* the class with the most experts (a COUNT means these) */
size_t expert_catalog_memory_bytes(const struct expert_catalog *c);

#endif
