/* A chat template and the variables to render it with: the template, and behind a zero byte JSON; without one, a
 * conversation that has a bit of everything. */
#include "fuzz.h"
#include "text/jinja.h"

#include <string.h>

static const char conversation[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
                                   "\"user\", \"content\": \"H\\u00e9 <b>\"},"
                                   " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": "
                                   "{\"name\": \"f\", \"arguments\": {\"a\": 1.5}}}]}],"
                                   " \"tools\": [], \"name\": \"World\", \"n\": 3, \"f\": 1.5, \"list\": [3, 1, 2], "
                                   "\"map\": {\"k\": \"v\", \"items\": [1]},"
                                   " \"add_generation_prompt\": true}";

static void check_error(enum sluice_status status, const struct sluice_error *err)
{
    FUZZ_CHECK(status == err->status);
    FUZZ_CHECK(status == SLUICE_ERR_MODEL || status == SLUICE_ERR_USAGE);
    FUZZ_CHECK(err->message[0] && memchr(err->message, '\0', sizeof err->message));
}

static void check_text(const struct text_rendered *out)
{
    size_t end = 0;
    FUZZ_CHECK(out->text && out->text[out->bytes] == '\0');
    for (size_t i = 0; i < out->n_said; i++) {
        FUZZ_CHECK(out->said[i].begin >= end && out->said[i].end > out->said[i].begin);
        end = out->said[i].end;
    }
    FUZZ_CHECK(end <= out->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct jinja_limits limits = {
        .steps_max = 100000, .depth_max = 300, .output_bytes_max = 1 << 18, .memory_bytes_max = 1 << 21};
    static const struct jinja_time now = {.year = 2026, .month = 7, .day = 4, .hour = 9, .minute = 5, .second = 6};
    static const struct jinja_own own[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    const char *text = (const char *)data, *zero = bytes ? memchr(data, 0, bytes) : NULL;
    size_t text_bytes = zero ? (size_t)(zero - text) : bytes;
    struct jinja_input in = {.json = zero ? zero + 1 : conversation,
                             .json_bytes = zero ? bytes - text_bytes - 1 : sizeof conversation - 1,
                             .own = own,
                             .n_own = 2,
                             .now = &now,
                             .limits = &limits};
    struct jinja_template *t = NULL;
    struct text_rendered out;
    struct sluice_error err = {0};
    enum sluice_status status = jinja_parse("fuzz", text, text_bytes, &t, &err);
    if (status != SLUICE_OK) {
        check_error(status, &err);
        FUZZ_CHECK(t == NULL);
        return 0;
    }
    status = jinja_render(t, &in, &out, &err);
    if (status == SLUICE_OK)
        check_text(&out);
    else
        check_error(status, &err);
    FUZZ_CHECK(status == SLUICE_OK || !out.text);
    text_rendered_free(&out);
    jinja_destroy(t);
    return 0;
}
