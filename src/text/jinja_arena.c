/* Chunks that double in size, so that there are few of them and finding a text's chunk is a short walk. */
#include "text/jinja_arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES_MIN ((size_t)8 << 10)
#define CHUNK_BYTES_MAX ((size_t)4 << 20)
#define ALIGN 16

struct jinja_chunk {
    struct jinja_chunk *next;
    char *at; /* room bytes; in chunks of texts room marks more */
    size_t room, used;
};

void jinja_arena_init(struct jinja_arena *a, size_t bytes_max) { *a = (struct jinja_arena){.bytes_max = bytes_max}; }

static void free_chunks(struct jinja_chunk *c)
{
    while (c) {
        struct jinja_chunk *next = c->next;
        free(c->at);
        free(c);
        c = next;
    }
}

void jinja_arena_free(struct jinja_arena *a)
{
    free_chunks(a->objects);
    free_chunks(a->texts);
    *a = (struct jinja_arena){0};
}

static struct jinja_chunk *add_chunk(struct jinja_arena *a, struct jinja_chunk **list, size_t need, bool marks)
{
    size_t room = *list ? (*list)->room * 2 : CHUNK_BYTES_MIN, times = marks ? 2 : 1;
    if (room > CHUNK_BYTES_MAX) room = CHUNK_BYTES_MAX;
    if (room < need) room = need;
    size_t left = a->bytes_max - a->bytes;
    if (room > left / times) room = left / times; /* the last one may be smaller */
    if (room < need) {
        a->full = a->limited = true;
        return NULL;
    }
    struct jinja_chunk *c = malloc(sizeof *c);
    char *at = calloc(times, room);
    if (!c || !at) {
        free(c);
        free(at);
        a->full = true;
        return NULL;
    }
    *c = (struct jinja_chunk){.next = *list, .at = at, .room = room};
    *list = c;
    a->bytes += times * room;
    return c;
}

void *jinja_arena_take(struct jinja_arena *a, size_t n, size_t bytes)
{
    if (bytes && n > (SIZE_MAX / 4) / bytes) {
        a->full = a->limited = true;
        return NULL;
    }
    size_t need = (n * bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (need == 0) need = ALIGN;
    struct jinja_chunk *c = a->objects;
    if (!c || c->room - c->used < need) c = add_chunk(a, &a->objects, need, false);
    if (!c) return NULL;
    void *at = c->at + c->used;
    c->used += need;
    return at;
}

char *jinja_arena_text(struct jinja_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 4) {
        a->full = a->limited = true;
        return NULL;
    }
    struct jinja_chunk *c = a->texts;
    if (!c || c->room - c->used < bytes) c = add_chunk(a, &a->texts, bytes, true);
    if (!c) return NULL;
    char *at = c->at + c->used;
    c->used += bytes;
    return at;
}

bool jinja_arena_extend(struct jinja_arena *a, const char *text, size_t bytes, size_t more)
{
    struct jinja_chunk *c = a->texts;
    if (!c || text + bytes != c->at + c->used || c->room - c->used < more) return false;
    c->used += more;
    return true;
}

char *jinja_arena_marks(const struct jinja_arena *a, const char *text)
{
    uintptr_t at = (uintptr_t)text;
    for (const struct jinja_chunk *c = a->texts; c; c = c->next)
        if (at >= (uintptr_t)c->at && at < (uintptr_t)c->at + c->room) return c->at + c->room + (at - (uintptr_t)c->at);
    return NULL;
}

void jinja_arena_copy(struct jinja_arena *a, char *to, const char *from, size_t bytes)
{
    if (bytes == 0) return;
    memcpy(to, from, bytes);
    const char *marks = jinja_arena_marks(a, from);
    if (marks) memcpy(jinja_arena_marks(a, to), marks, bytes);
}
