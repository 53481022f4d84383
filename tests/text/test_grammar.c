/* Constrained decoding against a second opinion (grammar_check.c): random walks through the masks end in documents that
 * fit; random documents that fit are let through, however they are cut into tokens; masks agree with trying each token.
 */
#include "grammar_check.h"
#include "os/os.h"
#include "support.h"
#include "text/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG                                                                                                    \
    "\"$defs\": {\"node\": {\"type\": \"object\", \"properties\": {\"v\": {\"type\": \"integer\"}, \"next\": " \
    "{\"anyOf\": [{\"type\": \"null\"}, {\"$ref\": \"#/$defs/node\"}]}}, \"required\": [\"v\", \"next\"], "    \
    "\"additionalProperties\": false}}"

static const char *const schemas[] = {
    "{\"type\": \"object\"}",
    "{}",
    "true",
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}, \"age\": {\"type\": \"integer\"}, "
    "\"mail\": {\"type\": [\"string\", \"null\"]}}, "
    "\"required\": [\"name\", \"age\"], \"additionalProperties\": false}",
    "{\"type\": \"object\", \"title\": \"t\", \"properties\": {\"a\": {\"type\": \"number\"}, \"ab\": {\"type\": "
    "\"boolean\"}, \"é\\\"x\": {\"const\": {\"k\": [1, null]}}, "
    "\"no\": false}, \"required\": [\"ab\", \"other\"], \"additionalProperties\": {\"type\": \"array\", \"items\": "
    "{\"type\": \"integer\"}}}",
    "{\"type\": \"array\", \"items\": {\"enum\": [\"red\", \"reddish\", \"green\\n\", 12, 1, null, true, [1, \"a\"], "
    "{\"x\": 0.5}]}, \"minItems\": 2, \"maxItems\": 4}",
    "{\"type\": \"array\", \"items\": {\"type\": \"string\", \"minLength\": 2, \"maxLength\": 5}, \"maxItems\": 3}",
    "{\"type\": \"string\", \"minLength\": 3}",
    "{\"type\": [\"integer\", \"boolean\", \"null\"]}",
    "{\"type\": \"number\"}",
    "{\"enum\": [\"a\", 3, 3.5, null], \"type\": [\"string\", \"number\"]}",
    "{\"$ref\": \"#/$defs/node\", " BIG "}",
    "{\"type\": \"object\", \"properties\": {\"tree\": {\"$ref\": \"#/$defs/tree\"}}, \"required\": [\"tree\"], "
    "\"additionalProperties\": false, \"$defs\": {\"tree\": "
    "{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/tree\"}, "
    "\"maxItems\": 3}, {\"type\": \"object\", \"additionalProperties\": "
    "{\"$ref\": \"#/$defs/tree\"}}]}}}",
    "{\"anyOf\": [{\"type\": \"object\", \"properties\": {\"kind\": {\"const\": \"a\"}, \"x\": {\"type\": "
    "\"string\"}}, \"required\": [\"kind\", \"x\"]}, {\"type\": \"object\", "
    "\"properties\": {\"kind\": {\"const\": \"ab\"}, \"y\": {\"type\": \"integer\"}}, \"required\": [\"kind\", "
    "\"y\"]}]}",
    "{\"type\": \"array\", \"items\": false}",
    "{\"type\": \"array\", \"minItems\": 3, \"maxItems\": 3}",
    "{\"properties\": {\"p\": {\"type\": \"string\", \"maxLength\": 0}, \"q\": {}}}",
    "{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"object\", \"properties\": {\"in\": {\"$ref\": \"#\"}}, "
    "\"required\": [\"in\"], \"additionalProperties\": false}]}",
    "{\"required\": [\"a\", \"b\"]}",
};
#define N_SCHEMAS (sizeof schemas / sizeof *schemas)

/* ---- vocabularies ---- */

static struct gguf *made, *bundled;
static struct text_tokenizer *small, *demo;
static struct text_grammar_vocab *small_vocab, *demo_vocab;

static size_t byte_character(unsigned byte, char *out)
{
    unsigned c = byte;
    if (!((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174)) {
        c = 256;
        for (unsigned b = 0; b < byte; b++) c += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    }
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 63));
    return 2;
}

