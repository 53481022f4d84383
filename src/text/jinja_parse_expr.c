/* Expressions, by descent. Loosest first: x if y else z, or, and, not, comparisons, + -, ~, * / // %, **, signs, then
 * .attributes, [items], (calls), |filters and tests. ** groups to the left and binds looser than a sign, as in Jinja.
 */
#include "text/jinja_call.h"
#include "text/jinja_parse.h"

#include <string.h>

static void append(struct jinja_node ***tail, struct jinja_node *n)
{
    **tail = n;
    *tail = &n->next;
}

/* ---- things that stand alone ---- */

static struct jinja_node *parse_list(struct jinja_parser *p)
{
    struct jinja_node *list = jinja_node_new(p, NODE_LIST, p->token), **tail = &list->a;
    jinja_want_sign(p, '[');
    while (p->status == SLUICE_OK && !jinja_at_sign(p, ']')) {
        append(&tail, jinja_parse_expression(p, true));
        if (!jinja_skip_sign(p, ',')) break;
    }
    jinja_want_sign(p, ']');
    return list;
}

static struct jinja_node *parse_dict(struct jinja_parser *p)
{
    struct jinja_node *dict = jinja_node_new(p, NODE_DICT, p->token), **tail = &dict->a;
    jinja_want_sign(p, '{');
    while (p->status == SLUICE_OK && !jinja_at_sign(p, '}')) {
        struct jinja_node *entry = jinja_node_new(p, NODE_ENTRY, p->token);
        entry->a = jinja_parse_expression(p, true);
        jinja_want_sign(p, ':');
        entry->b = jinja_parse_expression(p, true);
        append(&tail, entry);
        if (!jinja_skip_sign(p, ',')) break;
    }
    jinja_want_sign(p, '}');
    return dict;
}

static bool at_tuple_end(const struct jinja_parser *p)
{
    return p->token->kind == TOKEN_OUTPUT_END || p->token->kind == TOKEN_BLOCK_END || p->token->kind == TOKEN_END ||
           jinja_at_sign(p, ')');
}

struct jinja_node *jinja_parse_tuple(struct jinja_parser *p, bool conditional)
{
    const struct jinja_token *at = p->token;
    struct jinja_node *first = jinja_parse_expression(p, conditional);
    if (!jinja_at_sign(p, ',')) return first;
    struct jinja_node *tuple = jinja_node_new(p, NODE_TUPLE, at), **tail = &tuple->a;
    append(&tail, first);
    while (jinja_skip_sign(p, ',') && !at_tuple_end(p)) append(&tail, jinja_parse_expression(p, conditional));
    return tuple;
}

static struct jinja_node *parse_brackets(struct jinja_parser *p)
{
    const struct jinja_token *at = p->token;
    jinja_want_sign(p, '(');
    struct jinja_node *n = jinja_at_sign(p, ')') ? jinja_node_new(p, NODE_TUPLE, at) : jinja_parse_tuple(p, true);
    jinja_want_sign(p, ')');
    return n;
}

static struct jinja_node *parse_strings(struct jinja_parser *p)
{
    struct jinja_node *n = jinja_node_new(p, NODE_CONST, p->token);
    n->value = p->token->value;
    jinja_next_token(p);
    if (p->token->kind != TOKEN_STRING) return n;
    struct jinja_node *joined = jinja_node_new(p, NODE_CONCAT, p->token), **tail = &joined->a; /* 'a' 'b' */
    append(&tail, n);
    for (; p->token->kind == TOKEN_STRING; jinja_next_token(p)) {
        n = jinja_node_new(p, NODE_CONST, p->token);
        n->value = p->token->value;
        append(&tail, n);
    }
    return joined;
}

static struct jinja_node *parse_word(struct jinja_parser *p)
{
    static const struct {
        const char *word;
        uint8_t kind;
        bool truth;
    } constants[] = {{"true", JINJA_BOOL, true},   {"True", JINJA_BOOL, true},  {"false", JINJA_BOOL, false},
                     {"False", JINJA_BOOL, false}, {"none", JINJA_NONE, false}, {"None", JINJA_NONE, false}};
    struct jinja_node *n = jinja_node_new(p, NODE_NAME, p->token);
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (jinja_at_word(p, constants[i].word)) {
            n->kind = NODE_CONST;
            n->value = constants[i].kind == JINJA_NONE ? jinja_none() : jinja_bool(constants[i].truth);
        }
    if (n->kind == NODE_NAME) n->id = jinja_parse_id(p, p->token->value);
    jinja_next_token(p);
    return n;
}

