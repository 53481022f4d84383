/* The HTTP thread: libmicrohttpd with one internal thread and epoll. It receives requests, hands them on, lets their
 * connections rest while others work, and writes answers as they come. It never computes and never waits. */
#include "serve/api.h"
#include "serve/link.h"
#include "serve/log.h"
#include "serve/page.h"
#include "serve/scheduler.h"
#include "serve/server.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STREAM_BLOCK_BYTES ((size_t)16 << 10)
#define BODIES_THROWN_AWAY 8
#define BODIES_MAX 2    /* bodies of the largest size that may be in memory at once */
#define SLICE_NS 100000 /* the least that Linux lets a thread ask for */

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static struct link *link_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* ---- who may ask ---- */

/* A page of another site can reach a server on loopback by a name that its owner points there; it cannot choose the
 * Host header. */
static bool host_good(const struct server *s, struct MHD_Connection *c)
{
    const char *host = header(c, "Host");
    char name[256];
    if (!s->loopback || !host) return true;
    snprintf(name, sizeof name, "%s", host);
    char *colon = strrchr(name, ':'), *bracket = strrchr(name, ']');
    if (colon && (!bracket || colon > bracket)) *colon = '\0';
    return !strcasecmp(name, "localhost") || !strcmp(name, "[::1]") || listen_is_loopback(name) ||
           !strcasecmp(name, s->options.host);
}

/* The origin that the answer's header names; NULL: none. *good: whether pages from there may ask. */
static const char *origin_of(const struct server *s, struct MHD_Connection *c, bool *good)
{
    const char *origin = header(c, "Origin"), *host = header(c, "Host"), *cors = s->options.cors;
    *good = true;
    if (!origin) return NULL;
    if (cors && (!strcmp(cors, "*") || !strcasecmp(cors, origin))) return cors[0] == '*' ? "*" : origin;
    const char *name = strstr(origin, "://");
    *good = name && host && !strcasecmp(name + 3, host); /* the server's own page */
    return NULL;
}

static bool key_good(const struct server *s, struct MHD_Connection *c)
{
    const char *bearer = header(c, "Authorization"), *key = header(c, "x-api-key");
    if (!s->n_keys) return true;
    if (bearer && !strncasecmp(bearer, "Bearer ", 7)) key = bearer + 7;
    return key && listen_key_good(s, key);
}

/* What of a request's head can be read in two ways. */
struct head {
    unsigned n_lengths, n_hosts;
    bool blank; /* a name with a blank behind it, before the colon */
};

static enum MHD_Result look_at_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct head *head = user;
    (void)kind;
    (void)value;
    head->n_lengths += !strcasecmp(name, "Content-Length") || !strcasecmp(name, "Transfer-Encoding");
    head->n_hosts += !strcasecmp(name, "Host");
    head->blank = head->blank || strpbrk(name, " \t");
    return MHD_YES;
}

/* A proxy in front may have seen the body end elsewhere, and the next request begin there, or have asked for another
 * host (RFC 9112, 3.2, 5.1 and 6.3). */
static bool head_clear(struct MHD_Connection *c, struct fault *f)
{
    struct head head = {0};
    MHD_get_connection_values(c, MHD_HEADER_KIND, look_at_header, &head);
    if (head.n_lengths > 1)
        return fault_set(f, 400, NULL, "a request has one Content-Length or one Transfer-Encoding, not several");
    if (head.n_hosts > 1) return fault_set(f, 400, NULL, "a request has one Host header");
    if (head.blank) return fault_set(f, 400, NULL, "a header's name has no blank in it or behind it");
    return true;
}

/* ---- answers ---- */

