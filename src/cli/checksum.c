/* sluice checksum and sluice verify: checksums of every expert and every other tensor, kept in a file beside the model,
 * and the comparison of a whole model with them. */
#include "cli/checksum.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/out.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *sums_path(const struct cli_options *o, enum cli_option given)
{
    char *path;
    if (cli_given(o, given)) return strdup(cli_text(o, given));
    return asprintf(&path, "%s" EXPERT_SUMS_SUFFIX, cli_text(o, OPT_MODEL)) < 0 ? NULL : path;
}

static enum sluice_status open_plan(const struct cli_options *o, struct gguf **g, struct checksum_plan *plan,
                                    struct sluice_error *err)
{
    enum sluice_status status = gguf_open(os_system(), cli_text(o, OPT_MODEL), g, err);
    if (!status) status = gguf_check_language_model(*g, false, err);
    return status ? status : checksum_plan_make(*g, plan, err);
}

/* Whether path is one of the model's own files. */
static enum sluice_status check_out(const struct gguf *g, const char *path, struct sluice_error *err)
{
    struct stat to, from;
    if (stat(path, &to) != 0) return SLUICE_OK;
    if (S_ISDIR(to.st_mode)) return base_fail(err, SLUICE_ERR_USAGE, NULL, "%.300s: is a directory", path);
    for (size_t i = 0; i < gguf_n_shards(g); i++)
        if (stat(gguf_shard(g, i)->path, &from) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
            return base_fail(err, SLUICE_ERR_USAGE, "give --out another name", "%.300s: is the model itself", path);
    return SLUICE_OK;
}

static json_t *json_head(const struct cli_options *o, const struct checksum_plan *plan, const char *sums,
                         double seconds)
{
    char print[24];
    const char *model = cli_text(o, OPT_MODEL);
    snprintf(print, sizeof print, "%016" PRIx64, plan->sums->fingerprint);
    return json_pack("{s:o, s:o, s:s, s:I, s:I, s:I, s:I, s:f}", "model", out_json_text(model, strlen(model)), "sums",
                     out_json_text(sums, strlen(sums)), "fingerprint", print, "experts", (json_int_t)plan->n_experts,
                     "tensors", (json_int_t)plan->n_dense, "checksums", (json_int_t)plan->sums->n_sums, "bytes",
                     (json_int_t)plan->total_bytes, "seconds", seconds);
}

/* ---- checksum ---- */

static enum sluice_status write_sums(const struct gguf *g, const struct checksum_plan *plan, struct report *r,
                                     const char *path, struct sluice_error *err)
{
    struct out_file out;
    uint8_t *data = NULL;
    size_t bytes = 0;
    enum sluice_status status = check_out(g, path, err);
    if (status) return status;
    /* Opened first: a place that cannot be written to is known before the model is read. */
    status = out_file_open(&out, path, err);
    if (status) return status;
    status = checksum_read(os_system(), g, plan, r, "reading", err);
    if (!status) status = expert_sums_encode(plan->sums, &data, &bytes, err);
    if (!status) status = out_file_write(&out, data, bytes, err);
    free(data);
    if (!status) return out_file_keep(&out, err);
    out_file_drop(&out);
    return status;
}

int command_checksum(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct gguf *g = NULL;
    struct checksum_plan plan = {0};
    char text[24];
    report_init(&r, o);
    uint64_t begin_ns = report_now_ns();
    char *path = sums_path(o, OPT_OUT);
    enum sluice_status status =
        path ? open_plan(o, &g, &plan, &err) : base_fail(&err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    if (!status) status = write_sums(g, &plan, &r, path, &err);
    double seconds = (double)(report_now_ns() - begin_ns) / 1e9;
    if (!status && cli_flag(o, OPT_JSON))
        out_json(json_head(o, &plan, path, seconds));
    else if (!status)
        report_note(&r, "%s: checksums of %" PRIu64 " experts and %" PRIu64 " other tensors, %s, in %.1f s", path,
                    plan.n_experts, plan.n_dense, report_bytes((double)plan.total_bytes, text), seconds);
    checksum_plan_free(&plan);
    gguf_close(g);
    free(path);
    return status ? report_error(&err) : 0;
}

/* ---- verify ---- */

static enum sluice_status same_groups(const struct checksum_plan *plan, const struct expert_sums *stored,
                                      const char *path, struct sluice_error *err)
{
    bool same = plan->sums->n_groups == stored->n_groups && plan->sums->n_sums == stored->n_sums;
    for (uint32_t i = 0; same && i < stored->n_groups; i++) {
        const struct expert_sums_group *a = &plan->sums->groups[i], *b = &stored->groups[i];
        same = a->file == b->file && a->n == b->n && a->offset == b->offset && a->unit_bytes == b->unit_bytes;
    }
    if (same) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE,
                     "write it again with 'sluice checksum', from a model that is known to be good",
                     "%.300s: these checksums are of other parts of the model than this Sluice checks", path);
}

static void print_damage(const struct gguf *g, const struct checksum_tensor *t, uint64_t unit, uint64_t offset,
                         uint64_t bytes)
{
    if (t->experts)
        out_printf("damaged: layer %" PRIu32 ", expert %" PRIu64 ", %s", t->layer, t->expert + unit, t->part);
    else
        out_printf("damaged: tensor %s", t->tensor->name);
    out_printf(" (%" PRIu64 " bytes at byte %" PRIu64 " of %s)\n", bytes, offset,
               gguf_shard(g, t->tensor->shard)->path);
}

static json_t *json_damage(const struct gguf *g, const struct checksum_tensor *t, uint64_t unit, uint64_t offset,
                           uint64_t bytes)
{
    const char *file = gguf_shard(g, t->tensor->shard)->path;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "tensor",
                     out_json_text(t->tensor->name, strlen(t->tensor->name)), "layer",
                     t->experts ? json_integer(t->layer) : json_null(), "expert",
                     t->experts ? json_integer((json_int_t)(t->expert + unit)) : json_null(), "part",
                     t->experts ? json_string(t->part) : json_null(), "file", out_json_text(file, strlen(file)),
                     "offset", (json_int_t)offset, "bytes", (json_int_t)bytes);
}

