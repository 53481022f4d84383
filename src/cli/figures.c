#include "cli/figures.h"

#include "cli/report.h"

#include <inttypes.h>
#include <string.h>

#define GAIN_MIN 1.02 /* less is noise: not worth a sentence */

/* ---- differences ---- */

static void subtract_prefetch(struct sluice_stats *d, const struct sluice_stats *before)
{
    for (size_t i = 0; i < SLUICE_PREFETCH_MAX && d->prefetch[i].name; i++)
        for (size_t j = 0; j < SLUICE_PREFETCH_MAX && before->prefetch[j].name; j++) {
            if (strcmp(d->prefetch[i].name, before->prefetch[j].name) != 0) continue;
            d->prefetch[i].named -= before->prefetch[j].named;
            d->prefetch[i].came_true -= before->prefetch[j].came_true;
            d->prefetch[i].chosen -= before->prefetch[j].chosen;
            d->prefetch[i].reads -= before->prefetch[j].reads;
            d->prefetch[i].useful -= before->prefetch[j].useful;
            d->prefetch[i].late -= before->prefetch[j].late;
            d->prefetch[i].wasted -= before->prefetch[j].wasted;
            d->prefetch[i].useful_bytes -= before->prefetch[j].useful_bytes;
            d->prefetch[i].wasted_bytes -= before->prefetch[j].wasted_bytes;
        }
}

/* Bytes count when a read is asked for, and are taken back if it is withdrawn: what was asked for before may go. */
static uint64_t bytes_since(uint64_t after, uint64_t before) { return after > before ? after - before : 0; }

static void subtract_routes(struct sluice_stats *d, const struct sluice_stats *before)
{
    for (size_t i = 0; i < SLUICE_ROUTES_MAX && d->routes[i].name; i++)
        for (size_t j = 0; j < SLUICE_ROUTES_MAX && before->routes[j].name; j++) {
            if (strcmp(d->routes[i].name, before->routes[j].name) != 0) continue;
            d->routes[i].steps -= before->routes[j].steps;
            d->routes[i].tokens -= before->routes[j].tokens;
            d->routes[i].layers -= before->routes[j].layers;
            d->routes[i].predicted_ns -= before->routes[j].predicted_ns;
            d->routes[i].ns -= before->routes[j].ns;
            d->routes[i].read_bytes = bytes_since(d->routes[i].read_bytes, before->routes[j].read_bytes);
        }
}

struct sluice_stats figures_difference(const struct sluice_stats *before, const struct sluice_stats *after)
{
    struct sluice_stats d = *after;
    d.tokens_prefill -= before->tokens_prefill;
    d.tokens_decode -= before->tokens_decode;
    d.prefill_ns -= before->prefill_ns;
    d.decode_ns -= before->decode_ns;
    d.hits -= before->hits;
    d.misses -= before->misses;
    d.evictions -= before->evictions;
    d.read_bytes = bytes_since(d.read_bytes, before->read_bytes);
    d.wait_ns -= before->wait_ns;
    d.disk_busy_ns -= before->disk_busy_ns;
    d.shrinks -= before->shrinks;
    d.shrunk_bytes -= before->shrunk_bytes;
    d.grows -= before->grows;
    d.kept_decode -= before->kept_decode;
    d.prefix_tokens -= before->prefix_tokens;
    d.prefix_written_bytes -= before->prefix_written_bytes;
    d.prefix_read_bytes -= before->prefix_read_bytes;
    d.prefix_refused -= before->prefix_refused;
    d.prefix_returned_bytes -= before->prefix_returned_bytes;
    subtract_prefetch(&d, before);
    subtract_routes(&d, before);
    return d;
}

/* ---- lines ---- */

static const char *times(uint64_t n, char out[32])
{
    if (n == 1)
        snprintf(out, 32, "once");
    else
        snprintf(out, 32, "%" PRIu64 " times", n);
    return out;
}

/* "67.1 %", or "-" where there is nothing to divide by. */
static const char *percent(uint64_t part, uint64_t whole, char out[32])
{
    if (whole)
        snprintf(out, 32, "%.1f %%", report_percent((double)part, (double)whole));
    else
        snprintf(out, 32, "-");
    return out;
}

static const char *speed(double tokens_per_s, char out[32])
{
    snprintf(out, 32, "%.*f", tokens_per_s < 1 ? 2 : 1, tokens_per_s);
    return out;
}

