/* sluice profile: evaluates texts and writes which experts they chose, most often first. The engine counts and writes;
 * here are the texts, and what the list is worth. */
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/input.h"
#include "cli/open.h"
#include "cli/out.h"

#include <stdlib.h>
#include <string.h>

#define CHAT_FORMAT_BYTES 4096 /* more than any chat format puts around a message */
#define COVERAGES_MAX 6

struct profile_text {
    const char *name; /* for messages */
    char *text;
    size_t bytes;
};

struct profile {
    struct open_model model;
    struct report report;
    sluice_session *session;
    struct profile_text *texts;
    unsigned n_texts;
    char *path; /* of the hotlist */
    uint64_t tokens_max;
    bool chat;
    struct sluice_stats begin;
};

/* What the first experts of the list stand for. */
struct coverage {
    size_t n;
    double share, bytes; /* of all choices; all experts taken as of the same size */
    bool fits;           /* as many as the cache of this run holds */
};

struct list_facts {
    size_t n, n_all; /* experts that were chosen; that the model has */
    double expert_bytes;
    struct coverage coverage[COVERAGES_MAX];
    unsigned n_coverage;
};

/* ---- before the model is opened ---- */

static enum sluice_status find_path(struct profile *p, const struct cli_options *o, struct sluice_error *err)
{
    const char *model = cli_text(o, OPT_MODEL);
    if (cli_given(o, OPT_OUT) ? (p->path = strdup(cli_text(o, OPT_OUT))) == NULL
                              : asprintf(&p->path, "%s.sluice-hotlist", model) < 0) {
        p->path = NULL;
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    }
    enum sluice_status status = out_check(p->path, "--out", err);
    if (!status) status = out_check_model(p->path, "--out", model, err);
    for (unsigned i = 0; i < o->n_texts && !status; i++)
        if (o->text_is_file[i]) status = out_check_input(p->path, "--out", o->texts[i], err);
    return status;
}

static enum sluice_status read_text(struct profile_text *t, const char *text, bool is_file, struct sluice_error *err)
{
    enum sluice_status status = SLUICE_OK;
    t->name = !is_file ? "--prompt" : !text || strcmp(text, "-") == 0 ? "standard input" : text;
    if (is_file) {
        status = input_read(text, &t->text, &t->bytes, err);
        if (!status && t->bytes && t->text[t->bytes - 1] == '\n') t->text[--t->bytes] = '\0';
    } else {
        t->text = strdup(text);
        t->bytes = strlen(text);
        if (!t->text) status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    }
    if (!status && t->bytes == 0)
        status = base_fail(err, SLUICE_ERR_USAGE, "leave it out, or give it some text", "%.300s: the text is empty",
                           t->name);
    return status;
}

static enum sluice_status read_texts(struct profile *p, const struct cli_options *o, size_t *longest,
                                     struct sluice_error *err)
{
    unsigned n = o->n_texts ? o->n_texts : 1;
    p->texts = calloc(n, sizeof *p->texts);
    if (!p->texts) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    p->n_texts = n;
    for (unsigned i = 0; i < n; i++) {
        struct profile_text *t = &p->texts[i];
        enum sluice_status status =
            o->n_texts ? read_text(t, o->texts[i], o->text_is_file[i], err) : read_text(t, NULL, true, err);
        if (!status && p->chat && strlen(t->text) != t->bytes)
            status = base_fail(err, SLUICE_ERR_USAGE, "is it a text?", "%.300s: the message holds a NUL byte", t->name);
        if (status) return status;
        if (t->bytes > *longest) *longest = t->bytes;
    }
    return SLUICE_OK;
}

/* ---- evaluating ---- */

