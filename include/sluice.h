/* Sluice: mixture-of-experts language models larger than the machine's memory.
 *
 * Thread safety: an engine and all its sessions belong to one thread at a time; different engines are independent.
 * sluice_cancel may be called from any thread and from a signal handler. Strings given to the library are UTF-8. The
 * library never prints, never exits and never reads the environment.
 *
 * ABI: structs that can grow carry their size, so that fields can be added at their end. Those that callers fill
 * (sluice_options, sluice_sampling) begin with struct_bytes, set by their init functions; those that the library fills
 * (sluice_model_info, sluice_ledger, sluice_stats) are passed with the size that the caller was compiled with, by the
 * macros below. sluice_error, sluice_encode_options, sluice_message and sluice_decoder stay as they are. The soname's
 * major number changes when anything else does. */
#ifndef SLUICE_H
#define SLUICE_H

#include "sluice_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SLUICE_API __attribute__((visibility("default")))
#else
#define SLUICE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_VERSION_MAJOR 0
#define SLUICE_VERSION_MINOR 1
#define SLUICE_VERSION_PATCH 0
SLUICE_API const char *sluice_version(void); /* "0.1.0" */
SLUICE_API int sluice_exit_code(enum sluice_status status);
SLUICE_API const char *sluice_status_name(enum sluice_status status);

typedef struct sluice_engine sluice_engine;   /* a model, its expert cache and the compute pool */
typedef struct sluice_session sluice_session; /* one sequence of tokens with its KV cache */

/* ---- opening ---- */

enum sluice_log_level { SLUICE_LOG_NOTE, SLUICE_LOG_WARN, SLUICE_LOG_DEBUG };
enum sluice_phase { SLUICE_PHASE_LOAD, SLUICE_PHASE_PREFILL, SLUICE_PHASE_TEXT };

struct sluice_progress {
    enum sluice_phase phase;
    uint64_t done, total; /* bytes (load) or tokens (prefill); 0 and 0: not known (text) */
};

#define SLUICE_SESSIONS_AUTO UINT32_MAX /* see sessions */

struct sluice_options {
    size_t struct_bytes;
    const char *model_path;
    const char *memory;  /* the whole process: "8G", "50%", "auto"; NULL: auto */
    const char *experts; /* the expert cache alone: "4G", "40%", "4854" (a count); NULL: what the memory leaves */
    const char *kv_type; /* "f16" (default), "q8_0", "f32" */
    const char *cpu;     /* kernel level: "auto" (default), or a name that `sluice help run` lists */
    const char *io;      /* "auto" (default), "uring", "threads", "sync"; ":buffered" after one forbids direct reads */
    const char *policy;  /* eviction: "auto" (default), or a name that `sluice help run` lists */
    uint32_t ctx;        /* tokens; 0: chosen (DESIGN.md section 6) */
    uint32_t threads;    /* 0: as many as the process may use */
    uint32_t chunk;      /* prefill tokens a step; 0: chosen */
    bool vocab_only;     /* tokenizer and metadata alone; with it long text work asks `progress` too (PHASE_TEXT) */
    bool plan_only;      /* as vocab_only, but the ledger is worked out (sluice_ledger); nothing is loaded */
    void (*log)(void *user, enum sluice_log_level level, const char *line); /* may be NULL */
    bool (*progress)(void *user, const struct sluice_progress *
                                     p); /* may be NULL; false: stop (SLUICE_CANCELLED). Called at least once a layer */
    void *user;
    uint32_t io_timeout_ms; /* a read that takes longer is given up with SLUICE_ERR_TIMEOUT; 0: 30000 */
    const char
        *trace_path; /* record which experts are chosen; the file is complete when the engine is closed. NULL: no */
    /* Weights are compared with a second read of the same bytes, and with the checksums of MODEL.sluice-sums if that
     * file exists (one that is damaged or of another model: SLUICE_ERR_USAGE). A difference between the reads is
     * SLUICE_ERR_IO, one to a checksum SLUICE_ERR_MODEL. Slower; changes no logit. */
    bool verify;
    uint64_t text_bytes; /* longest text that sluice_encode will be given, if that is more than 32 bytes a token of the
                          * context: a row of the ledger is made for it; longer texts are SLUICE_ERR_MEMORY */

