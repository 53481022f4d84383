/* Trains the bundled model (README.md). */
#include "adam.h"
#include "check.h"
#include "data.h"
#include "memory.h"
#include "model.h"
#include "report.h"

#include <cblas.h>
#include <string.h>
#include <time.h>

#define BALANCE 0.01f /* weight of the load-balancing loss, over all layers */
#define WARM_UP_STEPS 200
#define RATE_LAST 0.05f /* of the peak, at the end of the cosine */
#define PRINT_STEPS 50
#define SAVE_STEPS 500

struct run {
    const char *folder, *out, *start;
    double minutes;
    float rate;
};

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float rate_at(float peak, int step, double done)
{
    float warm = fminf(1.0f, (float)step / WARM_UP_STEPS);
    float cosine = 0.5f * (1.0f + cosf(3.14159265f * (float)done));
    return peak * warm * ((1.0f - RATE_LAST) * cosine + RATE_LAST);
}

static bool train(struct model *m, const struct data *d, const struct run *run, struct random *random)
{
    size_t n = shape_tokens(&m->shape);
    int *tokens = memory_ints(n), *next = memory_ints(n);
    struct adam adam;
    double began = now_s(), done;
    float mean_loss = 0;
    bool saved = true;
    adam_init(&adam, m);
    for (int step = 1; saved && (done = (now_s() - began) / 60 / run->minutes) < 1; step++) {
        data_draw(d, &m->shape, random, tokens, next);
        float loss = model_forward(m, tokens, next);
        model_backward(m, tokens, BALANCE / (float)m->shape.n_layers);
        adam_step(&adam, m, rate_at(run->rate, step, done));
        mean_loss = step == 1 ? loss : 0.97f * mean_loss + 0.03f * loss;
        if (step == 1 || step % PRINT_STEPS == 0) {
            double passed = now_s() - began;
            printf("step %d min %.1f loss %.3f (mean %.3f) tok/s %.0f\n", step, passed / 60, loss, mean_loss,
                   step * (double)n / passed);
            fflush(stdout);
        }
        if (step % SAVE_STEPS == 0) saved = model_save(m, run->out);
    }
    saved = saved && model_save(m, run->out);
    if (!saved) fprintf(stderr, "train: cannot write %s\n", run->out);
    adam_free(&adam);
    free(tokens);
    free(next);
    return saved;
}

static int usage(void)
{
    fprintf(stderr, "usage: train TOKENS_FOLDER MINUTES OUT.bin [RATE [START.bin]]\n"
                    "       train --check\n"
                    "RATE: the peak learning rate, 2e-3 by default. Threads: OMP_NUM_THREADS.\n");
    return 2;
}

int main(int argc, char **argv)
{
    openblas_set_num_threads(1); /* the threads are ours (matmul.c) */
    if (argc == 2 && !strcmp(argv[1], "--check")) return check_gradients();
    if (argc < 4 || argc > 6) return usage();
    struct run run = {.folder = argv[1], .minutes = atof(argv[2]), .out = argv[3], .rate = 2e-3f};
    if (argc > 4) run.rate = (float)atof(argv[4]);
    if (argc > 5) run.start = argv[5];
    if (!(run.minutes > 0) || !(run.rate > 0)) return usage();

    struct shape shape = {.n_layers = 8,
                          .d_model = 256,
                          .n_head = 4,
                          .n_head_kv = 2,
                          .d_head = 64,
                          .n_expert = 32,
                          .n_used = 4,
                          .d_ff = 256,
                          .n_vocab = 4096,
                          .n_window = 256,
                          .n_batch = 16};
    struct random random = {RANDOM_SEED};
    struct data data = {.n_texts = 0};
    struct model *m = model_create(&shape);
    int code = 1;
    if (!m || !data_load(&data, run.folder, shape.n_window, shape.n_vocab)) goto fail;
    model_init(m, &random);
    printf("%.1f M parameters, %d texts\n", (double)m->w.n / 1e6, data.n_texts);
    if (run.start) {
        if (!model_load(m, run.start)) {
            fprintf(stderr, "train: cannot start from %s: not there, or of another shape\n", run.start);
            goto fail;
        }
        random.state += 12345; /* other windows than the first run's */
    }
    if (!train(m, &data, &run, &random)) goto fail;
    report(m, &data);
    code = 0;
fail:
    data_free(&data);
    model_destroy(m);
    return code;
}
