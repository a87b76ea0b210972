/* shell_parameter.c - $NAME and ${NAME...}: values, defaults, lengths, beginnings and ends. */
#include "planner/launch/shell_parts.h"

#include <stdlib.h>
#include <string.h>

static bool is_number(const char *name)
{
    return *name != '\0' && strspn(name, "0123456789") == strlen(name);
}

/* Set in every login or by Slurm: known on the machine only, and not left open by the script. */
static bool is_of_the_machine(const char *name)
{
    static const char *const names[] = {"PWD",    "HOME", "USER",   "HOSTNAME", "PATH", "LD_LIBRARY_PATH", "PYTHONPATH",
                                        "RANDOM", "UID",  "OLDPWD", "SECONDS",  "EUID", "BASH_SOURCE",     "TMPDIR"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0)
            return true;
    }
    return strncmp(name, "SLURM_", 6) == 0 || (strlen(name) == 1 && strchr("0?$!-", *name) != NULL);
}

uint32_t tpp_shell_missing(struct tpp_shell_script *s, const char *name, uint32_t line)
{
    struct tpp_shell_builder written = {0};
    tpp_shell_push_string(s, &written, "$", line, TPP_SHELL_QUOTED);
    tpp_shell_push_string(s, &written, name, line, TPP_SHELL_QUOTED);
    enum tpp_shell_note_kind kind = is_of_the_machine(name) ? TPP_SHELL_COMMAND
                                    : is_number(name)       ? TPP_SHELL_POSITIONAL
                                                            : TPP_SHELL_UNSET;
    return tpp_shell_add_note(s, kind, line, tpp_shell_string(s, tpp_shell_text_of(&written)));
}

/* What a parameter stands for before operators. */
struct parameter {
    const char *name;
    bool is_set, is_list;
    struct tpp_shell_fields items; /* one, unless it is a list */
};

static void add_arguments(struct tpp_shell_script *s, struct parameter *parameter)
{
    parameter->is_list = true;
    for (size_t i = 0; i < s->scope.num_arguments; i++)
        tpp_shell_add_field(s, &parameter->items, s->scope.arguments[i]);
    parameter->is_set = s->scope.num_arguments > 0;
}

static void add_count(struct tpp_shell_script *s, struct parameter *parameter, size_t count, uint32_t line)
{
    char digits[24], *at = digits + sizeof digits - 1;
    *at = '\0';
    do
        *--at = (char)('0' + count % 10);
    while ((count /= 10) > 0);
    parameter->is_set = true;
    tpp_shell_add_field(s, &parameter->items, tpp_shell_from_string(s, at, line));
}

static void look_up_argument(struct tpp_shell_script *s, struct parameter *parameter)
{
    size_t number = strtoul(parameter->name, NULL, 10);
    if (number == 0 && s->scope.name.count > 0) {
        parameter->is_set = true;
        tpp_shell_add_field(s, &parameter->items, s->scope.name);
    } else if (number >= 1 && number <= s->scope.num_arguments) {
        parameter->is_set = true;
        tpp_shell_add_field(s, &parameter->items, s->scope.arguments[number - 1]);
    } else if (number >= 1 && s->scope.has_arguments) {
        tpp_shell_add_field(s, &parameter->items, (struct tpp_shell_text){NULL, 0});
    }
}

/* Fills `parameter`, whose name is set; no item when it is not set and not known to be empty. */
static void look_up(struct tpp_shell_script *s, struct parameter *parameter, bool all_items, uint32_t line)
{
    const char *name = parameter->name;
    if (strcmp(name, "@") == 0 || strcmp(name, "*") == 0) {
        add_arguments(s, parameter);
    } else if (strcmp(name, "#") == 0) {
        if (s->scope.has_arguments || s->is_loop_condition)
            add_count(s, parameter, s->scope.num_arguments, line);
    } else if (is_number(name)) {
        look_up_argument(s, parameter);
    } else {
        const struct tpp_shell_value *value = tpp_shell_get(s, name);
        parameter->is_list = all_items;
        parameter->is_set = value != NULL && value->count > 0;
        for (size_t i = 0; value != NULL && i < value->count && (i == 0 || all_items); i++)
            tpp_shell_add_field(s, &parameter->items, value->items[i]);
        if (value != NULL && value->count == 0 && !all_items)
            tpp_shell_add_field(s, &parameter->items, (struct tpp_shell_text){NULL, 0});
    }
}

