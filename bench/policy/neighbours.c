/* How much the default policy depends on its parameters: the mean hit rate over the given traces and caches of 2K, 3K
 * and 4K slots a layer, for neighbours of the chosen values, with `lru`, `freq-age` and the limit beside them. The
 * table is in docs/CACHE-MEASURED.md.
 *
 *     neighbours TRACE... */
#include "expert/replay.h"

#include <stdio.h>
#include <stdlib.h>

static struct trace traces[32];
static int n_traces;

static double mean(struct replay_config config, bool limit)
{
    double sum = 0;
    for (int i = 0; i < n_traces; i++)
        for (uint32_t times = 2; times <= 4; times++) {
            struct replay_result r;
            struct sluice_error err;
            config.slots_per_layer = times * replay_n_used(&traces[i]);
            if (limit ? replay_belady(&traces[i], config.slots_per_layer, &r, &err)
                      : replay_run(&traces[i], &config, &r, &err)) {
                fprintf(stderr, "%s\n", err.message);
                exit(1);
            }
            sum += 100.0 * (double)r.hits / (double)(r.hits + r.misses);
        }
    return sum / (3 * n_traces);
}

int main(int argc, char **argv)
{
    static const uint32_t windows[] = {32, 64, 128, 256};
    static const float weights[] = {1, 1.5f, 2, 2.5f, 3, 4, 6};
    for (n_traces = 0; n_traces < argc - 1 && n_traces < 32; n_traces++) {
        struct sluice_error err;
        if (!trace_read(argv[n_traces + 1], &traces[n_traces], &err)) continue;
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    if (!n_traces) return 2;
    for (int kind = 0; kind < POLICY_KINDS; kind++)
        printf("%-10s %.2f\n", policy_name((enum policy_kind)kind),
               mean((struct replay_config){.policy = (enum policy_kind)kind}, false));
    printf("%-10s %.2f\n\nwindow     ", "belady", mean((struct replay_config){0}, true));
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) printf("  w %-4g", (double)weights[w]);
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        printf("\n%-10u", windows[i]);
        for (size_t w = 0; w < sizeof weights / sizeof *weights; w++)
            printf(" %6.2f", mean((struct replay_config){.policy = POLICY_RECALL,
                                                         .tuning = {.window = windows[i], .recall_weight = weights[w]}},
                                  false));
    }
    printf("\n");
    return 0;
}