/* All bytes, an end, and tokens that cross every border: of strings, of keys, of characters. */
static void make_small(void)
{
    static const char *const more[] = {
        "{\"",      "\":",         "\": ",    "\": \"",    "\", \"",   "\"}",          "\"]",
        "]}",       "}}",          "},",      "}, ",       "[[",       "[{",           "[\"",
        ", ",       " \"",         "  ",      "    ",      "\n\n",     "\n  ",         "tr",
        "true",     "false,",      "null",    "null}",     "12",       "0.",           ".5",
        "e1",       "-1",          "na",      "name",      "name\"",   "\"name\": \"", "age",
        "\xe6\x97", "\x97\xa5",    "\xa5\"",  "\xf0\x9f",  "\x98\x80", "\x80\xe6",     "é",
        "\xc3",     "\xa9x",       "\\u",     "\\uD8",     "3D\\u",    "dE",           "\\\"",
        "\\n",      "\\",          "abcde",   "abc\"",     "reddish",  "red\"",        "ab\": ",
        "a\"",      "a\":",        "next\":", "{\"v\": 1", "nul",      "null, \"",     "true}",
        "{}",       "[]",          "[]}",     "\"\"",      "\"\":",    "\x01",         "<tool",
        "_call>",   "<tool_call>", "call>\n", "l>\xe6",    "\n\n<",    "f\", \"p",     "{\"name\": \"f\"",
        "[\"C",     "12x"};
    static char texts[360][64];
    const char *list[360];
    int32_t types[360];
    size_t n = 0;
    struct meta m = {0};
    for (unsigned b = 0; b < 256; b++, n++) texts[n][byte_character(b, texts[n])] = '\0';
    for (size_t i = 0; i < sizeof more / sizeof *more; i++, n++) {
        size_t at = 0;
        for (const char *c = more[i]; *c; c++) at += byte_character((unsigned char)*c, texts[n] + at);
        texts[n][at] = '\0';
    }
    strcpy(texts[n++], "<end>");
    strcpy(texts[n++], "<other>");
    strcpy(texts[n++], "[CALL]");
    for (size_t i = 0; i < n; i++) {
        list[i] = texts[i];
        types[i] = i + 3 >= n ? 3 : 1;
    }
    static const char *const merges[] = {"a b"};
    meta_str(&m, "tokenizer.ggml.model", "gpt2");
    meta_str(&m, "tokenizer.ggml.pre", "gpt-2");
    meta_strs(&m, "tokenizer.ggml.tokens", list, n);
    meta_i32s(&m, "tokenizer.ggml.token_type", types, n);
    meta_strs(&m, "tokenizer.ggml.merges", merges, 1);
    meta_u32(&m, "tokenizer.ggml.eos_token_id", (uint32_t)n - 3);
    made = meta_open(&m);
    small = tokenizer_of(made);
}

static int open_vocabularies(void **state)
{
    char path[1024];
    struct sluice_error err;
    (void)state;
    make_small();
    snprintf(path, sizeof path, "%s/models/demo.gguf", getenv("SLUICE_SOURCE") ? getenv("SLUICE_SOURCE") : ".");
    if (gguf_open(os_system(), path, &bundled, &err)) return -1;
    demo = tokenizer_of(bundled);
    if (text_grammar_vocab_create(small, text_n_vocab(small) + 7, &small_vocab, &err)) return -1;
    return text_grammar_vocab_create(demo, text_n_vocab(demo), &demo_vocab, &err) ? -1 : 0;
}

static int close_vocabularies(void **state)
{
    (void)state;
    text_grammar_vocab_destroy(small_vocab);
    text_grammar_vocab_destroy(demo_vocab);
    text_tokenizer_destroy(small);
    text_tokenizer_destroy(demo);
    gguf_close(made);
    gguf_close(bundled);
    return 0;
}

static struct text_grammar *grammar_of(const char *schema)
{
    struct text_grammar *g;
    struct sluice_error err;
    if (text_grammar_create(schema, schema ? strlen(schema) : 0, &g, &err)) fail_msg("%s: %s", schema, err.message);
    return g;
}

static struct text_answer *answer_of(const struct text_grammar *g, struct text_grammar_vocab *v)
{
    struct text_answer *a;
    struct sluice_error err;
    assert_int_equal(text_answer_create(g, NULL, v, &a, &err), SLUICE_OK);
    return a;
}

