/* Byte-pair encoding (Sennrich et al. 2016; GPT-2's byte-level form). Of all neighbouring pairs, the one whose merge
 * has the lowest rank is replaced by its result, the leftmost first, until no pair has a merge. Symbols form a linked
 * list over the word's bytes; a heap holds (rank, position) of the pairs. Entries are not removed when their pair goes
 * away: when one comes up, it is used only if the pair at its position is still the one of that rank. */
#include "text/bpe.h"

#include "text/spm.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MERGES_MAX (1u << 26)
#define NOWHERE UINT32_MAX

/* Printable Latin-1 bytes stand for themselves, the others follow from U+0100 on, in order. */
static bool is_itself(unsigned b) { return (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae; }

uint32_t text_bpe_character(unsigned char byte)
{
    if (is_itself(byte)) return byte;
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xa0) return 0x121u + (byte - 0x7fu);
    return 0x143; /* 0xad */
}

int text_bpe_byte(uint32_t character)
{
    if (character < 0x100) return is_itself(character) ? (int)character : -1;
    if (character <= 0x120) return (int)(character - 0x100);
    if (character <= 0x142) return (int)(character - 0x121 + 0x7f);
    return character == 0x143 ? 0xad : -1;
}

static uint32_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9e3779b97f4a7c15);
    h ^= h >> 29;
    h *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(h >> 32);
}

static uint32_t *slot_of(const struct text_bpe *b, int32_t left, int32_t right)
{
    for (uint32_t i = hash_pair(left, right) & b->slot_mask;; i = (i + 1) & b->slot_mask) {
        uint32_t *slot = &b->slots[i];
        if (*slot == 0) return slot;
        const struct text_merge *m = &b->merges[*slot - 1];
        if (m->left == left && m->right == right) return slot;
    }
}

/* "left right" to ids. False if one of the three texts is no token. */
static bool parse_merge(const struct text_vocab *v, struct gguf_str text, struct text_merge *m)
{
    char joined[2 * TEXT_TOKEN_BYTES_MAX];
    if (text.bytes < 3 || text.bytes > sizeof joined) return false;
    /* In both alphabets no character is a space, so the first one divides the parts. */
    const char *space = memchr(text.at + 1, ' ', text.bytes - 1);
    if (!space) return false;
    size_t left = (size_t)(space - text.at), right = text.bytes - left - 1;
    memcpy(joined, text.at, left);
    memcpy(joined + left, space + 1, right);
    m->left = text_vocab_find(v, joined, left);
    m->right = text_vocab_find(v, joined + left, right);
    m->result = text_vocab_find_plain(v, joined, left + right); /* T6: never a control token */
    return m->left != TEXT_NO_TOKEN && m->right != TEXT_NO_TOKEN && m->result != TEXT_NO_TOKEN;
}

static enum sluice_status read_merges(struct text_bpe *b, const struct gguf_value *merges, const struct base_log *log,
                                      struct sluice_error *err)
{
    uint32_t n_useless = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        struct gguf_str text;
        if (!gguf_item_str(merges, i, &text))
            return base_fail(err, SLUICE_ERR_MODEL, NULL, "'tokenizer.ggml.merges' is an array of %s, not of strings",
                             gguf_value_type_name(merges->item_type));
        struct text_merge *m = &b->merges[i];
        if (!parse_merge(b->vocab, text, m)) {
            m->left = TEXT_NO_TOKEN;
            n_useless++;
            continue;
        }
        uint32_t *slot = slot_of(b, m->left, m->right);
        if (*slot == 0) *slot = i + 1; /* the same pair again: the first one counts */
    }
    if (n_useless > 0)
        base_log(log, BASE_LOG_WARN,
                 "%u of %u merges name tokens that the vocabulary lacks or that are special; they are ignored",
                 n_useless, b->n);
    return SLUICE_OK;
}