static enum MHD_Result send_response(struct server *s, struct MHD_Connection *c, int status, const char *type,
                                     unsigned retry_s, struct MHD_Response *response)
{
    char text[32];
    bool good;
    if (!response) return MHD_NO;
    const char *origin = origin_of(s, c, &good);
    if (type) MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (s->options.cors) MHD_add_response_header(response, "Vary", "Origin");
    if (origin) MHD_add_response_header(response, "Access-Control-Allow-Origin", origin);
    if (retry_s) {
        snprintf(text, sizeof text, "%u", retry_s);
        MHD_add_response_header(response, "Retry-After", text);
    }
    if (status == 401) MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (status >= 400 && status < 500) atomic_fetch_add(&s->metrics.refused, 1);
    if (status == 429) atomic_fetch_add(&s->metrics.overloaded, 1);
    if (status == 401 || status == 403) atomic_fetch_add(&s->metrics.unauthorized, 1);
    struct link *l = link_of(c);
    if (l) l->status = status;
    link_whole(s, l); /* or nobody waits for the rest */
    /* libmicrohttpd counts the time since it could last write. Behind a full socket it can write again once a third of
     * SEND_BYTES (listen.c), which the system doubles, has been taken: so slow a reader is given up too. */
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, s->options.stall_s);
    enum MHD_Result result = MHD_queue_response(c, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result send_body(struct server *s, struct MHD_Connection *c, int status, const char *type,
                                 unsigned retry_s, struct buffer *body)
{
    static char nothing[] = "";
    if (body->failed) {
        buffer_free(body);
        return MHD_NO;
    }
    struct MHD_Response *response = body->at ? MHD_create_response_from_buffer(body->n, body->at, MHD_RESPMEM_MUST_FREE)
                                             : MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    if (!response) buffer_free(body);
    *body = (struct buffer){.at = NULL};
    return send_response(s, c, status, type, retry_s, response);
}

static enum MHD_Result send_fault(struct server *s, struct MHD_Connection *c, const struct fault *f,
                                  enum fault_style style)
{
    struct buffer body = {.at = NULL};
    fault_write(f, style, &body);
    return send_body(s, c, f->status, "application/json", f->retry_s, &body);
}

static enum MHD_Result send_preflight(struct server *s, struct MHD_Connection *c, const char *path)
{
    char methods[64];
    const char *asked = header(c, "Access-Control-Request-Headers");
    struct MHD_Response *response = MHD_create_response_from_buffer(0, (char[]){""}, MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Allow", endpoint_methods(path, methods));
    if (s->options.cors) {
        MHD_add_response_header(response, "Access-Control-Allow-Methods", methods);
        MHD_add_response_header(response, "Access-Control-Allow-Headers", asked ? asked : "*");
        MHD_add_response_header(response, "Access-Control-Max-Age", "600");
    }
    return send_response(s, c, 204, NULL, 0, response);
}

static enum MHD_Result send_not_allowed(struct exchange *x, struct MHD_Connection *c, const char *path)
{
    char methods[64];
    struct buffer body = {.at = NULL};
    fault_write(&x->fault, x->endpoint->style, &body);
    if (body.failed) {
        buffer_free(&body);
        return MHD_NO;
    }
    struct MHD_Response *response = MHD_create_response_from_buffer(body.n, body.at, MHD_RESPMEM_MUST_COPY);
    buffer_free(&body);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Allow", endpoint_methods(path, methods));
    return send_response(x->server, c, x->fault.status, "application/json", 0, response);
}

/* ---- streams ---- */

/* More of a stream, or rest until there is more. */
static ssize_t read_stream(void *user, uint64_t at, char *out, size_t room)
{
    struct exchange *x = user;
    struct answer *a = &x->answer;
    for (;;) {
        if (a->out.failed || a->aborted) return MHD_CONTENT_READER_END_WITH_ERROR;
        if (a->out.n) {
            const size_t n = a->out.n < room ? a->out.n : room;
            memcpy(out, a->out.at, n);
            buffer_cut(&a->out, n);
            return (ssize_t)n;
        }
        if (a->over) return MHD_CONTENT_READER_END_OF_STREAM;
        pthread_mutex_lock(&x->server->lock);
        struct event *e = exchange_take(x);
        const bool gone = x->gone;
        if (!e && !gone) {
            x->resting = true;
            MHD_suspend_connection(x->connection);
            pthread_cond_broadcast(&x->server->written);
        }
        pthread_mutex_unlock(&x->server->lock);
        if (!e) return gone ? MHD_CONTENT_READER_END_WITH_ERROR : 0;
        answer_event(a, e);
        event_free(e);
    }
}

static void stream_over(void *user) { exchange_release(user); }

static enum MHD_Result send_stream(struct exchange *x, struct MHD_Connection *c)
{
    struct server *s = x->server;
    exchange_hold(x);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, x, stream_over);
    if (!response) {
        exchange_release(x);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no");
    return send_response(s, c, 200, "text/event-stream; charset=utf-8", 0, response);
}

/* ---- the walk of a request ---- */

/* Why this request goes no further; true: it does. */
static bool admit(struct server *s, struct MHD_Connection *c, const struct endpoint *e, const char *method,
                  const char *path, bool path_known, struct fault *f)
{
    bool origin_good;
    const enum server_phase phase = server_phase(s);
    origin_of(s, c, &origin_good);
    const bool open = e && e->open;
    if (!open && !host_good(s, c)) return fault_set(f, 403, NULL, "the Host header names no address of this server");
    if (!origin_good) return fault_set(f, 403, NULL, "pages of other origins may not ask here (--cors)");
    if (!open && !key_good(s, c))
        return fault_set(f, 401, NULL,
                         "a valid API key is needed, in the header Authorization: Bearer KEY or x-api-key: KEY");
    if (!e && path_known) return fault_set(f, 405, NULL, "%.20s is not allowed here", method);
    if (!e) return fault_set(f, 404, NULL, "there is nothing at %.200s%s", path, endpoint_elsewhere(path));
    if (e->model_behind && strcmp(path + strlen(e->path), s->model_name) != 0) {
        fault_set(f, 404, "model", "there is no model '%.200s' here, only '%.200s'", path + strlen(e->path),
                  s->model_name);
        f->code = "model_not_found";
        return false;
    }
    if (e->kind == ENDPOINT_AT_ONCE || e->kind == ENDPOINT_PAGE) return true;
    const char *length = header(c, "Content-Length");
    if (length && strtoull(length, NULL, 10) > s->options.body_bytes_max)
        return fault_set(f, 413, NULL, "the body has %.20s bytes, at most %zu are allowed (--max-body)", length,
                         s->options.body_bytes_max);
    if (link_too_many(s, link_of(c))) {
        fault_set(f, 503, NULL, "more than %u connections (--max-connections)", s->options.connections_max);
        f->retry_s = 1;
        return false;
    }
    if (phase == SERVER_READY) return true;
    fault_set(f, 503, NULL, phase == SERVER_LOADING ? "the model is loading" : "the server is stopping");
    f->retry_s = phase == SERVER_LOADING ? 5 : 60;
    return false;
}

static const struct endpoint nowhere = {.kind = ENDPOINT_AT_ONCE}, nowhere_anthropic = {.style = FAULT_ANTHROPIC};

static enum MHD_Result begin(struct server *s, struct MHD_Connection *c, const char *path, const char *method,
                             void **state)
{
    bool path_known;
    struct fault f;
    const struct endpoint *e = endpoint_find(method, path, &path_known);
    atomic_fetch_add(&s->metrics.requests, 1);
    struct link *l = link_of(c);
    if (l) l->status = 0;
    link_begin(s, l);
    const bool clear = head_clear(c, &f),
               good = clear && (!strcmp(method, "OPTIONS") || admit(s, c, e, method, path, path_known, &f));
    if (!e || (!good && header(c, "anthropic-version"))) /* the list of models is every API's */
        e = !strncmp(path, "/v1/messages", 12) || header(c, "anthropic-version") ? &nowhere_anthropic : &nowhere;
    /* A refused body that is much too large, or ends who knows where, is not read: the connection ends. Others are
     * thrown away as they come, for clients that write everything before they read. */
    const char *length = header(c, "Content-Length");
    if (!clear) return send_fault(s, c, &f, e->style);
    if (!good && length && strtoull(length, NULL, 10) > (uint64_t)BODIES_THROWN_AWAY * s->options.body_bytes_max)
        return send_fault(s, c, &f, e->style);
    struct exchange *x = exchange_create(s, e, c);
    if (!x) return MHD_NO;
    *state = x;
    snprintf(x->method, sizeof x->method, "%s", method);
    snprintf(x->path, sizeof x->path, "%s", path);
    if (!good) {
        x->refused = true;
        x->fault = f;
    }
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, s->options.receive_s);
    return MHD_YES;
}

static enum MHD_Result receive(struct exchange *x, const char *bytes, size_t n)
{
    struct server *s = x->server;
    x->received += n;
    const bool wanted = x->endpoint->kind == ENDPOINT_BY_CLERK || x->endpoint->kind == ENDPOINT_GENERATES;
    if (x->refused || !wanted) return x->received > BODIES_THROWN_AWAY * s->options.body_bytes_max ? MHD_NO : MHD_YES;
    if (x->body.n + n > s->options.body_bytes_max) {
        x->refused = true;
        fault_set(&x->fault, 413, NULL, "the body has more than %zu bytes (--max-body)", s->options.body_bytes_max);
        return MHD_YES;
    }
    pthread_mutex_lock(&s->lock);
    const bool fits = s->body_bytes + n <= BODIES_MAX * s->options.body_bytes_max;
    if (fits) {
        s->body_bytes += n;
        x->body_charged += n;
    }
    pthread_mutex_unlock(&s->lock);
    if (fits) buffer_put(&x->body, bytes, n);
    if (fits && !x->body.failed) return MHD_YES;
    x->refused = true;
    fault_set(&x->fault, 429, NULL, "too many large requests at once");
    x->fault.retry_s = 1;
    return MHD_YES;
}

/* Lock held. */
static void rest(struct exchange *x, struct MHD_Connection *c)
{
    x->resting = true;
    MHD_suspend_connection(c);
}

static enum MHD_Result hand_on(struct exchange *x, struct MHD_Connection *c)
{
    struct server *s = x->server;
    struct fault f;
    pthread_mutex_lock(&s->lock);
    const bool stopping = server_phase(s) == SERVER_STOPPING; /* nothing may rest any more */
    if (!stopping) {
        x->state = EXCHANGE_WAITING;
        warden_watch(s, x);
        rest(x, c);
    }
    pthread_mutex_unlock(&s->lock);
    if (stopping) {
        fault_set(&f, 503, NULL, "the server is stopping");
        return send_fault(s, c, &f, x->endpoint->style);
    }
    if (clerk_take(s->clerk, x)) return MHD_YES;
    fault_set(&f, 500, NULL, "out of memory");
    exchange_fault(x, &f);
    return MHD_YES;
}

static enum MHD_Result answer_at_once(struct exchange *x, struct MHD_Connection *c)
{
    struct buffer body = {.at = NULL};
    const char *type = "application/json";
    const int status = x->endpoint->at_once(x->server, &body, &type);
    return send_body(x->server, c, status, type, status == 503 ? 5 : 0, &body);
}

static enum MHD_Result answer_page(struct exchange *x, struct MHD_Connection *c, const char *path)
{
    const struct page_file *file = page_find(path);
    const char *seen = header(c, "If-None-Match");
    const bool same = seen && strstr(seen, file->etag);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(same ? 0 : file->n, (void *)(uintptr_t)file->bytes, MHD_RESPMEM_PERSISTENT);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "ETag", file->etag);
    MHD_add_response_header(response, "Cache-Control", "no-cache"); /* asks each time whether it has changed */
    MHD_add_response_header(response, "Content-Security-Policy", PAGE_POLICY);
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    return send_response(x->server, c, same ? 304 : 200, same ? NULL : file->type, 0, response);
}