static json_t *parse(const char *text, size_t bytes)
{
    json_error_t why;
    return json_loadb(text, bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
}

/* ---- walks ---- */

static bool in(const uint64_t *mask, size_t id) { return mask[id / 64] >> id % 64 & 1; }

struct document {
    char at[16384];
    size_t n;
};

/* The mask against trying each token (of a large vocabulary: some). */
static void compare(struct text_answer *a, const struct text_tokenizer *t, const uint64_t *mask,
                    const struct document *d)
{
    struct sluice_error err;
    const size_t n = text_n_vocab(t);
    uint64_t copy[4096];
    assert_true(text_answer_mask_words(a) <= 4096);
    memcpy(copy, mask, text_answer_mask_words(a) * sizeof *copy);
    for (size_t i = 0; i < (n < 400 ? n : 400); i++) {
        const int32_t id = (int32_t)(n < 400 ? i : check_random((uint32_t)n));
        const bool fits = text_answer_accept(a, id, &err) == SLUICE_OK;
        if (fits != in(copy, (size_t)id)) {
            char piece[2048];
            const size_t bytes = text_token_bytes(t, id, true, piece, sizeof piece);
            fail_msg("'%.*s' then token %d '%.*s': mask %d, trying %d", (int)d->n, d->at, id, (int)bytes, piece,
                     in(copy, (size_t)id), fits);
        }
        if (!fits) continue;
        text_answer_reset(a);
        assert_int_equal(text_answer_accept_bytes(a, d->at, d->n, &err), SLUICE_OK);
    }
    for (size_t id = n; id < text_answer_mask_words(a) * 64; id++) assert_false(in(copy, id));
}

/* Of the allowed tokens one at random; near the end rather one that closes something. -1: the answer ended. */
static int32_t choose(const struct text_tokenizer *t, const uint64_t *mask, bool hurry)
{
    static int32_t allowed[300000];
    const size_t n = text_n_vocab(t);
    size_t n_allowed = 0;
    for (size_t id = 0; id < n; id++)
        if (in(mask, id)) {
            if (hurry && text_ends_generation(t, (int32_t)id)) return (int32_t)id;
            allowed[n_allowed++] = (int32_t)id;
        }
    assert_true(n_allowed > 0);
    for (const char *c = "\"}]"; hurry && *c; c++)
        for (size_t i = 0; i < n_allowed; i++) {
            char piece[2048];
            if (text_token_bytes(t, allowed[i], false, piece, sizeof piece) == 1 && *piece == *c) return allowed[i];
        }
    return allowed[check_random((uint32_t)n_allowed)];
}

static void walk(const char *schema, const struct text_tokenizer *t, struct text_grammar_vocab *v, unsigned turns,
                 unsigned compared)
{
    static struct document d;
    struct sluice_error err;
    struct text_grammar *g = grammar_of(schema);
    struct text_answer *a = answer_of(g, v);
    json_t *s = schema ? parse(schema, strlen(schema)) : json_pack("{ss}", "type", "object");
    for (unsigned turn = 0; turn < turns; turn++) {
        const uint64_t *mask;
        text_answer_reset(a);
        d.n = 0;
        for (unsigned step = 0;; step++) {
            if (step > 8000) fail_msg("%s: no end of %.*s", schema, (int)d.n, d.at);
            if (text_answer_mask(a, &mask, &err)) fail_msg("%s: %s: %.*s", schema, err.message, (int)d.n, d.at);
            if (compared && d.n < 150 && check_random(compared) == 0) {
                compare(a, t, mask, &d);
                assert_int_equal(text_answer_mask(a, &mask, &err), SLUICE_OK);
            }
            const int32_t id = choose(t, mask, step > 40 || check_random(4) == 0);
            assert_int_equal(text_answer_accept(a, id, &err), SLUICE_OK);
            if (text_ends_generation(t, id)) break;
            d.n += text_token_bytes(t, id, false, d.at + d.n, sizeof d.at - d.n);
            assert_true(d.n < sizeof d.at);
        }
        assert_true(text_answer_complete(a));
        json_t *value = parse(d.at, d.n);
        if (!value || !check_fits(s, s, value)) fail_msg("%s: does not fit: %.*s", schema, (int)d.n, d.at);
        json_decref(value);
    }
    json_decref(s);
    text_answer_destroy(a);
    text_grammar_destroy(g);
}

static void test_walks(void **state)
{
    (void)state;
    walk(NULL, small, small_vocab, 20, 12);
    for (size_t i = 0; i < N_SCHEMAS; i++) walk(schemas[i], small, small_vocab, 20, 12);
}

static void test_walks_of_the_bundled_model(void **state)
{
    (void)state;
    walk(NULL, demo, demo_vocab, 6, 20);
    for (size_t i = 0; i < N_SCHEMAS; i++) walk(schemas[i], demo, demo_vocab, 6, 20);
}

/* ---- documents ---- */

/* Takes the longest, or any, token that the document goes on with, at each place. */
static void let_through(struct text_answer *a, const struct text_tokenizer *t, const char *schema, const char *text,
                        size_t bytes, int how)
{
    struct sluice_error err;
    const uint64_t *mask;
    text_answer_reset(a);
    for (size_t at = 0; at < bytes;) {
        int32_t best = -1;
        size_t best_bytes = 0, found = 0;
        char piece[2048];
        for (size_t id = 0; id < text_n_vocab(t); id++) {
            const size_t n = text_token_bytes(t, (int32_t)id, false, piece, sizeof piece);
            if (!n || n > bytes - at || memcmp(piece, text + at, n) != 0) continue;
            found++;
            if (how == 0 ? n == 1 : how == 1 ? n > best_bytes : check_random((uint32_t)found) == 0) {
                best = (int32_t)id;
                best_bytes = n;
            }
        }
        if (best < 0) { /* its bytes are no tokens of this vocabulary */
            best_bytes = 1;
            if (text_answer_accept_bytes(a, text + at, 1, &err)) fail_msg("%s: byte %zu of %s", schema, at, text);
        } else {
            if (at % 3 == 0) {
                assert_int_equal(text_answer_mask(a, &mask, &err), SLUICE_OK);
                if (!in(mask, (size_t)best)) fail_msg("%s: the mask at byte %zu of %s", schema, at, text);
            }
            if (text_answer_accept(a, best, &err)) fail_msg("%s: %s, at byte %zu of %s", schema, err.message, at, text);
        }
        at += best_bytes;
    }
    if (!text_answer_complete(a)) fail_msg("%s: not complete: %s", schema, text);
}

static void test_documents(void **state)
{
    struct sluice_error err;
    (void)state;
    for (size_t i = 0; i < N_SCHEMAS; i++) {
        json_t *s = parse(schemas[i], strlen(schemas[i]));
        struct text_grammar *g = grammar_of(schemas[i]);
        struct text_answer *a = answer_of(g, small_vocab);
        for (int turn = 0; turn < 60; turn++) {
            struct check_text d = {0};
            check_invent(s, s, &d);
            json_t *value = parse(d.at, d.n);
            if (!value || !check_fits(s, s, value))
                fail_msg("the test's own document does not fit: %s: %s", schemas[i], d.at);
            json_decref(value);
            if (text_answer_accept_bytes((text_answer_reset(a), a), d.at, d.n, &err) || !text_answer_complete(a))
                fail_msg("%s: %s", schemas[i], d.at);
            for (size_t n = 0; n < d.n && turn < 10; n++) { /* byte by byte; complete only where it is */
                if (!n) text_answer_reset(a);
                assert_int_equal(text_answer_accept_bytes(a, d.at + n, 1, &err), SLUICE_OK);
                json_t *part = parse(d.at, n + 1);
                if ((part != NULL) != text_answer_complete(a) && d.at[n] != ' ' && d.at[n] != '\n' && d.at[n] != '\t' &&
                    part && check_fits(s, s, part))
                    fail_msg("%s: complete %d: %.*s", schemas[i], text_answer_complete(a), (int)n + 1, d.at);
                if (text_answer_complete(a) && !part) fail_msg("%s: not complete: %.*s", schemas[i], (int)n + 1, d.at);
                json_decref(part);
            }
            if (turn < 9 && d.n < 1500) let_through(a, small, schemas[i], d.at, d.n, turn % 3);
            free(d.at);
        }
        json_decref(s);
        text_answer_destroy(a);
        text_grammar_destroy(g);
    }
}

/* ---- what does not fit, what is refused ---- */

static void test_wrong_documents(void **state)
{
    static const struct {
        const char *schema, *document;
    } cases[] = {
        {NULL, "[]"},
        {NULL, "{} "},
        {NULL, "   {}"},
        {NULL, "{\"a\":1,}"},
        {NULL, "{\"a\":01}"},
        {NULL, "{\"a\":\"\n\"}"},
        {NULL, "{\"a\":\"\xc0\x80\"}"},
        {NULL, "{\"a\":\"\xed\xa0\x80\"}"},
        {NULL, "{\"a\":\"\\ud800\"}"},
        {NULL, "{\"a\":\"\\udc00\"}"},
        {NULL, "{\"a\":\"\\x\"}"},
        {NULL, "{\"a\":  1}"},
        {"{\"type\":\"integer\"}", "1.0"},
        {"{\"type\":\"integer\"}", "1234567890123456789"},
        {"{\"type\":\"string\",\"maxLength\":2}", "\"日本語\""},
        {"{\"type\":\"string\",\"minLength\":2}", "\"\\n\""},
        {"{\"type\":\"array\",\"minItems\":1}", "[]"},
        {"{\"type\":\"array\",\"maxItems\":1}", "[1,2]"},
        {"{\"enum\":[\"ab\"]}", "\"a\""},
        {"{\"properties\":{\"a\":true},\"additionalProperties\":false}", "{\"b\":1}"},
        {"{\"properties\":{\"a\":true},\"required\":[\"a\"]}", "{}"},
        {"{\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":true}", "{\"b\":1,\"a\":1}"},
        {"{\"properties\":{\"a\":{\"type\":\"null\"}},\"additionalProperties\":true}", "{\"\\u0061\":1}"},
    };
    struct sluice_error err;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_grammar *g = grammar_of(cases[i].schema);
        struct text_answer *a = answer_of(g, small_vocab);
        const bool fits =
            !text_answer_accept_bytes(a, cases[i].document, strlen(cases[i].document), &err) && text_answer_complete(a);
        if (fits) fail_msg("%s lets %s through", cases[i].schema, cases[i].document);
        text_answer_destroy(a);
        text_grammar_destroy(g);
    }
}

