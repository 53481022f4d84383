/* sluice inspect: what is in a GGUF file, from its header alone, and whether the engine would run it. */
#include "cli/commands.h"
#include "cli/open.h"
#include "cli/out.h"
#include "gguf/gguf.h"
#include "quant/quant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_ITEMS_SHOWN 8
#define TEXT_BYTES_SHOWN 72
#define LAYERS_MAX 4096

/* Whether Sluice runs it, and why not: the engine's own answer to the same file. */
struct verdict {
    struct sluice_examination is;
    struct sluice_model_info info;
    struct finding {
        const char *code;
        bool stops;
        char message[SLUICE_MESSAGE_BYTES_MAX], hint[SLUICE_HINT_BYTES_MAX];
    } * findings;
    size_t n, room;
    bool no_memory;
};

/* ---- experts ---- */

struct layer_row {
    const struct gguf_tensor *gate, *up, *down, *gate_up;
    uint64_t bytes;
    uint64_t type_bytes[QUANT_IDS + 1];
};

struct summary {
    uint64_t tensor_bytes, elements, expert_tensor_bytes;
    uint64_t type_bytes[QUANT_IDS + 1]; /* the last: types beyond the table */
    uint32_t type_count[QUANT_IDS + 1];
    struct layer_row *layers; /* [n_layers] */
    uint32_t n_layers;
    uint32_t n_expert; /* 0: none */
};

static const char *type_text(uint32_t type, char out[24])
{
    const char *name = quant_type_name(type);
    if (name)
        snprintf(out, 24, "%s", name);
    else
        snprintf(out, 24, "type %" PRIu32, type);
    return out;
}

static size_t type_index(uint32_t type) { return type < QUANT_IDS ? type : QUANT_IDS; }

/* "blk.N.rest": N and rest. */
static bool layer_of(const char *name, uint32_t *layer, const char **rest)
{
    char *end;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return false;
    unsigned long n = strtoul(name + 4, &end, 10);
    if (*end != '.' || n >= LAYERS_MAX) return false;
    *layer = (uint32_t)n;
    *rest = end + 1;
    return true;
}

/* "ffn_up_exps.weight", and "ffn_up.3.weight" of old files. */
static bool is_expert(const char *rest)
{
    static const char *const old[] = {"ffn_gate.", "ffn_up.", "ffn_down."};
    if (strstr(rest, "_exps.")) return true;
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(old[i]);
        if (strncmp(rest, old[i], n) == 0 && rest[n] >= '0' && rest[n] <= '9') return true;
    }
    return false;
}

static void note_tensor(struct summary *s, const struct gguf_tensor *t)
{
    uint32_t layer;
    const char *rest;
    uint64_t elements = t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
    s->tensor_bytes += t->bytes;
    s->elements += elements;
    s->type_bytes[type_index(t->type)] += t->bytes;
    s->type_count[type_index(t->type)]++;
    if (!layer_of(t->name, &layer, &rest)) return;
    struct layer_row *row = &s->layers[layer];
    if (layer >= s->n_layers) s->n_layers = layer + 1;
    row->bytes += t->bytes;
    row->type_bytes[type_index(t->type)] += t->bytes;
    if (is_expert(rest)) s->expert_tensor_bytes += t->bytes;
    if (strcmp(rest, "ffn_gate_exps.weight") == 0) row->gate = t;
    if (strcmp(rest, "ffn_up_exps.weight") == 0) row->up = t;
    if (strcmp(rest, "ffn_down_exps.weight") == 0) row->down = t;
    if (strcmp(rest, "ffn_gate_up_exps.weight") == 0) row->gate_up = t;
    if (row->down && row->down->dims[2] > 1) s->n_expert = (uint32_t)row->down->dims[2];
}

static uint64_t expert_bytes(const struct layer_row *row)
{
    const struct gguf_tensor *parts[] = {row->gate, row->up, row->down, row->gate_up};
    uint64_t bytes = 0;
    for (size_t i = 0; i < 4; i++)
        if (parts[i] && parts[i]->dims[2]) bytes += parts[i]->bytes / parts[i]->dims[2];
    return bytes;
}

