/* A budget can hold all that it must and leave the experts so little that everything is read again and again. That is
 * no error, and is said with what would mend it. Every number comes from plan_make, so it is what one would get. */
#include "base/assert.h"
#include "expert/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Less than what so many tokens use is little, or less than this part of all experts. */
#define LITTLE_TOKENS 2u
#define LITTLE_PART 25u
#define ADVICE_CTX_MIN 2048u /* a shorter context is not proposed */
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define MEMORY_STEPS_MAX 100u /* a larger budget has a larger chunk: the experts do not get all that is added */

static uint64_t row(const struct plan *p, const char *name)
{
    for (size_t i = 0; i < p->n_rows; i++)
        if (!strcmp(p->rows[i].name, name)) return p->rows[i].bytes;
    return 0;
}

static uint64_t enough_bytes(const struct plan_input *in, const struct plan *p)
{
    const uint64_t tokens = LITTLE_TOKENS * expert_catalog_token_bytes(in->catalog);
    const uint64_t part = p->slots_needed_bytes / LITTLE_PART;
    return tokens > part ? tokens : part;
}

/* What the experts would get, or 0. */
static uint64_t slots_with(const struct plan_input *in, struct plan *got)
{
    struct sluice_error err;
    return plan_make(in, got, &err) ? 0 : got->slots_bytes;
}

static void say(char *out, const char *option, uint64_t slots, bool *said)
{
    char text[24];
    const size_t n = strlen(out);
    snprintf(out + n, PLAN_ADVICE_BYTES - n, "%s%s with %s", *said ? ", " : "; the experts would get ",
             plan_format_bytes(slots, text), option);
    *said = true;
}

/* The longest of the shorter contexts that leaves enough, or else the shortest one. */
static void say_ctx(const struct plan_input *in, const struct plan *p, uint64_t enough, char *out, bool *said)
{
    struct plan_input shorter = *in;
    struct plan got;
    uint64_t slots = 0;
    char option[48];
    for (uint64_t ctx = 1; ctx < p->ctx; ctx *= 2) shorter.ctx_asked = (uint32_t)ctx; /* a power of two below */
    for (; shorter.ctx_asked >= ADVICE_CTX_MIN; shorter.ctx_asked /= 2) {
        slots = slots_with(&shorter, &got);
        if (slots >= enough || shorter.ctx_asked == ADVICE_CTX_MIN) break;
    }
    if (slots < p->slots_bytes * 2) return;
    snprintf(option, sizeof option, "--ctx %" PRIu32, shorter.ctx_asked);
    say(out, option, slots, said);
}

/* Sizes that one would type: two digits or three. */
static uint64_t round_step(uint64_t bytes)
{
    if (bytes < 100 * MIB) return MIB;
    if (bytes < GIB) return 10 * MIB;
    return bytes < 10 * GIB ? 100 * MIB : GIB;
}

/* The smallest round size that leaves enough, and twice what there is: less is not worth a word. */
static void say_memory(const struct plan_input *in, const struct plan *p, uint64_t enough, char *out, bool *said)
{
    struct plan_input larger = *in;
    struct plan got;
    char option[48];
    uint64_t wanted = enough > p->slots_bytes * 2 ? enough : p->slots_bytes * 2, slots = 0, bytes;
    if (wanted > p->slots_needed_bytes) wanted = p->slots_needed_bytes;
    bytes = p->budget_bytes + (wanted - p->slots_bytes) - 1;
    larger.ctx_asked = p->ctx;
    for (unsigned i = 0; i < MEMORY_STEPS_MAX && slots < wanted; i++) {
        const uint64_t step = round_step(bytes);
        bytes = bytes / step * step + step;
        larger.memory = (struct plan_size){PLAN_BYTES, (double)bytes};
        if (!(slots = slots_with(&larger, &got))) return; /* the machine has not so much */
    }
    if (slots < wanted) return;
    if (bytes % GIB)
        snprintf(option, sizeof option, "--memory %" PRIu64 "M", bytes / MIB);
    else
        snprintf(option, sizeof option, "--memory %" PRIu64 "G", bytes / GIB);
    say(out, option, slots, said);
}

bool plan_advise(const struct plan_input *in, const struct plan *p, const struct plan_input *smaller_kv,
                 char out[PLAN_ADVICE_BYTES])
{
    if (!in->catalog || !p->slots_needed_bytes || p->slots_asked_bytes || p->slots_bytes >= p->slots_needed_bytes)
        return false;
    const uint64_t enough = enough_bytes(in, p);
    if (p->slots_bytes >= enough) return false;

    static const char *const names[] = {"dense weights", "KV cache", PLAN_ROW_PREFIXES, "process and tokenizer"};
    const char *most = names[0];
    for (size_t i = 1; i < sizeof names / sizeof *names; i++)
        if (row(p, names[i]) > row(p, most)) most = names[i];
    char a[24], b[24], c[24], d[24];
    int n =
        snprintf(out, PLAN_ADVICE_BYTES,
                 "the expert cache gets %s, %.1f %% of the experts, and a token uses %s: most of that is read from "
                 "the disk each time. The row that takes most of the %s is '%s': %s",
                 plan_format_bytes(p->slots_bytes, a), 100.0 * (double)p->slots_bytes / (double)p->slots_needed_bytes,
                 plan_format_bytes(expert_catalog_token_bytes(in->catalog), b), plan_format_bytes(p->budget_bytes, c),
                 most, plan_format_bytes(row(p, most), d));
    BASE_ASSERT(n > 0 && n < PLAN_ADVICE_BYTES, "the sentence has room");
    bool said = false;
    struct plan got;
    say_ctx(in, p, enough, out, &said);
    if (smaller_kv) {
        struct plan_input other = *smaller_kv;
        other.ctx_asked = p->ctx;
        const uint64_t slots = slots_with(&other, &got);
        if (slots >= p->slots_bytes + p->slots_bytes / 2) say(out, "--kv-type q8_0", slots, &said);
    }
    say_memory(in, p, enough, out, &said);
    return true;
}
