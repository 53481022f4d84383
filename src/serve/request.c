#include "serve/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void request_init(struct serve_request *r, const struct sluice_sampling *sampling, bool seeded)
{
    memset(r, 0, sizeof *r);
    r->created_s = (int64_t)time(NULL);
    r->tokens_max = r->reasoning_max = UINT64_MAX;
    r->n_choices = 1;
    r->call_prefix = "call_";
    r->sampling = *sampling;
    if (seeded) return;
    if (getrandom(&r->sampling.seed, sizeof r->sampling.seed, 0) != (ssize_t)sizeof r->sampling.seed)
        r->sampling.seed = (uint64_t)r->created_s;
}

void request_free(struct serve_request *r)
{
    sluice_free(r->ids);
    free(r->prompt_end);
    for (size_t i = 0; i < r->n_stops; i++) free(r->stops[i]);
    json_decref(r->vars);
    json_decref(r->tools);
    json_decref(r->original);
    free(r->turn_end);
    free(r->schema);
    free(r->bias);
    free(r->forced_call);
    free(r->prompt_text);
    memset(r, 0, sizeof *r);
}

void request_id(const char *prefix, char out[REQUEST_ID_BYTES])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char random[24] = {0};
    char text[sizeof random + 1];
    (void)!getrandom(random, sizeof random, 0);
    for (size_t i = 0; i < sizeof random; i++) text[i] = letters[random[i] % 62];
    text[sizeof random] = '\0';
    snprintf(out, REQUEST_ID_BYTES, "%.20s%s", prefix, text);
}

/* ---- reading parameters ---- */

static const char samplers[] =
    "there are temperature, top_k, top_p, min_p, repeat_penalty, presence_penalty and frequency_penalty";

/* Of all APIs: names and notes that change nothing about the answer. */
static const struct field everywhere[] = {
    {"model", FIELD_READ, NULL},
    {"stream", FIELD_READ, NULL},
    {"temperature", FIELD_READ, NULL},
    {"top_p", FIELD_READ, NULL},
    {"top_k", FIELD_READ, NULL},
    {"min_p", FIELD_READ, NULL},
    {"seed", FIELD_READ, NULL},
    {"repeat_penalty", FIELD_READ, NULL},
    {"repeat_last_n", FIELD_READ, NULL},
    {"user", FIELD_IGNORED, NULL},
    {"metadata", FIELD_IGNORED, NULL},
    {"store", FIELD_IGNORED, NULL},
    {"service_tier", FIELD_IGNORED, NULL},
    {"safety_identifier", FIELD_IGNORED, NULL},
    {"prompt_cache_key", FIELD_IGNORED, NULL},
    {"prompt_cache_retention", FIELD_IGNORED, NULL},
    {"cache_prompt", FIELD_IGNORED, NULL},
    {"timings_per_token", FIELD_IGNORED, NULL},
    /* llama.cpp's. What belongs to one that is refused says nothing without it. */
    {"dry_multiplier", FIELD_NEUTRAL, samplers},
    {"dry_base", FIELD_IGNORED, NULL},
    {"dry_allowed_length", FIELD_IGNORED, NULL},
    {"dry_penalty_last_n", FIELD_IGNORED, NULL},
    {"dry_sequence_breakers", FIELD_IGNORED, NULL},
    {"xtc_probability", FIELD_NEUTRAL, samplers},
    {"xtc_threshold", FIELD_IGNORED, NULL},
    {"dynatemp_range", FIELD_NEUTRAL, samplers},
    {"dynatemp_exponent", FIELD_IGNORED, NULL},
    {"mirostat", FIELD_NEUTRAL, samplers},
    {"mirostat_tau", FIELD_IGNORED, NULL},
    {"mirostat_eta", FIELD_IGNORED, NULL},
    {"typical_p", FIELD_NEUTRAL, samplers},
    {"top_n_sigma", FIELD_NEUTRAL, samplers},
    {"samplers", FIELD_NEUTRAL, "their order is fixed (see docs/SERVER.md)"},
    {"min_keep", FIELD_NEUTRAL, NULL},
    {"grammar", FIELD_NEUTRAL, "give a JSON Schema, as for json_schema"},
    {"json_schema", FIELD_NEUTRAL, "give it as response_format (text.format in responses, output_format in messages)"},
    {"n_probs", FIELD_NEUTRAL, "use logprobs and, in chat, top_logprobs"},
    {"post_sampling_probs", FIELD_NEUTRAL, NULL},
    {"ignore_eos", FIELD_NEUTRAL, NULL},
    {"n_indent", FIELD_NEUTRAL, NULL},
    {"t_max_predict_ms", FIELD_NEUTRAL, "use max_tokens"},
    {"lora", FIELD_NEUTRAL, NULL},
    {"return_tokens", FIELD_NEUTRAL, NULL},
    {"response_fields", FIELD_NEUTRAL, NULL},
    {"n_keep", FIELD_IGNORED, NULL},  /* a context that is full ends the answer */
    {"id_slot", FIELD_IGNORED, NULL}, /* answers do not depend on it */
};

