/* shell_state.c - the variables of a script, and what is left of them after branches that may or may not have run. */
#include "planner/launch/shell_parts.h"

#include <string.h>

enum { MAX_VARIABLES = 4096 };

static struct tpp_shell_value *find(struct tpp_shell_script *s, struct tpp_shell_scope *scope, const char *name)
{
    if (!tpp_shell_step(s, 1 + scope->count / 16))
        return NULL;
    for (size_t i = 0; i < scope->count; i++) {
        if (strcmp(scope->values[i].name, name) == 0)
            return &scope->values[i];
    }
    return NULL;
}

const struct tpp_shell_value *tpp_shell_get(struct tpp_shell_script *s, const char *name)
{
    const struct tpp_shell_value *value = find(s, &s->scope, name);
    return value != NULL && value->is_set ? value : NULL;
}

static struct tpp_shell_value *find_or_add(struct tpp_shell_script *s, const char *name)
{
    struct tpp_shell_value *value = find(s, &s->scope, name);
    if (value != NULL || tpp_shell_failed(s))
        return value;
    if (s->scope.count == MAX_VARIABLES) {
        tpp_shell_fail(s, TPP_E_UNSUPPORTED, 1, "split the script", "the script has more than %d variables",
                       MAX_VARIABLES);
        return NULL;
    }
    size_t length = strlen(name);
    char *copy = tpp_shell_alloc(s, length + 1, 1);
    if (copy == NULL ||
        !tpp_shell_grow(s, &s->scope.values, s->scope.count, &s->scope.capacity, sizeof *s->scope.values))
        return NULL;
    memcpy(copy, name, length);
    value = &s->scope.values[s->scope.count++];
    *value = (struct tpp_shell_value){.name = copy};
    return value;
}

static void set_items(struct tpp_shell_script *s, const char *name, const struct tpp_shell_text *items, size_t count,
                      bool is_array)
{
    struct tpp_shell_value *value = find_or_add(s, name);
    struct tpp_shell_text *copy = tpp_shell_alloc(s, count + 1, sizeof *copy);
    if (value == NULL || copy == NULL)
        return;
    if (count > 0)
        memcpy(copy, items, count * sizeof *items);
    value->is_set = true;
    value->is_array = is_array;
    value->count = count;
    value->items = copy;
}

static bool begins_with(struct tpp_shell_text text, struct tpp_shell_text beginning)
{
    return text.count >= beginning.count && tpp_shell_same(tpp_shell_slice(text, 0, beginning.count), beginning);
}

/* A value that the caller gave is lost, unless the new one begins with it or is not looked at further. */
static void note_replaced(struct tpp_shell_script *s, const char *name, struct tpp_shell_text text)
{
    struct tpp_shell_value *value = find(s, &s->scope, name);
    if (value == NULL || !value->is_given || value->count != 1)
        return;
    value->is_given = false;
    if (!begins_with(text, value->items[0]))
        tpp_shell_add_note(s, TPP_SHELL_REPLACED, tpp_shell_line(text, 0), value->name);
}

void tpp_shell_give(struct tpp_shell_script *s, const char *name, struct tpp_shell_text text)
{
    tpp_shell_set(s, name, text);
    tpp_shell_export(s, name);
    struct tpp_shell_value *value = find(s, &s->scope, name);
    if (value != NULL)
        value->is_given = true;
}

void tpp_shell_set(struct tpp_shell_script *s, const char *name, struct tpp_shell_text text)
{
    note_replaced(s, name, text);
    set_items(s, name, &text, 1, false);
}

void tpp_shell_set_array(struct tpp_shell_script *s, const char *name, const struct tpp_shell_fields *items)
{
    set_items(s, name, items->items, items->count, true);
}

void tpp_shell_unset(struct tpp_shell_script *s, const char *name)
{
    struct tpp_shell_value *value = find_or_add(s, name);
    if (value != NULL) {
        value->is_set = value->is_exported = false;
        value->count = 0;
    }
}

void tpp_shell_export(struct tpp_shell_script *s, const char *name)
{
    struct tpp_shell_value *value = find_or_add(s, name);
    if (value != NULL)
        value->is_exported = true;
}

