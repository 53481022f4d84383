/* Making a tokenizer from metadata, and encoding: special tokens cut the text, each stretch between them is encoded by
 * the model's own method. */
#include "text/private.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX (UINT32_C(1) << 30) /* of one text: positions are 32 bits, and a space may take three bytes */

/* Texts that end an answer, in the formats of many models (llama.cpp's src/llama-vocab.cpp collects them). Those that
 * could be ordinary words of a vocabulary count only if the file gives them a special type. */
static const struct {
    const char *text;
    bool any_type;
} end_texts[] = {
    {"<|eot_id|>", true},
    {"<|im_end|>", true},
    {"<|end|>", true},
    {"<|return|>", true},
    {"<|call|>", true},
    {"<|flush|>", true},
    {"<|calls|>", true},
    {"<end_of_turn>", true},
    {"<|endoftext|>", true},
    {"<|eom_id|>", true},
    {"<|end_of_text|>", true},
    {"<end_of_utterance>", true},
    {"<\xef\xbd\x9c"
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>",
     true},
    {"<|fim_pad|>", true},
    {"<|repo_name|>", true},
    {"<|file_sep|>", true},
    {"</s>", false},
    {"<eos>", false},
    {"<EOT>", false},
    {"_<EOT>", false},
    {"[EOT]", false},
    {"[EOS]", false},
    {"[e~[", false},
    {"<turn|>", false},
    {"<|tool_response>", false},
};

static void add_end(struct text_tokenizer *t, int32_t id)
{
    if (id == TEXT_NO_TOKEN || text_ends_generation(t, id) || t->n_ends == TEXT_ENDS_MAX) return;
    t->ends[t->n_ends++] = id;
}

static void remove_end(struct text_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id) t->ends[i] = t->ends[--t->n_ends];
}

static int32_t find_text(const struct text_tokenizer *t, const char *text)
{
    return text_vocab_find(&t->vocab, text, strlen(text));
}

/* Tokens that end an answer are control tokens whatever the file says: converters have got that wrong. */
static void find_ends(struct text_tokenizer *t, const int32_t *given, size_t n_given)
{
    for (size_t i = 0; i < sizeof end_texts / sizeof *end_texts; i++) {
        int32_t id = find_text(t, end_texts[i].text);
        if (id == TEXT_NO_TOKEN) continue;
        uint8_t type = t->vocab.types[id];
        if (!end_texts[i].any_type && type != TEXT_TOKEN_CONTROL && type != TEXT_TOKEN_USER) continue;
        t->vocab.types[id] = TEXT_TOKEN_CONTROL;
        add_end(t, id);
    }
    /* In the "harmony" formats <|end|> ends one message of an answer that goes on. */
    bool calls = find_text(t, "<|call|>") != TEXT_NO_TOKEN || find_text(t, "<|calls|>") != TEXT_NO_TOKEN;
    bool returns = find_text(t, "<|return|>") != TEXT_NO_TOKEN || find_text(t, "<|flush|>") != TEXT_NO_TOKEN;
    if (calls && returns) remove_end(t, find_text(t, "<|end|>"));
    /* Where a tool's answer has a mark of its own, </s> is text (Gemma 4). */
    if (find_text(t, "<|tool_response>") != TEXT_NO_TOKEN) remove_end(t, find_text(t, "</s>"));
    for (size_t i = 0; i < n_given; i++) add_end(t, given[i]);
}

