/* Tables of published measurements: comment lines, a line of column names, rows of cells with commas between. */
#include "calibrate/fit/csv.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *tpp_csv_cell(const struct tpp_csv *table, const char *name)
{
    for (size_t i = 0; i < table->num_columns && i < table->num_cells; i++) {
        if (strcmp(table->names[i], name) == 0) {
            return table->cells[i];
        }
    }
    return "";
}

bool tpp_csv_has(const struct tpp_csv *table, const char *name)
{
    for (size_t i = 0; i < table->num_columns; i++) {
        if (strcmp(table->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

bool tpp_csv_number(const struct tpp_csv *table, const char *name, double *value)
{
    return tpp_word_number(tpp_csv_cell(table, name), value, NULL);
}

bool tpp_csv_size(const struct tpp_csv *table, const char *name, double *value)
{
    return tpp_csv_number(table, name, value) && *value >= 1 && *value < 0x1p53 && *value == floor(*value);
}

/* At least what samples files may say; what takes days is a job. */
static bool is_measured_seconds(double seconds)
{
    return seconds >= 1e-12 && seconds < 1e6;
}

bool tpp_csv_seconds(const struct tpp_csv *table, double *seconds)
{
    if (tpp_csv_number(table, "time_us", seconds)) {
        *seconds /= 1e6;
    } else if (tpp_csv_number(table, "time_ms", seconds)) {
        *seconds /= 1e3;
    } else {
        return false;
    }
    return is_measured_seconds(*seconds);
}

bool tpp_csv_says(const struct tpp_csv *table, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = table->comments; *p; p++) {
        size_t i = 0;
        while (i < length && tolower((unsigned char)p[i]) == tolower((unsigned char)word[i])) {
            i++;
        }
        if (i == length) {
            return true;
        }
    }
    return false;
}

/* Cuts at commas; a cell in double quotes may hold some. */
static size_t split(char *line, char **cells)
{
    size_t count = 0;
    for (char *p = line; p && count < TPP_CSV_MAX_COLUMNS; count++) {
        while (*p == ' ') {
            p++;
        }
        char *quote = *p == '"' ? strchr(p + 1, '"') : NULL;
        cells[count] = quote ? p + 1 : p;
        char *comma = strchr(quote ? quote : p, ',');
        if (quote) {
            *quote = ' ';
        }
        char *end = comma ? comma : p + strlen(p);
        if (comma) {
            *comma = '\0';
        }
        while (end > cells[count] && end[-1] == ' ') {
            *--end = '\0';
        }
        p = comma ? comma + 1 : NULL;
    }
    return count;
}

/* Keeps a comment, and the device that "# GPU: NVIDIA A100-SXM4-80GB; ..." names. */
static void take_comment(struct tpp_csv *table, const char *line)
{
    const size_t used = strlen(table->comments);
    snprintf(table->comments + used, sizeof table->comments - used, "%s ", line);
    const char *gpu = strstr(line, "GPU: ");
    if (gpu && !table->device[0]) {
        snprintf(table->device, sizeof table->device, "%.*s", (int)strcspn(gpu + 5, ";,("), gpu + 5);
        for (size_t length = strlen(table->device); length > 0 && table->device[length - 1] == ' ';) {
            table->device[--length] = '\0';
        }
    }
}

/* Reads to the header. False at the end of the text. */
static bool read_header(struct tpp_csv *table, struct tpp_lines *lines)
{
    const char *start;
    size_t length;
    while (tpp_lines_next(lines, &start, &length)) {
        tpp_line_copy(table->header, start, length);
        const char *first = table->header + strspn(table->header, " ");
        if (*first == '#') {
            take_comment(table, first);
        } else if (*first) {
            table->num_columns = split(table->header, table->names);
            return true;
        }
    }
    return false;
}

/* A time, or a rate without one, of a size that something measured has: what follows from it stays finite. */
static bool is_measurement(const struct tpp_sample *sample)
{
    static const double greatest = 1e18; /* bytes or FLOP a second */
    double rate = 0;
    if (sample->kind == TPP_SAMPLE_ATTENTION) {
        rate = sample->attention.flops_per_second;
    } else if (sample->kind == TPP_SAMPLE_MEMORY_BOUND) {
        rate = sample->memory.bytes_per_second;
    } else if (sample->kind == TPP_SAMPLE_COLLECTIVE && sample->seconds == 0) {
        rate = sample->collective.bus_bytes_per_second;
    }
    return rate > 0 ? rate <= greatest : is_measured_seconds(sample->seconds);
}

/* One measurement of a row: adds it, and says what became of it. */
static enum tpp_code add_measurement(const struct tpp_csv *table,
                                     enum tpp_csv_row (*read)(const struct tpp_csv *table, struct tpp_sample *sample),
                                     uint32_t line, struct tpp_samples *samples, enum tpp_csv_row *verdict,
                                     struct tpp_error *err)
{
    struct tpp_sample sample = {.line = line, .num_repeats = 1};
    memcpy(sample.device, table->device, sizeof sample.device);
    *verdict = read(table, &sample);
    if (*verdict == TPP_CSV_ROW && !is_measurement(&sample)) {
        *verdict = TPP_CSV_BROKEN;
    }
    return *verdict == TPP_CSV_ROW ? tpp_samples_add(samples, &sample, err) : TPP_OK;
}

static enum tpp_code read_row(struct tpp_csv *table, const struct tpp_csv_kind *kind, uint32_t line,
                              struct tpp_samples *samples, uint64_t *num_unused, struct tpp_error *err)
{
    enum tpp_csv_row first = TPP_CSV_BROKEN, second = TPP_CSV_UNUSED;
    enum tpp_code code = TPP_OK;
    table->num_cells = split(table->line, table->cells);
    if (table->num_cells == table->num_columns) {
        code = add_measurement(table, kind->read, line, samples, &first, err);
        if (code == TPP_OK && kind->read_second) {
            code = add_measurement(table, kind->read_second, line, samples, &second, err);
        }
    }
    tpp_samples_file(samples)->num_skipped_lines += first == TPP_CSV_BROKEN || second == TPP_CSV_BROKEN;
    *num_unused += first == TPP_CSV_UNUSED && second == TPP_CSV_UNUSED;
    return code;
}

static enum tpp_code read_rows(struct tpp_csv *table, const struct tpp_csv_kind *kind, struct tpp_lines *lines,
                               struct tpp_samples *samples, struct tpp_error *err)
{
    const char *start;
    size_t length;
    uint64_t num_unused = 0;
    enum tpp_code code = TPP_OK;
    while (code == TPP_OK && tpp_lines_next(lines, &start, &length)) {
        tpp_line_copy(table->line, start, length);
        const char *first = table->line + strspn(table->line, " ");
        if (*first && *first != '#') {
            code = read_row(table, kind, lines->number, samples, &num_unused, err);
        }
    }
    if (code == TPP_OK && num_unused > 0) {
        tpp_samples_note(samples, "%llu rows are not measurements of one shape: left out",
                         (unsigned long long)num_unused);
    }
    return code;
}

enum tpp_code tpp_import_table(const char *text, size_t length, const char *source, struct tpp_samples *samples,
                               struct tpp_error *err)
{
    struct tpp_csv table = {.num_columns = 0};
    struct tpp_lines lines = {.text = text, .length = length};
    const struct tpp_csv_kind *kind = read_header(&table, &lines) ? tpp_csv_kind_find(&table) : NULL;
    if (!kind) {
        return tpp_fail(err, TPP_E_UNSUPPORTED, source,
                        "the tables of data/kernels and data/collectives that give a time and a shape are understood",
                        "no known table has these columns");
    }
    enum tpp_code code = tpp_samples_begin_file(samples, source, "table", err);
    if (code == TPP_OK) {
        code = read_rows(&table, kind, &lines, samples, err);
    }
    if (code == TPP_OK && tpp_samples_file(samples)->num_rows == 0) {
        return tpp_fail(err, TPP_E_SYNTAX, source, NULL, "no usable row in this table (%llu broken lines)",
                        (unsigned long long)tpp_samples_file(samples)->num_skipped_lines);
    }
    return code;
}
