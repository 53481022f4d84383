/* Prefixes of sessions: the same bits as from the start, for every kind of layer and of KV cache, through branches and
 * edits, from memory and from the disk; each token of a conversation is computed once. */
#include "fault_os.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LOOKS_MAX 500
#define A_TOKENS 190u /* more than a run, and two calls */
#define PROMPT 150u
#define BRANCH 70u
#define CTX 256u
#define CHUNK 64u /* models with states have one where a chunk ends */

static const char *const names[] = {"llama",       "deepseek2", "glm-dsa",         "gpt-oss", "qwen3next",
                                    "kimi-linear", "lfm2moe",   "deepseek4-table", "llama4"};
#define N_NAMES (sizeof names / sizeof *names)

static char folder[256];
static struct sluice_error err;
static struct fault_os faults;

#define CHECK(call)                                                      \
    do {                                                                 \
        if (call) fail_msg("%s: %s (%s)", #call, err.message, err.hint); \
    } while (0)

static int begin(void **state)
{
    const char *dir = getenv("TMPDIR");
    if (!dir || !dir[0]) dir = access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
    snprintf(folder, sizeof folder, "%s/sluice-prefixes-XXXXXX", dir);
    static struct os_memory steady;
    static struct os_pressure calm;
    fault_os_init(&faults);
    support_steady()->memory(NULL, &steady);
    support_steady()->pressure(NULL, &calm);
    faults.memory = &steady;
    faults.pressure = &calm;
    support_forget_lines();
    return mkdtemp(folder) ? 0 : 1;
}

static int end(void **state)
{
    char command[300];
    fault_os_destroy(&faults);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

struct subject {
    char model[SUPPORT_PATH_MAX];
    struct sluice_options o;
    sluice_engine *e;
    sluice_session *s;
    size_t n_vocab;
    bool stateful;
};

static bool keep_row(void *user, size_t index, const float *logits, size_t n_vocab)
{
    memcpy((float *)user + index * n_vocab, logits, n_vocab * sizeof *logits);
    return true;
}

/* False: the file is not here, or has no such KV type. */
static bool find(struct subject *x, const char *name, const char *kv_type)
{
    char file[96];
    *x = (struct subject){0};
    snprintf(file, sizeof file, "arch/%s%s.gguf", name, strstr(name, "-table") ? "" : "-moe");
    if (!support_golden(file, x->model)) return false;
    x->o = support_options(x->model);
    x->o.log = support_keep_line;
    x->o.kv_type = kv_type;
    x->o.ctx = CTX;
    x->o.chunk = CHUNK;
    x->o.threads = 1;
    return true;
}

static enum sluice_status open_engine(struct subject *x)
{
    struct sluice_model_info info;
    enum sluice_status st = engine_open(&faults.calls, &x->o, &x->e, &err);
    if (st) return st;
    sluice_model_info(x->e, &info);
    x->n_vocab = info.n_vocab;
    x->stateful = x->e->model->hp.state_floats > 0;
    CHECK(sluice_session_open(x->e, &x->s, &err));
    return SLUICE_OK;
}

static void close_engine(struct subject *x)
{
    sluice_session_close(x->s);
    sluice_engine_close(x->e);
    x->e = NULL;
}

static void again(struct subject *x) /* another session, so that only the tree is left */
{
    sluice_session_close(x->s);
    CHECK(sluice_session_open(x->e, &x->s, &err));
}

static void tokens(int32_t *ids, size_t n, unsigned seed)
{
    uint32_t v = seed * 7919u + 1;
    for (size_t i = 0; i < n; i++) {
        v = v * 1664525u + 1013904223u;
        ids[i] = (int32_t)(3 + (v >> 16) % 200);
    }
}

/* Takes what is known of ids[0, n), evaluates the rest and compares every row. Returns how many were known. */
static size_t go_on(struct subject *x, const int32_t *ids, size_t n, const float *want)
{
    size_t known;
    float *got = malloc(n * x->n_vocab * sizeof *got);
    CHECK(sluice_session_reuse(x->s, ids, n, &known, &err));
    assert_true(known < n);
    assert_int_equal(sluice_session_tokens(x->s), known);
    assert_memory_equal(sluice_session_ids(x->s), ids, known * sizeof *ids);
    CHECK(sluice_eval(x->s, ids + known, n - known, NULL, keep_row, got + known * x->n_vocab, &err));
    for (size_t i = known; i < n; i++)
        if (memcmp(got + i * x->n_vocab, want + i * x->n_vocab, x->n_vocab * sizeof *got))
            fail_msg("%s, %s, %zu known: other bits from token %zu on", x->model, x->o.kv_type, known, i);
    free(got);
    return known;
}

static void from_start(struct subject *x, const int32_t *ids, size_t n, float **want)
{
    size_t n_vocab;
    struct sluice_options o = x->o;
    o.prefix_memory = o.prefix_dir = NULL;
    CHECK(support_logits(NULL, &o, ids, n, want, &n_vocab, &err));
}

static void one_model(struct subject *x)
{
    int32_t a[A_TOKENS], b[A_TOKENS];
    float *want_a, *want_b;
    tokens(a, A_TOKENS, 1);
    tokens(b, A_TOKENS, 2);
    memcpy(b, a, BRANCH * sizeof *a);
    b[BRANCH] = a[BRANCH] + 1;
    if (support_logits(NULL, &x->o, a, 1, &want_a, &x->n_vocab, &err)) return; /* no such KV type for this model */
    free(want_a);
    from_start(x, a, A_TOKENS, &want_a);
    from_start(x, b, A_TOKENS, &want_b);
    x->o.prefix_memory = "4M";
    x->o.prefix_dir = folder;
    CHECK(open_engine(x));
    assert_int_equal(go_on(x, a, BRANCH, want_a), 0);
    CHECK(sluice_session_keep(x->s, &err));
    assert_int_equal(go_on(x, a, PROMPT, want_a), BRANCH);
    CHECK(sluice_session_keep(x->s, &err));
    again(x);
    assert_int_equal(go_on(x, a, A_TOKENS, want_a), PROMPT);
    CHECK(sluice_session_keep(x->s, &err));
    assert_int_equal(go_on(x, b, A_TOKENS, want_b), BRANCH); /* an edit */
    CHECK(sluice_session_keep(x->s, &err));
    assert_int_equal(go_on(x, a, A_TOKENS, want_a), x->stateful ? PROMPT : A_TOKENS - 1);
    again(x);
    assert_int_equal(go_on(x, b, A_TOKENS, want_b), x->stateful ? BRANCH + CHUNK : A_TOKENS - 1);
    assert_int_equal(go_on(x, b, PROMPT, want_b), x->stateful ? BRANCH + CHUNK : PROMPT - 1);
    prefix_tree_check(&x->e->prefix.store.tree);
    close_engine(x);
    CHECK(open_engine(x)); /* another day */
    struct sluice_stats s;
    sluice_stats(x->e, &s);
    assert_int_equal(s.prefix_memory_bytes, 0);
    assert_true(s.prefix_nodes > 0 && s.prefix_disk_bytes > 0);
    assert_int_equal(go_on(x, b, A_TOKENS, want_b), x->stateful ? BRANCH + CHUNK : A_TOKENS - 1);
    again(x);
    assert_int_equal(go_on(x, a, A_TOKENS, want_a), x->stateful ? PROMPT : A_TOKENS - 1);
    sluice_stats(x->e, &s);
    assert_true(s.prefix_read_bytes > 0);
    assert_int_equal(s.prefix_refused, 0);
    close_engine(x);
    free(want_a);
    free(want_b);
}

static void test_bits(void **state)
{
    static const char *const types[] = {"f32", "f16", "q8_0"};
    size_t n = 0;
    for (size_t i = 0; i < N_NAMES; i++) {
        for (size_t t = 0; t < 3; t++) {
            struct subject x;
            if (t != 1 && i > 1 && i != 4) continue; /* every type for plain, latent and recurrent layers */
            if (!find(&x, names[i], types[t])) continue;
            one_model(&x);
            n++;
            end(NULL);
            begin(NULL);
        }
    }
    if (!n) skip();
}

/* ---- a conversation ---- */

#define TURNS 40u
#define TURN 6u /* tokens */

static uint64_t computed(const struct subject *x)
{
    struct sluice_stats s;
    sluice_stats(x->e, &s);
    return s.tokens_prefill + s.tokens_decode;
}

/* Every turn in a session of its own, so that nothing but what was kept helps. */
static void test_turns(void **state)
{
    static const char *const of[] = {"llama", "qwen3next", "lfm2moe"};
    size_t n_run = 0;
    for (size_t m = 0; m < 3; m++) {
        struct subject x;
        int32_t ids[TURNS * TURN];
        if (!find(&x, of[m], "f16")) continue;
        n_run++;
        x.o.prefix_memory = "2M";
        x.o.prefix_dir = folder;
        tokens(ids, TURNS * TURN, 5);
        float *want, *edited_want;
        from_start(&x, ids, TURNS * TURN, &want);
        CHECK(open_engine(&x));
        uint64_t before = 0;
        for (size_t turn = 1; turn <= TURNS; turn++) {
            again(&x);
            assert_int_equal(go_on(&x, ids, turn * TURN, want), (turn - 1) * TURN);
            CHECK(sluice_session_keep(x.s, &err));
            if (turn % 16) continue;
            before += computed(&x); /* a restart */
            close_engine(&x);
            CHECK(open_engine(&x));
        }
        assert_int_equal(before + computed(&x), TURNS * TURN); /* each token once */
        /* An earlier turn is edited: what lies behind the edit is computed, and no more. */
        ids[20 * TURN] ^= 1;
        from_start(&x, ids, TURNS * TURN, &edited_want);
        before = computed(&x);
        again(&x);
        assert_int_equal(go_on(&x, ids, TURNS * TURN, edited_want), 20 * TURN);
        assert_int_equal(computed(&x) - before, 20 * TURN);
        close_engine(&x);
        free(want);
        free(edited_want);
        end(NULL);
        begin(NULL);
    }
    if (!n_run) skip();
}

/* Memory for a few runs only: less is known, never anything wrong; and what is on the disk is all there. */
static void test_small(void **state)
{
    static const char *const of[] = {"llama", "qwen3next"};
    for (size_t m = 0; m < 2; m++) {
        for (int disk = 0; disk < 2; disk++) {
            struct subject x;
            struct sluice_stats s;
            int32_t ids[6][A_TOKENS];
            float *want[6];
            if (!find(&x, of[m], "f16")) skip();
            for (unsigned i = 0; i < 6; i++) {
                tokens(ids[i], A_TOKENS, i / 2);
                if (i % 2) tokens(ids[i] + 100, A_TOKENS - 100, 50 + i);
                from_start(&x, ids[i], A_TOKENS, &want[i]);
            }
            x.o.prefix_memory = "1K";
            assert_int_equal(open_engine(&x), SLUICE_ERR_USAGE);
            assert_non_null(strstr(err.hint, "--prefix-memory "));
            char little[64];
            snprintf(little, sizeof little, "%dK", (m ? 3 : 1) * atoi(strstr(err.hint, "--prefix-memory ") + 16));
            x.o.prefix_memory = little;
            if (disk) x.o.prefix_dir = folder;
            CHECK(open_engine(&x));
            for (unsigned round = 0; round < 18; round++) {
                const unsigned i = round % 3 ? 0 : round / 3 % 6; /* one of them often */
                again(&x);
                go_on(&x, ids[i], A_TOKENS, want[i]);
                CHECK(sluice_session_keep(x.s, &err));
                prefix_tree_check(&x.e->prefix.store.tree);
                sluice_stats(x.e, &s);
                assert_true(s.prefix_memory_bytes <= s.prefix_memory_limit);
            }
            assert_true(s.prefix_tokens > 0);
            if (disk) { /* what there was no room for is kept and written meanwhile */
                go_on(&x, ids[5], A_TOKENS, want[5]);
                CHECK(sluice_session_keep(x.s, &err));
                while (sluice_idle(x.e, 50)) continue;
                sluice_stats(x.e, &s);
                const uint64_t written = s.prefix_written_bytes;
                again(&x); /* nothing was left to write for this */
                sluice_stats(x.e, &s);
                assert_int_equal(s.prefix_written_bytes, written);
                close_engine(&x);
                CHECK(open_engine(&x));
                assert_true(go_on(&x, ids[5], A_TOKENS, want[5]) > (m ? 0 : A_TOKENS - 2));
            }
            close_engine(&x);
            for (unsigned i = 0; i < 6; i++) free(want[i]);
        }
    }
}

/* A keep takes a piece of a long text at a time; idle time, another text or the session's end take the rest. */
static void test_pieces(void **state)
{
    struct subject x;
    float *want;
    static int32_t ids[A_TOKENS];
    for (int how = 0; how < 3; how++) {
        if (!find(&x, "llama", "f32")) skip();
        tokens(ids, A_TOKENS, 8);
        from_start(&x, ids, A_TOKENS, &want);
        x.o.prefix_memory = "4M";
        CHECK(open_engine(&x));
        CHECK(sluice_eval(x.s, ids, A_TOKENS, NULL, NULL, NULL, &err));
        assert_false(prefix_keep(x.s, A_TOKENS, 1)); /* a run */
        x.s->keep_to = A_TOKENS;
        struct prefix_offer offer;
        prefix_look(x.e, ids, A_TOKENS, &offer);
        assert_int_equal(offer.n, PREFIX_RUN);
        if (how == 0) assert_false(sluice_idle(x.e, 1000));
        if (how == 1) CHECK(sluice_session_rewind(x.s, 3, &err));
        if (how == 2) again(&x);
        prefix_look(x.e, ids, A_TOKENS, &offer);
        assert_int_equal(offer.n, A_TOKENS);
        again(&x);
        assert_int_equal(go_on(&x, ids, A_TOKENS, want), A_TOKENS - 1);
        close_engine(&x);
        free(want);
    }
}

/* ---- what goes wrong ---- */

static void damage_all(void)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        FILE *f = prefix_file_id(e->d_name, PREFIX_FILE_SUFFIX) ? fopen(path, "r+b") : NULL;
        if (!f) continue;
        fseek(f, -5, SEEK_END);
        const int c = fgetc(f);
        fseek(f, -5, SEEK_END);
        fputc(c ^ 1, f);
        fclose(f);
    }
    closedir(d);
}

