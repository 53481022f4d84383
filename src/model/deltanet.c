/* The gated delta rule. Each value head has a matrix S of d_head rows (values) and columns (keys). For each token
 *
 *     S = S a               the old content fades: a in (0, 1), one for the head or one for each column
 *     S += beta (v - S k) k'    what S answers to k moves towards v
 *     out = S q / sqrt(d_head)
 *
 * where q, k and v have gone through a causal convolution with few taps and SiLU, q and k are unit vectors,
 * a = exp(A softplus(alpha + dt)), A < 0, and beta = sigmoid(b). Then each head of out is normed and gated by z.
 *
 * Rows of S are independent, so workers share them out; within a row the order of operations is that of the tokens,
 * which is why the size of a step changes no bit (M1). */
#include "model/deltanet.h"

#include "base/math.h"
#include "model/attention.h"
#include "model/ffn.h"
#include "model/moe.h"
#include "model/norm.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define ROWS_AN_ITEM 32     /* of S that a worker takes through all tokens of a step */
#define CHANNELS_A_BLOCK 64 /* of the convolution */

/* One of q, k, v (or all three) of the step's tokens: token t's row starts at x + t * stride. */
struct plane {
    float *x;
    size_t stride, n;
    const float *filters; /* [n][taps] */
};

struct delta_job {
    struct model_run *r;
    const struct model_layer *l;
    const struct delta_kind *kind;
    size_t n_tokens, n_key, n_value; /* floats of all key heads, of all value heads */
    size_t taps;
    float *history; /* [taps - 1][2 n_key + n_value] inputs of the convolution, the oldest first */
    float *state;   /* [n_head_v][d_head][d_head] */
    struct plane planes[3];
    size_t n_planes;
    float *q, *k, *v; /* where the first token's are; the next token's are stride further */
    size_t stride_k, stride_v;
    float *z, *out; /* [n_tokens][n_value] */
    float *decay;   /* [n_tokens][n_decay] alpha, then a */
    size_t n_decay;
    float *beta;         /* [n_tokens][n_head_v] b, then beta */
    float *raw;          /* [n_tokens][...] products that are not in order yet */
    float *grouped, *ba; /* parts of raw; NULL: these came in order */
};

uint64_t deltanet_dim(const struct model_hparams *hp, uint32_t layer, uint8_t d)
{
    (void)layer;
    const struct delta_kind *x = &hp->delta;
    const uint64_t key = (uint64_t)x->n_head_k * x->d_head, value = (uint64_t)x->n_head_v * x->d_head;
    switch (d) {
    case D_DELTA_KEY: return key;
    case D_DELTA_VALUE: return value;
    case D_DELTA_MIXED: return 2 * key + value;
    case D_DELTA_GROUPED: return 2 * key + 2 * value;
    case D_DELTA_HEADS: return x->n_head_v;
    case D_DELTA_2HEADS: return 2 * (uint64_t)x->n_head_v;
    case D_DELTA_HEAD: return x->d_head;
    default: return 0;
    }
}

void deltanet_read(struct model_keys *k, struct model_hparams *hp)
{
    struct delta_kind *d = &hp->delta;
    uint32_t inner = 0, interval = 4, recurrent[MODEL_LAYERS_MAX];
    keys_u32(k, "ssm.conv_kernel", true, 1, DELTANET_TAPS_MAX, &hp->n_conv);
    keys_u32(k, "ssm.state_size", true, 2, DELTANET_HEAD_MAX, &d->d_head);
    keys_u32(k, "ssm.time_step_rank", true, 1, MODEL_HEADS_MAX, &d->n_head_v);
    keys_u32(k, "ssm.group_count", true, 1, MODEL_HEADS_MAX, &d->n_head_k);
    keys_u32(k, "ssm.inner_size", true, 1, UINT32_MAX, &inner);
    keys_u32(k, "full_attention_interval", false, 1, MODEL_LAYERS_MAX, &interval);
    for (uint32_t i = 0; i < hp->n_layer; i++) recurrent[i] = (i + 1) % interval != 0;
    keys_layers(k, "attention.recurrent_layers", false, 0, 1, hp->n_layer, recurrent, sizeof *recurrent);
    if (k->status) return;
    if (d->n_head_v % d->n_head_k)
        keys_fail(k, "ssm.time_step_rank", "the file is damaged",
                  "is %" PRIu32 ", which %" PRIu32 " key heads cannot share evenly", d->n_head_v, d->n_head_k);
    if (inner != d->n_head_v * d->d_head)
        keys_fail(k, "ssm.inner_size", "Sluice runs delta rules whose keys and values are equally long",
                  "is %" PRIu32 ", expected %" PRIu32 " heads of %" PRIu32, inner, d->n_head_v, d->d_head);
    for (uint32_t i = 0; i < hp->n_layer; i++) hp->layer[i].no_kv = recurrent[i];
}

