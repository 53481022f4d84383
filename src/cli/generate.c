#include "cli/generate.h"

#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/out.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

_Static_assert(SLUICE_PIECE_BYTES_MAX <= STOP_PUSH_BYTES_MAX, "a token's text fits the stop filter");

static uint64_t random_seed(void)
{
    uint32_t seed; /* 32 bits: short enough to be typed again */
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed) seed = (uint32_t)report_now_ns();
    return seed;
}

static enum sluice_status read_schema(struct generator *g, const char *path, struct sluice_error *err)
{
    char *text;
    size_t bytes;
    enum sluice_status status = input_read(path, &text, &bytes, err);
    if (status) return status;
    status = sluice_grammar_json(g->model->engine, text, bytes, &g->grammar, err);
    free(text);
    return status;
}

enum sluice_status generate_begin(struct generator *g, struct open_model *m, struct report *r,
                                  const struct cli_options *o, struct sluice_error *err)
{
    struct sluice_sampling sampling;
    memset(g, 0, sizeof *g);
    g->model = m;
    g->report = r;
    g->tokens_max = cli_given(o, OPT_MAX_TOKENS) ? cli_integer(o, OPT_MAX_TOKENS) : UINT64_MAX;
    for (unsigned i = 0; i < o->value[OPT_STOP].n_repeats; i++) g->stops[g->n_stops++] = o->stops[i];
    struct stop_filter probe;
    stop_init(&probe, NULL, NULL);
    enum sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < g->n_stops && !status; i++) status = stop_add(&probe, g->stops[i], err);
    if (status) return status;

    sluice_sampling_init(&sampling);
    sampling.temperature = cli_flag(o, OPT_GREEDY) ? 0 : (float)cli_number(o, OPT_TEMP);
    sampling.top_k = (uint32_t)cli_integer(o, OPT_TOP_K);
    sampling.top_p = (float)cli_number(o, OPT_TOP_P);
    sampling.min_p = (float)cli_number(o, OPT_MIN_P);
    sampling.repeat_penalty = (float)cli_number(o, OPT_REPEAT_PENALTY);
    sampling.repeat_last = (uint32_t)cli_integer(o, OPT_REPEAT_LAST);
    sampling.presence_penalty = (float)cli_number(o, OPT_PRESENCE_PENALTY);
    sampling.frequency_penalty = (float)cli_number(o, OPT_FREQUENCY_PENALTY);
    sampling.bias = o->biases;
    sampling.n_bias = o->value[OPT_LOGIT_BIAS].n_repeats;
    sampling.seed = g->seed = cli_given(o, OPT_SEED) ? cli_integer(o, OPT_SEED) : random_seed();
    status = sluice_session_open(m->engine, &g->session, err);
    if (!status) status = sluice_session_sampling(g->session, &sampling, err);
    if (!status && cli_given(o, OPT_SCHEMA)) status = read_schema(g, cli_text(o, OPT_SCHEMA), err);
    if (status) {
        generate_finish(g);
        return status;
    }
    if (sampling.temperature > 0 && !cli_given(o, OPT_SEED)) report_note(r, "seed %llu", (unsigned long long)g->seed);
    return SLUICE_OK;
}

void generate_finish(struct generator *g)
{
    if (g->session) sluice_session_close(g->session);
    sluice_grammar_free(g->grammar);
    g->grammar = NULL;
    free(g->tokens);
    free(g->text);
    g->session = NULL;
    g->tokens = NULL;
    g->text = NULL;
}

enum sluice_status generate_chat_stops(struct generator *g, struct sluice_error *err)
{
    const char *text = sluice_chat_stop(g->model->engine);
    g->answers = true;
    if (!text || !text[0]) return SLUICE_OK;
    struct sluice_encode_options how = {.special = true};
    int32_t *ids;
    size_t n;
    enum sluice_status status = open_encode(g->model, text, strlen(text), &how, &ids, &n, err);
    if (status) return status;
    /* One token: a control token has no text, so it must be known by its id. */
    if (n == 1 && g->n_end_ids < GENERATE_END_IDS_MAX) g->end_ids[g->n_end_ids++] = ids[0];
    free(ids);
    if (g->n_stops < STOP_STRINGS_MAX) g->stops[g->n_stops++] = text;
    return SLUICE_OK;
}

/* ---- the tokens of the session ---- */

static bool tokens_reserve(struct generator *g, size_t n)
{
    if (n <= g->tokens_room) return true;
    size_t room = g->tokens_room ? g->tokens_room : 1024;
    while (room < n) room *= 2;
    int32_t *more = realloc(g->tokens, room * sizeof *more);
    if (!more) return false;
    g->tokens = more;
    g->tokens_room = room;
    return true;
}

/* Evaluates and keeps our list equal to the session, whatever comes of it. */
static enum sluice_status append_tokens(struct generator *g, const int32_t *ids, size_t n, struct sluice_error *err)
{
    if (!tokens_reserve(g, g->n_tokens + n)) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    memcpy(g->tokens + g->n_tokens, ids, n * sizeof *ids);
    enum sluice_status status = open_eval(g->model, g->session, ids, n, NULL, NULL, NULL, err);
    g->n_tokens = sluice_session_tokens(g->session);
    return status;
}

enum sluice_status generate_forget(struct generator *g, struct sluice_error *err)
{
    enum sluice_status status = sluice_session_rewind(g->session, 0, err);
    if (!status) g->n_tokens = 0;
    return status;
}

static enum sluice_status rewind_to_common(struct generator *g, const int32_t *ids, size_t n, size_t *common,
                                           struct sluice_error *err)
{
    size_t same = 0;
    while (same < n && same < g->n_tokens && g->tokens[same] == ids[same]) same++;
    if (same == n) same = n - 1; /* the logits of the last token are needed: it is evaluated again */
    *common = same;
    if (same == g->n_tokens) return SLUICE_OK;
    enum sluice_status status = sluice_session_rewind(g->session, same, err);
    if (!status) g->n_tokens = same;
    return status;
}

