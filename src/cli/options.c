/* The parser. One pass over the arguments fills values from flags; what is still empty is then filled from the
 * environment and the defaults; rules that tie options together come last. */
#include "cli/options.h"

#include "base/stop.h"
#include "cli/elsewhere.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define WORD_BYTES_MAX 48 /* longer words are not looked up for similar ones */

/* ---- finding ---- */

bool cli_takes(enum cli_command command, enum cli_option id)
{
    return (cli_option_rows[id].commands & CLI_BIT(command)) != 0;
}

bool cli_find_command(const char *name, enum cli_command *out)
{
    for (unsigned i = 0; i < CLI_COMMANDS; i++)
        if (strcmp(cli_command_rows[i].name, name) == 0) {
            *out = (enum cli_command)i;
            return true;
        }
    return false;
}

const char *cli_env_name(const struct cli_option_row *row, char out[64])
{
    snprintf(out, 64, "SLUICE_%s", row->name);
    for (char *p = out; *p; p++) *p = *p == '-' ? '_' : (char)toupper((unsigned char)*p);
    return out;
}

/* Edits (insert, delete, replace, swap of neighbours) from a to b; the optimal string alignment distance. */
static unsigned edits(const char *a, const char *b)
{
    unsigned row[3][WORD_BYTES_MAX + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > WORD_BYTES_MAX || nb > WORD_BYTES_MAX) return WORD_BYTES_MAX;
    for (size_t j = 0; j <= nb; j++) row[0][j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned *now = row[i % 3], *up = row[(i + 2) % 3], *two_up = row[(i + 1) % 3];
        now[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best) best = up[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_up[j - 2] + 1 < best)
                best = two_up[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[na % 3][nb];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    unsigned best_edits = WORD_BYTES_MAX;
    size_t length = strlen(word);
    for (size_t i = 0; i < n; i++) {
        unsigned d = edits(word, names[i]);
        /* A word that begins another one ("perp") is meant as that, however much is missing. */
        if (length >= 3 && strncmp(names[i], word, length) == 0) d = d > 1 ? 1 : d;
        if (d < best_edits) {
            best_edits = d;
            best = names[i];
        }
    }
    /* A word of up to five letters is near to many others: one edit. One of two letters may be anything. */
    return length > 2 && best_edits <= 1 + (length - 2) / 4 ? best : NULL;
}

/* A name may mean different things to different commands (--policy of run and of replay); if this command knows none,
 * any row will do for the message. */
static const struct cli_option_row *find_long(enum cli_command command, const char *name, size_t bytes)
{
    const struct cli_option_row *found = NULL;
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *row = &cli_option_rows[i];
        if (strlen(row->name) != bytes || memcmp(row->name, name, bytes) != 0) continue;
        if (cli_takes(command, row->id)) return row;
        found = row;
    }
    return found;
}

/* Letters belong to one option a command: -p is --prompt in run and --prefill in bench. */
static const struct cli_option_row *find_letter(enum cli_command command, char letter)
{
    for (unsigned i = 0; i < OPT_COUNT; i++)
        if (cli_option_rows[i].letter == letter && cli_takes(command, cli_option_rows[i].id))
            return &cli_option_rows[i];
    return NULL;
}

/* ---- values ---- */

/* origin: "--ctx" or "SLUICE_CTX", for messages. */
static enum sluice_status bad_range(const struct cli_option_row *row, const char *origin, const char *text,
                                    struct sluice_error *err)
{
    base_fail(err, SLUICE_ERR_USAGE, NULL, "%s: '%.100s' is not %s", origin, text,
              row->kind == CLI_NUMBER ? "a number that is allowed" : "a whole number that is allowed");
    if (row->fallback || (text[0] != '-' && strcmp(text, "0") != 0))
        base_hint(err, "from %.10g to %.10g", row->min, row->max);
    else if (row->id == OPT_MAX_TOKENS)
        base_hint(err,
                  "from %.10g to %.10g; leave it out: it goes on to the model's own end, or until the context is full",
                  row->min, row->max);
    else
        base_hint(err, "from %.10g to %.10g; leave it out, and it is chosen", row->min, row->max);
    return SLUICE_ERR_USAGE;
}

static bool parse_integer(const char *text, size_t bytes, double min, double max, uint64_t *out)
{
    if (bytes == 0 || bytes > 20) return false;
    uint64_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        if (n > (UINT64_MAX - 9) / 10) return false;
        n = n * 10 + (uint64_t)(text[i] - '0');
    }
    *out = n;
    return (double)n >= min && (double)n <= max;
}

