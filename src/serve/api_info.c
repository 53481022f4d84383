/* What the server says about itself. Answered by the HTTP thread from what others have published: never waits for a
 * computation. */
#include "serve/api.h"
#include "serve/scheduler.h"
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

static struct scheduler_snapshot *snapshot(struct server *s)
{
    struct scheduler_snapshot *view = calloc(1, sizeof *view);
    if (view) scheduler_snapshot(s->scheduler, view);
    return view;
}

int info_health(struct server *s, struct buffer *out, const char **type)
{
    const enum server_phase phase = server_phase(s);
    const unsigned long long done = atomic_load(&s->loaded), all = atomic_load(&s->to_load);
    if (phase == SERVER_READY) {
        struct scheduler_snapshot *view = snapshot(s);
        const bool good = !view || !view->stats.files_changed;
        free(view);
        buffer_word(
            out, good ? "{\"status\":\"ok\"}"
                      : "{\"status\":\"error\",\"error\":{\"code\":503,\"message\":\"a file of the model was changed "
                        "while it was in use; start the server again with the file as it should be\",\"type\":"
                        "\"unavailable_error\"}}");
        return good ? 200 : 503;
    }
    if (phase == SERVER_LOADING)
        buffer_json(out, json_pack("{s:s, s:o, s:{s:i, s:s, s:s}}", "status", "loading model", "progress",
                                   buffer_real(all ? (double)done / (double)all : 0.0), "error", "code", 503, "message",
                                   "Loading model", "type", "unavailable_error"));
    else
        buffer_json(out, json_pack("{s:s, s:{s:i, s:s, s:s}}", "status", "stopping", "error", "code", 503, "message",
                                   "the server is stopping", "type", "unavailable_error"));
    return 503;
}

static json_t *model_json(struct server *s)
{
    pthread_mutex_lock(&s->lock);
    const struct sluice_model_info info = s->info;
    pthread_mutex_unlock(&s->lock);
    json_t *meta =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "n_ctx", (json_int_t)info.ctx, "n_ctx_train",
                  (json_int_t)info.n_ctx_train, "n_vocab", (json_int_t)info.n_vocab, "n_embd", (json_int_t)info.n_embd,
                  "size", (json_int_t)info.file_bytes, "architecture", info.architecture, "name", info.name);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:o}", "id", s->model_name, "object", "model", "type", "model",
                     "display_name", s->model_name, "created", (json_int_t)s->started_s, "owned_by", "sluice", "meta",
                     meta);
}

int info_models(struct server *s, struct buffer *out, const char **type)
{
    buffer_json(out, json_pack("{s:s, s:[o], s:b, s:s, s:s}", "object", "list", "data", model_json(s), "has_more", 0,
                               "first_id", s->model_name, "last_id", s->model_name));
    return 200;
}

int info_model(struct server *s, struct buffer *out, const char **type)
{
    buffer_json(out, model_json(s));
    return 200;
}

int info_props(struct server *s, struct buffer *out, const char **type)
{
    pthread_mutex_lock(&s->lock);
    const struct sluice_model_info info = s->info;
    pthread_mutex_unlock(&s->lock);
    struct scheduler_snapshot *view = snapshot(s);
    const struct sluice_sampling *p = &s->options.sampling;
    const char *template = sluice_chat_template(s->clerk->engine); /* does not change */
    json_t *sampling =
        json_pack("{s:o, s:o, s:o, s:I, s:o, s:I, s:o, s:o}", "temperature", buffer_real((double)p->temperature),
                  "top_p", buffer_real((double)p->top_p), "min_p", buffer_real((double)p->min_p), "top_k",
                  (json_int_t)p->top_k, "repeat_penalty", buffer_real((double)p->repeat_penalty), "repeat_last_n",
                  (json_int_t)p->repeat_last, "presence_penalty", buffer_real((double)p->presence_penalty),
                  "frequency_penalty", buffer_real((double)p->frequency_penalty));
    /* Paths and templates are bytes that others have chosen. */
    buffer_json(out, json_pack("{s:{s:I, s:o}, s:I, s:o, s:s, s:s, s:s, s:o, s:b}", "default_generation_settings",
                               "n_ctx", (json_int_t)info.ctx, "params", sampling, "total_slots",
                               (json_int_t)(view ? view->n_slots : 0), "model_path",
                               buffer_string(info.path, strlen(info.path)), "model_alias", s->model_name, "chat_format",
                               info.chat_format, "build_info", sluice_version(), "chat_template",
                               template ? buffer_string(template, strlen(template)) : json_null(), "is_sleeping", 0));
    free(view);
    return 200;
}

