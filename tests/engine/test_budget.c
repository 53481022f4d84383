/* The budget is a hard limit, seen from outside: the built program, or the library in a fork, runs as a child, in a
 * memory cgroup where one can be made, and the system says how much memory it held at most. */
#include "fault_os.h"
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)

static char model[SUPPORT_PATH_MAX];
static const char *program;
static struct sluice_error err;

struct outcome {
    int exit_code; /* -1: killed by a signal */
    uint64_t peak_bytes;
    char stderr_text[8192];
};

/* A cgroup (v1) with a memory limit, or false. */
static bool make_cgroup(uint64_t limit, char folder[256])
{
    char path[300];
    snprintf(folder, 256, "/sys/fs/cgroup/memory/sluice-test-%d", (int)getpid());
    if (mkdir(folder, 0755) && errno != EEXIST) return false;
    snprintf(path, sizeof path, "%s/memory.limit_in_bytes", folder);
    FILE *f = fopen(path, "w");
    if (!f) return false;
    fprintf(f, "%" PRIu64 "\n", limit);
    return fclose(f) == 0;
}

/* The most that the group's processes held together, page cache and the kernel's own included; 0: not known. */
static uint64_t cgroup_peak(const char *folder)
{
    char path[300];
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/memory.max_usage_in_bytes", folder);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%" SCNu64, &bytes) != 1) bytes = 0;
    fclose(f);
    return bytes;
}

static void enter_cgroup(const char *folder)
{
    char path[300];
    snprintf(path, sizeof path, "%s/cgroup.procs", folder);
    FILE *f = fopen(path, "w");
    if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fclose(f)) _exit(99);
}

/* Runs the program with arguments (NULL at the end); cgroup "" for none. stdout is thrown away. */
static struct outcome run(const char *cgroup, const char *const *arguments)
{
    struct outcome out = {0};
    int pipe_fd[2], status;
    assert_int_equal(pipe(pipe_fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(pipe_fd[1], 2);
        close(pipe_fd[0]);
        close(pipe_fd[1]);
        if (*cgroup) enter_cgroup(cgroup);
        execv(program, (char *const *)arguments);
        _exit(98);
    }
    close(pipe_fd[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(pipe_fd[0], out.stderr_text + n, sizeof out.stderr_text - 1 - n)) > 0;)
        n += (size_t)got;
    close(pipe_fd[0]);
    struct rusage usage;
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    out.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    out.peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    return out;
}

static const char *const prompt =
    "It was the best of times, it was the worst of times, it was the age of wisdom, and the boy said unto "
    "his father that he would go down to the sea in a ship";

static struct outcome run_memory(const char *cgroup, const char *memory, const char *extra, const char *value)
{
    const char *arguments[] = {program, "run",      "-m",       model,  "-p",  prompt, "-n",
                               "40",    "--greedy", "--memory", memory, extra, value,  NULL};
    return run(cgroup, arguments);
}

static void peak_stays_under_the_budget(void **state)
{
    (void)state;
    static const unsigned sizes[] = {24, 40};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char folder[256] = "", memory[32];
        snprintf(memory, sizeof memory, "%uM", sizes[i]);
        /* Room for the kernel's own pages and the program's file pages; a program that held much more would be killed.
         */
        if (!make_cgroup((sizes[i] + 16) * MIB, folder)) {
            folder[0] = 0;
            print_message("no memory cgroup can be made here; measured without one\n");
        }
        struct outcome o = run_memory(folder, memory, "--ctx", "256");
        if (*folder) rmdir(folder);
        if (o.exit_code) fail_msg("--memory %s: exit code %d: %s", memory, o.exit_code, o.stderr_text);
        print_message("--memory %s: peak %.1f MiB\n", memory, (double)o.peak_bytes / (double)MIB);
        assert_true(o.peak_bytes <= sizes[i] * MIB);
    }
}

