/* sluice quantize: a model in another format, tensor by tensor. A tensor passes through in pieces of whole rows: read,
 * decode to floats, encode, write; the rows of a piece are shared among threads, and the result does not depend on how
 * many. The file appears under its name when it is complete. */
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "cli/report.h"
#include "gguf/write.h"
#include "quant/quant.h"

#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE_ELEMENTS ((uint64_t)1 << 22) /* floats of a piece: 16 MiB, and the encoded forms */
#define THREADS_MAX 64
#define ROW_ELEMENTS_MIN 32 /* shorter rows are no matrices worth it (convolutions) */

struct rule {
    regex_t regex;
    const char *text; /* as given */
    bool matched;
    const struct quant_type *type;
};

struct job_tensor {
    const struct gguf_tensor *from;
    const struct quant_type *source, *target; /* equal: copied as it is. source NULL: unknown, copied */
};

struct job {
    const struct os_calls *os;
    const char *path; /* of the model */
    struct gguf *in;
    struct gguf_writer *out;
    struct report report;
    struct rule *rules;
    unsigned n_rules;
    const struct quant_type *type;
    bool requantize;
    unsigned threads;
    struct job_tensor *tensors;
    int fd; /* of shard fd_shard, or -1 */
    uint32_t fd_shard;
    uint8_t *raw, *encoded;
    float *floats;
    uint64_t done_bytes, total_bytes, begin_ns, shown_ns;
    uint64_t written_bytes;
};

/* ---- which tensor becomes what ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

/* What Sluice never converts: what is small and decides much. */
static bool stays(const struct gguf_tensor *t)
{
    return t->n_dims < 2 || (t->dims[1] == 1 && t->dims[2] == 1 && t->dims[3] == 1) || t->dims[0] < ROW_ELEMENTS_MIN ||
           !ends_with(t->name, ".weight") || strstr(t->name, "_norm.") || strstr(t->name, "ffn_gate_inp") ||
           strstr(t->name, "_tid2eid");
}

static bool is_float(const struct quant_type *t) { return t->form == QUANT_FORM_FLOAT; }

static enum sluice_status choose_target(struct job *j, struct job_tensor *t, struct sluice_error *err)
{
    const struct gguf_tensor *from = t->from;
    bool forced = false;
    t->source = t->target = quant_type(from->type);
    const struct quant_type *target = j->type;
    for (unsigned i = 0; i < j->n_rules; i++) {
        if (regexec(&j->rules[i].regex, from->name, 0, NULL, 0) != 0) continue;
        if (!forced) target = j->rules[i].type;
        forced = j->rules[i].matched = true;
    }
    if (stays(from)) {
        if (forced)
            report_note(&j->report, "%s stays as it is: it is a vector, a norm, a bias or a router", from->name);
        return SLUICE_OK;
    }
    if (!t->source)
        return base_fail(err, SLUICE_ERR_MODEL, "begin with the F16, BF16 or F32 file",
                         "%.300s: tensor '%s' has type %s, which Sluice cannot decode", j->path, from->name,
                         quant_type_name(from->type) ? quant_type_name(from->type) : "unknown");
    if (target == t->source) return SLUICE_OK;
    if (!is_float(t->source) && !j->requantize)
        return base_fail(err, SLUICE_ERR_USAGE,
                         "begin with the F16, BF16 or F32 file, or add --requantize and lose quality twice",
                         "%.300s: tensor '%s' is quantised already (%s)", j->path, from->name, t->source->name);
    if (from->dims[0] % target->block_len != 0) {
        const struct quant_type *q8 = quant_type(QUANT_Q8_0);
        const struct quant_type *other = from->dims[0] % q8->block_len == 0 ? q8 : quant_type(QUANT_F16);
        report_note(&j->report, "%s: rows of %" PRIu64 " are no multiple of %s's block of %u, it becomes %s",
                    from->name, from->dims[0], target->name, target->block_len, other->name);
        target = other;
    }
    t->target = target;
    return SLUICE_OK;
}

