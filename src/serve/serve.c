#include "serve/serve.h"

#include "serve/clerk.h"
#include "serve/scheduler.h"
#include "serve/server.h"
#include "serve/toolcall.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void serve_options_init(struct serve_options *o)
{
    memset(o, 0, sizeof *o);
    o->host = "127.0.0.1";
    o->port = 8080;
    o->body_bytes_max = (size_t)8 << 20;
    o->header_bytes_max = (size_t)32 << 10;
    o->connections_max = 1100;
    o->queue_max = 64;
    o->idle_s = 120;
    o->receive_s = 30;
    o->stall_s = 60;
    o->keep_alive_s = 10;
    sluice_sampling_init(&o->sampling);
}

uint64_t server_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void server_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attributes);
    pthread_condattr_destroy(&attributes);
}

void server_log(struct server *s, enum sluice_log_level level, const char *format, ...)
{
    char line[1000];
    va_list args;
    if (!s->options.log) return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    base_printable(line);
    pthread_mutex_lock(&s->log_lock);
    s->options.log(s->options.user, level, line);
    pthread_mutex_unlock(&s->log_lock);
}

void server_announce(struct server *s, unsigned what)
{
    pthread_mutex_lock(&s->log_lock);
    const unsigned before = s->announced;
    s->announced |= what;
    if (s->announced == ANNOUNCE_ALL && before != ANNOUNCE_ALL && s->options.listening)
        s->options.listening(s->options.user, s->url);
    pthread_mutex_unlock(&s->log_lock);
}

/* "model" of "/a/model.gguf": what answers call the model. */
static void name_model(struct server *s)
{
    const char *path = s->options.engine->model_path, *slash = strrchr(path, '/');
    snprintf(s->model_name, sizeof s->model_name, "%s", s->options.name ? s->options.name : slash ? slash + 1 : path);
    size_t n = strlen(s->model_name);
    if (!s->options.name && n > 5 && !strcmp(s->model_name + n - 5, ".gguf")) s->model_name[n - 5] = '\0';
    base_printable(s->model_name);
}

/* From the socket to the threads, and back; each step is undone in reverse order. */
static enum sluice_status run(struct server *s, struct sluice_error *err)
{
    int fd = -1;
    enum sluice_status st = listen_keys(s, err);
    if (!st) st = listen_descriptors(s, err);
    if (!st) st = listen_open(s, &fd, err);
    if (st) return st;
    /* The vocabulary before the engine: the ledger measures the process as it stands. */
    if ((st = clerk_open(s, &s->clerk, err))) goto close_socket;
    sluice_model_info(s->clerk->engine, &s->info);
    const char *template = sluice_chat_template(s->clerk->engine);
    s->family = serve_family_detect(template, template ? strlen(template) : 0);
    if ((st = clerk_start(s->clerk, err))) goto stop_nothing;
    if ((st = scheduler_start(s, &s->scheduler, err))) goto stop_clerk;
    if ((st = http_start(s, fd, err))) goto stop_scheduler;
    server_announce(s, ANNOUNCE_ANSWERS);
    st = warden_run(s, err);
    if (server_phase(s) != SERVER_DRAINING) {
        atomic_store(&s->phase, SERVER_STOPPING);
        http_quiesce(s);
    }
    scheduler_wake(s->scheduler);
    for (int i = 0; i < 500 && !scheduler_at_rest(s->scheduler); i++) usleep(10000); /* a layer, at most */
    http_stop(s);
    fd = -1;
stop_scheduler:
    atomic_store(&s->phase, SERVER_STOPPING);
    scheduler_stop(s->scheduler);
stop_clerk:
    clerk_stop(s->clerk);
    if (fd >= 0) close(fd);
    return st;
stop_nothing:
    sluice_engine_close(s->clerk->engine);
    free(s->clerk);
close_socket:
    close(fd);
    return st;
}

enum sluice_status serve_run(const struct serve_options *o, struct sluice_error *err)
{
    struct server *s = calloc(1, sizeof *s);
    if (!s) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the server");
    s->options = *o;
    s->started_s = (int64_t)time(NULL);
    s->epoll_fd = s->signal_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->log_lock, NULL);
    server_cond_init(&s->written);
    name_model(s);
    enum sluice_status st = warden_open(s, err);
    if (!st) st = run(s, err);
    if (s->epoll_fd >= 0) close(s->epoll_fd);
    if (s->signal_fd >= 0) close(s->signal_fd);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->log_lock);
    pthread_cond_destroy(&s->written);
    free(s->keys);
    free(s);
    return st;
}
