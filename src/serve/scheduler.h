/* The thread that owns the engine: takes jobs from a bounded queue, gives each a session, and alternates decode steps
 * of all of them with chunks of prompts, so that nobody starves (README.md). */
#ifndef SERVE_SCHEDULER_H
#define SERVE_SCHEDULER_H

#include "serve/job.h"

#define SCHEDULER_SESSIONS_MAX 256

struct scheduler;

/* What the thread publishes, for those who must never wait for it. */
struct scheduler_slot {
    bool busy;
    uint64_t exchange;
    enum job_state state;
    size_t n_prompt, n_done, n_reused, n_generated, n_tokens;
};
struct scheduler_snapshot {
    struct sluice_stats stats;
    struct sluice_ledger ledger;
    size_t n_slots, n_queued;
    struct scheduler_slot slots[SCHEDULER_SESSIONS_MAX];
};

/* Starts the thread, which opens the engine first: the server's phase tells when it is done. */
enum sluice_status scheduler_start(struct server *s, struct scheduler **out, struct sluice_error *err);
/* The exchange's request is complete. False: the queue is full, or the server ends (f). */
bool scheduler_submit(struct scheduler *q, struct exchange *x, struct fault *f);
void scheduler_wake(struct scheduler *q);
bool scheduler_at_rest(struct scheduler *q); /* nothing queued, nothing at work */
void scheduler_stop(struct scheduler *q);    /* ends the thread and closes the engine */
void scheduler_snapshot(struct scheduler *q, struct scheduler_snapshot *out);
/* Where every expert is, as JSON; asks for a fresh picture and gives the last one. NULL: none yet. */
json_t *scheduler_experts(struct scheduler *q);

#endif
