/* Every switch of what is known beforehand, guessed, locked and shrunk does what it says: a test fails if it does
 * nothing. That none of it changes a logit is the matrix's subject, and checked here in passing. */
#include "engine/engine.h"
#include "expert/hotlist.h"
#include "fault_os.h"
#include "support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define N_PROMPT 24
#define N_DECODE 40

static char model[SUPPORT_PATH_MAX], folder[64], usage[100], hotlist[100];
static struct sluice_error err;

static struct sluice_options options(void)
{
    struct sluice_options o = support_options(model);
    o.log = support_keep_line;
    o.experts = "40%";
    o.ctx = 512;
    o.threads = 1;
    o.io = "sync"; /* reads happen when they are polled: figures do not depend on the disk */
    support_forget_lines();
    return o;
}

static bool returns; /* every third token is the same */
static int32_t token(uint32_t i) { return returns && i % 3 == 0 ? 17 : (int32_t)(5 + i * 7 % 300); }

/* A prompt and a few tokens after it; *sum: of the last logits' bits. */
static void talk(sluice_session *s, uint32_t seed, size_t n_prompt, size_t n_decode, uint64_t *sum)
{
    int32_t ids[512];
    const size_t n_vocab = s->engine->model->hp.n_vocab;
    float *logits = malloc(n_vocab * sizeof *logits);
    assert_non_null(logits);
    for (size_t i = 0; i < n_prompt; i++) ids[i] = token((uint32_t)i + seed);
    if (sluice_eval(s, ids, n_prompt, logits, NULL, NULL, &err)) fail_msg("%s", err.message);
    for (size_t i = 0; i < n_decode; i++) {
        ids[0] = token((uint32_t)(i + n_prompt) + seed);
        if (sluice_eval(s, ids, 1, logits, NULL, NULL, &err)) fail_msg("%s", err.message);
    }
    for (size_t i = 0; i < n_vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        *sum = *sum * 31 + bits;
    }
    free(logits);
}

