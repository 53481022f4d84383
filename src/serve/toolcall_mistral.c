/* Mistral. Up to Tekken v7: [TOOL_CALLS][{"name": "f", "arguments": {...}, "id": "..."}, ...]. Later:
 * [TOOL_CALLS]f[CALL_ID]id[ARGS]{...}, the mark once more before each call; some without the id. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_named.h"
#include "serve/toolcall_object.h"

#include <string.h>

enum { UNKNOWN, OBJECTS, NAMED };

static bool read_head(const char *head, size_t bytes, struct serve_named_head *out)
{
    static const char id_mark[] = "[CALL_ID]", end_mark[] = "[ARGS]";
    const char *end = memmem(head, bytes, end_mark, sizeof end_mark - 1);
    if (!end || end + sizeof end_mark - 1 != head + bytes) return false;
    const char *id = memmem(head, (size_t)(end - head), id_mark, sizeof id_mark - 1);
    out->name = head;
    out->name_bytes = (size_t)((id ? id : end) - head);
    if (id) {
        out->id = id + sizeof id_mark - 1;
        out->id_bytes = (size_t)(end - out->id);
    }
    return true;
}

static const struct serve_object_style objects = {.array = true};
static const struct serve_named_style named = {.call_begin = "[TOOL_CALLS]", .read = read_head};
static const char *const marks[] = {"[TOOL_CALLS]", NULL};

static bool fits(const char *source, size_t bytes) { return serve_holds(source, bytes, "[TOOL_CALLS]"); }
static void begin(struct serve_parser *p, size_t mark) { p->part = UNKNOWN; }

static enum serve_step step(struct serve_parser *p)
{
    if (p->part == OBJECTS) return serve_object_step(p, &objects);
    if (p->part == NAMED) return serve_named_step(p, &named);
    serve_take(p, serve_blanks(p, 0));
    if (!serve_left(p)) return SERVE_STEP_MORE;
    const char c = *serve_here(p);
    p->part = c == '[' || c == '{' ? OBJECTS : NAMED;
    if (p->part == OBJECTS)
        serve_object_begin(p, false);
    else
        serve_named_begin(p, false);
    return SERVE_STEP_ON;
}

const struct serve_family serve_mistral = {
    .name = "mistral", .marks = marks, .fits = fits, .begin = begin, .step = step, .marks_end_reasoning = true};
