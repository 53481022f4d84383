/* How near streaming comes to what the machine allows.
 *
 *     bench/stream/stream MODEL --memory 4G,6G,8G [--prompt 64] [--tokens 48] [--prefetch off,auto] [--seed 1] [--warm
 * 0]
 *
 * Text is sampled from the model itself (temperature 1) with the first budget, then every budget reads the same ids:
 * the prompt into an empty cache, then token by token. In the same run are measured
 *
 * - the disk: experts at random places, read as the cache reads them but beside it, before and after the prompt and
 *   every few tokens (probe.h): with all of the queue (B), and how long so many take at once from an idle disk (read);
 * - hit, a token all of whose experts are there: it is evaluated twice, the second time is taken; with the time of each
 *   layer until its router has spoken (a) and after it (c);
 * - miss, a token none of whose experts are there: the cache is as small as it can be.
 *
 * Limits of a token that misses m bytes, m_l in layer l, with the disk as it was around that token:
 *
 *     both  = max(hit, m / B)                               what a perfect look-ahead would reach
 *     layer = sum over layers of (a_l + max(read(m_l), c_l))  + what follows the last layer: without any look-ahead
 *
 * and of a prompt: its bytes / B. Reads are direct, so the page cache plays no part.
 *
 * `together` is how much of the time that four experts take has passed when the first of their pieces is reported: a
 * virtual disk may report all of a queue at its end (1.0). What missed can only be computed after that, so with such a
 * disk the layer limit is out of reach; /late is the time over it with the computing of what missed added.
 *
 * `ratio` is the measured time over the limit before it. Guesses change what misses; /off is the time over the layer
 * limit of what missed without them (the run with prefetch off, which comes first then), with the disk and the
 * processors of its own run.
 *
 * --warm GIB touches so much memory before each measurement. A virtual machine that gives free memory back to its host
 * (free page reporting) has to fetch it again at the first touch, which may be slower than the disk; on a machine of
 * one's own it is simply there.
 *
 *     bench/stream/stream MODEL --memory 8G --compare-io 5 [--prompt 64] [--tokens 24]
 *
 * compares worker threads with io_uring instead: the same ids with one and the other, five times each (5 to 15; a disk
 * is not the same from one minute to the next), taking turns in who is first. The last lines have the medians of each,
 * and the median of the rounds' ratios, threads over io_uring.
 *
 *     bench/stream/stream MODEL --memory 8G --disk 5
 *
 * measures the disk alone, five times, with memory of huge and of small pages.
 *
 *     bench/stream/stream MODEL --memory 8G --start 3
 *
 * opens the model three times: how long until it is ready, and the limit, 1.1 times what reading the same dense weights
 * into memory that is there takes, plus 0.3 s. */
#include "probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOKENS_MAX 4096
#define LAYERS_MAX EXPERT_LAYERS_MAX
#define HIT_TOKENS 12
#define MISS_TOKENS 8
#define PROBE_EVERY 4 /* tokens */
#define TOKENS_DECODED_MAX 1024

struct watch {
    bool layers; /* times by layer are wanted */
    uint64_t layer_ns, want_ns, missed_bytes;
    uint32_t layer;
    double before[LAYERS_MAX], after[LAYERS_MAX]; /* a_l, c_l: sums, ns */
    double missed[LAYERS_MAX];                    /* of the running token */
    bool (*go_on)(void *user, uint32_t layer);
    sluice_engine *e;
};

static struct watch watch;
static int32_t ids[TOKENS_MAX];
static struct sluice_error err;

static void die(const char *what)
{
    fprintf(stderr, "stream: %s: %s (%s)\n", what, err.message, err.hint);
    exit(1);
}

static uint64_t now(void) { return os_system()->now_ns(NULL); }

static uint64_t missed_bytes(void)
{
    struct expert_stats x;
    expert_cache_stats(watch.e->cache, &x);
    return x.misses;
}

/* ---- times by layer: the engine asks before each layer whether to go on; expert_want is wrapped by the linker ---- */

static void layer_ends(uint64_t at)
{
    if (watch.want_ns) watch.after[watch.layer] += (double)(at - watch.want_ns);
    watch.want_ns = 0;
}

