/* sluice run: one prompt, one text. */
#include "cli/commands.h"
#include "cli/generate.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/out.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHAT_FORMAT_BYTES 4096 /* more than any chat format puts around two messages */

/* The prompt's tokens: the text itself, or the text as a message. */
static enum sluice_status prompt_tokens(const struct cli_options *o, const struct open_model *m, struct report *r,
                                        const char *text, size_t bytes, int32_t **ids, size_t *n,
                                        struct sluice_error *err)
{
    struct sluice_encode_options how = {.bos = true, .special = cli_flag(o, OPT_SPECIAL)};
    if (!cli_flag(o, OPT_CHAT)) return open_encode(m, text, bytes, &how, ids, n, err);
    struct sluice_message messages[2];
    size_t n_messages = 0;
    const char *system = cli_text(o, OPT_SYSTEM);
    if (system) messages[n_messages++] = (struct sluice_message){"system", system};
    messages[n_messages++] = (struct sluice_message){"user", text};
    report_note(r, "chat format: %s%s", m->info.chat_format ? m->info.chat_format : "plain",
                m->info.chat_format_exact ? "" : " (the file's own template is none of the built-in ones)");
    return open_chat_encode(m, messages, n_messages, ids, n, err);
}

/* As after "> log 2>&1": what we say would go on in the text's last line. */
static bool streams_are_one(void)
{
    struct stat out, err;
    return fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 && out.st_dev == err.st_dev &&
           out.st_ino == err.st_ino;
}

static void say_end(struct report *r, const struct generator *g, enum generate_end end)
{
    if (g->text_bytes && g->text[g->text_bytes - 1] != '\n') {
        if (isatty(STDOUT_FILENO)) {
            out_write("\n", 1);
            out_flush();
        } else if (!r->quiet && streams_are_one()) {
            fputc('\n', stderr);
        }
    }
    if (end == GENERATE_LENGTH && g->grammar)
        report_note(r, "stopped after %llu tokens: the JSON may not be complete", (unsigned long long)g->n_new);
    if (end == GENERATE_CONTEXT) report_warn(r, "context full (%u tokens)", g->model->info.ctx);
    if (end == GENERATE_INTERRUPTED) report_note(r, "interrupted");
}

static int run_prompt(const struct cli_options *o, struct open_model *m, struct report *r, const char *text,
                      size_t bytes)
{
    struct sluice_error err = {0};
    struct generator g;
    int32_t *ids = NULL;
    size_t n = 0;
    struct sluice_stats before, after;
    if (prompt_tokens(o, m, r, text, bytes, &ids, &n, &err)) return report_error(&err);
    if (generate_begin(&g, m, r, o, &err) || (cli_flag(o, OPT_CHAT) && generate_chat_stops(&g, &err))) {
        free(ids);
        generate_finish(&g);
        return report_error(&err);
    }
    enum generate_end end = GENERATE_INTERRUPTED;
    if (open_warm(o, m, r, &before, &err) == SLUICE_OK) end = generate_text(&g, ids, n, &err);
    say_end(r, &g, end);
    int code = 0;
    if (end == GENERATE_INTERRUPTED) code = 130;
    if (end == GENERATE_FAILED) {
        code = report_error(&err);
        if (err.status == SLUICE_CONTEXT_FULL) code = 2; /* nothing was written: the prompt is too long */
    }
    generate_finish(&g);
    open_end(m, &after);
    if (!r->quiet && end != GENERATE_FAILED && end != GENERATE_OUTPUT)
        report_stats(stderr, &before, &after, g.first_token_ns, &m->ledger, r->verbose);
    free(ids);
    return code;
}

int command_run(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct open_model m;
    char *text = NULL;
    size_t bytes = 0;
    const char *system = cli_text(o, OPT_SYSTEM);
    report_init(&r, o);
    const char *prompt = cli_text(o, OPT_PROMPT);
    if (prompt) {
        text = strdup(prompt);
        bytes = strlen(prompt);
        if (!text) return 4;
    } else {
        if (!cli_text(o, OPT_FILE) && isatty(STDIN_FILENO))
            report_note(&r, "reading the prompt from the terminal; Ctrl-D ends it");
        if (input_read(cli_text(o, OPT_FILE), &text, &bytes, &err)) return report_error(&err);
        if (bytes && text[bytes - 1] == '\n') text[--bytes] = '\0'; /* the end of a file's last line is not its text */
    }
    if (bytes == 0) {
        free(text);
        base_fail(&err, SLUICE_ERR_USAGE, "give it some text to continue: -p TEXT, or -f FILE", "the prompt is empty");
        return report_error(&err);
    }
    if (cli_flag(o, OPT_CHAT) && strlen(text) != bytes) {
        free(text);
        base_fail(&err, SLUICE_ERR_USAGE, NULL, "the message holds a NUL byte");
        return report_error(&err);
    }
    int code;
    if (open_model(o, OPEN_FULL, 0, bytes + (system ? strlen(system) : 0) + CHAT_FORMAT_BYTES, &r, &m, &err))
        code = report_error(&err);
    else
        code = run_prompt(o, &m, &r, text, bytes);
    open_close(&m);
    free(text);
    return code;
}