/* Bounds of whole numbers: what is let through is what is within them, written without a needless zero or sign. */
static void test_bounds(void **state)
{
    static const int64_t bounds[][2] = {{0, 0},     {1, 9},        {-3, 4},     {0, 1000},   {-1000, -1},
                                        {17, 1023}, {99, 101},     {-110, 109}, {-1200, -7}, {100, 999},
                                        {123, 456}, {-1200, 1200}, {580, 583},  {1, 1},      {-20, 0}};
    struct sluice_error err;
    char text[200];
    (void)state;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const long long least = bounds[i][0], most = bounds[i][1];
        snprintf(text, sizeof text,
                 i % 2 ? "{\"type\":\"integer\",\"minimum\":%lld,\"maximum\":%lld}"
                       : "{\"type\":\"integer\",\"exclusiveMinimum\":%lld,\"exclusiveMaximum\":%lld}",
                 i % 2 ? least : least - 1, i % 2 ? most : most + 1);
        struct text_grammar *g = grammar_of(text);
        struct text_answer *a = answer_of(g, small_vocab);
        for (long long n = -1250; n <= 1250; n++) {
            const int bytes = snprintf(text, sizeof text, "%lld", n);
            text_answer_reset(a);
            const bool fits = !text_answer_accept_bytes(a, text, (size_t)bytes, &err) && text_answer_complete(a);
            if (fits != (n >= least && n <= most)) fail_msg("%lld from %lld to %lld: %d", n, least, most, fits);
        }
        static const char *const needless[] = {"-0", "00", "01", "007", "+1", "1.0", "1e1", "-"};
        for (size_t k = 0; k < sizeof needless / sizeof *needless; k++) {
            text_answer_reset(a);
            if (!text_answer_accept_bytes(a, needless[k], strlen(needless[k]), &err) && text_answer_complete(a))
                fail_msg("%s", needless[k]);
        }
        text_answer_destroy(a);
        text_grammar_destroy(g);
    }
    static const struct {
        const char *schema, *document;
        bool fits;
    } cases[] = {{"{\"type\":\"integer\",\"maximum\":9007199254740991}", "9007199254740991", true},
                 {"{\"type\":\"integer\",\"maximum\":9007199254740991}", "9007199254740992", false},
                 {"{\"type\":\"integer\",\"minimum\":-9007199254740991}", "-9007199254740991", true},
                 {"{\"type\":\"integer\",\"minimum\":-9007199254740991}", "-9007199254740992", false},
                 {"{\"type\":\"integer\",\"minimum\":-99999999999999999999999}", "-999999999999999999", true},
                 {"{\"type\":[\"integer\",\"null\"],\"minimum\":5}", "null", true},
                 {"{\"type\":[\"integer\",\"null\"],\"minimum\":5}", "4", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_grammar *g = grammar_of(cases[i].schema);
        struct text_answer *a = answer_of(g, small_vocab);
        const bool fits =
            !text_answer_accept_bytes(a, cases[i].document, strlen(cases[i].document), &err) && text_answer_complete(a);
        if (fits != cases[i].fits) fail_msg("%s: %s", cases[i].schema, cases[i].document);
        text_answer_destroy(a);
        text_grammar_destroy(g);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *schema, *says;
    } cases[] = {
        {"{\"type\":\"string\",\"pattern\":\"a\"}", "#: the keyword 'pattern'"},
        {"{\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"number\",\"minimum\":1}}}",
         "#/properties/x: the keyword 'minimum' is supported of whole numbers alone"},
        {"{\"minimum\":1}", "#: the keyword 'minimum' is supported of"},
        {"{\"$ref\":\"#/$defs/x\",\"minItems\":1}", "the keyword 'minItems' is not supported beside '$ref'"},
        {"{\"anyOf\":[],\"type\":\"string\"}", "the keyword 'type' is not supported beside 'anyOf'"},
        {"{\"type\":\"integer\",\"minimum\":0.5}", "#/minimum: must be a whole number"},
        {"{\"type\":\"integer\",\"minimum\":3,\"exclusiveMaximum\":3}", "no number is within"},
        {"{\"oneOf\":[]}", "'oneOf'"},
        {"{\"allOf\":[]}", "'allOf'"},
        {"{\"type\":\"array\",\"prefixItems\":[]}", "'prefixItems'"},
        {"{\"type\":\"object\",\"patternProperties\":{}}", "'patternProperties'"},
        {"{\"type\":\"string\",\"format\":\"date\"}", "'format'"},
        {"{\"anyOf\":[{\"type\":\"string\"}],\"not\":{}}", "'not'"},
        {"{\"$ref\":\"http://a/b\"}", "#/$ref: only references within"},
        {"{\"$ref\":\"#/$defs/x\"}", "refers to nothing"},
        {"{\"$ref\":\"#\"}", "no document fits"},
        {"{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}", "leads to itself"},
        {"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}", "no document fits"},
        {"{\"type\":\"object\",\"properties\":{\"a\":false},\"required\":[\"a\"]}", "cannot be there"},
        {"{\"required\":[\"a\"],\"additionalProperties\":false}", "cannot be there"},
        {"{\"enum\":[]}", "no document fits"},
        {"{\"enum\":[1],\"type\":\"string\"}", "no document fits"},
        {"{\"enum\":[1],\"minLength\":1}", "'minLength'"},
        {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "above"},
        {"{\"type\":\"array\",\"minItems\":3,\"maxItems\":2}", "above"},
        {"{\"type\":\"array\",\"minItems\":-1}", "whole number"},
        {"{\"type\":\"array\",\"minItems\":1.5}", "whole number"},
        {"{\"type\":\"text\"}", "no type"},
        {"{\"type\":[]}", "no type"},
        {"{\"type\":3}", "no type"},
        {"{\"properties\":3}", "must be an object"},
        {"{\"required\":[3]}", "must be a name"},
        {"{\"items\":3}", "a schema is"},
        {"false", "no document fits"},
        {"3", "a schema is"},
        {"", "line 1, byte 1"},
        {"{\"type\": \"string\",\n}", "line 2, byte 1"},
        {"{\"a\"}", "':' is missing"},
        {"{} x", "something follows"},
    };
    struct sluice_error err;
    struct text_grammar *g;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(text_grammar_create(cases[i].schema, strlen(cases[i].schema), &g, &err), SLUICE_ERR_USAGE);
        assert_null(g);
        if (!strstr(err.message, cases[i].says)) fail_msg("%s: says '%s'", cases[i].schema, err.message);
        const size_t n = strlen(err.message); /* the keywords that there are, where one is none of them */
        const bool unknown = n > 13 && !strcmp(err.message + n - 13, "not supported");
        if (unknown != !strncmp(err.hint, "known: ", 7)) fail_msg("%s: hint '%s'", cases[i].schema, err.hint);
    }
}

