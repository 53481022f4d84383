/* Statements, names and the parser's tools. */
#include "text/jinja_parse.h"

#include "base/error.h"
#include "base/hash.h"
#include "text/jinja_call.h"
#include "text/jinja_char.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tools ---- */

void jinja_parse_fail(struct jinja_parser *p, const struct jinja_token *at, const char *format, ...)
{
    if (p->status != SLUICE_OK) return;
    char what[SLUICE_MESSAGE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    struct jinja_place place = jinja_place(p->t, at->at);
    p->status = base_fail(p->err, SLUICE_ERR_MODEL, NULL, "%s, line %zu, column %zu: %s", p->t->name, place.line,
                          place.column, what);
    p->end.at = at->at;
    p->token = &p->end;
}

void jinja_parse_expected(struct jinja_parser *p, const char *what)
{
    const struct jinja_token *t = p->token;
    switch ((enum jinja_token_kind)t->kind) {
    case TOKEN_END: jinja_parse_fail(p, t, "expected %s, but the template ends here", what); return;
    case TOKEN_OUTPUT_END: jinja_parse_fail(p, t, "expected %s, got the end of the tag (}})", what); return;
    case TOKEN_BLOCK_END: jinja_parse_fail(p, t, "expected %s, got the end of the tag (%%})", what); return;
    case TOKEN_SIGN:
        jinja_parse_fail(p, t, "expected %s, got '%c%.1s'", what, t->sign & 0xff,
                         t->sign > 0xff ? (const char[2]){(char)(t->sign >> 8), 0} : "");
        return;
    case TOKEN_NAME:
    case TOKEN_STRING:
        jinja_parse_fail(p, t, "expected %s, got '%.*s'", what, t->value.bytes < 60 ? (int)t->value.bytes : 60,
                         t->value.text);
        return;
    default: jinja_parse_fail(p, t, "expected %s, got something else", what);
    }
}

static void fail_memory(struct jinja_parser *p)
{
    if (p->status != SLUICE_OK) return;
    if (p->t->arena.limited) {
        jinja_parse_fail(p, p->token, "the parsed template takes more than %zu bytes of memory", JINJA_TREE_BYTES_MAX);
        return;
    }
    p->status = base_fail(p->err, SLUICE_ERR_MEMORY, NULL, "%s: no memory for the template", p->t->name);
    p->token = &p->end;
}

struct jinja_node *jinja_node_new(struct jinja_parser *p, enum jinja_node_kind kind, const struct jinja_token *at)
{
    struct jinja_node *n = p->status == SLUICE_OK ? jinja_arena_take(&p->t->arena, 1, sizeof *n) : NULL;
    if (!n) {
        fail_memory(p);
        p->broken = (struct jinja_node){.kind = NODE_CONST};
        return &p->broken;
    }
    n->kind = (uint8_t)kind;
    n->at = at->at;
    return n;
}

bool jinja_parse_enter(struct jinja_parser *p)
{
    if (p->depth >= JINJA_NEST_MAX) jinja_parse_fail(p, p->token, "the template nests deeper than %d", JINJA_NEST_MAX);
    if (p->status != SLUICE_OK) return false;
    p->depth++;
    return true;
}

bool jinja_at_sign(const struct jinja_parser *p, uint16_t sign)
{
    return p->token->kind == TOKEN_SIGN && p->token->sign == sign;
}

bool jinja_at_word(const struct jinja_parser *p, const char *word)
{
    return p->token->kind == TOKEN_NAME && jinja_text_is(p->token->value, word);
}

void jinja_next_token(struct jinja_parser *p)
{
    if (p->token->kind != TOKEN_END) p->token++;
}

bool jinja_skip_sign(struct jinja_parser *p, uint16_t sign)
{
    bool there = jinja_at_sign(p, sign);
    if (there) jinja_next_token(p);
    return there;
}

bool jinja_skip_word(struct jinja_parser *p, const char *word)
{
    bool there = jinja_at_word(p, word);
    if (there) jinja_next_token(p);
    return there;
}

void jinja_want_sign(struct jinja_parser *p, char sign)
{
    char what[] = {'\'', sign, '\'', '\0'};
    if (!jinja_skip_sign(p, (unsigned char)sign)) jinja_parse_expected(p, what);
}

static void want_block_end(struct jinja_parser *p)
{
    if (p->token->kind == TOKEN_BLOCK_END)
        jinja_next_token(p);
    else
        jinja_parse_expected(p, "the end of the tag (%})");
}

/* ---- names ---- */

static size_t name_slot(const struct jinja_template *t, const uint32_t *table, size_t room, struct jinja_value name)
{
    size_t at = base_hash_of(name.text, name.bytes, 0) & (room - 1);
    for (; table[at]; at = (at + 1) & (room - 1)) {
        struct jinja_value other = t->names[table[at] - 1].text;
        if (other.bytes == name.bytes && memcmp(other.text, name.text, name.bytes) == 0) break;
    }
    return at;
}

static bool grow_names(struct jinja_parser *p)
{
    struct jinja_template *t = p->t;
    size_t room = p->names_room * 2 + 64, table_room = 256;
    while (table_room < 2 * room) table_room *= 2;
    struct jinja_name *names = jinja_arena_take(&t->arena, room, sizeof *names);
    uint32_t *table = names ? jinja_arena_take(&t->arena, table_room, sizeof *table) : NULL;
    if (!table) {
        fail_memory(p);
        return false;
    }
    if (t->n_names) memcpy(names, t->names, t->n_names * sizeof *names);
    t->names = names;
    for (size_t i = 0; i < t->n_names; i++) table[name_slot(t, table, table_room, names[i].text)] = (uint32_t)i + 1;
    p->table = table;
    p->table_room = table_room;
    p->names_room = room;
    return true;
}

uint32_t jinja_parse_id(struct jinja_parser *p, struct jinja_value name)
{
    struct jinja_template *t = p->t;
    if (p->status != SLUICE_OK || (t->n_names == p->names_room && !grow_names(p))) return 0;
    size_t slot = name_slot(t, p->table, p->table_room, name);
    if (p->table[slot] == 0 && t->n_names == JINJA_NAMES_MAX) {
        jinja_parse_fail(p, p->token, "the template has more than %d names", JINJA_NAMES_MAX);
        return 0;
    }
    if (p->table[slot] == 0) {
        t->names[t->n_names++] = (struct jinja_name){.text = name, .builtin = jinja_function_find(name)};
        p->table[slot] = (uint32_t)t->n_names;
    }
    return p->table[slot] - 1;
}

uint32_t jinja_name_find(const struct jinja_template *t, struct jinja_value name)
{
    uint32_t i = 0;
    while (i < t->n_names &&
           (t->names[i].text.bytes != name.bytes || memcmp(t->names[i].text.text, name.text, name.bytes) != 0))
        i++;
    return i;
}

/* ---- statements ---- */

static struct jinja_node *parse_body(struct jinja_parser *p, const char *const *ends, const struct jinja_token *opened);

/* The body of a block up to {% end %}, which is skipped. */
static struct jinja_node *parse_block(struct jinja_parser *p, const char *end, const struct jinja_token *opened)
{
    want_block_end(p);
    struct jinja_node *body = parse_body(p, (const char *const[]){end, NULL}, opened);
    jinja_next_token(p);
    want_block_end(p);
    return body;
}

/* `attributes`: "ns.x" may be assigned to. */
static struct jinja_node *parse_target(struct jinja_parser *p, bool attributes)
{
    const struct jinja_token *at = p->token;
    if (!jinja_parse_enter(p)) return &p->broken;
    struct jinja_node *first = NULL, **tail = &first;
    bool tuple = false;
    do {
        if (tuple && p->token->kind != TOKEN_NAME && !jinja_at_sign(p, '(')) break;
        struct jinja_node *n;
        if (jinja_skip_sign(p, '(')) {
            n = parse_target(p, false);
            jinja_want_sign(p, ')');
        } else if (p->token->kind == TOKEN_NAME) {
            n = jinja_node_new(p, NODE_NAME, p->token);
            n->id = jinja_parse_id(p, p->token->value);
            jinja_next_token(p);
            if (attributes && jinja_skip_sign(p, '.')) {
                n->kind = NODE_TARGET_ATTR;
                n->value = p->token->value;
                if (p->token->kind == TOKEN_NAME)
                    jinja_next_token(p);
                else
                    jinja_parse_expected(p, "the name of an attribute");
            }
        } else {
            jinja_parse_expected(p, "a name to assign to");
            n = &p->broken;
        }
        *tail = n;
        tail = &n->next;
        tuple = tuple || jinja_at_sign(p, ',');
    } while (p->status == SLUICE_OK && jinja_skip_sign(p, ','));
    p->depth--;
    if (!tuple) return first;
    struct jinja_node *n = jinja_node_new(p, NODE_TUPLE, at);
    n->a = first;
    return n;
}

static struct jinja_node *parse_if(struct jinja_parser *p, const struct jinja_token *opened)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct jinja_node *first = jinja_node_new(p, NODE_IF, p->token), *n = first;
    for (;;) {
        n->a = jinja_parse_tuple(p, true);
        want_block_end(p);
        n->b = parse_body(p, ends, opened);
        if (p->status != SLUICE_OK || !jinja_at_word(p, "elif")) break;
        jinja_next_token(p);
        n->c = jinja_node_new(p, NODE_IF, p->token);
        n->c->op = 1; /* an elif: not an if that stands in the else */
        n = n->c;
    }
    if (jinja_skip_word(p, "else")) {
        n->c = parse_block(p, "endif", opened);
    } else {
        jinja_next_token(p);
        want_block_end(p);
    }
    return first;
}

