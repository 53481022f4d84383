/* The text side of the public interface: thin doors to room text. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct text_decoder) <= sizeof(struct sluice_decoder),
               "the public decoder holds the internal one");
_Static_assert(SLUICE_PIECE_BYTES_MAX >= TEXT_PIECE_BYTES_MAX, "a piece of text fits the caller's buffer");

static bool goes_on(void *user)
{
    const sluice_engine *e = user;
    const struct sluice_progress p = {.phase = SLUICE_PHASE_TEXT};
    return e->options.progress(e->options.user, &p);
}

struct text_watch engine_text_watch(const sluice_engine *e)
{
    if (!e->options.vocab_only || !e->options.progress) return (struct text_watch){NULL, NULL};
    return (struct text_watch){goes_on, (void *)(uintptr_t)e};
}

enum sluice_status sluice_encode(const sluice_engine *e, const char *text, size_t bytes,
                                 const struct sluice_encode_options *o, int32_t *ids, size_t ids_max, size_t *n,
                                 struct sluice_error *err)
{
    const struct text_encode_options options = {
        .special = o->special, .bos = o->bos, .force_bos = o->force_bos, .watch = engine_text_watch(e)};
    enum sluice_status st = engine_check_text(e, bytes, err);
    if (st) return st;
    return text_encode(e->tokenizer, text, bytes, &options, ids, ids_max, n, err);
}

void sluice_decoder_init(struct sluice_decoder *d, bool continues)
{
    struct text_decoder inner;
    text_decoder_init(&inner);
    inner.begun = continues;
    *d = (struct sluice_decoder){{0}};
    memcpy(d->state, &inner, sizeof inner);
}

size_t sluice_decode(const sluice_engine *e, struct sluice_decoder *d, int32_t id, bool special, char *out)
{
    struct text_decoder inner;
    memcpy(&inner, d->state, sizeof inner);
    size_t n = id < 0 ? text_decode_end(&inner, out) : text_decode(e->tokenizer, &inner, id, special, out);
    memcpy(d->state, &inner, sizeof inner);
    return n;
}

size_t sluice_token_bytes(const sluice_engine *e, int32_t id, bool special, char *out)
{
    if (id < 0 || (size_t)id >= text_n_vocab(e->tokenizer)) return 0;
    return text_token_bytes(e->tokenizer, id, special, out, SLUICE_PIECE_BYTES_MAX);
}

bool sluice_ends_generation(const sluice_engine *e, int32_t id) { return text_ends_generation(e->tokenizer, id); }

static enum sluice_status render(const sluice_engine *e, const struct sluice_message *messages, size_t n,
                                 struct text_rendered *out, struct sluice_error *err)
{
    struct text_message *m = calloc(n ? n : 1, sizeof *m);
    if (!m) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for %zu messages", n);
    for (size_t i = 0; i < n; i++) m[i] = (struct text_message){.role = messages[i].role, .text = messages[i].text};
    enum sluice_status st =
        e->chat_template ? template_render(e, m, n, out, err) : text_chat_render_marked(e->chat, m, n, true, out, err);
    free(m);
    return st;
}

static void give_text(struct text_rendered *r, char **out, size_t *bytes)
{
    *out = r->text;
    *bytes = r->bytes;
    r->text = NULL;
    text_rendered_free(r);
}

/* The ids of a rendering, which is freed. */
static enum sluice_status give_ids(const sluice_engine *e, struct text_rendered *r, int32_t **ids, size_t *n_ids,
                                   struct sluice_error *err)
{
    enum sluice_status st = engine_check_text(e, r->bytes, err);
    if (!st) {
        const struct text_encode_options options = {.special = true,
                                                    .bos = !template_has_bos(e, r),
                                                    .plain = r->said,
                                                    .n_plain = r->n_said,
                                                    .watch = engine_text_watch(e)};
        *ids = malloc((r->bytes + 8) * sizeof **ids);
        st = *ids ? text_encode(e->tokenizer, r->text, r->bytes, &options, *ids, r->bytes + 8, n_ids, err)
                  : base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the ids of %zu bytes of text", r->bytes);
    }
    text_rendered_free(r);
    if (!st) return SLUICE_OK;
    free(*ids);
    *ids = NULL;
    return st;
}

enum sluice_status sluice_chat_render(const sluice_engine *e, const struct sluice_message *messages, size_t n,
                                      char **out, size_t *bytes, struct sluice_error *err)
{
    struct text_rendered r;
    enum sluice_status st = render(e, messages, n, &r, err);
    if (!st) give_text(&r, out, bytes);
    return st;
}

enum sluice_status sluice_chat_encode(const sluice_engine *e, const struct sluice_message *messages, size_t n,
                                      int32_t **ids, size_t *n_ids, struct sluice_error *err)
{
    struct text_rendered r;
    *ids = NULL;
    enum sluice_status st = render(e, messages, n, &r, err);
    return st ? st : give_ids(e, &r, ids, n_ids, err);
}

enum sluice_status sluice_chat_render_json(const sluice_engine *e, const char *vars, size_t bytes, char **out,
                                           size_t *out_bytes, struct sluice_error *err)
{
    struct text_rendered r;
    enum sluice_status st = template_render_json(e, vars, bytes, &r, err);
    if (!st) give_text(&r, out, out_bytes);
    return st;
}

enum sluice_status sluice_chat_encode_json(const sluice_engine *e, const char *vars, size_t bytes, int32_t **ids,
                                           size_t *n_ids, struct sluice_error *err)
{
    struct text_rendered r;
    *ids = NULL;
    enum sluice_status st = template_render_json(e, vars, bytes, &r, err);
    return st ? st : give_ids(e, &r, ids, n_ids, err);
}

const char *sluice_chat_template(const sluice_engine *e) { return e->chat_source; }

const char *sluice_chat_stop(const sluice_engine *e)
{
    return e->chat_template && !e->chat_exact ? "" : text_chat_stop(e->chat); /* else its end is a token */
}

void sluice_free(void *p) { free(p); }
