#include "engine/template.h"

#include "engine/engine.h"
#include "text/jinja.h"

#include <string.h>
#include <time.h>

/* Memory of one rendering: variables, lists and strings of a long conversation take a few times its text (which the row
 * for texts holds already), and this much besides. */
#define RENDER_FIXED_BYTES ((size_t)4 << 20)
#define RENDER_TEXT_FACTOR 24u

void template_open(sluice_engine *e, const char *text, size_t bytes)
{
    struct sluice_error why;
    if (!text || !bytes) return;
    if (!jinja_parse("chat template", text, bytes, &e->chat_template, &why)) return;
    e->chat_template = NULL;
    base_log(&e->log, BASE_LOG_NOTE, "the file's chat template is not used: %s; the built-in format '%s' stands for it",
             why.message, text_chat_name(e->chat));
}

void template_close(sluice_engine *e) { jinja_destroy(e->chat_template); }

uint64_t template_fixed_bytes(const sluice_engine *e) { return e->chat_template ? RENDER_FIXED_BYTES : 0; }

/* The text of a token as the template is to write it; "" if there is none. */
static const char *token_text(const sluice_engine *e, int32_t id, char out[TEXT_PIECE_BYTES_MAX + 1])
{
    size_t n = id < 0 ? 0 : text_token_bytes(e->tokenizer, id, true, out, TEXT_PIECE_BYTES_MAX);
    out[n] = '\0';
    return out;
}

static enum sluice_status check_roles(const struct text_message *messages, size_t n, struct sluice_error *err)
{
    static const char *const known[] = {"system", "user", "assistant", "tool"};
    for (size_t i = 0; i < n; i++) {
        bool good = false;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) good = good || !strcmp(messages[i].role, known[k]);
        if (!good)
            return base_fail(err, SLUICE_ERR_USAGE, "the roles are system, user, assistant and tool",
                             "message %zu has the role '%.40s'", i + 1, messages[i].role);
    }
    return SLUICE_OK;
}

enum sluice_status template_render(const sluice_engine *e, const struct text_message *messages, size_t n,
                                   struct text_rendered *out, struct sluice_error *err)
{
    static const char json[] = "{\"add_generation_prompt\": true}";
    char bos[TEXT_PIECE_BYTES_MAX + 1], eos[TEXT_PIECE_BYTES_MAX + 1];
    enum sluice_status st = check_roles(messages, n, err);
    if (st) return st;
    const struct jinja_own own[] = {{"bos_token", token_text(e, text_bos(e->tokenizer), bos)},
                                    {"eos_token", token_text(e, text_eos(e->tokenizer), eos)}};
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += strlen(messages[i].text);
    struct jinja_limits limits;
    jinja_limits_init(&limits);
    limits.memory_bytes_max = RENDER_FIXED_BYTES + RENDER_TEXT_FACTOR * bytes;
    const time_t seconds = time(NULL);
    struct tm local;
    struct jinja_time now = {.year = 1970, .month = 1, .day = 1};
    if (localtime_r(&seconds, &local))
        now = (struct jinja_time){.year = local.tm_year + 1900,
                                  .month = local.tm_mon + 1,
                                  .day = local.tm_mday,
                                  .hour = local.tm_hour,
                                  .minute = local.tm_min,
                                  .second = local.tm_sec};
    const struct jinja_input in = {.json = json,
                                   .json_bytes = sizeof json - 1,
                                   .messages = messages,
                                   .n_messages = n,
                                   .own = own,
                                   .n_own = sizeof own / sizeof *own,
                                   .now = &now,
                                   .limits = &limits};
    return jinja_render(e->chat_template, &in, out, err);
}

bool template_has_bos(const sluice_engine *e, const struct text_rendered *r)
{
    char bos[TEXT_PIECE_BYTES_MAX + 1];
    const size_t n = strlen(token_text(e, text_bos(e->tokenizer), bos));
    return e->chat_template && n && r->bytes >= n && !memcmp(r->text, bos, n) && !(r->n_said && r->said[0].begin < n);
}
