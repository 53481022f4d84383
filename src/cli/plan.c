/* sluice plan: the ledger without loading anything, and what speed could come of it. */
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/open.h"
#include "cli/out.h"
#include "serve/serve.h"

#include <string.h>

/* Speeds are upper bounds by one thing each: by the disk as if computing took no time, by the memory as if all were
 * there. Reading and computing overlap, so the lesser of the two is what a run comes near to at best. */
#define RATES 4
struct estimate {
    double disk;                     /* bytes a second */
    double memory;                   /* bytes a second that the threads read; 0: not measured */
    double hit_rate[RATES];          /* the first: the part of the experts that the cache holds */
    double tokens_per_second[RATES]; /* by the disk; 0: it has nothing to read */
    double memory_tokens_per_second, token_bytes;
};

static void estimate_make(const struct open_model *m, double disk_mb, struct estimate *e)
{
    const double experts = (double)m->info.expert_bytes_per_token, all = (double)m->ledger.slots_all_bytes;
    *e = (struct estimate){.disk = disk_mb * 1e6,
                           .memory = doctor_memory_rate(m->info.threads),
                           .hit_rate = {all > 0 ? (double)m->ledger.slots_bytes / all : 1, 0.5, 0.75, 0.9},
                           .token_bytes = (double)m->info.dense_bytes + experts};
    e->memory_tokens_per_second = e->token_bytes > 0 ? e->memory / e->token_bytes : 0;
    for (unsigned i = 0; i < RATES; i++) {
        const double missed = (1 - e->hit_rate[i]) * experts;
        e->tokens_per_second[i] = missed > 0 ? e->disk / missed : 0;
    }
}

static json_t *estimate_json(const struct open_model *m, const struct estimate *e)
{
    json_t *rates = json_array();
    for (unsigned i = 0; m->info.n_expert && e->hit_rate[0] < 1 && i < RATES; i++)
        json_array_append_new(
            rates, json_pack("{s:f, s:f}", "hit_rate", e->hit_rate[i], "tokens_per_second", e->tokens_per_second[i]));
    return json_pack("{s:f, s:f, s:f, s:o}", "disk_bytes_per_s", e->disk, "memory_bytes_per_s", e->memory,
                     "memory_tokens_per_second", e->memory_tokens_per_second, "disk", rates);
}

static void estimate_print(const struct open_model *m, const struct estimate *e)
{
    char text[24];
    if (m->info.n_expert && e->hit_rate[0] < 1) {
        out_printf("at ");
        for (unsigned i = 0; i < RATES; i++) out_printf("%s%.0f", i ? "/" : "", 100 * e->hit_rate[i]);
        out_printf(" %% hits at most ");
        for (unsigned i = 0; i < RATES; i++) out_printf("%s%.2f", i ? "/" : "", e->tokens_per_second[i]);
        out_printf(" tokens/s by the disk's %.0f MB/s; the first is the part of the experts that the cache holds, real "
                   "text hits more often\n",
                   e->disk / 1e6);
    }
    if (e->memory > 0)
        out_printf(
            "about %.2f tokens/s at most by the memory: a token computes with %s of weights, and %u threads read "
            "%.1f GB/s\n",
            e->memory_tokens_per_second, report_bytes(e->token_bytes, text), m->info.threads, e->memory / 1e9);
    out_printf(
        "assumed: reading and computing overlap wholly, computing keeps up with the memory, the context is short. "
        "A run is slower than the lesser of the two; 'sluice bench' measures it\n");
}

