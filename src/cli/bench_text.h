/* The text that sluice bench uses if none is given. */
#ifndef CLI_BENCH_TEXT_H
#define CLI_BENCH_TEXT_H

#include <stddef.h>

extern const char bench_text[];
extern const size_t bench_text_bytes;

#endif
