/* The option table and its parser: every row is exercised by what it says of itself. */
#include "cli/elsewhere.h"
#include "cli/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char *no_env(const char *name) { return NULL; }

/* A settable environment of one variable. */
static char env_name[64], env_value[64];
static char *one_env(const char *name) { return strcmp(name, env_name) == 0 ? env_value : NULL; }

static struct cli_options options;
static struct sluice_error error;

static enum sluice_status parse_with(char *(*env)(const char *), const char *const *words)
{
    char *argv[40] = {(char *)(uintptr_t) "sluice"};
    int argc = 1;
    for (; words[argc - 1]; argc++) argv[argc] = (char *)(uintptr_t)words[argc - 1];
    memset(&error, 0, sizeof error);
    return cli_parse(argc, argv, env, &options, &error);
}

#define PARSE(...) parse_with(no_env, (const char *const[]){__VA_ARGS__, NULL})

static enum cli_command first_command(const struct cli_option_row *row)
{
    for (unsigned i = 0; i < CLI_COMMANDS; i++)
        if (cli_takes((enum cli_command)i, row->id)) return (enum cli_command)i;
    fail_msg("--%s belongs to no command", row->name);
    return CLI_COMMANDS;
}

/* What a command cannot do without, leaving out the option under test. Returns the number of words. */
static size_t needed_words(enum cli_command command, enum cli_option except, const char **words)
{
    size_t n = 0;
    words[n++] = cli_command_rows[command].name;
    if (cli_takes(command, OPT_MODEL) && except != OPT_MODEL) words[n++] = "--model=m";
    if (command == CLI_LOGITS && except != OPT_TOKENS) words[n++] = "--tokens=t";
    if (command == CLI_LOGITS && except != OPT_OUT) words[n++] = "--out=o";
    if (command == CLI_QUANTIZE) {
        words[n++] = "in";
        words[n++] = "out";
        if (except != OPT_TYPE) words[n++] = "--type=Q8_0";
    }
    if (command == CLI_REPLAY) words[n++] = "trace";
    if (command == CLI_PACK) {
        words[n++] = "in";
        words[n++] = "out";
    }
    if (except == OPT_REPEAT_LAST) words[n++] = "--repeat-penalty=1.1";
    if (command == CLI_RUN && (except == OPT_SYSTEM || except == OPT_CHAT_TEMPLATE)) words[n++] = "--chat";
    if (command == CLI_PLAN && (except == OPT_SESSIONS || except == OPT_MAX_BODY)) words[n++] = "--serve";
    if (except == OPT_LOCK_MARGIN) words[n++] = "--lock=all";
    if (except == OPT_PREFIX_MEMORY || except == OPT_KV_LIMIT) words[n++] = "--kv-dir=d";
    if (except == OPT_WARM_EXPERTS) words[n++] = "--hotlist=h";
    return n;
}

/* A value that the row allows; none for a flag. */
static const char *good_value(const struct cli_option_row *row)
{
    if (row->id == OPT_LOGIT_BIAS) return "7=-1.5";
    static char text[64];
    switch (row->kind) {
    case CLI_FLAG: return NULL;
    case CLI_CHOICE: snprintf(text, sizeof text, "%.*s", (int)strcspn(row->choices, "|"), row->choices); return text;
    case CLI_INTEGER:
    case CLI_NUMBER:
    case CLI_COUNTS: snprintf(text, sizeof text, "%.10g", row->max); return text;
    case CLI_SEED: return "18446744073709551615";
    default: return "words";
    }
}

/* The command has a use for an option of that name, of this row or another. */
static bool takes_name(enum cli_command command, const char *name)
{
    for (unsigned i = 0; i < OPT_COUNT; i++)
        if (strcmp(cli_option_rows[i].name, name) == 0 && cli_takes(command, (enum cli_option)i)) return true;
    return false;
}

static void rows_are_in_order_and_letters_unique(void **state)
{
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *row = &cli_option_rows[i];
        assert_int_equal(row->id, i);
        assert_true(row->commands != 0);
        assert_true(row->help[0]);
        assert_true((row->kind == CLI_FLAG) == (row->value_name == NULL));
        for (unsigned j = 0; j < i; j++) {
            if (strcmp(row->name, cli_option_rows[j].name) == 0)
                assert_int_equal(row->commands & cli_option_rows[j].commands, 0);
            if (row->letter && row->letter == cli_option_rows[j].letter)
                assert_int_equal(row->commands & cli_option_rows[j].commands, 0);
        }
    }
}

