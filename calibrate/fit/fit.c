#include "calibrate/fit/fit.h"

#include "calibrate/fit/fit_group.h"
#include "costmodel/base/statistics.h"

#include <ctype.h>
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

/* The samples of one value. */
struct measured_value {
    uint32_t field;
    struct tpp_points points;
    double *values; /* sorted */
    double spread;  /* the greatest of repeats, and half the distance of the quartiles of several samples; relative */
};

static double half_quartile_distance(const double *sorted, size_t count)
{
    return 0.5 * (tpp_sorted_quantile(sorted, count, 0.75) - tpp_sorted_quantile(sorted, count, 0.25));
}

/* Collects what was measured of a value; the arrays have room for all samples. */
static void collect_value(const struct tpp_samples *samples, struct measured_value *value)
{
    value->points.count = 0;
    value->spread = 0;
    for (size_t i = 0; i < samples->count; i++) {
        const struct tpp_sample *sample = &samples->items[i];
        if (sample->kind == TPP_SAMPLE_VALUE && sample->value.field == value->field) {
            value->spread = fmax(value->spread, sample->spread_fraction);
            value->values[value->points.count] = sample->value.value;
            value->points.items[value->points.count++] = sample;
        }
    }
    tpp_sort_numbers(value->values, value->points.count);
}

/* Sets a value to the median of its samples. */
static enum tpp_code set_value(struct tpp_fit_run *run, struct measured_value *value, struct tpp_fit_group *group,
                               struct tpp_error *err)
{
    const struct tpp_hardware_field *row = &tpp_hardware_fields(NULL)[value->field];
    const struct tpp_fit_set set = {.points = value->points};
    double median = tpp_sorted_quantile(value->values, value->points.count, 0.5);
    if (median > 0) {
        value->spread = fmax(value->spread, half_quartile_distance(value->values, value->points.count) / median);
    }
    median = row->kind == TPP_HARDWARE_DOUBLE ? median : round(median);
    const enum tpp_code code = tpp_hardware_set(run->hardware, row->key, median, NULL, err);
    if (code == TPP_OK) {
        tpp_fit_set_origin(run, row->key, &set, value->spread, "");
        group->num_samples += value->points.count;
        group->values[group->num_values++] = (struct tpp_fit_value){
            row->key, tpp_hardware_get(run->base, value->field), median, value->spread * median, "measured"};
    }
    return code;
}

static struct tpp_fit_group *new_value_group(struct tpp_fit_report *report)
{
    struct tpp_fit_group *group = tpp_fit_new_group(report);
    if (group) {
        snprintf(group->name, sizeof group->name, "values measured directly");
        snprintf(group->range, sizeof group->range, "medians, with half the distance of the quartiles");
        group->is_in_profile = true;
    }
    return group;
}

/* Values that were measured directly: the median of all samples of a key. */
static enum tpp_code fit_values(struct tpp_fit_run *run, struct measured_value *value, struct tpp_error *err)
{
    uint32_t count;
    struct tpp_fit_group *group = NULL;
    enum tpp_code code = TPP_OK;
    tpp_hardware_fields(&count);
    for (value->field = 0; value->field < count && code == TPP_OK; value->field++) {
        collect_value(run->samples, value);
        if (value->points.count == 0) {
            continue;
        }
        if (!group) {
            group = new_value_group(run->report);
        }
        code = group ? set_value(run, value, group, err) : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    if (group) {
        group->num_fitted = group->num_samples;
    }
    return code;
}

enum tpp_code tpp_fit_values(struct tpp_fit_run *run, struct tpp_error *err)
{
    const size_t room = run->samples->count + 1;
    struct measured_value value = {.values = malloc(room * sizeof *value.values)};
    value.points.items = malloc(room * sizeof *value.points.items);
    const enum tpp_code code = value.values && value.points.items
                                   ? fit_values(run, &value, err)
                                   : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    free(value.values);
    free(value.points.items);
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

/* Whether `device` has a word that begins with the letters and digits of `name` and ends with them: "NVIDIA GeForce RTX
 * 4090" has RTX4090 in it, "NVIDIA GB200" has no B200. `name` is letters and digits. */
static bool names_gpu(const char *device, const char *name, size_t length)
{
    for (const char *start = device; *start; start++) {
        const char *p = start;
        size_t i = 0;
        if (!isalnum((unsigned char)*start) || (start > device && isalnum((unsigned char)start[-1]))) {
            continue;
        }
        for (; *p && i < length; p++) {
            if (toupper((unsigned char)*p) == toupper((unsigned char)name[i])) {
                i++;
            } else if (isalnum((unsigned char)*p)) {
                break;
            }
        }
        if (i == length && !isalnum((unsigned char)*p)) {
            return true;
        }
    }
    return false;
}

/* Samples of a GPU whose name is not that of the base's ("H100" of H100-SXM5-80GB): a slip in --base is hard to see in
 * the values. */
static void note_other_gpu(const struct tpp_samples *samples, const struct tpp_hardware *base,
                           struct tpp_fit_report *report)
{
    const size_t length = strcspn(base->gpu.name, "-");
    for (size_t i = 0; i < samples->count; i++) {
        const char *device = samples->items[i].device;
        if (device[0] && !names_gpu(device, base->gpu.name, length)) {
            tpp_fit_note(report, "samples of %.60s, but the base is of %.60s: is --base the right one?", device,
                         base->gpu.name);
            return;
        }
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
    enum tpp_code code = choose_samples(samples, options ? options->device : NULL, &chosen, err);
    if (code == TPP_OK) {
        note_other_gpu(&chosen, base, report);
        code = run_all(&run, err);
    }
    free(chosen.items);
    if (code == TPP_OK && report->num_groups == 0) {
        return tpp_fail(err, TPP_E_MISSING, "samples",
                        "give GEMM, attention, memory-bound or collective samples, or "
                        "another --device",
                        "none of the %zu samples is one that a value follows from", samples->count);
    }
    return code ? code : tpp_hardware_check(hardware, err);
}
