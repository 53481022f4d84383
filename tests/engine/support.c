#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void support_source(const char *name, char path[SUPPORT_PATH_MAX])
{
    const char *root = getenv("SLUICE_SOURCE");
    snprintf(path, SUPPORT_PATH_MAX, "%s/%s", root ? root : ".", name);
}

static _Noreturn void die(const char *path, const char *why)
{
    fprintf(stderr, "test support: %s: %s\n", path, why);
    exit(1);
}

static bool find_golden(const char *name, char path[SUPPORT_PATH_MAX])
{
    const char *shared = getenv("SLUICE_SHARED");
    snprintf(path, SUPPORT_PATH_MAX, "%s/oracle/%s", shared ? shared : "/nonexistent", name);
    if (!access(path, R_OK)) return true;
    char golden[SUPPORT_PATH_MAX / 2];
    snprintf(golden, sizeof golden, "tests/golden/%s", name);
    support_source(golden, path);
    return !access(path, R_OK);
}

/* Where the oracle is, it has all: nothing is passed over because of a name that is misspelt or a file that is gone. */
bool support_golden(const char *name, char path[SUPPORT_PATH_MAX])
{
    if (find_golden(name, path)) return true;
    char oracle[SUPPORT_PATH_MAX];
    const char *shared = getenv("SLUICE_SHARED");
    snprintf(oracle, sizeof oracle, "%s/oracle", shared ? shared : "/nonexistent");
    if (!access(oracle, R_OK)) die(name, "neither among tests/golden nor in the shared oracle");
    fprintf(stderr, "passed over: %s is in the shared oracle alone, which is not here\n", name);
    return false;
}

static char *read_all(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) die(path, "cannot open");
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *data = malloc((size_t)n + 1);
    if (!data || fread(data, 1, (size_t)n, f) != (size_t)n) die(path, "cannot read");
    fclose(f);
    data[n] = 0;
    *bytes = (size_t)n;
    return data;
}

int32_t *support_tokens(const char *path, size_t *n)
{
    size_t bytes;
    char *text = read_all(path, &bytes), *p = text, *end;
    int32_t *ids = malloc((bytes + 1) * sizeof *ids);
    if (!ids) die(path, "no memory");
    *n = 0;
    for (;;) {
        long v = strtol(p, &end, 10);
        if (end == p) break;
        ids[(*n)++] = (int32_t)v;
        p = end;
    }
    free(text);
    if (!*n) die(path, "no tokens");
    return ids;
}

float *support_floats(const char *path, size_t *n)
{
    size_t bytes;
    float *x = (float *)read_all(path, &bytes);
    *n = bytes / sizeof *x;
    return x;
}

static void print_line(void *user, enum sluice_log_level level, const char *line)
{
    (void)user;
    (void)level;
    if (getenv("SLUICE_TEST_VERBOSE")) fprintf(stderr, "log: %s\n", line);
}

struct sluice_options support_options(const char *model_path)
{
    struct sluice_options o;
    sluice_options_init(&o);
    o.model_path = model_path;
    o.log = print_line;
    o.no_usage = o.cold = true; /* a test neither leaves files beside a model nor depends on them */
    return o;
}

static void steady_memory(void *user, struct os_memory *out)
{
    os_system()->memory(user, out);
    out->available_bytes = out->total_bytes;
    out->cgroup_room_bytes = out->cgroup_limit_bytes = UINT64_MAX;
}

static void steady_pressure(void *user, struct os_pressure *out)
{
    (void)user;
    *out = (struct os_pressure){0};
}

const struct os_calls *support_steady(void)
{
    static struct os_calls calls;
    calls = *os_system();
    calls.memory = steady_memory;
    calls.pressure = steady_pressure;
    return &calls;
}

static bool keep_row(void *user, size_t index, const float *logits, size_t n_vocab)
{
    memcpy((float *)user + index * n_vocab, logits, n_vocab * sizeof *logits);
    return true;
}

