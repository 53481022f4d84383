#include "rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void take_line(void *user, enum base_log_level level, const char *text)
{
    struct rig *r = user;
    if (r->n_lines < RIG_LINES_MAX) snprintf(r->lines[r->n_lines++], sizeof r->lines[0], "%s", text);
}

void rig_init(struct rig *r, uint64_t file_bytes, size_t memory_bytes)
{
    memset(r, 0, sizeof *r);
    fault_os_init(&r->fault);
    r->log = (struct base_log){.line = take_line, .user = r};
    r->seed = 1;
    assert_true(test_file_make(&r->file, file_bytes));
    r->memory_bytes = (memory_bytes + 65535) & ~(size_t)65535;
    r->memory = aligned_alloc(65536, r->memory_bytes);
    assert_non_null(r->memory);
    memset(r->memory, 0, r->memory_bytes);
}

struct io_config rig_config(struct rig *r, enum io_backend backend)
{
    return (struct io_config){
        .os = &r->fault.calls,
        .log = &r->log,
        .backend = backend,
        .depth = 8,
        .threads = 4,
        .piece_bytes = 16384,
    };
}

void rig_open(struct rig *r, const struct io_config *config)
{
    struct sluice_error err = {0};
    if (io_open(config, &r->io, &err) != SLUICE_OK) fail_msg("%s", err.message);
    if (io_file_add(r->io, r->file.path, &r->index, &err) != SLUICE_OK) fail_msg("%s", err.message);
}

void rig_close(struct rig *r)
{
    io_close(r->io);
    r->io = NULL;
    r->n_lines = 0;
}

void rig_end(struct rig *r)
{
    rig_close(r);
    fault_os_destroy(&r->fault);
    test_file_remove(&r->file);
    free(r->memory);
}

bool rig_logged(const struct rig *r, const char *part)
{
    for (unsigned i = 0; i < r->n_lines; i++)
        if (strstr(r->lines[i], part)) return true;
    return false;
}

unsigned rig_backends(enum io_backend out[3])
{
    unsigned n = 0;
    out[n++] = IO_SYNC;
    out[n++] = IO_THREADS;
    if (fault_uring_works())
        out[n++] = IO_URING;
    else
        print_message("io_uring is not to be had here: tested without it\n");
    return n;
}

struct io_request rig_request(struct rig *r, uint64_t offset, size_t bytes, enum io_priority priority, size_t at)
{
    uint64_t align = io_file_align(r->io, r->index);
    uint64_t first = offset - offset % align;
    uint64_t end = (offset + bytes + align - 1) / align * align;
    assert_true(at + (end - first) <= r->memory_bytes);
    return (struct io_request){
        .file = r->index,
        .priority = priority,
        .offset = first,
        .bytes = (size_t)(end - first),
        .needed_bytes = (size_t)(offset + bytes - first),
        .dst = r->memory + at,
    };
}

struct io_done rig_read(struct rig *r, struct io_request *request)
{
    struct sluice_error err = {0};
    struct io_done done = {0};
    if (io_submit(r->io, &request, 1, &err) != SLUICE_OK) fail_msg("%s", err.message);
    assert_int_equal(io_poll(r->io, &done, 1, true), 1);
    assert_ptr_equal(done.request, request);
    return done;
}

size_t rig_drain(struct rig *r, unsigned *seen, size_t n_seen)
{
    size_t n = 0;
    struct io_done done[7];
    while (io_outstanding(r->io) > 0) {
        size_t got = io_poll(r->io, done, 7, true);
        assert_true(got > 0);
        for (size_t i = 0; i < got; i++) {
            assert_true(done[i].request->tag < n_seen);
            seen[done[i].request->tag]++;
        }
        n += got;
    }
    return n;
}
