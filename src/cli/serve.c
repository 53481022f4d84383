/* sluice serve: the options to the server's own, and its words to standard error. */
#include "serve/serve.h"

#include "cli/commands.h"
#include "cli/open.h"
#include "cli/out.h"

#include <string.h>

#define KIB ((size_t)1 << 10)

static void say_line(void *user, enum sluice_log_level level, const char *line) { report_log(user, level, line); }

/* On standard output, so that a script can wait for it and take it. */
static void say_address(void *user, const char *url)
{
    report_clear(user);
    out_printf("%s\n", url);
    out_flush();
}

static bool show_loading(void *user, const struct sluice_progress *p) { return report_progress(user, p); }

static void say_ready(void *user, const sluice_engine *e)
{
    struct report *r = user;
    struct sluice_model_info info;
    struct sluice_ledger ledger;
    report_clear(r);
    sluice_model_info(e, &info);
    sluice_ledger(e, &ledger);
    if (!r->quiet) report_ledger(stderr, &ledger, &info);
    report_note(r, "ready; %u request%s at once", info.sessions, info.sessions == 1 ? "" : "s");
}

static void fill(const struct cli_options *o, struct serve_options *s)
{
    serve_options_init(s);
    s->host = cli_text(o, OPT_HOST);
    s->port = (uint16_t)cli_integer(o, OPT_PORT);
    s->name = cli_text(o, OPT_ALIAS);
    s->api_key_path = cli_text(o, OPT_API_KEY_FILE);
    s->insecure = cli_flag(o, OPT_INSECURE);
    s->cors = cli_text(o, OPT_CORS);
    s->body_bytes_max = cli_integer(o, OPT_MAX_BODY) * OPEN_BODY_UNIT;
    s->header_bytes_max = cli_integer(o, OPT_MAX_HEADER) * KIB;
    s->connections_max = (uint32_t)cli_integer(o, OPT_MAX_CONNECTIONS);
    s->queue_max = (uint32_t)cli_integer(o, OPT_QUEUE);
    s->idle_s = (uint32_t)cli_integer(o, OPT_TIMEOUT_IDLE);
    s->receive_s = (uint32_t)cli_integer(o, OPT_TIMEOUT_RECEIVE);
    s->stall_s = (uint32_t)cli_integer(o, OPT_TIMEOUT_STALL);
    s->keep_alive_s = (uint32_t)cli_integer(o, OPT_KEEP_ALIVE);
    const char *log = cli_text(o, OPT_LOG);
    s->requests = !strcmp(log, "off") ? SERVE_LOG_OFF : (!strcmp(log, "all") ? SERVE_LOG_ALL : SERVE_LOG_REQUESTS);
    s->tokens_max = (uint32_t)cli_integer(o, OPT_MAX_TOKENS);
    s->sampling.temperature = cli_flag(o, OPT_GREEDY) ? 0 : (float)cli_number(o, OPT_TEMP);
    s->sampling.top_k = (uint32_t)cli_integer(o, OPT_TOP_K);
    s->sampling.top_p = (float)cli_number(o, OPT_TOP_P);
    s->sampling.min_p = (float)cli_number(o, OPT_MIN_P);
    s->sampling.repeat_penalty = (float)cli_number(o, OPT_REPEAT_PENALTY);
    s->seeded = cli_given(o, OPT_SEED);
    s->sampling.seed = cli_integer(o, OPT_SEED);
    s->sampling.repeat_last = (uint32_t)cli_integer(o, OPT_REPEAT_LAST);
    s->sampling.presence_penalty = (float)cli_number(o, OPT_PRESENCE_PENALTY);
    s->sampling.frequency_penalty = (float)cli_number(o, OPT_FREQUENCY_PENALTY);
}

int command_serve(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct sluice_options engine;
    struct serve_options s;
    report_init(&r, o);
    if (open_options(o, OPEN_FULL, 0, 0, &r, &engine, &err)) return report_error(&err);
    fill(o, &s);
    s.engine = &engine;
    s.log = say_line;
    s.listening = say_address;
    s.loading = show_loading;
    s.ready = say_ready;
    s.user = &r;
    enum sluice_status status = serve_run(&s, &err);
    report_clear(&r);
    if (status == SLUICE_OK) {
        report_note(&r, "stopped; everything that was accepted has been answered");
        return 0;
    }
    cli_name_sources(o, &err);
    return report_error(&err);
}