static struct jinja_node *parse_for(struct jinja_parser *p, const struct jinja_token *opened)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    struct jinja_node *n = jinja_node_new(p, NODE_FOR, p->token);
    n->a = parse_target(p, false);
    if (!jinja_skip_word(p, "in")) jinja_parse_expected(p, "'in'");
    n->b = jinja_parse_tuple(p, false);
    if (jinja_skip_word(p, "if")) n->e = jinja_parse_expression(p, true);
    if (jinja_at_word(p, "recursive")) jinja_parse_fail(p, p->token, "recursive loops are not supported; use a macro");
    want_block_end(p);
    p->loops++;
    n->c = parse_body(p, ends, opened);
    p->loops--;
    if (jinja_skip_word(p, "else")) {
        n->d = parse_block(p, "endfor", opened);
    } else {
        jinja_next_token(p);
        want_block_end(p);
    }
    return n;
}

static struct jinja_node *parse_set(struct jinja_parser *p, const struct jinja_token *opened)
{
    struct jinja_node *n = jinja_node_new(p, NODE_SET, p->token);
    n->a = parse_target(p, true);
    if (jinja_skip_sign(p, '=')) {
        n->b = jinja_parse_tuple(p, true);
        want_block_end(p);
        return n;
    }
    n->kind = NODE_SET_BLOCK;
    n->b = jinja_parse_filters(p, jinja_node_new(p, NODE_INPUT, p->token), false);
    n->c = parse_block(p, "endset", opened);
    return n;
}

