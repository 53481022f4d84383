/* The option table: one row an option, from which the parser, --help, the man page and the shell completions are made.
 *
 * A value comes from the command line, else from its SLUICE_* environment variable (rows with `env`), else from the
 * row's default. An option that a command has no use for is refused there (a flag is never inert); an environment
 * variable is simply not looked at by commands that have no use for it. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "base/error.h"
#include "sluice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_command {
    CLI_RUN,
    CLI_CHAT,
    CLI_SERVE,
    CLI_PLAN,
    CLI_INSPECT,
    CLI_TOKENIZE,
    CLI_TEMPLATE,
    CLI_LOGITS,
    CLI_PERPLEXITY,
    CLI_BENCH,
    CLI_PROFILE,
    CLI_DOCTOR,
    CLI_QUANTIZE,
    CLI_CHECKSUM,
    CLI_VERIFY,
    CLI_PACK,
    CLI_REPLAY,
    CLI_VERSION,
    CLI_HELP,
    CLI_COMMANDS,
};

#define CLI_BIT(command) (1u << (command))
/* Commands whose result must not depend on what was run before. */
#define CLI_MEASURERS (CLI_BIT(CLI_LOGITS) | CLI_BIT(CLI_PERPLEXITY) | CLI_BIT(CLI_BENCH))

struct cli_command_row {
    const char *name;
    const char *synopsis;       /* what follows the name in the usage line */
    const char *summary;        /* one line */
    const char *text;           /* a paragraph or two for --help and the man page */
    unsigned words_min;         /* positional arguments */
    unsigned words_max;         /* at most CLI_WORDS_MAX */
    const char *words_complete; /* for the shells: "files" or "commands" or "" */
};

enum cli_option {
    OPT_MODEL,
    OPT_MEMORY,
    OPT_EXPERTS,
    OPT_CTX,
    OPT_KV_TYPE,
    OPT_PREFIX_MEMORY,
    OPT_KV_DIR,
    OPT_KV_LIMIT,
    OPT_THREADS,
    OPT_CHUNK,
    OPT_CPU,
    OPT_IO,
    OPT_POLICY,
    OPT_TRACE,
    OPT_ROUTE,
    OPT_LOCK,
    OPT_LOCK_MARGIN,
    OPT_SIMULATE_USED,
    OPT_USAGE,
    OPT_NO_USAGE,
    OPT_HOTLIST,
    OPT_COLD,
    OPT_WARM_EXPERTS,
    OPT_PIN,
    OPT_PREFETCH,
    OPT_VERIFY,
    OPT_PRE,
    OPT_PROMPT,
    OPT_PROFILE_PROMPT,
    OPT_PROFILE_FILE,
    OPT_FILE,
    OPT_TEMPLATE,
    OPT_VARS,
    OPT_NOW,
    OPT_CHAT,
    OPT_CHAT_TEMPLATE,
    OPT_SYSTEM,
    OPT_MAX_TOKENS,
    OPT_PROFILE_TOKENS,
    OPT_STOP,
    OPT_SCHEMA,
    OPT_SPECIAL,
    OPT_BOS,
    OPT_TOKENS,
    OPT_OUT,
    OPT_SUMS,
    OPT_HOST,
    OPT_PORT,
    OPT_API_KEY_FILE,
    OPT_INSECURE,
    OPT_CORS,
    OPT_ALIAS,
    OPT_SERVE,
    OPT_SESSIONS,
    OPT_QUEUE,
    OPT_MAX_CONNECTIONS,
    OPT_MAX_BODY,
    OPT_MAX_HEADER,
    OPT_TIMEOUT_IDLE,
    OPT_TIMEOUT_RECEIVE,
    OPT_TIMEOUT_STALL,
    OPT_KEEP_ALIVE,
    OPT_LOG,
    OPT_TEMP,
    OPT_TOP_K,
    OPT_TOP_P,
    OPT_MIN_P,
    OPT_REPEAT_PENALTY,
    OPT_REPEAT_LAST,
    OPT_PRESENCE_PENALTY,
    OPT_FREQUENCY_PENALTY,
    OPT_LOGIT_BIAS,
    OPT_SEED,
    OPT_GREEDY,
    OPT_PREFILL,
    OPT_DECODE,
    OPT_REPETITIONS,
    OPT_FULL,
    OPT_TYPE,
    OPT_TENSOR_TYPE,
    OPT_REQUANTIZE,
    OPT_POLICIES,
    OPT_SIZES,
    OPT_DISK,
    OPT_PLOT,
    OPT_MAN,
    OPT_COMPLETION,
    OPT_JSON,
    OPT_QUIET,
    OPT_VERBOSE,
    OPT_HELP,
    OPT_COUNT,
};

