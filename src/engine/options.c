#include "engine/engine.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ENGINE_THREADS_MAX 256
#define ENGINE_CHUNK_MAX 4096

void sluice_options_init(struct sluice_options *o) { *o = (struct sluice_options){.struct_bytes = sizeof *o}; }

/* Replaces a caller's string by a copy that lives as long as the engine. */
static bool keep(sluice_engine *e, const char **s)
{
    if (!*s) return true;
    char *copy = strdup(*s);
    if (!copy) return false;
    e->strings[e->n_strings++] = copy;
    *s = copy;
    return true;
}

static enum sluice_status parse_kv_type(const char *text, uint32_t *out, struct sluice_error *err)
{
    static const struct {
        const char *name;
        uint32_t id;
    } types[] = {{"f16", QUANT_F16}, {"q8_0", QUANT_Q8_0}, {"f32", QUANT_F32}};
    *out = QUANT_F16;
    if (!text) return SLUICE_OK;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(text, types[i].name)) {
            *out = types[i].id;
            return SLUICE_OK;
        }
    return base_fail(err, SLUICE_ERR_USAGE, "the types are f16, q8_0 and f32", "unknown KV cache type '%.40s'", text);
}

static enum sluice_status parse_io(const char *text, struct engine_asks *a, struct sluice_error *err)
{
    static const char suffix[] = ":buffered";
    a->io = IO_AUTO;
    a->buffered = false;
    if (!text) return SLUICE_OK;
    size_t n = strlen(text), m = sizeof suffix - 1;
    if (n >= m && !strcmp(text + n - m, suffix)) {
        a->buffered = true;
        n -= m;
    }
    for (int b = IO_AUTO; b <= IO_SYNC; b++) {
        const char *name = io_backend_name((enum io_backend)b);
        if (strlen(name) == n && !memcmp(name, text, n)) {
            a->io = (enum io_backend)b;
            return SLUICE_OK;
        }
    }
    return base_fail(err, SLUICE_ERR_USAGE,
                     "the back ends are auto, uring, threads and sync, each with :buffered behind it or not",
                     "unknown read back end '%.40s'", text);
}

static enum sluice_status check_numbers(const struct sluice_options *o, struct sluice_error *err)
{
    if (o->threads > ENGINE_THREADS_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%" PRIu32 " threads; at most %d are possible", o->threads,
                         ENGINE_THREADS_MAX);
    if (o->chunk > ENGINE_CHUNK_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "a prefill chunk of %" PRIu32 " tokens; at most %d are possible",
                         o->chunk, ENGINE_CHUNK_MAX);
    if (o->ctx > MODEL_CTX_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "a context of %" PRIu32 " tokens; at most %u are possible",
                         o->ctx, MODEL_CTX_MAX);
    if (!o->model_path || !*o->model_path)
        return base_fail(err, SLUICE_ERR_USAGE, "name a GGUF file", "no model file is given");
    return SLUICE_OK;
}

enum sluice_status engine_parse_options(const struct sluice_options *o, sluice_engine *e, struct sluice_error *err)
{
    sluice_options_init(&e->options);
    if (o->struct_bytes < offsetof(struct sluice_options, memory) || o->struct_bytes > 4096)
        return base_fail(err, SLUICE_ERR_USAGE, "begin with sluice_options_init", "sluice_options.struct_bytes is %zu",
                         o->struct_bytes);
    size_t known = o->struct_bytes < sizeof *o ? o->struct_bytes : sizeof *o;
    memcpy(&e->options, o, known);
    struct sluice_options *p = &e->options;
    if (!keep(e, &p->model_path) || !keep(e, &p->memory) || !keep(e, &p->experts) || !keep(e, &p->kv_type) ||
        !keep(e, &p->cpu) || !keep(e, &p->io) || !keep(e, &p->policy) || !keep(e, &p->trace_path))
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the options");
    struct engine_asks *a = &e->asks;
    enum sluice_status st = check_numbers(p, err);
    if (!st) st = plan_parse_size(p->memory, false, "--memory", &a->memory, err);
    if (!st) st = plan_parse_size(p->experts, true, "--experts", &a->experts, err);
    if (!st) st = parse_kv_type(p->kv_type, &a->kv_type, err);
    if (!st) st = parse_io(p->io, a, err);
    if (!st && !policy_by_name(p->policy ? p->policy : "auto", &a->policy))
        st = base_fail(err, SLUICE_ERR_USAGE, "the policies are " POLICY_CHOICES, "unknown policy '%.40s'", p->policy);
    return st;
}