struct tpp_shell_scope tpp_shell_scope_copy(struct tpp_shell_script *s, const struct tpp_shell_scope *scope)
{
    struct tpp_shell_scope copy = *scope;
    copy.capacity = scope->count + 8;
    copy.values = tpp_shell_step(s, scope->count) ? tpp_shell_alloc(s, copy.capacity, sizeof *copy.values) : NULL;
    if (copy.values == NULL)
        copy.count = copy.capacity = 0;
    else if (scope->count > 0)
        memcpy(copy.values, scope->values, scope->count * sizeof *copy.values);
    return copy;
}

static bool is_same_value(const struct tpp_shell_value *a, const struct tpp_shell_value *b)
{
    if (a->is_set != b->is_set || a->is_array != b->is_array || a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count && a->items != b->items; i++) {
        if (!tpp_shell_same(a->items[i], b->items[i]))
            return false;
    }
    return true;
}

/* True when `value` is `base` with more behind it. */
static bool extends(const struct tpp_shell_value *value, const struct tpp_shell_value *base)
{
    if (!value->is_set || !base->is_set || value->is_array != base->is_array || value->count < base->count)
        return false;
    if (!base->is_array)
        return base->count == 1 && value->count == 1 && begins_with(value->items[0], base->items[0]);
    for (size_t i = 0; i < base->count; i++) {
        if (!tpp_shell_same(value->items[i], base->items[i]))
            return false;
    }
    return true;
}

/* `base` (may be NULL) and behind it something unknown that may be nothing. */
static void set_open(struct tpp_shell_script *s, struct tpp_shell_value *value, const struct tpp_shell_value *base,
                     uint32_t note, uint32_t line)
{
    struct tpp_shell_builder open = {0};
    size_t count = base != NULL && base->is_array ? base->count : 0;
    struct tpp_shell_text *items = tpp_shell_alloc(s, count + 1, sizeof *items);
    if (items == NULL)
        return;
    if (count > 0)
        memcpy(items, base->items, count * sizeof *items);
    if (base != NULL && !base->is_array && base->count == 1)
        tpp_shell_push_text(s, &open, base->items[0], TPP_SHELL_SPLIT);
    tpp_shell_push_unknown(s, &open, note, line, TPP_SHELL_SPLIT);
    items[count] = tpp_shell_text_of(&open);
    value->is_set = true;
    value->is_array = base != NULL ? base->is_array : value->is_array;
    value->count = count + 1;
    value->items = items;
}

static void merge_value(struct tpp_shell_script *s, struct tpp_shell_value *value,
                        const struct tpp_shell_scope *base_scope, const struct tpp_shell_scope *scopes, size_t count,
                        uint32_t line)
{
    struct tpp_shell_scope base_copy = *base_scope;
    const struct tpp_shell_value nothing = {.name = value->name}, *base = find(s, &base_copy, value->name);
    bool is_same = true, is_extended = base != NULL;
    for (size_t i = 0; i < count && !tpp_shell_failed(s); i++) {
        struct tpp_shell_scope scope = scopes[i];
        const struct tpp_shell_value *other = find(s, &scope, value->name);
        other = other != NULL ? other : &nothing;
        is_same = is_same && is_same_value(value, other);
        is_extended = is_extended && extends(other, base);
        value->is_exported = value->is_exported || other->is_exported;
    }
    if (is_same || tpp_shell_failed(s))
        return;
    struct tpp_shell_builder name = {0};
    tpp_shell_push_string(s, &name, "$", line, TPP_SHELL_QUOTED);
    tpp_shell_push_string(s, &name, value->name, line, TPP_SHELL_QUOTED);
    uint32_t note = tpp_shell_add_note(s, TPP_SHELL_UNDECIDED, line, tpp_shell_string(s, tpp_shell_text_of(&name)));
    set_open(s, value, is_extended ? base : NULL, note, line);
}

void tpp_shell_merge(struct tpp_shell_script *s, const struct tpp_shell_scope *base,
                     const struct tpp_shell_scope *scopes, size_t count, uint32_t line)
{
    s->scope = tpp_shell_scope_copy(s, &scopes[0]);
    for (size_t i = 1; i < count; i++) { /* names that only others have */
        for (size_t k = 0; k < scopes[i].count && !tpp_shell_failed(s); k++) {
            if (find(s, &s->scope, scopes[i].values[k].name) == NULL)
                find_or_add(s, scopes[i].values[k].name);
        }
    }
    for (size_t k = 0; k < s->scope.count && !tpp_shell_failed(s); k++)
        merge_value(s, &s->scope.values[k], base, scopes, count, line);
}