static enum sluice_status set_choice(const struct cli_option_row *row, const char *origin, const char *text,
                                     struct cli_value *value, struct sluice_error *err)
{
    size_t bytes = strlen(text);
    for (const char *at = row->choices; at;) {
        const char *end = strchr(at, '|');
        size_t n = end ? (size_t)(end - at) : strlen(at);
        /* Formats are written in capitals and typed as they come. */
        if (n == bytes && (row->id == OPT_TYPE ? strncasecmp(at, text, n) : strncmp(at, text, n)) == 0) {
            value->text = text;
            return SLUICE_OK;
        }
        at = end ? end + 1 : NULL;
    }
    base_fail(err, SLUICE_ERR_USAGE, NULL, "%s does not take '%.100s'", origin, text);
    /* Names of llama.cpp's mixtures: the format that gives them their name. */
    size_t stem = row->id == OPT_TYPE && bytes > 2 && text[bytes - 2] == '_' ? bytes - 2 : 0;
    if (stem && strchr("sSmMlL", text[bytes - 1]))
        base_hint(err, "one of %s; for a mixture such as this give --type %.*s and --tensor-type for what differs",
                  row->choices, (int)stem, text);
    else
        base_hint(err, "one of %s", row->choices);
    return SLUICE_ERR_USAGE;
}

static enum sluice_status set_counts(const struct cli_option_row *row, const char *origin, const char *text,
                                     struct cli_options *o, struct sluice_error *err)
{
    unsigned n = 0;
    for (const char *at = text; at;) {
        const char *end = strchr(at, ',');
        uint64_t count;
        if (!parse_integer(at, end ? (size_t)(end - at) : strlen(at), row->min, row->max, &count))
            return bad_range(row, origin, text, err);
        if (n == CLI_COUNTS_MAX) {
            base_fail(err, SLUICE_ERR_USAGE, NULL, "%s: more than %d numbers", origin, CLI_COUNTS_MAX);
            return SLUICE_ERR_USAGE;
        }
        o->prefill[n++] = (uint32_t)count;
        at = end ? end + 1 : NULL;
    }
    o->n_prefill = n;
    return SLUICE_OK;
}

static enum sluice_status set_seed(const char *origin, const char *text, struct cli_value *value,
                                   struct sluice_error *err)
{
    char *end;
    errno = 0;
    value->integer = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return base_fail(err, SLUICE_ERR_USAGE,
                         "a whole number from 0 to 18446744073709551615; leave it out for a random one",
                         "%s: '%.100s' is not a seed", origin, text);
    return SLUICE_OK;
}

static enum sluice_status set_flag(const char *origin, const char *text, struct cli_value *value,
                                   struct sluice_error *err)
{
    if (strcmp(text, "1") == 0 || strcmp(text, "true") == 0 || strcmp(text, "yes") == 0)
        value->integer = 1;
    else if (text[0] == '\0' || strcmp(text, "0") == 0 || strcmp(text, "false") == 0 || strcmp(text, "no") == 0)
        value->integer = 0;
    else
        return base_fail(err, SLUICE_ERR_USAGE, "1 or 0", "%s: '%.100s' is neither yes nor no", origin, text);
    return SLUICE_OK;
}

