#include "check.h"

#include "model.h"

#include <stdio.h>

#define WEIGHTS_TRIED 400
#define STEP 1.5e-3f /* larger: curvature; smaller: rounding of float losses */
#define ERROR_MAX 0.01

static double slope(struct model *m, float *w, const int *tokens, const int *next)
{
    float kept = *w;
    *w = kept + STEP;
    float above = model_forward(m, tokens, next);
    *w = kept - STEP;
    float below = model_forward(m, tokens, next);
    *w = kept;
    return (above - below) / (2 * STEP);
}

int check_gradients(void)
{
    struct shape shape = {.n_layers = 2,
                          .d_model = 16,
                          .n_head = 4,
                          .n_head_kv = 2,
                          .d_head = 8,
                          .n_expert = 4,
                          .n_used = 2,
                          .d_ff = 12,
                          .n_vocab = 30,
                          .n_window = 6,
                          .n_batch = 2};
    struct random random = {RANDOM_SEED};
    struct model *m = model_create(&shape);
    int tokens[12], next[12];
    double error_sum = 0, slope_sum = 0;
    model_init(m, &random);
    for (size_t i = 0; i < m->w.n; i++) m->w.all[i] *= 1.5f;
    for (int i = 0; i < 12; i++) {
        tokens[i] = (int)(random_next(&random) % 30);
        next[i] = (int)(random_next(&random) % 30);
    }
    model_forward(m, tokens, next);
    model_backward(m, tokens, 0); /* the balancing loss is no part of the loss that model_forward returns */
    for (int i = 0; i < WEIGHTS_TRIED; i++) {
        size_t at = random_next(&random) % m->w.n;
        double s = slope(m, &m->w.all[at], tokens, next), error = s - m->g.all[at];
        error_sum += error * error;
        slope_sum += s * s;
    }
    double relative = sqrt(error_sum / slope_sum);
    printf("relative gradient error %.4f over %d of %zu weights (at most %.2f)\n", relative, WEIGHTS_TRIED, m->w.n,
           ERROR_MAX);
    model_destroy(m);
    return relative < ERROR_MAX ? 0 : 1;
}