/* All events are there. */
static enum MHD_Result send_whole(struct exchange *x, struct MHD_Connection *c)
{
    struct buffer body = {.at = NULL};
    for (;;) {
        pthread_mutex_lock(&x->server->lock);
        struct event *e = exchange_take(x);
        pthread_mutex_unlock(&x->server->lock);
        if (!e) break;
        answer_event(&x->answer, e);
        if (e->kind == EVENT_END) {
            const struct outcome o = e->outcome;
            event_free(e);
            if (o.ending == ENDING_FAILED) return send_fault(x->server, c, &o.fault, x->endpoint->style);
            x->answer.writer->whole(&x->answer, &o, &body);
            break;
        }
        event_free(e);
    }
    body.failed = body.failed || x->answer.text.failed || x->answer.reasoning.failed;
    return send_body(x->server, c, 200, "application/json", 0, &body);
}

static enum MHD_Result go_on(struct exchange *x, struct MHD_Connection *c, const char *path, const char *method)
{
    struct server *s = x->server;
    if (x->refused && x->fault.status == 405) return send_not_allowed(x, c, path);
    if (x->refused) return send_fault(s, c, &x->fault, x->endpoint->style);
    if (!strcmp(method, "OPTIONS")) return send_preflight(s, c, path);
    pthread_mutex_lock(&s->lock);
    const enum exchange_state state = x->state;
    bool ended = x->last_event && x->last_event->kind == EVENT_END;
    const bool only_failed = ended && x->first_event == x->last_event && x->last_event->outcome.ending == ENDING_FAILED;
    const bool gone = x->gone;
    if (state == EXCHANGE_WAITING && (!ended || x->request.stream) && !gone) rest(x, c); /* woken too early */
    pthread_mutex_unlock(&s->lock);
    switch (state) {
    case EXCHANGE_RECEIVING:
        if (x->endpoint->kind == ENDPOINT_PAGE) return answer_page(x, c, path);
        return x->endpoint->kind == ENDPOINT_AT_ONCE ? answer_at_once(x, c) : hand_on(x, c);
    case EXCHANGE_WAITING: return gone ? MHD_NO : ended && !x->request.stream ? send_whole(x, c) : MHD_YES;
    case EXCHANGE_STREAMING: /* one that failed before it began is no stream */
        return only_failed ? send_whole(x, c) : send_stream(x, c);
    case EXCHANGE_REPLY: return send_body(s, c, x->reply_status, x->reply_type, x->reply_retry_s, &x->reply);
    }
    return MHD_NO;
}

