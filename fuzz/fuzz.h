/* A fuzz target is one function over bytes. libFuzzer calls it with inputs that it invents; driver.c calls it with the
 * committed corpus, in every ordinary test run and with any compiler. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Always 0. What must never happen ends in abort(), which both callers report. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define FUZZ_CHECK(condition)                                                             \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

#endif