/* Whether a number of this parameter changes nothing: 0, if no other is listed. */
static bool is_off(const char *name, double value)
{
    static const struct {
        const char *name;
        double off, too;
    } others[] = {{"best_of", 1, 1}, {"typical_p", 1, 1}, {"top_n_sigma", -1, 0}, {"t_max_predict_ms", -1, 0}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i].name)) return value == others[i].off || value == others[i].too;
    return value == 0;
}

static bool is_neutral(const char *name, const json_t *value)
{
    const bool empty_says = !strcmp(name, "json_schema") || !strcmp(name, "samplers");
    switch (json_typeof(value)) {
    case JSON_NULL: return true;
    case JSON_FALSE: return !empty_says;
    case JSON_INTEGER:
    case JSON_REAL: return is_off(name, json_number_value(value));
    case JSON_STRING: return json_string_length(value) == 0 && !empty_says;
    case JSON_ARRAY: return json_array_size(value) == 0 && !empty_says;
    case JSON_OBJECT: return json_object_size(value) == 0 && !empty_says;
    case JSON_TRUE: break;
    }
    return false;
}

static const struct field *find(const char *name, const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(fields[i].name, name)) return &fields[i];
    return NULL;
}

bool fields_check(const json_t *root, const struct field *fields, size_t n, struct fault *f)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)root, name, value)
    {
        const struct field *row = find(name, fields, n);
        if (!row) row = find(name, everywhere, sizeof everywhere / sizeof *everywhere);
        if (!row) return fault_set(f, 400, name, "unknown parameter: '%.60s'", name);
        if (row->use == FIELD_NEUTRAL && !is_neutral(name, value))
            return fault_set(f, 400, name, "parameter '%s' is not supported%s%s", name, row->why ? ": " : "",
                             row->why ? row->why : "");
    }
    return true;
}

static const json_t *present(const json_t *root, const char *name)
{
    const json_t *v = json_object_get(root, name);
    return v && !json_is_null(v) ? v : NULL;
}

bool read_bool(const json_t *root, const char *name, bool *out, struct fault *f)
{
    const json_t *v = present(root, name);
    if (!v) return true;
    if (!json_is_boolean(v)) return fault_set(f, 400, name, "'%s' must be true or false", name);
    *out = json_is_true(v);
    return true;
}

bool read_number(const json_t *root, const char *name, double min, double max, double *out, struct fault *f)
{
    const json_t *v = present(root, name);
    if (!v) return true;
    if (!json_is_number(v)) return fault_set(f, 400, name, "'%s' must be a number", name);
    const double d = json_number_value(v);
    if (!(d >= min && d <= max)) return fault_set(f, 400, name, "'%s' must be from %g to %g", name, min, max);
    *out = d;
    return true;
}