static struct sluice_stats run(const struct sluice_options *o, uint64_t *sum)
{
    sluice_engine *e;
    sluice_session *s;
    struct sluice_stats stats;
    *sum = 0;
    if (sluice_engine_open(o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    talk(s, 0, N_PROMPT, N_DECODE, sum);
    sluice_stats(e, &stats);
    sluice_session_close(s);
    sluice_engine_close(e);
    return stats;
}

static void refused(const struct sluice_options *o, enum sluice_status status, const char *part)
{
    sluice_engine *e;
    assert_int_equal(sluice_engine_open(o, &e, &err), status);
    assert_null(e);
    if (!strstr(err.message, part) && !strstr(err.hint, part))
        fail_msg("'%s' is not in: %s (%s)", part, err.message, err.hint);
}

/* ---- guesses ---- */

static void test_prefetch(void **state)
{
    (void)state;
    static const char *const names[] = {"lookahead", "transitions", "next"};
    struct sluice_options o = options();
    uint64_t want, sum;
    o.route = "selected";
    o.prefetch = "off";
    struct sluice_stats off = run(&o, &want);
    for (int i = 0; off.prefetch[i].name; i++) assert_int_equal(off.prefetch[i].named + off.prefetch[i].reads, 0);
    for (int k = 0; k < 3; k++) {
        o.prefetch = names[k];
        struct sluice_stats s = run(&o, &sum);
        assert_int_equal(sum, want);
        for (int i = 0; s.prefetch[i].name; i++) {
            const bool it = !strcmp(s.prefetch[i].name, names[k]);
            assert_int_equal(s.prefetch[i].on, it);
            if (!it) assert_int_equal(s.prefetch[i].named, 0);
            if (!it) continue;
            assert_true(s.prefetch[i].named > 0 && s.prefetch[i].came_true > 0 && s.prefetch[i].chosen > 0);
            assert_true(s.prefetch[i].reads > 0);
            if (k < 2) assert_true(s.prefetch[i].useful > 0 && s.prefetch[i].useful_bytes > 0);
        }
        if (k == 0) assert_true(s.hits > off.hits); /* what was read ahead was there */
    }
    o.prefetch = "auto";
    struct sluice_stats s = run(&o, &sum);
    assert_int_equal(sum, want);
    assert_true(s.prefetch[1].named > 0);
    o.prefetch = "lookahead,";
    refused(&o, SLUICE_ERR_USAGE, "lookahead, transitions and next");
    o.prefetch = "next,next";
    refused(&o, SLUICE_ERR_USAGE, "twice");
}

static void test_routes(void **state)
{
    (void)state;
    static const char *const names[] = {"token", "selected", "layers"};
    struct sluice_options o = options();
    uint64_t want = 0, sum;
    o.prefetch = "off";
    for (int r = 0; r < 3; r++) {
        o.route = names[r];
        struct sluice_stats s = run(&o, &sum);
        if (r == 0) want = sum;
        assert_int_equal(sum, want);
        for (int i = 0; i < 3; i++) {
            assert_string_equal(s.routes[i].name, names[i]);
            assert_int_equal(s.routes[i].tokens, i == r ? N_PROMPT : 0);
        }
        assert_int_equal(s.routes[r].steps, r == 0 ? N_PROMPT : 1);
        assert_true(s.routes[r].ns > 0 && s.routes[r].read_bytes > 0);
        assert_int_equal(s.prefetch[4].reads > 0, r == 2); /* layers */
        if (r == 2) assert_true(s.routes[2].layers > 0);
    }
    o.route = "auto";
    run(&o, &sum);
    assert_int_equal(sum, want);
    assert_true(support_said("route "));
    o.route = "fast";
    refused(&o, SLUICE_ERR_USAGE, "token, selected and layers");
}

/* ---- what is known beforehand ---- */

static uint64_t warm_residents(const struct sluice_options *o)
{
    sluice_engine *e;
    struct sluice_stats s;
    if (sluice_engine_open(o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
    for (int i = 0; i < 1000 && sluice_idle(e, 100); i++) {
    }
    sluice_stats(e, &s);
    sluice_engine_close(e);
    return s.experts_resident;
}

static void test_usage(void **state)
{
    (void)state;
    struct sluice_options o = options();
    uint64_t want, sum;
    run(&o, &want);
    assert_int_equal(access(usage, F_OK), -1);
    o.no_usage = false;
    o.usage_path = usage;
    run(&o, &sum);
    assert_int_equal(access(usage, R_OK), 0);
    assert_int_equal(warm_residents(&o), 0); /* --cold */
    o.cold = false;
    const uint64_t n = warm_residents(&o);
    assert_true(n > 8);
    o.warm_experts = 3;
    assert_int_equal(warm_residents(&o), 3);
    o.warm_experts = 0;
    run(&o, &sum);
    assert_int_equal(sum, want);
    o.no_usage = true;
    refused(&o, SLUICE_ERR_USAGE, "contradict");
    o.usage_path = NULL;
    assert_int_equal(warm_residents(&o), 0);
    /* Not this model's: refused if it was asked for. */
    FILE *f = fopen(usage, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 20, SEEK_SET), 0);
    fputc('x', f);
    fclose(f);
    o.no_usage = false;
    o.usage_path = usage;
    refused(&o, SLUICE_ERR_USAGE, usage);
}

/* It is written when a turn ends, at most once a minute. */
static void test_usage_between_turns(void **state)
{
    (void)state;
    static struct fault_os f;
    const uint64_t second = 1000000000;
    char path[120];
    snprintf(path, sizeof path, "%s/turns", folder);
    struct sluice_options o = options();
    o.no_usage = false;
    o.usage_path = path;
    sluice_engine *e;
    sluice_session *s;
    uint64_t sum = 0;
    fault_os_init(&f);
    if (engine_open(&f.calls, &o, &e, &err)) fail_msg("%s", err.message);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    for (int minute = 0; minute < 2; minute++) {
        for (uint32_t turn = 0; turn < 3; turn++) {
            talk(s, turn, 4, 2, &sum);
            assert_int_equal(access(path, F_OK), -1);
            fault_skip_time(&f, 10 * second);
        }
        fault_skip_time(&f, 31 * second);
        talk(s, 3, 1, 2, &sum); /* decode: still the same turn */
        assert_int_equal(access(path, F_OK), -1);
        talk(s, 3, 4, 0, &sum);
        assert_int_equal(access(path, R_OK), 0);
        unlink(path);
    }
    sluice_session_close(s);
    sluice_engine_close(e);
    assert_int_equal(access(path, R_OK), 0);
    fault_os_destroy(&f);
}

/* The file beside the model is the default: one that is damaged is said and left alone, one that cannot be written is
 * no error. */
static void test_usage_beside_the_model(void **state)
{
    (void)state;
    char copy[120], path[140];
    snprintf(copy, sizeof copy, "%s/m.gguf", folder);
    snprintf(path, sizeof path, "%s.sluice-usage", copy);
    assert_int_equal(symlink(model, copy), 0);
    struct sluice_options o = options();
    uint64_t sum;
    o.model_path = copy;
    o.no_usage = false;
    run(&o, &sum);
    assert_int_equal(access(path, R_OK), 0);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs("rubbish", f);
    fclose(f);
    support_forget_lines();
    run(&o, &sum);
    assert_true(support_said(path) && support_said("going on without it"));
    char text[20] = "";
    f = fopen(path, "rb");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    assert_string_equal(text, "rubbish");
    unlink(path);
    unlink(copy);
}

static size_t make_hotlist(size_t max)
{
    struct sluice_options o = options();
    sluice_engine *e;
    sluice_session *s;
    uint64_t sum = 0;
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_OK);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    talk(s, 0, N_PROMPT, N_DECODE, &sum);
    const size_t n = sluice_hottest(e, NULL, 0);
    struct sluice_heat *heat = calloc(n, sizeof *heat);
    assert_int_equal(sluice_hottest(e, heat, n), n);
    for (size_t i = 1; i < n; i++) assert_true(heat[i].probability <= heat[i - 1].probability);
    assert_true(heat[0].probability > 0 && heat[0].probability <= 1);
    free(heat);
    FILE *f = fopen(hotlist, "we");
    assert_non_null(f);
    for (int i = 0; i < 10000; i++) fputs("an older and longer one\n", f);
    fclose(f);
    if (sluice_hotlist_write(e, hotlist, max, &err)) fail_msg("%s", err.message);
    assert_int_equal(sluice_hotlist_write(e, "/nowhere/x", 0, &err), SLUICE_ERR_IO);
    assert_non_null(strstr(err.message, "/nowhere/x"));
    sluice_session_close(s);
    sluice_engine_close(e);
    return n;
}

static void test_hotlist(void **state)
{
    (void)state;
    assert_true(make_hotlist(20) > 20);
    struct sluice_options o = options();
    o.cold = false;
    o.hotlist_path = hotlist;
    assert_int_equal(warm_residents(&o), 20);
    o.warm_experts = 7;
    assert_int_equal(warm_residents(&o), 7);
    /* Without being named: the one beside the model, and before what was learned. */
    char copy[120], beside[140];
    snprintf(copy, sizeof copy, "%s/h.gguf", folder);
    snprintf(beside, sizeof beside, "%s.sluice-hotlist", copy);
    assert_int_equal(symlink(model, copy), 0);
    assert_int_equal(symlink(hotlist, beside), 0);
    o.warm_experts = 0;
    o.hotlist_path = NULL;
    assert_int_equal(warm_residents(&o), 0);
    o.model_path = copy;
    assert_int_equal(warm_residents(&o), 20);
    o.cold = true;
    assert_int_equal(warm_residents(&o), 0);
    o = options();
    o.cold = false;
    o.hotlist_path = hotlist;
    /* The first token ends the warm-up. */
    sluice_engine *e;
    sluice_session *s;
    uint64_t sum = 0;
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_OK);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    talk(s, 0, 1, 0, &sum);
    assert_false(sluice_idle(e, 10));
    sluice_session_close(s);
    sluice_engine_close(e);
    o.cold = true;
    refused(&o, SLUICE_ERR_USAGE, "contradict");
    o.cold = false;
    o.hotlist_path = model;
    refused(&o, SLUICE_ERR_USAGE, "demo.gguf");
}

static void test_pins(void **state)
{
    (void)state;
    make_hotlist(10);
    struct sluice_options o = options();
    uint64_t want, sum;
    struct sluice_stats s = run(&o, &want);
    assert_int_equal(s.pinned, 0);
    o.pin = hotlist;
    s = run(&o, &sum);
    assert_int_equal(sum, want);
    assert_int_equal(s.pinned, 10);
    assert_true(s.pinned_bytes > 0);
    o.cold = true; /* they stay once they are there, and nobody fetches them before */
    assert_int_equal(warm_residents(&o), 0);
    o.cold = false;
    assert_int_equal(warm_residents(&o), 10);
    o.warm_experts = 4; /* of what is not asked for by name: the pins are more already */
    o.no_usage = false;
    o.usage_path = usage;
    unlink(usage);
    run(&o, &sum);
    assert_int_equal(warm_residents(&o), 10);
    o = options();
    o.pin = hotlist;
    make_hotlist(0);
    o.experts = "4%";
    refused(&o, SLUICE_ERR_MEMORY, "has room for");
}

/* One token returns so late that lru has just let go of its experts: keeping them pays, and they are kept from the turn
 * on after which that was seen. Then it stays away: they are let go. */
static void test_automatic_pins(void **state)
{
    (void)state;
    struct sluice_options o = options();
    sluice_engine *e;
    sluice_session *s;
    uint64_t sum = 0, most = 0;
    o.experts = "12%";
    o.policy = "lru";
    o.pin = "auto";
    o.ctx = 4096;
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_OK);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    struct sluice_stats stats;
    for (int turn = 0; turn < 18; turn++) {
        returns = turn < 8;
        talk(s, returns ? 0 : 90 * (uint32_t)turn, N_PROMPT, N_DECODE, &sum);
        sluice_stats(e, &stats);
        if (stats.pinned > most) most = stats.pinned;
    }
    returns = false;
    assert_true(support_said("stay from now on"));
    assert_true(most > 0 && most <= stats.experts_slots / 4 + 1);
    assert_true(support_said("may leave again"));
    sluice_session_close(s);
    sluice_engine_close(e);
}

