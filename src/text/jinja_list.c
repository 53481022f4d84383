/* Lists, dicts and whatever else can be gone through. */
#include "text/jinja_char.h"
#include "text/jinja_run.h"

#include <string.h>

#define TABLE_FROM 8 /* entries; below that a search goes through them all */

struct jinja_value jinja_list_new(struct jinja_run *r, enum jinja_kind kind, size_t room)
{
    struct jinja_list *l = jinja_arena_take(&r->arena, 1, sizeof *l);
    struct jinja_value *at = l && room ? jinja_arena_take(&r->arena, room, sizeof *at) : NULL;
    if (!l || (room && !at)) {
        jinja_fail_memory(r);
        return jinja_undefined();
    }
    l->at = at;
    l->room = room;
    return (struct jinja_value){.kind = (uint8_t)kind, .list = l};
}

void jinja_list_add(struct jinja_run *r, struct jinja_value list, struct jinja_value item)
{
    jinja_charge(r, 1);
    if (jinja_failed(r) || jinja_is(list, JINJA_UNDEFINED)) return;
    struct jinja_list *l = list.list;
    if (l->n == l->room) {
        size_t room = l->room * 2 + 4;
        struct jinja_value *grown = jinja_arena_take(&r->arena, room, sizeof *grown);
        if (!grown) {
            jinja_fail_memory(r);
            return;
        }
        if (l->n) memcpy(grown, l->at, l->n * sizeof *grown);
        l->at = grown;
        l->room = room;
    }
    l->at[l->n++] = item;
}

struct jinja_value jinja_pair(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    struct jinja_value v = jinja_list_new(r, JINJA_TUPLE, 2);
    jinja_list_add(r, v, a);
    jinja_list_add(r, v, b);
    return v;
}

/* ---- dicts ---- */

struct jinja_value jinja_dict_new(struct jinja_run *r, enum jinja_kind kind)
{
    struct jinja_dict *d = jinja_arena_take(&r->arena, 1, sizeof *d);
    if (!d) {
        jinja_fail_memory(r);
        return jinja_undefined();
    }
    return (struct jinja_value){.kind = (uint8_t)kind, .dict = d};
}

/* Number of the entry with this key, or d->n. */
static size_t find(struct jinja_run *r, const struct jinja_dict *d, struct jinja_value key, uint64_t hash)
{
    if (d->table_room == 0) {
        for (size_t i = 0; i < d->n; i++)
            if (d->at[i].hash == hash && jinja_equal(r, d->at[i].key, key)) return i;
        return d->n;
    }
    for (size_t at = hash & (d->table_room - 1); d->table[at]; at = (at + 1) & (d->table_room - 1)) {
        size_t i = d->table[at] - 1;
        jinja_charge(r, 1);
        if (d->at[i].hash == hash && jinja_equal(r, d->at[i].key, key)) return i;
        if (jinja_failed(r)) break;
    }
    return d->n;
}

static void put_in_table(struct jinja_run *r, struct jinja_dict *d, size_t i)
{
    size_t at = d->at[i].hash & (d->table_room - 1);
    while (d->table[at]) {
        jinja_charge(r, 1);
        at = (at + 1) & (d->table_room - 1);
    }
    d->table[at] = (uint32_t)i + 1;
}

/* A table of at least twice the entries, anew. */
static bool index_entries(struct jinja_run *r, struct jinja_dict *d)
{
    size_t room = d->table_room ? d->table_room : 4 * TABLE_FROM;
    while (room < 2 * d->room) room *= 2;
    if (room != d->table_room) {
        uint32_t *table = jinja_arena_take(&r->arena, room, sizeof *table);
        if (!table) {
            jinja_fail_memory(r);
            return false;
        }
        d->table = table;
        d->table_room = room;
    } else {
        memset(d->table, 0, room * sizeof *d->table);
    }
    for (size_t i = 0; i < d->n && !jinja_failed(r); i++) put_in_table(r, d, i);
    return !jinja_failed(r);
}

void jinja_dict_set(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key, struct jinja_value value)
{
    uint64_t hash;
    if (!d || !jinja_hash(r, key, &hash)) return;
    jinja_charge(r, 1);
    size_t i = find(r, d, key, hash);
    if (jinja_failed(r)) return;
    if (i < d->n) {
        d->at[i].value = value;
        return;
    }
    if (d->n == d->room) {
        size_t room = d->room * 2 + 4;
        struct jinja_entry *grown = jinja_arena_take(&r->arena, room, sizeof *grown);
        if (!grown) {
            jinja_fail_memory(r);
            return;
        }
        if (d->n) memcpy(grown, d->at, d->n * sizeof *grown);
        d->at = grown;
        d->room = room;
        if (room > TABLE_FROM && !index_entries(r, d)) return;
    }
    d->at[d->n++] = (struct jinja_entry){key, value, hash};
    if (d->table_room) put_in_table(r, d, d->n - 1);
}

