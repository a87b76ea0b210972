#include "calibrate/fit/fit.h"

#include "calibrate/fit/fit_group.h"
#include "costmodel/base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tpp_fit_report_init(struct tpp_fit_report *report)
{
    memset(report, 0, sizeof *report);
}

void tpp_fit_report_release(struct tpp_fit_report *report)
{
    free(report->groups);
    free(report->residuals);
    tpp_fit_report_init(report);
}

enum tpp_code tpp_fit_name_profile(struct tpp_hardware *hardware, const char *name, struct tpp_error *err)
{
    static const char suffix[] = "-fitted";
    if (!name) {
        const size_t kept = tpp_utf8_cut(hardware->name, sizeof hardware->name - sizeof suffix);
        memcpy(hardware->name + kept, suffix, sizeof suffix);
        return TPP_OK;
    }
    const size_t length = strlen(name);
    size_t valid = 0;
    for (size_t bytes; valid < length && (bytes = tpp_utf8_length(name + valid, length - valid)) > 0;) {
        valid += bytes;
    }
    if (length == 0 || length >= sizeof hardware->name) {
        return tpp_fail(err, TPP_E_USAGE, "--name", "give 1 to 63 bytes", "the new profile's name has %zu bytes", length);
    }
    if (valid < length) {
        return tpp_fail(err, TPP_E_USAGE, "--name", "give it in UTF-8",
                        "the new profile's name is not UTF-8 from byte %zu on", valid + 1);
    }
    memcpy(hardware->name, name, length + 1);
    return TPP_OK;
}

/* Values that were measured directly: the median of all samples of a key. */
static enum tpp_code fit_value(struct tpp_fit_run *run, uint32_t field, struct tpp_error *err)
{
    struct tpp_points points = {.count = 0};
    double spread = 0;
    const struct tpp_samples *samples = run->samples;
    double *values = malloc((samples->count + 1) * sizeof *values);
    points.items = malloc((samples->count + 1) * sizeof *points.items);
    if (!values || !points.items) {
        free(values);
        free(points.items);
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    for (size_t i = 0; i < samples->count; i++) {
        const struct tpp_sample *sample = &samples->items[i];
        if (sample->kind == TPP_SAMPLE_VALUE && sample->value.field == field) {
            spread = fmax(spread, sample->spread_fraction);
            values[points.count] = sample->value.value;
            points.items[points.count++] = sample;
        }
    }
    enum tpp_code code = TPP_OK;
    if (points.count > 0) {
        const struct tpp_hardware_field *row = &tpp_hardware_fields(NULL)[field];
        const struct tpp_fit_set set = {.points = points};
        tpp_sort_numbers(values, points.count);
        double median = tpp_sorted_quantile(values, points.count, 0.5);
        median = row->kind == TPP_HARDWARE_DOUBLE ? median : round(median);
        code = tpp_hardware_set(run->hardware, row->key, median, NULL, err);
        if (code == TPP_OK) {
            tpp_fit_set_origin(run, row->key, &set, spread, "");
            tpp_fit_note(run->report, "%s: %.6g, was %.6g", row->key, median, tpp_hardware_get(run->base, field));
        }
    }
    free(values);
    free(points.items);
    return code;
}

enum tpp_code tpp_fit_values(struct tpp_fit_run *run, struct tpp_error *err)
{
    uint32_t count;
    enum tpp_code code = TPP_OK;
    tpp_hardware_fields(&count);
    for (uint32_t i = 0; i < count && code == TPP_OK; i++) {
        code = fit_value(run, i, err);
    }
    return code;
}

/* A profile is of one GPU: samples of several are allowed, as files name the same one differently, but said. */
static void note_devices(const struct tpp_samples *samples, struct tpp_fit_report *report)
{
    const char *first = NULL;
    for (size_t i = 0; i < samples->count; i++) {
        const char *device = samples->items[i].device;
        if (!device[0]) {
            continue;
        }
        if (first && strcmp(first, device) != 0) {
            tpp_fit_note(report, "samples of several devices (%.60s, %.60s): use --device to choose one", first,
                         device);
            return;
        }
        first = device;
    }
}

static enum tpp_code run_all(struct tpp_fit_run *run, struct tpp_error *err)
{
    enum tpp_code code = tpp_fit_values(run, err); /* first: the others use the gap */
    code = code ? code : tpp_fit_memory_bound(run, err);
    code = code ? code : tpp_fit_gemm(run, err);
    code = code ? code : tpp_fit_attention(run, err);
    return code ? code : tpp_fit_collectives(run, err);
}

/* The samples of the wanted device: all fits, and what they derive from several samples, see these alone. The files stay
 * the caller's. */
static enum tpp_code choose_samples(const struct tpp_samples *samples, const char *device, struct tpp_samples *chosen,
                                    struct tpp_error *err)
{
    *chosen = *samples;
    chosen->count = 0;
    chosen->items = malloc((samples->count + 1) * sizeof *chosen->items);
    if (!chosen->items) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    for (size_t i = 0; i < samples->count; i++) {
        if (!device || strstr(samples->items[i].device, device)) {
            chosen->items[chosen->count++] = samples->items[i];
        }
    }
    return TPP_OK;
}

enum tpp_code tpp_fit_profile(const struct tpp_samples *samples, const struct tpp_hardware *base,
                              const struct tpp_fit_options *options, struct tpp_hardware *hardware,
                              struct tpp_fit_report *report, struct tpp_error *err)
{
    struct tpp_samples chosen;
    struct tpp_fit_run run = {
        .samples = &chosen, .base = base, .options = options, .hardware = hardware, .report = report};
    *hardware = *base;
    if (!options || !options->device) {
        note_devices(samples, report);
    }
    const uint32_t num_notes = report->num_notes;
    enum tpp_code code = choose_samples(samples, options ? options->device : NULL, &chosen, err);
    code = code ? code : run_all(&run, err);
    free(chosen.items);
    if (code == TPP_OK && report->num_groups == 0 && report->num_notes == num_notes) {
        return tpp_fail(err, TPP_E_MISSING, "samples",
                        "give GEMM, attention, memory-bound or collective samples, or "
                        "another --device",
                        "none of the %zu samples is one that a value follows from", samples->count);
    }
    return code ? code : tpp_hardware_check(hardware, err);
}