/* ---- how much memory ---- */

static void test_sizes(void **state)
{
    (void)state;
    struct sluice_options o = options();
    uint64_t sum;
    struct sluice_stats s = run(&o, &sum);
    assert_true(s.n_sizes >= 2);
    for (size_t i = 1; i < s.n_sizes; i++) {
        assert_true(s.sizes[i].slots_bytes > s.sizes[i - 1].slots_bytes);
        assert_true(s.sizes[i].hit_rate >= s.sizes[i - 1].hit_rate - 0.02);
    }
    assert_true(s.sizes[s.n_sizes - 1].hit_rate > s.sizes[0].hit_rate);
    assert_true(s.useful_memory_bytes >= s.sizes[0].memory_bytes);
    assert_true(s.useful_memory_bytes <= s.sizes[s.n_sizes - 1].memory_bytes);
    /* Of a budget that is larger than all that is needed, what is needed counts. */
    o.experts = NULL;
    o.memory = "2G";
    s = run(&o, &sum);
    assert_true(s.n_sizes >= 2);
    assert_true(s.sizes[s.n_sizes - 1].memory_bytes < (uint64_t)1 << 30); /* far below; a sanitizer takes its part */
    assert_true(s.useful_memory_bytes && s.useful_memory_bytes <= s.sizes[s.n_sizes - 1].memory_bytes);
}