struct jinja_value *jinja_dict_find(struct jinja_run *r, const struct jinja_dict *d, struct jinja_value key)
{
    uint64_t hash;
    if (!jinja_hash(r, key, &hash)) return NULL;
    size_t i = find(r, d, key, hash);
    return i < d->n ? &d->at[i].value : NULL;
}

struct jinja_value *jinja_dict_find_word(struct jinja_run *r, const struct jinja_dict *d, const char *word)
{
    return jinja_dict_find(r, d, jinja_text(word, strlen(word)));
}

bool jinja_dict_remove(struct jinja_run *r, struct jinja_dict *d, struct jinja_value key, struct jinja_value *out)
{
    uint64_t hash;
    if (!jinja_hash(r, key, &hash)) return false;
    size_t i = find(r, d, key, hash);
    if (i >= d->n || jinja_failed(r)) return false;
    *out = d->at[i].value;
    jinja_charge(r, d->n);
    memmove(d->at + i, d->at + i + 1, (d->n - i - 1) * sizeof *d->at);
    d->n--;
    if (d->table_room) index_entries(r, d);
    return true;
}

/* ---- going through ---- */

bool jinja_is_iterable(struct jinja_value v)
{
    switch ((enum jinja_kind)v.kind) {
    case JINJA_UNDEFINED:
    case JINJA_STR:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_RANGE:
    case JINJA_VIEW:
    case JINJA_ITER: return true;
    default: return false;
    }
}

static struct jinja_items made(struct jinja_value list)
{
    if (jinja_is(list, JINJA_UNDEFINED)) return (struct jinja_items){0};
    return (struct jinja_items){list.list->at, list.list->n};
}

static struct jinja_items characters(struct jinja_run *r, struct jinja_value text)
{
    struct jinja_value list = jinja_list_new(r, JINJA_LIST, jinja_char_count(text.text, text.bytes));
    for (size_t at = 0; at < text.bytes && !jinja_failed(r);) {
        size_t begin = at;
        jinja_char_next(text.text, text.bytes, &at);
        jinja_list_add(r, list, jinja_text(text.text + begin, at - begin));
    }
    return made(list);
}

struct jinja_items jinja_items_of(struct jinja_run *r, struct jinja_value v)
{
    struct jinja_items none = {0};
    if (jinja_failed(r)) return none;
    switch ((enum jinja_kind)v.kind) {
    case JINJA_UNDEFINED: return none;
    case JINJA_STR: return characters(r, v);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW: return (struct jinja_items){v.list->at, v.list->n};
    case JINJA_ITER: {
        struct jinja_items rest = {v.list->at, v.list->n - v.list->next};
        if (v.list->next) rest.at += v.list->next;
        v.list->next = v.list->n;
        return rest;
    }
    case JINJA_DICT: {
        struct jinja_value list = jinja_list_new(r, JINJA_LIST, v.dict->n);
        for (size_t i = 0; i < v.dict->n; i++) jinja_list_add(r, list, v.dict->at[i].key);
        return made(list);
    }
    case JINJA_RANGE: {
        struct jinja_value list = jinja_list_new(r, JINJA_LIST, v.range->n);
        for (size_t i = 0; i < v.range->n; i++)
            jinja_list_add(r, list, jinja_int(v.range->start + (int64_t)i * v.range->step));
        return made(list);
    }
    default: jinja_fail(r, "'%s' object is not iterable", jinja_kind_name(v.kind)); return none;
    }
}

bool jinja_length(struct jinja_run *r, struct jinja_value v, size_t *n)
{
    *n = 0;
    switch ((enum jinja_kind)v.kind) {
    case JINJA_UNDEFINED: return true;
    case JINJA_STR:
        jinja_charge_bytes(r, v.bytes);
        *n = jinja_char_count(v.text, v.bytes);
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW: *n = v.list->n; return true;
    case JINJA_DICT: *n = v.dict->n; return true;
    case JINJA_RANGE: *n = v.range->n; return true;
    case JINJA_LOOP: *n = v.loop->n; return true;
    default: return false;
    }
}

struct jinja_value jinja_range_new(struct jinja_run *r, int64_t start, int64_t stop, int64_t step)
{
    if (step == 0) return jinja_fail(r, "the step of a range is zero");
    if (step == INT64_MIN) return jinja_fail(r, "the step of a range is too large");
    uint64_t n = 0;
    if (step > 0 && start < stop) n = ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1;
    if (step < 0 && start > stop) n = ((uint64_t)start - (uint64_t)stop - 1) / (uint64_t)-step + 1;
    if (n > JINJA_RANGE_MAX) return jinja_fail(r, "a range has more than %d items", JINJA_RANGE_MAX);
    struct jinja_range *range = jinja_arena_take(&r->arena, 1, sizeof *range);
    if (!range) {
        jinja_fail_memory(r);
        return jinja_undefined();
    }
    *range = (struct jinja_range){start, stop, step, (size_t)n};
    return (struct jinja_value){.kind = JINJA_RANGE, .range = range};
}
