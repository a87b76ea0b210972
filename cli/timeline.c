#include "cli/timeline.h"

#include "costmodel/base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns that the shortest pass should have: its letter, a digit, and one to end it. */
static const double columns_per_pass = 3;
/* Stages with a row of their own; of more, the first and the last are shown. */
static const uint32_t max_rows = 48;
#define GAP " ~ "
enum { LABEL_SIZE = 24, IDLE_COLUMNS = 12 }; /* "| 100 % idle" */

/* A stretch of time and the columns it is drawn in. */
struct window {
    double start_seconds, column_seconds;
    unsigned num_columns;
};

struct sheet {
    const struct tpp_simulated_op *ops;
    size_t num_ops;
    uint32_t num_stages;
    bool has_chunks, has_vocabulary;
    double start_seconds, end_seconds, shortest_seconds;
    struct window windows[2];
    unsigned num_windows;
};

static void measure(struct sheet *sheet)
{
    sheet->start_seconds = sheet->shortest_seconds = INFINITY;
    for (size_t i = 0; i < sheet->num_ops; i++) {
        const struct tpp_simulated_op *op = &sheet->ops[i];
        sheet->start_seconds = fmin(sheet->start_seconds, op->start_seconds);
        sheet->end_seconds = fmax(sheet->end_seconds, op->end_seconds);
        /* Vocabulary passes are so short that columns made for them would show nothing else. */
        if (op->end_seconds > op->start_seconds && op->pass < TPP_PASS_VOCABULARY)
            sheet->shortest_seconds = fmin(sheet->shortest_seconds, op->end_seconds - op->start_seconds);
        sheet->has_chunks |= op->chunk >= sheet->num_stages;
        sheet->has_vocabulary |= op->pass >= TPP_PASS_VOCABULARY;
    }
}

/* The whole step when its passes can be told apart in `columns`, else its beginning and its end. */
static void choose_windows(struct sheet *sheet, unsigned columns)
{
    const double span = sheet->end_seconds - sheet->start_seconds;
    const double fine = sheet->shortest_seconds / columns_per_pass;
    if (span / fine <= columns) {
        sheet->windows[0] = (struct window){sheet->start_seconds, span / columns, columns};
        sheet->num_windows = 1;
        return;
    }
    const unsigned half = (columns - (unsigned)strlen(GAP)) / 2;
    sheet->windows[0] = (struct window){sheet->start_seconds, fine, half};
    sheet->windows[1] = (struct window){sheet->end_seconds - half * fine, fine, half};
    sheet->num_windows = 2;
}

/* Letter, micro-batch, chunk: as much as fits in front of at least nothing. */
static void paint(const struct sheet *sheet, const struct tpp_simulated_op *op, char *cells, long from, long to, long last)
{
    static const char letters[TPP_PASS_COUNT] = {'F', 'B', 'W', 'S', 'T'};
    static const char fillers[TPP_PASS_COUNT] = {'-', '=', '~', '+', ':'};
    char label[32];
    size_t length = 0;
    label[length++] = letters[op->pass];
    length += (size_t)snprintf(label + length, sizeof label - length, "%u", op->micro_batch);
    if (sheet->has_chunks) {
        const uint32_t chunk = op->chunk / sheet->num_stages;
        label[length++] = chunk < 26 ? (char)('a' + chunk) : '+';
    }
    if (to == from && op->pass >= TPP_PASS_VOCABULARY)
        to = from + 1;
    if ((long)length > to - from)
        length = 1; /* the letter alone, rather than a part of a number */
    for (long column = from > 0 ? from : 0; column < to && column < last; column++)
        cells[column] = column - from < (long)length ? label[column - from] : fillers[op->pass];
}

static void draw_window(const struct sheet *sheet, const struct window *window, uint32_t stage, struct tpp_text *out)
{
    char *cells = malloc(window->num_columns + 1);
    if (!cells) {
        out->failed = true;
        return;
    }
    memset(cells, '.', window->num_columns);
    cells[window->num_columns] = '\0';
    for (size_t i = 0; i < sheet->num_ops; i++) {
        const struct tpp_simulated_op *op = &sheet->ops[i];
        const double from = (op->start_seconds - window->start_seconds) / window->column_seconds;
        const double to = (op->end_seconds - window->start_seconds) / window->column_seconds;
        if (op->stage == stage && to > 0 && from < window->num_columns)
            paint(sheet, op, cells, lround(from), lround(to), window->num_columns);
    }
    tpp_text_append(out, cells);
    free(cells);
}

static double idle_fraction(const struct sheet *sheet, uint32_t stage)
{
    double busy = 0;
    for (size_t i = 0; i < sheet->num_ops; i++)
        if (sheet->ops[i].stage == stage)
            busy += sheet->ops[i].end_seconds - sheet->ops[i].start_seconds;
    return 1 - busy / (sheet->end_seconds - sheet->start_seconds);
}

static void draw_rows(const struct sheet *sheet, int label_columns, struct tpp_text *out)
{
    for (uint32_t stage = 0; stage < sheet->num_stages; stage++) {
        if (sheet->num_stages > max_rows && stage == max_rows / 2) {
            stage = sheet->num_stages - max_rows / 2;
            tpp_text_format(out, "... %u more stages\n", sheet->num_stages - max_rows);
        }
        char label[LABEL_SIZE];
        snprintf(label, sizeof label, "stage %u", stage);
        tpp_text_format(out, "%-*s|", label_columns - 1, label);
        for (unsigned w = 0; w < sheet->num_windows; w++) {
            tpp_text_append(out, w > 0 ? GAP : "");
            draw_window(sheet, &sheet->windows[w], stage, out);
        }
        tpp_text_format(out, "|%4.0f %% idle\n", 100 * fmax(0, idle_fraction(sheet, stage)));
    }
}

static void draw_legend(const struct sheet *sheet, struct tpp_text *out)
{
    char column[48], part[48], whole[48];
    const struct window *window = &sheet->windows[0];
    tpp_format_seconds(column, sizeof column, window->column_seconds);
    tpp_format_seconds(part, sizeof part, window->num_columns * window->column_seconds);
    tpp_format_seconds(whole, sizeof whole, sheet->end_seconds - sheet->start_seconds);
    if (sheet->num_windows == 1)
        tpp_text_format(out, "%s, a column %s\n", whole, column);
    else
        tpp_text_format(out, "first and last %s of %s\n", part, whole);
    tpp_text_append(out, sheet->has_vocabulary ? "F forward, B backward, S vocabulary, T its weights, . idle\n"
                                               : "F forward, B backward, W weights, . idle\n");
}

void tpp_timeline_append(const struct tpp_simulated_op *ops, size_t num_ops, uint32_t num_stages, unsigned width,
                         struct tpp_text *out)
{
    struct sheet sheet = {.ops = ops, .num_ops = num_ops, .num_stages = num_stages};
    char label[LABEL_SIZE];
    measure(&sheet);
    if (num_ops == 0 || !(sheet.shortest_seconds < INFINITY)) {
        tpp_text_append(out, "nothing to draw\n");
        return;
    }
    if (width < TPP_TIMELINE_MIN_WIDTH)
        width = TPP_TIMELINE_MIN_WIDTH;
    const int label_columns = snprintf(label, sizeof label, "stage %u |", num_stages - 1);
    choose_windows(&sheet, width - (unsigned)label_columns - IDLE_COLUMNS);
    draw_rows(&sheet, label_columns, out);
    draw_legend(&sheet, out);
}