static uint32_t decays(const struct delta_kind *d) { return d->n_head_v * (d->by_channel ? d->d_head : 1); }

void deltanet_settle(struct model_hparams *hp, uint32_t n_raw)
{
    const struct delta_kind *d = &hp->delta;
    const uint32_t value = d->n_head_v * d->d_head, mixed = 2 * d->n_head_k * d->d_head + value;
    for (uint32_t i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].no_kv) {
            hp->layer[i].rope = MODEL_NO_ROPE;
            hp->layer[i].state_floats = (hp->n_conv - 1) * mixed + value * d->d_head;
        }
    const uint32_t extra = mixed + 2 * value + decays(d) + d->n_head_v + n_raw;
    if (extra > hp->extra_floats) hp->extra_floats = extra;
    if (value > hp->acts_floats) hp->acts_floats = value;
}

/* ---- the pieces of one worker ---- */

static float softplus(float x) { return x > 20.0f ? x : math_log(1.0f + math_exp(x)); }
static float sigmoid(float x) { return 1.0f / (1.0f + math_exp(-x)); }

static void scale_by(const struct kernel_table *t, float *x, const struct model_tensor *factor, size_t n)
{
    if (factor->name) t->scale(x, *model_vector(factor), n);
}

/* Old files: a key head's q, k, and its value heads' v and z stand together; so do its b and alpha. */
static void sort_token(const struct delta_job *j, size_t token)
{
    const size_t d = j->kind->d_head, n_k = j->kind->n_head_k, n_v = j->kind->n_head_v, share = n_v / n_k;
    if (j->grouped) {
        const float *from = j->grouped + token * 2 * (j->n_key + j->n_value);
        for (size_t g = 0; g < n_k; g++, from += 2 * (1 + share) * d) {
            memcpy(j->q + token * j->stride_k + g * d, from, d * sizeof *from);
            memcpy(j->k + token * j->stride_k + g * d, from + d, d * sizeof *from);
            memcpy(j->v + token * j->stride_v + g * share * d, from + 2 * d, share * d * sizeof *from);
            memcpy(j->z + token * j->n_value + g * share * d, from + (2 + share) * d, share * d * sizeof *from);
        }
    }
    if (j->ba) {
        const float *from = j->ba + token * 2 * n_v;
        for (size_t h = 0; h < n_v; h++) {
            const size_t at = h / share * 2 * share + h % share;
            j->beta[token * n_v + h] = from[at];
            j->decay[token * n_v + h] = from[at + share];
        }
    }
    const struct kernel_table *t = j->r->kernel.table;
    if (j->n_planes == 1) scale_by(t, j->planes[0].x + token * j->planes[0].stride, &j->l->qkv_scale, j->planes[0].n);
    scale_by(t, j->z + token * j->n_value, &j->l->delta_z_scale, j->n_value);
    scale_by(t, j->decay + token * j->n_decay, &j->l->delta_alpha_scale, j->n_decay);
    scale_by(t, j->beta + token * n_v, &j->l->delta_beta_scale, n_v);
}

/* Channels [first, first + n) of a plane, n <= CHANNELS_A_BLOCK: each token's value becomes SiLU of the filter over it
 * and the taps - 1 before it. Tokens go backwards, so that what a filter needs is still there. */