/* A refusal names the smallest --memory that would do; given that number, it works and stays under it. */
static void refusal_names_what_would_do(void **state)
{
    (void)state;
    struct outcome o = run_memory("", "9M", "--ctx", "64");
    assert_int_equal(o.exit_code, 4);
    const char *at = strstr(o.stderr_text, "--memory ");
    if (!at) fail_msg("no way out is named: %s", o.stderr_text);
    char memory[32];
    assert_int_equal(sscanf(at, "--memory %31[0-9A-Za-z.]", memory), 1);
    o = run_memory("", memory, "--ctx", "64");
    if (o.exit_code) fail_msg("--memory %s, as named, gives exit code %d: %s", memory, o.exit_code, o.stderr_text);
    char *end;
    const uint64_t number = strtoull(memory, &end, 10), bytes = number * (*end == 'G'   ? 1024 * MIB
                                                                          : *end == 'M' ? MIB
                                                                                        : 1024);
    print_message("floor --memory %s: peak %.1f MiB\n", memory, (double)o.peak_bytes / (double)MIB);
    assert_true(o.peak_bytes <= bytes);
}

/* ---- everything at once ----
 *
 * The library in a fork: three topics in three languages (this model's experts differ by language), turns that follow
 * each other, a prompt of several chunks whose experts come in waves, memory that gets short in the middle of it and
 * comes back, and all that is known beforehand switched on; prefixes of turns are kept and taken up again. */

enum { SMALLEST = 0 }; /* a budget: the least that is legal, and so many experts more */

struct how {
    unsigned memory_mib, experts_more, threads;
    bool verify, pin_file /* else automatic ones */, prefixes;
};

struct told { /* by the child, through a pipe */
    char problem[1000];
    uint64_t budget_bytes, floor_bytes, slots_bytes, slot_bytes;
    uint64_t pinned_most;
    uint32_t chunk, longest;   /* prompt */
    struct sluice_stats stats; /* after the last turn; its pointers are the child's */
    char names[SLUICE_PREFETCH_MAX][16];
};

#define CTX 400
#define REPLY 10

static char room[64], usage[100], hotlist[100], pins[100], prefixes[100];
static const char english[] = "And God said unto Moses, Go unto Pharaoh, and say unto him, Thus saith the LORD";
static const char italian[] =
    "Quel ramo del lago di Como, che volge a mezzogiorno, tra due catene non interrotte di monti";
static const char spanish[] =
    "En un lugar de la Mancha, de cuyo nombre no quiero acordarme, no ha mucho tiempo que vivia";

static bool fails(struct told *t, enum sluice_status status)
{
    if (status && !*t->problem) snprintf(t->problem, sizeof t->problem, "%s (%s)", err.message, err.hint);
    return status != SLUICE_OK;
}

/* The least legal budget, in *bytes: what the hint names, less what is left for the cache above its floor. The process
 * is measured anew each time, so some pages may be missing. */
static bool find_smallest(const struct os_calls *os, struct sluice_options o, uint64_t *bytes, struct told *t)
{
    sluice_engine *e;
    char memory[32];
    o.plan_only = true;
    o.memory = "1M";
    const char *at = engine_open(os, &o, &e, &err) ? strstr(err.hint, "--memory ") : NULL;
    if (!at || sscanf(at, "--memory %31[0-9A-Z]", memory) != 1) {
        snprintf(t->problem, sizeof t->problem, "no smallest budget is named: %s", err.hint);
        return false;
    }
    o.memory = memory;
    if (fails(t, engine_open(os, &o, &e, &err))) return false;
    *bytes = e->plan.budget_bytes - (e->plan.slots_bytes - e->plan.slots_floor_bytes);
    sluice_engine_close(e);
    o.memory = memory;
    for (int tries = 0; tries < 200; tries++, *bytes += 16384) {
        snprintf(memory, sizeof memory, "%" PRIu64, *bytes);
        if (engine_open(os, &o, &e, &err)) continue;
        sluice_engine_close(e);
        return true;
    }
    return !fails(t, SLUICE_ERR_MEMORY);
}