/* Compares all sums; list: NULL, or receives an object for each that differs, which are printed otherwise. */
static uint64_t compare(const struct gguf *g, const struct checksum_plan *plan, const struct expert_sums *stored,
                        json_t *list)
{
    uint64_t n_damaged = 0;
    for (uint32_t i = 0; i < stored->n_groups; i++) {
        const struct expert_sums_group *k = &stored->groups[i];
        for (uint64_t unit = 0; unit < k->n; unit++) {
            uint64_t offset = k->offset + unit * k->unit_bytes;
            if (plan->sums->sums[k->first + unit] == stored->sums[k->first + unit]) continue;
            n_damaged++;
            if (list)
                json_array_append_new(list, json_damage(g, &plan->tensors[i], unit, offset, k->unit_bytes));
            else
                print_damage(g, &plan->tensors[i], unit, offset, k->unit_bytes);
        }
    }
    return n_damaged;
}

static enum sluice_status say_result(const struct cli_options *o, struct report *r, const struct gguf *g,
                                     const struct checksum_plan *plan, const struct expert_sums *stored,
                                     const char *path, double seconds, struct sluice_error *err)
{
    bool json = cli_flag(o, OPT_JSON);
    char text[24];
    json_t *list = json ? json_array() : NULL;
    uint64_t n_damaged = compare(g, plan, stored, list);
    if (json) {
        json_t *head = json_head(o, plan, path, seconds);
        json_object_set_new(head, "ok", json_boolean(n_damaged == 0));
        json_object_set_new(head, "damaged", list);
        out_json(head);
    }
    if (n_damaged)
        return base_fail(err, SLUICE_ERR_MODEL,
                         "fetch the file again; if the damage moves or goes away, the disk or the memory is at fault",
                         "%.300s: %" PRIu64 " of %" PRIu64 " checksums do not match", cli_text(o, OPT_MODEL), n_damaged,
                         stored->n_sums);
    if (!json)
        report_note(r, "%s: %" PRIu64 " experts and %" PRIu64 " other tensors are good, %s, in %.1f s",
                    cli_text(o, OPT_MODEL), plan->n_experts, plan->n_dense,
                    report_bytes((double)plan->total_bytes, text), seconds);
    return SLUICE_OK;
}

int command_verify(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct report r;
    struct gguf *g = NULL;
    struct checksum_plan plan = {0};
    struct expert_sums *stored = NULL;
    report_init(&r, o);
    uint64_t begin_ns = report_now_ns();
    char *path = sums_path(o, OPT_SUMS);
    enum sluice_status status =
        path ? open_plan(o, &g, &plan, &err) : base_fail(&err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    if (!status) status = expert_sums_read(os_system(), path, plan.sums->fingerprint, false, &stored, &err);
    if (!status) status = same_groups(&plan, stored, path, &err);
    if (!status) status = checksum_read(os_system(), g, &plan, &r, "checking", &err);
    double seconds = (double)(report_now_ns() - begin_ns) / 1e9;
    if (!status) status = say_result(o, &r, g, &plan, stored, path, seconds, &err);
    expert_sums_free(stored);
    checksum_plan_free(&plan);
    gguf_close(g);
    free(path);
    return status ? report_error(&err) : 0;
}