/* "F32 12 KiB, Q4_K 30 MiB" */
static void types_of(const uint64_t type_bytes[QUANT_IDS + 1], char *out, size_t bytes)
{
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i <= QUANT_IDS; i++) {
        char name[24], size[24];
        if (!type_bytes[i] || n + 64 > bytes) continue;
        n += (size_t)snprintf(out + n, bytes - n, "%s%s %s", n ? ", " : "",
                              i < QUANT_IDS ? type_text(i, name) : "others", report_bytes((double)type_bytes[i], size));
    }
}

/* ---- the verdict ---- */

static void drop_line(void *user, enum sluice_log_level level, const char *line) {}

/* A file with a fault in each of thousands of layers is not told of more often than this. */
#define FINDINGS_MAX 200

static void keep_finding(void *user, const struct sluice_finding *f)
{
    struct verdict *v = user;
    if (v->n == FINDINGS_MAX) return;
    if (v->n == v->room) {
        size_t room = v->room ? 2 * v->room : 8;
        struct finding *grown = realloc(v->findings, room * sizeof *grown);
        v->no_memory |= !grown;
        if (!grown) return;
        v->findings = grown;
        v->room = room;
    }
    struct finding *k = &v->findings[v->n++];
    k->code = f->code;
    k->stops = f->stops;
    snprintf(k->message, sizeof k->message, "%s", f->message);
    snprintf(k->hint, sizeof k->hint, "%s", f->hint);
}

static enum sluice_status judge(const struct cli_options *o, struct verdict *v, struct sluice_error *err)
{
    struct sluice_options options;
    sluice_engine *engine;
    memset(v, 0, sizeof *v);
    sluice_options_init(&options);
    options.model_path = cli_text(o, OPT_MODEL);
    options.pre = cli_text(o, OPT_PRE);
    options.memory = cli_text(o, OPT_MEMORY);
    options.simulate_used_memory = cli_text(o, OPT_SIMULATE_USED);
    enum sluice_status status = sluice_examine(&options, keep_finding, v, &v->is, err);
    if (!status && v->no_memory) status = base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for what was found");
    if (status || v->is.is_vocabulary || (!v->is.runs && !v->is.could)) return status;
    if (!v->is.runs) options.memory = NULL; /* what the file is does not hang on a number that is refused */
    options.log = drop_line;
    options.plan_only = true;
    if (sluice_engine_open(&options, &engine, NULL)) return SLUICE_OK; /* the machine's memory changes */
    sluice_model_info(engine, &v->info);
    v->info.architecture = v->info.name = v->info.path = v->info.chat_format = NULL; /* they die with the engine */
    v->info.cpu = v->info.io = v->info.policy = v->info.kv_type = NULL;
    sluice_engine_close(engine);
    return SLUICE_OK;
}

static const char *verdict_word(const struct verdict *v)
{
    if (v->is.runs) return "yes";
    if (v->is.is_vocabulary && v->is.could) return "vocabulary only";
    return v->is.could ? "not on this machine" : "no";
}

/* ---- metadata ---- */

/* Names of files, keys and tensors come from outside: a terminal must not obey them. */
static void print_clean(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i], next = i + 1 < bytes ? (unsigned char)text[i + 1] : 0;
        if (c < 0x20 || c == 0x7f)
            out_printf("\\x%02x", c);
        else if (c == 0xc2 && next >= 0x80 && next < 0xa0) /* a control character beyond ASCII */
            out_printf("\\x%02x\\x%02x", c, (unsigned char)text[++i]);
        else
            out_write(&text[i], 1);
    }
}

/* Printable text of at most TEXT_BYTES_SHOWN bytes. */
static void print_string(struct gguf_str s)
{
    size_t n = s.bytes < TEXT_BYTES_SHOWN ? s.bytes : TEXT_BYTES_SHOWN;
    while (n < s.bytes && n > 0 && ((unsigned char)s.at[n] & 0xc0) == 0x80) n--; /* not inside a character */
    out_printf("\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s.at[i];
        if (c == '\n')
            out_printf("\\n");
        else if (c == '"' || c == '\\')
            out_printf("\\%c", c);
        else if (c == 0xc2 && i + 1 < n)
            print_clean(&s.at[i++], 2);
        else
            print_clean(&s.at[i], 1);
    }
    out_printf("\"");
    if (n < s.bytes) out_printf("... (%zu bytes)", s.bytes);
}

