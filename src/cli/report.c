#include "cli/report.h"

#include "cli/figures.h"
#include "cli/interrupt.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_EVERY_NS 100000000u   /* ten times a second */
#define PROGRESS_AFTER_NS 400000000u   /* what takes less needs no line */
#define TIME_LEFT_AFTER_NS 1500000000u /* before that the guess is too wild */

uint64_t report_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void report_init(struct report *r, const struct cli_options *o)
{
    memset(r, 0, sizeof *r);
    r->quiet = cli_flag(o, OPT_QUIET);
    r->verbose = cli_flag(o, OPT_VERBOSE);
    if (r->quiet && r->verbose) { /* one of them came from the environment: the flag wins */
        r->quiet = o->value[OPT_QUIET].source == CLI_FROM_FLAG;
        r->verbose = !r->quiet;
    }
    r->terminal = isatty(STDERR_FILENO) == 1;
}

int report_error(const struct sluice_error *err)
{
    if (err->message[0]) fprintf(stderr, "sluice: %s\n", err->message);
    if (err->hint[0]) fprintf(stderr, "  %s\n", err->hint);
    return base_exit_code(err->status);
}

static void say(struct report *r, const char *kind, const char *format, va_list args)
{
    report_clear(r);
    fprintf(stderr, "sluice: %s", kind);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
}

void report_note(struct report *r, const char *format, ...)
{
    va_list args;
    if (r->quiet) return;
    va_start(args, format);
    say(r, "note: ", format, args);
    va_end(args);
}

void report_warn(struct report *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(r, "warning: ", format, args);
    va_end(args);
}

void report_log(void *user, enum sluice_log_level level, const char *line)
{
    struct report *r = user;
    if (level == SLUICE_LOG_DEBUG && !r->verbose) return;
    if (level == SLUICE_LOG_NOTE && r->quiet) return;
    report_clear(r);
    fprintf(stderr, "sluice: %s: %s\n",
            level == SLUICE_LOG_WARN ? "warning" : (level == SLUICE_LOG_NOTE ? "note" : "debug"), line);
}

/* ---- progress ---- */

void report_clear(struct report *r)
{
    if (!r->progress_shown) return;
    fputs("\r\033[K", stderr);
    r->progress_shown = false;
}

static void show_progress(struct report *r, const struct sluice_progress *p, uint64_t now)
{
    char done[24], total[24], left[48] = "";
    uint64_t spent = now - r->phase_begin_ns, moved = p->done - r->phase_done_first;
    if (spent > TIME_LEFT_AFTER_NS && moved > 0 && p->total > p->done) {
        double seconds = (double)spent * (double)(p->total - p->done) / (double)moved / 1e9;
        if (seconds < 100)
            snprintf(left, sizeof left, ", %.0f s left", seconds);
        else
            snprintf(left, sizeof left, ", %.0f min left", seconds / 60);
    }
    int percent = (int)report_percent((double)p->done, (double)p->total);
    if (p->phase == SLUICE_PHASE_LOAD)
        fprintf(stderr, "\rloading %3d %%  %s of %s%s\033[K", percent, report_bytes((double)p->done, done),
                report_bytes((double)p->total, total), left);
    else
        fprintf(stderr, "\rreading the prompt %3d %%  %llu of %llu tokens%s\033[K", percent,
                (unsigned long long)p->done, (unsigned long long)p->total, left);
    fflush(stderr);
    r->progress_shown = true;
}

bool report_progress(void *user, const struct sluice_progress *p)
{
    struct report *r = user;
    if (interrupt_pending()) return false;
    if (!r->terminal || r->quiet || p->total == 0) return true;
    if (p->phase == SLUICE_PHASE_PREFILL && !r->prefill_shown) return true;
    uint64_t now = report_now_ns();
    if (r->phase_begin_ns == 0 || p->phase != r->phase || p->done < r->last_done) {
        r->phase = p->phase;
        r->phase_begin_ns = now;
        r->phase_done_first = p->done;
    }
    r->last_done = p->done;
    if (p->done >= p->total) {
        report_clear(r);
        r->phase_begin_ns = 0;
    } else if (now - r->phase_begin_ns > PROGRESS_AFTER_NS && now - r->last_ns > PROGRESS_EVERY_NS) {
        r->last_ns = now;
        show_progress(r, p, now);
    }
    return true;
}