static struct jinja_node *parse_primary(struct jinja_parser *p)
{
    if (p->token->kind == TOKEN_NAME) return parse_word(p);
    if (p->token->kind == TOKEN_STRING) return parse_strings(p);
    if (jinja_at_sign(p, '(')) return parse_brackets(p);
    if (jinja_at_sign(p, '[')) return parse_list(p);
    if (jinja_at_sign(p, '{')) return parse_dict(p);
    struct jinja_node *n = jinja_node_new(p, NODE_CONST, p->token);
    n->value = p->token->value;
    if (p->token->kind == TOKEN_NUMBER)
        jinja_next_token(p);
    else
        jinja_parse_expected(p, "an expression");
    return n;
}

/* ---- what follows a thing ---- */

static struct jinja_node *parse_subscript(struct jinja_parser *p, struct jinja_node *of)
{
    const struct jinja_token *at = p->token;
    if (jinja_skip_sign(p, '.')) {
        bool index = p->token->kind == TOKEN_NUMBER && jinja_is(p->token->value, JINJA_INT);
        struct jinja_node *n = jinja_node_new(p, index ? NODE_ITEM : NODE_ATTR, at);
        n->a = of;
        n->value = p->token->value;
        if (index) {
            n->b = jinja_node_new(p, NODE_CONST, p->token);
            n->b->value = p->token->value;
        }
        if (index || p->token->kind == TOKEN_NAME)
            jinja_next_token(p);
        else
            jinja_parse_expected(p, "a name or a number");
        return n;
    }
    jinja_want_sign(p, '[');
    struct jinja_node *n = jinja_node_new(p, NODE_ITEM, at), *parts[3] = {0};
    n->a = of;
    int part = 0;
    for (;;) {
        bool empty = jinja_at_sign(p, ':') || (part > 0 && jinja_at_sign(p, ']'));
        if (!empty) parts[part] = jinja_parse_expression(p, true);
        if (part == 2 || !jinja_skip_sign(p, ':')) break;
        part++;
    }
    if (part > 0) n->kind = NODE_SLICE;
    n->b = parts[0];
    n->c = parts[1];
    n->d = parts[2];
    if (part == 0 && jinja_at_sign(p, ',')) { /* x[1, 2]: the key is a tuple */
        struct jinja_node *tuple = jinja_node_new(p, NODE_TUPLE, at), **tail = &tuple->a;
        append(&tail, n->b);
        while (jinja_skip_sign(p, ',') && !jinja_at_sign(p, ']')) append(&tail, jinja_parse_expression(p, true));
        n->b = tuple;
    }
    jinja_want_sign(p, ']');
    return n;
}

static struct jinja_node *parse_arg(struct jinja_parser *p)
{
    struct jinja_node *arg = jinja_node_new(p, NODE_ARG, p->token);
    if (jinja_skip_sign(p, JINJA_SIGN('*', '*'))) {
        arg->op = ARG_DICT;
    } else if (jinja_skip_sign(p, '*')) {
        arg->op = ARG_LIST;
    } else if (p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_SIGN && p->token[1].sign == '=') {
        arg->op = ARG_NAMED;
        arg->value = p->token->value;
        jinja_next_token(p);
        jinja_next_token(p);
    }
    arg->a = jinja_parse_expression(p, true);
    return arg;
}

struct jinja_node *jinja_parse_args(struct jinja_parser *p)
{
    struct jinja_node *first = NULL, **tail = &first;
    bool named = false;
    jinja_want_sign(p, '(');
    while (p->status == SLUICE_OK && !jinja_at_sign(p, ')')) {
        const struct jinja_token *at = p->token;
        struct jinja_node *arg = parse_arg(p);
        if (named && arg->op == ARG_PLAIN)
            jinja_parse_fail(p, at, "an argument without a name follows one with a name");
        named = named || arg->op == ARG_NAMED || arg->op == ARG_DICT;
        append(&tail, arg);
        if (!jinja_skip_sign(p, ',')) break;
    }
    jinja_want_sign(p, ')');
    return first;
}

static struct jinja_node *parse_call(struct jinja_parser *p, struct jinja_node *callee)
{
    struct jinja_node *n = jinja_node_new(p, NODE_CALL, p->token);
    n->a = callee;
    n->b = jinja_parse_args(p);
    return n;
}

