#include "counting.h"

atomic_uint counting_calls;
atomic_size_t counting_bytes;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

static void count(size_t bytes)
{
    atomic_fetch_add(&counting_calls, 1);
    atomic_fetch_add(&counting_bytes, bytes);
}

void *__wrap_malloc(size_t bytes)
{
    count(bytes);
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    count(n * bytes);
    return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
    count(bytes);
    return __real_realloc(p, bytes);
}
