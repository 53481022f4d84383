/* Gathers what the plan's arithmetic needs: the machine's limit, the process as it stands, and the sizes that the model
 * asks for. */
#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The process grows after it is measured: the allocator's slack, kernel-side rings, the table that this function fills.
 * Code that is touched later is counted already (os_process_bytes). Seen on x86-64 Debian: below 2 MiB. */
#define PROCESS_GROWTH_BYTES ((uint64_t)2 << 20)
/* The process row is a multiple of it. Two starts differ by some pages, which must not decide about the context. */
#define PROCESS_STEP_BYTES ((uint64_t)1 << 20)
/* Touched part of a worker's stack (kernel, K3). */
#define THREAD_STACK_BYTES ((uint64_t)96 << 10)
/* Readers call the kernel and little else. */
#define READER_THREADS 32
#define READER_STACK_BYTES ((uint64_t)16 << 10)
/* The process row is measured, and another command holds a little more than this one, which can be a step: the smallest
 * budget that is named is more than what was needed this time. */
#define HINT_MARGIN_BYTES ((uint64_t)1 << 20)
/* A prompt longer than this a token of the context is refused before it is cut into tokens (the longest real ones are a
 * tenth of it). */
#define TEXT_BYTES_PER_TOKEN 32
/* Memory for each byte of a text, at most: the text itself, its rendering in the chat format, ids, and the tokenizer's
 * working arrays for a text that is one single word. */
#define TEXT_WORK_FACTOR 40
/* Sessions that nobody has asked for by number: at most so many, and the KV caches beyond the first take at most this
 * share of what the experts would have. */
#define SESSIONS_AUTO_MAX 4
#define SESSIONS_SHARE 8

enum sluice_status engine_machine_limit(const sluice_engine *e, uint64_t *bytes, uint64_t *group, char why[300],
                                        struct sluice_error *err)
{
    struct os_memory m;
    e->os->memory(e->os->user, &m);
    if (!m.total_bytes)
        return base_fail(err, SLUICE_ERR_IO, "is /proc mounted, and are file descriptors left (ulimit -n)?",
                         "cannot find out how much memory there is: /proc/meminfo cannot be read");
    const uint64_t own = m.own_bytes; /* counted as used, and ours to use again */
    const uint64_t simulated = e->asks.simulated_used_bytes;
    *bytes = m.available_bytes + own;
    snprintf(why, 300, "available memory");
    const bool in_group = m.cgroup_room_bytes < m.available_bytes;
    if (group) *group = in_group ? m.cgroup_limit_bytes : 0;
    if (in_group) {
        *bytes = m.cgroup_room_bytes + own; /* pages of shared files are not all in its account */
        if (*bytes > m.cgroup_limit_bytes) *bytes = m.cgroup_limit_bytes;
        snprintf(why, 300, "the memory limit of cgroup %s", m.cgroup_path);
    }
    if (!simulated) return SLUICE_OK;
    *bytes = *bytes > simulated ? *bytes - simulated : 0;
    const size_t n = strlen(why);
    snprintf(why + n, 300 - n, ", with %.1f MiB taken as used", (double)simulated / (1 << 20));
    return SLUICE_OK;
}

/* What is guessed, learned and simulated, for a model with routed experts. */
uint64_t engine_foresight_bytes(const sluice_engine *e)
{
    if (!e->catalog) return 0;
    return known_memory_bytes(e) + sizes_memory_bytes(e) + model_foresight_memory_bytes(e->model) +
           (e->asks.sources ? predict_memory_bytes(e->catalog, e->asks.sources) : 0);
}

static uint64_t mul_text(uint64_t bytes) { return bytes * TEXT_WORK_FACTOR; }

enum sluice_status engine_check_text(const sluice_engine *e, size_t bytes, struct sluice_error *err)
{
    if (!e->model) return SLUICE_OK; /* a vocabulary alone has no budget */
    const uint64_t room = (uint64_t)e->plan.ctx * TEXT_BYTES_PER_TOKEN,
                   most = e->options.text_bytes > room ? e->options.text_bytes : room;
    if (bytes <= most) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_MEMORY, "give a larger --ctx, or a shorter text",
                     "a text of %zu bytes; a context of %" PRIu32 " tokens has room in memory for texts of %" PRIu64,
                     bytes, e->plan.ctx, most);
}

