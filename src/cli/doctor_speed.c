/* How fast the disk and the memory are, for what is said of tokens a second. */
#include "cli/doctor.h"
#include "os/os.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define MEMORY_BYTES ((size_t)256 << 20) /* of all threads: far more than caches hold */
#define MEMORY_ROUNDS 3
#define MEMORY_THREADS_MAX 64
#define LANES 8

/* What follows the number of "3GB" or "3000 MB/s". */
static bool has_unit(const char *rest)
{
    static const char *const units[] = {"k", "kb", "kib", "m", "mb", "mib", "g", "gb", "gib", "t", "tb", "tib"};
    rest += *rest == ' ';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t bytes = strlen(units[i]);
        if (strncasecmp(rest, units[i], bytes) == 0 && (!rest[bytes] || strcasecmp(rest + bytes, "/s") == 0))
            return true;
    }
    return false;
}

enum sluice_status doctor_find_disk(const struct cli_options *o, struct report *r, double *disk,
                                    struct sluice_error *err)
{
    const char *text = cli_given(o, OPT_DISK) ? cli_text(o, OPT_DISK) : NULL;
    char *end;
    *disk = 0;
    if (!text) return SLUICE_OK;
    double number = strtod(text, &end);
    if (end != text && !*end) {
        if (!(number >= 1) || !(number <= 1000000))
            return base_fail(err, SLUICE_ERR_USAGE, "from 1 to 1000000; a file of that name is ./NAME",
                             "--disk: '%.100s' MB/s is not a speed that is allowed", text);
        *disk = number;
        return SLUICE_OK;
    }
    if (end != text && has_unit(end) && access(text, F_OK) != 0)
        return base_fail(err, SLUICE_ERR_USAGE, "a number of MB/s without a unit (3000), or a file on the disk",
                         "--disk: '%.100s' is no number, and there is no such file", text);
    struct doctor_disk *measured = malloc(sizeof *measured);
    if (!measured) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "out of memory");
    enum sluice_status status = doctor_measure(text, false, measured, err);
    if (!status) {
        *disk = doctor_best_rate(measured) / 1e6;
        report_note(r, "the disk of %s reads %.0f MB/s%s", text, *disk,
                    measured->direct ? "" : ", if that is not the page cache: there are no direct reads");
    }
    free(measured);
    return status;
}

/* ---- memory ---- */

struct reader {
    struct os_thread *thread;
    uint64_t *words;
    size_t n;
    uint64_t sum, ns; /* so that nothing is left out; time on a processor, in the best round */
};

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void read_words(void *user)
{
    struct reader *r = user;
    memset(r->words, 1, r->n * sizeof *r->words); /* by the thread that reads it */
    for (unsigned round = 0; round < MEMORY_ROUNDS; round++) {
        uint64_t sums[LANES] = {0};
        const uint64_t begin = thread_ns();
        for (size_t i = 0; i + LANES <= r->n; i += LANES)
            for (size_t l = 0; l < LANES; l++) sums[l] += r->words[i + l];
        const uint64_t ns = thread_ns() - begin;
        for (size_t l = 0; l < LANES; l++) r->sum += sums[l];
        if (ns && (!r->ns || ns < r->ns)) r->ns = ns;
    }
}

/* Time on a processor, so that other programs that want it too do not make the memory look slow. */
double doctor_memory_rate(unsigned threads)
{
    const unsigned n = threads > MEMORY_THREADS_MAX ? MEMORY_THREADS_MAX : (threads ? threads : 1);
    const size_t words = MEMORY_BYTES / sizeof(uint64_t) / n / LANES * LANES;
    struct reader readers[MEMORY_THREADS_MAX];
    uint64_t *memory = malloc(words * n * sizeof *memory);
    unsigned started = 0;
    double rate = 0;
    for (unsigned i = 0; memory && i < n; i++) {
        readers[i] = (struct reader){.words = memory + i * words, .n = words};
        if (os_thread_start(&readers[i].thread, read_words, &readers[i], "measure", 65536)) break;
        started++;
    }
    for (unsigned i = 0; i < started; i++) {
        os_thread_join(readers[i].thread);
        if (readers[i].ns) rate += (double)(words * sizeof *memory) * 1e9 / (double)readers[i].ns;
    }
    free(memory);
    return started == n ? rate : 0;
}
