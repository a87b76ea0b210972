/* csv.h - one row of a table of published measurements, by the names of its columns. */
#ifndef TPP_CALIBRATE_FIT_CSV_H
#define TPP_CALIBRATE_FIT_CSV_H

#include "calibrate/fit/import.h"
#include "calibrate/fit/lines.h"

enum { TPP_CSV_MAX_COLUMNS = 32 };

struct tpp_csv {
    char header[TPP_LINE_SIZE], line[TPP_LINE_SIZE]; /* cut up: names and cells point into them */
    char *names[TPP_CSV_MAX_COLUMNS], *cells[TPP_CSV_MAX_COLUMNS];
    size_t num_columns, num_cells;
    char comments[TPP_LINE_SIZE]; /* the lines in front of the header, joined */
    char device[64];              /* of a comment "GPU: ...", or "" */
};

/* The cell of that column; "" when there is none. */
const char *tpp_csv_cell(const struct tpp_csv *table, const char *name);
/* The number in it; false when it is empty or none. */
bool tpp_csv_number(const struct tpp_csv *table, const char *name, double *value);
/* The same, at least 1 and whole below 2^53: a size. */
bool tpp_csv_size(const struct tpp_csv *table, const char *name, double *value);
/* time_us or time_ms in seconds, above 0. */
bool tpp_csv_seconds(const struct tpp_csv *table, double *seconds);
bool tpp_csv_has(const struct tpp_csv *table, const char *name);
/* The comments contain that word, without regard to case. */
bool tpp_csv_says(const struct tpp_csv *table, const char *word);

enum tpp_csv_row {
    TPP_CSV_ROW,
    TPP_CSV_BROKEN, /* a cell is missing or no number */
    TPP_CSV_UNUSED, /* whole, but not a measurement of one shape (a best-of figure, a host copy), or not there */
};

/* A kind of table: what columns it has, and how a row of it becomes a sample. */
struct tpp_csv_kind {
    const char *columns[8]; /* all of them; NULL at the end */
    enum tpp_csv_row (*read)(const struct tpp_csv *table, struct tpp_sample *sample);
    /* The second measurement of a row that holds two; NULL: it holds one. */
    enum tpp_csv_row (*read_second)(const struct tpp_csv *table, struct tpp_sample *sample);
};

/* The first kind whose columns are all there; NULL when none is. */
const struct tpp_csv_kind *tpp_csv_kind_find(const struct tpp_csv *table);

#endif