static enum sluice_status choose_all(struct job *j, const char *path, struct sluice_error *err)
{
    size_t n = gguf_n_tensors(j->in), changed = 0;
    j->tensors = calloc(n ? n : 1, sizeof *j->tensors);
    if (!j->tensors) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    for (size_t i = 0; i < n; i++) {
        j->tensors[i].from = gguf_tensor(j->in, i);
        enum sluice_status status = choose_target(j, &j->tensors[i], err);
        if (status) return status;
        if (j->tensors[i].source != j->tensors[i].target) changed++;
        j->total_bytes += j->tensors[i].from->bytes;
    }
    for (unsigned i = 0; i < j->n_rules; i++)
        if (!j->rules[i].matched)
            return base_fail(err, SLUICE_ERR_USAGE, "'sluice inspect' lists the names of the tensors",
                             "--tensor-type '%.100s' matches no tensor of %.300s", j->rules[i].text, path);
    if (changed == 0)
        return base_fail(err, SLUICE_ERR_USAGE, "choose another --type; 'sluice inspect' shows the types that it has",
                         "%.300s: no tensor would change", path);
    return SLUICE_OK;
}

/* ---- metadata ---- */

/* The id of general.file_type for a file that is mostly of one type (ggml's list). */
static uint32_t file_type(const struct quant_type *t)
{
    switch (t->id) {
    case QUANT_F16: return 1;
    case QUANT_Q4_0: return 2;
    case QUANT_Q8_0: return 7;
    case QUANT_Q4_K: return 15;
    case QUANT_Q6_K: return 18;
    case QUANT_TQ1_0: return 36;
    case QUANT_TQ2_0: return 37;
    default: return 0;
    }
}

static bool key_is(const struct gguf_value *v, const char *key)
{
    return v->key.bytes == strlen(key) && memcmp(v->key.at, key, v->key.bytes) == 0;
}

static enum sluice_status write_metadata(struct job *j)
{
    enum sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < gguf_n_values(j->in) && !status; i++) {
        const struct gguf_value *v = gguf_value(j->in, i);
        bool split = v->key.bytes > 6 && memcmp(v->key.at, "split.", 6) == 0;
        if (split || key_is(v, "general.file_type") || key_is(v, "general.quantization_version")) continue;
        status = gguf_write_value(j->out, v);
    }
    if (!status) status = gguf_write_u32(j->out, "general.quantization_version", 2);
    if (!status) status = gguf_write_u32(j->out, "general.file_type", file_type(j->type));
    return status;
}

static enum sluice_status write_directory(struct job *j)
{
    enum sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < gguf_n_tensors(j->in) && !status; i++) {
        const struct job_tensor *t = &j->tensors[i];
        uint32_t type = t->target ? t->target->id : t->from->type;
        status = gguf_write_tensor(j->out, t->from->name, type, t->from->n_dims, t->from->dims);
    }
    return status;
}

/* ---- data ---- */

static enum sluice_status read_at(struct job *j, const struct gguf_tensor *t, uint64_t offset, void *to, size_t bytes,
                                  struct sluice_error *err)
{
    const struct gguf_shard *shard = gguf_shard(j->in, t->shard);
    if (j->fd >= 0 && j->fd_shard != t->shard) {
        j->os->close(j->os->user, j->fd);
        j->fd = -1;
    }
    if (j->fd < 0) {
        j->fd = j->os->open_read(j->os->user, shard->path, false);
        j->fd_shard = t->shard;
        if (j->fd < 0)
            return base_fail(err, SLUICE_ERR_IO, "check the path and its permissions", "%.300s: cannot open: %s",
                             shard->path, strerror(-j->fd));
    }
    for (size_t done = 0; done < bytes;) {
        ssize_t n = j->os->pread(j->os->user, j->fd, (char *)to + done, bytes - done, offset + done);
        if (n == -EINTR) continue;
        if (n <= 0)
            return base_fail(err, SLUICE_ERR_IO, "is the file still being written?",
                             "%.300s: tensor '%s': cannot read %zu bytes at %" PRIu64 ": %s", shard->path, t->name,
                             bytes - done, offset + done, n < 0 ? strerror((int)-n) : "the file ends there");
        done += (size_t)n;
    }
    return SLUICE_OK;
}

