#include "serve/scheduler.h"

#include "serve/chunk.h"
#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PUBLISH_EVERY_NS ((uint64_t)200 * 1000000)
#define EXPERTS_EVERY_NS ((uint64_t)400 * 1000000)
#define EXPERTS_WANTED_NS ((uint64_t)5000 * 1000000) /* a picture that nobody has asked for lately is not made */
#define IDLE_SLICE_MS 5
/* After the last answer: an agent's next request is often there at once, and must not wait for what idle time is for.
 */
#define GRACE_MS 50
#define PAUSE_MS 20 /* until readers that are behind are looked at again */
/* The first token's way to its reader takes a tenth of it; one who does not read is not waited for any longer. */
#define WRITTEN_NS_MAX ((uint64_t)1000000)
/* After a chunk of a prompt, those that are answering go on for this share of the time that it took. */
#define DECODE_SHARE 0.5

/* A session and whom it works for. */
struct lane {
    sluice_session *session;
    struct job *job; /* or NULL */
    uint64_t used;   /* when it was last given away; 0: never */
};

struct scheduler {
    struct server *server;
    pthread_t thread;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    struct job *first, *last;
    size_t n_queued, n_active;
    bool stop;
    struct scheduler_snapshot snapshot;
    char *experts; /* JSON, or NULL */
    uint64_t experts_wanted_ns;

    /* The thread's own. */
    sluice_engine *engine;
    struct sluice_model_info info;
    struct sluice_ledger ledger;
    struct lane lanes[SCHEDULER_SESSIONS_MAX];
    size_t n_lanes, turn; /* turn: whose prompt is next */
    uint64_t n_given;
    struct job *running[SCHEDULER_SESSIONS_MAX]; /* in the step that is being computed */
    size_t n_running;
    struct job *prompting;  /* whose prompt the step computes, or NULL */
    struct chunk_cost cost; /* of a prompt's chunk */
    double credit_ns;       /* time that decode steps have, before the next chunk of a prompt */
    uint64_t published_ns, experts_ns;
};

/* ---- what others may see ---- */

static void publish_experts(struct scheduler *q, uint64_t now)
{
    struct buffer b = {.at = NULL};
    static const char tiers[] = ".lcp";
    q->experts_ns = now;
    buffer_format(&b,
                  "{\"tiers\":{\".\":\"disk\",\"l\":\"loading\",\"c\":\"cache\",\"p\":\"pinned\"},\"n_layers\":%u,"
                  "\"n_expert\":%u,\"n_expert_used\":%u,\"layers\":[",
                  q->info.n_layers, q->info.n_expert, q->info.n_expert_used);
    struct sluice_place *places = calloc(q->info.n_expert ? q->info.n_expert : 1, sizeof *places);
    bool first = true;
    for (uint32_t layer = 0; places && layer < q->info.n_layers; layer++) {
        const size_t n = sluice_experts_of(q->engine, layer, places, q->info.n_expert);
        if (!n || n > q->info.n_expert) continue;
        buffer_format(&b, "%s{\"layer\":%u,\"tier\":\"", first ? "" : ",", layer);
        first = false;
        for (size_t i = 0; i < n; i++) buffer_put(&b, &tiers[places[i].tier], 1);
        buffer_word(&b, "\",\"heat\":[");
        for (size_t i = 0; i < n; i++) buffer_format(&b, "%s%.4g", i ? "," : "", (double)places[i].heat);
        buffer_word(&b, "]}");
    }
    free(places);
    buffer_word(&b, "]}");
    if (b.failed) {
        buffer_free(&b);
        return;
    }
    pthread_mutex_lock(&q->lock);
    free(q->experts);
    q->experts = b.at;
    pthread_mutex_unlock(&q->lock);
}

static void publish(struct scheduler *q, bool now_please)
{
    const uint64_t now = server_now_ns();
    if (!now_please && now - q->published_ns < PUBLISH_EVERY_NS) return;
    q->published_ns = now;
    struct sluice_stats stats;
    sluice_stats(q->engine, &stats);
    pthread_mutex_lock(&q->lock);
    struct scheduler_snapshot *s = &q->snapshot;
    s->stats = stats;
    s->ledger = q->ledger;
    s->n_slots = q->n_lanes;
    for (size_t i = 0; i < q->n_lanes; i++) {
        const struct job *j = q->lanes[i].job;
        struct scheduler_slot *slot = &s->slots[i];
        *slot = (struct scheduler_slot){.busy = j != NULL, .n_tokens = sluice_session_tokens(q->lanes[i].session)};
        if (!j) continue;
        slot->exchange = j->x->number;
        slot->state = j->state;
        slot->n_prompt = j->x->request.n_ids;
        slot->n_done = j->n_done;
        slot->n_reused = j->n_reused;
        slot->n_generated = j->outcome.n_generated;
    }
    const bool experts = q->experts_wanted_ns && now - q->experts_wanted_ns < EXPERTS_WANTED_NS;
    pthread_mutex_unlock(&q->lock);
    if (experts && now - q->experts_ns >= EXPERTS_EVERY_NS) publish_experts(q, now);
}

