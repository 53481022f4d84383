/* Memory and shape of the guesses; tables, width and gate are in files of their own. */
#include "expert/predict_private.h"

#include <stdlib.h>
#include <string.h>

#define TABLE_BYTES_MAX ((size_t)32 << 20)

struct sizes {
    size_t across, along; /* bytes of counts; 0: the table is not kept */
    uint32_t k_max, widest;
};

/* A table that nobody asked for, that has no pair or that would be too large is left out. */
static struct sizes measure(const struct expert_catalog *catalog, unsigned tables)
{
    struct sizes s = {0};
    const struct expert_layer *before = NULL;
    for (uint32_t i = 0; i < expert_catalog_n_layers(catalog); i++) {
        const struct expert_layer *l = expert_catalog_layer(catalog, i);
        if (!l->n_expert) continue;
        if (before) s.across += (size_t)before->n_expert * l->n_expert;
        s.along += (size_t)l->n_expert * l->n_expert;
        if (l->n_used > s.k_max) s.k_max = l->n_used;
        if (l->n_expert > s.widest) s.widest = l->n_expert;
        before = l;
    }
    if (!(tables & 1u << PREDICT_TRANSITIONS) || s.across > TABLE_BYTES_MAX) s.across = 0;
    if (!(tables & 1u << PREDICT_NEXT) || s.along > TABLE_BYTES_MAX) s.along = 0;
    return s;
}

size_t predict_memory_bytes(const struct expert_catalog *catalog, unsigned tables)
{
    const struct sizes s = measure(catalog, tables);
    const size_t n_layers = expert_catalog_n_layers(catalog), n_keys = expert_catalog_n_experts(catalog);
    size_t bytes = sizeof(struct predict) + (n_layers + 1) * sizeof(struct predict_layer);
    if (!s.across && !s.along) return bytes;
    bytes += s.across + s.along + (s.across ? n_keys : 0) + (s.along ? n_keys : 0) + n_keys * sizeof(float);
    bytes += (n_layers + 2 * PREDICT_AHEAD_MAX) * s.k_max * sizeof(uint16_t);
    return bytes + 3 * s.widest * sizeof(double);
}

static void shape(struct predict *p, const struct expert_catalog *catalog)
{
    uint32_t before = PREDICT_NO_LAYER;
    size_t across_at = 0, along_at = 0;
    for (uint32_t i = 0; i < p->n_layers; i++) {
        const struct expert_layer *from = expert_catalog_layer(catalog, i);
        struct predict_layer *l = &p->layers[i];
        *l = (struct predict_layer){.n_expert = from->n_expert,
                                    .n_used = from->n_used,
                                    .before = before,
                                    .after = PREDICT_NO_LAYER,
                                    .along_at = along_at};
        if (!l->n_expert) continue;
        l->first_key = expert_catalog_key(catalog, i, 0);
        along_at += (size_t)l->n_expert * l->n_expert;
        if (before != PREDICT_NO_LAYER) {
            p->layers[before].after = i;
            p->layers[before].across_at = across_at;
            across_at += (size_t)p->layers[before].n_expert * l->n_expert;
        }
        before = i;
    }
}

static bool table_begin(struct predict_table *t, size_t bytes, uint32_t n_keys)
{
    if (!bytes) return true;
    t->counts = calloc(bytes, 1);
    t->uses = calloc(n_keys, 1);
    return t->counts && t->uses;
}

static bool tables_begin(struct predict *p, const struct sizes *s)
{
    if (!s->across && !s->along) return true;
    bool good = table_begin(&p->across, s->across, p->n_keys) && table_begin(&p->along, s->along, p->n_keys);
    p->popular = calloc(p->n_keys, sizeof *p->popular);
    p->last = calloc((size_t)p->n_layers * s->k_max, sizeof *p->last);
    p->over = calloc(s->widest, sizeof *p->over);
    p->under = calloc(s->widest, sizeof *p->under);
    p->base = calloc(s->widest, sizeof *p->base);
    for (int i = 0; i < 2; i++) {
        p->step[i].ids = calloc((size_t)PREDICT_AHEAD_MAX * s->k_max, sizeof *p->step[i].ids);
        good = good && p->step[i].ids;
    }
    return good && p->popular && p->last && p->over && p->under && p->base;
}

enum sluice_status predict_create(const struct expert_catalog *catalog, unsigned tables, struct predict **out,
                                  struct sluice_error *err)
{
    const struct sizes s = measure(catalog, tables);
    struct predict *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p) goto fail;
    p->n_layers = expert_catalog_n_layers(catalog);
    p->n_keys = expert_catalog_n_experts(catalog);
    p->k_max = s.k_max;
    p->widest = s.widest;
    p->layers = calloc((size_t)p->n_layers + 1, sizeof *p->layers);
    if (!p->layers || !tables_begin(p, &s)) goto fail;
    shape(p, catalog);
    predict_tables_forget_step(p);
    predict_ranks_begin(p);
    predict_gates_begin(p);
    *out = p;
    return SLUICE_OK;

fail:
    predict_destroy(p);
    return base_fail(err, SLUICE_ERR_MEMORY, "switch guesses off, or close other programs",
                     "no memory for guesses at experts (%zu bytes)", predict_memory_bytes(catalog, tables));
}

void predict_destroy(struct predict *p)
{
    if (!p) return;
    free(p->step[1].ids);
    free(p->step[0].ids);
    free(p->base);
    free(p->under);
    free(p->over);
    free(p->last);
    free(p->popular);
    free(p->along.uses);
    free(p->along.counts);
    free(p->across.uses);
    free(p->across.counts);
    free(p->layers);
    free(p);
}
