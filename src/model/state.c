#include "model/state.h"

#include "base/assert.h"

#include <string.h>

/* Of one checkpoint. */
static uint64_t slot_bytes(const struct model_hparams *hp, uint64_t window_bytes)
{
    return hp->state_floats * sizeof(float) + (window_bytes + 3) / 4 * 4;
}

static uint32_t checkpoints(const struct model_hparams *hp, uint64_t bytes, uint32_t ctx)
{
    uint64_t n = MODEL_CHECKPOINT_BYTES / bytes;
    if (!hp->state_floats && n > ctx / MODEL_CHECKPOINT_SPAN) n = ctx / MODEL_CHECKPOINT_SPAN;
    if (n < MODEL_CHECKPOINTS_MIN) n = MODEL_CHECKPOINTS_MIN;
    return n > MODEL_CHECKPOINTS_MAX ? MODEL_CHECKPOINTS_MAX : (uint32_t)n;
}

uint64_t model_state_bytes(const struct model_hparams *hp, uint64_t window_bytes, uint32_t ctx)
{
    const uint64_t bytes = slot_bytes(hp, window_bytes);
    if (!bytes) return 0;
    return hp->state_floats * sizeof(float) + checkpoints(hp, bytes, ctx) * bytes;
}

/* Nothing was seen yet. */
static void clear(struct model_state *s)
{
    s->at = 0;
    s->window.low = 0;
    s->broken = false;
    memset(s->live, 0, s->floats * sizeof *s->live);
}

void model_state_place(const struct model_hparams *hp, const struct model_window *window, uint32_t ctx, void *memory,
                       struct model_state *out)
{
    *out = (struct model_state){.floats = hp->state_floats, .window = *window};
    out->bytes = slot_bytes(hp, window->rows ? window->back * window->token_bytes : 0);
    if (!out->bytes) return;
    uint64_t at = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        out->layer_at[i] = at;
        at += hp->layer[i].state_floats;
    }
    out->n_max = checkpoints(hp, out->bytes, ctx);
    out->live = memory;
    out->saved = (uint8_t *)(out->live + out->floats);
    clear(out);
}

/* ---- pieces ---- */

struct cursor {
    uint8_t *at;
};

static void copy_out(void *user, void *piece, size_t bytes)
{
    struct cursor *c = user;
    memcpy(c->at, piece, bytes);
    c->at += bytes;
}

static void copy_in(void *user, void *piece, size_t bytes)
{
    struct cursor *c = user;
    memcpy(piece, c->at, bytes);
    c->at += bytes;
}

/* Of the state where it lives, with the window before `at`. */
static void each_live(const struct model_state *s, size_t at, model_piece_fn *visit, void *user)
{
    if (s->floats) visit(user, s->live, s->floats * sizeof *s->live);
    model_window_each(&s->window, at, visit, user);
}

static uint8_t *slot_of(const struct model_state *s, uint32_t slot) { return s->saved + slot * s->bytes; }

static void load(struct model_state *s, uint32_t slot, size_t at)
{
    each_live(s, at, copy_in, &(struct cursor){slot_of(s, slot)});
    s->window.low = model_window_needs(&s->window, at);
    s->at = at;
    s->broken = false;
}

uint64_t model_state_bytes_at(const struct model_state *s, size_t at)
{
    return s->floats * sizeof *s->live + (s->window.rows ? model_window_bytes(&s->window, at) : 0);
}

/* It can be taken from where it lives. */
static bool stands(const struct model_state *s, size_t n)
{
    if (s->floats && (s->broken || s->at != n)) return false;
    return !s->window.rows || (n <= s->at && model_window_needs(&s->window, n) >= s->window.low);
}

void model_state_each(const struct model_state *s, size_t at, model_piece_fn *visit, void *user)
{
    if (stands(s, at)) {
        each_live(s, at, visit, user);
        return;
    }
    uint32_t i = 0;
    while (i < s->n_saved && s->checkpoint[i].at != at) i++;
    BASE_ASSERT(i < s->n_saved, "M7 a state is copied from where it is known");
    visit(user, slot_of(s, s->checkpoint[i].slot), model_state_bytes_at(s, at));
}

/* ---- checkpoints ---- */