static void convolve(const struct delta_job *j, const struct plane *p, float *history, size_t first, size_t n)
{
    const size_t taps = j->taps, before = taps - 1, stride = 2 * j->n_key + j->n_value;
    float filter[DELTANET_TAPS_MAX][CHANNELS_A_BLOCK], last[DELTANET_TAPS_MAX][CHANNELS_A_BLOCK], sum[CHANNELS_A_BLOCK],
        one[CHANNELS_A_BLOCK];
    for (size_t c = 0; c < n; c++) {
        for (size_t i = 0; i < taps; i++) filter[i][c] = p->filters[(first + c) * taps + i];
        one[c] = 1;
    }
    for (size_t i = 0; i < before; i++) {
        const size_t at = j->n_tokens + i; /* in the history followed by the tokens */
        memcpy(last[i], at < before ? history + at * stride + first : p->x + (at - before) * p->stride + first,
               n * sizeof(float));
    }
    for (size_t t = j->n_tokens; t-- > 0;) {
        memset(sum, 0, sizeof sum);
        for (size_t i = 0; i < taps; i++) {
            const size_t at = t + i;
            const float *from = at < before ? history + at * stride + first : p->x + (at - before) * p->stride + first;
            for (size_t c = 0; c < n; c++) sum[c] += from[c] * filter[i][c];
        }
        j->r->kernel.table->silu_mul(sum, one, n, p->x + t * p->stride + first);
    }
    for (size_t i = 0; i < before; i++) memcpy(history + i * stride + first, last[i], n * sizeof(float));
}

/* Channels [begin, end) of q, k and v together. */
static void convolve_range(const struct delta_job *j, size_t begin, size_t end)
{
    size_t base = 0; /* the plane's first channel */
    for (size_t i = 0; i < j->n_planes; base += j->planes[i++].n) {
        const struct plane *p = &j->planes[i];
        const size_t from = begin > base ? begin - base : 0, to = end < base + p->n ? end : base + p->n;
        for (size_t c = from; base + c < to; c += CHANNELS_A_BLOCK) {
            const size_t left = to - base - c;
            convolve(j, p, j->history + base, c, left < CHANNELS_A_BLOCK ? left : CHANNELS_A_BLOCK);
        }
    }
}

static void make_unit(const struct kernel_table *t, float *x, size_t n, float least, float length)
{
    const float norm = sqrtf(t->dot_f32(x, x, n));
    t->scale(x, length / (norm > least ? norm : least), n);
}

/* q and k become unit vectors (q with the rule's 1 / sqrt(d_head)), alpha becomes a, b becomes beta. */
static void prepare_token(const struct delta_job *j, size_t token)
{
    const struct kernel_table *t = j->r->kernel.table;
    const size_t d = j->kind->d_head, n_v = j->kind->n_head_v, span = j->n_decay / n_v;
    const float eps = j->r->model->hp.norm_eps, length = 1.0f / sqrtf((float)d);
    for (size_t h = 0; h < j->kind->n_head_k; h++) {
        make_unit(t, j->q + token * j->stride_k + h * d, d, eps, length);
        make_unit(t, j->k + token * j->stride_k + h * d, d, eps, 1);
    }
    const float *dt = model_vector(&j->l->delta_dt), *rate = model_vector(&j->l->delta_a);
    float *a = j->decay + token * j->n_decay, *beta = j->beta + token * n_v;
    for (size_t i = 0; i < j->n_decay; i++) a[i] = math_exp(softplus(a[i] + dt[i]) * rate[i / span]);
    for (size_t h = 0; h < n_v; h++) beta[h] = sigmoid(beta[h]);
}

/* Rows [begin, end) of one head's S through all tokens. */
static void walk_rows(const struct delta_job *j, size_t head, size_t begin, size_t end)
{
    const struct kernel_table *t = j->r->kernel.table;
    const struct delta_kind *kind = j->kind;
    const size_t d = kind->d_head, n_v = kind->n_head_v,
                 head_k = kind->tiled ? head % kind->n_head_k : head / (n_v / kind->n_head_k);
    float *state = j->state + head * d * d;
    for (size_t token = 0; token < j->n_tokens; token++) {
        const float *q = j->q + token * j->stride_k + head_k * d, *k = j->k + token * j->stride_k + head_k * d,
                    *v = j->v + token * j->stride_v + head * d,
                    *a = j->decay + token * j->n_decay + head * (j->n_decay / n_v);
        const float beta = j->beta[token * n_v + head];
        float *out = j->out + token * j->n_value + head * d;
        for (size_t row = begin; row < end; row++) {
            float *s = state + row * d;
            if (kind->by_channel) {
                for (size_t i = 0; i < d; i++) s[i] *= a[i];
                t->add_scaled(s, k, (v[row] - t->dot_f32(s, k, d)) * beta, d);
            } else {
                const float answer = *a * t->dot_f32(s, k, d);
                t->attn_merge(s, k, *a, (v[row] - answer) * beta, d); /* s = s a + k ... */
            }
            out[row] = t->dot_f32(s, q, d);
        }
    }
}