/* Sizes at and beyond the limits: an answer or a refusal, in time and memory. */
static void test_limits(void **state)
{
    struct sluice_error err;
    struct text_grammar *g;
    const size_t room = (size_t)1 << 20;
    char *text = malloc(room + 64);
    (void)state;
    assert_non_null(text);
    for (unsigned n = 10; n <= 100000; n *= 10) { /* enum values, then properties, then arrays in arrays */
        size_t at = (size_t)sprintf(text, "{\"enum\":[0");
        for (unsigned i = 1; i < n && at < room - 100; i++) at += (size_t)sprintf(text + at, ",\"value %u\"", i);
        at += (size_t)sprintf(text + at, "]}");
        const enum sluice_status st = text_grammar_create(text, at, &g, &err);
        assert_true(n <= 1000 ? st == SLUICE_OK : st == SLUICE_OK || st == SLUICE_ERR_USAGE);
        if (!st) text_grammar_destroy(g);
        at = (size_t)sprintf(text, "{\"additionalProperties\":true,\"properties\":{\"p\":{}");
        for (unsigned i = 1; i < n && at < room - 100; i++) at += (size_t)sprintf(text + at, ",\"p%u\":{}", i);
        at += (size_t)sprintf(text + at, "}}");
        const enum sluice_status wide = text_grammar_create(text, at, &g, &err);
        assert_int_equal(wide, n <= 1000 ? SLUICE_OK : SLUICE_ERR_USAGE);
        if (wide) continue;
        struct text_answer *a = answer_of(g, small_vocab);
        const uint64_t *mask;
        assert_int_equal(text_answer_accept_bytes(a, "{\"p", 3, &err), SLUICE_OK);
        assert_int_equal(text_answer_mask(a, &mask, &err), SLUICE_OK);
        text_answer_destroy(a);
        text_grammar_destroy(g);
    }
    memset(text, '[', 200);
    struct text_answer *a = answer_of(g = grammar_of("{}"), small_vocab);
    size_t deep = 0;
    while (!text_answer_accept_bytes(a, "[", 1, &err)) deep++;
    assert_true(deep > 60 && deep < 300);
    while (deep-- > 0) assert_int_equal(text_answer_accept_bytes(a, "]", 1, &err), SLUICE_OK);
    assert_true(text_answer_complete(a));
    text_answer_destroy(a);
    text_grammar_destroy(g);
    free(text);
}

