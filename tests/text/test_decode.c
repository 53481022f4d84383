/* UTF-8 and streaming decode: whole characters only, invalid bytes become U+FFFD, nothing is lost at the end. */
#include "support.h"
#include "text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FFFD "\xef\xbf\xbd"

/* A SentencePiece vocabulary of byte tokens (ids 3 to 258) and a few words. */
enum { WORD_HELLO = 259, WORD_SPACED, WORD_USER, WORD_UNUSED, N_TOKENS };

static struct gguf *byte_vocabulary(bool prefix)
{
    static char names[256][8];
    const char *tokens[N_TOKENS] = {"<unk>", "<s>", "</s>"};
    int32_t types[N_TOKENS] = {2, 3, 3};
    float scores[N_TOKENS] = {0};
    for (int i = 0; i < 256; i++) {
        snprintf(names[i], sizeof names[i], "<0x%02X>", (unsigned)i);
        tokens[3 + i] = names[i];
        types[3 + i] = 6;
    }
    tokens[WORD_HELLO] = "\xe2\x96\x81Hello";
    tokens[WORD_SPACED] = "a\xe2\x96\x81\xe2\x96\x81"
                          "b";
    tokens[WORD_USER] = "<user>";
    tokens[WORD_UNUSED] = "unused";
    types[WORD_HELLO] = types[WORD_SPACED] = 1;
    types[WORD_USER] = 4;
    types[WORD_UNUSED] = 5;
    struct meta m = {0};
    meta_str(&m, "general.architecture", "llama");
    meta_str(&m, "tokenizer.ggml.model", "llama");
    meta_strs(&m, "tokenizer.ggml.tokens", tokens, N_TOKENS);
    meta_f32s(&m, "tokenizer.ggml.scores", scores, N_TOKENS);
    meta_i32s(&m, "tokenizer.ggml.token_type", types, N_TOKENS);
    meta_bool(&m, "tokenizer.ggml.add_space_prefix", prefix);
    return meta_open(&m);
}

/* Decodes bytes one token a byte; checks that every piece is valid UTF-8 by itself. */
static void assert_bytes(const struct text_tokenizer *t, const char *bytes, size_t n, const char *expected)
{
    struct text_decoder d;
    text_decoder_init(&d);
    char out[TEXT_PIECE_BYTES_MAX + 64], all[4096];
    size_t at = 0;
    for (size_t i = 0; i <= n; i++) {
        size_t piece = i < n ? text_decode(t, &d, 3 + (unsigned char)bytes[i], false, out) : text_decode_end(&d, out);
        assert_int_equal(text_utf8_valid_bytes(out, piece), piece);
        memcpy(all + at, out, piece);
        at += piece;
    }
    all[at] = '\0';
    assert_string_equal(all, expected);
    assert_int_equal(d.n_held, 0);
}

