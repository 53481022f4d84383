/* Random reads by block size and queue depth, through the same room that reads experts. Each figure reads other parts
 * of the file, in random order; without direct I/O the page cache is asked to forget the file first. */
#include "cli/doctor.h"
#include "cli/interrupt.h"
#include "cli/report.h"
#include "gguf/gguf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const size_t doctor_block_bytes[DOCTOR_BLOCKS] = {64 << 10, 256 << 10, 1 << 20};
const unsigned doctor_depth[DOCTOR_DEPTHS] = {1, 8, 32};

#define MIB ((uint64_t)1 << 20)
#define SCRATCH_BYTES (64 * MIB)
#define FILE_BYTES_MIN (16 * MIB) /* less says nothing about a disk */
#define FULL_FACTOR 56            /* --full: under 1 GiB for a figure */
#define FULL_NS 2000000000u       /* and no longer than this */

/* MiB a figure; the sum is 60, so that all together stay under 64. A deeper queue needs more reads to fill. */
static const unsigned figure_mib[DOCTOR_BLOCKS][DOCTOR_DEPTHS] = {{1, 4, 6}, {2, 6, 9}, {4, 10, 18}};

static uint64_t random_next(uint64_t *state) /* splitmix64 (S. Vigna, public domain): which block comes next */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- what to read ---- */

/* The largest regular file of a directory; false: none of FILE_BYTES_MIN. */
static bool largest_file(const char *path, char *out, size_t out_bytes, uint64_t *bytes)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    char candidate[4096];
    *bytes = 0;
    if (!dir) return false;
    while ((entry = readdir(dir))) {
        struct stat info;
        if (fstatat(dirfd(dir), entry->d_name, &info, 0) != 0 || !S_ISREG(info.st_mode)) continue;
        if ((uint64_t)info.st_size <= *bytes) continue;
        int n = snprintf(candidate, sizeof candidate, "%s/%s", path, entry->d_name);
        if (n <= 0 || (size_t)n >= out_bytes || access(candidate, R_OK) != 0) continue;
        memcpy(out, candidate, (size_t)n + 1);
        *bytes = (uint64_t)info.st_size;
    }
    closedir(dir);
    return *bytes >= FILE_BYTES_MIN;
}

/* Creates the scratch file. Its name goes at once if it can be opened again without (Linux); else a signal that ends
 * the program takes it away. */
static int create_scratch(const char *directory, struct doctor_disk *d)
{
    char name[sizeof d->path];
    struct stat info;
    if (snprintf(name, sizeof name, "%s/.sluice-doctor-XXXXXX", directory) >= (int)sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    interrupt_hold(true);
    int fd = mkstemp(name);
    int error = errno;
    if (fd >= 0) {
        snprintf(d->opened, sizeof d->opened, "/proc/self/fd/%d", fd);
        if (stat(d->opened, &info) == 0 && unlink(name) == 0) {
            name[0] = '\0';
        } else {
            d->scratch_slot = interrupt_removes(name);
            memcpy(d->opened, name, sizeof name);
        }
        snprintf(d->path, sizeof d->path, "%s", directory);
    }
    interrupt_hold(false);
    errno = error;
    d->scratch_fd = fd;
    d->scratch = fd >= 0;
    return fd;
}

static void remove_scratch(struct doctor_disk *d)
{
    if (!d->scratch) return;
    if (d->scratch_slot >= 0) unlink(d->opened);
    interrupt_keeps(d->scratch_slot);
    close(d->scratch_fd);
}

static enum sluice_status write_scratch(const char *directory, struct doctor_disk *d, struct sluice_error *err)
{
    char *block = malloc(MIB);
    uint64_t state = report_now_ns();
    int error = 0;
    if (!block) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    int fd = create_scratch(directory, d);
    if (fd < 0) error = errno;
    for (uint64_t done = 0; fd >= 0 && done < SCRATCH_BYTES && !error && !interrupt_pending();) {
        for (size_t i = 0; i + 8 <= MIB; i += 8) { /* not compressible: a file system may not cheat */
            uint64_t r = random_next(&state);
            memcpy(block + i, &r, 8);
        }
        ssize_t n = write(fd, block, MIB);
        if (n < 0 && errno != EINTR) error = errno;
        if (n > 0) done += (uint64_t)n;
    }
    if (fd >= 0 && !error && fsync(fd) != 0) error = errno;
    free(block);
    d->file_bytes = SCRATCH_BYTES;
    if (!error && !interrupt_pending()) return SLUICE_OK;
    if (!error) return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
    return base_fail(err, SLUICE_ERR_IO, "name a large file instead of the directory",
                     "%.300s: cannot write a scratch file of 64 MiB: %s", directory, strerror(error));
}

/* Of a split model its largest shard: the first may hold next to nothing. Any other file stays as it is. */
static enum sluice_status choose_shard(const char *path, struct doctor_disk *d, struct sluice_error *err)
{
    struct gguf *g = NULL;
    struct sluice_error ignored;
    const char *largest = path;
    if (!gguf_open(os_system(), path, &g, &ignored) && gguf_n_shards(g) > 1) {
        d->n_shards = gguf_n_shards(g);
        for (size_t i = 0; i < d->n_shards; i++)
            if (gguf_shard(g, i)->bytes > d->file_bytes) {
                largest = gguf_shard(g, i)->path;
                d->file_bytes = gguf_shard(g, i)->bytes;
            }
    }
    const int n = snprintf(d->path, sizeof d->path, "%s", largest);
    gguf_close(g);
    if (n < (int)sizeof d->path) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE, NULL, "%.100s...: the path is too long", path);
}