static void test_simulated_use(void **state)
{
    (void)state;
    struct sluice_options o = options();
    struct sluice_ledger before, after;
    sluice_engine *e;
    o.plan_only = true;
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_OK);
    sluice_ledger(e, &before);
    sluice_engine_close(e);
    o.simulate_used_memory = "1G";
    assert_int_equal(sluice_engine_open(&o, &e, &err), SLUICE_OK);
    sluice_ledger(e, &after);
    assert_non_null(strstr(after.machine_limit_why, "taken as used"));
    sluice_engine_close(e);
    const int64_t less = (int64_t)before.machine_limit_bytes - (int64_t)after.machine_limit_bytes;
    assert_true(less > (int64_t)512 << 20 && less < (int64_t)1536 << 20); /* others allocate too, meanwhile */
    o.simulate_used_memory = "1000T";
    refused(&o, SLUICE_ERR_MEMORY, "taken as used");
}

/* Not for the plan alone: what others really take comes on top of it. */
static void test_simulated_use_while_it_runs(void **state)
{
    (void)state;
    static struct fault_os f;
    struct os_memory memory;
    os_memory(&memory);
    memory.cgroup_room_bytes = memory.cgroup_limit_bytes = UINT64_MAX;
    for (int simulated = 0; simulated < 2; simulated++) {
        struct sluice_options o = options();
        o.experts = "90%";
        if (simulated) o.simulate_used_memory = "5G";
        fault_os_init(&f);
        f.memory = &memory;
        memory.available_bytes = (uint64_t)8 << 30;
        sluice_engine *e;
        sluice_session *s;
        struct sluice_stats stats;
        uint64_t sum = 0;
        if (engine_open(&f.calls, &o, &e, &err)) fail_msg("%s (%s)", err.message, err.hint);
        assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
        talk(s, 0, N_PROMPT, 20, &sum);
        memory.available_bytes = (uint64_t)5 << 30;
        fault_skip_time(&f, (uint64_t)1000000000);
        talk(s, 0, 1, 1, &sum);
        sluice_stats(e, &stats);
        assert_int_equal(stats.shrinks > 0, simulated);
        sluice_session_close(s);
        sluice_engine_close(e);
        fault_os_destroy(&f);
    }
}