static void every_option_is_taken_in_each_spelling(void **state)
{
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *row = &cli_option_rows[i];
        for (unsigned c = 0; c < CLI_COMMANDS; c++) {
            const char *value = good_value(row), *words[12] = {0};
            char equals[96], dashed[96], attached[96], letter[3] = {'-', row->letter, 0};
            if (!cli_takes((enum cli_command)c, row->id)) continue;
            size_t n = needed_words((enum cli_command)c, row->id, words);
            snprintf(dashed, sizeof dashed, "--%s", row->name);
            snprintf(equals, sizeof equals, "--%s%s%s", row->name, value ? "=" : "", value ? value : "");
            snprintf(attached, sizeof attached, "-%c%s", row->letter, value ? value : "");
            const char *const spellings[4][2] = {{equals, NULL},
                                                 {dashed, value},
                                                 {row->letter ? letter : equals, row->letter ? value : NULL},
                                                 {row->letter ? attached : equals, NULL}};
            for (size_t s = 0; s < 4; s++) {
                words[n] = spellings[s][0];
                words[n + 1] = spellings[s][1];
                if (parse_with(no_env, words) != SLUICE_OK) fail_msg("%s %s: %s", words[0], words[n], error.message);
                assert_true(cli_given(&options, row->id));
                if (value) assert_string_equal(cli_text(&options, row->id), value);
                if (row->kind == CLI_FLAG) assert_true(cli_flag(&options, row->id));
                if (row->kind == CLI_INTEGER) assert_true((double)cli_integer(&options, row->id) == row->max);
                if (row->kind == CLI_NUMBER) assert_true(cli_number(&options, row->id) == row->max);
            }
        }
    }
}

static void every_option_is_refused_where_it_has_no_use(void **state)
{
    for (unsigned i = 0; i < OPT_COUNT; i++)
        for (unsigned c = 0; c < CLI_COMMANDS; c++) {
            const struct cli_option_row *row = &cli_option_rows[i];
            const char *words[12] = {0};
            char dashed[96];
            if (takes_name((enum cli_command)c, row->name)) continue;
            size_t n = needed_words((enum cli_command)c, OPT_COUNT, words);
            snprintf(dashed, sizeof dashed, "--%s", row->name);
            words[n] = dashed;
            words[n + 1] = good_value(row);
            assert_int_equal(parse_with(no_env, words), SLUICE_ERR_USAGE);
            assert_non_null(strstr(error.message, row->name));
            /* The model has a place of its own where it is no option. */
            const char *way = row->id == OPT_MODEL ? "here: sluice" : cli_command_rows[first_command(row)].name;
            assert_non_null(strstr(error.hint, way));
        }
}

static void every_range_is_checked(void **state)
{
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *row = &cli_option_rows[i];
        char text[6][96];
        size_t n_bad = 0;
        if (row->kind != CLI_INTEGER && row->kind != CLI_NUMBER && row->kind != CLI_COUNTS && row->kind != CLI_CHOICE &&
            row->kind != CLI_SEED && row->kind != CLI_PATH)
            continue;
        snprintf(text[n_bad++], 96, "--%s=", row->name);
        if (row->kind != CLI_PATH) {
            snprintf(text[n_bad++], 96, "--%s=x", row->name);
            if (row->min >= 0) snprintf(text[n_bad++], 96, "--%s=-1", row->name);
            snprintf(text[n_bad++], 96, "--%s=1x", row->name);
            snprintf(text[n_bad++], 96, "--%s=99999999999999999999", row->name);
        }
        if (row->min > 0) snprintf(text[n_bad++], 96, "--%s=0", row->name);
        for (size_t b = 0; b < n_bad; b++) {
            const char *words[12] = {0};
            size_t n = needed_words(first_command(row), row->id, words);
            words[n] = text[b];
            if (parse_with(no_env, words) != SLUICE_ERR_USAGE) fail_msg("%s was accepted", text[b]);
            assert_non_null(strstr(error.message, row->name));
        }
    }
}

