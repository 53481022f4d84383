/* No allocation per token: the C library's allocator is replaced by one that counts, and counts must stand still while
 * tokens are computed and sampled. One that fails is an error and nothing else. */
#include "engine/engine.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if defined(SLUICE_SANITIZED) || !defined(__GLIBC__)
int main(void)
{
    puts("skipped: this build has an allocator of its own");
    return 77;
}
#else
#include <stdatomic.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void __libc_free(void *p);

static atomic_size_t allocations;
static atomic_bool counting;
static atomic_size_t failing = SIZE_MAX; /* the allocation, from 0, that fails */

static bool fails(void) { return atomic_load(&counting) && atomic_fetch_add(&allocations, 1) == atomic_load(&failing); }
void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t n, size_t bytes) { return fails() ? NULL : __libc_calloc(n, bytes); }
void *realloc(void *p, size_t bytes) { return fails() ? NULL : __libc_realloc(p, bytes); }

void free(void *p) { __libc_free(p); }

static void count_one(const char *io, bool verify)
{
    char model[SUPPORT_PATH_MAX];
    support_source("models/demo.gguf", model);
    struct sluice_options o = support_options(model);
    o.experts = "15%"; /* nearly every token misses */
    o.io = io;
    o.verify = verify;
    sluice_engine *e;
    sluice_session *s;
    struct sluice_error err;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    if (sluice_session_open(e, &s, &err)) fail_msg("%s", err.message);
    int32_t ids[40];
    for (int i = 0; i < 40; i++) ids[i] = 100 + 37 * i;
    assert_int_equal(sluice_eval(s, ids, 40, NULL, NULL, NULL, &err), SLUICE_OK);
    struct sluice_stats before, after;
    sluice_stats(e, &before);
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
    enum sluice_status st = SLUICE_OK;
    for (int i = 0; i < 30 && !st; i++) {
        int32_t id;
        st = sluice_sample(s, &id, &err);
        if (!st) st = sluice_eval(s, &id, 1, NULL, NULL, NULL, &err);
    }
    if (!st) st = sluice_eval(s, ids, 40, NULL, NULL, NULL, &err);
    atomic_store(&counting, false);
    sluice_stats(e, &after);
    assert_int_equal(st, SLUICE_OK);
    assert_true(after.misses > before.misses + 30); /* the reads were real */
    print_message("io %s: %zu allocations in 30 tokens decoded and 40 prefilled, %llu misses\n", io,
                  (size_t)atomic_load(&allocations), (unsigned long long)(after.misses - before.misses));
    assert_int_equal(atomic_load(&allocations), 0);
    sluice_session_close(s);
    sluice_engine_close(e);
}

/* Recurrent layers: checkpoints are kept and returned to. */
static void no_allocation_for_checkpoints(void **state)
{
    (void)state;
    char model[SUPPORT_PATH_MAX];
    assert_true(support_golden("arch/qwen35moe-moe.gguf", model));
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    sluice_session *s;
    struct sluice_error err;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    if (sluice_session_open(e, &s, &err)) fail_msg("%s", err.message);
    int32_t ids[40];
    for (int i = 0; i < 40; i++) ids[i] = 37 * i % 256;
    assert_int_equal(sluice_eval(s, ids, 40, NULL, NULL, NULL, &err), SLUICE_OK);
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
    enum sluice_status st = SLUICE_OK;
    for (size_t i = 0; i < 30 && !st; i++) {
        st = sluice_eval(s, ids, 2 + i % 3, NULL, NULL, NULL, &err);
        if (!st) st = sluice_eval(s, ids + i, 1, NULL, NULL, NULL, &err);
        if (!st) st = sluice_session_rewind(s, 40 - i, &err);
    }
    atomic_store(&counting, false);
    assert_int_equal(st, SLUICE_OK);
    assert_int_equal(atomic_load(&allocations), 0);
    sluice_session_close(s);
    sluice_engine_close(e);
}

static void no_allocation_per_token(void **state)
{
    (void)state;
    /* The counter counts: */
    atomic_store(&counting, true);
    free(malloc(1));
    atomic_store(&counting, false);
    assert_true(atomic_load(&allocations) > 0);
    count_one("auto", false);
    count_one("threads", false);
    count_one("sync", false);
    count_one("auto", true);
    count_one("threads", true);
}

/* The file's template, then the caller's own: no memory for one is never taken for a template that cannot be used. */
static void no_memory_for_a_template(void **state)
{
    (void)state;
    static const char text[] = "{% for m in messages %}[{{ m.role|upper }}]{{ m.content }}{% endfor %}";
    char model[SUPPORT_PATH_MAX];
    support_source("models/demo.gguf", model);
    struct sluice_options o = support_options(model);
    o.vocab_only = true;
    sluice_engine *e;
    struct sluice_error err;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    for (int given = 0; given < 2; given++) {
        size_t n = 0;
        enum sluice_status st = SLUICE_ERR_MEMORY;
        for (; st; n++) {
            template_close(e);
            e->chat_template = NULL;
            e->chat_source = NULL;
            atomic_store(&allocations, 0);
            atomic_store(&failing, n);
            atomic_store(&counting, true);
            st = given ? template_open_given(e, text, &err) : template_open(e, text, strlen(text), &err);
            atomic_store(&counting, false);
            if (st) assert_int_equal(st, SLUICE_ERR_MEMORY);
            assert_true(st || (e->chat_template && e->chat_source));
        }
        assert_true(n > 3); /* of the parser, and the copy */
        assert_string_equal(e->chat_source, text);
    }
    atomic_store(&failing, SIZE_MAX);
    sluice_engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_allocation_per_token),
                                       cmocka_unit_test(no_allocation_for_checkpoints),
                                       cmocka_unit_test(no_memory_for_a_template)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
