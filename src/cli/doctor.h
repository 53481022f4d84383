/* Disk measurement for sluice doctor. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "base/error.h"
#include "cli/report.h"
#include "io/io.h"

#define DOCTOR_BLOCKS 3
#define DOCTOR_DEPTHS 3
extern const size_t doctor_block_bytes[DOCTOR_BLOCKS];
extern const unsigned doctor_depth[DOCTOR_DEPTHS];

struct doctor_disk {
    char path[4096];              /* what was read; of a scratch file, its directory */
    char opened[4096];            /* by which name it can be opened */
    int scratch_fd, scratch_slot; /* a scratch file has no name where the system can do without; -1: none */
    char filesystem[32];
    bool scratch;    /* a file written for the purpose */
    bool direct;     /* O_DIRECT works here */
    size_t n_shards; /* of the split model whose largest was read; 0: another file */
    uint32_t align;
    uint64_t file_bytes, read_bytes;
    enum io_backend backend;
    double bytes_per_s[DOCTOR_BLOCKS][DOCTOR_DEPTHS];
};

/* path: a file (of a split model: its first; the largest is read), or a directory (its largest file, or a scratch
 * file). full: read more. SLUICE_CANCELLED: Ctrl-C. */
enum sluice_status doctor_measure(const char *path, bool full, struct doctor_disk *out, struct sluice_error *err);
double doctor_best_rate(const struct doctor_disk *d); /* bytes a second, at the block size and depth that suit it */

/* --disk: a number of MB/s, or a file whose disk is measured. *disk: MB/s, 0 if nothing is said of it. */
enum sluice_status doctor_find_disk(const struct cli_options *o, struct report *r, double *disk,
                                    struct sluice_error *err);
/* Bytes a second that so many threads read from memory now, which takes a moment and 256 MiB; 0: not to be had. */
double doctor_memory_rate(unsigned threads);

/* CPUs that the process may use. */
unsigned doctor_processors(void);

/* Whether io_uring can be had; why: the reason if not. */
bool doctor_uring(char why[160]);

#endif