static int32_t byte_token(const struct text_bpe *b, unsigned char byte)
{
    char name[8];
    if (b->raw) {
        snprintf(name, sizeof name, "<0x%02X>", byte);
        return text_vocab_find(b->vocab, name, 6);
    }
    size_t bytes = text_utf8_put_short(text_bpe_character(byte), name);
    /* A special token of the same spelling (DeepSeek has some) means the character, not the byte. */
    int32_t id = text_vocab_find(b->vocab, name, bytes);
    uint8_t type = id != TEXT_NO_TOKEN ? b->vocab->types[id] : TEXT_TOKEN_USER;
    bool special = type == TEXT_TOKEN_USER || type == TEXT_TOKEN_CONTROL || type == TEXT_TOKEN_UNKNOWN;
    return special ? TEXT_NO_TOKEN : id;
}

enum sluice_status text_bpe_init(struct text_bpe *b, const struct text_vocab *v, bool raw, const struct gguf *g,
                                 const struct base_log *log, struct sluice_error *err)
{
    *b = (struct text_bpe){.vocab = v, .raw = raw};
    const struct gguf_value *merges = gguf_find(g, "tokenizer.ggml.merges");
    if (!merges || merges->type != GGUF_ARRAY || merges->n > MERGES_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged or was converted wrongly; download it again",
                         !merges                      ? "the key 'tokenizer.ggml.merges' is missing"
                         : merges->type != GGUF_ARRAY ? "'tokenizer.ggml.merges' is not an array"
                                                      : "'tokenizer.ggml.merges' has over 67,108,864 items");
    b->n = (uint32_t)merges->n;
    uint32_t size = text_table_size(b->n);
    b->slot_mask = size - 1;
    b->merges = malloc((b->n ? b->n : 1) * sizeof *b->merges);
    b->slots = calloc(size, sizeof *b->slots);
    if (!b->merges || !b->slots) {
        text_bpe_free(b);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for %u merges", (uint32_t)merges->n);
    }
    enum sluice_status status = read_merges(b, merges, log, err);
    if (status != SLUICE_OK) {
        text_bpe_free(b);
        return status;
    }
    for (unsigned i = 0; i < 256; i++) b->byte_ids[i] = byte_token(b, (unsigned char)i);
    return SLUICE_OK;
}

void text_bpe_free(struct text_bpe *b)
{
    free(b->merges);
    free(b->slots);
    *b = (struct text_bpe){0};
}

int32_t text_bpe_replacement(const struct text_bpe *b)
{
    int32_t id = text_bpe_whole(b, "\xef\xbf\xbd", 3);
    return id != TEXT_NO_TOKEN ? id : text_bpe_whole(b, "?", 1);
}

size_t text_bpe_memory_bytes(const struct text_bpe *b)
{
    return b->slots ? b->n * sizeof *b->merges + ((size_t)b->slot_mask + 1) * sizeof *b->slots : 0;
}

void text_bpe_work_free(struct text_bpe_work *w)
{
    free(w->ids);
    free(w->before);
    free(w->after);
    free(w->heap.keys);
    *w = (struct text_bpe_work){0};
}

static enum sluice_status make_room(struct text_bpe_work *w, size_t bytes, struct sluice_error *err)
{
    if (bytes <= w->room) return SLUICE_OK;
    size_t room = bytes < 256 ? 256 : bytes;
    text_bpe_work_free(w);
    w->ids = malloc(room * sizeof *w->ids);
    w->before = malloc(room * sizeof *w->before);
    w->after = malloc(room * sizeof *w->after);
    w->heap.keys = malloc(2 * room * sizeof *w->heap.keys);
    if (!w->ids || !w->before || !w->after || !w->heap.keys) {
        text_bpe_work_free(w);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a word of %zu bytes", bytes);
    }
    w->heap.n_max = 2 * room;
    w->room = room;
    return SLUICE_OK;
}

