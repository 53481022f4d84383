/* Operators on values. */
#include "text/jinja_call.h"
#include "text/jinja_node.h"

#include <math.h>
#include <string.h>

static const char *sign_of(int op)
{
    switch (op) {
    case NODE_ADD: return "+";
    case NODE_SUBTRACT: return "-";
    case NODE_MULTIPLY: return "*";
    case NODE_DIVIDE: return "/";
    case NODE_FLOOR: return "//";
    case NODE_MODULO: return "%";
    default: return "**";
    }
}

static struct jinja_value too_large(struct jinja_run *r)
{
    return jinja_fail(r, "the result is a whole number that does not fit in 64 bits");
}

static struct jinja_value power_of_ints(struct jinja_run *r, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1 && __builtin_mul_overflow(result, base, &result)) return too_large(r);
        exponent >>= 1;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return too_large(r);
    }
    return jinja_int(result);
}

static struct jinja_value operate_ints(struct jinja_run *r, int op, int64_t a, int64_t b)
{
    int64_t c = 0;
    bool over = false;
    switch (op) {
    case NODE_ADD: over = __builtin_add_overflow(a, b, &c); break;
    case NODE_SUBTRACT: over = __builtin_sub_overflow(a, b, &c); break;
    case NODE_MULTIPLY: over = __builtin_mul_overflow(a, b, &c); break;
    case NODE_FLOOR: /* towards minus infinity, and the remainder has the divisor's sign */
        if (b == -1)
            over = __builtin_sub_overflow(0, a, &c);
        else
            c = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    default:
        c = b == -1 ? 0 : a % b;
        if (c != 0 && (c < 0) != (b < 0)) c += b;
        break;
    }
    return over ? too_large(r) : jinja_int(c);
}

/* Powers of floats: square and multiply where the exponent is a small whole number; nothing else occurs in templates.
 */
static struct jinja_value power_of_floats(struct jinja_run *r, double a, double b)
{
    if (b != floor(b) || fabs(b) > 1024) return jinja_fail(r, "** needs a whole exponent of at most 1024");
    if (a == 0 && b < 0) return jinja_fail(r, "0.0 cannot be raised to a negative power");
    double result = 1;
    for (int i = (int)fabs(b); i > 0; i >>= 1, a *= a)
        if (i & 1) result *= a;
    return jinja_float(b < 0 ? 1 / result : result);
}

static struct jinja_value operate_floats(struct jinja_run *r, int op, double a, double b)
{
    switch (op) {
    case NODE_ADD: return jinja_float(a + b);
    case NODE_SUBTRACT: return jinja_float(a - b);
    case NODE_MULTIPLY: return jinja_float(a * b);
    case NODE_DIVIDE: return jinja_float(a / b);
    case NODE_POWER: return power_of_floats(r, a, b);
    }
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    else if (rest == 0)
        rest = copysign(0, b);
    if (op == NODE_MODULO) return jinja_float(rest);
    double quotient = (a - rest) / b, whole = floor(quotient);
    if (quotient - whole > 0.5) whole += 1;
    return jinja_float(quotient == 0 ? copysign(0, a / b) : whole);
}

static struct jinja_value operate_numbers(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b)
{
    bool whole = jinja_is_whole(a) && jinja_is_whole(b);
    if ((op == NODE_DIVIDE || op == NODE_FLOOR || op == NODE_MODULO) && jinja_real(b) == 0)
        return jinja_fail(r, "division by zero");
    if (whole && op == NODE_POWER && jinja_whole(b) >= 0) return power_of_ints(r, jinja_whole(a), jinja_whole(b));
    if (whole && op != NODE_DIVIDE && op != NODE_POWER) return operate_ints(r, op, jinja_whole(a), jinja_whole(b));
    return operate_floats(r, op, jinja_real(a), jinja_real(b));
}

/* Markup escapes what it is joined to. */
static struct jinja_value add_texts(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    bool safe = a.safe || b.safe;
    struct jinja_build build = {.r = r};
    jinja_put_str(&build, safe ? jinja_escape(r, a) : a);
    jinja_put_str(&build, safe ? jinja_escape(r, b) : b);
    return jinja_as_safe(jinja_built(&build), safe);
}