static void print_item(const struct gguf_value *v, uint64_t i)
{
    struct gguf_str text;
    bool truth;
    double number;
    int64_t integer;
    uint64_t natural;
    if (v->item_type == GGUF_STRING && gguf_item_str(v, i, &text))
        print_string(text);
    else if (v->item_type == GGUF_BOOL && gguf_item_bool(v, i, &truth))
        out_printf("%s", truth ? "true" : "false");
    else if ((v->item_type == GGUF_F32 || v->item_type == GGUF_F64) && gguf_item_f64(v, i, &number))
        out_printf("%.9g", number);
    else if (gguf_item_u64(v, i, &natural))
        out_printf("%" PRIu64, natural);
    else if (gguf_item_i64(v, i, &integer))
        out_printf("%" PRId64, integer);
    else
        out_printf("?");
}

static void print_metadata(const struct gguf *g)
{
    out_printf("\nmetadata (%zu keys)\n", gguf_n_values(g));
    for (size_t k = 0; k < gguf_n_values(g); k++) {
        const struct gguf_value *v = gguf_value(g, k);
        out_printf("  ");
        print_clean(v->key.at, v->key.bytes);
        out_printf("%*s ", v->key.bytes < 46 ? (int)(46 - v->key.bytes) : 0, "");
        if (v->type != GGUF_ARRAY) {
            print_item(v, 0);
        } else {
            out_printf("%s[%" PRIu64 "] ", gguf_value_type_name(v->item_type), v->n);
            for (uint64_t i = 0; i < v->n && i < ARRAY_ITEMS_SHOWN; i++) {
                if (i) out_printf(", ");
                print_item(v, i);
            }
            if (v->n > ARRAY_ITEMS_SHOWN) out_printf(", ...");
        }
        out_printf("\n");
    }
}

/* ---- the text form ---- */

static void print_tensors(const struct gguf *g)
{
    out_printf("\ntensors (%zu)\n", gguf_n_tensors(g));
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        char type[24], dims[96];
        int n = 0;
        for (uint32_t d = 0; d < t->n_dims && d < GGUF_DIMS_MAX; d++)
            n += snprintf(dims + n, sizeof dims - (size_t)n, "%s%" PRIu64, d ? " x " : "", t->dims[d]);
        size_t name_bytes = strlen(t->name);
        out_printf("  ");
        print_clean(t->name, name_bytes);
        out_printf("%*s %-8s %-24s %12" PRIu64 " bytes at %" PRIu64, name_bytes < 36 ? (int)(36 - name_bytes) : 0, "",
                   type_text(t->type, type), dims, t->bytes, t->offset);
        if (gguf_n_shards(g) > 1) out_printf(" of file %" PRIu32, t->shard + 1);
        out_printf("\n");
    }
}

/* " (gate Q4_K, up Q4_K, down Q6_K)" */
static void print_parts(const struct layer_row *row)
{
    const struct gguf_tensor *parts[] = {row->gate_up, row->gate, row->up, row->down};
    static const char *const names[] = {"gate+up", "gate", "up", "down"};
    const char *before = " (";
    for (size_t i = 0; i < 4; i++) {
        char type[24];
        if (!parts[i]) continue;
        out_printf("%s%s %s", before, names[i], type_text(parts[i]->type, type));
        before = ", ";
    }
    out_printf(")");
}

static uint32_t part_type(const struct gguf_tensor *t) { return t ? t->type : UINT32_MAX; }

/* What is printed of them is the same. */
static bool same_layer(const struct layer_row *a, const struct layer_row *b)
{
    return a->bytes == b->bytes && !memcmp(a->type_bytes, b->type_bytes, sizeof a->type_bytes) &&
           expert_bytes(a) == expert_bytes(b) && part_type(a->gate) == part_type(b->gate) &&
           part_type(a->up) == part_type(b->up) && part_type(a->down) == part_type(b->down) &&
           part_type(a->gate_up) == part_type(b->gate_up);
}

