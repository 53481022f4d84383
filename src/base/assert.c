#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

/* The one place of the library that writes to stderr and ends the process: a broken invariant of ours means that the
 * next token could be wrong, and stopping is the only honest answer. */
_Noreturn void base_assert_failed(const char *file, int line, const char *condition, const char *why)
{
    fprintf(stderr, "sluice: internal error at %s:%d: %s (%s)\n", file, line, why, condition);
    abort();
}
