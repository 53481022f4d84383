/* From a GGUF's directory to a struct model, driven by the architecture's table (arch.h). */
#include "model/arch.h"
#include "model/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct binder {
    const struct gguf *g;
    struct model *m;
    size_t n_used, n_faults;
    char faults[400]; /* the first few, in words */
};

static void fault(struct binder *b, const char *format, ...) BASE_PRINTF(2, 3);
static void fault(struct binder *b, const char *format, ...)
{
    size_t at = strlen(b->faults);
    if (at + 120 < sizeof b->faults) {
        if (at) at += (size_t)snprintf(b->faults + at, sizeof b->faults - at, "; ");
        va_list args;
        va_start(args, format);
        vsnprintf(b->faults + at, sizeof b->faults - at, format, args);
        va_end(args);
    }
    b->n_faults++;
}

static uint64_t dim_of(const struct model_hparams *hp, enum bind_dim d)
{
    switch (d) {
    case D_NONE:
    case D_ONE: return 1;
    case D_EMBD: return hp->n_embd;
    case D_Q: return (uint64_t)hp->n_head * hp->d_head_k;
    case D_K: return (uint64_t)hp->n_head_kv * hp->d_head_k;
    case D_V: return (uint64_t)hp->n_head_kv * hp->d_head_v;
    case D_ATTN: return (uint64_t)hp->n_head * hp->d_head_v;
    case D_HEAD: return hp->d_head_k;
    case D_FF: return hp->n_ff;
    case D_FF_EXP: return hp->n_ff_exp;
    case D_FF_SHEXP: return hp->n_ff_shexp;
    case D_EXPERT: return hp->n_expert;
    case D_VOCAB: return hp->n_vocab;
    case D_ROT2: return hp->n_rot / 2;
    }
    return 0;
}

/* Whether t has the wanted shape and a type that Sluice computes with. */
static bool tensor_fits(struct binder *b, const struct gguf_tensor *t, const uint64_t dims[3])
{
    if (t->dims[0] != dims[0] || t->dims[1] != dims[1] || t->dims[2] != dims[2] || t->dims[3] != 1) {
        fault(b,
              "tensor '%s' has shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "], expected [%" PRIu64 ", %" PRIu64
              ", %" PRIu64 "]",
              t->name, t->dims[0], t->dims[1], t->dims[2], dims[0], dims[1], dims[2]);
        return false;
    }
    if (!quant_type(t->type)) {
        const char *name = quant_type_name(t->type);
        fault(b, "tensor '%s' has type %s (%" PRIu32 "), which Sluice cannot compute with", t->name,
              name ? name : "unknown", t->type);
        return false;
    }
    return true;
}

static void fill_tensor(const struct gguf_tensor *t, struct model_tensor *out)
{
    *out = (struct model_tensor){.name = t->name,
                                 .type = quant_type(t->type),
                                 .dims = {t->dims[0], t->dims[1], t->dims[2]},
                                 .file = t->shard,
                                 .offset = t->offset,
                                 .bytes = t->bytes};
}

/* One dense tensor by its full name. */
static void bind_tensor(struct binder *b, const char *name, const uint8_t dims[3], unsigned flags,
                        struct model_tensor *out)
{
    const struct gguf_tensor *t = gguf_find_tensor(b->g, name);
    if (!t) {
        if (!(flags & BIND_OPTIONAL)) fault(b, "tensor '%s' is missing", name);
        return;
    }
    uint64_t want[3];
    for (int i = 0; i < 3; i++) want[i] = dim_of(&b->m->hp, dims[i]);
    if (!tensor_fits(b, t, want)) return;
    fill_tensor(t, out);
    out->is_vector = (flags & BIND_VECTOR) != 0;
    if (out->is_vector) {
        if (out->type->form != QUANT_FORM_FLOAT)
            fault(b, "tensor '%s' has type %s, a float type is expected", name, out->type->name);
        if (out->type->id != QUANT_F32) b->m->converted_bytes += (want[0] * want[1] * 4 + 63) / 64 * 64;
    }
    b->m->dense[b->m->n_dense++] = out;
    b->m->dense_bytes += t->bytes;
    b->n_used++;
}

static const char *const part_names[MODEL_EXPERT_PARTS] = {"gate", "up", "down"};

