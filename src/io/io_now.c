/* io_read_now: reads of any alignment, for metadata and small tensors. They go the way of all reads (priorities, the
 * wait limit, every back end) into the staging memory and are copied from there. */
#include "io/room.h"

#include <inttypes.h>
#include <string.h>

static enum sluice_status read_window(struct io *io, uint32_t file, uint64_t from, size_t bytes, size_t needed,
                                      struct sluice_error *err)
{
    struct io_request *r = &io->staging_request;
    *r = (struct io_request){
        .file = file,
        .priority = IO_DEMAND,
        .offset = from,
        .bytes = bytes,
        .needed_bytes = needed,
        .dst = io->staging,
    };
    io_enqueue(io, r);
    io_advance(io, 0);
    while (r->state_ == REQUEST_WAITING || r->state_ == REQUEST_RUNNING) io_advance(io, io_next_event_ns(io));
    struct io_done done = {.request = r, .status = SLUICE_OK, .stuck = r->state_ != REQUEST_FINISHED};
    if (r->error_ == IO_LATE)
        done.status = SLUICE_ERR_TIMEOUT;
    else if (r->error_)
        done.status = SLUICE_ERR_IO;
    done.error = r->error_ > 0 ? r->error_ : 0;
    if (r->state_ == REQUEST_FINISHED) r->state_ = REQUEST_IDLE;
    return io_explain(io, &done, err);
}

enum sluice_status io_read_now(struct io *io, uint32_t file, uint64_t offset, void *dst, size_t bytes,
                               struct sluice_error *err)
{
    if (file >= io->n_files) return base_fail(err, SLUICE_ERR_RUN, NULL, "no file has number %u", file);
    const struct io_file *f = &io->files[file];
    if (offset > f->info.bytes || bytes > f->info.bytes - offset)
        return base_fail(err, SLUICE_ERR_IO, "fetch the file again: it is not complete",
                         "%s: %zu bytes at byte %" PRIu64 " are asked for, but the file ends at byte %" PRIu64, f->path,
                         bytes, offset, f->info.bytes);
    if (io->staging_request.state_ != REQUEST_IDLE)
        return base_fail(err, SLUICE_ERR_TIMEOUT, "the disk does not answer: look into the system log, then try again",
                         "%s: an earlier read has not returned and holds the staging memory", f->path);
    uint8_t *out = dst;
    while (bytes > 0) {
        size_t head = (size_t)(offset % f->align);
        size_t part = io->staging_bytes - head < bytes ? io->staging_bytes - head : bytes;
        enum sluice_status status =
            read_window(io, file, offset - head, io_round_up(head + part, f->align), head + part, err);
        if (status != SLUICE_OK) return status;
        memcpy(out, io->staging + head, part);
        out += part;
        offset += part;
        bytes -= part;
    }
    return SLUICE_OK;
}
