/* A library in place of libsluice, for tests of the program: a model whose text is known beforehand.
 *
 * Tokens are bytes; 256 is BOS, 257 the end. The model "file" is a text: its first line holds settings, the rest is
 * what the model answers to any prompt, byte by byte, and then the end. Settings, separated by spaces: template (the
 * second line is the chat template; a prompt is the JSON that it would get), opened (a prompt ends with <think>),
 * ctx=N, slow (10 ms a token), nobos, broken (refused as a damaged model), huge (refused for memory), forever (the
 * answer is repeated), pace=N (N ms a token), endless-text (encoding takes 30 s), stubborn (eval heeds no cancel),
 * dense (no experts), figures (evaluating fills every figure of struct sluice_stats), idle=N (sluice_idle has N slices
 * of work of 5 ms, and says a line in the first). FAKE_LOG names a file that gets a line for each call: "encode BYTES",
 * "eval N", "rewind N", "idle MS", "hotlist MAX". FAKE_OPTIONS names a file that gets a line for each engine: what it
 * was opened with. */
#include "sluice.h"

#include "base/error.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BOS 256
#define END 257
#define N_VOCAB 258

struct sluice_engine {
    struct sluice_options options;
    char *path, *text, *answer, *template;
    uint32_t ctx;
    uint32_t idle_left, pace_ms;
    bool slowtext, stubborn, nobos, forever, dense, figures, opened, idled;
    atomic_bool cancelled;
    struct sluice_stats stats;
};

struct sluice_session {
    sluice_engine *e;
    size_t n, said; /* tokens; bytes of the answer that were predicted */
    struct sluice_sampling sampling;
};