/* A token id from metadata; out of range (2^32 - 1 is a way to say "none"): as if the key were absent. */
static enum sluice_status read_id(const struct text_tokenizer *t, const struct gguf *g, const char *key,
                                  const struct base_log *log, int32_t *id, struct sluice_error *err)
{
    uint32_t value = UINT32_MAX;
    if (*id != TEXT_NO_TOKEN && (uint32_t)*id >= t->vocab.n) *id = TEXT_NO_TOKEN;
    const struct gguf_value *v = gguf_find(g, key);
    int64_t number;
    if (v && v->n == 1 && gguf_item_i64(v, 0, &number) && number == -1) return SLUICE_OK;
    enum sluice_status status = gguf_get_u32(g, key, false, &value, err);
    if (status != SLUICE_OK || value == UINT32_MAX) return status;
    if (value < t->vocab.n)
        *id = (int32_t)value;
    else
        base_log(log, BASE_LOG_WARN, "'%s' is %u, there are %u tokens; it is ignored", key, value, t->vocab.n);
    return SLUICE_OK;
}

static enum sluice_status read_special_ids(struct text_tokenizer *t, const struct gguf *g, const struct base_log *log,
                                           struct sluice_error *err)
{
    int32_t given[3] = {TEXT_NO_TOKEN, TEXT_NO_TOKEN, TEXT_NO_TOKEN}; /* eos, eot, eom */
    enum sluice_status status = read_id(t, g, "tokenizer.ggml.bos_token_id", log, &t->bos, err);
    if (status == SLUICE_OK) status = read_id(t, g, "tokenizer.ggml.eos_token_id", log, &t->eos, err);
    if (status == SLUICE_OK) status = read_id(t, g, "tokenizer.ggml.unknown_token_id", log, &t->stand_in, err);
    if (status == SLUICE_OK) status = read_id(t, g, "tokenizer.ggml.eot_token_id", log, &given[1], err);
    if (status == SLUICE_OK) status = read_id(t, g, "tokenizer.ggml.eom_token_id", log, &given[2], err);
    if (status == SLUICE_OK) status = gguf_get_bool(g, "tokenizer.ggml.add_bos_token", false, &t->add_bos, err);
    if (status == SLUICE_OK) status = gguf_get_bool(g, "tokenizer.ggml.add_eos_token", false, &t->add_eos, err);
    if (status != SLUICE_OK) return status;
    if (t->add_bos && t->bos == TEXT_NO_TOKEN) {
        base_log(log, BASE_LOG_WARN, "the model asks for a BOS token in front and names none; none is put");
        t->add_bos = false;
    }
    if (t->add_eos && t->eos == TEXT_NO_TOKEN) t->add_eos = false;
    given[0] = t->eos;
    find_ends(t, given, 3);
    return SLUICE_OK;
}

/* asked: the name to use instead of the file's, or NULL; fallback: the one that the kind of tokenizer implies, or NULL.
 */
static enum sluice_status make_bpe(struct text_tokenizer *t, const struct gguf *g, const char *asked,
                                   const char *fallback, const struct base_log *log, struct sluice_error *err)
{
    struct gguf_str pre = {"", 0};
    struct text_split_facts facts;
    enum sluice_status status = gguf_get_str(g, "tokenizer.ggml.pre", false, &pre, err);
    if (asked) {
        pre = (struct gguf_str){asked, strlen(asked)};
    } else if (status != SLUICE_OK) {
        return status;
    } else if (fallback) {
        pre = (struct gguf_str){fallback, strlen(fallback)};
    } else if (pre.bytes == 0) {
        base_log(log, BASE_LOG_WARN,
                 "the file does not name its pre-tokenizer (tokenizer.ggml.pre); 'default' is used and answers may be "
                 "worse: a newer conversion of the model would have it");
        pre = (struct gguf_str){"default", 7};
    }
    status = text_split_create(pre.at, pre.bytes, &t->split, &facts, err);
    if (status != SLUICE_OK) return status;
    t->ignore_merges = facts.ignore_merges;
    t->add_bos = facts.add_bos;
    t->raw = facts.raw_text;
    return text_bpe_init(&t->bpe, &t->vocab, t->raw, g, log, err);
}