struct jinja_node *jinja_parse_filters(struct jinja_parser *p, struct jinja_node *input, bool begun)
{
    while (p->status == SLUICE_OK && (begun || jinja_skip_sign(p, '|'))) {
        begun = false;
        struct jinja_node *n = jinja_node_new(p, NODE_FILTER, p->token);
        n->a = input;
        n->value = p->token->value;
        if (p->token->kind != TOKEN_NAME) {
            jinja_parse_expected(p, "the name of a filter");
            break;
        }
        n->builtin = jinja_filter_find(n->value);
        jinja_next_token(p);
        if (jinja_at_sign(p, '(')) n->b = jinja_parse_args(p);
        input = n;
    }
    return input;
}

/* A test's one argument may stand without brackets: "x is divisibleby 3". */
static bool at_bare_argument(const struct jinja_parser *p)
{
    static const char *const words[] = {"else", "or", "and", "if", "in", "is", "not"};
    if (p->token->kind == TOKEN_STRING || p->token->kind == TOKEN_NUMBER) return true;
    if (p->token->kind == TOKEN_SIGN) return p->token->sign == '[' || p->token->sign == '{';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (jinja_at_word(p, words[i])) return false;
    return p->token->kind == TOKEN_NAME;
}

static struct jinja_node *parse_postfix(struct jinja_parser *p, struct jinja_node *n);

static struct jinja_node *parse_test(struct jinja_parser *p, struct jinja_node *input)
{
    struct jinja_node *negation = jinja_at_word(p, "not") ? jinja_node_new(p, NODE_NOT, p->token) : NULL;
    jinja_skip_word(p, "not");
    struct jinja_node *n = jinja_node_new(p, NODE_TEST, p->token);
    n->a = input;
    n->value = p->token->value;
    if (p->token->kind != TOKEN_NAME) {
        jinja_parse_expected(p, "the name of a test");
        return n;
    }
    n->builtin = jinja_test_find(n->value);
    jinja_next_token(p);
    if (jinja_at_sign(p, '(')) {
        n->b = jinja_parse_args(p);
    } else if (at_bare_argument(p)) {
        n->b = jinja_node_new(p, NODE_ARG, p->token);
        n->b->a = parse_postfix(p, parse_primary(p));
    }
    if (!negation) return n;
    negation->a = n;
    return negation;
}

