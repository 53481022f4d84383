/* What every test of io needs: a table that can fail, a file of known content, captured log lines, an open reader. */
#ifndef TESTS_IO_RIG_H
#define TESTS_IO_RIG_H

#include "fault_os.h"
#include "io/io.h"
#include "test_file.h"

#define RIG_LINES_MAX 16

struct rig {
    struct fault_os fault;
    struct test_file file;
    struct io *io;
    uint32_t index; /* of the file */
    struct base_log log;
    char lines[RIG_LINES_MAX][1024];
    unsigned n_lines;
    uint8_t *memory; /* page-aligned */
    size_t memory_bytes;
    uint64_t seed;
};

/* Everything but the reader: rules and errors can be set before rig_open. */
void rig_init(struct rig *r, uint64_t file_bytes, size_t memory_bytes);
struct io_config rig_config(struct rig *r, enum io_backend backend);
/* Opens the reader and adds the file; fails the test if that fails. */
void rig_open(struct rig *r, const struct io_config *config);
/* Closes what is open and forgets the log, so that the rig can be opened again. */
void rig_close(struct rig *r);
void rig_end(struct rig *r);
bool rig_logged(const struct rig *r, const char *part);

/* The back ends that this machine has: IO_SYNC, IO_THREADS and, where it is allowed, IO_URING. */
unsigned rig_backends(enum io_backend out[3]);

/* A request for `bytes` bytes at `offset`, widened to the file's alignment, into memory + at. */
struct io_request rig_request(struct rig *r, uint64_t offset, size_t bytes, enum io_priority priority, size_t at);
/* Submits one, waits for its report, and gives it. */
struct io_done rig_read(struct rig *r, struct io_request *request);
/* Polls until nothing is outstanding; counts the reports in seen[tag]. Returns how many there were. */
size_t rig_drain(struct rig *r, unsigned *seen, size_t n_seen);

#endif