/* What the model goes on with, always the most probable token: the same texts give the same list. */
static enum sluice_status continue_text(struct profile *p, const char *name, struct sluice_error *err)
{
    enum sluice_status status = SLUICE_OK;
    for (uint64_t i = 0; i < p->tokens_max && !status; i++) {
        int32_t id;
        if (sluice_session_tokens(p->session) >= p->model.info.ctx) {
            report_note(&p->report, "%s: the context of %u tokens is full after %llu tokens of the model's own", name,
                        p->model.info.ctx, (unsigned long long)i);
            break;
        }
        status = sluice_sample(p->session, &id, err);
        if (!status && sluice_ends_generation(p->model.engine, id)) break;
        if (!status) status = open_eval(&p->model, p->session, &id, 1, NULL, NULL, NULL, err);
    }
    return status;
}

static enum sluice_status evaluate(struct profile *p, const struct profile_text *t, struct sluice_error *err)
{
    struct sluice_encode_options how = {.bos = true};
    struct sluice_message message = {"user", t->text};
    const size_t ctx = p->model.info.ctx;
    int32_t *ids = NULL;
    size_t n = 0;
    enum sluice_status status = p->chat ? open_chat_encode(&p->model, &message, 1, &ids, &n, err)
                                        : open_encode(&p->model, t->text, t->bytes, &how, &ids, &n, err);
    p->report.prefill_shown = true;
    for (size_t at = 0; at < n && !status; at += ctx) {
        status = sluice_session_rewind(p->session, 0, err);
        if (!status)
            status = open_eval(&p->model, p->session, ids + at, n - at < ctx ? n - at : ctx, NULL, NULL, NULL, err);
    }
    p->report.prefill_shown = false;
    report_clear(&p->report);
    if (p->chat)
        sluice_free(ids);
    else
        free(ids);
    return status ? status : continue_text(p, t->name, err);
}

static enum sluice_status evaluate_all(struct profile *p, struct sluice_error *err)
{
    struct sluice_sampling sampling;
    sluice_sampling_init(&sampling);
    sampling.temperature = 0;
    enum sluice_status status = sluice_session_open(p->model.engine, &p->session, err);
    if (!status) status = sluice_session_sampling(p->session, &sampling, err);
    for (unsigned i = 0; i < p->n_texts && !status; i++) status = evaluate(p, &p->texts[i], err);
    return status;
}

/* ---- the list ---- */

static void add_coverage(struct list_facts *f, const struct sluice_heat *heat, size_t n, bool fits, double all)
{
    struct coverage c = {.n = n, .bytes = f->expert_bytes * (double)n, .fits = fits};
    if (n == 0 || n > f->n) return;
    for (unsigned i = 0; i < f->n_coverage; i++)
        if (f->coverage[i].n == n) {
            f->coverage[i].fits = f->coverage[i].fits || fits;
            return;
        }
    for (size_t i = 0; i < n; i++) c.share += heat[i].probability;
    if (all > 0) c.share /= all;
    unsigned at = f->n_coverage++;
    for (; at > 0 && f->coverage[at - 1].n > n; at--) f->coverage[at] = f->coverage[at - 1];
    f->coverage[at] = c;
}

static enum sluice_status look_at_list(const struct profile *p, struct list_facts *f, struct sluice_error *err)
{
    static const unsigned percents[] = {5, 10, 25, 50, 100};
    const struct sluice_model_info *info = &p->model.info;
    double all = 0;
    size_t n_layers = 0; /* with routed experts: each of their layers has chosen some */
    f->n = sluice_hottest(p->model.engine, NULL, 0);
    struct sluice_heat *heat = calloc(f->n + 1, sizeof *heat);
    bool *seen = calloc((size_t)info->n_layers + 1, sizeof *seen);
    if (!heat || !seen) {
        free(heat);
        free(seen);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    }
    sluice_hottest(p->model.engine, heat, f->n);
    for (size_t i = 0; i < f->n; i++) {
        all += heat[i].probability;
        if (heat[i].layer < info->n_layers && !seen[heat[i].layer]) n_layers++;
        if (heat[i].layer < info->n_layers) seen[heat[i].layer] = true;
    }
    f->n_all = n_layers * info->n_expert;
    f->expert_bytes = f->n_all ? (double)info->expert_bytes / (double)f->n_all : 0;
    for (size_t i = 0; i < sizeof percents / sizeof percents[0]; i++)
        add_coverage(f, heat, f->n * percents[i] / 100, false, all);
    if (f->expert_bytes > 0)
        add_coverage(f, heat, (size_t)((double)p->model.ledger.slots_bytes / f->expert_bytes), true, all);
    free(heat);
    free(seen);
    return SLUICE_OK;
}