static struct jinja_node *parse_params(struct jinja_parser *p)
{
    struct jinja_node *first = NULL, **tail = &first;
    bool optional = false;
    jinja_want_sign(p, '(');
    while (p->status == SLUICE_OK && !jinja_at_sign(p, ')')) {
        struct jinja_node *n = jinja_node_new(p, NODE_PARAM, p->token);
        if (p->token->kind != TOKEN_NAME) {
            jinja_parse_expected(p, "the name of a parameter");
            break;
        }
        const struct jinja_token *at = p->token;
        n->value = p->token->value;
        n->id = jinja_parse_id(p, n->value);
        jinja_next_token(p);
        if (jinja_skip_sign(p, '=')) n->a = jinja_parse_expression(p, true);
        if (optional && !n->a) jinja_parse_fail(p, at, "a parameter without a default follows one with a default");
        optional = n->a != NULL;
        *tail = n;
        tail = &n->next;
        if (!jinja_skip_sign(p, ',')) break;
    }
    jinja_want_sign(p, ')');
    return first;
}

/* A macro's body: loops outside of it are out of reach for break. */
static struct jinja_node *parse_macro_body(struct jinja_parser *p, const char *end, const struct jinja_token *opened)
{
    uint32_t loops = p->loops;
    p->loops = 0;
    struct jinja_node *body = parse_block(p, end, opened);
    p->loops = loops;
    return body;
}

static struct jinja_node *parse_macro(struct jinja_parser *p, const struct jinja_token *opened)
{
    struct jinja_node *n = jinja_node_new(p, NODE_MACRO, p->token);
    if (p->token->kind != TOKEN_NAME) {
        jinja_parse_expected(p, "the macro's name");
        return n;
    }
    n->value = p->token->value;
    n->id = jinja_parse_id(p, n->value);
    jinja_next_token(p);
    n->a = parse_params(p);
    n->c = parse_macro_body(p, "endmacro", opened);
    return n;
}