static const char *state_name(const struct scheduler_slot *slot)
{
    return !slot->busy                  ? "idle"
           : slot->state == JOB_PREFILL ? "prompt"
           : slot->state == JOB_DECODE  ? "answer"
                                        : "ending";
}

static json_t *slots_json(const struct server *s, const struct scheduler_snapshot *view)
{
    json_t *list = json_array();
    for (size_t i = 0; i < view->n_slots; i++) {
        const struct scheduler_slot *slot = &view->slots[i];
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "id", (json_int_t)i,
                                        "n_ctx", (json_int_t)s->info.ctx, "is_processing", slot->busy, "state",
                                        state_name(slot), "id_task", (json_int_t)slot->exchange, "n_tokens",
                                        (json_int_t)slot->n_tokens, "n_prompt_tokens", (json_int_t)slot->n_prompt,
                                        "n_prompt_tokens_processed", (json_int_t)slot->n_done, "n_prompt_tokens_cache",
                                        (json_int_t)slot->n_reused, "n_decoded", (json_int_t)slot->n_generated));
    }
    return list;
}

int info_slots(struct server *s, struct buffer *out, const char **type)
{
    struct scheduler_snapshot *view = snapshot(s);
    buffer_json(out, view ? slots_json(s, view) : NULL);
    free(view);
    return 200;
}

int info_experts(struct server *s, struct buffer *out, const char **type)
{
    json_t *experts = scheduler_experts(s->scheduler);
    if (experts) {
        buffer_json(out, experts);
        return 200;
    }
    buffer_word(out, "{\"layers\":[]}"); /* the first picture is being made */
    return 200;
}

/* ---- figures ---- */

static json_t *ledger_json(const struct sluice_ledger *l)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < l->n_rows && i < SLUICE_LEDGER_ROWS_MAX; i++)
        json_array_append_new(rows,
                              json_pack("{s:s, s:I}", "name", l->rows[i].name, "bytes", (json_int_t)l->rows[i].bytes));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "budget_bytes", (json_int_t)l->budget_bytes,
                     "machine_limit_bytes", (json_int_t)l->machine_limit_bytes, "slots_bytes",
                     (json_int_t)l->slots_bytes, "slots_all_bytes", (json_int_t)l->slots_all_bytes, "slots_floor_bytes",
                     (json_int_t)l->slots_floor_bytes, "rows", rows);
}

static json_t *engine_json(const struct sluice_stats *x)
{
    json_t *v =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "tokens_prefill", (json_int_t)x->tokens_prefill,
                  "tokens_decode", (json_int_t)x->tokens_decode, "prefill_ns", (json_int_t)x->prefill_ns, "decode_ns",
                  (json_int_t)x->decode_ns, "hits", (json_int_t)x->hits, "misses", (json_int_t)x->misses, "evictions",
                  (json_int_t)x->evictions, "read_bytes", (json_int_t)x->read_bytes, "wait_ns", (json_int_t)x->wait_ns,
                  "disk_busy_ns", (json_int_t)x->disk_busy_ns);
    json_t *w =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "experts_resident", (json_int_t)x->experts_resident,
                  "experts_slots", (json_int_t)x->experts_slots, "resident_bytes", (json_int_t)x->resident_bytes,
                  "resident_peak_bytes", (json_int_t)x->resident_peak_bytes, "slots_bytes", (json_int_t)x->slots_bytes,
                  "slots_limit_bytes", (json_int_t)x->slots_limit_bytes, "pinned", (json_int_t)x->pinned,
                  "pinned_bytes", (json_int_t)x->pinned_bytes);
    json_object_update(v, w);
    json_decref(w);
    w = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "prefix_tokens", (json_int_t)x->prefix_tokens,
                  "prefix_nodes", (json_int_t)x->prefix_nodes, "prefix_memory_bytes",
                  (json_int_t)x->prefix_memory_bytes, "prefix_memory_limit", (json_int_t)x->prefix_memory_limit,
                  "prefix_disk_bytes", (json_int_t)x->prefix_disk_bytes, "prefix_disk_limit",
                  (json_int_t)x->prefix_disk_limit, "prefix_written_bytes", (json_int_t)x->prefix_written_bytes,
                  "prefix_read_bytes", (json_int_t)x->prefix_read_bytes, "prefix_refused",
                  (json_int_t)x->prefix_refused, "prefix_returned_bytes", (json_int_t)x->prefix_returned_bytes);
    json_object_update(v, w);
    json_decref(w);
    return v;
}