static bool layer_begins(void *user, uint32_t layer)
{
    if (watch.layers) {
        const uint64_t at = now();
        if (layer > 0) layer_ends(at);
        watch.layer = layer;
        watch.layer_ns = at;
    }
    return watch.go_on(user, layer);
}

enum sluice_status __real_expert_want(struct expert_cache *c, uint32_t layer, const uint32_t *wanted, uint32_t n,
                                      struct sluice_error *e);
enum sluice_status __wrap_expert_want(struct expert_cache *c, uint32_t layer, const uint32_t *wanted, uint32_t n,
                                      struct sluice_error *e);

enum sluice_status __wrap_expert_want(struct expert_cache *c, uint32_t layer, const uint32_t *wanted, uint32_t n,
                                      struct sluice_error *e)
{
    const uint64_t at = now(), before = missed_bytes();
    enum sluice_status st = __real_expert_want(c, layer, wanted, n, e);
    const struct expert_class *k =
        expert_catalog_class(watch.e->catalog, expert_catalog_class_of(watch.e->catalog, layer));
    watch.missed[layer] += (double)(missed_bytes() - before) * (double)k->expert_bytes;
    if (watch.layers) watch.before[layer] += (double)(at - watch.layer_ns);
    watch.want_ns = at;
    return st;
}

/* ---- memory that is there ---- */

/* In a process per CPU, which let go of it as they end. */
static void warm(size_t gib)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    const size_t bytes = (gib << 30) / (size_t)n;
    for (long i = 0; i < n && gib; i++) {
        const pid_t child = fork();
        if (child < 0) perror("stream: fork");
        if (child) continue;
        volatile char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) _exit(1);
        madvise((void *)at, bytes, MADV_HUGEPAGE);
        for (size_t k = 0; k < bytes; k += 4096) at[k] = 1;
        _exit(0);
    }
    for (int status; wait(&status) > 0;)
        if (status) fprintf(stderr, "stream: %zu GiB could not be touched\n", gib);
}

/* ---- an engine ---- */

struct run {
    sluice_engine *e;
    sluice_session *s;
};

static struct run begin(const char *model, const char *memory, const char *prefetch, const char *io)
{
    struct run r;
    struct sluice_options o;
    sluice_options_init(&o);
    o.io = io;
    o.model_path = model;
    o.memory = memory;
    o.prefetch = prefetch;
    o.no_usage = o.cold = true;
    if (sluice_engine_open(&o, &r.e, &err)) die(memory);
    if (!r.e->cache) {
        fprintf(stderr, "stream: the model has no experts to stream\n");
        exit(2);
    }
    if (sluice_session_open(r.e, &r.s, &err)) die(memory);
    memset(&watch, 0, sizeof watch);
    watch.e = r.e;
    watch.go_on = r.e->run.go_on;
    r.e->run.go_on = layer_begins;
    return r;
}

static void end(struct run *r)
{
    sluice_session_close(r->s);
    sluice_engine_close(r->e);
}

static double eval(struct run *r, size_t at, size_t n)
{
    const uint64_t t0 = now();
    memset(watch.missed, 0, sizeof watch.missed);
    if (sluice_eval(r->s, ids + at, n, NULL, NULL, NULL, &err)) die("evaluating");
    const uint64_t t1 = now();
    if (watch.layers) layer_ends(t1); /* what follows the last layer is counted with it */
    return (double)(t1 - t0);
}

static void sample_text(const char *model, const char *memory, size_t n, uint64_t seed)
{
    struct run r = begin(model, memory, "auto", NULL);
    struct sluice_sampling p;
    sluice_sampling_init(&p);
    p.temperature = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    p.seed = seed;
    if (sluice_session_sampling(r.s, &p, &err)) die("sampling");
    ids[0] = 1;
    eval(&r, 0, 1);
    for (size_t i = 1; i < n; i++) {
        if (sluice_sample(r.s, &ids[i], &err)) die("sampling");
        eval(&r, i, 1);
    }
    end(&r);
}

/* An empty cache whose memory has been prepared, as in a server that has been idle for a moment: a prompt that comes as
 * soon as the engine is open finds what could be brought in while it was loaded. */
