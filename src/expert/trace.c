/* Writing, and what both readers share. The file is a sequence of small records behind stdio's buffer: one write of the
 * system for some 64 KiB, nothing else on the path of a token. */
#include "expert/trace.h"

#include "base/assert.h"
#include "expert/catalog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES 65536
#define TOKENS_MAX (1u << 24)
#define ROW_MAX (1u << 20) /* ids of one token */

static const char magic[8] = "sl-trace";

struct trace_writer {
    FILE *file;
    char *path, *part, *buffer;
    int error; /* errno of the first failure */
};

/* ---- writing ---- */

static void put(struct trace_writer *w, const void *data, size_t bytes)
{
    if (w->error || fwrite(data, 1, bytes, w->file) == bytes) return;
    w->error = errno ? errno : EIO;
}

static void put_number(struct trace_writer *w, uint64_t value, unsigned n_bytes)
{
    unsigned char b[8];
    for (unsigned i = 0; i < n_bytes; i++) b[i] = (unsigned char)(value >> 8 * i);
    put(w, b, n_bytes);
}

static char *join(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b) + 1;
    char *s = malloc(n + m);
    if (!s) return NULL;
    memcpy(s, a, n);
    memcpy(s + n, b, m);
    return s;
}

static void free_writer(struct trace_writer *w)
{
    if (w->file) fclose(w->file);
    free(w->buffer);
    free(w->path);
    free(w->part);
    free(w);
}

enum sluice_status trace_create(const char *path, const char *model, const struct trace_layer *layers,
                                uint32_t n_layers, struct trace_writer **out, struct sluice_error *err)
{
    *out = NULL;
    struct trace_writer *w = calloc(1, sizeof *w);
    if (!w) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a trace");
    w->path = join(path, "");
    w->part = join(path, ".part");
    w->buffer = malloc(BUFFER_BYTES);
    if (!w->path || !w->part || !w->buffer) {
        free_writer(w);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a trace");
    }
    w->file = fopen(w->part, "wb");
    if (!w->file) {
        int error = errno;
        free_writer(w);
        return base_fail(err, SLUICE_ERR_IO, "give --trace a path that can be written", "%s.part: %s", path,
                         strerror(error));
    }
    setvbuf(w->file, w->buffer, _IOFBF, BUFFER_BYTES);
    size_t n = strlen(model);
    if (n > 127) n = 127;
    put(w, magic, sizeof magic);
    put_number(w, TRACE_VERSION, 4);
    put_number(w, n, 2);
    put(w, model, n);
    put_number(w, n_layers, 4);
    for (uint32_t i = 0; i < n_layers; i++) {
        put_number(w, layers[i].n_expert, 4);
        put_number(w, layers[i].n_used, 4);
        put_number(w, layers[i].expert_bytes, 8);
    }
    *out = w;
    return SLUICE_OK;
}

void trace_prompt(struct trace_writer *w) { put(w, "P", 1); }
void trace_step_end(struct trace_writer *w) { put(w, "E", 1); }

void trace_step(struct trace_writer *w, uint32_t n_tokens, bool decode)
{
    put(w, "S", 1);
    put_number(w, n_tokens, 4);
    put_number(w, decode, 1);
}

