/* What `sluice replay` found, for its printers. */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "expert/replay.h"

#define REPLAY_SIZES_MAX 32
#define REPLAY_BELADY POLICY_KINDS /* the limit, as one more policy */
#define REPLAY_ROWS_MAX (POLICY_KINDS + 1)

struct replay_size {
    uint32_t number;
    bool times_used; /* a multiple of the experts used a token */
};

struct replay_table {
    const char *trace; /* path */
    char model[128];   /* as the trace names it; may be empty */
    unsigned n_rows, n_sizes;
    unsigned policy[REPLAY_ROWS_MAX]; /* enum policy_kind or REPLAY_BELADY */
    uint32_t slots[REPLAY_SIZES_MAX]; /* of each layer */
    double cache_bytes[REPLAY_SIZES_MAX];
    struct replay_result results[REPLAY_ROWS_MAX][REPLAY_SIZES_MAX];
    uint64_t ns[REPLAY_ROWS_MAX];           /* of all sizes */
    uint64_t n_selections[REPLAY_ROWS_MAX]; /* the same */
};

const char *replay_row_name(unsigned policy);
double replay_hit_rate(const struct replay_result *r);    /* 0 to 1 */
double replay_token_bytes(const struct replay_result *r); /* read a token of decode */

/* The unit that the sizes of the caches are told in: bytes of one, and its name. */
double replay_unit(const struct replay_table *t, const char **name);

/* replay_plot.c: hit rate over slots, a panel a trace. */
enum sluice_status replay_plot(const char *path, const struct replay_table *tables, unsigned n_tables,
                               struct sluice_error *err);

#endif
