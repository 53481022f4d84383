/* A schema, and behind a zero byte choices: each byte picks one of the tokens that may come next. */
#include "fuzz.h"
#include "text/grammar.h"

#include <string.h>

#define STEPS_MAX 300 /* so that no input takes long */

struct meta {
    uint8_t at[16384];
    size_t n;
};

static void put(struct meta *m, const void *data, size_t bytes)
{
    FUZZ_CHECK(m->n + bytes <= sizeof m->at);
    memcpy(m->at + m->n, data, bytes);
    m->n += bytes;
}

static void put_number(struct meta *m, uint64_t v, size_t bytes) { put(m, &v, bytes); }

static void put_text(struct meta *m, const char *text)
{
    put_number(m, strlen(text), 8);
    put(m, text, strlen(text));
}

static void put_array(struct meta *m, const char *key, enum gguf_value_type item, size_t n)
{
    put_text(m, key);
    put_number(m, GGUF_ARRAY, 4);
    put_number(m, item, 4);
    put_number(m, n, 8);
}

/* A vocabulary of all bytes, some tokens that cross borders, and an end. */
static struct text_grammar_vocab *make_vocab(void)
{
    static const char *const more[] = {"{\"", "\":", "\", \"", "\"}",          "]}",  "}}",  "[[",
                                       "tr",  "ull", "12",     "\xe6\x97\xa5", "a\"", "</s>"};
    static const struct base_log no_log;
    static struct meta m;
    const size_t n_more = sizeof more / sizeof *more, n = 256 + n_more;
    static struct gguf *g; /* kept as long as the program runs */
    static struct text_tokenizer *t;
    struct text_grammar_vocab *v;
    put(&m, "GGUF", 4);
    put_number(&m, 3, 4);
    put_number(&m, 0, 8);
    put_number(&m, 5, 8);
    put_text(&m, "tokenizer.ggml.model");
    put_number(&m, GGUF_STRING, 4);
    put_text(&m, "llama");
    put_text(&m, "tokenizer.ggml.eos_token_id");
    put_number(&m, GGUF_U32, 4);
    put_number(&m, n - 1, 4);
    put_array(&m, "tokenizer.ggml.tokens", GGUF_STRING, n);
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", b);
        put_text(&m, text);
    }
    for (size_t i = 0; i < n_more; i++) put_text(&m, more[i]);
    put_array(&m, "tokenizer.ggml.scores", GGUF_F32, n);
    for (size_t i = 0; i < n; i++) put_number(&m, 0, 4);
    put_array(&m, "tokenizer.ggml.token_type", GGUF_I32, n);
    for (size_t i = 0; i < n; i++) put_number(&m, i < 256 ? 6 : i + 1 == n ? 3 : 1, 4);
    FUZZ_CHECK(gguf_open_memory(m.at, m.n, "made", &g, NULL) == SLUICE_OK);
    FUZZ_CHECK(text_tokenizer_create(g, &no_log, &t, NULL) == SLUICE_OK);
    FUZZ_CHECK(text_grammar_vocab_create(t, n, &v, NULL) == SLUICE_OK);
    return v;
}

/* The n-th of the tokens that may come next, counted round. */
static int32_t pick(const struct text_answer *a, const uint64_t *mask, unsigned n)
{
    const size_t words = text_answer_mask_words(a);
    unsigned allowed = 0;
    for (size_t i = 0; i < words; i++) allowed += (unsigned)__builtin_popcountll(mask[i]);
    FUZZ_CHECK(allowed > 0);
    n %= allowed;
    for (size_t id = 0;; id++)
        if (mask[id / 64] >> id % 64 & 1 && n-- == 0) return (int32_t)id;
}

static void walk(const struct text_grammar *g, const struct text_grammar *openers, struct text_grammar_vocab *v,
                 const uint8_t *choices, size_t n)
{
    struct text_answer *a;
    struct sluice_error err;
    const int32_t end = 256 + 12;
    FUZZ_CHECK(text_answer_create(g, openers, v, &a, &err) == SLUICE_OK);
    for (size_t i = 0; i < n && i < STEPS_MAX; i++) {
        const uint64_t *mask;
        FUZZ_CHECK(text_answer_mask(a, &mask, &err) == SLUICE_OK);
        FUZZ_CHECK((mask[end / 64] >> end % 64 & 1) == text_answer_complete(a));
        const int32_t id = pick(a, mask, choices[i]);
        FUZZ_CHECK(text_answer_accept(a, id, &err) == SLUICE_OK);
        if (id == end) break;
    }
    text_answer_destroy(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const texts[] = {"<c>", "{\"a\": 1"};
    static struct text_grammar_vocab *v;
    static struct text_grammar *openers;
    const uint8_t *zero = bytes ? memchr(data, 0, bytes) : NULL;
    const size_t n = zero ? (size_t)(zero - data) : bytes;
    struct text_grammar *g = NULL;
    struct sluice_error err = {0};
    if (!v) v = make_vocab();
    if (!openers) FUZZ_CHECK(text_grammar_openers(texts, 2, &openers, &err) == SLUICE_OK);
    const enum sluice_status st = text_grammar_create((const char *)data, n, &g, &err);
    FUZZ_CHECK(st == SLUICE_OK || (st == SLUICE_ERR_USAGE && err.status == st && err.message[0] && !g));
    for (int turn = 0; !st && turn < 2; turn++)
        walk(g, turn ? openers : NULL, v, zero ? zero + 1 : NULL, zero ? bytes - n - 1 : 0);
    text_grammar_destroy(g);
    return 0;
}
