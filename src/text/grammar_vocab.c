#include "text/grammar_vocab.h"

#include "text/vocab.h"

#include <stdlib.h>
#include <string.h>

/* Automata, their building, and what an answer holds. */
#define ANSWER_BYTES ((uint64_t)6 << 20)
#define BUILD_BYTES ((uint64_t)16 << 20)

static bool allocate(struct text_grammar_vocab *v, size_t n_tokens, size_t bytes)
{
    v->ids = malloc((n_tokens + 1) * sizeof *v->ids);
    v->offsets = malloc((n_tokens + 1) * sizeof *v->offsets);
    v->common = malloc((n_tokens + 1) * sizeof *v->common);
    v->ends = malloc((n_tokens + 1) * sizeof *v->ends);
    v->controls = malloc((n_tokens + 1) * sizeof *v->controls);
    v->bytes = malloc(bytes + 1);
    v->exits = malloc(GRAMMAR_EXITS_MAX * sizeof *v->exits);
    const size_t depths = v->longest + 2u;
    v->begins = malloc(depths * sizeof *v->begins);
    v->ends_at = malloc(depths * sizeof *v->ends_at);
    v->nodes = malloc(depths * sizeof *v->nodes);
    return v->ids && v->offsets && v->common && v->ends && v->controls && v->bytes && v->exits && v->begins &&
           v->ends_at && v->nodes;
}

/* Sorting: tokens with their texts side by side. */
struct entry {
    uint32_t id, offset, bytes;
};

static int order(const void *x, const void *y, void *texts)
{
    const struct entry *a = x, *b = y;
    const uint32_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    const int c = memcmp((const char *)texts + a->offset, (const char *)texts + b->offset, n);
    if (c) return c;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static void lay_out(struct text_grammar_vocab *v, const struct entry *entries, const char *texts)
{
    size_t at = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        const struct entry *e = &entries[i], *before = i ? e - 1 : e;
        uint32_t common = 0;
        while (i && common < e->bytes && common < before->bytes &&
               texts[e->offset + common] == texts[before->offset + common])
            common++;
        v->ids[i] = e->id;
        v->common[i] = (uint16_t)common;
        v->offsets[i] = (uint32_t)at;
        memcpy(v->bytes + at, texts + e->offset, e->bytes);
        at += e->bytes;
    }
    v->offsets[v->n] = (uint32_t)at;
}

static enum sluice_status fill(struct text_grammar_vocab *v, struct entry *entries, char *texts, size_t n_tokens)
{
    size_t at = 0;
    char piece[TEXT_TOKEN_BYTES_MAX];
    for (size_t id = 0; id < n_tokens; id++) {
        if (text_ends_generation(v->tokenizer, (int32_t)id)) {
            v->ends[v->n_ends++] = (int32_t)id;
            continue;
        }
        if (text_is_control(v->tokenizer, (int32_t)id)) {
            v->controls[v->n_controls++] = (int32_t)id;
            continue;
        }
        const size_t n = text_token_bytes(v->tokenizer, (int32_t)id, false, piece, sizeof piece);
        if (!n) continue;
        memcpy(texts + at, piece, n);
        entries[v->n++] = (struct entry){.id = (uint32_t)id, .offset = (uint32_t)at, .bytes = (uint32_t)n};
        at += n;
    }
    qsort_r(entries, v->n, sizeof *entries, order, texts);
    lay_out(v, entries, texts);
    return SLUICE_OK;
}

static size_t count_bytes(const struct text_tokenizer *t, size_t n_tokens, uint32_t *longest)
{
    char piece[TEXT_TOKEN_BYTES_MAX];
    size_t bytes = 0;
    *longest = 0;
    for (size_t id = 0; id < n_tokens; id++) {
        const size_t n = text_token_bytes(t, (int32_t)id, false, piece, sizeof piece);
        bytes += n;
        if (n > *longest) *longest = (uint32_t)n;
    }
    return bytes;
}