/* Old files hold each expert's matrices as tensors of their own, "blk.N.ffn_gate.E.weight". */
static void bind_single_experts(struct binder *b, uint32_t layer, int part, const uint64_t dims[3])
{
    struct model *m = b->m;
    uint32_t n = m->hp.n_expert;
    struct expert_layer *e = &m->experts[layer];
    const struct quant_type *type = NULL;
    for (uint32_t i = 0; i < n; i++) {
        char name[128];
        snprintf(name, sizeof name, "blk.%" PRIu32 ".ffn_%s.%" PRIu32 ".weight", layer, part_names[part], i);
        const struct gguf_tensor *t = gguf_find_tensor(b->g, name);
        if (!t) {
            fault(b, "tensor '%s' is missing", name);
            return;
        }
        if (!tensor_fits(b, t, (const uint64_t[3]){dims[0], dims[1], 1})) return;
        if (type && type->id != t->type) {
            fault(b, "tensor '%s' has type %s, the layer's other experts %s", name, quant_type(t->type)->name,
                  type->name);
            return;
        }
        type = quant_type(t->type);
        if (t->bytes > UINT32_MAX / 4) {
            fault(b, "tensor '%s' is %" PRIu64 " bytes, too large for one expert", name, t->bytes);
            return;
        }
        m->each[((size_t)layer * n + i) * MODEL_EXPERT_PARTS + (size_t)part] =
            (struct expert_extent){.file = t->shard, .bytes = (uint32_t)t->bytes, .offset = t->offset};
        e->part[part].bytes = (uint32_t)t->bytes;
        b->n_used++;
    }
    m->layers[layer].exps_type[part] = type;
    e->each = m->each + (size_t)layer * n * MODEL_EXPERT_PARTS;
}

static void bind_experts(struct binder *b, uint32_t layer)
{
    struct model *m = b->m;
    const struct model_hparams *hp = &m->hp;
    struct expert_layer *e = &m->experts[layer];
    *e = (struct expert_layer){
        .n_expert = hp->n_expert, .n_used = hp->n_expert_used, .n_parts = MODEL_EXPERT_PARTS, .n_parts_first = 2};
    for (int part = 0; part < MODEL_EXPERT_PARTS; part++) {
        uint64_t in = part == MODEL_DOWN ? hp->n_ff_exp : hp->n_embd,
                 out = part == MODEL_DOWN ? hp->n_embd : hp->n_ff_exp;
        const uint64_t dims[3] = {in, out, hp->n_expert};
        char name[128];
        snprintf(name, sizeof name, "blk.%" PRIu32 ".ffn_%s_exps.weight", layer, part_names[part]);
        const struct gguf_tensor *t = gguf_find_tensor(b->g, name);
        if (!t) {
            char single[128];
            snprintf(single, sizeof single, "blk.%" PRIu32 ".ffn_%s.0.weight", layer, part_names[part]);
            if (gguf_find_tensor(b->g, single))
                bind_single_experts(b, layer, part, dims);
            else
                fault(b, "tensor '%s' is missing", name);
            continue;
        }
        if (!tensor_fits(b, t, dims)) continue;
        uint64_t slab = t->bytes / hp->n_expert;
        if (slab > UINT32_MAX / 4) {
            fault(b, "tensor '%s': one expert is %" PRIu64 " bytes, too large", name, slab);
            continue;
        }
        m->layers[layer].exps_type[part] = quant_type(t->type);
        e->part[part].file = t->shard;
        e->part[part].offset = t->offset;
        e->part[part].stride_bytes = slab;
        e->part[part].bytes = (uint32_t)slab;
        b->n_used++;
    }
}

static void bind_layer(struct binder *b, uint32_t layer)
{
    struct model *m = b->m;
    struct model_layer *l = &m->layers[layer];
    l->is_moe = m->hp.n_expert > 0;
    for (const struct bind_row *row = m->arch->rows; row->suffix; row++) {
        if ((row->flags & BIND_MOE && !l->is_moe) || (row->flags & BIND_DENSE && l->is_moe)) continue;
        char name[128];
        snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", layer, row->suffix);
        bind_tensor(b, name, row->dims, row->flags, (struct model_tensor *)((char *)l + row->at));
    }
    if (l->is_moe) bind_experts(b, layer);
}

