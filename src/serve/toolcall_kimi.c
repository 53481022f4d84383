/* Kimi K2:
 * <|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{...}<|tool_call_end|>
 * ...<|tool_calls_section_end|>. What stands before the object is the call's id, which the template wants back. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_named.h"

#include <string.h>

static bool read_head(const char *head, size_t bytes, struct serve_named_head *out)
{
    static const char mark[] = "<|tool_call_argument_begin|>", prefix[] = "functions.";
    size_t n = sizeof mark - 1;
    if (bytes < n || memcmp(head + bytes - n, mark, n)) return false;
    bytes -= n;
    while (bytes && serve_is_blank(head[bytes - 1])) bytes--;
    if (bytes > SERVE_NAME_BYTES_MAX) return false;
    *out = (struct serve_named_head){.name = head, .id = head, .name_bytes = bytes, .id_bytes = bytes};
    n = sizeof prefix - 1;
    if (bytes > n && !memcmp(head, prefix, n)) {
        out->name += n;
        out->name_bytes -= n;
    }
    size_t digits = 0;
    while (digits < out->name_bytes && memchr("0123456789", out->name[out->name_bytes - 1 - digits], 10)) digits++;
    if (digits && digits < out->name_bytes && out->name[out->name_bytes - 1 - digits] == ':')
        out->name_bytes -= digits + 1;
    return true;
}

static const struct serve_named_style style = {.section_begin = "<|tool_calls_section_begin|>",
                                               .section_end = "<|tool_calls_section_end|>",
                                               .call_begin = "<|tool_call_begin|>",
                                               .call_end = "<|tool_call_end|>",
                                               .read = read_head};
static const char *const marks[] = {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", NULL};

static bool fits(const char *source, size_t bytes)
{
    return serve_holds(source, bytes, "<|tool_calls_section_begin|>");
}
static void begin(struct serve_parser *p, size_t mark) { serve_named_begin(p, mark == 0); }
static enum serve_step step(struct serve_parser *p) { return serve_named_step(p, &style); }

const struct serve_family serve_kimi = {
    .name = "kimi", .marks = marks, .fits = fits, .begin = begin, .step = step, .marks_end_reasoning = true};
