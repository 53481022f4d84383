/* Where tensors lie: sizes from types and shapes, offsets against the file's size, no two in the same bytes, nothing
 * large unaccounted for. All arithmetic is checked; a file may claim any 64-bit number. */
#include "gguf/private.h"
#include "quant/quant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HINT_DAMAGED "the file is damaged: download it again"
#define HINT_TRUNCATED "the download is incomplete: download the file again"

/* Type ids that ik_llama.cpp gave to formats of its own. */
static bool is_fork_type(uint32_t id) { return (id >= 97 && id <= 99) || (id >= 133 && id <= 158) || id >= 202; }

static enum sluice_status fail_type(const char *shown, const struct gguf_tensor *t, struct sluice_error *err)
{
    const char *name = quant_type_name(t->type);
    if (is_fork_type(t->type))
        return base_fail(err, SLUICE_ERR_MODEL, "download a file quantised for mainline llama.cpp",
                         "%s: tensor '%s' has type %" PRIu32 " (%s), which only the fork ik_llama.cpp knows", shown,
                         t->name, t->type, name ? name : "no known name");
    return base_fail(err, SLUICE_ERR_MODEL,
                     name ? "download a file with another quantisation" : "a newer Sluice may know it",
                     "%s: tensor '%s' has type %" PRIu32 " (%s), whose layout Sluice does not know", shown, t->name,
                     t->type, name ? name : "no known name");
}

enum sluice_status gguf_tensor_measure(const char *shown, struct gguf_tensor *t, struct sluice_error *err)
{
    uint32_t block_len = 0, block_bytes = 0;
    if (!quant_type_shape(t->type, &block_len, &block_bytes)) return fail_type(shown, t, err);
    uint64_t elements = 1;
    for (uint32_t d = 0; d < GGUF_DIMS_MAX; d++) {
        if (t->dims[d] == 0 || t->dims[d] > INT64_MAX)
            return base_fail(err, SLUICE_ERR_MODEL, HINT_DAMAGED,
                             "%s: dimension %" PRIu32 " of tensor '%s' is %" PRId64 "; it must be positive", shown, d,
                             t->name, (int64_t)t->dims[d]);
        if (__builtin_mul_overflow(elements, t->dims[d], &elements) || elements > INT64_MAX)
            return base_fail(err, SLUICE_ERR_MODEL, HINT_DAMAGED,
                             "%s: tensor '%s' has more elements than 64 bits count ([%" PRIu64 ", %" PRIu64 ", %" PRIu64
                             ", %" PRIu64 "])",
                             shown, t->name, t->dims[0], t->dims[1], t->dims[2], t->dims[3]);
    }
    if (t->dims[0] % block_len != 0)
        return base_fail(err, SLUICE_ERR_MODEL, HINT_DAMAGED,
                         "%s: rows of tensor '%s' have %" PRIu64 " elements, not a multiple of the %" PRIu32
                         " in a block of its type %" PRIu32 " (%s)",
                         shown, t->name, t->dims[0], block_len, t->type,
                         quant_type_name(t->type) ? quant_type_name(t->type) : "no known name");
    if (__builtin_mul_overflow(elements / block_len, (uint64_t)block_bytes, &t->bytes) || t->bytes > INT64_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, HINT_DAMAGED,
                         "%s: tensor '%s' has more bytes than 64 bits count (%" PRIu64 " elements)", shown, t->name,
                         elements);
    return SLUICE_OK;
}

enum sluice_status gguf_alignment_check(const char *shown, uint64_t alignment, struct sluice_error *err)
{
    if (alignment < GGUF_ALIGNMENT_MIN || alignment > GGUF_ALIGNMENT_MAX || (alignment & (alignment - 1)))
        return base_fail(err, SLUICE_ERR_MODEL, HINT_DAMAGED,
                         "%s: key '" GGUF_KEY_ALIGNMENT "' is %" PRIu64 "; it must be a power of two from %u to %u",
                         shown, alignment, GGUF_ALIGNMENT_MIN, GGUF_ALIGNMENT_MAX);
    return SLUICE_OK;
}

