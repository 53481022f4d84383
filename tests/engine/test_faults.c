/* System calls that fail under a running engine: each ends in the right bits or in a clear error, and after an error
 * the engine goes on. */
#include "fault_os.h"
#include "support.h"

#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define N_TOKENS 24

static const char *const all_backends[] = {"uring", "threads", "sync"};
static const char *backends[3];
static size_t n_backends;
static char model[SUPPORT_PATH_MAX], copy[] = "/tmp/sluice-faults-XXXXXX";
static int32_t ids[N_TOKENS];
static float *want; /* [n_vocab] logits of the last token */
static size_t n_vocab;
static struct sluice_error err;

static struct sluice_options options_of(const char *io, const char *path)
{
    struct sluice_options o = support_options(path);
    o.experts = "25%";
    o.io = io;
    o.chunk = 5;
    o.ctx = 64;
    o.threads = 2;
    o.prefetch = "off"; /* a failed guess is no error: which read is which must be known */
    o.route = "selected";
    return o;
}

/* One prompt; the last token's logits must be `want` if it works. */
static enum sluice_status ask(sluice_session *s)
{
    float *got = malloc(n_vocab * sizeof *got);
    assert_non_null(got);
    assert_int_equal(sluice_session_rewind(s, 0, &err), SLUICE_OK);
    enum sluice_status st = sluice_eval(s, ids, N_TOKENS, got, NULL, NULL, &err);
    if (!st) assert_memory_equal(got, want, n_vocab * sizeof *got);
    free(got);
    return st;
}

static enum sluice_status open_session(struct fault_os *f, const struct sluice_options *o, sluice_engine **e,
                                       sluice_session **s)
{
    enum sluice_status st = engine_open(&f->calls, o, e, &err);
    if (!st) assert_int_equal(sluice_session_open(*e, s, &err), SLUICE_OK);
    return st;
}

static void close_session(sluice_engine *e, sluice_session *s)
{
    sluice_session_close(s);
    sluice_engine_close(e);
}

static int set_up(void **state)
{
    (void)state;
    support_source("models/demo.gguf", model);
    for (size_t i = 0; i < 3; i++)
        if (i || fault_uring_works())
            backends[n_backends++] = all_backends[i];
        else
            print_message("io_uring cannot be had here; its rows are skipped\n");
    for (int i = 0; i < N_TOKENS; i++) ids[i] = 300 + 91 * i;
    struct sluice_options o = options_of("sync", model);
    o.experts = NULL;
    float *all;
    if (support_logits(NULL, &o, ids, N_TOKENS, &all, &n_vocab, &err)) fail_msg("%s", err.message);
    want = malloc(n_vocab * sizeof *want);
    assert_non_null(want);
    memcpy(want, all + (N_TOKENS - 1) * n_vocab, n_vocab * sizeof *want);
    free(all);
    int fd = mkstemp(copy);
    if (fd >= 0) close(fd);
    return fd < 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(want);
    return unlink(copy);
}

/* Reads that come in pieces, are interrupted, or must be asked for again change nothing. */
static void harmless(void **state)
{
    (void)state;
    const struct fault_rule rules[] = {
        {.kind = FAULT_SHORT, .count = FAULT_ALWAYS, .bytes = 20480},
        {.kind = FAULT_ERROR, .nth = 5, .count = 3, .error = EINTR},
        {.kind = FAULT_ERROR, .nth = 40, .count = 3, .error = EAGAIN},
        {.kind = FAULT_ERROR, .count = FAULT_ALWAYS, .direct_only = true, .error = EINVAL},
    };
    for (size_t b = 0; b < n_backends; b++)
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
            struct fault_os *f = malloc(sizeof *f);
            assert_non_null(f);
            fault_os_init(f);
            fault_add(f, rules[i]);
            struct sluice_options o = options_of(backends[b], model);
            sluice_engine *e;
            sluice_session *s;
            if (open_session(f, &o, &e, &s)) fail_msg("%s, rule %zu: %s", backends[b], i, err.message);
            if (ask(s)) fail_msg("%s, rule %zu: %s", backends[b], i, err.message);
            close_session(e, s);
            fault_os_destroy(f);
            free(f);
        }
}