struct slice {
    const struct job_tensor *tensor;
    const uint8_t *raw;
    float *floats;
    uint8_t *encoded;
    size_t n; /* elements: whole rows */
    bool not_finite;
};

static void convert_slice(void *arg)
{
    struct slice *s = arg;
    s->tensor->source->decode(s->raw, s->floats, s->n);
    for (size_t i = 0; i < s->n; i++) /* An exponent of all ones is an infinity or NaN, which no format keeps. */
        if ((s->floats[i] - s->floats[i]) != 0) s->not_finite = true;
    s->tensor->target->encode(s->floats, s->encoded, s->n);
}

/* Converts n elements (whole rows of row_len) from raw to encoded, shared among the threads. */
static bool convert_piece(struct job *j, const struct job_tensor *t, size_t n_rows, size_t row_len)
{
    struct slice slices[THREADS_MAX];
    struct os_thread *threads[THREADS_MAX];
    size_t in_bytes = quant_row_bytes(t->source, row_len), out_bytes = quant_row_bytes(t->target, row_len);
    unsigned n_slices = j->threads < n_rows ? j->threads : (unsigned)n_rows;
    bool finite = true;
    for (unsigned i = 0; i < n_slices; i++) {
        size_t begin = n_rows * i / n_slices, end = n_rows * (i + 1) / n_slices;
        slices[i] = (struct slice){.tensor = t,
                                   .raw = j->raw + begin * in_bytes,
                                   .floats = j->floats + begin * row_len,
                                   .encoded = j->encoded + begin * out_bytes,
                                   .n = (end - begin) * row_len};
        threads[i] = NULL;
        /* The last slice, and any that no thread can be had for, is this thread's. */
        if (i + 1 == n_slices || os_thread_start(&threads[i], convert_slice, &slices[i], "quantize", 256 << 10) != 0) {
            threads[i] = NULL;
            convert_slice(&slices[i]);
        }
    }
    for (unsigned i = 0; i < n_slices; i++) {
        if (threads[i]) os_thread_join(threads[i]);
        finite = finite && !slices[i].not_finite;
    }
    return finite;
}

static void show_progress(struct job *j, const char *name)
{
    uint64_t now = report_now_ns();
    if (!j->report.terminal || j->report.quiet || now - j->shown_ns < 100000000u) return;
    j->shown_ns = now;
    double left = j->done_bytes
                      ? (double)(now - j->begin_ns) * (double)(j->total_bytes - j->done_bytes) / (double)j->done_bytes
                      : 0;
    fprintf(stderr, "\rquantising %3.0f %%  %s  %.0f s left\033[K",
            report_percent((double)j->done_bytes, (double)j->total_bytes), name, left / 1e9);
    fflush(stderr);
    j->report.progress_shown = true;
}

static void say_tensor(struct job *j, const struct job_tensor *t)
{
    const char *source = quant_type_name(t->from->type);
    char line[256];
    snprintf(line, sizeof line, "%.150s: %s, %s", t->from->name, source ? source : "unknown type",
             t->source == t->target ? "copied" : t->target->name);
    base_printable(line);
    report_log(&j->report, SLUICE_LOG_DEBUG, line);
}

static enum sluice_status write_tensor(struct job *j, const struct job_tensor *t, struct sluice_error *err)
{
    const struct gguf_tensor *from = t->from;
    bool convert = t->source != t->target;
    say_tensor(j, t);
    uint64_t row_len = from->dims[0], n_rows = from->dims[1] * from->dims[2] * from->dims[3];
    /* Copied tensors go byte by byte: their type may be unknown. */
    uint64_t row_bytes = convert ? quant_row_bytes(t->source, (size_t)row_len) : 1, n = convert ? n_rows : from->bytes;
    uint64_t rows_max = convert ? PIECE_ELEMENTS / row_len : PIECE_ELEMENTS;
    if (convert && rows_max == 0)
        return base_fail(err, SLUICE_ERR_MODEL, "is the file damaged? A row has a few thousand",
                         "%.300s: tensor '%s': rows of %" PRIu64 " elements are too long", j->path, from->name,
                         row_len);
    for (uint64_t at = 0; at < n;) {
        size_t rows = (size_t)(n - at < rows_max ? n - at : rows_max), bytes = rows * (size_t)row_bytes;
        if (interrupt_pending()) return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
        show_progress(j, from->name);
        enum sluice_status status = read_at(j, from, from->offset + at * row_bytes, j->raw, bytes, err);
        if (status) return status;
        size_t out_bytes = bytes;
        if (convert) {
            out_bytes = rows * quant_row_bytes(t->target, (size_t)row_len);
            if (!convert_piece(j, t, rows, (size_t)row_len))
                return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged, or was written by a failed training",
                                 "%.300s: tensor '%s' holds values that are not finite", j->path, from->name);
        }
        status = gguf_write_data(j->out, convert ? j->encoded : j->raw, out_bytes, err);
        if (status) return status;
        at += rows;
        j->done_bytes += bytes;
        j->written_bytes += out_bytes;
    }
    return SLUICE_OK;
}