static enum sluice_status make_spm(struct text_tokenizer *t, const struct gguf *g, struct sluice_error *err)
{
    t->bos = 1;
    t->eos = 2;
    t->unknown = 0;
    t->add_bos = true;
    t->add_space_prefix = true;
    enum sluice_status status = gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", false, &t->add_space_prefix, err);
    return status == SLUICE_OK ? text_spm_init(&t->spm, &t->vocab, g, err) : status;
}

static bool is_text(struct gguf_str s, const char *text)
{
    return s.bytes == strlen(text) && memcmp(s.at, text, s.bytes) == 0;
}

enum sluice_status text_pre_check(const char *pre, struct sluice_error *err)
{
    char known[SLUICE_MESSAGE_BYTES_MAX - 160];
    if (text_split_known(pre, strlen(pre))) return SLUICE_OK;
    text_split_list(known, sizeof known);
    return base_fail(err, SLUICE_ERR_USAGE, NULL,
                     "'%.64s' is not a pre-tokenizer that is known; known are %s and their aliases", pre, known);
}

static enum sluice_status make(struct text_tokenizer *t, const struct gguf *g, const char *pre,
                               const struct base_log *log, struct sluice_error *err)
{
    struct gguf_str model = {"no_vocab", 8};
    enum sluice_status status = gguf_get_str(g, "tokenizer.ggml.model", false, &model, err);
    if (status != SLUICE_OK) return status;
    bool characters = is_text(model, "gemma4"), bpe = is_text(model, "gpt2") || characters;
    bool none = is_text(model, "no_vocab") || is_text(model, "none");
    if (!bpe && !none && !is_text(model, "llama"))
        return base_fail(err, SLUICE_ERR_MODEL, "known: gpt2, llama, gemma4, no_vocab",
                         "tokenizer.ggml.model is '%.*s', a tokenizer that is not known",
                         model.bytes > 64 ? 64 : (int)model.bytes, model.at);
    if (pre && !bpe)
        return base_fail(err, SLUICE_ERR_USAGE, "leave --pre out",
                         "the model's tokenizer has no pre-tokenizer; --pre has no effect on it");
    if (pre && (status = text_pre_check(pre, err))) return status;
    if (none) return SLUICE_OK;
    status = text_vocab_init(&t->vocab, g, log, err);
    if (status != SLUICE_OK) return status;
    t->model = bpe ? TEXT_MODEL_BPE : TEXT_MODEL_SPM;
    status = bpe ? make_bpe(t, g, pre, characters ? "gemma4" : NULL, log, err) : make_spm(t, g, err);
    if (status == SLUICE_OK) status = read_special_ids(t, g, log, err);
    if (status == SLUICE_OK && characters && !t->add_bos && t->bos != TEXT_NO_TOKEN) {
        base_log(log, BASE_LOG_WARN, "the file says that no BOS token goes in front; Gemma 4 needs it, and it is put");
        t->add_bos = true;
    }
    /* Some byte-level vocabularies call their end-of-text token "unknown": U+FFFD is the better stand-in there. */
    t->stand_in = bpe && status == SLUICE_OK ? text_bpe_replacement(&t->bpe) : TEXT_NO_TOKEN;
    if (t->stand_in == TEXT_NO_TOKEN) t->stand_in = t->unknown;
    if (status == SLUICE_OK) status = text_check_piece_bytes(t, err);
    if (status == SLUICE_OK) status = text_special_init(&t->special, &t->vocab, true, err);
    if (status == SLUICE_OK) status = text_special_init(&t->user, &t->vocab, false, err);
    return status;
}

enum sluice_status text_tokenizer_create(const struct gguf *g, const struct base_log *log, struct text_tokenizer **out,
                                         struct sluice_error *err)
{
    return text_tokenizer_create_as(g, NULL, log, out, err);
}