/* ---- openers ---- */

/* What may stand before a document, and before an opener. */
static bool is_space(const char *text, size_t n)
{
    if (n <= 1) return !n || *text == ' ' || *text == '\n';
    const size_t lines = text[0] != '\n' ? 0 : text[1] == '\n' ? 2 : 1;
    size_t blanks = lines;
    while (blanks < n && (text[blanks] == ' ' || text[blanks] == '\t')) blanks++;
    return lines && blanks == n && n - lines <= 32;
}

enum opening { OPENING_NONE, OPENING_BEGUN, OPENING_WHOLE };

/* Whether a text begins one of the openers, or holds it. */
static enum opening opening_of(const char *text, size_t n, const char *const *openers)
{
    enum opening best = OPENING_NONE;
    for (size_t at = 0; at <= n; at++)
        for (size_t i = 0; openers[i] && is_space(text, at); i++) {
            const size_t most = strlen(openers[i]), rest = n - at < most ? n - at : most;
            if (memcmp(text + at, openers[i], rest) != 0) continue;
            const enum opening now = rest == most ? OPENING_WHOLE : OPENING_BEGUN;
            if (now > best) best = now;
        }
    return best;
}

static struct text_grammar *openers_of(const char *const *texts)
{
    struct text_grammar *g;
    struct sluice_error err;
    size_t n = 0;
    while (texts[n]) n++;
    assert_int_equal(text_grammar_openers(texts, n, &g, &err), SLUICE_OK);
    return g;
}

