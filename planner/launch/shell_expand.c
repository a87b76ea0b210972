/* shell_expand.c - from a word as it is written to the words that a program would get. */
#include "planner/launch/shell_parts.h"

#include <string.h>

/* What is being made of one written word. */
struct expansion {
    struct tpp_shell_script *script;
    struct tpp_shell_fields *fields;
    struct tpp_shell_builder field;
    bool has_field;   /* also when it is empty: "" is a word */
    bool splits;      /* false: all becomes one text */
    size_t num_empty; /* lists without items: "$@" without arguments is no word at all */
};

static void end_field(struct expansion *x)
{
    if (x->has_field || x->field.count > 0)
        tpp_shell_add_field(x->script, x->fields, tpp_shell_text_of(&x->field));
    x->field = (struct tpp_shell_builder){0};
    x->has_field = false;
}

static bool is_space(struct tpp_shell_cell cell)
{
    return cell.note == 0 && (cell.byte == ' ' || cell.byte == '\t' || cell.byte == '\n' || cell.byte == '\r');
}

/* Text from an expansion outside quotes: its spaces separate words. */
static void append_split(struct expansion *x, struct tpp_shell_text text)
{
    for (size_t i = 0; i < text.count && tpp_shell_step(x->script, 1); i++) {
        struct tpp_shell_cell cell = text.cells[i];
        cell.kind = TPP_SHELL_SPLIT;
        if (x->splits && is_space(cell))
            end_field(x);
        else
            tpp_shell_push(x->script, &x->field, cell);
    }
}

static void append_items(struct expansion *x, const struct tpp_shell_fields *items, bool in_quotes)
{
    x->num_empty += items->count == 0;
    for (size_t i = 0; i < items->count && !tpp_shell_failed(x->script); i++) {
        if (i > 0 && x->splits)
            end_field(x);
        else if (i > 0)
            tpp_shell_push_string(x->script, &x->field, " ", tpp_shell_line(items->items[i], 1), TPP_SHELL_QUOTED);
        if (in_quotes) {
            tpp_shell_push_text(x->script, &x->field, items->items[i], TPP_SHELL_QUOTED);
            x->has_field = true;
        } else {
            append_split(x, items->items[i]);
        }
    }
}

static void append_unknown(struct expansion *x, enum tpp_shell_note_kind kind, struct tpp_shell_text written,
                           bool in_quotes)
{
    uint32_t line = tpp_shell_line(written, 1);
    uint32_t note = tpp_shell_add_note(x->script, kind, line, tpp_shell_string(x->script, written));
    tpp_shell_push_unknown(x->script, &x->field, note, line, in_quotes ? TPP_SHELL_QUOTED : TPP_SHELL_SPLIT);
}

static void append_arithmetic(struct expansion *x, struct tpp_shell_text inside, uint32_t line, bool in_quotes)
{
    int64_t value;
    uint32_t note;
    enum tpp_shell_kind kind = in_quotes ? TPP_SHELL_QUOTED : TPP_SHELL_SPLIT;
    if (tpp_shell_arithmetic(x->script, inside, line, &value, &note)) {
        char digits[24], *at = digits + sizeof digits - 1;
        uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
        *at = '\0';
        do
            *--at = (char)('0' + rest % 10);
        while ((rest /= 10) > 0);
        if (value < 0)
            *--at = '-';
        tpp_shell_push_string(x->script, &x->field, at, line, kind);
        return;
    }
    if (note == 0)
        note = tpp_shell_add_note(x->script, TPP_SHELL_UNREADABLE, line, tpp_shell_string(x->script, inside));
    tpp_shell_push_unknown(x->script, &x->field, note, line, kind);
}

static bool is_whole_number(const char *text)
{
    const char *digits = *text == '-' ? text + 1 : text;
    return *digits != '\0' && strlen(digits) <= 18 && strspn(digits, "0123456789") == strlen(digits) &&
           (*digits != '0' || digits[1] == '\0');
}

/* $(expr A \* B), the one command that is worked out here: numbers with + - * / % between them. False: it is another
 * command, or not all of it is known. */
