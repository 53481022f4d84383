/* Pre-tokenizers: regular expressions that cut a text into words before byte pairs are merged.
 *
 * A scheme is a list of expressions. The first cuts the text into matches and the gaps between them, the next cuts each
 * of those, and so on; an expression sees one piece at a time. The expressions are facts of the models (their
 * tokenizer.json files, as collected in llama.cpp's src/llama-vocab.cpp); differences here are only in notation:
 *
 * - White space is written out as the Unicode property White_Space, because PCRE2's \s with UCP also takes U+180E.
 * - "\s+$" is written so that it begins only at the beginning of a run of spaces and never gives back: the same
 *   match, without time that grows with the square of the run.
 * - Class intersections (Kimi) are written as complements, which PCRE2 has.
 *
 * Every expression's time is linear in the piece: whatever a long run makes it give back is at most the run itself, and
 * then the run is consumed. */
#include "text/split.h"

#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>
#include <string.h>

#define STAGES_MAX 6

#define SPACE "\\p{Z}\\t-\\r\\x{85}" /* inside a class */
#define SPACES_END "[" SPACE "]*[\\r\\n]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define SHORT_FORMS "'s|'t|'re|'ve|'m|'ll|'d"
#define GPT2 SHORT_FORMS "| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"
#define WORDS "(?i:" SHORT_FORMS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SIGNS "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|"
#define QWEN2 WORDS "\\p{N}" SIGNS SPACES_END
#define LLAMA3 WORDS "\\p{N}{1,3}" SIGNS SPACES_END
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define CASED(upper, lower, tail) \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" tail "|"
#define SIGNS_SLASH "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n/]*|"
#define NOT_HAN(letters) "[^" letters "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"
#define DEEPSEEK_LETTERS                                                                              \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"   \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"             \
    "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"   \
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"   \
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}" \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}"  \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"  \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}" \
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"   \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"            \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"            \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"  \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}" \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"                \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"            \
    "\\x{1E900}-\\x{1E943}"
#define DEEPSEEK_SIGNS "!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}"
#define DEEPSEEK_CJK                                           \
    "["                                                        \
    "\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}" \
    "]+"
#define DEEPSEEK3_CJK                                           \
    "["                                                         \
    "\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}" \
    "]+"

