/* The rows of commands and options. Everything a user can read about them is made from here. */
#include "cli/options.h"

#define TALKERS (CLI_BIT(CLI_RUN) | CLI_BIT(CLI_CHAT))
#define SAMPLERS (TALKERS | CLI_BIT(CLI_SERVE))
#define RUNNERS (SAMPLERS | CLI_MEASURERS)
#define EVALUATORS (RUNNERS | CLI_BIT(CLI_PROFILE))
#define PLANNERS (EVALUATORS | CLI_BIT(CLI_PLAN))
#define KEEPERS (SAMPLERS | CLI_BIT(CLI_PLAN))           /* of prefixes */
#define SERVERS (CLI_BIT(CLI_SERVE) | CLI_BIT(CLI_PLAN)) /* plan: with --serve */
#define CHECKERS (CLI_BIT(CLI_CHECKSUM) | CLI_BIT(CLI_VERIFY))
#define COPIERS (CHECKERS | CLI_BIT(CLI_PACK))
#define EVERYONE (CLI_BIT(CLI_COMMANDS) - 1)

#define UNLEARNED                                                                                                     \
    "So that the result does not depend on what was run before, nothing is learned and nothing is loaded beforehand " \
    "(as with --no-usage --cold), unless --usage or --hotlist is given."

