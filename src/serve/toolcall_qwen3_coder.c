/* Qwen3-Coder, Qwen3.5, Step 3.5, Nemotron 3:
 * <tool_call><function=f><parameter=key>value</parameter></function></tool_call>, each tag on a line of its own. The
 * outer tags are missing at times. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_tagged.h"

static const struct serve_tagged_style style = {.block_begin = "<tool_call>",
                                                .block_end = "</tool_call>",
                                                .call_begin = "<function=",
                                                .call_end = "</function>",
                                                .name_end = ">",
                                                .parameter_begin = "<parameter=",
                                                .key_end = ">",
                                                .parameter_end = "</parameter>",
                                                .own_lines = true};
static const char *const marks[] = {"<tool_call>", "<function=", NULL};

static bool fits(const char *source, size_t bytes)
{
    return serve_holds(source, bytes, "<function=") && serve_holds(source, bytes, "<parameter=");
}
static void begin(struct serve_parser *p, size_t mark) { serve_tagged_begin(p, mark == 0); }
static enum serve_step step(struct serve_parser *p) { return serve_tagged_step(p, &style); }

const struct serve_family serve_qwen3_coder = {
    .name = "qwen3_coder", .marks = marks, .fits = fits, .begin = begin, .step = step};