enum sluice_status support_logits(const struct os_calls *os, const struct sluice_options *o, const int32_t *ids,
                                  size_t n, float **logits, size_t *n_vocab, struct sluice_error *err)
{
    sluice_engine *e;
    *logits = NULL;
    enum sluice_status st = engine_open(os ? os : os_system(), o, &e, err);
    if (st) return st;
    sluice_session *s = NULL;
    struct sluice_model_info info;
    sluice_model_info(e, &info);
    *n_vocab = info.n_vocab;
    *logits = malloc(n * info.n_vocab * sizeof **logits);
    if (!*logits) die(o->model_path, "no memory for logits");
    st = sluice_session_open(e, &s, err);
    if (!st) st = sluice_eval(s, ids, n, NULL, keep_row, *logits, err);
    sluice_session_close(s);
    sluice_engine_close(e);
    if (st) {
        free(*logits);
        *logits = NULL;
    }
    return st;
}

void support_last_rows(sluice_session *s, const int32_t *ids, size_t n, const float *want, size_t n_vocab)
{
    const size_t ends[] = {n - 2, n, n}, begins[] = {0, n - 2, 0};
    struct sluice_error err;
    float *got = malloc(n_vocab * sizeof *got);
    if (!got) die("last rows", "no memory for logits");
    for (size_t i = 0; i < 3; i++) {
        if (sluice_session_rewind(s, begins[i], &err) ||
            sluice_eval(s, ids + begins[i], ends[i] - begins[i], got, NULL, NULL, &err))
            die("last rows", err.message);
        if (memcmp(got, want + (ends[i] - 1) * n_vocab, n_vocab * sizeof *got))
            die("last rows", "the logits of a prompt's last token are not those of all tokens");
    }
    free(got);
}

double support_nmse(const float *got, const float *want, size_t n)
{
    double d = 0, s = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        s += (double)want[i] * want[i];
    }
    return d / s;
}

size_t support_argmax_faults(const float *got, const float *want, size_t n_rows, size_t n_vocab, double gap)
{
    size_t faults = 0;
    for (size_t r = 0; r < n_rows; r++) {
        const float *g = got + r * n_vocab, *w = want + r * n_vocab;
        size_t best = 0, got_best = 0;
        for (size_t i = 1; i < n_vocab; i++) {
            if (w[i] > w[best]) best = i;
            if (g[i] > g[got_best]) got_best = i;
        }
        double second = -1e300;
        for (size_t i = 0; i < n_vocab; i++)
            if (i != best && w[i] > second) second = w[i];
        if (w[best] - second > gap && got_best != best) faults++;
    }
    return faults;
}

#define LINES_MAX 200
static char lines[LINES_MAX][600];
static size_t n_lines;

void support_keep_line(void *user, enum sluice_log_level level, const char *line)
{
    (void)user;
    (void)level;
    if (n_lines < LINES_MAX) snprintf(lines[n_lines++], sizeof lines[0], "%s", line);
}

bool support_said(const char *part)
{
    for (size_t i = 0; i < n_lines; i++)
        if (strstr(lines[i], part)) return true;
    return false;
}

void support_forget_lines(void) { n_lines = 0; }

float support_two_prompts(sluice_engine *e, int32_t (*token)(uint32_t i), uint32_t n_prompt, uint32_t n_decode)
{
    struct sluice_error err;
    sluice_session *s;
    float *logits = malloc(e->model->hp.n_vocab * sizeof *logits);
    int32_t *ids = malloc(n_prompt * sizeof *ids);
    if (!logits || !ids) die("two prompts", "no memory");
    if (sluice_session_open(e, &s, &err)) die("two prompts", err.message);
    for (uint32_t prompt = 0; prompt < 2; prompt++) {
        for (uint32_t i = 0; i < n_prompt; i++) ids[i] = token(i + 1000 * prompt);
        if (sluice_session_rewind(s, 0, &err)) die("two prompts", err.message);
        if (sluice_eval(s, ids, n_prompt, logits, NULL, NULL, &err)) die("two prompts", err.message);
        for (uint32_t i = 0; i < n_decode; i++) {
            const int32_t id = token(n_prompt + i + 1000 * prompt);
            if (sluice_eval(s, &id, 1, logits, NULL, NULL, &err)) die("two prompts", err.message);
        }
    }
    const float last = logits[0];
    sluice_session_close(s);
    free(ids);
    free(logits);
    return last;
}