static void print_layers(const struct summary *s)
{
    if (s->n_layers == 0) return;
    out_printf("\nlayers (%" PRIu32 ")\n", s->n_layers);
    for (uint32_t i = 0, last; i < s->n_layers; i = last + 1) {
        const struct layer_row *row = &s->layers[i];
        char types[256], size[24], which[32];
        for (last = i; last + 1 < s->n_layers && same_layer(row, &s->layers[last + 1]);) last++;
        snprintf(which, sizeof which, last > i ? "%" PRIu32 "-%" PRIu32 : "%" PRIu32, i, last);
        types_of(row->type_bytes, types, sizeof types);
        out_printf("  %7s  %10s  %s", which, report_bytes((double)row->bytes, size), types);
        if (last > i) out_printf(" each");
        if (expert_bytes(row)) {
            out_printf("; an expert %s", report_bytes((double)expert_bytes(row), size));
            print_parts(row);
        }
        out_printf("\n");
    }
}

/* What a projector or an adapter says of itself and of the model that it goes with. */
static void print_details(const struct gguf *g)
{
    static const struct {
        const char *key, *before;
    } details[] = {{"clip.projector_type", "projector"},
                   {"clip.vision.projector_type", "vision projector"},
                   {"clip.audio.projector_type", "audio projector"},
                   {"adapter.type", "type"},
                   {"adapter.lora.alpha", "alpha"},
                   {"general.base_model.0.name", "made for"}};
    const enum gguf_kind kind = gguf_kind(g);
    if (kind == GGUF_LANGUAGE_MODEL || kind == GGUF_VOCABULARY) return;
    for (size_t i = 0; i < sizeof details / sizeof *details; i++) {
        const struct gguf_value *v = gguf_find(g, details[i].key);
        if (!v || v->type == GGUF_ARRAY) continue;
        out_printf(", %s ", details[i].before);
        print_item(v, 0);
    }
}

/* Messages may hold names from the file. */
static void print_finding(const char *label, const struct finding *f)
{
    out_printf("%-14s", label);
    print_clean(f->message, strlen(f->message));
    out_printf("\n");
    if (!f->hint[0]) return;
    out_printf("                ");
    print_clean(f->hint, strlen(f->hint));
    out_printf("\n");
}

static void print_verdict(const struct verdict *v)
{
    char size[24];
    out_printf("runs          %s\n", verdict_word(v));
    for (size_t pass = 0; pass < 2; pass++) {
        const char *label = pass ? "note" : "because";
        for (size_t i = 0; i < v->n; i++)
            if (v->findings[i].stops == (pass == 0)) {
                print_finding(label, &v->findings[i]);
                label = "";
            }
    }
    /* A budget that is too small was refused with the number that is not. */
    for (size_t i = 0; i < v->n; i++)
        if (v->findings[i].stops && !strcmp(v->findings[i].code, "memory")) return;
    if (v->is.memory_smallest_bytes)
        out_printf("memory        at least %s, with a margin for the process (--memory %" PRIu64 "M)\n",
                   report_bytes((double)v->is.memory_smallest_bytes, size),
                   (v->is.memory_smallest_bytes + (1 << 20) - 1) >> 20);
}