    /* What is known beforehand (docs/CACHE.md). None of it changes a logit. */
    const char *usage_path;   /* heat of experts, learned over runs: read at start, written when turns end. NULL:
                               * MODEL.sluice-usage, and a folder that cannot be written to is a note. */
    bool no_usage;            /* neither read nor written */
    const char *hotlist_path; /* experts to load before they are asked for (sluice_idle), as `sluice profile` lists
                               * them. NULL: MODEL.sluice-hotlist if it exists, else the usage file's hottest */
    bool cold;                /* nothing is loaded before it is asked for */
    uint32_t warm_experts;    /* at most so many are; 0: 4096 */
    const char *pin; /* experts that stay once loaded: a hotlist, or "auto": chosen from learned heat. NULL: none */
    const char *prefetch; /* guesses at what comes next: "auto" (default), "off", or names of lookahead, transitions,
                           * next, joined by commas: those, whether they pay or not. "certain" is named likewise, auto
                           * has it: what a router that is a table of token ids will choose; models without one refuse
                           * the name. */
    /* How much memory. */
    const char *lock;        /* keep in memory whatever the system wants: "dense", "experts", "all"; NULL: nothing */
    const char *lock_margin; /* memory of the machine that locking leaves free; NULL: the larger of 1 GiB and 5 % */
    const char *simulate_used_memory; /* a size that is treated as used by others, for tests; NULL: none */
    const char *route;                /* how prompts are read: "auto" (default), "token", "selected", "layers" */
    uint32_t sessions; /* that can be open at once, each with a KV cache of ctx tokens; 0: 1, at most 64; or
                        * SLUICE_SESSIONS_AUTO: up to 4, if the context and most of the expert cache stay as they are */
    const char *pre;   /* the pre-tokenizer's name, instead of the one that the file gives; NULL: the file's */
    /* Prefixes of texts that were computed (docs/PREFIXES.md). None of it changes a logit. */
    const char *prefix_memory; /* kept here beyond their session, a row of the ledger: a size, a percentage of the
                                * machine's limit, or "auto"; NULL: none */
    const char *prefix_dir;    /* and in this folder beyond the process, which needs prefix_memory; NULL: nowhere */
    const char *prefix_limit;  /* bytes of it at most, in whole blocks; NULL: "8G" */
    bool grammar; /* answers may be constrained (sluice_grammar_json): memory for it, part of the ledger's row of the
                   * process */
    const char *chat_template; /* text of a chat template (Jinja) that takes the place of the file's own; one that is
                                * wrong: SLUICE_ERR_USAGE, with its line and column. NULL: the file's */
};
SLUICE_API void sluice_options_init(struct sluice_options *o); /* fills struct_bytes and defaults */

/* Errors: USAGE (an option), MODEL (the file), MEMORY (budget or machine), HARDWARE, IO. The options' strings are
 * copied. */
SLUICE_API enum sluice_status sluice_engine_open(const struct sluice_options *o, sluice_engine **out,
                                                 struct sluice_error *err);
SLUICE_API void sluice_engine_close(sluice_engine *e); /* after its sessions */
/* Asks the running call to stop within one layer; it returns SLUICE_CANCELLED and the session stays usable.
 * Async-signal-safe. */
SLUICE_API void sluice_cancel(sluice_engine *e);

/* ---- facts ---- */

struct sluice_model_info {
    const char *architecture, *name, *path; /* live as long as the engine */
    const char *chat_format;                /* "template": the file's own; else a built-in one: "chatml", ... */
    bool chat_format_exact;                 /* false: the file's template is none of the built-in ones */
    uint64_t file_bytes, dense_bytes, expert_bytes, expert_bytes_per_token;
    uint32_t n_layers, n_embd, n_vocab, n_ctx_train, n_expert, n_expert_used;
    uint32_t ctx, chunk, threads;            /* as chosen */
    const char *cpu, *io, *policy, *kv_type; /* as chosen */
    uint32_t sessions;                       /* as chosen */
};
SLUICE_API void sluice_model_info_sized(const sluice_engine *e, struct sluice_model_info *out, size_t bytes);
#define sluice_model_info(e, out) sluice_model_info_sized(e, out, sizeof *(out))