int info_stats(struct server *s, struct buffer *out, const char **type)
{
    struct scheduler_snapshot *view = snapshot(s);
    struct metrics *m = &s->metrics;
    if (!view) {
        buffer_json(out, NULL);
        return 200;
    }
    json_t *server = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "connections", (json_int_t)atomic_load(&m->connections),
        "requests", (json_int_t)atomic_load(&m->requests), "queued", (json_int_t)view->n_queued, "jobs_started",
        (json_int_t)atomic_load(&m->jobs_started), "jobs_finished", (json_int_t)atomic_load(&m->jobs_finished),
        "jobs_cancelled", (json_int_t)atomic_load(&m->jobs_cancelled), "prompt_tokens",
        (json_int_t)atomic_load(&m->prompt_tokens), "prompt_tokens_reused",
        (json_int_t)atomic_load(&m->prompt_tokens_reused), "generated_tokens",
        (json_int_t)atomic_load(&m->generated_tokens));
    json_t *slots = slots_json(s, view);
    buffer_json(out, json_pack("{s:I, s:o, s:o, s:o, s:o}", "time_ns", (json_int_t)server_now_ns(), "engine",
                               engine_json(&view->stats), "ledger", ledger_json(&view->ledger), "slots", slots,
                               "server", server));
    free(view);
    return 200;
}