static enum MHD_Result handle(void *user, struct MHD_Connection *c, const char *path, const char *method,
                              const char *version, const char *bytes, size_t *n, void **state)
{
    struct exchange *x = *state;
    if (!x) return begin(user, c, path, method, state);
    if (*n) {
        enum MHD_Result result = receive(x, bytes, *n);
        *n = 0;
        return result;
    }
    link_whole(user, link_of(c));
    return go_on(x, c, path, method);
}

/* Sees the address of a request before it is taken apart. Nothing here reads a query, so it is cut off: libmicrohttpd
 * (0.9.75) would keep each argument in the memory for the head, and where that is too little for thousands of them it
 * never answers. It looks for arguments up to the text's end, and it is its own buffer, which it writes to as well. */
static void *cut_query(void *user, const char *address, struct MHD_Connection *c)
{
    (void)user;
    (void)c;
    char *query = address ? strchr(address, '?') : NULL;
    if (query) query[1] = '\0'; /* it has found the mark itself already */
    return NULL;
}

static void completed(void *user, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why)
{
    struct server *s = user;
    struct exchange *x = *state;
    struct link *l = link_of(c);
    link_rest(s, l);
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, s->options.idle_s);
    if (!x) return;
    *state = NULL;
    pthread_mutex_lock(&s->lock);
    warden_unwatch(s, x);
    x->connection = NULL;
    x->resting = false;
    pthread_cond_broadcast(&s->written);
    pthread_mutex_unlock(&s->lock);
    log_request(x, l ? l->status : 0, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
    exchange_release(x);
}