static enum sluice_status choose_file(const char *path, struct doctor_disk *d, struct sluice_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return base_fail(err, SLUICE_ERR_IO, "check the path", "%.300s: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        if (largest_file(path, d->path, sizeof d->path, &d->file_bytes)) goto named;
        return write_scratch(path, d, err);
    }
    if (!S_ISREG(info.st_mode))
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%.300s: neither a file nor a directory", path);
    d->file_bytes = (uint64_t)info.st_size;
    const enum sluice_status status = choose_shard(path, d, err);
    if (status) return status;
    if (d->file_bytes < FILE_BYTES_MIN)
        return base_fail(err, SLUICE_ERR_USAGE, "name a larger file, or its directory",
                         "%.300s: %" PRIu64 " bytes are too few to measure a disk, 16 MiB are needed%s", d->path,
                         d->file_bytes, d->n_shards ? "; the model's other files are smaller still" : "");
named:
    memcpy(d->opened, d->path, sizeof d->opened);
    return SLUICE_OK;
}

/* ---- reading ---- */

struct reads {
    struct io *io;
    uint32_t file;
    size_t block_bytes;
    unsigned depth;
    uint64_t blocks; /* of the file */
    uint8_t *memory; /* [depth][block_bytes] */
    struct io_request request[32];
    uint64_t *order; /* the blocks in the order of reading */
    bool stuck;      /* the kernel still holds memory */
};

static enum sluice_status start_read(struct reads *r, unsigned slot, uint64_t i, struct sluice_error *err)
{
    struct io_request *q = &r->request[slot];
    memset(q, 0, sizeof *q);
    q->file = r->file;
    q->priority = IO_DEMAND;
    q->offset = r->order[i % r->blocks] * r->block_bytes;
    q->bytes = q->needed_bytes = r->block_bytes;
    q->dst = r->memory + (size_t)slot * r->block_bytes;
    q->tag = slot;
    return io_submit(r->io, &q, 1, err);
}

/* Reads `count` blocks from order[begin] on, `depth` at a time. */
static enum sluice_status read_blocks(struct reads *r, uint64_t begin, uint64_t count, uint64_t limit_ns,
                                      double *bytes_per_s, uint64_t *read_bytes, struct sluice_error *err)
{
    uint64_t started = 0, finished = 0, begin_ns = report_now_ns();
    enum sluice_status status = SLUICE_OK;
    for (unsigned slot = 0; slot < r->depth && started < count && !status; slot++)
        status = start_read(r, slot, begin + started++, err);
    while (finished < started) {
        struct io_done done[32];
        size_t n = io_poll(r->io, done, 32, true);
        if (n == 0) break;
        for (size_t i = 0; i < n; i++) {
            if (done[i].released) continue;
            finished++;
            r->stuck = r->stuck || done[i].stuck;
            if (done[i].status && !status) status = io_explain(r->io, &done[i], err);
            bool more = started < count && !status && !interrupt_pending();
            if (more && limit_ns && report_now_ns() - begin_ns > limit_ns) more = false;
            if (more) status = start_read(r, (unsigned)done[i].request->tag, begin + started++, err);
        }
    }
    uint64_t ns = report_now_ns() - begin_ns;
    *read_bytes += finished * r->block_bytes;
    *bytes_per_s = ns ? (double)(finished * r->block_bytes) * 1e9 / (double)ns : 0;
    if (!status && interrupt_pending()) return base_fail(err, SLUICE_CANCELLED, NULL, "interrupted");
    return status;
}

