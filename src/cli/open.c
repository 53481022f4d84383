#include "cli/open.h"

#include "cli/doctor.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "serve/serve.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tokenizing is one call that nothing stops. Texts up to this size take no time that one would notice. */
#define ENCODE_BYTES_PROMPT (16 << 10)

static const char *text_if_taken(const struct cli_options *o, enum cli_option id)
{
    return cli_takes(o->command, id) ? cli_text(o, id) : NULL;
}

/* The engine writes beside the trace's place and renames: it must not take the model's place, nor a device's. */
static enum sluice_status check_trace(const struct sluice_options *options, struct sluice_error *err)
{
    const char *path = options->trace_path;
    char *target = NULL;
    bool regular = true;
    enum sluice_status status = out_check(path, "--trace", err);
    if (!status) status = out_check_model(path, "--trace", options->model_path, err);
    if (!status) status = out_resolve(path, &target, &regular, err);
    if (!status && !regular)
        status = base_fail(err, SLUICE_ERR_USAGE, "name a file", "--trace: %.300s is not a regular file", path);
    free(target);
    return status;
}

/* The text lives as long as the program. */
static enum sluice_status read_template(const struct cli_options *o, const char **out, struct sluice_error *err)
{
    static char *text;
    size_t bytes;
    const char *path = text_if_taken(o, OPT_CHAT_TEMPLATE);
    if (!path || (o->command == CLI_RUN && !cli_flag(o, OPT_CHAT))) return SLUICE_OK;
    free(text);
    text = NULL;
    enum sluice_status status = input_read(path, &text, &bytes, err);
    if (!status && (bytes == 0 || strlen(text) != bytes))
        status = base_fail(err, SLUICE_ERR_USAGE, NULL, "--chat-template-file: %.300s is empty or no text", path);
    *out = text;
    return status;
}

/* It is read when the model is there to have its grammar; that it is missing can be said before. */
static enum sluice_status check_schema(const char *path, struct sluice_error *err)
{
    if (strcmp(path, "-") == 0 || access(path, R_OK) == 0) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_IO, "check the path", "--schema: %.300s: cannot open", path);
}

/* What is known beforehand, and how much memory is held. Measurements begin from nothing unless they are told. */
static void set_cache(const struct cli_options *o, struct sluice_options *options)
{
    bool unlearned = o->command == CLI_PROFILE || (CLI_MEASURERS & CLI_BIT(o->command));
    options->usage_path = text_if_taken(o, OPT_USAGE);
    options->hotlist_path = text_if_taken(o, OPT_HOTLIST);
    options->no_usage = cli_flag(o, OPT_NO_USAGE) || (unlearned && !options->usage_path);
    options->cold = cli_flag(o, OPT_COLD) || (unlearned && !options->usage_path && !options->hotlist_path);
    options->warm_experts = options->cold ? 0 : (uint32_t)cli_integer(o, OPT_WARM_EXPERTS);
    options->pin = text_if_taken(o, OPT_PIN);
    options->prefetch = cli_given(o, OPT_PREFETCH) ? text_if_taken(o, OPT_PREFETCH) : NULL;
    options->lock = text_if_taken(o, OPT_LOCK);
    options->lock_margin = options->lock ? text_if_taken(o, OPT_LOCK_MARGIN) : NULL;
    options->simulate_used_memory = text_if_taken(o, OPT_SIMULATE_USED);
    options->route = text_if_taken(o, OPT_ROUTE);
}

static bool serves(const struct cli_options *o)
{
    return o->command == CLI_SERVE || (o->command == CLI_PLAN && cli_flag(o, OPT_SERVE));
}

/* Kept prefixes: a server always has some. Of run memory alone is no use, and may come from the environment. */
static void set_prefixes(const struct cli_options *o, struct sluice_options *options)
{
    options->prefix_dir = text_if_taken(o, OPT_KV_DIR);
    if (options->prefix_dir || o->command != CLI_RUN) options->prefix_memory = text_if_taken(o, OPT_PREFIX_MEMORY);
    if (!options->prefix_memory && (options->prefix_dir || serves(o))) options->prefix_memory = "auto";
    if (options->prefix_memory && !strcmp(options->prefix_memory, "off")) options->prefix_memory = NULL;
    if (options->prefix_dir) options->prefix_limit = text_if_taken(o, OPT_KV_LIMIT);
}

/* What a server has beyond a run: any request may come with a schema, several are worked on at once. */
static void set_server(const struct cli_options *o, struct sluice_options *options)
{
    options->grammar = true;
    options->sessions = cli_integer(o, OPT_SESSIONS) ? (uint32_t)cli_integer(o, OPT_SESSIONS) : SLUICE_SESSIONS_AUTO;
    options->text_bytes = serve_text_bytes(cli_integer(o, OPT_MAX_BODY) * OPEN_BODY_UNIT);
}

