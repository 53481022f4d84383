/* Truth, equality, order and hashes, as Python has them. */
#include "base/bits.h"
#include "base/hash.h"
#include "text/jinja_run.h"

#include <math.h>
#include <string.h>

bool jinja_truth(struct jinja_value v)
{
    switch ((enum jinja_kind)v.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return v.truth;
    case JINJA_INT: return v.whole != 0;
    case JINJA_FLOAT: return v.real != 0;
    case JINJA_STR: return v.bytes != 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW: return v.list->n != 0;
    case JINJA_DICT: return v.dict->n != 0;
    case JINJA_RANGE: return v.range->n != 0;
    default: return true;
    }
}

bool jinja_text_is(struct jinja_value v, const char *word)
{
    return v.kind == JINJA_STR && v.bytes == strlen(word) && memcmp(v.text, word, v.bytes) == 0;
}

/* -1, 0, 1; 2 if one of them is not a number. A float is compared with an int by value, not by rounding it. */
static int order_numbers(struct jinja_value a, struct jinja_value b)
{
    if (jinja_is_whole(a) && jinja_is_whole(b)) {
        int64_t x = jinja_whole(a), y = jinja_whole(b);
        return x < y ? -1 : x > y;
    }
    double x = jinja_real(a), y = jinja_real(b);
    if (isnan(x) || isnan(y)) return 2;
    if (x != y || fabs(x) < 0x1p53 || (a.kind == JINJA_FLOAT && b.kind == JINJA_FLOAT)) return x < y ? -1 : x > y;
    /* Equal as floats beyond 2^53: the int may have been rounded. */
    if (x >= 0x1p63) return a.kind == JINJA_FLOAT ? 1 : -1;
    int64_t i = a.kind == JINJA_FLOAT ? (int64_t)x : jinja_whole(a);
    int64_t j = b.kind == JINJA_FLOAT ? (int64_t)y : jinja_whole(b);
    return i < j ? -1 : i > j;
}

static int order_texts(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    uint32_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
    jinja_charge(r, n / 64);
    int c = n ? memcmp(a.text, b.text, n) : 0; /* UTF-8 sorts as its code points do */
    if (c == 0) return a.bytes < b.bytes ? -1 : a.bytes > b.bytes;
    return c < 0 ? -1 : 1;
}

static bool equal_dicts(struct jinja_run *r, const struct jinja_dict *a, const struct jinja_dict *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n && !jinja_failed(r); i++) {
        const struct jinja_value *other = jinja_dict_find(r, b, a->at[i].key);
        if (!other || !jinja_equal(r, a->at[i].value, *other)) return false;
    }
    return true;
}

static bool equal_lists(struct jinja_run *r, const struct jinja_list *a, const struct jinja_list *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n && i < b->n && !jinja_failed(r); i++)
        if (!jinja_equal(r, a->at[i], b->at[i])) return false;
    return true;
}

bool jinja_equal(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    jinja_charge(r, 1);
    if (jinja_is_number(a) && jinja_is_number(b)) return order_numbers(a, b) == 0;
    if (a.kind != b.kind) return false;
    bool equal = false;
    switch ((enum jinja_kind)a.kind) {
    case JINJA_STR: return a.bytes == b.bytes && order_texts(r, a, b) == 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        if (a.list == b.list) return true;
        if (!jinja_enter(r)) return false;
        equal = a.kind == JINJA_DICT ? equal_dicts(r, a.dict, b.dict) : equal_lists(r, a.list, b.list);
        jinja_leave(r);
        return equal;
    case JINJA_RANGE:
        return a.range->n == b.range->n && (a.range->n == 0 || (a.range->start == b.range->start &&
                                                                (a.range->n == 1 || a.range->step == b.range->step)));
    case JINJA_UNDEFINED:
    case JINJA_NONE: return true;
    default: return a.list == b.list; /* the same thing: any of the pointers */
    }
}

static int order_lists(struct jinja_run *r, const struct jinja_list *a, const struct jinja_list *b, const char *sign)
{
    if (!jinja_enter(r)) return 0;
    int order = a->n < b->n ? -1 : a->n > b->n;
    for (size_t i = 0; i < a->n && i < b->n && !jinja_failed(r); i++) {
        if (jinja_equal(r, a->at[i], b->at[i])) continue;
        order = jinja_order(r, a->at[i], b->at[i], sign);
        break;
    }
    jinja_leave(r);
    return order;
}

