/* shell_parse.c - the grammar of bash, as far as launch scripts use it: text to tree. Words stay as they are written.
 */
#include "planner/launch/shell_lex.h"

#include <string.h>

static struct tpp_shell_node *parse_sequence(struct tpp_shell_parser *p);

static struct tpp_shell_node *new_node(struct tpp_shell_parser *p, enum tpp_shell_node_kind kind)
{
    struct tpp_shell_node *node = tpp_shell_alloc(p->script, 1, sizeof *node);
    if (node != NULL) {
        node->kind = kind;
        node->line = tpp_shell_parser_line(p);
    }
    return node;
}

static struct tpp_shell_node *parse_if(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_IF);
    if (node == NULL)
        return NULL;
    node->first = parse_sequence(p);
    tpp_shell_expect(p, "then");
    node->second = parse_sequence(p);
    tpp_shell_skip_blanks(p, true);
    if (tpp_shell_take(p, "elif")) {
        if (tpp_shell_enter(p->script, tpp_shell_parser_line(p)))
            node->third = parse_if(p);
        tpp_shell_leave(p->script);
        return node;
    }
    if (tpp_shell_take(p, "else"))
        node->third = parse_sequence(p);
    tpp_shell_expect(p, "fi");
    return node;
}

static struct tpp_shell_node *parse_body(struct tpp_shell_parser *p)
{
    tpp_shell_skip_blanks(p, true);
    if (tpp_shell_peek(p, 0) == ';')
        p->at++;
    tpp_shell_expect(p, "do");
    struct tpp_shell_node *body = parse_sequence(p);
    tpp_shell_expect(p, "done");
    return body;
}

static struct tpp_shell_node *parse_while(struct tpp_shell_parser *p, enum tpp_shell_node_kind kind)
{
    struct tpp_shell_node *node = new_node(p, kind);
    if (node == NULL)
        return NULL;
    node->first = parse_sequence(p);
    node->second = parse_body(p);
    return node;
}

/* for NAME [in WORDS] and for (( )), whose loop cannot be decided and has no words. */
static struct tpp_shell_node *parse_for(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_FOR);
    if (node == NULL)
        return NULL;
    tpp_shell_skip_blanks(p, false);
    if (tpp_shell_peek(p, 0) == '(' && tpp_shell_peek(p, 1) == '(') {
        p->at = tpp_shell_skip_parentheses(p->script, p->text, p->at + 1);
    } else {
        tpp_shell_add_field(p->script, &node->words, tpp_shell_take_word(p));
        tpp_shell_skip_blanks(p, true);
        node->has_words = tpp_shell_take(p, "in");
        for (tpp_shell_skip_blanks(p, false); node->has_words && !tpp_shell_ended(p); tpp_shell_skip_blanks(p, false)) {
            struct tpp_shell_text word = tpp_shell_take_word(p);
            if (word.count == 0)
                break;
            tpp_shell_add_field(p->script, &node->words, word);
        }
    }
    tpp_shell_skip_blanks(p, false);
    node->second = parse_body(p);
    return node;
}

static struct tpp_shell_node *parse_branch(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *branch = new_node(p, TPP_NODE_BRANCH);
    if (branch == NULL)
        return NULL;
    if (tpp_shell_peek(p, 0) == '(')
        p->at++;
    for (;;) {
        tpp_shell_skip_blanks(p, false);
        tpp_shell_add_field(p->script, &branch->words, tpp_shell_take_word(p));
        tpp_shell_skip_blanks(p, false);
        if (tpp_shell_ended(p) || tpp_shell_peek(p, 0) != '|')
            break;
        p->at++;
    }
    if (tpp_shell_peek(p, 0) != ')')
        tpp_shell_fail_expected(p, ") behind the pattern of a case");
    p->at++;
    branch->first = parse_sequence(p);
    return branch;
}

static struct tpp_shell_node *parse_case(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_CASE), *last = NULL;
    if (node == NULL)
        return NULL;
    tpp_shell_skip_blanks(p, false);
    tpp_shell_add_field(p->script, &node->words, tpp_shell_take_word(p));
    tpp_shell_expect(p, "in");
    for (tpp_shell_skip_blanks(p, true); !tpp_shell_ended(p) && !tpp_shell_is_at(p, "esac");
         tpp_shell_skip_blanks(p, true)) {
        struct tpp_shell_node *branch = parse_branch(p);
        if (branch == NULL)
            return node;
        if (last == NULL)
            node->first = branch;
        else
            last->next = branch;
        last = branch;
        tpp_shell_skip_blanks(p, true);
        while (tpp_shell_peek(p, 0) == ';' || tpp_shell_peek(p, 0) == '&')
            p->at++;
    }
    tpp_shell_expect(p, "esac");
    return node;
}

/* A regular expression: parentheses and bars belong to it. */
static struct tpp_shell_text rest_of_expression(struct tpp_shell_parser *p, size_t begin)
{
    while (!tpp_shell_ended(p) && strchr("()|", tpp_shell_peek(p, 0)) != NULL) {
        p->at++;
        tpp_shell_take_word(p);
    }
    return tpp_shell_slice(p->text, begin, p->at);
}