/* What the system refuses at start is done without, or said. */
static void refused_at_start(void **state)
{
    (void)state;
    struct fault_os *f = malloc(sizeof *f);
    assert_non_null(f);
    const struct {
        size_t offset;
        const char *io;
        enum sluice_status status;
    } cases[] = {
        {offsetof(struct fault_os, open_direct_error), "auto", SLUICE_OK},
        {offsetof(struct fault_os, uring_open_error), "auto", SLUICE_OK},
        {offsetof(struct fault_os, uring_open_error), "uring", SLUICE_ERR_IO},
        {offsetof(struct fault_os, uring_buffers_error), "auto", SLUICE_OK},
        {offsetof(struct fault_os, uring_files_error), "auto", SLUICE_OK},
        {offsetof(struct fault_os, uring_buffer_set_error), "auto", SLUICE_OK},
        {offsetof(struct fault_os, open_error), "auto", SLUICE_ERR_IO},
        {offsetof(struct fault_os, reserve_error), "auto", SLUICE_ERR_MEMORY},
        {offsetof(struct fault_os, commit_error), "auto", SLUICE_ERR_MEMORY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fault_os_init(f);
        const bool direct = cases[i].offset == offsetof(struct fault_os, open_direct_error);
        const bool memory = cases[i].status == SLUICE_ERR_MEMORY ||
                            cases[i].offset == offsetof(struct fault_os, uring_buffer_set_error);
        *(int *)((char *)f + cases[i].offset) = direct ? EINVAL : memory ? ENOMEM : EPERM;
        struct sluice_options o = options_of(cases[i].io, model);
        sluice_engine *e;
        sluice_session *s;
        enum sluice_status st = open_session(f, &o, &e, &s);
        if (st != cases[i].status) fail_msg("case %zu: status %d (%s)", i, st, st ? err.message : "");
        if (!st) {
            assert_int_equal(ask(s), SLUICE_OK);
            close_session(e, s);
        }
        fault_os_destroy(f);
    }
    free(f);
}

static unsigned reads_of_load(const char *io)
{
    struct fault_os *f = malloc(sizeof *f);
    assert_non_null(f);
    fault_os_init(f);
    struct sluice_options o = options_of(io, model);
    sluice_engine *e;
    sluice_session *s;
    assert_int_equal(open_session(f, &o, &e, &s), SLUICE_OK);
    unsigned n = fault_reads(f);
    close_session(e, s);
    fault_os_destroy(f);
    free(f);
    return n;
}

/* EIO while loading refuses to open; EIO under a prompt is an error that names the file and the expert, and the next
 * prompt works. */
static void bad_sectors(void **state)
{
    (void)state;
    struct fault_os *f = malloc(sizeof *f);
    assert_non_null(f);
    for (size_t b = 0; b < n_backends; b++) {
        const unsigned load = reads_of_load(backends[b]);
        const unsigned at[] = {1, load / 2, load, load + 1, load + 2, load + 3, load + 50, load + 101};
        for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
            fault_os_init(f);
            fault_add(f, (struct fault_rule){.kind = FAULT_ERROR, .nth = at[i], .error = EIO});
            struct sluice_options o = options_of(backends[b], model);
            sluice_engine *e;
            sluice_session *s;
            enum sluice_status st = open_session(f, &o, &e, &s);
            assert_int_equal(st, at[i] <= load ? SLUICE_ERR_IO : SLUICE_OK);
            if (!st) {
                assert_int_equal(ask(s), SLUICE_ERR_IO);
                assert_non_null(strstr(err.message, "layer"));
                assert_non_null(strstr(err.message, "expert"));
                assert_int_equal(sluice_session_tokens(s) % 5, 0);
                assert_int_equal(ask(s), SLUICE_OK);
                close_session(e, s);
            }
            assert_non_null(strstr(err.message, "demo.gguf"));
            fault_os_destroy(f);
        }
    }
    free(f);
}

/* A bit that turns over on its way: with verify the prompt ends with an error that names the place, and the next one
 * works; without, the answer is another and nobody notices. In the dense weights it is found while they are loaded. */