static void every_variable_works_and_yields_to_the_flag(void **state)
{
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *row = &cli_option_rows[i];
        const char *words[12] = {0}, *value = good_value(row);
        char given[96];
        size_t n = needed_words(first_command(row), row->id, words);
        cli_env_name(row, env_name);
        assert_memory_equal(env_name, "SLUICE_", 7);
        assert_null(strchr(env_name, '-'));
        snprintf(env_value, sizeof env_value, "%s", value ? value : "1");
        enum sluice_status status = parse_with(one_env, words);
        if (!row->env) {
            assert_true(status || options.value[i].source <= CLI_FROM_DEFAULT);
            continue;
        }
        assert_int_equal(status, SLUICE_OK);
        assert_int_equal(options.value[i].source, CLI_FROM_ENVIRONMENT);
        assert_true(cli_given(&options, row->id));

        snprintf(given, sizeof given, "--%s%s%s", row->name, value ? "=" : "", value ? value : "");
        words[n] = given;
        snprintf(env_value, sizeof env_value, "%s",
                 row->kind == CLI_TEXT || row->kind == CLI_PATH ? "other" : "nonsense");
        assert_int_equal(parse_with(one_env, words), SLUICE_OK); /* what is overridden is not even read */
        assert_int_equal(options.value[i].source, CLI_FROM_FLAG);
        if (row->kind == CLI_TEXT || row->kind == CLI_PATH) continue;
        words[n] = NULL;
        assert_int_equal(parse_with(one_env, words), SLUICE_ERR_USAGE);
        assert_non_null(strstr(error.message, env_name));
    }
}

static void defaults_are_in_place(void **state)
{
    assert_int_equal(PARSE("run", "-m", "x"), SLUICE_OK);
    assert_true(cli_number(&options, OPT_TEMP) == 0.8);
    assert_int_equal(cli_integer(&options, OPT_TOP_K), 40);
    assert_true(cli_number(&options, OPT_TOP_P) == 0.95);
    assert_true(cli_number(&options, OPT_MIN_P) == 0.05);
    assert_true(cli_number(&options, OPT_REPEAT_PENALTY) == 1);
    assert_int_equal(cli_integer(&options, OPT_REPEAT_LAST), 64);
    assert_string_equal(cli_text(&options, OPT_KV_TYPE), "f16");
    assert_false(cli_given(&options, OPT_TEMP));
    assert_null(cli_text(&options, OPT_EXPERTS));
    assert_int_equal(PARSE("bench", "-m", "x"), SLUICE_OK);
    assert_int_equal(options.n_prefill, 3);
    assert_int_equal(options.prefill[1], 128);
    assert_int_equal(cli_integer(&options, OPT_REPETITIONS), 3);
}

static void lists_repeat_and_split(void **state)
{
    assert_int_equal(PARSE("run", "-m", "x", "--stop", "a", "--stop=b", "-p", "-5"), SLUICE_OK);
    assert_int_equal(options.value[OPT_STOP].n_repeats, 2);
    assert_string_equal(options.stops[0], "a");
    assert_string_equal(options.stops[1], "b");
    assert_string_equal(cli_text(&options, OPT_PROMPT), "-5");
    assert_int_equal(PARSE("bench", "-m", "x", "-p", "1,20,300", "-n32"), SLUICE_OK);
    assert_int_equal(options.n_prefill, 3);
    assert_int_equal(options.prefill[2], 300);
    assert_int_equal(cli_integer(&options, OPT_DECODE), 32);
    assert_int_equal(PARSE("bench", "-m", "x", "-p", "1,,3"), SLUICE_ERR_USAGE);
    assert_int_equal(PARSE("quantize", "a", "b", "--type", "q4_k", "--tensor-type", "x=F16"), SLUICE_OK);
    assert_string_equal(options.words[1], "b");
    assert_string_equal(options.tensor_types[0], "x=F16");
}

static void a_model_needs_no_letter(void **state)
{
    static const char *const commands[] = {"run", "chat", "serve", "bench", "plan", "inspect"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        assert_int_equal(PARSE(commands[i], "x"), SLUICE_OK);
        assert_string_equal(cli_text(&options, OPT_MODEL), "x");
        assert_int_equal(PARSE(commands[i], "--memory=1G", "x"), SLUICE_OK);
        assert_string_equal(cli_text(&options, OPT_MODEL), "x");
    }
    snprintf(env_name, sizeof env_name, "SLUICE_MODEL");
    snprintf(env_value, sizeof env_value, "other");
    assert_int_equal(parse_with(one_env, (const char *const[]){"run", "x", NULL}), SLUICE_OK);
    assert_string_equal(cli_text(&options, OPT_MODEL), "x");
}