bool read_integer(const json_t *root, const char *name, int64_t min, int64_t max, int64_t *out, struct fault *f)
{
    const json_t *v = present(root, name);
    if (!v) return true;
    int64_t i = 0;
    if (json_is_integer(v)) {
        i = json_integer_value(v);
    } else if (json_is_real(v) &&
               json_real_value(v) == (double)(int64_t)(json_real_value(v) > -9e15 && json_real_value(v) < 9e15
                                                           ? json_real_value(v)
                                                           : 0)) {
        i = (int64_t)json_real_value(v); /* 10.0 */
    } else {
        return fault_set(f, 400, name, "'%s' must be a whole number", name);
    }
    if (i < min || i > max)
        return fault_set(f, 400, name, "'%s' must be from %lld to %lld", name, (long long)min, (long long)max);
    *out = i;
    return true;
}

bool read_text(const json_t *root, const char *name, const char **out, struct fault *f)
{
    const json_t *v = present(root, name);
    if (!v) return true;
    if (!json_is_string(v)) return fault_set(f, 400, name, "'%s' must be a string", name);
    *out = json_string_value(v);
    return true;
}

bool request_common(struct serve_request *r, const json_t *root, struct fault *f)
{
    const char *model = "";
    struct sluice_sampling *p = &r->sampling;
    double temperature = p->temperature, top_p = p->top_p, min_p = p->min_p, penalty = p->repeat_penalty,
           presence = p->presence_penalty, frequency = p->frequency_penalty;
    int64_t top_k = p->top_k, last = p->repeat_last, seed = -1;
    if (!read_text(root, "model", &model, f) || !read_bool(root, "stream", &r->stream, f) ||
        !read_number(root, "temperature", 0, 100, &temperature, f) || !read_number(root, "top_p", 0, 1, &top_p, f) ||
        !read_number(root, "min_p", 0, 1, &min_p, f) || !read_integer(root, "top_k", -1, 16777216, &top_k, f) ||
        !read_number(root, "repeat_penalty", 0.01, 100, &penalty, f) ||
        !read_integer(root, "repeat_last_n", 0, 16777216, &last, f) ||
        !read_number(root, "presence_penalty", -2, 2, &presence, f) ||
        !read_number(root, "frequency_penalty", -2, 2, &frequency, f) ||
        !read_integer(root, "seed", INT64_MIN, INT64_MAX, &seed, f))
        return false;
    snprintf(r->model, sizeof r->model, "%s", model);
    base_printable(r->model); /* it may be cut within a character */
    p->temperature = (float)temperature;
    p->top_p = (float)top_p;
    p->min_p = (float)min_p;
    p->repeat_penalty = (float)penalty;
    p->presence_penalty = (float)presence;
    p->frequency_penalty = (float)frequency;
    p->top_k = top_k < 0 ? 0 : (uint32_t)top_k;
    p->repeat_last = (uint32_t)last;
    if (present(root, "seed") && seed != -1) p->seed = (uint64_t)seed;
    return true;
}

static bool add_bias(struct serve_request *r, int64_t id, const json_t *by, uint32_t n_vocab, struct fault *f)
{
    static const char name[] = "logit_bias";
    if (id < 0 || id >= n_vocab)
        return fault_set(f, 400, name, "'%s' names a token that the model does not have; ids are 0 to %u", name,
                         n_vocab - 1);
    if (!json_is_number(by) || !(json_number_value(by) >= -100 && json_number_value(by) <= 100))
        return fault_set(f, 400, name, "'%s': the value of token %lld must be a number from -100 to 100", name,
                         (long long)id);
    r->bias[r->sampling.n_bias++] = (struct sluice_bias){(int32_t)id, (float)json_number_value(by)};
    return true;
}

/* A key that is a token id in decimal; -1: it is none. */
static int64_t id_of(const char *key)
{
    const size_t n = strspn(key, "0123456789");
    return n && n <= 10 && !key[n] ? strtoll(key, NULL, 10) : -1;
}