static void print_summary(const struct gguf *g, const struct summary *s, const struct verdict *v)
{
    struct gguf_str architecture = {"?", 1}, name = {"?", 1};
    char a[24], b[24], types[512];
    uint64_t file_bytes = 0;
    gguf_get_str(g, "general.architecture", false, &architecture, NULL);
    gguf_get_str(g, "general.name", false, &name, NULL);
    for (size_t i = 0; i < gguf_n_shards(g); i++) file_bytes += gguf_shard(g, i)->bytes;
    out_printf("file          ");
    print_clean(gguf_shard(g, 0)->path, strlen(gguf_shard(g, 0)->path));
    if (gguf_n_shards(g) > 1) out_printf(" and %zu more", gguf_n_shards(g) - 1);
    out_printf("\nsize          %s, GGUF version %" PRIu32 "\n", report_bytes((double)file_bytes, a), gguf_version(g));
    out_printf("is            %s", v->is.kind);
    print_details(g);
    out_printf("\nname          ");
    print_string(name);
    out_printf("\narchitecture  ");
    print_string(architecture);
    out_printf("\n");
    print_verdict(v);
    types_of(s->type_bytes, types, sizeof types);
    bool billions = s->elements >= 1000000000u;
    out_printf("parameters    %.2f %s in %zu tensors, %s\n", (double)s->elements / (billions ? 1e9 : 1e6),
               billions ? "billion" : "million", gguf_n_tensors(g), report_bytes((double)s->tensor_bytes, a));
    if (types[0]) out_printf("types         %s\n", types);
    if (v->info.n_expert)
        out_printf("experts       %" PRIu32 " a layer, %" PRIu32 " used; all %s, a token uses %s\n", v->info.n_expert,
                   v->info.n_expert_used, report_bytes((double)v->info.expert_bytes, a),
                   report_bytes((double)v->info.expert_bytes_per_token, b));
    else if (s->n_expert)
        out_printf("experts       %" PRIu32 " a layer; all %s\n", s->n_expert,
                   report_bytes((double)s->expert_tensor_bytes, a));
    if (v->info.dense_bytes) out_printf("dense         %s\n", report_bytes((double)v->info.dense_bytes, a));
}

/* ---- JSON ---- */

static json_t *json_text(struct gguf_str s) { return out_json_text(s.at, s.bytes); }

static json_t *json_item(const struct gguf_value *v, uint64_t i)
{
    struct gguf_str text;
    bool truth;
    double number;
    int64_t integer;
    if (v->item_type == GGUF_STRING && gguf_item_str(v, i, &text)) return json_text(text);
    if (v->item_type == GGUF_BOOL && gguf_item_bool(v, i, &truth)) return json_boolean(truth);
    if ((v->item_type == GGUF_F32 || v->item_type == GGUF_F64) && gguf_item_f64(v, i, &number)) {
        json_t *real = json_real(number);
        return real ? real : json_null(); /* JSON has no infinity */
    }
    return gguf_item_i64(v, i, &integer) ? json_integer(integer) : json_null();
}

/* Long arrays (vocabularies) are given by type and length, with their first items. */
static json_t *json_value(const struct gguf_value *v)
{
    if (v->type != GGUF_ARRAY) return json_item(v, 0);
    json_t *items = json_array();
    uint64_t shown = v->n <= 256 ? v->n : ARRAY_ITEMS_SHOWN;
    for (uint64_t i = 0; i < shown; i++) json_array_append_new(items, json_item(v, i));
    if (shown == v->n) return items;
    return json_pack("{s:s, s:I, s:o}", "array_of", gguf_value_type_name(v->item_type), "n", (json_int_t)v->n, "first",
                     items);
}

static json_t *json_tensors(const struct gguf *g)
{
    json_t *list = json_array();
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        char type[24];
        json_t *dims = json_array();
        for (uint32_t d = 0; d < t->n_dims && d < GGUF_DIMS_MAX; d++)
            json_array_append_new(dims, json_integer((json_int_t)t->dims[d]));
        json_t *name = json_text((struct gguf_str){t->name, strlen(t->name)});
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:I, s:I, s:I}", "name", name, "type",
                                              type_text(t->type, type), "dims", dims, "bytes", (json_int_t)t->bytes,
                                              "offset", (json_int_t)t->offset, "shard", (json_int_t)t->shard));
    }
    return list;
}

static json_t *json_types(const uint64_t type_bytes[QUANT_IDS + 1])
{
    json_t *types = json_object();
    for (uint32_t i = 0; i <= QUANT_IDS; i++) {
        char name[24];
        if (type_bytes[i])
            json_object_set_new(types, i < QUANT_IDS ? type_text(i, name) : "others",
                                json_integer((json_int_t)type_bytes[i]));
    }
    return types;
}

static json_t *json_layers(const struct summary *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_layers; i++)
        json_array_append_new(list, json_pack("{s:I, s:I, s:o, s:I}", "layer", (json_int_t)i, "bytes",
                                              (json_int_t)s->layers[i].bytes, "type_bytes",
                                              json_types(s->layers[i].type_bytes), "bytes_per_expert",
                                              (json_int_t)expert_bytes(&s->layers[i])));
    return list;
}

