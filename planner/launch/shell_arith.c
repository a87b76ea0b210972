/* shell_arith.c - $(( )): 64-bit integers, wrapping as bash's do. */
#include "planner/launch/shell_parts.h"

#include <string.h>

struct number {
    int64_t value;
    bool is_known;
    uint32_t note; /* why not */
};

struct arithmetic {
    struct tpp_shell_script *script;
    struct tpp_shell_text text;
    size_t at;
    uint32_t line;
    bool is_wrong; /* no expression */
};

static struct number parse_ternary(struct arithmetic *a);

static char peek(const struct arithmetic *a, size_t ahead)
{
    return tpp_shell_byte(a->text, a->at + ahead);
}

static void skip_spaces(struct arithmetic *a)
{
    while (a->at < a->text.count && a->text.cells[a->at].note == 0 && strchr(" \t\r\n\\", peek(a, 0)) != NULL)
        a->at++;
}

static bool take(struct arithmetic *a, const char *sign)
{
    size_t length = strlen(sign);
    skip_spaces(a);
    for (size_t i = 0; i < length; i++) {
        if (a->at + i >= a->text.count || a->text.cells[a->at + i].note != 0 || peek(a, i) != sign[i])
            return false;
    }
    a->at += length;
    return true;
}

static struct number known(int64_t value)
{
    return (struct number){.value = value, .is_known = true};
}

static struct number wrong(struct arithmetic *a)
{
    a->is_wrong = true;
    a->at = a->text.count;
    return (struct number){.is_known = false};
}

static struct number value_of(struct arithmetic *a, const char *name)
{
    const struct tpp_shell_value *value = tpp_shell_get(a->script, name);
    struct number result = {.is_known = false};
    if (value == NULL || value->count == 0) {
        result.note = tpp_shell_missing(a->script, name, a->line);
        return result;
    }
    if (!tpp_shell_enter(a->script, a->line))
        return result;
    result.is_known = tpp_shell_arithmetic(a->script, value->items[0], a->line, &result.value, &result.note);
    tpp_shell_leave(a->script);
    return result;
}

static void assign(struct arithmetic *a, const char *name, struct number number)
{
    char digits[24], *at = digits + sizeof digits - 1;
    uint64_t rest = number.value < 0 ? 0 - (uint64_t)number.value : (uint64_t)number.value;
    *at = '\0';
    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number.value < 0)
        *--at = '-';
    uint32_t note = number.note != 0 ? number.note : tpp_shell_missing(a->script, name, a->line);
    tpp_shell_set(a->script, name,
                  number.is_known ? tpp_shell_from_string(a->script, at, a->line)
                                  : tpp_shell_unknown(a->script, note, a->line));
}

static struct number apply(struct arithmetic *a, char sign, struct number left, struct number right)
{
    uint64_t x = (uint64_t)left.value, y = (uint64_t)right.value;
    if (!left.is_known || !right.is_known)
        return left.is_known ? right : left;
    switch (sign) {
    case '+':
        return known((int64_t)(x + y));
    case '-':
        return known((int64_t)(x - y));
    case '*':
        return known((int64_t)(x * y));
    case '/':
    case '%':
        if (right.value == 0)
            return wrong(a);
        if (right.value == -1)
            return known(sign == '/' ? (int64_t)(0 - x) : 0);
        return known(sign == '/' ? left.value / right.value : left.value % right.value);
    default:
        return wrong(a);
    }
}

static struct number power(struct arithmetic *a, struct number base, struct number exponent)
{
    uint64_t result = 1;
    if (!base.is_known || !exponent.is_known)
        return base.is_known ? exponent : base;
    if (exponent.value < 0 || exponent.value > 1000)
        return wrong(a);
    for (int64_t i = 0; i < exponent.value; i++)
        result *= (uint64_t)base.value;
    return known((int64_t)result);
}