static void test_lock(void **state)
{
    (void)state;
    static const char *const what[] = {"dense", "experts", "all", NULL};
    static struct fault_os f;
    uint64_t locked[4];
    unsigned locks[4];
    for (int i = 0; i < 4; i++) { /* the last: without */
        struct os_memory plenty;
        os_memory(&plenty);
        plenty.available_bytes = (uint64_t)8 << 30;
        plenty.cgroup_room_bytes = plenty.cgroup_limit_bytes = UINT64_MAX;
        fault_os_init(&f);
        f.memory = &plenty;
        struct sluice_options o = options();
        o.lock = what[i];
        sluice_engine *e;
        sluice_session *s;
        struct sluice_stats stats;
        uint64_t sum = 0;
        if (engine_open(&f.calls, &o, &e, &err)) fail_msg("%s", err.message);
        assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
        talk(s, 0, N_PROMPT, 2, &sum);
        sluice_stats(e, &stats);
        assert_int_equal(stats.lock_wanted_bytes > 0, i < 3);
        assert_int_equal(stats.locked_bytes + stats.lock_skipped_bytes, stats.lock_wanted_bytes);
        assert_true(stats.lock_failed_bytes <= stats.lock_skipped_bytes);
        locked[i] = stats.lock_wanted_bytes;
        assert_int_equal(support_said("locked as they are loaded"), i == 1 || i == 2);
        sluice_session_close(s);
        sluice_engine_close(e); /* the thread that locks is done */
        locks[i] = f.n_locks;
        fault_os_destroy(&f);
    }
    assert_true(locked[2] > locked[0] && locked[2] > locked[1]);
    /* The system was asked, whatever it may have answered. */
    assert_true(locks[0] > 0 && locks[1] > 0 && locks[2] > locks[0] && locks[3] == 0);
    /* Refused by the system, and by the margin: everything is skipped and the answer is the same. */
    for (int i = 0; i < 2; i++) {
        fault_os_init(&f);
        struct sluice_options o = options();
        if (i == 0) f.lock_error = 1;
        o.lock = "all";
        o.lock_margin = i ? "1000G" : NULL;
        sluice_engine *e;
        struct sluice_stats stats;
        if (engine_open(&f.calls, &o, &e, &err)) fail_msg("%s", err.message);
        sluice_stats(e, &stats);
        assert_int_equal(stats.locked_bytes, 0);
        assert_int_equal(stats.lock_skipped_bytes, stats.lock_wanted_bytes);
        assert_int_equal(stats.lock_failed_bytes > 0, i == 0);
        assert_true(support_said("locked "));
        sluice_engine_close(e);
        fault_os_destroy(&f);
    }
    struct sluice_options o = options();
    o.lock = "most";
    refused(&o, SLUICE_ERR_USAGE, "dense, experts or all");
    o.lock = NULL;
    o.lock_margin = "1G";
    refused(&o, SLUICE_ERR_USAGE, "--lock");
}

