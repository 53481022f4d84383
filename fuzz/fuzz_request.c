/* A request's body: the first byte chooses the endpoint. What is refused is refused with a status and words; what is
 * not has a prompt of ids that the model has. */
#include "fuzz.h"
#include "serve/api.h"
#include "serve/server.h"

#include <string.h>

static struct clerk clerk;
static struct server server;

static void set_up(void)
{
    struct sluice_options o;
    struct sluice_error err;
    sluice_options_init(&o);
    o.model_path = FUZZ_MODEL;
    o.vocab_only = true;
    FUZZ_CHECK(sluice_engine_open(&o, &clerk.engine, &err) == SLUICE_OK);
    serve_options_init(&server.options);
    sluice_model_info(clerk.engine, &server.info);
    clerk.server = &server;
    clerk.n_ctx = 1024;
}

static void check_request(const struct serve_request *r)
{
    FUZZ_CHECK(r->n_ids > 0 && r->n_ids < clerk.n_ctx && r->n_stops <= REQUEST_STOPS_MAX);
    for (size_t i = 0; i < r->n_ids; i++) FUZZ_CHECK(r->ids[i] >= 0 && (uint32_t)r->ids[i] < server.info.n_vocab);
    FUZZ_CHECK(r->n_probs <= REQUEST_PROBS_MAX && (!r->n_probs || r->probs_wanted));
    FUZZ_CHECK(r->sampling.temperature >= 0 && r->sampling.top_p >= 0 && r->sampling.top_p <= 1);
    FUZZ_CHECK(memchr(r->model, 0, sizeof r->model) && memchr(r->id, 0, sizeof r->id));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const paths[] = {
        "/v1/chat/completions",      "/v1/completions", "/v1/messages", "/v1/responses",
        "/v1/messages/count_tokens", "/tokenize",       "/detokenize",  "/apply-template"};
    bool known;
    if (!clerk.engine) set_up();
    if (bytes == 0) return 0;
    const struct endpoint *e = endpoint_find("POST", paths[data[0] % (sizeof paths / sizeof *paths)], &known);
    FUZZ_CHECK(e);
    struct buffer body = {.at = NULL}, out = {.at = NULL};
    struct serve_request r;
    struct fault f;
    buffer_put(&body, (const char *)data + 1, bytes - 1);
    if (!clerk_read(&clerk, e, &body, &r, &out, &f)) {
        FUZZ_CHECK(f.status >= 400 && f.status < 500 && f.text[0]);
        fault_write(&f, e->style, &out);
        FUZZ_CHECK(!out.failed && out.n);
    } else if (e->kind == ENDPOINT_GENERATES) {
        check_request(&r);
    } else {
        FUZZ_CHECK(!out.failed && out.n);
    }
    request_free(&r);
    buffer_free(&body);
    buffer_free(&out);
    return 0;
}