static void wrong_use_is_explained(void **state)
{
    static const struct {
        const char *words[6], *message, *hint;
    } cases[] = {
        {{"rnu"}, "'rnu' is not a command", "did you mean 'run'"},
        {{"perp"}, "not a command", "perplexity"},
        {{"--model", "run"}, "options come after it", "'sluice chat MODEL'"},
        {{"run", "-m", "x", "--promt", "y"}, "--promt", "did you mean --prompt"},
        {{"run", "-m", "x", "--max-token=3"}, "--max-token", "did you mean --max-tokens"},
        {{"run", "-m", "x", "--xyzzy"}, "--xyzzy", "help run"},
        {{"run", "-m", "x", "-Z"}, "-Z", ""},
        {{"run", "-m"}, "--model needs a value (FILE)", ""},
        {{"run", "-m", "--prompt", "x"}, "needs a value", "--model=--prompt"},
        {{"run", "-m", "x", "-m", "y"}, "given twice", ""},
        {{"run", "-m", "x", "--chat=yes"}, "takes no value", ""},
        {{"run"}, "'run' needs a model", "SLUICE_MODEL"},
        {{"chat"}, "'chat' needs a model", "sluice chat MODEL"},
        {{"tokenize"}, "'tokenize' needs --model FILE", "SLUICE_MODEL"},
        {{"pack", "-m", "x", "y"}, "'pack' has no option '-m'", "is an argument here: sluice pack IN OUT"},
        {{"quantize", "--model=x"},
         "'quantize' has no option '--model'",
         "is an argument here: sluice quantize IN OUT"},
        {{"doctor", "-m", "x"}, "has no option '-m'", "is an argument here: sluice doctor [FILE"},
        {{"replay", "-m", "x"}, "has no option '-m'", "no model is read here: sluice replay TRACE..."},
        {{"template", "-m=x"}, "has no option '-m'", "no model is read here: sluice template [-f FILE]"},
        {{"models/x.gguf"}, "not a command", "'sluice run models/x.gguf -p TEXT'"},
        {{"X.GGUF", "-p", "y"}, "not a command", "'sluice chat X.GGUF'"},
        {{"-m", "x", "-p", "y"}, "options come after it", "'sluice run MODEL -p TEXT'"},
        {{"run", "-m", "x", "word"}, "given twice: -m x and 'word'", "a prompt is given with -p"},
        {{"run", "x", "word"}, "no use for 'word'", "sluice run x -p 'word'"},
        {{"chat", "x", "word"}, "no use for 'word'", "usage: sluice chat MODEL"},
        {{"bench", "-m", "x", "y"}, "given twice", "leave one"},
        {{"profile", "x"}, "no use for 'x'", "sluice profile -m x"},
        {{"run", "-m", "x", "-pa", "-fb"}, "--prompt and --file", ""},
        {{"run", "-m", "x", "--greedy", "--temp=1"}, "--greedy and --temp", ""},
        {{"run", "-m", "x", "--temp=0", "--seed=1"}, "--temp 0 and --seed", "leave one"},
        {{"run", "-m", "x", "--temp=0.0", "--top-k=1"}, "--temp 0 and --top-k", ""},
        {{"chat", "-m", "x", "--temp=0", "--top-p=1"}, "--temp 0 and --top-p", ""},
        {{"run", "-m", "x", "--temp=0", "--min-p=1"}, "--temp 0 and --min-p", ""},
        {{"run", "-m", "x", "--repeat-last=9"}, "--repeat-last has no effect", "--repeat-penalty"},
        {{"plan", ""}, "path is empty", "usage: sluice plan"},
        {{"quantize", "a", "", "--type=F16"}, "path is empty", "usage: sluice quantize"},
        {{"logits", "-m", "x", "--tokens=a", "--out="}, "--out: the path is empty", ""},
        {{"run", "-m", "x", "-q", "-v"}, "--quiet and --verbose", ""},
        {{"run", "-m", "x", "--system", "s"}, "without --chat", "--chat"},
        {{"run", "-m", "x", "--stop", ""}, "is empty", ""},
        {{"run", "-m", "x", "--chat-template-file=f"}, "without --chat", "add --chat"},
        {{"plan", "a", "-m", "b"}, "twice", ""},
        {{"plan", "a", "b"}, "no use for 'b'", ""},
        {{"logits", "-m", "x", "--out=o"}, "needs --tokens", ""},
        {{"logits", "-m", "x", "--tokens=o"}, "needs --out", ""},
        {{"quantize", "a", "--type=F16"}, "needs 2 arguments, and got 1", "usage: sluice quantize"},
        {{"quantize", "a", "b"}, "needs --type", ""},
        {{"quantize", "a", "b", "--type=Q9"}, "--type does not take 'Q9'", "Q4_K"},
        {{"help", "run", "--man"}, "cover all commands", ""},
        {{"run", "-m", "x", "--usage=u", "--no-usage"}, "--no-usage and --usage", "leave one"},
        {{"chat", "-m", "x", "--cold", "--hotlist=h"}, "--cold and --hotlist", "leave one"},
        {{"run", "-m", "x", "--cold", "--warm-experts=3"}, "--cold and --warm-experts", "leave one"},
        {{"bench", "-m", "x", "--warm-experts=3"}, "no effect in 'bench'", "add one"},
        {{"run", "-m", "x", "--lock-margin=1G"}, "no effect without --lock", "--lock all"},
        {{"run", "-m", "x", "--prefix-memory=1G"}, "no effect in 'run' without --kv-dir", "--kv-dir"},
        {{"chat", "-m", "x", "--kv-limit=1G"}, "no effect without --kv-dir", "--kv-dir"},
        {{"bench", "-m", "x", "--kv-dir=d"}, "no effect in 'bench'", "run"},
        {{"run", "-m", "x", "--route=best"}, "--route does not take 'best'", "token|selected|layers"},
        {{"run", "-m", "x", "--warm-experts=0"}, "--warm-experts", "from 1"},
        {{"plan", "-m", "x", "--lock=all"}, "no effect in 'plan'", "run"},
        {{"profile", "-m", "x", "--hotlist=h"}, "no effect in 'profile'", "run"},
        {{"tokenize", "-m", "x", "-pa", "-pb"}, "given twice", ""},
        {{"template", "--temp=1"}, "no effect in 'template'", "run"},
        {{"template", "--vars="}, "--vars: the path is empty", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse_with(no_env, cases[i].words), SLUICE_ERR_USAGE);
        if (!strstr(error.message, cases[i].message) || !strstr(error.hint, cases[i].hint))
            fail_msg("case %zu: '%s' / '%s'", i, error.message, error.hint);
    }
}