bool request_bias(struct serve_request *r, const json_t *root, uint32_t n_vocab, struct fault *f)
{
    static const char name[] = "logit_bias";
    json_t *v = json_object_get(root, name);
    if (!v || json_is_null(v)) return true;
    const size_t n = json_is_array(v) ? json_array_size(v) : json_object_size(v);
    if (!json_is_array(v) && !json_is_object(v))
        return fault_set(f, 400, name, "'%s' must be an object of token ids and numbers, or a list of such pairs",
                         name);
    if (n > SLUICE_BIAS_MAX)
        return fault_set(f, 400, name, "'%s' has %zu tokens, at most %d are allowed", name, n, SLUICE_BIAS_MAX);
    r->bias = malloc((n + 1) * sizeof *r->bias);
    if (!r->bias) return fault_set(f, 500, NULL, "out of memory");
    r->sampling.bias = r->bias;
    r->sampling.n_bias = 0;
    const char *key;
    json_t *by;
    size_t i;
    json_object_foreach(v, key, by)
    {
        if (id_of(key) < 0) return fault_set(f, 400, name, "'%s': '%.40s' is no token id", name, key);
        if (!add_bias(r, id_of(key), by, n_vocab, f)) return false;
    }
    json_array_foreach(v, i, by)
    {
        const json_t *id = json_array_get(by, 0);
        if (json_array_size(by) != 2 || !json_is_integer(id))
            return fault_set(f, 400, name, "element %zu of '%s' is no pair of a token id and a number", i, name);
        if (!add_bias(r, json_integer_value(id), json_array_get(by, 1), n_vocab, f)) return false;
    }
    return true;
}

static bool add_stop(struct serve_request *r, const json_t *v, const char *name, struct fault *f)
{
    if (!json_is_string(v)) return fault_set(f, 400, name, "'%s' must be a string or a list of strings", name);
    const size_t bytes = json_string_length(v);
    if (bytes == 0) return true;
    if (strlen(json_string_value(v)) != bytes) return fault_set(f, 400, name, "'%s' holds a NUL character", name);
    if (bytes > STOP_BYTES_MAX)
        return fault_set(f, 400, name, "a text of '%s' has %zu bytes, at most %d are allowed", name, bytes,
                         STOP_BYTES_MAX);
    if (r->n_stops == REQUEST_STOPS_MAX)
        return fault_set(f, 400, name, "'%s' has more than %d texts", name, REQUEST_STOPS_MAX);
    r->stops[r->n_stops] = strdup(json_string_value(v));
    if (!r->stops[r->n_stops]) return fault_set(f, 500, NULL, "out of memory");
    r->n_stops++;
    return true;
}

bool request_stops(struct serve_request *r, const json_t *root, const char *name, struct fault *f)
{
    const json_t *v = present(root, name);
    if (!v) return true;
    if (!json_is_array(v)) return add_stop(r, v, name, f);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!add_stop(r, json_array_get(v, i), name, f)) return false;
    return true;
}

bool request_choices(struct serve_request *r, const json_t *root, struct fault *f)
{
    int64_t n = r->n_choices;
    if (!read_integer(root, "n", 1, REQUEST_CHOICES_MAX, &n, f)) return false;
    r->n_choices = (uint32_t)n;
    return true;
}

/* What is not streamed is kept to its end: several answers take no more of it than one may. */
bool request_check_choices(const struct serve_request *r, struct fault *f)
{
    const uint32_t most = REQUEST_PROBS_MAX + 1;
    if (r->stream || !r->probs_wanted || r->n_choices * (r->n_probs + 1) <= most) return true;
    return fault_set(f, 400, "n",
                     "%u answers with %u probabilities a token each are too many (%u in all) without 'stream': true",
                     r->n_choices, r->n_probs + 1, most);
}

bool request_tokens_max(struct serve_request *r, const json_t *root, const char *name, struct fault *f)
{
    int64_t n = -1;
    if (!read_integer(root, name, -1, INT64_MAX, &n, f)) return false;
    if (present(root, name) && n == 0) return fault_set(f, 400, name, "'%s' must be at least 1", name);
    if (n > 0) r->tokens_max = (uint64_t)n;
    return true;
}

bool request_stream_options(struct serve_request *r, const json_t *root, struct fault *f)
{
    const json_t *v = present(root, "stream_options");
    if (!v) return true;
    if (!json_is_object(v)) return fault_set(f, 400, "stream_options", "'stream_options' must be an object");
    return read_bool(v, "include_usage", &r->usage_wanted, f);
}
