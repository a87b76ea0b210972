/* yaml_reader.c - YAML 1.1 (and JSON, which is part of it) with libyaml: what a scalar is follows the safe loader of
 * PyYAML, which the frameworks use. */
#include "planner/launch/config/builder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct level {
    size_t entry; /* of the mapping or list */
    size_t path_length;
    bool is_list, has_key;
    uint32_t num_items;
};

struct reader {
    struct tpp_config *config;
    struct tpp_error *err;
    struct tpp_config_path path;
    struct level levels[TPP_CONFIG_MAX_DEPTH];
    unsigned depth;
    bool has_root;
};

static uint32_t line_of(yaml_mark_t mark)
{
    return (uint32_t)mark.line + 1;
}

static enum tpp_code fail(struct reader *r, enum tpp_code code, yaml_mark_t mark, const char *hint, const char *what)
{
    return tpp_config_fail(r->config, code, line_of(mark), (uint32_t)mark.column + 1, hint, r->err, "%s", what);
}

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(*words, text) == 0)
            return true;
    }
    return false;
}

/* The resolver of YAML 1.1. */
static enum tpp_config_kind resolve(const char *text, bool is_plain, char *number, size_t size)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const truths[] = {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", NULL};
    static const char *const lies[] = {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", NULL};
    if (!is_plain)
        return TPP_CONFIG_TEXT;
    if (is_one_of(text, nulls))
        return TPP_CONFIG_NULL;
    if (is_one_of(text, truths) || is_one_of(text, lies)) {
        snprintf(number, size, "%s", is_one_of(text, truths) ? "true" : "false");
        return TPP_CONFIG_BOOLEAN;
    }
    if (tpp_config_integer(text, false, number))
        return TPP_CONFIG_INTEGER;
    return tpp_config_number(text, true, number, size) ? TPP_CONFIG_NUMBER : TPP_CONFIG_TEXT;
}

/* Sets the path to where the next value goes. In a mapping a scalar may be the key: then *is_key is set. */
static enum tpp_code next_place(struct reader *r, const char *scalar, yaml_mark_t mark, bool *is_key)
{
    *is_key = false;
    if (r->depth == 0) {
        if (r->has_root)
            return fail(r, TPP_E_SYNTAX, mark, NULL, "a second value at the top");
        r->has_root = true;
        return TPP_OK;
    }
    struct level *level = &r->levels[r->depth - 1];
    bool fits = true;
    if (level->is_list) {
        r->path.length = level->path_length;
        r->path.text[r->path.length] = '\0';
        fits = tpp_config_path_index(&r->path, level->num_items++);
    } else if (level->has_key) {
        level->has_key = false;
        level->num_items++;
    } else if (scalar != NULL) {
        r->path.length = level->path_length;
        r->path.text[r->path.length] = '\0';
        fits = tpp_config_path_key(&r->path, scalar);
        level->has_key = *is_key = true;
    } else {
        return fail(r, TPP_E_UNSUPPORTED, mark, "write the key as plain text", "a key that is no text");
    }
    return fits ? TPP_OK : fail(r, TPP_E_UNSUPPORTED, mark, "shorten the names", "a path of keys that is too long");
}

static enum tpp_code read_scalar(struct reader *r, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    char number[64];
    bool is_key;
    if (event->data.scalar.anchor != NULL)
        return fail(r, TPP_E_UNSUPPORTED, event->start_mark, "write the value out", "anchors are not read");
    if (event->data.scalar.tag != NULL)
        return fail(r, TPP_E_UNSUPPORTED, event->start_mark, "write the value without a tag", "tags are not read");
    if (strlen(text) != event->data.scalar.length)
        return fail(r, TPP_E_SYNTAX, event->start_mark, NULL, "a byte of value 0 in a text");
    enum tpp_code code = next_place(r, text, event->start_mark, &is_key);
    if (code != TPP_OK || is_key)
        return code;
    if (r->depth == 0)
        return fail(r, TPP_E_SYNTAX, event->start_mark, "give a file of keys and values", "the file is one value");
    enum tpp_config_kind kind =
        resolve(text, event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE, number, sizeof number);
    bool is_own = kind == TPP_CONFIG_BOOLEAN || kind == TPP_CONFIG_INTEGER || kind == TPP_CONFIG_NUMBER;
    return tpp_config_add(r->config, r->path.text, kind, is_own ? number : text, line_of(event->start_mark), NULL,
                          r->err);
}

static enum tpp_code begin(struct reader *r, const yaml_event_t *event, bool is_list)
{
    bool is_key;
    const yaml_char_t *anchor = is_list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor;
    const yaml_char_t *tag = is_list ? event->data.sequence_start.tag : event->data.mapping_start.tag;
    if (anchor != NULL || tag != NULL)
        return fail(r, TPP_E_UNSUPPORTED, event->start_mark, "write the values out", "anchors and tags are not read");
    if (r->depth == TPP_CONFIG_MAX_DEPTH)
        return fail(r, TPP_E_UNSUPPORTED, event->start_mark, NULL, "nested too deep");
    enum tpp_code code = next_place(r, NULL, event->start_mark, &is_key);
    if (code != TPP_OK)
        return code;
    struct level *level = &r->levels[r->depth++];
    *level = (struct level){.path_length = r->path.length, .is_list = is_list};
    return tpp_config_add(r->config, r->path.text, is_list ? TPP_CONFIG_LIST : TPP_CONFIG_TABLE, "",
                          line_of(event->start_mark), &level->entry, r->err);
}

static void end(struct reader *r)
{
    const struct level *level = &r->levels[--r->depth];
    r->config->entries[level->entry].num_items = level->num_items;
}

static enum tpp_code read_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return begin(r, event, event->type == YAML_SEQUENCE_START_EVENT);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        end(r);
        return TPP_OK;
    case YAML_ALIAS_EVENT:
        return fail(r, TPP_E_UNSUPPORTED, event->start_mark, "write the value out", "aliases are not read");
    case YAML_DOCUMENT_START_EVENT:
        return r->has_root
                   ? fail(r, TPP_E_UNSUPPORTED, event->start_mark, "give one of them", "several documents in one file")
                   : TPP_OK;
    default:
        return TPP_OK;
    }
}

static enum tpp_code fail_to_parse(struct reader *r, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return tpp_fail(r->err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    return tpp_config_fail(r->config, TPP_E_SYNTAX, line_of(parser->problem_mark),
                           (uint32_t)parser->problem_mark.column + 1, "see that it is YAML", r->err, "no YAML: %s",
                           parser->problem != NULL ? parser->problem : "the text cannot be read");
}

enum tpp_code tpp_config_read_yaml(struct tpp_config *config, const char *text, size_t length, struct tpp_error *err)
{
    struct reader r = {.config = config, .err = err};
    yaml_parser_t parser;
    enum tpp_code code = TPP_OK;
    bool is_done = false;
    if (!yaml_parser_initialize(&parser))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    while (code == TPP_OK && !is_done) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            code = fail_to_parse(&r, &parser);
            break;
        }
        code = read_event(&r, &event);
        is_done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return code;
}