static void names_of_other_programs_are_understood(void **state)
{
    static const struct {
        const char *words[8], *message, *hint;
    } cases[] = {
        {{"run", "--ctx-size", "4096"}, "'--ctx-size'", "--ctx N"},
        {{"run", "--ctx-size=4096"}, "'--ctx-size'", "--ctx N"},
        {{"run", "--n-predict", "4"}, "'--n-predict'", "--max-tokens N"},
        {{"run", "--predict", "4"}, "'--predict'", "--max-tokens N"},
        {{"serve", "--parallel", "4"}, "'--parallel'", "--sessions N"},
        {{"serve", "-np", "4"}, "'-np'", "--sessions N"},
        {{"chat", "--temperature", "1"}, "'--temperature'", "--temp T"},
        {{"run", "--json-schema", "{}"}, "'--json-schema'", "--schema FILE"},
        {{"run", "--cache-type-k", "q8_0"}, "'--cache-type-k'", "--kv-type"},
        {{"run", "-ctk", "q8_0"}, "'-ctk'", "--kv-type"},
        {{"run", "-ngl", "99"}, "'-ngl'", "processors"},
        {{"chat", "-ngl", "99"}, "'-ngl'", "processors"},
        {{"chat", "-cnv"}, "'-cnv'", "sluice chat"},
        {{"run", "--no-mmap"}, "'--no-mmap'", "nothing is mapped"},
        {{"run", "-hf", "x"}, "'-hf'", "does not download"},
        {{"serve", "--api-key", "x"}, "'--api-key'", "--api-key-file"},
        {{"run", "-m", "x", "-n", "-1"}, "--max-tokens: '-1'", "leave it out"},
        {{"run", "-m", "x", "-c", "0"}, "--ctx: '0'", "leave it out"},
        {{"run", "-m", "x", "--seed", "-1"}, "--seed: '-1'", "leave it out"},
        {{"convert"}, "'convert' is not a command", "convert_hf_to_gguf.py"},
        {{"llama-cli", "-m", "x"}, "'llama-cli' is not a command", "'sluice chat MODEL'"},
        {{"llama-server"}, "'llama-server' is not a command", "'sluice serve MODEL'"},
        {{"man"}, "'man' is not a command", "'sluice help --man'"},
        {{"completion", "bash"}, "'completion' is not a command", "'sluice help --completion bash'"},
        {{"pull", "x"}, "'pull' is not a command", "does not download"},
        {{"ps"}, "'ps' is not a command", "one model"},
        {{"list"}, "'list' is not a command", "no store of models"},
        {{"show"}, "'show' is not a command", "inspect"},
        {{"run", "-xyz"}, "'-xyz'", "help run"}, /* one dash, as it was typed */
        {{"run", "-fa", "on"}, "'-fa'", "processors"},
        {{"bench", "-fa", "1"}, "'-fa'", "processors"},
        {{"chat", "-fa", "auto"}, "'-fa'", "processors"},
        {{"run", "-md", "draft.gguf"}, "'-md'", "without drafts"},
        {{"serve", "-md", "draft.gguf"}, "'-md'", "without drafts"},
        {{"run", "-r", "User:"}, "'-r'", "--stop TEXT"},
        {{"chat", "--dry-multiplier", "0.8"}, "'--dry-multiplier'", "Sampling"},
        {{"run", "--xtc-probability", "0.5"}, "'--xtc-probability'", "Sampling"},
        {{"run", "--rope-scaling", "yarn"}, "'--rope-scaling'", "as the file says"},
        {{"run", "--draft", "8"}, "'--draft'", "without drafts"},
        {{"bench", "-pg", "512,128"}, "'-pg'", "behind each prompt"},
        {{"serve", "--metrics"}, "'--metrics'", "always there"},
        {{"serve", "-a", "name"}, "'-a'", "--alias NAME"},
        {{"run", "--chat-template", "chatml"}, "'--chat-template'", "--chat-template-file FILE"},
        {{"chat", "-co"}, "'-co'", "coloured"},
        {{"chat", "--color"}, "'--color'", "coloured"},
        {{"run", "-e"}, "'-e'", "as they are"},
        {{"run", "--ignore-eos"}, "'--ignore-eos'", "--logit-bias"},
        {{"run", "-i"}, "'-i'", "sluice chat"},
        {{"run", "--warmup"}, "'--warmup'", "leave it out"},
        {{"run", "--no-warmup"}, "'--no-warmup'", "--cold"},
        {{"run", "--verbose-prompt"}, "'--verbose-prompt'", "sluice tokenize"},
        {{"serve", "-lv", "3"}, "'-lv'", "--verbose"},
        {{"run", "--no-display-prompt"}, "'--no-display-prompt'", "answer alone"},
        {{"run", "--numa", "distribute"}, "'--numa'", "all nodes"},
        {{"run", "--override-kv", "a=int:1"}, "'--override-kv'", "--pre NAME"},
        {{"run", "--check-tensors"}, "'--check-tensors'", "--verify"},
        {{"run", "--version"}, "'--version'", "sluice version"},
        {{"serve", "--offline"}, "'--offline'", "does not download"},
        {{"serve", "--rpc", "host:1"}, "'--rpc'", "one machine"},
        {{"run", "--list-devices"}, "'--list-devices'", "sluice doctor"},
        {{"chat", "--simple-io"}, "'--simple-io'", "on a terminal alone"},
        {{"run", "--control-vector", "f"}, "'--control-vector'", "adapters"},
        {{"run", "--no-context-shift"}, "'--no-context-shift'", "ends the answer"},
        {{"serve", "--context-shift"}, "'--context-shift'", "ends the answer"},
        {{"run", "--keep", "8"}, "'--keep'", "ends the answer"},
        {{"serve", "--cache-reuse", "256"}, "'--cache-reuse'", "--prefix-memory"},
        {{"serve", "--swa-full"}, "'--swa-full'", "windows"},
        {{"serve", "--defrag-thold", "0.1"}, "'--defrag-thold'", "no gaps"},
        {{"serve", "--kv-unified"}, "'--kv-unified'", "--sessions"},
        {{"serve", "-kvu"}, "'-kvu'", "--sessions"},
        {{"run", "--fit", "off"}, "'--fit'", "--memory SIZE"},
        {{"serve", "--reasoning-budget", "0"}, "'--reasoning-budget'", "thinking.budget_tokens"},
        {{"serve", "--reasoning-format", "none"}, "'--reasoning-format'", "reasoning_content"},
        {{"serve", "--chat-template-kwargs", "{}"}, "'--chat-template-kwargs'", "field chat_template_kwargs"},
        {{"chat", "--system-prompt-file", "f"}, "'--system-prompt-file'", "--system TEXT"},
        {{"run", "--in-prefix", "x"}, "'--in-prefix'", "--chat-template-file FILE"},
        {{"chat", "--multiline-input"}, "'--multiline-input'", "backslash"},
        {{"serve", "--no-webui"}, "'--no-webui'", "always there"},
        {{"serve", "--ssl-key-file", "f"}, "'--ssl-key-file'", "proxy"},
        {{"serve", "--path", "d"}, "'--path'", "its own page"},
        {{"serve", "--models-dir", "d"}, "'--models-dir'", "one model"},
        {{"run", "--prio", "2"}, "'--prio'", "nice"},
        {{"run", "--poll", "50"}, "'--poll'", "sleep"},
        {{"run", "--perf"}, "'--perf'", "at the end"},
        {{"serve", "--timeout", "60"}, "'--timeout'", "--timeout-receive"},
        {{"serve", "-to", "60"}, "'-to'", "--timeout-receive"},
        {{"serve", "-C", "0x3"}, "'-C'", "taskset"},
        /* Whole words, also where the first letter is ours. */
        {{"run", "-fit", "off"}, "'-fit'", "-f it"},
        {{"chat", "-mli"}, "'-mli'", "-m li"},
        {{"run", "-ptc", "3"}, "'-ptc'", "-p tc"},
        {{"serve", "-ptc", "3"}, "'-ptc'", "counted"},
        {{"run", "-sysf", "x"}, "'-sysf'", "--system TEXT"},
        {{"run", "-sp"}, "'-sp'", "--special"},
        {{"run", "x", "-fa"}, "'-fa'", "the FILE 'a' is written -f a"},
        {{"run", "x", "-p", "hi", "-n", "2", "-fa"}, "'-fa'", "processors"},
        /* Not what happens to be near. */
        {{"run", "x", "--zeep"}, "'--zeep'", "sluice help run"},
        {{"run", "x", "--pry"}, "'--pry'", "did you mean --pre?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse_with(no_env, cases[i].words), SLUICE_ERR_USAGE);
        if (!strstr(error.message, cases[i].message) || !strstr(error.hint, cases[i].hint))
            fail_msg("case %zu: '%s' / '%s'", i, error.message, error.hint);
    }
    assert_int_equal(PARSE("run", "-mmodel", "-fab", "-n5", "-t4"), SLUICE_OK); /* our own spellings */
    assert_string_equal(cli_text(&options, OPT_MODEL), "model");
    assert_string_equal(cli_text(&options, OPT_FILE), "ab");
    assert_int_equal(cli_integer(&options, OPT_THREADS), 4);
    assert_int_equal(PARSE("run", "-md.gguf", "-pgo on", "-s7"), SLUICE_OK);
    assert_string_equal(cli_text(&options, OPT_MODEL), "d.gguf");
    assert_string_equal(cli_text(&options, OPT_PROMPT), "go on");
    assert_int_equal(PARSE("run", "-m", "d", "-f=a"), SLUICE_OK);
    assert_string_equal(cli_text(&options, OPT_FILE), "a");
    assert_int_equal(PARSE("bench", "model", "-r", "2"), SLUICE_OK);
    /* What Sluice has itself is not explained as another program's. */
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        char dashed[96];
        snprintf(dashed, sizeof dashed, "--%s", cli_option_rows[i].name);
        assert_null(elsewhere_option(dashed));
        snprintf(dashed, sizeof dashed, "-%c", cli_option_rows[i].letter ? cli_option_rows[i].letter : '?');
        if (strcmp(dashed, "-r") == 0) continue; /* of bench alone; elsewhere it is another program's */
        assert_null(elsewhere_option(dashed));
    }
    for (unsigned i = 0; i < CLI_COMMANDS; i++) assert_null(elsewhere_command(cli_command_rows[i].name));
    assert_null(elsewhere_option("--"));
    assert_null(elsewhere_option("--ctx-size --predict"));
}

