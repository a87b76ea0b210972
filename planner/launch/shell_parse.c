/* shell_parse.c - the grammar of bash, as far as launch scripts use it: text to tree. Words stay as they are written.
 */
#include "planner/launch/shell_parts.h"

#include <string.h>

enum { MAX_PENDING = 16 };

struct parser {
    struct tpp_shell_script *script;
    struct tpp_shell_text text;
    size_t at;
    struct tpp_shell_redirect *pending[MAX_PENDING]; /* here-documents whose text begins on the next line */
    size_t num_pending;
};

static struct tpp_shell_node *parse_sequence(struct parser *p);

static char peek(const struct parser *p, size_t ahead)
{
    return tpp_shell_byte(p->text, p->at + ahead);
}

static bool ended(const struct parser *p)
{
    return p->at >= p->text.count || tpp_shell_failed(p->script);
}

static uint32_t line_of(const struct parser *p)
{
    if (p->text.count == 0)
        return 1;
    return p->text.cells[p->at < p->text.count ? p->at : p->text.count - 1].line;
}

static struct tpp_shell_node *new_node(struct parser *p, enum tpp_shell_node_kind kind)
{
    struct tpp_shell_node *node = tpp_shell_alloc(p->script, 1, sizeof *node);
    if (node != NULL) {
        node->kind = kind;
        node->line = line_of(p);
    }
    return node;
}

static void fail_expected(struct parser *p, const char *what)
{
    tpp_shell_fail(p->script, TPP_E_SYNTAX, line_of(p), "check the script with bash -n", "%s is missing", what);
}

static bool is_meta(char c)
{
    return c == '\0' || strchr(" \t\r\n;&|<>()", c) != NULL;
}

/* The text of a here-document up to the line that is its delimiter. */
static void read_document(struct parser *p, struct tpp_shell_redirect *redirect)
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

static void newline(struct parser *p)
{
    p->at++;
    for (size_t i = 0; i < p->num_pending; i++)
        read_document(p, p->pending[i]);
    p->num_pending = 0;
}

/* Blanks, joined lines and comments; newlines too when asked for. */
static void skip_blanks(struct parser *p, bool newlines)
{
    while (!ended(p) && tpp_shell_step(p->script, 1)) {
        char c = peek(p, 0);
        if (p->text.cells[p->at].note != 0)
            return;
        if (c == ' ' || c == '\t' || c == '\r')
            p->at++;
        else if (c == '\\' && peek(p, 1) == '\n')
            p->at += 2;
        else if (c == '\\' && peek(p, 1) == '\r' && peek(p, 2) == '\n')
            p->at += 3;
        else if (c == '#')
            while (!ended(p) && peek(p, 0) != '\n')
                p->at++;
        else if (c == '\n' && newlines)
            newline(p);
        else
            return;
    }
}

/* <Specify path> where a value should be: what the author wants to be replaced. Its end, or 0. */
static size_t placeholder_end(const struct parser *p, size_t at)
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

