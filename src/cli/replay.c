/* sluice replay: recorded routings through caches of other sizes and policies. Knows the room expert and no engine. */
#include "cli/replay.h"

#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/out.h"
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

const char *replay_row_name(unsigned policy)
{
    return policy == REPLAY_BELADY ? "belady" : policy_name((enum policy_kind)policy);
}

double replay_hit_rate(const struct replay_result *r)
{
    return r->hits + r->misses ? (double)r->hits / (double)(r->hits + r->misses) : 0;
}

double replay_token_bytes(const struct replay_result *r)
{
    return r->n_tokens ? (double)r->read_bytes / (double)r->n_tokens : 0;
}

double replay_unit(const struct replay_table *t, const char **name)
{
    double most = 0;
    for (unsigned i = 0; i < t->n_sizes; i++)
        if (t->cache_bytes[i] > most) most = t->cache_bytes[i];
    *name = most < 1e9 ? "MB" : "GB";
    return most < 1e9 ? 1e6 : 1e9;
}

/* ---- what is asked ---- */

/* "2K,3K,100". */
static enum sluice_status parse_sizes(const char *text, struct replay_size *sizes, unsigned *n,
                                      struct sluice_error *err)
{
    *n = 0;
    for (const char *at = text;; at++) {
        char *end;
        unsigned long number = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 0;
        if (number == 0 || number > 1000000 || *n == REPLAY_SIZES_MAX) break;
        bool times = *end == 'K' || *end == 'k';
        sizes[(*n)++] = (struct replay_size){(uint32_t)number, times};
        at = end + times;
        if (!*at) return SLUICE_OK;
        if (*at != ',') break;
    }
    return base_fail(err, SLUICE_ERR_USAGE, "as in 2K,3K,4K,100: slots a layer, K being the experts used a token",
                     "--sizes: '%.100s' is not a list of up to %d sizes", text, REPLAY_SIZES_MAX);
}

/* "all" or names with commas between them; the limit comes last in any case. */
static enum sluice_status parse_policies(const char *text, struct replay_table *t, struct sluice_error *err)
{
    bool wanted[POLICY_KINDS] = {false};
    for (const char *at = text;; at++) {
        char name[32];
        size_t n = strcspn(at, ",");
        enum policy_kind kind;
        snprintf(name, sizeof name, "%.*s", (int)(n < 31 ? n : 31), at);
        if (strcmp(name, "all") == 0)
            memset(wanted, true, sizeof wanted);
        else if (policy_by_name(name, &kind))
            wanted[kind] = true;
        else
            return base_fail(err, SLUICE_ERR_USAGE, "all, or some of " POLICY_CHOICES ", with commas between them",
                             "--policy: '%.40s' is not a policy", name);
        at += n;
        if (!*at) break;
    }
    t->n_rows = 0;
    for (unsigned i = 0; i < POLICY_KINDS; i++)
        if (wanted[i]) t->policy[t->n_rows++] = i;
    t->policy[t->n_rows++] = REPLAY_BELADY;
    return SLUICE_OK;
}

static enum sluice_status check_plot(const struct cli_options *o, struct sluice_error *err)
{
    const char *plot = cli_given(o, OPT_PLOT) ? cli_text(o, OPT_PLOT) : NULL;
    enum sluice_status status = plot ? out_check(plot, "--plot", err) : SLUICE_OK;
    for (unsigned i = 0; plot && i < o->n_words && !status; i++)
        status = out_check_input(plot, "--plot", o->words[i], err);
    return status;
}

/* ---- the work ---- */

static void find_slots(const struct trace *trace, const struct replay_size *sizes, struct replay_table *t)
{
    const uint32_t n_used = replay_n_used(trace);
    for (unsigned i = 0; i < t->n_sizes; i++) {
        t->slots[i] = sizes[i].times_used ? sizes[i].number * n_used : sizes[i].number;
        t->cache_bytes[i] = 0;
        for (uint32_t l = 0; l < trace->n_layers; l++) {
            const struct trace_layer *layer = &trace->layers[l];
            uint32_t slots = t->slots[i] < layer->n_expert ? t->slots[i] : layer->n_expert;
            t->cache_bytes[i] += (double)layer->expert_bytes * slots;
        }
    }
}

static enum sluice_status replay_one(const char *path, const struct replay_size *sizes, struct replay_table *t,
                                     struct sluice_error *err)
{
    struct trace trace;
    enum sluice_status status = trace_read(path, &trace, err);
    if (status) return status;
    t->trace = path;
    snprintf(t->model, sizeof t->model, "%s", trace.model);
    find_slots(&trace, sizes, t);
    for (unsigned row = 0; row < t->n_rows && !status; row++) {
        const uint64_t begin = report_now_ns();
        for (unsigned i = 0; i < t->n_sizes && !status; i++) {
            const struct replay_config config = {.policy = (enum policy_kind)t->policy[row],
                                                 .slots_per_layer = t->slots[i]};
            status = t->policy[row] == REPLAY_BELADY ? replay_belady(&trace, t->slots[i], &t->results[row][i], err)
                                                     : replay_run(&trace, &config, &t->results[row][i], err);
        }
        t->ns[row] = report_now_ns() - begin;
        t->n_selections[row] = trace.n_selections * t->n_sizes;
    }
    if (!status && t->results[0][0].n_tokens == 0)
        status = base_fail(err, SLUICE_ERR_MODEL, "record a run that generates text (-n 100)",
                           "%s has no token of decode: nothing can be counted", path);
    trace_free(&trace);
    return status;
}