static struct jinja_value add_lists(struct jinja_run *r, struct jinja_value a, struct jinja_value b)
{
    struct jinja_value out = jinja_list_new(r, (enum jinja_kind)a.kind, a.list->n + b.list->n);
    for (size_t i = 0; i < a.list->n && !jinja_failed(r); i++) jinja_list_add(r, out, a.list->at[i]);
    for (size_t i = 0; i < b.list->n && !jinja_failed(r); i++) jinja_list_add(r, out, b.list->at[i]);
    return out;
}

static struct jinja_value repeat(struct jinja_run *r, struct jinja_value v, int64_t times)
{
    size_t bytes = jinja_is(v, JINJA_STR) ? v.bytes : v.list->n * sizeof *v.list->at;
    if (!jinja_can_hold(r, times, bytes)) return jinja_undefined();
    if (jinja_is(v, JINJA_STR)) {
        struct jinja_build b = {.r = r};
        for (int64_t i = 0; v.bytes && i < times && !jinja_failed(r); i++) {
            jinja_charge(r, 1);
            jinja_put_str(&b, v);
        }
        return jinja_as_safe(jinja_built(&b), v.safe);
    }
    struct jinja_value out = jinja_list_new(r, (enum jinja_kind)v.kind, 0);
    for (int64_t i = 0; v.list->n && i < times && !jinja_failed(r); i++)
        for (size_t j = 0; j < v.list->n && !jinja_failed(r); j++) jinja_list_add(r, out, v.list->at[j]);
    return out;
}

static bool repeats(struct jinja_value v) { return jinja_is(v, JINJA_STR) || jinja_is_list(v); }

static struct jinja_value negate(struct jinja_run *r, int op, struct jinja_value a)
{
    if (jinja_is(a, JINJA_UNDEFINED)) return jinja_fail_missing(r, a);
    if (!jinja_is_number(a))
        return jinja_fail(r, "bad operand type for unary %s: '%s'", op == NODE_NEGATE ? "-" : "+",
                          jinja_kind_name(a.kind));
    if (jinja_is(a, JINJA_FLOAT)) return jinja_float(op == NODE_NEGATE ? -a.real : a.real);
    int64_t i = jinja_whole(a);
    if (op == NODE_NEGATE && __builtin_sub_overflow(0, i, &i)) return too_large(r);
    return jinja_int(i);
}

struct jinja_value jinja_operate(struct jinja_run *r, int op, struct jinja_value a, struct jinja_value b)
{
    if (op == NODE_NEGATE || op == NODE_PLUS) return negate(r, op, a);
    if (op == NODE_MODULO && jinja_is(a, JINJA_STR)) return jinja_percent(r, a, b);
    if (jinja_is(a, JINJA_UNDEFINED)) return jinja_fail_missing(r, a);
    if (jinja_is(b, JINJA_UNDEFINED)) return jinja_fail_missing(r, b);
    if (jinja_is_number(a) && jinja_is_number(b)) return operate_numbers(r, op, a, b);
    if (op == NODE_ADD && jinja_is(a, JINJA_STR) && jinja_is(b, JINJA_STR)) return add_texts(r, a, b);
    if (op == NODE_ADD && jinja_is_list(a) && a.kind == b.kind) return add_lists(r, a, b);
    if (op == NODE_MULTIPLY && repeats(a) && jinja_is_whole(b)) return repeat(r, a, jinja_whole(b));
    if (op == NODE_MULTIPLY && repeats(b) && jinja_is_whole(a)) return repeat(r, b, jinja_whole(a));
    if (op == NODE_ADD && jinja_is(a, JINJA_STR))
        return jinja_fail(r, "can only concatenate str (not \"%s\") to str", jinja_kind_name(b.kind));
    return jinja_fail(r, "unsupported operand types for %s: '%s' and '%s'", sign_of(op), jinja_kind_name(a.kind),
                      jinja_kind_name(b.kind));
}

struct jinja_value jinja_concat(struct jinja_run *r, const struct jinja_value *at, size_t n)
{
    struct jinja_build b = {.r = r};
    for (size_t i = 0; i < n && !jinja_failed(r); i++) jinja_show(&b, at[i]);
    return jinja_built(&b);
}
