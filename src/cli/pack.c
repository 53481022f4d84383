/* sluice pack: a model whose experts are read with the fewest and straightest reads.
 *
 * GGUF keeps the experts of a layer in three tensors (gate, up, down), so that one expert lies in three places, at any
 * offset. The format also allows one tensor an expert, "blk.N.ffn_gate.E.weight", as the first files with experts had
 * it. The packed file is of that kind, with an alignment of 4096: first everything else, then layer by layer the
 * experts, the three parts of each one behind the other. So a record is contiguous and begins where direct reads begin,
 * a whole layer is one sequential read, and the file is an ordinary GGUF that needs nothing special to be read.
 *
 * Bytes are copied, never changed. What an interrupted run has written stays in OUT.part and is compared instead of
 * written the next time. Before the file gets its name it is read back from the disk and compared with sums made of
 * what was read from IN; those are also written beside it, as 'sluice checksum' would. */
#include "cli/pack.h"
#include "cli/checksum.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/out.h"

#include "base/hash.h"
#include "gguf/write.h"
#include "io/io.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE_BYTES ((size_t)4 << 20)
#define RECORD_ALIGN 4096u
#define PACKED_KEY "sluice.packed"

/* One tensor of OUT: the bytes of a tensor of IN, or one expert's share of it. */
struct piece {
    const struct checksum_tensor *from;
    uint32_t expert; /* of an expert tensor */
    uint8_t part;    /* order within the record */
    uint64_t offset, bytes;
};

struct job {
    const struct os_calls *os;
    struct report report;
    struct gguf *in;
    struct checksum_plan plan;         /* of IN */
    const struct expert_sums *in_sums; /* stored beside IN, or NULL */
    struct piece *pieces;              /* [n_pieces] in OUT's order */
    uint64_t *sums;                    /* [n_pieces] of what was read from IN */
    size_t n_pieces;
    struct io *io;
    struct gguf_writer *out;
    uint8_t *buffer; /* [PIECE_BYTES] */
    uint64_t kept_bytes, done_bytes, begin_ns, shown_ns;
    uint64_t before_bytes, after_bytes; /* read for all experts, each once, with 4096-byte direct reads */
};

/* ---- the order of OUT ---- */

static uint8_t part_order(const char *part)
{
    return strcmp(part, "gate") == 0 ? 0 : strcmp(part, "up") == 0 ? 1 : strcmp(part, "down") == 0 ? 2 : 3;
}

static int by_record(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->from->experts != y->from->experts) return x->from->experts ? 1 : -1;
    if (x->from->experts && x->from->layer != y->from->layer) return x->from->layer < y->from->layer ? -1 : 1;
    if (x->from->experts && x->expert != y->expert) return x->expert < y->expert ? -1 : 1;
    if (x->from->experts && x->part != y->part) return x->part < y->part ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from; /* as in IN */
}

static uint64_t blocks(uint64_t offset, uint64_t bytes)
{
    return (offset + bytes + RECORD_ALIGN - 1) / RECORD_ALIGN - offset / RECORD_ALIGN;
}

static enum sluice_status order_pieces(struct job *j, struct sluice_error *err)
{
    const struct expert_sums *s = j->plan.sums;
    j->pieces = calloc((size_t)s->n_sums + 1, sizeof *j->pieces);
    j->sums = calloc((size_t)s->n_sums + 1, sizeof *j->sums);
    if (!j->pieces || !j->sums) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    for (uint32_t i = 0; i < s->n_groups; i++)
        for (uint32_t unit = 0; unit < s->groups[i].n; unit++) {
            struct piece *p = &j->pieces[j->n_pieces++];
            const struct checksum_tensor *from = &j->plan.tensors[i];
            *p = (struct piece){.from = from,
                                .expert = from->expert + unit,
                                .part = from->experts ? part_order(from->part) : 0,
                                .offset = s->groups[i].offset + unit * s->groups[i].unit_bytes,
                                .bytes = s->groups[i].unit_bytes};
            if (!from->experts) continue;
            if (p->part > 2)
                return base_fail(err, SLUICE_ERR_MODEL, "this kind of model is not packed yet",
                                 "tensor '%s' joins two parts of its experts", from->tensor->name);
            j->before_bytes += RECORD_ALIGN * blocks(p->offset, p->bytes);
            j->after_bytes += RECORD_ALIGN * blocks(0, p->bytes);
        }
    qsort(j->pieces, j->n_pieces, sizeof *j->pieces, by_record);
    if (j->plan.n_experts) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE, NULL, "%.300s: has no routed experts: there is nothing to pack",
                     gguf_shard(j->in, 0)->path);
}