static void note(const char *what, size_t n)
{
    const char *path = getenv("FAKE_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (!log) return;
    fprintf(log, "%s %zu\n", what, n);
    fclose(log);
}

const char *sluice_version(void) { return "0.1.0"; }
int sluice_exit_code(enum sluice_status status) { return base_exit_code(status); }
const char *sluice_status_name(enum sluice_status status) { return base_status_name(status); }

void sluice_options_init(struct sluice_options *o)
{
    memset(o, 0, sizeof *o);
    o->struct_bytes = sizeof *o;
}

static const char *or_none(const char *text) { return text ? text : "-"; }

static void note_options(const struct sluice_options *o)
{
    const char *path = getenv("FAKE_OPTIONS");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (!log) return;
    fprintf(log, "usage=%s no_usage=%d hotlist=%s cold=%d warm=%u pin=%s prefetch=%s route=%s ", or_none(o->usage_path),
            o->no_usage, or_none(o->hotlist_path), o->cold, o->warm_experts, or_none(o->pin), or_none(o->prefetch),
            or_none(o->route));
    fprintf(log, "lock=%s margin=%s simulate=%s pre=%s plan=%d\n", or_none(o->lock), or_none(o->lock_margin),
            or_none(o->simulate_used_memory), or_none(o->pre), o->plan_only);
    fclose(log);
}

static bool has(const char *settings, const char *word)
{
    const char *end = strchr(settings, '\n'), *at = strstr(settings, word);
    return at && (!end || at < end);
}

enum sluice_status sluice_engine_open(const struct sluice_options *o, sluice_engine **out, struct sluice_error *err)
{
    note_options(o);
    FILE *file = fopen(o->model_path, "rb");
    if (!file) return base_fail(err, SLUICE_ERR_IO, "check the path", "%s: cannot open", o->model_path);
    char *text = calloc(1, 1 << 16);
    size_t bytes = fread(text, 1, (1 << 16) - 1, file);
    fclose(file);
    enum sluice_status status = SLUICE_OK;
    if (bytes == 0 || has(text, "broken"))
        status = base_fail(err, SLUICE_ERR_MODEL, "download it again", "%s: is broken", o->model_path);
    else if (has(text, "huge"))
        status = base_fail(err, SLUICE_ERR_MEMORY, "use --memory 9G", "--memory: the budget is too small");
    if (status) {
        free(text);
        return status;
    }
    sluice_engine *e = calloc(1, sizeof *e);
    e->options = *o;
    e->path = strdup(o->model_path);
    e->text = text;
    e->answer = strchr(text, '\n');
    e->answer = e->answer ? e->answer + 1 : text + bytes;
    if (has(text, "template")) {
        const size_t line = strcspn(e->answer, "\n");
        e->template = strndup(e->answer, line);
        e->answer += line + (e->answer[line] != '\0');
    }
    const char *ctx = strstr(text, "ctx=");
    e->ctx = o->ctx ? o->ctx : ctx ? (uint32_t)atoi(ctx + 4) : 4096;
    const char *pace = strstr(text, "pace=");
    e->pace_ms = has(text, "slow") ? 10 : pace && has(text, "pace=") ? (uint32_t)atoi(pace + 5) : 0;
    e->slowtext = has(text, "endless-text");
    e->stubborn = has(text, "stubborn");
    e->nobos = has(text, "nobos");
    e->forever = has(text, "forever");
    e->dense = has(text, "dense");
    e->opened = has(text, "opened");
    e->figures = has(text, "figures");
    const char *idle = strstr(text, "idle=");
    e->idle_left = idle ? (uint32_t)atoi(idle + 5) : 0;
    if (o->lock) {
        e->stats.lock_wanted_bytes = 4096;
        e->stats.locked_bytes = strcmp(o->lock, "dense") == 0 ? 4096 : 1024;
        e->stats.lock_skipped_bytes = 4096 - e->stats.locked_bytes;
        e->stats.lock_failed_bytes = e->stats.lock_skipped_bytes / 2;
    }
    if (o->log) {
        o->log(o->user, SLUICE_LOG_NOTE, "a note of the library");
        o->log(o->user, SLUICE_LOG_WARN, "a warning of the library");
        o->log(o->user, SLUICE_LOG_DEBUG, "a detail of the library");
    }
    *out = e;
    return SLUICE_OK;
}

void sluice_engine_close(sluice_engine *e)
{
    free(e->path);
    free(e->template);
    free(e->text);
    free(e);
}

void sluice_cancel(sluice_engine *e) { atomic_store(&e->cancelled, true); }

void sluice_model_info_sized(const sluice_engine *e, struct sluice_model_info *out, size_t bytes)
{
    *out = (struct sluice_model_info){
        .architecture = "fake",
        .name = "fake",
        .path = e->path,
        .chat_format = "plain",
        .chat_format_exact = true,
        .n_vocab = N_VOCAB,
        .n_layers = 2,
        .n_expert = e->dense ? 0 : 8,
        .n_expert_used = e->dense ? 0 : 2,
        .expert_bytes = 4096,
        .expert_bytes_per_token = 1024,
        .ctx = e->ctx,
        .chunk = 32,
        .threads = e->options.threads ? e->options.threads : 1,
        .sessions = e->options.sessions && e->options.sessions != SLUICE_SESSIONS_AUTO ? e->options.sessions : 1,
        .cpu = "scalar",
        .io = "sync",
        .policy = "lru",
        .kv_type = "f16"};
}

void sluice_ledger_sized(const sluice_engine *e, struct sluice_ledger *out, size_t bytes)
{
    *out = (struct sluice_ledger){.budget_bytes = 1 << 30,
                                  .machine_limit_bytes = (uint64_t)2 << 30,
                                  .machine_limit_why = "available memory",
                                  .n_rows = 1,
                                  .slots_bytes = 2048,
                                  .slots_all_bytes = 4096,
                                  .slots_floor_bytes = 1024,
                                  .expected_bytes_per_token = 512};
    out->rows[0].name = "dense weights";
    out->rows[0].bytes = 12345;
}

void sluice_stats_sized(const sluice_engine *e, struct sluice_stats *out, size_t bytes)
{
    *out = e->stats;
    out->warm_left = e->idle_left;
}

static void fill_figures(struct sluice_stats *s)
{
    s->slots_bytes = s->slots_limit_bytes = 1024;
    s->shrinks = 2;
    s->shrunk_bytes = 1024;
    s->grows = 1;
    s->pinned = 5;
    s->pinned_bytes = 1280;
    s->kept_decode = 17;
    s->prefetch[0].name = "lookahead";
    s->prefetch[0].on = true;
    s->prefetch[0].named = 1000;
    s->prefetch[0].came_true = 750;
    s->prefetch[0].chosen = 3000;
    s->prefetch[0].reads = 400;
    s->prefetch[0].useful = 300;
    s->prefetch[0].late = 60;
    s->prefetch[0].wasted = 40;
    s->prefetch[0].useful_bytes = 3600000;
    s->prefetch[0].wasted_bytes = 400000;
    s->prefetch[1].name = "next"; /* without figures */
    s->prefetch[2].name = "warm";
    s->prefetch[2].named = s->prefetch[2].reads = s->prefetch[2].useful = 7; /* not judged: nothing chosen */
    s->routes[0].name = "selected";
    s->routes[0].steps = 3;
    s->routes[0].tokens = 96;
    s->routes[0].predicted_ns = 1500000000;
    s->routes[0].ns = 1250000000;
    s->routes[0].read_bytes = 2500000;
    s->routes[1].name = "layers";
    s->n_sizes = 4;
    for (unsigned i = 0; i < 4; i++) { /* 512 MiB, 1 GiB (now), 1.5 GiB, 2 GiB */
        s->sizes[i].memory_bytes = (uint64_t)(i + 1) << 29;
        s->sizes[i].slots_bytes = 1024 * (i + 1);
        s->sizes[i].hit_rate = 0.5 + 0.1 * i;
        s->sizes[i].tokens_per_second = 300 * (i + 1);
    }
    s->useful_memory_bytes = (uint64_t)3 << 30;
}

bool sluice_idle(sluice_engine *e, uint32_t max_ms)
{
    struct timespec pause = {0, 5000000};
    if (e->idle_left == 0) return false;
    note("idle", max_ms);
    if (!e->idled && e->options.log) e->options.log(e->options.user, SLUICE_LOG_NOTE, "a line while idle");
    e->idled = true;
    nanosleep(&pause, NULL);
    e->stats.experts_resident++;
    e->stats.read_bytes += 1000;
    return --e->idle_left > 0;
}

static const struct sluice_heat heat[] = {{0, 1, 0.9}, {1, 2, 0.5}, {0, 3, 0.4}, {1, 0, 0.2}};

enum sluice_status sluice_examine_sized(const struct sluice_options *o, sluice_finding_fn *each, void *user,
                                        struct sluice_examination *out, size_t bytes, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_IO, NULL, "%s: is not looked at here", o->model_path);
}

