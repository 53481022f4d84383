/* SentencePiece's BPE (Kudo and Richardson 2018). Symbols begin as characters; of all neighbours whose joined text is a
 * token, the pair with the highest score is joined first, the leftmost among equals. A heap holds (score, position); an
 * entry that comes up counts only if the pair now at its position has that score. Symbols that are no token in the end
 * (single characters) become byte tokens. */
#include "text/spm.h"

#include "text/tokenizer.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOWHERE UINT32_MAX

int text_spm_byte(const char *text, size_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    int value = 0;
    for (int i = 3; i < 5; i++) {
        char c = text[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                           : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

static enum sluice_status read_scores(struct text_spm *s, const struct gguf *g, struct sluice_error *err)
{
    const struct gguf_value *scores = gguf_find(g, "tokenizer.ggml.scores");
    if (!scores)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged or was converted wrongly; download it again",
                         "the key 'tokenizer.ggml.scores' is missing");
    if (scores->type != GGUF_ARRAY || scores->n != s->vocab->n)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged or was converted wrongly; download it again",
                         "'tokenizer.ggml.scores' has %llu items, there are %u tokens",
                         scores->type == GGUF_ARRAY ? (unsigned long long)scores->n : 1ull, s->vocab->n);
    for (uint32_t i = 0; i < s->vocab->n; i++) {
        double score;
        if (!gguf_item_f64(scores, i, &score))
            return base_fail(err, SLUICE_ERR_MODEL, NULL, "'tokenizer.ggml.scores' is an array of %s, not of numbers",
                             gguf_value_type_name(scores->item_type));
        s->scores[i] = isnan(score) ? -INFINITY : (float)score;
    }
    return SLUICE_OK;
}

enum sluice_status text_spm_init(struct text_spm *s, const struct text_vocab *v, const struct gguf *g,
                                 struct sluice_error *err)
{
    *s = (struct text_spm){.vocab = v, .scores = malloc(v->n * sizeof *s->scores)};
    if (!s->scores) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for %u scores", v->n);
    enum sluice_status status = read_scores(s, g, err);
    if (status != SLUICE_OK) {
        text_spm_free(s);
        return status;
    }
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        s->byte_ids[i] = text_vocab_find(v, name, 6);
        if (s->byte_ids[i] == TEXT_NO_TOKEN) { /* a vocabulary without byte fallback may have the byte as it is */
            char byte = (char)i;
            s->byte_ids[i] = text_vocab_find(v, &byte, 1);
        }
    }
    return SLUICE_OK;
}

void text_spm_free(struct text_spm *s)
{
    free(s->scores);
    *s = (struct text_spm){0};
}

void text_spm_work_free(struct text_spm_work *w)
{
    free(w->text);
    free(w->symbols);
    free(w->heap.keys);
    *w = (struct text_spm_work){0};
}

size_t text_spm_memory_bytes(const struct text_spm *s) { return s->scores ? s->vocab->n * sizeof *s->scores : 0; }

/* Smaller key: higher score. The usual order-preserving map of floats to integers, turned over. */
static uint64_t key_of(float score, uint32_t left)
{
    uint32_t bits;
    score += 0.0f; /* -0 becomes +0 */
    memcpy(&bits, &score, sizeof bits);
    uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return (uint64_t)~ascending << 32 | left;
}

/* The key of the pair that begins at symbol `left`, if its text is a token. */
static bool pair_key(const struct text_spm *s, const struct text_spm_work *w, uint32_t left, uint64_t *key)
{
    const struct text_spm_symbol *a = &w->symbols[left];
    if (a->bytes == 0 || a->after == NOWHERE) return false;
    int32_t id = text_vocab_find_plain(s->vocab, w->text + a->at, (size_t)a->bytes + w->symbols[a->after].bytes);
    if (id == TEXT_NO_TOKEN) return false;
    *key = key_of(s->scores[id], left);
    return true;
}

static void push_pair(const struct text_spm *s, struct text_spm_work *w, uint32_t left)
{
    uint64_t key;
    if (pair_key(s, w, left, &key)) text_heap_push(&w->heap, key);
}