#define SLUICE_LEDGER_ROWS_MAX 16
struct sluice_ledger {
    uint64_t budget_bytes, machine_limit_bytes;
    const char *machine_limit_why;
    struct {
        const char *name;
        uint64_t bytes;
    } rows[SLUICE_LEDGER_ROWS_MAX];
    size_t n_rows;
    uint64_t slots_bytes, slots_all_bytes,
        slots_floor_bytes;           /* expert cache: granted, enough for every expert, smallest legal */
    double expected_bytes_per_token; /* read a token in decode, assuming uniform routing with a warm cache: an upper
                                        estimate */
};
SLUICE_API void sluice_ledger_sized(const sluice_engine *e, struct sluice_ledger *out, size_t bytes);
#define sluice_ledger(e, out) sluice_ledger_sized(e, out, sizeof *(out))

#define SLUICE_PREFETCH_MAX 8
#define SLUICE_SIZES_MAX 12
#define SLUICE_ROUTES_MAX 4
struct sluice_stats {
    uint64_t tokens_prefill, tokens_decode; /* decode: one behind another whose logits were there */
    uint64_t prefill_ns, decode_ns;
    uint64_t hits, misses, evictions; /* of wanted experts */
    uint64_t read_bytes;              /* expert bytes read */
    uint64_t wait_ns;                 /* time that computing stood still for the disk */
    uint64_t disk_busy_ns;            /* time with a read in flight */
    uint64_t load_bytes, load_ns;     /* dense weights at start */
    uint64_t experts_resident, experts_slots;
    uint64_t resident_bytes, resident_peak_bytes; /* of the process, as the system counts it */

    /* Guesses, by source: certain (the router is a table of token ids), lookahead, transitions, next, layers (whole
     * layers of a prompt), warm (hotlist and usage). name NULL: the end of the list. warm names
     * before there is a token whose choice it could be compared with: its came_true and chosen are always 0. */
    struct {
        const char *name;
        bool on;                              /* used for the next token */
        uint64_t named, came_true;            /* experts named; of them, chosen */
        uint64_t chosen;                      /* experts chosen in layers for which the source had named some */
        uint64_t reads, useful, late, wasted; /* reads begun; there in time; still on their way when asked for; for
                                                 nothing */
        uint64_t useful_bytes, wasted_bytes;
    } prefetch[SLUICE_PREFETCH_MAX];
    uint64_t slots_bytes, slots_limit_bytes; /* committed now; allowed now (less than planned: memory was short) */
    uint64_t shrinks, shrunk_bytes, grows;   /* because memory was short, and when it was not any more */
    uint64_t lock_wanted_bytes, locked_bytes, lock_skipped_bytes, lock_failed_bytes; /* locked + skipped = wanted;
                                                                                        failed is part of skipped */
    uint64_t pinned, pinned_bytes; /* experts that stay: resident ones */
    uint64_t kept_decode;          /* experts that a prefill was kept from pushing out */
    /* What other sizes of the expert cache would have given: the same policy, simulated in this run. */
    struct {
        uint64_t slots_bytes, memory_bytes; /* of the cache; of the budget that it would take */
        double hit_rate;                    /* decode */
        double tokens_per_second;           /* decode */
    } sizes[SLUICE_SIZES_MAX];
    size_t n_sizes;
    uint64_t useful_memory_bytes; /* the smallest budget within 5 % of the best of them; 0: not known yet */
    /* Prompts by route: token, selected, layers. */
    struct {
        const char *name;
        uint64_t steps, tokens;    /* chunks that went this way (layers: layer by layer, counted in `layers`) */
        uint64_t layers;           /* layers of chunks */
        uint64_t predicted_ns, ns; /* what the cost model said, what it took */
        uint64_t read_bytes;
    } routes[SLUICE_ROUTES_MAX];
    uint64_t prefix_tokens;                            /* that sluice_session_reuse found */
    uint64_t prefix_nodes;                             /* runs and states that are kept, in memory or on the disk */
    uint64_t prefix_memory_bytes, prefix_memory_limit; /* in use; allowed now (less than planned: memory was short) */
    uint64_t prefix_disk_bytes, prefix_disk_limit;     /* of the folder, files of other models included */
    uint64_t prefix_written_bytes, prefix_read_bytes;
    uint64_t prefix_refused;        /* files that were damaged, or of another model or KV type */
    uint64_t files_changed;         /* 1: the last evaluation found that a file of the model is not as it was */
    uint64_t prefix_returned_bytes; /* of prefix memory, to the system, because memory was short */
    uint32_t warm_left;             /* experts that sluice_idle still has to load, or is loading */
};
/* Since the engine was opened; subtract two to get what lies between. */
SLUICE_API void sluice_stats_sized(const sluice_engine *e, struct sluice_stats *out, size_t bytes);
#define sluice_stats(e, out) sluice_stats_sized(e, out, sizeof *(out))

