/* From the rows of one run to samples: operation, ranks and nodes are settled, and every row is checked against them.
 */
#include "calibrate/fit/nccl_log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settled {
    int operation;
    uint32_t num_ranks, num_nodes;
};

/* "...2n16g..." in a file's name: nodes and GPUs, as collections of logs are often named. */
static bool name_says(const char *source, uint32_t *num_nodes, uint32_t *num_ranks)
{
    const char *name = strrchr(source, '/') ? strrchr(source, '/') + 1 : source;
    for (const char *p = name; *p; p++) {
        if ((p == name || strchr("_-.", p[-1])) && *p >= '1' && *p <= '9') {
            char *end;
            const unsigned long nodes = strtoul(p, &end, 10);
            if (*end != 'n' || end[1] < '1' || end[1] > '9') {
                continue;
            }
            const unsigned long ranks = strtoul(end + 1, &end, 10);
            if (*end == 'g' && (end[1] == '\0' || strchr("_-.", end[1])) && nodes <= ranks && ranks <= 1000000) {
                *num_nodes = (uint32_t)nodes;
                *num_ranks = (uint32_t)ranks;
                return true;
            }
        }
    }
    return false;
}

static int name_operation(const char *source)
{
    const char *name = strrchr(source, '/') ? strrchr(source, '/') + 1 : source;
    return tpp_nccl_operation_in(name);
}

/* The operation of the run: told, named by the log, the only possible one, the one the file is named after, or the
 * commonest of the possible ones (the order of the enumeration). */
static int settle_operation(const struct tpp_nccl_run *run, uint32_t num_ranks, const char *source,
                            const struct tpp_import_facts *facts, struct tpp_samples *samples)
{
    if (facts && facts->operation) {
        return tpp_nccl_operation_in(facts->operation);
    }
    if (run->operation != TPP_OPERATION_UNKNOWN) {
        return run->operation;
    }
    const unsigned possible = tpp_nccl_possible_operations(run, num_ranks);
    const int named = name_operation(source);
    if (named != TPP_OPERATION_UNKNOWN && possible & (1u << named)) {
        return named;
    }
    int first = 0;
    while (!(possible & (1u << first))) {
        first++;
    }
    if (possible & (possible - 1)) {
        tpp_samples_note(samples, "the log does not name its operation: %s assumed, its columns allow others",
                         tpp_sample_operation_name(first));
    }
    return first;
}

static uint32_t settle_ranks(const struct tpp_nccl_run *run, int operation, const char *source,
                             const struct tpp_import_facts *facts, struct tpp_samples *samples)
{
    uint32_t named_nodes, named_ranks;
    if (facts && facts->num_ranks) {
        return facts->num_ranks;
    }
    const uint32_t inferred = tpp_nccl_infer_ranks(run, operation);
    if (run->num_ranks &&
        (run->num_listed >= run->num_ranks || !inferred || tpp_nccl_ranks_fit(run, operation, run->num_ranks))) {
        return run->num_ranks;
    }
    if (run->info_ranks) {
        return run->info_ranks;
    }
    if (inferred && operation != TPP_ALL_REDUCE) { /* exact: size / count */
        return inferred;
    }
    if (name_says(source, &named_nodes, &named_ranks)) {
        if (!inferred || tpp_nccl_ranks_fit(run, operation, named_ranks)) {
            tpp_samples_note(samples, "no rank list: ranks and nodes taken from the file's name");
            return named_ranks;
        }
        tpp_samples_note(samples, "the file's name says %u ranks, but its busbw column is that of %u", named_ranks,
                         inferred);
        return inferred;
    }
    if (inferred) {
        tpp_samples_note(samples, "no rank list: %u ranks follow from the columns", inferred);
    } else {
        tpp_samples_note(samples, "no rank list, and no number of ranks fits the columns: ranks left open");
    }
    return inferred;
}

/* Nodes by the host names where all ranks are listed; an excerpt of the list shows the devices of a node instead. */
static uint32_t settle_nodes(const struct tpp_nccl_run *run, uint32_t num_ranks, const char *source,
                             const struct tpp_import_facts *facts, struct tpp_samples *samples)
{
    uint32_t named_nodes, named_ranks;
    if (facts && facts->num_nodes) {
        return facts->num_nodes;
    }
    if (num_ranks == 1) {
        return 1;
    }
    if (run->num_ranks && run->num_listed >= run->num_ranks) {
        return run->num_hosts;
    }
    if (run->num_ranks && run->num_devices) {
        const uint32_t by_devices = (num_ranks + run->num_devices - 1) / run->num_devices;
        tpp_samples_note(samples, "the list of ranks is an excerpt");
        return by_devices > run->num_hosts ? by_devices : run->num_hosts;
    }
    if (name_says(source, &named_nodes, &named_ranks) && num_ranks % (named_ranks / named_nodes) == 0) {
        return num_ranks / (named_ranks / named_nodes); /* as many a node as the name says */
    }
    return 0;
}

/* How far bus may be from factor * size / time by rounding alone. */
static bool bus_agrees(const struct tpp_nccl_half *half, double expected)
{
    const double slack =
        1.05 * (half->bus_half_step + expected * half->seconds_half_step / half->seconds) + 0.001 * expected;
    return fabs(half->bus_bytes_per_second - expected) <= slack;
}

static bool can_check(const struct settled *settled)
{
    return settled->num_ranks > 0 && settled->operation != TPP_OPERATION_UNKNOWN;
}