/* ---- pressure ---- */

static void test_shrinks_and_grows_back(void **state)
{
    (void)state;
    static struct fault_os f;
    struct os_memory memory;
    uint64_t want, sum = 0;
    struct sluice_options o = options();
    o.experts = "90%";
    run(&o, &want);
    os_memory(&memory);
    const struct os_memory plenty = memory;
    fault_os_init(&f);
    f.memory = &memory;
    sluice_engine *e;
    sluice_session *s;
    struct sluice_stats a, b, c;
    support_forget_lines();
    if (engine_open(&f.calls, &o, &e, &err)) fail_msg("%s", err.message);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    talk(s, 0, N_PROMPT, 20, &sum);
    sluice_stats(e, &a);
    assert_int_equal(a.shrinks, 0);
    /* All but a part of what the process has is taken away. */
    memory.available_bytes = 0;
    memory.own_bytes = 0;
    memory.cgroup_room_bytes = UINT64_MAX;
    fault_skip_time(&f, (uint64_t)1000000000);
    int32_t id = token(N_PROMPT + 20);
    assert_int_equal(sluice_eval(s, &id, 1, NULL, NULL, NULL, &err), SLUICE_OK);
    sluice_stats(e, &b);
    assert_true(b.shrinks > 0 && b.shrunk_bytes > 0);
    assert_true(b.slots_limit_bytes < a.slots_limit_bytes);
    assert_true(b.slots_bytes <= b.slots_limit_bytes && b.slots_bytes < a.slots_bytes);
    assert_true(support_said("memory is short"));
    memory = plenty;
    for (uint32_t i = N_PROMPT + 21; i < N_PROMPT + N_DECODE; i++) {
        fault_skip_time(&f, (uint64_t)6000000000);
        id = token(i);
        assert_int_equal(sluice_eval(s, &id, 1, NULL, NULL, NULL, &err), SLUICE_OK);
    }
    sluice_stats(e, &c);
    assert_true(c.grows > 1);
    assert_int_equal(c.slots_limit_bytes, a.slots_limit_bytes);
    sum = 0;
    for (size_t i = 0; i < e->model->hp.n_vocab; i++) {
        uint32_t bits;
        memcpy(&bits, &s->logits[i], sizeof bits);
        sum = sum * 31 + bits;
    }
    assert_int_equal(sum, want); /* the same tokens, through all of it */
    sluice_session_close(s);
    sluice_engine_close(e);
    fault_os_destroy(&f);
}

