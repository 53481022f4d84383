/* sluice doctor: what this machine has, and what it means for streaming experts. */
#include "cli/doctor.h"

#include "cli/commands.h"
#include "cli/out.h"
#include "cli/report.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 320 /* of a sentence */

struct machine {
    struct os_cpu cpu;
    struct os_memory memory;
    uint64_t limit_bytes;  /* as the automatic budget sees it: DESIGN.md section 6 */
    unsigned auto_percent; /* of it that an automatic budget takes */
    const char *kernel;
    bool uring;
    char uring_why[160];
    bool measured;
    struct doctor_disk disk;
    uint64_t token_bytes; /* of experts, of the model that was measured; 0: it is none */
};

/* The same conditions as in room kernel's table.c (which this program may not include), without its self-check. */
static const char *kernel_level(const struct os_cpu *cpu)
{
    if (cpu->neon) return !cpu->dotprod ? "neon" : cpu->i8mm ? "i8mm" : "dotprod";
    if (!cpu->avx2 || !cpu->fma || !cpu->f16c) return "scalar";
    if (!cpu->avx512f || !cpu->avx512bw || !cpu->avx512vl || !cpu->avx512vnni) return "avx2";
    return cpu->amx_int8 && cpu->avx512vbmi ? "amx" : "avx512";
}

static void look(struct machine *m)
{
    os_cpu(&m->cpu);
    os_memory(&m->memory);
    m->uring = doctor_uring(m->uring_why);
    m->kernel = kernel_level(&m->cpu);
    uint64_t group = 0;
    m->limit_bytes = m->memory.available_bytes;
    if (m->memory.cgroup_limit_bytes != UINT64_MAX) {
        uint64_t used = m->memory.cgroup_used_bytes, limit = m->memory.cgroup_limit_bytes;
        uint64_t room = limit > used ? limit - used : 0;
        if (room < m->limit_bytes) {
            m->limit_bytes = room;
            group = limit;
        }
    }
    m->auto_percent = os_auto_percent(group);
}

static const struct {
    const char *name;
    size_t offset;
} features[] = {
    {"avx2", offsetof(struct os_cpu, avx2)},
    {"fma", offsetof(struct os_cpu, fma)},
    {"f16c", offsetof(struct os_cpu, f16c)},
    {"avx512f", offsetof(struct os_cpu, avx512f)},
    {"avx512bw", offsetof(struct os_cpu, avx512bw)},
    {"avx512vl", offsetof(struct os_cpu, avx512vl)},
    {"avx512vnni", offsetof(struct os_cpu, avx512vnni)},
    {"avx512vbmi", offsetof(struct os_cpu, avx512vbmi)},
    {"amx_int8", offsetof(struct os_cpu, amx_int8)},
    {"neon", offsetof(struct os_cpu, neon)},
    {"dotprod", offsetof(struct os_cpu, dotprod)},
    {"i8mm", offsetof(struct os_cpu, i8mm)},
};

static bool has(const struct os_cpu *cpu, size_t i)
{
    bool value;
    memcpy(&value, (const char *)cpu + features[i].offset, sizeof value);
    return value;
}

/* ---- the text form ---- */

static void print_machine(const struct machine *m)
{
    char a[24], b[24];
    out_printf("processor     %s, %u threads for this process\n", m->cpu.name, m->cpu.n_threads);
    out_printf("features     ");
    bool any = false;
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        if (has(&m->cpu, i)) {
            out_printf(" %s", features[i].name);
            any = true;
        }
    out_printf("%s\nkernels       %s", any ? "" : " none that Sluice knows", m->kernel);
    out_printf(strcmp(m->kernel, "scalar") == 0 ? " (slow: this processor has neither AVX2 nor NEON)\n" : "\n");
    out_printf("memory        %s, %s available\n", report_bytes((double)m->memory.total_bytes, a),
               report_bytes((double)m->memory.available_bytes, b));
    if (m->memory.cgroup_limit_bytes != UINT64_MAX)
        out_printf("cgroup        limit %s, %s used (%s)\n", report_bytes((double)m->memory.cgroup_limit_bytes, a),
                   report_bytes((double)m->memory.cgroup_used_bytes, b), m->memory.cgroup_path);
    else
        out_printf("cgroup        no limit\n");
    out_printf("budget        --memory auto takes %s (%u %% of %s)\n",
               report_bytes((double)m->limit_bytes * m->auto_percent / 100, a), m->auto_percent,
               report_bytes((double)m->limit_bytes, b));
    if (m->memory.can_ipc_lock)
        out_printf("memlock       no limit for this process (CAP_IPC_LOCK)\n");
    else if (m->memory.memlock_bytes == UINT64_MAX)
        out_printf("memlock       no limit\n");
    else
        out_printf("memlock       %s (ulimit -l): io_uring works, but memory beyond that is not registered with it\n",
                   report_bytes((double)m->memory.memlock_bytes, a));
    out_printf("io_uring      %s%s\n", m->uring ? "available" : "not available: ", m->uring_why);
    if (!m->uring) out_printf("              reads go through worker threads instead, a little slower\n");
}