/* ID=VALUE. Whether the model has such a token is seen once it is open. */
static enum sluice_status set_bias(const char *origin, const char *text, struct sluice_bias *out,
                                   struct sluice_error *err)
{
    uint64_t id;
    char *end = NULL;
    const char *sign = strchr(text, '=');
    const char *number = sign ? sign + 1 : "";
    const double by = strtod(number, &end);
    if (!sign || !parse_integer(text, (size_t)(sign - text), 0, INT32_MAX, &id) || end == number || *end ||
        isspace((unsigned char)number[0]) || !(by >= -100 && by <= 100))
        return base_fail(err, SLUICE_ERR_USAGE, "'sluice tokenize' shows the ids of a text",
                         "%s: '%.40s' is no ID=VALUE with a token id and a number from -100 to 100", origin, text);
    *out = (struct sluice_bias){(int32_t)id, (float)by};
    return SLUICE_OK;
}
static enum sluice_status set_value(const struct cli_option_row *row, const char *origin, const char *text,
                                    enum cli_source source, struct cli_options *o, struct sluice_error *err)
{
    struct cli_value *value = &o->value[row->id];
    enum sluice_status status = SLUICE_OK;
    value->text = text;
    switch (row->kind) {
    case CLI_FLAG: status = set_flag(origin, text, value, err); break;
    case CLI_PATH:
        if (text[0] == '\0') status = base_fail(err, SLUICE_ERR_USAGE, NULL, "%s: the path is empty", origin);
        break;
    case CLI_TEXT: break;
    case CLI_CHOICE: status = set_choice(row, origin, text, value, err); break;
    case CLI_SEED: status = set_seed(origin, text, value, err); break;
    case CLI_COUNTS: status = set_counts(row, origin, text, o, err); break;
    case CLI_INTEGER:
        if (!parse_integer(text, strlen(text), row->min, row->max, &value->integer))
            status = bad_range(row, origin, text, err);
        break;
    case CLI_NUMBER: {
        char *end;
        value->number = strtod(text, &end);
        if (end == text || *end || isspace((unsigned char)text[0]) || !(value->number >= row->min) ||
            !(value->number <= row->max))
            status = bad_range(row, origin, text, err);
        break;
    }
    }
    if (status) return status;
    value->source = source;
    if (row->repeats) {
        if (value->n_repeats == CLI_REPEATS_MAX)
            return base_fail(err, SLUICE_ERR_USAGE, NULL, "%s: given more than %d times", origin, CLI_REPEATS_MAX);
        if (row->id == OPT_LOGIT_BIAS && (status = set_bias(origin, text, &o->biases[value->n_repeats], err)))
            return status;
        if (row->id == OPT_STOP) o->stops[value->n_repeats] = text;
        if (row->id == OPT_TENSOR_TYPE) o->tensor_types[value->n_repeats] = text;
        if (row->id == OPT_PROFILE_PROMPT || row->id == OPT_PROFILE_FILE) {
            o->texts[o->n_texts] = text;
            o->text_is_file[o->n_texts++] = row->id == OPT_PROFILE_FILE;
        }
        value->n_repeats++;
    }
    return SLUICE_OK;
}

/* ---- the command line ---- */

static enum sluice_status unknown_option(const struct cli_options *o, const char *word, struct sluice_error *err)
{
    const char *names[OPT_COUNT];
    size_t n = 0;
    for (unsigned i = 0; i < OPT_COUNT; i++)
        if (cli_takes(o->command, (enum cli_option)i)) names[n++] = cli_option_rows[i].name;
    char name[WORD_BYTES_MAX + 1];
    const char *const typed = word;
    while (*word == '-') word++;
    size_t bytes = strcspn(word, "=");
    const char *command = cli_command_rows[o->command].name;
    base_fail(err, SLUICE_ERR_USAGE, NULL, "'%s' has no option '%.*s%.*s'", command, (int)(typed[1] == '-' ? 2 : 1),
              typed, (int)(bytes > 80 ? 80 : bytes), word);
    const char *near = NULL, *elsewhere = elsewhere_option(typed);
    if (elsewhere) {
        base_hint(err, "%s", elsewhere);
        return SLUICE_ERR_USAGE;
    }
    if (bytes <= WORD_BYTES_MAX) {
        snprintf(name, sizeof name, "%.*s", (int)bytes, word);
        near = cli_nearest(name, names, n);
    }
    if (near)
        base_hint(err, "did you mean --%s?", near);
    else
        base_hint(err, "'sluice help %s' lists its options", command);
    return SLUICE_ERR_USAGE;
}