static char *env_of_cache(const char *name)
{
    static char one[] = "1", file[] = "file";
    if (strcmp(name, "SLUICE_NO_USAGE") == 0 || strcmp(name, "SLUICE_COLD") == 0) return one;
    if (strcmp(name, "SLUICE_HOTLIST") == 0) return file;
    return NULL;
}

/* Between an option and a variable that contradicts it, the option decides; between two variables nothing does. */
static void contradictions_with_the_environment(void **state)
{
    assert_int_equal(parse_with(env_of_cache, (const char *const[]){"run", "-m", "x", "--cold", "--usage=u", NULL}),
                     SLUICE_OK);
    assert_false(cli_flag(&options, OPT_NO_USAGE));
    assert_string_equal(cli_text(&options, OPT_USAGE), "u");
    assert_true(cli_flag(&options, OPT_COLD));
    assert_null(cli_text(&options, OPT_HOTLIST));
    assert_int_equal(parse_with(env_of_cache, (const char *const[]){"run", "-m", "x", "--hotlist=h", NULL}), SLUICE_OK);
    assert_false(cli_flag(&options, OPT_COLD));
    assert_string_equal(cli_text(&options, OPT_HOTLIST), "h");
    assert_int_equal(parse_with(env_of_cache, (const char *const[]){"run", "-m", "x", NULL}), SLUICE_ERR_USAGE);
    assert_non_null(strstr(error.message, "SLUICE_COLD and SLUICE_HOTLIST"));
}