static void test_damage(void **state)
{
    static const char *const of[] = {"llama", "qwen3next"};
    for (size_t m = 0; m < 2; m++) {
        struct subject x;
        int32_t ids[A_TOKENS];
        float *want;
        struct sluice_stats s;
        if (!find(&x, of[m], "f16")) skip();
        tokens(ids, A_TOKENS, 1);
        from_start(&x, ids, A_TOKENS, &want);
        x.o.prefix_memory = "4M";
        x.o.prefix_dir = folder;
        CHECK(open_engine(&x));
        go_on(&x, ids, PROMPT, want);
        CHECK(sluice_session_keep(x.s, &err));
        close_engine(&x);
        damage_all();
        CHECK(open_engine(&x));
        support_forget_lines();
        assert_int_equal(go_on(&x, ids, 20, want), 0); /* with tokens of its own, then */
        assert_int_equal(go_on(&x, ids, A_TOKENS, want), 20);
        assert_true(support_said("a kept prefix is damaged: its checksum does not match; it is removed"));
        sluice_stats(x.e, &s);
        assert_true(s.prefix_refused > 0);
        size_t known = 0;
        for (int i = 0; i < 3 && !known; i++) { /* damage is found as it is read: first the state, then the rows */
            CHECK(sluice_session_keep(x.s, &err));
            again(&x);
            known = go_on(&x, ids, A_TOKENS, want);
        }
        assert_true(known > 0);
        close_engine(&x);
        /* Another KV type: nothing of it is used. */
        x.o.kv_type = "f32";
        free(want);
        from_start(&x, ids, A_TOKENS, &want);
        support_forget_lines();
        CHECK(open_engine(&x));
        assert_true(support_said("are of other models or KV types"));
        assert_int_equal(go_on(&x, ids, A_TOKENS, want), 0);
        close_engine(&x);
        /* A full disk: said once, and the answers go on. */
        x.o.kv_type = "f16";
        free(want);
        from_start(&x, ids, A_TOKENS, &want);
        CHECK(open_engine(&x));
        faults.write_error = ENOSPC;
        support_forget_lines();
        ids[0] ^= 1;
        CHECK(sluice_eval(x.s, ids, 50, NULL, NULL, NULL, &err));
        CHECK(sluice_session_keep(x.s, &err));
        while (sluice_idle(x.e, 50)) continue;
        assert_true(support_said("No space left on device"));
        ids[0] ^= 1;
        assert_true(go_on(&x, ids, A_TOKENS, want) > 0);
        close_engine(&x);
        faults.write_error = 0;
        free(want);
        end(NULL);
        begin(NULL);
    }
}

