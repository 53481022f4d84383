/* Two policies, one structure.
 *
 * Time is counted in tokens. Every key has a stamp, its last use: the time of the last token that selected it. For
 * `hotness` it also has a heat: +1 a selection, halved every 16 tokens, forgotten at a new prompt. The order is (heat,
 * stamp, key), for `lru` (stamp, key): it does not depend on how tokens were grouped into steps. Heat is kept when a
 * key leaves (a ghost count) and is there when it comes back.
 *
 * Nothing ever touches all keys:
 *   - Halving. The heat is stored as mantissa and epoch (16 tokens each), heat = mantissa * 2^(epoch - now). Two keys
 *     compare by mantissa * 2^epoch, in which `now` does not occur, so a halving changes no order, and a selection by a
 *     token that lies ahead is nothing special. This is real halving, not the integer kind (1 becomes 1/2, not 0). The
 *     mantissa has 32 fractional bits; what is below is cut at the next selection.
 *   - The reset. A key belongs to the prompt (generation) in which it was last touched; heat of an older generation is
 *     0. Two heaps a class: `by_use` holds all evictable keys ordered by stamp, `by_heat` those of this generation,
 *     ordered by heat. A reset empties by_heat in one step and moves the clock past every stamp given so far, so keys
 *     of older generations are the first in by_use: its root is the coldest while it is of an older generation, else
 *     by_heat's root is.
 *
 * The heaps are leftist trees threaded through arrays by key (Crane 1972; Knuth, TAOCP 3, 5.2.3): merging walks right
 * spines, which are at most log2(n + 1) long, and so does the repair after a removal, because there the rank of each
 * node on the way up is one more than that of the node before. All operations are O(log n) in the worst case. */
#include "expert/policy.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#define EPOCH_TICKS 16
#define HEAT_ONE ((uint64_t)1 << 32)
#define NO_CLASS 0xff
#define RANK_MAX 40 /* of a tree of 2^32 keys */

enum order { BY_USE, BY_HEAT, ORDERS };

struct node {
    uint32_t parent, left, right;
    uint32_t rank; /* nodes on the right spine; a leaf 1 */
};

struct state {
    uint64_t stamp;      /* clock of the last use; 0: never */
    uint64_t mantissa;   /* of the heat */
    uint32_t epoch;      /* counted from the prompt's begin */
    uint32_t generation; /* of epoch and mantissa: in another one the heat is 0 */
};

struct policy {
    enum policy_kind kind;
    uint32_t n_keys, n_classes;
    uint32_t generation;        /* counts prompts */
    uint64_t clock;             /* tokens */
    uint64_t prompt_clock;      /* the clock when the prompt began */
    uint64_t stamp_max;         /* the latest that was given */
    struct state *keys;         /* [n_keys] */
    struct node *nodes[ORDERS]; /* [n_keys] */
    uint32_t *roots[ORDERS];    /* [n_classes] */
    uint8_t *class_of;          /* [n_keys]; NO_CLASS: not evictable now */
};

static const char *const names[POLICY_KINDS] = {[POLICY_LRU] = "lru", [POLICY_HOTNESS] = "hotness"};

const char *policy_name(enum policy_kind kind)
{
    BASE_ASSERT((unsigned)kind < POLICY_KINDS, "a policy");
    return names[kind];
}

bool policy_by_name(const char *name, enum policy_kind *out)
{
    if (strcmp(name, "auto") == 0) {
        *out = POLICY_HOTNESS;
        return true;
    }
    for (int i = 0; i < POLICY_KINDS; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum policy_kind)i;
            return true;
        }
    return false;
}

/* ---- order ---- */

static int compare_u64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* a * 2^d against b, exactly. */
static int compare_scaled(uint64_t a, uint32_t d, uint64_t b)
{
    if (a == 0) return b ? -1 : 0;
    if (d >= 64) return 1;
    int high = compare_u64(a, b >> d);
    if (high || (b >> d) << d == b) return high;
    return -1; /* bits of b below 2^d */
}