/* [[ words ]]: its operators are words of their own. */
static struct tpp_shell_node *parse_condition(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_CONDITION);
    while (node != NULL && !tpp_shell_ended(p)) {
        tpp_shell_skip_blanks(p, true);
        if (tpp_shell_take(p, "]]"))
            return node;
        size_t begin = p->at;
        char c = tpp_shell_peek(p, 0);
        if (c == '(' || c == ')' || c == '<' || c == '>')
            p->at++;
        else if ((c == '&' || c == '|') && tpp_shell_peek(p, 1) == c)
            p->at += 2;
        if (p->at > begin) {
            tpp_shell_add_field(p->script, &node->words, tpp_shell_slice(p->text, begin, p->at));
            continue;
        }
        struct tpp_shell_text word = tpp_shell_take_word(p);
        if (node->words.count > 0 && tpp_shell_equals(node->words.items[node->words.count - 1], "=~"))
            word = rest_of_expression(p, begin);
        if (word.count == 0)
            break;
        tpp_shell_add_field(p->script, &node->words, word);
    }
    tpp_shell_fail_expected(p, "]]");
    return node;
}

static struct tpp_shell_node *parse_group(struct tpp_shell_parser *p, const char *end)
{
    struct tpp_shell_node *body = parse_sequence(p);
    tpp_shell_skip_blanks(p, true);
    if (*end == ')' && tpp_shell_peek(p, 0) == ')')
        p->at++;
    else
        tpp_shell_expect(p, end);
    return body;
}

static struct tpp_shell_node *parse_subshell(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *node;
    if (tpp_shell_peek(p, 0) == '(' && tpp_shell_peek(p, 1) == '(') {
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
static struct tpp_shell_node *parse_function(struct tpp_shell_parser *p, struct tpp_shell_text name)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_FUNCTION);
    if (node == NULL)
        return NULL;
    tpp_shell_add_field(p->script, &node->words, name);
    tpp_shell_skip_blanks(p, false);
    if (tpp_shell_peek(p, 0) == '(') {
        p->at++;
        tpp_shell_skip_blanks(p, false);
        if (tpp_shell_peek(p, 0) != ')')
            tpp_shell_fail_expected(p, ") of a function");
        p->at++;
    }
    tpp_shell_skip_blanks(p, true);
    if (tpp_shell_take(p, "{"))
        node->first = parse_group(p, "}");
    else if (tpp_shell_peek(p, 0) == '(')
        node->first = parse_subshell(p);
    else
        tpp_shell_fail_expected(p, "the body of a function");
    return node;
}

static struct tpp_shell_node *parse_simple(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *node = new_node(p, TPP_NODE_SIMPLE);
    while (node != NULL && !tpp_shell_ended(p)) {
        tpp_shell_skip_blanks(p, false);
        if (tpp_shell_ended(p) || tpp_shell_take_redirect(p, node))
            continue;
        struct tpp_shell_text word = tpp_shell_take_word(p);
        if (word.count == 0)
            break;
        tpp_shell_add_field(p->script, &node->words, word);
        if (node->words.count == 1 && tpp_shell_peek(p, 0) == '(' && tpp_shell_name_length(word, 0) == word.count)
            return parse_function(p, word);
        size_t blanks = 0;
        while (tpp_shell_peek(p, blanks) == ' ')
            blanks++;
        if (node->words.count == 1 && blanks > 0 && tpp_shell_peek(p, blanks) == '(' &&
            tpp_shell_peek(p, blanks + 1) == ')')
            return parse_function(p, word);
    }
    if (node != NULL && node->words.count == 0 && node->redirects == NULL && !tpp_shell_failed(p->script))
        tpp_shell_fail(p->script, TPP_E_SYNTAX, tpp_shell_parser_line(p), "check the script with bash -n",
                       "\"%c\" where a command should be", tpp_shell_ended(p) ? ' ' : tpp_shell_peek(p, 0));
    return node;
}

static struct tpp_shell_node *parse_compound(struct tpp_shell_parser *p)
{
    if (tpp_shell_take(p, "if"))
        return parse_if(p);
    if (tpp_shell_take(p, "while"))
        return parse_while(p, TPP_NODE_WHILE);
    if (tpp_shell_take(p, "until"))
        return parse_while(p, TPP_NODE_UNTIL);
    if (tpp_shell_take(p, "for") || tpp_shell_take(p, "select"))
        return parse_for(p);
    if (tpp_shell_take(p, "case"))
        return parse_case(p);
    if (tpp_shell_take(p, "[["))
        return parse_condition(p);
    if (tpp_shell_take(p, "{"))
        return parse_group(p, "}");
    if (tpp_shell_take(p, "function")) {
        tpp_shell_skip_blanks(p, false);
        return parse_function(p, tpp_shell_take_word(p));
    }
    return tpp_shell_peek(p, 0) == '(' ? parse_subshell(p) : NULL;
}