/* For the time in which nothing is computed (a user types, a server waits): loads what the hotlist or the usage file
 * names, for at most about max_ms, and writes the usage file if that is due; it also brings in memory before it is used
 * (that of the experts, and scratch and KV cache where both are small). Memory that got short is given back here too;
 * max_ms 0: nothing else is done, for those who wait long, and the answer is false. False: there is nothing left to do;
 * true: call again. Never fails: what goes wrong is a line of the log. The first token that is evaluated ends the
 * warm-up. */
SLUICE_API bool sluice_idle(sluice_engine *e, uint32_t max_ms);

/* An expert and how often it was chosen. */
struct sluice_heat {
    uint32_t layer, expert;
    double probability; /* that a token chooses it, in what this engine has evaluated */
};
/* The experts that this engine's tokens chose, most often first, at most `max` (NULL, 0: counts alone); returns how
 * many there are. `sluice profile` makes a hotlist of it. */
SLUICE_API size_t sluice_hottest(const sluice_engine *e, struct sluice_heat *out, size_t max);
/* Writes them as a hotlist for this model, at most `max` (0: all). A file that is there is replaced once the new one is
 * complete and on the disk, and left alone if anything fails. SLUICE_ERR_IO names the path. */
SLUICE_API enum sluice_status sluice_hotlist_write(const sluice_engine *e, const char *path, size_t max,
                                                   struct sluice_error *err);

/* Where the experts of a layer are. */
enum sluice_tier { SLUICE_TIER_DISK, SLUICE_TIER_LOADING, SLUICE_TIER_CACHE, SLUICE_TIER_PINNED };
struct sluice_place {
    uint8_t tier; /* enum sluice_tier */
    float heat;   /* probability that a token chooses it, as learned so far; 0 if nothing was */
};
/* Returns how many routed experts the layer has (0: none); fills at most `max`. out may be NULL. */
SLUICE_API size_t sluice_experts_of(const sluice_engine *e, uint32_t layer, struct sluice_place *out, size_t max);

/* ---- looking at a file ---- */

/* Something about a model file: that it cannot run because of it (stops), or worth knowing. The strings live as long as
 * the call that gets them. */
struct sluice_finding {
    const char *code; /* "kind", "truncated", "shards", "layout", "architecture", "tensor-type", "tokenizer",
                       * "pre-tokenizer", "keys", "tensors", "chat-template", "memory", "hardware", "io", "model",
                       * "option", "note" */
    bool stops;
    const char *message, *hint; /* hint: the way out, or "" */
};
typedef void sluice_finding_fn(void *user, const struct sluice_finding *finding);

struct sluice_examination {
    const char *kind; /* "a language model", "a LoRA adapter", ... */
    bool is_vocabulary;
    bool runs;                      /* on this machine, with these options */
    bool could;                     /* the file itself is fine: it is the machine, its memory or an option */
    uint64_t memory_smallest_bytes; /* the smallest `memory` that would do, here; 0: not known */
};
/* Says of any GGUF file why it would not run: everything that is wrong, not the first thing alone. Options as for
 * sluice_engine_open; nothing is loaded. Errors are those of files that are no GGUF or whose header cannot be read
 * (MODEL), of files that cannot be opened (IO), and USAGE, MEMORY. */
SLUICE_API enum sluice_status sluice_examine_sized(const struct sluice_options *o, sluice_finding_fn *each, void *user,
                                                   struct sluice_examination *out, size_t bytes,
                                                   struct sluice_error *err);
#define sluice_examine(o, each, user, out, err) sluice_examine_sized(o, each, user, out, sizeof *(out), err)

/* ---- text ---- */

