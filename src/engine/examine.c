/* Everything that keeps a file from running. Each part of opening is tried for itself, on a directory that was read
 * leniently; if none of them has a reason, what counts is how the model was opened as far as its plan, which knows the
 * machine. */
#include "engine/engine.h"
#include "quant/quant.h"
#include "text/jinja.h"
#include "text/split.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_BYTES 360 /* of tensors, in one finding */
#define TYPES_MAX 16    /* different types without kernels, told of one by one */

#define NOTES_MAX 16 /* lines of warning while it was opened */
#define OTHERS_MAX 3 /* faults of tensors that are neither missing nor misshapen */

struct examiner {
    const struct gguf *g;
    sluice_finding_fn *each;
    void *user;
    size_t n_stops;
    bool shards;  /* some are missing */
    bool later;   /* it is one itself, and not the first: nothing of the model can be seen in it */
    bool machine; /* only the machine, its memory or an option stands in the way */
    /* tensors */
    size_t n_missing, n_misshapen, n_other;
    char missing[NAMES_BYTES], misshapen[NAMES_BYTES];
};

static void find(struct examiner *x, const char *code, bool stops, const char *message, const char *hint)
{
    const struct sluice_finding f = {.code = code, .stops = stops, .message = message, .hint = hint};
    x->n_stops += stops;
    x->each(x->user, &f);
}

static void find_error(struct examiner *x, const char *code, const struct sluice_error *e)
{
    find(x, code, true, e->message, e->hint);
}

static void file_fault(void *user, enum gguf_fault kind, const struct sluice_error *fault)
{
    static const char *const codes[] = {"truncated", "shards", "layout", "shards"};
    struct examiner *x = user;
    x->shards |= kind == GGUF_FAULT_SHARD;
    x->later |= kind == GGUF_FAULT_LATER;
    find_error(x, codes[kind], fault);
}

/* A type that nothing computes with. Plain integers and F64 are not among them: whether one matters is for the
 * architecture to say. */
static bool is_told_type(const struct gguf_tensor *t)
{
    uint32_t len = 0, bytes;
    return t && !quant_type(t->type) && !(quant_type_shape(t->type, &len, &bytes) && len == 1);
}

/* "12 tensors have type IQ4_KS, ...": of each such type. */
static void check_types(struct examiner *x)
{
    const struct gguf *g = x->g;
    uint32_t seen[TYPES_MAX];
    size_t n_seen = 0;
    for (size_t i = 0; i < gguf_n_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        size_t k = 0, n = 0;
        if (!is_told_type(t)) continue;
        while (k < n_seen && seen[k] != t->type) k++;
        if (k < n_seen || n_seen == TYPES_MAX) continue;
        seen[n_seen++] = t->type;
        for (size_t j = i; j < gguf_n_tensors(g); j++) n += gguf_tensor(g, j)->type == t->type;
        struct sluice_error why;
        const char *name = quant_type_name(t->type);
        base_fail(&why, SLUICE_ERR_MODEL,
                  t->type >= 97 && name ? "the format is ik_llama.cpp's own: download a file quantised for mainline "
                                          "llama.cpp"
                                        : "download a file with another quantisation",
                  "%zu tensor%s type %s (%" PRIu32 "), which Sluice cannot compute with; the first is '%s'", n,
                  n == 1 ? " has" : "s have", name ? name : "without a known name", t->type, t->name);
        find_error(x, "tensor-type", &why);
    }
}

/* A second look, with a name that is known, tells whether the pre-tokenizer is all that is wrong. */
static void check_tokenizer(struct examiner *x, const char *pre)
{
    const struct gguf *g = x->g;
    struct sluice_error why;
    struct text_tokenizer *t = NULL;
    struct gguf_str named = {"", 0};
    enum sluice_status st = text_tokenizer_create_as(g, pre, NULL, &t, &why);
    text_tokenizer_destroy(t);
    if (!st) return;
    if (gguf_get_str(g, "tokenizer.ggml.pre", false, &named, NULL)) named = (struct gguf_str){"", 0};
    const bool by_name = st == SLUICE_ERR_MODEL && !pre && named.bytes && !text_split_known(named.at, named.bytes);
    x->machine |= st == SLUICE_ERR_USAGE;
    find_error(x, st == SLUICE_ERR_USAGE ? "option" : by_name ? "pre-tokenizer" : "tokenizer", &why);
    if (!by_name) return;
    t = NULL;
    if (text_tokenizer_create_as(g, "gpt-2", NULL, &t, &why) == SLUICE_ERR_MODEL) find_error(x, "tokenizer", &why);
    text_tokenizer_destroy(t);
}