static struct tpp_shell_node *parse_command(struct tpp_shell_parser *p)
{
    tpp_shell_skip_blanks(p, true);
    if (!tpp_shell_enter(p->script, tpp_shell_parser_line(p)))
        return NULL;
    struct tpp_shell_node *node = parse_compound(p);
    if (node == NULL) {
        node = parse_simple(p);
    } else {
        struct tpp_shell_node *holder = new_node(p, TPP_NODE_SIMPLE); /* its redirections change nothing here */
        for (tpp_shell_skip_blanks(p, false);
             holder != NULL && !tpp_shell_ended(p) && tpp_shell_take_redirect(p, holder);
             tpp_shell_skip_blanks(p, false))
            ;
    }
    tpp_shell_leave(p->script);
    return node;
}

static struct tpp_shell_node *parse_pipeline(struct tpp_shell_parser *p)
{
    tpp_shell_skip_blanks(p, true);
    bool is_negated = false;
    while (tpp_shell_take(p, "!") || tpp_shell_take(p, "time"))
        is_negated = !is_negated && tpp_shell_byte(p->text, p->at - 1) == '!';
    struct tpp_shell_node *first = parse_command(p), *node = first;
    if (first == NULL)
        return NULL;
    tpp_shell_skip_blanks(p, false);
    if (tpp_shell_peek(p, 0) == '|' && tpp_shell_peek(p, 1) != '|') {
        struct tpp_shell_node *last = first;
        node = new_node(p, TPP_NODE_PIPELINE);
        while (node != NULL && !tpp_shell_ended(p) && tpp_shell_peek(p, 0) == '|' && tpp_shell_peek(p, 1) != '|') {
            p->at += tpp_shell_peek(p, 1) == '&' ? 2 : 1;
            last->next = parse_command(p);
            last = last->next != NULL ? last->next : last;
            tpp_shell_skip_blanks(p, false);
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

static struct tpp_shell_node *parse_and_or(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *left = parse_pipeline(p);
    for (tpp_shell_skip_blanks(p, false); !tpp_shell_ended(p); tpp_shell_skip_blanks(p, false)) {
        char c = tpp_shell_peek(p, 0);
        if ((c != '&' && c != '|') || tpp_shell_peek(p, 1) != c)
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

static bool is_at_end_of_sequence(const struct tpp_shell_parser *p)
{
    static const char *const words[] = {"then", "elif", "else", "fi", "do", "done", "esac", "}"};
    if (tpp_shell_ended(p) || tpp_shell_peek(p, 0) == ')' ||
        (tpp_shell_peek(p, 0) == ';' && (tpp_shell_peek(p, 1) == ';' || tpp_shell_peek(p, 1) == '&')))
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (tpp_shell_is_at(p, words[i]))
            return true;
    }
    return false;
}

static struct tpp_shell_node *parse_sequence(struct tpp_shell_parser *p)
{
    struct tpp_shell_node *sequence = new_node(p, TPP_NODE_SEQUENCE), *last = NULL;
    for (tpp_shell_skip_blanks(p, true); sequence != NULL && !is_at_end_of_sequence(p);
         tpp_shell_skip_blanks(p, true)) {
        struct tpp_shell_node *item = new_node(p, TPP_NODE_ITEM);
        if (item == NULL)
            break;
        item->first = parse_and_or(p);
        if (last == NULL)
            sequence->first = item;
        else
            last->next = item;
        last = item;
        tpp_shell_skip_blanks(p, false);
        if (tpp_shell_peek(p, 0) == '&' ||
            (tpp_shell_peek(p, 0) == ';' && tpp_shell_peek(p, 1) != ';' && tpp_shell_peek(p, 1) != '&'))
            p->at++;
        else if (!tpp_shell_ended(p) && tpp_shell_peek(p, 0) != '\n' && !is_at_end_of_sequence(p))
            tpp_shell_fail_expected(p, "the end of a command");
    }
    return sequence;
}

struct tpp_shell_node *tpp_shell_parse(struct tpp_shell_script *s, struct tpp_shell_text source)
{
    struct tpp_shell_parser parser = {.script = s, .text = source};
    struct tpp_shell_node *sequence = parse_sequence(&parser);
    tpp_shell_skip_blanks(&parser, true);
    if (!tpp_shell_ended(&parser))
        tpp_shell_fail(s, TPP_E_SYNTAX, tpp_shell_parser_line(&parser), "check the script with bash -n",
                       "\"%c\" closes nothing that was opened", tpp_shell_peek(&parser, 0));
    return sequence;
}

void tpp_shell_parse_array(struct tpp_shell_script *s, struct tpp_shell_text inside, struct tpp_shell_fields *words)
{
    struct tpp_shell_parser parser = {.script = s, .text = inside};
    for (tpp_shell_skip_blanks(&parser, true); !tpp_shell_ended(&parser); tpp_shell_skip_blanks(&parser, true)) {
        struct tpp_shell_text word = tpp_shell_take_word(&parser);
        if (word.count == 0)
            parser.at++; /* a bracket or operator that bash would refuse */
        else
            tpp_shell_add_field(s, words, word);
    }
}
