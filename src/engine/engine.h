/* What an engine and a session are made of. Internal to this room; the public face is include/sluice.h. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/log.h"
#include "engine/known.h"
#include "engine/load.h"
#include "engine/prefix.h"
#include "engine/pressure.h"
#include "engine/route.h"
#include "engine/sizes.h"
#include "engine/template.h"
#include "expert/cache.h"
#include "expert/plan.h"
#include "expert/trace.h"
#include "expert/verify.h"
#include "io/io.h"
#include "model/foresight.h"
#include "model/forward.h"
#include "os/locker.h"
#include "os/toucher.h"
#include "sample/sample.h"
#include "sluice.h"
#include "text/chat.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

#include <stdatomic.h>

#define ENGINE_SESSIONS_MAX MODEL_SPANS_MAX

/* The options after parsing: what the user asked for, in our own terms. */
struct engine_asks {
    struct plan_size memory, experts;
    uint32_t kv_type;
    enum io_backend io;
    bool buffered;
    enum policy_kind policy;
    unsigned sources;  /* bits of enum predict_source that may be used */
    bool sources_auto; /* only while they pay */
    bool certain;      /* what a table of token ids gives may be read ahead */
    bool lock_dense, lock_experts, lock_all;
    uint64_t lock_margin_bytes; /* 0: chosen */
    uint64_t simulated_used_bytes;
    enum engine_route route; /* ROUTE_AUTO: by cost */
    struct plan_size prefix_memory;
    uint64_t prefix_limit_bytes;
};

/* One reservation of address space with committed memory in it. */
struct engine_block {
    void *at;
    size_t bytes;
};

struct sluice_engine {
    /* as opened */
    struct sluice_options options; /* strings are copies in `strings` */
    char *strings[24];
    size_t n_strings;
    struct engine_asks asks;
    struct base_log log;
    const struct os_calls *os;

    /* the file */
    struct gguf *gguf;
    struct text_tokenizer *tokenizer;
    enum text_chat_format chat;
    bool chat_exact;
    struct text_grammar_vocab *grammar_vocab; /* made when it is first wanted */
    struct jinja_template *chat_template;     /* the file's own, or NULL: `chat` is used */
    char *chat_source;                        /* its text, or NULL */
    char architecture[64], name[128];
    struct model *model; /* NULL: vocabulary only */

    /* the machine */
    struct os_cpu cpu;
    const struct kernel_table *table;
    struct kernel_pool *pool;
    struct io *io;

    /* the experts */
    struct expert_catalog *catalog; /* NULL: a dense model */
    struct expert_cache *cache;
    struct trace_writer *trace;   /* or NULL */
    struct expert_sums *sums;     /* NULL: none beside the model, or not to be verified */
    struct expert_verify *verify; /* NULL: not to be verified */
    struct predict *predict;      /* NULL: nothing is guessed */
    struct engine_known known;    /* usage, hotlist, pins */
    struct engine_sizes sizes;    /* what other caches would have given */
    struct engine_pressure pressure;
    struct engine_prefix prefix;
    struct engine_routes routes;
    struct os_locker locker;
    struct os_toucher *toucher; /* NULL: no thread for it could be had */

    /* memory */
    struct plan plan;
    uint64_t machine_limit_bytes;
    unsigned auto_percent; /* of it that an automatic budget takes */
    char machine_limit_why[300];
    struct load_plan load;
    struct engine_block dense, kv, scratch;
    size_t dense_locked, kv_locked, scratch_locked;
    uint64_t idle_touched_bytes; /* of scratch and KV cache, by engine_blocks_touch */
    struct model_run run;
    struct model_rest rest; /* the run's */

    /* work */
    atomic_bool cancelled;
    sluice_session *sessions[ENGINE_SESSIONS_MAX]; /* by their place in the KV block; the first options.sessions may be
                                                    * used, NULL: free */
    int32_t *step_ids;                             /* [chunk] tokens of a step of several sessions */
    struct sluice_stats stats;
    uint64_t step_done, step_total, run_tokens; /* of the running call and chunk, for progress */
};

struct sluice_session {
    sluice_engine *engine;
    uint32_t place; /* in engine.sessions, in the KV block and in the scratch block */
    struct model_kv kv;
    int32_t *ids; /* [ctx] the tokens so far */
    size_t n;
    size_t keep_to;  /* of them, [0, keep_to) are to be kept and are not all kept yet; 0: nothing is */
    bool fresh;      /* a new prompt begins with the next token */
    bool has_logits; /* of the last token */
    float *logits;   /* [n_vocab] */
    void *sample_scratch;
    struct sample_params sampling; /* its bias is `bias` */
    struct sample_bias *bias;      /* the session's own, or NULL */
    size_t answer;                 /* ids from here on are an answer's; SIZE_MAX: none has begun */
    struct sample_state random;
};

/* open.c: sluice_engine_open over a given table of system calls (tests inject faults). */
/* As engine_open, but what has been made stays in *out when it fails (NULL without memory for it), to be looked at and
 * closed. */
enum sluice_status engine_try(const struct os_calls *os, const struct sluice_options *o, sluice_engine **out,
                              struct sluice_error *err);
enum sluice_status engine_open(const struct os_calls *os, const struct sluice_options *o, sluice_engine **out,
                               struct sluice_error *err);
/* options.c */
enum sluice_status engine_parse_options(const struct sluice_options *o, sluice_engine *e, struct sluice_error *err);
/* budget.c: fills plan and the machine's limit; needs model, catalog, load plan. */
enum sluice_status engine_plan(sluice_engine *e, struct sluice_error *err);
/* budget.c: refuses a text that the ledger's row for texts does not hold. */
/* Of an engine with the vocabulary alone: whether the caller still wants the text work. */
struct text_watch engine_text_watch(const sluice_engine *e);
enum sluice_status engine_check_text(const sluice_engine *e, size_t bytes, struct sluice_error *err);
/* memory.c */
enum sluice_status engine_block_open(const struct os_calls *os, uint64_t bytes, const char *what,
                                     struct engine_block *out, struct sluice_error *err);
void engine_block_close(const struct os_calls *os, struct engine_block *b);
/* In idle time: scratch and KV cache are brought in until the clock says end_ns, if they are so small that the first
 * prompts would touch all of them anyway; it is not they who wait for it then. Only what is in the ledger already.
 * True: there is more to bring in. */
bool engine_blocks_touch(sluice_engine *e, uint64_t end_ns);
uint64_t engine_block_bytes(uint64_t bytes); /* rounded to pages */
/* Bytes of the scratch block that each session adds to the model's scratch: fixed, and for each position of the
 * context; of the KV block, aligned. */
uint64_t engine_session_fixed_bytes(const struct model_hparams *hp);
uint64_t engine_session_bytes_per_ctx(void);
uint64_t engine_step_ids_bytes(const sluice_engine *e); /* of step_ids, aligned; the sessions follow */
uint64_t engine_session_scratch_bytes(const sluice_engine *e);
uint64_t engine_session_kv_bytes(const sluice_engine *e);
/* budget.c: what this process may use now, as the plan's limit was found; *group (or NULL): the
 * limit of the control group whose room that is, or 0. */
enum sluice_status engine_machine_limit(const sluice_engine *e, uint64_t *bytes, uint64_t *group, char why[300],
                                        struct sluice_error *err);
/* budget.c: memory for what is known beforehand, guessed and simulated. */
uint64_t engine_foresight_bytes(const sluice_engine *e);

#endif