static struct jinja_node *parse_caller(struct jinja_parser *p, const struct jinja_token *opened)
{
    struct jinja_node *n = jinja_node_new(p, NODE_CALLER, p->token), *m = jinja_node_new(p, NODE_MACRO, p->token);
    m->value = jinja_text("caller", 6);
    m->id = jinja_parse_id(p, m->value);
    if (jinja_at_sign(p, '(')) m->a = parse_params(p);
    const struct jinja_token *at = p->token;
    n->a = jinja_parse_expression(p, true);
    if (n->a->kind != NODE_CALL) jinja_parse_fail(p, at, "expected a call");
    m->c = parse_macro_body(p, "endcall", opened);
    n->b = m;
    return n;
}

static struct jinja_node *parse_filter_block(struct jinja_parser *p, const struct jinja_token *opened)
{
    struct jinja_node *n = jinja_node_new(p, NODE_CAPTURE, p->token);
    n->b = jinja_parse_filters(p, jinja_node_new(p, NODE_INPUT, p->token), true);
    n->c = parse_block(p, "endfilter", opened);
    return n;
}

static struct jinja_node *parse_with(struct jinja_parser *p, const struct jinja_token *opened)
{
    struct jinja_node *n = jinja_node_new(p, NODE_WITH, p->token), **tail = &n->a;
    while (p->status == SLUICE_OK && p->token->kind != TOKEN_BLOCK_END) {
        struct jinja_node *set = jinja_node_new(p, NODE_SET, p->token);
        if (p->token->kind == TOKEN_NAME) {
            set->a = jinja_node_new(p, NODE_NAME, p->token);
            set->a->id = jinja_parse_id(p, p->token->value);
            jinja_next_token(p);
        } else {
            jinja_parse_expected(p, "a name to assign to");
        }
        jinja_want_sign(p, '=');
        set->b = jinja_parse_expression(p, true);
        *tail = set;
        tail = &set->next;
        if (!jinja_skip_sign(p, ',')) break;
    }
    n->c = parse_block(p, "endwith", opened);
    return n;
}

/* A scope of its own, and nothing more. */
static struct jinja_node *parse_generation(struct jinja_parser *p, const struct jinja_token *opened)
{
    struct jinja_node *n = jinja_node_new(p, NODE_WITH, p->token);
    n->c = parse_block(p, "endgeneration", opened);
    return n;
}

static struct jinja_node *parse_break(struct jinja_parser *p, const struct jinja_token *opened)
{
    bool breaks = jinja_text_is(opened->value, "break");
    struct jinja_node *n = jinja_node_new(p, breaks ? NODE_BREAK : NODE_CONTINUE, opened);
    if (p->loops == 0)
        jinja_parse_fail(p, opened, "'%.*s' stands outside of a loop", (int)opened->value.bytes, opened->value.text);
    want_block_end(p);
    return n;
}

static struct jinja_node *parse_print(struct jinja_parser *p, const struct jinja_token *opened)
{
    struct jinja_node *n = jinja_node_new(p, NODE_OUTPUT, opened);
    n->a = jinja_parse_tuple(p, true);
    want_block_end(p);
    return n;
}