uint64_t engine_session_fixed_bytes(const struct model_hparams *hp)
{
    return (uint64_t)hp->n_vocab * sizeof(float) + sample_scratch_bytes(hp->n_vocab) + 256;
}

uint64_t engine_session_bytes_per_ctx(void) { return sizeof(int32_t); }

static uint64_t align64(uint64_t n) { return (n + 63) / 64 * 64; }

uint64_t engine_step_ids_bytes(const sluice_engine *e) { return align64(e->plan.chunk * sizeof(int32_t)); }

uint64_t engine_session_scratch_bytes(const sluice_engine *e)
{
    return align64(engine_session_fixed_bytes(&e->model->hp) + engine_session_bytes_per_ctx() * e->plan.ctx);
}

uint64_t engine_session_kv_bytes(const sluice_engine *e)
{
    return align64(model_kv_bytes(&e->model->hp, e->asks.kv_type, e->plan.ctx, e->plan.chunk));
}

struct kv_wish {
    const struct model_hparams *hp;
    uint32_t type, n_sessions;
};

/* Of all sessions, for the plan. */
static uint64_t kv_bytes(const void *user, uint32_t ctx, uint32_t chunk)
{
    const struct kv_wish *w = user;
    return w->n_sessions * align64(model_kv_bytes(w->hp, w->type, ctx, chunk));
}

/* A size that was asked for and is larger than there is use for is not made smaller without a word. */
static void tell_experts(const sluice_engine *e)
{
    char asked[24], all[24];
    const struct plan *p = &e->plan;
    if (p->slots_asked_bytes <= p->slots_needed_bytes) return;
    base_log(&e->log, BASE_LOG_NOTE, "--experts asks for %s; the model's %" PRIu32 " experts take %s, all are held",
             plan_format_bytes(p->slots_asked_bytes, asked), expert_catalog_n_experts(e->catalog),
             plan_format_bytes(p->slots_needed_bytes, all));
}

/* What the experts get is what is left: a long context can take it all without being wrong. */
static void tell_little(const sluice_engine *e, const struct plan_input *in)
{
    char text[PLAN_ADVICE_BYTES];
    struct plan_input smaller = *in;
    struct sluice_error err;
    const struct kv_wish wish = {&e->model->hp, QUANT_Q8_0, e->options.sessions};
    const bool can = e->asks.kv_type != QUANT_Q8_0 && model_kv_check(wish.hp, QUANT_Q8_0, &err) == SLUICE_OK;
    smaller.kv_user = &wish;
    if (plan_advise(in, &e->plan, can ? &smaller : NULL, text)) base_log(&e->log, BASE_LOG_NOTE, "%s", text);
}

/* `in` is without what sessions take. The result refers to `wish`. */
static struct plan_input with_sessions(const sluice_engine *e, const struct plan_input *in, const struct kv_wish *wish)
{
    const struct model_hparams *hp = wish->hp;
    const uint32_t n = wish->n_sessions;
    struct plan_input all = *in;
    if (e->options.grammar) all.process_bytes += text_grammar_memory_bytes(e->tokenizer, hp->n_vocab, n);
    all.scratch_fixed_bytes += n * (engine_session_fixed_bytes(hp) + 64);
    all.scratch_bytes_per_ctx = n * engine_session_bytes_per_ctx();
    all.kv_bytes = kv_bytes;
    all.kv_user = wish;
    return all;
}

static enum sluice_status plan_for(const sluice_engine *e, const struct plan_input *in, uint32_t n, struct plan *out,
                                   struct sluice_error *err)
{
    const struct kv_wish wish = {&e->model->hp, e->asks.kv_type, n};
    const struct plan_input all = with_sessions(e, in, &wish);
    return plan_make(&all, out, err);
}

/* More sessions than the one that e->plan is for: as many as leave the context and the chunk as they are and either
 * keep every expert in memory or take a small share of their cache. */
static void choose_sessions(sluice_engine *e, const struct plan_input *in)
{
    const struct plan one = e->plan;
    for (uint32_t n = SESSIONS_AUTO_MAX; n > 1; n--) {
        struct plan more;
        struct sluice_error ignored;
        const struct kv_wish further = {&e->model->hp, e->asks.kv_type, n - 1};
        const uint64_t cost = kv_bytes(&further, one.ctx, one.chunk);
        if (plan_for(e, in, n, &more, &ignored) || more.ctx != one.ctx || more.chunk != one.chunk) continue;
        if (more.slots_bytes < more.slots_needed_bytes && cost > one.slots_bytes / SESSIONS_SHARE) continue;
        e->options.sessions = n;
        e->plan = more;
        return;
    }
}

