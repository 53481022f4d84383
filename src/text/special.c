#include "text/special.h"

#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static int compare_texts(struct gguf_str a, struct gguf_str b)
{
    size_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
    int order = memcmp(a.at, b.at, n);
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static bool ordered(const struct text_vocab *v, int32_t x, int32_t y)
{
    return compare_texts(text_vocab_text(v, x), text_vocab_text(v, y)) <= 0;
}

static bool wanted(const struct text_vocab *v, uint32_t id, bool control)
{
    uint8_t type = v->types[id];
    if (type == TEXT_TOKEN_USER) return true;
    return control && (type == TEXT_TOKEN_CONTROL || type == TEXT_TOKEN_UNKNOWN);
}

/* A merge sort needs no luck with hostile orders; qsort's time is not promised. */
static void sort_ids(int32_t *ids, int32_t *spare, uint32_t n, const struct text_vocab *v)
{
    if (n < 2) return;
    uint32_t half = n / 2, a = 0, b = half;
    sort_ids(ids, spare, half, v);
    sort_ids(ids + half, spare, n - half, v);
    for (uint32_t i = 0; i < n; i++) {
        bool left = b == n || (a < half && ordered(v, ids[a], ids[b]));
        spare[i] = left ? ids[a++] : ids[b++];
    }
    memcpy(ids, spare, n * sizeof *ids);
}

enum sluice_status text_special_init(struct text_special *s, const struct text_vocab *v, bool control,
                                     struct sluice_error *err)
{
    *s = (struct text_special){.vocab = v};
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) n += wanted(v, i, control);
    if (n == 0) return SLUICE_OK;
    s->ids = malloc(n * sizeof *s->ids);
    int32_t *spare = malloc(n * sizeof *spare);
    if (!s->ids || !spare) {
        free(spare);
        text_special_free(s);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for %u special tokens", n);
    }
    for (uint32_t i = 0; i < v->n; i++) {
        if (!wanted(v, i, control)) continue;
        struct gguf_str text = text_vocab_text(v, (int32_t)i);
        if (text.bytes == 0 || text_vocab_find(v, text.at, text.bytes) != (int32_t)i) continue;
        s->ids[s->n++] = (int32_t)i;
        s->first[(unsigned char)text.at[0]] = true;
    }
    sort_ids(s->ids, spare, s->n, v);
    free(spare);
    return SLUICE_OK;
}

void text_special_free(struct text_special *s)
{
    free(s->ids);
    *s = (struct text_special){0};
}

/* First index in [from, to) whose text has at `depth` a byte of at least b (b up to 256); shorter texts come first. */
static uint32_t lower_bound(const struct text_special *s, uint32_t from, uint32_t to, size_t depth, unsigned b)
{
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        struct gguf_str text = text_vocab_text(s->vocab, s->ids[middle]);
        if (text.bytes <= depth || (unsigned char)text.at[depth] < b)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The longest special token that text begins with. */
static struct text_special_match longest_at(const struct text_special *s, const char *text, size_t bytes)
{
    struct text_special_match found = {.id = TEXT_NO_TOKEN};
    uint32_t from = 0, to = s->n;
    for (size_t depth = 0; depth < bytes && from < to; depth++) {
        if (to - from == 1) { /* one left: compare it as a whole */
            struct gguf_str only = text_vocab_text(s->vocab, s->ids[from]);
            if (only.bytes > depth && only.bytes <= bytes && memcmp(only.at, text, only.bytes) == 0)
                found = (struct text_special_match){.bytes = only.bytes, .id = s->ids[from]};
            break;
        }
        unsigned b = (unsigned char)text[depth];
        from = lower_bound(s, from, to, depth, b);
        to = lower_bound(s, from, to, depth, b + 1);
        if (from == to) break;
        struct gguf_str first = text_vocab_text(s->vocab, s->ids[from]);
        if (first.bytes == depth + 1) found = (struct text_special_match){.bytes = first.bytes, .id = s->ids[from]};
    }
    return found;
}

struct text_special_match text_special_next(const struct text_special *s, const char *text, size_t bytes, size_t from)
{
    for (size_t at = from; s->n > 0 && at < bytes; at++) {
        if (!s->first[(unsigned char)text[at]]) continue;
        struct text_special_match m = longest_at(s, text + at, bytes - at);
        if (m.id == TEXT_NO_TOKEN) continue;
        m.at = at;
        return m;
    }
    return (struct text_special_match){.at = bytes, .id = TEXT_NO_TOKEN};
}
