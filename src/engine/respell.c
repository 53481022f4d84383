/* What was generated comes back as text in the next request, and the tokenizer may cut that text into other tokens than
 * the model chose. The rows in the KV caches are those of the model's choice: where a known sequence spells the same
 * text with the same special tokens, its tokens are taken in place of the new ones, as far as it goes.
 *
 * The walk goes along a known sequence token by token and along the new one byte by byte. Known are the sessions that
 * are open and the tree of prefixes, in which there may be several ways on. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#define TOKEN_BYTES 1024
#define WAYS_MAX 32u        /* that go on from one place */
#define DEPTH_MAX 64u       /* places in a row with more than one way that fits */
#define WORK_MAX (1u << 22) /* tokens looked at, in all */

/* The new sequence as bytes. A special token is no text: it is equal to itself alone. */
struct target {
    const struct text_tokenizer *tokenizer;
    const int32_t *ids;
    size_t n;
    char *bytes;
    size_t *at;    /* [n + 1] where each token begins */
    bool *special; /* [n] */
};

/* How far a walk has come: bytes[0, byte) are spelled, and with them ids[0, token) and perhaps a part of the next. */
struct progress {
    size_t token, byte;
};

struct place {
    const sluice_session *session; /* NULL: in the tree */
    uint32_t item;
    size_t position;
};

struct way {
    int32_t id;
    struct place to;
};

struct walk {
    const sluice_engine *engine;
    struct target target;
    int32_t *path; /* [most] known tokens of the walk */
    int32_t *best; /* [most] the best so far */
    size_t most, n_best, best_token;
    size_t work;
};

static bool is_special(const struct text_tokenizer *t, int32_t id, const char *bytes, size_t n)
{
    return text_is_control(t, id) || !n || text_find_special(t, bytes, n) == id;
}

static bool target_make(struct target *x, const struct text_tokenizer *t, const int32_t *ids, size_t n)
{
    char piece[TOKEN_BYTES];
    size_t sum = 0;
    *x = (struct target){.tokenizer = t, .ids = ids, .n = n};
    for (size_t i = 0; i < n; i++) sum += text_token_bytes(t, ids[i], false, piece, sizeof piece);
    x->bytes = malloc(sum + 1);
    x->at = malloc((n + 1) * sizeof *x->at);
    x->special = malloc(n + 1);
    if (!x->bytes || !x->at || !x->special) return false;
    x->at[0] = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t bytes = text_token_bytes(t, ids[i], false, piece, sizeof piece);
        x->special[i] = is_special(t, ids[i], piece, bytes);
        if (!x->special[i]) memcpy(x->bytes + x->at[i], piece, bytes);
        x->at[i + 1] = x->at[i] + (x->special[i] ? 0 : bytes);
    }
    return true;
}

static void target_free(struct target *x)
{
    free(x->bytes);
    free(x->at);
    free(x->special);
}

/* Whether a known token is what comes next, and where that leads. */
static bool fits(const struct target *x, int32_t id, const struct progress *from, struct progress *to)
{
    size_t token = from->token;
    if (token == x->n) return false;
    if (from->byte == x->at[token] && id == x->ids[token]) {
        *to = (struct progress){token + 1, x->at[token + 1]};
        return true;
    }
    char piece[TOKEN_BYTES];
    const size_t n = text_token_bytes(x->tokenizer, id, false, piece, sizeof piece), end = from->byte + n;
    if (is_special(x->tokenizer, id, piece, n)) return false;
    while (token < x->n && !x->special[token] && x->at[token + 1] <= end) token++;
    const bool inside = token < x->n && !x->special[token] && end > x->at[token];
    if ((end > x->at[token] && !inside) || memcmp(x->bytes + from->byte, piece, n) != 0) return false;
    *to = (struct progress){token, end};
    return true;
}

