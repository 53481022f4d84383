#include "serve/clerk.h"

#include "serve/api.h"
#include "serve/scheduler.h"
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

/* Limits of the JSON of a request: how deep it nests, and how many values it holds for each KiB of the largest body
 * (small values take far more memory than bytes). */
#define JSON_DEPTH_MAX 64
#define JSON_VALUES_MAX ((size_t)400000)
#define TEXT_BYTES_PER_TOKEN 32 /* the engine's own limit (sluice_options.text_bytes) */
#define PROMPT_END_IDS 200      /* tokens of the prompt's end that tell what the template has opened */

struct clerk_item {
    struct clerk_item *next;
    struct exchange *x;
};

/* ---- JSON ---- */

/* Before the parser builds anything of it. */
static bool check_shape(const char *text, size_t bytes, struct fault *f)
{
    size_t depth = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        if (c == '"') quoted = true;
        if (c == ',' || c == ':') values++;
        if (c == '[' || c == '{') {
            values++;
            if (++depth > JSON_DEPTH_MAX)
                return fault_set(f, 400, NULL, "the JSON nests deeper than %d levels", JSON_DEPTH_MAX);
        }
        if ((c == ']' || c == '}') && depth) depth--;
        if (values > JSON_VALUES_MAX)
            return fault_set(f, 400, NULL, "the JSON has more than %zu values", JSON_VALUES_MAX);
    }
    return true;
}

static json_t *read_json(const struct buffer *body, struct fault *f)
{
    json_error_t error;
    if (body->n == 0) {
        fault_set(f, 400, NULL, "the request has no body; a JSON object is expected");
        return NULL;
    }
    if (!check_shape(body->at, body->n, f)) return NULL;
    json_t *root = json_loadb(body->at, body->n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!root) {
        fault_set(f, 400, NULL, "the body is no valid JSON: line %d, column %d: %.200s", error.line, error.column,
                  error.text);
        return NULL;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        fault_set(f, 400, NULL, "the body must be a JSON object");
        return NULL;
    }
    return root;
}

/* ---- for the APIs ---- */

/* The text of the prompt's last tokens. */
static char *end_of_prompt(struct clerk *c, const struct serve_request *r)
{
    struct buffer b = {.at = NULL};
    char piece[SLUICE_PIECE_BYTES_MAX];
    for (size_t i = r->n_ids > PROMPT_END_IDS ? r->n_ids - PROMPT_END_IDS : 0; i < r->n_ids; i++)
        buffer_put(&b, piece, sluice_token_bytes(c->engine, r->ids[i], true, piece));
    if (!b.failed && b.at) return b.at;
    buffer_free(&b);
    return NULL;
}

/* Longer texts cannot fit the context, and the ledger has no room for the work. */
bool clerk_check_text(const struct clerk *c, size_t bytes, struct fault *f)
{
    const size_t room = (size_t)c->n_ctx * TEXT_BYTES_PER_TOKEN,
                 asked = serve_text_bytes(c->server->options.body_bytes_max), most = room > asked ? room : asked;
    if (bytes <= most) return true;
    fault_set(f, 400, NULL, "the prompt is a text of %zu bytes; a context of %u tokens has room for %zu at most", bytes,
              c->n_ctx, most);
    f->code = "context_length_exceeded";
    return false;
}

bool clerk_encode_chat(struct clerk *c, const json_t *vars, struct serve_request *r, struct fault *f)
{
    struct sluice_error err;
    char *text = buffer_dumped(vars, JSON_COMPACT);
    if (!text) return fault_set(f, 500, NULL, "out of memory");
    if (!clerk_check_text(c, strlen(text), f)) {
        free(text);
        return false;
    }
    enum sluice_status st = sluice_chat_encode_json(c->engine, text, strlen(text), &r->ids, &r->n_ids, &err);
    free(text);
    if (st) return fault_from(f, &err);
    const char *end = sluice_chat_stop(c->engine);
    r->answers = r->from_text = true;
    free(r->turn_end);
    r->turn_end = end[0] ? strdup(end) : NULL;
    free(r->prompt_end);
    r->prompt_end = end_of_prompt(c, r);
    return true;
}

bool clerk_encode_text(struct clerk *c, const char *text, size_t bytes, struct serve_request *r, struct fault *f)
{
    struct sluice_error err;
    const struct sluice_encode_options how = {.special = true, .bos = true};
    if (!clerk_check_text(c, bytes, f)) return false;
    r->ids = malloc((bytes + 8) * sizeof *r->ids);
    if (!r->ids) return fault_set(f, 500, NULL, "out of memory");
    if (sluice_encode(c->engine, text, bytes, &how, r->ids, bytes + 8, &r->n_ids, &err)) return fault_from(f, &err);
    r->from_text = true;
    return true;
}

bool clerk_append_text(struct clerk *c, const char *text, size_t bytes, struct serve_request *r, struct fault *f)
{
    struct sluice_error err;
    const struct sluice_encode_options how = {.special = false};
    size_t n = 0;
    if (!clerk_check_text(c, bytes, f)) return false;
    int32_t *ids = malloc((r->n_ids + bytes + 8) * sizeof *ids);
    if (!ids) return fault_set(f, 500, NULL, "out of memory");
    memcpy(ids, r->ids, r->n_ids * sizeof *ids);
    enum sluice_status st = sluice_encode(c->engine, text, bytes, &how, ids + r->n_ids, bytes + 8, &n, &err);
    sluice_free(r->ids);
    r->ids = ids;
    r->n_ids += st ? 0 : n;
    free(r->prompt_end);
    r->prompt_end = end_of_prompt(c, r);
    return st ? fault_from(f, &err) : true;
}

