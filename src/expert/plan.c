/* The memory plan: first what must be, then the context, then the prefill chunk; the experts get the rest.
 *
 * All of it is monotonic in the budget: with the smallest context and a chunk of one token the fixed rows are as small
 * as they get, and a budget that holds them and the floor of the cache (E4) is enough. That sum is the number that a
 * refusal names, so it works when it is fed back. Sums saturate: an absurd model ends in a refusal, never in a wrapped
 * number. */
#include "expert/plan.h"

#include "base/assert.h"
#include "expert/cache.h"

#include <inttypes.h>
#include <stdio.h>

#define CTX_AUTO_MIN 512u /* a smaller one is only made if it is asked for or the model's own */
#define CTX_COMFORT                                                                                                    \
    2048u                   /* above it the KV cache must leave half of the whole budget to the experts, up to it half \
                               of what the other rows leave (large dense weights must not take the context away) */
#define CHUNK_AUTO_MAX 512u /* longer ones compute little faster */
/* Where experts have to be read, a chunk of hundreds of tokens reads nearly all that are not there: half as many chunks
 * are half as many bytes, and the memory of a longer one is small beside that of the experts. */
#define CHUNK_READING_MAX 2048u
#define CHUNK_GRAIN 16u         /* a chosen chunk is a multiple of it, if it can, or the whole context */
#define CHUNK_SHARE 8u          /* a chosen chunk's memory is at most this part of the budget */
#define CHUNK_READING_SHARE 16u /* that of one beyond CHUNK_AUTO_MAX */
/* And of what a chunk leaves the experts and takes from them: a long context may have left little. */
#define CHUNK_EXPERTS_SHARE 4u
#define CHUNK_READING_EXPERTS_SHARE 8u
#define MIB ((uint64_t)1 << 20)

static uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }
static uint64_t mul(uint64_t a, uint64_t b) { return b && a > UINT64_MAX / b ? UINT64_MAX : a * b; }
static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static uint64_t min64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t max64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* What the choices cost. */
static uint64_t kv_bytes(const struct plan_input *in, uint32_t ctx, uint32_t chunk)
{
    return in->kv_bytes(in->kv_user, ctx, chunk);
}
static uint64_t scratch_bytes(const struct plan_input *in, uint32_t ctx, uint32_t chunk)
{
    return add(add(in->scratch_fixed_bytes, mul(in->scratch_bytes_per_ctx, ctx)),
               mul(in->scratch_bytes_per_chunk_token, chunk));
}
static uint64_t output_bytes(const struct plan_input *in, uint32_t chunk)
{
    return mul(in->output_bytes_per_chunk_token, chunk);
}
static uint64_t text_bytes(const struct plan_input *in, uint32_t ctx)
{
    return max64(in->text_bytes, mul(in->text_bytes_per_ctx, ctx));
}
/* All rows but the experts'. */
static uint64_t rows_bytes(const struct plan_input *in, uint32_t ctx, uint32_t chunk)
{
    uint64_t fixed = add(add(in->process_bytes, in->dense_bytes), add(in->staging_bytes, in->book_bytes));
    fixed = add(add(fixed, in->prefix_bytes), text_bytes(in, ctx));
    return add(fixed, add(kv_bytes(in, ctx, chunk), add(scratch_bytes(in, ctx, chunk), output_bytes(in, chunk))));
}

static uint64_t percent_of(double percent, uint64_t bytes)
{
    double part = (double)bytes * (percent / 100);
    return part >= (double)bytes ? bytes : (uint64_t)part;
}

/* "--memory 5123M": rounded up to whole MiB (KiB where it is little) unless that is over the machine's limit. */
static const char *option_bytes(uint64_t bytes, uint64_t limit, char out[32])
{
    uint64_t mib = bytes / MIB + (bytes % MIB != 0);
    if (bytes < 16 * MIB && mib <= limit / MIB && bytes % MIB)
        snprintf(out, 32, "%" PRIu64 "K", bytes / 1024 + (bytes % 1024 != 0));
    else if (mib <= limit / MIB)
        snprintf(out, 32, "%" PRIu64 "M", mib);
    else
        snprintf(out, 32, "%" PRIu64 "B", bytes);
    return out;
}

/* ---- the pieces of the decision ---- */

