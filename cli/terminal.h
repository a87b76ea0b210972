/* terminal.h - text that is safe and fits on a terminal. */
#ifndef TPP_CLI_TERMINAL_H
#define TPP_CLI_TERMINAL_H

#include "costmodel/base/text.h"

#include <stdbool.h>
#include <stddef.h>

/* Appends text that came from a file or a command line: control characters and bytes that are not UTF-8 become '?', so
 * that a name cannot move the cursor or forge a line. */
void tpp_terminal_append(struct tpp_text *out, const char *text);
/* Appends words in lines of at most `width` columns; every line after the first begins with `indent` spaces. `column`
 * is where this line is already. Ends with a newline. Safe like tpp_terminal_append. */
void tpp_terminal_append_wrapped(struct tpp_text *out, const char *text, unsigned column, unsigned indent,
                                 unsigned width);

#define TPP_TABLE_MAX_COLUMNS 24

struct tpp_table_column {
    const char *heading;
    bool is_left;      /* left-aligned; numbers are right-aligned */
    unsigned priority; /* 0: always shown; the highest goes first when the table is too wide */
};

struct tpp_table; /* opaque */

/* The caller owns the result (tpp_table_free); NULL when out of memory. `columns` is borrowed. */
struct tpp_table *tpp_table_new(const struct tpp_table_column *columns, size_t num_columns);
void tpp_table_free(struct tpp_table *table); /* NULL is fine */
/* The next cell, row by row. The text is made safe. A failed allocation is reported by tpp_table_append. */
void tpp_table_cell(struct tpp_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends the table in at most `width` columns: columns go by priority until it fits, and the last line says which.
 * False when an allocation has failed or a row is not complete. */
bool tpp_table_append(const struct tpp_table *table, unsigned width, struct tpp_text *out);

#endif
