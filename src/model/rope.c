/* YaRN (Peng et al., 2023): dimensions that turn often within the original context keep their frequency, those that
 * turn seldom are slowed down by the factor, with a ramp in between; cos and sin grow a little. */
#include "model/rope.h"

#include "base/math.h"

#include <math.h>

#define TWO_PI 6.283185307179586

/* The dimension (as a real number) that turns `turns` times within the original context. */
static double dimension_of(const struct model_rope *rope, double turns)
{
    return rope->n_rot * math_log_d(rope->n_ctx_orig / (turns * TWO_PI)) / (2 * math_log_d(rope->base));
}

void model_rope_frequencies(const struct model_rope *rope, const float *factors, double *out)
{
    double low = 0, high = 0;
    if (rope->yarn) {
        low = floor(dimension_of(rope, rope->beta_fast));
        high = ceil(dimension_of(rope, rope->beta_slow));
        if (low < 0) low = 0;
        if (high > rope->n_rot - 1) high = rope->n_rot - 1;
    }
    for (size_t i = 0; i < rope->n_rot / 2; i++) {
        if (!rope->yarn) {
            out[i] = rope->scale * math_pow_d(rope->base, -2.0 * (double)i / rope->n_rot);
            if (factors) out[i] /= factors[i];
            continue;
        }
        const double full = math_pow_d(rope->base, -2.0 * (double)i / rope->n_rot) / (factors ? factors[i] : 1);
        double ramp = ((double)i - low) / (high - low > 0.001 ? high - low : 0.001);
        ramp = (1 - (ramp < 0 ? 0 : ramp > 1 ? 1 : ramp)) * rope->ext_factor;
        out[i] = full * rope->scale * (1 - ramp) + full * ramp;
    }
}

/* rope_freqs, or those of longrope: the long ones where the model's context is longer than the original one. (By the
 * file, not by the context in use, which depends on the memory there is: logits must not.) */
static const float *factors_of(const struct model *m, const struct model_rope *rope)
{
    if (!rope->factors) return NULL;
    if (m->rope_freqs.name) return model_vector(&m->rope_freqs);
    return model_vector(m->hp.n_ctx_train > rope->n_ctx_orig ? &m->rope_long : &m->rope_short);
}

void model_rope_angles_at(const struct kernel_table *table, const struct model_rope *rope, const double *freq,
                          size_t pos, float *cos, float *sin)
{
    const size_t half = rope->n_rot / 2;
    table->angles((double)pos, freq, half, cos, sin);
    if (rope->magnitude == 1) return;
    table->scale(cos, rope->magnitude, half);
    table->scale(sin, rope->magnitude, half);
}

struct angles_job {
    const struct kernel_table *table;
    const struct model_rope *rope;
    const struct model_step *s;
    const double *freq;
    float *cos, *sin; /* [n_tokens][n_rot / 2] */
};

static void turn_tokens(void *arg, unsigned worker, unsigned n_workers)
{
    const struct angles_job *j = arg;
    const size_t half = j->rope->n_rot / 2;
    size_t begin, end;
    kernel_pool_range(worker, n_workers, j->s->n_tokens, 1, &begin, &end);
    for (size_t t = begin; t < end; t++)
        model_rope_angles_at(j->table, j->rope, j->freq, model_pos(model_span_of(j->s, t), t), j->cos + t * half,
                             j->sin + t * half);
}

void model_rope_angles(struct model_run *r, const struct model_step *s)
{
    const struct model_hparams *hp = &r->model->hp;
    struct model_scratch *sc = &r->scratch;
    for (uint32_t set = 0; set < hp->n_ropes; set++) {
        const struct model_rope *rope = &hp->ropes[set];
        struct angles_job job = {
            .table = r->kernel.table, .rope = rope, .s = s, .freq = sc->freq, .cos = sc->cos[set], .sin = sc->sin[set]};
        model_rope_frequencies(rope, factors_of(r->model, rope), sc->freq);
        kernel_pool_run_parts(r->kernel.pool, s->n_tokens, turn_tokens, &job);
    }
}
