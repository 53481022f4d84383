#include "model/norm.h"

void model_norm(const struct model_run *r, const float *x, const struct model_tensor *weight,
                const struct model_tensor *bias, size_t n_rows, float *out)
{
    const size_t n = r->model->hp.n_embd;
    kernel_rms_norm_rows(&r->kernel, x, model_vector(weight), n, n_rows, r->model->hp.norm_eps, out);
    if (!bias->name) return;
    for (size_t i = 0; i < n_rows; i++) r->kernel.table->add(out + i * n, model_vector(bias), n);
}

void model_join(const struct model_run *r, float *x, float *y, const struct model_tensor *post_norm)
{
    const struct kernel_table *t = r->kernel.table;
    const struct model_hparams *hp = &r->model->hp;
    if (post_norm->name) t->rms_norm(y, model_vector(post_norm), hp->n_embd, hp->norm_eps, y);
    if (hp->residual_scale == 1)
        t->add(x, y, hp->n_embd);
    else
        t->add_scaled(x, y, hp->residual_scale, hp->n_embd);
}