/* ---- the header of OUT ---- */

static bool key_is(const struct gguf_value *v, const char *key)
{
    return v->key.bytes == strlen(key) && memcmp(v->key.at, key, v->key.bytes) == 0;
}

/* Statuses are looked at where the data begins (gguf/write.h). */
static void write_header(struct job *j)
{
    for (size_t i = 0; i < gguf_n_values(j->in); i++) {
        const struct gguf_value *v = gguf_value(j->in, i);
        bool split = v->key.bytes > 6 && memcmp(v->key.at, "split.", 6) == 0;
        if (!split && !key_is(v, "general.alignment")) gguf_write_value(j->out, v);
    }
    gguf_write_u32(j->out, "general.alignment", RECORD_ALIGN);
    gguf_write_u32(j->out, PACKED_KEY, 1);
    for (size_t i = 0; i < j->n_pieces; i++) {
        static const char *const parts[3] = {"gate", "up", "down"};
        const struct piece *p = &j->pieces[i];
        const struct gguf_tensor *t = p->from->tensor;
        char name[GGUF_NAME_BYTES_MAX + 1];
        uint32_t n_dims = p->from->experts && t->n_dims > 2 ? 2 : t->n_dims;
        snprintf(name, sizeof name, "%s", t->name);
        if (p->from->experts)
            snprintf(name, sizeof name, "blk.%" PRIu32 ".ffn_%s.%" PRIu32 ".weight", p->from->layer, parts[p->part],
                     p->expert);
        gguf_write_tensor(j->out, name, t->type, n_dims, t->dims);
    }
}

/* ---- its data ---- */

static void show(struct job *j)
{
    uint64_t now = report_now_ns(), total = j->plan.total_bytes;
    if (!j->report.terminal || j->report.quiet || now - j->shown_ns < 100000000u) return;
    j->shown_ns = now;
    double left =
        j->done_bytes ? (double)(now - j->begin_ns) * (double)(total - j->done_bytes) / (double)j->done_bytes : 0;
    fprintf(stderr, "\rpacking %3.0f %%  %.0f s left\033[K", report_percent((double)j->done_bytes, (double)total),
            left / 1e9);
    fflush(stderr);
    j->report.progress_shown = true;
}

static enum sluice_status copy_piece(struct job *j, size_t i, struct sluice_error *err)
{
    const struct piece *p = &j->pieces[i];
    struct base_hash h;
    base_hash_init(&h, 0);
    for (uint64_t at = 0; at < p->bytes;) {
        size_t n = p->bytes - at < PIECE_BYTES ? (size_t)(p->bytes - at) : PIECE_BYTES;
        if (interrupt_pending()) return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
        show(j);
        enum sluice_status status = io_read_now(j->io, p->from->tensor->shard, p->offset + at, j->buffer, n, err);
        if (!status) status = gguf_write_data(j->out, j->buffer, n, err);
        if (status) return status;
        base_hash_add(&h, j->buffer, n);
        at += n;
        j->done_bytes += n;
    }
    uint64_t stored;
    j->sums[i] = base_hash_value(&h);
    if (!j->in_sums || !expert_sums_find(j->in_sums, p->from->tensor->shard, p->offset, p->bytes, &stored) ||
        stored == j->sums[i])
        return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_MODEL, "'sluice verify' lists everything that is damaged: fetch the file again",
                     "tensor '%s' of IN is damaged: its checksum does not match (%" PRIu64 " bytes at byte %" PRIu64
                     ")",
                     p->from->tensor->name, p->bytes, p->offset);
}

