#include "expert/slots_sim.h"

#include "base/assert.h"

#include <stdlib.h>

/* A key that is there is in the policy's set, unless it stays or is held by the running want. */
enum {
    THERE = 1, /* takes room */
    STAYS = 2, /* no victim; counted in kept_bytes */
    KEEP = 4,  /* named by slots_keep */
};

static uint32_t widest(const struct policy_shape *shape)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < shape->n_layers; i++)
        if (shape->layers[i].n_expert > n) n = shape->layers[i].n_expert;
    return n;
}

static uint32_t count_keys(const struct policy_shape *shape)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < shape->n_layers; i++) n += shape->layers[i].n_expert;
    return n;
}

size_t slots_memory_bytes(const struct policy_shape *shape)
{
    return policy_memory_bytes(shape) + ((size_t)shape->n_classes + 2) * 2 * sizeof(uint64_t) +
           ((size_t)count_keys(shape) + 1) * (sizeof(uint8_t) + sizeof(uint32_t)) +
           ((size_t)widest(shape) + 1) * 2 * sizeof(uint32_t);
}

enum sluice_status slots_create(struct slots_sim *s, const struct slots_config *config, struct sluice_error *err)
{
    const struct policy_shape *shape = config->shape;
    const size_t n_keys = count_keys(shape), n_wide = widest(shape);
    *s = (struct slots_sim){.layers = shape->layers,
                            .n_keys = (uint32_t)n_keys,
                            .n_classes = shape->n_classes,
                            .n_rooms = config->room_each ? shape->n_classes : 1,
                            .room_bytes = config->room_bytes,
                            .kept_bytes_max = config->kept_bytes_max};
    BASE_ASSERT(!config->room_each || !config->kept_bytes_max, "what stays is counted for all classes together");
    enum sluice_status status = policy_create(config->policy, shape, &s->policy, err);
    if (status) return status;
    s->slot_bytes = calloc((size_t)shape->n_classes + 1, sizeof *s->slot_bytes);
    s->used_bytes = calloc((size_t)s->n_rooms + 1, sizeof *s->used_bytes);
    s->state = calloc(n_keys + 1, sizeof *s->state);
    s->class_of = calloc(n_keys + 1, sizeof *s->class_of);
    s->held = calloc(n_wide + 1, sizeof *s->held);
    s->missing = calloc(n_wide + 1, sizeof *s->missing);
    if (!s->slot_bytes || !s->used_bytes || !s->state || !s->class_of || !s->held || !s->missing) goto fail;
    for (uint32_t i = 0; i < shape->n_classes; i++) s->slot_bytes[i] = config->slot_bytes[i];
    for (uint32_t i = 0; i < shape->n_layers; i++)
        for (uint32_t e = 0; e < shape->layers[i].n_expert; e++)
            s->class_of[shape->layers[i].first_key + e] = shape->layers[i].class_index;
    return SLUICE_OK;

fail:
    slots_destroy(s);
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory to follow %zu experts", n_keys);
}

void slots_destroy(struct slots_sim *s)
{
    free(s->missing);
    free(s->held);
    free(s->class_of);
    free(s->state);
    free(s->used_bytes);
    free(s->slot_bytes);
    policy_destroy(s->policy);
    *s = (struct slots_sim){0};
}

bool slots_there(const struct slots_sim *s, uint32_t key) { return s->state[key] & THERE; }

/* ---- what stays ---- */

/* A key that is there and in no set: does it stay? */
static bool may_stay(struct slots_sim *s, uint32_t key)
{
    const uint64_t bytes = s->slot_bytes[s->class_of[key]];
    if (!(s->state[key] & KEEP) || bytes > s->kept_bytes_max - s->kept_bytes) return false;
    s->state[key] |= STAYS;
    s->kept_bytes += bytes;
    return true;
}

void slots_keep(struct slots_sim *s, uint32_t key, bool keep)
{
    const uint32_t class_index = s->class_of[key];
    BASE_ASSERT(s->n_held == 0, "what stays changes between wants");
    s->state[key] = (uint8_t)(keep ? s->state[key] | KEEP : s->state[key] & ~KEEP);
    if (!(s->state[key] & THERE)) return;
    if (keep && !(s->state[key] & STAYS)) {
        if (may_stay(s, key)) policy_remove(s->policy, class_index, key);
    } else if (!keep && s->state[key] & STAYS) {
        s->state[key] &= (uint8_t)~STAYS;
        s->kept_bytes -= s->slot_bytes[class_index];
        policy_insert(s->policy, class_index, key);
    }
}

/* ---- one want ---- */

static void give_all(struct slots_sim *s)
{
    for (uint32_t i = 0; i < s->n_held; i++)
        if (!may_stay(s, s->held[i])) policy_insert(s->policy, s->class_of[s->held[i]], s->held[i]);
    s->n_held = 0;
}

static uint32_t coldest(struct slots_sim *s, uint32_t room)
{
    if (s->n_rooms > 1) return policy_victim(s->policy, room); /* a room is one class */
    uint32_t best = POLICY_NONE;
    for (uint32_t i = 0; i < s->n_classes; i++) {
        uint32_t key = policy_victim(s->policy, i);
        if (key != POLICY_NONE && (best == POLICY_NONE || policy_compare(s->policy, key, best) < 0)) best = key;
    }
    return best;
}

/* Finds room for one expert. False: those that stay leave none, so it is read and not kept. */
static bool make_room(struct slots_sim *s, uint32_t class_index)
{
    const uint32_t room = s->n_rooms > 1 ? class_index : 0;
    const uint64_t bytes = s->slot_bytes[class_index];
    if (s->kept_bytes > s->room_bytes || bytes > s->room_bytes - s->kept_bytes) return false;
    while (s->used_bytes[room] + bytes > s->room_bytes) {
        uint32_t victim = coldest(s, room);
        if (victim == POLICY_NONE) { /* a wave is over */
            if (!s->n_held) return false;
            give_all(s);
            continue;
        }
        policy_remove(s->policy, s->class_of[victim], victim);
        s->state[victim] &= (uint8_t)~THERE;
        s->used_bytes[room] -= s->slot_bytes[s->class_of[victim]];
        s->evictions++;
    }
    s->used_bytes[room] += bytes;
    return true;
}

uint32_t slots_want(struct slots_sim *s, uint32_t layer, const uint32_t *ids, uint32_t n)
{
    const struct policy_layer *l = &s->layers[layer];
    uint32_t n_missing = 0;
    BASE_ASSERT(n <= l->n_expert, "a want is of distinct experts of its layer");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t key = l->first_key + ids[i];
        if (!(s->state[key] & THERE)) {
            s->missing[n_missing++] = key;
        } else if (!(s->state[key] & STAYS)) {
            policy_remove(s->policy, l->class_index, key);
            s->held[s->n_held++] = key;
        }
    }
    for (uint32_t i = 0; i < n_missing; i++) {
        if (!make_room(s, l->class_index)) continue;
        s->state[s->missing[i]] |= THERE;
        s->held[s->n_held++] = s->missing[i];
    }
    give_all(s);
    return n - n_missing;
}
