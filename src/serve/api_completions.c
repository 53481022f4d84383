/* POST /v1/completions: the text goes on. */
#include "serve/api.h"
#include "serve/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct field fields[] = {
    {"prompt", FIELD_READ, NULL},
    {"max_tokens", FIELD_READ, NULL},
    {"n_predict", FIELD_READ, NULL},
    {"stop", FIELD_READ, NULL},
    {"stream_options", FIELD_READ, NULL},
    {"return_progress", FIELD_READ, NULL},
    {"logprobs", FIELD_READ, NULL},
    {"echo", FIELD_READ, NULL},
    {"response_format", FIELD_READ, NULL},
    {"n", FIELD_READ, NULL},
    {"best_of", FIELD_NEUTRAL, "every answer is sent (n)"},
    {"suffix", FIELD_NEUTRAL, NULL},
    {"frequency_penalty", FIELD_READ, NULL},
    {"presence_penalty", FIELD_READ, NULL},
    {"logit_bias", FIELD_READ, NULL},
};

static bool read_ids(struct clerk *c, const json_t *prompt, struct serve_request *r, struct fault *f)
{
    const size_t n = json_array_size(prompt);
    r->ids = malloc((n + 1) * sizeof *r->ids);
    if (!r->ids) return fault_set(f, 500, NULL, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(prompt, i);
        if (json_is_string(id) || json_is_array(id))
            return fault_set(f, 400, "prompt", "'prompt' is a list of %zu prompts: give one prompt a request", n);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= c->server->info.n_vocab)
            return fault_set(f, 400, "prompt", "element %zu of 'prompt' is no token id (0 to %u)", i,
                             c->server->info.n_vocab - 1);
        r->ids[i] = (int32_t)json_integer_value(id);
    }
    r->n_ids = n;
    return true;
}

static bool keep_prompt(struct clerk *c, struct serve_request *r, struct fault *f)
{
    struct buffer text = {.at = NULL};
    struct sluice_decoder decoder;
    char piece[SLUICE_PIECE_BYTES_MAX];
    sluice_decoder_init(&decoder, true);
    for (size_t i = 0; i < r->n_ids; i++)
        buffer_put(&text, piece, sluice_decode(c->engine, &decoder, r->ids[i], false, piece));
    r->prompt_text = text.at;
    return !text.failed || fault_set(f, 500, NULL, "out of memory");
}

bool completions_read(struct clerk *c, const json_t *root, struct serve_request *r, struct fault *f)
{
    if (!fields_check(root, fields, sizeof fields / sizeof *fields, f) || !request_common(r, root, f) ||
        !request_choices(r, root, f) || !request_bias(r, root, c->server->info.n_vocab, f))
        return false;
    const json_t *prompt = json_object_get(root, "prompt"), *probs = json_object_get(root, "logprobs");
    int64_t n_probs = 0;
    if (probs && !json_is_null(probs) && !json_is_false(probs)) {
        r->probs_wanted = true;
        if (!json_is_true(probs) && !read_integer(root, "logprobs", 0, REQUEST_PROBS_MAX, &n_probs, f)) return false;
        r->n_probs = (uint32_t)n_probs;
    }
    const json_t *most = json_object_get(root, "max_tokens");
    const bool none =
        json_is_integer(most) && json_integer_value(most) == 0 && json_is_true(json_object_get(root, "echo"));
    if (!request_tokens_max(r, root, "n_predict", f) || (!none && !request_tokens_max(r, root, "max_tokens", f)) ||
        !request_stops(r, root, "stop", f) || !request_stream_options(r, root, f) ||
        !read_bool(root, "return_progress", &r->progress_wanted, f) || !read_bool(root, "echo", &r->echo, f) ||
        !request_format(c, r, json_object_get(root, "response_format"), "response_format", f))
        return false;
    if (none) r->tokens_max = 0; /* the prompt alone comes back, with what was asked of it */
    r->prompt_probs = r->echo && r->probs_wanted;
    request_id("cmpl-", r->id);
    if (json_is_array(prompt) && json_array_size(prompt) == 1 && !json_is_integer(json_array_get(prompt, 0)))
        prompt = json_array_get(prompt, 0); /* a list of one prompt */
    if (json_is_string(prompt)) {
        if (!clerk_encode_text(c, json_string_value(prompt), json_string_length(prompt), r, f)) return false;
    } else if (json_is_array(prompt) && json_array_size(prompt)) {
        if (!read_ids(c, prompt, r, f)) return false;
    } else {
        return fault_set(f, 400, "prompt", "'prompt' must be a string or a list of token ids (one prompt a request)");
    }
    return !r->echo || keep_prompt(c, r, f);
}

/* ---- writing ---- */

