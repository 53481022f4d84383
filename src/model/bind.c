/* From a GGUF's directory to a struct model, driven by the architecture's table (arch.h). */
#include "model/arch.h"
#include "model/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPE_I32 26u /* GGUF's type of tables of int32 */

struct binder {
    const struct gguf *g;
    struct model *m;
    bool *used;           /* [gguf_n_tensors] */
    uint32_t layer;       /* that is being bound */
    model_fault_fn *told; /* of each fault; or NULL */
    void *user;
    size_t n_faults;
    char faults[400]; /* the first few, in words */
};

static void fault(struct binder *b, enum model_fault kind, const char *name, const char *format, ...) BASE_PRINTF(4, 5);
static void fault(struct binder *b, enum model_fault kind, const char *name, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (b->told) b->told(b->user, kind, name, text, "");
    const size_t at = strlen(b->faults);
    if (at + 120 < sizeof b->faults)
        snprintf(b->faults + at, sizeof b->faults - at, "%s%.*s", at ? "; " : "", (int)(sizeof b->faults - at - 3),
                 text);
    b->n_faults++;
}

static uint64_t dim_of(const struct model *m, uint32_t layer, uint8_t d)
{
    const struct model_hparams *hp = &m->hp;
    const struct model_layer_hparams *l = &hp->layer[layer];
    const uint64_t k = (uint64_t)l->n_head_kv * l->d_head_k, v = (uint64_t)l->n_head_kv * l->d_head_v,
                   q = (uint64_t)l->n_head * l->d_head_k * (hp->attention.gated ? 2 : 1);
    switch ((enum bind_dim)d) {
    case D_NONE:
    case D_ONE: return 1;
    case D_EMBD: return hp->n_embd;
    case D_Q: return q;
    case D_K: return k;
    case D_V: return v;
    case D_QKV: return q + k + v;
    case D_ATTN: return (uint64_t)l->n_head * l->d_head_v;
    case D_HEAD: return l->d_head_k;
    case D_HEADS: return l->n_head;
    case D_FF: return l->n_ff;
    case D_FF_EXP: return l->n_ff_exp;
    case D_FF_SHEXP: return l->n_ff_shexp;
    case D_EXPERT: return l->n_expert;
    case D_VOCAB: return hp->n_vocab;
    case D_ROT2: return hp->ropes[0].n_rot / 2;
    case D_CONV: return hp->n_conv;
    case D_3EMBD: return 3 * (uint64_t)hp->n_embd;
    case D_ARCH: break;
    }
    return m->arch->dim ? m->arch->dim(hp, layer, d) : 0;
}

static const struct gguf_tensor *find(struct binder *b, const char *name)
{
    const struct gguf_tensor *t = gguf_find_tensor(b->g, name);
    for (size_t i = 0; t && i < gguf_n_tensors(b->g); i++)
        if (gguf_tensor(b->g, i) == t) b->used[i] = true;
    return t;
}