/* ---- the whole ---- */

/* Formats that Sluice reads and for a reason does not write. */
static const char *why_not(const struct quant_type *t)
{
    if (!t) return "";
    if (strncmp(t->name, "IQ", 2) == 0)
        return ": it is good only with an importance matrix, which Sluice does not make";
    if (t->id == QUANT_NVFP4) return ": it needs a factor for each tensor, which comes with a model made for it";
    return "";
}

static enum sluice_status parse_rules(struct job *j, const struct cli_options *o, struct sluice_error *err)
{
    unsigned n = o->value[OPT_TENSOR_TYPE].n_repeats;
    j->rules = calloc(n ? n : 1, sizeof *j->rules);
    if (!j->rules) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    for (unsigned i = 0; i < n; i++) {
        const char *text = o->tensor_types[i], *equals = strrchr(text, '=');
        char expression[256], reason[128];
        if (!equals || equals == text || (size_t)(equals - text) >= sizeof expression)
            return base_fail(err, SLUICE_ERR_USAGE, "as in --tensor-type 'ffn_down=Q6_K'",
                             "--tensor-type: '%.100s' is not REGEX=TYPE", text);
        memcpy(expression, text, (size_t)(equals - text));
        expression[equals - text] = '\0';
        const struct quant_type *type = quant_type_by_name(equals + 1);
        if (!type || !type->encode)
            return base_fail(err, SLUICE_ERR_USAGE, "one of Q8_0, Q4_0, Q4_K, Q6_K, TQ1_0, TQ2_0, F16, BF16, F32",
                             "--tensor-type: Sluice does not write '%.40s'%s", equals + 1, why_not(type));
        int code = regcomp(&j->rules[i].regex, expression, REG_EXTENDED | REG_NOSUB);
        if (code) {
            regerror(code, NULL, reason, sizeof reason);
            return base_fail(err, SLUICE_ERR_USAGE, "a POSIX extended expression, as in 'attn_(q|k)=F16'",
                             "--tensor-type: '%.100s': %s", expression, reason);
        }
        j->rules[i].type = type;
        j->rules[i].text = text;
        j->n_rules = i + 1;
    }
    return SLUICE_OK;
}

static enum sluice_status check_out(const struct job *j, const char *out, struct sluice_error *err)
{
    struct stat to, from;
    if (stat(out, &to) != 0) return SLUICE_OK;
    if (S_ISDIR(to.st_mode))
        return base_fail(err, SLUICE_ERR_USAGE, "name a file in it", "%.300s: is a directory", out);
    for (size_t i = 0; i < gguf_n_shards(j->in); i++)
        if (stat(gguf_shard(j->in, i)->path, &from) == 0 && from.st_dev == to.st_dev && from.st_ino == to.st_ino)
            return base_fail(err, SLUICE_ERR_USAGE, "give OUT another name", "%.300s: IN and OUT are the same file",
                             out);
    return SLUICE_OK;
}

static enum sluice_status make_buffers(struct job *j, struct sluice_error *err)
{
    size_t bytes = (size_t)PIECE_ELEMENTS * sizeof(float);
    j->raw = malloc(bytes);
    j->encoded = malloc(bytes);
    j->floats = malloc(bytes);
    if (j->raw && j->encoded && j->floats) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_MEMORY, "free some memory", "%.300s: out of memory for buffers of 48 MiB",
                     j->path);
}