static void texts_of_profile_keep_their_order(void **state)
{
    assert_int_equal(PARSE("profile", "-m", "x", "-p", "a", "-f", "b", "--prompt=c", "-n5"), SLUICE_OK);
    assert_int_equal(options.n_texts, 3);
    assert_string_equal(options.texts[0], "a");
    assert_string_equal(options.texts[1], "b");
    assert_string_equal(options.texts[2], "c");
    assert_false(options.text_is_file[0]);
    assert_true(options.text_is_file[1]);
    assert_false(options.text_is_file[2]);
    assert_int_equal(cli_integer(&options, OPT_PROFILE_TOKENS), 5);
}

static void help_needs_nothing_else(void **state)
{
    assert_int_equal(PARSE("run", "--nonsense", "-h"), SLUICE_OK);
    assert_true(cli_flag(&options, OPT_HELP));
    assert_int_equal(PARSE("quantize", "--help"), SLUICE_OK);
    assert_int_equal(PARSE("inspect", "--", "-h"), SLUICE_OK);
    assert_false(cli_flag(&options, OPT_HELP));
    assert_string_equal(cli_text(&options, OPT_MODEL), "-h");
}

static void suggestions_are_close_or_none(void **state)
{
    static const char *const names[] = {"memory", "model", "max-tokens"};
    assert_string_equal(cli_nearest("memroy", names, 3), "memory");
    assert_string_equal(cli_nearest("modle", names, 3), "model");
    assert_string_equal(cli_nearest("max", names, 3), "max-tokens");
    assert_null(cli_nearest("zebra", names, 3));
    assert_null(cli_nearest("x", names, 3));
    static const char *const shorter[] = {"temp", "io", "cold", "pre", "port"};
    assert_null(cli_nearest("keep", shorter, 5));
    assert_null(cli_nearest("prio", shorter, 5));
    assert_null(cli_nearest("poll", shorter, 5));
    assert_null(cli_nearest("perf", shorter, 5));
    assert_null(cli_nearest("to", shorter, 5));
    assert_string_equal(cli_nearest("tmep", shorter, 5), "temp");
    assert_string_equal(cli_nearest("ports", shorter, 5), "port");
    assert_null(cli_nearest("a-very-long-word-indeed-which-is-longer-than-any-option", names, 3));
}

