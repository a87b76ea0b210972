/* shell_test.c - [ ], [[ ]] and patterns: yes, no, or not to be decided without running something. */
#include "planner/launch/shell_parts.h"

#include <string.h>

enum { CELLS_A_STEP = 64 }; /* to see whether a cell is known is much less work than a step */

static bool is_special(struct tpp_shell_cell cell, char c)
{
    return cell.note == 0 && cell.kind != TPP_SHELL_QUOTED && cell.byte == c;
}

/* [abc], [a-z], [!x] at `at`: 1 when `c` is in it; *end is behind it, or `at` when it is no set. */
static bool is_in_set(struct tpp_shell_script *s, struct tpp_shell_text pattern, size_t at, char c, size_t *end)
{
    size_t close = at + 1;
    bool is_negated = tpp_shell_byte(pattern, close) == '!' || tpp_shell_byte(pattern, close) == '^', is_in = false;
    size_t first = at + 1 + is_negated;
    for (close = first + 1; close < pattern.count && pattern.cells[close].byte != ']'; close++)
        ;
    *end = at;
    if (!tpp_shell_step(s, close - at) || close >= pattern.count)
        return false;
    *end = close + 1;
    for (size_t i = first; i < close; i++) {
        char low = pattern.cells[i].byte, high = low;
        if (i + 2 < close && pattern.cells[i + 1].byte == '-') {
            high = pattern.cells[i + 2].byte;
            i += 2;
        }
        is_in = is_in || (c >= low && c <= high);
    }
    return is_in != is_negated;
}

/* True when the pattern's next item takes this character; *next is behind the item. */
static bool takes(struct tpp_shell_script *s, struct tpp_shell_text pattern, size_t at, char c, size_t *next)
{
    *next = at + 1;
    if (is_special(pattern.cells[at], '?'))
        return true;
    if (is_special(pattern.cells[at], '[')) {
        size_t end;
        bool is_in = is_in_set(s, pattern, at, c, &end);
        if (end > at) {
            *next = end;
            return is_in;
        }
    }
    return pattern.cells[at].byte == c;
}

/* The pattern moves back to its last * when it gets stuck: time is at most their lengths multiplied. */
static bool matches(struct tpp_shell_script *s, struct tpp_shell_text pattern, struct tpp_shell_text text)
{
    size_t p = 0, t = 0, star = SIZE_MAX, mark = 0, next;
    while (t < text.count && tpp_shell_step(s, 1)) {
        if (p < pattern.count && is_special(pattern.cells[p], '*')) {
            star = p++;
            mark = t;
        } else if (p < pattern.count && takes(s, pattern, p, text.cells[t].byte, &next)) {
            p = next;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++mark;
        } else {
            return false;
        }
    }
    while (p < pattern.count && is_special(pattern.cells[p], '*'))
        p++;
    return p == pattern.count;
}

enum tpp_shell_truth tpp_shell_matches(struct tpp_shell_script *s, struct tpp_shell_text pattern,
                                       struct tpp_shell_text text)
{
    if (pattern.count == 1 && is_special(pattern.cells[0], '*'))
        return TPP_YES;
    if (!tpp_shell_step(s, (pattern.count + text.count) / CELLS_A_STEP))
        return TPP_MAYBE;
    if (!tpp_shell_is_known(pattern) || !tpp_shell_is_known(text))
        return TPP_MAYBE;
    return matches(s, pattern, text) ? TPP_YES : TPP_NO;
}

/* ---- conditions ---- */

struct condition {
    struct tpp_shell_script *script;
    const struct tpp_shell_fields *words;
    size_t at, end;
    uint32_t line;
    bool is_double; /* [[ ]]: words are not expanded yet, == takes patterns */
};

static enum tpp_shell_truth parse_or(struct condition *c);

static enum tpp_shell_truth of_bool(bool value)
{
    return value ? TPP_YES : TPP_NO;
}