/* The part file is the writer's affair, but for a signal that ends the program. */
static enum sluice_status open_out(struct job *j, const char *path, int *slot, struct sluice_error *err)
{
    char *part;
    *slot = -1;
    if (asprintf(&part, "%s.part", path) < 0) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    interrupt_hold(true);
    enum sluice_status status = gguf_writer_open(path, &j->out, err);
    if (!status) *slot = interrupt_removes(part);
    interrupt_hold(false);
    free(part);
    return status;
}

static enum sluice_status write_model(struct job *j, const char *path, struct sluice_error *err)
{
    enum sluice_status status = SLUICE_OK;
    if (write_metadata(j) || write_directory(j))
        status = base_fail(err, SLUICE_ERR_MEMORY, "free some memory", "%.300s: the header cannot be written", path);
    for (size_t i = 0; i < gguf_n_tensors(j->in) && !status; i++) status = write_tensor(j, &j->tensors[i], err);
    report_clear(&j->report);
    if (status) {
        gguf_writer_abandon(j->out);
        return status;
    }
    return gguf_writer_finish(j->out, err);
}

/* A link stays one: what it leads to is written. */
static enum sluice_status write_all(struct job *j, const char *path, struct sluice_error *err)
{
    char *target = NULL;
    bool regular;
    int slot = -1;
    enum sluice_status status = out_resolve(path, &target, &regular, err);
    if (!status && !regular)
        status = base_fail(err, SLUICE_ERR_USAGE, "name a file", "%.300s: is not a regular file", path);
    if (!status) status = open_out(j, target, &slot, err);
    if (!status) status = write_model(j, target, err);
    interrupt_keeps(slot);
    free(target);
    return status;
}

static void job_close(struct job *j)
{
    if (j->fd >= 0) j->os->close(j->os->user, j->fd);
    for (unsigned i = 0; i < j->n_rules; i++) regfree(&j->rules[i].regex);
    free(j->rules);
    free(j->tensors);
    free(j->raw);
    free(j->encoded);
    free(j->floats);
    gguf_close(j->in);
}

int command_quantize(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct job j = {.os = os_system(), .fd = -1, .requantize = cli_flag(o, OPT_REQUANTIZE)};
    struct os_cpu cpu;
    char before[24], after[24];
    report_init(&j.report, o);
    os_cpu(&cpu);
    j.threads = cli_given(o, OPT_THREADS) ? (unsigned)cli_integer(o, OPT_THREADS) : cpu.n_threads;
    if (j.threads > THREADS_MAX) j.threads = THREADS_MAX;
    j.type = quant_type_by_name(cli_text(o, OPT_TYPE));
    if (!j.type || !j.type->encode) {
        base_fail(&err, SLUICE_ERR_USAGE, NULL, "Sluice does not write '%s'%s", cli_text(o, OPT_TYPE), why_not(j.type));
        return report_error(&err);
    }
    if (cli_given(o, OPT_THREADS) && cli_integer(o, OPT_THREADS) > cpu.n_threads)
        report_warn(&j.report, "%u threads on %u processors: slower", (unsigned)cli_integer(o, OPT_THREADS),
                    cpu.n_threads);
    j.path = o->words[0];
    j.begin_ns = report_now_ns();
    enum sluice_status status = gguf_open(j.os, o->words[0], &j.in, &err);
    if (status) return report_error(&err);
    if (!status) status = gguf_check_language_model(j.in, false, &err);
    if (!status) status = check_out(&j, o->words[1], &err);
    if (!status) status = parse_rules(&j, o, &err);
    if (!status) status = choose_all(&j, o->words[0], &err);
    if (!status) status = make_buffers(&j, &err);
    if (!status) status = write_all(&j, o->words[1], &err);
    if (!status)
        report_note(&j.report, "%s: %s became %s in %.1f s", o->words[1], report_bytes((double)j.total_bytes, before),
                    report_bytes((double)j.written_bytes, after), (double)(report_now_ns() - j.begin_ns) / 1e9);
    job_close(&j);
    return status ? report_error(&err) : 0;
}