static bool append_expr(struct expansion *x, struct tpp_shell_text inside, uint32_t line, bool in_quotes)
{
    struct tpp_shell_fields written = {0}, words = {0};
    struct tpp_shell_builder sum = {0};
    for (size_t i = 0; i < inside.count; i++) {
        if (inside.cells[i].note != 0 || strchr("`|;&<>()#\n", tpp_shell_byte(inside, i)) != NULL ||
            (i < 5 && tpp_shell_byte(inside, i) != "expr "[i]))
            return false;
    }
    tpp_shell_parse_array(x->script, inside, &written);
    for (size_t i = 0; i < written.count; i++)
        tpp_shell_expand(x->script, written.items[i], &words);
    if (words.count < 2 || words.count % 2 != 0)
        return false;
    for (size_t i = 1; i < words.count; i++) {
        const char *word = tpp_shell_string(x->script, words.items[i]);
        const bool is_right = i % 2 == 1 ? is_whole_number(word) : strlen(word) == 1 && strchr("+-*/%", *word) != NULL;
        if (!is_right || !tpp_shell_is_known(words.items[i]))
            return false;
        tpp_shell_push_string(x->script, &sum, word, line, TPP_SHELL_PLAIN);
        tpp_shell_push_string(x->script, &sum, " ", line, TPP_SHELL_PLAIN);
    }
    append_arithmetic(x, tpp_shell_text_of(&sum), line, in_quotes);
    return true;
}

/* A $ and what belongs to it, which ends at `end`. */
static void append_dollar(struct expansion *x, struct tpp_shell_text text, size_t at, size_t end, bool in_quotes)
{
    struct tpp_shell_text inside = tpp_shell_slice(text, at + 2, end - 1);
    uint32_t line = text.cells[at].line;
    struct tpp_shell_fields items = {0};
    switch (tpp_shell_byte(text, at + 1)) {
    case '(':
        if (tpp_shell_byte(text, at + 2) == '(' && end >= at + 5 && tpp_shell_byte(text, end - 2) == ')')
            append_arithmetic(x, tpp_shell_slice(text, at + 3, end - 2), line, in_quotes);
        else if (!append_expr(x, inside, line, in_quotes))
            append_unknown(x, TPP_SHELL_COMMAND, tpp_shell_slice(text, at, end), in_quotes);
        break;
    case '[':
        append_arithmetic(x, inside, line, in_quotes);
        break;
    default:
        tpp_shell_expand_braces(x->script, inside, line, in_quotes, &items);
        append_items(x, &items, in_quotes);
    }
}

/* $NAME and the parameters of one character; returns behind it, or `at` when it is a plain $. */
static size_t append_name(struct expansion *x, struct tpp_shell_text text, size_t at, bool in_quotes)
{
    size_t length = tpp_shell_name_length(text, at + 1);
    char c = tpp_shell_byte(text, at + 1);
    struct tpp_shell_fields items = {0};
    if (length == 0 && c != '\0' && strchr("0123456789@*#?$!-", c) != NULL && text.cells[at + 1].note == 0)
        length = 1;
    if (length == 0)
        return at;
    const char *name = tpp_shell_string(x->script, tpp_shell_slice(text, at + 1, at + 1 + length));
    tpp_shell_expand_name(x->script, name, text.cells[at].line, in_quotes, &items);
    append_items(x, &items, in_quotes);
    return at + 1 + length;
}

/* Handles a $ or ` piece; returns behind it. */
static size_t append_expansion(struct expansion *x, struct tpp_shell_text text, size_t at, bool in_quotes)
{
    size_t end = tpp_shell_skip_piece(x->script, text, at, in_quotes);
    if (tpp_shell_failed(x->script))
        return text.count;
    if (tpp_shell_byte(text, at) == '`') {
        if (!append_expr(x, tpp_shell_slice(text, at + 1, end - 1), text.cells[at].line, in_quotes))
            append_unknown(x, TPP_SHELL_COMMAND, tpp_shell_slice(text, at, end), in_quotes);
        return end;
    }
    if (end > at + 2) {
        append_dollar(x, text, at, end, in_quotes);
        return end;
    }
    end = append_name(x, text, at, in_quotes);
    if (end > at)
        return end;
    if (in_quotes || tpp_shell_byte(text, at + 1) != '"')
        tpp_shell_push(x->script, &x->field, text.cells[at]);
    return at + 1;
}

/* A backslash in double quotes hides few characters; returns behind it. */
static size_t append_quoted_backslash(struct expansion *x, struct tpp_shell_text inside, size_t at)
{
    char next = tpp_shell_byte(inside, at + 1);
    bool is_escape = next != '\0' && strchr("$`\"\\\n", next) != NULL;
    struct tpp_shell_cell cell = inside.cells[is_escape ? at + 1 : at];
    cell.kind = TPP_SHELL_QUOTED;
    if (!is_escape || next != '\n')
        tpp_shell_push(x->script, &x->field, cell);
    return at + (is_escape ? 2 : 1);
}

static void append_double_quotes(struct expansion *x, struct tpp_shell_text inside)
{
    size_t num_pieces = 0, num_empty = x->num_empty;
    for (size_t at = 0; at < inside.count && tpp_shell_step(x->script, 1); num_pieces++) {
        struct tpp_shell_cell cell = inside.cells[at];
        if (cell.note == 0 && cell.byte == '\\') {
            at = append_quoted_backslash(x, inside, at);
        } else if (cell.note == 0 && (cell.byte == '$' || cell.byte == '`')) {
            at = append_expansion(x, inside, at, true);
        } else {
            cell.kind = TPP_SHELL_QUOTED;
            tpp_shell_push(x->script, &x->field, cell);
            at++;
        }
    }
    bool is_empty_list = num_pieces > 0 && num_pieces == x->num_empty - num_empty;
    x->has_field = x->has_field || !is_empty_list;
}

