/* A file of known content for tests: byte i depends on i alone, so that any part of it can be checked. */
#ifndef TESTS_IO_TEST_FILE_H
#define TESTS_IO_TEST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct test_file {
    char path[4096];
    uint64_t bytes;
};

/* Made in $TMPDIR or /tmp. False: it could not be made (a line on stderr says why). */
bool test_file_make(struct test_file *f, uint64_t bytes);
void test_file_remove(struct test_file *f);
uint8_t test_file_byte(uint64_t offset);
/* Are these the file's bytes from offset on? */
bool test_file_matches(const void *data, uint64_t offset, size_t bytes);

/* A small generator of numbers for tests, the same in every run: state is any seed. */
uint64_t test_random(uint64_t *state);

#endif
