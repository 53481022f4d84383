/* What a session need not compute: its own tokens, those of other sessions, and prefixes that were kept. The longest
 * beginning wins, and of equal ones the cheapest. */
#include "engine/engine.h"

#include <string.h>

/* Tokens of a session that need not be computed again for ids[0, n). */
static size_t ready(const sluice_session *s, const int32_t *ids, size_t n)
{
    return model_state_known(&s->kv.state, sluice_session_common(s, ids, n));
}

/* The other session that has more of ids[0, n) than *most, or NULL. */
static const sluice_session *other_session(const sluice_session *s, const int32_t *ids, size_t n, size_t *most)
{
    const sluice_engine *e = s->engine;
    const sluice_session *best = NULL;
    for (uint32_t i = 0; i < e->options.sessions; i++) {
        const size_t theirs = e->sessions[i] && e->sessions[i] != s ? ready(e->sessions[i], ids, n) : 0;
        if (theirs <= *most) continue;
        *most = theirs;
        best = e->sessions[i];
    }
    return best;
}

/* The first `n` tokens of another session; `own` of them are the session's already. */
static void take_from(sluice_session *s, const sluice_session *other, size_t own, size_t n)
{
    if (own < n) {
        s->has_logits = false; /* they are those of a token before, or of another */
        model_kv_copy(&s->kv, &other->kv, own, n);
        memcpy(s->ids + own, other->ids + own, (n - own) * sizeof *s->ids);
    }
    model_state_copy(&s->kv.state, &other->kv.state, n);
    if (s->n < n) s->n = n;
}

enum sluice_status sluice_session_reuse(sluice_session *s, const int32_t *ids, size_t n, size_t *n_ready,
                                        struct sluice_error *err)
{
    sluice_engine *e = s->engine;
    *n_ready = 0;
    if (!n) return base_fail(err, SLUICE_ERR_USAGE, NULL, "there are no tokens to look for");
    const size_t most = n - 1 < s->kv.ctx ? n - 1 : s->kv.ctx;
    size_t n_found;
    bool room = true;
    prefix_poll(e);
    for (;;) {
        struct prefix_offer kept;
        const size_t own = sluice_session_common(s, ids, most);
        if (s->keep_to > own) prefix_forget(s); /* what comes behind is written over */
        if (s->answer > own) s->answer = SIZE_MAX;
        n_found = ready(s, ids, most);
        const sluice_session *other = other_session(s, ids, most, &n_found);
        prefix_look(e, ids, most, &kept);
        if (room && kept.n > n_found) {
            if (!prefix_take(s, ids, &kept, own, &room)) continue; /* it is gone now, or is left aside */
            n_found = kept.n;
        } else if (other) {
            take_from(s, other, own, n_found);
        }
        if (!own) s->fresh = true;
        break;
    }
    *n_ready = n_found;
    e->prefix.tokens += n_found;
    return sluice_session_rewind(s, n_found, err);
}

enum sluice_status sluice_session_keep(sluice_session *s, struct sluice_error *err)
{
    (void)err;
    const struct engine_prefix *p = &s->engine->prefix;
    if (!p->on || !s->n) return SLUICE_OK;
    /* The next request must not wait for a copy of rows, which stay where they are. A state does not. */
    s->keep_to = p->store.tree.stateful && prefix_keep(s, s->n, PREFIX_KEEP_BYTES) ? 0 : s->n;
    prefix_poll(s->engine);
    return SLUICE_OK;
}
