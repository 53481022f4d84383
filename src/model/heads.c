#include "model/heads.h"

#include "base/assert.h"

#include <stdatomic.h>
#include <string.h>

#define ROWS_MAX_ELEMENTS 8192 /* of the inputs that share one pass over a head's matrix */
#define TOKENS_MAX 16u

struct heads_job {
    const struct kernel_table *table;
    const struct heads_product *p;
    size_t n_head, tokens_an_item, slices; /* slices of the tokens */
    atomic_size_t next;
};

static void heads_item(const struct heads_job *j, size_t item)
{
    _Alignas(64) float x[ROWS_MAX_ELEMENTS];
    _Alignas(64) int8_t q[ROWS_MAX_ELEMENTS];
    _Alignas(64) float d[ROWS_MAX_ELEMENTS / 16];
    _Alignas(64) int16_t sums[ROWS_MAX_ELEMENTS / 16];
    const struct heads_product *p = j->p;
    const struct quant_type *type = p->w->type;
    const size_t head = item / j->slices, t0 = item % j->slices * j->tokens_an_item, n_in = p->w->dims[0],
                 n_out = p->w->dims[1];
    const size_t n = p->n_tokens - t0 < j->tokens_an_item ? p->n_tokens - t0 : j->tokens_an_item;
    for (size_t t = 0; t < n; t++)
        memcpy(x + t * n_in, p->x + (t0 + t) * p->x_token + head * p->x_head, n_in * sizeof *x);
    struct kernel_acts acts = {.x = x, .n = n_in, .n_tokens = n, .forms = 1u << QUANT_FORM_FLOAT};
    if (type->form != QUANT_FORM_FLOAT) {
        acts.q[type->form] = q;
        acts.d[type->form] = d;
        acts.sums[type->form] = sums;
        acts.forms |= 1u << type->form;
        j->table->quantize(type->form, x, n * n_in, q, d, sums);
    }
    const uint8_t *w = (const uint8_t *)p->w->data + head * n_out * quant_row_bytes(type, n_in);
    j->table->product[type->id](w, n_out, &acts, NULL, n, p->out + t0 * p->out_token + head * p->out_head, p->out_token,
                                NULL);
}

static void heads_run(void *arg, unsigned worker, unsigned n_workers)
{
    (void)worker;
    (void)n_workers;
    struct heads_job *j = arg;
    for (size_t i; (i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed)) < j->n_head * j->slices;)
        heads_item(j, i);
}

void heads_product_run(const struct kernel_ctx *k, const struct heads_product *p)
{
    BASE_ASSERT(p->w->dims[0] <= HEADS_IN_MAX, "M5 a head's input has at most 4096 elements");
    struct heads_job j = {.table = k->table, .p = p, .n_head = p->w->dims[2]};
    j.tokens_an_item = ROWS_MAX_ELEMENTS / p->w->dims[0];
    if (j.tokens_an_item > TOKENS_MAX) j.tokens_an_item = TOKENS_MAX;
    j.slices = (p->n_tokens + j.tokens_an_item - 1) / j.tokens_an_item;
    atomic_init(&j.next, 0);
    kernel_pool_run(k->pool, heads_run, &j);
}