static void print_shortage(FILE *out, const struct sluice_stats *d, const struct sluice_ledger *ledger)
{
    char a[24], b[24], n[32];
    if (d->shrinks == 0) return;
    fprintf(out, "cache    shrunk %s, by %s: memory was short", times(d->shrinks, n),
            report_bytes((double)d->shrunk_bytes, a));
    if (d->grows) fprintf(out, "; grown again %s", times(d->grows, n));
    fprintf(out, "; now %s of %s\n", report_bytes((double)d->slots_limit_bytes, a),
            report_bytes((double)ledger->slots_bytes, b));
}

static void print_locked(FILE *out, const struct sluice_stats *d)
{
    char a[24], b[24];
    if (d->lock_wanted_bytes == 0) return;
    fprintf(out, "locked   %s of %s", report_bytes((double)d->locked_bytes, a),
            report_bytes((double)d->lock_wanted_bytes, b));
    if (d->lock_skipped_bytes)
        fprintf(out, "; skipped %s, of which the system refused %s", report_bytes((double)d->lock_skipped_bytes, a),
                report_bytes((double)d->lock_failed_bytes, b));
    fputc('\n', out);
}

static uint64_t planned_bytes(const struct sluice_ledger *ledger, const char *row)
{
    for (size_t i = 0; i < ledger->n_rows; i++)
        if (!strcmp(ledger->rows[i].name, row)) return ledger->rows[i].bytes;
    return 0;
}

static void print_prefixes(FILE *out, const struct sluice_stats *d, const struct sluice_ledger *ledger)
{
    char a[24], b[24];
    const uint64_t planned = planned_bytes(ledger, "prefixes");
    if (!d->prefix_memory_limit) return;
    fprintf(out, "prefixes %" PRIu64 " tokens were known; kept %s of %s", d->prefix_tokens,
            report_bytes((double)d->prefix_memory_bytes, a), report_bytes((double)d->prefix_memory_limit, b));
    if (d->prefix_disk_limit)
        fprintf(out, ", on the disk %s of %s", report_bytes((double)d->prefix_disk_bytes, a),
                report_bytes((double)d->prefix_disk_limit, b));
    if (d->prefix_returned_bytes || d->prefix_memory_limit < planned)
        fprintf(out, "; memory was short: %s went back, of %s", report_bytes((double)d->prefix_returned_bytes, a),
                report_bytes((double)planned, b));
    fputc('\n', out);
}

static void print_kept(FILE *out, const struct sluice_stats *d)
{
    char a[24];
    if (d->pinned)
        fprintf(out, "pins     %" PRIu64 " experts, %s\n", d->pinned, report_bytes((double)d->pinned_bytes, a));
    if (d->kept_decode)
        fprintf(out, "kept     %" PRIu64 " experts of decode that a prompt would have pushed out\n", d->kept_decode);
}

/* What precision is a share of: what was named, unless nothing was chosen that it could be compared with. */
static uint64_t judged(const struct sluice_stats *d, size_t i)
{
    return d->prefetch[i].chosen ? d->prefetch[i].named : 0;
}

static void print_guesses(FILE *out, const struct sluice_stats *d)
{
    char a[32], b[32];
    bool any = false;
    for (size_t i = 0; i < SLUICE_PREFETCH_MAX && d->prefetch[i].name; i++) {
        if (d->prefetch[i].named == 0 && d->prefetch[i].reads == 0) continue;
        if (!any)
            fprintf(out, "guesses  %-11s %3s %9s %9s %8s %8s %8s %6s %7s %10s %10s\n", "source", "on", "named",
                    "precision", "recall", "reads", "useful", "late", "wasted", "useful MB", "wasted MB");
        any = true;
        fprintf(out,
                "         %-11s %3s %9" PRIu64 " %9s %8s %8" PRIu64 " %8" PRIu64 " %6" PRIu64 " %7" PRIu64
                " %10.1f %10.1f\n",
                d->prefetch[i].name, d->prefetch[i].on ? "yes" : "no", d->prefetch[i].named,
                percent(d->prefetch[i].came_true, judged(d, i), a),
                percent(d->prefetch[i].came_true, d->prefetch[i].chosen, b), d->prefetch[i].reads,
                d->prefetch[i].useful, d->prefetch[i].late, d->prefetch[i].wasted,
                (double)d->prefetch[i].useful_bytes / 1e6, (double)d->prefetch[i].wasted_bytes / 1e6);
    }
}