/* -m where a command takes no model so: the model is one of its arguments, or it reads none. */
static enum sluice_status no_model(const struct cli_options *o, const char *word, struct sluice_error *err)
{
    const struct cli_command_row *command = &cli_command_rows[o->command];
    const bool reads = o->command == CLI_PACK || o->command == CLI_QUANTIZE || o->command == CLI_DOCTOR;
    base_fail(err, SLUICE_ERR_USAGE, NULL, "'%s' has no option '%.*s'", command->name, (int)strcspn(word, "="), word);
    base_hint(err, "%s: sluice %s %s", reads ? "a file is an argument here" : "no model is read here", command->name,
              command->synopsis);
    return SLUICE_ERR_USAGE;
}

static bool takes_name(enum cli_command command, const char *name)
{
    return cli_takes(command, find_long(command, name, strlen(name))->id);
}

static enum sluice_status not_here(const struct cli_options *o, const struct cli_option_row *row,
                                   struct sluice_error *err)
{
    base_fail(err, SLUICE_ERR_USAGE, NULL, "option --%s has no effect in '%s'", row->name,
              cli_command_rows[o->command].name);
    char list[200] = "";
    for (unsigned i = 0; i < CLI_COMMANDS; i++) {
        size_t used = strlen(list);
        if (takes_name((enum cli_command)i, row->name))
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", cli_command_rows[i].name);
    }
    base_hint(err, "it belongs to: %s", list);
    return SLUICE_ERR_USAGE;
}

/* "-hf" is no "-h f", "-np" no "-n p". "-fa" could be the file a, but who types it nearly always means the other
 * program's; who does not is told how to write it. */
static enum sluice_status whole_word(const struct cli_options *o, const struct cli_option_row *row, const char *word,
                                     struct sluice_error *err)
{
    char hint[SLUICE_HINT_BYTES_MAX];
    unknown_option(o, word, err);
    if (row->kind != CLI_PATH && row->kind != CLI_TEXT) return SLUICE_ERR_USAGE;
    memcpy(hint, err->hint, sizeof hint);
    base_hint(err, "%s; the %s '%s' is written -%c %s", hint, row->value_name, word + 2, word[1], word + 2);
    return SLUICE_ERR_USAGE;
}

/* Takes the option at argv[*i] and its value. */
static enum sluice_status take_option(int argc, char *const *argv, int *i, struct cli_options *o,
                                      struct sluice_error *err)
{
    const char *word = argv[*i], *text = NULL;
    const struct cli_option_row *row;
    char origin[80];
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        row = find_long(o->command, word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2));
        if (!row) return unknown_option(o, word, err);
        if (row->id == OPT_MODEL && !cli_takes(o->command, row->id)) return no_model(o, word, err);
        if (!cli_takes(o->command, row->id)) return not_here(o, row, err);
        if (equals) text = equals + 1;
    } else {
        row = find_letter(o->command, word[1]);
        if (!row && word[1] == 'm' && (!word[2] || word[2] == '=')) return no_model(o, word, err);
        if (!row) return unknown_option(o, word, err);
        if (word[2] && elsewhere_option(word)) return whole_word(o, row, word, err);
        if (word[2]) text = word[2] == '=' ? word + 3 : word + 2;
        /* "-ngl 99" is no "-n gl": an option of another program. */
        if (text == word + 2 && (row->kind == CLI_INTEGER || row->kind == CLI_NUMBER) && isalpha((unsigned char)*text))
            return unknown_option(o, word, err);
    }
    snprintf(origin, sizeof origin, "--%s", row->name);
    if (row->kind == CLI_FLAG) {
        if (text) return base_fail(err, SLUICE_ERR_USAGE, NULL, "%s takes no value, and got '%.100s'", origin, text);
        text = "1";
    } else if (!text) {
        if (*i + 1 >= argc)
            return base_fail(err, SLUICE_ERR_USAGE, NULL, "%s needs a value (%s)", origin, row->value_name);
        text = argv[++*i];
        if (text[0] == '-' && text[1] == '-' && find_long(o->command, text + 2, strcspn(text + 2, "="))) {
            base_fail(err, SLUICE_ERR_USAGE, NULL, "%s needs a value (%s), and '%.100s' follows", origin,
                      row->value_name, text);
            base_hint(err, "write %s=%.100s if that is the value", origin, text);
            return SLUICE_ERR_USAGE;
        }
    }
    if (o->value[row->id].source == CLI_FROM_FLAG && !row->repeats)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "%s is given twice", origin);
    return set_value(row, origin, text, CLI_FROM_FLAG, o, err);
}