void scheduler_snapshot(struct scheduler *q, struct scheduler_snapshot *out)
{
    pthread_mutex_lock(&q->lock);
    *out = q->snapshot;
    out->n_queued = q->n_queued;
    pthread_mutex_unlock(&q->lock);
}

json_t *scheduler_experts(struct scheduler *q)
{
    pthread_mutex_lock(&q->lock);
    const bool first = !q->experts_wanted_ns;
    q->experts_wanted_ns = server_now_ns();
    char *text = q->experts ? strdup(q->experts) : NULL;
    if (first) pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
    json_t *value = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return value;
}

/* ---- the engine's callbacks ---- */

static void take_line(void *user, enum sluice_log_level level, const char *line)
{
    struct scheduler *q = user;
    server_log(q->server, level, "%s", line);
}

static bool wanted(struct scheduler *q)
{
    if (server_phase(q->server) == SERVER_STOPPING) return false;
    for (size_t i = 0; i < q->n_running; i++)
        if (!exchange_gone(q->running[i]->x)) return true;
    return q->n_running == 0;
}

/* At least once a layer: whether anybody still wants the running step. */
static bool take_progress(void *user, const struct sluice_progress *p)
{
    struct scheduler *q = user;
    struct server *s = q->server;
    if (p->phase == SLUICE_PHASE_LOAD) {
        atomic_store(&s->loaded, p->done);
        atomic_store(&s->to_load, p->total);
        server_announce(s, ANNOUNCE_LOADS);
        if (s->options.loading) {
            pthread_mutex_lock(&s->log_lock);
            s->options.loading(s->options.user, p);
            pthread_mutex_unlock(&s->log_lock);
        }
        return server_phase(s) == SERVER_LOADING;
    }
    publish(q, false);
    if (q->prompting) job_progress(q->prompting, q->prompting->n_done + (size_t)p->done);
    return wanted(q);
}

/* ---- sessions ---- */

static enum sluice_status open_lanes(struct scheduler *q, struct sluice_error *err)
{
    const size_t n = q->info.sessions;
    enum sluice_status st = SLUICE_OK;
    while (q->n_lanes < n && !st) {
        st = sluice_session_open(q->engine, &q->lanes[q->n_lanes].session, err);
        if (!st) q->n_lanes++;
    }
    return st;
}

/* One step of several sessions. */
static enum sluice_status evaluate(struct scheduler *q, struct job **jobs, size_t n, struct sluice_error *err)
{
    struct sluice_part parts[SCHEDULER_SESSIONS_MAX];
    for (size_t i = 0; i < n; i++)
        parts[i] = (struct sluice_part){
            .session = jobs[i]->session, .ids = &jobs[i]->next_id, .n = 1, .logits = jobs[i]->logits};
    return sluice_eval_together(q->engine, parts, n, err);
}

/* The session holds what is known of the prompt already. */
static enum sluice_status reuse(struct lane *l, struct job *j, size_t *n_ready, struct sluice_error *err)
{
    *n_ready = 0;
    if (j->x->request.prompt_probs) return sluice_session_rewind(l->session, 0, err);
    return sluice_session_reuse(l->session, j->x->request.ids, j->x->request.n_ids, n_ready, err);
}

static bool has_idle_lane(const struct scheduler *q)
{
    for (size_t i = 0; i < q->n_lanes; i++)
        if (!q->lanes[i].job) return true;
    return false;
}

/* Of the idle sessions the one that begins like the prompt; of equal ones the one that was not used for longest. */
static struct lane *choose_lane(struct scheduler *q, const struct serve_request *r)
{
    struct lane *best = NULL;
    size_t best_common = 0;
    for (size_t i = 0; i < q->n_lanes; i++) {
        struct lane *l = &q->lanes[i];
        if (l->job) continue;
        const size_t common = sluice_session_common(l->session, r->ids, r->n_ids);
        if (best && (common < best_common || (common == best_common && l->used >= best->used))) continue;
        best = l;
        best_common = common;
    }
    return best;
}