struct choice {
    uint64_t floor, needed; /* of the experts */
    uint64_t asked;         /* for experts, explicitly; 0: nothing was said */
    uint64_t wanted;        /* of it; 0: what is left */
    uint32_t ctx_min, ctx_max, chunk_min;
    uint64_t smallest; /* budget that holds everything at its least */
};

static enum sluice_status check_asked(const struct plan_input *in, struct choice *c, struct sluice_error *err)
{
    uint32_t model = in->ctx_model ? in->ctx_model : UINT32_MAX;
    if (in->ctx_asked > model)
        return base_fail(err, SLUICE_ERR_USAGE, "ask for a shorter context",
                         "a context of %u tokens was asked for; the model has %u", in->ctx_asked, model);
    if (in->ctx_asked) {
        c->ctx_min = c->ctx_max = in->ctx_asked;
    } else {
        c->ctx_max = PLAN_CTX_AUTO_MAX;
        while (c->ctx_max > model) c->ctx_max /= 2;
        c->ctx_min = c->ctx_max < CTX_AUTO_MIN ? c->ctx_max : CTX_AUTO_MIN;
    }
    c->chunk_min = in->chunk_asked ? in->chunk_asked : 1;
    if (c->chunk_min > c->ctx_max) c->chunk_min = c->ctx_max; /* no prompt is longer than that */
    if (c->chunk_min > c->ctx_min) /* a power of two that holds the chunk; <= ctx_max, which is one too */
        while (c->ctx_min < c->chunk_min) c->ctx_min *= 2;
    return SLUICE_OK;
}

static enum sluice_status choose_experts(const struct plan_input *in, struct choice *c, struct sluice_error *err)
{
    uint32_t n_classes = in->catalog ? expert_catalog_n_classes(in->catalog) : 0;
    if (n_classes == 0) {
        if (in->experts.unit != PLAN_AUTO)
            return base_fail(err, SLUICE_ERR_USAGE, "leave --experts out",
                             "--experts was given, but the model has no experts to stream");
        return SLUICE_OK;
    }
    c->floor = expert_cache_floor_bytes(in->catalog);
    c->needed = expert_cache_full_bytes(in->catalog);
    uint64_t asked = 0;
    switch (in->experts.unit) {
    case PLAN_AUTO: return SLUICE_OK;
    case PLAN_BYTES: asked = (uint64_t)in->experts.value; break;
    case PLAN_PERCENT: asked = percent_of(in->experts.value, c->needed); break;
    case PLAN_COUNT: {
        uint32_t common = expert_catalog_common_class(in->catalog);
        asked = mul((uint64_t)in->experts.value, expert_catalog_class(in->catalog, common)->slot_bytes);
        break;
    }
    }
    if (asked < c->floor) {
        char a[24], b[24], option[32];
        base_fail(err, SLUICE_ERR_MEMORY, NULL,
                  "--experts gives %s; this model needs at least %s, what one token uses and one more of each size",
                  plan_format_bytes(asked, a), plan_format_bytes(c->floor, b));
        uint64_t one = expert_catalog_class(in->catalog, expert_catalog_common_class(in->catalog))->slot_bytes;
        if (in->experts.unit == PLAN_COUNT) /* answered in the unit of the question */
            snprintf(option, sizeof option, "%" PRIu64, c->floor / one + (c->floor % one != 0));
        else
            option_bytes(c->floor, UINT64_MAX, option);
        base_hint(err, "the smallest that works is --experts %s", option);
        return SLUICE_ERR_MEMORY;
    }
    c->asked = asked;
    c->wanted = min64(asked, c->needed);
    return SLUICE_OK;
}

uint64_t plan_rows_bytes(const struct plan *p)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n_rows; i++) sum += p->rows[i].bytes;
    return sum;
}

uint64_t plan_budget(const struct plan_size *memory, uint64_t machine_limit_bytes, unsigned auto_percent)
{
    if (memory->unit == PLAN_AUTO) return percent_of(auto_percent, machine_limit_bytes);
    return memory->unit == PLAN_PERCENT ? percent_of(memory->value, machine_limit_bytes) : (uint64_t)memory->value;
}

