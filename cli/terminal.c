#include "cli/terminal.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMN_GAP 2

/* The code point of a valid UTF-8 character of `length` bytes. */
static uint32_t decode(const unsigned char *bytes, size_t length)
{
    uint32_t code_point = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++)
        code_point = code_point << 6 | (bytes[i] & 0x3f);
    return code_point;
}

/* C0 and C1 controls, and the marks that reorder or hide text. */
static bool is_unsafe(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point < 0xa0) ||
           (code_point >= 0x200b && code_point <= 0x200f) || (code_point >= 0x2028 && code_point <= 0x202e) ||
           (code_point >= 0x2066 && code_point <= 0x2069) || code_point == 0xfeff;
}

/* Appends `length` bytes made safe; returns the number of characters. */
static unsigned append_safe(struct tpp_text *out, const char *text, size_t length)
{
    unsigned columns = 0;
    for (size_t i = 0; i < length; columns++) {
        const size_t used = tpp_utf8_length(text + i, length - i);
        if (used == 0 || is_unsafe(decode((const unsigned char *)text + i, used)))
            tpp_text_append(out, "?");
        else
            tpp_text_append_bytes(out, text + i, used);
        i += used > 0 ? used : 1;
    }
    return columns;
}

void tpp_terminal_append(struct tpp_text *out, const char *text)
{
    append_safe(out, text, strlen(text));
}

static unsigned count_characters(const char *text)
{
    unsigned count = 0;
    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

void tpp_terminal_append_wrapped(struct tpp_text *out, const char *text, unsigned column, unsigned indent,
                                 unsigned width)
{
    bool is_first = true;
    for (const char *word = text + strspn(text, " "); *word != '\0';) {
        const size_t length = strcspn(word, " ");
        if (!is_first && column + 1 + length > width) {
            tpp_text_format(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!is_first) {
            tpp_text_append(out, " ");
            column++;
        }
        column += append_safe(out, word, length);
        is_first = false;
        word += length;
        word += strspn(word, " ");
    }
    tpp_text_append(out, "\n");
}

struct tpp_table {
    const struct tpp_table_column *columns;
    size_t num_columns;
    char **cells;
    size_t num_cells, capacity;
    bool failed;
};

struct tpp_table *tpp_table_new(const struct tpp_table_column *columns, size_t num_columns)
{
    struct tpp_table *table = num_columns <= TPP_TABLE_MAX_COLUMNS ? calloc(1, sizeof *table) : NULL;
    if (table != NULL) {
        table->columns = columns;
        table->num_columns = num_columns;
    }
    return table;
}

void tpp_table_free(struct tpp_table *table)
{
    if (table == NULL)
        return;
    for (size_t i = 0; i < table->num_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table);
}

static bool make_room(struct tpp_table *table)
{
    if (table->num_cells < table->capacity)
        return true;
    const size_t capacity = table->capacity == 0 ? 64 : 2 * table->capacity;
    char **cells = realloc(table->cells, capacity * sizeof *cells);
    if (cells == NULL)
        return false;
    table->cells = cells;
    table->capacity = capacity;
    return true;
}

void tpp_table_cell(struct tpp_table *table, const char *format, ...)
{
    char raw[256];
    va_list list;
    va_start(list, format);
    vsnprintf(raw, sizeof raw, format, list);
    va_end(list);
    struct tpp_text safe;
    tpp_text_init(&safe);
    tpp_terminal_append(&safe, raw);
    char *cell = tpp_text_failed(&safe) ? NULL : strdup(tpp_text_get(&safe));
    tpp_text_release(&safe);
    if (cell == NULL || !make_room(table)) {
        free(cell);
        table->failed = true;
        return;
    }
    table->cells[table->num_cells++] = cell;
}

static void measure(const struct tpp_table *table, unsigned *widths)
{
    for (size_t column = 0; column < table->num_columns; column++)
        widths[column] = count_characters(table->columns[column].heading);
    for (size_t i = 0; i < table->num_cells; i++) {
        const unsigned width = count_characters(table->cells[i]);
        if (width > widths[i % table->num_columns])
            widths[i % table->num_columns] = width;
    }
}

/* Hides columns by priority until the rest fits; priority 0 always stays. */
static void choose_columns(const struct tpp_table *table, const unsigned *widths, unsigned width, bool *is_shown)
{
    unsigned total = 0;
    for (size_t column = 0; column < table->num_columns; column++) {
        is_shown[column] = true;
        total += widths[column] + (column > 0 ? COLUMN_GAP : 0);
    }
    while (total > width) {
        size_t victim = table->num_columns;
        for (size_t column = 0; column < table->num_columns; column++) {
            const unsigned priority = table->columns[column].priority;
            if (is_shown[column] && priority > 0 &&
                (victim == table->num_columns || priority >= table->columns[victim].priority))
                victim = column;
        }
        if (victim == table->num_columns)
            return;
        is_shown[victim] = false;
        total -= widths[victim] + COLUMN_GAP;
    }
}

static void append_line(const struct tpp_table *table, const unsigned *widths, const bool *is_shown,
                        const char *const *cells, struct tpp_text *out)
{
    unsigned owed = 0; /* spaces before the next text: a line does not end in spaces */
    for (size_t column = 0; column < table->num_columns; column++) {
        if (!is_shown[column])
            continue;
        const char *text = cells != NULL ? cells[column] : table->columns[column].heading;
        const unsigned padding = widths[column] - count_characters(text);
        owed += table->columns[column].is_left ? 0 : padding;
        if (text[0] != '\0') {
            tpp_text_format(out, "%*s%s", (int)owed, "", text);
            owed = 0;
        }
        owed += COLUMN_GAP + (table->columns[column].is_left ? padding : 0);
    }
    tpp_text_append(out, "\n");
}

static void append_hidden(const struct tpp_table *table, const bool *is_shown, struct tpp_text *out)
{
    const char *separator = "(too narrow for: ";
    for (size_t column = 0; column < table->num_columns; column++) {
        if (!is_shown[column]) {
            tpp_text_format(out, "%s%s", separator, table->columns[column].heading);
            separator = ", ";
        }
    }
    if (separator[0] == ',')
        tpp_text_append(out, ")\n");
}

bool tpp_table_append(const struct tpp_table *table, unsigned width, struct tpp_text *out)
{
    unsigned widths[TPP_TABLE_MAX_COLUMNS];
    bool is_shown[TPP_TABLE_MAX_COLUMNS];
    if (table->failed || table->num_cells % table->num_columns != 0)
        return false;
    measure(table, widths);
    choose_columns(table, widths, width, is_shown);
    append_line(table, widths, is_shown, NULL, out);
    for (size_t i = 0; i < table->num_cells; i += table->num_columns)
        append_line(table, widths, is_shown, (const char *const *)table->cells + i, out);
    append_hidden(table, is_shown, out);
    return true;
}
