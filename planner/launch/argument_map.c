/* argument_map.c - see argument_map.h. */
#include "planner/launch/argument_map.h"

#include <string.h>

static bool is_needed(const struct tpp_argument_map *map, const char *name)
{
    for (const char *const *needed = map->needed; *needed != NULL; needed++) {
        if (strcmp(*needed, name) == 0)
            return true;
    }
    return false;
}

static unsigned count_words(const char *words)
{
    unsigned count = 1;
    for (; *words != '\0'; words++)
        count += *words == '|';
    return count;
}

unsigned tpp_word_index(const char *words, const char *word)
{
    for (unsigned index = 0;; index++) {
        size_t length = strcspn(words, "|");
        if (strlen(word) == length && memcmp(words, word, length) == 0)
            return index;
        if (words[length] == '\0')
            return index + 1;
        words += length + 1;
    }
}

static unsigned bits_of(const struct tpp_argument *a, const char *words)
{
    unsigned bits = 0;
    for (size_t i = 0; i < a->num_values; i++)
        bits |= 1u << tpp_word_index(words, a->values[i].text);
    return bits;
}

static void set_field(const struct tpp_argument *a, const struct tpp_argument_mapping *mapping,
                      const struct tpp_argument_map *map, struct tpp_megatron_settings *s)
{
    void *field = (char *)s + mapping->offset;
    const char *value = a->num_values > 0 ? a->values[0].text : "";
    if (a->is_null && mapping->target == TPP_SET_NUMBER)
        *(int64_t *)field = TPP_RULE_UNSET;
    if (a->is_null && mapping->target == TPP_SET_SWITCH)
        *(bool *)field = false;
    if (a->is_null && mapping->target == TPP_SET_CHOICE)
        *(unsigned *)field = 0;
    if (a->is_null && mapping->target != TPP_SET_SPECIAL)
        return;
    switch (mapping->target) {
    case TPP_SET_NUMBER:
        tpp_argument_integer(value, field);
        break;
    case TPP_SET_DOUBLE:
        tpp_argument_number(value, field);
        break;
    case TPP_SET_TRUE:
    case TPP_SET_GIVEN:
        *(bool *)field = true;
        break;
    case TPP_SET_FALSE:
        *(bool *)field = false;
        break;
    case TPP_SET_SWITCH:
        *(bool *)field = tpp_word_index("false|False|0|no", value) == 4;
        break;
    case TPP_SET_CHOICE:
        if (tpp_word_index(mapping->words, value) < count_words(mapping->words))
            *(unsigned *)field = tpp_word_index(mapping->words, value); /* enums of this project are unsigned */
        break;
    case TPP_SET_VARIANT:
        *(bool *)field = tpp_word_index(mapping->words, value) > 0;
        break;
    case TPP_ADD_VARIANT:
        *(bool *)field = *(bool *)field || tpp_word_index(mapping->words, value) > 0;
        break;
    case TPP_SET_BITS:
        *(unsigned *)field = bits_of(a, mapping->words);
        break;
    case TPP_COUNT_DATA:
        s->rules.num_data_sources++;
        break;
    case TPP_SET_SPECIAL:
        map->special(a, s);
        break;
    }
}

static const struct tpp_argument_mapping *mapping_of(const struct tpp_argument_map *map, const char *name)
{
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->mappings[i].name, name) == 0)
            return &map->mappings[i];
    }
    return NULL;
}

void tpp_arguments_map(const struct tpp_arguments *arguments, const struct tpp_shell_script *script,
                       const struct tpp_argument_map *map, struct tpp_megatron_settings *settings,
                       struct tpp_problems *problems)
{
    for (size_t i = 0; i < arguments->count; i++) {
        const struct tpp_argument *argument = &arguments->items[i];
        const char *name = argument->option->name;
        const struct tpp_argument_mapping *mapping = mapping_of(map, name);
        bool needed = is_needed(map, name), is_last = tpp_argument_find(arguments, name) == argument;
        for (size_t k = 0; k < argument->num_values; k++)
            tpp_argument_explain(script, &argument->values[k], name, needed, problems);
        settings->is_incomplete = settings->is_incomplete || (!argument->is_known && needed);
        bool needs_value = mapping != NULL && mapping->target != TPP_SET_GIVEN && mapping->target != TPP_COUNT_DATA;
        if (mapping != NULL && is_last && (argument->is_known || !needs_value))
            set_field(argument, mapping, map, settings);
    }
}