size_t sluice_hottest(const sluice_engine *e, struct sluice_heat *out, size_t max)
{
    for (size_t i = 0; i < max && i < 4; i++) out[i] = heat[i];
    return 4;
}

enum sluice_status sluice_hotlist_write(const sluice_engine *e, const char *path, size_t max, struct sluice_error *err)
{
    note("hotlist", max);
    FILE *f = fopen(path, "w");
    if (!f) return base_fail(err, SLUICE_ERR_IO, NULL, "%s: cannot create", path);
    fputs("a hotlist\n", f);
    fclose(f);
    return SLUICE_OK;
}

enum sluice_status sluice_encode(const sluice_engine *e, const char *text, size_t bytes,
                                 const struct sluice_encode_options *o, int32_t *ids, size_t ids_max, size_t *n,
                                 struct sluice_error *err)
{
    size_t k = 0;
    if (e->slowtext) note("encode", bytes);
    if (e->slowtext) /* as a tokenizer that nobody can stop */
        for (struct timespec rest = {30, 0}; nanosleep(&rest, &rest) != 0;) continue;
    if ((o->bos && !e->nobos) || o->force_bos) ids[k++] = BOS;
    for (size_t i = 0; i < bytes; i++) {
        if (o->special && bytes - i >= 5 && memcmp(text + i, "<end>", 5) == 0) {
            ids[k++] = END;
            i += 4;
        } else {
            ids[k++] = (unsigned char)text[i];
        }
    }
    *n = k;
    return SLUICE_OK;
}

/* Holds back an unfinished character, as the real one does. state[0]: bytes held; state[1..]: they. */
void sluice_decoder_init(struct sluice_decoder *d, bool continues)
{
    (void)continues;
    *d = (struct sluice_decoder){{0}};
}

size_t sluice_decode(const sluice_engine *e, struct sluice_decoder *d, int32_t id, bool special, char *out)
{
    if (id < 0) {
        size_t n = d->state[0] ? 3 : 0;
        if (n) memcpy(out, "\xef\xbf\xbd", 3);
        d->state[0] = 0;
        return n;
    }
    if (id >= 256) return 0;
    d->state[1 + d->state[0]++] = (unsigned char)id;
    unsigned char lead = d->state[1];
    size_t need = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (d->state[0] < need) return 0;
    memcpy(out, d->state + 1, need);
    d->state[0] = 0;
    return need;
}

bool sluice_ends_generation(const sluice_engine *e, int32_t id) { return id == END; }

enum sluice_status sluice_chat_render(const sluice_engine *e, const struct sluice_message *messages, size_t n,
                                      char **out, size_t *bytes, struct sluice_error *err)
{
    size_t room = 64;
    for (size_t i = 0; i < n; i++) room += strlen(messages[i].text) + 32;
    *out = calloc(1, room);
    for (size_t i = 0; i < n; i++) {
        char *at = *out + strlen(*out);
        snprintf(at, room - (size_t)(at - *out), "%c:%s\n", messages[i].role[0], messages[i].text);
    }
    strcat(*out, "a:");
    *bytes = strlen(*out);
    return SLUICE_OK;
}