/* One prompt and a greedy answer. */
static bool turn(sluice_session *s, const char *text, struct fault_os *f, uint64_t step_ns, struct told *t)
{
    static int32_t ids[CTX];
    static float logits[4096];
    size_t n;
    const struct sluice_encode_options plain = {0};
    if (fails(t, sluice_encode(s->engine, text, strlen(text), &plain, ids, CTX, &n, &err))) return false;
    if (n > t->longest) t->longest = (uint32_t)n;
    size_t known = 0;
    if (s->n == 0 && fails(t, sluice_session_reuse(s, ids, n, &known, &err))) return false;
    for (int i = 0; i <= REPLY; i++) {
        if (fails(t, sluice_eval(s, ids + known, n - known, logits, NULL, NULL, &err))) return false;
        known = 0;
        ids[0] = 0;
        for (int32_t k = 1; k < 4096; k++)
            if (logits[k] > logits[ids[0]]) ids[0] = k;
        n = 1;
        fault_skip_time(f, step_ns);
    }
    if (fails(t, sluice_session_keep(s, &err))) return false;
    sluice_stats(s->engine, &t->stats);
    for (int k = 0; k < SLUICE_PREFETCH_MAX && t->stats.prefetch[k].name; k++)
        snprintf(t->names[k], sizeof t->names[k], "%s", t->stats.prefetch[k].name);
    if (t->stats.pinned > t->pinned_most) t->pinned_most = t->stats.pinned;
    return true;
}

static bool talk(sluice_engine *e, struct fault_os *f, struct os_memory *memory, const char *long_text, struct told *t)
{
    const struct os_memory plenty = *memory;
    const uint64_t second = 1000000000;
    sluice_session *s = NULL;
    while (sluice_idle(e, 100)) {
    }
    bool good = !fails(t, sluice_session_open(e, &s, &err)) && turn(s, english, f, second / 4, t);
    sluice_session_close(s);
    if (!good) return false;
    fault_skip_time(f, 61 * second); /* the usage file is due */
    /* All that is not this process's already is taken by others, while a long prompt is read. */
    good = !fails(t, sluice_session_open(e, &s, &err));
    memory->available_bytes = 0;
    memory->cgroup_room_bytes = UINT64_MAX;
    good = good && turn(s, long_text, f, second / 4, t);
    *memory = plenty;
    good = good && turn(s, spanish, f, 6 * second, t);
    sluice_session_close(s);
    if (!good || fails(t, sluice_session_open(e, &s, &err))) return false;
    fault_skip_time(f, 61 * second);
    good = turn(s, english, f, second, t) && turn(s, italian, f, second, t);
    sluice_session_close(s);
    return good;
}

static void everything(const struct how *how, struct told *t)
{
    static struct fault_os f;
    static char long_text[1101];
    char path[SUPPORT_PATH_MAX], bytes[32];
    struct os_memory memory;
    support_source("tests/engine/text.txt", path);
    FILE *file = fopen(path, "r");
    if (!file || fread(long_text, 1, sizeof long_text - 1, file) == 0 || fclose(file)) return;
    fault_os_init(&f);
    os_memory(&memory);
    f.memory = &memory;
    struct sluice_options o = support_options(model);
    o.ctx = CTX;
    if (how->memory_mib == SMALLEST) o.chunk = 16; /* what there is more is for experts then; they come in waves */
    o.threads = how->threads;
    o.verify = how->verify;
    o.no_usage = o.cold = false;
    o.usage_path = usage;
    o.hotlist_path = access(hotlist, R_OK) ? NULL : hotlist;
    o.pin = how->pin_file ? pins : "auto";
    o.prefetch = "lookahead,transitions,next";
    if (how->prefixes) {
        o.prefix_memory = "3M";
        o.prefix_dir = prefixes;
    }
    uint64_t budget = (uint64_t)how->memory_mib * MIB;
    if (how->memory_mib == SMALLEST && !find_smallest(&f.calls, o, &budget, t)) return;
    sluice_engine *e;
    const uint64_t slot_bytes = 28 * 4096; /* three parts of 36 KiB and their edges; checked below */
    budget += how->experts_more * slot_bytes;
    snprintf(bytes, sizeof bytes, "%" PRIu64, budget);
    o.memory = bytes;
    if (fails(t, engine_open(&f.calls, &o, &e, &err))) return;
    t->budget_bytes = e->plan.budget_bytes;
    t->floor_bytes = e->plan.slots_floor_bytes;
    t->slots_bytes = e->plan.slots_bytes;
    t->slot_bytes = expert_catalog_class(e->catalog, 0)->slot_bytes;
    t->chunk = e->plan.chunk;
    if (t->slot_bytes != slot_bytes) snprintf(t->problem, sizeof t->problem, "an expert's slot is not what is assumed");
    if (talk(e, &f, &memory, long_text, t) && !o.hotlist_path && !fails(t, sluice_hotlist_write(e, hotlist, 0, &err)))
        fails(t, sluice_hotlist_write(e, pins, 8, &err));
    sluice_engine_close(e);
    fault_os_destroy(&f);
}