static size_t skip_placeholder(struct parser *p, struct tpp_shell_builder *word, size_t end)
{
    struct tpp_shell_text written = tpp_shell_slice(p->text, p->at, end);
    uint32_t line = line_of(p);
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

static void push_cells(struct parser *p, struct tpp_shell_builder *word, size_t end)
{
    for (; p->at < end && p->at < p->text.count && tpp_shell_step(p->script, 1); p->at++)
        tpp_shell_push(p->script, word, p->text.cells[p->at]);
    p->at = end > p->text.count ? p->text.count : end;
}

/* The next piece of a word; false at its end. */
static bool take_piece(struct parser *p, struct tpp_shell_builder *word)
{
    char c = peek(p, 0);
    bool is_assigned = is_assignment_before(tpp_shell_text_of(word));
    if (p->text.cells[p->at].note != 0) {
        push_cells(p, word, p->at + 1);
        return true;
    }
    if (c == '<' && is_assigned && placeholder_end(p, p->at) > 0) {
        p->at = skip_placeholder(p, word, placeholder_end(p, p->at));
        return true;
    }
    if (c == '(' && is_assigned) { /* an array */
        push_cells(p, word, tpp_shell_skip_parentheses(p->script, p->text, p->at + 1));
        return true;
    }
    if ((c == '<' || c == '>') && peek(p, 1) == '(' && word->count == 0) { /* a file that a command makes */
        push_cells(p, word, tpp_shell_skip_parentheses(p->script, p->text, p->at + 2));
        return true;
    }
    if (is_meta(c) || (c == '\\' && peek(p, 1) == '\n' && (is_meta(peek(p, 2)))))
        return false;
    push_cells(p, word, tpp_shell_skip_piece(p->script, p->text, p->at, false));
    return true;
}

/* A word as it is written; empty where none begins. */
static struct tpp_shell_text take_word(struct parser *p)
{
    size_t begin = p->at;
    struct tpp_shell_builder word = {0};
    while (!ended(p) && take_piece(p, &word))
        ;
    if (tpp_shell_failed(p->script))
        p->at = p->text.count;
    else if (p->at - begin == word.count) /* nothing was replaced: the source itself will do */
        return tpp_shell_slice(p->text, begin, p->at);
    return tpp_shell_text_of(&word);
}

/* The reserved word here, without taking it. */
static bool is_at(const struct parser *p, const char *word)
{
    size_t length = strlen(word);
    for (size_t i = 0; i < length; i++) {
        if (p->at + i >= p->text.count || p->text.cells[p->at + i].note != 0 || peek(p, i) != word[i])
            return false;
    }
    return is_meta(peek(p, length));
}

static bool take(struct parser *p, const char *word)
{
    skip_blanks(p, false);
    if (!is_at(p, word))
        return false;
    p->at += strlen(word);
    return true;
}

static void expect(struct parser *p, const char *word)
{
    skip_blanks(p, true);
    if (!take(p, word))
        fail_expected(p, word);
}

/* Words in quotes make the here-document literal. */
static void set_delimiter(struct parser *p, struct tpp_shell_redirect *redirect)
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
    if (p->num_pending == MAX_PENDING)
        tpp_shell_fail(p->script, TPP_E_UNSUPPORTED, line_of(p), "use fewer", "more than %d here-documents on a line",
                       MAX_PENDING);
    else
        p->pending[p->num_pending++] = redirect;
}

static enum tpp_shell_redirect_kind take_operator(struct parser *p, struct tpp_shell_redirect *redirect)
{
    if (peek(p, 0) == '<' && peek(p, 1) == '<' && peek(p, 2) == '<') {
        p->at += 3;
        return TPP_REDIRECT_HERE_STRING;
    }
    if (peek(p, 0) == '<' && peek(p, 1) == '<') {
        redirect->strips_tabs = peek(p, 2) == '-';
        p->at += redirect->strips_tabs ? 3 : 2;
        return TPP_REDIRECT_HERE;
    }
    bool writes = peek(p, 0) == '>' && peek(p, 1) != '&' && peek(p, 1) != '>';
    while (!ended(p) && strchr("<>&|", peek(p, 0)) != NULL && peek(p, 1) != '(')
        p->at++;
    return writes ? TPP_REDIRECT_WRITE : TPP_REDIRECT_OTHER;
}

/* A redirection, when one begins here ("2>", "&>", "<<EOF"). */
static bool take_redirect(struct parser *p, struct tpp_shell_node *node)
{
    size_t digits = 0;
    while (peek(p, digits) >= '0' && peek(p, digits) <= '9')
        digits++;
    char c = peek(p, digits);
    bool is_both = digits == 0 && c == '&' && peek(p, 1) == '>';
    if ((c != '<' && c != '>' && !is_both) || (digits == 0 && (c == '<' || c == '>') && peek(p, 1) == '('))
        return false;
    struct tpp_shell_redirect *redirect = tpp_shell_alloc(p->script, 1, sizeof *redirect);
    if (redirect == NULL)
        return false;
    p->at += digits;
    redirect->kind = take_operator(p, redirect);
    skip_blanks(p, false);
    redirect->word = take_word(p);
    if (redirect->word.count == 0)
        fail_expected(p, "the file of a redirection");
    if (redirect->kind == TPP_REDIRECT_HERE)
        set_delimiter(p, redirect);
    redirect->next = node->redirects;
    node->redirects = redirect;
    return true;
}

static struct tpp_shell_node *parse_if(struct parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_IF);
    if (node == NULL)
        return NULL;
    node->first = parse_sequence(p);
    expect(p, "then");
    node->second = parse_sequence(p);
    skip_blanks(p, true);
    if (take(p, "elif")) {
        if (tpp_shell_enter(p->script, line_of(p)))
            node->third = parse_if(p);
        tpp_shell_leave(p->script);
        return node;
    }
    if (take(p, "else"))
        node->third = parse_sequence(p);
    expect(p, "fi");
    return node;
}