static void empty_cache(struct expert_cache *c)
{
    expert_set_limit(c, 0);
    expert_set_limit(c, UINT64_MAX);
    while (expert_cache_prepare(c)) usleep(1000);
}

/* ---- one budget ---- */

struct hit {
    double ns, before[LAYERS_MAX], after[LAYERS_MAX];
};

/* The same token twice: the second time everything is there. */
static void measure_hit(struct run *r, size_t prompt, struct hit *out)
{
    memset(out, 0, sizeof *out);
    memset(watch.before, 0, sizeof watch.before);
    memset(watch.after, 0, sizeof watch.after);
    for (size_t i = 0; i < HIT_TOKENS; i++) {
        if (sluice_session_rewind(r->s, prompt + i, &err)) die("rewinding");
        eval(r, prompt + i, 1);
        if (sluice_session_rewind(r->s, prompt + i, &err)) die("rewinding");
        watch.layers = true;
        out->ns += eval(r, prompt + i, 1) / HIT_TOKENS;
        watch.layers = false;
    }
    for (uint32_t l = 0; l < r->e->model->hp.n_layer; l++) {
        out->before[l] = watch.before[l] / HIT_TOKENS;
        out->after[l] = watch.after[l] / HIT_TOKENS;
    }
}

static double measure_miss(struct run *r, size_t prompt)
{
    double ns = 0;
    if (sluice_session_rewind(r->s, prompt, &err)) die("rewinding");
    expert_set_limit(r->e->cache, 0);
    for (size_t i = 0; i < MISS_TOKENS; i++) ns += eval(r, prompt + i, 1) / MISS_TOKENS;
    expert_set_limit(r->e->cache, UINT64_MAX);
    return ns;
}

/* What one budget and kind of guesses did. */
struct course {
    double missed[TOKENS_DECODED_MAX][LAYERS_MAX];
    struct probe_figures disk[TOKENS_DECODED_MAX / PROBE_EVERY + 2]; /* before each stretch of tokens, and after all */
    struct hit hit;
    double prefill, decode, miss; /* ns: of the prompt, of all tokens, of a token */
    struct sluice_stats before, middle, after;
};

static struct course off, other; /* without guesses, and with them */

/* Sum of the tokens' layer limits, with the bytes that missed in `of`. late: what missed is computed after all of it
 * has come. */
static double layer_limit(const struct run *r, const struct course *c, const struct course *of, size_t tokens,
                          bool late)
{
    const struct expert_catalog *catalog = r->e->catalog;
    const uint32_t n_layer = r->e->model->hp.n_layer;
    double ns = 0;
    for (size_t i = 0; i < tokens; i++) {
        const struct probe_figures disk = probe_between(c->disk[i / PROBE_EVERY], c->disk[i / PROBE_EVERY + 1]);
        for (uint32_t l = 0; l < n_layer; l++) {
            const double missed = of->missed[i][l], read = probe_read_ns(&disk, missed);
            double after = c->hit.after[l], behind = 0;
            if (late && missed > 0) {
                const struct expert_class *k = expert_catalog_class(catalog, expert_catalog_class_of(catalog, l));
                behind = after * missed / ((double)k->expert_bytes * expert_catalog_layer(catalog, l)->n_used);
                after -= behind;
            }
            ns += c->hit.before[l] + fmax(read, after) + behind;
        }
    }
    return ns;
}

static double both_limit(const struct course *c, uint32_t n_layer, size_t tokens)
{
    double ns = 0;
    for (size_t i = 0; i < tokens; i++) {
        double bytes = 0;
        for (uint32_t l = 0; l < n_layer; l++) bytes += c->missed[i][l];
        ns += fmax(c->hit.ns, bytes / probe_between(c->disk[i / PROBE_EVERY], c->disk[i / PROBE_EVERY + 1]).full);
    }
    return ns;
}

