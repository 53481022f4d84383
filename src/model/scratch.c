#include "model/scratch.h"

#include "model/foresight.h"

/* Hands out pieces of one block, each aligned to a cache line. With base NULL it only counts. */
struct carver {
    uint8_t *base;
    uint64_t at;
};

static void *carve(struct carver *c, uint64_t bytes)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += (bytes + 63) / 64 * 64;
    return p;
}

static uint64_t largest(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t lay_out(const struct model_hparams *hp, size_t chunk, void *memory, struct model_scratch *s)
{
    struct carver c = {.base = memory};
    const uint64_t n = chunk, f = sizeof(float), embd = hp->n_embd;
    const uint64_t ff = largest(hp->n_ff, largest(hp->n_ff_exp, hp->n_ff_shexp));
    const uint64_t used = n * hp->n_expert_used;
    s->chunk = chunk;
    s->x = carve(&c, n * embd * f);
    s->h = carve(&c, n * embd * f);
    s->y = carve(&c, n * embd * f);
    s->q = carve(&c, n * hp->q_floats * f);
    s->k = carve(&c, n * hp->k_floats * f);
    s->v = carve(&c, n * hp->v_floats * f);
    s->attn = carve(&c, n * hp->attn_floats * f);
    s->attn_gate = hp->attention.gated ? carve(&c, n * hp->q_floats / 2 * f) : NULL;
    for (uint32_t i = 0; i < hp->n_ropes; i++) {
        s->cos[i] = carve(&c, n * (hp->ropes[i].n_rot / 2) * f);
        s->sin[i] = carve(&c, n * (hp->ropes[i].n_rot / 2) * f);
    }
    s->freq = carve(&c, (hp->n_rot / 2) * sizeof(double));
    s->gate = carve(&c, n * ff * f);
    s->up = carve(&c, n * ff * f);
    s->router = carve(&c, n * hp->n_expert * f);
    s->ids = carve(&c, used * sizeof *s->ids);
    s->weights = carve(&c, used * f);
    s->row_weights = carve(&c, (hp->n_expert ? n : 0) * f);
    s->groups = carve(&c, hp->n_expert * sizeof *s->groups);
    s->group_tokens = carve(&c, used * sizeof(uint32_t));
    s->group_rows = carve(&c, used * sizeof(uint32_t));
    s->wanted = carve(&c, hp->n_expert * sizeof(uint32_t));
    const uint64_t ahead = hp->n_expert ? FORESIGHT_TOKENS : 0;
    s->ahead_h = carve(&c, ahead * embd * f);
    s->ahead_router = carve(&c, ahead * hp->n_expert * f);
    s->ahead_acts = carve(&c, kernel_acts_bytes(embd, ahead));
    s->logits = carve(&c, (uint64_t)MODEL_LOGITS_ROWS * hp->n_vocab * f);
    s->acts_in = carve(&c, kernel_acts_bytes(embd, chunk));
    s->acts_mid = carve(&c, kernel_acts_bytes(hp->acts_floats, chunk));
    s->extra = carve(&c, n * hp->extra_floats * f);
    s->expert_out = carve(&c, used * embd * f);
    return c.at;
}

uint64_t model_scratch_bytes(const struct model_hparams *hp, size_t chunk)
{
    struct model_scratch s;
    return lay_out(hp, chunk, NULL, &s);
}

void model_scratch_place(const struct model_hparams *hp, size_t chunk, void *memory, struct model_scratch *out)
{
    lay_out(hp, chunk, memory, out);
}

/* The layout is linear in the chunk but for the rounding of each piece, which the fixed part covers. */
void model_scratch_sizes(const struct model_hparams *hp, struct model_scratch_sizes *out)
{
    const uint64_t probe = 1024, rounding = 64 * 64;
    uint64_t fixed = model_scratch_bytes(hp, 0), many = model_scratch_bytes(hp, probe);
    out->output_bytes_per_token = (uint64_t)hp->n_expert_used * hp->n_embd * sizeof(float);
    out->per_token_bytes = (many - fixed + probe - 1) / probe - out->output_bytes_per_token;
    out->fixed_bytes = fixed + rounding;
}
