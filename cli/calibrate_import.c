#include "cli/calibrate_import.h"

#include "cli/terminal.h"
#include "costmodel/base/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct tpp_table_column columns[] = {
    {"MEASURED", true, 0}, {"RANKS", false, 0}, {"NODES", false, 0}, {"IN PLACE", true, 3}, {"TYPE", true, 4},
    {"ROWS", false, 0},    {"FROM", false, 1},  {"TO", false, 1},    {"BEST", false, 0},
};
#define NUM_COLUMNS (sizeof columns / sizeof columns[0])

/* What rows of a file have in common to be shown as one. */
static bool are_alike(const struct tpp_sample *a, const struct tpp_sample *b)
{
    if (a->kind != b->kind || a->file != b->file)
        return false;
    if (a->kind == TPP_SAMPLE_COLLECTIVE)
        return a->collective.operation == b->collective.operation &&
               a->collective.num_ranks == b->collective.num_ranks &&
               a->collective.num_nodes == b->collective.num_nodes && a->collective.in_place == b->collective.in_place &&
               a->collective.concurrent_groups == b->collective.concurrent_groups &&
               strcmp(a->collective.dtype, b->collective.dtype) == 0;
    if (a->kind == TPP_SAMPLE_VALUE)
        return a->value.field == b->value.field;
    return true;
}

/* Size of a sample: bytes moved or operations. */
static double size_of(const struct tpp_sample *sample)
{
    if (sample->kind == TPP_SAMPLE_COLLECTIVE)
        return (double)sample->collective.bytes;
    if (sample->kind == TPP_SAMPLE_MEMORY_BOUND)
        return sample->memory.bytes;
    return tpp_sample_flops(sample);
}

/* Bus bandwidth, memory bandwidth or operations a second. */
static double rate_of(const struct tpp_sample *sample)
{
    if (sample->kind == TPP_SAMPLE_COLLECTIVE)
        return sample->collective.bus_bytes_per_second;
    if (sample->kind == TPP_SAMPLE_MEMORY_BOUND)
        return sample->seconds > 0 ? sample->memory.bytes / sample->seconds : sample->memory.bytes_per_second;
    if (sample->kind == TPP_SAMPLE_ATTENTION && sample->attention.flops_per_second > 0)
        return sample->attention.flops_per_second;
    return sample->seconds > 0 ? tpp_sample_flops(sample) / sample->seconds : 0;
}

static void append_size(struct tpp_table *table, const struct tpp_sample *sample, double size)
{
    char buffer[48];
    if (size == 0 && sample->seconds == 0) /* a rate alone was published */
        tpp_table_cell(table, "-");
    else if (sample->kind == TPP_SAMPLE_GEMM || sample->kind == TPP_SAMPLE_ATTENTION)
        tpp_table_cell(table, "%.3g GFLOP", size / 1e9);
    else if (sample->kind == TPP_SAMPLE_COLLECTIVE || sample->kind == TPP_SAMPLE_MEMORY_BOUND)
        tpp_table_cell(table, "%s", tpp_format_bytes(buffer, sizeof buffer, size));
    else
        tpp_table_cell(table, "-");
}

static void append_rate(struct tpp_table *table, const struct tpp_sample *sample, double rate)
{
    char buffer[48];
    if (sample->kind == TPP_SAMPLE_GEMM || sample->kind == TPP_SAMPLE_ATTENTION)
        tpp_table_cell(table, "%s", tpp_format_flops_rate(buffer, sizeof buffer, rate));
    else if (sample->kind == TPP_SAMPLE_COLLECTIVE || sample->kind == TPP_SAMPLE_MEMORY_BOUND)
        tpp_table_cell(table, "%s", tpp_format_bandwidth(buffer, sizeof buffer, rate));
    else if (sample->kind == TPP_SAMPLE_VALUE)
        tpp_table_cell(table, "%.6g", sample->value.value);
    else
        tpp_table_cell(table, "-");
}

static void append_count(struct tpp_table *table, uint32_t count)
{
    if (count > 0)
        tpp_table_cell(table, "%u", count);
    else
        tpp_table_cell(table, "?");
}