static const struct scheme {
    const char *stages[STAGES_MAX];
} gpt2 = {{GPT2}}, llama3 = {{LLAMA3}}, qwen2 = {{QWEN2}},
  qwen35 = {{"(?i:" SHORT_FORMS ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE
             "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES_END}},
  digits_gpt2 = {{"\\p{N}", GPT2}}, falcon = {{"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
  fallback = {{"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
  gpt4o = {{CASED("[" UPPER "]", "[" LOWER "]", "(?i:" SHORT_FORMS ")?") "\\p{N}{1,3}" SIGNS_SLASH SPACES_END}},
  tekken = {{CASED("[" UPPER "]", "[" LOWER "]", "") "\\p{N}" SIGNS_SLASH SPACES_END}},
  kimi = {{"\\p{Han}+|" CASED(NOT_HAN("\\p{Ll}"), NOT_HAN("\\p{Lu}\\p{Lt}"),
                              "(?i:" SHORT_FORMS ")?") "\\p{N}{1,3}" SIGNS SPACES_END}},
  deepseek_llm = {{"[\\r\\n]", "[" SPACE "]?[" DEEPSEEK_LETTERS "]+", "[" SPACE "]?[" DEEPSEEK_SIGNS "]+",
                   "(?<![" SPACE "])[" SPACE "]++$", DEEPSEEK_CJK, "\\p{N}+"}},
  deepseek_coder = {{"[\\r\\n]", "[" SPACE "]?\\p{L}+", "[" SPACE "]?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
  deepseek3 = {{"\\p{N}{1,3}", DEEPSEEK3_CJK,
                "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
                "?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES_END}},
  bailing = {{"(?i:'(?:[sdmt]|ll|ve|re))|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" SIGNS SPACES_END}},
  seed_coder = {{WORDS "\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACES_END}}, laguna = {{"[^\\n]+|\\n+", QWEN2}},
  minicpm5 = {{"\\p{N}{1,3}", WORDS "\\p{N}+" SIGNS SPACES_END}};

#define WHOLE_WORDS           \
    {                         \
        .ignore_merges = true \
    }
#define WHOLE_WORDS_BOS                        \
    {                                          \
        .ignore_merges = true, .add_bos = true \
    }

static const struct named_scheme {
    const char *name;
    const struct scheme *scheme;
    struct text_split_facts facts;
} names[] = {
    {"default", &fallback, {0}},
    {"gpt-2", &gpt2, {0}},
    {"phi-2", &gpt2, {0}},
    {"gigachat", &gpt2, {0}},
    {"a.x-4.0", &gpt2, {0}},
    {"mellum", &gpt2, {0}},
    {"modern-bert", &gpt2, {0}},
    {"mpt", &gpt2, {0}},
    {"olmo", &gpt2, {0}},
    {"jais", &gpt2, {0}},
    {"trillion", &gpt2, {0}},
    {"exaone4", &gpt2, {0}},
    {"granite-docling", &gpt2, {0}},
    {"llama-bpe", &llama3, WHOLE_WORDS_BOS},
    {"llama3", &llama3, WHOLE_WORDS_BOS},
    {"llama-v3", &llama3, WHOLE_WORDS_BOS},
    {"falcon3", &llama3, WHOLE_WORDS_BOS},
    {"falcon-h1", &llama3, WHOLE_WORDS_BOS},
    {"pixtral", &llama3, WHOLE_WORDS_BOS},
    {"midm-2.0", &llama3, WHOLE_WORDS_BOS},
    {"lfm2", &llama3, WHOLE_WORDS_BOS},
    {"dbrx", &llama3, {0}},
    {"smaug-bpe", &llama3, {0}},
    {"glm4", &llama3, {.no_bos = true}},
    {"chatglm-bpe", &llama3, {.no_bos = true}},
    {"qwen2", &qwen2, {0}},
    {"deepseek-r1-qwen", &qwen2, {0}},
    {"kormo", &qwen2, {0}},
    {"f2llmv2", &qwen2, {0}},
    {"stablelm2", &qwen2, {0}},
    {"megrez", &qwen2, {0}},
    {"hunyuan", &qwen2, {0}},
    {"solar-open", &qwen2, {0}},
    {"grok-2", &qwen2, {0}},
    {"qwen35", &qwen35, {0}},
    {"falcon", &falcon, {0}},
    {"starcoder", &digits_gpt2, {0}},
    {"refact", &digits_gpt2, {0}},
    {"command-r", &digits_gpt2, {0}},
    {"smollm", &digits_gpt2, {0}},
    {"codeshell", &digits_gpt2, {0}},
    {"exaone", &digits_gpt2, {0}},
    {"minerva-7b", &digits_gpt2, {0}},
    {"mellum2", &digits_gpt2, {0}},
    {"gpt-4o", &gpt4o, {0}},
    {"llama4", &gpt4o, {0}},
    {"kanana2", &gpt4o, {0}},
    {"talkie", &gpt4o, {0}},
    {"minimax-m2", &gpt4o, {0}},
    {"tekken", &tekken, WHOLE_WORDS_BOS},
    {"kimi-k2", &kimi, {0}},
    {"deepseek-llm", &deepseek_llm, {0}},
    {"deepseek-coder", &deepseek_coder, {0}},
    {"deepseek-v3", &deepseek3, {0}},
    {"hunyuan-dense", &deepseek3, {0}},
    {"joyai-llm", &deepseek3, {0}},
    {"bailingmoe", &bailing, {0}},
    {"bailingmoe2", &bailing, {0}},
    {"llada-moe", &bailing, {0}},
    {"seed-coder", &seed_coder, {0}},
    {"laguna", &laguna, {0}},
    {"minicpm5", &minicpm5, WHOLE_WORDS},
};

struct text_split {
    pcre2_code *stages[STAGES_MAX];
    size_t n_stages;
};

struct text_split_work {
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    char *repaired; /* the text with its invalid bytes replaced */
    size_t repaired_room;
};

static enum sluice_status compile(const char *pattern, pcre2_code **out, struct sluice_error *err)
{
    int code;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY,
                         &code, &at, NULL);
    if (!*out)
        return base_fail(err, SLUICE_ERR_RUN, "the PCRE2 library lacks Unicode support or is damaged",
                         "PCRE2 refused a pre-tokenizer's expression at offset %zu (error %d)", (size_t)at, code);
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* where it cannot, pcre2_match interprets: slower, the same words */
    return SLUICE_OK;
}

/* An unknown name: the hint has room for the common ones, and says so. */
static enum sluice_status refuse(const char *name, size_t bytes, struct sluice_error *err)
{
    char known[SLUICE_HINT_BYTES_MAX] = "known: ";
    size_t at = strlen(known);
    const struct scheme *last = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i].name);
        if (names[i].scheme == last || at + n + 32 > sizeof known) continue; /* one name a scheme */
        last = names[i].scheme;
        memcpy(known + at, names[i].name, n);
        memcpy(known + at + n, ", ", 3);
        at += n + 2;
    }
    base_fail(err, SLUICE_ERR_MODEL, NULL, "tokenizer.ggml.pre is '%.*s', a pre-tokenizer that is not known",
              bytes > 64 ? 64 : (int)bytes, name);
    base_hint(err, "%sand their aliases", known);
    return SLUICE_ERR_MODEL;
}

enum sluice_status text_split_create(const char *name, size_t name_bytes, struct text_split **out,
                                     struct text_split_facts *facts, struct sluice_error *err)
{
    const struct named_scheme *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        if (strlen(names[i].name) == name_bytes && memcmp(names[i].name, name, name_bytes) == 0) found = &names[i];
    if (!found) return refuse(name, name_bytes, err);
    struct text_split *s = calloc(1, sizeof *s);
    if (!s) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the pre-tokenizer");
    while (s->n_stages < STAGES_MAX && found->scheme->stages[s->n_stages]) {
        enum sluice_status status = compile(found->scheme->stages[s->n_stages], &s->stages[s->n_stages], err);
        if (status != SLUICE_OK) {
            text_split_destroy(s);
            return status;
        }
        s->n_stages++;
    }
    *facts = found->facts;
    *out = s;
    return SLUICE_OK;
}

void text_split_destroy(struct text_split *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->n_stages; i++) pcre2_code_free(s->stages[i]);
    free(s);
}

size_t text_split_memory_bytes(const struct text_split *s)
{
    size_t sum = sizeof *s;
    for (size_t i = 0; i < s->n_stages; i++) {
        size_t code = 0, jit = 0;
        pcre2_pattern_info(s->stages[i], PCRE2_INFO_SIZE, &code);
        pcre2_pattern_info(s->stages[i], PCRE2_INFO_JITSIZE, &jit);
        sum += code + jit;
    }
    return sum;
}

enum sluice_status text_split_work_create(struct text_split_work **out, struct sluice_error *err)
{
    struct text_split_work *w = calloc(1, sizeof *w);
    if (!w) goto fail;
    w->match = pcre2_match_data_create(1, NULL);
    w->context = pcre2_match_context_create(NULL);
    if (!w->match || !w->context) goto fail;
    w->stack = pcre2_jit_stack_create(32 * 1024, 1024 * 1024, NULL); /* NULL where there is no JIT */
    if (w->stack) pcre2_jit_stack_assign(w->context, NULL, w->stack);
    /* The expressions are ours and linear; the limits guard against foreign expressions and would refuse long runs. */
    pcre2_set_match_limit(w->context, UINT32_MAX);
    pcre2_set_depth_limit(w->context, UINT32_MAX);
    *out = w;
    return SLUICE_OK;
fail:
    text_split_work_destroy(w);
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for cutting a text into words");
}

void text_split_work_destroy(struct text_split_work *w)
{
    if (!w) return;
    pcre2_match_data_free(w->match);
    pcre2_match_context_free(w->context);
    pcre2_jit_stack_free(w->stack);
    free(w->repaired);
    free(w);
}

struct run {
    const struct text_split *split;
    struct text_split_work *work;
    const char *text;    /* as given */
    const char *subject; /* of the same length, valid UTF-8 */
    text_word_fn *word;
    void *user;
    struct sluice_error *err;
};

/* Finds the first match in piece[from, bytes). */
static enum sluice_status find(const struct run *r, size_t stage, const char *piece, size_t bytes, size_t from,
                               size_t *begin, size_t *end)
{
    const pcre2_code *code = r->split->stages[stage];
    struct text_split_work *w = r->work;
    int n = pcre2_match(code, (PCRE2_SPTR)piece, bytes, from, PCRE2_NO_UTF_CHECK, w->match, w->context);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(code, (PCRE2_SPTR)piece, bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, w->match, w->context);
    *begin = *end = bytes;
    if (n == PCRE2_ERROR_NOMATCH) return SLUICE_OK;
    if (n < 0)
        return base_fail(r->err, n == PCRE2_ERROR_NOMEMORY ? SLUICE_ERR_MEMORY : SLUICE_ERR_RUN, NULL,
                         "PCRE2 could not cut a text of %zu bytes into words (error %d)", bytes, n);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(w->match);
    *begin = range[0];
    *end = range[1];
    return SLUICE_OK;
}

/* Cuts subject[at, at + bytes) by the stages from `stage` on. The depth is the number of stages. */
static enum sluice_status cut(const struct run *r, size_t stage, size_t at, size_t bytes)
{
    if (bytes == 0) return SLUICE_OK;
    if (stage == r->split->n_stages) return r->word(r->user, r->text + at, bytes, r->err);
    size_t done = 0;
    while (done < bytes) {
        size_t begin, end;
        enum sluice_status status = find(r, stage, r->subject + at, bytes, done, &begin, &end);
        if (status == SLUICE_OK) status = cut(r, stage + 1, at + done, begin - done);
        if (status == SLUICE_OK) status = cut(r, stage + 1, at + begin, end - begin);
        if (status != SLUICE_OK) return status;
        done = end;
    }
    return SLUICE_OK;
}

/* A copy of text in which every byte that is no part of a valid character is the control character SUB. */
static enum sluice_status repair(struct text_split_work *w, const char *text, size_t bytes, struct sluice_error *err)
{
    if (bytes > w->repaired_room) {
        char *grown = realloc(w->repaired, bytes);
        if (!grown) return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for a text of %zu bytes", bytes);
        w->repaired = grown;
        w->repaired_room = bytes;
    }
    memcpy(w->repaired, text, bytes);
    for (size_t at = 0; at < bytes;) {
        at += text_utf8_valid_bytes(text + at, bytes - at);
        if (at < bytes) w->repaired[at++] = 0x1a;
    }
    return SLUICE_OK;
}

enum sluice_status text_split_run(const struct text_split *s, struct text_split_work *w, const char *text, size_t bytes,
                                  text_word_fn *word, void *user, struct sluice_error *err)
{
    struct run r = {.split = s, .work = w, .text = text, .subject = text, .word = word, .user = user, .err = err};
    if (text_utf8_valid_bytes(text, bytes) < bytes) {
        enum sluice_status status = repair(w, text, bytes, err);
        if (status != SLUICE_OK) return status;
        r.subject = w->repaired;
    }
    return cut(&r, 0, 0, bytes);
}