struct opener_case {
    const char *schema, *openers[3], *said[10];
};
static const struct opener_case opener_cases[] = {
    {"{\"type\": \"object\"}",
     {"<tool_call>"},
     {"", " ", "\n", "\n\n", "\n\n ", "<", "<tool", "\n<tool_c", "{\"", "{\"<tool_call"}},
    {"{\"type\": \"object\"}", {"<tool_call>"}, {"<tool_call>", "<tool_call>\xe6", "\n\n<tool_call>\n{", "{}"}},
    {"{\"type\": \"array\"}", {"[CALL]", "<other>"}, {"", "[", "[C", "[\"C", "\n[CALL", "[CALL]", "<oth", "<other>["}},
    {"{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}}, \"required\": [\"name\"]}",
     {"{\"name\": \"f\", \"parameters\": {", "{\"name\": \"fa\", \"parameters\": {"},
     {"", "{", "{\"name\": \"", "{\"name\": \"f", "{\"name\": \"f\"", "{\"name\": \"f\", ", "{\"name\": \"fan",
      "{\"name\": \"f\", \"p", "{\"name\": \"f\", \"parameters\": {", "{\"name\": \"f\"}"}},
    {"{\"type\": \"integer\"}", {"123", "12x"}, {"", "1", "12", "123", "122", "12x]", "-"}},
    {"{\"type\": \"string\", \"maxLength\": 3}",
     {"日本", "\"日\""},
     {"", "\xe6", "\xe6\x97", "日", "日\xe6\x9c", "\"\xe6", "\"日", "\"日\"", "\"日x"}},
};

/* At each place, for each token: the mask, accepting it, and where that leads, against the two ways looked at apart. */
static void check_place(const struct text_grammar *g, const struct text_grammar *way, const char *const *openers,
                        const char *said)
{
    struct text_answer *a = NULL, *d = NULL;
    struct sluice_error err;
    const uint64_t *mask;
    const size_t n_said = strlen(said), n = text_n_vocab(small);
    for (size_t id = 0; id < n + 7; id++) {
        char text[256];
        assert_int_equal(text_answer_create(g, way, small_vocab, &a, &err), SLUICE_OK);
        d = answer_of(g, small_vocab);
        memcpy(text, said, n_said);
        const enum opening before = opening_of(said, n_said, openers);
        bool document = !text_answer_accept_bytes(d, said, n_said, &err);
        if (text_answer_accept_bytes(a, said, n_said, &err)) fail_msg("'%s': %s", said, err.message);
        assert_int_equal(text_answer_branch(a), before == OPENING_WHOLE ? TEXT_BRANCH_FREE
                                                : before                ? TEXT_BRANCH_OPEN
                                                                        : TEXT_BRANCH_DOCUMENT);
        const bool over = before == OPENING_WHOLE || (document && text_answer_complete(d));
        assert_int_equal(text_answer_complete(a), over);
        const bool ends = text_ends_generation(small, (int32_t)id),
                   control = id < n && text_is_control(small, (int32_t)id);
        const size_t bytes = id < n ? text_token_bytes(small, (int32_t)id, control, text + n_said, 64) : 0;
        const enum opening after = opening_of(text, n_said + bytes, openers);
        document = document && bytes && !control && !text_answer_accept_bytes(d, text + n_said, bytes, &err);
        bool fits = document || (bytes && after);
        if (ends) fits = over;
        if (before == OPENING_WHOLE) fits = true;
        assert_int_equal(text_answer_mask(a, &mask, &err), SLUICE_OK);
        if (in(mask, id) != fits) fail_msg("'%s' and '%.*s': mask %d", said, (int)bytes, text + n_said, in(mask, id));
        assert_int_equal(text_answer_accept(a, (int32_t)id, &err), fits ? SLUICE_OK : SLUICE_ERR_USAGE);
        if (fits && before != OPENING_WHOLE && !ends)
            assert_int_equal(text_answer_branch(a), after == OPENING_WHOLE ? TEXT_BRANCH_FREE
                                                    : after                ? TEXT_BRANCH_OPEN
                                                                           : TEXT_BRANCH_DOCUMENT);
        text_answer_destroy(a);
        text_answer_destroy(d);
    }
}

