/* sluice tokenize. */
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/open.h"
#include "cli/out.h"

#include <stdlib.h>
#include <string.h>

static void print_ids(const int32_t *ids, size_t n, bool json)
{
    if (json) {
        json_t *array = json_array();
        for (size_t i = 0; i < n; i++) json_array_append_new(array, json_integer(ids[i]));
        out_json(json_pack("{s:I, s:o}", "n", (json_int_t)n, "ids", array));
        return;
    }
    for (size_t i = 0; i < n && !out_failed(); i++) out_printf(i ? " %d" : "%d", ids[i]);
    out_write("\n", 1);
}

int command_tokenize(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct sluice_encode_options how = {.special = cli_flag(o, OPT_SPECIAL), .bos = cli_flag(o, OPT_BOS)};
    struct report r;
    struct open_model m = {0};
    const char *prompt = cli_text(o, OPT_PROMPT);
    char *text = NULL;
    size_t bytes = prompt ? strlen(prompt) : 0, n = 0;
    int32_t *ids = NULL;

    report_init(&r, o);
    enum sluice_status status = prompt ? SLUICE_OK : input_read(cli_text(o, OPT_FILE), &text, &bytes, &err);
    if (!status) status = open_model(o, OPEN_VOCAB, 0, bytes, &r, &m, &err);
    if (!status) status = open_encode(&m, prompt ? prompt : text, bytes, &how, &ids, &n, &err);
    if (!status) print_ids(ids, n, cli_flag(o, OPT_JSON));
    free(ids);
    free(text);
    open_close(&m);
    return status ? report_error(&err) : 0;
}
