/* sluice template. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/out.h"
#include "cli/report.h"
#include "text/jinja.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* NULL or "-": standard input. */
static bool is_standard(const char *path) { return !path || strcmp(path, "-") == 0; }

/* What --now says, or what the clock does. */
static enum sluice_status find_time(const char *iso, struct jinja_time *out, struct sluice_error *err)
{
    if (iso && jinja_time_read(iso, out)) return SLUICE_OK;
    if (iso)
        return base_fail(err, SLUICE_ERR_USAGE, "write it as in --now 2026-07-04T09:05:06",
                         "--now: '%.60s' is no date with a time", iso);
    time_t seconds = time(NULL);
    struct tm t;
    if (!localtime_r(&seconds, &t)) return base_fail(err, SLUICE_ERR_RUN, "use --now", "the clock gives no time");
    *out = (struct jinja_time){t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec};
    return SLUICE_OK;
}

static enum sluice_status render(const char *name, const char *text, size_t bytes, const char *vars,
                                 const struct jinja_input *in, struct sluice_error *err)
{
    struct jinja_template *t = NULL;
    struct text_rendered out;
    enum sluice_status status = jinja_parse(name, text, bytes, &t, err);
    if (!status) status = jinja_render(t, in, &out, err);
    jinja_destroy(t);
    if (status == SLUICE_ERR_USAGE) { /* the JSON: say where it came from */
        struct sluice_error inner = *err;
        return base_fail(err, status, inner.hint, "%.200s: %s", vars, inner.message);
    }
    if (status) return status;
    out_write(out.text, out.bytes);
    text_rendered_free(&out);
    return SLUICE_OK;
}

int command_template(const struct cli_options *o)
{
    struct sluice_error err = {0};
    const char *file = cli_text(o, OPT_TEMPLATE), *vars = cli_text(o, OPT_VARS);
    char *text = NULL, *json = NULL;
    size_t bytes = 0, json_bytes = 0;
    struct jinja_time now;
    enum sluice_status status = find_time(cli_text(o, OPT_NOW), &now, &err);
    if (!status && is_standard(file) && vars && is_standard(vars))
        status = base_fail(&err, SLUICE_ERR_USAGE, "give one of them a file",
                           "the template and its variables cannot both come from standard input");
    if (!status) status = input_read(file, &text, &bytes, &err);
    if (!status && vars) status = input_read(vars, &json, &json_bytes, &err);
    if (!status) {
        struct jinja_input in = {.json = json, .json_bytes = json_bytes, .now = &now};
        status = render(is_standard(file) ? "standard input" : file, text, bytes, vars, &in, &err);
    }
    free(json);
    free(text);
    return status ? report_error(&err) : 0;
}