void report_warming(struct report *r, uint64_t begin_ns, uint64_t read_bytes)
{
    char text[24];
    uint64_t now = report_now_ns();
    if (!r->terminal || r->quiet || now - begin_ns < PROGRESS_AFTER_NS || now - r->last_ns < PROGRESS_EVERY_NS) return;
    r->last_ns = now;
    fprintf(stderr, "\rloading experts beforehand  %s\033[K", report_bytes((double)read_bytes, text));
    fflush(stderr);
    r->progress_shown = true;
}

/* ---- figures ---- */

const char *report_bytes(double bytes, char out[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    while (bytes >= 1000 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(out, 24, "%.0f %s", bytes, units[unit]);
    else
        snprintf(out, 24, "%.*f %s", bytes < 9.995 ? 2 : (bytes < 99.95 ? 1 : 0), bytes, units[unit]);
    return out;
}

double report_rate(uint64_t tokens, uint64_t ns) { return ns ? (double)tokens * 1e9 / (double)ns : 0; }

double report_percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void report_ledger(FILE *out, const struct sluice_ledger *ledger, const struct sluice_model_info *info)
{
    char a[24], b[24];
    uint64_t sum = 0;
    fprintf(out, "memory budget %s of %s (%s)\n", report_bytes((double)ledger->budget_bytes, a),
            report_bytes((double)ledger->machine_limit_bytes, b),
            ledger->machine_limit_why ? ledger->machine_limit_why : "the machine");
    for (size_t i = 0; i < ledger->n_rows; i++) {
        fprintf(out, "  %-28s %12s\n", ledger->rows[i].name, report_bytes((double)ledger->rows[i].bytes, a));
        sum += ledger->rows[i].bytes;
    }
    fprintf(out, "  %-28s %12s\n", "all together", report_bytes((double)sum, a));
    if (info->n_expert > 0)
        fprintf(out, "  the expert cache holds %.1f %% of the experts' %s; a token uses %s\n",
                report_percent((double)ledger->slots_bytes,
                               (double)(ledger->slots_all_bytes ? ledger->slots_all_bytes : 1)),
                report_bytes((double)info->expert_bytes, a), report_bytes((double)info->expert_bytes_per_token, b));
    fprintf(out, "context %u tokens, prompt chunks of %u, %u threads, cpu %s, io %s, policy %s\n", info->ctx,
            info->chunk, info->threads, info->cpu ? info->cpu : "-", info->io ? info->io : "-",
            info->policy ? info->policy : "-");
}

/* No rate of nothing. */
static void print_rate(FILE *out, const char *what, uint64_t tokens, uint64_t ns)
{
    fprintf(out, "%s %8llu tokens", what, (unsigned long long)tokens);
    if (tokens && ns) fprintf(out, "  %9.2f tokens/s", report_rate(tokens, ns));
}

void report_stats(FILE *out, const struct sluice_stats *before, const struct sluice_stats *after,
                  uint64_t first_token_ns, const struct sluice_ledger *ledger, bool verbose)
{
    struct sluice_stats d = figures_difference(before, after);
    char a[24], b[24];
    uint64_t tokens = d.tokens_prefill + d.tokens_decode, ns = d.prefill_ns + d.decode_ns;
    if (d.tokens_prefill || first_token_ns) {
        print_rate(out, "prefill ", d.tokens_prefill, d.prefill_ns);
        if (first_token_ns) fprintf(out, "  first token after %.2f s", (double)first_token_ns / 1e9);
        fputc('\n', out);
    }
    if (d.tokens_decode) {
        print_rate(out, "decode  ", d.tokens_decode, d.decode_ns);
        fputc('\n', out);
    }
    if (d.hits + d.misses > 0)
        fprintf(out, "experts  %.1f %% hits  %.2f MB read a token  waited %.0f ms for the disk (%.1f %%)\n",
                report_percent((double)d.hits, (double)(d.hits + d.misses)),
                tokens ? (double)d.read_bytes / 1e6 / (double)tokens : 0, (double)d.wait_ns / 1e6,
                report_percent((double)d.wait_ns, (double)ns));
    fprintf(out, "memory   peak %s of %s\n", report_bytes((double)d.resident_peak_bytes, a),
            report_bytes((double)ledger->budget_bytes, b));
    figures_print(out, &d, ledger, verbose);
}