static void errors_name_where_the_value_came_from(void **state)
{
    static const char *const words[] = {"run", "-m", "x", NULL};
    char name[64];
    snprintf(env_name, sizeof env_name, "SLUICE_MEMORY");
    snprintf(env_value, sizeof env_value, "lots");
    assert_int_equal(parse_with(one_env, words), SLUICE_OK);
    assert_string_equal(cli_origin(&options, OPT_MEMORY, name), "SLUICE_MEMORY");
    assert_string_equal(cli_origin(&options, OPT_CTX, name), "--ctx");
    snprintf(error.message, sizeof error.message, "--memory 'lots' and --ctx");
    cli_name_sources(&options, &error);
    assert_string_equal(error.message, "SLUICE_MEMORY 'lots' and --ctx");
    snprintf(error.message, sizeof error.message, "--memory-less");
    cli_name_sources(&options, &error);
    assert_string_equal(error.message, "--memory-less");
    assert_int_equal(PARSE("run", "-m", "x", "--memory=lots"), SLUICE_OK);
    assert_string_equal(cli_origin(&options, OPT_MEMORY, name), "--memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_in_order_and_letters_unique),
        cmocka_unit_test(every_option_is_taken_in_each_spelling),
        cmocka_unit_test(every_option_is_refused_where_it_has_no_use),
        cmocka_unit_test(every_range_is_checked),
        cmocka_unit_test(every_variable_works_and_yields_to_the_flag),
        cmocka_unit_test(defaults_are_in_place),
        cmocka_unit_test(lists_repeat_and_split),
        cmocka_unit_test(a_model_needs_no_letter),
        cmocka_unit_test(wrong_use_is_explained),
        cmocka_unit_test(names_of_other_programs_are_understood),
        cmocka_unit_test(errors_name_where_the_value_came_from),
        cmocka_unit_test(contradictions_with_the_environment),
        cmocka_unit_test(texts_of_profile_keep_their_order),
        cmocka_unit_test(help_needs_nothing_else),
        cmocka_unit_test(suggestions_are_close_or_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
