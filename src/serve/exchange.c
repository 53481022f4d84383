#include "serve/exchange.h"

#include "serve/api.h"
#include "serve/server.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct exchange *exchange_create(struct server *s, const struct endpoint *endpoint, struct MHD_Connection *connection)
{
    struct exchange *x = calloc(1, sizeof *x);
    if (!x) return NULL;
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    x->server = s;
    x->endpoint = endpoint;
    x->connection = connection;
    x->fd = fd ? fd->connect_fd : -1;
    x->begin_ns = x->last_event_ns = server_now_ns();
    atomic_init(&x->references, 1);
    pthread_mutex_lock(&s->lock);
    x->number = ++s->n_numbers;
    x->next = s->exchanges;
    if (x->next) x->next->previous = x;
    s->exchanges = x;
    s->n_exchanges++;
    pthread_mutex_unlock(&s->lock);
    return x;
}

void exchange_hold(struct exchange *x) { atomic_fetch_add(&x->references, 1); }

void event_free(struct event *event)
{
    if (!event) return;
    if (event->probs) {
        free(event->probs->taken.text);
        for (size_t i = 0; i < event->probs->n; i++) free(event->probs->top[i].text);
        free(event->probs);
    }
    buffer_free(&event->text);
    free(event);
}

void exchange_release(struct exchange *x)
{
    if (atomic_fetch_sub(&x->references, 1) != 1) return;
    struct server *s = x->server;
    pthread_mutex_lock(&s->lock);
    if (x->next) x->next->previous = x->previous;
    *(x->previous ? &x->previous->next : &s->exchanges) = x->next;
    s->n_exchanges--;
    s->body_bytes -= x->body_charged;
    pthread_mutex_unlock(&s->lock);
    for (struct event *e = x->first_event, *next; e; e = next) {
        next = e->next;
        event_free(e);
    }
    buffer_free(&x->body);
    buffer_free(&x->reply);
    answer_free(&x->answer);
    if (x->has_request) request_free(&x->request);
    free(x);
}

void exchange_wake(struct exchange *x)
{
    if (!x->resting || !x->connection) return;
    x->resting = false;
    MHD_resume_connection(x->connection);
}

void exchange_reply(struct exchange *x, int status, const char *type, struct buffer *body)
{
    pthread_mutex_lock(&x->server->lock);
    x->state = EXCHANGE_REPLY;
    x->reply_status = status;
    x->reply_type = type;
    x->reply = *body;
    *body = (struct buffer){.at = NULL};
    exchange_wake(x);
    pthread_mutex_unlock(&x->server->lock);
}

void exchange_begin(struct exchange *x)
{
    pthread_mutex_lock(&x->server->lock);
    if (x->state == EXCHANGE_WAITING) {
        x->state = EXCHANGE_STREAMING;
        exchange_wake(x);
    }
    pthread_mutex_unlock(&x->server->lock);
}

void exchange_fault(struct exchange *x, const struct fault *f)
{
    struct buffer body = {.at = NULL};
    fault_write(f, x->endpoint->style, &body);
    x->reply_retry_s = f->retry_s;
    exchange_reply(x, f->status, "application/json", &body);
}

void exchange_push(struct exchange *x, struct event *event)
{
    if (!event) return;
    pthread_mutex_lock(&x->server->lock);
    if (!x->connection) {
        pthread_mutex_unlock(&x->server->lock);
        event_free(event);
        return;
    }
    event->next = NULL;
    *(x->last_event ? &x->last_event->next : &x->first_event) = event;
    x->last_event = event;
    x->event_bytes += sizeof *event + event->text.n;
    x->last_event_ns = server_now_ns();
    /* An answer that is not streamed is written once, at its end. */
    if (x->request.stream || event->kind == EVENT_END) exchange_wake(x);
    pthread_mutex_unlock(&x->server->lock);
}

void exchange_text(struct exchange *x, enum event_kind kind, size_t call, const char *text, size_t bytes)
{
    pthread_mutex_lock(&x->server->lock);
    struct event *last = x->last_event;
    if (last && last->kind == kind && last->call == call && kind != EVENT_CALL) {
        buffer_put(&last->text, text, bytes);
        x->event_bytes += bytes;
        x->last_event_ns = server_now_ns();
        pthread_mutex_unlock(&x->server->lock);
        return;
    }
    pthread_mutex_unlock(&x->server->lock);
    struct event *e = calloc(1, sizeof *e);
    if (!e) return; /* the answer's end says that memory ran out */
    e->kind = kind;
    e->call = call;
    buffer_put(&e->text, text, bytes);
    exchange_push(x, e);
}

struct event *exchange_take(struct exchange *x)
{
    struct event *e = x->first_event;
    if (!e) return NULL;
    x->first_event = e->next;
    if (!x->first_event) x->last_event = NULL;
    const size_t bytes = sizeof *e + e->text.n;
    x->event_bytes -= bytes < x->event_bytes ? bytes : x->event_bytes;
    if (e->kind == EVENT_END) {
        x->ended = true;
        x->outcome = e->outcome;
    }
    return e;
}

void exchange_written(struct exchange *x, uint64_t most_ns)
{
    struct server *s = x->server;
    const uint64_t until_ns = server_now_ns() + most_ns;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_mutex_lock(&s->lock);
    while (x->request.stream && x->connection && !x->resting && !x->gone)
        if (pthread_cond_timedwait(&s->written, &s->lock, &until)) break;
    pthread_mutex_unlock(&s->lock);
}

bool exchange_gone(struct exchange *x)
{
    pthread_mutex_lock(&x->server->lock);
    const bool gone = x->gone || !x->connection;
    pthread_mutex_unlock(&x->server->lock);
    return gone;
}

bool exchange_full(struct exchange *x)
{
    pthread_mutex_lock(&x->server->lock);
    const bool full = x->request.stream && x->event_bytes > EVENTS_BYTES_MAX;
    pthread_mutex_unlock(&x->server->lock);
    return full;
}