/* An answer that was generated here and comes back in the conversation is known by its tokens, however its text would
 * be cut now. */
static void respell(struct scheduler *q, struct serve_request *r)
{
    struct sluice_error err;
    int32_t *ids;
    size_t n;
    if (!r->from_text || sluice_respell(q->engine, r->ids, r->n_ids, &ids, &n, &err)) return;
    if (n >= q->info.ctx) { /* the other spelling is too long for the context */
        sluice_free(ids);
        return;
    }
    sluice_free(r->ids);
    r->ids = ids;
    r->n_ids = n;
}

static void give_lane(struct scheduler *q, struct lane *l, struct job *j)
{
    struct sluice_error err;
    size_t n_ready = 0;
    l->job = j;
    l->used = ++q->n_given;
    atomic_fetch_add(&q->server->metrics.jobs_started, 1);
    enum sluice_status st = reuse(l, j, &n_ready, &err);
    if (!st) st = job_begin(j, q->engine, l->session, q->info.n_vocab, n_ready, &err);
    if (st) {
        job_fail(j, &err);
        return;
    }
    atomic_fetch_add(&q->server->metrics.prompt_tokens, j->x->request.n_ids);
    atomic_fetch_add(&q->server->metrics.prompt_tokens_reused, n_ready);
    metrics_observe(&q->server->metrics.queue, j->outcome.queued_ns);
}

/* ---- the loop ---- */

static struct job *take_queued(struct scheduler *q)
{
    pthread_mutex_lock(&q->lock);
    struct job *j = q->first;
    if (j) {
        q->first = j->next;
        if (!q->first) q->last = NULL;
        q->n_queued--;
        q->n_active++;
    }
    pthread_mutex_unlock(&q->lock);
    return j;
}

static void finish(struct scheduler *q, struct job *j)
{
    pthread_mutex_lock(&q->lock);
    q->n_active--;
    pthread_mutex_unlock(&q->lock);
    pthread_mutex_lock(&q->server->lock);
    j->x->generates = false;
    q->server->n_generating--;
    pthread_mutex_unlock(&q->server->lock);
    job_free(j);
}

static void give_up(struct scheduler *q, struct job *j, const char *why)
{
    struct sluice_error err;
    base_fail(&err, SLUICE_CANCELLED, NULL, "%s", why);
    if (j->state != JOB_OVER) atomic_fetch_add(&q->server->metrics.jobs_cancelled, 1);
    job_fail(j, &err);
}

/* From the prompt on again, which the session holds. */
static void begin_again(struct lane *l)
{
    struct job *j = l->job;
    struct sluice_error err;
    size_t n_ready = 0;
    (void)sluice_session_keep(l->session, &err); /* for models that cannot go back */
    enum sluice_status st = reuse(l, j, &n_ready, &err);
    if (!st) st = job_again(j, n_ready, &err);
    if (st) job_fail(j, &err);
}

/* Jobs that ended, or that nobody waits for, leave; queued ones take their places. */
static void admit(struct scheduler *q)
{
    const bool stopping = server_phase(q->server) == SERVER_STOPPING;
    for (size_t i = 0; i < q->n_lanes; i++) {
        struct lane *l = &q->lanes[i];
        if (!l->job) continue;
        if (stopping)
            give_up(q, l->job, "the server is stopping");
        else if (exchange_gone(l->job->x))
            give_up(q, l->job, "the client has gone");
        if (l->job->state == JOB_QUEUED) begin_again(l);
        if (l->job->state != JOB_OVER) continue;
        finish(q, l->job);
        l->job = NULL;
        struct sluice_error ignored; /* the client has its answer: what cannot be kept is computed again */
        (void)sluice_session_keep(l->session, &ignored);
    }
    while (stopping || has_idle_lane(q)) {
        struct job *j = take_queued(q);
        if (!j) break;
        if (stopping || exchange_gone(j->x)) {
            give_up(q, j, stopping ? "the server is stopping" : "the client has gone");
            finish(q, j);
        } else {
            respell(q, &j->x->request);
            struct lane *l = choose_lane(q, &j->x->request);
            give_lane(q, l, j);
            if (j->state != JOB_OVER) continue;
            finish(q, j);
            l->job = NULL;
        }
    }
}

static size_t room_of(const struct scheduler *q, const struct job *j)
{
    return q->info.ctx - sluice_session_tokens(j->session);
}