static void check_template(struct examiner *x)
{
    const struct gguf *g = x->g;
    struct sluice_error why;
    struct gguf_str text = {"", 0};
    struct jinja_template *t = NULL;
    bool exact;
    char message[SLUICE_MESSAGE_BYTES_MAX];
    struct gguf_str model = {"none", 4};
    if (gguf_get_str(g, "tokenizer.ggml.model", false, &model, NULL)) return; /* has been told of */
    if ((model.bytes == 4 && !memcmp(model.at, "none", 4)) || (model.bytes == 8 && !memcmp(model.at, "no_vocab", 8))) {
        find(x, "note", false, "the file has no tokenizer: it is given token ids, not text", "");
        return;
    }
    if (gguf_get_str(g, "tokenizer.chat_template", false, &text, NULL)) text = (struct gguf_str){"", 0};
    const char *format = text_chat_name(text_chat_detect(text.bytes ? text.at : NULL, text.bytes, &exact));
    if (!text.bytes) {
        snprintf(message, sizeof message, "the file has no chat template; conversations are written in the format '%s'",
                 format);
        find(x, "chat-template", false, message, "");
    } else if (jinja_parse("chat template", text.at, text.bytes, &t, &why)) {
        snprintf(message, sizeof message, "the file's chat template is not used: %.400s; the format '%s' stands for it",
                 why.message, format);
        find(x, "chat-template", false, message, "");
    }
    jinja_destroy(t);
}

static void remember(char names[NAMES_BYTES], const char *name)
{
    const size_t at = strlen(names), n = strlen(name);
    if (at + n + 8 < NAMES_BYTES)
        snprintf(names + at, NAMES_BYTES - at, "%s%s", at ? ", " : "", name);
    else if (at && names[at - 1] != '.')
        snprintf(names + at, NAMES_BYTES - at, ", ...");
}

static void model_fault(void *user, enum model_fault kind, const char *name, const char *text, const char *hint)
{
    struct examiner *x = user;
    switch (kind) {
    case MODEL_FAULT_ARCH: find(x, "architecture", true, text, hint); break;
    case MODEL_FAULT_KEYS: find(x, "keys", true, text, hint); break;
    case MODEL_FAULT_MISSING:
        if (x->shards) break; /* they may lie in what is missing */
        x->n_missing++;
        remember(x->missing, name ? name : text);
        break;
    case MODEL_FAULT_SHAPE:
        x->n_misshapen++;
        remember(x->misshapen, text);
        break;
    case MODEL_FAULT_TYPE:
        if (name && is_told_type(gguf_find_tensor(x->g, name))) break;
        /* fall through */
    case MODEL_FAULT_OTHER:
        if (x->n_other++ < OTHERS_MAX) find(x, "tensors", true, text, hint);
        break;
    }
}

static void find_tensors(struct examiner *x, size_t n, const char *what, const char *names)
{
    static const char hint[] = "the file is incomplete, or made for another version of the format";
    char message[SLUICE_MESSAGE_BYTES_MAX];
    if (!n) return;
    snprintf(message, sizeof message, "%zu tensor%s %s: %s", n, n == 1 ? "" : "s", what, names);
    find(x, "tensors", true, message, hint);
}

static enum sluice_status check_model(struct examiner *x, struct sluice_error *err)
{
    enum sluice_status st = model_examine(x->g, model_fault, x, err);
    find_tensors(x, x->n_missing, x->n_missing == 1 ? "is missing" : "are missing", x->missing);
    find_tensors(x, x->n_misshapen, x->n_misshapen == 1 ? "has another shape" : "have other shapes", x->misshapen);
    if (x->n_other > OTHERS_MAX) {
        char message[80];
        snprintf(message, sizeof message, "and %zu more like these", x->n_other - OTHERS_MAX);
        find(x, "tensors", true, message, "");
    }
    return st;
}

/* What the machine says, told once the file turns out to be fine. It is asked first: the process row of its plan is
 * then that of a command that runs the model, without what looking at the file leaves in memory. */
struct machine {
    enum sluice_status status;
    struct sluice_error why;
    uint64_t smallest_bytes;
    char *notes[NOTES_MAX];
    size_t n_notes;
};

static void keep_note(void *user, enum sluice_log_level level, const char *line)
{
    struct machine *m = user;
    if (level == SLUICE_LOG_WARN && m->n_notes < NOTES_MAX && (m->notes[m->n_notes] = strdup(line))) m->n_notes++;
}