/* The ways on from a place. */
static size_t ways_from(const sluice_engine *e, const struct place *p, struct way out[WAYS_MAX])
{
    if (p->session) {
        if (p->position == p->session->n) return 0;
        out[0] = (struct way){p->session->ids[p->position], {p->session, 0, p->position + 1}};
        return 1;
    }
    const struct prefix_tree *t = &e->prefix.store.tree;
    const struct prefix_item *i = prefix_at(t, p->item);
    size_t n = 0;
    if (p->position < (size_t)i->from + i->n)
        out[n++] = (struct way){prefix_tokens(t, p->item)[p->position - i->from], {NULL, p->item, p->position + 1}};
    for (uint32_t c = i->first_child; c != PREFIX_NONE && n < WAYS_MAX; c = prefix_at(t, c)->after) {
        const struct prefix_item *child = prefix_at(t, c);
        if (child->n && !child->foreign && child->from == p->position)
            out[n++] = (struct way){prefix_tokens(t, c)[0], {NULL, c, p->position + 1}};
    }
    return n;
}

static void go(struct walk *w, struct place place, struct progress here, size_t n_path, unsigned depth)
{
    size_t good = n_path, good_token = here.token; /* the last place where both sequences have a border */
    for (bool on = true; on && w->work < WORK_MAX;) {
        struct way ways[WAYS_MAX];
        struct progress next = here, first_next = here;
        struct way first = {0};
        on = false;
        const size_t n = n_path < w->most ? ways_from(w->engine, &place, ways) : 0;
        for (size_t i = 0; i < n; i++) {
            w->work++;
            if (!fits(&w->target, ways[i].id, &here, &next)) continue;
            if (!on) {
                on = true;
                first = ways[i];
                first_next = next;
            } else if (depth < DEPTH_MAX) {
                w->path[n_path] = ways[i].id;
                go(w, ways[i].to, next, n_path + 1, depth + 1);
            }
        }
        if (!on) break;
        w->path[n_path++] = first.id;
        place = first.to;
        here = first_next;
        if (here.byte != w->target.at[here.token]) continue;
        good = n_path;
        good_token = here.token;
    }
    if (good_token <= w->best_token) return;
    w->best_token = good_token;
    w->n_best = good;
    memcpy(w->best, w->path, good * sizeof *w->best);
}

static void walk_all(struct walk *w)
{
    const sluice_engine *e = w->engine;
    for (uint32_t i = 0; i < e->options.sessions; i++)
        if (e->sessions[i]) go(w, (struct place){.session = e->sessions[i]}, (struct progress){0}, 0, 0);
    if (!e->prefix.on) return;
    const uint32_t item = prefix_tree_child(&e->prefix.store.tree, PREFIX_NONE, 0, w->target.ids[0]);
    if (item != PREFIX_NONE) go(w, (struct place){.item = item}, (struct progress){0}, 0, 0);
}

enum sluice_status sluice_respell(const sluice_engine *e, const int32_t *ids, size_t n, int32_t **out, size_t *n_out,
                                  struct sluice_error *err)
{
    *out = NULL;
    *n_out = 0;
    if (!e->model) return base_fail(err, SLUICE_ERR_USAGE, "open the engine with its model", "no sequences are known");
    const size_t most = e->plan.ctx;
    struct walk w = {.engine = e, .most = most, .path = malloc(2 * most * sizeof *w.path)};
    int32_t *result = malloc((n + most) * sizeof *result);
    if (!w.path || !result || !target_make(&w.target, e->tokenizer, ids, n)) {
        free(w.path);
        free(result);
        target_free(&w.target);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for comparing %zu tokens with what is known", n);
    }
    w.best = w.path + most;
    if (n) walk_all(&w);
    memcpy(result, w.best, w.n_best * sizeof *result);
    if (n) memcpy(result + w.n_best, ids + w.best_token, (n - w.best_token) * sizeof *result);
    *out = result;
    *n_out = w.n_best + n - w.best_token;
    target_free(&w.target);
    free(w.path);
    return SLUICE_OK;
}