enum sluice_status text_grammar_vocab_create(const struct text_tokenizer *t, size_t n_vocab,
                                             struct text_grammar_vocab **out, struct sluice_error *err)
{
    const size_t n_tokens = text_n_vocab(t) < n_vocab ? text_n_vocab(t) : n_vocab;
    *out = NULL;
    if (!n_tokens)
        return base_fail(err, SLUICE_ERR_MODEL, "answers can be constrained where there is a tokenizer",
                         "this model has no vocabulary");
    struct text_grammar_vocab *v = calloc(1, sizeof *v);
    if (!v) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a vocabulary in order");
    v->tokenizer = t;
    v->n_vocab = n_vocab;
    v->n_words = (n_vocab + 63) / 64;
    const size_t bytes = count_bytes(t, n_tokens, &v->longest);
    struct entry *entries = malloc(n_tokens * sizeof *entries);
    char *texts = malloc(bytes + 1);
    enum sluice_status st = SLUICE_ERR_MEMORY;
    if (entries && texts && bytes < UINT32_MAX && allocate(v, n_tokens, bytes)) st = fill(v, entries, texts, n_tokens);
    free(entries);
    free(texts);
    if (st) {
        text_grammar_vocab_destroy(v);
        return base_fail(err, st, NULL, "no memory for a vocabulary of %zu tokens in order", n_tokens);
    }
    *out = v;
    return SLUICE_OK;
}

static void drop(struct grammar_mask *m)
{
    free(m->bits);
    free(m->exits);
    *m = (struct grammar_mask){0};
}

void text_grammar_vocab_destroy(struct text_grammar_vocab *v)
{
    if (!v) return;
    for (uint32_t i = 0; i < GRAMMAR_MASKS_MAX; i++) drop(&v->masks[i]);
    run_free(&v->run);
    free(v->ids);
    free(v->offsets);
    free(v->common);
    free(v->ends);
    free(v->controls);
    free(v->bytes);
    free(v->exits);
    free(v->begins);
    free(v->ends_at);
    free(v->nodes);
    free(v);
}

uint64_t text_grammar_memory_bytes(const struct text_tokenizer *t, size_t n_vocab, uint32_t n_answers)
{
    uint32_t longest;
    const size_t n_tokens = text_n_vocab(t) < n_vocab ? text_n_vocab(t) : n_vocab;
    const uint64_t bytes = count_bytes(t, n_tokens, &longest), mask = n_vocab / 8 + 64;
    return n_tokens * (4 + 4 + 2 + 4 + 4 + sizeof(struct entry)) + 2 * bytes +
           GRAMMAR_MASKS_MAX * (mask + GRAMMAR_EXITS_MAX * sizeof(struct grammar_exit) / 8) +
           GRAMMAR_EXITS_MAX * sizeof(struct grammar_exit) + n_answers * (ANSWER_BYTES + mask) + BUILD_BYTES;
}

/* ---- walks ---- */

static void leave(struct text_grammar_vocab *v, uint32_t token, uint32_t depth)
{
    if (v->n_exits == GRAMMAR_EXITS_MAX)
        v->too_many_exits = true;
    else
        v->exits[v->n_exits++] = (struct grammar_exit){.token = token, .depth = depth};
}

/* Reads the token's bytes from `depth` on, as far as it goes; returns how far. */
static uint32_t read_token(struct text_grammar_vocab *v, struct run *run, uint32_t token, uint32_t depth)
{
    const char *bytes = v->bytes + v->offsets[token];
    const uint32_t n = v->offsets[token + 1] - v->offsets[token];
    while (depth < n) {
        run_step(run, v->begins[depth], v->ends_at[depth], (uint8_t)bytes[depth]);
        if (run->popped) leave(v, token, depth + 1);
        const bool empty = run->n_configs == v->ends_at[depth];
        if (run->no_memory || (empty && !(run->done && depth + 1 == n))) break;
        depth++;
        v->begins[depth] = v->ends_at[depth - 1];
        v->ends_at[depth] = run->n_configs;
        v->nodes[depth] = run->n_nodes;
    }
    return depth;
}

