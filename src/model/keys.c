#include "model/keys.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define KEY_BYTES 160

static const struct gguf_value *find(struct model_keys *k, const char *suffix, char key[KEY_BYTES])
{
    snprintf(key, KEY_BYTES, "%s.%s", k->arch, suffix);
    const struct gguf_value *v = gguf_find(k->g, key);
    if (!v || !k->used) return v;
    for (size_t i = 0; i < gguf_n_values(k->g); i++)
        if (gguf_value(k->g, i) == v) k->used[i] = true;
    return v;
}

void keys_fail(struct model_keys *k, const char *suffix, const char *hint, const char *format, ...)
{
    char why[200];
    if (k->status) return;
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    k->status = base_fail(k->err, SLUICE_ERR_MODEL, hint, "%s: key '%s.%s' %s", gguf_shard(k->g, 0)->path, k->arch,
                          suffix, why);
}

static void check_range(struct model_keys *k, const char *suffix, uint64_t value, uint32_t min, uint32_t max)
{
    if (value < min || value > max)
        keys_fail(k, suffix, "the file is damaged, or its model is larger than Sluice was made for",
                  "is %" PRIu64 ", allowed are %" PRIu32 " to %" PRIu32, value, min, max);
}

void keys_u32(struct model_keys *k, const char *suffix, bool required, uint32_t min, uint32_t max, uint32_t *out)
{
    char key[KEY_BYTES];
    if (k->status) return;
    if (!find(k, suffix, key) && !required) return;
    uint32_t value = *out;
    k->status = gguf_get_u32(k->g, key, required, &value, k->err);
    if (!k->status) check_range(k, suffix, value, min, max);
    if (!k->status) *out = value;
}

void keys_f32(struct model_keys *k, const char *suffix, bool required, float *out)
{
    char key[KEY_BYTES];
    if (k->status) return;
    if (!find(k, suffix, key) && !required) return;
    float value = *out;
    k->status = gguf_get_f32(k->g, key, required, &value, k->err);
    if (!k->status && !isfinite(value)) keys_fail(k, suffix, "the file is damaged", "is not a finite number");
    if (!k->status) *out = value;
}

void keys_bool(struct model_keys *k, const char *suffix, bool required, bool *out)
{
    char key[KEY_BYTES];
    if (k->status) return;
    if (!find(k, suffix, key) && !required) return;
    k->status = gguf_get_bool(k->g, key, required, out, k->err);
}

void keys_str(struct model_keys *k, const char *suffix, bool required, struct gguf_str *out)
{
    char key[KEY_BYTES];
    if (k->status) return;
    if (!find(k, suffix, key) && !required) return;
    k->status = gguf_get_str(k->g, key, required, out, k->err);
}

void keys_layers(struct model_keys *k, const char *suffix, bool required, uint32_t min, uint32_t max, uint32_t n_layer,
                 uint32_t *at, size_t stride_bytes)
{
    char key[KEY_BYTES];
    if (k->status) return;
    const struct gguf_value *v = find(k, suffix, key);
    if (!v) {
        if (required) keys_fail(k, suffix, "the file is damaged", "is missing");
        return;
    }
    const bool one = v->type != GGUF_ARRAY || v->n == 1;
    if (!one && v->n < n_layer) {
        keys_fail(k, suffix, "the file is damaged", "has %" PRIu64 " values, the model %" PRIu32 " layers", v->n,
                  n_layer);
        return;
    }
    for (uint32_t l = 0; l < n_layer && !k->status; l++) {
        uint64_t value = 0;
        bool flag;
        if (!gguf_item_u64(v, one ? 0 : l, &value)) {
            if (gguf_item_bool(v, one ? 0 : l, &flag))
                value = flag;
            else
                keys_fail(k, suffix, "the file is damaged", "is no list of counts");
        }
        if (!k->status) check_range(k, suffix, value, min, max);
        if (!k->status) *(uint32_t *)(void *)((char *)at + l * stride_bytes) = (uint32_t)value;
    }
}

bool keys_has(struct model_keys *k, const char *suffix)
{
    char key[KEY_BYTES];
    return find(k, suffix, key) != NULL;
}

void keys_known(struct model_keys *k, const char *const *suffixes, size_t n)
{
    for (size_t i = 0; i < n; i++) keys_has(k, suffixes[i]);
}