static struct tpp_shell_node *parse_body(struct parser *p)
{
    skip_blanks(p, true);
    if (peek(p, 0) == ';')
        p->at++;
    expect(p, "do");
    struct tpp_shell_node *body = parse_sequence(p);
    expect(p, "done");
    return body;
}

static struct tpp_shell_node *parse_while(struct parser *p, enum tpp_shell_node_kind kind)
{
    struct tpp_shell_node *node = new_node(p, kind);
    if (node == NULL)
        return NULL;
    node->first = parse_sequence(p);
    node->second = parse_body(p);
    return node;
}

/* for NAME [in WORDS] and for (( )), whose loop cannot be decided and has no words. */
static struct tpp_shell_node *parse_for(struct parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_FOR);
    if (node == NULL)
        return NULL;
    skip_blanks(p, false);
    if (peek(p, 0) == '(' && peek(p, 1) == '(') {
        p->at = tpp_shell_skip_parentheses(p->script, p->text, p->at + 1);
    } else {
        tpp_shell_add_field(p->script, &node->words, take_word(p));
        skip_blanks(p, true);
        node->has_words = take(p, "in");
        for (skip_blanks(p, false); node->has_words && !ended(p); skip_blanks(p, false)) {
            struct tpp_shell_text word = take_word(p);
            if (word.count == 0)
                break;
            tpp_shell_add_field(p->script, &node->words, word);
        }
    }
    skip_blanks(p, false);
    node->second = parse_body(p);
    return node;
}

static struct tpp_shell_node *parse_branch(struct parser *p)
{
    struct tpp_shell_node *branch = new_node(p, TPP_NODE_BRANCH);
    if (branch == NULL)
        return NULL;
    if (peek(p, 0) == '(')
        p->at++;
    for (;;) {
        skip_blanks(p, false);
        tpp_shell_add_field(p->script, &branch->words, take_word(p));
        skip_blanks(p, false);
        if (ended(p) || peek(p, 0) != '|')
            break;
        p->at++;
    }
    if (peek(p, 0) != ')')
        fail_expected(p, ") behind the pattern of a case");
    p->at++;
    branch->first = parse_sequence(p);
    return branch;
}

static struct tpp_shell_node *parse_case(struct parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_CASE), *last = NULL;
    if (node == NULL)
        return NULL;
    skip_blanks(p, false);
    tpp_shell_add_field(p->script, &node->words, take_word(p));
    expect(p, "in");
    for (skip_blanks(p, true); !ended(p) && !is_at(p, "esac"); skip_blanks(p, true)) {
        struct tpp_shell_node *branch = parse_branch(p);
        if (branch == NULL)
            return node;
        if (last == NULL)
            node->first = branch;
        else
            last->next = branch;
        last = branch;
        skip_blanks(p, true);
        while (peek(p, 0) == ';' || peek(p, 0) == '&')
            p->at++;
    }
    expect(p, "esac");
    return node;
}

/* A regular expression: parentheses and bars belong to it. */
static struct tpp_shell_text rest_of_expression(struct parser *p, size_t begin)
{
    while (!ended(p) && strchr("()|", peek(p, 0)) != NULL) {
        p->at++;
        take_word(p);
    }
    return tpp_shell_slice(p->text, begin, p->at);
}

/* [[ words ]]: its operators are words of their own. */
static struct tpp_shell_node *parse_condition(struct parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_CONDITION);
    while (node != NULL && !ended(p)) {
        skip_blanks(p, true);
        if (take(p, "]]"))
            return node;
        size_t begin = p->at;
        char c = peek(p, 0);
        if (c == '(' || c == ')' || c == '<' || c == '>')
            p->at++;
        else if ((c == '&' || c == '|') && peek(p, 1) == c)
            p->at += 2;
        if (p->at > begin) {
            tpp_shell_add_field(p->script, &node->words, tpp_shell_slice(p->text, begin, p->at));
            continue;
        }
        struct tpp_shell_text word = take_word(p);
        if (node->words.count > 0 && tpp_shell_equals(node->words.items[node->words.count - 1], "=~"))
            word = rest_of_expression(p, begin);
        if (word.count == 0)
            break;
        tpp_shell_add_field(p->script, &node->words, word);
    }
    fail_expected(p, "]]");
    return node;
}

