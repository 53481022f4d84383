/* From options to an open engine. */
#ifndef CLI_OPEN_H
#define CLI_OPEN_H

#include "cli/report.h"

struct open_model {
    sluice_engine *engine;
    struct sluice_model_info info;
    struct sluice_ledger ledger;
    bool keeps; /* prefixes are kept: ask sluice_session_reuse, and end a turn with sluice_session_keep */
};

#define OPEN_BODY_UNIT ((size_t)1 << 20) /* of --max-body */

enum open_how { OPEN_FULL, OPEN_PLAN, OPEN_VOCAB };

/* ctx: the context if the user gives none (0: the engine chooses). text_bytes: the longest text for
 * open_encode that is known beforehand, or 0. Prints the ledger for OPEN_FULL unless quiet. */
enum sluice_status open_model(const struct cli_options *o, enum open_how how, uint32_t ctx, size_t text_bytes,
                              struct report *r, struct open_model *out, struct sluice_error *err);
/* The options alone, checked as far as that needs no model; strings are those of o, or live as long as the
 * program. */
enum sluice_status open_options(const struct cli_options *o, enum open_how how, uint32_t ctx, size_t text_bytes,
                                struct report *r, struct sluice_options *out, struct sluice_error *err);
void open_close(struct open_model *m);

#define OPEN_IDLE_MS 20 /* a slice of sluice_idle: typing, or Ctrl-C, waits no longer */

/* Before the first token: the figures from which a report counts. The guesses of a warm-up belong to it, its reading
 * does not. */
void open_begin(const struct open_model *m, struct sluice_stats *begin);
/* The figures at the end, once the session is closed: closing keeps what of its prefix was not kept yet. */
void open_end(const struct open_model *m, struct sluice_stats *end);
/* The same, after what --hotlist or --warm-experts asks for has been loaded; says how much. Ctrl-C: SLUICE_CANCELLED.
 */
enum sluice_status open_warm(const struct cli_options *o, const struct open_model *m, struct report *r,
                             struct sluice_stats *begin, struct sluice_error *err);

/* Text to ids; *ids is malloc'ed. A Ctrl-C during a long text ends the program, during another it gives
 * SLUICE_CANCELLED. */
enum sluice_status open_encode(const struct open_model *m, const char *text, size_t bytes,
                               const struct sluice_encode_options *how, int32_t **ids, size_t *n,
                               struct sluice_error *err);
/* The same for a conversation; *ids is freed with sluice_free. */
enum sluice_status open_chat_encode(const struct open_model *m, const struct sluice_message *messages, size_t n,
                                    int32_t **ids, size_t *n_ids, struct sluice_error *err);
/* sluice_eval that Ctrl-C can stop. */
enum sluice_status open_eval(const struct open_model *m, sluice_session *s, const int32_t *ids, size_t n, float *logits,
                             sluice_logits_fn *each, void *user, struct sluice_error *err);

#endif
