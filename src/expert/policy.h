/* Which expert leaves when room is needed. Pure: sees keys (dense expert ids), classes, counters, weights and a tick;
 * no time, no I/O, no memory addresses, so the engine and a replay of traces run the very same code.
 *
 * The policy keeps, for each class, the set of keys that may be evicted now (resident and not pinned). The cache puts a
 * key in when it becomes evictable and takes it out when it is pinned or leaves. Victim choice is O(log n) or better.
 */
#ifndef EXPERT_POLICY_H
#define EXPERT_POLICY_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum policy_kind { POLICY_LRU, POLICY_HOTNESS, POLICY_KINDS };
#define POLICY_NONE UINT32_MAX

struct policy; /* opaque */

const char *policy_name(enum policy_kind kind);
bool policy_by_name(const char *name, enum policy_kind *out); /* "auto" is the default policy */

enum sluice_status policy_create(enum policy_kind kind, uint32_t n_keys, uint32_t n_classes, struct policy **out,
                                 struct sluice_error *err);
void policy_destroy(struct policy *p);
size_t policy_memory_bytes(uint32_t n_keys, uint32_t n_classes);

void policy_prompt(struct policy *p);           /* a new prompt begins: heat is reset, residents stay */
void policy_tick(struct policy *p, uint32_t n); /* n tokens have passed */
/* The router chose key for one token. ahead: how many tokens of the running step come before it (a prefill step sees
 * many tokens layer by layer, so selections of its later tokens count as if `ahead` ticks had already passed: counts
 * decay and last use follow the token, not the order of computing). */
void policy_selected(struct policy *p, uint32_t key, float weight, uint32_t ahead);
void policy_insert(struct policy *p, uint32_t class_index, uint32_t key); /* becomes evictable */
void policy_remove(struct policy *p, uint32_t class_index, uint32_t key); /* pinned or gone */
uint32_t policy_victim(const struct policy *p,
                       uint32_t class_index); /* the coldest, or POLICY_NONE; does not remove it */
/* Orders two keys of any classes: negative if a is colder than b. Total: ties go by last use, then by key. */
int policy_compare(const struct policy *p, uint32_t a, uint32_t b);
/* Walks every structure and asserts that it is sound (tests; O(keys)). */
void policy_check(const struct policy *p);

#endif
