/* DeepSeek V4 (and V3.2, which says function_calls): <｜DSML｜tool_calls><｜DSML｜invoke name="f">
 * <｜DSML｜parameter name="key" string="true|false">value</｜DSML｜parameter>...</｜DSML｜invoke></｜DSML｜tool_calls>.
 * The attribute says whether the value is a text as it stands or JSON. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_tagged.h"

static const struct serve_tagged_style style = {.block_begin = "<｜DSML｜tool_calls>",
                                                .block_end = "</｜DSML｜tool_calls>",
                                                .call_begin = "<｜DSML｜invoke name=\"",
                                                .call_end = "</｜DSML｜invoke>",
                                                .name_end = "\">",
                                                .parameter_begin = "<｜DSML｜parameter name=\"",
                                                .key_end = "\"",
                                                .parameter_end = "</｜DSML｜parameter>",
                                                .attributes = true};
static const struct serve_tagged_style old_style = {.block_begin = "<｜DSML｜function_calls>",
                                                    .block_end = "</｜DSML｜function_calls>",
                                                    .call_begin = "<｜DSML｜invoke name=\"",
                                                    .call_end = "</｜DSML｜invoke>",
                                                    .name_end = "\">",
                                                    .parameter_begin = "<｜DSML｜parameter name=\"",
                                                    .key_end = "\"",
                                                    .parameter_end = "</｜DSML｜parameter>",
                                                    .attributes = true};
static const char *const marks[] = {"<｜DSML｜tool_calls>", "<｜DSML｜function_calls>", NULL};

static bool fits(const char *source, size_t bytes) { return serve_holds(source, bytes, "DSML"); }

static void begin(struct serve_parser *p, size_t mark)
{
    p->part = (int)mark;
    serve_tagged_begin(p, true);
}

static enum serve_step step(struct serve_parser *p) { return serve_tagged_step(p, p->part ? &old_style : &style); }

const struct serve_family serve_dsml = {
    .name = "dsml", .marks = marks, .fits = fits, .begin = begin, .step = step, .marks_end_reasoning = true};