static void log_line(void *user, enum base_log_level level, const char *text)
{
    if (level == BASE_LOG_WARN) report_warn(user, "%s", text);
}

static enum sluice_status copy_all(struct job *j, struct sluice_error *err)
{
    struct base_log log = {log_line, &j->report};
    struct io_config config = {.os = j->os, .log = &log};
    j->buffer = malloc(PIECE_BYTES);
    if (!j->buffer) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    enum sluice_status status = io_open(&config, &j->io, err);
    for (size_t i = 0; i < gguf_n_shards(j->in) && !status; i++) {
        uint32_t index;
        status = io_file_add(j->io, gguf_shard(j->in, i)->path, &index, err);
    }
    for (size_t i = 0; i < j->n_pieces && !status; i++) status = copy_piece(j, i, err);
    report_clear(&j->report);
    return status;
}

/* ---- checked, and named ---- */

/* Reads the part file back and compares; then its sums are as good as those of `checksum`. */
static enum sluice_status check_part(struct job *j, const char *part, struct checksum_plan *plan,
                                     struct sluice_error *err)
{
    struct gguf *g = NULL;
    enum sluice_status status = gguf_open(j->os, part, &g, err);
    if (!status) status = checksum_plan_make(g, plan, err);
    if (!status) status = checksum_read(j->os, g, plan, &j->report, "checking", err);
    if (!status && (plan->sums->n_sums != j->n_pieces || plan->sums->n_groups != j->n_pieces))
        status = base_fail(err, SLUICE_ERR_RUN, NULL, "%.300s: has other tensors than were written", part);
    for (size_t i = 0; i < j->n_pieces && !status; i++)
        if (plan->sums->sums[i] != j->sums[i])
            status = base_fail(err, SLUICE_ERR_IO, "the disk or the memory of this machine is at fault",
                               "%.300s: tensor '%s' reads back with other bytes than were written (%" PRIu64
                               " bytes at byte %" PRIu64 ")",
                               part, plan->tensors[i].tensor->name, plan->tensors[i].tensor->bytes,
                               plan->tensors[i].tensor->offset);
    gguf_close(g);
    return status;
}

static enum sluice_status write_sums(const struct checksum_plan *plan, const char *path, struct sluice_error *err)
{
    struct out_file file;
    uint8_t *data = NULL;
    size_t bytes;
    enum sluice_status status = out_file_open(&file, path, err);
    if (status) return status;
    status = expert_sums_encode(plan->sums, &data, &bytes, err);
    if (!status) status = out_file_write(&file, data, bytes, err);
    free(data);
    if (!status) return out_file_keep(&file, err);
    out_file_drop(&file);
    return status;
}

static enum sluice_status write_out(struct job *j, const char *path, struct sluice_error *err)
{
    struct checksum_plan plan = {0};
    char *part = NULL, *sums = NULL;
    enum sluice_status status = gguf_writer_resume(path, &j->out, err);
    if (status) return status;
    if (asprintf(&part, "%s.part", path) < 0 || asprintf(&sums, "%s" EXPERT_SUMS_SUFFIX, path) < 0)
        status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    if (!status) {
        write_header(j);
        status = copy_all(j, err);
    }
    if (!status) status = gguf_writer_sync(j->out, err);
    j->kept_bytes = gguf_writer_kept_bytes(j->out);
    if (!status) status = check_part(j, part, &plan, err);
    if (!status) status = write_sums(&plan, sums, err);
    if (!status) {
        status = gguf_writer_finish(j->out, err);
    } else if (status == SLUICE_CANCELLED || status == SLUICE_ERR_IO) {
        gguf_writer_leave(j->out);
        report_note(&j->report, "%s stays: the same command goes on with it", part);
    } else {
        gguf_writer_abandon(j->out);
    }
    checksum_plan_free(&plan);
    free(part);
    free(sums);
    return status;
}

/* ---- the whole ---- */