/* A slot for a new checkpoint: a free one, or that of the checkpoint whose absence leaves the smallest gap. */
static uint32_t take_slot(struct model_state *s)
{
    if (s->n_saved < s->n_max) {
        bool used[MODEL_CHECKPOINTS_MAX] = {false};
        uint32_t slot = 0;
        for (uint32_t i = 0; i < s->n_saved; i++) used[s->checkpoint[i].slot] = true;
        while (used[slot]) slot++;
        return slot;
    }
    uint32_t worst = 0;
    size_t smallest = SIZE_MAX;
    for (uint32_t i = 0; i < s->n_saved; i++) {
        const size_t before = i ? s->checkpoint[i - 1].at : 0,
                     after = i + 1 < s->n_saved ? s->checkpoint[i + 1].at : s->at;
        if (after - before >= smallest) continue;
        smallest = after - before;
        worst = i;
    }
    const uint32_t slot = s->checkpoint[worst].slot;
    s->n_saved--;
    memmove(&s->checkpoint[worst], &s->checkpoint[worst + 1], (s->n_saved - worst) * sizeof *s->checkpoint);
    return slot;
}

static void add(struct model_state *s, uint32_t slot)
{
    s->checkpoint[s->n_saved].at = s->at;
    s->checkpoint[s->n_saved++].slot = slot;
}

static void drop_behind(struct model_state *s, size_t n)
{
    while (s->n_saved && s->checkpoint[s->n_saved - 1].at > n) s->n_saved--;
}

static size_t last(const struct model_state *s) { return s->n_saved ? s->checkpoint[s->n_saved - 1].at : 0; }

/* ---- a sequence's way ---- */

size_t model_state_rewind(struct model_state *s, size_t n)
{
    if (!s->bytes) return n;
    drop_behind(s, n);
    if (stands(s, n)) {
        s->at = n;
        s->broken = false;
    } else if (s->at < n && s->at > last(s) && stands(s, s->at)) {
        return s->at; /* was on its way */
    } else if (!s->n_saved) {
        clear(s);
    } else {
        load(s, s->checkpoint[s->n_saved - 1].slot, last(s));
    }
    return s->at;
}

void model_state_begin(struct model_state *s, size_t n)
{
    s->broken = true;
    model_window_advance(&s->window, s->at, n);
}

void model_state_end(struct model_state *s, size_t n, bool keep)
{
    if (!s->bytes) return;
    BASE_ASSERT(s->broken, "M7 a step ends after it has begun");
    s->broken = false;
    s->at += n;
    size_t apart = MODEL_CHECKPOINT_TOKENS; /* within the ring none is needed */
    if (!s->floats && s->window.rows - s->window.back > apart) apart = s->window.rows - s->window.back;
    if (!keep && s->at - last(s) < apart) return;
    const uint32_t slot = take_slot(s);
    each_live(s, s->at, copy_out, &(struct cursor){slot_of(s, slot)});
    add(s, slot);
}

size_t model_state_saved(const struct model_state *s, size_t n)
{
    size_t at = 0;
    for (uint32_t i = 0; i < s->n_saved && s->checkpoint[i].at <= n; i++) at = s->checkpoint[i].at;
    return at;
}

size_t model_state_known(const struct model_state *s, size_t n)
{
    if (!s->bytes || stands(s, n)) return n;
    const size_t saved = model_state_saved(s, n);
    return s->at < n && s->at > saved && stands(s, s->at) ? s->at : saved;
}

void model_state_cut(struct model_state *s, size_t n)
{
    if (!s->bytes) return;
    drop_behind(s, n);
    if (s->at <= n) return;
    if (s->floats)
        s->broken = true;
    else
        s->at = n; /* what of the ring stands before it remains */
}

void *model_state_take(struct model_state *s)
{
    s->taken_slot = take_slot(s);
    return slot_of(s, s->taken_slot);
}

void model_state_taken(struct model_state *s, size_t at)
{
    while (s->n_saved && last(s) >= at) s->n_saved--;
    load(s, s->taken_slot, at);
    add(s, s->taken_slot);
}

void model_state_copy(struct model_state *to, const struct model_state *from, size_t at)
{
    if (!to->bytes) return;
    to->n_saved = 0;
    if (!at) {
        clear(to);
        return;
    }
    model_state_each(from, at, copy_out, &(struct cursor){model_state_take(to)});
    model_state_taken(to, at);
}
