/* An index from names to positions in somebody else's array: open addressing, at most half full, O(1). It stores
 * positions only and asks a function for the name at a position, so the array may move. */
#ifndef GGUF_TABLE_H
#define GGUF_TABLE_H

#include "gguf/gguf.h"

typedef struct gguf_str gguf_name_of(const void *owner, uint32_t i);

struct gguf_table {
    gguf_name_of *name_of;
    const void *owner;
    uint64_t seed;
    uint32_t *slots; /* [n_slots] position + 1; 0: free */
    uint32_t n_slots;
    uint32_t n;
};

enum gguf_put { GGUF_PUT_OK, GGUF_PUT_EXISTS, GGUF_PUT_NO_MEMORY };

#define GGUF_TABLE_NONE UINT32_MAX

void gguf_table_init(struct gguf_table *t, gguf_name_of *name_of, const void *owner);
void gguf_table_free(struct gguf_table *t);
/* Adds position i; on GGUF_PUT_EXISTS nothing is added. i < UINT32_MAX / 4. */
enum gguf_put gguf_table_put(struct gguf_table *t, uint32_t i);
uint32_t gguf_table_find(const struct gguf_table *t, struct gguf_str name); /* position or GGUF_TABLE_NONE */
size_t gguf_table_bytes(const struct gguf_table *t);

#endif