static void flipped_bits(void **state)
{
    (void)state;
    struct fault_os *f = malloc(sizeof *f);
    float *got = malloc(n_vocab * sizeof *got);
    assert_non_null(f);
    assert_non_null(got);
    for (size_t b = 0; b < n_backends; b++)
        for (int verify = 0; verify < 2; verify++) {
            const unsigned load = reads_of_load(backends[b]);
            fault_os_init(f);
            struct sluice_options o = options_of(backends[b], model);
            o.verify = verify;
            sluice_engine *e;
            sluice_session *s;
            assert_int_equal(open_session(f, &o, &e, &s), SLUICE_OK);
            assert_true(!verify == (fault_reads(f) == load)); /* all is read twice */
            /* Once, or in several experts, so that one of them matters for the last token; a byte behind the slack that
             * aligned reads have in front. */
            fault_add(f, (struct fault_rule){.kind = FAULT_FLIP, .count = verify ? 1 : 40, .bytes = 5000});
            enum sluice_status st = sluice_eval(s, ids, N_TOKENS, got, NULL, NULL, &err);
            fault_clear(f);
            if (verify) {
                assert_int_equal(st, SLUICE_ERR_IO);
                assert_non_null(strstr(err.message, "layer 0, expert"));
                assert_non_null(strstr(err.message, "two reads differ at byte"));
                assert_non_null(strstr(err.message, "demo.gguf"));
                assert_int_equal(ask(s), SLUICE_OK);
            } else if (!st) {
                assert_memory_not_equal(got, want, n_vocab * sizeof *got);
            } else {
                assert_int_equal(st, SLUICE_ERR_MODEL); /* not finite: seen by luck */
            }
            close_session(e, s);
            fault_os_destroy(f);
        }
    const unsigned load = reads_of_load("sync");
    fault_os_init(f);
    fault_add(f, (struct fault_rule){.kind = FAULT_FLIP, .nth = load / 2, .bytes = 8192});
    struct sluice_options o = options_of("sync", model);
    o.verify = true;
    sluice_engine *e;
    sluice_session *s;
    assert_int_equal(open_session(f, &o, &e, &s), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, "tensor '"));
    fault_os_destroy(f);
    free(got);
    free(f);
}

/* A read that never returns: the prompt ends with a time-out that names the file; when the kernel lets go, all is as
 * before. */
static void hung_reads(void **state)
{
    (void)state;
    struct fault_os *f = malloc(sizeof *f);
    assert_non_null(f);
    for (size_t b = 0; b < n_backends; b++) {
        if (!strcmp(backends[b], "sync")) continue; /* hangs with its caller, by its nature */
        const unsigned load = reads_of_load(backends[b]);
        fault_os_init(f);
        fault_add(f, (struct fault_rule){.kind = FAULT_HANG, .nth = load + 7});
        struct sluice_options o = options_of(backends[b], model);
        o.io_timeout_ms = 2000; /* far above what a read takes on a loaded machine */
        sluice_engine *e;
        sluice_session *s;
        assert_int_equal(open_session(f, &o, &e, &s), SLUICE_OK);
        assert_int_equal(ask(s), SLUICE_ERR_TIMEOUT);
        assert_non_null(strstr(err.message, "demo.gguf"));
        assert_int_equal(ask(s), SLUICE_OK); /* while it still hangs: its slot is set aside */
        expert_cache_check(e->cache);
        struct expert_stats x;
        expert_cache_stats(e->cache, &x);
        assert_int_equal(x.quarantined, 1);
        fault_release(f);
        assert_int_equal(ask(s), SLUICE_OK);
        close_session(e, s);
        fault_os_destroy(f);
    }
    free(f);
}

/* Memory that runs out while the cache grows: it goes on with what it has. */
static void memory_runs_out(void **state)
{
    (void)state;
    struct fault_os *f = malloc(sizeof *f);
    assert_non_null(f);
    bool worked = false, refused = false;
    for (unsigned good = 0; good < 40; good += 3) {
        fault_os_init(f);
        f->commit_error = ENOMEM;
        f->commits_good = good;
        struct sluice_options o = options_of("threads", model);
        o.experts = "60%";
        sluice_engine *e;
        sluice_session *s;
        enum sluice_status st = open_session(f, &o, &e, &s);
        if (!st) {
            st = ask(s);
            close_session(e, s);
        }
        if (st) assert_int_equal(st, SLUICE_ERR_MEMORY);
        if (st)
            refused = true;
        else
            worked = true;
        fault_os_destroy(f);
    }
    assert_true(worked && refused);
    free(f);
}

/* A child that may lock 8 MiB at most and has no CAP_IPC_LOCK: the kernel refuses to register all of the cache's
 * buffers, reads go on without. */