static int compare_use(const struct policy *p, uint32_t a, uint32_t b)
{
    int order = compare_u64(p->keys[a].stamp, p->keys[b].stamp);
    return order ? order : compare_u64(a, b);
}

static int compare_heat(const struct policy *p, uint32_t a, uint32_t b)
{
    struct state x = p->keys[a], y = p->keys[b];
    if (x.generation != p->generation) x.mantissa = 0, x.epoch = 0;
    if (y.generation != p->generation) y.mantissa = 0, y.epoch = 0;
    int order = x.epoch >= y.epoch ? compare_scaled(x.mantissa, x.epoch - y.epoch, y.mantissa)
                                   : -compare_scaled(y.mantissa, y.epoch - x.epoch, x.mantissa);
    return order ? order : compare_use(p, a, b);
}

int policy_compare(const struct policy *p, uint32_t a, uint32_t b)
{
    BASE_ASSERT(a < p->n_keys && b < p->n_keys, "keys of the policy");
    return p->kind == POLICY_HOTNESS ? compare_heat(p, a, b) : compare_use(p, a, b);
}

/* ---- leftist heaps ---- */

static bool colder(const struct policy *p, enum order order, uint32_t a, uint32_t b)
{
    return (order == BY_USE ? compare_use(p, a, b) : compare_heat(p, a, b)) < 0;
}

static uint32_t rank_of(const struct node *nodes, uint32_t i) { return i == POLICY_NONE ? 0 : nodes[i].rank; }

/* The shorter spine to the right; returns whether the rank changed. */
static bool repair(struct node *nodes, uint32_t i)
{
    struct node *n = &nodes[i];
    if (rank_of(nodes, n->left) < rank_of(nodes, n->right)) {
        uint32_t left = n->left;
        n->left = n->right;
        n->right = left;
    }
    uint32_t rank = rank_of(nodes, n->right) + 1;
    bool changed = rank != n->rank;
    n->rank = rank;
    return changed;
}

/* Merges the right spines of two trees from the coldest down, then repairs ranks from the bottom up. */
static uint32_t merge(struct policy *p, enum order order, uint32_t a, uint32_t b)
{
    struct node *nodes = p->nodes[order];
    uint32_t spine[2 * RANK_MAX], n = 0, root = POLICY_NONE;
    while (a != POLICY_NONE && b != POLICY_NONE) {
        if (colder(p, order, b, a)) {
            uint32_t swap = a;
            a = b;
            b = swap;
        }
        BASE_ASSERT(n < 2 * RANK_MAX, "right spines of a leftist tree are logarithmic");
        spine[n++] = a;
        a = nodes[a].right;
    }
    root = a != POLICY_NONE ? a : b;
    while (n > 0) {
        uint32_t i = spine[--n];
        nodes[i].right = root;
        if (root != POLICY_NONE) nodes[root].parent = i;
        repair(nodes, i);
        root = i;
    }
    if (root != POLICY_NONE) nodes[root].parent = POLICY_NONE;
    return root;
}

static void heap_insert(struct policy *p, enum order order, uint32_t class_index, uint32_t key)
{
    p->nodes[order][key] = (struct node){POLICY_NONE, POLICY_NONE, POLICY_NONE, 1};
    p->roots[order][class_index] = merge(p, order, p->roots[order][class_index], key);
}

static void heap_remove(struct policy *p, enum order order, uint32_t class_index, uint32_t key)
{
    struct node *nodes = p->nodes[order];
    uint32_t parent = nodes[key].parent;
    uint32_t rest = merge(p, order, nodes[key].left, nodes[key].right);
    if (parent == POLICY_NONE) {
        BASE_ASSERT(p->roots[order][class_index] == key, "a key without a parent is its class's root");
        p->roots[order][class_index] = rest;
        return;
    }
    if (nodes[parent].left == key)
        nodes[parent].left = rest;
    else
        nodes[parent].right = rest;
    if (rest != POLICY_NONE) nodes[rest].parent = parent;
    while (parent != POLICY_NONE && repair(nodes, parent)) parent = nodes[parent].parent;
}

