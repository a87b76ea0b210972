#include "cli/replay_curve.h"

#include "cli/terminal.h"
#include "costmodel/base/units.h"

#include <stdio.h>
#include <string.h>

#define MAX_ROWS 20
#define LABEL_COLUMNS 9    /* "  1-  3 " */
#define FIGURES_COLUMNS 34 /* "  40.25  48.10 GiB  12 retries" */
#define MIN_BAR_COLUMNS 8
#define MAX_BAR_COLUMNS 100
#define GIBIBYTE 1073741824.0

static struct tpp_replay_step largest_of(const struct tpp_replay_step *steps, uint32_t count)
{
    struct tpp_replay_step most = {0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        if (steps[i].peak_allocated_bytes > most.peak_allocated_bytes)
            most.peak_allocated_bytes = steps[i].peak_allocated_bytes;
        if (steps[i].peak_reserved_bytes > most.peak_reserved_bytes)
            most.peak_reserved_bytes = steps[i].peak_reserved_bytes;
        most.num_retries += steps[i].num_retries;
    }
    return most;
}

static unsigned columns_of(uint64_t bytes, uint64_t device_bytes, unsigned columns)
{
    const double share = device_bytes > 0 ? (double)bytes / (double)device_bytes : 0;
    const double filled = share * columns + 0.5;
    return filled < columns ? (unsigned)filled : columns;
}

static void append_row(const struct tpp_replay *replay, uint32_t first, uint32_t count, unsigned columns,
                       struct tpp_text *out)
{
    const struct tpp_replay_step most = largest_of(&replay->steps[first], count);
    const unsigned allocated = columns_of(most.peak_allocated_bytes, replay->device_bytes, columns);
    const unsigned reserved = columns_of(most.peak_reserved_bytes, replay->device_bytes, columns);
    char bar[MAX_BAR_COLUMNS + 1], label[32], retries[48] = "";
    memset(bar, ' ', columns);
    memset(bar, '-', reserved);
    memset(bar, '#', allocated < reserved ? allocated : reserved);
    bar[columns] = '\0';
    if (count == 1)
        snprintf(label, sizeof label, "%u", first + 1);
    else
        snprintf(label, sizeof label, "%u-%u", first + 1, first + count);
    if (most.num_retries > 0)
        snprintf(retries, sizeof retries, "  %llu retr%s", (unsigned long long)most.num_retries,
                 most.num_retries == 1 ? "y" : "ies");
    tpp_text_format(out, "%*s |%s| %6.2f %6.2f GiB%s\n", LABEL_COLUMNS - 2, label, bar,
                    (double)most.peak_allocated_bytes / GIBIBYTE, (double)most.peak_reserved_bytes / GIBIBYTE, retries);
}

static void append_distribution(const struct tpp_replay *replay, unsigned width, struct tpp_text *out)
{
    char line[200];
    snprintf(line, sizeof line,
             "Half of the steps stay within %.2f GiB allocated and %.2f GiB reserved, 95 of 100 within %.2f and %.2f GiB.",
             (double)replay->allocated.median_bytes / GIBIBYTE, (double)replay->reserved.median_bytes / GIBIBYTE,
             (double)replay->allocated.percentile_95_bytes / GIBIBYTE,
             (double)replay->reserved.percentile_95_bytes / GIBIBYTE);
    tpp_terminal_append_wrapped(out, line, 0, 0, width);
}

void tpp_replay_curve_append(const struct tpp_replay *replay, unsigned width, struct tpp_text *out)
{
    char device[32];
    if (replay->num_steps < 2)
        return;
    const uint32_t group = (replay->num_steps + MAX_ROWS - 1) / MAX_ROWS;
    unsigned columns = width > LABEL_COLUMNS + FIGURES_COLUMNS ? width - LABEL_COLUMNS - FIGURES_COLUMNS : 0;
    columns = columns < MIN_BAR_COLUMNS ? MIN_BAR_COLUMNS : columns > MAX_BAR_COLUMNS ? MAX_BAR_COLUMNS : columns;
    tpp_format_bytes(device, sizeof device, (double)replay->device_bytes);
    tpp_text_format(out, "Peaks by step: # allocated, - reserved beyond it, of %s\n", device);
    for (uint32_t i = 0; i < replay->num_steps; i += group)
        append_row(replay, i, replay->num_steps - i < group ? replay->num_steps - i : group, columns, out);
    append_distribution(replay, width, out);
}
