/* str() and repr(), as Python prints values. */
#include "text/jinja_call.h"
#include "text/jinja_char.h"
#include "text/jinja_run.h"

#include <stdio.h>
#include <string.h>

const char *jinja_kind_name(enum jinja_kind kind)
{
    switch (kind) {
    case JINJA_ABSENT: return "nothing";
    case JINJA_UNDEFINED: return "Undefined";
    case JINJA_NONE: return "NoneType";
    case JINJA_BOOL: return "bool";
    case JINJA_INT: return "int";
    case JINJA_FLOAT: return "float";
    case JINJA_STR: return "str";
    case JINJA_LIST: return "list";
    case JINJA_TUPLE: return "tuple";
    case JINJA_DICT: return "dict";
    case JINJA_RANGE: return "range";
    case JINJA_VIEW: return "dict view";
    case JINJA_ITER: return "generator";
    case JINJA_NAMESPACE: return "namespace";
    case JINJA_LOOP: return "loop";
    case JINJA_MACRO: return "macro";
    case JINJA_BUILTIN: return "function";
    case JINJA_METHOD: return "method";
    case JINJA_CYCLER: return "cycler";
    case JINJA_JOINER: return "joiner";
    }
    return "value";
}

static void put_quoted(struct jinja_build *b, struct jinja_value text)
{
    bool single = memchr(text.text, '\'', text.bytes) && !memchr(text.text, '"', text.bytes);
    char quote = single ? '"' : '\'', escape[16];
    jinja_put(b, &quote, 1);
    size_t at = 0, begin = 0;
    while (at < text.bytes && !jinja_failed(b->r)) {
        size_t before = at;
        uint32_t c = jinja_char_next(text.text, text.bytes, &at);
        if (c == (uint32_t)quote || c == '\\')
            sprintf(escape, "\\%c", (char)c);
        else if (c == '\n')
            strcpy(escape, "\\n");
        else if (c == '\r')
            strcpy(escape, "\\r");
        else if (c == '\t')
            strcpy(escape, "\\t");
        else if (jinja_char_is_printable(c))
            continue;
        else if (c < 0x100)
            sprintf(escape, "\\x%02x", c);
        else if (c < 0x10000)
            sprintf(escape, "\\u%04x", c);
        else
            sprintf(escape, "\\U%08x", c);
        jinja_put(b, text.text + begin, before - begin);
        jinja_put_word(b, escape);
        begin = at;
    }
    jinja_put(b, text.text + begin, at - begin);
    jinja_put(b, &quote, 1);
}

static void put_items(struct jinja_build *b, const struct jinja_list *l)
{
    for (size_t i = 0; i < l->n && !jinja_failed(b->r); i++) {
        if (i) jinja_put_word(b, ", ");
        jinja_show_repr(b, l->at[i]);
    }
}

static void put_entries(struct jinja_build *b, const struct jinja_dict *d)
{
    jinja_put_word(b, "{");
    for (size_t i = 0; i < d->n && !jinja_failed(b->r); i++) {
        if (i) jinja_put_word(b, ", ");
        jinja_show_repr(b, d->at[i].key);
        jinja_put_word(b, ": ");
        jinja_show_repr(b, d->at[i].value);
    }
    jinja_put_word(b, "}");
}

/* Lists and dicts and what is made of them: may nest. */
static void put_compound(struct jinja_build *b, struct jinja_value v)
{
    if (!jinja_enter(b->r)) return;
    switch ((enum jinja_kind)v.kind) {
    case JINJA_LIST:
        jinja_put_word(b, "[");
        put_items(b, v.list);
        jinja_put_word(b, "]");
        break;
    case JINJA_TUPLE:
        jinja_put_word(b, "(");
        put_items(b, v.list);
        jinja_put_word(b, v.list->n == 1 ? ",)" : ")");
        break;
    case JINJA_VIEW:
        jinja_put_word(b, v.list->name);
        jinja_put_word(b, "([");
        put_items(b, v.list);
        jinja_put_word(b, "])");
        break;
    case JINJA_NAMESPACE:
        jinja_put_word(b, "<Namespace ");
        put_entries(b, v.dict);
        jinja_put_word(b, ">");
        break;
    default: put_entries(b, v.dict);
    }
    jinja_leave(b->r);
}

void jinja_show_repr(struct jinja_build *b, struct jinja_value v)
{
    char word[JINJA_NUMBER_BYTES_MAX];
    jinja_charge(b->r, 1);
    switch ((enum jinja_kind)v.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED: jinja_put_word(b, "Undefined"); return;
    case JINJA_NONE: jinja_put_word(b, "None"); return;
    case JINJA_BOOL: jinja_put_word(b, v.truth ? "True" : "False"); return;
    case JINJA_INT: jinja_put(b, word, (size_t)sprintf(word, "%lld", (long long)v.whole)); return;
    case JINJA_FLOAT: jinja_put(b, word, jinja_number_show(v.real, word)); return;
    case JINJA_STR:
        if (v.safe) jinja_put_word(b, "Markup(");
        put_quoted(b, v);
        if (v.safe) jinja_put_word(b, ")");
        return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
    case JINJA_NAMESPACE:
    case JINJA_DICT: put_compound(b, v); return;
    case JINJA_RANGE:
        sprintf(word, v.range->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)", (long long)v.range->start,
                (long long)v.range->stop, (long long)v.range->step);
        jinja_put_word(b, word);
        return;
    case JINJA_LOOP:
        sprintf(word, "<LoopContext %zu/%zu>", v.loop->index + 1, v.loop->n);
        jinja_put_word(b, word);
        return;
    case JINJA_MACRO:
        jinja_put_word(b, "<Macro ");
        put_quoted(b, v.macro->name);
        jinja_put_word(b, ">");
        return;
    case JINJA_JOINER:
    case JINJA_CYCLER:
    case JINJA_ITER:
    case JINJA_BUILTIN:
    case JINJA_METHOD:
        jinja_put_word(b, "<");
        jinja_put_word(b, jinja_kind_name(v.kind));
        jinja_put_word(b, ">");
        return;
    }
}

void jinja_show(struct jinja_build *b, struct jinja_value v)
{
    if (jinja_is(v, JINJA_STR))
        jinja_put_str(b, v);
    else if (!jinja_is(v, JINJA_UNDEFINED))
        jinja_show_repr(b, v);
}

struct jinja_value jinja_str(struct jinja_run *r, struct jinja_value v)
{
    if (jinja_is(v, JINJA_STR)) return v;
    if (jinja_is(v, JINJA_BOOL)) return jinja_text(v.truth ? "True" : "False", v.truth ? 4 : 5);
    struct jinja_build b = {.r = r};
    jinja_show(&b, v);
    return jinja_built(&b);
}