int jinja_order(struct jinja_run *r, struct jinja_value a, struct jinja_value b, const char *sign)
{
    jinja_charge(r, 1);
    if (jinja_is_number(a) && jinja_is_number(b)) return order_numbers(a, b);
    if (a.kind == JINJA_STR && b.kind == JINJA_STR) return order_texts(r, a, b);
    if (a.kind == b.kind && jinja_is_list(a)) return order_lists(r, a.list, b.list, sign);
    if (a.kind == JINJA_UNDEFINED) jinja_fail_missing(r, a);
    if (b.kind == JINJA_UNDEFINED) jinja_fail_missing(r, b);
    jinja_fail(r, "'%s' not supported between instances of '%s' and '%s'", sign, jinja_kind_name(a.kind),
               jinja_kind_name(b.kind));
    return 0;
}

bool jinja_contains(struct jinja_run *r, struct jinja_value all, struct jinja_value one)
{
    if (all.kind == JINJA_STR) {
        if (one.kind != JINJA_STR) {
            if (one.kind == JINJA_UNDEFINED) jinja_fail_missing(r, one);
            jinja_fail(r, "'in <string>' requires string as left operand, not %s", jinja_kind_name(one.kind));
            return false;
        }
        jinja_charge_bytes(r, all.bytes);
        return one.bytes == 0 || memmem(all.text, all.bytes, one.text, one.bytes) != NULL;
    }
    if (all.kind == JINJA_DICT) return jinja_dict_find(r, all.dict, one) != NULL;
    struct jinja_items items = jinja_items_of(r, all);
    for (size_t i = 0; i < items.n && !jinja_failed(r); i++)
        if (jinja_equal(r, items.at[i], one)) return true;
    return false;
}

static bool hash_list(struct jinja_run *r, const struct jinja_list *l, uint64_t *hash)
{
    if (!jinja_enter(r)) return false;
    *hash = l->n;
    bool good = true;
    for (size_t i = 0; i < l->n && good; i++) {
        uint64_t one;
        good = jinja_hash(r, l->at[i], &one);
        if (good) *hash = base_hash_of(&one, sizeof one, *hash);
    }
    jinja_leave(r);
    return good;
}

bool jinja_hash(struct jinja_run *r, struct jinja_value v, uint64_t *hash)
{
    *hash = 0;
    if (jinja_failed(r)) return false;
    if (jinja_is_number(v)) { /* 1, 1.0 and True are one key */
        double d = jinja_real(v) + 0.0;
        uint64_t bits = base_bits_f64(d == 0 ? 0 : d);
        *hash = base_hash_of(&bits, sizeof bits, JINJA_FLOAT);
        return true;
    }
    switch ((enum jinja_kind)v.kind) {
    case JINJA_STR:
        jinja_charge(r, v.bytes / 64);
        *hash = base_hash_of(v.text, v.bytes, JINJA_STR);
        return true;
    case JINJA_NONE: return true;
    case JINJA_TUPLE: return hash_list(r, v.list, hash);
    case JINJA_LIST:
    case JINJA_DICT: jinja_fail(r, "unhashable type: '%s'", jinja_kind_name(v.kind)); return false;
    default: *hash = base_hash_of(&v.list, sizeof v.list, v.kind); return true;
    }
}

/* Merge sort from the bottom up: items and keys move together. */
static void merge(struct jinja_run *r, const struct jinja_value *from[2], struct jinja_value *to[2], size_t begin,
                  size_t middle, size_t end, bool reverse)
{
    size_t i = begin, j = middle;
    for (size_t k = begin; k < end; k++) {
        bool second = i == middle;
        if (i < middle && j < end) {
            /* the second only if it must go before: what is equal keeps its order */
            const struct jinja_value *x = &from[1][reverse ? i : j], *y = &from[1][reverse ? j : i];
            second = jinja_order(r, *x, *y, "<") == -1;
        }
        size_t take = second ? j++ : i++;
        to[0][k] = from[0][take];
        to[1][k] = from[1][take];
    }
}

void jinja_sort(struct jinja_run *r, struct jinja_value *items, struct jinja_value *keys, size_t n, bool reverse)
{
    struct jinja_value *spare = jinja_arena_take(&r->arena, n, 2 * sizeof *spare);
    if (!spare) {
        jinja_fail_memory(r);
        return;
    }
    struct jinja_value *a[2] = {items, keys}, *b[2] = {spare, spare + n};
    for (size_t width = 1; width < n && !jinja_failed(r); width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            size_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
            const struct jinja_value *from[2] = {a[0], a[1]};
            merge(r, from, b, begin, middle, end, reverse);
        }
        for (int k = 0; k < 2; k++) {
            struct jinja_value *t = a[k];
            a[k] = b[k];
            b[k] = t;
        }
    }
    if (a[0] != items && n) {
        memcpy(items, a[0], n * sizeof *items);
        memcpy(keys, a[1], n * sizeof *keys);
    }
}