static json_t *head(const struct answer *a, json_t *choices)
{
    const struct serve_request *r = a->request;
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", r->id, "object", "text_completion", "created",
                     (json_int_t)r->created_s, "model", r->model, "system_fingerprint", "sluice", "choices", choices);
}

static json_t *take_probs(struct answer *a)
{
    json_t *probs = a->probs;
    a->probs = NULL;
    return probs ? probs : json_null();
}

static json_t *piece(struct answer *a, json_t *text, const char *finish)
{
    return json_pack("{s:o, s:i, s:o, s:s?}", "text", text, "index", (int)a->choice, "logprobs", take_probs(a),
                     "finish_reason", finish);
}

static void send_piece(struct answer *a, const char *text, size_t bytes)
{
    answer_message(a, NULL, head(a, json_pack("[o]", piece(a, buffer_string(text, bytes), NULL))));
}

/* The older form: lists beside each other. */
static void add_probs(struct answer *a, const struct token_probs *p)
{
    if (!a->probs)
        a->probs = json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs", "text_offset");
    const bool known = !isnan(p->taken.logprob); /* of the first token nothing is */
    json_t *top = known ? json_object() : json_null();
    for (size_t i = 0; i < p->n; i++) {
        json_t *key = buffer_string(p->top[i].text, p->top[i].bytes);
        json_object_set_new(top, json_string_value(key), buffer_real((double)p->top[i].logprob));
        json_decref(key);
    }
    json_array_append_new(json_object_get(a->probs, "tokens"), buffer_string(p->taken.text, p->taken.bytes));
    json_array_append_new(json_object_get(a->probs, "token_logprobs"),
                          known ? buffer_real((double)p->taken.logprob) : json_null());
    json_array_append_new(json_object_get(a->probs, "top_logprobs"), top);
    json_array_append_new(json_object_get(a->probs, "text_offset"), json_integer((json_int_t)a->index));
    for (size_t i = 0; i < p->taken.bytes; i++) /* characters */
        a->index += ((unsigned char)p->taken.text[i] & 0xc0) != 0x80;
}

/* Of a stream; with its probabilities, if they are wanted. */
static void send_echo(struct answer *a)
{
    const char *echo = a->request->prompt_text;
    if (echo) send_piece(a, echo, strlen(echo));
}

static void begin(struct answer *a)
{
    if (a->request->echo && !a->request->prompt_probs) send_echo(a);
}

static void event(struct answer *a, const struct event *e)
{
    if (e->kind == EVENT_PROBS) {
        add_probs(a, e->probs);
        if (e->probs->prompt && ++a->sequence == a->request->n_ids && a->streamed) send_echo(a);
    } else if (!a->streamed) {
        answer_keep(a, e);
    } else if (e->kind == EVENT_TEXT) {
        send_piece(a, e->text.at, e->text.n);
    } else if (e->kind == EVENT_PROGRESS) {
        json_t *data = head(a, json_array());
        json_object_set_new(data, "prompt_progress", answer_progress(&e->progress));
        answer_message(a, NULL, data);
    } else if (e->kind == EVENT_ALIVE) {
        buffer_word(&a->out, ANSWER_ALIVE);
    }
}

static const char *finish_reason(enum ending ending) { return ending == ENDING_LENGTH ? "length" : "stop"; }

static json_t *last(struct answer *a, const struct outcome *o)
{
    return head(a, json_pack("[o]", piece(a, json_string(""), finish_reason(o->ending))));
}

static void end(struct answer *a, const struct outcome *o)
{
    if (o->ending == ENDING_FAILED) {
        answer_fault_openai(a, &o->fault);
        return;
    }
    json_t *data = last(a, o);
    json_object_set_new(data, "timings", answer_timings(o));
    answer_message(a, NULL, data);
    if (a->request->usage_wanted) {
        data = head(a, json_array());
        json_object_set_new(data, "usage", answer_usage_openai(o));
        answer_message(a, NULL, data);
    }
    buffer_word(&a->out, "data: [DONE]\n\n");
}

static void choice(struct answer *a, const struct outcome *o)
{
    struct buffer text = {.at = NULL};
    if (a->streamed) {
        answer_message(a, NULL, last(a, o));
        return;
    }
    if (a->request->echo && a->request->prompt_text) buffer_word(&text, a->request->prompt_text);
    buffer_put(&text, a->text.at, a->text.n);
    answer_add_choice(a, piece(a, buffer_string(text.at, text.n), finish_reason(o->ending)));
    buffer_free(&text);
}

static void whole(struct answer *a, const struct outcome *o, struct buffer *out)
{
    choice(a, o);
    json_t *root = head(a, json_incref(a->choices));
    json_object_set_new(root, "usage", answer_usage_openai(o));
    json_object_set_new(root, "timings", answer_timings(o));
    buffer_json(out, root);
}

const struct writer writer_completions = {begin, event, end, whole, choice};