static enum sluice_status take_words(int argc, char *const *argv, struct cli_options *o, struct sluice_error *err)
{
    const struct cli_command_row *command = &cli_command_rows[o->command];
    bool options_end = false;
    for (int i = 2; i < argc; i++) {
        if (!options_end && strcmp(argv[i], "--") == 0) {
            options_end = true;
        } else if (!options_end && argv[i][0] == '-' && argv[i][1]) {
            enum sluice_status status = take_option(argc, argv, &i, o, err);
            if (status) return status;
        } else if (o->n_words == command->words_max) {
            base_fail(err, SLUICE_ERR_USAGE, NULL, "'%s' has no use for '%.200s'", command->name, argv[i]);
            if (cli_takes(o->command, OPT_MODEL) && !command->words_max && !cli_given(o, OPT_MODEL))
                base_hint(err, "a model is given with -m: sluice %s -m %.150s", command->name, argv[i]);
            else if (command->words_max && cli_takes(o->command, OPT_PROMPT))
                base_hint(err, "a prompt is given with -p: sluice %s %.100s -p '%.100s'", command->name, o->words[0],
                          argv[i]);
            else
                base_hint(err, "usage: sluice %s %s", command->name, command->synopsis);
            return SLUICE_ERR_USAGE;
        } else if (argv[i][0] == '\0' && strcmp(command->words_complete, "files") == 0) {
            base_fail(err, SLUICE_ERR_USAGE, NULL, "'%s': the path is empty", command->name);
            base_hint(err, "usage: sluice %s %s", command->name, command->synopsis);
            return SLUICE_ERR_USAGE;
        } else {
            o->words[o->n_words++] = argv[i];
        }
    }
    return SLUICE_OK;
}

static enum sluice_status fill_rest(char *(*get_env)(const char *name), struct cli_options *o, struct sluice_error *err)
{
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        const struct cli_option_row *row = &cli_option_rows[i];
        char name[64];
        if (!cli_takes(o->command, row->id) || o->value[i].source == CLI_FROM_FLAG) continue;
        const char *text = row->env ? get_env(cli_env_name(row, name)) : NULL;
        enum sluice_status status = SLUICE_OK;
        if (text && text[0])
            status = set_value(row, name, text, CLI_FROM_ENVIRONMENT, o, err);
        else if (row->fallback)
            status = set_value(row, row->name, row->fallback, CLI_FROM_DEFAULT, o, err);
        if (status) return status;
    }
    return SLUICE_OK;
}

/* ---- rules between options ---- */

static bool by_flag(const struct cli_options *o, enum cli_option id) { return o->value[id].source == CLI_FROM_FLAG; }

static enum sluice_status either(const struct cli_options *o, enum cli_option a, enum cli_option b,
                                 struct sluice_error *err)
{
    if (!by_flag(o, a) || !by_flag(o, b)) return SLUICE_OK;
    return base_fail(err, SLUICE_ERR_USAGE, "leave one of them out", "--%s and --%s cannot both be given",
                     cli_option_rows[a].name, cli_option_rows[b].name);
}

static enum sluice_status need(const struct cli_options *o, enum cli_option id, struct sluice_error *err)
{
    char name[64];
    const struct cli_option_row *row = &cli_option_rows[id];
    if (cli_given(o, id)) return SLUICE_OK;
    const struct cli_command_row *command = &cli_command_rows[o->command];
    if (id == OPT_MODEL && command->words_max == 1) {
        base_fail(err, SLUICE_ERR_USAGE, NULL, "'%s' needs a model", command->name);
        base_hint(err, "sluice %s MODEL, a GGUF file; -m FILE and the environment variable %s do too", command->name,
                  cli_env_name(row, name));
        return SLUICE_ERR_USAGE;
    }
    base_fail(err, SLUICE_ERR_USAGE, NULL, "'%s' needs --%s %s", command->name, row->name, row->value_name);
    if (row->env)
        base_hint(err, "give it with the option or in the environment variable %s", cli_env_name(row, name));
    else
        base_hint(err, "usage: sluice %s %s", cli_command_rows[o->command].name, cli_command_rows[o->command].synopsis);
    return SLUICE_ERR_USAGE;
}

