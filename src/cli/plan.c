/* sluice plan: the ledger without loading anything. */
#include "cli/commands.h"
#include "cli/open.h"
#include "cli/out.h"

#include <string.h>

static json_t *plan_json(const struct open_model *m)
{
    const struct sluice_ledger *l = &m->ledger;
    json_t *rows = json_array();
    for (size_t i = 0; i < l->n_rows; i++)
        json_array_append_new(rows,
                              json_pack("{s:s, s:I}", "name", l->rows[i].name, "bytes", (json_int_t)l->rows[i].bytes));
    return json_pack("{s:o, s:o, s:I, s:I, s:s, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:I, s:I, s:I}", "model",
                     out_json_text(m->info.path, strlen(m->info.path)), "architecture",
                     out_json_text(m->info.architecture, strlen(m->info.architecture)), "budget_bytes",
                     (json_int_t)l->budget_bytes, "machine_limit_bytes", (json_int_t)l->machine_limit_bytes,
                     "machine_limit_why", l->machine_limit_why ? l->machine_limit_why : "", "rows", rows, "slots_bytes",
                     (json_int_t)l->slots_bytes, "slots_all_bytes", (json_int_t)l->slots_all_bytes, "slots_floor_bytes",
                     (json_int_t)l->slots_floor_bytes, "dense_bytes", (json_int_t)m->info.dense_bytes, "expert_bytes",
                     (json_int_t)m->info.expert_bytes, "expert_bytes_per_token",
                     (json_int_t)m->info.expert_bytes_per_token, "expected_bytes_per_token",
                     l->expected_bytes_per_token, "ctx", (json_int_t)m->info.ctx, "chunk", (json_int_t)m->info.chunk,
                     "threads", (json_int_t)m->info.threads);
}

static void plan_print(const struct open_model *m)
{
    char text[24];
    report_ledger(stdout, &m->ledger, &m->info);
    if (m->info.n_expert == 0) {
        out_printf("the model has no routed experts: it is held whole, and nothing is read for a token\n");
        return;
    }
    out_printf(
        "a token reads about %s of experts, if routing is uniform and the cache is warm (real text reads less)\n",
        report_bytes(m->ledger.expected_bytes_per_token, text));
    out_printf("the cache needs at least %s", report_bytes((double)m->ledger.slots_floor_bytes, text));
    out_printf("; %s would hold every expert\n", report_bytes((double)m->ledger.slots_all_bytes, text));
}

int command_plan(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct open_model m;
    report_init(&r, o);
    int code = 0;
    if (open_model(o, OPEN_PLAN, 0, 0, &r, &m, &err))
        code = report_error(&err);
    else if (cli_flag(o, OPT_JSON))
        out_json(plan_json(&m));
    else
        plan_print(&m);
    open_close(&m);
    return code;
}
