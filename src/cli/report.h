/* Everything that goes to standard error: errors, notes, the ledger, progress, the report at the end. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "cli/options.h"
#include "sluice.h"

#include <stdio.h>

/* Whom the engine's callbacks talk to. */
struct report {
    bool quiet, verbose, terminal; /* terminal: standard error is one */
    bool progress_shown;           /* a progress line stands on the terminal */
    bool prefill_shown;            /* prefills are worth a progress line (not the one-token steps of decode) */
    enum sluice_phase phase;
    uint64_t phase_begin_ns, phase_done_first, last_ns, last_done;
};

uint64_t report_now_ns(void); /* monotonic */
void report_init(struct report *r, const struct cli_options *o);
/* "sluice: message" and "  hint". Returns the exit code. */
int report_error(const struct sluice_error *err);
void report_note(struct report *r, const char *format, ...) BASE_PRINTF(2, 3); /* unless quiet */
void report_warn(struct report *r, const char *format, ...) BASE_PRINTF(2, 3);

/* For struct sluice_options; user is a struct report. */
void report_log(void *user, enum sluice_log_level level, const char *line);
bool report_progress(void *user, const struct sluice_progress *p);             /* false after Ctrl-C */
void report_warming(struct report *r, uint64_t begin_ns, uint64_t read_bytes); /* the progress of a warm-up */
void report_clear(struct report *r);                                           /* takes the progress line away */

/* "1.50 GiB"; returns out. */
const char *report_bytes(double bytes, char out[24]);
void report_ledger(FILE *out, const struct sluice_ledger *ledger, const struct sluice_model_info *info);
/* What happened from `before` to `after`. first_token_ns 0: none. verbose: with all that figures.h has. */
void report_stats(FILE *out, const struct sluice_stats *before, const struct sluice_stats *after,
                  uint64_t first_token_ns, const struct sluice_ledger *ledger, bool verbose);

/* Figures that several commands show. Zero where there is nothing to divide by. */
double report_rate(uint64_t tokens, uint64_t ns); /* a second */
double report_percent(double part, double whole);

#endif