/* ---- the set of evictable keys ---- */

static bool has_heat(const struct policy *p, uint32_t key)
{
    return p->kind == POLICY_HOTNESS && p->keys[key].generation == p->generation;
}

static void enter(struct policy *p, uint32_t class_index, uint32_t key)
{
    heap_insert(p, BY_USE, class_index, key);
    if (has_heat(p, key)) heap_insert(p, BY_HEAT, class_index, key);
}

static void leave(struct policy *p, uint32_t class_index, uint32_t key)
{
    heap_remove(p, BY_USE, class_index, key);
    if (has_heat(p, key)) heap_remove(p, BY_HEAT, class_index, key);
}

static uint64_t shift(uint64_t value, uint32_t by) { return by < 64 ? value >> by : 0; }

/* Counts a use at `at` and adds heat; the key is in no heap. Uses may be told out of order. */
static void touch(struct policy *p, uint32_t key, uint64_t at, uint64_t heat)
{
    struct state *s = &p->keys[key];
    uint32_t epoch = (uint32_t)((at - p->prompt_clock) / EPOCH_TICKS);
    if (s->generation != p->generation) *s = (struct state){s->stamp, 0, epoch, p->generation};
    if (epoch > s->epoch) {
        s->mantissa = shift(s->mantissa, epoch - s->epoch);
        s->epoch = epoch;
    }
    heat = shift(heat, s->epoch - epoch);
    s->mantissa = s->mantissa <= UINT64_MAX - heat ? s->mantissa + heat : UINT64_MAX;
    if (at > s->stamp) s->stamp = at;
    if (at > p->stamp_max) p->stamp_max = at;
}

enum sluice_status policy_create(enum policy_kind kind, uint32_t n_keys, uint32_t n_classes, struct policy **out,
                                 struct sluice_error *err)
{
    *out = NULL;
    BASE_ASSERT((unsigned)kind < POLICY_KINDS && n_classes < NO_CLASS, "a policy of few classes");
    struct policy *p = calloc(1, sizeof *p);
    if (!p) goto fail;
    p->kind = kind;
    p->n_keys = n_keys;
    p->n_classes = n_classes;
    p->generation = 1; /* keys begin in generation 0: never touched */
    p->clock = p->prompt_clock = 1;
    p->keys = calloc((size_t)n_keys + 1, sizeof *p->keys);
    p->class_of = malloc((size_t)n_keys + 1);
    if (!p->keys || !p->class_of) goto fail;
    memset(p->class_of, NO_CLASS, (size_t)n_keys + 1);
    for (int i = 0; i < ORDERS; i++) {
        p->nodes[i] = calloc((size_t)n_keys + 1, sizeof *p->nodes[i]);
        p->roots[i] = malloc(((size_t)n_classes + 1) * sizeof *p->roots[i]);
        if (!p->nodes[i] || !p->roots[i]) goto fail;
        for (uint32_t k = 0; k < n_classes; k++) p->roots[i][k] = POLICY_NONE;
    }
    *out = p;
    return SLUICE_OK;

fail:
    policy_destroy(p);
    return base_fail(err, SLUICE_ERR_MEMORY, NULL, "no memory for the eviction policy of %u experts", n_keys);
}

void policy_destroy(struct policy *p)
{
    if (!p) return;
    for (int i = 0; i < ORDERS; i++) {
        free(p->nodes[i]);
        free(p->roots[i]);
    }
    free(p->class_of);
    free(p->keys);
    free(p);
}

size_t policy_memory_bytes(uint32_t n_keys, uint32_t n_classes)
{
    return sizeof(struct policy) + ((size_t)n_keys + 1) * (sizeof(struct state) + ORDERS * sizeof(struct node) + 1) +
           ORDERS * ((size_t)n_classes + 1) * sizeof(uint32_t);
}

