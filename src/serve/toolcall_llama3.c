/* Llama 3.1 to 3.3: the answer is {"name": "f", "parameters": {...}}, several with ';' between, without any mark: so
 * only names of known tools count. Behind <|python_tag|> stands such an object or, if a tool runs Python, its code. */
#include "serve/toolcall_families.h"
#include "serve/toolcall_object.h"

#include <stdlib.h>
#include <string.h>

enum { OBJECT, TAG, CODE };

static const struct serve_object_style style = {.separator = ";"};
static const char *const marks[] = {"<|python_tag|>", NULL};

static bool fits(const char *source, size_t bytes)
{
    return serve_holds(source, bytes, "<|python_tag|>") ||
           (serve_holds(source, bytes, "<|start_header_id|>") && serve_holds(source, bytes, "\"parameters\""));
}

static void begin(struct serve_parser *p, size_t mark)
{
    serve_object_begin(p, marks[mark] == NULL);
    p->part = marks[mark] ? TAG : OBJECT;
}

static enum serve_look at_start(const struct serve_parser *p, size_t at) { return serve_look(p, at, "{"); }

/* Up to the brace of the arguments, with spaces as in the template and without. */
static bool heads(json_t *list, const struct serve_tool *tools, size_t n_tools)
{
    bool good = true;
    for (size_t i = 0; good && i < n_tools; i++) {
        json_t *string = json_string(tools[i].name);
        char *name = json_dumps(string, JSON_ENCODE_ANY);
        good = name && !json_array_append_new(list, json_sprintf("{\"name\": %s, \"parameters\": {", name)) &&
               !json_array_append_new(list, json_sprintf("{\"name\":%s,\"parameters\":{", name));
        free(name);
        json_decref(string);
    }
    return good;
}

static const char *interpreter(const struct serve_parser *p)
{
    static const char *const names[] = {"python", "ipython", "code_interpreter"};
    if (p->n_calls >= SERVE_CALLS_MAX) return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (serve_tool_is_known(p, names[i])) return names[i];
    return NULL;
}

static enum serve_step tag_step(struct serve_parser *p)
{
    serve_take(p, serve_blanks(p, 0));
    if (!serve_left(p)) return SERVE_STEP_MORE;
    const char *name = interpreter(p);
    if (*serve_here(p) == '{')
        p->part = OBJECT;
    else if (name) {
        serve_call(p, name, strlen(name), NULL, 0);
        serve_arguments(p, "{\"code\": \"", 10);
        p->part = CODE;
    } else
        serve_abandon(p);
    return SERVE_STEP_ON;
}

static enum serve_step code_step(struct serve_parser *p)
{
    p->word.bytes = 0;
    for (size_t i = 0; i < serve_left(p); i++) {
        char escape[6];
        serve_text_put(p, &p->word, escape, serve_json_escape((unsigned char)serve_here(p)[i], escape));
    }
    serve_take(p, serve_left(p));
    if (p->word.bytes) serve_arguments(p, p->word.at, p->word.bytes);
    if (!p->over) return SERVE_STEP_MORE;
    serve_arguments(p, "\"}", 2);
    serve_call_ends(p, true);
    serve_done(p);
    return SERVE_STEP_ON;
}

static enum serve_step step(struct serve_parser *p)
{
    if (p->part == TAG) return tag_step(p);
    return p->part == CODE ? code_step(p) : serve_object_step(p, &style);
}

const struct serve_family serve_llama3 = {
    .name = "llama3", .marks = marks, .fits = fits, .begin = begin, .step = step, .at_start = at_start, .heads = heads};
