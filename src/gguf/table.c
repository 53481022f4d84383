#include "gguf/table.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 64

void gguf_table_init(struct gguf_table *t, gguf_name_of *name_of, const void *owner)
{
    /* The seed differs between processes (address space randomisation), so that a file cannot be made whose names all
     * fall into one slot. Nothing visible depends on it. */
    *t = (struct gguf_table){.name_of = name_of, .owner = owner, .seed = (uint64_t)(uintptr_t)owner >> 4};
}

void gguf_table_free(struct gguf_table *t)
{
    free(t->slots);
    t->slots = NULL;
    t->n_slots = t->n = 0;
}

/* FNV-1a over the bytes (public domain, Fowler, Noll and Vo), then a multiply-shift finish, because the low bits pick
 * the slot. */
static uint32_t hash(const struct gguf_table *t, struct gguf_str s)
{
    uint64_t h = 0xcbf29ce484222325u ^ (t->seed * 0x9e3779b97f4a7c15u);
    for (size_t i = 0; i < s.bytes; i++) h = (h ^ (uint8_t)s.at[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

static bool same(struct gguf_str a, struct gguf_str b)
{
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.at, b.at, a.bytes) == 0);
}

/* The slot that holds the name, or the free one where it belongs. */
static uint32_t slot_of(const struct gguf_table *t, struct gguf_str name)
{
    uint32_t mask = t->n_slots - 1, k = hash(t, name) & mask;
    while (t->slots[k] && !same(t->name_of(t->owner, t->slots[k] - 1), name)) k = (k + 1) & mask;
    return k;
}

static bool grow(struct gguf_table *t)
{
    struct gguf_table old = *t;
    t->n_slots = old.n_slots ? old.n_slots * 2 : SLOTS_FIRST;
    t->slots = calloc(t->n_slots, sizeof *t->slots);
    if (!t->slots) {
        *t = old;
        return false;
    }
    for (uint32_t k = 0; k < old.n_slots; k++)
        if (old.slots[k]) t->slots[slot_of(t, t->name_of(t->owner, old.slots[k] - 1))] = old.slots[k];
    free(old.slots);
    return true;
}

enum gguf_put gguf_table_put(struct gguf_table *t, uint32_t i)
{
    if ((t->n + 1) * 2 > t->n_slots && !grow(t)) return GGUF_PUT_NO_MEMORY;
    uint32_t k = slot_of(t, t->name_of(t->owner, i));
    if (t->slots[k]) return GGUF_PUT_EXISTS;
    t->slots[k] = i + 1;
    t->n++;
    return GGUF_PUT_OK;
}

uint32_t gguf_table_find(const struct gguf_table *t, struct gguf_str name)
{
    if (t->n_slots == 0) return GGUF_TABLE_NONE;
    uint32_t k = slot_of(t, name);
    return t->slots[k] ? t->slots[k] - 1 : GGUF_TABLE_NONE;
}

size_t gguf_table_bytes(const struct gguf_table *t) { return (size_t)t->n_slots * sizeof *t->slots; }