/* The items themselves; an unset parameter is not known. */
static void give_items(struct tpp_shell_script *s, const struct parameter *parameter, uint32_t line,
                       struct tpp_shell_fields *items)
{
    for (size_t i = 0; i < parameter->items.count; i++)
        tpp_shell_add_field(s, items, parameter->items.items[i]);
    bool is_empty_list = parameter->is_list && (parameter->is_set || tpp_shell_get(s, parameter->name) != NULL ||
                                                *parameter->name == '@' || *parameter->name == '*');
    if (parameter->items.count == 0 && !is_empty_list)
        tpp_shell_add_field(s, items, tpp_shell_unknown(s, tpp_shell_missing(s, parameter->name, line), line));
}

/* "$*" is one text. */
static void join(struct tpp_shell_script *s, struct tpp_shell_fields *items, uint32_t line)
{
    struct tpp_shell_builder joined = {0};
    for (size_t i = 0; i < items->count; i++) {
        if (i > 0)
            tpp_shell_push_string(s, &joined, " ", line, TPP_SHELL_QUOTED);
        tpp_shell_push_text(s, &joined, items->items[i], TPP_SHELL_QUOTED);
    }
    items->count = 0;
    tpp_shell_add_field(s, items, tpp_shell_text_of(&joined));
}

void tpp_shell_expand_name(struct tpp_shell_script *s, const char *name, uint32_t line, bool in_quotes,
                           struct tpp_shell_fields *items)
{
    struct parameter parameter = {.name = name};
    look_up(s, &parameter, false, line);
    give_items(s, &parameter, line, items);
    if (in_quotes && *name == '*')
        join(s, items, line);
}

/* ---- ${...} ---- */

struct braces {
    struct tpp_shell_script *script;
    uint32_t line;
    bool in_quotes;
    struct parameter parameter;
    struct tpp_shell_text operation; /* from the sign on */
    struct tpp_shell_fields *out;
};

static void give_unreadable(struct braces *b, struct tpp_shell_text inside)
{
    struct tpp_shell_builder written = {0};
    tpp_shell_push_string(b->script, &written, "${", b->line, TPP_SHELL_QUOTED);
    tpp_shell_push_text(b->script, &written, inside, TPP_SHELL_QUOTED);
    tpp_shell_push_string(b->script, &written, "}", b->line, TPP_SHELL_QUOTED);
    uint32_t note = tpp_shell_add_note(b->script, TPP_SHELL_UNREADABLE, b->line,
                                       tpp_shell_string(b->script, tpp_shell_text_of(&written)));
    tpp_shell_add_field(b->script, b->out, tpp_shell_unknown(b->script, note, b->line));
}

static bool is_empty(const struct parameter *parameter)
{
    for (size_t i = 0; i < parameter->items.count; i++) {
        if (parameter->items.items[i].count > 0)
            return false;
    }
    return true;
}

/* - = + ? with and without a colon. Something that is set to an unknown value counts as set and not empty. */
static void give_default(struct braces *b, bool has_colon, char sign, struct tpp_shell_text word)
{
    struct tpp_shell_script *s = b->script;
    bool is_missing = !b->parameter.is_set || (has_colon && is_empty(&b->parameter));
    if (is_missing == (sign == '+')) {
        if (sign == '+')
            tpp_shell_add_field(s, b->out, (struct tpp_shell_text){NULL, 0});
        else
            give_items(s, &b->parameter, b->line, b->out);
        return;
    }
    if (sign == '?') {
        uint32_t note = tpp_shell_missing(s, b->parameter.name, b->line);
        if (note != 0 && s->notes[note - 1].kind == TPP_SHELL_UNSET)
            s->notes[note - 1].kind = TPP_SHELL_REQUIRED;
        struct tpp_shell_text unknown = tpp_shell_unknown(s, note, b->line);
        tpp_shell_add_field(s, b->out, unknown);
        if (tpp_shell_byte(tpp_shell_from_string(s, b->parameter.name, b->line), 0) > '9')
            tpp_shell_set(s, b->parameter.name, unknown); /* behind it, the variable has a value */
        return;
    }
    struct tpp_shell_text value = tpp_shell_expand_one(s, word);
    tpp_shell_add_field(s, b->out, value);
    if (sign == '=' && !is_number(b->parameter.name))
        tpp_shell_set(s, b->parameter.name, value);
}