/* Kept prefixes may know more of the prompt than the session does. */
static enum sluice_status reuse(struct generator *g, const int32_t *ids, size_t n, size_t *common,
                                struct sluice_error *err)
{
    if (!g->model->keeps) return rewind_to_common(g, ids, n, common, err);
    if (!tokens_reserve(g, n)) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    enum sluice_status status = sluice_session_reuse(g->session, ids, n, common, err);
    g->n_tokens = sluice_session_tokens(g->session);
    memcpy(g->tokens, ids, *common * sizeof *ids);
    return status;
}

/* ---- text ---- */

static void text_sink(void *user, const char *text, size_t bytes)
{
    struct generator *g = user;
    if (g->text_bytes + bytes + 1 > g->text_room) {
        size_t room = g->text_room ? g->text_room : 4096;
        while (room < g->text_bytes + bytes + 1) room *= 2;
        char *more = realloc(g->text, room);
        if (!more) {
            g->out_of_memory = true;
            return;
        }
        g->text = more;
        g->text_room = room;
    }
    memcpy(g->text + g->text_bytes, text, bytes);
    g->text_bytes += bytes;
    g->text[g->text_bytes] = '\0';
    out_write(text, bytes);
    out_flush();
}

static bool ends(const struct generator *g, int32_t id)
{
    for (size_t i = 0; i < g->n_end_ids; i++)
        if (g->end_ids[i] == id) return true;
    return sluice_ends_generation(g->model->engine, id);
}

static enum generate_end end_of(enum sluice_status status)
{
    if (status == SLUICE_CANCELLED) return GENERATE_INTERRUPTED;
    return status == SLUICE_CONTEXT_FULL ? GENERATE_CONTEXT : GENERATE_FAILED;
}

/* Token by token, until something ends it. */
static enum generate_end decode_loop(struct generator *g, struct stop_filter *filter, struct sluice_decoder *decoder,
                                     uint64_t begin_ns, struct sluice_error *err)
{
    char piece[SLUICE_PIECE_BYTES_MAX];
    sluice_session_answer(g->session);
    while (g->n_new < g->tokens_max) {
        int32_t id;
        if (interrupt_pending()) return GENERATE_INTERRUPTED;
        if (out_failed()) return GENERATE_OUTPUT;
        if (g->out_of_memory) {
            base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory for the answer's text");
            return GENERATE_FAILED;
        }
        if (g->grammar ? sluice_sample_constrained(g->session, g->grammar, &id, err)
                       : sluice_sample(g->session, &id, err))
            return GENERATE_FAILED;
        if (g->n_new == 0) g->first_token_ns = report_now_ns() - begin_ns;
        if (ends(g, id)) return GENERATE_MODEL;
        g->n_new++;
        if (stop_push(filter, piece, sluice_decode(g->model->engine, decoder, id, false, piece))) return GENERATE_STOP;
        if (g->n_new == g->tokens_max) break; /* nobody will ask for what follows: not evaluated */
        enum sluice_status status = append_tokens(g, &id, 1, err);
        if (status) return end_of(status);
    }
    return GENERATE_LENGTH;
}

static enum generate_end answer(struct generator *g, const int32_t *ids, size_t n, struct sluice_error *err)
{
    uint64_t begin_ns = report_now_ns();
    struct sluice_decoder decoder;
    struct stop_filter filter;
    char piece[SLUICE_PIECE_BYTES_MAX];
    size_t common;

    g->n_new = g->first_token_ns = 0;
    g->text_bytes = 0;
    if (g->text) g->text[0] = '\0';
    if (g->grammar) sluice_grammar_reset(g->grammar);
    sluice_decoder_init(&decoder, !g->answers);
    stop_init(&filter, text_sink, g);
    for (size_t i = 0; i < g->n_stops; i++)
        if (stop_add(&filter, g->stops[i], err)) return GENERATE_FAILED;
    if (n == 0) {
        base_fail(err, SLUICE_ERR_USAGE, "give it some text to continue: -p TEXT, or -f FILE", "the prompt is empty");
        return GENERATE_FAILED;
    }
    if (n > g->model->info.ctx) {
        base_fail(err, SLUICE_CONTEXT_FULL, NULL, "context full (%u tokens): the prompt has %zu", g->model->info.ctx,
                  n);
        base_hint(err, "use --ctx %zu or more (the model was made for %u), or a shorter prompt", n + 256,
                  g->model->info.n_ctx_train);
        return GENERATE_FAILED;
    }
    if (reuse(g, ids, n, &common, err)) return GENERATE_FAILED;

    g->report->prefill_shown = n - common > 1;
    enum sluice_status status = append_tokens(g, ids + common, n - common, err);
    g->report->prefill_shown = false;
    report_clear(g->report);
    if (status) return status == SLUICE_CANCELLED ? GENERATE_INTERRUPTED : GENERATE_FAILED;

    enum generate_end end = decode_loop(g, &filter, &decoder, begin_ns, err);
    if (end == GENERATE_STOP) return end;
    if (!stop_push(&filter, piece, sluice_decode(g->model->engine, &decoder, -1, false, piece))) stop_end(&filter);
    return end;
}

enum generate_end generate_text(struct generator *g, const int32_t *ids, size_t n, struct sluice_error *err)
{
    struct sluice_error ignored;
    const enum generate_end end = answer(g, ids, n, err);
    if (g->model->keeps) (void)sluice_session_keep(g->session, &ignored); /* as far as it came */
    return end;
}