void grammar_walk(struct text_grammar_vocab *v, struct run *run, uint32_t begin, uint32_t first, uint32_t depth,
                  uint64_t *bits)
{
    const uint32_t n_configs = run->n_configs, n_nodes = run->n_nodes;
    uint32_t reached = depth; /* bytes of the token before that could be read */
    v->begins[depth] = begin;
    v->ends_at[depth] = n_configs;
    v->nodes[depth] = n_nodes;
    for (uint32_t i = first; i < v->n && (i == first || v->common[i] >= depth) && !run->no_memory; i++) {
        const uint32_t common = i == first ? depth : v->common[i];
        if (common > reached) continue; /* it goes wrong where the one before did */
        run->n_configs = v->ends_at[common];
        run->n_nodes = v->nodes[common];
        reached = read_token(v, run, i, common);
        if (reached == v->offsets[i + 1] - v->offsets[i]) bits[v->ids[i] / 64] |= UINT64_C(1) << v->ids[i] % 64;
    }
    run->n_configs = n_configs;
    run->n_nodes = n_nodes;
}

/* ---- masks ---- */

static uint32_t clamp(uint32_t n, uint32_t most) { return n < most ? n : most; }

static bool make_mask(struct text_grammar_vocab *v, const struct automaton *a, const struct run_config *c,
                      struct grammar_mask *m)
{
    struct run *r = &v->run;
    m->bits = calloc(v->n_words, sizeof *m->bits);
    r->a = a;
    r->n_configs = r->n_nodes = r->first_node = 0;
    r->base_node = RUN_NO_NODE;
    r->no_memory = !m->bits;
    const uint32_t base = run_push(r, (struct run_node){.below = RUN_NO_NODE});
    if (r->no_memory) return false;
    r->base_node = base;
    r->nodes[base].depth = AUTOMATON_HEIGHT_MAX / 2;
    run_put(r, (struct run_config){.state = c->state, .count = c->count, .node = base});
    v->n_exits = 0;
    v->too_many_exits = false;
    if (!r->no_memory) grammar_walk(v, r, 0, 0, 0, m->bits);
    if (r->no_memory || v->too_many_exits) return false;
    m->exits = malloc((v->n_exits + 1) * sizeof *m->exits);
    if (!m->exits) {
        r->no_memory = true;
        return false;
    }
    memcpy(m->exits, v->exits, v->n_exits * sizeof *m->exits);
    m->n_exits = v->n_exits;
    return true;
}

const struct grammar_mask *grammar_mask_of(struct text_grammar_vocab *v, const struct automaton *a, uint64_t answer,
                                           const struct run_config *c)
{
    const struct automaton_rule *rule = &a->rules[a->states[c->state].rule];
    const uint32_t far = v->longest + 1;
    struct grammar_mask key = {
        .answer = answer,
        .state = c->state,
        .missing = clamp(rule->least > c->count ? rule->least - c->count : 0, far),
        .room = clamp(rule->most == AUTOMATON_NO_MOST ? far : rule->most - c->count, far),
    };
    for (uint32_t i = 0; i < GRAMMAR_MASKS_MAX; i++) {
        const struct grammar_mask *m = &v->masks[i];
        if (m->bits && m->answer == key.answer && m->state == key.state && m->missing == key.missing &&
            m->room == key.room)
            return m;
    }
    if (!make_mask(v, a, c, &key)) {
        drop(&key);
        return NULL;
    }
    struct grammar_mask *place = &v->masks[v->next_mask];
    v->next_mask = (v->next_mask + 1) % GRAMMAR_MASKS_MAX;
    drop(place);
    *place = key;
    return place;
}