static uint64_t process_bytes(const sluice_engine *e)
{
    const uint32_t threads = e->options.threads;
    const uint64_t bytes = os_process_bytes() + PROCESS_GROWTH_BYTES + threads * THREAD_STACK_BYTES +
                           READER_THREADS * READER_STACK_BYTES + (threads > 1 ? threads * KERNEL_SCRATCH_BYTES : 0) +
                           template_fixed_bytes(e);
    return (bytes + PROCESS_STEP_BYTES - 1) / PROCESS_STEP_BYTES * PROCESS_STEP_BYTES;
}

enum sluice_status engine_plan(sluice_engine *e, struct sluice_error *err)
{
    const struct model_hparams *hp = &e->model->hp;
    uint64_t group;
    enum sluice_status st = engine_machine_limit(e, &e->machine_limit_bytes, &group, e->machine_limit_why, err);
    if (st) return st;
    e->auto_percent = os_auto_percent(group);
    if (e->options.ctx > hp->n_ctx_train)
        base_log(&e->log, BASE_LOG_WARN,
                 "a context of %" PRIu32 " tokens was asked for; the model was trained for %" PRIu32
                 ", answers get worse beyond",
                 e->options.ctx, hp->n_ctx_train);
    struct model_scratch_sizes sizes;
    model_scratch_sizes(hp, &sizes);
    struct plan_input in = {
        .machine_limit_bytes = e->machine_limit_bytes,
        .auto_percent = e->auto_percent,
        .machine_limit_why = e->machine_limit_why,
        .memory = e->asks.memory,
        .experts = e->asks.experts,
        .catalog = e->catalog,
        .process_bytes = process_bytes(e),
        .dense_bytes = engine_block_bytes(e->load.block_bytes),
        .staging_bytes = e->options.verify ? expert_verify_memory_bytes() : 0,
        .text_bytes = mul_text(e->options.text_bytes),
        .text_bytes_per_ctx = mul_text(TEXT_BYTES_PER_TOKEN),
        .hint_margin_bytes = HINT_MARGIN_BYTES,
        .ctx_asked = e->options.ctx,
        .ctx_model = e->options.ctx > hp->n_ctx_train ? e->options.ctx : hp->n_ctx_train,
        .chunk_asked = e->options.chunk,
        .scratch_fixed_bytes = sizes.fixed_bytes + 64 + 2 * os_page_bytes(),
        .scratch_bytes_per_chunk_token = sizes.per_token_bytes + sizeof(int32_t),
        .output_bytes_per_chunk_token = sizes.output_bytes_per_token,
    };
    struct os_memory m;
    os_memory(&m);
    in.machine_total_bytes = m.total_bytes;
    if (e->catalog)
        in.book_bytes = expert_catalog_memory_bytes(e->catalog) +
                        expert_cache_memory_bytes(e->catalog, expert_cache_full_bytes(e->catalog)) +
                        engine_foresight_bytes(e);
    if ((st = model_kv_check(hp, e->asks.kv_type, err))) return st;
    if ((st = prefix_plan(e, &in.prefix_bytes, err))) return st;
    if (in.prefix_bytes && e->options.prefix_dir) in.book_bytes += prefix_disk_memory_bytes();
    const bool choose = e->options.sessions == SLUICE_SESSIONS_AUTO;
    if (choose) e->options.sessions = 1;
    st = plan_for(e, &in, e->options.sessions, &e->plan, err);
    if (st == SLUICE_ERR_MEMORY && in.prefix_bytes && e->asks.prefix_memory.unit == PLAN_AUTO &&
        !e->options.prefix_dir) {
        in.prefix_bytes = 0; /* nobody has asked for these by number */
        st = plan_for(e, &in, e->options.sessions, &e->plan, err);
        if (!st) base_log(&e->log, BASE_LOG_NOTE, "no memory is set aside for prefixes: the budget has none to spare");
    }
    if (st) return st;
    if (choose) choose_sessions(e, &in);
    const struct kv_wish wish = {hp, e->asks.kv_type, e->options.sessions};
    const struct plan_input all = with_sessions(e, &in, &wish);
    tell_experts(e);
    tell_little(e, &all);
    return SLUICE_OK;
}