bool clerk_check_length(struct clerk *c, const struct serve_request *r, struct fault *f)
{
    if (r->n_ids == 0) return fault_set(f, 400, NULL, "the prompt is empty");
    if (r->n_ids < c->n_ctx) return true;
    fault_set(f, 400, NULL,
              "the prompt has %zu tokens; the context of this server has room for %u, the answer included (--ctx)",
              r->n_ids, c->n_ctx);
    f->code = "context_length_exceeded";
    return false;
}

/* ---- one request ---- */

static bool late(const struct clerk *c) { return c->work && server_now_ns() > c->work_end_ns; }

/* Long text work looks up from time to time: others wait behind it. */
static bool take_progress(void *user, const struct sluice_progress *p)
{
    struct clerk *c = user;
    return !c->work || (!exchange_gone(c->work) && !late(c));
}

/* What is read is not needed as text any more. (`original` is about as large.) */
static void drop_body(struct exchange *x)
{
    struct server *s = x->server;
    buffer_free(&x->body);
    if (x->request.original) return;
    pthread_mutex_lock(&s->lock);
    s->body_bytes -= x->body_charged;
    x->body_charged = 0;
    pthread_mutex_unlock(&s->lock);
}

bool clerk_read(struct clerk *c, const struct endpoint *e, const struct buffer *body, struct serve_request *r,
                struct buffer *out, struct fault *f)
{
    const struct server *s = c->server;
    json_t *root = read_json(body, f);
    bool good = root != NULL;
    request_init(r, &s->options.sampling, s->options.seeded);
    if (s->options.tokens_max) r->tokens_max = s->options.tokens_max;
    if (good && e->kind == ENDPOINT_BY_CLERK)
        good = e->by_clerk(c, root, out, f);
    else if (good)
        good = e->read(c, root, r, f) && clerk_check_length(c, r, f) && request_check_format(c, r, f) &&
               request_check_choices(r, f);
    json_decref(r->vars);
    r->vars = NULL;
    if (!r->model[0]) memcpy(r->model, s->model_name, sizeof r->model);
    json_decref(root);
    return good;
}

static void handle(struct clerk *c, struct exchange *x)
{
    struct fault f;
    struct buffer out = {.at = NULL};
    struct serve_request *r = &x->request;
    if (exchange_gone(x)) return;
    pthread_mutex_lock(&c->server->lock);
    c->n_ctx = c->server->info.ctx;
    pthread_mutex_unlock(&c->server->lock);
    x->has_request = true;
    c->work = x;
    c->work_end_ns = server_now_ns() + (uint64_t)c->server->options.receive_s * 1000000000;
    bool good = clerk_read(c, x->endpoint, &x->body, r, &out, &f);
    if (!good && f.status == 503 && late(c)) {
        fault_set(&f, 503, NULL, "reading the request takes longer than %u s (--timeout-receive)",
                  c->server->options.receive_s);
        f.retry_s = 5;
    }
    c->work = NULL;
    drop_body(x);
    if (!good) {
        exchange_fault(x, &f);
    } else if (x->endpoint->kind == ENDPOINT_BY_CLERK) {
        exchange_reply(x, 200, "application/json", &out);
    } else {
        answer_begin(&x->answer, r, x->endpoint->writer);
        if (!scheduler_submit(c->server->scheduler, x, &f))
            exchange_fault(x, &f);
        else if (r->stream && !r->schema) /* with a schema the stream begins when that has proved good (job_begin), or
                                           * has been silent for long (warden.c) */
            exchange_begin(x);            /* the headers now: the client knows that its request is at work */
    }
    buffer_free(&out);
}

static void *run(void *user)
{
    struct clerk *c = user;
    for (;;) {
        pthread_mutex_lock(&c->lock);
        while (!c->first && !c->stop) pthread_cond_wait(&c->changed, &c->lock);
        struct clerk_item *item = c->first;
        if (item) c->first = item->next;
        if (!c->first) c->last = NULL;
        pthread_mutex_unlock(&c->lock);
        if (!item) return NULL;
        handle(c, item->x);
        exchange_release(item->x);
        free(item);
    }
}

bool clerk_take(struct clerk *c, struct exchange *x)
{
    struct clerk_item *item = calloc(1, sizeof *item);
    if (!item) return false;
    exchange_hold(x);
    item->x = x;
    pthread_mutex_lock(&c->lock);
    *(c->last ? &c->last->next : &c->first) = item;
    c->last = item;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return true;
}

static void take_line(void *user, enum sluice_log_level level, const char *line)
{
    struct clerk *c = user;
    if (level == SLUICE_LOG_DEBUG) server_log(c->server, level, "%s", line); /* the other engine says the rest again */
}

void serve_vocabulary_options(const struct sluice_options *engine, struct sluice_options *out)
{
    sluice_options_init(out);
    out->model_path = engine->model_path;
    out->vocab_only = true;
    out->chat_template = engine->chat_template;
    out->pre = engine->pre;
    out->sessions = 0;
}

enum sluice_status clerk_open(struct server *s, struct clerk **out, struct sluice_error *err)
{
    struct clerk *c = calloc(1, sizeof *c);
    if (!c) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the clerk");
    struct sluice_options o;
    c->server = s;
    serve_vocabulary_options(s->options.engine, &o);
    o.log = take_line;
    o.progress = take_progress;
    o.user = c;
    enum sluice_status st = sluice_engine_open(&o, &c->engine, err);
    if (st) {
        free(c);
        return st;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    *out = c;
    return SLUICE_OK;
}

enum sluice_status clerk_start(struct clerk *c, struct sluice_error *err)
{
    if (pthread_create(&c->thread, NULL, run, c) == 0) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_RUN, NULL, "cannot start the clerk's thread");
}

void clerk_stop(struct clerk *c)
{
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    sluice_engine_close(c->engine);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}