const struct cli_command_row cli_command_rows[CLI_COMMANDS] = {
    [CLI_RUN] =
        {"run", "MODEL [-p TEXT | -f FILE] [options]", "continue a prompt, or answer it with --chat",
         "Writes text that continues the prompt to standard output. Without -p or -f the prompt is read from "
         "standard input; the line break at the end of a file or of standard input is no part of it. With --chat "
         "the prompt is put to the model as a user's message in the model's own "
         "chat format. The memory ledger comes first on standard error, a report of speed, cache hits and disk "
         "use at the end.",
         0, 1, "files"},
    [CLI_CHAT] = {"chat", "MODEL [options]", "talk with the model",
                  "Reads a message, answers, and so on until the end of input (Ctrl-D). A backslash at the end of a "
                  "line continues the message on the next. Ctrl-C stops the answer, not the program. Lines that begin "
                  "with a slash are orders: /help, /reset, /stats, /save FILE, /quit. On a terminal the line can be "
                  "edited, earlier ones recalled and orders completed with Tab; otherwise each line of standard input "
                  "is a message, and the exit "
                  "code is that of the first message or order that failed, or 0. Only the tokens that are new in each "
                  "turn are computed.",
                  0, 1, "files"},
    [CLI_SERVE] = {"serve", "MODEL [--host ADDRESS] [--port N] [options]",
                   "answer over HTTP, as OpenAI's and Anthropic's servers do",
                   "Serves the model to programs: chat completions, completions, responses and messages, plain and "
                   "streamed. Prints the address on standard output as soon as it listens, and answers 503 until the "
                   "model is loaded. Listens on this machine alone unless --host says otherwise, which takes "
                   "--api-key-file or --insecure. The options of sampling are what a request gets that says nothing. "
                   "SIGTERM, SIGHUP or Ctrl-C ends it: what was accepted is finished first; a second SIGTERM or Ctrl-C "
                   "stops at once.",
                   0, 1, "files"},
    [CLI_PLAN] =
        {"plan", "MODEL [options]", "show how memory would be used, and load nothing",
         "Prints the memory ledger that run or chat would have with the same options, with --serve the one that "
         "serve would have, and the bytes that it would read for a token. With --disk also how many tokens a second "
         "the disk and the memory would allow at "
         "some hit rates. Nothing of the weights is read, but by --disk MODEL.",
         0, 1, "files"},
    [CLI_INSPECT] = {"inspect", "MODEL [--memory SIZE] [--json]",
                     "show what is in a GGUF file, and whether Sluice runs it",
                     "Says what the file is (a language model, a vocabulary, a projector, an adapter, ...), whether "
                     "Sluice runs it here, and if not why: everything that stands in the way, with the way out. Then "
                     "the size of the experts, the types by layer, the metadata and the tensors. The exit code is 0 "
                     "for every GGUF file whose header can be read, also where data or shards are missing.",
                     0, 1, "files"},
    [CLI_TOKENIZE] =
        {"tokenize", "-m MODEL [-p TEXT | -f FILE] [--special] [--bos]", "text to token ids",
         "Prints the token ids of a text, separated by spaces. Without -p or -f the text is read from "
         "standard input. All of a file is its text, also the line break at its end, which run leaves out. "
         "Files that hold a vocabulary and no weights will do.",
         0, 0, ""},
    [CLI_TEMPLATE] = {"template", "[-f FILE] [--vars FILE] [--now TIME]", "render a chat template",
                      "Renders a chat template (the Jinja that model files carry) with the variables of a JSON object: "
                      "messages, tools, add_generation_prompt, bos_token and whatever else it asks for. Without -f the "
                      "template is read from standard input. Nothing is added to the result. A fault of the template "
                      "ends with 3 and names the line and the column, one of the variables with 2.",
                      0, 0, ""},
    [CLI_LOGITS] =
        {"logits", "-m MODEL --tokens FILE --out FILE [options]", "token ids to logits",
         "Evaluates the token ids of a file (numbers separated by white space) from an empty context and "
         "writes the logits of every position as little-endian 32-bit floats, [tokens][vocabulary]. " UNLEARNED,
         0, 0, ""},
    [CLI_PERPLEXITY] =
        {"perplexity", "-m MODEL [-f FILE] [--ctx N] [options]", "how well the model predicts a text",
         "Cuts the text into windows of --ctx tokens (512 unless given), evaluates each from an empty "
         "context and scores the second half of each, so that every scored token has context. Prints "
         "the perplexity so far after each window, and the final one with its number of tokens. " UNLEARNED,
         0, 0, ""},
    [CLI_BENCH] = {"bench", "MODEL [-p LIST] [-n N] [-r N] [-f FILE] [options]", "measure speed",
                   "Measures prefill at each length of the list and decode of N tokens after it, on real text (a "
                   "built-in excerpt of Moby-Dick, or the file), each repetition on another part of the text. Prints "
                   "the medians, and on standard error what the expert cache did. " UNLEARNED,
                   0, 1, "files"},
    [CLI_PROFILE] = {"profile", "-m MODEL [-f FILE | -p TEXT]... [-n N] [--out HOTLIST]",
                     "list the experts that your texts use, to load them first",
                     "Evaluates texts, each from an empty context (one that is longer than the context in windows of "
                     "its length), and writes a list of the experts that they chose, most often first. --hotlist of "
                     "run, chat and others loads them before they are asked for, --pin keeps them. Without -p or -f "
                     "the text is read from standard input. Prints how much of what was chosen the first experts of "
                     "the list cover. Nothing is learned from it: the usage file stays as it is.",
                     0, 0, ""},
    [CLI_DOCTOR] = {"doctor", "[FILE | DIRECTORY] [--full] [--json]", "look at this machine",
                    "Shows the processor's features, the memory and its limits, and what reads the system allows. "
                    "With a file or a directory it measures random reads there (64 MiB at most; on a directory without "
                    "a large file it writes a scratch file of that size and removes it), and says what the figures "
                    "mean.",
                    0, 1, "files"},
    [CLI_QUANTIZE] = {"quantize", "IN OUT --type TYPE [--tensor-type REGEX=TYPE]...", "write a model in another format",
                      "Reads a model and writes it with its large tensors in another format, tensor by tensor, so that "
                      "a model of any size needs little memory. Norms, routers, biases and vectors stay as they are. A "
                      "tensor whose rows are no multiple of the format's block falls back to Q8_0 or F16, with a line. "
                      "OUT appears only when it is complete.",
                      2, 2, "files"},
    [CLI_CHECKSUM] = {"checksum", "-m MODEL [--out FILE] [--json]", "write checksums of a model",
                      "Reads a model and writes a checksum (XXH64) of each part of each expert and of each other "
                      "tensor into MODEL.sluice-sums, which appears when it is complete. Do it while the model is "
                      "known to be good: just downloaded, and compared with what its source says of the file. 'sluice "
                      "verify' and the option --verify compare with these checksums later.",
                      0, 0, ""},
    [CLI_VERIFY] = {"verify", "-m MODEL [--sums FILE] [--json]", "compare a model with its checksums",
                    "Reads a model, compares it with the checksums that 'sluice checksum' has written, and names each "
                    "damaged expert (layer, expert, part) and tensor. Ends with 0 if everything is good and with 3 if "
                    "something is damaged. Checksums that are damaged themselves, or belong to another model, are "
                    "refused (2).",
                    0, 0, ""},
    [CLI_REPLAY] = {"replay", "TRACE... [--policy LIST] [--sizes LIST] [--disk MB/S | FILE] [--plot FILE] [--json]",
                    "what other cache sizes and policies would have given",
                    "Runs recorded routings (of --trace, or CSV) through expert caches of some sizes with the policies "
                    "that the engine uses, and prints their hit rates in decode, what they would read for a token and, "
                    "with --disk, how many tokens a second the disk would allow. The last row is the limit: a cache "
                    "that knows the future. Sizes are slots of each layer; 2K is twice the experts used a token.",
                    1, CLI_WORDS_MAX, "files"},
    [CLI_PACK] = {"pack", "IN OUT [--json]", "write a model whose experts lie in one piece each",
                  "Copies a model into an ordinary GGUF file in which each expert is one contiguous record that begins "
                  "where direct reads begin, layer by layer, as one tensor an expert and part. Results are the same to "
                  "the bit; IN is not touched. OUT appears when it has been read back from the disk and compared. What "
                  "an interrupted run has written stays in OUT.part, and the same command goes on with it. If there "
                  "are checksums beside IN, IN is compared with them; OUT.sluice-sums is written too. Other programs "
                  "may not know this layout: keep IN for them.",
                  2, 2, "files"},
    [CLI_VERSION] = {"version", "[--json]", "print the version", "Prints the version of the program.", 0, 0, ""},
    [CLI_HELP] = {"help", "[COMMAND] [--man | --completion SHELL]",
                  "explain a command; print the manual page (--man) or completions (--completion bash)",
                  "Explains a command, or prints the manual page (roff) or the completions of a shell.", 0, 1,
                  "commands"},
};

