/* Chat templates as model files carry them: an interpreter for the part of Jinja that real ones use (src/text/README.md
 * says which). A template is untrusted: every loop, nesting, buffer and allocation has a limit, and a fault is an error
 * with line and column, never a crash.
 *
 * What was said is told apart from the template's own words, to the byte: so a special token that somebody typed can
 * stay text (text_encode_options.plain), whatever the template does with the strings. */
#ifndef TEXT_JINJA_H
#define TEXT_JINJA_H

#include "text/chat.h"

#define JINJA_SOURCE_BYTES_MAX ((size_t)1 << 20) /* of a template */
#define JINJA_TREE_BYTES_MAX ((size_t)96 << 20)  /* of a parsed template */
#define JINJA_NAMES_MAX 10000                    /* different names of variables in a template */
#define JINJA_NEST_MAX 200                       /* blocks, brackets and operators inside one another */

#define JINJA_WATCH_STEPS ((uint64_t)1 << 16)

struct jinja_limits {
    uint64_t steps_max;      /* nodes evaluated, items looped over, and a share for every text that is handled */
    uint32_t depth_max;      /* evaluations inside one another: macros that call themselves, lists in lists */
    size_t output_bytes_max; /* of the rendering */
    size_t memory_bytes_max; /* of everything that a rendering makes besides: strings, lists, variables */
    struct text_watch watch; /* looked at every JINJA_WATCH_STEPS steps */
};
void jinja_limits_init(struct jinja_limits *l); /* 50 million steps, depth 1000, 64 MiB, 256 MiB */

/* The local time that strftime_now tells; the library has no clock of its own. */
struct jinja_time {
    int year, month, day, hour, minute, second; /* month and day from 1 */
};
/* "2026-07-04T09:05:06", "2026-07-04 09:05" or "2026-07-04"; false if it is none of these or no such time. */
bool jinja_time_read(const char *iso, struct jinja_time *out);

/* A parsed template: immutable, so any number of threads may render it. */
struct jinja_template;

/* `name` begins every error: "chat template", or a file's name; copied, at most 200 bytes of it. Errors:
 * SLUICE_ERR_MODEL (the template's text), SLUICE_ERR_MEMORY. */
enum sluice_status jinja_parse(const char *name, const char *text, size_t bytes, struct jinja_template **out,
                               struct sluice_error *err);
void jinja_destroy(struct jinja_template *t); /* NULL is allowed */
size_t jinja_memory_bytes(const struct jinja_template *t);
/* Whether the template's text uses a variable of this name somewhere ("tools", "enable_thinking"). */
bool jinja_uses(const struct jinja_template *t, const char *name);

/* A variable whose text is the model's own: "bos_token". Special tokens in it are meant. */
struct jinja_own {
    const char *name, *text;
};

struct jinja_input {
    const char *json; /* an object: each key is a variable. Its strings are what was said, but for the roles of the
                       * messages (messages[i].role) if they are made of ASCII letters, digits, '_' and '-': a template
                       * makes marks of them, so the caller admits only roles that it knows. NULL: none */
    size_t json_bytes;
    const struct text_message *messages; /* the variable `messages`, each with `role` and `content`, in place of one in
                                          * `json`; what was said and roles as there. NULL: none */
    size_t n_messages;
    const struct jinja_own *own; /* they go before the other variables of the same name */
    size_t n_own;
    const struct jinja_time *now;      /* NULL: strftime_now is an error */
    const struct jinja_limits *limits; /* NULL: the defaults */
};
/* out: to be freed with text_rendered_free; `said` as in text_chat_render_marked. Errors: SLUICE_ERR_USAGE (the JSON),
 * SLUICE_ERR_MODEL (the template: a fault, raise_exception's own text, a limit), SLUICE_ERR_MEMORY, SLUICE_CANCELLED.
 */
enum sluice_status jinja_render(const struct jinja_template *t, const struct jinja_input *in, struct text_rendered *out,
                                struct sluice_error *err);

#endif
