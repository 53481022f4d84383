/* Address space and memory.
 *
 * A reservation is a private anonymous mapping without access rights: it costs page tables and nothing else. Committing
 * makes a part accessible; its pages come when they are touched. Decommitting gives the pages back at once and takes
 * the access away, so that a use after it is a fault and not a silent zero.
 *
 * Large reservations begin at a multiple of a huge page and ask for huge pages: they are touched faster and weights are
 * read with fewer TLB misses. On machines with several memory nodes their pages come from all of them in turn (numa.c).
 * A huge page is given only where all of it is committed, so no memory is held that was not asked for. */
#include "os/linux/linux.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)

static void *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void *linux_reserve(void *user, size_t bytes)
{
    if (bytes == 0) return NULL;
    if (bytes < 2 * HUGE_PAGE_BYTES || bytes > SIZE_MAX - HUGE_PAGE_BYTES) return map(bytes);
    uint8_t *at = map(bytes + HUGE_PAGE_BYTES);
    if (!at) return map(bytes);
    size_t head = (HUGE_PAGE_BYTES - (uintptr_t)at % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
    size_t page = os_page_bytes(), end = (head + bytes + page - 1) / page * page;
    if (head) munmap(at, head);
    if (end < bytes + HUGE_PAGE_BYTES) munmap(at + end, bytes + HUGE_PAGE_BYTES - end);
    madvise(at + head, bytes, MADV_HUGEPAGE); /* a wish: refused where the kernel has none */
    linux_spread(at + head, bytes);
    return at + head;
}

int linux_commit(void *user, void *at, size_t bytes)
{
    return mprotect(at, bytes, PROT_READ | PROT_WRITE) ? -errno : 0;
}

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; EINVAL before */
#endif

int linux_populate(void *user, void *at, size_t bytes) { return madvise(at, bytes, MADV_POPULATE_WRITE) ? -errno : 0; }

int linux_decommit(void *user, void *at, size_t bytes)
{
    /* Locked pages refuse MADV_DONTNEED (EINVAL): unlock them first, whoever locked them. */
    if (madvise(at, bytes, MADV_DONTNEED)) {
        if (errno != EINVAL || munlock(at, bytes) || madvise(at, bytes, MADV_DONTNEED)) return -errno;
    }
    return mprotect(at, bytes, PROT_NONE) ? -errno : 0;
}

int linux_release(void *user, void *at, size_t bytes) { return munmap(at, bytes) ? -errno : 0; }

int linux_lock(void *user, const void *at, size_t bytes) { return mlock(at, bytes) ? -errno : 0; }

int linux_unlock(void *user, const void *at, size_t bytes) { return munlock(at, bytes) ? -errno : 0; }

/* "always [madvise] never": what is in brackets holds. */
bool os_huge_pages_at(const char *root)
{
    char path[LINUX_PATH_BYTES], line[100] = "";
    snprintf(path, sizeof path, "%s/sys/kernel/mm/transparent_hugepage/enabled", root);
    FILE *f = fopen(path, "re");
    if (!f) return false; /* a kernel without them */
    const bool read = fgets(line, sizeof line, f) != NULL;
    fclose(f);
    return read && !strstr(line, "[never]");
}

bool os_huge_pages(void) { return os_huge_pages_at(""); }

size_t os_page_bytes(void)
{
    long bytes = sysconf(_SC_PAGESIZE);
    return bytes > 0 ? (size_t)bytes : 4096;
}
