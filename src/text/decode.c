/* Tokens back to text. Raw bytes come from the token's text (GPT-2's alphabet, SentencePiece's spaces and byte tokens);
 * the decoder passes on whole characters and repairs what is no UTF-8. */
#include "text/private.h"
#include "text/utf8.h"

#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"
#define REPLACEMENT_BYTES 3

static bool in_range(const struct text_tokenizer *t, int32_t id) { return id >= 0 && (uint32_t)id < t->vocab.n; }

/* Writes what fits; returns the whole length. */
struct sink {
    char *out;
    size_t max, n;
};

static void write_bytes(struct sink *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++, s->n++)
        if (s->n < s->max) s->out[s->n] = bytes[i];
}

/* GPT-2's alphabet; characters outside it (a converter's own additions) stay as they are. */
static void write_byte_level(struct sink *s, struct gguf_str text)
{
    for (size_t i = 0; i < text.bytes;) {
        size_t n = text_utf8_length(text.at + i, text.bytes - i);
        int byte = n > 0 ? text_bpe_byte(text_utf8_code_point(text.at + i)) : -1;
        char one = (char)byte;
        if (n == 0) n = 1;
        write_bytes(s, byte >= 0 ? &one : text.at + i, byte >= 0 ? 1 : n);
        i += n;
    }
}

static void write_with_spaces(struct sink *s, struct gguf_str text)
{
    for (size_t i = 0; i < text.bytes;) {
        bool space =
            text.bytes - i >= TEXT_SPM_SPACE_BYTES && memcmp(text.at + i, TEXT_SPM_SPACE, TEXT_SPM_SPACE_BYTES) == 0;
        write_bytes(s, space ? " " : text.at + i, 1);
        i += space ? TEXT_SPM_SPACE_BYTES : 1;
    }
}

size_t text_token_bytes(const struct text_tokenizer *t, int32_t id, bool special, char *out, size_t out_max)
{
    struct sink s = {.out = out, .max = out_max};
    if (!in_range(t, id)) return 0;
    struct gguf_str text = text_vocab_text(&t->vocab, id);
    int byte = text_spm_byte(text.at, text.bytes);
    char one = (char)byte;
    switch ((enum text_token_type)t->vocab.types[id]) {
    case TEXT_TOKEN_UNKNOWN:
    case TEXT_TOKEN_CONTROL:
        if (special) write_bytes(&s, text.at, text.bytes);
        break;
    case TEXT_TOKEN_USER: write_bytes(&s, text.at, text.bytes); break;
    case TEXT_TOKEN_BYTE:
    case TEXT_TOKEN_NORMAL:
        if (byte >= 0 && t->vocab.types[id] == TEXT_TOKEN_BYTE)
            write_bytes(&s, &one, 1);
        else if (t->model == TEXT_MODEL_BPE && !t->raw)
            write_byte_level(&s, text);
        else
            write_with_spaces(&s, text);
        break;
    case TEXT_TOKEN_UNUSED:
    case TEXT_TOKEN_UNDEFINED: break; /* padding of the vocabulary */
    }
    return s.n < out_max ? s.n : out_max;
}

void text_decoder_init(struct text_decoder *d) { *d = (struct text_decoder){0}; }

/* One more byte. A beginning of a character that cannot go on becomes one U+FFFD (Unicode's "maximal subpart"). */
static void write_repaired(struct text_decoder *d, struct sink *s, char byte)
{
    char *held = (char *)d->held;
    held[d->n_held++] = byte;
    if (text_utf8_length(held, d->n_held) == d->n_held) {
        write_bytes(s, held, d->n_held);
        d->n_held = 0;
    } else if (!text_utf8_is_unfinished(held, d->n_held)) {
        bool again = d->n_held > 1; /* the byte may begin a character of its own */
        write_bytes(s, REPLACEMENT, REPLACEMENT_BYTES);
        d->n_held = 0;
        if (again) write_repaired(d, s, byte);
    }
}

size_t text_decode(const struct text_tokenizer *t, struct text_decoder *d, int32_t id, bool special, char *out)
{
    char bytes[TEXT_TOKEN_BYTES_MAX];
    size_t n = text_token_bytes(t, id, special, bytes, sizeof bytes), from = 0;
    struct sink s = {.out = out, .max = TEXT_PIECE_BYTES_MAX};
    if (n > 0 && !d->begun && !text_is_control(t, id)) {
        from = t->add_space_prefix && bytes[0] == ' ';
        d->begun = true;
    }
    if (d->n_held >= sizeof d->held) d->n_held = 0; /* never ours: at most three bytes are held */
    for (size_t i = from; i < n; i++) write_repaired(d, &s, bytes[i]);
    return s.n < s.max ? s.n : s.max;
}

/* What the decoder holds when a token comes adds at most one character to the token's own output. */
enum sluice_status text_check_piece_bytes(const struct text_tokenizer *t, struct sluice_error *err)
{
    for (uint32_t id = 0; id < t->vocab.n; id++) {
        if (text_vocab_text(&t->vocab, (int32_t)id).bytes < TEXT_PIECE_BYTES_MAX / 4) continue;
        char bytes[TEXT_TOKEN_BYTES_MAX], end[REPLACEMENT_BYTES];
        size_t n = text_token_bytes(t, (int32_t)id, true, bytes, sizeof bytes);
        struct text_decoder d = {0};
        struct sink s = {.out = NULL, .max = 0};
        for (size_t i = 0; i < n; i++) write_repaired(&d, &s, bytes[i]);
        s.n += text_decode_end(&d, end);
        if (s.n + 4 > TEXT_PIECE_BYTES_MAX)
            return base_fail(err, SLUICE_ERR_MODEL, NULL, "token %u stands for %zu bytes; the most is %d", id, n,
                             TEXT_PIECE_BYTES_MAX - 4);
    }
    return SLUICE_OK;
}

size_t text_decode_end(struct text_decoder *d, char *out)
{
    if (d->n_held == 0) return 0;
    d->n_held = 0;
    memcpy(out, REPLACEMENT, REPLACEMENT_BYTES);
    return REPLACEMENT_BYTES;
}