/* ---- memory that gets short ---- */

#define TEXTS 12u

/* Bytes of the block behind `from` that the system has given memory for. */
static uint64_t resident(const struct subject *x, uint64_t from)
{
    const struct engine_prefix *p = &x->e->prefix;
    const size_t page = os_page_bytes(), n = (p->block_bytes - from) / page;
    uint64_t held = 0;
    unsigned char *seen = calloc(n + 1, 1);
    assert_int_equal(from % page, 0);
    assert_int_equal(mincore((uint8_t *)p->block + from, n * page, seen), 0);
    for (size_t i = 0; i < n; i++) held += seen[i] & 1;
    free(seen);
    return held * page;
}

/* What the books say is so: the block is committed up to the limit, and the rest is the system's again. */
static struct sluice_stats honest(const struct subject *x)
{
    struct sluice_stats s;
    sluice_stats(x->e, &s);
    assert_int_equal(resident(x, s.prefix_memory_limit), 0);
    assert_true(s.prefix_memory_bytes <= s.prefix_memory_limit);
    prefix_tree_check(&x->e->prefix.store.tree);
    return s;
}

/* Takes up all of them, each in a session of its own. Returns how many tokens were known. */
static size_t all_again(struct subject *x, unsigned n, int32_t ids[][A_TOKENS], float **want, bool keep)
{
    size_t known = 0;
    for (unsigned i = 0; i < n; i++) {
        again(x);
        known += go_on(x, ids[i], A_TOKENS, want[i]);
        if (keep) CHECK(sluice_session_keep(x->s, &err));
    }
    again(x);
    return known;
}

