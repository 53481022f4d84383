/* Hotlists: lines of text, read through one small buffer, strictly: a typing error is told with its line, not skipped.
 * Numbers are read and written by hand, since the C library's own depend on the locale. */
#include "expert/hotlist.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SPARE_LINES 4096 /* of a list that names every expert: for comments */
#define BUFFER_BYTES 4096
#define DECIMALS 1000000 /* what is written of a probability */

#define REPAIR "correct it, remove it, or write it again with 'sluice profile'"

static const char title[] = "sluice-hotlist ";

struct reader {
    const struct os_calls *os;
    const char *path;
    const struct expert_catalog *catalog;
    struct expert_hotlist *out;
    uint8_t *seen; /* a bit a key */
    uint64_t fingerprint;
    bool has_model;
    uint32_t line; /* from 1 */
    struct sluice_error *err;
};

/* What is left of a line, without its comment and the space around. */
struct text {
    const char *at, *end;
};

static enum sluice_status bad(const struct reader *r, const char *what)
{
    return base_fail(r->err, SLUICE_ERR_USAGE, REPAIR, "%.300s, line %" PRIu32 ": %s", r->path, r->line, what);
}

static enum sluice_status no_memory(struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a hotlist");
}

/* ---- words ---- */

static bool is_space(char c) { return c == ' ' || c == '\t'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static void trim(struct text *t)
{
    while (t->at < t->end && is_space(*t->at)) t->at++;
    while (t->at < t->end && is_space(t->end[-1])) t->end--;
}

/* The next word; an empty one at the end. */
static struct text word(struct text *t)
{
    trim(t);
    struct text w = {t->at, t->at};
    while (w.end < t->end && !is_space(*w.end)) w.end++;
    t->at = w.end;
    return w;
}

static bool is(struct text w, const char *name)
{
    size_t n = strlen(name);
    return (size_t)(w.end - w.at) == n && memcmp(w.at, name, n) == 0;
}

static bool parse_index(struct text w, uint32_t *out)
{
    *out = 0;
    if (w.at == w.end || w.end - w.at > 9) return false; /* 9 digits fit; no model has as many */
    for (; w.at < w.end; w.at++) {
        if (!is_digit(*w.at)) return false;
        *out = *out * 10 + (uint32_t)(*w.at - '0');
    }
    return true;
}

/* 0, 1, 0.25, .5 and 1.000; digits behind the 18th do not count. */
static bool parse_probability(struct text w, float *out)
{
    const uint64_t digits_18 = UINT64_C(1000000000000000000);
    uint64_t value = 0, unit = 1;
    bool point = false, any = false;
    for (; w.at < w.end; w.at++) {
        if (*w.at == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(*w.at)) return false;
        any = true;
        if (unit == digits_18) continue;
        value = value * 10 + (uint64_t)(*w.at - '0');
        if (point) unit *= 10;
        if (value > unit) return false; /* for good; and nothing overflows */
    }
    if (!any) return false;
    *out = (float)((double)value / (double)unit);
    return true;
}

static bool parse_hex(struct text w, uint64_t *out)
{
    *out = 0;
    if (w.end - w.at != 16) return false;
    for (; w.at < w.end; w.at++) {
        char c = *w.at;
        unsigned digit = is_digit(c)            ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 16;
        if (digit == 16) return false;
        *out = *out << 4 | digit;
    }
    return true;
}

/* ---- lines ---- */

static enum sluice_status take_title(struct reader *r, struct text t)
{
    const size_t n = sizeof title - 1;
    uint32_t version;
    if ((size_t)(t.end - t.at) < n || memcmp(t.at, title, n) != 0)
        return base_fail(r->err, SLUICE_ERR_USAGE, "'sluice profile' writes one",
                         "%.300s: is not a hotlist: its first line is not '%s%u'", r->path, title,
                         EXPERT_HOTLIST_VERSION);
    t.at += n;
    if (!parse_index(word(&t), &version) || word(&t).at != t.end) return bad(r, "the version is not a number");
    if (version != EXPERT_HOTLIST_VERSION)
        return base_fail(r->err, SLUICE_ERR_USAGE, REPAIR,
                         "%.300s: a hotlist of version %" PRIu32 "; this Sluice reads version %u", r->path, version,
                         EXPERT_HOTLIST_VERSION);
    return SLUICE_OK;
}

static enum sluice_status take_model(struct reader *r, struct text t)
{
    uint64_t fingerprint;
    if (r->has_model) return bad(r, "the model is named a second time");
    if (!is(word(&t), "model")) return bad(r, "the first line behind the title must be 'model' and a fingerprint");
    struct text w = word(&t);
    if (!parse_hex(w, &fingerprint) || word(&t).at != t.end)
        return bad(r, "the model's fingerprint is not 16 hexadecimal digits");
    if (fingerprint != r->fingerprint)
        return base_fail(r->err, SLUICE_ERR_USAGE, "write one for this model with 'sluice profile', or remove it",
                         "%.300s, line %" PRIu32 ": this hotlist belongs to another model (the model's fingerprint is "
                         "%016" PRIx64 ", the list's %016" PRIx64 ")",
                         r->path, r->line, r->fingerprint, fingerprint);
    r->has_model = true;
    return SLUICE_OK;
}

static enum sluice_status take_expert(struct reader *r, struct text t)
{
    const struct expert_catalog *c = r->catalog;
    const uint32_t n_layers = expert_catalog_n_layers(c);
    uint32_t layer, expert;
    float probability = 0.0f;
    if (!parse_index(word(&t), &layer) || !parse_index(word(&t), &expert))
        return bad(r, "is not 'layer expert probability'");
    struct text w = word(&t);
    if (w.at < w.end && !parse_probability(w, &probability))
        return bad(r, "the probability is not a number from 0 to 1, such as 0.25");
    if (word(&t).at != t.end) return bad(r, "something follows the probability");
    const uint32_t n_expert = layer < n_layers ? expert_catalog_layer(c, layer)->n_expert : 0;
    if (layer >= n_layers)
        return base_fail(r->err, SLUICE_ERR_USAGE, REPAIR,
                         "%.300s, line %" PRIu32 ": layer %" PRIu32 "; the model has %" PRIu32 ", counted from 0",
                         r->path, r->line, layer, n_layers);
    if (expert >= n_expert)
        return base_fail(r->err, SLUICE_ERR_USAGE, REPAIR,
                         "%.300s, line %" PRIu32 ": expert %" PRIu32 "; layer %" PRIu32 " has %" PRIu32
                         " experts, counted from 0",
                         r->path, r->line, expert, layer, n_expert);
    const uint32_t key = expert_catalog_key(c, layer, expert);
    if (r->seen[key / 8] >> key % 8 & 1)
        return base_fail(r->err, SLUICE_ERR_USAGE, REPAIR,
                         "%.300s, line %" PRIu32 ": layer %" PRIu32 ", expert %" PRIu32 " is named a second time",
                         r->path, r->line, layer, expert);
    r->seen[key / 8] |= (uint8_t)(1u << key % 8);
    r->out->keys[r->out->n] = key;
    r->out->probabilities[r->out->n++] = probability;
    return SLUICE_OK;
}

static enum sluice_status take_line(struct reader *r, const char *line, size_t bytes)
{
    struct text t = {line, line + bytes};
    r->line++;
    if (bytes && t.end[-1] == '\r') t.end--;
    if (t.end - t.at > EXPERT_HOTLIST_LINE_MAX) return bad(r, "the line is too long");
    for (const char *p = t.at; p < t.end; p++)
        if (((unsigned char)*p < ' ' && *p != '\t') || *p == 0x7f) {
            if (r->line == 1) break; /* it has a sentence of its own */
            return bad(r, "there is a control character");
        }
    if (r->line == 1) {
        while (t.at < t.end && is_space(t.end[-1])) t.end--;
        return take_title(r, t);
    }
    const char *comment = bytes ? memchr(t.at, '#', (size_t)(t.end - t.at)) : NULL;
    if (comment) t.end = comment;
    trim(&t);
    if (t.at == t.end) return SLUICE_OK;
    struct text rest = t;
    return r->has_model && !is(word(&rest), "model") ? take_expert(r, t) : take_model(r, t);
}

/* ---- the file ---- */

/* Fills buf from byte `at`; *n 0 at the end. */
static enum sluice_status fill(struct reader *r, int fd, char *buf, uint64_t at, size_t *n)
{
    ssize_t got;
    do got = r->os->pread(r->os->user, fd, buf, BUFFER_BYTES, at);
    while (got == -EINTR);
    *n = got > 0 ? (size_t)got : 0;
    if (got >= 0) return SLUICE_OK;
    return base_fail(r->err, SLUICE_ERR_IO, NULL, "%.300s: cannot be read at byte %" PRIu64 ": %s", r->path, at,
                     strerror((int)-got));
}

static enum sluice_status read_lines(struct reader *r, int fd)
{
    char buf[BUFFER_BYTES], line[EXPERT_HOTLIST_LINE_MAX + 1];
    const uint64_t bytes_max =
        ((uint64_t)expert_catalog_n_experts(r->catalog) + SPARE_LINES) * (EXPERT_HOTLIST_LINE_MAX + 1);
    size_t n = 0, length = 0;
    enum sluice_status status;
    for (uint64_t at = 0; !(status = fill(r, fd, buf, at, &n)) && n; at += n) {
        if (at + n > bytes_max) return bad(r, "the file is longer than any hotlist of this model");
        for (size_t i = 0; i < n; i++) {
            if (buf[i] == '\n') {
                status = take_line(r, line, length);
                if (status) return status;
                length = 0;
            } else if (length == sizeof line) {
                if (r->line == 0) return take_title(r, (struct text){line, line}); /* some other file */
                r->line++;
                return bad(r, "the line is too long");
            } else {
                line[length++] = buf[i];
            }
        }
    }
    if (!status && (length || r->line == 0)) status = take_line(r, line, length);
    if (!status && !r->has_model) status = bad(r, "the file ends, and no model was named");
    return status;
}

/* Checks that it is a file at all; then its lines, with room for every expert. */
static enum sluice_status read_open(struct reader *r, int fd)
{
    struct os_file_info info;
    const size_t n = (size_t)expert_catalog_n_experts(r->catalog) + 1;
    int rc = r->os->file_info(r->os->user, fd, &info);
    if (rc) return base_fail(r->err, SLUICE_ERR_IO, NULL, "%.300s: cannot be read: %s", r->path, strerror(-rc));
    if (!info.regular)
        return base_fail(r->err, SLUICE_ERR_USAGE, "'sluice profile' writes one",
                         "%.300s: is not a hotlist: it is not an ordinary file", r->path);
    r->out->keys = malloc(n * sizeof *r->out->keys);
    r->out->probabilities = malloc(n * sizeof *r->out->probabilities);
    r->seen = calloc(n / 8 + 1, 1);
    if (!r->out->keys || !r->out->probabilities || !r->seen) return no_memory(r->err);
    return read_lines(r, fd);
}

enum sluice_status expert_hotlist_read(const struct os_calls *os, const char *path,
                                       const struct expert_catalog *catalog, uint64_t fingerprint, bool optional,
                                       struct expert_hotlist *out, struct sluice_error *err)
{
    *out = (struct expert_hotlist){0};
    struct reader r = {.os = os, .path = path, .catalog = catalog, .out = out, .fingerprint = fingerprint, .err = err};
    int fd = os->open_read(os->user, path, false);
    if (fd == -ENOENT && optional) return SLUICE_OK;
    if (fd < 0)
        return base_fail(err, SLUICE_ERR_IO, fd == -ENOENT ? "'sluice profile' writes one" : NULL,
                         "%.300s: cannot be opened: %s", path, strerror(-fd));
    enum sluice_status status = read_open(&r, fd);
    os->close(os->user, fd);
    free(r.seen);
    if (status) expert_hotlist_free(out);
    return status;
}

void expert_hotlist_free(struct expert_hotlist *h)
{
    free(h->keys);
    free(h->probabilities);
    *h = (struct expert_hotlist){0};
}

/* ---- writing ---- */

bool expert_hotlist_write(FILE *f, const struct expert_catalog *catalog, uint64_t fingerprint, const uint32_t *keys,
                          const float *probabilities, uint32_t n)
{
    bool good = fprintf(f, "%s%u\nmodel %016" PRIx64 "\n# layer expert%s, hottest first\n", title,
                        EXPERT_HOTLIST_VERSION, fingerprint, probabilities ? " probability" : "") > 0;
    for (uint32_t i = 0; good && i < n; i++) {
        uint32_t layer, expert, millionths = 0;
        expert_catalog_unkey(catalog, keys[i], &layer, &expert);
        if (probabilities && probabilities[i] > 0) /* not for NaN */
            millionths = probabilities[i] < 1 ? (uint32_t)((double)probabilities[i] * DECIMALS + 0.5) : DECIMALS;
        good = (probabilities ? fprintf(f, "%" PRIu32 " %" PRIu32 " %" PRIu32 ".%06" PRIu32 "\n", layer, expert,
                                        millionths / DECIMALS, millionths % DECIMALS)
                              : fprintf(f, "%" PRIu32 " %" PRIu32 "\n", layer, expert)) > 0;
    }
    return good && fflush(f) == 0;
}