static void run_course(struct run *r, size_t prompt, size_t tokens, uint64_t seed, struct course *c)
{
    const uint32_t n_layer = r->e->model->hp.n_layer;
    struct probe *probe = probe_open(r->e, false, seed);
    const struct probe_figures first = probe_now(probe);
    size_t n = 0;
    empty_cache(r->e->cache);
    sluice_stats(r->e, &c->before);
    c->prefill = eval(r, 0, prompt);
    sluice_stats(r->e, &c->middle);
    c->decode = 0;
    for (size_t i = 0; i < tokens; i++) {
        if (i % PROBE_EVERY == 0) c->disk[n++] = probe_now(probe);
        c->decode += eval(r, prompt + i, 1);
        memcpy(c->missed[i], watch.missed, n_layer * sizeof(double));
    }
    c->disk[n] = probe_now(probe);
    sluice_stats(r->e, &c->after);
    measure_hit(r, prompt, &c->hit);
    c->miss = measure_miss(r, prompt);
    probe_close(probe);
    const double read = (double)(c->middle.read_bytes - c->before.read_bytes),
                 wanted = (double)(c->after.hits - c->middle.hits + c->after.misses - c->middle.misses),
                 n_tokens = (double)tokens;
    struct probe_figures mean = {0};
    for (size_t i = 0; i <= n; i++) {
        mean.full += c->disk[i].full / (double)(n + 1);
        mean.lone_ns += c->disk[i].lone_ns / (double)(n + 1);
        mean.together += c->disk[i].together / (double)(n + 1);
    }
    printf(" %5.2f %5.2f %8.2f  %8.2f %6.1f %7.2f  %8.2f %6.1f %7.1f %8.1f", mean.full, mean.lone_ns / 1e6,
           mean.together, (double)prompt * 1e9 / c->prefill, read / 1e9,
           c->prefill / (read / probe_between(first, c->disk[0]).full), n_tokens * 1e9 / c->decode,
           100 * (double)(c->after.hits - c->middle.hits) / wanted,
           (double)(c->after.read_bytes - c->middle.read_bytes) / 1e6 / n_tokens, c->decode / 1e6 / n_tokens);
}

static void measure(const char *model, const char *memory, const char *prefetch, size_t prompt, size_t tokens,
                    uint64_t seed)
{
    const bool is_off = !strcmp(prefetch, "off");
    struct course *c = is_off ? &off : &other;
    struct run r = begin(model, memory, prefetch, NULL);
    const uint32_t n_layer = r.e->model->hp.n_layer;
    printf("%-6s %-9s", memory, prefetch);
    run_course(&r, prompt, tokens, seed, c);
    const double layer = layer_limit(&r, c, c, tokens, false), both = both_limit(c, n_layer, tokens),
                 n_tokens = (double)tokens;
    printf(" %8.1f %6.2f %6.2f", layer / 1e6 / n_tokens, c->decode / layer,
           c->decode / layer_limit(&r, c, c, tokens, true));
    if (off.decode > 0)
        printf(" %6.2f", c->decode / layer_limit(&r, c, &off, tokens, false));
    else
        printf(" %6s", "-");
    printf(" %8.1f %6.2f  %7.2f %7.2f\n", both / 1e6 / n_tokens, c->decode / both, 1e9 / c->hit.ns, 1e9 / c->miss);
    fflush(stdout);
    end(&r);
}

/* ---- worker threads beside io_uring ---- */

#define ROUNDS_MIN 5
#define ROUNDS_MAX 15

struct io_figures {
    double load, disk, prefill, decode; /* GB/s, GB/s, tokens/s, tokens/s */
};

static struct io_figures measure_io(const char *model, const char *memory, const char *prefetch, const char *io,
                                    size_t prompt, size_t tokens, uint64_t seed)
{
    struct io_figures f;
    struct run r = begin(model, memory, prefetch, io);
    struct sluice_stats opened;
    sluice_stats(r.e, &opened);
    f.load = (double)opened.load_bytes / (double)opened.load_ns;
    struct probe *probe = probe_open(r.e, false, seed);
    f.disk = probe_now(probe).full;
    probe_close(probe);
    empty_cache(r.e->cache);
    f.prefill = (double)prompt * 1e9 / eval(&r, 0, prompt);
    double ns = 0;
    for (size_t i = 0; i < tokens; i++) ns += eval(&r, prompt + i, 1);
    f.decode = (double)tokens * 1e9 / ns;
    end(&r);
    return f;
}