/* In a fork; the group's limit leaves room for the kernel's own pages and the program's file pages. */
static struct told run_everything(const struct how *how, uint64_t *peak, uint64_t *group_peak)
{
    static struct told t;
    int pipe_fd[2], status;
    char group[256];
    struct rusage used;
    memset(&t, 0, sizeof t);
    assert_int_equal(pipe(pipe_fd), 0);
    const bool grouped = make_cgroup(((how->memory_mib == SMALLEST ? 24 : how->memory_mib) + 16) * MIB, group);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        if (grouped) enter_cgroup(group);
        everything(how, &t);
        _exit(write(pipe_fd[1], &t, sizeof t) != sizeof t);
    }
    close(pipe_fd[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(pipe_fd[0], (char *)&t + n, sizeof t - n)) > 0;) n += (size_t)got;
    close(pipe_fd[0]);
    assert_int_equal(wait4(pid, &status, 0, &used), pid);
    *peak = (uint64_t)used.ru_maxrss * 1024;
    *group_peak = grouped ? cgroup_peak(group) : 0;
    if (grouped) rmdir(group);
    if (WIFSIGNALED(status))
        fail_msg("--memory %uM (0: the smallest): ended by signal %d", how->memory_mib, WTERMSIG(status));
    if (*t.problem || n != sizeof t) fail_msg("--memory %uM (0: the smallest): %s", how->memory_mib, t.problem);
    return t;
}

static void holds_with_everything_at_once(void **state)
{
    (void)state;
    static const struct how hows[] = {
        {.memory_mib = 30, .threads = 2, .verify = true, .prefixes = true}, /* makes the lists */
        {.memory_mib = 24, .threads = 1, .pin_file = true, .prefixes = true},
        {.memory_mib = SMALLEST, .experts_more = 1, .threads = 1, .verify = true},
        {.memory_mib = SMALLEST, .threads = 1}};
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        uint64_t peak, group_peak, guesses = 0, warmed = 0;
        const struct told t = run_everything(&hows[i], &peak, &group_peak);
        const struct sluice_stats *s = &t.stats;
        for (int k = 0; k < SLUICE_PREFETCH_MAX; k++)
            *(strcmp(t.names[k], "warm") ? &guesses : &warmed) += s->prefetch[k].reads;
        print_message("budget %.2f MiB, %.2f of it for experts, chunks of %u%s: peak %.2f MiB (its group %.2f); shrunk "
                      "%u times by %.2f MiB, grown %u times, %u pinned, %u guesses, %u warm\n",
                      (double)t.budget_bytes / MIB, (double)t.slots_bytes / MIB, t.chunk,
                      hows[i].verify ? ", verified" : "", (double)peak / MIB, (double)group_peak / MIB,
                      (unsigned)s->shrinks, (double)s->shrunk_bytes / MIB, (unsigned)s->grows, (unsigned)t.pinned_most,
                      (unsigned)guesses, (unsigned)warmed);
        assert_true(peak <= t.budget_bytes);
        /* It was as much as it claims to be. */
        assert_true(t.longest > t.chunk && s->evictions > 0);
        assert_int_equal(access(usage, R_OK), 0);
        const uint64_t above = t.slots_bytes - t.floor_bytes;
        if (hows[i].memory_mib == SMALLEST) assert_int_equal(above / t.slot_bytes, hows[i].experts_more);
        if (above < t.slot_bytes) continue; /* nothing may be guessed, kept or given back */
        assert_true(s->shrinks > 0 && s->shrunk_bytes > 0 && s->grows > 0);
        if (above < MIB) continue;
        assert_true(guesses > 0);
        if (hows[i].prefixes)
            assert_true(s->prefix_tokens > 0 && (s->prefix_written_bytes > 0 || s->prefix_read_bytes > 0));
        if (hows[i].pin_file) assert_true(t.pinned_most > 0 && warmed > 0);
    }
}