/* ---- printing ---- */

enum figure { HIT_RATE, TOKEN_BYTES, TOKENS_PER_SECOND };

static void print_block(const struct replay_table *t, const char *heading, enum figure figure, double disk)
{
    out_printf("\n  %s\n", heading);
    for (unsigned row = 0; row < t->n_rows; row++) {
        const bool is_default = t->policy[row] == POLICY_AUTO;
        out_printf("  %-10s%s", replay_row_name(t->policy[row]), is_default ? "*" : " ");
        for (unsigned i = 0; i < t->n_sizes; i++) {
            const struct replay_result *r = &t->results[row][i];
            const double bytes = replay_token_bytes(r);
            if (figure == HIT_RATE)
                out_printf(" %8.1f", 100 * replay_hit_rate(r));
            else if (figure == TOKEN_BYTES)
                out_printf(" %8.1f", bytes / 1e6);
            else if (bytes > 0)
                out_printf(" %8.2f", disk * 1e6 / bytes);
            else
                out_printf(" %8s", "-");
        }
        out_printf("\n");
    }
}

static void print_table(const struct replay_table *t, double disk)
{
    out_printf("%s: %llu tokens of decode\n", t->trace, (unsigned long long)t->results[0][0].n_tokens);
    out_printf("  slots a layer");
    for (unsigned i = 0; i < t->n_sizes; i++) out_printf(i ? " %8u" : " %6u", t->slots[i]);
    if (t->cache_bytes[0] > 0) {
        const char *name;
        const double unit = replay_unit(t, &name);
        out_printf("\n  cache in %s  ", name);
        for (unsigned i = 0; i < t->n_sizes; i++) out_printf(i ? " %8.2f" : " %6.2f", t->cache_bytes[i] / unit);
    }
    out_printf("\n");
    print_block(t, "hits in per cent", HIT_RATE, disk);
    if (t->cache_bytes[0] > 0) {
        print_block(t, "MB read a token", TOKEN_BYTES, disk);
        if (disk > 0) print_block(t, "tokens/s that the disk allows", TOKENS_PER_SECOND, disk);
    }
    out_printf("\n");
}

static void table_json(const struct replay_table *t, double disk, json_t *array)
{
    for (unsigned row = 0; row < t->n_rows; row++)
        for (unsigned i = 0; i < t->n_sizes; i++) {
            const struct replay_result *r = &t->results[row][i];
            const double bytes = replay_token_bytes(r);
            json_t *o = json_pack("{s:o, s:s, s:b, s:I, s:I, s:I, s:f, s:I, s:f, s:f}", "trace",
                                  out_json_text(t->trace, strlen(t->trace)), "policy", replay_row_name(t->policy[row]),
                                  "default", t->policy[row] == POLICY_AUTO, "slots_per_layer", (json_int_t)t->slots[i],
                                  "hits", (json_int_t)r->hits, "misses", (json_int_t)r->misses, "hit_rate",
                                  replay_hit_rate(r), "tokens", (json_int_t)r->n_tokens, "read_bytes_per_token", bytes,
                                  "cache_bytes", t->cache_bytes[i]);
            if (disk > 0 && bytes > 0) json_object_set_new(o, "tokens_per_second", json_real(disk * 1e6 / bytes));
            json_array_append_new(array, o);
        }
}

static void print_all(const struct cli_options *o, struct report *r, const struct replay_table *tables, unsigned n,
                      double disk)
{
    if (cli_flag(o, OPT_JSON)) {
        json_t *array = json_array();
        for (unsigned i = 0; i < n; i++) table_json(&tables[i], disk, array);
        out_json(array);
    } else {
        for (unsigned i = 0; i < n; i++) print_table(&tables[i], disk);
        out_printf("* the default; belady knows the future: the limit. Phases of prompts warm the caches and are not "
                   "counted.\n");
        if (disk <= 0) report_note(r, "no tokens/s: say how fast the disk reads with --disk MB/s, or a file on it");
    }
    for (unsigned i = 0; r->verbose && i < n; i++)
        for (unsigned row = 0; row < tables[i].n_rows; row++)
            report_note(r, "%s %s: %.2f million selections a second", tables[i].trace,
                        replay_row_name(tables[i].policy[row]),
                        report_rate(tables[i].n_selections[row], tables[i].ns[row]) / 1e6);
}

int command_replay(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct replay_size sizes[REPLAY_SIZES_MAX];
    struct replay_table asked = {0};
    double disk = 0;
    report_init(&r, o);
    struct replay_table *tables = calloc(o->n_words, sizeof *tables);
    enum sluice_status status = tables ? SLUICE_OK : base_fail(&err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    if (!status) status = parse_sizes(cli_text(o, OPT_SIZES), sizes, &asked.n_sizes, &err);
    if (!status) status = parse_policies(cli_text(o, OPT_POLICIES), &asked, &err);
    if (!status) status = check_plot(o, &err);
    if (!status) status = doctor_find_disk(o, &r, &disk, &err);
    for (unsigned i = 0; i < o->n_words && !status; i++) {
        tables[i] = asked;
        status = replay_one(o->words[i], sizes, &tables[i], &err);
    }
    if (!status && cli_given(o, OPT_PLOT)) status = replay_plot(cli_text(o, OPT_PLOT), tables, o->n_words, &err);
    if (!status) print_all(o, &r, tables, o->n_words, disk);
    free(tables);
    return status ? report_error(&err) : 0;
}