enum sluice_status sluice_chat_encode(const sluice_engine *e, const struct sluice_message *messages, size_t n,
                                      int32_t **ids, size_t *n_ids, struct sluice_error *err)
{
    char *text;
    size_t bytes;
    enum sluice_status status = sluice_chat_render(e, messages, n, &text, &bytes, err);
    if (status) return status;
    const struct sluice_encode_options how = {.bos = true, .special = true};
    *ids = calloc(bytes + 8, sizeof **ids);
    status = sluice_encode(e, text, bytes, &how, *ids, bytes + 8, n_ids, err);
    free(text);
    return status;
}

enum sluice_status sluice_chat_encode_json(const sluice_engine *e, const char *vars, size_t bytes, int32_t **ids,
                                           size_t *n_ids, struct sluice_error *err)
{
    static const char thinks[] = "<think>";
    const size_t more = e->opened ? sizeof thinks - 1 : 0;
    *ids = calloc(bytes + more, sizeof **ids);
    for (size_t i = 0; i < bytes; i++) (*ids)[i] = (unsigned char)vars[i];
    for (size_t i = 0; i < more; i++) (*ids)[bytes + i] = thinks[i];
    *n_ids = bytes + more;
    return SLUICE_OK;
}
enum sluice_status sluice_eval_together(sluice_engine *e, const struct sluice_part *parts, size_t n_parts,
                                        struct sluice_error *err)
{
    enum sluice_status st = SLUICE_OK;
    for (size_t i = 0; i < n_parts && !st; i++)
        st = sluice_eval(parts[i].session, parts[i].ids, parts[i].n, parts[i].logits, NULL, NULL, err);
    return st;
}
enum sluice_status sluice_respell(const sluice_engine *e, const int32_t *ids, size_t n, int32_t **out, size_t *n_out,
                                  struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_USAGE, NULL, "not here");
}
size_t sluice_session_common(const sluice_session *s, const int32_t *ids, size_t n) { return 0; }
enum sluice_status sluice_chat_render_json(const sluice_engine *e, const char *vars, size_t bytes, char **out,
                                           size_t *out_bytes, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_USAGE, NULL, "not here");
}
struct sluice_grammar {
    char **texts; /* [n] openers */
    size_t n, n_said;
    char said[1024]; /* the answer's beginning, without blanks */
};

enum sluice_status sluice_grammar_json(sluice_engine *e, const char *schema, size_t bytes, sluice_grammar **out,
                                       struct sluice_error *err)
{
    *out = calloc(1, sizeof **out);
    return SLUICE_OK;
}
static void drop_openers(sluice_grammar *g)
{
    for (size_t i = 0; i < g->n; i++) free(g->texts[i]);
    free(g->texts);
    *g = (sluice_grammar){0};
}
void sluice_grammar_reset(sluice_grammar *g) { g->n_said = 0; }
void sluice_grammar_free(sluice_grammar *g)
{
    if (g) drop_openers(g);
    free(g);
}
enum sluice_status sluice_grammar_openers(sluice_grammar *g, const char *const *texts, size_t n,
                                          struct sluice_error *err)
{
    drop_openers(g);
    g->texts = calloc(n + 1, sizeof *g->texts);
    for (g->n = 0; g->n < n; g->n++) g->texts[g->n] = strdup(texts[g->n]);
    return SLUICE_OK;
}
enum sluice_branch sluice_grammar_branch(const sluice_grammar *g)
{
    enum sluice_branch branch = SLUICE_BRANCH_DOCUMENT;
    for (size_t i = 0; i < g->n; i++) {
        const size_t bytes = strlen(g->texts[i]);
        if (g->n_said >= bytes && !memcmp(g->said, g->texts[i], bytes)) return SLUICE_BRANCH_FREE;
        if (g->n_said < bytes && !memcmp(g->said, g->texts[i], g->n_said)) branch = SLUICE_BRANCH_OPEN;
    }
    return branch;
}
/* The answer is what it is, and is hoped to be of that shape. */
enum sluice_status sluice_sample_constrained(sluice_session *s, sluice_grammar *g, int32_t *id,
                                             struct sluice_error *err)
{
    enum sluice_status status = sluice_sample(s, id, err);
    const bool blank = !g->n_said && strchr(" \n", *id);
    if (*id < BOS && !blank && g->n_said < sizeof g->said) g->said[g->n_said++] = (char)*id;
    return status;
}
const char *sluice_chat_template(const sluice_engine *e) { return e->template; }
size_t sluice_token_bytes(const sluice_engine *e, int32_t id, bool special, char *out)
{
    if (id >= 256) return 0;
    *out = (char)id;
    return 1;
}
size_t sluice_experts_of(const sluice_engine *e, uint32_t layer, struct sluice_place *out, size_t max) { return 0; }