void policy_prompt(struct policy *p)
{
    p->generation++;
    if (p->clock <= p->stamp_max) p->clock = p->stamp_max + 1;
    p->prompt_clock = p->clock;
    for (uint32_t i = 0; i < p->n_classes; i++) p->roots[BY_HEAT][i] = POLICY_NONE;
}

void policy_tick(struct policy *p, uint32_t n) { p->clock += n; }

void policy_selected(struct policy *p, uint32_t key, float weight, uint32_t ahead)
{
    (void)weight; /* neither policy looks at it */
    BASE_ASSERT(key < p->n_keys, "a key of the policy");
    uint8_t class_index = p->class_of[key];
    if (class_index != NO_CLASS) leave(p, class_index, key);
    touch(p, key, p->clock + ahead, HEAT_ONE);
    if (class_index != NO_CLASS) enter(p, class_index, key);
}

void policy_insert(struct policy *p, uint32_t class_index, uint32_t key)
{
    BASE_ASSERT(key < p->n_keys && class_index < p->n_classes, "a key and a class of the policy");
    BASE_ASSERT(p->class_of[key] == NO_CLASS, "a key is inserted once");
    /* What comes in without having been selected in this prompt (a prefetch) counts as used now, or it would be the
     * next victim. */
    if (p->keys[key].generation != p->generation) touch(p, key, p->clock, 0);
    p->class_of[key] = (uint8_t)class_index;
    enter(p, class_index, key);
}

void policy_remove(struct policy *p, uint32_t class_index, uint32_t key)
{
    BASE_ASSERT(key < p->n_keys && class_index < p->n_classes, "a key and a class of the policy");
    BASE_ASSERT(p->class_of[key] == class_index, "a key is removed from where it was inserted");
    leave(p, class_index, key);
    p->class_of[key] = NO_CLASS;
}

uint32_t policy_victim(const struct policy *p, uint32_t class_index)
{
    BASE_ASSERT(class_index < p->n_classes, "a class of the policy");
    uint32_t oldest = p->roots[BY_USE][class_index];
    if (oldest == POLICY_NONE || !has_heat(p, oldest)) return oldest;
    return p->roots[BY_HEAT][class_index];
}

/* Order, balance and links of one node; all of them together make the trees leftist heaps. */
static void check_node(const struct policy *p, enum order order, uint32_t class_index, uint32_t key)
{
    const struct node *nodes = p->nodes[order], *n = &nodes[key];
    const uint32_t children[2] = {n->left, n->right};
    BASE_ASSERT(n->rank == rank_of(nodes, n->right) + 1, "a rank is the length of the right spine");
    BASE_ASSERT(rank_of(nodes, n->left) >= rank_of(nodes, n->right), "the right spine is the shortest way out");
    for (int i = 0; i < 2; i++) {
        if (children[i] == POLICY_NONE) continue;
        BASE_ASSERT(nodes[children[i]].parent == key, "a child knows its parent");
        BASE_ASSERT(p->class_of[children[i]] == class_index, "a tree holds one class");
        BASE_ASSERT(colder(p, order, key, children[i]), "a parent is colder than its children");
    }
    if (n->parent == POLICY_NONE)
        BASE_ASSERT(p->roots[order][class_index] == key, "a key without a parent is its class's root");
    else
        BASE_ASSERT(nodes[n->parent].left == key || nodes[n->parent].right == key, "a parent knows its children");
}

void policy_check(const struct policy *p)
{
    for (uint32_t key = 0; key < p->n_keys; key++) {
        uint8_t class_index = p->class_of[key];
        BASE_ASSERT(p->keys[key].stamp <= p->stamp_max, "stamps are counted");
        if (class_index == NO_CLASS) continue;
        check_node(p, BY_USE, class_index, key);
        if (has_heat(p, key)) check_node(p, BY_HEAT, class_index, key);
    }
}