/* Writes text with U+2581 for spaces into w and cuts it into characters; returns their number. */
static enum sluice_status prepare(struct text_spm_work *w, const char *text, size_t bytes, bool prefix, uint32_t *n,
                                  struct sluice_error *err)
{
    size_t need = bytes + TEXT_SPM_SPACE_BYTES;
    for (size_t i = 0; i < bytes; i++) need += text[i] == ' ' ? TEXT_SPM_SPACE_BYTES - 1 : 0;
    if (need > w->text_room) {
        free(w->text);
        w->text_room = 0;
        w->text = malloc(need);
        if (!w->text) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a text of %zu bytes", bytes);
        w->text_room = need;
    }
    size_t at = 0, symbols = 0;
    for (size_t i = 0; i < bytes + prefix; i++) {
        char c = prefix && i == 0 ? ' ' : text[i - prefix];
        if (c == ' ') {
            memcpy(w->text + at, TEXT_SPM_SPACE, TEXT_SPM_SPACE_BYTES);
            at += TEXT_SPM_SPACE_BYTES;
        } else {
            w->text[at++] = c;
        }
    }
    if (bytes + prefix > w->symbols_room) {
        free(w->symbols);
        free(w->heap.keys);
        w->symbols_room = 0;
        w->symbols = malloc((bytes + prefix) * sizeof *w->symbols);
        w->heap.keys = malloc(2 * (bytes + prefix) * sizeof *w->heap.keys);
        if (!w->symbols || !w->heap.keys)
            return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a text of %zu bytes", bytes);
        w->symbols_room = bytes + prefix;
        w->heap.n_max = 2 * (bytes + prefix);
    }
    for (size_t i = 0; i < at; symbols++) {
        size_t length = text_utf8_length(w->text + i, at - i);
        if (length == 0) length = 1; /* a byte on its own */
        w->symbols[symbols] = (struct text_spm_symbol){.at = (uint32_t)i,
                                                       .bytes = (uint32_t)length,
                                                       .before = (uint32_t)symbols - 1,
                                                       .after = (uint32_t)symbols + 1};
        i += length;
    }
    w->symbols[0].before = NOWHERE;
    w->symbols[symbols - 1].after = NOWHERE;
    *n = (uint32_t)symbols;
    return SLUICE_OK;
}

static enum sluice_status merge_all(const struct text_spm *s, struct text_spm_work *w, uint32_t n,
                                    struct text_steps *steps, struct sluice_error *err)
{
    enum sluice_status status = SLUICE_OK;
    w->heap.n = 0;
    for (uint32_t i = 0; i + 1 < n && !status; i++) {
        push_pair(s, w, i);
        status = text_step(steps, err);
    }
    while (!status && w->heap.n > 0) {
        status = text_step(steps, err);
        uint64_t key = text_heap_pop(&w->heap), now;
        uint32_t left = (uint32_t)key;
        if (!pair_key(s, w, left, &now) || now != key) continue; /* the pair has gone */
        struct text_spm_symbol *a = &w->symbols[left], *b = &w->symbols[a->after];
        a->bytes += b->bytes;
        b->bytes = 0;
        a->after = b->after;
        if (a->after != NOWHERE) w->symbols[a->after].before = left;
        if (a->before != NOWHERE) push_pair(s, w, a->before);
        push_pair(s, w, left);
    }
    return status;
}

/* A symbol that is no token: its bytes' tokens, or one unknown token if some byte has none. */
static enum sluice_status fall_back(const struct text_spm *s, const char *symbol, size_t bytes, int32_t unknown,
                                    text_token_fn *token, void *user, struct sluice_error *err)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)symbol[i];
        if (s->byte_ids[byte] != TEXT_NO_TOKEN) continue;
        if (unknown == TEXT_NO_TOKEN)
            return base_fail(err, SLUICE_ERR_MODEL, "the model cannot be given this text",
                             "the vocabulary has no token for byte 0x%02x and no unknown token", byte);
        token(user, unknown);
        return SLUICE_OK;
    }
    for (size_t i = 0; i < bytes; i++) token(user, s->byte_ids[(unsigned char)symbol[i]]);
    return SLUICE_OK;
}

enum sluice_status text_spm_encode(const struct text_spm *s, struct text_spm_work *w, const char *text, size_t bytes,
                                   bool prefix, int32_t unknown, text_token_fn *token, void *user,
                                   struct text_steps *steps, struct sluice_error *err)
{
    uint32_t n = 0;
    if (bytes == 0) return SLUICE_OK;
    enum sluice_status status = prepare(w, text, bytes, prefix, &n, err);
    if (status != SLUICE_OK) return status;
    status = merge_all(s, w, n, steps, err);
    if (status != SLUICE_OK) return status;
    for (uint32_t i = 0; i != NOWHERE; i = w->symbols[i].after) {
        const struct text_spm_symbol *a = &w->symbols[i];
        int32_t id = text_vocab_find_plain(s->vocab, w->text + a->at, a->bytes);
        if (id != TEXT_NO_TOKEN) {
            token(user, id);
            continue;
        }
        status = fall_back(s, w->text + a->at, a->bytes, unknown, token, user, err);
        if (status != SLUICE_OK) return status;
    }
    return SLUICE_OK;
}
