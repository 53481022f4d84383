/* A schema's JSON as a tree. Strict (RFC 8259); untrusted: limits for size, depth and number of values. */
#ifndef TEXT_SCHEMA_JSON_H
#define TEXT_SCHEMA_JSON_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCHEMA_BYTES_MAX ((size_t)1 << 20)
#define SCHEMA_DEPTH_MAX 100
#define SCHEMA_VALUES_MAX 100000

enum schema_kind {
    SCHEMA_NULL,
    SCHEMA_FALSE,
    SCHEMA_TRUE,
    SCHEMA_NUMBER,
    SCHEMA_STRING,
    SCHEMA_ARRAY,
    SCHEMA_OBJECT,
};

#define SCHEMA_NONE UINT32_MAX

struct schema_value {
    enum schema_kind kind;
    const char *text; /* STRING: decoded; NUMBER: as it stands */
    size_t bytes;
    const char *key; /* of a member: decoded; NULL in arrays and at the root */
    size_t key_bytes;
    uint32_t parent, first, next, n; /* first child, next sibling, or SCHEMA_NONE; n: children */
};

struct schema_tree {
    struct schema_value *values; /* [n]; 0 is the root */
    uint32_t n, room;
    char *texts;
};

/* Errors: SLUICE_ERR_USAGE with line and column, SLUICE_ERR_MEMORY. */
enum sluice_status schema_read(const char *json, size_t bytes, struct schema_tree *out, struct sluice_error *err);
void schema_free(struct schema_tree *t);

/* The member of an object, the last of that name, or SCHEMA_NONE. */
uint32_t schema_member(const struct schema_tree *t, uint32_t object, const char *key, size_t key_bytes);
bool schema_is(const struct schema_value *v, const char *text); /* a string, and this one */
/* Where a value stands: "#/properties/name". Truncated, terminated. */
void schema_place(const struct schema_tree *t, uint32_t at, char *out, size_t out_bytes);

#endif
