/* Reads the dense weights into memory that the engine owns: neighbouring tensors are one read, so that the file's order
 * is the disk's. */
#ifndef ENGINE_LOAD_H
#define ENGINE_LOAD_H

#include "expert/verify.h"
#include "io/io.h"
#include "model/model.h"
#include "os/toucher.h"

struct load_run {
    uint32_t file;
    uint64_t offset; /* aligned for direct reads */
    size_t bytes;    /* aligned; may reach past the end of the file */
    size_t needed_bytes;
    uint64_t at;     /* place in the dense block */
    size_t first, n; /* range of model->dense */
};

struct load_plan {
    struct load_run *runs;
    size_t n_runs;
    uint64_t block_bytes; /* the dense block: runs, then converted vectors */
    uint64_t converted_at;
    uint64_t read_bytes; /* what will be read from the disk, alignment included */
};

enum sluice_status load_plan_make(const struct model *m, const struct io *io, struct load_plan *out,
                                  struct sluice_error *err);
void load_plan_free(struct load_plan *p);

#define LOAD_TOUCHERS_MAX 4

/* Who brings the block's memory in ahead of the reads. */
struct load_touch {
    const struct os_calls *os;
    struct os_toucher *toucher; /* NULL: nobody, it comes as it is read into */
    unsigned n;                 /* so many threads, `toucher` and passing ones; at most LOAD_TOUCHERS_MAX */
    void (*rest)(void *user);   /* NULL, or called again and again while `toucher` has nothing left to do here */
    void *user;
};

/* Reads everything into `block` and points the model's tensors at it. go_on (may be NULL) is told the bytes read so
 * far; false stops with SLUICE_CANCELLED once the reads in flight have ended. */
enum sluice_status load_dense(struct model *m, struct io *io, const struct load_touch *touch, const struct load_plan *p,
                              void *block, bool (*go_on)(void *user, uint64_t done, uint64_t total), void *user,
                              struct sluice_error *err);
/* Compares what load_dense has read, tensor by tensor; the error names the tensor. */
enum sluice_status load_verify(const struct model *m, const struct load_plan *p, const void *block,
                               struct expert_verify *verify, bool (*go_on)(void *user, uint64_t done, uint64_t total),
                               void *user, struct sluice_error *err);

#endif
