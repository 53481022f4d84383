/* sluice perplexity: exp of the mean negative log-probability of the tokens in the second half of each window. The
 * windows do not overlap; each begins with BOS where the model asks for one (in place of a token of the text). */
#include "base/math.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/input.h"
#include "cli/open.h"
#include "cli/out.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_DEFAULT 512
#define WINDOW_MIN 4

struct scorer {
    const int32_t *ids; /* of the window */
    size_t n, first;    /* the first position that is scored: its token is predicted by the one before */
    double sum;         /* of negative log-probabilities, all windows */
    uint64_t n_scored;
};

/* Logits at `index` predict the token at index + 1. */
static bool score(void *user, size_t index, const float *logits, size_t n_vocab)
{
    struct scorer *s = user;
    size_t next = index + 1;
    if (next < s->first || next >= s->n) return true;
    double max = logits[0], sum = 0;
    for (size_t i = 1; i < n_vocab; i++)
        if (logits[i] > max) max = logits[i];
    for (size_t i = 0; i < n_vocab; i++) sum += math_exp_d(logits[i] - max);
    s->sum += math_log_d(sum) + max - logits[s->ids[next]];
    s->n_scored++;
    return true;
}

static enum sluice_status score_windows(struct open_model *m, struct report *r, int32_t *ids, size_t n, size_t window,
                                        int32_t bos, bool json, struct scorer *s, struct sluice_error *err)
{
    sluice_session *session = NULL;
    size_t n_windows = n < window ? 1 : n / window;
    enum sluice_status status = sluice_session_open(m->engine, &session, err);
    for (size_t w = 0; w < n_windows && !status && !out_failed(); w++) {
        s->ids = ids + w * window;
        s->n = n < window ? n : window;
        s->first = s->n / 2;
        if (bos >= 0) ids[w * window] = bos; /* never scored: the first half is context */
        status = sluice_session_rewind(session, 0, err);
        r->prefill_shown = true;
        if (!status) status = open_eval(m, session, s->ids, s->n, NULL, score, s, err);
        report_clear(r);
        if (!status && !json) {
            out_printf("[%zu/%zu] %.4f\n", w + 1, n_windows, math_exp_d(s->sum / (double)s->n_scored));
            out_flush();
        }
    }
    if (session) sluice_session_close(session);
    return status;
}

/* The BOS token that the model asks for, or -1. */
static enum sluice_status find_bos(const struct open_model *m, int32_t *bos, struct sluice_error *err)
{
    struct sluice_encode_options how = {.bos = true};
    int32_t *ids;
    size_t n;
    enum sluice_status status = open_encode(m, "", 0, &how, &ids, &n, err);
    if (status) return status;
    *bos = n ? ids[0] : -1;
    free(ids);
    return SLUICE_OK;
}

static enum sluice_status measure(const struct cli_options *o, struct open_model *m, struct report *r, const char *text,
                                  size_t bytes, struct sluice_error *err)
{
    struct sluice_encode_options how = {0};
    struct sluice_stats before, after;
    struct scorer s = {0};
    bool json = cli_flag(o, OPT_JSON);
    int32_t *ids = NULL, bos = -1;
    size_t n = 0, window = m->info.ctx;
    enum sluice_status status = open_encode(m, text, bytes, &how, &ids, &n, err);
    if (!status) status = find_bos(m, &bos, err);
    if (!status && n < WINDOW_MIN)
        status =
            base_fail(err, SLUICE_ERR_USAGE, NULL, "the text has %zu tokens, at least %d are needed", n, WINDOW_MIN);
    if (!status) status = open_warm(o, m, r, &before, err);
    if (!status) status = score_windows(m, r, ids, n, window, bos, json, &s, err);
    free(ids);
    if (status) return status;
    sluice_stats(m->engine, &after);
    struct sluice_stats d = figures_difference(&before, &after);
    double perplexity = math_exp_d(s.sum / (double)s.n_scored);
    if (json)
        out_json(json_pack("{s:o, s:f, s:I, s:I, s:I, s:o}", "model", out_json_text(m->info.path, strlen(m->info.path)),
                           "perplexity", perplexity, "tokens_scored", (json_int_t)s.n_scored, "tokens", (json_int_t)n,
                           "ctx", (json_int_t)window, "stats", figures_json(&d)));
    else
        out_printf("perplexity %.4f over %llu tokens (windows of %zu)\n", perplexity, (unsigned long long)s.n_scored,
                   n < window ? n : window);
    if (!r->quiet) report_stats(stderr, &before, &after, 0, &m->ledger, r->verbose);
    return SLUICE_OK;
}

int command_perplexity(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct open_model m = {0};
    char *text = NULL;
    size_t bytes = 0;
    report_init(&r, o);
    enum sluice_status status = SLUICE_OK;
    char name[64];
    if (cli_given(o, OPT_CTX) && cli_integer(o, OPT_CTX) < WINDOW_MIN)
        status = base_fail(&err, SLUICE_ERR_USAGE, NULL, "%s: a window has at least %d tokens",
                           cli_origin(o, OPT_CTX, name), WINDOW_MIN);
    if (!status) status = input_read(cli_text(o, OPT_FILE), &text, &bytes, &err);
    if (!status) status = open_model(o, OPEN_FULL, WINDOW_DEFAULT, bytes, &r, &m, &err);
    if (!status) status = measure(o, &m, &r, text, bytes, &err);
    free(text);
    open_close(&m);
    return status ? report_error(&err) : 0;
}
