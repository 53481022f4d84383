/* GLM 4.5 and later: <tool_call>f<arg_key>key</arg_key><arg_value>value</arg_value>...</tool_call>, with or without
 * line breaks between the tags, one block a call. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_tagged.h"

static const struct serve_tagged_style style = {.block_begin = "<tool_call>",
                                                .block_end = "</tool_call>",
                                                .call_begin = "",
                                                .call_end = "</tool_call>",
                                                .parameter_begin = "<arg_key>",
                                                .key_end = "</arg_key>",
                                                .value_begin = "<arg_value>",
                                                .parameter_end = "</arg_value>"};
static const char *const marks[] = {"<tool_call>", NULL};

static bool fits(const char *source, size_t bytes) { return serve_holds(source, bytes, "<arg_key>"); }
static void begin(struct serve_parser *p, size_t mark) { serve_tagged_begin(p, true); }
static enum serve_step step(struct serve_parser *p) { return serve_tagged_step(p, &style); }

const struct serve_family serve_glm = {.name = "glm", .marks = marks, .fits = fits, .begin = begin, .step = step};