int info_metrics(struct server *s, struct buffer *out, const char **type)
{
    struct scheduler_snapshot *view = snapshot(s);
    struct metrics *m = &s->metrics;
    *type = "text/plain; version=0.0.4";
    if (!view) {
        out->failed = true;
        return 200;
    }
    const struct sluice_stats *x = &view->stats;
    size_t busy = 0;
    for (size_t i = 0; i < view->n_slots; i++) busy += view->slots[i].busy;
    const struct {
        const char *name, *type, *help;
        double value;
    } rows[] = {
        {"up", "gauge", "1 once the model is loaded", server_phase(s) == SERVER_READY},
        {"expert_hits_total", "counter", "wanted experts that were in the cache", (double)x->hits},
        {"expert_misses_total", "counter", "wanted experts that had to be read", (double)x->misses},
        {"expert_evictions_total", "counter", "experts that left the cache", (double)x->evictions},
        {"read_bytes_total", "counter", "bytes of experts read", (double)x->read_bytes},
        {"disk_wait_seconds_total", "counter", "time that computing stood still for the disk",
         (double)x->wait_ns / 1e9},
        {"disk_busy_seconds_total", "counter", "time with a read under way", (double)x->disk_busy_ns / 1e9},
        {"compute_seconds_total", "counter", "time that steps took without standing still for the disk",
         (double)(x->prefill_ns + x->decode_ns > x->wait_ns ? x->prefill_ns + x->decode_ns - x->wait_ns : 0) / 1e9},
        {"prefill_seconds_total", "counter", "time spent on prompts", (double)x->prefill_ns / 1e9},
        {"decode_seconds_total", "counter", "time spent on answers", (double)x->decode_ns / 1e9},
        {"prefill_tokens_total", "counter", "tokens of prompts computed", (double)x->tokens_prefill},
        {"decode_tokens_total", "counter", "tokens of answers computed", (double)x->tokens_decode},
        {"experts_resident", "gauge", "experts in the cache", (double)x->experts_resident},
        {"experts_pinned", "gauge", "of them, those that stay", (double)x->pinned},
        {"expert_slots", "gauge", "experts that the cache has room for now", (double)x->experts_slots},
        {"expert_cache_bytes", "gauge", "memory that the expert cache has", (double)x->slots_bytes},
        {"expert_cache_limit_bytes", "gauge", "memory that it may use now", (double)x->slots_limit_bytes},
        {"prefix_nodes", "gauge", "runs and states of kept prefixes", (double)x->prefix_nodes},
        {"prefix_memory_bytes", "gauge", "memory of kept prefixes in use", (double)x->prefix_memory_bytes},
        {"prefix_memory_limit_bytes", "gauge", "memory that they may use now", (double)x->prefix_memory_limit},
        {"prefix_returned_bytes_total", "counter", "memory of them given back to the system, which was short of it",
         (double)x->prefix_returned_bytes},
        {"prefix_disk_bytes", "gauge", "bytes of them on the disk", (double)x->prefix_disk_bytes},
        {"prefix_disk_limit_bytes", "gauge", "bytes that they may take there", (double)x->prefix_disk_limit},
        {"prefix_written_bytes_total", "counter", "bytes of prefixes written", (double)x->prefix_written_bytes},
        {"prefix_read_bytes_total", "counter", "bytes of prefixes read", (double)x->prefix_read_bytes},
        {"prefix_refused_total", "counter", "files of prefixes that were damaged or foreign",
         (double)x->prefix_refused},
        {"resident_bytes", "gauge", "resident memory of the process", (double)x->resident_bytes},
        {"budget_bytes", "gauge", "the budget", (double)view->ledger.budget_bytes},
        {"sessions", "gauge", "sessions", (double)view->n_slots},
        {"sessions_busy", "gauge", "sessions at work", (double)busy},
        {"queue_length", "gauge", "requests that wait for a session", (double)view->n_queued},
        {"connections", "gauge", "open connections", (double)atomic_load(&m->connections)},
        {"connections_timed_out_total", "counter", "connections closed without a request, or with half of one",
         (double)atomic_load(&m->timed_out)},
        {"connections_displaced_total", "counter", "idle connections closed to make room for others",
         (double)atomic_load(&m->displaced)},
        {"requests_total", "counter", "HTTP requests", (double)atomic_load(&m->requests)},
        {"requests_refused_total", "counter", "answered with 4xx", (double)atomic_load(&m->refused)},
        {"requests_overloaded_total", "counter", "answered with 429", (double)atomic_load(&m->overloaded)},
        {"requests_unauthorized_total", "counter", "answered with 401 or 403", (double)atomic_load(&m->unauthorized)},
        {"jobs_started_total", "counter", "requests that got a session", (double)atomic_load(&m->jobs_started)},
        {"jobs_finished_total", "counter", "answers completed", (double)atomic_load(&m->jobs_finished)},
        {"jobs_cancelled_total", "counter", "given up because the client had gone",
         (double)atomic_load(&m->jobs_cancelled)},
        {"jobs_failed_total", "counter", "ended by an error, given up ones included",
         (double)atomic_load(&m->jobs_failed)},
        {"prompt_tokens_total", "counter", "tokens of prompts asked for", (double)atomic_load(&m->prompt_tokens)},
        {"prompt_tokens_reused_total", "counter", "of them, known before",
         (double)atomic_load(&m->prompt_tokens_reused)},
        {"generated_tokens_total", "counter", "tokens of answers", (double)atomic_load(&m->generated_tokens)},
        {"prompt_chunks_total", "counter", "chunks of prompts, computed between those steps",
         (double)atomic_load(&m->chunks)},
        {"decode_steps_total", "counter", "steps of answers, each of one or more sessions",
         (double)atomic_load(&m->steps)},
        {"decode_step_sessions_total", "counter", "sessions in those steps", (double)atomic_load(&m->step_sequences)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        metrics_write(out, rows[i].name, rows[i].type, rows[i].help, rows[i].value);
    metrics_write_histogram(out, "first_token_seconds", "from the request to the first token of its answer",
                            &m->first_token);
    metrics_write_histogram(out, "queue_seconds", "from the request to its session", &m->queue);
    metrics_write_histogram(out, "request_seconds", "from the request to the answer's end", &m->duration);
    free(view);
    return 200;
}