static void under_pressure(struct subject *x, bool disk, unsigned n, int32_t ids[][A_TOKENS], float **want)
{
    const struct os_memory plenty = *faults.memory;
    struct os_memory memory = plenty;
    struct sluice_stats a, b;
    faults.memory = &memory;
    CHECK(open_engine(x));
    const size_t all = x->stateful ? 0 : n * (A_TOKENS - 1); /* a state at the very end is behind what is asked for */
    assert_int_equal(all_again(x, n, ids, want, true), 0);
    while (sluice_idle(x->e, 50)) continue;
    sluice_stats(x->e, &a);
    const uint64_t planned = a.prefix_memory_limit, before = resident(x, 0);
    assert_true(a.prefix_memory_bytes > planned / 2);
    assert_true(before > planned / 2);
    /* Half: what was kept is where it was, or is not known, or comes from the disk. */
    assert_true(prefix_set_limit(x->e, planned / 2) <= planned / 2);
    b = honest(x);
    assert_true(b.prefix_memory_limit <= planned / 2 && b.prefix_memory_limit > planned / 3);
    assert_true(b.prefix_memory_bytes > planned / 8);
    assert_true(resident(x, 0) <= planned / 2);
    assert_true(b.prefix_returned_bytes > planned / 8);
    if (disk) assert_int_equal(b.prefix_nodes, a.prefix_nodes); /* nothing is lost */
    const size_t known = all_again(x, n, ids, want, false);
    assert_true(known > 0);
    if (disk && all) assert_int_equal(known, all);
    honest(x);
    /* Everything: the whole of the machine is taken by others. */
    support_forget_lines();
    memory.available_bytes = 0;
    memory.own_bytes = 0; /* a sanitizer's process holds more than was planned */
    fault_skip_time(&faults, (uint64_t)1000000000);
    assert_false(sluice_idle(x->e, 0));
    a = honest(x);
    /* What a file is being written of goes at a later look. */
    for (int looks = 0; disk && a.prefix_memory_bytes && looks < LOOKS_MAX; looks++) {
        usleep(10000);
        fault_skip_time(&faults, (uint64_t)1000000000);
        sluice_idle(x->e, 0);
        a = honest(x);
    }
    assert_int_equal(a.prefix_memory_bytes, 0);
    assert_true(a.prefix_memory_limit < planned / 6);
    assert_true(a.prefix_returned_bytes > b.prefix_returned_bytes);
    assert_true(support_said("kept prefixes have"));
    assert_int_equal(go_on(x, ids[0], A_TOKENS, want[0]), 0); /* between layers, too */
    CHECK(sluice_session_keep(x->s, &err));
    assert_int_equal(honest(x).prefix_memory_bytes, 0);
    again(x);
    /* And back, slowly. */
    memory = plenty;
    for (int i = 0; i < 40; i++) {
        fault_skip_time(&faults, (uint64_t)6000000000);
        (void)sluice_idle(x->e, 0);
        if (i == 4) b = honest(x);
    }
    assert_true(b.prefix_memory_limit > a.prefix_memory_limit && b.prefix_memory_limit < planned);
    assert_int_equal(honest(x).prefix_memory_limit, planned);
    assert_true(all_again(x, n, ids, want, true) >= (disk ? all : 0));
    const size_t now = all_again(x, n, ids, want, false);
    assert_true(now > known || disk);
    honest(x);
    close_engine(x);
}