struct sluice_encode_options {
    bool special; /* recognise special tokens in the text */
    bool bos;     /* begin with BOS if the model asks for it */
    bool force_bos;
};
/* ids: room for ids_max (text bytes + 8 always suffice). ids NULL: counts alone. */
SLUICE_API enum sluice_status sluice_encode(const sluice_engine *e, const char *text, size_t bytes,
                                            const struct sluice_encode_options *o, int32_t *ids, size_t ids_max,
                                            size_t *n, struct sluice_error *err);
struct sluice_decoder {
    unsigned char state[16]; /* private; zero is a beginning as well (continues: false) */
};
/* continues: the text goes on from other text (a prompt that is being continued), so that a leading space of its first
 * token counts. */
SLUICE_API void sluice_decoder_init(struct sluice_decoder *d, bool continues);
#define SLUICE_PIECE_BYTES_MAX 1024
/* Text of one more token, complete UTF-8 characters only; returns its length, not terminated. id < 0: flush what is
 * held. */
SLUICE_API size_t sluice_decode(const sluice_engine *e, struct sluice_decoder *d, int32_t id, bool special, char *out);
/* The bytes that a token stands for, which may be part of a character; special: of special tokens too. At most
 * SLUICE_PIECE_BYTES_MAX. */
SLUICE_API size_t sluice_token_bytes(const sluice_engine *e, int32_t id, bool special, char *out);
SLUICE_API bool sluice_ends_generation(const sluice_engine *e, int32_t id);

struct sluice_message {
    const char *role, *text; /* role: "system", "user", "assistant" */
};
/* The conversation in the model's chat format, ending with the opening of an answer. *out is freed with sluice_free. */
SLUICE_API enum sluice_status sluice_chat_render(const sluice_engine *e, const struct sluice_message *messages,
                                                 size_t n, char **out, size_t *bytes, struct sluice_error *err);
/* The same as token ids, with BOS if the model asks for it. Special tokens count only where the format puts them: those
 * that stand in a message's text are text. *ids is freed with sluice_free. */
SLUICE_API enum sluice_status sluice_chat_encode(const sluice_engine *e, const struct sluice_message *messages,
                                                 size_t n, int32_t **ids, size_t *n_ids, struct sluice_error *err);
/* The same with everything that chat templates know. vars: a JSON object as Hugging Face templates get it: {"messages":
 * [...], "tools": [...], "add_generation_prompt": true, "enable_thinking": false, ...}; messages have roles system,
 * developer, user, assistant and tool, content (a text, or a list of {"type": "text", "text": ...}), tool_calls,
 * reasoning_content. SLUICE_ERR_USAGE: not such an object, a role that is none of these, the template's own refusal,
 * or tools (also in messages) with a built-in format: it knows none. */
SLUICE_API enum sluice_status sluice_chat_render_json(const sluice_engine *e, const char *vars, size_t bytes,
                                                      char **out, size_t *out_bytes, struct sluice_error *err);
SLUICE_API enum sluice_status sluice_chat_encode_json(const sluice_engine *e, const char *vars, size_t bytes,
                                                      int32_t **ids, size_t *n_ids, struct sluice_error *err);
/* The Jinja source of the file's own chat template, NUL-terminated, or NULL: there is none, or it cannot be used. */
SLUICE_API const char *sluice_chat_template(const sluice_engine *e);
/* The text that ends an answer in the model's chat format ("<|im_end|>"), or ""; never NULL. */
SLUICE_API const char *sluice_chat_stop(const sluice_engine *e);
SLUICE_API void sluice_free(void *p);

/* ---- computing ---- */

SLUICE_API enum sluice_status sluice_session_open(sluice_engine *e, sluice_session **out, struct sluice_error *err);
SLUICE_API void sluice_session_close(sluice_session *s);
SLUICE_API size_t sluice_session_tokens(const sluice_session *s); /* length so far */
/* These tokens; valid until the session is evaluated, rewound or closed. */
SLUICE_API const int32_t *sluice_session_ids(const sluice_session *s);
/* Forgets all tokens from position n on; n <= length. The experts that are loaded stay. n == 0 begins a new prompt.
 * Models with recurrent layers, or with windows that have gone on too far since, compute some tokens before n again
 * when the next ones come. */
SLUICE_API enum sluice_status sluice_session_rewind(sluice_session *s, size_t n, struct sluice_error *err);