/* The number in front of the rows: the user's, or a part of the limit. */
static enum sluice_status choose_budget(const struct plan_input *in, uint64_t *budget, struct sluice_error *err)
{
    uint64_t limit = in->machine_limit_bytes;
    if (in->memory.unit == PLAN_COUNT)
        return base_fail(err, SLUICE_ERR_USAGE, NULL, "--memory takes a size, not a count");
    *budget = plan_budget(&in->memory, limit, in->auto_percent);
    if (*budget <= limit) return SLUICE_OK;
    char a[24], b[24], t[24], option[32];
    base_fail(err, SLUICE_ERR_MEMORY, NULL,
              "--memory asks for %s; this process may use at most %s (%s; the machine has %s)",
              plan_format_bytes(*budget, a), plan_format_bytes(limit, b), in->machine_limit_why,
              plan_format_bytes(in->machine_total_bytes, t));
    base_hint(err, "use at most --memory %s, or leave it out", option_bytes(limit / MIB * MIB, limit, option));
    return SLUICE_ERR_MEMORY;
}

/* The smallest budget that is named: with the margin, and in whole MiB, so that whoever names it says the same number.
 */
static uint64_t named_bytes(const struct plan_input *in, uint64_t smallest)
{
    if (!in->hint_margin_bytes || smallest > UINT64_MAX / 2) return smallest;
    return (smallest + in->hint_margin_bytes + MIB - 1) / MIB * MIB;
}

/* Even the least does not fit. */
static enum sluice_status refuse(const struct plan_input *in, const struct choice *c, uint64_t budget,
                                 struct sluice_error *err)
{
    char a[24], b[24], e[24], r[24], option[32], experts[32];
    uint64_t slots = c->wanted ? c->wanted : c->floor, limit = in->machine_limit_bytes;
    uint64_t rows = rows_bytes(in, c->ctx_min, c->chunk_min);
    base_fail(err, SLUICE_ERR_MEMORY, NULL,
              "the budget is %s, but at least %s is needed: %s for experts and %s for the rest, with a context of %u "
              "tokens and a prefill chunk of %u",
              plan_format_bytes(budget, a), plan_format_bytes(c->smallest, b), plan_format_bytes(slots, e),
              plan_format_bytes(rows, r), c->ctx_min, c->chunk_min);
    uint64_t cap = in->memory.unit == PLAN_AUTO ? limit : budget;
    bool fewer = c->wanted && add(rows, c->floor) <= cap;
    const char *least = fewer ? option_bytes(cap - rows, cap - rows, experts) : "";
    char margin[80] = "";
    if (in->hint_margin_bytes)
        snprintf(margin, sizeof margin, ", with %s to spare: the process is not always of one size",
                 plan_format_bytes(in->hint_margin_bytes, a));
    if (c->smallest <= limit)
        base_hint(err, "%s --memory %s%s%s%s", margin[0] ? "use at least" : "the smallest that works is",
                  option_bytes(min64(named_bytes(in, c->smallest), limit), limit, option), margin,
                  fewer ? "; or use at most --experts " : "", least);
    else
        base_hint(err, "this process may use at most %s (%s): %s%s%s", plan_format_bytes(limit, a),
                  in->machine_limit_why, fewer ? "use at most --experts " : "free some memory or use a smaller model",
                  least, in->ctx_asked ? ", or a shorter context" : "");
    return SLUICE_ERR_MEMORY;
}

/* The largest power of two that leaves enough to the experts. */
static uint32_t choose_ctx(const struct plan_input *in, const struct choice *c, uint64_t budget)
{
    for (uint32_t ctx = c->ctx_max; ctx > c->ctx_min; ctx /= 2) {
        uint64_t rows = rows_bytes(in, ctx, c->chunk_min);
        uint64_t others = rows_bytes(in, 0, c->chunk_min);
        uint64_t half = (ctx > CTX_COMFORT ? budget : less(budget, others)) / 2;
        uint64_t enough = c->wanted ? c->wanted : max64(c->floor, min64(half, c->needed));
        if (add(rows, enough) <= budget) return ctx;
    }
    return c->ctx_min;
}

/* The largest chunk up to `most` that takes at most `room`. */
static uint32_t chunk_within(const struct plan_input *in, uint32_t ctx, uint64_t most, uint64_t room)
{
    const uint64_t none = rows_bytes(in, ctx, 0);
    uint64_t least = 0;
    while (least < most) {
        const uint64_t chunk = least + (most - least + 1) / 2;
        if (rows_bytes(in, ctx, (uint32_t)chunk) - none <= room)
            least = chunk;
        else
            most = chunk - 1;
    }
    return (uint32_t)least;
}