static void finish_token(const struct delta_job *j, size_t token)
{
    const struct kernel_table *t = j->r->kernel.table;
    const size_t d = j->kind->d_head;
    for (size_t h = 0; h < j->kind->n_head_v; h++) {
        float *out = j->out + token * j->n_value + h * d;
        const float *z = j->z + token * j->n_value + h * d;
        t->rms_norm(out, model_vector(&j->l->delta_norm), d, j->r->model->hp.norm_eps, out);
        if (j->kind->sigmoid)
            for (size_t i = 0; i < d; i++) out[i] *= sigmoid(z[i]);
        else
            t->silu_mul(z, out, d, out);
    }
}

static void run_rule(void *arg, unsigned worker, unsigned n_workers)
{
    const struct delta_job *j = arg;
    struct kernel_pool *pool = j->r->kernel.pool;
    const size_t d = j->kind->d_head, items_a_head = (d + ROWS_AN_ITEM - 1) / ROWS_AN_ITEM;
    size_t begin, end, first, last;
    kernel_pool_range(worker, n_workers, j->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++) sort_token(j, t);
    kernel_pool_barrier(pool);
    kernel_pool_range(worker, n_workers, 2 * j->n_key + j->n_value, 16, &first, &last);
    convolve_range(j, first, last);
    kernel_pool_barrier(pool);
    for (size_t t = begin; t < end; t++) prepare_token(j, t);
    kernel_pool_barrier(pool);
    kernel_pool_range(worker, n_workers, j->kind->n_head_v * items_a_head, 1, &first, &last);
    for (size_t i = first; i < last; i++) {
        const size_t row = i % items_a_head * ROWS_AN_ITEM;
        walk_rows(j, i / items_a_head, row, row + ROWS_AN_ITEM < d ? row + ROWS_AN_ITEM : d);
    }
    kernel_pool_barrier(pool);
    for (size_t t = begin; t < end; t++) finish_token(j, t);
}

/* ---- the block ---- */

static struct delta_job lay_out(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    const struct model_hparams *hp = &r->model->hp;
    const struct model_layer *l = &r->model->layers[layer];
    const size_t n = s->n_tokens;
    struct delta_job j = {.r = r,
                          .l = l,
                          .kind = &hp->delta,
                          .n_tokens = n,
                          .n_key = (size_t)hp->delta.n_head_k * hp->delta.d_head,
                          .n_value = (size_t)hp->delta.n_head_v * hp->delta.d_head,
                          .taps = hp->n_conv,
                          .n_decay = decays(&hp->delta)};
    const size_t n_mixed = 2 * j.n_key + j.n_value;
    j.q = r->scratch.extra;
    j.z = j.q + n * n_mixed;
    j.out = j.z + n * j.n_value;
    j.decay = j.out + n * j.n_value;
    j.beta = j.decay + n * j.n_decay;
    j.raw = j.beta + n * hp->delta.n_head_v;
    if (l->conv.name) { /* one convolution over rows [q | k | v] */
        j.k = j.q + j.n_key;
        j.v = j.k + j.n_key;
        j.stride_k = j.stride_v = n_mixed;
        j.planes[j.n_planes++] = (struct plane){j.q, n_mixed, n_mixed, model_vector(&l->conv)};
    } else {
        j.k = j.q + n * j.n_key;
        j.v = j.k + n * j.n_key;
        j.stride_k = j.n_key;
        j.stride_v = j.n_value;
        j.planes[j.n_planes++] = (struct plane){j.q, j.n_key, j.n_key, model_vector(&l->delta_conv_q)};
        j.planes[j.n_planes++] = (struct plane){j.k, j.n_key, j.n_key, model_vector(&l->delta_conv_k)};
        j.planes[j.n_planes++] = (struct plane){j.v, j.n_value, j.n_value, model_vector(&l->delta_conv_v)};
    }
    return j;
}

/* out = b (a h): the second factor of a matrix of low rank; the first has gone to low [n_tokens][rank]. */
static void widen(const struct delta_job *j, const struct model_tensor *b, const float *low, float *out)
{
    const struct kernel_weight w = model_weight(b);
    struct kernel_acts acts;
    kernel_acts_place(&acts, low, w.n_in, j->n_tokens, j->r->scratch.acts_mid);
    kernel_acts_fill(&j->r->kernel, &acts, w.type->form);
    kernel_matmul(&j->r->kernel, &w, NULL, &acts, out);
}

