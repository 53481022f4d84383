/* Builds the table of experts from plain layers: keys by prefix sums, size classes by equal part sizes.
 *
 * A slot is a row of regions, one a part. A read of [offset, offset + bytes) must begin and end on the alignment, so it
 * takes up to align - 1 bytes before and after; a region has room for the worst case whatever the offset of the expert
 * that happens to be in the slot: bytes + (align - 1), rounded up. The part then begins at region + offset % align.
 * Slots are whole pages, so that the memory of any number of slots can be committed and counted exactly (E6). */
#include "expert/catalog.h"

#include "base/assert.h"
#include "io/io.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ALIGN_MAX 65536u
#define REGION_ALIGN 64u               /* a cache line, for the kernels */
#define SLOT_BYTES_MAX 0x80000000u     /* 2 GiB: one expert */
#define OFFSET_MAX ((uint64_t)1 << 62) /* no file is longer */

struct expert_catalog {
    uint32_t n_layers, n_classes, n_experts, align, common_class;
    uint64_t total_bytes, token_bytes;
    struct expert_layer *layers;   /* [n_layers]; each points into extents */
    uint32_t *first_key;           /* [n_layers + 1] */
    uint32_t *class_of;            /* [n_layers]; of a dense layer UINT32_MAX */
    struct expert_extent *extents; /* copies of all `each` lists */
    size_t n_extents;
    struct policy_layer *policy_layers; /* [n_layers] */
    struct policy_shape policy_shape;   /* of them */
    struct expert_class classes[EXPERT_CLASSES_MAX];
};