/* The part of what the other rows leave that a chunk may take; what the experts have no use for is free to take. */
static uint64_t fair_share(const struct choice *c, uint64_t left, uint64_t share)
{
    return max64(left / share, less(left, c->wanted ? c->wanted : c->needed));
}

/* As large as useful while its memory stays a fair share and the experts keep what they must have. */
static uint32_t choose_chunk(const struct plan_input *in, const struct choice *c, uint64_t budget, uint32_t ctx)
{
    if (in->chunk_asked) return in->chunk_asked < ctx ? in->chunk_asked : ctx;
    const uint64_t others_leave = less(budget, rows_bytes(in, ctx, 0));
    const uint64_t spare = less(others_leave, c->wanted ? c->wanted : c->floor);
    const uint64_t room = min64(budget / CHUNK_SHARE, fair_share(c, others_leave, CHUNK_EXPERTS_SHARE));
    uint32_t chunk = chunk_within(in, ctx, min64(CHUNK_AUTO_MAX, ctx), min64(spare, room));
    const uint64_t left = less(budget, rows_bytes(in, ctx, chunk));
    if ((c->wanted ? c->wanted : left) < c->needed) {
        const uint64_t reading =
            min64(budget / CHUNK_READING_SHARE, fair_share(c, others_leave, CHUNK_READING_EXPERTS_SHARE));
        const uint32_t longest = chunk_within(in, ctx, min64(CHUNK_READING_MAX, ctx), min64(spare, reading));
        if (longest > chunk) chunk = longest;
    }
    if (chunk > CHUNK_GRAIN && chunk < ctx) chunk -= chunk % CHUNK_GRAIN;
    return chunk ? chunk : 1;
}

static void put_row(struct plan *out, const char *name, uint64_t bytes)
{
    if (!bytes) return; /* a dense model has no experts, an engine without staging no such row */
    BASE_ASSERT(out->n_rows < PLAN_ROWS_MAX, "the ledger has room for its rows");
    out->rows[out->n_rows++] = (struct plan_row){name, bytes};
}

enum sluice_status plan_make(const struct plan_input *in, struct plan *out, struct sluice_error *err)
{
    *out = (struct plan){0};
    struct choice c = {0};
    uint64_t budget = 0;
    enum sluice_status status = choose_budget(in, &budget, err);
    if (!status) status = check_asked(in, &c, err);
    if (!status) status = choose_experts(in, &c, err);
    if (status) return status;

    /* --experts alone: the budget is what the rows and those slots come to. It may be more than the automatic part
     * of the limit, if the least that it takes is. */
    bool from_experts = in->memory.unit == PLAN_AUTO && c.wanted;
    c.smallest = add(rows_bytes(in, c.ctx_min, c.chunk_min), c.wanted ? c.wanted : c.floor);
    out->smallest_bytes = named_bytes(in, c.smallest);
    if (from_experts) budget = min64(in->machine_limit_bytes, max64(budget, c.smallest));
    if (c.smallest > budget) return refuse(in, &c, budget, err);

    out->ctx = choose_ctx(in, &c, budget);
    out->chunk = choose_chunk(in, &c, budget, out->ctx);
    uint64_t rows = rows_bytes(in, out->ctx, out->chunk);
    out->slots_floor_bytes = c.floor;
    out->slots_needed_bytes = c.needed;
    out->slots_asked_bytes = c.asked;
    out->slots_bytes = c.wanted ? c.wanted : min64(budget - rows, c.needed);
    if (from_experts) budget = rows + out->slots_bytes;
    out->budget_bytes = budget;
    BASE_ASSERT(rows <= budget && out->slots_bytes <= budget - rows, "the rows of the plan fit its budget");

    put_row(out, "process and tokenizer", in->process_bytes);
    put_row(out, "dense weights", in->dense_bytes);
    put_row(out, "KV cache", kv_bytes(in, out->ctx, out->chunk));
    put_row(out, PLAN_ROW_PREFIXES, in->prefix_bytes);
    put_row(out, "scratch", scratch_bytes(in, out->ctx, out->chunk));
    put_row(out, "expert outputs", output_bytes(in, out->chunk));
    put_row(out, "texts", text_bytes(in, out->ctx));
    put_row(out, "staging", in->staging_bytes);
    put_row(out, "bookkeeping", in->book_bytes);
    put_row(out, "expert slots", out->slots_bytes);
    return SLUICE_OK;
}
