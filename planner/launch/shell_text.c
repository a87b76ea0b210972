/* shell_text.c - characters that know their line, and the limits of a reader. */
#include "planner/launch/shell_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool tpp_shell_failed(const struct tpp_shell_script *s)
{
    return s->code != TPP_OK;
}

void tpp_shell_fail(struct tpp_shell_script *s, enum tpp_code code, uint32_t line, const char *hint, const char *format,
                    ...)
{
    char where[256], message[256];
    va_list arguments;
    if (tpp_shell_failed(s))
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    snprintf(where, sizeof where, "%.200s:%u", s->file, line);
    s->code = tpp_fail(&s->error, code, where, hint, "%s", message);
}

void *tpp_shell_alloc(struct tpp_shell_script *s, size_t count, size_t size)
{
    if (tpp_shell_failed(s))
        return NULL;
    if (count > s->bytes_left / size) {
        tpp_shell_fail(s, TPP_E_UNSUPPORTED, 1, "split the script", "the script needs too much memory to be read");
        return NULL;
    }
    s->bytes_left -= count * size;
    void *piece = tpp_arena_alloc_array(s->arena, count, size);
    if (piece == NULL)
        tpp_shell_fail(s, TPP_E_MEMORY, 1, NULL, "out of memory while reading the script");
    return piece;
}

bool tpp_shell_grow(struct tpp_shell_script *s, void *array, size_t count, size_t *capacity, size_t size)
{
    void **items = array;
    if (tpp_shell_failed(s))
        return false;
    if (count < *capacity)
        return true;
    size_t larger = *capacity < 8 ? 8 : 2 * *capacity;
    void *copy = tpp_shell_alloc(s, larger, size);
    if (copy == NULL)
        return false;
    if (count > 0)
        memcpy(copy, *items, count * size);
    *items = copy;
    *capacity = larger;
    return true;
}

bool tpp_shell_step(struct tpp_shell_script *s, size_t count)
{
    if (count < s->steps_left) {
        s->steps_left -= count;
        return !tpp_shell_failed(s);
    }
    s->steps_left = 0;
    tpp_shell_fail(s, TPP_E_UNSUPPORTED, 1, "split the script, or give the values its loops compute with --set",
                   "the script takes too many steps to be read");
    return false;
}

bool tpp_shell_enter(struct tpp_shell_script *s, uint32_t line)
{
    if (++s->depth > TPP_SHELL_MAX_DEPTH)
        tpp_shell_fail(s, TPP_E_UNSUPPORTED, line, "put less of it inside each other",
                       "commands or expansions are nested more than %d deep", TPP_SHELL_MAX_DEPTH);
    return !tpp_shell_failed(s);
}

void tpp_shell_leave(struct tpp_shell_script *s)
{
    s->depth--;
}

uint32_t tpp_shell_add_note(struct tpp_shell_script *s, enum tpp_shell_note_kind kind, uint32_t line, const char *text)
{
    if (s->num_notes > 0) { /* the same place again, in a loop */
        const struct tpp_shell_note *last = &s->notes[s->num_notes - 1];
        if (last->kind == kind && last->line == line && strcmp(last->text, text) == 0)
            return (uint32_t)s->num_notes;
    }
    if (!tpp_shell_grow(s, &s->notes, s->num_notes, &s->notes_capacity, sizeof *s->notes))
        return 0;
    size_t length = strlen(text);
    char *copy = tpp_shell_alloc(s, length + 1, 1);
    if (copy == NULL)
        return 0;
    memcpy(copy, text, length);
    s->notes[s->num_notes] = (struct tpp_shell_note){kind, line, copy};
    return (uint32_t)++s->num_notes;
}

void tpp_shell_push(struct tpp_shell_script *s, struct tpp_shell_builder *builder, struct tpp_shell_cell cell)
{
    if (tpp_shell_grow(s, &builder->cells, builder->count, &builder->capacity, sizeof cell))
        builder->cells[builder->count++] = cell;
}

void tpp_shell_push_text(struct tpp_shell_script *s, struct tpp_shell_builder *builder, struct tpp_shell_text text,
                         enum tpp_shell_kind kind)
{
    for (size_t i = 0; i < text.count && tpp_shell_step(s, 1); i++) {
        struct tpp_shell_cell cell = text.cells[i];
        cell.kind = (uint8_t)kind;
        tpp_shell_push(s, builder, cell);
    }
}

void tpp_shell_push_string(struct tpp_shell_script *s, struct tpp_shell_builder *builder, const char *string,
                           uint32_t line, enum tpp_shell_kind kind)
{
    for (; *string != '\0' && !tpp_shell_failed(s); string++)
        tpp_shell_push(s, builder, (struct tpp_shell_cell){line, 0, *string, (uint8_t)kind});
}