static int by_place(const void *a, const void *b)
{
    const struct model_tensor *x = *(struct model_tensor *const *)a, *y = *(struct model_tensor *const *)b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static enum sluice_status model_alloc(const struct gguf *g, struct model *m, struct sluice_error *err)
{
    size_t n = m->hp.n_layer;
    m->layers = calloc(n, sizeof *m->layers);
    m->experts = calloc(n, sizeof *m->experts);
    m->dense = calloc(gguf_n_tensors(g) + 1, sizeof *m->dense);
    bool single = gguf_find_tensor(g, "blk.0.ffn_down.0.weight") != NULL;
    if (single && m->hp.n_expert) m->each = calloc(n * m->hp.n_expert * MODEL_EXPERT_PARTS, sizeof *m->each);
    if (!m->layers || !m->experts || !m->dense || (single && m->hp.n_expert && !m->each))
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the model's directory (%zu layers)", n);
    return SLUICE_OK;
}

static enum sluice_status check_arch(const struct gguf *g, struct model *m, struct sluice_error *err)
{
    struct gguf_str arch;
    enum sluice_status st = gguf_get_str(g, "general.architecture", true, &arch, err);
    if (st) return st;
    m->arch = model_arch_find(arch.at, arch.bytes);
    if (!m->arch) {
        base_fail(err, SLUICE_ERR_MODEL, NULL, "%s: architecture '%.*s' is not supported", gguf_shard(g, 0)->path,
                  (int)(arch.bytes < 60 ? arch.bytes : 60), arch.at);
        base_hint(err, "supported are %s", model_arch_list());
        return SLUICE_ERR_MODEL;
    }
    if ((st = model_hparams_read(g, &m->hp, err))) return st;
    if (!m->hp.n_expert && !m->arch->moe_optional)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged",
                         "%s: architecture '%s' needs key '%s.expert_count' above 0", gguf_shard(g, 0)->path,
                         m->arch->name, m->arch->name);
    return m->arch->finish ? m->arch->finish(&m->hp, err) : SLUICE_OK;
}

enum sluice_status model_bind(const struct gguf *g, struct model **out, struct sluice_error *err)
{
    *out = NULL;
    struct model *m = calloc(1, sizeof *m);
    if (!m) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the model's directory");
    enum sluice_status st = check_arch(g, m, err);
    if (!st) st = model_alloc(g, m, err);
    if (st) goto fail;

    struct binder b = {.g = g, .m = m};
    bind_tensor(&b, "token_embd.weight", (const uint8_t[3]){D_EMBD, D_VOCAB}, 0, &m->token_embd);
    bind_tensor(&b, "output_norm.weight", (const uint8_t[3]){D_EMBD}, BIND_VECTOR, &m->output_norm);
    bind_tensor(&b, "output.weight", (const uint8_t[3]){D_EMBD, D_VOCAB}, BIND_OPTIONAL, &m->output);
    bind_tensor(&b, "output.scale", (const uint8_t[3]){D_ONE}, BIND_OPTIONAL | BIND_VECTOR, &m->output_scale);
    bind_tensor(&b, "rope_freqs.weight", (const uint8_t[3]){D_ROT2}, BIND_OPTIONAL | BIND_VECTOR, &m->rope_freqs);
    m->output_tied = !m->output.name;
    for (uint32_t l = 0; l < m->hp.n_layer; l++) bind_layer(&b, l);
    if (b.n_faults) {
        size_t shown = 1;
        for (const char *p = b.faults; (p = strstr(p, "; ")); p += 2) shown++;
        char more[48] = "";
        if (b.n_faults > shown) snprintf(more, sizeof more, " (and %zu more like these)", b.n_faults - shown);
        st = base_fail(err, SLUICE_ERR_MODEL,
                       "the file is incomplete, made for another version of the format, or uses a type that is not "
                       "supported; `sluice inspect` lists its tensors",
                       "%s: %s%s", gguf_shard(g, 0)->path, b.faults, more);
        goto fail;
    }
    m->n_ignored = gguf_n_tensors(g) - b.n_used;
    qsort(m->dense, m->n_dense, sizeof *m->dense, by_place);
    *out = m;
    return SLUICE_OK;
fail:
    model_free(m);
    return st;
}

void model_free(struct model *m)
{
    if (!m) return;
    free(m->layers);
    free(m->experts);
    free(m->each);
    free(m->dense);
    free(m);
}
