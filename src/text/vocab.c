#include "text/vocab.h"

#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX (1u << 24) /* of a vocabulary; the largest known ones have 262,144 */

uint32_t text_hash(const char *text, size_t bytes)
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15) ^ bytes;
    while (bytes > 0) {
        uint64_t word = 0;
        size_t n = bytes < 8 ? bytes : 8;
        memcpy(&word, text, n);
        h = (h ^ word) * UINT64_C(0xd6e8feb86659fd93);
        h ^= h >> 32;
        text += n;
        bytes -= n;
    }
    h *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(h >> 32);
}

uint32_t text_table_size(uint32_t n)
{
    uint32_t size = 16;
    while (size < n + n / 2) size *= 2;
    return size;
}

struct gguf_str text_vocab_text(const struct text_vocab *v, int32_t id)
{
    struct gguf_str s = {"", 0};
    gguf_item_str(v->tokens, (uint64_t)id, &s);
    return s;
}

/* The slot that holds this text, or the free one where it belongs. */
static struct text_vocab_slot *slot_of(const struct text_vocab *v, uint32_t hash, const char *text, size_t bytes)
{
    for (uint32_t i = hash & v->slot_mask;; i = (i + 1) & v->slot_mask) {
        struct text_vocab_slot *slot = &v->slots[i];
        if (slot->id == TEXT_NO_TOKEN) return slot;
        if (slot->hash != hash) continue;
        struct gguf_str s = text_vocab_text(v, slot->id);
        if (s.bytes == bytes && memcmp(s.at, text, bytes) == 0) return slot;
    }
}

int32_t text_vocab_find(const struct text_vocab *v, const char *text, size_t bytes)
{
    if (bytes == 0 || bytes > v->token_bytes_max) return TEXT_NO_TOKEN;
    return slot_of(v, text_hash(text, bytes), text, bytes)->id;
}

int32_t text_vocab_find_plain(const struct text_vocab *v, const char *text, size_t bytes)
{
    int32_t id = text_vocab_find(v, text, bytes);
    if (id == TEXT_NO_TOKEN) return id;
    uint8_t type = v->types[id];
    return type == TEXT_TOKEN_CONTROL || type == TEXT_TOKEN_UNKNOWN || type == TEXT_TOKEN_BYTE ? TEXT_NO_TOKEN : id;
}

static enum sluice_status read_types(struct text_vocab *v, const struct gguf *g, struct sluice_error *err)
{
    const char *key = "tokenizer.ggml.token_type";
    const struct gguf_value *types = gguf_find(g, key);
    memset(v->types, TEXT_TOKEN_NORMAL, v->n);
    if (!types) return SLUICE_OK;
    if (types->type != GGUF_ARRAY || types->n != v->n)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged or was converted wrongly; download it again",
                         "'%s' has %llu items, there are %u tokens", key,
                         types->type == GGUF_ARRAY ? (unsigned long long)types->n : 1ull, v->n);
    for (uint32_t i = 0; i < v->n; i++) {
        int64_t type;
        if (!gguf_item_i64(types, i, &type))
            return base_fail(err, SLUICE_ERR_MODEL, NULL, "'%s' is an array of %s, not of integers", key,
                             gguf_value_type_name(types->item_type));
        v->types[i] = type >= TEXT_TOKEN_NORMAL && type <= TEXT_TOKEN_BYTE ? (uint8_t)type : TEXT_TOKEN_UNDEFINED;
    }
    return SLUICE_OK;
}

static enum sluice_status fill_slots(struct text_vocab *v, const struct base_log *log, struct sluice_error *err)
{
    uint32_t n_duplicates = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        struct gguf_str s;
        if (!gguf_item_str(v->tokens, i, &s))
            return base_fail(err, SLUICE_ERR_MODEL, NULL, "'tokenizer.ggml.tokens' is an array of %s, not of strings",
                             gguf_value_type_name(v->tokens->item_type));
        if (s.bytes > TEXT_TOKEN_BYTES_MAX)
            return base_fail(err, SLUICE_ERR_MODEL, NULL, "token %u is %zu bytes long; the most is %d", i, s.bytes,
                             TEXT_TOKEN_BYTES_MAX);
        if (s.bytes == 0) continue; /* padding: never found in a text */
        if (s.bytes > v->token_bytes_max) v->token_bytes_max = s.bytes;
        uint32_t hash = text_hash(s.at, s.bytes);
        struct text_vocab_slot *slot = slot_of(v, hash, s.at, s.bytes);
        if (slot->id != TEXT_NO_TOKEN)
            n_duplicates++;
        else
            *slot = (struct text_vocab_slot){.hash = hash, .id = (int32_t)i};
    }
    if (n_duplicates > 0)
        base_log(log, BASE_LOG_WARN, "%u tokens have the text of an earlier one and are never produced", n_duplicates);
    return SLUICE_OK;
}

enum sluice_status text_vocab_init(struct text_vocab *v, const struct gguf *g, const struct base_log *log,
                                   struct sluice_error *err)
{
    *v = (struct text_vocab){.tokens = gguf_find(g, "tokenizer.ggml.tokens")};
    if (!v->tokens || v->tokens->type != GGUF_ARRAY || v->tokens->n == 0 || v->tokens->n > TOKENS_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, "the file is damaged or was converted wrongly; download it again",
                         !v->tokens                      ? "the key 'tokenizer.ggml.tokens' is missing"
                         : v->tokens->type != GGUF_ARRAY ? "'tokenizer.ggml.tokens' is not an array"
                         : v->tokens->n == 0             ? "'tokenizer.ggml.tokens' is empty"
                                                         : "'tokenizer.ggml.tokens' has over 16,777,216 tokens");
    v->n = (uint32_t)v->tokens->n;
    uint32_t size = text_table_size(v->n);
    v->slot_mask = size - 1;
    v->types = malloc(v->n);
    v->slots = malloc(size * sizeof *v->slots);
    enum sluice_status status = SLUICE_OK;
    if (!v->types || !v->slots) {
        status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a vocabulary of %u tokens", v->n);
        goto fail;
    }
    for (uint32_t i = 0; i < size; i++) v->slots[i] = (struct text_vocab_slot){.id = TEXT_NO_TOKEN};
    status = fill_slots(v, log, err);
    if (status == SLUICE_OK) status = read_types(v, g, err);
    if (status == SLUICE_OK) return SLUICE_OK;
fail:
    text_vocab_free(v);
    return status;
}

void text_vocab_free(struct text_vocab *v)
{
    free(v->types);
    free(v->slots);
    *v = (struct text_vocab){0};
}

size_t text_vocab_memory_bytes(const struct text_vocab *v)
{
    return v->n + (v->slots ? ((size_t)v->slot_mask + 1) * sizeof *v->slots : 0);
}