/* What a match is never longer than: only a * takes more than one character. */
static size_t longest_match(struct tpp_shell_text pattern, size_t room)
{
    for (size_t i = 0; i < pattern.count; i++) {
        if (pattern.cells[i].byte == '*')
            return room;
    }
    return pattern.count < room ? pattern.count : room;
}

/* The piece of `text` that is left when what matches is taken off its beginning or end. */
static struct tpp_shell_text cut_match(struct tpp_shell_script *s, struct tpp_shell_text text,
                                       struct tpp_shell_text pattern, bool at_end, bool longest)
{
    const size_t limit = longest_match(pattern, text.count);
    for (size_t i = 0; i <= limit && !tpp_shell_failed(s); i++) {
        size_t length = longest ? limit - i : i;
        struct tpp_shell_text piece =
            at_end ? tpp_shell_slice(text, text.count - length, text.count) : tpp_shell_slice(text, 0, length);
        if (tpp_shell_matches(s, pattern, piece) == TPP_YES)
            return at_end ? tpp_shell_slice(text, 0, text.count - length) : tpp_shell_slice(text, length, text.count);
    }
    return text;
}

/* Length of the longest match at `at`; 0: none. */
static size_t match_length(struct tpp_shell_script *s, struct tpp_shell_text text, size_t at,
                           struct tpp_shell_text pattern)
{
    for (size_t end = at + longest_match(pattern, text.count - at); end > at && !tpp_shell_failed(s); end--) {
        if (tpp_shell_matches(s, pattern, tpp_shell_slice(text, at, end)) == TPP_YES)
            return end - at;
    }
    return 0;
}

static struct tpp_shell_text replace(struct tpp_shell_script *s, struct tpp_shell_text text,
                                     struct tpp_shell_text pattern, struct tpp_shell_text by, bool all)
{
    struct tpp_shell_builder out = {0};
    bool is_done = false;
    for (size_t at = 0; at < text.count && !tpp_shell_failed(s);) {
        size_t length = is_done ? 0 : match_length(s, text, at, pattern);
        if (length > 0) {
            tpp_shell_push_text(s, &out, by, TPP_SHELL_QUOTED);
            at += length;
            is_done = !all;
        } else {
            tpp_shell_push(s, &out, text.cells[at++]);
        }
    }
    return tpp_shell_text_of(&out);
}

/* The first / that is not hidden; text.count without one. */
static size_t find_slash(struct tpp_shell_script *s, struct tpp_shell_text text)
{
    size_t at = 0;
    while (at < text.count && !tpp_shell_failed(s) && tpp_shell_byte(text, at) != '/')
        at = tpp_shell_skip_piece(s, text, at, false);
    return at;
}