/* The products of norm(x). Which there are is known by the tensors that the file has. */
static void project(struct delta_job *j)
{
    struct model_run *r = j->r;
    const struct model_layer *l = j->l;
    struct kernel_weight w[8];
    float *out[8];
    size_t n = 0;
#define PRODUCT(tensor, to) (w[n] = model_weight(&(tensor)), out[n++] = (to))
    if (l->qkv.name) {
        PRODUCT(l->qkv, j->q);
        PRODUCT(l->delta_z, j->z);
    } else if (l->delta_in.name) {
        PRODUCT(l->delta_in, j->grouped = j->raw);
    } else {
        PRODUCT(l->q, j->q);
        PRODUCT(l->k, j->k);
        PRODUCT(l->v, j->v);
    }
    if (l->delta_ba.name)
        PRODUCT(l->delta_ba, j->ba = j->raw + (j->grouped ? j->n_tokens * 2 * (j->n_key + j->n_value) : 0));
    else
        PRODUCT(l->delta_beta, j->beta);
    if (l->delta_alpha.name) PRODUCT(l->delta_alpha, j->decay);
    float *low = j->raw, *low_z = low + j->n_tokens * l->delta_f_a.dims[1];
    if (l->delta_f_a.name) {
        PRODUCT(l->delta_f_a, low);
        PRODUCT(l->delta_g_a, low_z);
    }
#undef PRODUCT
    struct kernel_acts acts;
    kernel_acts_place(&acts, r->scratch.h, r->model->hp.n_embd, j->n_tokens, r->scratch.acts_in);
    for (size_t i = 0; i < n; i++) kernel_acts_fill(&r->kernel, &acts, w[i].type->form);
    kernel_matmul_many(&r->kernel, w, NULL, n, &acts, out);
    if (!l->delta_f_a.name) return;
    widen(j, &l->delta_f_b, low, j->decay);
    widen(j, &l->delta_g_b, low_z, j->z);
}

/* The same for the tokens of one span, with the state of their sequence. */
static struct delta_job of_span(const struct delta_job *all, const struct model_span *span, uint32_t layer)
{
    struct delta_job j = *all;
    const size_t at = span->first;
    j.n_tokens = span->n_tokens;
    j.history = model_state_of(&span->kv->state, layer);
    j.state = j.history + (j.taps - 1) * (2 * j.n_key + j.n_value);
    for (size_t i = 0; i < j.n_planes; i++) j.planes[i].x += at * j.planes[i].stride;
    j.q += at * j.stride_k;
    j.k += at * j.stride_k;
    j.v += at * j.stride_v;
    j.z += at * j.n_value;
    j.out += at * j.n_value;
    j.decay += at * j.n_decay;
    j.beta += at * j.kind->n_head_v;
    if (j.grouped) j.grouped += at * 2 * (j.n_key + j.n_value);
    if (j.ba) j.ba += at * 2 * j.kind->n_head_v;
    return j;
}

void deltanet_block(struct model_run *r, const struct model_step *s, uint32_t layer)
{
    const struct model_layer *l = &r->model->layers[layer];
    struct model_scratch *sc = &r->scratch;
    struct delta_job j = lay_out(r, s, layer);
    model_norm(r, sc->x, &l->attn_norm, &l->attn_norm_bias, s->n_tokens, sc->h);
    project(&j);
    if (r->cache) expert_pump(r->cache);
    for (size_t i = 0; i < s->n_spans; i++) {
        struct delta_job span = of_span(&j, &s->spans[i], layer);
        kernel_pool_run(r->kernel.pool, run_rule, &span);
    }
    if (r->cache) expert_pump(r->cache);
    const struct kernel_weight o = model_weight(&l->o);
    struct kernel_acts mid;
    kernel_acts_place(&mid, j.out, j.n_value, s->n_tokens, sc->acts_mid);
    kernel_acts_fill(&r->kernel, &mid, o.type->form);
    kernel_matmul(&r->kernel, &o, NULL, &mid, sc->y);
    attention_join(r, s, layer);
}

enum sluice_status deltanet_layer(struct model_run *r, const struct model_step *s, uint32_t layer,
                                  struct sluice_error *err)
{
    enum sluice_status st = SLUICE_OK;
    if (r->model->hp.layer[layer].no_kv)
        deltanet_block(r, s, layer);
    else
        st = attention_gqa(r, s, layer, err);
    return st ? st : model_feed_forward(r, s, layer, err);
}