/* Settings that could change nothing. */
static enum sluice_status check_sampling(const struct cli_options *o, struct sluice_error *err)
{
    static const enum cli_option unused[] = {OPT_SEED, OPT_TOP_K, OPT_TOP_P, OPT_MIN_P};
    bool greedy = by_flag(o, OPT_TEMP) && cli_number(o, OPT_TEMP) == 0;
    for (size_t i = 0; greedy && i < sizeof unused / sizeof unused[0]; i++)
        if (by_flag(o, unused[i]))
            return base_fail(err, SLUICE_ERR_USAGE, "leave one of them out",
                             "--temp 0 and --%s cannot both be given: the most probable token is taken in any case",
                             cli_option_rows[unused[i]].name);
    if (by_flag(o, OPT_REPEAT_LAST) && !cli_given(o, OPT_REPEAT_PENALTY))
        return base_fail(err, SLUICE_ERR_USAGE, "add --repeat-penalty 1.1 or the like",
                         "--repeat-last has no effect without --repeat-penalty");
    return SLUICE_OK;
}

/* A flag and an option that it contradicts. Where one of them comes from the environment, the other one wins. */
static enum sluice_status settle(struct cli_options *o, enum cli_option flag, enum cli_option option,
                                 struct sluice_error *err)
{
    char a[64], b[64];
    if (!cli_flag(o, flag) || !cli_given(o, option)) return SLUICE_OK;
    if (by_flag(o, flag) != by_flag(o, option)) {
        memset(&o->value[by_flag(o, flag) ? option : flag], 0, sizeof o->value[0]);
        return SLUICE_OK;
    }
    return base_fail(err, SLUICE_ERR_USAGE, "leave one of them out", "%s and %s cannot both be given",
                     cli_origin(o, flag, a), cli_origin(o, option, b));
}

/* What is known beforehand, and what is locked. */
static enum sluice_status check_cache(struct cli_options *o, struct sluice_error *err)
{
    enum sluice_status status = settle(o, OPT_NO_USAGE, OPT_USAGE, err);
    if (!status) status = settle(o, OPT_COLD, OPT_HOTLIST, err);
    if (!status) status = settle(o, OPT_COLD, OPT_WARM_EXPERTS, err);
    if (status) return status;
    if (by_flag(o, OPT_WARM_EXPERTS) && (CLI_MEASURERS & CLI_BIT(o->command)) && !cli_given(o, OPT_HOTLIST) &&
        !cli_given(o, OPT_USAGE))
        return base_fail(err, SLUICE_ERR_USAGE, "add one of them",
                         "--warm-experts has no effect in '%s' without --hotlist or --usage",
                         cli_command_rows[o->command].name);
    if (by_flag(o, OPT_LOCK_MARGIN) && !cli_given(o, OPT_LOCK))
        return base_fail(err, SLUICE_ERR_USAGE, "add --lock all, or dense or experts",
                         "--lock-margin has no effect without --lock");
    if (by_flag(o, OPT_KV_LIMIT) && !cli_given(o, OPT_KV_DIR))
        return base_fail(err, SLUICE_ERR_USAGE, "add --kv-dir DIRECTORY", "--kv-limit has no effect without --kv-dir");
    static const enum cli_option served[] = {OPT_SESSIONS, OPT_MAX_BODY};
    for (size_t i = 0; o->command == CLI_PLAN && !cli_flag(o, OPT_SERVE) && i < sizeof served / sizeof *served; i++)
        if (by_flag(o, served[i]))
            return base_fail(err, SLUICE_ERR_USAGE, "add --serve: the ledger is then that of a server",
                             "--%s has no effect in 'plan' without --serve", cli_option_rows[served[i]].name);
    if (o->command == CLI_RUN && by_flag(o, OPT_PREFIX_MEMORY) && !cli_given(o, OPT_KV_DIR))
        return base_fail(err, SLUICE_ERR_USAGE, "add --kv-dir DIRECTORY",
                         "--prefix-memory has no effect in 'run' without --kv-dir: there is one prompt");
    return SLUICE_OK;
}