/* Whether t has the wanted shape and a type that Sluice computes with. */
static bool tensor_fits(struct binder *b, const struct gguf_tensor *t, const uint64_t dims[3], unsigned flags)
{
    const bool flat = flags & BIND_FLAT && t->dims[0] == dims[0] && t->dims[1] == dims[1] * dims[2] && t->dims[2] == 1;
    if (!flat && (t->dims[0] != dims[0] || t->dims[1] != dims[1] || t->dims[2] != dims[2] || t->dims[3] != 1)) {
        fault(b, MODEL_FAULT_SHAPE, t->name,
              "tensor '%s' has shape [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "], expected [%" PRIu64 ", %" PRIu64
              ", %" PRIu64 "]",
              t->name, t->dims[0], t->dims[1], t->dims[2], dims[0], dims[1], dims[2]);
        return false;
    }
    if (flags & BIND_IDS) {
        if (t->type != TYPE_I32)
            fault(b, MODEL_FAULT_TYPE, t->name, "tensor '%s' has type %" PRIu32 ", expected I32", t->name, t->type);
        return t->type == TYPE_I32;
    }
    if (!quant_type(t->type)) {
        const char *name = quant_type_name(t->type);
        fault(b, MODEL_FAULT_TYPE, t->name, "tensor '%s' has type %s (%" PRIu32 "), which Sluice cannot compute with",
              t->name, name ? name : "unknown", t->type);
        return false;
    }
    const uint32_t block = quant_type(t->type)->block_len;
    if (t->dims[0] % block) { /* gguf refuses such a file too, unless it is only looked at */
        fault(b, MODEL_FAULT_SHAPE, t->name,
              "rows of tensor '%s' have %" PRIu64 " elements, not a multiple of the %" PRIu32 " in a block of %s",
              t->name, t->dims[0], block, quant_type(t->type)->name);
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
    const struct gguf_tensor *t = find(b, name);
    if (!t) {
        if (!(flags & BIND_OPTIONAL)) fault(b, MODEL_FAULT_MISSING, name, "tensor '%s' is missing", name);
        return;
    }
    uint64_t want[3];
    for (int i = 0; i < 3; i++) want[i] = dim_of(b->m, b->layer, dims[i]);
    if (!tensor_fits(b, t, want, flags)) return;
    fill_tensor(t, out);
    memcpy(out->dims, want, sizeof out->dims);
    if (flags & BIND_IDS) out->type = quant_type(QUANT_F32); /* bytes that are loaded as they are */
    out->is_vector = (flags & BIND_VECTOR) != 0;
    if (out->is_vector) {
        if (out->type->form != QUANT_FORM_FLOAT)
            fault(b, MODEL_FAULT_TYPE, name, "tensor '%s' has type %s, a float type is expected", name,
                  out->type->name);
        if (out->type->id != QUANT_F32) b->m->converted_bytes += (want[0] * want[1] * want[2] * 4 + 63) / 64 * 64;
    }
    b->m->dense[b->m->n_dense++] = out;
    b->m->dense_bytes += t->bytes;
}

static const char *const matrix_names[MODEL_EXPERT_MATRICES] = {"gate", "up", "down"};

/* Old files hold each expert's matrices as tensors of their own, "blk.N.ffn_gate.E.weight". */
static void bind_single_experts(struct binder *b, int matrix, const uint64_t dims[3])
{
    struct model *m = b->m;
    const uint32_t layer = b->layer;
    uint32_t n = m->hp.layer[layer].n_expert;
    struct expert_layer *e = &m->experts[layer];
    const struct quant_type *type = NULL;
    for (uint32_t i = 0; i < n; i++) {
        char name[128];
        snprintf(name, sizeof name, "blk.%" PRIu32 ".ffn_%s.%" PRIu32 ".weight", layer, matrix_names[matrix], i);
        const struct gguf_tensor *t = find(b, name);
        if (!t) {
            fault(b, MODEL_FAULT_MISSING, name, "tensor '%s' is missing", name);
            return;
        }
        if (!tensor_fits(b, t, (const uint64_t[3]){dims[0], dims[1], 1}, 0)) return;
        if (type && type->id != t->type) {
            fault(b, MODEL_FAULT_OTHER, name, "tensor '%s' has type %s, the layer's other experts %s", name,
                  quant_type(t->type)->name, type->name);
            return;
        }
        type = quant_type(t->type);
        if (t->bytes > UINT32_MAX / 4) {
            fault(b, MODEL_FAULT_OTHER, name, "tensor '%s' is %" PRIu64 " bytes, too large for one expert", name,
                  t->bytes);
            return;
        }
        m->each[((size_t)layer * m->hp.n_expert + i) * MODEL_EXPERT_MATRICES + (size_t)matrix] =
            (struct expert_extent){.file = t->shard, .bytes = (uint32_t)t->bytes, .offset = t->offset};
        e->part[matrix].bytes = (uint32_t)t->bytes;
    }
    m->layers[layer].exps[matrix] = (struct model_expert_place){.type = type, .part = (uint8_t)matrix};
    e->each = m->each + (size_t)layer * m->hp.n_expert * MODEL_EXPERT_MATRICES;
}

/* One tensor with a slab an expert becomes a part. NULL if it is absent or unfit (which has been said). */
static const struct gguf_tensor *bind_part(struct binder *b, const char *suffix, int part, const uint64_t dims[3])
{
    char name[128];
    snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", b->layer, suffix);
    const struct gguf_tensor *t = find(b, name);
    if (!t || !tensor_fits(b, t, dims, 0)) return NULL;
    uint64_t slab = t->bytes / dims[2];
    if (slab > UINT32_MAX / 4) {
        fault(b, MODEL_FAULT_OTHER, name, "tensor '%s': one expert is %" PRIu64 " bytes, too large", name, slab);
        return NULL;
    }
    struct expert_layer *e = &b->m->experts[b->layer];
    e->part[part].file = t->shard;
    e->part[part].offset = t->offset;
    e->part[part].stride_bytes = slab;
    e->part[part].bytes = (uint32_t)slab;
    return t;
}

/* ffn_gate_up_exps: rows of gate, then of up, as one part. */
static void bind_fused(struct binder *b)
{
    const struct model_layer_hparams *lh = &b->m->hp.layer[b->layer];
    struct model_expert_place *exps = b->m->layers[b->layer].exps;
    struct expert_layer *e = &b->m->experts[b->layer];
    e->n_parts = 2;
    e->n_parts_first = 1;
    const struct gguf_tensor *t =
        bind_part(b, "ffn_gate_up_exps.weight", 0,
                  (const uint64_t[3]){b->m->hp.n_embd, 2 * (uint64_t)lh->n_ff_exp, lh->n_expert});
    if (t) {
        const struct quant_type *type = quant_type(t->type);
        exps[MODEL_GATE] = (struct model_expert_place){.type = type, .part = 0};
        exps[MODEL_UP] = (struct model_expert_place){
            .type = type, .part = 0, .at_bytes = lh->n_ff_exp * quant_row_bytes(type, b->m->hp.n_embd)};
    }
    t = bind_part(b, "ffn_down_exps.weight", 1, (const uint64_t[3]){lh->n_ff_exp, b->m->hp.n_embd, lh->n_expert});
    if (t)
        exps[MODEL_DOWN] = (struct model_expert_place){.type = quant_type(t->type), .part = 1};
    else
        fault(b, MODEL_FAULT_MISSING, NULL, "tensor 'blk.%" PRIu32 ".ffn_down_exps.weight' is missing or unfit",
              b->layer);
}

static bool has(const struct binder *b, const char *format, uint32_t layer, const char *name)
{
    char full[128];
    snprintf(full, sizeof full, format, layer, name);
    return gguf_find_tensor(b->g, full) != NULL;
}

static void bind_experts(struct binder *b)
{
    struct model *m = b->m;
    const struct model_layer_hparams *lh = &m->hp.layer[b->layer];
    struct expert_layer *e = &m->experts[b->layer];
    *e = (struct expert_layer){
        .n_expert = lh->n_expert, .n_used = lh->n_expert_used, .n_parts = MODEL_EXPERT_MATRICES, .n_parts_first = 2};
    if (has(b, "blk.%" PRIu32 ".%s", b->layer, "ffn_gate_up_exps.weight")) {
        bind_fused(b);
        return;
    }
    for (int matrix = 0; matrix < MODEL_EXPERT_MATRICES; matrix++) {
        const bool down = matrix == MODEL_DOWN;
        const uint64_t dims[3] = {down ? lh->n_ff_exp : m->hp.n_embd, down ? m->hp.n_embd : lh->n_ff_exp, lh->n_expert};
        char suffix[64];
        snprintf(suffix, sizeof suffix, "ffn_%s_exps.weight", matrix_names[matrix]);
        if (has(b, "blk.%" PRIu32 ".%s", b->layer, suffix)) {
            const struct gguf_tensor *t = bind_part(b, suffix, matrix, dims);
            if (t)
                m->layers[b->layer].exps[matrix] =
                    (struct model_expert_place){.type = quant_type(t->type), .part = (uint8_t)matrix};
        } else if (has(b, "blk.%" PRIu32 ".ffn_%s.0.weight", b->layer, matrix_names[matrix])) {
            bind_single_experts(b, matrix, dims);
        } else {
            fault(b, MODEL_FAULT_MISSING, NULL, "tensor 'blk.%" PRIu32 ".%s' is missing", b->layer, suffix);
        }
    }
}

static bool row_applies(const struct binder *b, const struct bind_row *row)
{
    const struct model_layer_hparams *lh = &b->m->hp.layer[b->layer];
    const unsigned flags = row->flags;
    if (flags & BIND_MOE && !lh->n_expert) return false;
    if (flags & BIND_DENSE && (lh->n_expert || lh->bare)) return false;
    if (flags & BIND_RECURRENT && !lh->no_kv) return false;
    if (flags & BIND_ATTENTION && lh->no_kv) return false;
    if (flags & BIND_SHARED && !lh->n_ff_shexp) return false;
    return !b->m->arch->applies || b->m->arch->applies(&b->m->hp, b->layer, row);
}

static void bind_layer(struct binder *b)
{
    struct model_layer *l = &b->m->layers[b->layer];
    l->is_moe = b->m->hp.layer[b->layer].n_expert > 0;
    for (const struct bind_row *row = b->m->arch->rows; row->suffix; row++) {
        if (!row_applies(b, row)) continue;
        char name[128];
        snprintf(name, sizeof name, "blk.%" PRIu32 ".%s", b->layer, row->suffix);
        bind_tensor(b, name, row->dims, row->flags, (struct model_tensor *)((char *)l + row->at));
    }
    if (l->is_moe) bind_experts(b);
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
    if (single && m->hp.n_expert) m->each = calloc(n * m->hp.n_expert * MODEL_EXPERT_MATRICES, sizeof *m->each);
    if (!m->layers || !m->experts || !m->dense || (single && m->hp.n_expert && !m->each))
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the model's directory (%zu layers)", n);
    return SLUICE_OK;
}

static enum sluice_status check_arch(struct model_keys *k, struct model *m)
{
    struct gguf_str arch;
    enum sluice_status st = gguf_get_str(k->g, "general.architecture", true, &arch, k->err);
    if (st) return st;
    m->path = gguf_shard(k->g, 0)->path;
    m->arch = model_arch_find(arch.at, arch.bytes);
    if (!m->arch) {
        base_fail(k->err, SLUICE_ERR_MODEL, NULL, "%s: architecture '%.*s' is not supported", gguf_shard(k->g, 0)->path,
                  (int)(arch.bytes < 60 ? arch.bytes : 60), arch.at);
        base_hint(k->err, "supported are %s", model_arch_list());
        return SLUICE_ERR_MODEL;
    }
    k->arch = m->arch->name;
    if ((st = model_hparams_read(k, &m->hp))) return st;
    if (!m->hp.n_expert && !m->arch->moe_optional)
        return base_fail(k->err, SLUICE_ERR_MODEL, "the file is damaged",
                         "%s: architecture '%s' needs key '%s.expert_count' above 0", gguf_shard(k->g, 0)->path,
                         m->arch->name, m->arch->name);
    if (m->arch->finish && (st = m->arch->finish(k, &m->hp))) return st;
    return model_hparams_settle(k, &m->hp);
}

static void bind_rows(struct binder *b)
{
    struct model *m = b->m;
    const uint8_t embd[3] = {D_EMBD}, vocab[3] = {D_EMBD, D_VOCAB}, one[3] = {D_ONE}, rot[3] = {D_ROT2};
    bind_tensor(b, "token_embd.weight", vocab, 0, &m->token_embd);
    if (!m->arch->own_output_norm) bind_tensor(b, "output_norm.weight", embd, BIND_VECTOR, &m->output_norm);
    bind_tensor(b, "output.weight", vocab, BIND_OPTIONAL, &m->output);
    bind_tensor(b, "output.scale", one, BIND_OPTIONAL | BIND_VECTOR, &m->output_scale);
    bind_tensor(b, "rope_freqs.weight", rot, BIND_OPTIONAL | BIND_VECTOR, &m->rope_freqs);
    bind_tensor(b, "rope_factors_long.weight", rot, BIND_OPTIONAL | BIND_VECTOR, &m->rope_long);
    bind_tensor(b, "rope_factors_short.weight", rot, BIND_OPTIONAL | BIND_VECTOR, &m->rope_short);
    for (const struct bind_row *row = m->arch->model_rows; row && row->suffix; row++)
        bind_tensor(b, row->suffix, row->dims, row->flags, (struct model_tensor *)((char *)m + row->at));
    m->output_tied = !m->output.name;
    for (b->layer = 0; b->layer < m->hp.n_layer; b->layer++) bind_layer(b);
}

static void remember(char *names, size_t names_bytes, bool *more, const char *name, size_t bytes)
{
    const size_t at = strlen(names);
    if (*more || at + bytes + 3 > names_bytes) {
        *more = true;
        return;
    }
    snprintf(names + at, names_bytes - at, "%s%.*s", at ? ", " : "", (int)bytes, name);
}

/* A key whose value is 0, false or an empty list asks for nothing. */
static bool asks_for_nothing(const struct gguf_value *v)
{
    const bool array = v->type == GGUF_ARRAY;
    for (uint64_t i = 0; i < (array ? v->n : 1); i++) {
        double number;
        bool flag;
        if (gguf_item_f64(v, i, &number) ? number != 0 : !gguf_item_bool(v, i, &flag) || flag) return false;
    }
    return true;
}

/* The other way round: what the file has and nothing here asked for. */
static void find_ignored(struct binder *b, const struct model_keys *k)
{
    struct model_ignored *x = &b->m->ignored;
    for (size_t i = 0; i < gguf_n_tensors(b->g); i++) {
        const struct gguf_tensor *t = gguf_tensor(b->g, i);
        unsigned block;
        if (b->used[i]) continue;
        if (sscanf(t->name, "blk.%u.", &block) == 1 && block >= b->m->hp.n_layer && b->m->hp.n_layer_mtp) {
            b->m->n_mtp++;
            continue;
        }
        x->n_tensors++;
        remember(x->tensors, sizeof x->tensors, &x->more_tensors, t->name, strlen(t->name));
    }
    const size_t prefix = strlen(k->arch);
    for (size_t i = 0; i < gguf_n_values(b->g); i++) {
        const struct gguf_value *v = gguf_value(b->g, i);
        if (k->used[i] || v->key.bytes <= prefix || memcmp(v->key.at, k->arch, prefix) || v->key.at[prefix] != '.')
            continue;
        if (asks_for_nothing(v)) continue;
        x->n_keys++;
        remember(x->keys, sizeof x->keys, &x->more_keys, v->key.at, v->key.bytes);
    }
}

static enum sluice_status bind(const struct gguf *g, model_fault_fn *told, void *user, struct model **out,
                               size_t *n_faults, struct sluice_error *err)
{
    *out = NULL;
    struct model *m = calloc(1, sizeof *m);
    struct model_keys k = {.g = g, .arch = "", .err = err, .used = calloc(gguf_n_values(g) + 1, sizeof *k.used)};
    struct binder b = {
        .g = g, .m = m, .told = told, .user = user, .used = calloc(gguf_n_tensors(g) + 1, sizeof *b.used)};
    enum sluice_status st = SLUICE_OK;
    if (!m || !k.used || !b.used) {
        st = base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the model's directory");
        goto done;
    }
    st = check_arch(&k, m);
    if (!st) st = model_alloc(g, m, err);
    if (st) goto done;
    bind_rows(&b);
    if (b.n_faults) {
        size_t shown = 1;
        for (const char *p = b.faults; (p = strstr(p, "; ")); p += 2) shown++;
        char more[48] = "";
        if (b.n_faults > shown) snprintf(more, sizeof more, " (and %zu more like these)", b.n_faults - shown);
        st = base_fail(err, SLUICE_ERR_MODEL,
                       "the file is incomplete, made for another version of the format, or uses a type that is not "
                       "supported; `sluice inspect` lists its tensors",
                       "%s: %s%s", gguf_shard(g, 0)->path, b.faults, more);
        goto done;
    }
    find_ignored(&b, &k);
    qsort(m->dense, m->n_dense, sizeof *m->dense, by_place);
    *out = m;
done:
    *n_faults = b.n_faults;
    free(b.used);
    free(k.used);
    if (st) model_free(m);
    return st;
}

enum sluice_status model_bind(const struct gguf *g, struct model **out, struct sluice_error *err)
{
    size_t n_faults;
    return bind(g, NULL, NULL, out, &n_faults, err);
}

/* Keys that every architecture needs. */
static bool tell_missing_keys(const struct gguf *g, const char *arch, model_fault_fn *tell, void *user)
{
    static const char *const needed[] = {"block_count", "embedding_length", "context_length", "attention.head_count",
                                         "attention.layer_norm_rms_epsilon"};
    bool any = false;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        char key[160], text[200];
        snprintf(key, sizeof key, "%s.%s", arch, needed[i]);
        if (gguf_find(g, key)) continue;
        snprintf(text, sizeof text, "key '%s' is missing", key);
        tell(user, MODEL_FAULT_KEYS, NULL, text, "the file is damaged or was converted wrongly; download it again");
        any = true;
    }
    return any;
}

enum sluice_status model_examine(const struct gguf *g, model_fault_fn *tell, void *user, struct sluice_error *err)
{
    struct gguf_str name = {"", 0};
    struct sluice_error why;
    struct model *m;
    size_t n_faults;
    if (gguf_get_str(g, "general.architecture", true, &name, &why)) {
        tell(user, MODEL_FAULT_KEYS, NULL, why.message, why.hint);
        return SLUICE_OK;
    }
    const struct model_arch *arch = model_arch_find(name.at, name.bytes);
    if (arch && tell_missing_keys(g, arch->name, tell, user)) return SLUICE_OK;
    enum sluice_status st = bind(g, tell, user, &m, &n_faults, &why);
    model_free(m);
    if (st == SLUICE_ERR_MODEL && !n_faults)
        tell(user, arch ? MODEL_FAULT_KEYS : MODEL_FAULT_ARCH, NULL, why.message, why.hint);
    if (st && st != SLUICE_ERR_MODEL) {
        if (err) *err = why;
        return st;
    }
    return SLUICE_OK;
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
