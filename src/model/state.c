#include "model/state.h"

#include "base/assert.h"

#include <string.h>

static uint32_t checkpoints(uint64_t floats)
{
    uint64_t n = MODEL_CHECKPOINT_BYTES / (floats * sizeof(float));
    if (n < MODEL_CHECKPOINTS_MIN) n = MODEL_CHECKPOINTS_MIN;
    return n > MODEL_CHECKPOINTS_MAX ? MODEL_CHECKPOINTS_MAX : (uint32_t)n;
}

uint64_t model_state_bytes(const struct model_hparams *hp)
{
    if (!hp->state_floats) return 0;
    return (1 + (uint64_t)checkpoints(hp->state_floats)) * hp->state_floats * sizeof(float);
}

void model_state_place(const struct model_hparams *hp, void *memory, struct model_state *out)
{
    *out = (struct model_state){.floats = hp->state_floats};
    if (!out->floats) return;
    uint64_t at = 0;
    for (uint32_t i = 0; i < hp->n_layer; i++) {
        out->layer_at[i] = at;
        at += hp->layer[i].state_floats;
    }
    out->n_max = checkpoints(out->floats);
    out->live = memory;
    out->saved = out->live + out->floats;
    memset(out->live, 0, out->floats * sizeof *out->live);
}

size_t model_state_rewind(struct model_state *s, size_t n)
{
    if (!s->floats) return n;
    while (s->n_saved && s->checkpoint[s->n_saved - 1].at > n) s->n_saved--;
    if (!s->broken && s->at == n) return n;
    if (s->n_saved) {
        s->at = s->checkpoint[s->n_saved - 1].at;
        memcpy(s->live, s->saved + s->checkpoint[s->n_saved - 1].slot * s->floats, s->floats * sizeof *s->live);
    } else {
        s->at = 0;
        memset(s->live, 0, s->floats * sizeof *s->live);
    }
    s->broken = false;
    return s->at;
}

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

static void save(struct model_state *s)
{
    const uint32_t slot = take_slot(s);
    memcpy(s->saved + slot * s->floats, s->live, s->floats * sizeof *s->live);
    s->checkpoint[s->n_saved].at = s->at;
    s->checkpoint[s->n_saved++].slot = slot;
}

void model_state_begin(struct model_state *s) { s->broken = true; }

void model_state_end(struct model_state *s, size_t n, bool keep)
{
    if (!s->floats) return;
    BASE_ASSERT(s->broken, "M7 a step ends after it has begun");
    s->broken = false;
    s->at += n;
    const size_t last = s->n_saved ? s->checkpoint[s->n_saved - 1].at : 0;
    if (!keep && s->at - last < MODEL_CHECKPOINT_TOKENS) return;
    save(s);
}

size_t model_state_known(const struct model_state *s, size_t n)
{
    if (!s->floats || (!s->broken && s->at == n)) return n;
    size_t at = !s->broken && s->at < n ? s->at : 0;
    for (uint32_t i = 0; i < s->n_saved; i++)
        if (s->checkpoint[i].at <= n && s->checkpoint[i].at > at) at = s->checkpoint[i].at;
    return at;
}

const float *model_state_at(const struct model_state *s, size_t at)
{
    if (!s->broken && s->at == at) return s->live;
    for (uint32_t i = 0; i < s->n_saved; i++)
        if (s->checkpoint[i].at == at) return s->saved + s->checkpoint[i].slot * s->floats;
    return NULL;
}

void model_state_cut(struct model_state *s, size_t n)
{
    if (!s->floats) return;
    while (s->n_saved && s->checkpoint[s->n_saved - 1].at > n) s->n_saved--;
    if (s->at > n) s->broken = true;
}

float *model_state_take(struct model_state *s)
{
    s->broken = true;
    return s->live;
}

void model_state_taken(struct model_state *s, size_t at)
{
    s->broken = false;
    s->at = at;
    while (s->n_saved && s->checkpoint[s->n_saved - 1].at >= at) s->n_saved--;
    save(s);
}

void model_state_copy(struct model_state *to, const struct model_state *from, size_t at)
{
    if (!to->floats) return;
    const float *state = model_state_at(from, at);
    BASE_ASSERT(state || !at, "M7 a state is copied from where it is known");
    if (state)
        memcpy(to->live, state, to->floats * sizeof *to->live);
    else
        memset(to->live, 0, to->floats * sizeof *to->live);
    to->n_saved = 0;
    to->broken = false;
    to->at = at;
    if (at) save(to);
}