static bool shuffle(struct reads *r, uint64_t seed)
{
    r->order = malloc((size_t)r->blocks * sizeof *r->order);
    if (!r->order) return false;
    for (uint64_t i = 0; i < r->blocks; i++) r->order[i] = i;
    for (uint64_t i = r->blocks - 1; i > 0; i--) {
        uint64_t j = random_next(&seed) % (i + 1), keep = r->order[i];
        r->order[i] = r->order[j];
        r->order[j] = keep;
    }
    return true;
}

static void forget_cached(const char *path)
{
    const struct os_calls *os = os_system();
    int fd = os->open_read(os->user, path, false);
    if (fd < 0) return;
    os->drop_cached(os->user, fd, 0, 0);
    os->close(os->user, fd);
}

/* One figure, with its own io so that depth and piece are as asked. */
static enum sluice_status figure(struct doctor_disk *d, unsigned block, unsigned depth, bool full,
                                 struct sluice_error *err)
{
    struct base_log silent = {NULL, NULL};
    struct io_config config = {.os = os_system(), .log = &silent, .depth = doctor_depth[depth]};
    struct reads r = {.block_bytes = doctor_block_bytes[block], .depth = doctor_depth[depth]};
    config.piece_bytes = r.block_bytes;
    config.threads = config.depth < 32 ? config.depth : 32;
    enum sluice_status status = io_open(&config, &r.io, err);
    if (status) return status;
    status = io_file_add(r.io, d->opened, &r.file, err);
    if (status) goto close;
    r.blocks = d->file_bytes / r.block_bytes;
    /* 2 MiB suit every alignment of direct reads. */
    r.memory = aligned_alloc((size_t)2 * MIB, ((size_t)r.depth * r.block_bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
    if (!r.memory || !shuffle(&r, ((uint64_t)block << 32) + depth)) {
        status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
        goto close;
    }
    memset(r.memory, 0, (size_t)r.depth * r.block_bytes); /* page faults are not the disk's */
    if (!io_file_direct(r.io, r.file)) forget_cached(d->opened);
    uint64_t count = figure_mib[block][depth] * MIB / r.block_bytes * (full ? FULL_FACTOR : 1);
    status = read_blocks(&r, 0, count, full ? FULL_NS : 0, &d->bytes_per_s[block][depth], &d->read_bytes, err);
    struct io_stats stats;
    io_stats(r.io, &stats);
    d->backend = stats.backend;
    d->direct = io_file_direct(r.io, r.file);
    d->align = io_file_align(r.io, r.file);
close:
    io_close(r.io);
    free(r.order);
    if (!r.stuck) free(r.memory);
    return status;
}

enum sluice_status doctor_measure(const char *path, bool full, struct doctor_disk *out, struct sluice_error *err)
{
    memset(out, 0, sizeof *out);
    out->scratch_fd = out->scratch_slot = -1;
    enum sluice_status status = choose_file(path, out, err);
    int fd = status ? -1 : open(out->opened, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        os_filesystem_name(fd, out->filesystem, sizeof out->filesystem);
        close(fd);
    }
    for (unsigned b = 0; b < DOCTOR_BLOCKS && !status; b++)
        for (unsigned d = 0; d < DOCTOR_DEPTHS && !status; d++) status = figure(out, b, d, full, err);
    remove_scratch(out);
    return status;
}

double doctor_best_rate(const struct doctor_disk *d)
{
    double best = 0;
    for (unsigned b = 0; b < DOCTOR_BLOCKS; b++)
        for (unsigned q = 0; q < DOCTOR_DEPTHS; q++)
            if (d->bytes_per_s[b][q] > best) best = d->bytes_per_s[b][q];
    return best;
}

unsigned doctor_processors(void)
{
    struct os_cpu cpu;
    os_cpu(&cpu);
    return cpu.n_threads;
}

bool doctor_uring(char why[160])
{
    const struct os_calls *os = os_system();
    struct os_uring *ring;
    int error = os->uring_open(os->user, 4, &ring);
    why[0] = '\0';
    if (error == 0) {
        os->uring_close(os->user, ring);
        return true;
    }
    const char *reason = error == -EPERM    ? "forbidden here (containers often do; or kernel.io_uring_disabled)"
                         : error == -ENOSYS ? "the kernel has none, or a filter hides it"
                         : error == -ENOMEM ? "the limit of locked memory is too small"
                                            : "refused";
    snprintf(why, 160, "%s: %s", reason, strerror(-error));
    return false;
}
