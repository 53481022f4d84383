/* An allocator that counts, for programs that are linked with wrap_alloc (meson.build): calls, and bytes asked for. */
#ifndef TESTS_EXPERT_COUNTING_H
#define TESTS_EXPERT_COUNTING_H

#include <stdatomic.h>
#include <stddef.h>

extern atomic_uint counting_calls;
extern atomic_size_t counting_bytes;

#endif
