/* sluice logits: token ids in, the logits of every position out. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/open.h"
#include "cli/out.h"

#include <stdlib.h>
#include <string.h>

struct logits_sink {
    struct out_file file;
    struct sluice_error err;
    enum sluice_status status;
};

/* Little-endian floats, on whatever host. */
static bool write_logits(void *user, size_t index, const float *logits, size_t n_vocab)
{
    struct logits_sink *sink = user;
    unsigned char bytes[4096];
    for (size_t i = 0; i < n_vocab && !sink->status;) {
        size_t n = 0;
        for (; i < n_vocab && n < sizeof bytes; i++, n += 4) {
            uint32_t bits;
            memcpy(&bits, &logits[i], 4);
            for (int b = 0; b < 4; b++) bytes[n + (size_t)b] = (unsigned char)(bits >> (8 * b));
        }
        sink->status = out_file_write(&sink->file, bytes, n, &sink->err);
    }
    return sink->status == SLUICE_OK;
}

static enum sluice_status check_ids(const int32_t *ids, size_t n, const struct open_model *m, const char *what,
                                    struct sluice_error *err)
{
    for (size_t i = 0; i < n; i++)
        if ((uint32_t)ids[i] >= m->info.n_vocab)
            return base_fail(err, SLUICE_ERR_USAGE, "the ids belong to another model's vocabulary?",
                             "%.300s: id %d (number %zu) is not in the model's vocabulary of %u", what, ids[i], i + 1,
                             m->info.n_vocab);
    return SLUICE_OK;
}

static enum sluice_status check_room(size_t n, uint32_t ctx, const struct cli_options *o, const char *what,
                                     struct sluice_error *err)
{
    char name[64];
    if (n <= ctx) return SLUICE_OK;
    base_fail(err, SLUICE_ERR_USAGE, NULL, "%.300s: %zu ids do not fit the context of %u", what, n, ctx);
    base_hint(err, "use %s %zu", cli_origin(o, OPT_CTX, name), n);
    return SLUICE_ERR_USAGE;
}

static enum sluice_status evaluate(struct open_model *m, struct report *r, const char *path, const int32_t *ids,
                                   size_t n, struct sluice_error *err)
{
    struct logits_sink sink;
    sluice_session *session = NULL;
    memset(&sink, 0, sizeof sink);
    enum sluice_status status = out_file_open(&sink.file, path, err);
    if (status) return status;
    status = sluice_session_open(m->engine, &session, err);
    if (!status) {
        r->prefill_shown = true;
        status = open_eval(m, session, ids, n, NULL, write_logits, &sink, err);
        report_clear(r);
        if (sink.status) {
            status = sink.status;
            *err = sink.err;
        }
        sluice_session_close(session);
    }
    if (status == SLUICE_CONTEXT_FULL) /* cannot be: it was checked */
        status = base_fail(err, SLUICE_ERR_RUN, NULL, "the context is full (%u tokens)", m->info.ctx);
    if (!status) return out_file_keep(&sink.file, err);
    out_file_drop(&sink.file);
    return status;
}

int command_logits(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct open_model m = {0};
    const char *what = cli_text(o, OPT_TOKENS), *out = cli_text(o, OPT_OUT);
    char *text = NULL;
    int32_t *ids = NULL;
    size_t bytes = 0, n = 0;

    report_init(&r, o);
    enum sluice_status status = out_check(out, "--out", &err);
    if (!status) status = out_check_input(out, "--out", what, &err);
    if (!status) status = out_check_model(out, "--out", cli_text(o, OPT_MODEL), &err);
    if (!status) status = input_read(what, &text, &bytes, &err);
    if (!status) status = input_ids(text, bytes, what, &ids, &n, &err);
    if (!status && cli_given(o, OPT_CTX)) status = check_room(n, (uint32_t)cli_integer(o, OPT_CTX), o, what, &err);
    if (!status) status = open_model(o, OPEN_FULL, (uint32_t)n, 0, &r, &m, &err);
    if (!status) status = check_ids(ids, n, &m, what, &err);
    if (!status) status = check_room(n, m.info.ctx, o, what, &err);
    struct sluice_stats before, after;
    if (!status) status = open_warm(o, &m, &r, &before, &err);
    if (!status) status = evaluate(&m, &r, out, ids, n, &err);
    if (!status && !r.quiet) {
        sluice_stats(m.engine, &after);
        report_stats(stderr, &before, &after, 0, &m.ledger, r.verbose);
    }
    free(ids);
    free(text);
    open_close(&m);
    return status ? report_error(&err) : 0;
}
