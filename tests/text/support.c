#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void need_shared(void)
{
    const char *folder = getenv("SLUICE_SHARED");
    struct stat s;
    if (folder && stat(folder, &s) == 0) return;
    printf("skipped: SLUICE_SHARED names no folder with oracle files\n");
    exit(77);
}

struct blob load_shared(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", getenv("SLUICE_SHARED"), name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("cannot open %s", path);
    struct stat s;
    assert_int_equal(fstat(fileno(f), &s), 0);
    struct blob b = {.at = malloc((size_t)s.st_size + 1), .bytes = (size_t)s.st_size};
    assert_non_null(b.at);
    assert_int_equal(fread(b.at, 1, b.bytes, f), b.bytes);
    b.at[b.bytes] = '\0';
    fclose(f);
    return b;
}

struct gguf *open_shared(const char *name)
{
    struct blob b = load_shared(name);
    struct gguf *g = NULL;
    struct sluice_error err;
    if (gguf_open_memory(b.at, b.bytes, name, &g, &err) != SLUICE_OK) fail_msg("%s", err.message);
    free(b.at);
    return g;
}

static void put(struct meta *m, const void *data, size_t bytes)
{
    if (m->bytes + bytes > m->room) {
        m->room = 2 * (m->bytes + bytes);
        m->data = realloc(m->data, m->room);
        assert_non_null(m->data);
    }
    if (bytes > 0) memcpy(m->data + m->bytes, data, bytes);
    m->bytes += bytes;
}

static void put_u32(struct meta *m, uint32_t v) { put(m, &v, sizeof v); }
static void put_u64(struct meta *m, uint64_t v) { put(m, &v, sizeof v); }

static void put_text(struct meta *m, const char *text, size_t bytes)
{
    put_u64(m, bytes);
    put(m, text, bytes);
}

static void put_key(struct meta *m, const char *key, uint32_t type)
{
    put_text(m, key, strlen(key));
    put_u32(m, type);
    m->n_values++;
}

void meta_str(struct meta *m, const char *key, const char *v)
{
    put_key(m, key, GGUF_STRING);
    put_text(m, v, strlen(v));
}

void meta_u32(struct meta *m, const char *key, uint32_t v)
{
    put_key(m, key, GGUF_U32);
    put_u32(m, v);
}

void meta_bool(struct meta *m, const char *key, bool v)
{
    uint8_t byte = v;
    put_key(m, key, GGUF_BOOL);
    put(m, &byte, 1);
}

static void put_array(struct meta *m, const char *key, uint32_t item, size_t n)
{
    put_key(m, key, GGUF_ARRAY);
    put_u32(m, item);
    put_u64(m, n);
}

