#include "adam.h"

#include "memory.h"

#define MEAN_KEEP 0.9f
#define SQUARE_KEEP 0.95f
#define DECAY 0.1f
#define NORM_MAX 1.0f

void adam_init(struct adam *a, const struct model *m)
{
    *a = (struct adam){.mean = memory_floats(m->w.n), .square = memory_floats(m->w.n)};
}

void adam_free(struct adam *a)
{
    free(a->mean);
    free(a->square);
}

void adam_step(struct adam *a, struct model *m, float rate)
{
    size_t n = m->w.n;
    const float *g = m->g.all;
    float *w = m->w.all;
    double square_sum = 0;
#pragma omp parallel for reduction(+ : square_sum)
    for (size_t i = 0; i < n; i++) square_sum += (double)g[i] * g[i];
    double norm = sqrt(square_sum);
    float clip = norm > NORM_MAX ? (float)(NORM_MAX / norm) : 1.0f;
    a->step++;
    float mean_scale = 1.0f / (1.0f - powf(MEAN_KEEP, (float)a->step));
    float square_scale = 1.0f / (1.0f - powf(SQUARE_KEEP, (float)a->step));
#pragma omp parallel for
    for (size_t i = 0; i < n; i++) {
        float gi = g[i] * clip;
        a->mean[i] = MEAN_KEEP * a->mean[i] + (1.0f - MEAN_KEEP) * gi;
        a->square[i] = SQUARE_KEEP * a->square[i] + (1.0f - SQUARE_KEEP) * gi * gi;
        float direction = a->mean[i] * mean_scale / (sqrtf(a->square[i] * square_scale) + 1e-8f);
        w[i] -= rate * (direction + DECAY * m->decays[i] * w[i]);
    }
}
