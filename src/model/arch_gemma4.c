/* Gemma 4 with experts (2026): layers with sliding windows and layers that see everything have heads of different
 * sizes; queries, keys and values are normed, scores are not scaled; a file without values takes the keys for them.
 * Every block has a norm before and after. A dense block runs beside the routed experts, whose router has an input of
 * its own. */
#include "model/arch.h"
#include "model/attention.h"
#include "model/ffn.h"
#include "model/moe.h"
#include "model/norm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const struct bind_row rows[] = {
    BIND_ROW("attn_norm.weight", attn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROW("attn_q.weight", q, 0, D_EMBD, D_Q),
    BIND_ROW("attn_k.weight", k, 0, D_EMBD, D_K),
    BIND_ROW("attn_v.weight", v, BIND_OPTIONAL, D_EMBD, D_V),
    BIND_ROW("attn_output.weight", o, 0, D_ATTN, D_EMBD),
    BIND_HEAD_NORM_ROWS(0),
    BIND_ROW("post_attention_norm.weight", attn_post_norm, BIND_VECTOR, D_EMBD),
    BIND_ROW("ffn_norm.weight", ffn_norm, BIND_VECTOR, D_EMBD),
    BIND_ROW("ffn_gate.weight", gate, 0, D_EMBD, D_FF),
    BIND_ROW("ffn_up.weight", up, 0, D_EMBD, D_FF),
    BIND_ROW("ffn_down.weight", down, 0, D_FF, D_EMBD),
    BIND_ROW("post_ffw_norm.weight", ffn_post_norm, BIND_VECTOR, D_EMBD),
    BIND_ROUTER_ROW,
    BIND_ROW("ffn_gate_inp.scale", router_input_scale, BIND_MOE | BIND_VECTOR, D_EMBD),
    BIND_ROW("pre_ffw_norm_2.weight", moe_norm, BIND_MOE | BIND_VECTOR, D_EMBD),
    BIND_ROW("post_ffw_norm_1.weight", dense_post_norm, BIND_MOE | BIND_VECTOR, D_EMBD),
    BIND_ROW("post_ffw_norm_2.weight", moe_post_norm, BIND_MOE | BIND_VECTOR, D_EMBD),
    BIND_EXPERT_SCALE_ROWS,
    BIND_ROW("layer_output_scale.weight", out_scale, BIND_VECTOR | BIND_OPTIONAL, D_ONE),
    {0},
};

/* Heads and rotation of the windowed layers. */
static void finish_windows(struct model_keys *k, struct model_hparams *hp)
{
    uint32_t d_k = hp->layer[0].d_head_k, d_v = hp->layer[0].d_head_v;
    struct model_rope *rope = &hp->ropes[1];
    model_hparams_windows(k, hp, &(struct model_window_defaults){.required = true, .period = 1});
    keys_u32(k, "attention.key_length_swa", false, 2, MODEL_HEAD_DIM_MAX, &d_k);
    keys_u32(k, "attention.value_length_swa", false, 1, MODEL_HEAD_DIM_MAX, &d_v);
    rope->n_rot = d_k;
    if (!keys_has(k, "rope.freq_base_swa")) rope->base = 10000;
    rope->scale = 1;
    rope->factors = false;
    keys_u32(k, "rope.dimension_count_swa", false, 2, d_k, &rope->n_rot);
    if (!k->status && rope->n_rot % 2) keys_fail(k, "rope.dimension_count_swa", "the file is damaged", "is odd");
    hp->n_ropes = 2;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        if (!hp->layer[i].window) continue;
        hp->layer[i].d_head_k = d_k;
        hp->layer[i].d_head_v = d_v;
        hp->layer[i].rope = 1;
    }
}

static enum sluice_status finish(struct model_keys *k, struct model_hparams *hp)
{
    uint32_t per_layer = 0, shared_kv = 0;
    hp->attention = (struct attention_kind){.qk_norm = QK_NORM_HEAD, .v_norm = true, .neox = true, .scale = 1};
    keys_u32(k, "embedding_length_per_layer_input", false, 0, MODEL_EMBD_MAX, &per_layer);
    keys_u32(k, "attention.shared_kv_layers", false, 0, hp->n_layer, &shared_kv);
    if (per_layer)
        keys_fail(k, "embedding_length_per_layer_input", "the sizes with experts run",
                  "is %" PRIu32 ": embeddings by layer are not supported", per_layer);
    if (shared_kv)
        keys_fail(k, "attention.shared_kv_layers", "the sizes with experts run",
                  "is %" PRIu32 ": layers that share keys and values are not supported", shared_kv);
    keys_f32(k, "final_logit_softcapping", false, &hp->logit_softcap);
    finish_windows(k, hp);
    hp->embedding_scale = sqrtf((float)hp->n_embd);
    hp->dense_act = hp->moe.act = KERNEL_GELU;
    hp->moe.router.normalise = true;
    hp->moe.router.scale = 1;
    model_hparams_no_shared(hp);
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%" PRIu32 ".ffn_gate_inp.weight", i);
        if (!gguf_find_tensor(k->g, name)) hp->layer[i].n_expert = 0;
        if (hp->layer[i].n_ff > hp->n_ff) hp->n_ff = hp->layer[i].n_ff; /* a dense block in every layer */
    }
    return k->status;
}

struct layer_job {
    struct model_run *r;
    const struct model_step *s;
    uint32_t layer;
    bool routed;
};

/* What the dense block (scratch.y) and the experts (scratch.h) gave goes into the residual stream. */
static void end_layer(void *arg, unsigned worker, unsigned n_workers)
{
    struct layer_job *job = arg;
    const struct model_hparams *hp = &job->r->model->hp;
    const struct model_layer *l = &job->r->model->layers[job->layer];
    const struct kernel_table *t = job->r->kernel.table;
    const struct model_scratch *sc = &job->r->scratch;
    const size_t n = hp->n_embd;
    const float *scale = model_vector(&l->out_scale);
    size_t begin, end;
    kernel_pool_range(worker, n_workers, job->s->n_tokens, 1, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *x = sc->x + i * n, *y = sc->y + i * n, *h = sc->h + i * n;
        if (job->routed) {
            t->rms_norm(y, model_vector(&l->dense_post_norm), n, hp->norm_eps, y);
            t->rms_norm(h, model_vector(&l->moe_post_norm), n, hp->norm_eps, h);
            t->add(y, h, n);
        }
        model_join(job->r, x, y, &l->ffn_post_norm);
        if (scale) t->scale(x, *scale, n);
    }
}

static enum sluice_status layer(struct model_run *r, const struct model_step *s, uint32_t l, struct sluice_error *err)
{
    enum sluice_status st = attention_gqa(r, s, l, err);
    s = model_narrow(r, s, l);
    if (st || !s->n_tokens) return st;
    struct layer_job job = {.r = r, .s = s, .layer = l, .routed = r->model->layers[l].is_moe};
    ffn_dense(r, s, l, r->scratch.y);
    if (job.routed && (st = moe_sums(r, s, l, err))) return st;
    kernel_pool_run(r->kernel.pool, end_layer, &job);
    return SLUICE_OK;
}

const struct model_arch arch_gemma4 = {
    .name = "gemma4", .rows = rows, .moe_optional = true, .finish = finish, .layer = layer};