static double median(const struct io_figures *f, size_t n, size_t field)
{
    double v[ROUNDS_MAX];
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        double x;
        memcpy(&x, (const char *)&f[i] + field, sizeof x);
        for (; at > 0 && v[at - 1] > x; at--) v[at] = v[at - 1];
        v[at] = x;
    }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static struct io_figures medians(const struct io_figures *f, size_t n)
{
    return (struct io_figures){.load = median(f, n, offsetof(struct io_figures, load)),
                               .disk = median(f, n, offsetof(struct io_figures, disk)),
                               .prefill = median(f, n, offsetof(struct io_figures, prefill)),
                               .decode = median(f, n, offsetof(struct io_figures, decode))};
}

static void print_io(const char *round, const char *name, const struct io_figures *f)
{
    printf("%-6s %-8s %8.2f %8.2f %8.2f %8.2f\n", round, name, f->load, f->disk, f->prefill, f->decode);
    fflush(stdout);
}

static void compare_io(const char *model, const char *memory, const char *prefetch, size_t prompt, size_t tokens,
                       uint64_t seed, size_t n_rounds)
{
    static const char *const names[2] = {"threads", "uring"};
    static struct io_figures f[2][ROUNDS_MAX], ratio[ROUNDS_MAX];
    struct io_figures m;
    char name[8];
    printf("# %s, prefetch %s: %zu tokens of prompt into an empty cache, then %zu tokens; %zu rounds\n", memory,
           prefetch, prompt, tokens, n_rounds);
    printf("%-6s %-8s %8s %8s %8s %8s\n", "round", "io", "load", "experts", "prefill", "decode");
    for (size_t round = 0; round < n_rounds; round++) {
        snprintf(name, sizeof name, "%u", (unsigned)round + 1);
        for (size_t turn = 0; turn < 2; turn++) {
            const size_t i = (round + turn) % 2;
            f[i][round] = measure_io(model, memory, prefetch, names[i], prompt, tokens, seed + round);
            print_io(name, names[i], &f[i][round]);
        }
        const struct io_figures *t = &f[0][round], *u = &f[1][round];
        ratio[round] = (struct io_figures){.load = t->load / u->load,
                                           .disk = t->disk / u->disk,
                                           .prefill = t->prefill / u->prefill,
                                           .decode = t->decode / u->decode};
        print_io(name, "ratio", &ratio[round]);
    }
    for (size_t i = 0; i < 2; i++) {
        m = medians(f[i], n_rounds);
        print_io("median", names[i], &m);
    }
    m = medians(ratio, n_rounds);
    print_io("median", "ratio", &m);
}

/* ---- start-up ---- */

static void measure_start(const char *model, const char *memory, size_t n_rounds)
{
    printf("# %s: until ready, of that reading dense weights; the same weights again, into memory that is there\n",
           memory);
    printf("%8s %8s %8s %8s %8s %8s\n", "ready s", "dense s", "GB", "again s", "limit s", "ratio");
    for (size_t i = 0; i < n_rounds; i++) {
        const uint64_t t0 = now();
        struct run r = begin(model, memory, "auto", NULL);
        const double ready = (double)(now() - t0) / 1e9;
        os_touch_wait(r.e->toucher);
        const struct load_touch none = {.os = os_system()};
        struct sluice_stats x;
        sluice_stats(r.e, &x);
        const uint64_t t1 = now();
        if (load_dense(r.e->model, r.e->io, &none, &r.e->load, r.e->dense.at, NULL, NULL, &err)) die("reading again");
        const double again = (double)(now() - t1) / 1e9, limit = 1.1 * again + 0.3;
        printf("%8.2f %8.2f %8.2f %8.2f %8.2f %8.2f\n", ready, (double)x.load_ns / 1e9, (double)x.load_bytes / 1e9,
               again, limit, ready / limit);
        fflush(stdout);
        end(&r);
    }
}

/* ---- the disk alone ---- */

