/* sluice chat. The whole conversation is rendered each turn and compared with the tokens of the session, so that only
 * what differs is computed; after an ordinary turn that is the new message. */
#include "cli/commands.h"
#include "cli/elsewhere.h"
#include "cli/generate.h"
#include "cli/interrupt.h"
#include "cli/line.h"
#include "cli/out.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct chat {
    struct open_model model;
    struct report report;
    struct generator generator;
    struct line_reader *lines;
    bool terminal;
    int first_code; /* of the first turn or order that failed: the exit code, unless a person was there to see it */
    const char *system;
    struct sluice_message *messages; /* texts are malloc'ed; the system message is the first, if there is one */
    size_t n_messages, room;
    struct sluice_stats at_begin, at_turn;
    uint64_t first_token_ns;
};

static const char help_text[] = "  /help       this list\n"
                                "  /reset      forget the conversation\n"
                                "  /stats      speed, hits and disk use so far\n"
                                "  /save FILE  write the conversation to a file\n"
                                "  /quit       leave (or /exit, or Ctrl-D)\n"
                                "  a backslash at the end of a line continues the message; Ctrl-C stops an answer;\n"
                                "  on a terminal Tab completes an order\n";

static const char *const order_names[] = {"/help", "/reset", "/stats", "/save", "/quit", "/exit"};
#define N_ORDERS (sizeof order_names / sizeof *order_names)

static void chat_failed(struct chat *c, int code)
{
    if (!c->terminal && c->first_code == 0) c->first_code = code;
}

/* ---- the conversation ---- */

static enum sluice_status chat_add(struct chat *c, const char *role, const char *text, struct sluice_error *err)
{
    if (c->n_messages == c->room) {
        size_t room = c->room ? c->room * 2 : 16;
        struct sluice_message *more = realloc(c->messages, room * sizeof *more);
        if (!more) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
        c->messages = more;
        c->room = room;
    }
    char *copy = strdup(text);
    if (!copy) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    c->messages[c->n_messages++] = (struct sluice_message){role, copy};
    return SLUICE_OK;
}

static void chat_cut(struct chat *c, size_t n)
{
    while (c->n_messages > n) free((void *)(uintptr_t)c->messages[--c->n_messages].text);
}

static enum sluice_status chat_reset(struct chat *c, struct sluice_error *err)
{
    chat_cut(c, 0);
    return c->system ? chat_add(c, "system", c->system, err) : SLUICE_OK;
}

/* ---- a turn ---- */

static enum sluice_status chat_tokens(struct chat *c, int32_t **ids, size_t *n, struct sluice_error *err)
{
    return open_chat_encode(&c->model, c->messages, c->n_messages, ids, n, err);
}

static void end_answer(struct chat *c, enum generate_end end)
{
    if (end != GENERATE_FAILED) out_write("\n", 1);
    out_flush();
    if (end == GENERATE_INTERRUPTED) report_note(&c->report, "stopped");
    if (end == GENERATE_CONTEXT)
        report_warn(&c->report, "context full (%u tokens); /reset begins anew", c->model.info.ctx);
    if (end == GENERATE_LENGTH)
        report_note(&c->report, "stopped after %llu tokens", (unsigned long long)c->generator.n_new);
}