static void test_characters_stay_whole(void **state)
{
    (void)state;
    struct gguf *g = byte_vocabulary(false);
    struct text_tokenizer *t = tokenizer_of(g);
    static const struct {
        const char *bytes, *expected;
    } rows[] = {
        {"abc", "abc"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82"},
        {"\x80", FFFD},
        {"\xff\xfe", FFFD FFFD},
        {"\xc3", FFFD},
        {"\xe2\x82", FFFD},
        {"\xf0\x9f\x99", FFFD},
        {"\xc3(", FFFD "("},
        {"\xe2\x82(", FFFD "("},
        {"\xe2(\xa1", FFFD "(" FFFD},
        {"\xf0\x9f\xc3\xa9", FFFD "\xc3\xa9"},
        {"\xe2\xe2\x82\xac", FFFD "\xe2\x82\xac"},
        {"\xc0\xaf", FFFD FFFD},                   /* overlong */
        {"\xe0\x80\xaf", FFFD FFFD FFFD},          /* overlong */
        {"\xed\xa0\x80", FFFD FFFD FFFD},          /* surrogate */
        {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* above U+10FFFF */
        {"\xf0\x90\xf0\x9f\x99\x82", FFFD "\xf0\x9f\x99\x82"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_bytes(t, rows[i].bytes, strlen(rows[i].bytes), rows[i].expected);
    text_tokenizer_destroy(t);
    gguf_close(g);
}

static void test_pieces(void **state)
{
    (void)state;
    struct gguf *g = byte_vocabulary(true);
    struct text_tokenizer *t = tokenizer_of(g);
    static const int32_t ids[] = {1, WORD_HELLO, WORD_HELLO, WORD_SPACED, WORD_USER, WORD_UNUSED,
                                  0, 2,          -1,         N_TOKENS,    INT32_MAX, INT32_MIN};
    size_t n = sizeof ids / sizeof *ids, bytes;
    char *text = decode(t, ids, n, false, &bytes);
    assert_string_equal(text, "Hello Helloa  b<user>"); /* the first word loses its space; control tokens are silent */
    free(text);
    text = decode(t, ids, n, true, &bytes);
    assert_string_equal(text, "<s>Hello Helloa  b<user><unk></s>");
    free(text);
    char out[8];
    assert_int_equal(text_token_bytes(t, WORD_HELLO, false, out, sizeof out), 6);
    assert_memory_equal(out, " Hello", 6);
    assert_int_equal(text_token_bytes(t, WORD_HELLO, false, out, 3), 3); /* cut to the room given */
    assert_int_equal(text_token_bytes(t, 3 + 0xe2, false, out, sizeof out), 1);
    assert_int_equal((unsigned char)out[0], 0xe2);
    text_tokenizer_destroy(t);
    gguf_close(g);
    g = byte_vocabulary(false);
    t = tokenizer_of(g);
    text = decode(t, ids, 2, false, &bytes);
    assert_string_equal(text, " Hello");
    free(text);
    text_tokenizer_destroy(t);
    gguf_close(g);
}

/* A decoder that was overwritten with nonsense must not write out of bounds. */
static void test_hostile_decoder(void **state)
{
    (void)state;
    struct gguf *g = byte_vocabulary(true);
    struct text_tokenizer *t = tokenizer_of(g);
    struct text_decoder d;
    memset(&d, 0xff, sizeof d);
    d.begun = true;
    char out[TEXT_PIECE_BYTES_MAX];
    assert_int_equal(text_decode(t, &d, WORD_HELLO, false, out), 6);
    text_tokenizer_destroy(t);
    gguf_close(g);
}

/* Against the definition: every code point, and every two-byte string. */
static void test_utf8(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x1fffff; c++) {
        char b[4];
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        if (n == 1) b[0] = (char)c;
        for (size_t i = n; n > 1 && i-- > 1;) b[i] = (char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
        if (n > 1) b[0] = (char)((0xf00 >> n & 0xff) | c >> (6 * (n - 1)));
        bool valid = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
        assert_int_equal(text_utf8_length(b, n), valid ? n : 0);
        if (!valid) continue;
        assert_int_equal(text_utf8_code_point(b), c);
        for (size_t cut = 1; cut < n; cut++) {
            assert_int_equal(text_utf8_length(b, cut), 0);
            assert_true(text_utf8_is_unfinished(b, cut));
        }
        assert_false(text_utf8_is_unfinished(b, n));
    }
    for (unsigned x = 0; x < 65536; x++) {
        char b[2] = {(char)(x >> 8), (char)x};
        bool valid = (x >> 8) >= 0xc2 && (x >> 8) <= 0xdf && (x & 0xc0) == 0x80;
        if ((x >> 8) >= 0x80) assert_int_equal(text_utf8_length(b, 2), valid ? 2 : 0);
    }
    assert_int_equal(text_utf8_length("", 0), 0);
    assert_int_equal(text_utf8_valid_bytes("ab\xc3\xa9\xff", 5), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_characters_stay_whole),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_hostile_decoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
