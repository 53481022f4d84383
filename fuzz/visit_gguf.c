#include "visit_gguf.h"

#include "fuzz.h"

#include <string.h>

static volatile unsigned sink; /* keeps the reads of bytes */

static void visit_bytes(const void *at, size_t bytes)
{
    const uint8_t *p = at;
    unsigned sum = 0;
    for (size_t i = 0; i < bytes; i++) sum += p[i];
    sink += sum;
}

static void visit_value(const struct gguf *g, const struct gguf_value *v)
{
    struct sluice_error err;
    char key[256];
    FUZZ_CHECK(v->key.bytes > 0);
    FUZZ_CHECK(v->item_type != GGUF_ARRAY);
    FUZZ_CHECK(v->type == GGUF_ARRAY || (v->type == v->item_type && v->n == 1));
    visit_bytes(v->key.at, v->key.bytes);
    for (uint64_t i = 0; i < v->n; i++) {
        uint64_t u;
        int64_t s;
        double d;
        bool b;
        struct gguf_str str;
        bool is_u = gguf_item_u64(v, i, &u), is_s = gguf_item_i64(v, i, &s), is_d = gguf_item_f64(v, i, &d);
        FUZZ_CHECK(!is_u || !is_s || (uint64_t)s == u);
        FUZZ_CHECK(is_d || (!is_u && !is_s));
        FUZZ_CHECK(!gguf_item_bool(v, i, &b) || is_u);
        if (gguf_item_str(v, i, &str)) {
            FUZZ_CHECK(!is_d);
            visit_bytes(str.at, str.bytes);
        } else {
            FUZZ_CHECK(is_d);
        }
    }
    uint64_t u;
    struct gguf_str str;
    FUZZ_CHECK(!gguf_item_u64(v, v->n, &u) && !gguf_item_str(v, v->n, &str));
    if (v->key.bytes < sizeof key) {
        uint32_t u32 = 0;
        float f = 0;
        bool b = false;
        memcpy(key, v->key.at, v->key.bytes);
        key[v->key.bytes] = 0;
        FUZZ_CHECK(gguf_find(g, key) == v);
        gguf_get_u32(g, key, true, &u32, &err);
        gguf_get_f32(g, key, false, &f, &err);
        gguf_get_bool(g, key, true, &b, &err);
        gguf_get_str(g, key, true, &str, &err);
    }
    FUZZ_CHECK(gguf_value_type_name(v->type) != NULL);
}

static void visit_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
    size_t name_bytes = strlen(t->name);
    FUZZ_CHECK(name_bytes > 0 && name_bytes <= GGUF_NAME_BYTES_MAX);
    FUZZ_CHECK(t->n_dims <= GGUF_DIMS_MAX);
    for (unsigned d = 0; d < GGUF_DIMS_MAX; d++)
        FUZZ_CHECK(d < t->n_dims ? t->dims[d] > 0 && t->dims[d] <= INT64_MAX : t->dims[d] == 1);
    FUZZ_CHECK(t->shard < gguf_n_shards(g));
    const struct gguf_shard *shard = gguf_shard(g, t->shard);
    FUZZ_CHECK(t->bytes > 0 && t->bytes <= shard->bytes);
    FUZZ_CHECK(t->offset >= shard->header_bytes && t->offset <= shard->bytes - t->bytes);
    FUZZ_CHECK(gguf_find_tensor(g, t->name) == t);
}

void visit_gguf(const struct gguf *g)
{
    struct sluice_error err;
    FUZZ_CHECK(gguf_version(g) == 2 || gguf_version(g) == 3);
    uint64_t alignment = gguf_alignment(g);
    FUZZ_CHECK(alignment >= 8 && (alignment & (alignment - 1)) == 0);
    for (size_t i = 0; i < gguf_n_shards(g); i++) {
        const struct gguf_shard *shard = gguf_shard(g, i);
        FUZZ_CHECK(strlen(shard->path) > 0);
        FUZZ_CHECK(gguf_n_tensors(g) > 0 || shard->header_bytes <= shard->bytes);
    }
    for (size_t i = 0; i < gguf_n_values(g); i++) visit_value(g, gguf_value(g, i));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) visit_tensor(g, gguf_tensor(g, i));
    FUZZ_CHECK(!gguf_value(g, gguf_n_values(g)) && !gguf_tensor(g, gguf_n_tensors(g)));
    FUZZ_CHECK(!gguf_find(g, "") && !gguf_find_tensor(g, ""));
    FUZZ_CHECK(gguf_memory_bytes(g) > 0);
    gguf_check_language_model(g, false, &err);
    gguf_check_language_model(g, true, &err);
}

void visit_gguf_error(enum sluice_status status, const struct sluice_error *err, const struct gguf *g)
{
    FUZZ_CHECK(status == err->status && (status == SLUICE_ERR_MODEL || status == SLUICE_ERR_MEMORY));
    FUZZ_CHECK(err->message[0] && err->hint[0] && !g);
}