/* Where one word is taken it is the model, with or without -m before it. */
static enum sluice_status take_model(struct cli_options *o, struct sluice_error *err)
{
    if (!cli_takes(o->command, OPT_MODEL) || cli_command_rows[o->command].words_max != 1 || !o->n_words)
        return SLUICE_OK;
    if (by_flag(o, OPT_MODEL))
        return base_fail(err, SLUICE_ERR_USAGE,
                         cli_takes(o->command, OPT_PROMPT) ? "a prompt is given with -p TEXT, or -f FILE"
                                                           : "leave one of them out",
                         "the model is given twice: -m %.150s and '%.150s'", o->value[OPT_MODEL].text, o->words[0]);
    o->value[OPT_MODEL].text = o->words[0];
    o->value[OPT_MODEL].source = CLI_FROM_FLAG;
    return SLUICE_OK;
}

static enum sluice_status check_rules(struct cli_options *o, struct sluice_error *err)
{
    static const enum cli_option excluded[][2] = {
        {OPT_PROMPT, OPT_FILE},   {OPT_GREEDY, OPT_TEMP},    {OPT_GREEDY, OPT_TOP_K},
        {OPT_GREEDY, OPT_TOP_P},  {OPT_GREEDY, OPT_MIN_P},   {OPT_GREEDY, OPT_SEED},
        {OPT_QUIET, OPT_VERBOSE}, {OPT_MAN, OPT_COMPLETION}, {OPT_CHAT, OPT_SPECIAL},
    };
    enum sluice_status status;
    for (size_t i = 0; i < sizeof excluded / sizeof excluded[0]; i++)
        if ((status = either(o, excluded[i][0], excluded[i][1], err))) return status;
    if (o->command == CLI_RUN && by_flag(o, OPT_SYSTEM) && !cli_flag(o, OPT_CHAT))
        return base_fail(err, SLUICE_ERR_USAGE, "add --chat, or put the text into the prompt",
                         "--system has no effect in 'run' without --chat");
    if (o->command == CLI_RUN && by_flag(o, OPT_CHAT_TEMPLATE) && !cli_flag(o, OPT_CHAT))
        return base_fail(err, SLUICE_ERR_USAGE, "add --chat",
                         "--chat-template-file has no effect in 'run' without --chat");
    for (unsigned i = 0; i < o->value[OPT_STOP].n_repeats; i++) {
        size_t bytes = strlen(o->stops[i]);
        if (bytes == 0) return base_fail(err, SLUICE_ERR_USAGE, NULL, "--stop: the text is empty");
        if (bytes > STOP_BYTES_MAX)
            return base_fail(err, SLUICE_ERR_USAGE, "a part of it will do",
                             "--stop: the text has %zu bytes, at most %d are allowed", bytes, STOP_BYTES_MAX);
    }
    if ((status = check_sampling(o, err)) || (status = check_cache(o, err))) return status;
    if ((status = take_model(o, err))) return status;
    if (o->command == CLI_HELP && o->n_words && (cli_flag(o, OPT_MAN) || cli_given(o, OPT_COMPLETION)))
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "--man and --completion cover all commands: '%.100s' is too much",
                         o->words[0]);
    if (cli_takes(o->command, OPT_MODEL) && (status = need(o, OPT_MODEL, err))) return status;
    if (o->command == CLI_LOGITS && ((status = need(o, OPT_TOKENS, err)) || (status = need(o, OPT_OUT, err))))
        return status;
    if (o->command == CLI_QUANTIZE && (status = need(o, OPT_TYPE, err))) return status;
    if (o->n_words < cli_command_rows[o->command].words_min) {
        base_fail(err, SLUICE_ERR_USAGE, NULL, "'%s' needs %u arguments, and got %u", cli_command_rows[o->command].name,
                  cli_command_rows[o->command].words_min, o->n_words);
        base_hint(err, "usage: sluice %s %s", cli_command_rows[o->command].name, cli_command_rows[o->command].synopsis);
        return SLUICE_ERR_USAGE;
    }
    return SLUICE_OK;
}

