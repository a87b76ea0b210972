/* shell_lex.c - see shell_lex.h. */
#include "planner/launch/shell_lex.h"

#include <string.h>

char tpp_shell_peek(const struct tpp_shell_parser *p, size_t ahead)
{
    return tpp_shell_byte(p->text, p->at + ahead);
}

bool tpp_shell_ended(const struct tpp_shell_parser *p)
{
    return p->at >= p->text.count || tpp_shell_failed(p->script);
}

uint32_t tpp_shell_parser_line(const struct tpp_shell_parser *p)
{
    if (p->text.count == 0)
        return 1;
    return p->text.cells[p->at < p->text.count ? p->at : p->text.count - 1].line;
}

void tpp_shell_fail_expected(struct tpp_shell_parser *p, const char *what)
{
    tpp_shell_fail(p->script, TPP_E_SYNTAX, tpp_shell_parser_line(p), "check the script with bash -n", "%s is missing",
                   what);
}

static bool is_meta(char c)
{
    return c == '\0' || strchr(" \t\r\n;&|<>()", c) != NULL;
}

/* The text of a here-document up to the line that is its delimiter. */
static void read_document(struct tpp_shell_parser *p, struct tpp_shell_redirect *redirect)
{
    size_t begin = p->at;
    while (p->at < p->text.count && tpp_shell_step(p->script, 1)) {
        size_t start = p->at, end;
        while (redirect->strips_tabs && tpp_shell_byte(p->text, start) == '\t')
            start++;
        for (end = start; end < p->text.count && p->text.cells[end].byte != '\n'; end++)
            ;
        p->at = end < p->text.count ? end + 1 : end;
        size_t stop = end > start && p->text.cells[end - 1].byte == '\r' ? end - 1 : end;
        if (tpp_shell_same(tpp_shell_slice(p->text, start, stop), redirect->word)) {
            redirect->body = tpp_shell_slice(p->text, begin, start);
            return;
        }
    }
    redirect->body = tpp_shell_slice(p->text, begin, p->text.count);
}

static void newline(struct tpp_shell_parser *p)
{
    p->at++;
    for (size_t i = 0; i < p->num_pending; i++)
        read_document(p, p->pending[i]);
    p->num_pending = 0;
}

/* Blanks, joined lines and comments; newlines too when asked for. */
void tpp_shell_skip_blanks(struct tpp_shell_parser *p, bool newlines)
{
    while (!tpp_shell_ended(p) && tpp_shell_step(p->script, 1)) {
        char c = tpp_shell_peek(p, 0);
        if (p->text.cells[p->at].note != 0)
            return;
        if (c == ' ' || c == '\t' || c == '\r')
            p->at++;
        else if (c == '\\' && tpp_shell_peek(p, 1) == '\n')
            p->at += 2;
        else if (c == '\\' && tpp_shell_peek(p, 1) == '\r' && tpp_shell_peek(p, 2) == '\n')
            p->at += 3;
        else if (c == '#')
            while (!tpp_shell_ended(p) && tpp_shell_peek(p, 0) != '\n')
                p->at++;
        else if (c == '\n' && newlines)
            newline(p);
        else
            return;
    }
}