static enum tpp_shell_truth negated(enum tpp_shell_truth truth)
{
    return truth == TPP_MAYBE ? TPP_MAYBE : of_bool(truth == TPP_NO);
}

static bool is_word(const struct condition *c, size_t at, const char *word)
{
    return at < c->end && tpp_shell_equals(c->words->items[at], word);
}

static struct tpp_shell_text operand(struct condition *c, size_t at)
{
    if (at >= c->end)
        return (struct tpp_shell_text){NULL, 0};
    return c->is_double ? tpp_shell_expand_one(c->script, c->words->items[at]) : c->words->items[at];
}

/* A variable that nothing sets is empty where a script asks whether it is. */
static bool is_unset_alone(const struct condition *c, struct tpp_shell_text text)
{
    if (text.count != 1 || text.cells[0].note == 0)
        return false;
    const enum tpp_shell_note_kind kind = c->script->notes[text.cells[0].note - 1].kind;
    const bool is_unset = kind == TPP_SHELL_UNSET || kind == TPP_SHELL_POSITIONAL;
    c->script->asks_unset = c->script->asks_unset || is_unset;
    return is_unset;
}

static enum tpp_shell_truth is_empty(const struct condition *c, struct tpp_shell_text text)
{
    if (text.count == 0 || is_unset_alone(c, text))
        return TPP_YES;
    for (size_t i = 0; i < text.count; i++) {
        if (text.cells[i].note == 0)
            return TPP_NO;
    }
    return TPP_MAYBE;
}

static enum tpp_shell_truth unary(struct condition *c, const char *sign, struct tpp_shell_text text)
{
    if (strcmp(sign, "-z") == 0)
        return is_empty(c, text);
    if (strcmp(sign, "-n") == 0)
        return negated(is_empty(c, text));
    if (strcmp(sign, "-v") == 0 && tpp_shell_is_known(text))
        return of_bool(tpp_shell_get(c->script, tpp_shell_string(c->script, text)) != NULL);
    return TPP_MAYBE; /* files */
}

static enum tpp_shell_truth compare_numbers(struct condition *c, const char *sign, struct tpp_shell_text left,
                                            struct tpp_shell_text right)
{
    int64_t a, b;
    uint32_t note;
    if (!tpp_shell_arithmetic(c->script, left, c->line, &a, &note) ||
        !tpp_shell_arithmetic(c->script, right, c->line, &b, &note))
        return TPP_MAYBE;
    if (strcmp(sign, "-eq") == 0)
        return of_bool(a == b);
    if (strcmp(sign, "-ne") == 0)
        return of_bool(a != b);
    if (strcmp(sign, "-lt") == 0)
        return of_bool(a < b);
    if (strcmp(sign, "-le") == 0)
        return of_bool(a <= b);
    return of_bool(strcmp(sign, "-gt") == 0 ? a > b : a >= b);
}

static bool is_number_operator(const char *word)
{
    static const char *const operators[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (strcmp(operators[i], word) == 0)
            return true;
    }
    return false;
}

/* An unset variable compared with a word: what bash would see is the empty text, which the caller may change. */
static enum tpp_shell_truth compare_texts(struct condition *c, struct tpp_shell_text left, struct tpp_shell_text right)
{
    if (c->is_double)
        return tpp_shell_matches(c->script, right, left);
    if (!tpp_shell_is_known(left) || !tpp_shell_is_known(right))
        return TPP_MAYBE;
    return of_bool(tpp_shell_same(left, right));
}

static enum tpp_shell_truth binary(struct condition *c, const char *sign, struct tpp_shell_text left,
                                   struct tpp_shell_text right)
{
    if (strcmp(sign, "=") == 0 || strcmp(sign, "==") == 0)
        return compare_texts(c, left, right);
    if (strcmp(sign, "!=") == 0)
        return negated(compare_texts(c, left, right));
    return is_number_operator(sign) ? compare_numbers(c, sign, left, right) : TPP_MAYBE;
}