/* Every processor computes, and this thread has little to do: with a short slice it gets its turn at once (Linux 6.12
 * and later; before, the same request changes nothing). */
static void take_short_slices(void)
{
#if defined(__linux__) && defined(SYS_sched_setattr)
    /* As Linux has it (its header and the C library's exclude each other). */
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } a = {.size = sizeof a};
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || a.policy != 0) return;
    a.runtime = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &a, 0);
#endif
}

static void count_connections(void *user, struct MHD_Connection *c, void **socket_state,
                              enum MHD_ConnectionNotificationCode code)
{
    struct server *s = user;
    if (!s->short_slices) take_short_slices();
    s->short_slices = true;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        atomic_fetch_add(&s->metrics.connections, 1);
        *socket_state = fd ? link_open(s, fd->connect_fd) : NULL;
    } else {
        atomic_fetch_sub(&s->metrics.connections, 1);
        link_close(s, *socket_state);
        *socket_state = NULL;
    }
}

static void take_line(void *user, const char *format, va_list args) BASE_PRINTF(2, 0);
static void take_line(void *user, const char *format, va_list args)
{
    char line[500];
    vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    server_log(user, SLUICE_LOG_DEBUG, "http: %s", line);
}

/* ---- start and stop ---- */

enum sluice_status http_start(struct server *s, int listen_fd, struct sluice_error *err)
{
    const struct serve_options *o = &s->options;
    s->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL,
                                 NULL, handle, s, MHD_OPTION_EXTERNAL_LOGGER, take_line, s, MHD_OPTION_LISTEN_SOCKET,
                                 listen_fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->connections_max + LINK_SPARE,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, o->header_bytes_max, MHD_OPTION_CONNECTION_TIMEOUT,
                                 (unsigned)o->idle_s, MHD_OPTION_NOTIFY_COMPLETED, completed, s,
                                 MHD_OPTION_NOTIFY_CONNECTION, count_connections, s, MHD_OPTION_URI_LOG_CALLBACK,
                                 cut_query, s, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    if (s->daemon) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_RUN, "is the limit of threads or descriptors reached (ulimit -n)?",
                     "the HTTP server does not start");
}

void http_quiesce(struct server *s)
{
    const MHD_socket fd = MHD_quiesce_daemon(s->daemon);
    if (fd != MHD_INVALID_SOCKET) close(fd);
}

void http_stop(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->phase, SERVER_STOPPING);
    for (struct exchange *x = s->exchanges; x; x = x->next) {
        x->gone = true;
        exchange_wake(x);
    }
    pthread_mutex_unlock(&s->lock);
    MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}