static void test_openers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof opener_cases / sizeof *opener_cases; i++) {
        const struct opener_case *c = &opener_cases[i];
        struct text_grammar *g = grammar_of(c->schema), *way = openers_of(c->openers);
        for (size_t k = 0; k < 10 && c->said[k]; k++) check_place(g, way, c->openers, c->said[k]);
        text_grammar_destroy(way);
        text_grammar_destroy(g);
    }
}

/* Random walks go both ways: to a document that fits, or through an opener to anything. */
static void test_walks_both_ways(void **state)
{
    static const char *const openers[] = {"<tool_call>", "[CALL]", NULL};
    static const char schema[] = "{\"type\": \"array\", \"items\": {\"type\": \"integer\"}, \"maxItems\": 3}";
    struct sluice_error err;
    struct text_answer *a;
    struct text_grammar *g = grammar_of(schema), *way = openers_of(openers);
    json_t *s = parse(schema, strlen(schema));
    unsigned n_free = 0, n_documents = 0;
    (void)state;
    assert_int_equal(text_answer_create(g, way, small_vocab, &a, &err), SLUICE_OK);
    for (unsigned turn = 0; turn < 200; turn++) {
        struct document d = {.n = 0};
        const uint64_t *mask;
        bool over = false;
        text_answer_reset(a);
        while (!over && text_answer_branch(a) != TEXT_BRANCH_FREE) {
            assert_int_equal(text_answer_mask(a, &mask, &err), SLUICE_OK);
            const int32_t id = choose(small, mask, d.n > 40);
            assert_int_equal(text_answer_accept(a, id, &err), SLUICE_OK);
            over = text_ends_generation(small, id);
            if (!over) d.n += text_token_bytes(small, id, true, d.at + d.n, sizeof d.at - d.n);
        }
        if (over) {
            json_t *value = parse(d.at, d.n);
            assert_int_equal(text_answer_branch(a), TEXT_BRANCH_DOCUMENT);
            if (!value || !check_fits(s, s, value)) fail_msg("%.*s", (int)d.n, d.at);
            json_decref(value);
            n_documents++;
            continue;
        }
        n_free++;
        assert_int_equal(opening_of(d.at, d.n, openers), OPENING_WHOLE);
        assert_true(text_answer_complete(a));
        assert_int_equal(text_answer_mask(a, &mask, &err), SLUICE_OK);
        for (size_t id = 0; id < text_answer_mask_words(a) * 64; id++)
            assert_int_equal(in(mask, id), id < text_n_vocab(small) + 7);
        assert_int_equal(text_answer_accept(a, (int32_t)text_n_vocab(small) + 7, &err), SLUICE_ERR_USAGE);
        assert_int_equal(text_answer_accept(a, -1, &err), SLUICE_ERR_USAGE);
    }
    assert_true(n_free > 10 && n_documents > 10);
    json_decref(s);
    text_answer_destroy(a);
    text_grammar_destroy(way);
    text_grammar_destroy(g);
}

static void test_opener_limits(void **state)
{
    static char long_text[TEXT_OPENERS_BYTES_MAX + 1];
    const char *texts[] = {"a", ""};
    struct text_grammar *way;
    struct sluice_error err;
    (void)state;
    assert_int_equal(text_grammar_openers(texts, 2, &way, &err), SLUICE_ERR_USAGE);
    assert_null(way);
    memset(long_text, 'x', sizeof long_text - 1);
    texts[0] = long_text;
    assert_int_equal(text_grammar_openers(texts, 1, &way, &err), SLUICE_OK);
    text_grammar_destroy(way);
    texts[1] = "y";
    assert_int_equal(text_grammar_openers(texts, 2, &way, &err), SLUICE_ERR_USAGE);
    assert_null(way);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walks),           cmocka_unit_test(test_walks_of_the_bundled_model),
        cmocka_unit_test(test_documents),       cmocka_unit_test(test_wrong_documents),
        cmocka_unit_test(test_bounds),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_openers),
        cmocka_unit_test(test_walks_both_ways), cmocka_unit_test(test_opener_limits),
    };
    return cmocka_run_group_tests(tests, open_vocabularies, close_vocabularies) ? 1 : 0;
}