enum sluice_status text_tokenizer_create_as(const struct gguf *g, const char *pre, const struct base_log *log,
                                            struct text_tokenizer **out, struct sluice_error *err)
{
    struct text_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the tokenizer");
    t->bos = t->eos = t->unknown = t->stand_in = TEXT_NO_TOKEN;
    enum sluice_status status = make(t, g, pre, log, err);
    if (status != SLUICE_OK) {
        text_tokenizer_destroy(t);
        return status;
    }
    *out = t;
    return SLUICE_OK;
}

void text_tokenizer_destroy(struct text_tokenizer *t)
{
    if (!t) return;
    text_special_free(&t->special);
    text_special_free(&t->user);
    text_spm_free(&t->spm);
    text_bpe_free(&t->bpe);
    text_split_destroy(t->split);
    text_vocab_free(&t->vocab);
    free(t);
}

size_t text_n_vocab(const struct text_tokenizer *t) { return t->vocab.n; }
int32_t text_bos(const struct text_tokenizer *t) { return t->bos; }
int32_t text_eos(const struct text_tokenizer *t) { return t->eos; }
bool text_adds_bos(const struct text_tokenizer *t) { return t->add_bos; }
bool text_adds_eos(const struct text_tokenizer *t) { return t->add_eos; }

bool text_ends_generation(const struct text_tokenizer *t, int32_t id)
{
    for (size_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id) return true;
    return false;
}

bool text_is_control(const struct text_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n && t->vocab.types[id] == TEXT_TOKEN_CONTROL;
}

int32_t text_find_special(const struct text_tokenizer *t, const char *text, size_t bytes)
{
    struct text_special_match m = text_special_next(&t->special, text, bytes, 0);
    return m.at == 0 && m.bytes == bytes ? m.id : TEXT_NO_TOKEN;
}

size_t text_tokenizer_memory_bytes(const struct text_tokenizer *t)
{
    return sizeof *t + text_vocab_memory_bytes(&t->vocab) + text_bpe_memory_bytes(&t->bpe) +
           text_spm_memory_bytes(&t->spm) + (t->split ? text_split_memory_bytes(t->split) : 0) +
           ((size_t)t->special.n + t->user.n) * sizeof(int32_t);
}

/* One call of text_encode. Tokens beyond ids_max are counted only. */
struct encoding {
    const struct text_tokenizer *t;
    int32_t *ids;
    size_t ids_max, n;
    struct text_split_work *split;
    struct text_bpe_work bpe;
    struct text_spm_work spm;
    struct text_steps steps;
};

static void put(void *user, int32_t id)
{
    struct encoding *e = user;
    if (e->n < e->ids_max) e->ids[e->n] = id;
    e->n++;
}

static enum sluice_status encode_word(void *user, const char *word, size_t bytes, struct sluice_error *err)
{
    struct encoding *e = user;
    const struct text_tokenizer *t = e->t;
    enum sluice_status status = text_step(&e->steps, err);
    if (status != SLUICE_OK) return status;
    /* Of raw text, line ends are a word and no merges are needed for them. */
    bool try_whole = t->ignore_merges || (t->raw && word[0] == '\n');
    int32_t whole = try_whole ? text_bpe_whole(&t->bpe, word, bytes) : TEXT_NO_TOKEN;
    if (whole != TEXT_NO_TOKEN) {
        put(e, whole);
        return SLUICE_OK;
    }
    size_t n;
    status = text_bpe_word(&t->bpe, &e->bpe, word, bytes, t->stand_in, &e->steps, &n, err);
    if (status != SLUICE_OK) return status;
    for (size_t i = 0; i < n; i++) put(e, e->bpe.ids[i]);
    return SLUICE_OK;
}

/* A stretch without special tokens. `after_special`: it begins the text or follows a special token. */
static enum sluice_status encode_plain(struct encoding *e, const char *text, size_t bytes, bool after_special,
                                       struct sluice_error *err)
{
    const struct text_tokenizer *t = e->t;
    if (bytes == 0) return SLUICE_OK;
    if (t->model == TEXT_MODEL_BPE) return text_split_run(t->split, e->split, text, bytes, encode_word, e, err);
    return text_spm_encode(&t->spm, &e->spm, text, bytes, t->add_space_prefix && after_special, t->stand_in, put, e,
                           &e->steps, err);
}