static void print_routes(FILE *out, const struct sluice_stats *d)
{
    bool any = false;
    for (size_t i = 0; i < SLUICE_ROUTES_MAX && d->routes[i].name; i++) {
        if (d->routes[i].steps == 0 && d->routes[i].layers == 0 && d->routes[i].tokens == 0) continue;
        if (!any)
            fprintf(out, "prompts  %-11s %9s %9s %9s %12s %10s %10s\n", "route", "chunks", "layers", "tokens",
                    "predicted s", "took s", "MB read");
        any = true;
        fprintf(out, "         %-11s %9" PRIu64 " %9" PRIu64 " %9" PRIu64, d->routes[i].name, d->routes[i].steps,
                d->routes[i].layers, d->routes[i].tokens);
        if (d->routes[i].predicted_ns)
            fprintf(out, " %12.2f", (double)d->routes[i].predicted_ns / 1e9);
        else
            fprintf(out, " %12s", "-"); /* nothing was measured yet that it could be predicted from */
        fprintf(out, " %10.2f %10.1f\n", (double)d->routes[i].ns / 1e9, (double)d->routes[i].read_bytes / 1e6);
    }
}

/* The size to speak of: the useful one if that is at most twice the budget, else the largest up to twice the budget.
 * n_sizes: there is none above the budget. */
static size_t choose_size(const struct sluice_stats *d, uint64_t budget_bytes)
{
    size_t best = d->n_sizes;
    uint64_t most = 2 * budget_bytes;
    if (d->useful_memory_bytes > budget_bytes && d->useful_memory_bytes < most) most = d->useful_memory_bytes;
    for (size_t i = 0; i < d->n_sizes; i++) {
        uint64_t bytes = d->sizes[i].memory_bytes;
        if (bytes <= budget_bytes || d->sizes[i].tokens_per_second <= 0) continue;
        if (best == d->n_sizes)
            best = i;
        else if (d->sizes[best].memory_bytes > most ? bytes < d->sizes[best].memory_bytes
                                                    : bytes <= most && bytes > d->sizes[best].memory_bytes)
            best = i;
    }
    return best;
}

static void print_other_sizes(FILE *out, const struct sluice_stats *d, uint64_t budget_bytes)
{
    char a[24], b[24], x[32], y[32];
    double now = report_rate(d->tokens_decode, d->decode_ns);
    size_t i = choose_size(d, budget_bytes);
    if (d->n_sizes == 0 || now <= 0 || budget_bytes == 0) return;
    if (d->useful_memory_bytes && d->useful_memory_bytes <= budget_bytes) {
        fprintf(out, "sizes    more memory than now (%s) would not have made decode faster",
                report_bytes((double)budget_bytes, a));
        if (d->useful_memory_bytes < budget_bytes - budget_bytes / 4)
            fprintf(out, "; %s would do", report_bytes((double)d->useful_memory_bytes, b));
        fputc('\n', out);
    } else if (i < d->n_sizes && d->sizes[i].tokens_per_second >= GAIN_MIN * now) {
        fprintf(out, "sizes    with %s (now %s) decode would have been %s tokens/s (now %s)",
                report_bytes((double)d->sizes[i].memory_bytes, a), report_bytes((double)budget_bytes, b),
                speed(d->sizes[i].tokens_per_second, x), speed(now, y));
        if (d->useful_memory_bytes > d->sizes[i].memory_bytes)
            fprintf(out, "; more than %s would not help", report_bytes((double)d->useful_memory_bytes, a));
        else if (d->useful_memory_bytes)
            fprintf(out, "; more would not help");
        fputc('\n', out);
    }
}

static void print_sizes(FILE *out, const struct sluice_stats *d)
{
    char a[24], b[24], x[32];
    for (size_t i = 0; i < d->n_sizes; i++) {
        if (i == 0)
            fprintf(out, "         %-11s %12s %9s %12s   (the same run with other sizes, simulated)\n", "memory",
                    "cache", "hits", "tokens/s");
        fprintf(out, "         %-11s %12s %7.1f %% %12s\n", report_bytes((double)d->sizes[i].memory_bytes, a),
                report_bytes((double)d->sizes[i].slots_bytes, b), 100 * d->sizes[i].hit_rate,
                d->sizes[i].tokens_per_second > 0 ? speed(d->sizes[i].tokens_per_second, x) : "-");
    }
}

void figures_print(FILE *out, const struct sluice_stats *d, const struct sluice_ledger *ledger, bool verbose)
{
    print_locked(out, d);
    print_shortage(out, d, ledger);
    print_prefixes(out, d, ledger);
    if (verbose) {
        print_kept(out, d);
        print_routes(out, d);
        print_guesses(out, d);
    }
    print_other_sizes(out, d, ledger->budget_bytes);
    if (verbose) print_sizes(out, d);
}

/* ---- JSON ---- */

static json_t *number(uint64_t n) { return json_integer((json_int_t)n); }

static json_t *ratio(uint64_t part, uint64_t whole)
{
    return whole ? json_real((double)part / (double)whole) : json_null();
}