static struct jinja_node *parse_statement(struct jinja_parser *p)
{
    static const struct {
        const char *word;
        struct jinja_node *(*parse)(struct jinja_parser *p, const struct jinja_token *opened);
    } rows[] = {{"if", parse_if},       {"for", parse_for},
                {"set", parse_set},     {"macro", parse_macro},
                {"call", parse_caller}, {"filter", parse_filter_block},
                {"with", parse_with},   {"generation", parse_generation},
                {"break", parse_break}, {"continue", parse_break},
                {"print", parse_print}};
    static const char *const refused[] = {"include", "import", "from",       "extends", "block",
                                          "do",      "trans",  "autoescape", "debug"};
    const struct jinja_token *word = p->token;
    if (word->kind != TOKEN_NAME) {
        jinja_parse_expected(p, "the name of a tag");
        return &p->broken;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (jinja_at_word(p, rows[i].word)) {
            jinja_next_token(p);
            return rows[i].parse(p, word);
        }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (jinja_at_word(p, refused[i]))
            jinja_parse_fail(p, word, "the tag '%s' is not supported: a chat template stands alone", refused[i]);
    jinja_parse_fail(p, word, "unknown tag '%.*s'", word->value.bytes < 60 ? (int)word->value.bytes : 60,
                     word->value.text);
    return &p->broken;
}

static bool at_any(const struct jinja_parser *p, const char *const *words)
{
    for (; *words; words++)
        if (jinja_at_word(p, *words)) return true;
    return false;
}

/* Statements up to a tag whose name is one of `ends`, which is then the current token; NULL: to the template's end. */
static struct jinja_node *parse_body(struct jinja_parser *p, const char *const *ends, const struct jinja_token *opened)
{
    struct jinja_node *first = NULL, **tail = &first;
    if (!jinja_parse_enter(p)) return NULL;
    while (p->status == SLUICE_OK && p->token->kind != TOKEN_END) {
        const struct jinja_token *at = p->token;
        struct jinja_node *n;
        jinja_next_token(p);
        if (at->kind == TOKEN_TEXT) {
            n = jinja_node_new(p, NODE_TEXT, at);
            n->value = at->value;
        } else if (at->kind == TOKEN_OUTPUT) {
            n = jinja_node_new(p, NODE_OUTPUT, at);
            n->a = jinja_parse_tuple(p, true);
            if (p->token->kind == TOKEN_OUTPUT_END)
                jinja_next_token(p);
            else
                jinja_parse_expected(p, "the end of the tag (}})");
        } else {
            if (ends && at_any(p, ends)) break;
            n = parse_statement(p);
        }
        *tail = n;
        tail = &n->next;
    }
    p->depth--;
    if (ends && p->token->kind == TOKEN_END)
        jinja_parse_fail(p, opened, "'%.*s' has no end ({%% %s %%})", (int)opened->value.bytes, opened->value.text,
                         ends[1] ? ends[2] ? ends[2] : ends[1] : ends[0]);
    return first;
}

/* ---- the template ---- */

/* Line ends become \n, and one at the very end is dropped. */
static void copy_source(struct jinja_template *t, const char *text, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\r') {
            t->source[n++] = '\n';
            if (i + 1 < bytes && text[i + 1] == '\n') i++;
        } else {
            t->source[n++] = text[i];
        }
    }
    if (n > 0 && t->source[n - 1] == '\n') n--;
    t->bytes = n;
}

enum sluice_status jinja_parse(const char *name, const char *text, size_t bytes, struct jinja_template **out,
                               struct sluice_error *err)
{
    *out = NULL;
    if (bytes > JINJA_SOURCE_BYTES_MAX)
        return base_fail(err, SLUICE_ERR_MODEL, NULL, "%s has %zu bytes; at most %zu are read", name, bytes,
                         JINJA_SOURCE_BYTES_MAX);
    struct jinja_template *t = calloc(1, sizeof *t);
    if (t) t->source = malloc(bytes + 1);
    if (!t || !t->source) {
        free(t);
        return base_fail(err, SLUICE_ERR_MEMORY, NULL, "%s: no memory for the template", name);
    }
    snprintf(t->name, sizeof t->name, "%s", name);
    jinja_arena_init(&t->arena, JINJA_TREE_BYTES_MAX);
    copy_source(t, text, bytes);
    struct jinja_tokens tokens = {0};
    struct jinja_parser p = {.t = t, .end = {.kind = TOKEN_END}, .err = err};
    p.status = jinja_lex(t, &tokens, err);
    if (p.status == SLUICE_OK) {
        p.token = tokens.at;
        t->root = parse_body(&p, NULL, NULL);
    }
    free(tokens.at);
    if (p.status != SLUICE_OK) {
        jinja_destroy(t);
        return p.status;
    }
    *out = t;
    return SLUICE_OK;
}

void jinja_destroy(struct jinja_template *t)
{
    if (!t) return;
    jinja_arena_free(&t->arena);
    free(t->source);
    free(t);
}

size_t jinja_memory_bytes(const struct jinja_template *t) { return sizeof *t + t->bytes + t->arena.bytes; }

bool jinja_uses(const struct jinja_template *t, const char *name)
{
    return jinja_name_find(t, jinja_text(name, strlen(name))) < t->n_names;
}

struct jinja_place jinja_place(const struct jinja_template *t, size_t at)
{
    size_t begin = 0, line = 1;
    for (size_t i = 0; i < at && i < t->bytes; i++)
        if (t->source[i] == '\n') {
            line++;
            begin = i + 1;
        }
    if (at > t->bytes) at = t->bytes;
    return (struct jinja_place){line, jinja_char_count(t->source + begin, at - begin) + 1};
}