static void append_group(struct tpp_table *table, const struct tpp_samples *samples, size_t first)
{
    const struct tpp_sample *sample = &samples->items[first];
    const bool is_collective = sample->kind == TPP_SAMPLE_COLLECTIVE;
    double least = INFINITY, most = 0, best = 0;
    size_t count = 0;
    for (size_t i = first; i < samples->count; i++) {
        if (are_alike(sample, &samples->items[i])) {
            least = fmin(least, size_of(&samples->items[i]));
            most = fmax(most, size_of(&samples->items[i]));
            best = fmax(best, rate_of(&samples->items[i]));
            count++;
        }
    }
    if (is_collective && sample->collective.concurrent_groups > 1)
        tpp_table_cell(table, "%s, %u at once", tpp_sample_operation_name(sample->collective.operation),
                       sample->collective.concurrent_groups);
    else
        tpp_table_cell(table, "%s",
                       is_collective                      ? tpp_sample_operation_name(sample->collective.operation)
                       : sample->kind == TPP_SAMPLE_VALUE ? tpp_hardware_fields(NULL)[sample->value.field].key
                                                          : tpp_sample_kind_name(sample->kind));
    if (is_collective) {
        append_count(table, sample->collective.num_ranks);
        append_count(table, sample->collective.num_nodes);
    } else {
        tpp_table_cell(table, "-");
        tpp_table_cell(table, "-");
    }
    tpp_table_cell(table, "%s", !is_collective ? "-" : sample->collective.in_place ? "yes" : "no");
    tpp_table_cell(table, "%s", is_collective && sample->collective.dtype[0] ? sample->collective.dtype : "-");
    tpp_table_cell(table, "%zu", count);
    append_size(table, sample, least);
    append_size(table, sample, most);
    append_rate(table, sample, best);
}

static enum tpp_code append_table(const struct tpp_samples *samples, size_t file, struct tpp_answer *answer,
                                  struct tpp_error *err)
{
    struct tpp_table *table = tpp_table_new(columns, NUM_COLUMNS);
    enum { MAX_GROUPS = 200 };
    size_t shown[MAX_GROUPS], num_shown = 0;
    for (size_t i = 0; i < samples->count && table != NULL && num_shown < MAX_GROUPS; i++) {
        size_t j = 0;
        while (j < num_shown && !are_alike(&samples->items[shown[j]], &samples->items[i]))
            j++;
        if (samples->items[i].file == file && j == num_shown) {
            shown[num_shown++] = i;
            append_group(table, samples, i);
        }
    }
    const bool done = table != NULL && tpp_table_append(table, answer->width, &answer->text);
    tpp_table_free(table);
    return done ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
}

static const char *device_of(const struct tpp_samples *samples, size_t file)
{
    for (size_t i = 0; i < samples->count; i++) {
        if (samples->items[i].file == file && samples->items[i].device[0])
            return samples->items[i].device;
    }
    return "device not named";
}

enum tpp_code tpp_calibrate_show_import(const struct tpp_samples *samples, struct tpp_answer *answer,
                                        struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < samples->num_files && code == TPP_OK; i++) {
        const struct tpp_sample_file *file = &samples->files[i];
        if (i > 0)
            tpp_text_append(&answer->text, "\n");
        tpp_terminal_append(&answer->text, file->source);
        tpp_text_format(&answer->text, ": %s, %zu rows, ", file->format, file->num_rows);
        tpp_terminal_append(&answer->text, device_of(samples, i));
        tpp_text_append(&answer->text, "\n");
        code = append_table(samples, i, answer, err);
        if (file->num_skipped_lines > 0)
            tpp_text_format(&answer->text, "%llu broken lines skipped\n", (unsigned long long)file->num_skipped_lines);
        for (uint32_t j = 0; j < file->num_notes; j++) {
            tpp_text_append(&answer->text, "note: ");
            tpp_terminal_append(&answer->text, file->notes[j]);
            tpp_text_append(&answer->text, "\n");
        }
    }
    return code;
}