static bool is_model_path(const char *word)
{
    const size_t bytes = strlen(word);
    return strchr(word, '/') || (bytes > 5 && strcasecmp(word + bytes - 5, ".gguf") == 0);
}

enum sluice_status cli_no_command(const char *word, struct sluice_error *err)
{
    const char *names[CLI_COMMANDS], *elsewhere = elsewhere_command(word);
    const bool dashed = word[0] == '-';
    for (unsigned i = 0; i < CLI_COMMANDS; i++) names[i] = cli_command_rows[i].name;
    const char *near = dashed ? NULL : cli_nearest(word, names, CLI_COMMANDS);
    base_fail(err, SLUICE_ERR_USAGE, "'sluice help' lists the commands", "'%.100s' is not a command%s", word,
              dashed ? "; options come after it" : "");
    if (elsewhere)
        base_hint(err, "%s", elsewhere);
    else if (near)
        base_hint(err, "did you mean '%s'?", near);
    else if (dashed)
        base_hint(err, "as in 'sluice run MODEL -p TEXT', or 'sluice chat MODEL'; 'sluice help' lists the commands");
    else if (is_model_path(word))
        base_hint(err, "a command comes first: 'sluice run %.80s -p TEXT', or 'sluice chat %.80s'", word, word);
    return SLUICE_ERR_USAGE;
}

static bool asks_help(int argc, char *const *argv)
{
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) return true;
    return false;
}

enum sluice_status cli_parse(int argc, char *const *argv, char *(*get_env)(const char *name), struct cli_options *out,
                             struct sluice_error *err)
{
    memset(out, 0, sizeof *out);
    if (argc < 2) return base_fail(err, SLUICE_ERR_USAGE, "'sluice help' lists the commands", "a command is missing");
    if (!cli_find_command(argv[1], &out->command)) return cli_no_command(argv[1], err);
    if (asks_help(argc, argv)) {
        out->value[OPT_HELP].integer = 1;
        out->value[OPT_HELP].source = CLI_FROM_FLAG;
        return SLUICE_OK;
    }
    enum sluice_status status = take_words(argc, argv, out, err);
    if (!status) status = fill_rest(get_env, out, err);
    return status ? status : check_rules(out, err);
}

/* ---- reading the result ---- */

const char *cli_origin(const struct cli_options *o, enum cli_option id, char out[64])
{
    const struct cli_option_row *row = &cli_option_rows[id];
    if (o->value[id].source == CLI_FROM_ENVIRONMENT) return cli_env_name(row, out);
    snprintf(out, 64, "--%s", row->name);
    return out;
}

void cli_name_sources(const struct cli_options *o, struct sluice_error *err)
{
    for (unsigned i = 0; i < OPT_COUNT; i++) {
        char flag[64], name[64], text[SLUICE_MESSAGE_BYTES_MAX];
        if (o->value[i].source != CLI_FROM_ENVIRONMENT) continue;
        int n = snprintf(flag, sizeof flag, "--%s", cli_option_rows[i].name);
        const char *at = strstr(err->message, flag);
        if (n <= 0 || !at || isalnum((unsigned char)at[n]) || at[n] == '-') continue;
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - err->message), err->message,
                 cli_env_name(&cli_option_rows[i], name), at + n);
        memcpy(err->message, text, sizeof text);
    }
}

bool cli_given(const struct cli_options *o, enum cli_option id) { return o->value[id].source >= CLI_FROM_ENVIRONMENT; }

const char *cli_text(const struct cli_options *o, enum cli_option id)
{
    return o->value[id].source == CLI_FROM_NOWHERE ? NULL : o->value[id].text;
}

uint64_t cli_integer(const struct cli_options *o, enum cli_option id)
{
    return o->value[id].source == CLI_FROM_NOWHERE ? 0 : o->value[id].integer;
}

double cli_number(const struct cli_options *o, enum cli_option id)
{
    return o->value[id].source == CLI_FROM_NOWHERE ? 0 : o->value[id].number;
}

bool cli_flag(const struct cli_options *o, enum cli_option id) { return cli_integer(o, id) != 0; }