static void decode_step(struct scheduler *q, struct job **jobs, size_t n)
{
    struct sluice_error err;
    memcpy(q->running, jobs, n * sizeof *jobs);
    q->n_running = n;
    const uint64_t begin = server_now_ns();
    enum sluice_status st = evaluate(q, jobs, n, &err);
    q->credit_ns -= (double)(server_now_ns() - begin);
    q->n_running = 0;
    atomic_fetch_add(&q->server->metrics.steps, 1);
    atomic_fetch_add(&q->server->metrics.step_sequences, n);
    for (size_t i = 0; i < n && st != SLUICE_CANCELLED; i++) /* cancelled: nobody wants them, or the server stops */
        if (st)
            job_fail(jobs[i], &err);
        else
            job_token(jobs[i], room_of(q, jobs[i]));
}

/* Tokens of a prompt that are computed at once: few while others wait for their next token. */
static size_t prompt_room(const struct scheduler *q)
{
    size_t n = 0;
    for (size_t i = 0; i < q->n_lanes; i++) n += q->lanes[i].job && q->lanes[i].job->state != JOB_OVER;
    const size_t shared = chunk_choose(&q->cost);
    return n > 1 && q->info.chunk > shared ? shared : q->info.chunk;
}

/* Somebody waits for it, and the next step would take every processor from those who bring it. */
static void first_token(struct scheduler *q, struct job *j)
{
    job_token(j, room_of(q, j));
    if (j->state != JOB_OVER) exchange_written(j->x, WRITTEN_NS_MAX);
}

static void prompt_chunk(struct scheduler *q, struct job *j)
{
    struct sluice_error err;
    const struct serve_request *r = &j->x->request;
    const size_t left = r->n_ids - j->n_done, most = prompt_room(q), n = left < most ? left : most;
    q->running[0] = q->prompting = j;
    q->n_running = 1;
    struct sluice_stats before, after;
    sluice_stats(q->engine, &before);
    const uint64_t begin = server_now_ns();
    enum sluice_status st = sluice_eval(j->session, r->ids + j->n_done, n, n == left ? j->logits : NULL,
                                        r->prompt_probs ? job_prompt_logits : NULL, j, &err);
    const uint64_t took = server_now_ns() - begin;
    q->credit_ns = (double)took * DECODE_SHARE;
    q->n_running = 0;
    q->prompting = NULL;
    if (st) {
        if (st != SLUICE_CANCELLED) job_fail(j, &err);
        return;
    }
    j->n_done += n;
    atomic_fetch_add(&q->server->metrics.chunks, 1); /* before anybody hears of it */
    job_progress(j, j->n_done);
    if (j->n_done == r->n_ids) first_token(q, j);
    sluice_stats(q->engine, &after);
    chunk_measured(&q->cost, n, took, after.wait_ns - before.wait_ns, after.disk_busy_ns - before.disk_busy_ns);
}

/* The next job, in turn, whose prompt is not read yet. */
static struct job *next_prompt(struct scheduler *q)
{
    for (size_t k = 0; k < q->n_lanes; k++) {
        struct job *j = q->lanes[(q->turn + k) % q->n_lanes].job;
        if (!j || j->state != JOB_PREFILL) continue;
        q->turn = (q->turn + k + 1) % q->n_lanes;
        return j;
    }
    return NULL;
}

/* False: there is nothing to compute. */
static bool step(struct scheduler *q)
{
    struct job *jobs[SCHEDULER_SESSIONS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < q->n_lanes; i++) {
        struct job *j = q->lanes[i].job;
        if (j && j->state == JOB_DECODE && !exchange_full(j->x)) jobs[n++] = j;
    }
    for (size_t at = 0; at < n; at += q->info.chunk) /* a step has room for so many tokens */
        decode_step(q, jobs + at, n - at < q->info.chunk ? n - at : q->info.chunk);
    struct job *prompt = n && q->credit_ns > 0 ? NULL : next_prompt(q);
    if (prompt) prompt_chunk(q, prompt);
    return n || prompt;
}

static void wait_for_work(struct scheduler *q, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&q->lock);
    if (!q->first && !q->stop) pthread_cond_timedwait(&q->changed, &q->lock, &until);
    pthread_mutex_unlock(&q->lock);
}

static bool has_ended(struct scheduler *q)
{
    pthread_mutex_lock(&q->lock);
    const bool ended = q->stop;
    pthread_mutex_unlock(&q->lock);
    return ended;
}