static double expected_bus(const struct settled *settled, const struct tpp_nccl_row *row,
                           const struct tpp_nccl_half *half)
{
    return tpp_sample_bus_factor(settled->operation, settled->num_ranks) * (double)row->bytes / half->seconds;
}

/* Whole halves whose busbw is not that of the operation and the ranks. *is_mixed: others are, so that these are of another
 * test that wrote between the lines; when all are odd, the column is. */
static size_t count_odd(const struct tpp_nccl_run *run, const struct settled *settled, bool *is_mixed)
{
    size_t num_odd = 0, num_whole = 0;
    for (size_t i = 0; i < run->num_rows && can_check(settled); i++) {
        for (int j = 0; j < 2; j++) {
            const struct tpp_nccl_half *half = &run->rows[i].halves[j];
            if (half->is_present && half->has_wrong) {
                num_odd += !bus_agrees(half, expected_bus(settled, &run->rows[i], half));
                num_whole++;
            }
        }
    }
    *is_mixed = num_odd > 0 && num_odd < num_whole;
    return num_odd;
}

/* Whether a half is a measurement of this run: not one whose last number was cut, nor another test's. */
static bool is_of_run(const struct tpp_nccl_row *row, const struct tpp_nccl_half *half, const struct settled *settled,
                      bool is_mixed)
{
    return !can_check(settled) || bus_agrees(half, expected_bus(settled, row, half)) || (half->has_wrong && !is_mixed);
}

static enum tpp_code add_half(const struct tpp_nccl_run *run, const struct tpp_nccl_row *row, int index,
                              const struct settled *settled, struct tpp_samples *samples, struct tpp_error *err)
{
    const struct tpp_nccl_half *half = &row->halves[index];
    struct tpp_sample sample = {
        .kind = TPP_SAMPLE_COLLECTIVE,
        .line = row->line,
        .seconds = half->seconds,
        .num_repeats = 1,
        .collective = {.operation = settled->operation,
                       .bytes = row->bytes,
                       .num_ranks = settled->num_ranks,
                       .num_nodes = settled->num_nodes,
                       .in_place = index == 1,
                       .bus_bytes_per_second = can_check(settled) ? expected_bus(settled, row, half)
                                                                  : half->bus_bytes_per_second,
                       .num_wrong = half->num_wrong}};
    memcpy(sample.collective.dtype, row->dtype, sizeof sample.collective.dtype);
    memcpy(sample.device, run->device, sizeof sample.device);
    return tpp_samples_add(samples, &sample, err);
}

static void note_oddities(const struct tpp_nccl_run *run, const struct settled *settled, size_t num_odd,
                          bool is_mixed, struct tpp_samples *samples)
{
    size_t num_below = 0;
    for (size_t i = 0; i < run->num_rows; i++) {
        const struct tpp_nccl_half *half = &run->rows[i].halves[0];
        num_below += half->bus_bytes_per_second + 2 * half->bus_half_step <
                     (double)run->rows[i].bytes / (half->seconds + half->seconds_half_step) * 0.999;
    }
    if (settled->num_ranks == 1) {
        tpp_samples_note(samples, "one rank: nothing was communicated");
    }
    if (num_odd > 0 && is_mixed) {
        tpp_samples_note(samples, "%zu figures are not of %s on %u ranks: another test's lines are between, skipped",
                         num_odd, tpp_sample_operation_name(settled->operation), settled->num_ranks);
    } else if (num_odd > 0) {
        tpp_samples_note(samples, "%zu figures: the log's busbw is not that of %s on %u ranks; recomputed", num_odd,
                         tpp_sample_operation_name(settled->operation), settled->num_ranks);
    }
    if (num_below > 0 && settled->operation == TPP_ALL_REDUCE && settled->num_ranks != 1) {
        tpp_samples_note(samples, "%zu rows: busbw below algbw, which no all_reduce can show", num_below);
    }
    if (run->is_elided) {
        tpp_samples_note(samples, "an excerpt: rows were left out (\"...\")");
    }
    if (run->has_failure) {
        tpp_samples_note(samples, "the run reports a failure");
    }
}

enum tpp_code tpp_nccl_finish_run(struct tpp_nccl_run *run, const char *source, const struct tpp_import_facts *facts,
                                  struct tpp_samples *samples, struct tpp_error *err)
{
    struct settled settled;
    bool is_mixed;
    enum tpp_code code = TPP_OK;
    if (run->num_rows == 0) {
        return TPP_OK;
    }
    const uint32_t listed = run->num_ranks ? run->num_ranks : run->info_ranks;
    settled.operation =
        settle_operation(run, facts && facts->num_ranks ? facts->num_ranks : listed, source, facts, samples);
    settled.num_ranks = settle_ranks(run, settled.operation, source, facts, samples);
    settled.num_nodes = settle_nodes(run, settled.num_ranks, source, facts, samples);
    const size_t num_odd = count_odd(run, &settled, &is_mixed);
    for (size_t i = 0; i < run->num_rows && code == TPP_OK; i++) {
        const struct tpp_nccl_row *row = &run->rows[i];
        bool is_skipped = false;
        for (int j = 0; j < 2 && code == TPP_OK; j++) {
            if (row->halves[j].is_present && is_of_run(row, &row->halves[j], &settled, is_mixed)) {
                code = add_half(run, row, j, &settled, samples, err);
            } else if (row->halves[j].is_present) {
                is_skipped = true;
            }
        }
        tpp_samples_file(samples)->num_skipped_lines += is_skipped;
    }
    note_oddities(run, &settled, num_odd, is_mixed, samples);
    return code;
}
