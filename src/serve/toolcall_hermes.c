/* Hermes, Qwen2.5, Qwen3: <tool_call>{"name": "f", "arguments": {...}}</tool_call>, one block a call.
 * Nemotron Nano v2: <TOOLCALL>[{"name": "f", "arguments": {...}}, ...]</TOOLCALL>. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_object.h"

static const struct serve_object_style style = {.end = "</tool_call>", .array = true};
static const struct serve_object_style nemotron_style = {.end = "</TOOLCALL>", .array = true};
static const char *const marks[] = {"<tool_call>", NULL};
static const char *const nemotron_marks[] = {"<TOOLCALL>", NULL};

static bool fits(const char *source, size_t bytes) { return serve_holds(source, bytes, "<tool_call>"); }
static bool fits_nemotron(const char *source, size_t bytes) { return serve_holds(source, bytes, "<TOOLCALL>"); }
static void begin(struct serve_parser *p, size_t mark) { serve_object_begin(p, false); }
static enum serve_step step(struct serve_parser *p) { return serve_object_step(p, p->family->style); }

const struct serve_family serve_hermes = {
    .name = "hermes", .marks = marks, .fits = fits, .begin = begin, .step = step, .style = &style};
const struct serve_family serve_nemotron = {.name = "nemotron",
                                            .marks = nemotron_marks,
                                            .fits = fits_nemotron,
                                            .begin = begin,
                                            .step = step,
                                            .style = &nemotron_style};