static sluice_engine *watched;
static uint64_t committed_most, committed_last; /* of the cache, seen between layers */

static bool watch(void *user, const struct sluice_progress *p)
{
    (void)user;
    struct sluice_stats s;
    if (!watched || p->phase != SLUICE_PHASE_PREFILL) return true;
    sluice_stats(watched, &s);
    committed_last = s.slots_bytes;
    if (s.slots_bytes > committed_most) committed_most = s.slots_bytes;
    return true;
}

static struct os_memory *taken;

/* The pressure is looked at for the first time when all is planned and nothing has been loaded. */
static void take_memory(void *user, struct os_pressure *out)
{
    *out = (struct os_pressure){0};
    if (!taken) return;
    taken->available_bytes = taken->own_bytes = 0;
    taken->cgroup_room_bytes = UINT64_MAX;
    taken = NULL;
}

/* A chunk is long: memory that gets short meanwhile is not taken, and what is there is given back before it ends. */
static void test_pressure_within_a_chunk(void **state)
{
    (void)state;
    static struct fault_os f;
    struct os_memory memory;
    uint64_t want, sum = 0;
    struct sluice_options o = options();
    o.experts = "90%";
    o.chunk = N_PROMPT;
    o.progress = watch;
    run(&o, &want);
    os_memory(&memory);
    const struct os_memory plenty = memory;
    fault_os_init(&f);
    f.memory = taken = &memory;
    f.calls.pressure = take_memory;
    sluice_engine *e;
    sluice_session *s;
    struct sluice_stats at_open, grown;
    if (engine_open(&f.calls, &o, &e, &err)) fail_msg("%s", err.message);
    assert_int_equal(sluice_session_open(e, &s, &err), SLUICE_OK);
    sluice_stats(e, &at_open);
    watched = e;
    committed_most = 0;
    assert_int_equal(at_open.slots_bytes, e->plan.slots_floor_bytes); /* nothing came in while it was loaded */
    talk(s, 0, N_PROMPT, 0, &sum);
    assert_int_equal(committed_most, at_open.slots_bytes); /* it did not grow */
    memory = plenty;
    fault_skip_time(&f, (uint64_t)1000000000);
    for (int i = 0; i < 40; i++) { /* back, slowly */
        fault_skip_time(&f, (uint64_t)6000000000);
        sum = 0;
        assert_int_equal(sluice_session_rewind(s, 0, &err), SLUICE_OK);
        talk(s, 0, N_PROMPT, 0, &sum);
    }
    sluice_stats(e, &grown);
    assert_true(grown.slots_bytes > 2 * at_open.slots_bytes);
    memory.available_bytes = 0;
    memory.own_bytes = 0;
    fault_skip_time(&f, (uint64_t)1000000000);
    assert_int_equal(sluice_session_rewind(s, 0, &err), SLUICE_OK);
    sum = 0;
    talk(s, 0, N_PROMPT, N_DECODE, &sum);
    assert_true(committed_last < grown.slots_bytes / 2); /* before the last layer of the chunk */
    assert_int_equal(sum, want);
    watched = NULL;
    sluice_session_close(s);
    sluice_engine_close(e);
    fault_os_destroy(&f);
}

static int set_up(void **state)
{
    (void)state;
    support_source("models/demo.gguf", model);
    snprintf(folder, sizeof folder, "/tmp/sluice-foresight-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(usage, sizeof usage, "%s/usage", folder);
    snprintf(hotlist, sizeof hotlist, "%s/hot", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[200];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefetch),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_usage_between_turns),
        cmocka_unit_test(test_usage_beside_the_model),
        cmocka_unit_test(test_hotlist),
        cmocka_unit_test(test_pins),
        cmocka_unit_test(test_automatic_pins),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_simulated_use),
        cmocka_unit_test(test_simulated_use_while_it_runs),
        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_shrinks_and_grows_back),
        cmocka_unit_test(test_pressure_within_a_chunk),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