void tpp_shell_push_unknown(struct tpp_shell_script *s, struct tpp_shell_builder *builder, uint32_t note, uint32_t line,
                            enum tpp_shell_kind kind)
{
    tpp_shell_push(s, builder, (struct tpp_shell_cell){line, note, '?', (uint8_t)kind});
}

struct tpp_shell_text tpp_shell_text_of(const struct tpp_shell_builder *builder)
{
    return (struct tpp_shell_text){builder->cells, builder->count};
}

struct tpp_shell_text tpp_shell_from_string(struct tpp_shell_script *s, const char *string, uint32_t line)
{
    struct tpp_shell_builder builder = {0};
    tpp_shell_push_string(s, &builder, string, line, TPP_SHELL_QUOTED);
    return tpp_shell_text_of(&builder);
}

struct tpp_shell_text tpp_shell_unknown(struct tpp_shell_script *s, uint32_t note, uint32_t line)
{
    struct tpp_shell_builder builder = {0};
    tpp_shell_push_unknown(s, &builder, note, line, TPP_SHELL_QUOTED);
    return tpp_shell_text_of(&builder);
}

struct tpp_shell_text tpp_shell_slice(struct tpp_shell_text text, size_t begin, size_t end)
{
    end = end > text.count ? text.count : end;
    begin = begin > end ? end : begin;
    return (struct tpp_shell_text){begin == end ? NULL : text.cells + begin, end - begin};
}

void tpp_shell_add_field(struct tpp_shell_script *s, struct tpp_shell_fields *fields, struct tpp_shell_text text)
{
    if (tpp_shell_step(s, 1) && tpp_shell_grow(s, &fields->items, fields->count, &fields->capacity, sizeof text))
        fields->items[fields->count++] = text;
}

uint32_t tpp_shell_first_note(struct tpp_shell_text text)
{
    for (size_t i = 0; i < text.count; i++) {
        if (text.cells[i].note != 0)
            return text.cells[i].note;
    }
    return 0;
}

bool tpp_shell_is_known(struct tpp_shell_text text)
{
    return tpp_shell_first_note(text) == 0;
}

const char *tpp_shell_string(struct tpp_shell_script *s, struct tpp_shell_text text)
{
    size_t length = 0, at = 0;
    for (size_t i = 0; i < text.count; i++)
        length += text.cells[i].note != 0 ? strlen(s->notes[text.cells[i].note - 1].text) : 1;
    char *string = tpp_shell_step(s, length) ? tpp_shell_alloc(s, length + 1, 1) : NULL;
    if (string == NULL)
        return "";
    for (size_t i = 0; i < text.count; i++) {
        if (text.cells[i].note == 0) {
            string[at++] = text.cells[i].byte;
            continue;
        }
        const char *written = s->notes[text.cells[i].note - 1].text;
        memcpy(string + at, written, strlen(written));
        at += strlen(written);
    }
    return string;
}

bool tpp_shell_equals(struct tpp_shell_text text, const char *string)
{
    size_t length = strlen(string);
    if (text.count != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text.cells[i].note != 0 || text.cells[i].byte != string[i])
            return false;
    }
    return true;
}

bool tpp_shell_same(struct tpp_shell_text a, struct tpp_shell_text b)
{
    if (a.count != b.count)
        return false;
    for (size_t i = 0; i < a.count && a.cells != b.cells; i++) {
        if (a.cells[i].note != b.cells[i].note || a.cells[i].byte != b.cells[i].byte)
            return false;
    }
    return true;
}

uint32_t tpp_shell_line(struct tpp_shell_text text, uint32_t otherwise)
{
    return text.count > 0 ? text.cells[0].line : otherwise;
}

static bool is_name_byte(char c, bool is_first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!is_first && c >= '0' && c <= '9');
}

size_t tpp_shell_name_length(struct tpp_shell_text text, size_t at)
{
    size_t length = 0;
    while (at + length < text.count && text.cells[at + length].note == 0 &&
           is_name_byte(text.cells[at + length].byte, length == 0))
        length++;
    return length;
}

struct tpp_shell_word tpp_shell_word_of(struct tpp_shell_script *s, struct tpp_shell_text text)
{
    struct tpp_shell_word word = {.text = tpp_shell_string(s, text), .line = tpp_shell_line(text, 0)};
    word.note = tpp_shell_first_note(text);
    for (size_t i = 0; i < text.count; i++)
        word.may_vanish = word.may_vanish || (text.cells[i].note != 0 && text.cells[i].kind == TPP_SHELL_SPLIT);
    return word;
}

struct tpp_shell_words tpp_shell_words_of(struct tpp_shell_script *s, const struct tpp_shell_fields *fields)
{
    struct tpp_shell_word *words = tpp_shell_alloc(s, fields->count + 1, sizeof *words);
    if (words == NULL)
        return (struct tpp_shell_words){NULL, 0};
    for (size_t i = 0; i < fields->count; i++)
        words[i] = tpp_shell_word_of(s, fields->items[i]);
    return (struct tpp_shell_words){words, fields->count};
}