static bool is_binary_operator(const char *word)
{
    static const char *const operators[] = {"=", "==", "!=", "=~", "<", ">", "-nt", "-ot", "-ef"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (strcmp(operators[i], word) == 0)
            return true;
    }
    return is_number_operator(word);
}

static bool is_unary_operator(const char *word)
{
    return word[0] == '-' && word[1] != '\0' && word[2] == '\0' && strchr("zndefrwxshLpSbcgkuvtaoGNO", word[1]) != NULL;
}

static const char *written(struct condition *c, size_t at)
{
    if (at >= c->end || !tpp_shell_is_known(c->words->items[at]))
        return "";
    return tpp_shell_string(c->script, c->words->items[at]);
}

static enum tpp_shell_truth parse_primary(struct condition *c)
{
    enum tpp_shell_truth truth;
    if (c->at >= c->end || !tpp_shell_enter(c->script, c->line))
        return TPP_NO;
    if (is_word(c, c->at, "!")) {
        c->at++;
        truth = negated(parse_primary(c));
    } else if (c->at + 2 < c->end && is_binary_operator(written(c, c->at + 1))) {
        truth = binary(c, written(c, c->at + 1), operand(c, c->at), operand(c, c->at + 2));
        c->at += 3;
    } else if (is_word(c, c->at, "(")) {
        c->at++;
        truth = parse_or(c);
        c->at += is_word(c, c->at, ")");
    } else if (c->at + 1 < c->end && is_unary_operator(written(c, c->at))) {
        truth = unary(c, written(c, c->at), operand(c, c->at + 1));
        c->at += 2;
    } else {
        truth = negated(is_empty(c, operand(c, c->at++)));
    }
    tpp_shell_leave(c->script);
    return truth;
}

static enum tpp_shell_truth both(enum tpp_shell_truth a, enum tpp_shell_truth b)
{
    if (a == TPP_NO || b == TPP_NO)
        return TPP_NO;
    return a == TPP_YES && b == TPP_YES ? TPP_YES : TPP_MAYBE;
}

static enum tpp_shell_truth parse_and(struct condition *c)
{
    enum tpp_shell_truth truth = parse_primary(c);
    while (is_word(c, c->at, c->is_double ? "&&" : "-a")) {
        c->at++;
        truth = both(truth, parse_primary(c));
    }
    return truth;
}

static enum tpp_shell_truth parse_or(struct condition *c)
{
    enum tpp_shell_truth truth = parse_and(c);
    while (is_word(c, c->at, c->is_double ? "||" : "-o")) {
        c->at++;
        truth = negated(both(negated(truth), negated(parse_and(c))));
    }
    return truth;
}

enum tpp_shell_truth tpp_shell_test(struct tpp_shell_script *s, const struct tpp_shell_fields *words, uint32_t line)
{
    struct condition c = {.script = s, .words = words, .line = line, .at = 1, .end = words->count};
    if (c.end > 1 && tpp_shell_equals(words->items[0], "[") && tpp_shell_equals(words->items[c.end - 1], "]"))
        c.end--;
    for (size_t i = 0; i < c.end; i++) { /* an unknown piece that may be several words leaves nothing certain */
        if (words->items[i].count > 1 && !tpp_shell_is_known(words->items[i]))
            return TPP_MAYBE;
    }
    enum tpp_shell_truth truth = parse_or(&c);
    return c.at < c.end ? TPP_MAYBE : truth;
}

enum tpp_shell_truth tpp_shell_condition(struct tpp_shell_script *s, const struct tpp_shell_fields *words,
                                         uint32_t line)
{
    struct condition c = {.script = s, .words = words, .line = line, .end = words->count, .is_double = true};
    enum tpp_shell_truth truth = parse_or(&c);
    return c.at < c.end ? TPP_MAYBE : truth;
}