/* One tensor's place; its offset is still relative to the data section. */
static enum sluice_status place(struct gguf_file *f, struct gguf_tensor *t, const struct gguf_tensor **cut,
                                struct sluice_error *err)
{
    enum sluice_status status = gguf_tensor_measure(f->shown, t, err);
    if (status != SLUICE_OK) return status;
    uint64_t end;
    if (t->offset % f->alignment)
        return base_fail(err, SLUICE_ERR_MODEL, HINT_DAMAGED,
                         "%s: tensor '%s' lies at offset %" PRIu64 ", not a multiple of the file's alignment %" PRIu64,
                         f->shown, t->name, t->offset, f->alignment);
    if (__builtin_add_overflow(t->offset, f->header_bytes, &t->offset) ||
        __builtin_add_overflow(t->offset, t->bytes, &end) || end > INT64_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, HINT_DAMAGED,
                         "%s: tensor '%s' of %" PRIu64 " bytes lies at offset %" PRIu64 ", beyond any file", f->shown,
                         t->name, t->bytes, t->offset);
    if (end > f->bytes && !*cut) *cut = t;
    return SLUICE_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct gguf_tensor *x = *(const struct gguf_tensor *const *)a, *y = *(const struct gguf_tensor *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static enum sluice_status check_overlap(const struct gguf_file *f, struct sluice_error *err)
{
    if (f->n_rows < 2) return SLUICE_OK;
    const struct gguf_tensor **order = malloc(f->n_rows * sizeof(*order));
    if (!order) return base_fail(err, SLUICE_ERR_MEMORY, GGUF_HINT_MEMORY, "%s: no memory for its header", f->shown);
    for (size_t i = 0; i < f->n_rows; i++) order[i] = &f->rows[i].t;
    qsort(order, f->n_rows, sizeof(*order), by_offset);
    enum sluice_status status = SLUICE_OK;
    for (size_t i = 1; i < f->n_rows && status == SLUICE_OK; i++) {
        const struct gguf_tensor *a = order[i - 1], *b = order[i];
        if (a->offset + a->bytes > b->offset)
            status = base_fail(err, SLUICE_ERR_MODEL, HINT_DAMAGED,
                               "%s: tensors '%s' and '%s' overlap: the first ends at byte %" PRIu64
                               ", the second begins at %" PRIu64,
                               f->shown, a->name, b->name, a->offset + a->bytes, b->offset);
    }
    free(order);
    return status;
}

/* Bytes behind the last tensor: another GGUF there means that shards were joined with cat. */
static enum sluice_status check_surplus(const struct gguf_file *f, struct gguf_source *s, uint64_t end,
                                        struct sluice_error *err)
{
    if (f->bytes <= end) return SLUICE_OK;
    uint64_t aligned = (end + f->alignment - 1) & ~(f->alignment - 1);
    const uint64_t candidates[2] = {end, aligned};
    for (int i = 0; i < 2; i++) {
        uint8_t magic[4];
        if (candidates[i] > f->bytes || f->bytes - candidates[i] < sizeof magic) continue;
        enum sluice_status status = gguf_source_peek(s, candidates[i], magic, sizeof magic, err);
        if (status != SLUICE_OK) return status;
        if (memcmp(magic, "GGUF", 4) == 0)
            return base_fail(err, SLUICE_ERR_MODEL,
                             "open the first of the separate shards; to join shards use 'llama-gguf-split --merge'",
                             "%s: a second GGUF begins at byte %" PRIu64 " of %" PRIu64
                             ": it is several files joined with cat",
                             f->shown, candidates[i], f->bytes);
    }
    if (f->bytes - end > GGUF_SURPLUS_BYTES_MAX + f->alignment)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged or several files were joined: download it again",
                         "%s: its directory accounts for %" PRIu64 " bytes, the file has %" PRIu64, f->shown, end,
                         f->bytes);
    return SLUICE_OK;
}

enum sluice_status gguf_file_layout(struct gguf_file *f, struct gguf_source *s, struct sluice_error *err)
{
    f->alignment = GGUF_ALIGNMENT_DEFAULT;
    uint32_t alignment = GGUF_ALIGNMENT_DEFAULT;
    enum sluice_status status = gguf_file_u32(f, GGUF_KEY_ALIGNMENT, false, &alignment, err);
    if (status == SLUICE_OK) status = gguf_alignment_check(f->shown, alignment, err);
    if (status != SLUICE_OK) return status;
    f->alignment = alignment;
    uint64_t directory_end = f->header_bytes;
    f->header_bytes = (f->header_bytes + f->alignment - 1) & ~(f->alignment - 1);
    if (f->n_rows == 0 && f->header_bytes > f->bytes) f->header_bytes = f->bytes; /* no data, no padding needed */

    uint64_t end = f->n_rows ? f->header_bytes : directory_end;
    const struct gguf_tensor *cut = NULL;
    struct sluice_error why, *told = s->lenient ? &why : err;
    bool whole = true, misplaced = false; /* every tensor could be placed; it has been told that one could not */
    for (size_t i = 0; i < f->n_rows; i++) {
        struct gguf_tensor *t = &f->rows[i].t;
        status = place(f, t, &cut, told);
        if (status == SLUICE_OK) {
            if (t->offset + t->bytes > end) end = t->offset + t->bytes;
            continue;
        }
        if (!s->lenient) return status;
        uint32_t len, bytes;
        if (!misplaced && quant_type_shape(t->type, &len, &bytes))
            misplaced = gguf_tolerate(s->lenient, GGUF_FAULT_LAYOUT, &why); /* one is enough to tell of */
        whole = false;
        t->bytes = 0;
        if (__builtin_add_overflow(t->offset, f->header_bytes, &t->offset)) t->offset = 0;
    }
    if (cut)
        status =
            base_fail(told, SLUICE_ERR_MODEL,
                      gguf_is_raw_piece(f->path) ? "this is a raw piece of a file: join all pieces with cat, in order"
                                                 : HINT_TRUNCATED,
                      "%s: needs %" PRIu64 " bytes and has %" PRIu64 ": tensor '%s' ends at byte %" PRIu64, f->shown,
                      end, f->bytes, cut->name, cut->offset + cut->bytes);
    if (status != SLUICE_OK && cut && !gguf_tolerate(s->lenient, GGUF_FAULT_CUT, &why)) return status;
    if (!whole) return SLUICE_OK; /* the rest can be judged only with every tensor in its place */
    status = check_overlap(f, told);
    if (status == SLUICE_OK) status = check_surplus(f, s, end, told);
    if (status == SLUICE_ERR_MODEL && gguf_tolerate(s->lenient, GGUF_FAULT_LAYOUT, &why)) return SLUICE_OK;
    if (status != SLUICE_OK && s->lenient && err) *err = why;
    return status;
}