static void test_pressure(void **state)
{
    static const char *const of[] = {"llama", "qwen3next"};
    static int32_t ids[TEXTS][A_TOKENS];
    float *want[TEXTS];
    for (size_t m = 0; m < 2; m++) {
        struct subject x;
        const unsigned n = m ? TEXTS / 2 : TEXTS;
        if (!find(&x, of[m], "f16")) skip();
        x.o.prefix_memory = m ? "2500K" : "1200K";
        for (unsigned i = 0; i < n; i++) {
            tokens(ids[i], A_TOKENS, 100 + i);
            from_start(&x, ids[i], A_TOKENS, &want[i]);
        }
        for (int disk = m > 0; disk < 2; disk++) {
            x.o.prefix_dir = disk ? folder : NULL;
            under_pressure(&x, disk, n, ids, want);
            end(NULL);
            begin(NULL);
        }
        for (unsigned i = 0; i < n; i++) free(want[i]);
    }
}

static uint64_t look(struct subject *x, uint64_t seconds)
{
    struct sluice_stats s;
    fault_skip_time(&faults, seconds * 1000000000);
    (void)sluice_idle(x->e, 0);
    sluice_stats(x->e, &s);
    return s.slots_limit_bytes;
}

/* What is pinned or being written at the end of the block is waited for once; then the cache gives in its place, until
 * it can. */