/* x = 1, x += 1, x++, and the value alone. */
static struct number parse_name(struct arithmetic *a)
{
    size_t length = tpp_shell_name_length(a->text, a->at);
    const char *name = tpp_shell_string(a->script, tpp_shell_slice(a->text, a->at, a->at + length));
    a->at += length;
    skip_spaces(a);
    char c = peek(a, 0);
    if (c == '[')
        return wrong(a);
    if (c == '=' && peek(a, 1) != '=') {
        a->at++;
        struct number right = parse_ternary(a);
        assign(a, name, right);
        return right;
    }
    if (c != '\0' && strchr("+-*/%", c) != NULL && peek(a, 1) == '=') {
        a->at += 2;
        struct number result = apply(a, c, value_of(a, name), parse_ternary(a));
        assign(a, name, result);
        return result;
    }
    struct number value = value_of(a, name);
    if ((c == '+' || c == '-') && peek(a, 1) == c) {
        a->at += 2;
        assign(a, name, apply(a, c, value, known(1)));
    }
    return value;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'Z' ? c - 'A' + 10 : 99;
}

/* 12, 0x1f, 017, 2#101. */
static struct number parse_literal(struct arithmetic *a)
{
    uint64_t value = 0, base = 10;
    if (peek(a, 0) == '0' && (peek(a, 1) == 'x' || peek(a, 1) == 'X')) {
        base = 16;
        a->at += 2;
    } else if (peek(a, 0) == '0') {
        base = 8;
    }
    for (;; a->at++) {
        char c = peek(a, 0);
        if (c == '#' && value >= 2 && value <= 36) {
            base = value;
            value = 0;
        } else if (a->at >= a->text.count || a->text.cells[a->at].note != 0 || digit_value(c) == 99) {
            return known((int64_t)value);
        } else if ((uint64_t)digit_value(c) >= base) {
            return wrong(a);
        } else {
            value = value * base + (uint64_t)digit_value(c);
        }
    }
}

static struct number parse_operand(struct arithmetic *a)
{
    skip_spaces(a);
    if (a->at >= a->text.count)
        return wrong(a);
    if (a->text.cells[a->at].note != 0)
        return (struct number){.is_known = false, .note = a->text.cells[a->at++].note};
    char c = peek(a, 0);
    if (c >= '0' && c <= '9')
        return parse_literal(a);
    if (tpp_shell_name_length(a->text, a->at) > 0)
        return parse_name(a);
    if (c != '(')
        return wrong(a);
    a->at++;
    struct number inside = parse_ternary(a);
    return take(a, ")") ? inside : wrong(a);
}

static struct number parse_unary(struct arithmetic *a)
{
    struct number operand;
    skip_spaces(a);
    char c = peek(a, 0);
    if (!tpp_shell_step(a->script, 1) || !tpp_shell_enter(a->script, a->line))
        return wrong(a);
    if (a->at < a->text.count && a->text.cells[a->at].note == 0 && c != '\0' && strchr("-+!~", c) != NULL) {
        a->at++;
        operand = parse_unary(a);
        operand.value = c == '-'   ? (int64_t)(0 - (uint64_t)operand.value)
                        : c == '!' ? operand.value == 0
                        : c == '~' ? ~operand.value
                                   : operand.value;
    } else {
        operand = parse_operand(a);
        if (take(a, "**"))
            operand = power(a, operand, parse_unary(a));
    }
    tpp_shell_leave(a->script);
    return operand;
}

static struct number parse_product(struct arithmetic *a)
{
    struct number left = parse_unary(a);
    for (skip_spaces(a); !a->is_wrong && a->at < a->text.count; skip_spaces(a)) {
        char c = peek(a, 0);
        if (a->text.cells[a->at].note != 0 || c == '\0' || strchr("*/%", c) == NULL)
            break;
        a->at++;
        left = apply(a, c, left, parse_unary(a));
    }
    return left;
}

static struct number parse_sum(struct arithmetic *a)
{
    struct number left = parse_product(a);
    for (skip_spaces(a); !a->is_wrong && a->at < a->text.count; skip_spaces(a)) {
        char c = peek(a, 0);
        if (a->text.cells[a->at].note != 0 || (c != '+' && c != '-'))
            break;
        a->at++;
        left = apply(a, c, left, parse_product(a));
    }
    return left;
}