static void push_pair(const struct text_bpe *b, struct text_bpe_work *w, uint32_t left)
{
    uint32_t right = w->after[left];
    if (right == NOWHERE) return;
    uint32_t slot = *slot_of(b, w->ids[left], w->ids[right]);
    if (slot != 0) text_heap_push(&w->heap, (uint64_t)(slot - 1) << 32 | left);
}

static enum sluice_status merge_all(const struct text_bpe *b, struct text_bpe_work *w, uint32_t n,
                                    struct text_steps *steps, struct sluice_error *err)
{
    enum sluice_status status = SLUICE_OK;
    w->heap.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        w->before[i] = i == 0 ? NOWHERE : i - 1;
        w->after[i] = i + 1 == n ? NOWHERE : i + 1;
    }
    for (uint32_t i = 0; i + 1 < n && !status; i++) {
        push_pair(b, w, i);
        status = text_step(steps, err);
    }
    while (!status && w->heap.n > 0) {
        status = text_step(steps, err);
        uint64_t key = text_heap_pop(&w->heap);
        const struct text_merge *m = &b->merges[key >> 32];
        uint32_t left = (uint32_t)key, right = w->after[left];
        if (w->ids[left] != m->left || right == NOWHERE || w->ids[right] != m->right) continue; /* gone */
        w->ids[left] = m->result;
        w->ids[right] = TEXT_NO_TOKEN;
        w->after[left] = w->after[right];
        if (w->after[left] != NOWHERE) w->before[w->after[left]] = left;
        if (w->before[left] != NOWHERE) push_pair(b, w, w->before[left]);
        push_pair(b, w, left);
    }
    return status;
}

enum sluice_status text_bpe_word(const struct text_bpe *b, struct text_bpe_work *w, const char *word, size_t bytes,
                                 int32_t unknown, struct text_steps *steps, size_t *n, struct sluice_error *err)
{
    enum sluice_status status = make_room(w, bytes, err);
    if (status != SLUICE_OK) return status;
    uint32_t symbols = 0;
    for (size_t i = 0; i < bytes;) {
        size_t length = b->raw ? text_utf8_length(word + i, bytes - i) : 0;
        int32_t id = length ? text_bpe_whole(b, word + i, length) : TEXT_NO_TOKEN;
        if (id != TEXT_NO_TOKEN) {
            w->ids[symbols++] = id;
            i += length;
            continue;
        }
        for (size_t end = i + (length ? length : 1); i < end; i++) {
            unsigned char byte = (unsigned char)word[i];
            id = b->byte_ids[byte] != TEXT_NO_TOKEN ? b->byte_ids[byte] : unknown;
            if (id == TEXT_NO_TOKEN)
                return base_fail(err, SLUICE_ERR_MODEL, "the model cannot be given this text",
                                 "the vocabulary has no token for byte 0x%02x and no unknown token", byte);
            w->ids[symbols++] = id;
        }
    }
    status = merge_all(b, w, symbols, steps, err);
    if (status != SLUICE_OK) return status;
    *n = 0;
    for (uint32_t i = 0; i < symbols; i++)
        if (w->ids[i] != TEXT_NO_TOKEN) w->ids[(*n)++] = w->ids[i];
    return SLUICE_OK;
}

int32_t text_bpe_whole(const struct text_bpe *b, const char *word, size_t bytes)
{
    char written[TEXT_SPM_SPACE_BYTES * TEXT_TOKEN_BYTES_MAX];
    if (bytes > TEXT_TOKEN_BYTES_MAX) return TEXT_NO_TOKEN;
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        if (!b->raw) {
            n += text_utf8_put_short(text_bpe_character((unsigned char)word[i]), written + n);
        } else if (word[i] == ' ') {
            memcpy(written + n, TEXT_SPM_SPACE, TEXT_SPM_SPACE_BYTES);
            n += TEXT_SPM_SPACE_BYTES;
        } else {
            written[n++] = word[i];
        }
    return text_vocab_find_plain(b->vocab, written, n);
}
