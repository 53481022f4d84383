#include "report.h"

#include "memory.h"

#include <string.h>

#define STEPS_MAX 4 /* batches of a held-out part that are measured */
#define TOP 8       /* experts of a layer that count as a text's own */

/* uses [n_texts][n_layers][n_expert]: how often each expert was chosen. */
static void measure(struct model *m, const struct text *t, int *uses)
{
    const struct shape *s = &m->shape;
    long n = (long)shape_tokens(s);
    double loss = 0;
    int steps = 0;
    for (long at = 0; at + n + 1 < t->n_held_out && steps < STEPS_MAX; at += n, steps++) {
        loss += model_forward(m, t->held_out + at, t->held_out + at + 1);
        for (int l = 0; l < s->n_layers; l++)
            for (int e = 0; e < s->n_expert; e++) uses[l * s->n_expert + e] += m->layer[l].n_slots[e];
    }
    if (steps) printf("held-out %-24s perplexity %.1f\n", t->name, exp(loss / steps));
}

/* is_top [SHAPE_EXPERTS_MAX] */
static void top_experts(const int *uses, int n_expert, bool *is_top)
{
    memset(is_top, 0, SHAPE_EXPERTS_MAX * sizeof *is_top);
    for (int k = 0; k < TOP && k < n_expert; k++) {
        int best = -1;
        for (int e = 0; e < n_expert; e++)
            if (!is_top[e] && (best < 0 || uses[e] > uses[best])) best = e;
        is_top[best] = true;
    }
}

static double shared(const struct shape *s, const int *uses_a, const int *uses_b)
{
    bool top_a[SHAPE_EXPERTS_MAX], top_b[SHAPE_EXPERTS_MAX];
    int common = 0;
    for (int l = 0; l < s->n_layers; l++) {
        top_experts(uses_a + l * s->n_expert, s->n_expert, top_a);
        top_experts(uses_b + l * s->n_expert, s->n_expert, top_b);
        for (int e = 0; e < s->n_expert; e++) common += top_a[e] && top_b[e];
    }
    return common / ((double)TOP * s->n_layers);
}

void report(struct model *m, const struct data *d)
{
    const struct shape *s = &m->shape;
    size_t a_text = (size_t)s->n_layers * s->n_expert;
    int *uses = memory_ints(d->n_texts * a_text);
    for (int i = 0; i < d->n_texts; i++) measure(m, &d->text[i], uses + i * a_text);
    printf("share of the %d most used experts in common, mean over layers\n", TOP);
    for (int i = 0; i < d->n_texts; i++) {
        printf("%-24s", d->text[i].name);
        for (int j = 0; j < d->n_texts; j++) printf(" %.2f", shared(s, uses + i * a_text, uses + j * a_text));
        printf("\n");
    }
    free(uses);
}