static struct jinja_node *parse_postfix(struct jinja_parser *p, struct jinja_node *n)
{
    while (p->status == SLUICE_OK) {
        if (jinja_at_sign(p, '.') || jinja_at_sign(p, '['))
            n = parse_subscript(p, n);
        else if (jinja_at_sign(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

static struct jinja_node *parse_filter_or_test(struct jinja_parser *p, struct jinja_node *n)
{
    while (p->status == SLUICE_OK) {
        if (jinja_at_sign(p, '|'))
            n = jinja_parse_filters(p, n, false);
        else if (jinja_skip_word(p, "is"))
            n = parse_test(p, n);
        else if (jinja_at_sign(p, '('))
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* ---- operators ---- */

static struct jinja_node *parse_unary(struct jinja_parser *p, bool filters)
{
    struct jinja_node *n;
    if (jinja_at_sign(p, '-') || jinja_at_sign(p, '+')) {
        n = jinja_node_new(p, jinja_at_sign(p, '-') ? NODE_NEGATE : NODE_PLUS, p->token);
        jinja_next_token(p);
        if (!jinja_parse_enter(p)) return n;
        n->a = parse_unary(p, false);
        p->depth--;
    } else {
        n = parse_primary(p);
    }
    n = parse_postfix(p, n);
    return filters ? parse_filter_or_test(p, n) : n;
}

static enum jinja_node_kind binary_kind(const struct jinja_parser *p, int level)
{
    static const struct {
        uint16_t sign;
        uint8_t level, kind;
    } rows[] = {{'+', 0, NODE_ADD},    {'-', 0, NODE_SUBTRACT},
                {'~', 1, NODE_CONCAT}, {'*', 2, NODE_MULTIPLY},
                {'/', 2, NODE_DIVIDE}, {JINJA_SIGN('/', '/'), 2, NODE_FLOOR},
                {'%', 2, NODE_MODULO}, {JINJA_SIGN('*', '*'), 3, NODE_POWER}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].level == level && jinja_at_sign(p, rows[i].sign)) return (enum jinja_node_kind)rows[i].kind;
    return NODE_CONST;
}

static struct jinja_node *parse_binary(struct jinja_parser *p, int level)
{
    if (level == 4) return parse_unary(p, true);
    struct jinja_node *left = parse_binary(p, level + 1), **tail = NULL;
    enum jinja_node_kind kind;
    while (p->status == SLUICE_OK && (kind = binary_kind(p, level)) != NODE_CONST) {
        const struct jinja_token *at = p->token;
        jinja_next_token(p);
        struct jinja_node *right = parse_binary(p, level + 1);
        if (kind == NODE_CONCAT && tail) {
            append(&tail, right);
            continue;
        }
        struct jinja_node *n = jinja_node_new(p, kind, at);
        n->a = left;
        if (kind == NODE_CONCAT) {
            tail = &left->next;
            append(&tail, right);
        } else {
            n->b = right;
        }
        left = n;
    }
    return left;
}

static int comparison(const struct jinja_parser *p)
{
    static const struct {
        uint16_t sign;
        uint8_t op;
    } rows[] = {{JINJA_SIGN('=', '='), COMPARE_EQ},
                {JINJA_SIGN('!', '='), COMPARE_NE},
                {'<', COMPARE_LT},
                {JINJA_SIGN('<', '='), COMPARE_LE},
                {'>', COMPARE_GT},
                {JINJA_SIGN('>', '='), COMPARE_GE}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (jinja_at_sign(p, rows[i].sign)) return rows[i].op;
    if (jinja_at_word(p, "in")) return COMPARE_IN;
    bool not_in = jinja_at_word(p, "not") && p->token[1].kind == TOKEN_NAME && jinja_text_is(p->token[1].value, "in");
    return not_in ? COMPARE_NOT_IN : -1;
}

static struct jinja_node *parse_comparison(struct jinja_parser *p)
{
    struct jinja_node *first = parse_binary(p, 0), *n = first, **tail = NULL;
    int op;
    while (p->status == SLUICE_OK && (op = comparison(p)) >= 0) {
        if (n == first) {
            n = jinja_node_new(p, NODE_COMPARE, p->token);
            n->a = first;
            tail = &n->b;
        }
        struct jinja_node *operand = jinja_node_new(p, NODE_OPERAND, p->token);
        operand->op = (uint8_t)op;
        jinja_next_token(p);
        if (op == COMPARE_NOT_IN) jinja_next_token(p);
        operand->a = parse_binary(p, 0);
        append(&tail, operand);
    }
    return n;
}

static struct jinja_node *parse_not(struct jinja_parser *p)
{
    if (!jinja_at_word(p, "not")) return parse_comparison(p);
    struct jinja_node *n = jinja_node_new(p, NODE_NOT, p->token);
    jinja_next_token(p);
    if (!jinja_parse_enter(p)) return n;
    n->a = parse_not(p);
    p->depth--;
    return n;
}

static struct jinja_node *parse_and(struct jinja_parser *p)
{
    struct jinja_node *left = parse_not(p);
    while (jinja_at_word(p, "and")) {
        struct jinja_node *n = jinja_node_new(p, NODE_AND, p->token);
        jinja_next_token(p);
        n->a = left;
        n->b = parse_not(p);
        left = n;
    }
    return left;
}

static struct jinja_node *parse_or(struct jinja_parser *p)
{
    struct jinja_node *left = parse_and(p);
    while (jinja_at_word(p, "or")) {
        struct jinja_node *n = jinja_node_new(p, NODE_OR, p->token);
        jinja_next_token(p);
        n->a = left;
        n->b = parse_and(p);
        left = n;
    }
    return left;
}

struct jinja_node *jinja_parse_expression(struct jinja_parser *p, bool conditional)
{
    if (!jinja_parse_enter(p)) return &p->broken;
    struct jinja_node *n = parse_or(p);
    while (conditional && jinja_at_word(p, "if")) {
        struct jinja_node *cond = jinja_node_new(p, NODE_COND, p->token);
        jinja_next_token(p);
        cond->b = n;
        cond->a = parse_or(p);
        if (jinja_skip_word(p, "else")) cond->c = jinja_parse_expression(p, true);
        n = cond;
    }
    p->depth--;
    return n;
}