static void print_list(const struct profile *p, const struct list_facts *f, uint64_t n_tokens)
{
    char text[24];
    out_printf("%s: %zu of %zu experts, chosen by %llu tokens\n", p->path, f->n, f->n_all,
               (unsigned long long)n_tokens);
    out_printf("  %-12s %12s %20s\n", "the first", "take", "of all choices");
    for (unsigned i = 0; i < f->n_coverage; i++)
        out_printf("  %-12zu %12s %18.1f %%%s\n", f->coverage[i].n, report_bytes(f->coverage[i].bytes, text),
                   100 * f->coverage[i].share, f->coverage[i].fits ? "   (what this cache holds)" : "");
}

static json_t *list_json(const struct profile *p, const struct list_facts *f, const struct sluice_stats *d)
{
    json_t *coverage = json_array();
    for (unsigned i = 0; i < f->n_coverage; i++)
        json_array_append_new(coverage, json_pack("{s:I, s:I, s:f, s:b}", "experts", (json_int_t)f->coverage[i].n,
                                                  "bytes", (json_int_t)f->coverage[i].bytes, "share",
                                                  f->coverage[i].share, "fits", f->coverage[i].fits));
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o}", "hotlist", out_json_text(p->path, strlen(p->path)),
                     "model", out_json_text(p->model.info.path, strlen(p->model.info.path)), "tokens",
                     (json_int_t)(d->tokens_prefill + d->tokens_decode), "experts", (json_int_t)f->n, "experts_all",
                     (json_int_t)f->n_all, "bytes", (json_int_t)(f->expert_bytes * (double)f->n), "coverage", coverage,
                     "stats", figures_json(d));
}

static enum sluice_status finish(struct profile *p, bool json, struct sluice_error *err)
{
    struct list_facts facts = {0};
    struct sluice_stats after;
    sluice_stats(p->model.engine, &after);
    enum sluice_status status = look_at_list(p, &facts, err);
    if (!status) status = sluice_hotlist_write(p->model.engine, p->path, 0, err);
    if (status) return status;
    struct sluice_stats d = figures_difference(&p->begin, &after);
    if (json)
        out_json(list_json(p, &facts, &d));
    else
        print_list(p, &facts, d.tokens_prefill + d.tokens_decode);
    out_flush();
    if (!p->report.quiet) report_stats(stderr, &p->begin, &after, 0, &p->model.ledger, p->report.verbose);
    return SLUICE_OK;
}

int command_profile(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct profile p = {.tokens_max = cli_integer(o, OPT_PROFILE_TOKENS), .chat = cli_flag(o, OPT_CHAT)};
    size_t longest = 0;
    report_init(&p.report, o);
    enum sluice_status status = find_path(&p, o, &err);
    if (!status) status = read_texts(&p, o, &longest, &err);
    if (!status)
        status = open_model(o, OPEN_FULL, 0, longest + (p.chat ? CHAT_FORMAT_BYTES : 0), &p.report, &p.model, &err);
    if (!status && p.model.info.n_expert == 0)
        status = base_fail(&err, SLUICE_ERR_USAGE, "a dense model is held whole: it needs no list",
                           "%.300s: the model has no routed experts", cli_text(o, OPT_MODEL));
    if (!status) {
        open_begin(&p.model, &p.begin);
        status = evaluate_all(&p, &err);
    }
    if (!status) status = finish(&p, cli_flag(o, OPT_JSON), &err);
    if (p.session) sluice_session_close(p.session);
    open_close(&p.model);
    for (unsigned i = 0; i < p.n_texts; i++) free(p.texts[i].text);
    free(p.texts);
    free(p.path);
    return status ? report_error(&err) : 0;
}