static char changed_case(char c, char sign)
{
    if (sign == '^')
        return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static struct tpp_shell_text change_case(struct tpp_shell_script *s, struct tpp_shell_text text, char sign, bool all)
{
    struct tpp_shell_builder out = {0};
    for (size_t i = 0; i < text.count; i++) {
        struct tpp_shell_cell cell = text.cells[i];
        if (all || i == 0)
            cell.byte = changed_case(cell.byte, sign);
        tpp_shell_push(s, &out, cell);
    }
    return tpp_shell_text_of(&out);
}

/* # % / ^ , on one value that is known. */
static struct tpp_shell_text edit(struct braces *b, struct tpp_shell_text text)
{
    struct tpp_shell_script *s = b->script;
    char sign = tpp_shell_byte(b->operation, 0);
    bool is_double = tpp_shell_byte(b->operation, 1) == sign;
    struct tpp_shell_text rest = tpp_shell_slice(b->operation, is_double ? 2 : 1, b->operation.count);
    if (sign == '^' || sign == ',')
        return change_case(s, text, sign, is_double);
    if (sign == '/') {
        size_t slash = find_slash(s, rest);
        return replace(s, text, tpp_shell_expand_one(s, tpp_shell_slice(rest, 0, slash)),
                       tpp_shell_expand_one(s, tpp_shell_slice(rest, slash + 1, rest.count)), is_double);
    }
    return cut_match(s, text, tpp_shell_expand_one(s, rest), sign == '%', is_double);
}

static void give_edited(struct braces *b)
{
    struct tpp_shell_fields items = {0};
    give_items(b->script, &b->parameter, b->line, &items);
    for (size_t i = 0; i < items.count && !tpp_shell_failed(b->script); i++) {
        bool is_known = tpp_shell_is_known(items.items[i]);
        tpp_shell_add_field(b->script, b->out, is_known ? edit(b, items.items[i]) : items.items[i]);
    }
}

/* ${name:offset} and ${name:offset:length}; of a list, items. */
static void give_part(struct braces *b, struct tpp_shell_text inside)
{
    struct tpp_shell_script *s = b->script;
    size_t colon = 1;
    int64_t offset = 0, length = INT64_MAX;
    uint32_t note;
    while (colon < b->operation.count && b->operation.cells[colon].byte != ':')
        colon++;
    struct tpp_shell_text first = tpp_shell_slice(b->operation, 1, colon);
    bool is_known = tpp_shell_arithmetic(s, first, b->line, &offset, &note);
    if (colon < b->operation.count)
        is_known = tpp_shell_arithmetic(s, tpp_shell_slice(b->operation, colon + 1, b->operation.count), b->line,
                                        &length, &note) &&
                   is_known;
    bool is_text_known =
        b->parameter.is_list || (b->parameter.items.count == 1 && tpp_shell_is_known(b->parameter.items.items[0]));
    if (!is_known || !is_text_known || offset < 0 || length < 0) {
        give_unreadable(b, inside);
        return;
    }
    if (b->parameter.is_list) { /* $@ counts from 1 */
        size_t begin = (size_t)offset - (offset > 0 && *b->parameter.name == '@');
        for (size_t i = begin; i < b->parameter.items.count && (int64_t)(i - begin) < length; i++)
            tpp_shell_add_field(s, b->out, b->parameter.items.items[i]);
        return;
    }
    struct tpp_shell_text text = b->parameter.items.items[0];
    size_t begin = (uint64_t)offset < text.count ? (size_t)offset : text.count;
    size_t end = (uint64_t)length < text.count - begin ? begin + (size_t)length : text.count;
    tpp_shell_add_field(s, b->out, tpp_shell_slice(text, begin, end));
}

static void give_length(struct braces *b)
{
    struct parameter length = {.name = b->parameter.name};
    struct tpp_shell_fields items = {0};
    give_items(b->script, &b->parameter, b->line, &items);
    bool is_known = true;
    for (size_t i = 0; i < items.count; i++)
        is_known = is_known && tpp_shell_is_known(items.items[i]);
    if (!is_known) {
        tpp_shell_add_field(b->script, b->out, items.items[0]);
        return;
    }
    add_count(b->script, &length,
              b->parameter.is_list ? items.count
              : items.count > 0    ? items.items[0].count
                                   : 0,
              b->line);
    tpp_shell_add_field(b->script, b->out, length.items.count > 0 ? length.items.items[0] : (struct tpp_shell_text){0});
}

/* One item of an array. */
static void look_up_item(struct braces *b, struct tpp_shell_text subscript)
{
    int64_t index;
    uint32_t note;
    const struct tpp_shell_value *value = tpp_shell_get(b->script, b->parameter.name);
    if (!tpp_shell_arithmetic(b->script, subscript, b->line, &index, &note) || value == NULL)
        return;
    if (index < 0)
        index += (int64_t)value->count;
    if (index >= 0 && (uint64_t)index < value->count) {
        b->parameter.is_set = true;
        tpp_shell_add_field(b->script, &b->parameter.items, value->items[index]);
    }
}

/* Name and subscript; returns behind them, 0 when there is no name. */
static size_t read_parameter(struct braces *b, struct tpp_shell_text inside, size_t at)
{
    size_t begin = at, length = tpp_shell_name_length(inside, at);
    bool all_items = false;
    char c = tpp_shell_byte(inside, at);
    while (length == 0 && tpp_shell_byte(inside, at) >= '0' && tpp_shell_byte(inside, at) <= '9')
        at++;
    if (length == 0 && at == begin)
        length = c != '\0' && strchr("@*#?$!-", c) != NULL ? 1 : 0;
    at += length;
    if (at == begin)
        return 0;
    b->parameter.name = tpp_shell_string(b->script, tpp_shell_slice(inside, begin, at));
    if (tpp_shell_byte(inside, at) != '[') {
        look_up(b->script, &b->parameter, false, b->line);
        return at;
    }
    size_t close = at + 1;
    while (close < inside.count && inside.cells[close].byte != ']' && !tpp_shell_failed(b->script))
        close = tpp_shell_skip_piece(b->script, inside, close, false);
    struct tpp_shell_text subscript = tpp_shell_slice(inside, at + 1, close);
    all_items = tpp_shell_equals(subscript, "@") || tpp_shell_equals(subscript, "*");
    if (all_items)
        look_up(b->script, &b->parameter, true, b->line);
    else
        look_up_item(b, subscript);
    if (all_items && subscript.cells[0].byte == '*' && b->in_quotes) {
        join(b->script, &b->parameter.items, b->line);
        b->parameter.is_list = false;
    }
    return close + 1;
}

/* ${!name}: the parameter that the value names. */
static void follow(struct braces *b)
{
    struct parameter named = {.name = ""};
    if (b->parameter.items.count == 1 && tpp_shell_is_known(b->parameter.items.items[0])) {
        named.name = tpp_shell_string(b->script, b->parameter.items.items[0]);
        look_up(b->script, &named, false, b->line);
        b->parameter = named;
    }
}

static void give_result(struct braces *b, struct tpp_shell_text inside)
{
    char first = tpp_shell_byte(b->operation, 0), second = tpp_shell_byte(b->operation, 1);
    bool has_colon = first == ':' && second != '\0' && strchr("-=+?", second) != NULL;
    if (b->operation.count == 0)
        give_items(b->script, &b->parameter, b->line, b->out);
    else if (has_colon)
        give_default(b, true, second, tpp_shell_slice(b->operation, 2, b->operation.count));
    else if (strchr("-=+?", first) != NULL)
        give_default(b, false, first, tpp_shell_slice(b->operation, 1, b->operation.count));
    else if (strchr("#%/^,", first) != NULL)
        give_edited(b);
    else if (first == ':')
        give_part(b, inside);
    else
        give_unreadable(b, inside);
}

void tpp_shell_expand_braces(struct tpp_shell_script *s, struct tpp_shell_text inside, uint32_t line, bool in_quotes,
                             struct tpp_shell_fields *items)
{
    struct braces b = {.script = s, .line = line, .in_quotes = in_quotes, .out = items};
    char first = tpp_shell_byte(inside, 0);
    bool is_length = first == '#' && inside.count > 1, is_indirect = first == '!' && inside.count > 1;
    size_t end = read_parameter(&b, inside, is_length || is_indirect ? 1 : 0);
    if (tpp_shell_failed(s))
        return;
    if (end == 0 || end > inside.count) {
        b.parameter.name = "";
        give_unreadable(&b, inside);
        return;
    }
    b.operation = tpp_shell_slice(inside, end, inside.count);
    if (is_indirect)
        follow(&b);
    if (is_length)
        give_length(&b);
    else
        give_result(&b, inside);
}
