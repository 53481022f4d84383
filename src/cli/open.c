#include "cli/open.h"

#include "cli/interrupt.h"

#include <stdlib.h>
#include <string.h>

static const char *text_if_taken(const struct cli_options *o, enum cli_option id)
{
    return cli_takes(o->command, id) ? cli_text(o, id) : NULL;
}

enum sluice_status open_model(const struct cli_options *o, enum open_how how, uint32_t ctx, struct report *r,
                              struct open_model *out, struct sluice_error *err)
{
    struct sluice_options options;
    memset(out, 0, sizeof *out);
    sluice_options_init(&options);
    options.model_path = cli_text(o, OPT_MODEL);
    options.log = report_log;
    options.progress = report_progress;
    options.user = r;
    options.vocab_only = how == OPEN_VOCAB;
    options.plan_only = how == OPEN_PLAN;
    if (how != OPEN_VOCAB) {
        options.memory = text_if_taken(o, OPT_MEMORY);
        options.experts = text_if_taken(o, OPT_EXPERTS);
        options.kv_type = text_if_taken(o, OPT_KV_TYPE);
        options.cpu = text_if_taken(o, OPT_CPU);
        options.io = text_if_taken(o, OPT_IO);
        options.policy = text_if_taken(o, OPT_POLICY);
        options.trace_path = text_if_taken(o, OPT_TRACE);
        options.ctx = cli_given(o, OPT_CTX) ? (uint32_t)cli_integer(o, OPT_CTX) : ctx;
        options.verify = cli_takes(o->command, OPT_VERIFY) && cli_flag(o, OPT_VERIFY);
        options.threads = (uint32_t)cli_integer(o, OPT_THREADS);
        options.chunk = (uint32_t)cli_integer(o, OPT_CHUNK);
    }
    enum sluice_status status = sluice_engine_open(&options, &out->engine, err);
    report_clear(r);
    if (status) {
        out->engine = NULL;
        return status;
    }
    sluice_model_info(out->engine, &out->info);
    if (how == OPEN_VOCAB) return SLUICE_OK;
    sluice_ledger(out->engine, &out->ledger);
    if (how == OPEN_FULL && !r->quiet) report_ledger(stderr, &out->ledger, &out->info);
    return SLUICE_OK;
}

void open_close(struct open_model *m)
{
    interrupt_cancels(NULL);
    if (m->engine) sluice_engine_close(m->engine);
    m->engine = NULL;
}

enum sluice_status open_encode(const struct open_model *m, const char *text, size_t bytes,
                               const struct sluice_encode_options *how, int32_t **ids, size_t *n,
                               struct sluice_error *err)
{
    int32_t *room = malloc((bytes + 8) * sizeof *room);
    if (!room) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory for %zu bytes of text", bytes);
    enum sluice_status status = sluice_encode(m->engine, text, bytes, how, room, bytes + 8, n, err);
    if (status) {
        free(room);
        return status;
    }
    *ids = room;
    return SLUICE_OK;
}

enum sluice_status open_eval(const struct open_model *m, sluice_session *s, const int32_t *ids, size_t n, float *logits,
                             sluice_logits_fn *each, void *user, struct sluice_error *err)
{
    if (interrupt_pending()) return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
    size_t before = sluice_session_tokens(s);
    interrupt_cancels(m->engine);
    enum sluice_status status = sluice_eval(s, ids, n, logits, each, user, err);
    /* A Ctrl-C that came as the call before this one ended leaves a request to stop behind: it stopped this call at its
     * begin, and nobody asks for that any more. */
    if (status == SLUICE_CANCELLED && !interrupt_pending() && sluice_session_tokens(s) == before)
        status = sluice_eval(s, ids, n, logits, each, user, err);
    interrupt_cancels(NULL);
    return status;
}