static enum sluice_status check_names(const struct job *j, const char *out, struct sluice_error *err)
{
    struct stat to, from;
    uint32_t packed = 0;
    enum sluice_status status = gguf_get_u32(j->in, PACKED_KEY, false, &packed, err);
    if (status) return status;
    if (packed) return base_fail(err, SLUICE_ERR_USAGE, NULL, "%.300s: is packed already", gguf_shard(j->in, 0)->path);
    if (stat(out, &to) != 0) return SLUICE_OK;
    if (S_ISDIR(to.st_mode)) return base_fail(err, SLUICE_ERR_USAGE, NULL, "%.300s: is a directory", out);
    for (size_t i = 0; i < gguf_n_shards(j->in); i++)
        if (stat(gguf_shard(j->in, i)->path, &from) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
            return base_fail(err, SLUICE_ERR_USAGE, "give OUT another name", "%.300s: IN and OUT are the same file",
                             out);
    return SLUICE_OK;
}

static enum sluice_status read_sums(const struct job *j, const char *in, struct expert_sums **sums,
                                    struct sluice_error *err)
{
    char *path;
    if (asprintf(&path, "%s" EXPERT_SUMS_SUFFIX, in) < 0)
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    enum sluice_status status = expert_sums_read(j->os, path, gguf_fingerprint(j->in), true, sums, err);
    free(path);
    return status;
}

static void say_result(const struct cli_options *o, struct job *j, bool compared)
{
    char before[24], after[24], kept[24], total[24];
    double n = (double)j->plan.n_experts, seconds = (double)(report_now_ns() - j->begin_ns) / 1e9;
    if (cli_flag(o, OPT_JSON)) {
        out_json(json_pack("{s:o, s:o, s:I, s:I, s:I, s:b, s:f, s:f, s:f}", "in",
                           out_json_text(o->words[0], strlen(o->words[0])), "out",
                           out_json_text(o->words[1], strlen(o->words[1])), "experts", (json_int_t)j->plan.n_experts,
                           "bytes", (json_int_t)j->plan.total_bytes, "kept_bytes", (json_int_t)j->kept_bytes,
                           "compared_with_checksums", compared, "expert_read_bytes_before", (double)j->before_bytes / n,
                           "expert_read_bytes_after", (double)j->after_bytes / n, "seconds", seconds));
        return;
    }
    report_note(&j->report, "%s: %" PRIu64 " experts, %s, in %.1f s; read back and compared", o->words[1],
                j->plan.n_experts, report_bytes((double)j->plan.total_bytes, total), seconds);
    if (j->kept_bytes)
        report_note(&j->report, "%s of an earlier run were kept", report_bytes((double)j->kept_bytes, kept));
    report_note(&j->report, "an expert: 3 places and %s a read before, 1 place and %s now",
                report_bytes((double)j->before_bytes / n, before), report_bytes((double)j->after_bytes / n, after));
}

int pack_run(const struct os_calls *os, const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct job j = {.os = os, .begin_ns = report_now_ns()};
    struct expert_sums *in_sums = NULL;
    report_init(&j.report, o);
    enum sluice_status status = gguf_open(os, o->words[0], &j.in, &err);
    if (!status) status = gguf_check_language_model(j.in, false, &err);
    if (!status) status = check_names(&j, o->words[1], &err);
    if (!status) status = read_sums(&j, o->words[0], &in_sums, &err);
    j.in_sums = in_sums;
    if (!status) status = checksum_plan_make(j.in, &j.plan, &err);
    if (!status) status = order_pieces(&j, &err);
    if (!status) status = write_out(&j, o->words[1], &err);
    if (!status) say_result(o, &j, in_sums != NULL);
    io_close(j.io);
    free(j.buffer);
    free(j.pieces);
    free(j.sums);
    checksum_plan_free(&j.plan);
    expert_sums_free(in_sums);
    gguf_close(j.in);
    return status ? report_error(&err) : 0;
}

int command_pack(const struct cli_options *o) { return pack_run(os_system(), o); }
