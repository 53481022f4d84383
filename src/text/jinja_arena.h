/* All memory of one template or one rendering: given back at once, limited as a whole.
 *
 * Texts lie apart from objects, and beside every byte of text lies a mark: whether it was said (came in as a
 * variable). A piece of a text is a pointer into it, so it keeps its marks; whoever copies a text copies the marks
 * (jinja_arena_copy). Texts outside the arena, such as the template's own words, are unmarked. */
#ifndef TEXT_JINJA_ARENA_H
#define TEXT_JINJA_ARENA_H

#include <stdbool.h>
#include <stddef.h>

struct jinja_chunk;

struct jinja_arena {
    struct jinja_chunk *objects, *texts; /* newest first */
    size_t bytes, bytes_max;             /* of all chunks; what may be */
    bool full;                           /* the limit was met, or the machine had no more */
    bool limited;                        /* it was the limit */
};

void jinja_arena_init(struct jinja_arena *a, size_t bytes_max);
void jinja_arena_free(struct jinja_arena *a);
void *jinja_arena_take(struct jinja_arena *a, size_t n, size_t bytes); /* n objects, zeroed; NULL when full */
char *jinja_arena_text(struct jinja_arena *a, size_t bytes);           /* unmarked; NULL when full */
/* Makes the text [text, text + bytes) longer where it lies, if nothing was put behind it. */
bool jinja_arena_extend(struct jinja_arena *a, const char *text, size_t bytes, size_t more);
/* The marks of the bytes at text, or NULL if it is not in the arena. */
char *jinja_arena_marks(const struct jinja_arena *a, const char *text);
/* to: in the arena. Bytes and marks. */
void jinja_arena_copy(struct jinja_arena *a, char *to, const char *from, size_t bytes);

#endif