/* What a token of the model in this file uses; 0: it is no model with experts that runs here. */
static uint64_t look_into(const char *path)
{
    struct sluice_options options;
    struct sluice_error err;
    struct sluice_model_info info;
    sluice_engine *engine = NULL;
    const size_t n = strlen(path);
    if (n < 5 || strcmp(path + n - 5, ".gguf") != 0) return 0;
    sluice_options_init(&options);
    options.model_path = path;
    options.plan_only = true;
    if (sluice_engine_open(&options, &engine, &err)) return 0;
    sluice_model_info(engine, &info);
    const uint64_t bytes = info.n_expert ? info.expert_bytes_per_token : 0;
    sluice_engine_close(engine);
    return bytes;
}

/* Fast disks and small models: 0.4 is not 0. */
static const char *milliseconds(double ms, char out[32])
{
    snprintf(out, 32, "%.*f", ms >= 9.95 ? 0 : (ms >= 0.095 ? 1 : 2), ms);
    return out;
}

/* A sentence a finding. */
static void explain(const struct doctor_disk *d, uint64_t token_bytes, char lines[4][LINE_BYTES])
{
    double best = doctor_best_rate(d), one = 0, deep = 0;
    for (unsigned b = 0; b < DOCTOR_BLOCKS; b++) { /* at the block size where depth tells most */
        double gain = d->bytes_per_s[b][0] > 0 ? d->bytes_per_s[b][2] / d->bytes_per_s[b][0] : 0;
        if (one > 0 && gain <= deep / one) continue;
        one = d->bytes_per_s[b][0];
        deep = d->bytes_per_s[b][2];
    }
    unsigned n = 0;
    if (!d->direct)
        snprintf(lines[n++], LINE_BYTES,
                 "This file system gives no direct reads: they go through the page cache, which takes memory and time, "
                 "and these figures may be the cache's.");
    const char *kind = best >= 3e9   ? "a fast NVMe disk"
                       : best >= 1e9 ? "an NVMe disk of the slower kind, or a virtual one"
                       : best >= 3e8 ? "as a SATA disk: expect it to be the limit"
                                     : "too slow for streaming: keep the model elsewhere, or give more memory";
    char half[32], tenth[32];
    if (token_bytes && best > 0)
        snprintf(lines[n++], LINE_BYTES,
                 "At best %.2f GB/s: a token of this model, which uses %.0f MB of experts, waits at least %s ms for "
                 "the disk at 50 %% hits, %s ms at 90 %% (%s).",
                 best / 1e9, (double)token_bytes / 1e6, milliseconds((double)token_bytes * 0.5e3 / best, half),
                 milliseconds((double)token_bytes * 0.1e3 / best, tenth), kind);
    else
        snprintf(lines[n++], LINE_BYTES,
                 "At best %.2f GB/s: a token that misses 100 MB of experts waits about %s ms (%s).", best / 1e9,
                 milliseconds(best > 0 ? 1e11 / best : 0, half), kind);
    if (one > 0 && deep > 1.5 * one)
        snprintf(lines[n++], LINE_BYTES,
                 "Many reads at once help (up to %.1f times), and Sluice keeps up to 32 in flight. Another program "
                 "that uses the disk "
                 "now would falsify this.",
                 deep / one);
    else
        snprintf(lines[n++], LINE_BYTES, "Many reads at once hardly help here: a network, virtual or busy disk.");
    while (n < 4) lines[n++][0] = '\0';
}

static void print_disk(const struct doctor_disk *d, uint64_t token_bytes)
{
    char a[24], lines[4][LINE_BYTES];
    if (d->n_shards)
        out_printf("\ndisk          %s, %s, the largest of the model's %zu files", d->path,
                   report_bytes((double)d->file_bytes, a), d->n_shards);
    else if (d->scratch)
        out_printf("\ndisk          a scratch file of %s (removed)", report_bytes((double)d->file_bytes, a));
    else
        out_printf("\ndisk          %s, %s", d->path, report_bytes((double)d->file_bytes, a));
    out_printf(" on %s\ndirect I/O    %s", d->filesystem[0] ? d->filesystem : "an unknown file system",
               d->direct ? "yes" : "no");
    if (d->direct) out_printf(", in units of %" PRIu32 " bytes", d->align);
    out_printf("\nrandom reads  MB/s, by %s; %s read\n", io_backend_name(d->backend),
               report_bytes((double)d->read_bytes, a));
    out_printf("  %10s", "block");
    for (unsigned q = 0; q < DOCTOR_DEPTHS; q++) out_printf("   %2u at once", doctor_depth[q]);
    out_printf("\n");
    for (unsigned b = 0; b < DOCTOR_BLOCKS; b++) {
        out_printf("  %6zu KiB", doctor_block_bytes[b] >> 10);
        for (unsigned q = 0; q < DOCTOR_DEPTHS; q++) out_printf(" %12.0f", d->bytes_per_s[b][q] / 1e6);
        out_printf("\n");
    }
    explain(d, token_bytes, lines);
    for (unsigned i = 0; i < 4 && lines[i][0]; i++) out_printf("%s\n", lines[i]);
}

