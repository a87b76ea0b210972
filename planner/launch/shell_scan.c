/* shell_scan.c - where quotes and expansions end; nothing is expanded here. */
#include "planner/launch/shell_parts.h"

char tpp_shell_byte(struct tpp_shell_text text, size_t at)
{
    return at < text.count ? text.cells[at].byte : '\0';
}

static void fail_open(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at, const char *what)
{
    tpp_shell_fail(s, TPP_E_SYNTAX, text.count > 0 ? text.cells[at < text.count ? at : text.count - 1].line : 1,
                   "close it where it should end", "%s is never closed", what);
}

static size_t skip_single_quotes(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at)
{
    size_t end = at + 1;
    while (end < text.count && tpp_shell_byte(text, end) != '\'')
        end++;
    if (end >= text.count)
        fail_open(s, text, at, "a single quote");
    return end + 1;
}

/* $'...': a backslash hides the quote. */
static size_t skip_escaped_quotes(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at)
{
    size_t end = at + 2;
    while (end < text.count && tpp_shell_byte(text, end) != '\'')
        end += tpp_shell_byte(text, end) == '\\' ? 2 : 1;
    if (end >= text.count)
        fail_open(s, text, at, "a single quote");
    return end + 1;
}

static size_t skip_double_quotes(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at)
{
    size_t end = at + 1;
    while (end < text.count && tpp_shell_byte(text, end) != '"' && !tpp_shell_failed(s))
        end = tpp_shell_skip_piece(s, text, end, true);
    if (end >= text.count)
        fail_open(s, text, at, "a double quote");
    return end + 1;
}

static size_t skip_backticks(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at)
{
    size_t end = at + 1;
    while (end < text.count && tpp_shell_byte(text, end) != '`')
        end += tpp_shell_byte(text, end) == '\\' ? 2 : 1;
    if (end >= text.count)
        fail_open(s, text, at, "a backtick");
    return end + 1;
}

static bool begins_word(struct tpp_shell_text text, size_t at)
{
    char before = at == 0 ? '\n' : tpp_shell_byte(text, at - 1);
    return before == ' ' || before == '\t' || before == '\n' || before == ';' || before == '(' || before == '|';
}

/* Behind the `close` of a piece that began in front of `at`; inside (...) a comment hides what is in it. */
static size_t skip_to(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at, char open, char close)
{
    size_t begin = at;
    unsigned depth = 1;
    while (at < text.count && !tpp_shell_failed(s)) {
        char c = tpp_shell_byte(text, at);
        if (c == close && --depth == 0)
            return at + 1;
        if (c == open)
            depth++;
        if (c == '#' && close == ')' && begins_word(text, at)) {
            while (at < text.count && tpp_shell_byte(text, at) != '\n')
                at++;
            continue;
        }
        at = tpp_shell_skip_piece(s, text, at, false);
    }
    fail_open(s, text, begin > 0 ? begin - 1 : 0, close == ')' ? "a parenthesis" : "a brace");
    return text.count;
}

size_t tpp_shell_skip_parentheses(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at)
{
    return skip_to(s, text, at, '(', ')');
}

static size_t skip_dollar(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at, bool in_quotes)
{
    switch (tpp_shell_byte(text, at + 1)) {
    case '(':
        return skip_to(s, text, at + 2, '(', ')');
    case '{':
        return skip_to(s, text, at + 2, '{', '}');
    case '[':
        return skip_to(s, text, at + 2, '[', ']');
    case '\'':
        return in_quotes ? at + 1 : skip_escaped_quotes(s, text, at);
    default:
        return at + 1;
    }
}

size_t tpp_shell_skip_piece(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at, bool in_quotes)
{
    size_t end = at + 1;
    if (at >= text.count || !tpp_shell_step(s, 1) || !tpp_shell_enter(s, text.cells[at].line))
        return text.count;
    if (text.cells[at].note == 0) {
        switch (tpp_shell_byte(text, at)) {
        case '\\':
            end = at + 2;
            break;
        case '\'':
            end = in_quotes ? at + 1 : skip_single_quotes(s, text, at);
            break;
        case '"':
            end = in_quotes ? at + 1 : skip_double_quotes(s, text, at);
            break;
        case '`':
            end = skip_backticks(s, text, at);
            break;
        case '$':
            end = skip_dollar(s, text, at, in_quotes);
            break;
        default:
            break;
        }
    }
    tpp_shell_leave(s);
    return end > text.count ? text.count : end;
}