static json_t *plan_json(const struct open_model *m)
{
    const struct sluice_ledger *l = &m->ledger;
    json_t *rows = json_array();
    for (size_t i = 0; i < l->n_rows; i++)
        json_array_append_new(rows,
                              json_pack("{s:s, s:I}", "name", l->rows[i].name, "bytes", (json_int_t)l->rows[i].bytes));
    return json_pack("{s:o, s:o, s:I, s:I, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I, s:I}", "model",
                     out_json_text(m->info.path, strlen(m->info.path)), "architecture",
                     out_json_text(m->info.architecture, strlen(m->info.architecture)), "budget_bytes",
                     (json_int_t)l->budget_bytes, "machine_limit_bytes", (json_int_t)l->machine_limit_bytes,
                     "machine_limit_why", l->machine_limit_why ? l->machine_limit_why : "", "rows", rows, "slots_bytes",
                     (json_int_t)l->slots_bytes, "slots_all_bytes", (json_int_t)l->slots_all_bytes, "slots_floor_bytes",
                     (json_int_t)l->slots_floor_bytes, "dense_bytes", (json_int_t)m->info.dense_bytes, "expert_bytes",
                     (json_int_t)m->info.expert_bytes, "expert_bytes_per_token",
                     (json_int_t)m->info.expert_bytes_per_token, "expected_bytes_per_token",
                     l->expected_bytes_per_token, "ctx", (json_int_t)m->info.ctx, "chunk", (json_int_t)m->info.chunk,
                     "threads", (json_int_t)m->info.threads, "sessions", (json_int_t)m->info.sessions);
}

static void plan_print(const struct open_model *m, struct report *r, const struct estimate *e)
{
    char text[24];
    report_ledger(stdout, &m->ledger, &m->info);
    if (m->info.sessions > 1) out_printf("%u requests at once, each with a context of its own\n", m->info.sessions);
    if (m->info.n_expert == 0) {
        out_printf("the model has no routed experts: it is held whole, and nothing is read for a token\n");
        if (e) estimate_print(m, e);
        return;
    }
    out_printf(
        "a token reads about %s of experts, if routing is uniform and the cache is warm (real text reads less)\n",
        report_bytes(m->ledger.expected_bytes_per_token, text));
    out_printf("the cache needs at least %s", report_bytes((double)m->ledger.slots_floor_bytes, text));
    out_printf("; %s would hold every expert\n", report_bytes((double)m->ledger.slots_all_bytes, text));
    if (e) estimate_print(m, e);
    if (!e) report_note(r, "no tokens/s: say how fast the disk reads with --disk MB/s, or a file on it");
}

/* A server has its vocabulary twice, and the ledger measures the process as it stands. */
static enum sluice_status open_vocabulary(const struct cli_options *o, sluice_engine **out, struct sluice_error *err)
{
    struct sluice_options engine, vocabulary;
    *out = NULL;
    if (!cli_flag(o, OPT_SERVE)) return SLUICE_OK;
    sluice_options_init(&engine);
    engine.model_path = cli_text(o, OPT_MODEL);
    engine.pre = cli_text(o, OPT_PRE);
    serve_vocabulary_options(&engine, &vocabulary); /* without a log: the other engine says it all */
    enum sluice_status status = sluice_engine_open(&vocabulary, out, err);
    if (status) *out = NULL;
    return status;
}

int command_plan(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct open_model m = {0};
    sluice_engine *vocabulary;
    report_init(&r, o);
    struct estimate e;
    double disk = 0;
    enum sluice_status status = open_vocabulary(o, &vocabulary, &err);
    if (!status) status = open_model(o, OPEN_PLAN, 0, 0, &r, &m, &err);
    if (!status) status = doctor_find_disk(o, &r, &disk, &err); /* the ledger was made before this took memory */
    if (!status && disk > 0) estimate_make(&m, disk, &e);
    if (vocabulary) sluice_engine_close(vocabulary);
    if (status) {
        open_close(&m);
        return report_error(&err);
    }
    if (cli_flag(o, OPT_JSON)) {
        json_t *plan = plan_json(&m);
        if (disk > 0) json_object_set_new(plan, "estimate", estimate_json(&m, &e));
        out_json(plan);
    } else {
        plan_print(&m, &r, disk > 0 ? &e : NULL);
    }
    open_close(&m);
    return 0;
}