/* ---- JSON ---- */

static json_t *bytes_or_null(uint64_t bytes)
{
    return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

static json_t *json_disk(const struct doctor_disk *d, uint64_t token_bytes)
{
    json_t *reads = json_array(), *meaning = json_array();
    char lines[4][LINE_BYTES];
    for (unsigned b = 0; b < DOCTOR_BLOCKS; b++)
        for (unsigned q = 0; q < DOCTOR_DEPTHS; q++)
            json_array_append_new(reads,
                                  json_pack("{s:I, s:I, s:f}", "block_bytes", (json_int_t)doctor_block_bytes[b],
                                            "depth", (json_int_t)doctor_depth[q], "bytes_per_s", d->bytes_per_s[b][q]));
    explain(d, token_bytes, lines);
    for (unsigned i = 0; i < 4 && lines[i][0]; i++) json_array_append_new(meaning, json_string(lines[i]));
    return json_pack("{s:o, s:b, s:I, s:s, s:b, s:I, s:s, s:I, s:o, s:o}", "path",
                     out_json_text(d->path, strlen(d->path)), "scratch", d->scratch, "file_bytes",
                     (json_int_t)d->file_bytes, "filesystem", d->filesystem, "direct", d->direct, "align",
                     (json_int_t)d->align, "backend", io_backend_name(d->backend), "read_bytes",
                     (json_int_t)d->read_bytes, "random_reads", reads, "meaning", meaning);
}

static json_t *json_machine(const struct machine *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        if (has(&m->cpu, i)) json_array_append_new(list, json_string(features[i].name));
    json_t *cpu = json_pack("{s:o, s:I, s:o, s:s}", "name", out_json_text(m->cpu.name, strlen(m->cpu.name)), "threads",
                            (json_int_t)m->cpu.n_threads, "features", list, "kernel", m->kernel);
    json_t *memory = json_pack(
        "{s:I, s:I, s:o, s:I, s:I, s:o, s:b}", "total_bytes", (json_int_t)m->memory.total_bytes, "available_bytes",
        (json_int_t)m->memory.available_bytes, "cgroup_limit_bytes", bytes_or_null(m->memory.cgroup_limit_bytes),
        "cgroup_used_bytes", (json_int_t)m->memory.cgroup_used_bytes, "limit_bytes", (json_int_t)m->limit_bytes,
        "memlock_bytes", bytes_or_null(m->memory.memlock_bytes), "can_ipc_lock", m->memory.can_ipc_lock);
    return json_pack("{s:o, s:o, s:{s:b, s:s}, s:o}", "cpu", cpu, "memory", memory, "io_uring", "available", m->uring,
                     "why", m->uring_why, "disk", m->measured ? json_disk(&m->disk, m->token_bytes) : json_null());
}

int command_doctor(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct machine *m = calloc(1, sizeof *m);
    if (!m) return 4;
    int code = 0;
    if (o->n_words == 0 && cli_flag(o, OPT_FULL)) {
        base_fail(&err, SLUICE_ERR_USAGE, "usage: sluice doctor DIRECTORY --full",
                  "--full has no effect without a file or a directory to measure");
        free(m);
        return report_error(&err);
    }
    look(m);
    bool json = cli_flag(o, OPT_JSON);
    if (!json) print_machine(m);
    out_flush();
    if (o->n_words) {
        m->measured = doctor_measure(o->words[0], cli_flag(o, OPT_FULL), &m->disk, &err) == SLUICE_OK;
        if (!m->measured) code = report_error(&err);
        if (m->measured && !m->disk.scratch) m->token_bytes = look_into(m->disk.n_shards ? o->words[0] : m->disk.path);
    }
    if (json && code == 0)
        out_json(json_machine(m));
    else if (m->measured)
        print_disk(&m->disk, m->token_bytes);
    else if (code == 0)
        out_printf("disk          not measured: 'sluice doctor DIRECTORY' reads 64 MiB there\n");
    free(m);
    return code;
}