static void test_pressure_waits(void **state)
{
    struct subject x;
    uint8_t want[999], got[sizeof want];
    const int32_t first = 1, second = 2;
    if (!find(&x, "llama", "f16")) skip();
    x.o.memory = "1G"; /* sanitizers need some */
    x.o.prefix_memory = "64M";
    struct os_memory memory = *faults.memory;
    const struct os_memory plenty = memory;
    faults.memory = &memory;
    CHECK(open_engine(&x));
    struct prefix_store *store = &x.e->prefix.store;
    struct prefix_tree *t = &store->tree;
    const uint32_t front = prefix_store_add(store, PREFIX_NONE, 0, &first, 1, (uint64_t)40 << 20),
                   end_of_all = prefix_store_add(store, PREFIX_NONE, 0, &second, 1, sizeof want);
    assert_true(front != PREFIX_NONE && end_of_all != PREFIX_NONE);
    for (size_t i = 0; i < sizeof want; i++) want[i] = (uint8_t)(i * 7);
    prefix_tree_put(t, end_of_all, 0, want, sizeof want);
    prefix_tree_unpin(t, front);
    prefix_tree_remove(t, front);
    while (expert_cache_prepare(x.e->cache)) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const uint64_t slots = x.e->plan.slots_bytes, rows = plan_rows_bytes(&x.e->plan), own = rows / 2;
    memory.own_bytes = own;
    memory.available_bytes = rows - own - (38 << 20); /* and the margin: two thirds of what prefixes have */
    assert_int_equal(look(&x, 1), slots);
    assert_true(honest(&x).prefix_memory_limit > 40 << 20);
    assert_true(look(&x, 1) < slots);
    prefix_tree_unpin(t, end_of_all);
    const uint64_t less = look(&x, 1);
    assert_true(honest(&x).prefix_memory_limit < 40 << 20);
    prefix_tree_get(t, end_of_all, 0, got, sizeof got);
    assert_memory_equal(got, want, sizeof want);
    memory = plenty;
    assert_true(look(&x, 6) > less);
    close_engine(&x);
}

/* Rows that are to be kept in idle time, when there is no memory for them: they stay the session's alone, until there
 * is some. */