static void loop(struct scheduler *q)
{
    bool more = true; /* to load beforehand, and prefixes to keep */
    bool worked = false;
    while (!has_ended(q)) {
        admit(q);
        if (step(q)) {
            more = worked = true;
            publish(q, false);
            continue;
        }
        admit(q);
        bool busy = false;
        for (size_t i = 0; i < q->n_lanes; i++) busy = busy || q->lanes[i].job;
        publish(q, !busy && (worked || !more));
        if (!busy && worked) {
            worked = false;
            wait_for_work(q, GRACE_MS);
            continue;
        }
        if (!busy && more)
            more = sluice_idle(q->engine, IDLE_SLICE_MS);
        else if (!busy)
            (void)sluice_idle(q->engine, 0); /* others may want memory meanwhile */
        if (busy || !more) wait_for_work(q, busy ? PAUSE_MS : (unsigned)(PUBLISH_EVERY_NS / 1000000));
    }
    admit(q);
}

static enum sluice_status open_engine(struct scheduler *q, struct sluice_error *err)
{
    struct server *s = q->server;
    struct sluice_options o = *s->options.engine;
    o.log = take_line;
    o.progress = take_progress;
    o.user = q;
    enum sluice_status st = sluice_engine_open(&o, &q->engine, err);
    if (st) return st;
    sluice_model_info(q->engine, &q->info);
    sluice_ledger(q->engine, &q->ledger);
    return open_lanes(q, err);
}

static void *run(void *user)
{
    struct scheduler *q = user;
    struct server *s = q->server;
    struct sluice_error err;
    if (open_engine(q, &err)) {
        s->load_error = err;
        atomic_store(&s->phase, SERVER_FAILED);
    } else {
        publish(q, true);
        pthread_mutex_lock(&s->lock);
        s->info = q->info;
        pthread_mutex_unlock(&s->lock);
        int loading = SERVER_LOADING;
        atomic_compare_exchange_strong(&s->phase, &loading, SERVER_READY);
        server_announce(s, ANNOUNCE_LOADS); /* a model may have nothing to load */
        pthread_mutex_lock(&s->log_lock);
        if (s->options.ready) s->options.ready(s->options.user, q->engine);
        pthread_mutex_unlock(&s->log_lock);
        loop(q);
    }
    for (size_t i = 0; i < q->n_lanes; i++) sluice_session_close(q->lanes[i].session);
    if (q->engine) sluice_engine_close(q->engine);
    return NULL;
}

/* ---- for the other threads ---- */

enum sluice_status scheduler_start(struct server *s, struct scheduler **out, struct sluice_error *err)
{
    struct scheduler *q = calloc(1, sizeof *q);
    if (!q) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the scheduler");
    q->server = s;
    pthread_mutex_init(&q->lock, NULL);
    server_cond_init(&q->changed);
    *out = q;
    if (pthread_create(&q->thread, NULL, run, q) == 0) return SLUICE_OK;
    *out = NULL;
    free(q);
    return base_fail(err, SLUICE_ERR_RUN, NULL, "cannot start the engine's thread");
}

bool scheduler_submit(struct scheduler *q, struct exchange *x, struct fault *f)
{
    struct server *s = q->server;
    struct job *j = job_create(x);
    if (!j) return fault_set(f, 500, NULL, "out of memory");
    pthread_mutex_lock(&s->lock);
    x->generates = true;
    s->n_generating++;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&q->lock);
    const bool fits = q->n_queued < s->options.queue_max;
    if (fits) {
        *(q->last ? &q->last->next : &q->first) = j;
        q->last = j;
        q->n_queued++;
        pthread_cond_signal(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    if (fits) return true;
    pthread_mutex_lock(&s->lock);
    x->generates = false;
    s->n_generating--;
    pthread_mutex_unlock(&s->lock);
    job_free(j);
    fault_set(f, 429, NULL, "the queue is full: %u requests are waiting", s->options.queue_max);
    f->retry_s = 2;
    return false;
}

void scheduler_wake(struct scheduler *q)
{
    pthread_mutex_lock(&q->lock);
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

bool scheduler_at_rest(struct scheduler *q)
{
    pthread_mutex_lock(&q->lock);
    const bool rest = q->n_queued == 0 && q->n_active == 0;
    pthread_mutex_unlock(&q->lock);
    return rest;
}

void scheduler_stop(struct scheduler *q)
{
    pthread_mutex_lock(&q->lock);
    q->stop = true;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
    pthread_join(q->thread, NULL);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    free(q->experts);
    free(q);
}