/* Answers the message. Errors that the conversation survives are told here and give SLUICE_OK. */
static enum sluice_status chat_turn(struct chat *c, const char *text, struct sluice_error *err)
{
    size_t before = c->n_messages;
    int32_t *ids;
    size_t n;
    enum sluice_status status = chat_add(c, "user", text, err);
    if (!status) status = chat_tokens(c, &ids, &n, err);
    if (status) {
        chat_cut(c, before);
        if (status != SLUICE_CANCELLED || !c->terminal) return status;
        interrupt_clear();
        report_note(&c->report, "stopped");
        return SLUICE_OK;
    }
    sluice_stats(c->model.engine, &c->at_turn);
    enum generate_end end = generate_text(&c->generator, ids, n, err);
    free(ids);
    if (c->generator.first_token_ns) c->first_token_ns = c->generator.first_token_ns;
    interrupt_clear();
    end_answer(c, end);
    if (end == GENERATE_FAILED || (end == GENERATE_INTERRUPTED && c->generator.text_bytes == 0)) {
        chat_cut(c, before); /* as if it had not been said */
        if (end == GENERATE_INTERRUPTED) return SLUICE_OK;
        if (err->status != SLUICE_CONTEXT_FULL) return err->status;
        report_error(err);
        fputs("  /reset begins anew\n", stderr);
        chat_failed(c, base_exit_code(SLUICE_ERR_USAGE)); /* as in run: the prompt is too long */
        return SLUICE_OK;
    }
    return chat_add(c, "assistant", c->generator.text ? c->generator.text : "", err);
}

/* ---- orders ---- */

static void chat_save(struct chat *c, const char *path)
{
    struct sluice_error err = {0};
    struct out_file file;
    enum sluice_status status = out_check_model(path, "/save", c->model.info.path, &err);
    if (!status) status = out_file_open(&file, path, &err);
    if (status) {
        chat_failed(c, report_error(&err));
        return;
    }
    for (size_t i = 0; i < c->n_messages && !status; i++) {
        const struct sluice_message *m = &c->messages[i];
        const char *parts[] = {i ? "\n" : "", m->role, ":\n", m->text, "\n"};
        for (size_t j = 0; j < sizeof parts / sizeof parts[0] && !status; j++)
            status = out_file_write(&file, parts[j], strlen(parts[j]), &err);
    }
    if (!status) status = out_file_keep(&file, &err);
    if (status) {
        out_file_drop(&file);
        chat_failed(c, report_error(&err));
    } else {
        fprintf(stderr, "saved to %s\n", path);
    }
}

/* Whether `line` is the order, and what follows it. */
static bool is_order(const char *line, const char *order, const char **argument)
{
    size_t bytes = strlen(order);
    if (strncmp(line, order, bytes) != 0 || (line[bytes] && line[bytes] != ' ')) return false;
    *argument = line + bytes + strspn(line + bytes, " ");
    return true;
}

static void unknown_order(const char *line)
{
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)strcspn(line, " "), line);
    const char *elsewhere = elsewhere_order(line), *near = cli_nearest(word, order_names, N_ORDERS);
    fprintf(stderr, "sluice: unknown command '%.80s'", line);
    if (elsewhere)
        fprintf(stderr, ": %s\n", elsewhere);
    else if (near)
        fprintf(stderr, "; did you mean %s?\n", near);
    else
        fputs("; /help lists them\n", stderr);
}

static enum sluice_status chat_order(struct chat *c, const char *line, struct sluice_error *err)
{
    const char *argument;
    if (is_order(line, "/help", &argument)) {
        fputs(help_text, stderr);
    } else if (is_order(line, "/reset", &argument)) {
        enum sluice_status status = chat_reset(c, err);
        if (!status) status = generate_forget(&c->generator, err);
        if (status) return status;
        report_note(&c->report, "the conversation begins anew");
    } else if (is_order(line, "/stats", &argument)) {
        struct sluice_stats now;
        sluice_stats(c->model.engine, &now);
        report_stats(stderr, &c->at_begin, &now, c->first_token_ns, &c->model.ledger, c->report.verbose);
        fprintf(stderr, "context  %zu of %u tokens\n", c->generator.n_tokens, c->model.info.ctx);
    } else if (is_order(line, "/save", &argument)) {
        if (argument[0]) {
            chat_save(c, argument);
        } else {
            fputs("sluice: /save needs a file name\n", stderr);
            chat_failed(c, base_exit_code(SLUICE_ERR_USAGE));
        }
    } else {
        chat_failed(c, base_exit_code(SLUICE_ERR_USAGE));
        unknown_order(line);
    }
    return SLUICE_OK;
}