static void more_than_the_machine_has(void **state)
{
    (void)state;
    struct outcome o = run_memory("", "900000G", "--ctx", "64");
    assert_int_equal(o.exit_code, 4);
    assert_non_null(strstr(o.stderr_text, "878.91 TiB"));
    char folder[256];
    if (!make_cgroup(48 * MIB, folder)) return;
    o = run_memory(folder, "60M", "--ctx", "64");
    rmdir(folder);
    assert_int_equal(o.exit_code, 4);
    assert_non_null(strstr(o.stderr_text, "cgroup"));
}

/* Before the first prompt nothing is read but metadata and dense weights, and planning reads not even those. */
static void nothing_is_read_early(void **state)
{
    (void)state;
    struct sluice_options o = support_options(model);
    sluice_engine *e;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s", err.message);
    struct sluice_stats s;
    struct sluice_model_info info;
    struct io_stats io;
    sluice_stats(e, &s);
    sluice_model_info(e, &info);
    io_stats(e->io, &io);
    print_message("dense weights %" PRIu64 " bytes, read %" PRIu64 "\n", info.dense_bytes, io.read_bytes);
    assert_int_equal(s.read_bytes, 0);
    assert_int_equal(s.experts_resident, 0);
    assert_true(io.read_bytes >= info.dense_bytes);
    /* 1 %, and a block of alignment at both ends of each run of tensors (a small model has small runs) */
    assert_true(io.read_bytes <=
                info.dense_bytes + info.dense_bytes / 100 + e->load.n_runs * 2 * io_file_align(e->io, 0));
    sluice_engine_close(e);
    o.plan_only = true;
    if (sluice_engine_open(&o, &e, &err)) fail_msg("%s", err.message);
    io_stats(e->io, &io);
    assert_int_equal(io.read_bytes, 0);
    struct sluice_ledger l;
    sluice_ledger(e, &l);
    uint64_t sum = 0;
    for (size_t i = 0; i < l.n_rows; i++) sum += l.rows[i].bytes;
    assert_true(l.n_rows >= 6 && sum <= l.budget_bytes && l.budget_bytes <= l.machine_limit_bytes);
    sluice_engine_close(e);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdir(room, 0700);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -r '%s'", room);
    return system(command);
}

int main(void)
{
    program = getenv("SLUICE_BIN");
    support_source("models/demo.gguf", model);
    snprintf(room, sizeof room, "/tmp/sluice-budget-%d", (int)getpid());
    snprintf(usage, sizeof usage, "%s/usage", room);
    snprintf(hotlist, sizeof hotlist, "%s/hot", room);
    snprintf(pins, sizeof pins, "%s/pins", room);
    snprintf(prefixes, sizeof prefixes, "%s/prefixes", room);
    setenv("SLUICE_NO_USAGE", "1", 1); /* for the program: nothing is written beside the model */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_read_early), cmocka_unit_test(peak_stays_under_the_budget),
        cmocka_unit_test(refusal_names_what_would_do), cmocka_unit_test(holds_with_everything_at_once),
        cmocka_unit_test(more_than_the_machine_has)};
#ifdef SLUICE_SANITIZED
    (void)tests;
    puts("skipped: a sanitizer's shadow memory is not the program's");
    return 77;
#endif
    if (!program) {
        puts("skipped: SLUICE_BIN does not name the program");
        return 77;
    }
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
