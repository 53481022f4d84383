#include "os/linux/linux.h"

static const struct os_calls system_calls = {
    .open_read = linux_open_read,
    .close = linux_close,
    .pread = linux_pread,
    .file_info = linux_file_info,
    .drop_cached = linux_drop_cached,
    .reserve = linux_reserve,
    .commit = linux_commit,
    .populate = linux_populate,
    .decommit = linux_decommit,
    .release = linux_release,
    .lock = linux_lock,
    .unlock = linux_unlock,
    .memory = linux_memory,
    .pressure = linux_pressure,
    .now_ns = linux_now_ns,
    .uring_open = linux_uring_open,
    .uring_close = linux_uring_close,
    .uring_files = linux_uring_files,
    .uring_buffers = linux_uring_buffers,
    .uring_buffer_set = linux_uring_buffer_set,
    .uring_read = linux_uring_read,
    .uring_submit = linux_uring_submit,
    .uring_reap = linux_uring_reap,
};

const struct os_calls *os_system(void) { return &system_calls; }