/* ---- the loop ---- */

/* While the user thinks or types. A line of the log takes the place of the line that is being typed. */
static bool chat_idle(void *user, bool *said)
{
    struct chat *c = user;
    struct sluice_stats before, after;
    sluice_stats(c->model.engine, &before);
    c->report.progress_shown = c->terminal;
    bool more = sluice_idle(c->model.engine, OPEN_IDLE_MS);
    sluice_stats(c->model.engine, &after);
    /* What is loaded beforehand was not read for a token: the report's bytes a token leave it out. */
    c->at_begin.read_bytes += after.read_bytes - before.read_bytes;
    c->at_begin.disk_busy_ns += after.disk_busy_ns - before.disk_busy_ns;
    *said = c->terminal && !c->report.progress_shown;
    c->report.progress_shown = false;
    return more;
}

static int chat_loop(struct chat *c)
{
    for (;;) {
        struct sluice_error err = {0};
        const char *line;
        enum line_end end = line_read(c->lines, &line, &err);
        if (end == LINE_INTERRUPTED) {
            if (!c->terminal) return 130;
            interrupt_clear();
            fputc('\n', stderr);
            continue;
        }
        if (end == LINE_FAILED) return report_error(&err);
        if (end == LINE_REFUSED) {
            chat_failed(c, report_error(&err));
            continue;
        }
        if (end == LINE_END) break;
        if (line[strspn(line, " \t\n")] == '\0') continue;
        if (strcmp(line, "/quit") == 0 || strcmp(line, "/exit") == 0) break;
        enum sluice_status status = line[0] == '/' ? chat_order(c, line, &err) : chat_turn(c, line, &err);
        if (status) {
            int code = report_error(&err);
            if (!c->terminal) return code;
        }
        if (out_failed()) return 5;
    }
    if (c->terminal) fputc('\n', stderr);
    return c->first_code;
}

static int chat_session(struct chat *c, const struct cli_options *o)
{
    struct sluice_error err = {0};
    c->system = cli_text(o, OPT_SYSTEM);
    if (generate_begin(&c->generator, &c->model, &c->report, o, &err)) return report_error(&err);
    if (generate_chat_stops(&c->generator, &err) || chat_reset(c, &err)) {
        generate_finish(&c->generator);
        return report_error(&err);
    }
    report_note(&c->report, "chat format: %s%s", c->model.info.chat_format ? c->model.info.chat_format : "plain",
                c->model.info.chat_format_exact ? "" : " (the file's own template is none of the built-in ones)");
    if (c->terminal && !c->report.quiet) fputs("/help lists the commands; Ctrl-D leaves\n", stderr);
    open_begin(&c->model, &c->at_begin);
    line_idle(c->lines, chat_idle, c);
    line_orders(c->lines, order_names, N_ORDERS);
    int code = chat_loop(c);
    line_idle(c->lines, NULL, NULL);
    struct sluice_stats now;
    generate_finish(&c->generator);
    open_end(&c->model, &now);
    if (!c->report.quiet && code == c->first_code)
        report_stats(stderr, &c->at_begin, &now, c->first_token_ns, &c->model.ledger, c->report.verbose);
    return code;
}

int command_chat(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct chat *c = calloc(1, sizeof *c);
    int code;
    if (!c) return 4;
    report_init(&c->report, o);
    c->terminal = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
    /* The editor and its history come first: the ledger measures the process as it stands. */
    if (line_open(c->terminal, &c->lines, &err) || open_model(o, OPEN_FULL, 0, 0, &c->report, &c->model, &err))
        code = report_error(&err);
    else
        code = chat_session(c, o);
    line_close(c->lines);
    chat_cut(c, 0);
    free(c->messages);
    open_close(&c->model);
    free(c);
    return code;
}
