/* sluice bench: prefill at several lengths and decode after each, on real text. Decoding is fed the text's own next
 * tokens, so that what is measured does not depend on what the model would say; sampling costs next to nothing beside a
 * layer. Each repetition takes another part of the text: the same one again would find its experts in the cache. */
#include "cli/bench_text.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/input.h"
#include "cli/open.h"
#include "cli/out.h"

#include <stdlib.h>
#include <string.h>

struct figures {
    double tokens_per_s, hit_percent, bytes_per_token, wait_percent;
};

struct bench {
    struct open_model model;
    struct report report;
    sluice_session *session;
    int32_t *ids;
    size_t n_ids;
    unsigned repetitions;
    uint32_t n_decode;
    struct figures *samples;   /* [2][repetitions]: prefill, decode */
    struct sluice_stats begin; /* before the first repetition */
};

static struct figures figures_of(const struct sluice_stats *before, const struct sluice_stats *after, size_t n,
                                 uint64_t ns)
{
    struct sluice_stats d = figures_difference(before, after);
    return (struct figures){
        .tokens_per_s = report_rate(n, ns),
        .hit_percent = report_percent((double)d.hits, (double)(d.hits + d.misses)),
        .bytes_per_token = n ? (double)d.read_bytes / (double)n : 0,
        .wait_percent = report_percent((double)d.wait_ns, (double)ns),
    };
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const struct figures *samples, unsigned n, size_t field_offset)
{
    double values[1000];
    for (unsigned i = 0; i < n; i++) memcpy(&values[i], (const char *)&samples[i] + field_offset, sizeof(double));
    qsort(values, n, sizeof values[0], compare_doubles);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static struct figures medians(const struct figures *samples, unsigned n)
{
    return (struct figures){
        .tokens_per_s = median(samples, n, offsetof(struct figures, tokens_per_s)),
        .hit_percent = median(samples, n, offsetof(struct figures, hit_percent)),
        .bytes_per_token = median(samples, n, offsetof(struct figures, bytes_per_token)),
        .wait_percent = median(samples, n, offsetof(struct figures, wait_percent)),
    };
}

static enum sluice_status repetition(struct bench *b, size_t begin, size_t n_prefill, struct figures *prefill,
                                     struct figures *decode, struct sluice_error *err)
{
    struct sluice_stats at[3];
    uint64_t ns[3];
    enum sluice_status status = sluice_session_rewind(b->session, 0, err);
    sluice_stats(b->model.engine, &at[0]);
    ns[0] = report_now_ns();
    b->report.prefill_shown = true;
    if (!status) status = open_eval(&b->model, b->session, b->ids + begin, n_prefill, NULL, NULL, NULL, err);
    b->report.prefill_shown = false;
    ns[1] = report_now_ns();
    report_clear(&b->report);
    sluice_stats(b->model.engine, &at[1]);
    for (uint32_t i = 0; i < b->n_decode && !status; i++)
        status = open_eval(&b->model, b->session, b->ids + begin + n_prefill + i, 1, NULL, NULL, NULL, err);
    ns[2] = report_now_ns();
    sluice_stats(b->model.engine, &at[2]);
    *prefill = figures_of(&at[0], &at[1], n_prefill, ns[1] - ns[0]);
    *decode = figures_of(&at[1], &at[2], b->n_decode, ns[2] - ns[1]);
    return status;
}

static void print_row(const char *what, size_t n, const struct figures *f)
{
    out_printf("%-8s %7zu %12.2f %8.1f %14.0f %8.1f\n", what, n, f->tokens_per_s, f->hit_percent, f->bytes_per_token,
               f->wait_percent);
    out_flush();
}

static json_t *json_row(const char *what, size_t n, size_t n_prefill, const struct figures *f)
{
    return json_pack("{s:s, s:I, s:I, s:f, s:f, s:f, s:f}", "phase", what, "tokens", (json_int_t)n, "prefill",
                     (json_int_t)n_prefill, "tokens_per_s", f->tokens_per_s, "hit_percent", f->hit_percent,
                     "bytes_per_token", f->bytes_per_token, "wait_percent", f->wait_percent);
}

/* One length: all repetitions, then the medians to the table or to rows. */
static enum sluice_status measure_length(struct bench *b, size_t n_prefill, unsigned *parts, json_t *rows,
                                         struct sluice_error *err)
{
    struct figures *prefill = b->samples, *decode = b->samples + b->repetitions;
    size_t span = b->n_ids - n_prefill - b->n_decode; /* checked before */
    for (unsigned i = 0; i < b->repetitions; i++) {
        /* Steps of a golden-ratio share of the span never come near an earlier part soon. */
        size_t begin = span ? (size_t)((double)span * 0.6180339887 * (*parts)++) % (span + 1) : 0;
        enum sluice_status status = repetition(b, begin, n_prefill, &prefill[i], &decode[i], err);
        if (status) return status;
    }
    struct figures p = medians(prefill, b->repetitions), d = medians(decode, b->repetitions);
    if (rows) {
        json_array_append_new(rows, json_row("prefill", n_prefill, n_prefill, &p));
        if (b->n_decode) json_array_append_new(rows, json_row("decode", b->n_decode, n_prefill, &d));
    } else {
        print_row("prefill", n_prefill, &p);
        if (b->n_decode) print_row("decode", b->n_decode, &d);
    }
    return SLUICE_OK;
}

static enum sluice_status measure_all(struct bench *b, const struct cli_options *o, struct sluice_error *err)
{
    unsigned parts = 0;
    json_t *rows = cli_flag(o, OPT_JSON) ? json_array() : NULL;
    struct sluice_stats now;
    enum sluice_status status = SLUICE_OK;
    if (!rows)
        out_printf("%-8s %7s %12s %8s %14s %8s\n", "phase", "tokens", "tokens/s", "hits %", "bytes/token", "wait %");
    for (unsigned i = 0; i < o->n_prefill && !status && !out_failed(); i++)
        status = measure_length(b, o->prefill[i], &parts, rows, err);
    if (status) {
        json_decref(rows);
        return status;
    }
    sluice_stats(b->model.engine, &now);
    struct sluice_stats d = figures_difference(&b->begin, &now);
    if (rows)
        out_json(json_pack(
            "{s:s, s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "version", sluice_version(), "model",
            out_json_text(b->model.info.path, strlen(b->model.info.path)), "cpu", b->model.info.cpu, "threads",
            (json_int_t)b->model.info.threads, "budget_bytes", (json_int_t)b->model.ledger.budget_bytes, "slots_bytes",
            (json_int_t)b->model.ledger.slots_bytes, "resident_peak_bytes", (json_int_t)now.resident_peak_bytes,
            "repetitions", (json_int_t)b->repetitions, "rows", rows, "stats", figures_json(&d)));
    else if (!b->report.quiet)
        figures_print(stderr, &d, &b->model.ledger, true);
    return SLUICE_OK;
}

static enum sluice_status check_text(const struct bench *b, size_t need, bool own, struct sluice_error *err)
{
    if (need <= b->n_ids) return SLUICE_OK;
    base_fail(err, SLUICE_ERR_USAGE, NULL, "the text has %zu tokens, %zu are needed (longest -p and -n together)",
              b->n_ids, need);
    base_hint(err, own ? "give a longer text, or smaller lengths" : "give a longer text with -f, or smaller lengths");
    return SLUICE_ERR_USAGE;
}

static enum sluice_status check_room(size_t need, uint64_t ctx, const struct cli_options *o, struct sluice_error *err)
{
    char name[64];
    if (need <= ctx) return SLUICE_OK;
    base_fail(err, SLUICE_ERR_USAGE, NULL, "%zu tokens (longest -p and -n together) do not fit the context of %llu",
              need, (unsigned long long)ctx);
    base_hint(err, "use %s %zu, or smaller lengths", cli_origin(o, OPT_CTX, name), need);
    return SLUICE_ERR_USAGE;
}

int command_bench(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct sluice_encode_options how = {.bos = true};
    struct bench b = {.repetitions = (unsigned)cli_integer(o, OPT_REPETITIONS),
                      .n_decode = (uint32_t)cli_integer(o, OPT_DECODE)};
    const char *path = cli_text(o, OPT_FILE);
    char *text = NULL;
    size_t bytes = 0, longest = 0;
    report_init(&b.report, o);
    for (unsigned i = 0; i < o->n_prefill; i++)
        if (o->prefill[i] > longest) longest = o->prefill[i];
    size_t need = longest + b.n_decode;

    enum sluice_status status = cli_given(o, OPT_CTX) ? check_room(need, cli_integer(o, OPT_CTX), o, &err) : SLUICE_OK;
    if (!status && path) status = input_read(path, &text, &bytes, &err);
    if (!status)
        status = open_model(o, OPEN_FULL, (uint32_t)need, path ? bytes : bench_text_bytes, &b.report, &b.model, &err);
    if (!status)
        status = open_encode(&b.model, path ? text : bench_text, path ? bytes : bench_text_bytes, &how, &b.ids,
                             &b.n_ids, &err);
    if (!status) status = check_text(&b, need, path != NULL, &err);
    if (!status) status = check_room(need, b.model.info.ctx, o, &err);
    b.samples = calloc((size_t)b.repetitions * 2, sizeof *b.samples);
    if (!status && !b.samples) status = base_fail(&err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    if (!status) status = sluice_session_open(b.model.engine, &b.session, &err);
    if (!status) status = open_warm(o, &b.model, &b.report, &b.begin, &err);
    if (!status) status = measure_all(&b, o, &err);
    if (b.session) sluice_session_close(b.session);
    free(b.samples);
    free(b.ids);
    free(text);
    open_close(&b.model);
    return status ? report_error(&err) : 0;
}