static uint64_t round_up(uint64_t value, uint64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

static enum sluice_status check_extent(uint32_t layer, uint32_t expert, uint32_t part, const struct expert_extent *x,
                                       uint32_t bytes, struct sluice_error *err)
{
    if (x->file >= IO_FILES_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, NULL,
                         "layer %u, expert %u, part %u is in file number %u; at most %d files are supported", layer,
                         expert, part, x->file, IO_FILES_MAX);
    if (x->bytes != bytes)
        return base_fail(err, SLUICE_ERR_MODEL, NULL,
                         "layer %u, expert %u, part %u has %u bytes, others of the layer %u", layer, expert, part,
                         x->bytes, bytes);
    if (x->offset > OFFSET_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, NULL,
                         "layer %u, expert %u, part %u begins at byte %" PRIu64 ", which no file has", layer, expert,
                         part, x->offset);
    return SLUICE_OK;
}

static enum sluice_status check_part(uint32_t layer, const struct expert_layer *l, uint32_t p, struct sluice_error *err)
{
    uint32_t bytes = l->part[p].bytes;
    if (bytes == 0) return base_fail(err, SLUICE_ERR_MODEL, NULL, "layer %u: part %u of an expert is empty", layer, p);
    if (l->each) {
        for (uint32_t e = 0; e < l->n_expert; e++) {
            enum sluice_status status = check_extent(layer, e, p, &l->each[(size_t)e * l->n_parts + p], bytes, err);
            if (status) return status;
        }
        return SLUICE_OK;
    }
    uint64_t stride = l->part[p].stride_bytes;
    if (l->n_expert > 1 && (stride < bytes || stride > OFFSET_MAX / EXPERT_COUNT_MAX))
        return base_fail(err, SLUICE_ERR_MODEL, NULL,
                         "layer %u: part %u has %u bytes an expert, but experts are %" PRIu64 " bytes apart", layer, p,
                         bytes, stride);
    struct expert_extent first = {l->part[p].file, bytes, l->part[p].offset};
    return check_extent(layer, 0, p, &first, bytes, err);
}

static enum sluice_status check_layer(uint32_t layer, const struct expert_layer *l, struct sluice_error *err)
{
    if (l->n_expert == 0) return SLUICE_OK;
    if (l->n_expert > EXPERT_COUNT_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, NULL, "layer %u has %u experts; at most %d are supported", layer,
                         l->n_expert, EXPERT_COUNT_MAX);
    if (l->n_used == 0 || l->n_used > l->n_expert)
        return base_fail(err, SLUICE_ERR_MODEL, NULL, "layer %u uses %u of %u experts a token", layer, l->n_used,
                         l->n_expert);
    if (l->n_parts == 0 || l->n_parts > EXPERT_PARTS_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, NULL, "layer %u has experts of %u parts; 1 to %d are supported", layer,
                         l->n_parts, EXPERT_PARTS_MAX);
    BASE_ASSERT(l->n_parts_first >= 1 && l->n_parts_first <= l->n_parts, "an expert starts with some of its parts");
    for (uint32_t p = 0; p < l->n_parts; p++) {
        enum sluice_status status = check_part(layer, l, p, err);
        if (status) return status;
    }
    return SLUICE_OK;
}

static bool same_class(const struct expert_layer *a, const struct expert_layer *b)
{
    if (a->n_parts != b->n_parts) return false;
    for (uint32_t p = 0; p < a->n_parts; p++)
        if (a->part[p].bytes != b->part[p].bytes) return false;
    return true;
}

/* Regions and slot size of a new class from a layer's part sizes. */
static enum sluice_status shape_class(uint32_t layer, const struct expert_layer *l, uint32_t align,
                                      struct expert_class *out, struct sluice_error *err)
{
    uint64_t at = 0, grain = align > REGION_ALIGN ? align : REGION_ALIGN;
    size_t page = os_page_bytes();
    *out = (struct expert_class){.n_parts = l->n_parts};
    for (uint32_t p = 0; p < l->n_parts; p++) {
        if (at > SLOT_BYTES_MAX) break;
        out->part_at[p] = (uint32_t)at;
        at += round_up((uint64_t)l->part[p].bytes + (align - 1), grain);
        out->expert_bytes += l->part[p].bytes;
    }
    at = round_up(at, align > page ? align : page);
    if (at > SLOT_BYTES_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, NULL,
                         "layer %u: one expert needs more than %u bytes, the most that is supported", layer,
                         SLOT_BYTES_MAX);
    out->slot_bytes = (uint32_t)at;
    return SLUICE_OK;
}

/* Finds the class of a layer among those of the layers before it, or begins a new one. */
static enum sluice_status classify(struct expert_catalog *c, uint32_t layer, struct sluice_error *err)
{
    const struct expert_layer *l = &c->layers[layer];
    uint32_t found = c->n_classes;
    for (uint32_t i = 0; i < layer && found == c->n_classes; i++)
        if (c->layers[i].n_expert && same_class(l, &c->layers[i])) found = c->class_of[i];
    if (found == c->n_classes) {
        if (found == EXPERT_CLASSES_MAX)
            return base_fail(err, SLUICE_ERR_MODEL, NULL, "layer %u: the model has more than %d different expert sizes",
                             layer, EXPERT_CLASSES_MAX);
        enum sluice_status status = shape_class(layer, l, c->align, &c->classes[found], err);
        if (status) return status;
        c->n_classes++;
    }
    struct expert_class *class = &c->classes[found];
    c->class_of[layer] = found;
    class->n_experts += l->n_expert;
    if (l->n_used > class->k_max) class->k_max = l->n_used;
    c->total_bytes += class->expert_bytes * l->n_expert;
    c->token_bytes += class->expert_bytes * l->n_used;
    return SLUICE_OK;
}

/* Copies the layers and their `each` lists. */
static void copy_layers(struct expert_catalog *c, const struct expert_layer *layers)
{
    size_t at = 0;
    for (uint32_t i = 0; i < c->n_layers; i++) {
        struct expert_layer *l = &c->layers[i];
        *l = layers[i];
        c->first_key[i] = c->n_experts;
        c->class_of[i] = UINT32_MAX;
        c->n_experts += l->n_expert;
        if (l->n_expert == 0 || !l->each) {
            l->each = NULL;
            continue;
        }
        size_t n = (size_t)l->n_expert * l->n_parts;
        memcpy(c->extents + at, l->each, n * sizeof *l->each);
        l->each = c->extents + at;
        at += n;
    }
    c->first_key[c->n_layers] = c->n_experts;
}

/* The same, as policies see it. */
static void shape_policy(struct expert_catalog *c)
{
    for (uint32_t i = 0; i < c->n_layers; i++)
        c->policy_layers[i] = (struct policy_layer){.first_key = c->first_key[i],
                                                    .n_expert = c->layers[i].n_expert,
                                                    .n_used = c->layers[i].n_expert ? c->layers[i].n_used : 0,
                                                    .class_index = c->layers[i].n_expert ? c->class_of[i] : 0};
    c->policy_shape =
        (struct policy_shape){.layers = c->policy_layers, .n_layers = c->n_layers, .n_classes = c->n_classes};
}

enum sluice_status expert_catalog_create(const struct expert_layer *layers, uint32_t n_layers, uint32_t align,
                                         struct expert_catalog **out, struct sluice_error *err)
{
    *out = NULL;
    BASE_ASSERT(align != 0 && align <= ALIGN_MAX && (align & (align - 1)) == 0, "the alignment is a power of two");
    if (n_layers > EXPERT_LAYERS_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, NULL, "the model has %u layers; at most %d are supported", n_layers,
                         EXPERT_LAYERS_MAX);
    size_t n_extents = 0;
    for (uint32_t i = 0; i < n_layers; i++) {
        enum sluice_status status = check_layer(i, &layers[i], err);
        if (status) return status;
        if (layers[i].n_expert && layers[i].each) n_extents += (size_t)layers[i].n_expert * layers[i].n_parts;
    }

    enum sluice_status status = SLUICE_ERR_MEMORY;
    struct expert_catalog *c = calloc(1, sizeof *c);
    if (!c) goto fail;
    c->n_layers = n_layers;
    c->align = align;
    c->n_extents = n_extents;
    c->layers = calloc((size_t)n_layers + 1, sizeof *c->layers);
    c->first_key = calloc((size_t)n_layers + 1, sizeof *c->first_key);
    c->class_of = calloc((size_t)n_layers + 1, sizeof *c->class_of);
    c->extents = calloc(n_extents + 1, sizeof *c->extents);
    c->policy_layers = calloc((size_t)n_layers + 1, sizeof *c->policy_layers);
    if (!c->layers || !c->first_key || !c->class_of || !c->extents || !c->policy_layers) goto fail;
    copy_layers(c, layers);
    for (uint32_t i = 0; i < n_layers; i++) {
        if (!c->layers[i].n_expert) continue;
        status = classify(c, i, err);
        if (status) goto fail_said;
    }
    shape_policy(c);
    for (uint32_t i = 1; i < c->n_classes; i++)
        if (c->classes[i].n_experts > c->classes[c->common_class].n_experts) c->common_class = i;
    *out = c;
    return SLUICE_OK;

fail:
    base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the table of experts (%u layers)", n_layers);
fail_said:
    expert_catalog_destroy(c);
    return status;
}

void expert_catalog_destroy(struct expert_catalog *c)
{
    if (!c) return;
    free(c->policy_layers);
    free(c->extents);
    free(c->class_of);
    free(c->first_key);
    free(c->layers);
    free(c);
}

const struct policy_shape *expert_catalog_policy_shape(const struct expert_catalog *c) { return &c->policy_shape; }
uint32_t expert_catalog_n_layers(const struct expert_catalog *c) { return c->n_layers; }
uint32_t expert_catalog_n_classes(const struct expert_catalog *c) { return c->n_classes; }
uint32_t expert_catalog_n_experts(const struct expert_catalog *c) { return c->n_experts; }
uint32_t expert_catalog_align(const struct expert_catalog *c) { return c->align; }
uint64_t expert_catalog_total_bytes(const struct expert_catalog *c) { return c->total_bytes; }
uint64_t expert_catalog_token_bytes(const struct expert_catalog *c) { return c->token_bytes; }
uint32_t expert_catalog_common_class(const struct expert_catalog *c) { return c->common_class; }

const struct expert_layer *expert_catalog_layer(const struct expert_catalog *c, uint32_t layer)
{
    BASE_ASSERT(layer < c->n_layers, "a layer of the catalog");
    return &c->layers[layer];
}

const struct expert_class *expert_catalog_class(const struct expert_catalog *c, uint32_t i)
{
    BASE_ASSERT(i < c->n_classes, "a class of the catalog");
    return &c->classes[i];
}

uint32_t expert_catalog_class_of(const struct expert_catalog *c, uint32_t layer)
{
    BASE_ASSERT(layer < c->n_layers && c->class_of[layer] != UINT32_MAX, "a layer with experts");
    return c->class_of[layer];
}

struct expert_extent expert_catalog_extent(const struct expert_catalog *c, uint32_t layer, uint32_t expert,
                                           uint32_t part)
{
    BASE_ASSERT(layer < c->n_layers, "a layer of the catalog");
    const struct expert_layer *l = &c->layers[layer];
    BASE_ASSERT(expert < l->n_expert && part < l->n_parts, "an expert and a part of the layer");
    if (l->each) return l->each[(size_t)expert * l->n_parts + part];
    return (struct expert_extent){.file = l->part[part].file,
                                  .bytes = l->part[part].bytes,
                                  .offset = l->part[part].offset + l->part[part].stride_bytes * expert};
}

uint32_t expert_catalog_key(const struct expert_catalog *c, uint32_t layer, uint32_t expert)
{
    BASE_ASSERT(layer < c->n_layers && expert < c->layers[layer].n_expert, "an expert of the layer");
    return c->first_key[layer] + expert;
}

/* The last layer whose first key is not above key; dense layers share their first key with the layer after them. */
void expert_catalog_unkey(const struct expert_catalog *c, uint32_t key, uint32_t *layer, uint32_t *expert)
{
    BASE_ASSERT(key < c->n_experts, "a key of the catalog");
    uint32_t low = 0, high = c->n_layers; /* first_key[low] <= key < first_key[high] */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (c->first_key[middle] <= key)
            low = middle;
        else
            high = middle;
    }
    *layer = low;
    *expert = key - c->first_key[low];
}

size_t expert_catalog_memory_bytes(const struct expert_catalog *c)
{
    return sizeof *c +
           ((size_t)c->n_layers + 1) *
               (sizeof *c->layers + sizeof *c->first_key + sizeof *c->class_of + sizeof *c->policy_layers) +
           (c->n_extents + 1) * sizeof *c->extents;
}