/* Receives the logits [n_vocab] of token `index` of the call; false stops with SLUICE_CANCELLED after this chunk. */
typedef bool sluice_logits_fn(void *user, size_t index, const float *logits, size_t n_vocab);
/* Appends n tokens. logits: NULL, or [n_vocab] floats for the last token. each: NULL, or called for every token in
 * order. SLUICE_CONTEXT_FULL: not all fit; nothing was appended. SLUICE_CANCELLED, errors: the tokens of completed
 * chunks stay, see sluice_session_tokens. Logits that are not finite are SLUICE_ERR_MODEL. */
SLUICE_API enum sluice_status sluice_eval(sluice_session *s, const int32_t *ids, size_t n, float *logits,
                                          sluice_logits_fn *each, void *user, struct sluice_error *err);

/* One step of several sessions: the tokens of all parts go through the layers together, so that an expert which several
 * of them choose is read and computed once. The logits are those that each session would get alone, to the bit. All
 * parts or none: after an error or a cancel each session has the tokens that it had before, and no logits.
 * SLUICE_ERR_USAGE: no parts, a session twice or of another engine, more tokens in all than sluice_model_info.chunk.
 * SLUICE_CONTEXT_FULL as in sluice_eval. */
struct sluice_part {
    sluice_session *session;
    const int32_t *ids; /* [n] */
    size_t n;           /* >= 1 */
    float *logits;      /* NULL, or [n_vocab] floats: those of the last token. sluice_sample works either way */
};
SLUICE_API enum sluice_status sluice_eval_together(sluice_engine *e, const struct sluice_part *parts, size_t n_parts,
                                                   struct sluice_error *err);

/* How many of ids[0, n) the session's own tokens begin with. */
SLUICE_API size_t sluice_session_common(const sluice_session *s, const int32_t *ids, size_t n);
/* Makes the session hold the longest beginning of ids[0, n) that is known already, at most n - 1 tokens (the last has
 * to be evaluated for its logits): its own tokens, those of another session of the engine, or a
 * prefix that was kept in memory or on the disk. *n_ready: how many tokens it holds now; go on with sluice_eval from
 * there. The bits are those of a computation from the start. A kept prefix that is damaged is a line of the log and is
 * not used. n >= 1. */
SLUICE_API enum sluice_status sluice_session_reuse(sluice_session *s, const int32_t *ids, size_t n, size_t *n_ready,
                                                   struct sluice_error *err);

/* Keeps what the session holds for sluice_session_reuse, at the end of a turn: what is kept already is not copied
 * again. Rows are copied by sluice_idle, or when the session goes on otherwise or is closed, so that this takes no
 * time; recurrent state at once. A thread writes both to the disk. Without prefix_memory: nothing. What cannot be kept
 * is no error: it is computed again. */
SLUICE_API enum sluice_status sluice_session_keep(sluice_session *s, struct sluice_error *err);

/* Text that was generated here and comes back may be cut into other tokens than those that were generated, and their
 * rows would not be found. Gives ids[0, n) with the longest beginning replaced for which a known sequence (an open
 * session, a kept prefix) spells the same text, to the byte, with the same special tokens in the same places. *out
 * [*n_out] is freed with sluice_free; it is ids itself where nothing better is known. For ids that were made from text.
 */
SLUICE_API enum sluice_status sluice_respell(const sluice_engine *e, const int32_t *ids, size_t n, int32_t **out,
                                             size_t *n_out, struct sluice_error *err);

#define SLUICE_BIAS_MAX 1024
struct sluice_bias {
    int32_t id;
    float by; /* -100 to 100, added to the token's logit before anything else */
};
struct sluice_sampling {
    size_t struct_bytes;
    float temperature, top_p, min_p, repeat_penalty;
    uint32_t top_k, repeat_last;
    uint64_t seed;
    /* As OpenAI's API has them, -2 to 2, 0: off. Of a token that occurs `count` times in the answer so far:
     * logit - count * frequency_penalty - (count > 0) * presence_penalty. The prompt does not count; for
     * repeat_penalty it does. */
    float presence_penalty, frequency_penalty;
    const struct sluice_bias *bias; /* [n_bias], which are copied; an id that is there twice gets both */
    size_t n_bias;                  /* at most SLUICE_BIAS_MAX; 0: bias may be NULL */
};
SLUICE_API void sluice_sampling_init(struct sluice_sampling *p); /* 0.8, 0.95, 0.05, 1.0; 40, 64; seed 0 */
/* Resets the session's random state and sets parameters; out of range: SLUICE_ERR_USAGE that names it. */
SLUICE_API enum sluice_status sluice_session_sampling(sluice_session *s, const struct sluice_sampling *p,
                                                      struct sluice_error *err);