static struct number shift(struct arithmetic *a, struct number left, struct number right, bool to_left)
{
    if (!left.is_known || !right.is_known)
        return left.is_known ? right : left;
    if (right.value < 0 || right.value > 63)
        return wrong(a);
    return known(to_left ? (int64_t)((uint64_t)left.value << right.value) : left.value >> right.value);
}

static struct number parse_shift(struct arithmetic *a)
{
    struct number left = parse_sum(a);
    while (!a->is_wrong) {
        if (take(a, "<<"))
            left = shift(a, left, parse_sum(a), true);
        else if (take(a, ">>"))
            left = shift(a, left, parse_sum(a), false);
        else
            break;
    }
    return left;
}

static struct number truth(struct number left, struct number right, bool value)
{
    if (!left.is_known || !right.is_known)
        return left.is_known ? right : left;
    return known(value);
}

static struct number parse_comparison(struct arithmetic *a)
{
    struct number left = parse_shift(a), right;
    while (!a->is_wrong) {
        if (take(a, "==")) {
            right = parse_shift(a);
            left = truth(left, right, left.value == right.value);
        } else if (take(a, "!=")) {
            right = parse_shift(a);
            left = truth(left, right, left.value != right.value);
        } else if (take(a, "<=")) {
            right = parse_shift(a);
            left = truth(left, right, left.value <= right.value);
        } else if (take(a, ">=")) {
            right = parse_shift(a);
            left = truth(left, right, left.value >= right.value);
        } else if (take(a, "<")) {
            right = parse_shift(a);
            left = truth(left, right, left.value < right.value);
        } else if (take(a, ">")) {
            right = parse_shift(a);
            left = truth(left, right, left.value > right.value);
        } else {
            break;
        }
    }
    return left;
}

/* & ^ | are rare and do not mix with the logical ones here. */
static struct number parse_bits(struct arithmetic *a)
{
    struct number left = parse_comparison(a), right;
    for (skip_spaces(a); !a->is_wrong && a->at < a->text.count; skip_spaces(a)) {
        char c = peek(a, 0);
        if (a->text.cells[a->at].note != 0 || (c != '&' && c != '|' && c != '^') || (c != '^' && peek(a, 1) == c))
            break;
        a->at++;
        right = parse_comparison(a);
        int64_t value = c == '&'   ? left.value & right.value
                        : c == '|' ? left.value | right.value
                                   : left.value ^ right.value;
        left = left.is_known && right.is_known ? known(value) : left.is_known ? right : left;
    }
    return left;
}

static struct number parse_logical(struct arithmetic *a)
{
    struct number left = parse_bits(a), right;
    while (!a->is_wrong) {
        if (take(a, "&&")) {
            right = parse_bits(a);
            left = truth(left, right, left.value != 0 && right.value != 0);
        } else if (take(a, "||")) {
            right = parse_bits(a);
            left = truth(left, right, left.value != 0 || right.value != 0);
        } else {
            break;
        }
    }
    return left;
}

static struct number parse_ternary(struct arithmetic *a)
{
    if (!tpp_shell_enter(a->script, a->line))
        return wrong(a);
    struct number condition = parse_logical(a), result = condition;
    if (take(a, "?")) {
        struct number yes = parse_ternary(a);
        struct number no = take(a, ":") ? parse_ternary(a) : wrong(a);
        if (condition.is_known)
            result = condition.value != 0 ? yes : no;
    }
    tpp_shell_leave(a->script);
    return result;
}

bool tpp_shell_arithmetic(struct tpp_shell_script *s, struct tpp_shell_text expression, uint32_t line, int64_t *value,
                          uint32_t *note)
{
    struct arithmetic a = {.script = s, .text = tpp_shell_expand_one(s, expression), .line = line};
    struct number result = parse_ternary(&a);
    while (!a.is_wrong && take(&a, ","))
        result = parse_ternary(&a);
    skip_spaces(&a);
    bool is_known = result.is_known && !a.is_wrong && a.at >= a.text.count && !tpp_shell_failed(s);
    *note = a.is_wrong ? tpp_shell_first_note(a.text) : result.note;
    *value = is_known ? result.value : 0;
    return is_known;
}