void meta_strs(struct meta *m, const char *key, const char *const *v, size_t n)
{
    put_array(m, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_text(m, v[i], strlen(v[i]));
}

void meta_texts(struct meta *m, const char *key, const struct gguf_str *v, size_t n)
{
    put_array(m, key, GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) put_text(m, v[i].at, v[i].bytes);
}

void meta_i32s(struct meta *m, const char *key, const int32_t *v, size_t n)
{
    put_array(m, key, GGUF_I32, n);
    put(m, v, n * sizeof *v);
}

void meta_f32s(struct meta *m, const char *key, const float *v, size_t n)
{
    put_array(m, key, GGUF_F32, n);
    put(m, v, n * sizeof *v);
}

struct gguf *meta_open(struct meta *m)
{
    struct meta all = {0};
    put(&all, "GGUF", 4);
    put_u32(&all, 3);
    put_u64(&all, 0);
    put_u64(&all, m->n_values);
    put(&all, m->data, m->bytes);
    struct gguf *g = NULL;
    struct sluice_error err;
    if (gguf_open_memory(all.data, all.bytes, "made.gguf", &g, &err) != SLUICE_OK) fail_msg("%s", err.message);
    free(all.data);
    free(m->data);
    *m = (struct meta){0};
    return g;
}

struct text_tokenizer *tokenizer_of(const struct gguf *g)
{
    struct text_tokenizer *t = NULL;
    struct sluice_error err;
    if (text_tokenizer_create(g, NULL, &t, &err) != SLUICE_OK) fail_msg("%s", err.message);
    return t;
}

size_t encode(const struct text_tokenizer *t, const char *text, size_t bytes, bool special, int32_t **ids)
{
    struct text_encode_options o = {.special = special};
    struct sluice_error err;
    size_t n = 0, room = bytes + 8;
    *ids = malloc(room * sizeof **ids);
    assert_non_null(*ids);
    if (text_encode(t, text, bytes, &o, *ids, room, &n, &err) != SLUICE_OK) fail_msg("%s", err.message);
    return n;
}

char *decode(const struct text_tokenizer *t, const int32_t *ids, size_t n, bool special, size_t *bytes)
{
    struct text_decoder d;
    text_decoder_init(&d);
    size_t room = 4096, at = 0;
    char *out = malloc(room);
    for (size_t i = 0; i <= n; i++) {
        if (room - at < TEXT_PIECE_BYTES_MAX + 1) out = realloc(out, room *= 2);
        assert_non_null(out);
        at += i < n ? text_decode(t, &d, ids[i], special, out + at) : text_decode_end(&d, out + at);
    }
    out[at] = '\0';
    *bytes = at;
    return out;
}

char *decode_raw(const struct text_tokenizer *t, const int32_t *ids, size_t n, size_t *bytes)
{
    size_t room = 4096, at = 0;
    char *out = malloc(room);
    for (size_t i = 0; i < n; i++) {
        if (room - at < TEXT_PIECE_BYTES_MAX + 1) out = realloc(out, room *= 2);
        assert_non_null(out);
        at += text_token_bytes(t, ids[i], true, out + at, room - at);
    }
    out[at] = '\0';
    *bytes = at;
    return out;
}

void assert_ids(const struct text_tokenizer *t, const char *text, bool special, const int32_t *ids, size_t n)
{
    int32_t *got;
    size_t n_got = encode(t, text, strlen(text), special, &got);
    for (size_t i = 0; i < n && i < n_got; i++)
        if (got[i] != ids[i]) fail_msg("'%s': token %zu is %d, expected %d", text, i, got[i], ids[i]);
    if (n_got != n) fail_msg("'%s': %zu tokens, expected %zu", text, n_got, n);
    free(got);
}

/* What a lone byte that never occurs in UTF-8 comes back as: itself, or U+FFFD or '?' where it has no token. */
static const char *comes_back_as(const struct text_tokenizer *t, char byte)
{
    int32_t *ids;
    size_t n = encode(t, &byte, 1, false, &ids), n_back;
    char *back = decode_raw(t, ids, n, &n_back);
    const char *as = n_back == 3 && memcmp(back, "\xef\xbf\xbd", 3) == 0 ? "\xef\xbf\xbd"
                     : n_back == 1 && back[0] == '?'                     ? "?"
                                                                         : NULL;
    if (!as && (n_back == 0 || back[n_back - 1] != byte)) fail_msg("byte 0x%02x is lost", (unsigned char)byte);
    free(back);
    free(ids);
    return as;
}

/* A copy of text with the stand-ins of bytes that the vocabulary lacks. */
static char *expected_back(const struct text_tokenizer *t, const char *text, size_t bytes, size_t *n)
{
    const char *as[256] = {NULL};
    for (int b = 0xc0; b < 256; b++)
        if (b < 0xc2 || b > 0xf4) as[b] = comes_back_as(t, (char)b);
    char *out = malloc(3 * bytes + 1);
    assert_non_null(out);
    *n = 0;
    for (size_t i = 0; i < bytes; i++) {
        const char *stand_in = as[(unsigned char)text[i]];
        size_t length = stand_in ? strlen(stand_in) : 1;
        memcpy(out + *n, stand_in ? stand_in : text + i, length);
        *n += length;
    }
    return out;
}

void assert_round_trip(const struct text_tokenizer *t, const char *text, size_t bytes)
{
    int32_t *ids;
    size_t n = encode(t, text, bytes, false, &ids), n_back, n_expected;
    char *back = decode_raw(t, ids, n, &n_back), *begin = back;
    char *expected = expected_back(t, text, bytes, &n_expected);
    if (n_back == n_expected + 1 && back[0] == ' ') { /* SentencePiece's own space */
        begin++;
        n_back--;
    }
    if (n_back != n_expected) fail_msg("%zu bytes came back as %zu", bytes, n_back);
    assert_memory_equal(begin, expected, n_expected);
    free(expected);
    free(back);
    free(ids);
}
