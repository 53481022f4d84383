/* Gathers what the plan's arithmetic needs: the machine's limit, the process as it stands, and the sizes that the model
 * asks for. */
#include "engine/engine.h"

#include <inttypes.h>
#include <stdio.h>

/* The process grows after it is measured: code pages touched for the first time, the allocator's slack, kernel-side
 * rings, the table that this function fills. Seen on x86-64 Debian: below 3 MiB beyond the measured size. */
#define PROCESS_GROWTH_BYTES ((uint64_t)4 << 20)
/* Touched part of a worker's stack. */
#define THREAD_STACK_BYTES ((uint64_t)64 << 10)
#define READER_THREADS 8

static void machine_limit(sluice_engine *e)
{
    struct os_memory m;
    os_memory(&m);
    const uint64_t own = os_resident_bytes(); /* counted as used, and ours to use again */
    e->machine_limit_bytes = m.available_bytes + own;
    snprintf(e->machine_limit_why, sizeof e->machine_limit_why, "available memory");
    if (m.cgroup_room_bytes >= m.available_bytes) return;
    e->machine_limit_bytes = m.cgroup_room_bytes + own;
    snprintf(e->machine_limit_why, sizeof e->machine_limit_why, "the memory limit of cgroup %s", m.cgroup_path);
}

uint64_t engine_session_fixed_bytes(const struct model_hparams *hp)
{
    return (uint64_t)hp->n_vocab * sizeof(float) + sample_scratch_bytes(hp->n_vocab) + 256;
}

uint64_t engine_session_bytes_per_ctx(void) { return sizeof(int32_t); }

enum sluice_status engine_plan(sluice_engine *e, struct sluice_error *err)
{
    const struct model_hparams *hp = &e->model->hp;
    machine_limit(e);
    if (e->options.ctx > hp->n_ctx_train)
        base_log(&e->log, BASE_LOG_WARN,
                 "a context of %" PRIu32 " tokens was asked for; the model was trained for %" PRIu32
                 ", answers get worse beyond",
                 e->options.ctx, hp->n_ctx_train);
    struct model_scratch_sizes sizes;
    model_scratch_sizes(hp, &sizes);
    struct plan_input in = {
        .machine_limit_bytes = e->machine_limit_bytes,
        .machine_limit_why = e->machine_limit_why,
        .memory = e->asks.memory,
        .experts = e->asks.experts,
        .catalog = e->catalog,
        .process_bytes =
            os_resident_bytes() + PROCESS_GROWTH_BYTES + (e->options.threads + READER_THREADS) * THREAD_STACK_BYTES,
        .dense_bytes = engine_block_bytes(e->load.block_bytes),
        .staging_bytes = e->options.verify ? expert_verify_memory_bytes() : 0,
        .ctx_asked = e->options.ctx,
        .ctx_model = e->options.ctx > hp->n_ctx_train ? e->options.ctx : hp->n_ctx_train,
        .chunk_asked = e->options.chunk,
        .scratch_fixed_bytes = sizes.fixed_bytes + engine_session_fixed_bytes(hp) + 2 * os_page_bytes(),
        .scratch_bytes_per_chunk_token = sizes.per_token_bytes,
        .scratch_bytes_per_ctx = engine_session_bytes_per_ctx(),
        .output_bytes_per_chunk_token = sizes.output_bytes_per_token,
    };
    struct os_memory m;
    os_memory(&m);
    in.machine_total_bytes = m.total_bytes;
    if (e->catalog)
        in.book_bytes = expert_catalog_memory_bytes(e->catalog) +
                        expert_cache_memory_bytes(e->catalog, expert_cache_full_bytes(e->catalog));
    enum sluice_status st = model_kv_token_bytes(hp, e->asks.kv_type, &in.kv_token_bytes, err);
    return st ? st : plan_make(&in, &e->plan, err);
}