static json_t *prefetch_json(const struct sluice_stats *d)
{
    json_t *list = json_array();
    for (size_t i = 0; i < SLUICE_PREFETCH_MAX && d->prefetch[i].name; i++) {
        json_t *o =
            json_pack("{s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "name", d->prefetch[i].name, "on", d->prefetch[i].on,
                      "named", number(d->prefetch[i].named), "came_true", number(d->prefetch[i].came_true), "chosen",
                      number(d->prefetch[i].chosen), "precision", ratio(d->prefetch[i].came_true, judged(d, i)),
                      "recall", ratio(d->prefetch[i].came_true, d->prefetch[i].chosen));
        json_object_set_new(o, "reads", number(d->prefetch[i].reads));
        json_object_set_new(o, "useful", number(d->prefetch[i].useful));
        json_object_set_new(o, "late", number(d->prefetch[i].late));
        json_object_set_new(o, "wasted", number(d->prefetch[i].wasted));
        json_object_set_new(o, "useful_bytes", number(d->prefetch[i].useful_bytes));
        json_object_set_new(o, "wasted_bytes", number(d->prefetch[i].wasted_bytes));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *routes_json(const struct sluice_stats *d)
{
    json_t *list = json_array();
    for (size_t i = 0; i < SLUICE_ROUTES_MAX && d->routes[i].name; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", d->routes[i].name, "chunks",
                                        number(d->routes[i].steps), "layers", number(d->routes[i].layers), "tokens",
                                        number(d->routes[i].tokens), "predicted_ns", number(d->routes[i].predicted_ns),
                                        "ns", number(d->routes[i].ns), "read_bytes", number(d->routes[i].read_bytes)));
    return list;
}

static json_t *sizes_json(const struct sluice_stats *d)
{
    json_t *list = json_array();
    for (size_t i = 0; i < d->n_sizes; i++)
        json_array_append_new(list,
                              json_pack("{s:o, s:o, s:f, s:f}", "memory_bytes", number(d->sizes[i].memory_bytes),
                                        "slots_bytes", number(d->sizes[i].slots_bytes), "hit_rate",
                                        d->sizes[i].hit_rate, "tokens_per_second", d->sizes[i].tokens_per_second));
    return list;
}

json_t *figures_json(const struct sluice_stats *d)
{
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"tokens_prefill", d->tokens_prefill},
        {"tokens_decode", d->tokens_decode},
        {"prefill_ns", d->prefill_ns},
        {"decode_ns", d->decode_ns},
        {"hits", d->hits},
        {"misses", d->misses},
        {"evictions", d->evictions},
        {"read_bytes", d->read_bytes},
        {"wait_ns", d->wait_ns},
        {"disk_busy_ns", d->disk_busy_ns},
        {"load_bytes", d->load_bytes},
        {"load_ns", d->load_ns},
        {"experts_resident", d->experts_resident},
        {"experts_slots", d->experts_slots},
        {"resident_bytes", d->resident_bytes},
        {"resident_peak_bytes", d->resident_peak_bytes},
        {"slots_bytes", d->slots_bytes},
        {"slots_limit_bytes", d->slots_limit_bytes},
        {"shrinks", d->shrinks},
        {"shrunk_bytes", d->shrunk_bytes},
        {"grows", d->grows},
        {"lock_wanted_bytes", d->lock_wanted_bytes},
        {"locked_bytes", d->locked_bytes},
        {"lock_skipped_bytes", d->lock_skipped_bytes},
        {"lock_failed_bytes", d->lock_failed_bytes},
        {"pinned", d->pinned},
        {"pinned_bytes", d->pinned_bytes},
        {"kept_decode", d->kept_decode},
        {"prefix_tokens", d->prefix_tokens},
        {"prefix_nodes", d->prefix_nodes},
        {"prefix_memory_bytes", d->prefix_memory_bytes},
        {"prefix_memory_limit", d->prefix_memory_limit},
        {"prefix_disk_bytes", d->prefix_disk_bytes},
        {"prefix_disk_limit", d->prefix_disk_limit},
        {"prefix_written_bytes", d->prefix_written_bytes},
        {"prefix_read_bytes", d->prefix_read_bytes},
        {"prefix_refused", d->prefix_refused},
        {"prefix_returned_bytes", d->prefix_returned_bytes},
    };
    json_t *o = json_object();
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_object_set_new(o, numbers[i].name, number(numbers[i].value));
    json_object_set_new(o, "prefetch", prefetch_json(d));
    json_object_set_new(o, "routes", routes_json(d));
    json_object_set_new(o, "sizes", sizes_json(d));
    json_object_set_new(o, "useful_memory_bytes",
                        d->useful_memory_bytes ? number(d->useful_memory_bytes) : json_null());
    return o;
}
