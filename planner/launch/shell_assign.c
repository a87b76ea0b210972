/* shell_assign.c - NAME=value, NAME+=(...), NAME[2]=value. */
#include "planner/launch/shell_parts.h"

enum { MAX_INDEX = 4096 };

/* What is on the left side; returns behind the =, 0 when the word is no assignment. */
static size_t read_left(struct tpp_shell_text word, size_t *name_length, struct tpp_shell_text *subscript,
                        bool *appends)
{
    size_t at = *name_length = tpp_shell_name_length(word, 0);
    *subscript = (struct tpp_shell_text){NULL, 0};
    *appends = false;
    if (at == 0)
        return 0;
    if (tpp_shell_byte(word, at) == '[') {
        size_t begin = ++at;
        while (at < word.count && word.cells[at].byte != ']')
            at++;
        *subscript = tpp_shell_slice(word, begin, at);
        at++;
    }
    *appends = tpp_shell_byte(word, at) == '+';
    at += *appends;
    return tpp_shell_byte(word, at) == '=' && word.cells[at].note == 0 ? at + 1 : 0;
}

bool tpp_shell_is_assignment(struct tpp_shell_text word)
{
    size_t length;
    struct tpp_shell_text subscript;
    bool appends;
    return read_left(word, &length, &subscript, &appends) > 0;
}

static void assign_array(struct tpp_shell_script *s, const char *name, struct tpp_shell_text inside, bool appends)
{
    struct tpp_shell_fields words = {0}, items = {0};
    const struct tpp_shell_value *old = appends ? tpp_shell_get(s, name) : NULL;
    for (size_t i = 0; old != NULL && i < old->count; i++)
        tpp_shell_add_field(s, &items, old->items[i]);
    tpp_shell_parse_array(s, inside, &words);
    for (size_t i = 0; i < words.count && !tpp_shell_failed(s); i++)
        tpp_shell_expand(s, words.items[i], &items);
    tpp_shell_set_array(s, name, &items);
}

static struct tpp_shell_text joined(struct tpp_shell_script *s, const struct tpp_shell_value *old,
                                    struct tpp_shell_text text)
{
    struct tpp_shell_builder both = {0};
    if (old != NULL && old->count > 0)
        tpp_shell_push_text(s, &both, old->items[0], TPP_SHELL_QUOTED);
    tpp_shell_push_text(s, &both, text, TPP_SHELL_QUOTED);
    return tpp_shell_text_of(&both);
}

static void assign_item(struct tpp_shell_script *s, const char *name, struct tpp_shell_text subscript,
                        struct tpp_shell_text text, uint32_t line)
{
    int64_t index;
    uint32_t note;
    const struct tpp_shell_value *old = tpp_shell_get(s, name);
    struct tpp_shell_fields items = {0};
    bool is_known = tpp_shell_arithmetic(s, subscript, line, &index, &note) && index >= 0 && index < MAX_INDEX;
    for (size_t i = 0; old != NULL && i < old->count; i++)
        tpp_shell_add_field(s, &items, is_known && i == (size_t)index ? text : old->items[i]);
    while (is_known && items.count < (size_t)index && !tpp_shell_failed(s))
        tpp_shell_add_field(s, &items, (struct tpp_shell_text){NULL, 0});
    if (!is_known || items.count == (size_t)index)
        tpp_shell_add_field(s, &items, text);
    tpp_shell_set_array(s, name, &items);
}

const char *tpp_shell_assign(struct tpp_shell_script *s, struct tpp_shell_text word)
{
    size_t length;
    struct tpp_shell_text subscript;
    bool appends;
    size_t at = read_left(word, &length, &subscript, &appends);
    const char *name = tpp_shell_string(s, tpp_shell_slice(word, 0, length));
    struct tpp_shell_text value = tpp_shell_slice(word, at, word.count);
    uint32_t line = tpp_shell_line(word, 1);
    if (value.count >= 2 && value.cells[0].byte == '(' && value.cells[0].note == 0) {
        assign_array(s, name, tpp_shell_slice(value, 1, value.count - 1), appends);
        return name;
    }
    value = tpp_shell_expand_one(s, value);
    const struct tpp_shell_value *old = tpp_shell_get(s, name);
    if (subscript.count > 0)
        assign_item(s, name, subscript, value, line);
    else
        tpp_shell_set(s, name, appends ? joined(s, old, value) : value);
    return name;
}