static void little_locked_memory(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        const struct rlimit limit = {8 << 20, 8 << 20};
        struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
        struct __user_cap_data_struct caps[2];
        if (setrlimit(RLIMIT_MEMLOCK, &limit) || syscall(SYS_capget, &head, caps)) _exit(2);
        for (int i = 0; i < 2; i++) caps[i].inheritable = 0;
        caps[0].effective &= ~(1u << CAP_IPC_LOCK);
        caps[0].permitted &= ~(1u << CAP_IPC_LOCK);
        if (syscall(SYS_capset, &head, caps)) _exit(3);
        struct os_memory m;
        os_memory(&m);
        if (m.can_ipc_lock || m.memlock_bytes != 8 << 20) _exit(4);
        for (size_t b = 0; b < n_backends; b++) {
            struct sluice_options o = options_of(backends[b], model);
            o.experts = "80%";
            float *all;
            size_t n;
            if (support_logits(NULL, &o, ids, N_TOKENS, &all, &n, &err)) _exit(5);
            if (memcmp(all + (N_TOKENS - 1) * n, want, n * sizeof *want)) _exit(6);
            free(all);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void copy_model(void)
{
    FILE *from = fopen(model, "rb"), *to = fopen(copy, "wb");
    static char block[1 << 16];
    assert_non_null(from);
    assert_non_null(to);
    for (size_t n; (n = fread(block, 1, sizeof block, from)) > 0;) assert_int_equal(fwrite(block, 1, n, to), n);
    fclose(from);
    assert_int_equal(fclose(to), 0);
}

static void cut_while_read(void **state)
{
    (void)state;
    struct fault_os *f = malloc(sizeof *f);
    assert_non_null(f);
    for (size_t b = 0; b < n_backends; b++) {
        const unsigned load = reads_of_load(backends[b]);
        copy_model();
        fault_os_init(f);
        fault_add(f, (struct fault_rule){.kind = FAULT_CUT, .nth = load + 4, .bytes = 3000000, .path = copy});
        struct sluice_options o = options_of(backends[b], copy);
        sluice_engine *e;
        sluice_session *s;
        assert_int_equal(open_session(f, &o, &e, &s), SLUICE_OK);
        for (int round = 0; round < 2; round++) {
            assert_int_equal(ask(s), SLUICE_ERR_IO);
            assert_non_null(strstr(err.message, copy));
            assert_non_null(strstr(err.message, "was changed")); /* rather than that a read fell short */
        }
        close_session(e, s);
        fault_os_destroy(f);
    }
    free(f);
}

/* A guess that fails is a line and nothing else: what it was for is read when it is wanted. */
static void guesses_that_fail(void **state)
{
    (void)state;
    struct fault_os *f = malloc(sizeof *f);
    assert_non_null(f);
    const unsigned load = reads_of_load("sync");
    unsigned n_good = 0, n_failed = 0;
    for (unsigned at = load + 1; at < load + 60; at += 6) {
        fault_os_init(f);
        fault_add(f, (struct fault_rule){.kind = FAULT_ERROR, .nth = at, .error = EIO});
        struct sluice_options o = options_of("threads", model);
        o.prefetch = "lookahead,transitions,next";
        o.route = "layers";
        sluice_engine *e;
        sluice_session *s;
        assert_int_equal(open_session(f, &o, &e, &s), SLUICE_OK);
        enum sluice_status st = ask(s); /* if it succeeds, with the right logits */
        if (st) {
            assert_int_equal(st, SLUICE_ERR_IO);
            n_failed++;
        } else {
            n_good++;
        }
        assert_int_equal(ask(s), SLUICE_OK);
        close_session(e, s);
        fault_os_destroy(f);
    }
    print_message("of %u failed reads %u were guesses\n", n_good + n_failed, n_good);
    assert_true(n_good > 0 && n_failed > 0);
    free(f);
}

/* Bytes changed in place under a running model: the file is noticed to be another, no token comes of it. That is said
 * also where the numbers in it can be no model's any more. */
static void overwrite(int byte, size_t from, size_t bytes)
{
    copy_model();
    struct sluice_options o = options_of("threads", copy);
    o.chunk = N_TOKENS; /* the first step is one whose logits are looked at */
    sluice_engine *e;
    sluice_session *s;
    assert_int_equal(engine_open(os_system(), &o, &e, &err), SLUICE_OK);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    assert_int_equal(ask(s), SLUICE_OK);
    usleep(20000); /* the file system's clock ticks */
    FILE *f = fopen(copy, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)from, SEEK_SET), 0);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(fputc(byte, f), byte);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(ask(s), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, copy));
    assert_non_null(strstr(err.message, "changed"));
    close_session(e, s);
}

static void overwritten_while_read(void **state)
{
    (void)state;
    overwrite(0, 20000000, 4096);
    overwrite(0xff, 10000000, 12000000); /* scales that are no numbers */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_locked_memory),   cmocka_unit_test(harmless),
        cmocka_unit_test(refused_at_start),       cmocka_unit_test(bad_sectors),
        cmocka_unit_test(flipped_bits),           cmocka_unit_test(hung_reads),
        cmocka_unit_test(memory_runs_out),        cmocka_unit_test(cut_while_read),
        cmocka_unit_test(overwritten_while_read), cmocka_unit_test(guesses_that_fail),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