static void machine_free(struct machine *m)
{
    for (size_t i = 0; i < m->n_notes; i++) free(m->notes[i]);
    *m = (struct machine){0};
}

static void machine_ask(struct machine *m, const struct sluice_options *o, bool vocab_only)
{
    struct sluice_options options = *o;
    sluice_engine *e;
    machine_free(m);
    options.log = keep_note;
    options.progress = NULL;
    options.user = m;
    options.plan_only = !vocab_only;
    options.vocab_only = vocab_only;
    m->status = engine_try(os_system(), &options, &e, &m->why);
    if (e) m->smallest_bytes = e->plan.smallest_bytes;
    sluice_engine_close(e);
}

static void machine_tell(struct examiner *x, const struct machine *m, struct sluice_examination *out)
{
    out->memory_smallest_bytes = m->smallest_bytes;
    for (size_t i = 0; i < m->n_notes; i++) find(x, "note", false, m->notes[i], "");
    if (!m->status) return;
    x->machine = m->status != SLUICE_ERR_MODEL && m->status != SLUICE_ERR_IO;
    find_error(x,
               m->status == SLUICE_ERR_MEMORY     ? "memory"
               : m->status == SLUICE_ERR_HARDWARE ? "hardware"
               : m->status == SLUICE_ERR_USAGE    ? "option"
               : m->status == SLUICE_ERR_IO       ? "io"
                                                  : "model",
               &m->why);
}

static enum sluice_status examine(struct examiner *x, const struct sluice_options *o, struct machine *m,
                                  struct sluice_examination *out, struct sluice_error *err)
{
    struct sluice_error why;
    const enum gguf_kind kind = gguf_kind(x->g);
    const bool whole = x->n_stops == 0;
    out->kind = x->later ? "a part of a split model" : gguf_kind_text(kind);
    if (x->later) return SLUICE_OK;
    out->is_vocabulary = kind == GGUF_VOCABULARY;
    if (gguf_check_language_model(x->g, true, &why)) {
        find_error(x, "kind", &why);
        return SLUICE_OK;
    }
    enum sluice_status st = SLUICE_OK;
    if (!out->is_vocabulary) {
        check_types(x);
        st = check_model(x, err);
    }
    check_tokenizer(x, o->pre);
    if (!out->is_vocabulary) check_template(x);
    if (st || !whole || x->n_stops) return st;
    if (out->is_vocabulary) machine_ask(m, o, true);
    machine_tell(x, m, out);
    return SLUICE_OK;
}

/* Mistakes in the options are the caller's, whatever the file is. */
static enum sluice_status check_options(const struct sluice_options *o, struct sluice_error *err)
{
    sluice_engine *e = calloc(1, sizeof *e);
    if (!e) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for an engine");
    enum sluice_status st = engine_parse_options(o, e, err);
    sluice_engine_close(e);
    return !st && o->pre ? text_pre_check(o->pre, err) : st;
}

enum sluice_status sluice_examine_sized(const struct sluice_options *o, sluice_finding_fn *each, void *user,
                                        struct sluice_examination *out, size_t bytes, struct sluice_error *err)
{
    struct examiner x = {.each = each, .user = user};
    struct sluice_examination full = {0};
    struct machine machine = {0};
    struct gguf *g = NULL;
    struct sluice_options options;
    memset(out, 0, bytes);
    sluice_options_init(&options);
    if (o->struct_bytes < offsetof(struct sluice_options, memory) || o->struct_bytes > 4096 || !o->model_path)
        return base_fail(err, SLUICE_ERR_USAGE, "begin with sluice_options_init, and name a file",
                         "no model file is given");
    memcpy(&options, o, o->struct_bytes < sizeof options ? o->struct_bytes : sizeof options);
    enum sluice_status st = check_options(&options, err);
    if (st) return st;
    machine_ask(&machine, &options, false);
    st = gguf_open_lenient(os_system(), options.model_path, file_fault, &x, &g, err);
    x.g = g;
    if (!st) st = examine(&x, &options, &machine, &full, err);
    machine_free(&machine);
    if (!g) return st;
    gguf_close(g);
    full.runs = !st && !x.n_stops && !full.is_vocabulary;
    full.could = !st && (!x.n_stops || (x.machine && x.n_stops == 1));
    memcpy(out, &full, bytes < sizeof full ? bytes : sizeof full);
    return st;
}