enum cli_kind {
    CLI_FLAG,
    CLI_TEXT,
    CLI_PATH,
    CLI_CHOICE,
    CLI_INTEGER, /* min..max */
    CLI_NUMBER,  /* min..max, with decimals */
    CLI_SEED,    /* any 64-bit number */
    CLI_COUNTS,  /* integers min..max, separated by commas */
};

struct cli_option_row {
    enum cli_option id; /* equal to the row's index */
    const char *group;  /* heading in --help */
    const char *name;   /* without the dashes */
    char letter;        /* or 0; unique within a command */
    enum cli_kind kind;
    bool env;               /* SLUICE_NAME may set it */
    bool repeats;           /* may be given several times */
    const char *value_name; /* FILE, N, ... */
    const char *choices;    /* "f16|q8_0|f32"; of CLI_TEXT only what the shells offer */
    double min, max;
    const char *fallback; /* the default as text; NULL: none */
    unsigned commands;    /* CLI_BIT of those that take it */
    const char *help;
};

extern const struct cli_option_row cli_option_rows[OPT_COUNT];
extern const struct cli_command_row cli_command_rows[CLI_COMMANDS];

#define CLI_REPEATS_MAX 64
#define CLI_WORDS_MAX 32
#define CLI_COUNTS_MAX 16

enum cli_source { CLI_FROM_NOWHERE, CLI_FROM_DEFAULT, CLI_FROM_ENVIRONMENT, CLI_FROM_FLAG };

struct cli_value {
    enum cli_source source;
    const char *text; /* as given */
    uint64_t integer; /* CLI_INTEGER, CLI_SEED, CLI_FLAG (0 or 1) */
    double number;    /* CLI_NUMBER */
    unsigned n_repeats;
};

struct cli_options {
    enum cli_command command;
    struct cli_value value[OPT_COUNT];
    const char *stops[CLI_REPEATS_MAX];         /* --stop, in order */
    const char *tensor_types[CLI_REPEATS_MAX];  /* --tensor-type */
    struct sluice_bias biases[CLI_REPEATS_MAX]; /* --logit-bias */
    const char *texts[2 * CLI_REPEATS_MAX];     /* --prompt and --file of profile, in order */
    bool text_is_file[2 * CLI_REPEATS_MAX];
    unsigned n_texts;
    uint32_t prefill[CLI_COUNTS_MAX]; /* --prefill */
    unsigned n_prefill;
    const char *words[CLI_WORDS_MAX]; /* positional arguments */
    unsigned n_words;
};

/* argv[0] is the program, argv[1] the command. get_env: getenv, or a test's. Strings in *out point into argv and the
 * environment. -h anywhere makes the result valid whatever else is missing. SLUICE_ERR_USAGE says what is wrong, the
 * hint what was meant. */
enum sluice_status cli_parse(int argc, char *const *argv, char *(*get_env)(const char *name), struct cli_options *out,
                             struct sluice_error *err);

bool cli_given(const struct cli_options *o, enum cli_option id);       /* by flag or environment */
const char *cli_text(const struct cli_options *o, enum cli_option id); /* NULL if there is none */
uint64_t cli_integer(const struct cli_options *o, enum cli_option id); /* 0 if there is none */
double cli_number(const struct cli_options *o, enum cli_option id);
bool cli_flag(const struct cli_options *o, enum cli_option id);

/* "--ctx", or "SLUICE_CTX" if the value came from there; returns out. */
const char *cli_origin(const struct cli_options *o, enum cli_option id, char out[64]);
/* The engine's errors speak of options: where the value came from the environment, the message names the variable. */
void cli_name_sources(const struct cli_options *o, struct sluice_error *err);

bool cli_takes(enum cli_command command, enum cli_option id);
bool cli_find_command(const char *name, enum cli_command *out);
/* SLUICE_ERR_USAGE for a word that is no command; the hint is what was meant, as far as that can be seen. */
enum sluice_status cli_no_command(const char *word, struct sluice_error *err);
/* "SLUICE_KV_TYPE" of "kv-type"; returns out. */
const char *cli_env_name(const struct cli_option_row *row, char out[64]);
/* The most similar of the names, or NULL if none is similar enough to be what was meant. */
const char *cli_nearest(const char *word, const char *const *names, size_t n);

#endif