static struct tpp_shell_node *parse_group(struct parser *p, const char *end)
{
    struct tpp_shell_node *body = parse_sequence(p);
    skip_blanks(p, true);
    if (*end == ')' && peek(p, 0) == ')')
        p->at++;
    else
        expect(p, end);
    return body;
}

static struct tpp_shell_node *parse_subshell(struct parser *p)
{
    struct tpp_shell_node *node;
    if (peek(p, 0) == '(' && peek(p, 1) == '(') {
        size_t end = tpp_shell_skip_parentheses(p->script, p->text, p->at + 1);
        if (end >= p->at + 4 && end <= p->text.count && tpp_shell_byte(p->text, end - 2) == ')') {
            node = new_node(p, TPP_NODE_ARITHMETIC);
            if (node != NULL)
                tpp_shell_add_field(p->script, &node->words, tpp_shell_slice(p->text, p->at + 2, end - 2));
            p->at = end;
            return node;
        }
    }
    node = new_node(p, TPP_NODE_SUBSHELL);
    p->at++;
    if (node != NULL)
        node->first = parse_group(p, ")");
    return node;
}

/* NAME () or function NAME: its body follows. */
static struct tpp_shell_node *parse_function(struct parser *p, struct tpp_shell_text name)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_FUNCTION);
    if (node == NULL)
        return NULL;
    tpp_shell_add_field(p->script, &node->words, name);
    skip_blanks(p, false);
    if (peek(p, 0) == '(') {
        p->at++;
        skip_blanks(p, false);
        if (peek(p, 0) != ')')
            fail_expected(p, ") of a function");
        p->at++;
    }
    skip_blanks(p, true);
    if (take(p, "{"))
        node->first = parse_group(p, "}");
    else if (peek(p, 0) == '(')
        node->first = parse_subshell(p);
    else
        fail_expected(p, "the body of a function");
    return node;
}

static struct tpp_shell_node *parse_simple(struct parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_SIMPLE);
    while (node != NULL && !ended(p)) {
        skip_blanks(p, false);
        if (ended(p) || take_redirect(p, node))
            continue;
        struct tpp_shell_text word = take_word(p);
        if (word.count == 0)
            break;
        tpp_shell_add_field(p->script, &node->words, word);
        if (node->words.count == 1 && peek(p, 0) == '(' && tpp_shell_name_length(word, 0) == word.count)
            return parse_function(p, word);
        size_t blanks = 0;
        while (peek(p, blanks) == ' ')
            blanks++;
        if (node->words.count == 1 && blanks > 0 && peek(p, blanks) == '(' && peek(p, blanks + 1) == ')')
            return parse_function(p, word);
    }
    if (node != NULL && node->words.count == 0 && node->redirects == NULL && !tpp_shell_failed(p->script))
        tpp_shell_fail(p->script, TPP_E_SYNTAX, line_of(p), "check the script with bash -n",
                       "\"%c\" where a command should be", ended(p) ? ' ' : peek(p, 0));
    return node;
}

static struct tpp_shell_node *parse_compound(struct parser *p)
{
    if (take(p, "if"))
        return parse_if(p);
    if (take(p, "while"))
        return parse_while(p, TPP_NODE_WHILE);
    if (take(p, "until"))
        return parse_while(p, TPP_NODE_UNTIL);
    if (take(p, "for") || take(p, "select"))
        return parse_for(p);
    if (take(p, "case"))
        return parse_case(p);
    if (take(p, "[["))
        return parse_condition(p);
    if (take(p, "{"))
        return parse_group(p, "}");
    if (take(p, "function")) {
        skip_blanks(p, false);
        return parse_function(p, take_word(p));
    }
    return peek(p, 0) == '(' ? parse_subshell(p) : NULL;
}

static struct tpp_shell_node *parse_command(struct parser *p)
{
    skip_blanks(p, true);
    if (!tpp_shell_enter(p->script, line_of(p)))
        return NULL;
    struct tpp_shell_node *node = parse_compound(p);
    if (node == NULL) {
        node = parse_simple(p);
    } else {
        struct tpp_shell_node *holder = new_node(p, TPP_NODE_SIMPLE); /* its redirections change nothing here */
        for (skip_blanks(p, false); holder != NULL && !ended(p) && take_redirect(p, holder); skip_blanks(p, false))
            ;
    }
    tpp_shell_leave(p->script);
    return node;
}