/* An answer begins here: tokens from now on count for presence_penalty and frequency_penalty. Until the first call
 * none does, nor after a rewind (or a sluice_session_reuse) to before that place. */
SLUICE_API void sluice_session_answer(sluice_session *s);
/* A token from the logits of the last sluice_eval. */
SLUICE_API enum sluice_status sluice_sample(sluice_session *s, int32_t *id, struct sluice_error *err);

/* ---- constrained answers ---- */

/* What an answer may be: a JSON document that a schema describes, or what sluice_grammar_openers adds. A grammar holds
 * where one answer stands; each answer takes its own, which is cheap (the vocabulary is put in order once an engine).
 * It belongs to the engine's thread and is freed before the engine is closed. docs/SCHEMA.md. */
typedef struct sluice_grammar sluice_grammar;
/* schema: JSON Schema text; NULL: any JSON object. Errors: SLUICE_ERR_USAGE (no JSON; a keyword that is not supported,
 * by name and place; a schema that nothing fits; an engine opened without `grammar`), SLUICE_ERR_MODEL (no vocabulary),
 * SLUICE_ERR_MEMORY. */
SLUICE_API enum sluice_status sluice_grammar_json(sluice_engine *e, const char *schema, size_t bytes,
                                                  sluice_grammar **out, struct sluice_error *err);
/* Other ways to answer than with the document: with one of these texts, such as the marks with which the model begins a
 * call of a tool ("<tool_call>"), and whatever it likes behind it. Blanks may come before a text as before a document.
 * A text may be spelled by any tokens, control tokens too, and a token may hold the end of it and more. The answer
 * chooses as it goes (sluice_grammar_branch): as long as it can become either, both are open; when a text is whole, all
 * tokens are allowed from there on; when none can come any more, the document is held to its end. What could be both is
 * taken for the text. Call it before the answer begins: g is at a beginning afterwards. The texts are copied, replace
 * earlier ones and stay over sluice_grammar_reset; n 0: none, as in a new grammar. SLUICE_ERR_USAGE: an empty text,
 * or more than SLUICE_OPENERS_BYTES_MAX bytes in all; SLUICE_ERR_MEMORY. After an error g is as it was. */
#define SLUICE_OPENERS_BYTES_MAX 32768
SLUICE_API enum sluice_status sluice_grammar_openers(sluice_grammar *g, const char *const *texts, size_t n,
                                                     struct sluice_error *err);
enum sluice_branch {
    SLUICE_BRANCH_OPEN,     /* an opener may still come or go on, and perhaps the document */
    SLUICE_BRANCH_DOCUMENT, /* the document; without openers from the beginning */
    SLUICE_BRANCH_FREE,     /* an opener is whole: anything, and the answer may end at any place */
};
SLUICE_API enum sluice_branch sluice_grammar_branch(const sluice_grammar *g);
SLUICE_API void sluice_grammar_free(sluice_grammar *g);  /* NULL is allowed */
SLUICE_API void sluice_grammar_reset(sluice_grammar *g); /* to the beginning of an answer */
/* The tokens that may come next: bit id % 64 of word id / 64, n_vocab bits; valid until g's next call. Never empty.
 * Tokens that end an answer are allowed exactly when it is complete. */
SLUICE_API enum sluice_status sluice_grammar_mask(sluice_grammar *g, const uint64_t **mask, struct sluice_error *err);
/* The answer goes on with this token. SLUICE_ERR_USAGE: it is not allowed, and nothing changed. */
SLUICE_API enum sluice_status sluice_grammar_accept(sluice_grammar *g, int32_t id, struct sluice_error *err);
SLUICE_API bool sluice_grammar_complete(const sluice_grammar *g); /* it may end here: a whole document, or free */
/* sluice_sample among the tokens that g allows, and sluice_grammar_accept of the one that was drawn. */
SLUICE_API enum sluice_status sluice_sample_constrained(sluice_session *s, sluice_grammar *g, int32_t *id,
                                                        struct sluice_error *err);

#ifdef __cplusplus
}
#endif
#endif