/* Where the next special token is. `control`: the next one of all kinds outside the plain stretches, kept from call to
 * call. */
struct special_search {
    const struct text_encode_options *options;
    struct text_special_match control;
    size_t next_plain;
};

static bool in_plain(struct special_search *s, const struct text_special_match *m)
{
    const struct text_range *plain = s->options->plain;
    while (s->next_plain < s->options->n_plain && plain[s->next_plain].end <= m->at) s->next_plain++;
    return s->next_plain < s->options->n_plain && plain[s->next_plain].begin < m->at + m->bytes;
}

static struct text_special_match next_special(struct encoding *e, struct special_search *s, const char *text,
                                              size_t bytes, size_t at)
{
    if (!s->options->special) return text_special_next(&e->t->user, text, bytes, at);
    if (s->control.at < at || (at == 0 && s->control.bytes == 0)) {
        s->control = text_special_next(&e->t->special, text, bytes, at);
        while (s->control.id != TEXT_NO_TOKEN && in_plain(s, &s->control))
            s->control = text_special_next(&e->t->special, text, bytes, s->control.at + 1);
    }
    if (!s->options->n_plain) return s->control;
    struct text_special_match user = text_special_next(&e->t->user, text, bytes, at);
    return user.id != TEXT_NO_TOKEN && user.at < s->control.at ? user : s->control;
}

static enum sluice_status encode_all(struct encoding *e, const char *text, size_t bytes,
                                     const struct text_encode_options *options, struct sluice_error *err)
{
    struct special_search search = {.options = options};
    for (size_t at = 0; at < bytes;) {
        struct text_special_match m = next_special(e, &search, text, bytes, at);
        enum sluice_status status = text_step(&e->steps, err);
        if (status == SLUICE_OK) status = encode_plain(e, text + at, m.at - at, true, err);
        if (status != SLUICE_OK) return status;
        if (m.id != TEXT_NO_TOKEN) put(e, m.id);
        at = m.at + (m.id != TEXT_NO_TOKEN ? m.bytes : 0);
    }
    return SLUICE_OK;
}

enum sluice_status text_encode(const struct text_tokenizer *t, const char *text, size_t bytes,
                               const struct text_encode_options *options, int32_t *ids, size_t ids_max, size_t *n,
                               struct sluice_error *err)
{
    *n = 0;
    if (t->model == TEXT_MODEL_NONE)
        return base_fail(err, SLUICE_ERR_MODEL, "give token ids, or use a file that has its tokenizer",
                         "the model file has no tokenizer; it cannot read text");
    if (bytes > TEXT_BYTES_MAX)
        return base_fail(err, SLUICE_ERR_USAGE, "give it in parts", "the text has %zu bytes; the most is %u", bytes,
                         TEXT_BYTES_MAX);
    if (options->force_bos && t->bos == TEXT_NO_TOKEN)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "the model has no BOS token to put in front");
    struct encoding e = {.t = t, .ids = ids, .ids_max = ids ? ids_max : 0, .steps = {.watch = &options->watch}};
    enum sluice_status status = SLUICE_OK;
    if (t->model == TEXT_MODEL_BPE) status = text_split_work_create(&e.split, err);
    if (status == SLUICE_OK) {
        if (options->force_bos || (options->bos && t->add_bos)) put(&e, t->bos);
        status = encode_all(&e, text, bytes, options, err);
    }
    text_split_work_destroy(e.split);
    text_bpe_work_free(&e.bpe);
    text_spm_work_free(&e.spm);
    if (status != SLUICE_OK) return status;
    *n = e.n;
    if (ids && e.n > ids_max)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "the text has %zu tokens, there is room for %zu", e.n, ids_max);
    return SLUICE_OK;
}
