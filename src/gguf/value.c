/* Typed access to metadata. Widths differ between converters (a count may be u32, i32 or u64), so integers convert
 * when the value fits; a float never becomes an integer. */
#include "gguf/private.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t bytes;
} types[] = {
    [GGUF_U8] = {"u8", 1},         [GGUF_I8] = {"i8", 1},       [GGUF_U16] = {"u16", 2}, [GGUF_I16] = {"i16", 2},
    [GGUF_U32] = {"u32", 4},       [GGUF_I32] = {"i32", 4},     [GGUF_F32] = {"f32", 4}, [GGUF_BOOL] = {"bool", 1},
    [GGUF_STRING] = {"string", 0}, [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8}, [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

static bool is_known(enum gguf_value_type type) { return (unsigned)type < sizeof types / sizeof *types; }

const char *gguf_value_type_name(enum gguf_value_type type) { return is_known(type) ? types[type].name : "unknown"; }
size_t gguf_value_type_bytes(enum gguf_value_type type) { return is_known(type) ? types[type].bytes : 0; }

uint16_t gguf_load_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
uint32_t gguf_load_u32(const uint8_t *p) { return gguf_load_u16(p) | (uint32_t)gguf_load_u16(p + 2) << 16; }
uint64_t gguf_load_u64(const uint8_t *p) { return gguf_load_u32(p) | (uint64_t)gguf_load_u32(p + 4) << 32; }

/* An integer item as sign and 64 bits: unsigned types in *u, signed ones in *i. */
enum kind { KIND_NONE, KIND_UNSIGNED, KIND_SIGNED };

static enum kind load_integer(const struct gguf_value *v, uint64_t i, uint64_t *u, int64_t *s)
{
    if (i >= v->n) return KIND_NONE;
    const uint8_t *p = (const uint8_t *)v->data + i * gguf_value_type_bytes(v->item_type);
    switch (v->item_type) {
    case GGUF_U8:
    case GGUF_BOOL: return *u = *p, KIND_UNSIGNED;
    case GGUF_U16: return *u = gguf_load_u16(p), KIND_UNSIGNED;
    case GGUF_U32: return *u = gguf_load_u32(p), KIND_UNSIGNED;
    case GGUF_U64: return *u = gguf_load_u64(p), KIND_UNSIGNED;
    case GGUF_I8: return *s = (int8_t)*p, KIND_SIGNED;
    case GGUF_I16: return *s = (int16_t)gguf_load_u16(p), KIND_SIGNED;
    case GGUF_I32: return *s = (int32_t)gguf_load_u32(p), KIND_SIGNED;
    case GGUF_I64: return *s = (int64_t)gguf_load_u64(p), KIND_SIGNED;
    default: return KIND_NONE;
    }
}

bool gguf_item_u64(const struct gguf_value *v, uint64_t i, uint64_t *out)
{
    uint64_t u = 0;
    int64_t s = 0;
    enum kind kind = load_integer(v, i, &u, &s);
    if (kind == KIND_NONE || (kind == KIND_SIGNED && s < 0)) return false;
    *out = kind == KIND_SIGNED ? (uint64_t)s : u;
    return true;
}

bool gguf_item_i64(const struct gguf_value *v, uint64_t i, int64_t *out)
{
    uint64_t u = 0;
    int64_t s = 0;
    enum kind kind = load_integer(v, i, &u, &s);
    if (kind == KIND_NONE || (kind == KIND_UNSIGNED && u > INT64_MAX)) return false;
    *out = kind == KIND_SIGNED ? s : (int64_t)u;
    return true;
}

bool gguf_item_f64(const struct gguf_value *v, uint64_t i, double *out)
{
    uint64_t u = 0;
    int64_t s = 0;
    if (i >= v->n) return false;
    if (v->item_type == GGUF_F32) {
        uint32_t bits = gguf_load_u32((const uint8_t *)v->data + i * 4);
        float f;
        memcpy(&f, &bits, sizeof f);
        *out = f;
        return true;
    }
    if (v->item_type == GGUF_F64) {
        uint64_t bits = gguf_load_u64((const uint8_t *)v->data + i * 8);
        memcpy(out, &bits, sizeof *out);
        return true;
    }
    switch (load_integer(v, i, &u, &s)) {
    case KIND_UNSIGNED: *out = (double)u; return true;
    case KIND_SIGNED: *out = (double)s; return true;
    case KIND_NONE: break;
    }
    return false;
}

bool gguf_item_bool(const struct gguf_value *v, uint64_t i, bool *out)
{
    uint64_t u;
    if (!gguf_item_u64(v, i, &u) || u > 1) return false;
    *out = u != 0;
    return true;
}

bool gguf_item_str(const struct gguf_value *v, uint64_t i, struct gguf_str *out)
{
    if (i >= v->n || v->item_type != GGUF_STRING) return false;
    const uint8_t *p = v->data;
    if (v->index_) p += ((const uint32_t *)v->index_)[i];
    out->bytes = (size_t)gguf_load_u64(p);
    out->at = (const char *)p + 8;
    return true;
}

const struct gguf_value *gguf_file_find(const struct gguf_file *f, const char *key)
{
    uint32_t i = gguf_table_find(&f->keys, (struct gguf_str){key, strlen(key)});
    return i == GGUF_TABLE_NONE ? NULL : &f->entries[i].v;
}

/* The value of a key, which may be absent (*v NULL) unless it is required. */
static enum sluice_status find(const struct gguf_file *f, const char *key, bool required, const struct gguf_value **v,
                               struct sluice_error *err)
{
    *v = gguf_file_find(f, key);
    if (!*v && required)
        return base_fail(err, SLUICE_ERR_MODEL,
                         "the file was converted by a tool that does not know this model: download another conversion",
                         "%s: key '%s' is missing", f->shown, key);
    return SLUICE_OK;
}

static enum sluice_status fail_type(const struct gguf_file *f, const struct gguf_value *v, const char *key,
                                    const char *wanted, struct sluice_error *err)
{
    return base_fail(err, SLUICE_ERR_MODEL, "the file was converted wrongly: download another conversion",
                     "%s: key '%s' should be %s and is %s%s", f->shown, key, wanted,
                     v->type == GGUF_ARRAY ? "an array of " : "", gguf_value_type_name(v->item_type));
}

enum sluice_status gguf_file_u32(const struct gguf_file *f, const char *key, bool required, uint32_t *out,
                                 struct sluice_error *err)
{
    const struct gguf_value *v;
    enum sluice_status status = find(f, key, required, &v, err);
    if (status != SLUICE_OK || !v) return status;
    uint64_t u = 0;
    int64_t s = 0;
    enum kind kind = v->type == GGUF_ARRAY ? KIND_NONE : load_integer(v, 0, &u, &s);
    if (kind == KIND_NONE) return fail_type(f, v, key, "an integer", err);
    if (kind == KIND_SIGNED && s < 0)
        return base_fail(err, SLUICE_ERR_MODEL, "the file was converted wrongly: download another conversion",
                         "%s: key '%s' is %" PRId64 "; it may not be negative", f->shown, key, s);
    if (kind == KIND_SIGNED) u = (uint64_t)s;
    if (u > UINT32_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, "the file was converted wrongly: download another conversion",
                         "%s: key '%s' is %" PRIu64 "; the largest allowed is %" PRIu32, f->shown, key, u, UINT32_MAX);
    *out = (uint32_t)u;
    return SLUICE_OK;
}

enum sluice_status gguf_get_u32(const struct gguf *g, const char *key, bool required, uint32_t *out,
                                struct sluice_error *err)
{
    return gguf_file_u32(g->files[0], key, required, out, err);
}

enum sluice_status gguf_get_f32(const struct gguf *g, const char *key, bool required, float *out,
                                struct sluice_error *err)
{
    const struct gguf_file *f = g->files[0];
    const struct gguf_value *v;
    enum sluice_status status = find(f, key, required, &v, err);
    if (status != SLUICE_OK || !v) return status;
    double d;
    if (v->type == GGUF_ARRAY || !gguf_item_f64(v, 0, &d)) return fail_type(f, v, key, "a number", err);
    if (isfinite(d) && (d > 0x1.fffffep127 || d < -0x1.fffffep127))
        return base_fail(err, SLUICE_ERR_MODEL, "the file was converted wrongly: download another conversion",
                         "%s: key '%s' is %g, too large for a 32-bit float", f->shown, key, d);
    *out = (float)d;
    return SLUICE_OK;
}

enum sluice_status gguf_get_bool(const struct gguf *g, const char *key, bool required, bool *out,
                                 struct sluice_error *err)
{
    const struct gguf_file *f = g->files[0];
    const struct gguf_value *v;
    enum sluice_status status = find(f, key, required, &v, err);
    if (status != SLUICE_OK || !v) return status;
    if (v->type == GGUF_ARRAY || !gguf_item_bool(v, 0, out)) return fail_type(f, v, key, "a bool", err);
    return SLUICE_OK;
}

enum sluice_status gguf_get_str(const struct gguf *g, const char *key, bool required, struct gguf_str *out,
                                struct sluice_error *err)
{
    const struct gguf_file *f = g->files[0];
    const struct gguf_value *v;
    enum sluice_status status = find(f, key, required, &v, err);
    if (status != SLUICE_OK || !v) return status;
    if (v->type == GGUF_ARRAY || !gguf_item_str(v, 0, out)) return fail_type(f, v, key, "a string", err);
    return SLUICE_OK;
}
