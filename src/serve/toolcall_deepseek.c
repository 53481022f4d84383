/* DeepSeek. V3.1:
 * <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{...}<｜tool▁call▁end｜>...<｜tool▁calls▁end｜>. V3 and R1
 * write "function" before the separator, and behind it the name and the object in a fence of ```json. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_named.h"

#include <string.h>

static size_t trimmed(const char *text, size_t bytes)
{
    while (bytes && serve_is_blank(text[bytes - 1])) bytes--;
    return bytes;
}

static size_t without(const char *text, size_t bytes, const char *end)
{
    const size_t n = strlen(end);
    return bytes >= n && !memcmp(text + bytes - n, end, n) ? trimmed(text, bytes - n) : bytes;
}

static bool read_head(const char *head, size_t bytes, struct serve_named_head *out)
{
    static const char separator[] = "<｜tool▁sep｜>";
    const char *at = memmem(head, bytes, separator, sizeof separator - 1);
    if (!at) return false;
    const char *behind = at + sizeof separator - 1;
    while (behind < head + bytes && serve_is_blank(*behind)) behind++;
    size_t n = without(behind, (size_t)(head + bytes - behind), "json");
    n = without(behind, n, "```");
    const size_t before = trimmed(head, (size_t)(at - head));
    out->name = n ? behind : head;
    out->name_bytes = n ? n : before;
    return !n || (before == 8 && !memcmp(head, "function", 8));
}

static const struct serve_named_style style = {.section_begin = "<｜tool▁calls▁begin｜>",
                                               .section_end = "<｜tool▁calls▁end｜>",
                                               .call_begin = "<｜tool▁call▁begin｜>",
                                               .call_end = "<｜tool▁call▁end｜>",
                                               .read = read_head};
static const char *const marks[] = {"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", NULL};

static bool fits(const char *source, size_t bytes) { return serve_holds(source, bytes, "<｜tool▁calls▁begin｜>"); }
static void begin(struct serve_parser *p, size_t mark) { serve_named_begin(p, mark == 0); }
static enum serve_step step(struct serve_parser *p) { return serve_named_step(p, &style); }

const struct serve_family serve_deepseek = {
    .name = "deepseek", .marks = marks, .fits = fits, .begin = begin, .step = step, .marks_end_reasoning = true};