uint16_t trace_half(float weight)
{
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    if (weight != weight) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

void trace_route(struct trace_writer *w, uint32_t layer, const uint32_t *ids, const float *weights, uint32_t n,
                 uint32_t ahead)
{
    put(w, "R", 1);
    put_number(w, layer, 2);
    put_number(w, ahead, 4);
    put_number(w, n, 2);
    for (uint32_t i = 0; i < n; i++) {
        put_number(w, ids[i], 2);
        put_number(w, trace_half(weights ? weights[i] : 1.0f), 2);
    }
}

enum sluice_status trace_close(struct trace_writer *w, struct sluice_error *err)
{
    if (!w) return SLUICE_OK;
    put(w, "Z", 1);
    if (fclose(w->file) && !w->error) w->error = errno;
    w->file = NULL;
    if (!w->error && rename(w->part, w->path)) w->error = errno;
    enum sluice_status status = SLUICE_OK;
    if (w->error) {
        status = base_fail(err, SLUICE_ERR_IO, "the answer is not affected; give --trace a place with more room",
                           "the trace %s was not written: %s", w->path, strerror(w->error));
        remove(w->part);
    }
    free_writer(w);
    return status;
}

/* ---- a trace in memory ---- */

enum sluice_status trace_begin(struct trace *t, const struct trace_layer *layers, uint32_t n_layers)
{
    t->layers = calloc((size_t)n_layers + 1, sizeof *t->layers);
    t->layer_at = calloc((size_t)n_layers + 1, sizeof *t->layer_at);
    if (!t->layers || !t->layer_at) return SLUICE_ERR_MEMORY;
    t->n_layers = n_layers;
    for (uint32_t i = 0; i < n_layers; i++) {
        t->layers[i] = layers[i];
        t->layer_at[i + 1] = t->layer_at[i] + (layers[i].n_expert ? layers[i].n_used : 0);
        if (t->layer_at[i + 1] > ROW_MAX) return SLUICE_ERR_MODEL;
    }
    return t->layer_at[n_layers] ? SLUICE_OK : SLUICE_ERR_MODEL;
}

bool trace_add_token(struct trace *t, unsigned flags)
{
    const size_t row = t->layer_at[t->n_layers];
    if (t->n_tokens == TOKENS_MAX) return false;
    if ((t->n_tokens & (t->n_tokens - 1)) == 0) { /* a power of two, or none: the room doubles */
        const size_t n = t->n_tokens ? 2 * (size_t)t->n_tokens : 1;
        uint8_t *flags_ = realloc(t->flags, n);
        if (flags_) t->flags = flags_;
        uint16_t *ids = realloc(t->ids, n * row * sizeof *ids);
        if (ids) t->ids = ids;
        uint16_t *weights = realloc(t->weights, n * row * sizeof *weights);
        if (weights) t->weights = weights;
        if (!flags_ || !ids || !weights) return false;
    }
    t->flags[t->n_tokens] = (uint8_t)flags;
    memset(t->ids + t->n_tokens * row, 0xff, row * sizeof *t->ids);
    memset(t->weights + t->n_tokens * row, 0, row * sizeof *t->weights);
    t->n_tokens++;
    return true;
}

void trace_free(struct trace *t)
{
    free(t->layers);
    free(t->layer_at);
    free(t->flags);
    free(t->ids);
    free(t->weights);
    memset(t, 0, sizeof *t);
}

uint32_t trace_choice(const struct trace *t, uint32_t token, uint32_t layer, uint32_t *ids, float *weights)
{
    const size_t at = (size_t)token * t->layer_at[t->n_layers] + t->layer_at[layer];
    uint32_t n = 0;
    for (uint32_t k = 0, most = t->layer_at[layer + 1] - t->layer_at[layer]; k < most; k++) {
        if (t->ids[at + k] == TRACE_NONE) break;
        uint32_t bits = (uint32_t)t->weights[at + k] << 16;
        memcpy(&weights[n], &bits, sizeof bits);
        ids[n++] = t->ids[at + k];
    }
    return n;
}

/* ---- reading our format ---- */

struct reader {
    FILE *file;
    const char *path;
    uint64_t at; /* bytes read */
    bool ended;  /* a read came short */
    struct sluice_error *err;
};

static bool get(struct reader *r, void *data, size_t bytes)
{
    size_t n = fread(data, 1, bytes, r->file);
    r->at += n;
    if (n != bytes) {
        memset(data, 0, bytes);
        r->ended = true;
    }
    return n == bytes;
}

static uint64_t get_number(struct reader *r, unsigned n_bytes)
{
    unsigned char b[8];
    uint64_t value = 0;
    if (!get(r, b, n_bytes)) return 0;
    for (unsigned i = 0; i < n_bytes; i++) value |= (uint64_t)b[i] << 8 * i;
    return value;
}

static enum sluice_status damaged(const struct reader *r, const char *what)
{
    return base_fail(r->err, SLUICE_ERR_MODEL, "record it again", "%s: %s, near byte %" PRIu64, r->path,
                     r->ended ? "the trace is cut short" : what, r->at);
}

static enum sluice_status read_header(struct reader *r, struct trace *t)
{
    uint32_t version = (uint32_t)get_number(r, 4);
    if (version != TRACE_VERSION && !r->ended)
        return base_fail(r->err, SLUICE_ERR_MODEL, "use the version of sluice that recorded it",
                         "%s is a trace of version %" PRIu32 "; this program reads version %u", r->path, version,
                         TRACE_VERSION);
    size_t n = (size_t)get_number(r, 2);
    if (n >= sizeof t->model) return damaged(r, "the model's name is too long");
    get(r, t->model, n);
    uint32_t n_layers = (uint32_t)get_number(r, 4);
    if (r->ended || n_layers == 0 || n_layers > EXPERT_LAYERS_MAX) return damaged(r, "the number of layers is wrong");
    struct trace_layer *layers = calloc(n_layers, sizeof *layers);
    if (!layers) return base_fail(r->err, SLUICE_ERR_MEMORY, NULL, "no memory for a trace");
    bool good = true;
    for (uint32_t i = 0; i < n_layers; i++) {
        layers[i].n_expert = (uint32_t)get_number(r, 4);
        layers[i].n_used = (uint32_t)get_number(r, 4);
        layers[i].expert_bytes = get_number(r, 8);
        good = good && layers[i].n_expert <= EXPERT_COUNT_MAX && layers[i].n_used <= layers[i].n_expert;
    }
    enum sluice_status status = good && !r->ended ? trace_begin(t, layers, n_layers) : SLUICE_ERR_MODEL;
    free(layers);
    if (status == SLUICE_ERR_MEMORY) return base_fail(r->err, status, NULL, "no memory for a trace");
    return status ? damaged(r, "the table of layers is wrong") : SLUICE_OK;
}

/* One R record into the rows of the step that begins at token `first`. */
static enum sluice_status read_route(struct reader *r, struct trace *t, uint32_t first)
{
    uint32_t layer = (uint32_t)get_number(r, 2), ahead = (uint32_t)get_number(r, 4), n = (uint32_t)get_number(r, 2);
    if (r->ended || layer >= t->n_layers || ahead >= t->n_tokens - first ||
        n > t->layer_at[layer + 1] - t->layer_at[layer])
        return damaged(r, "a choice does not fit the model or the step");
    uint16_t *ids = t->ids + (size_t)(first + ahead) * t->layer_at[t->n_layers] + t->layer_at[layer];
    uint16_t *weights = t->weights + (ids - t->ids);
    for (uint32_t k = 0; k < n; k++) {
        ids[k] = (uint16_t)get_number(r, 2);
        weights[k] = (uint16_t)get_number(r, 2);
        if (r->ended || ids[k] >= t->layers[layer].n_expert) return damaged(r, "an expert is not one of its layer");
        for (uint32_t i = 0; i < k; i++)
            if (ids[i] == ids[k]) return damaged(r, "a choice has the same expert twice");
    }
    return SLUICE_OK;
}

static enum sluice_status read_records(struct reader *r, struct trace *t)
{
    uint32_t first = 0; /* of the running step */
    bool running = false, prompt = true, complete = false;
    for (int tag; (tag = fgetc(r->file)) != EOF;) {
        r->at++;
        if (complete) return damaged(r, "something follows the end");
        if (tag == 'P' || tag == 'S' || tag == 'Z') {
            if (running) t->n_tokens = first; /* it was given up */
            running = false;
        }
        if (tag == 'P') {
            prompt = true;
        } else if (tag == 'Z') {
            complete = true;
        } else if (tag == 'S') {
            uint32_t n = (uint32_t)get_number(r, 4), flags = get_number(r, 1) ? TRACE_DECODE : 0;
            if (r->ended || n == 0 || n > 1u << 20) return damaged(r, "the length of a step is wrong");
            first = t->n_tokens;
            for (uint32_t i = 0; i < n; i++)
                if (!trace_add_token(t, flags | (i == 0 ? TRACE_STEP | (prompt ? TRACE_PROMPT : 0) : 0)))
                    return base_fail(r->err, SLUICE_ERR_MEMORY, NULL, "%s: too many tokens for this machine's memory",
                                     r->path);
            running = true;
        } else if (tag == 'R' && running) {
            enum sluice_status status = read_route(r, t, first);
            if (status) return status;
        } else if (tag == 'E' && running) {
            running = prompt = false;
        } else {
            return damaged(r, "there is a record of unknown kind");
        }
    }
    if (ferror(r->file)) return base_fail(r->err, SLUICE_ERR_IO, NULL, "%s: cannot be read", r->path);
    r->ended = true;
    return complete ? SLUICE_OK : damaged(r, NULL);
}

enum sluice_status trace_read(const char *path, struct trace *out, struct sluice_error *err)
{
    char head[sizeof magic];
    struct reader r = {.path = path, .err = err};
    memset(out, 0, sizeof *out);
    r.file = fopen(path, "rb");
    if (!r.file) return base_fail(err, SLUICE_ERR_IO, NULL, "%s: %s", path, strerror(errno));
    bool full = get(&r, head, sizeof head);
    enum sluice_status status;
    if (full && memcmp(head, magic, sizeof magic) == 0) {
        status = read_header(&r, out);
        if (!status) status = read_records(&r, out);
    } else if (full && (memcmp(head, "# route_", 8) == 0 || memcmp(head, "turn,pha", 8) == 0)) {
        status = trace_read_csv(path, out, err);
    } else {
        status = base_fail(err, SLUICE_ERR_MODEL, "sluice run --trace FILE records one", "%s is not a trace of routing",
                           path);
    }
    fclose(r.file);
    const size_t n = status ? 0 : (size_t)out->n_tokens * out->layer_at[out->n_layers];
    for (size_t i = 0; i < n; i++) out->n_selections += out->ids[i] != TRACE_NONE;
    if (!status && !out->n_selections)
        status = base_fail(err, SLUICE_ERR_MODEL, "record it again", "%s: the trace has no complete step", path);
    if (status) trace_free(out);
    return status;
}
