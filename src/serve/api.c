/* The table of endpoints. */
#include "serve/api.h"
#include "serve/page.h"

#include <stdio.h>
#include <string.h>

static const struct endpoint endpoints[] = {
    {.method = "GET", .path = "/health", .open = true, .at_once = info_health},
    {.method = "GET", .path = "/v1/health", .open = true, .at_once = info_health},
    {.method = "GET", .path = "/v1/models", .at_once = info_models},
    {.method = "GET", .path = "/v1/models/", .model_behind = true, .at_once = info_model},
    {.method = "GET", .path = "/models", .at_once = info_models},
    {.method = "GET", .path = "/props", .at_once = info_props},
    {.method = "GET", .path = "/slots", .at_once = info_slots},
    {.method = "GET", .path = "/metrics", .at_once = info_metrics},
    {.method = "GET", .path = "/api/experts", .at_once = info_experts},
    {.method = "GET", .path = "/api/stats", .at_once = info_stats},
    {.method = "POST",
     .path = "/v1/chat/completions",
     .kind = ENDPOINT_GENERATES,
     .read = chat_read,
     .writer = &writer_chat},
    {.method = "POST",
     .path = "/chat/completions",
     .kind = ENDPOINT_GENERATES,
     .read = chat_read,
     .writer = &writer_chat},
    {.method = "POST",
     .path = "/v1/completions",
     .kind = ENDPOINT_GENERATES,
     .read = completions_read,
     .writer = &writer_completions},
    {.method = "POST",
     .path = "/completions",
     .kind = ENDPOINT_GENERATES,
     .read = completions_read,
     .writer = &writer_completions},
    {.method = "POST",
     .path = "/v1/responses",
     .kind = ENDPOINT_GENERATES,
     .read = responses_read,
     .writer = &writer_responses},
    {.method = "POST",
     .path = "/responses",
     .kind = ENDPOINT_GENERATES,
     .read = responses_read,
     .writer = &writer_responses},
    {.method = "POST",
     .path = "/v1/messages",
     .kind = ENDPOINT_GENERATES,
     .read = messages_read,
     .writer = &writer_messages,
     .style = FAULT_ANTHROPIC},
    {.method = "POST",
     .path = "/v1/messages/count_tokens",
     .kind = ENDPOINT_BY_CLERK,
     .by_clerk = messages_count,
     .style = FAULT_ANTHROPIC},
    {.method = "POST", .path = "/tokenize", .kind = ENDPOINT_BY_CLERK, .by_clerk = text_tokenize},
    {.method = "POST", .path = "/detokenize", .kind = ENDPOINT_BY_CLERK, .by_clerk = text_detokenize},
    {.method = "POST", .path = "/apply-template", .kind = ENDPOINT_BY_CLERK, .by_clerk = text_apply_template},
};

/* The page's files are no secret, and without them nobody could be asked for a key. */
static const struct endpoint page = {.method = "GET", .kind = ENDPOINT_PAGE, .open = true};

static bool is_at(const struct endpoint *e, const char *path)
{
    const size_t n = strlen(e->path);
    return e->model_behind ? !strncmp(e->path, path, n) && path[n] : !strcmp(e->path, path);
}

const struct endpoint *endpoint_find(const char *method, const char *path, bool *path_known)
{
    *path_known = false;
    if (!strcmp(method, "HEAD")) method = "GET";
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        if (!is_at(&endpoints[i], path)) continue;
        *path_known = true;
        if (!strcmp(endpoints[i].method, method)) return &endpoints[i];
    }
    if (!page_find(path)) return NULL;
    *path_known = true;
    return !strcmp(page.method, method) ? &page : NULL;
}

const char *endpoint_methods(const char *path, char out[64])
{
    snprintf(out, 64, "OPTIONS");
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        const size_t n = strlen(out);
        if (is_at(&endpoints[i], path)) snprintf(out + n, 64 - n, ", %s", endpoints[i].method);
    }
    if (page_find(path)) snprintf(out, 64, "OPTIONS, %s", page.method);
    return out;
}

const char *endpoint_elsewhere(const char *path)
{
    static const char no_embeddings[] = "; this server writes text and has no embeddings or ranking";
    static const struct {
        const char *path, *hint;
    } rows[] = {{"/completion", "; here it is /v1/completions"},
                {"/infill", "; here there is /v1/completions"},
                {"/chat", "; here it is /v1/chat/completions"},
                {"/api/chat", "; here it is /v1/chat/completions"},
                {"/api/generate", "; here it is /v1/completions"},
                {"/api/tags", "; here it is /v1/models"},
                {"/api/show", "; here it is /props"},
                {"/v1", "; that is where the paths of OpenAI's API begin: /v1/chat/completions"},
                {"/v1/", "; that is where the paths of OpenAI's API begin: /v1/chat/completions"},
                {"/v1/v1/messages", "; Anthropic's clients want the address without /v1"},
                {"/v1/embeddings", no_embeddings},
                {"/embeddings", no_embeddings},
                {"/embedding", no_embeddings},
                {"/api/embed", no_embeddings},
                {"/v1/rerank", no_embeddings},
                {"/rerank", no_embeddings}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].path, path)) return rows[i].hint;
    return "";
}