static void test_pressure_before_the_copy(void **state)
{
    struct subject x;
    int32_t ids[A_TOKENS];
    float *want;
    if (!find(&x, "llama", "f16")) skip();
    tokens(ids, A_TOKENS, 4);
    from_start(&x, ids, A_TOKENS, &want);
    x.o.prefix_memory = "1M";
    struct os_memory memory = *faults.memory;
    const struct os_memory plenty = memory;
    faults.memory = &memory;
    CHECK(open_engine(&x));
    assert_int_equal(go_on(&x, ids, PROMPT, want), 0);
    CHECK(sluice_session_keep(x.s, &err));
    memory.available_bytes = 0;
    memory.own_bytes = 0;
    fault_skip_time(&faults, 1000000000);
    assert_false(sluice_idle(x.e, 50)); /* there is nothing that it could do */
    assert_int_equal(honest(&x).prefix_memory_bytes, 0);
    assert_int_equal(x.s->keep_to, PROMPT);
    assert_int_equal(go_on(&x, ids, A_TOKENS, want), PROMPT);
    CHECK(sluice_session_keep(x.s, &err));
    memory = plenty;
    for (int i = 0; i < 20; i++) (void)look(&x, 6);
    assert_false(sluice_idle(x.e, 50));
    assert_int_equal(x.s->keep_to, 0);
    assert_true(honest(&x).prefix_memory_bytes > 0);
    again(&x);
    assert_int_equal(go_on(&x, ids, A_TOKENS, want), A_TOKENS - 1);
    close_engine(&x);
    free(want);
}

static void test_options(void **state)
{
    struct subject x;
    if (!find(&x, "llama", "f16")) skip();
    x.o.prefix_dir = folder;
    assert_int_equal(open_engine(&x), SLUICE_ERR_USAGE);
    assert_non_null(strstr(err.hint, "--prefix-memory"));
    x.o.prefix_dir = NULL;
    x.o.prefix_limit = "1G";
    assert_int_equal(open_engine(&x), SLUICE_ERR_USAGE);
    x.o.prefix_limit = NULL;
    x.o.prefix_memory = "nonsense";
    assert_int_equal(open_engine(&x), SLUICE_ERR_USAGE);
    x.o.prefix_memory = "auto";
    x.o.prefix_dir = "/proc/nothing/here";
    assert_int_equal(open_engine(&x), SLUICE_ERR_IO);
    x.o.prefix_dir = NULL;
    CHECK(open_engine(&x));
    struct sluice_ledger l;
    uint64_t row = 0;
    sluice_ledger(x.e, &l);
    for (size_t i = 0; i < l.n_rows; i++)
        if (!strcmp(l.rows[i].name, "prefixes")) row = l.rows[i].bytes;
    assert_true(row > 0);
    close_engine(&x);
    /* The smallest budget still does, with fewer or none of them if nobody has named a number. */
    x.o.plan_only = true;
    x.o.prefix_memory = NULL;
    x.o.memory = "1M";
    assert_int_equal(engine_open(os_system(), &x.o, &x.e, &err), SLUICE_ERR_MEMORY);
    char least[64];
    assert_int_equal(sscanf(strstr(err.hint, "--memory ") + 9, "%63[0-9A-Z]", least), 1);
#ifdef SLUICE_SANITIZED /* the process grows from one opening to the next: what was freed is kept for a while */
    snprintf(least, sizeof least, "%lluM", strtoull(strstr(err.hint, "--memory ") + 9, NULL, 10) + 24);
#endif
    x.o.memory = least;
    x.o.prefix_memory = "auto";
    CHECK(engine_open(os_system(), &x.o, &x.e, &err));
    sluice_engine_close(x.e);
    x.o.prefix_memory = "64M";
    assert_int_equal(engine_open(os_system(), &x.o, &x.e, &err), SLUICE_ERR_MEMORY);
    assert_non_null(strstr(err.hint, "--memory"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_options, begin, end),
        cmocka_unit_test_setup_teardown(test_bits, begin, end),
        cmocka_unit_test_setup_teardown(test_turns, begin, end),
        cmocka_unit_test_setup_teardown(test_small, begin, end),
        cmocka_unit_test_setup_teardown(test_pieces, begin, end),
        cmocka_unit_test_setup_teardown(test_damage, begin, end),
        cmocka_unit_test_setup_teardown(test_pressure, begin, end),
        cmocka_unit_test_setup_teardown(test_pressure_waits, begin, end),
        cmocka_unit_test_setup_teardown(test_pressure_before_the_copy, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
