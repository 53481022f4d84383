/* POST /tokenize, /detokenize, /apply-template: the clerk's work. */
#include "serve/api.h"
#include "serve/messages.h"
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

bool text_tokenize(struct clerk *c, const json_t *root, struct buffer *out, struct fault *f)
{
    static const struct field fields[] = {{"content", FIELD_READ, NULL},
                                          {"add_special", FIELD_READ, NULL},
                                          {"parse_special", FIELD_READ, NULL},
                                          {"with_pieces", FIELD_READ, NULL}};
    const json_t *content = json_object_get(root, "content");
    bool bos = false, special = true, pieces = false;
    struct sluice_error err;
    size_t n = 0;
    if (!fields_check(root, fields, 4, f) || !read_bool(root, "add_special", &bos, f) ||
        !read_bool(root, "parse_special", &special, f) || !read_bool(root, "with_pieces", &pieces, f))
        return false;
    if (!json_is_string(content)) return fault_set(f, 400, "content", "'content' must be a string");
    const size_t bytes = json_string_length(content);
    const struct sluice_encode_options how = {.special = special, .bos = bos};
    if (!clerk_check_text(c, bytes, f)) return false;
    int32_t *ids = malloc((bytes + 8) * sizeof *ids);
    if (!ids) return fault_set(f, 500, NULL, "out of memory");
    if (sluice_encode(c->engine, json_string_value(content), bytes, &how, ids, bytes + 8, &n, &err)) {
        free(ids);
        return fault_from(f, &err);
    }
    buffer_word(out, "{\"tokens\":[");
    for (size_t i = 0; i < n; i++) {
        if (!pieces) {
            buffer_format(out, i ? ",%d" : "%d", ids[i]);
            continue;
        }
        char piece[SLUICE_PIECE_BYTES_MAX];
        const size_t k = sluice_token_bytes(c->engine, ids[i], true, piece);
        json_t *text = json_stringn(piece, k); /* part of a character: its bytes */
        if (!text) {
            text = json_array();
            for (size_t b = 0; b < k; b++) json_array_append_new(text, json_integer((unsigned char)piece[b]));
        }
        if (i) buffer_word(out, ",");
        buffer_json(out, json_pack("{s:i, s:o}", "id", ids[i], "piece", text));
    }
    buffer_word(out, "]}");
    free(ids);
    return true;
}

bool text_detokenize(struct clerk *c, const json_t *root, struct buffer *out, struct fault *f)
{
    static const struct field fields[] = {{"tokens", FIELD_READ, NULL}};
    const json_t *tokens = json_object_get(root, "tokens");
    struct sluice_decoder decoder;
    struct buffer text = {.at = NULL};
    char piece[SLUICE_PIECE_BYTES_MAX];
    if (!fields_check(root, fields, 1, f)) return false;
    if (!json_is_array(tokens)) return fault_set(f, 400, "tokens", "'tokens' must be a list of token ids");
    sluice_decoder_init(&decoder, true);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *id = json_array_get(tokens, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= c->server->info.n_vocab) {
            buffer_free(&text);
            return fault_set(f, 400, "tokens", "element %zu of 'tokens' is no token id (0 to %u)", i,
                             c->server->info.n_vocab - 1);
        }
        buffer_put(&text, piece, sluice_decode(c->engine, &decoder, (int32_t)json_integer_value(id), true, piece));
    }
    buffer_put(&text, piece, sluice_decode(c->engine, &decoder, -1, true, piece));
    buffer_json(out, json_pack("{s:o}", "content", buffer_string(text.at, text.n)));
    buffer_free(&text);
    return true;
}

bool text_apply_template(struct clerk *c, const json_t *root, struct buffer *out, struct fault *f)
{
    struct serve_request r;
    struct sluice_error err;
    char *text = NULL;
    size_t bytes = 0;
    request_init(&r, &c->server->options.sampling, c->server->options.seeded);
    bool good = chat_read(c, root, &r, f); /* the checks, and what the template gets */
    if (good) {
        char *vars = buffer_dumped(r.vars, JSON_COMPACT);
        good = vars && !sluice_chat_render_json(c->engine, vars, strlen(vars), &text, &bytes, &err);
        if (!good) fault_from(f, &err);
        free(vars);
    }
    if (good) buffer_json(out, json_pack("{s:o}", "prompt", buffer_string(text, bytes)));
    sluice_free(text);
    request_free(&r);
    return good;
}