/* <Specify path> where a value should be: what the author wants to be replaced. Its end, or 0. */
static size_t placeholder_end(const struct tpp_shell_parser *p, size_t at)
{
    char first = tpp_shell_byte(p->text, at + 1);
    if (tpp_shell_byte(p->text, at) != '<' ||
        !((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_'))
        return 0;
    for (size_t end = at + 1; end < p->text.count && p->text.cells[end].byte != '\n'; end++) {
        if (p->text.cells[end].byte == '<')
            return 0;
        if (p->text.cells[end].byte == '>')
            return end + 1;
    }
    return 0;
}

/* <NAME> with nothing behind it: no redirection, which would go on with the name of a file. */
static bool ends_line(const struct tpp_shell_parser *p, size_t at)
{
    while (tpp_shell_byte(p->text, at) == ' ' || tpp_shell_byte(p->text, at) == '\t')
        at++;
    const char c = tpp_shell_byte(p->text, at);
    return at >= p->text.count || c == '\n' || (c == '\\' && tpp_shell_byte(p->text, at + 1) == '\n');
}

static size_t skip_placeholder(struct tpp_shell_parser *p, struct tpp_shell_builder *word, size_t end)
{
    struct tpp_shell_text written = tpp_shell_slice(p->text, p->at, end);
    uint32_t line = tpp_shell_parser_line(p);
    uint32_t note = tpp_shell_add_note(p->script, TPP_SHELL_PLACEHOLDER, line, tpp_shell_string(p->script, written));
    tpp_shell_push_unknown(p->script, word, note, line, TPP_SHELL_PLAIN);
    return end;
}

/* NAME= or NAME+= or NAME[...]= ends at `at`. */
static bool is_assignment_before(struct tpp_shell_text word)
{
    size_t length = tpp_shell_name_length(word, 0);
    if (length == 0)
        return false;
    if (tpp_shell_byte(word, length) == '[') {
        while (length < word.count && word.cells[length].byte != ']')
            length++;
        length++;
    }
    if (tpp_shell_byte(word, length) == '+')
        length++;
    return length + 1 == word.count && word.cells[length].byte == '=';
}

static void push_cells(struct tpp_shell_parser *p, struct tpp_shell_builder *word, size_t end)
{
    for (; p->at < end && p->at < p->text.count && tpp_shell_step(p->script, 1); p->at++)
        tpp_shell_push(p->script, word, p->text.cells[p->at]);
    p->at = end > p->text.count ? p->text.count : end;
}

/* The next piece of a word; false at its end. */
static bool take_piece(struct tpp_shell_parser *p, struct tpp_shell_builder *word)
{
    char c = tpp_shell_peek(p, 0);
    bool is_assigned = is_assignment_before(tpp_shell_text_of(word));
    if (p->text.cells[p->at].note != 0) {
        push_cells(p, word, p->at + 1);
        return true;
    }
    if (c == '<' && placeholder_end(p, p->at) > 0 && (is_assigned || ends_line(p, placeholder_end(p, p->at)))) {
        p->at = skip_placeholder(p, word, placeholder_end(p, p->at));
        return true;
    }
    if (c == '(' && is_assigned) { /* an array */
        push_cells(p, word, tpp_shell_skip_parentheses(p->script, p->text, p->at + 1));
        return true;
    }
    if ((c == '<' || c == '>') && tpp_shell_peek(p, 1) == '(' && word->count == 0) { /* a file that a command makes */
        push_cells(p, word, tpp_shell_skip_parentheses(p->script, p->text, p->at + 2));
        return true;
    }
    if (is_meta(c) || (c == '\\' && tpp_shell_peek(p, 1) == '\n' && (is_meta(tpp_shell_peek(p, 2)))))
        return false;
    push_cells(p, word, tpp_shell_skip_piece(p->script, p->text, p->at, false));
    return true;
}

/* A word as it is written; empty where none begins. */
struct tpp_shell_text tpp_shell_take_word(struct tpp_shell_parser *p)
{
    size_t begin = p->at;
    struct tpp_shell_builder word = {0};
    while (!tpp_shell_ended(p) && take_piece(p, &word))
        ;
    if (tpp_shell_failed(p->script))
        p->at = p->text.count;
    else if (p->at - begin == word.count) /* nothing was replaced: the source itself will do */
        return tpp_shell_slice(p->text, begin, p->at);
    return tpp_shell_text_of(&word);
}

/* The reserved word here, without taking it. */
bool tpp_shell_is_at(const struct tpp_shell_parser *p, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i < length; i++) {
        if (p->at + i >= p->text.count || p->text.cells[p->at + i].note != 0 || tpp_shell_peek(p, i) != word[i])
            return false;
    }
    return is_meta(tpp_shell_peek(p, length));
}

bool tpp_shell_take(struct tpp_shell_parser *p, const char *word)
{
    tpp_shell_skip_blanks(p, false);
    if (!tpp_shell_is_at(p, word))
        return false;
    p->at += strlen(word);
    return true;
}

void tpp_shell_expect(struct tpp_shell_parser *p, const char *word)
{
    tpp_shell_skip_blanks(p, true);
    if (!tpp_shell_take(p, word))
        tpp_shell_fail_expected(p, word);
}

/* Words in quotes make the here-document literal. */
static void set_delimiter(struct tpp_shell_parser *p, struct tpp_shell_redirect *redirect)
{
    struct tpp_shell_builder plain = {0};
    for (size_t i = 0; i < redirect->word.count; i++) {
        char c = redirect->word.cells[i].byte;
        if (c == '\'' || c == '"' || c == '\\')
            redirect->is_literal = true;
        else
            tpp_shell_push(p->script, &plain, redirect->word.cells[i]);
    }
    redirect->word = tpp_shell_text_of(&plain);
    if (p->num_pending == TPP_SHELL_MAX_PENDING)
        tpp_shell_fail(p->script, TPP_E_UNSUPPORTED, tpp_shell_parser_line(p), "use fewer",
                       "more than %d here-documents on a line", TPP_SHELL_MAX_PENDING);
    else
        p->pending[p->num_pending++] = redirect;
}

static enum tpp_shell_redirect_kind take_operator(struct tpp_shell_parser *p, struct tpp_shell_redirect *redirect)
{
    if (tpp_shell_peek(p, 0) == '<' && tpp_shell_peek(p, 1) == '<' && tpp_shell_peek(p, 2) == '<') {
        p->at += 3;
        return TPP_REDIRECT_HERE_STRING;
    }
    if (tpp_shell_peek(p, 0) == '<' && tpp_shell_peek(p, 1) == '<') {
        redirect->strips_tabs = tpp_shell_peek(p, 2) == '-';
        p->at += redirect->strips_tabs ? 3 : 2;
        return TPP_REDIRECT_HERE;
    }
    bool writes = tpp_shell_peek(p, 0) == '>' && tpp_shell_peek(p, 1) != '&' && tpp_shell_peek(p, 1) != '>';
    while (!tpp_shell_ended(p) && strchr("<>&|", tpp_shell_peek(p, 0)) != NULL && tpp_shell_peek(p, 1) != '(')
        p->at++;
    return writes ? TPP_REDIRECT_WRITE : TPP_REDIRECT_OTHER;
}

/* A redirection, when one begins here ("2>", "&>", "<<EOF"). */
bool tpp_shell_take_redirect(struct tpp_shell_parser *p, struct tpp_shell_node *node)
{
    size_t digits = 0;
    while (tpp_shell_peek(p, digits) >= '0' && tpp_shell_peek(p, digits) <= '9')
        digits++;
    char c = tpp_shell_peek(p, digits);
    bool is_both = digits == 0 && c == '&' && tpp_shell_peek(p, 1) == '>';
    if ((c != '<' && c != '>' && !is_both) || (digits == 0 && (c == '<' || c == '>') && tpp_shell_peek(p, 1) == '('))
        return false;
    const size_t place = placeholder_end(p, p->at);
    if (place > 0 && ends_line(p, place))
        return false;
    struct tpp_shell_redirect *redirect = tpp_shell_alloc(p->script, 1, sizeof *redirect);
    if (redirect == NULL)
        return false;
    p->at += digits;
    redirect->kind = take_operator(p, redirect);
    tpp_shell_skip_blanks(p, false);
    redirect->word = tpp_shell_take_word(p);
    if (redirect->word.count == 0)
        tpp_shell_fail_expected(p, "the file of a redirection");
    if (redirect->kind == TPP_REDIRECT_HERE)
        set_delimiter(p, redirect);
    redirect->next = node->redirects;
    node->redirects = redirect;
    return true;
}