const char *sluice_chat_stop(const sluice_engine *e) { return "<end>"; }
void sluice_free(void *p) { free(p); }

enum sluice_status sluice_session_open(sluice_engine *e, sluice_session **out, struct sluice_error *err)
{
    *out = calloc(1, sizeof **out);
    (*out)->e = e;
    return SLUICE_OK;
}
void sluice_session_close(sluice_session *s) { free(s); }
size_t sluice_session_tokens(const sluice_session *s) { return s->n; }

enum sluice_status sluice_session_rewind(sluice_session *s, size_t n, struct sluice_error *err)
{
    note("rewind", n);
    if (n > s->n) abort();
    s->n = n;
    return SLUICE_OK;
}

static void spend(sluice_engine *e)
{
    struct timespec pause = {0, (long)e->pace_ms * 1000000};
    if (e->pace_ms) nanosleep(&pause, NULL);
}

enum sluice_status sluice_session_reuse(sluice_session *s, const int32_t *ids, size_t n, size_t *n_ready,
                                        struct sluice_error *err)
{
    (void)ids, (void)n;
    note("reuse", n);
    *n_ready = s->n = 0;
    return SLUICE_OK;
}

enum sluice_status sluice_session_keep(sluice_session *s, struct sluice_error *err)
{
    note("keep", s->n);
    return SLUICE_OK;
}

enum sluice_status sluice_eval(sluice_session *s, const int32_t *ids, size_t n, float *logits, sluice_logits_fn *each,
                               void *user, struct sluice_error *err)
{
    sluice_engine *e = s->e;
    note("eval", n);
    if (s->n + n > e->ctx) return base_fail(err, SLUICE_CONTEXT_FULL, NULL, "context full (%u tokens)", e->ctx);
    if (n > 1) s->said = 0;
    float row[N_VOCAB];
    for (size_t i = 0; i < n; i++) {
        struct sluice_progress p = {SLUICE_PHASE_PREFILL, i, n};
        spend(e);
        bool cancelled = atomic_exchange(&e->cancelled, false);
        bool refused = e->options.progress && !e->options.progress(e->options.user, &p);
        if (!e->stubborn && (cancelled || refused)) return base_fail(err, SLUICE_CANCELLED, NULL, "stopped on request");
        s->n++;
        for (size_t j = 0; j < N_VOCAB; j++) row[j] = (float)ids[i] + (float)j / 1000;
        if (each && !each(user, i, row, N_VOCAB)) return base_fail(err, SLUICE_CANCELLED, NULL, "stopped");
    }
    if (logits) memcpy(logits, row, sizeof row);
    if (n > 1) {
        e->stats.tokens_prefill += n;
        e->stats.prefill_ns += 1000000 * n;
    } else {
        e->stats.tokens_decode += n;
        e->stats.decode_ns += 2000000 * n;
    }
    e->stats.hits += 3 * n;
    e->stats.misses += n;
    e->stats.read_bytes += 500 * n;
    e->stats.resident_peak_bytes = 1 << 20;
    if (e->figures) fill_figures(&e->stats);
    return SLUICE_OK;
}

void sluice_sampling_init(struct sluice_sampling *p)
{
    *p = (struct sluice_sampling){sizeof *p, 0.8f, 0.95f, 0.05f, 1.0f, 40, 64, 0, 0, 0, NULL, 0};
}

void sluice_session_answer(sluice_session *s) { (void)s; }

enum sluice_status sluice_session_sampling(sluice_session *s, const struct sluice_sampling *p, struct sluice_error *err)
{
    s->sampling = *p;
    return SLUICE_OK;
}

enum sluice_status sluice_sample(sluice_session *s, int32_t *id, struct sluice_error *err)
{
    unsigned char byte = (unsigned char)s->e->answer[s->said];
    if (!byte && s->e->forever && s->said) byte = (unsigned char)s->e->answer[s->said = 0];
    *id = byte ? byte : END;
    s->said++;
    return SLUICE_OK;
}
