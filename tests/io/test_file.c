#include "test_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

uint8_t test_file_byte(uint64_t offset)
{
    uint64_t state = offset / 8;
    return (uint8_t)(test_random(&state) >> offset % 8 * 8);
}

bool test_file_matches(const void *data, uint64_t offset, size_t bytes)
{
    const uint8_t *p = data;
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != test_file_byte(offset + i)) return false;
    return true;
}

bool test_file_make(struct test_file *f, uint64_t bytes)
{
    const char *dir = getenv("TMPDIR");
    snprintf(f->path, sizeof f->path, "%s/sluice-io-XXXXXX", dir && dir[0] ? dir : "/tmp");
    f->bytes = bytes;
    int fd = mkstemp(f->path);
    FILE *out = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (!out) {
        perror(f->path);
        if (fd >= 0) close(fd);
        return false;
    }
    for (uint64_t i = 0; i < bytes; i++) putc(test_file_byte(i), out);
    bool good = fflush(out) == 0 && fsync(fd) == 0; /* direct reads see what is on the disk */
    good = fclose(out) == 0 && good;
    if (!good) perror(f->path);
    return good;
}

void test_file_remove(struct test_file *f) { unlink(f->path); }