/* why: the first reason alone, "" if there is none. */
static json_t *json_verdict(const struct verdict *v)
{
    json_t *reasons = json_array(), *notes = json_array();
    const char *why = "";
    for (size_t i = 0; i < v->n; i++) {
        const struct finding *f = &v->findings[i];
        if (f->stops && !why[0]) why = f->message;
        json_array_append_new(f->stops ? reasons : notes, json_pack("{s:s, s:o, s:o}", "code", f->code, "message",
                                                                    out_json_text(f->message, strlen(f->message)),
                                                                    "hint", out_json_text(f->hint, strlen(f->hint))));
    }
    return json_pack("{s:s, s:b, s:s, s:o, s:o, s:o, s:o}", "kind", v->is.kind, "runs", v->is.runs, "verdict",
                     verdict_word(v), "why", out_json_text(why, strlen(why)), "reasons", reasons, "notes", notes,
                     "smallest_memory_bytes",
                     v->is.memory_smallest_bytes ? json_integer((json_int_t)v->is.memory_smallest_bytes) : json_null());
}

static json_t *json_inspect(const struct gguf *g, const struct summary *s, const struct verdict *v)
{
    json_t *shards = json_array(), *metadata = json_object();
    for (size_t i = 0; i < gguf_n_shards(g); i++) {
        const char *path = gguf_shard(g, i)->path;
        json_array_append_new(shards, json_pack("{s:o, s:I}", "path", json_text((struct gguf_str){path, strlen(path)}),
                                                "bytes", (json_int_t)gguf_shard(g, i)->bytes));
    }
    for (size_t i = 0; i < gguf_n_values(g); i++) {
        const struct gguf_value *value = gguf_value(g, i);
        char key[512];
        snprintf(key, sizeof key, "%.*s", (int)(value->key.bytes < 500 ? value->key.bytes : 500), value->key.at);
        json_object_set_new(metadata, key, json_value(value));
    }
    json_t *verdict = json_verdict(v);
    json_t *experts = json_pack(
        "{s:I, s:I, s:I, s:I, s:I}", "per_layer", (json_int_t)(v->info.n_expert ? v->info.n_expert : s->n_expert),
        "used", (json_int_t)v->info.n_expert_used, "bytes",
        (json_int_t)(v->info.expert_bytes ? v->info.expert_bytes : s->expert_tensor_bytes), "bytes_per_token",
        (json_int_t)v->info.expert_bytes_per_token, "dense_bytes", (json_int_t)v->info.dense_bytes);
    return json_pack("{s:I, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "version", (json_int_t)gguf_version(g),
                     "files", shards, "sluice", verdict, "parameters", (json_int_t)s->elements, "tensor_bytes",
                     (json_int_t)s->tensor_bytes, "type_bytes", json_types(s->type_bytes), "experts", experts, "layers",
                     json_layers(s), "metadata", metadata, "tensors", json_tensors(g));
}

static void drop_fault(void *user, enum gguf_fault kind, const struct sluice_error *fault) {}

int command_inspect(const struct cli_options *o)
{
    struct sluice_error err = {0};
    struct verdict v = {0};
    struct gguf *g = NULL;
    /* First: the ledger measures the process as it stands. The engine's examination tells of the faults. */
    enum sluice_status status = judge(o, &v, &err);
    struct summary *s = calloc(1, sizeof *s);
    struct layer_row *layers = calloc(LAYERS_MAX, sizeof *layers);
    if (!status && (!s || !layers)) status = base_fail(&err, SLUICE_ERR_MEMORY, NULL, "no memory for a summary");
    if (!status) status = gguf_open_lenient(os_system(), cli_text(o, OPT_MODEL), drop_fault, NULL, &g, &err);
    if (!status) {
        s->layers = layers;
        for (size_t i = 0; i < gguf_n_tensors(g); i++) note_tensor(s, gguf_tensor(g, i));
        if (cli_flag(o, OPT_JSON)) {
            out_json(json_inspect(g, s, &v));
        } else {
            print_summary(g, s, &v);
            print_layers(s);
            print_metadata(g);
            print_tensors(g);
        }
    }
    gguf_close(g);
    free(v.findings);
    free(layers);
    free(s);
    return status ? report_error(&err) : 0;
}