#define MODEL "Model and memory"
#define EXPERTS "Known experts"
#define TEXT "Text"
#define SERVER "Server"
#define SAMPLING "Sampling"
#define MACHINE "Machine"
#define TASK "Task"
#define OUTPUT "Output"

const struct cli_option_row cli_option_rows[OPT_COUNT] = {
    {OPT_MODEL, MODEL, "model", 'm', CLI_PATH, true, false, "FILE", NULL, 0, 0, NULL,
     PLANNERS | CLI_BIT(CLI_INSPECT) | CLI_BIT(CLI_TOKENIZE) | CHECKERS,
     "the model, a GGUF file (of a split model: its first)"},
    {OPT_MEMORY, MODEL, "memory", 0, CLI_TEXT, true, false, "SIZE", NULL, 0, 0, "auto", PLANNERS | CLI_BIT(CLI_INSPECT),
     "memory for the whole process: a size (8G, 1.5GiB, 800MB), a percentage of the machine's limit, or auto"},
    {OPT_EXPERTS, MODEL, "experts", 0, CLI_TEXT, true, false, "SIZE", NULL, 0, 0, NULL, PLANNERS,
     "memory for the expert cache alone: a size, a percentage of all experts, or a number of experts"},
    {OPT_CTX, MODEL, "ctx", 'c', CLI_INTEGER, true, false, "N", NULL, 1, 16777216, NULL, PLANNERS,
     "context length in tokens (default: chosen to fit the memory; of perplexity 512; of logits and bench what they "
     "need)"},
    {OPT_KV_TYPE, MODEL, "kv-type", 0, CLI_CHOICE, true, false, "TYPE", "f16|q8_0|f32", 0, 0, "f16", PLANNERS,
     "format of the KV cache"},
    {OPT_PREFIX_MEMORY, MODEL, "prefix-memory", 0, CLI_TEXT, true, false, "SIZE", NULL, 0, 0, NULL, KEEPERS,
     "memory for beginnings of texts that were computed, beyond the conversation at hand, so that they are not "
     "computed "
     "again: a size, a percentage of the machine's limit, auto, or off (default: auto with --kv-dir and for serve, "
     "else off)"},
    {OPT_KV_DIR, MODEL, "kv-dir", 0, CLI_PATH, true, false, "DIRECTORY", NULL, 0, 0, NULL, KEEPERS,
     "keep them in this folder too, so that later runs with the same model and KV type go on from them; it then holds "
     "what was said"},
    {OPT_KV_LIMIT, MODEL, "kv-limit", 0, CLI_TEXT, true, false, "SIZE", NULL, 0, 0, "8G", KEEPERS,
     "bytes that --kv-dir may take on the disk"},
    {OPT_THREADS, MACHINE, "threads", 't', CLI_INTEGER, true, false, "N", NULL, 1, 256, NULL,
     PLANNERS | CLI_BIT(CLI_QUANTIZE), "threads that compute (default: all that the process may use)"},
    {OPT_CHUNK, MACHINE, "chunk", 0, CLI_INTEGER, true, false, "N", NULL, 1, 4096, NULL, PLANNERS,
     "tokens of a prompt that are computed together (default: chosen)"},
    {OPT_CPU, MACHINE, "cpu", 0, CLI_CHOICE, true, false, "LEVEL", "auto|scalar|avx2|avx512|amx|neon|dotprod|i8mm", 0,
     0, "auto", EVALUATORS, "instruction set of the kernels; results are the same with each"},
    {OPT_IO, MACHINE, "io", 0, CLI_CHOICE, true, false, "BACKEND",
     "auto|uring|threads|sync|auto:buffered|uring:buffered|threads:buffered|sync:buffered", 0, 0, "auto", PLANNERS,
     "how the disk is read; :buffered forbids direct reads"},
    {OPT_POLICY, MACHINE, "policy", 0, CLI_CHOICE, true, false, "POLICY",
     "auto|lru|lfu|hotness|freq-age|expected|recall", 0, 0, "auto", PLANNERS,
     "which expert leaves the cache when room is needed"},
    {OPT_TRACE, MACHINE, "trace", 0, CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL, EVALUATORS,
     "record which experts the model chooses, for sluice replay"},
    {OPT_ROUTE, MACHINE, "route", 0, CLI_CHOICE, true, false, "ROUTE", "auto|token|selected|layers", 0, 0, "auto",
     EVALUATORS, "how prompts are read: token by token, the chosen experts in batches, or whole layers in sequence"},
    {OPT_LOCK, MACHINE, "lock", 0, CLI_CHOICE, true, false, "WHAT", "dense|experts|all", 0, 0, NULL, EVALUATORS,
     "lock these weights in memory, so that the system cannot take it away; as much as can be locked, with a line that "
     "says how much"},
    {OPT_LOCK_MARGIN, MACHINE, "lock-margin", 0, CLI_TEXT, true, false, "SIZE", NULL, 0, 0, NULL, EVALUATORS,
     "memory of the machine that --lock leaves free (default: 1 GiB or 5 %, the larger)"},
    {OPT_SIMULATE_USED, MACHINE, "simulate-used-memory", 0, CLI_TEXT, true, false, "SIZE", NULL, 0, 0, NULL,
     PLANNERS | CLI_BIT(CLI_INSPECT), "act as if other programs used so much memory: how would a smaller machine do?"},
    {OPT_USAGE, EXPERTS, "usage", 0, CLI_PATH, true, false, "FILE", NULL, 0, 0, NULL, RUNNERS,
     "where it is kept which experts were used, over runs (default: MODEL.sluice-usage; of logits, perplexity and "
     "bench nowhere)"},
    {OPT_NO_USAGE, EXPERTS, "no-usage", 0, CLI_FLAG, true, false, NULL, NULL, 0, 0, NULL, RUNNERS,
     "neither learn from this run nor use what earlier ones taught"},
    {OPT_HOTLIST, EXPERTS, "hotlist", 0, CLI_PATH, true, false, "FILE", NULL, 0, 0, NULL, RUNNERS,
     "load the experts of this list (of sluice profile) before the first token; chat does while it waits for a line, "
     "and without this option with MODEL.sluice-hotlist or what it has learned"},
    {OPT_COLD, EXPERTS, "cold", 0, CLI_FLAG, true, false, NULL, NULL, 0, 0, NULL, RUNNERS,
     "load no expert before it is asked for"},
    {OPT_WARM_EXPERTS, EXPERTS, "warm-experts", 0, CLI_INTEGER, true, false, "N", NULL, 1, 1000000, NULL, RUNNERS,
     "load at most N experts beforehand (default: 4096), of a hotlist or else what was learned; before the first "
     "token, "
     "of chat while it waits"},
    {OPT_PIN, EXPERTS, "pin", 0, CLI_PATH, true, false, "FILE", NULL, 0, 0, NULL, RUNNERS,
     "experts that stay in the cache once they are loaded: a hotlist, or auto: those that were used most, as long as "
     "that pays"},
    {OPT_PREFETCH, EXPERTS, "prefetch", 0, CLI_TEXT, true, false, "LIST", "auto|off|lookahead|transitions|next|certain",
     0, 0, "auto", PLANNERS,
     "guess which experts come next and read them while the disk is idle: auto (what pays in this run), off, or some "
     "of "
     "lookahead, transitions, next, with commas between them, whether they pay or not; certain, which auto has, is "
     "what a router that is a table of token ids will choose"},
    {OPT_VERIFY, MACHINE, "verify", 0, CLI_FLAG, true, false, NULL, NULL, 0, 0, NULL, EVALUATORS,
     "read every weight twice and compare, also with the checksums beside the model; slower, changes no result"},
    {OPT_PRE, TEXT, "pre", 0, CLI_TEXT, true, false, "NAME", NULL, 0, 0, NULL,
     PLANNERS | CLI_BIT(CLI_TOKENIZE) | CLI_BIT(CLI_INSPECT),
     "how texts are cut into words before they become tokens, instead of what the file says (tokenizer.ggml.pre): for "
     "files that name it wrongly or not at all, or by a name that is not known; a wrong name is answered with the "
     "known ones"},
    {OPT_PROMPT, TEXT, "prompt", 'p', CLI_TEXT, false, false, "TEXT", NULL, 0, 0, NULL,
     CLI_BIT(CLI_RUN) | CLI_BIT(CLI_TOKENIZE), "the text"},
    {OPT_PROFILE_PROMPT, TEXT, "prompt", 'p', CLI_TEXT, false, true, "TEXT", NULL, 0, 0, NULL, CLI_BIT(CLI_PROFILE),
     "a text; may be given several times"},
    {OPT_PROFILE_FILE, TEXT, "file", 'f', CLI_PATH, false, true, "FILE", NULL, 0, 0, NULL, CLI_BIT(CLI_PROFILE),
     "read a text from a file (-: standard input); may be given several times"},
    {OPT_FILE, TEXT, "file", 'f', CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL,
     CLI_BIT(CLI_RUN) | CLI_BIT(CLI_TOKENIZE) | CLI_BIT(CLI_PERPLEXITY) | CLI_BIT(CLI_BENCH),
     "read the text from a file (-: standard input)"},
    {OPT_TEMPLATE, TEXT, "file", 'f', CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL, CLI_BIT(CLI_TEMPLATE),
     "the template (-: standard input)"},
    {OPT_VARS, TEXT, "vars", 0, CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL, CLI_BIT(CLI_TEMPLATE),
     "its variables, a JSON object (-: standard input)"},
    {OPT_NOW, TEXT, "now", 0, CLI_TEXT, false, false, "TIME", NULL, 0, 0, NULL, CLI_BIT(CLI_TEMPLATE),
     "the time that the template is told, as in 2026-07-04T09:05:06 (default: the clock's)"},
    {OPT_CHAT, TEXT, "chat", 0, CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL, CLI_BIT(CLI_RUN) | CLI_BIT(CLI_PROFILE),
     "put the prompt as a user's message in the model's chat format"},
    {OPT_CHAT_TEMPLATE, TEXT, "chat-template-file", 0, CLI_PATH, true, false, "FILE", NULL, 0, 0, NULL, SAMPLERS,
     "a chat template (Jinja) in place of the model file's own (with run: needs --chat)"},
    {OPT_SYSTEM, TEXT, "system", 0, CLI_TEXT, true, false, "TEXT", NULL, 0, 0, NULL, TALKERS,
     "a system message before the conversation (with run: needs --chat)"},
    {OPT_MAX_TOKENS, TEXT, "max-tokens", 'n', CLI_INTEGER, true, false, "N", NULL, 0, 1000000000, NULL, SAMPLERS,
     "stop after N new tokens (default: at the model's own end, or when the context is full)"},
    {OPT_PROFILE_TOKENS, TEXT, "max-tokens", 'n', CLI_INTEGER, false, false, "N", NULL, 0, 1000000, "0",
     CLI_BIT(CLI_PROFILE), "let the model write N tokens after each text, and count what they choose too"},
    {OPT_STOP, TEXT, "stop", 0, CLI_TEXT, false, true, "TEXT", NULL, 0, 0, NULL, TALKERS,
     "stop before this text; may be given several times"},
    {OPT_SCHEMA, TEXT, "schema", 0, CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL, TALKERS,
     "each answer is JSON of the shape that the JSON Schema in this file describes"},
    {OPT_SPECIAL, TEXT, "special", 0, CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL,
     CLI_BIT(CLI_RUN) | CLI_BIT(CLI_TOKENIZE), "recognise the model's special tokens in the text"},
    {OPT_BOS, TEXT, "bos", 0, CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL, CLI_BIT(CLI_TOKENIZE),
     "begin as the model wants it: with its BOS token, if the file asks for one"},
    {OPT_TOKENS, TASK, "tokens", 0, CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL, CLI_BIT(CLI_LOGITS),
     "token ids, separated by white space (-: standard input)"},
    {OPT_OUT, TASK, "out", 'o', CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL,
     CLI_BIT(CLI_LOGITS) | CLI_BIT(CLI_CHECKSUM) | CLI_BIT(CLI_PROFILE),
     "where the result goes (default of checksum: MODEL.sluice-sums, of profile: MODEL.sluice-hotlist); appears when "
     "it "
     "is complete, and takes the place of what was there"},
    {OPT_SUMS, TASK, "sums", 0, CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL, CLI_BIT(CLI_VERIFY),
     "the checksums (default: MODEL.sluice-sums)"},
    {OPT_HOST, SERVER, "host", 0, CLI_TEXT, true, false, "ADDRESS", NULL, 0, 0, "127.0.0.1", CLI_BIT(CLI_SERVE),
     "name or address to listen on; 0.0.0.0: every address of this machine"},
    {OPT_PORT, SERVER, "port", 0, CLI_INTEGER, true, false, "N", NULL, 0, 65535, "8080", CLI_BIT(CLI_SERVE),
     "port to listen on; 0: any that is free"},
    {OPT_API_KEY_FILE, SERVER, "api-key-file", 0, CLI_PATH, true, false, "FILE", NULL, 0, 0, NULL, CLI_BIT(CLI_SERVE),
     "ask for a key: one of those in this file, one a line (# begins a comment)"},
    {OPT_INSECURE, SERVER, "insecure", 0, CLI_FLAG, true, false, NULL, NULL, 0, 0, NULL, CLI_BIT(CLI_SERVE),
     "let others in without a key"},
    {OPT_CORS, SERVER, "cors", 0, CLI_TEXT, true, false, "ORIGIN", NULL, 0, 0, NULL, CLI_BIT(CLI_SERVE),
     "let pages of this origin ask (https://example.org), or * for any"},
    {OPT_ALIAS, SERVER, "alias", 0, CLI_TEXT, true, false, "NAME", NULL, 0, 0, NULL, CLI_BIT(CLI_SERVE),
     "the model's name in answers (default: the file's)"},
    {OPT_SERVE, SERVER, "serve", 0, CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL, CLI_BIT(CLI_PLAN),
     "the ledger that serve would have: memory for several sessions, kept prefixes, bodies of requests"},
    {OPT_SESSIONS, SERVER, "sessions", 0, CLI_INTEGER, true, false, "N", NULL, 1, 64, NULL, SERVERS,
     "requests that are worked on at once, each with memory for a whole context; others wait (default: up to 4, as "
     "long as that costs the expert cache little); plan takes it with --serve"},
    {OPT_QUEUE, SERVER, "queue", 0, CLI_INTEGER, true, false, "N", NULL, 1, 100000, "64", CLI_BIT(CLI_SERVE),
     "requests that may wait; further ones are answered with 429"},
    {OPT_MAX_CONNECTIONS, SERVER, "max-connections", 0, CLI_INTEGER, true, false, "N", NULL, 1, 100000, "1100",
     CLI_BIT(CLI_SERVE), "connections that may be open"},
    {OPT_MAX_BODY, SERVER, "max-body", 0, CLI_INTEGER, true, false, "MIB", NULL, 1, 1024, "8", SERVERS,
     "largest body of a request, in MiB; plan takes it with --serve"},
    {OPT_MAX_HEADER, SERVER, "max-header", 0, CLI_INTEGER, true, false, "KIB", NULL, 8, 1024, "32", CLI_BIT(CLI_SERVE),
     "largest head of a request, in KiB"},
    {OPT_TIMEOUT_IDLE, SERVER, "timeout-idle", 0, CLI_INTEGER, true, false, "S", NULL, 1, 86400, "120",
     CLI_BIT(CLI_SERVE), "seconds after which a connection without a request is closed"},
    {OPT_TIMEOUT_RECEIVE, SERVER, "timeout-receive", 0, CLI_INTEGER, true, false, "S", NULL, 1, 86400, "30",
     CLI_BIT(CLI_SERVE), "seconds in which a request must have arrived, from its first byte on"},
    {OPT_TIMEOUT_STALL, SERVER, "timeout-stall", 0, CLI_INTEGER, true, false, "S", NULL, 1, 86400, "60",
     CLI_BIT(CLI_SERVE), "seconds after which a reader that takes next to nothing of its answer is given up"},
    {OPT_KEEP_ALIVE, SERVER, "keep-alive", 0, CLI_INTEGER, true, false, "S", NULL, 0, 3600, "10", CLI_BIT(CLI_SERVE),
     "seconds of silence after which a stream sends a sign of life; 0: never"},
    {OPT_LOG, SERVER, "log", 0, CLI_CHOICE, true, false, "WHICH", "requests|all|off", 0, 0, "requests",
     CLI_BIT(CLI_SERVE),
     "a line on standard error for each request when it is over: status, tokens, times, nothing of what was said; "
     "requests leaves out what only watches (health, figures, the page). --quiet silences it too"},
    {OPT_TEMP, SAMPLING, "temp", 0, CLI_NUMBER, true, false, "T", NULL, 0, 100, "0.8", SAMPLERS,
     "temperature; 0 always takes the most probable token"},
    {OPT_TOP_K, SAMPLING, "top-k", 0, CLI_INTEGER, true, false, "K", NULL, 0, 16777216, "40", SAMPLERS,
     "keep the K most probable tokens; 0: all"},
    {OPT_TOP_P, SAMPLING, "top-p", 0, CLI_NUMBER, true, false, "P", NULL, 0, 1, "0.95", SAMPLERS,
     "keep the most probable tokens that together have probability P; 1: all"},
    {OPT_MIN_P, SAMPLING, "min-p", 0, CLI_NUMBER, true, false, "P", NULL, 0, 1, "0.05", SAMPLERS,
     "drop tokens less probable than P times the best; 0: none"},
    {OPT_REPEAT_PENALTY, SAMPLING, "repeat-penalty", 0, CLI_NUMBER, true, false, "X", NULL, 0.01, 100, "1.0", SAMPLERS,
     "make tokens that were used lately less likely; 1: off"},
    {OPT_REPEAT_LAST, SAMPLING, "repeat-last", 0, CLI_INTEGER, true, false, "N", NULL, 0, 16777216, "64", SAMPLERS,
     "tokens that count as lately"},
    {OPT_PRESENCE_PENALTY, SAMPLING, "presence-penalty", 0, CLI_NUMBER, true, false, "X", NULL, -2, 2, "0", SAMPLERS,
     "subtracted from the logits of tokens that the answer has already"},
    {OPT_FREQUENCY_PENALTY, SAMPLING, "frequency-penalty", 0, CLI_NUMBER, true, false, "X", NULL, -2, 2, "0", SAMPLERS,
     "the same, as often as the answer has them"},
    {OPT_LOGIT_BIAS, SAMPLING, "logit-bias", 0, CLI_TEXT, false, true, "ID=VALUE", NULL, 0, 0, NULL, TALKERS,
     "add VALUE, from -100 to 100, to the logit of token ID; may be given several times"},
    {OPT_SEED, SAMPLING, "seed", 's', CLI_SEED, true, false, "N", NULL, 0, 0, NULL, SAMPLERS,
     "the same seed gives the same text (default: random; run and chat print it)"},
    {OPT_GREEDY, SAMPLING, "greedy", 0, CLI_FLAG, true, false, NULL, NULL, 0, 0, NULL, SAMPLERS,
     "always take the most probable token (as --temp 0)"},
    {OPT_PREFILL, TASK, "prefill", 'p', CLI_COUNTS, false, false, "LIST", NULL, 1, 1000000, "32,128,512",
     CLI_BIT(CLI_BENCH), "prompt lengths in tokens, separated by commas"},
    {OPT_DECODE, TASK, "decode", 'n', CLI_INTEGER, false, false, "N", NULL, 0, 1000000, "64", CLI_BIT(CLI_BENCH),
     "tokens to decode after each prompt"},
    {OPT_REPETITIONS, TASK, "repetitions", 'r', CLI_INTEGER, false, false, "N", NULL, 1, 1000, "3", CLI_BIT(CLI_BENCH),
     "how often each length is measured"},
    {OPT_FULL, TASK, "full", 0, CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL, CLI_BIT(CLI_DOCTOR),
     "measure the disk for longer: up to 1 GiB for each figure, instead of 64 MiB for all"},
    {OPT_TYPE, TASK, "type", 0, CLI_CHOICE, false, false, "TYPE", "Q8_0|Q4_0|Q4_K|Q6_K|TQ1_0|TQ2_0|F16", 0, 0, NULL,
     CLI_BIT(CLI_QUANTIZE), "format of the large tensors"},
    {OPT_TENSOR_TYPE, TASK, "tensor-type", 0, CLI_TEXT, false, true, "REGEX=TYPE", NULL, 0, 0, NULL,
     CLI_BIT(CLI_QUANTIZE),
     "another format for the tensors whose name matches (POSIX extended); the first that matches counts"},
    {OPT_REQUANTIZE, TASK, "requantize", 0, CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL, CLI_BIT(CLI_QUANTIZE),
     "also convert tensors that are quantised already, which loses quality twice"},
    {OPT_POLICIES, TASK, "policy", 0, CLI_TEXT, false, false, "LIST",
     "all|auto|lru|lfu|hotness|freq-age|expected|recall", 0, 0, "all", CLI_BIT(CLI_REPLAY),
     "policies to compare, with commas between them, or all"},
    {OPT_SIZES, TASK, "sizes", 0, CLI_TEXT, false, false, "LIST", NULL, 0, 0, "2K,3K,4K,6K,8K", CLI_BIT(CLI_REPLAY),
     "slots of each layer, with commas between them; K: experts used a token"},
    {OPT_DISK, TASK, "disk", 0, CLI_PATH, false, false, "SPEED", NULL, 0, 0, NULL,
     CLI_BIT(CLI_REPLAY) | CLI_BIT(CLI_PLAN),
     "how fast the disk reads, for a prediction of tokens/s: a number of MB/s, or a large file on that disk (with plan "
     "the model itself will do), from which it is measured (64 MiB are read, as by sluice doctor)"},
    {OPT_PLOT, TASK, "plot", 0, CLI_PATH, false, false, "FILE", NULL, 0, 0, NULL, CLI_BIT(CLI_REPLAY),
     "draw the curves (SVG)"},
    {OPT_MAN, TASK, "man", 0, CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL, CLI_BIT(CLI_HELP),
     "print the manual page"},
    {OPT_COMPLETION, TASK, "completion", 0, CLI_CHOICE, false, false, "SHELL", "bash|zsh|fish", 0, 0, NULL,
     CLI_BIT(CLI_HELP), "print the completions of a shell"},
    {OPT_JSON, OUTPUT, "json", 0, CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL,
     CLI_BIT(CLI_PLAN) | CLI_BIT(CLI_INSPECT) | CLI_BIT(CLI_TOKENIZE) | CLI_BIT(CLI_PERPLEXITY) | CLI_BIT(CLI_BENCH) |
         CLI_BIT(CLI_PROFILE) | COPIERS | CLI_BIT(CLI_DOCTOR) | CLI_BIT(CLI_REPLAY) | CLI_BIT(CLI_VERSION),
     "print JSON"},
    {OPT_QUIET, OUTPUT, "quiet", 'q', CLI_FLAG, true, false, NULL, NULL, 0, 0, NULL,
     PLANNERS | CLI_BIT(CLI_TOKENIZE) | CLI_BIT(CLI_QUANTIZE) | CLI_BIT(CLI_REPLAY) | COPIERS,
     "say nothing but warnings and errors"},
    {OPT_VERBOSE, OUTPUT, "verbose", 'v', CLI_FLAG, true, false, NULL, NULL, 0, 0, NULL,
     PLANNERS | CLI_BIT(CLI_TOKENIZE) | CLI_BIT(CLI_QUANTIZE) | CLI_BIT(CLI_REPLAY), "say more"},
    {OPT_HELP, OUTPUT, "help", 'h', CLI_FLAG, false, false, NULL, NULL, 0, 0, NULL, EVERYONE,
     "explain the command and its options"},
};