enum sluice_status open_options(const struct cli_options *o, enum open_how how, uint32_t ctx, size_t text_bytes,
                                struct report *r, struct sluice_options *out, struct sluice_error *err)
{
    sluice_options_init(out);
    out->model_path = cli_text(o, OPT_MODEL);
    out->log = report_log;
    out->progress = report_progress;
    out->user = r;
    out->vocab_only = how == OPEN_VOCAB;
    out->plan_only = how == OPEN_PLAN;
    out->pre = text_if_taken(o, OPT_PRE);
    if (how != OPEN_VOCAB) {
        out->memory = text_if_taken(o, OPT_MEMORY);
        out->experts = text_if_taken(o, OPT_EXPERTS);
        out->kv_type = text_if_taken(o, OPT_KV_TYPE);
        out->cpu = text_if_taken(o, OPT_CPU);
        out->io = text_if_taken(o, OPT_IO);
        out->policy = text_if_taken(o, OPT_POLICY);
        out->trace_path = text_if_taken(o, OPT_TRACE);
        out->ctx = cli_given(o, OPT_CTX) ? (uint32_t)cli_integer(o, OPT_CTX) : ctx;
        out->grammar = text_if_taken(o, OPT_SCHEMA);
        out->verify = cli_takes(o->command, OPT_VERIFY) && cli_flag(o, OPT_VERIFY);
        out->threads = (uint32_t)cli_integer(o, OPT_THREADS);
        out->text_bytes = text_bytes;
        out->chunk = (uint32_t)cli_integer(o, OPT_CHUNK);
        set_cache(o, out);
        set_prefixes(o, out);
    }
    if (how != OPEN_VOCAB && read_template(o, &out->chat_template, err)) return err->status;
    enum sluice_status status = out->grammar ? check_schema(cli_text(o, OPT_SCHEMA), err) : SLUICE_OK;
    if (status) return status;
    if (serves(o)) set_server(o, out);
    unsigned processors = doctor_processors();
    if (out->threads > processors) report_warn(r, "%u threads on %u processors: slower", out->threads, processors);
    return out->trace_path ? check_trace(out, err) : SLUICE_OK;
}

enum sluice_status open_model(const struct cli_options *o, enum open_how how, uint32_t ctx, size_t text_bytes,
                              struct report *r, struct open_model *out, struct sluice_error *err)
{
    struct sluice_options options;
    memset(out, 0, sizeof *out);
    enum sluice_status status = open_options(o, how, ctx, text_bytes, r, &options, err);
    out->keeps = options.prefix_memory != NULL;
    if (!status) status = sluice_engine_open(&options, &out->engine, err);
    report_clear(r);
    if (status) {
        cli_name_sources(o, err);
        out->engine = NULL;
        return status;
    }
    sluice_model_info(out->engine, &out->info);
    if (how == OPEN_VOCAB) return SLUICE_OK;
    sluice_ledger(out->engine, &out->ledger);
    if (how == OPEN_FULL && !r->quiet) report_ledger(stderr, &out->ledger, &out->info);
    return SLUICE_OK;
}

void open_begin(const struct open_model *m, struct sluice_stats *begin)
{
    sluice_stats(m->engine, begin);
    memset(begin->prefetch, 0, sizeof begin->prefetch); /* the warm-up may have begun with the engine */
}

void open_end(const struct open_model *m, struct sluice_stats *end)
{
    if (m->keeps) (void)sluice_idle(m->engine, 0); /* what closing has kept is the disk's once it is queued for it */
    sluice_stats(m->engine, end);
}

enum sluice_status open_warm(const struct cli_options *o, const struct open_model *m, struct report *r,
                             struct sluice_stats *begin, struct sluice_error *err)
{
    struct sluice_stats now;
    char text[24];
    open_begin(m, begin);
    if (!cli_given(o, OPT_HOTLIST) && !cli_given(o, OPT_WARM_EXPERTS)) return SLUICE_OK;
    uint64_t begin_ns = report_now_ns();
    bool more = true;
    while (more && !interrupt_pending()) {
        more = sluice_idle(m->engine, OPEN_IDLE_MS);
        sluice_stats(m->engine, &now);
        more = more && now.warm_left > 0; /* memory that comes in beforehand is not waited for */
        report_warming(r, begin_ns, now.read_bytes);
    }
    report_clear(r);
    if (interrupt_pending()) return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
    /* All that is there: the first reads have begun when the engine was opened. */
    report_note(r, "loaded beforehand: %llu experts, %s in %.1f s", (unsigned long long)now.experts_resident,
                report_bytes((double)now.read_bytes, text), (double)(report_now_ns() - begin_ns) / 1e9);
    begin->read_bytes = now.read_bytes;
    begin->disk_busy_ns = now.disk_busy_ns;
    begin->wait_ns = now.wait_ns;
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
    interrupt_ends(bytes > ENCODE_BYTES_PROMPT);
    enum sluice_status status = SLUICE_OK;
    if (!interrupt_pending()) status = sluice_encode(m->engine, text, bytes, how, room, bytes + 8, n, err);
    interrupt_ends(false);
    if (!status && interrupt_pending()) status = base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
    if (status) {
        free(room);
        return status;
    }
    *ids = room;
    return SLUICE_OK;
}

enum sluice_status open_chat_encode(const struct open_model *m, const struct sluice_message *messages, size_t n,
                                    int32_t **ids, size_t *n_ids, struct sluice_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += strlen(messages[i].text);
    interrupt_ends(bytes > ENCODE_BYTES_PROMPT);
    enum sluice_status status = sluice_chat_encode(m->engine, messages, n, ids, n_ids, err);
    interrupt_ends(false);
    if (status || !interrupt_pending()) return status;
    sluice_free(*ids);
    return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
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
