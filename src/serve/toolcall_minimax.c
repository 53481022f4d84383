/* MiniMax M2: <minimax:tool_call><invoke name="f"><parameter
 * name="key">value</parameter>...</invoke>...</minimax:tool_call>. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_tagged.h"

static const struct serve_tagged_style style = {.block_begin = "<minimax:tool_call>",
                                                .block_end = "</minimax:tool_call>",
                                                .call_begin = "<invoke name=\"",
                                                .call_end = "</invoke>",
                                                .name_end = "\">",
                                                .parameter_begin = "<parameter name=\"",
                                                .key_end = "\">",
                                                .parameter_end = "</parameter>"};
static const char *const marks[] = {"<minimax:tool_call>", NULL};

static bool fits(const char *source, size_t bytes) { return serve_holds(source, bytes, "<minimax:tool_call>"); }
static void begin(struct serve_parser *p, size_t mark) { serve_tagged_begin(p, true); }
static enum serve_step step(struct serve_parser *p) { return serve_tagged_step(p, &style); }

const struct serve_family serve_minimax = {
    .name = "minimax", .marks = marks, .fits = fits, .begin = begin, .step = step};
