/* Tests: what stands behind `is`. */
#include "text/jinja_call.h"
#include "text/jinja_char.h"
#include "text/jinja_node.h"

static bool kind_is(const struct jinja_call *c, enum jinja_kind kind) { return c->self.kind == kind; }

#define KIND_TEST(name, condition)                                                  \
    static struct jinja_value name(struct jinja_run *r, const struct jinja_call *c) \
    {                                                                               \
        (void)r;                                                                    \
        return jinja_bool(condition);                                               \
    }

KIND_TEST(test_boolean, kind_is(c, JINJA_BOOL))
KIND_TEST(test_callable, c->self.kind >= JINJA_MACRO || kind_is(c, JINJA_UNDEFINED) || kind_is(c, JINJA_LOOP))
KIND_TEST(test_defined, !kind_is(c, JINJA_UNDEFINED))
KIND_TEST(test_undefined, kind_is(c, JINJA_UNDEFINED))
KIND_TEST(test_none, kind_is(c, JINJA_NONE))
KIND_TEST(test_integer, kind_is(c, JINJA_INT))
KIND_TEST(test_float, kind_is(c, JINJA_FLOAT))
KIND_TEST(test_number, jinja_is_number(c->self))
KIND_TEST(test_string, kind_is(c, JINJA_STR))
KIND_TEST(test_mapping, kind_is(c, JINJA_DICT))
KIND_TEST(test_iterable, jinja_is_iterable(c->self) || kind_is(c, JINJA_LOOP))
KIND_TEST(test_sequence, jinja_is_list(c->self) || kind_is(c, JINJA_STR) || kind_is(c, JINJA_DICT) ||
                             kind_is(c, JINJA_RANGE) || kind_is(c, JINJA_UNDEFINED))
KIND_TEST(test_true, kind_is(c, JINJA_BOOL) && c->self.truth)
KIND_TEST(test_false, kind_is(c, JINJA_BOOL) && !c->self.truth)
KIND_TEST(test_escaped, kind_is(c, JINJA_STR) && c->self.safe)
KIND_TEST(test_filter, jinja_filter_find(c->self) != NULL)
KIND_TEST(test_test, jinja_test_find(c->self) != NULL)
KIND_TEST(test_eq, jinja_equal(r, c->self, c->p[0]))
KIND_TEST(test_ne, !jinja_equal(r, c->self, c->p[0]))
KIND_TEST(test_lt, jinja_order(r, c->self, c->p[0], "<") == -1)
KIND_TEST(test_gt, jinja_order(r, c->self, c->p[0], ">") == 1)
KIND_TEST(test_in, jinja_contains(r, c->p[0], c->self))

static struct jinja_value test_le(struct jinja_run *r, const struct jinja_call *c)
{
    int order = jinja_order(r, c->self, c->p[0], "<=");
    return jinja_bool(order == -1 || order == 0);
}

static struct jinja_value test_ge(struct jinja_run *r, const struct jinja_call *c)
{
    int order = jinja_order(r, c->self, c->p[0], ">=");
    return jinja_bool(order == 1 || order == 0);
}

/* self % by == wanted */
static struct jinja_value remainder_is(struct jinja_run *r, const struct jinja_call *c, struct jinja_value by,
                                       int64_t wanted)
{
    return jinja_bool(jinja_equal(r, jinja_operate(r, NODE_MODULO, c->self, by), jinja_int(wanted)));
}

KIND_TEST(test_odd, jinja_truth(remainder_is(r, c, jinja_int(2), 1)))
KIND_TEST(test_even, jinja_truth(remainder_is(r, c, jinja_int(2), 0)))
KIND_TEST(test_divisibleby, jinja_truth(remainder_is(r, c, c->p[0], 0)))

static struct jinja_value test_sameas(struct jinja_run *r, const struct jinja_call *c)
{
    struct jinja_value a = c->self, b = c->p[0];
    if (a.kind != b.kind) return jinja_bool(false);
    if (jinja_is(a, JINJA_BOOL)) return jinja_bool(a.truth == b.truth);
    if (jinja_is(a, JINJA_NONE) || jinja_is_number(a) || jinja_is(a, JINJA_STR))
        return jinja_bool(jinja_equal(r, a, b));
    return jinja_bool(a.list == b.list);
}

/* There is a letter with case, and all of them are of this one. */
static struct jinja_value case_is(struct jinja_run *r, const struct jinja_call *c, bool upper)
{
    struct jinja_value v = jinja_str(r, c->self);
    bool any = false;
    jinja_charge_bytes(r, v.bytes);
    for (size_t at = 0; jinja_is(v, JINJA_STR) && at < v.bytes;) {
        uint32_t ch = jinja_char_next(v.text, v.bytes, &at);
        bool is_upper = jinja_char_lower(ch) != ch, is_lower = jinja_char_upper(ch) != ch;
        if (upper ? is_lower : is_upper) return jinja_bool(false);
        any = any || is_upper || is_lower;
    }
    return jinja_bool(any);
}

static struct jinja_value test_lower(struct jinja_run *r, const struct jinja_call *c) { return case_is(r, c, false); }
static struct jinja_value test_upper(struct jinja_run *r, const struct jinja_call *c) { return case_is(r, c, true); }

static const struct jinja_builtin tests[] = {
    {"boolean", "", test_boolean},
    {"callable", "", test_callable},
    {"defined", "", test_defined},
    {"divisibleby", "num", test_divisibleby},
    {"eq", "other", test_eq},
    {"equalto", "other", test_eq},
    {"escaped", "", test_escaped},
    {"even", "", test_even},
    {"false", "", test_false},
    {"filter", "", test_filter},
    {"float", "", test_float},
    {"ge", "other", test_ge},
    {"greaterthan", "other", test_gt},
    {"gt", "other", test_gt},
    {"in", "seq", test_in},
    {"integer", "", test_integer},
    {"iterable", "", test_iterable},
    {"le", "other", test_le},
    {"lessthan", "other", test_lt},
    {"lower", "", test_lower},
    {"lt", "other", test_lt},
    {"mapping", "", test_mapping},
    {"ne", "other", test_ne},
    {"none", "", test_none},
    {"number", "", test_number},
    {"odd", "", test_odd},
    {"sameas", "other", test_sameas},
    {"sequence", "", test_sequence},
    {"string", "", test_string},
    {"test", "", test_test},
    {"true", "", test_true},
    {"undefined", "", test_undefined},
    {"upper", "", test_upper},
    {"==", "other", test_eq},
    {"!=", "other", test_ne},
    {"<", "other", test_lt},
    {"<=", "other", test_le},
    {">", "other", test_gt},
    {">=", "other", test_ge},
};

const struct jinja_builtin *jinja_test_find(struct jinja_value name)
{
    return jinja_row_find(tests, sizeof tests / sizeof *tests, name);
}