static void measure_disks(const char *model, const char *memory, uint64_t seed, size_t n_rounds)
{
    struct run r = begin(model, memory, "off", NULL);
    struct probe *probes[2] = {probe_open(r.e, false, seed), probe_open(r.e, true, seed)};
    printf("# experts at random places, read into huge and into small pages: with all of the queue, one alone, and how "
           "much\n"
           "# of the time that several take has passed when the first of their pieces is reported\n");
    printf("%-6s %8s %8s %8s\n", "pages", "GB/s", "one ms", "together");
    const double one = (double)expert_catalog_class(r.e->catalog, 0)->expert_bytes;
    for (size_t i = 0; i < 2 * n_rounds; i++) {
        const struct probe_figures f = probe_now(probes[i % 2]);
        printf("%-6s %8.2f %8.2f %8.2f\n", i % 2 ? "small" : "huge", f.full, probe_read_ns(&f, one) / 1e6, f.together);
    }
    for (size_t i = 0; i < 2; i++) probe_close(probes[i]);
    end(&r);
}

static const char *option(int argc, char **argv, const char *name, const char *fallback)
{
    for (int i = 2; i + 1 < argc; i++)
        if (!strcmp(argv[i], name)) return argv[i + 1];
    return fallback;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argv[1][0] == '-') {
        fprintf(stderr,
                "usage: stream MODEL --memory 4G,8G [--prompt 64] [--tokens 48] [--prefetch off,auto] [--seed 1] "
                "[--warm GIB] [--compare-io ROUNDS] [--start ROUNDS] [--disk ROUNDS]\n");
        return 2;
    }
    const size_t prompt = strtoul(option(argc, argv, "--prompt", "64"), NULL, 10),
                 tokens = strtoul(option(argc, argv, "--tokens", "48"), NULL, 10);
    const uint64_t seed = strtoull(option(argc, argv, "--seed", "1"), NULL, 10);
    const size_t disks = strtoul(option(argc, argv, "--disk", "0"), NULL, 10);
    const size_t starts = strtoul(option(argc, argv, "--start", "0"), NULL, 10);
    const size_t rounds = strtoul(option(argc, argv, "--compare-io", "0"), NULL, 10);
    const size_t warm_gib = strtoul(option(argc, argv, "--warm", "0"), NULL, 10);
    char memories[200], prefetches[200], *m, *p, *save_m, *save_p;
    snprintf(memories, sizeof memories, "%s", option(argc, argv, "--memory", "auto"));
    const bool strange = rounds && (rounds < ROUNDS_MIN || rounds > ROUNDS_MAX);
    if (prompt < 1 || tokens < HIT_TOKENS || prompt + tokens > TOKENS_MAX || tokens > TOKENS_DECODED_MAX || strange) {
        fprintf(stderr, "stream: at least 1 token of prompt, %d to %d after it, %d together; %d to %d rounds\n",
                HIT_TOKENS, TOKENS_DECODED_MAX, TOKENS_MAX, ROUNDS_MIN, ROUNDS_MAX);
        return 2;
    }
    char first[200];
    snprintf(first, sizeof first, "%s", memories);
    const char *memory = strtok(first, ",");
    if (starts) {
        measure_start(argv[1], memory, starts);
        return 0;
    }
    if (disks) {
        measure_disks(argv[1], memory, seed, disks);
        return 0;
    }
    sample_text(argv[1], memory, prompt + tokens, seed);
    if (rounds) {
        compare_io(argv[1], memory, option(argc, argv, "--prefetch", "auto"), prompt, tokens, seed, rounds);
        return 0;
    }
    printf("# %zu tokens of prompt into an empty cache, then %zu tokens; text sampled from the model, seed %llu\n",
           prompt, tokens, (unsigned long long)seed);
    printf("%-6s %-9s %5s %5s %8s  %8s %6s %7s  %8s %6s %7s %8s %8s %6s %6s %6s %8s %6s  %7s %7s\n", "memory",
           "prefetch", "GB/s", "lone", "together", "prefill", "GB", "/limit", "decode", "hits%", "MB/tok", "ms/tok",
           "layer", "ratio", "/late", "/off", "both", "ratio", "allhit", "allmiss");
    for (m = strtok_r(memories, ",", &save_m); m; m = strtok_r(NULL, ",", &save_m)) {
        off.decode = 0;
        snprintf(prefetches, sizeof prefetches, "%s", option(argc, argv, "--prefetch", "off,auto"));
        for (p = strtok_r(prefetches, ",", &save_p); p; p = strtok_r(NULL, ",", &save_p)) {
            warm(warm_gib);
            measure(argv[1], m, p, prompt, tokens, seed);
        }
    }
    return 0;
}
