/* The CSV of recorded routings: comment lines with the model's shape, then one row a selected expert. Rows of a prompt
 * may come layer by layer, so they are sorted by token first. */
#include "expert/catalog.h"
#include "expert/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 1024
#define ROWS_MAX (1u << 28)

struct row {
    uint32_t turn, phase, step, layer, slot, expert;
    float weight;
};

struct csv {
    struct row *rows;
    size_t n, room;
    struct trace_layer layers[EXPERT_LAYERS_MAX];
    uint32_t n_layers, n_expert, n_used; /* by the rows or the head, whichever is more */
    char model[128];
};

static int by_token(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->turn != y->turn) return x->turn < y->turn ? -1 : 1;
    if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->layer != y->layer) return x->layer < y->layer ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

static void note(const char *line, const char *key, uint32_t most, uint32_t *out)
{
    const char *at = strstr(line, key);
    unsigned long value = at ? strtoul(at + strlen(key), NULL, 10) : 0;
    if (value > *out && value <= most) *out = (uint32_t)value;
}

/* model=PATH up to the next blank; folders are left out. */
static void note_model(const char *line, char *out, size_t bytes)
{
    const char *at = strstr(line, "model=");
    if (!at) return;
    at += strlen("model=");
    const char *end = at + strcspn(at, " \t\r\n");
    for (const char *c = at; c < end; c++)
        if (*c == '/') at = c + 1;
    snprintf(out, bytes, "%.*s", (int)(end - at), at);
}

/* What a row says of an expert's bytes is what was read for it: 0 if it was there. So the most of a layer counts. */
static void note_bytes(struct csv *c, uint32_t layer, uint64_t bytes)
{
    if (layer < EXPERT_LAYERS_MAX && bytes > c->layers[layer].expert_bytes) c->layers[layer].expert_bytes = bytes;
}

static void note_layer(struct csv *c, const char *line)
{
    uint32_t layer;
    uint64_t bytes;
    if (sscanf(line, "# layer=%" SCNu32 " expert_bytes=%" SCNu64, &layer, &bytes) == 2) note_bytes(c, layer, bytes);
}

static bool add_row(struct csv *c, const struct row *row, uint64_t expert_bytes)
{
    if (c->n == c->room) {
        size_t room = c->room ? 2 * c->room : 4096;
        struct row *rows = room <= ROWS_MAX ? realloc(c->rows, room * sizeof *rows) : NULL;
        if (!rows) return false;
        c->rows = rows;
        c->room = room;
    }
    c->rows[c->n++] = *row;
    if (row->layer >= c->n_layers) c->n_layers = row->layer + 1;
    if (row->expert >= c->n_expert) c->n_expert = row->expert + 1;
    if (row->slot >= c->n_used) c->n_used = row->slot + 1;
    note_bytes(c, row->layer, expert_bytes);
    return true;
}

static enum sluice_status read_rows(FILE *f, const char *path, struct csv *c, struct sluice_error *err)
{
    char line[LINE_BYTES];
    for (uint64_t number = 1; fgets(line, sizeof line, f); number++) {
        struct row r;
        uint64_t bytes = 0;
        if (line[0] == '#') {
            note(line, "n_layer=", EXPERT_LAYERS_MAX, &c->n_layers);
            note(line, "n_expert=", EXPERT_COUNT_MAX, &c->n_expert);
            note(line, "n_expert_used=", EXPERT_COUNT_MAX, &c->n_used);
            note_model(line, c->model, sizeof c->model);
            note_layer(c, line);
            continue;
        }
        if (memcmp(line, "turn,", 5) == 0) continue;
        int n = sscanf(line, "%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%" SCNu32 ",%f,%*u,%" SCNu64,
                       &r.turn, &r.phase, &r.step, &r.layer, &r.slot, &r.expert, &r.weight, &bytes);
        if (n < 7 || r.phase > 1 || r.layer >= EXPERT_LAYERS_MAX || r.expert >= EXPERT_COUNT_MAX ||
            r.slot >= EXPERT_COUNT_MAX)
            return base_fail(err, SLUICE_ERR_MODEL, NULL,
                             "%s, line %" PRIu64 ": not a row turn,phase,step,layer,slot,expert,weight,...", path,
                             number);
        if (!add_row(c, &r, bytes))
            return base_fail(err, SLUICE_ERR_MEMORY, NULL, "%s: too many rows for this machine's memory", path);
    }
    if (ferror(f)) return base_fail(err, SLUICE_ERR_IO, NULL, "%s: %s", path, strerror(errno));
    return SLUICE_OK;
}

/* One row into the trace; the row before it, or NULL. */
static enum sluice_status place(struct trace *t, const struct row *r, const struct row *before, const char *path,
                                struct sluice_error *err)
{
    bool turn = !before || before->turn != r->turn;
    if (turn || before->phase != r->phase || before->step != r->step)
        if (!trace_add_token(t, TRACE_STEP | (r->phase ? TRACE_DECODE : 0) | (turn ? TRACE_PROMPT : 0)))
            return base_fail(err, SLUICE_ERR_MEMORY, NULL, "%s: too many tokens for this machine's memory", path);
    size_t at = (size_t)(t->n_tokens - 1) * t->layer_at[t->n_layers] + t->layer_at[r->layer];
    for (uint32_t k = 0; k < t->layers[r->layer].n_used; k++, at++) {
        if (t->ids[at] == r->expert) break;
        if (t->ids[at] != TRACE_NONE) continue;
        t->ids[at] = (uint16_t)r->expert;
        t->weights[at] = trace_half(r->weight);
        return SLUICE_OK;
    }
    return base_fail(err, SLUICE_ERR_MODEL, NULL,
                     "%s: turn %" PRIu32 ", step %" PRIu32 ", layer %" PRIu32 " has expert %" PRIu32
                     " twice, or more experts than the model uses",
                     path, r->turn, r->step, r->layer, r->expert);
}

enum sluice_status trace_read_csv(const char *path, struct trace *out, struct sluice_error *err)
{
    enum sluice_status status = SLUICE_OK;
    struct csv *c = calloc(1, sizeof *c);
    FILE *f = fopen(path, "r");
    if (!c || !f) status = base_fail(err, SLUICE_ERR_IO, NULL, "%s: %s", path, strerror(errno));
    if (!status) status = read_rows(f, path, c, err);
    if (!status) {
        for (uint32_t i = 0; i < c->n_layers; i++) {
            c->layers[i].n_expert = c->n_expert;
            c->layers[i].n_used = c->n_used;
        }
        if (c->n) qsort(c->rows, c->n, sizeof *c->rows, by_token);
        status = c->n ? trace_begin(out, c->layers, c->n_layers) : SLUICE_ERR_MODEL;
        if (status) status = base_fail(err, status, NULL, "%s: the trace is empty or too large", path);
    }
    if (!status) snprintf(out->model, sizeof out->model, "%s", c->model);
    for (size_t i = 0; !status && i < c->n; i++)
        status = place(out, &c->rows[i], i ? &c->rows[i - 1] : NULL, path, err);
    if (f) fclose(f);
    if (c) free(c->rows);
    free(c);
    return status;
}