static struct tpp_shell_node *parse_pipeline(struct parser *p)
{
    skip_blanks(p, true);
    bool is_negated = false;
    while (take(p, "!") || take(p, "time"))
        is_negated = !is_negated && tpp_shell_byte(p->text, p->at - 1) == '!';
    struct tpp_shell_node *first = parse_command(p), *node = first;
    if (first == NULL)
        return NULL;
    skip_blanks(p, false);
    if (peek(p, 0) == '|' && peek(p, 1) != '|') {
        struct tpp_shell_node *last = first;
        node = new_node(p, TPP_NODE_PIPELINE);
        while (node != NULL && !ended(p) && peek(p, 0) == '|' && peek(p, 1) != '|') {
            p->at += peek(p, 1) == '&' ? 2 : 1;
            last->next = parse_command(p);
            last = last->next != NULL ? last->next : last;
            skip_blanks(p, false);
        }
        if (node != NULL)
            node->first = first;
    }
    if (!is_negated || node == NULL)
        return node;
    struct tpp_shell_node *negation = new_node(p, TPP_NODE_NOT);
    if (negation != NULL)
        negation->first = node;
    return negation;
}

static struct tpp_shell_node *parse_and_or(struct parser *p)
{
    struct tpp_shell_node *left = parse_pipeline(p);
    for (skip_blanks(p, false); !ended(p); skip_blanks(p, false)) {
        char c = peek(p, 0);
        if ((c != '&' && c != '|') || peek(p, 1) != c)
            break;
        struct tpp_shell_node *both = new_node(p, c == '&' ? TPP_NODE_AND : TPP_NODE_OR);
        p->at += 2;
        if (both == NULL)
            break;
        both->first = left;
        both->second = parse_pipeline(p);
        left = both;
    }
    return left;
}

static bool is_at_end_of_sequence(const struct parser *p)
{
    static const char *const words[] = {"then", "elif", "else", "fi", "do", "done", "esac", "}"};
    if (ended(p) || peek(p, 0) == ')' || (peek(p, 0) == ';' && (peek(p, 1) == ';' || peek(p, 1) == '&')))
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (is_at(p, words[i]))
            return true;
    }
    return false;
}

static struct tpp_shell_node *parse_sequence(struct parser *p)
{
    struct tpp_shell_node *sequence = new_node(p, TPP_NODE_SEQUENCE), *last = NULL;
    for (skip_blanks(p, true); sequence != NULL && !is_at_end_of_sequence(p); skip_blanks(p, true)) {
        struct tpp_shell_node *item = new_node(p, TPP_NODE_ITEM);
        if (item == NULL)
            break;
        item->first = parse_and_or(p);
        if (last == NULL)
            sequence->first = item;
        else
            last->next = item;
        last = item;
        skip_blanks(p, false);
        if (peek(p, 0) == '&' || (peek(p, 0) == ';' && peek(p, 1) != ';' && peek(p, 1) != '&'))
            p->at++;
        else if (!ended(p) && peek(p, 0) != '\n' && !is_at_end_of_sequence(p))
            fail_expected(p, "the end of a command");
    }
    return sequence;
}

struct tpp_shell_node *tpp_shell_parse(struct tpp_shell_script *s, struct tpp_shell_text source)
{
    struct parser parser = {.script = s, .text = source};
    struct tpp_shell_node *sequence = parse_sequence(&parser);
    skip_blanks(&parser, true);
    if (!ended(&parser))
        tpp_shell_fail(s, TPP_E_SYNTAX, line_of(&parser), "check the script with bash -n",
                       "\"%c\" closes nothing that was opened", peek(&parser, 0));
    return sequence;
}

void tpp_shell_parse_array(struct tpp_shell_script *s, struct tpp_shell_text inside, struct tpp_shell_fields *words)
{
    struct parser parser = {.script = s, .text = inside};
    for (skip_blanks(&parser, true); !ended(&parser); skip_blanks(&parser, true)) {
        struct tpp_shell_text word = take_word(&parser);
        if (word.count == 0)
            parser.at++; /* a bracket or operator that bash would refuse */
        else
            tpp_shell_add_field(s, words, word);
    }
}
