/* Pre-tokenizers: regular expressions that cut a text into words before byte pairs are merged.
 *
 * The expressions are facts of the models (their tokenizer.json files, as collected in llama.cpp's
 * src/llama-vocab.cpp); differences here are only in notation:
 *
 * - White space is written out as the Unicode property White_Space, because PCRE2's \s with UCP also takes U+180E.
 * - "\s+$" is written so that it begins only at the beginning of a run of spaces and never gives back: the same
 *   match, without time that grows with the square of the run.
 * - Class intersections (Kimi) are written as complements, which PCRE2 has.
 * - Han is the script of a character itself; PCRE2 from 10.40 on takes \p{Han} for the scripts that it is used with,
 *   among them the punctuation of Chinese texts.
 * - Digits in groups of three from the right are a bit of the scheme: as expressions they look at the rest of the run
 *   from every digit, which takes time that grows with its square.
 *
 * Every expression's time is linear in the piece: whatever a long run makes it give back is at most the run itself, and
 * then the run is consumed. Where the models' own tokenizers and llama.cpp cut differently (it has no cases of letters
 * beyond ASCII, for one), the former count; tests/golden/pre/ lists the texts. */
#include "text/split_table.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#if PCRE2_MAJOR > 10 || (PCRE2_MAJOR == 10 && PCRE2_MINOR >= 40)
#define HAN "\\p{sc:Han}"
#else
#define HAN "\\p{Han}"
#endif
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
#define NOT_HAN(letters) "[^" letters "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}" HAN "]"
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

#define DEEPSEEK3_WORDS \
    "[!-/:-@\\[-`{-~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES_END
#define GPT4O CASED("[" UPPER "]", "[" LOWER "]", "(?i:" SHORT_FORMS ")?") "\\p{N}{1,3}" SIGNS_SLASH SPACES_END
#define BLOOM " ?[^(" SPACE "|.,!?)\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C}]+"
/* Of Youtu's tokenizer: Hangul, full-width signs, Bopomofo, Han and kana. */
#define YOUTU_SCRIPTS                                                                                            \
    "[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{2014}" \
    "\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+|"                \
    "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{30FF}]+"

static const struct split_scheme
    gpt2 = {.stages = {GPT2}},
    llama3 = {.stages = {LLAMA3}}, qwen2 = {.stages = {QWEN2}},
    qwen35 = {.stages = {"(?i:" SHORT_FORMS ")|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^" SPACE
                         "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES_END}},
    digits_gpt2 = {.stages = {"\\p{N}", GPT2}}, falcon = {.stages = {"[\\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"}},
    fallback = {.stages = {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}}, gpt4o = {.stages = {GPT4O}},
    tekken = {.stages = {CASED("[" UPPER "]", "[" LOWER "]", "") "\\p{N}" SIGNS_SLASH SPACES_END}},
    kimi = {.stages = {HAN "+|" CASED(NOT_HAN("\\p{Ll}"), NOT_HAN("\\p{Lu}\\p{Lt}"),
                                      "(?i:" SHORT_FORMS ")?") "\\p{N}{1,3}" SIGNS SPACES_END}},
    deepseek_llm = {.stages = {"[\\r\\n]", "[" SPACE "]?[" DEEPSEEK_LETTERS "]+", "[" SPACE "]?[" DEEPSEEK_SIGNS "]+",
                               "(?<![" SPACE "])[" SPACE "]++$", DEEPSEEK_CJK, "\\p{N}+"}},
    deepseek_coder = {.stages = {"[\\r\\n]", "[" SPACE "]?\\p{L}+", "[" SPACE "]?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}},
    deepseek3 = {.stages = {"\\p{N}{1,3}", DEEPSEEK3_CJK, DEEPSEEK3_WORDS}},
    bailing = {.stages = {"(?i:'(?:[sdmt]|ll|ve|re))|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" SIGNS SPACES_END}},
    seed_coder = {.stages = {WORDS "\\p{N}| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACES_END}},
    laguna = {.stages = {"[^\\n]+|\\n+", QWEN2}},
    minicpm5 = {.stages = {"\\p{N}{1,3}", WORDS "\\p{N}+" SIGNS SPACES_END}},
    youtu = {.stages = {YOUTU_SCRIPTS,
                        CASED("[" UPPER "]", "[" LOWER "]", "(?i:" SHORT_FORMS ")?") "\\p{N}" SIGNS_SLASH SPACES_END}},
    bloom = {.stages = {BLOOM}}, viking = {.stages = {BLOOM, "\\p{N}"}},
    /* Words joined by single spaces are one: the vocabulary has tokens of several words. */
    exaone_moe = {.stages = {"(?i:" SHORT_FORMS
                             ")|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}| ?[^" SPACE
                             "\\p{L}\\p{N}]+[\\r\\n/]?|" SPACES_END}},
    tiny_aya = {.stages = {"(?<!\\p{Nd})\\p{Nd}++(?![\\p{L}\\p{N}\\p{M}\\p{Pc}])", GPT4O}, .threes = 1},
    lines = {.stages = {"[^\\n]+|\\n+"}};

#define WHOLE_WORDS           \
    {                         \
        .ignore_merges = true \
    }
#define WHOLE_WORDS_BOS                        \
    {                                          \
        .ignore_merges = true, .add_bos = true \
    }
#define RAW              \
    {                    \
        .raw_text = true \
    }
/* In the order of schemes: a list of what is known gives the first name of each. */
const struct split_name split_names[] = {
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
    {"joyai-llm", &deepseek3, {0}}, /* also of DeepSeek V4's files */
    {"deepseek-v4", &deepseek3, {0}},
    {"deepseek-v3.1", &deepseek3, {0}},
    {"bailingmoe", &bailing, {0}},
    {"bailingmoe2", &bailing, {0}},
    {"llada-moe", &bailing, {0}},
    {"seed-coder", &seed_coder, {0}},
    {"laguna", &laguna, {0}},
    {"minicpm5", &minicpm5, WHOLE_WORDS},
    {"youtu", &youtu, WHOLE_WORDS},
    {"bloom", &bloom, {0}},
    {"poro-chat", &bloom, {0}},
    {"gpt3-finnish", &bloom, {0}},
    {"viking", &viking, {0}},
    {"exaone-moe", &exaone_moe, {0}},
    {"tiny_aya", &tiny_aya, {0}},
    {"cohere2moe", &tiny_aya, {0}},
    {"gemma4", &lines, RAW},
    {"sarvam-moe", &lines, RAW},
};
const size_t split_n_names = sizeof split_names / sizeof *split_names;
