#include "os/linux/linux.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* One read of the kernel moves at most this much (MAX_RW_COUNT); asking for more is a short read anyway. */
#define READ_BYTES_MAX ((size_t)0x7ffff000)

/* Alignment that every file system with direct reads accepts, for kernels that do not tell (before 6.1). */
#define DIRECT_ALIGN_DEFAULT 4096u

/* A larger alignment than this is no use to anyone who reads pieces of some hundred KiB. */
#define DIRECT_ALIGN_MAX 65536u

int linux_open_read(void *user, const char *path, bool direct)
{
    /* O_NONBLOCK only for the open itself: a path that is a pipe must not hang us. It is taken off again because
     * io_uring looks at it. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (direct ? O_DIRECT : 0));
    if (fd < 0) return -errno;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0) fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    /* Whoever reads through the page cache asks for what it wants: read-ahead behind it would fill memory that is not
     * in any ledger. A refusal (not a regular file) does not matter. */
    if (!direct) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
    return fd;
}

int linux_close(void *user, int fd) { return close(fd) ? -errno : 0; }

ssize_t linux_pread(void *user, int fd, void *buf, size_t bytes, uint64_t offset)
{
    if (offset > INT64_MAX) return -EINVAL;
    if (bytes > READ_BYTES_MAX) bytes = READ_BYTES_MAX;
    ssize_t n = pread(fd, buf, bytes, (off_t)offset);
    return n < 0 ? -errno : n;
}

static uint32_t direct_align(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx st;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && (st.stx_mask & STATX_DIOALIGN)) {
        uint32_t align =
            st.stx_dio_offset_align > st.stx_dio_mem_align ? st.stx_dio_offset_align : st.stx_dio_mem_align;
        if (st.stx_dio_offset_align == 0 || st.stx_dio_mem_align == 0 || align > DIRECT_ALIGN_MAX) return 0;
        uint32_t power = 1;
        while (power < align) power *= 2;
        return power;
    }
#endif
    return DIRECT_ALIGN_DEFAULT;
}

int linux_file_info(void *user, int fd, struct os_file_info *info)
{
    struct stat st;
    if (fstat(fd, &st)) return -errno;
    *info = (struct os_file_info){
        .bytes = st.st_size > 0 ? (uint64_t)st.st_size : 0,
        .device = (uint64_t)st.st_dev,
        .inode = (uint64_t)st.st_ino,
        .mtime_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec,
        .regular = S_ISREG(st.st_mode),
        .disk_bytes = (uint64_t)st.st_blocks * 512, /* POSIX leaves the unit open; Linux's is this */
    };
    if (info->regular) info->direct_align = direct_align(fd);
    return 0;
}

int linux_drop_cached(void *user, int fd, uint64_t offset, uint64_t bytes)
{
    if (offset > INT64_MAX || bytes > INT64_MAX - offset) return -EINVAL;
    return -posix_fadvise(fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
}

/* The numbers of statfs(2), linux/magic.h and the file systems' own sources. */
static const struct {
    unsigned long magic;
    const char *name;
} filesystems[] = {
    {0xef53, "ext4"},         {0x58465342, "xfs"},    {0x9123683e, "btrfs"},    {0x794c7630, "overlay"},
    {0x01021994, "tmpfs"},    {0x858458f6, "ramfs"},  {0xf2f52010, "f2fs"},     {0x2fc12fc1, "zfs"},
    {0xca451a4e, "bcachefs"}, {0x65735546, "fuse"},   {0x6969, "nfs"},          {0xfe534d42, "smb2"},
    {0xff534d42, "cifs"},     {0x01021997, "9p"},     {0x7366746e, "ntfs3"},    {0x2011bab0, "exfat"},
    {0x4d44, "vfat"},         {0xf15f, "ecryptfs"},   {0x73717368, "squashfs"}, {0xe0f5e1e2, "erofs"},
    {0x00c36400, "ceph"},     {0x0bd00bd0, "lustre"}, {0x01161970, "gfs2"},     {0x9660, "iso9660"},
    {0x15013346, "udf"},      {0x47504653, "gpfs"},   {0x3153464a, "jfs"},      {0x52654973, "reiserfs"},
};

void os_filesystem_name(int fd, char *out, size_t out_bytes)
{
    struct statfs st;
    if (fstatfs(fd, &st)) {
        snprintf(out, out_bytes, "unknown");
        return;
    }
    unsigned long magic = (unsigned long)st.f_type & 0xffffffffu;
    for (size_t i = 0; i < sizeof filesystems / sizeof filesystems[0]; i++)
        if (filesystems[i].magic == magic) {
            snprintf(out, out_bytes, "%s", filesystems[i].name);
            return;
        }
    snprintf(out, out_bytes, "0x%lx", magic);
}