/* The character behind \ in $'...'; 0 for one that stays as it is. */
static char escaped(char c)
{
    static const char names[] = "ntrabfv\\'\"?", values[] = "\n\t\r\a\b\f\v\\'\"?";
    const char *at = c != '\0' ? strchr(names, c) : NULL;
    return at != NULL ? values[at - names] : '\0';
}

static void append_escaped_quotes(struct expansion *x, struct tpp_shell_text inside)
{
    for (size_t at = 0; at < inside.count; at++) {
        struct tpp_shell_cell cell = inside.cells[at];
        char value = cell.byte == '\\' ? escaped(tpp_shell_byte(inside, at + 1)) : '\0';
        cell.kind = TPP_SHELL_QUOTED;
        if (value != '\0') {
            cell.byte = value;
            at++;
        }
        tpp_shell_push(x->script, &x->field, cell);
    }
    x->has_field = true;
}

static void append_backslash(struct expansion *x, struct tpp_shell_text word, size_t at)
{
    if (at + 1 >= word.count || word.cells[at + 1].byte == '\n' || word.cells[at + 1].byte == '\r')
        return;
    struct tpp_shell_cell cell = word.cells[at + 1];
    cell.kind = TPP_SHELL_QUOTED;
    tpp_shell_push(x->script, &x->field, cell);
}

static size_t append_piece(struct expansion *x, struct tpp_shell_text word, size_t at)
{
    struct tpp_shell_cell cell = word.cells[at];
    size_t end = cell.note != 0 ? at + 1 : tpp_shell_skip_piece(x->script, word, at, false);
    if (tpp_shell_failed(x->script))
        return word.count;
    if (cell.note == 0 && cell.byte == '\\') {
        append_backslash(x, word, at);
    } else if (cell.note == 0 && cell.byte == '\'') {
        tpp_shell_push_text(x->script, &x->field, tpp_shell_slice(word, at + 1, end - 1), TPP_SHELL_QUOTED);
        x->has_field = true;
    } else if (cell.note == 0 && cell.byte == '"') {
        append_double_quotes(x, tpp_shell_slice(word, at + 1, end - 1));
    } else if (cell.note == 0 && cell.byte == '$' && tpp_shell_byte(word, at + 1) == '\'') {
        append_escaped_quotes(x, tpp_shell_slice(word, at + 2, end - 1));
    } else if (cell.note == 0 && (cell.byte == '$' || cell.byte == '`')) {
        return append_expansion(x, word, at, false);
    } else {
        cell.kind = cell.note != 0 ? TPP_SHELL_SPLIT : TPP_SHELL_PLAIN;
        tpp_shell_push(x->script, &x->field, cell);
    }
    return end;
}

static bool is_process_file(struct tpp_shell_text word)
{
    return word.count > 2 && (word.cells[0].byte == '<' || word.cells[0].byte == '>') && word.cells[1].byte == '(';
}

static void expand(struct expansion *x, struct tpp_shell_text word)
{
    if (word.count == 0 || !tpp_shell_enter(x->script, tpp_shell_line(word, 1)))
        return;
    if (is_process_file(word))
        append_unknown(x, TPP_SHELL_COMMAND, word, true);
    else
        for (size_t at = 0; at < word.count && tpp_shell_step(x->script, 1);)
            at = append_piece(x, word, at);
    end_field(x);
    tpp_shell_leave(x->script);
}

void tpp_shell_expand(struct tpp_shell_script *s, struct tpp_shell_text word, struct tpp_shell_fields *fields)
{
    struct expansion x = {.script = s, .fields = fields, .splits = true};
    expand(&x, word);
}

struct tpp_shell_text tpp_shell_expand_one(struct tpp_shell_script *s, struct tpp_shell_text word)
{
    struct tpp_shell_fields fields = {0};
    struct expansion x = {.script = s, .fields = &fields, .splits = false};
    expand(&x, word);
    return fields.count > 0 ? fields.items[0] : (struct tpp_shell_text){NULL, 0};
}

struct tpp_shell_text tpp_shell_expand_document(struct tpp_shell_script *s, struct tpp_shell_text body)
{
    struct tpp_shell_fields fields = {0};
    struct expansion x = {.script = s, .fields = &fields, .splits = false};
    append_double_quotes(&x, body);
    return tpp_shell_text_of(&x.field);
}
