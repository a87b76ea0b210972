/* What a training step sustains of the GEMM rate of bursts, from steps that were measured. */
#include "calibrate/fit/fit.h"
#include "calibrate/fit/fit_group.h"
#include "costmodel/base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char key[] = "gpu.gemm_sustained_fraction";
static const double least_rate = 0.05; /* of the peak, in a step; the greatest is 1 */
static const double mad_to_deviation = 1.4826, median_efficiency = 1.2533; /* of a normal distribution */
static const double greatest_relative_error = 0.5; /* of a value that the steps determine */
enum { BISECTIONS = 40, LEAST_STEPS = 4 };

/* Everything one search needs; `values` and `items` have room for all steps. */
struct search {
    const struct tpp_measured_steps *steps;
    struct tpp_hardware *trial;
    double *values;
    struct tpp_sample_error *items;
};

enum part { ALL, KEPT, HELD_OUT };

/* Three of every ten, spread evenly: neighbours in a file are alike. */
static bool is_held_out(size_t index)
{
    return index % 10 == 2 || index % 10 == 5 || index % 10 == 8;
}

/* log(predicted / measured) of the steps of a part at g_sus = x, in search->items, and sorted in search->values. */
static enum tpp_code step_errors(struct search *search, double x, enum part part, size_t *count, struct tpp_error *err)
{
    const struct tpp_measured_steps *steps = search->steps;
    search->trial->gpu.gemm_sustained_fraction = x;
    *count = 0;
    for (size_t i = 0; i < steps->count; i++) {
        double seconds;
        if (part != ALL && is_held_out(i) != (part == HELD_OUT)) {
            continue;
        }
        const enum tpp_code code = steps->predict(search->trial, steps->context, i, &seconds, err);
        if (code) {
            return code;
        }
        const double error = log(seconds / steps->seconds[i]);
        search->items[*count] = (struct tpp_sample_error){error, steps->seconds[i]};
        search->values[(*count)++] = error;
    }
    tpp_sort_numbers(search->values, *count);
    return TPP_OK;
}

static enum tpp_code median_error(struct search *search, double x, enum part part, double *median,
                                  struct tpp_error *err)
{
    size_t count;
    const enum tpp_code code = step_errors(search, x, part, &count, err);
    *median = code ? 0 : tpp_sorted_quantile(search->values, count, 0.5);
    return code;
}

/* Where g_sus is looked for: a GEMM rate in the step from least_rate to the peak, as far as a profile may say so. */
static void limits_of(const struct tpp_hardware *hardware, double *low, double *high)
{
    const double g_max = hardware->gpu.gemm_max_fraction;
    uint32_t index;
    tpp_hardware_field_index(key, &index);
    *high = fmin(1 / g_max, tpp_hardware_fields(NULL)[index].max);
    *low = fmin(least_rate / g_max, *high);
}

/* The g_sus at which half of the steps are predicted too long, half too short: a step gets shorter with it, never
 * longer. The answer is an end of the range when the other half never comes about. */
static enum tpp_code find_median(struct search *search, enum part part, double *x, struct tpp_error *err)
{
    double low, high, median = 0;
    limits_of(search->trial, &low, &high);
    enum tpp_code code = TPP_OK;
    for (int i = 0; i < BISECTIONS && code == TPP_OK; i++) {
        const double middle = 0.5 * (low + high);
        code = median_error(search, middle, part, &median, err);
        low = median > 0 ? middle : low;
        high = median > 0 ? high : middle;
    }
    *x = 0.5 * (low + high);
    return code;
}

/* Errors of a part at g_sus = x. */
static enum tpp_code judge(struct search *search, double x, enum part part, struct tpp_fit_errors *errors,
                           struct tpp_error *err)
{
    size_t count;
    const enum tpp_code code = step_errors(search, x, part, &count, err);
    if (code) {
        return code;
    }
    for (size_t i = 0; i < count; i++) {
        search->items[i].error = expm1(search->items[i].error);
    }
    return tpp_fit_summarise(search->items, count, errors, err);
}

/* Standard error of the median's x: that of the median of the errors, over how fast they change with log x. */
static enum tpp_code standard_error(struct search *search, double x, double *error, struct tpp_error *err)
{
    const double factor = 1.01;
    double above = 0, below = 0;
    size_t count = 0;
    enum tpp_code code = median_error(search, x * factor, ALL, &above, err);
    code = code ? code : median_error(search, x / factor, ALL, &below, err);
    code = code ? code : step_errors(search, x, ALL, &count, err);
    if (code) {
        return code;
    }
    for (size_t i = 0; i < count; i++) {
        search->values[i] = fabs(search->values[i]);
    }
    tpp_sort_numbers(search->values, count);
    const double deviation = mad_to_deviation * tpp_sorted_quantile(search->values, count, 0.5);
    const double slope = (below - above) / (2 * log(factor));
    *error = slope > 0 ? x * median_efficiency * deviation / sqrt((double)count) / slope : 0;
    return TPP_OK;
}

static enum tpp_code cross_validate(struct search *search, double base, double x, struct tpp_fit_group *group,
                                    struct tpp_error *err)
{
    double kept = x;
    enum tpp_code code = find_median(search, KEPT, &kept, err);
    code = code ? code : judge(search, base, HELD_OUT, &group->held_out_before, err);
    code = code ? code : judge(search, kept, HELD_OUT, &group->held_out_after, err);
    code = code ? code : judge(search, base, ALL, &group->all_before, err);
    return code ? code : judge(search, x, ALL, &group->all_after, err);
}

static void describe(const struct tpp_measured_steps *steps, struct tpp_fit_group *group)
{
    double low = INFINITY, high = 0;
    for (size_t i = 0; i < steps->count; i++) {
        low = fmin(low, steps->seconds[i]);
        high = fmax(high, steps->seconds[i]);
    }
    snprintf(group->name, sizeof group->name, "training steps");
    snprintf(group->range, sizeof group->range, "%.3g to %.3g s", low, high);
    group->num_samples = group->num_fitted = steps->count;
    group->is_in_profile = true;
}

/* "calibrate fit 2026-11-29: 9 measured training steps (runs.jsonl), +-1.3 %, held out: ..." */
static void set_origin(struct tpp_hardware *hardware, const struct tpp_step_origin *origin, const char *what,
                       const char *errors)
{
    uint32_t index;
    char text[512];
    const char *date = origin->date ? origin->date : "";
    if (tpp_hardware_field_index(key, &index)) {
        snprintf(text, sizeof text, "calibrate fit%s%.30s: %s (%.100s)%s", *date ? " " : "", date, what, origin->source,
                 errors);
        hardware->origins[index].provenance =
            origin->is_published ? TPP_PROVENANCE_PUBLISHED : TPP_PROVENANCE_MEASURED;
        tpp_fit_write_source(&hardware->origins[index], text);
    }
}

/* Whether the median error changes its sign between the ends of the range; if not, says so in the report. */
static enum tpp_code is_inside(struct search *search, struct tpp_fit_report *report, bool *is_yes, struct tpp_error *err)
{
    double low, high, slow = 0, fast = 0;
    limits_of(search->trial, &low, &high);
    enum tpp_code code = median_error(search, low, ALL, &slow, err);
    code = code ? code : median_error(search, high, ALL, &fast, err);
    *is_yes = slow > 0 && fast < 0;
    if (code == TPP_OK && !*is_yes) {
        const bool is_too_long = fast >= 0;
        tpp_fit_note(report, "training steps: at %.3g of the peak half of them are still predicted %.3g %% too %s or more: "
                     "g_sus is kept",
                     (is_too_long ? high : low) * search->trial->gpu.gemm_max_fraction,
                     100 * fabs(expm1(is_too_long ? fast : slow)), is_too_long ? "long" : "short");
    }
    return code;
}

/* Finds x, its error, and whether both are an answer. */
static enum tpp_code solve_steps(struct search *search, struct tpp_fit_report *report, double *x, double *error,
                                 enum tpp_unknown_state *state, struct tpp_error *err)
{
    bool is_bracketed = false;
    double found = *x;
    if (search->steps->count < LEAST_STEPS) {
        *state = TPP_UNKNOWN_TOO_FEW_POINTS;
        return TPP_OK;
    }
    *state = TPP_UNKNOWN_UNDETERMINED;
    enum tpp_code code = is_inside(search, report, &is_bracketed, err);
    if (code || !is_bracketed) {
        return code;
    }
    code = find_median(search, ALL, &found, err);
    code = code ? code : standard_error(search, found, error, err);
    if (code == TPP_OK && *error < greatest_relative_error * found) {
        *state = TPP_UNKNOWN_FITTED;
        *x = found;
    }
    return code;
}

static enum tpp_code fit_steps(struct search *search, struct tpp_hardware *hardware, const struct tpp_step_origin *origin,
                               struct tpp_fit_group *group, struct tpp_fit_report *report, struct tpp_error *err)
{
    const double base = hardware->gpu.gemm_sustained_fraction;
    double x = base, error = 0;
    enum tpp_unknown_state state;
    enum tpp_code code = solve_steps(search, report, &x, &error, &state, err);
    if (code == TPP_OK && state == TPP_UNKNOWN_FITTED) {
        code = cross_validate(search, base, x, group, err);
    }
    if (code) {
        return code;
    }
    const bool is_fitted = state == TPP_UNKNOWN_FITTED;
    group->values[group->num_values++] =
        (struct tpp_fit_value){key, base, x, is_fitted ? error : 0, tpp_unknown_state_name(state)};
    if (is_fitted) {
        char what[64], errors[120];
        snprintf(what, sizeof what, "%zu measured training steps", search->steps->count);
        const int length = snprintf(errors, sizeof errors, ", +-%.2g %%", 100 * error / x);
        tpp_fit_describe_errors(&group->held_out_after, errors + length, sizeof errors - (size_t)length);
        hardware->gpu.gemm_sustained_fraction = x;
        set_origin(hardware, origin, what, errors);
    }
    return TPP_OK;
}

enum tpp_code tpp_fit_steps(struct tpp_hardware *hardware, const struct tpp_measured_steps *steps,
                            const struct tpp_step_origin *origin, struct tpp_fit_report *report, struct tpp_error *err)
{
    struct tpp_fit_group *group = tpp_fit_new_group(report);
    struct search search = {.steps = steps,
                            .trial = malloc(sizeof *hardware),
                            .values = malloc((steps->count + 1) * sizeof *search.values),
                            .items = malloc((steps->count + 1) * sizeof *search.items)};
    enum tpp_code code = TPP_E_MEMORY;
    if (group && search.trial && search.values && search.items) {
        *search.trial = *hardware;
        describe(steps, group);
        code = fit_steps(&search, hardware, origin, group, report, err);
    } else {
        tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    free(search.trial);
    free(search.values);
    free(search.items);
    return code;
}

static enum tpp_code one_step(const struct tpp_hardware *hardware, const void *context, size_t index, double *seconds,
                              struct tpp_error *err)
{
    const struct tpp_measured_step *step = context;
    (void)index;
    return step->predict(hardware, step->context, seconds, err);
}

enum tpp_code tpp_fit_one_step(struct tpp_hardware *hardware, double measured_seconds,
                               const struct tpp_step_origin *origin, tpp_fit_step *step, const void *context,
                               struct tpp_error *err)
{
    const struct tpp_measured_step measured = {step, context};
    const struct tpp_measured_steps steps = {&measured_seconds, 1, one_step, &measured};
    struct tpp_sample_error item;
    double value, x = 0, low, high, slow = 0, fast = 0;
    struct search search = {.steps = &steps, .trial = malloc(sizeof *hardware), .values = &value, .items = &item};
    if (!search.trial) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    *search.trial = *hardware;
    limits_of(hardware, &low, &high);
    enum tpp_code code = median_error(&search, low, ALL, &slow, err);
    code = code ? code : median_error(&search, high, ALL, &fast, err);
    if (code == TPP_OK && !(slow >= 0 && fast <= 0)) {
        code =
            tpp_fail(err, TPP_E_RANGE, origin->source, "check that the measured step is of this job, or calibrate with samples",
                     "no GEMM rate explains a step of %.6g s: %.6g s at %.3g of the peak, %.6g s at %.3g of it",
                     measured_seconds, measured_seconds * exp(slow), low * hardware->gpu.gemm_max_fraction,
                     measured_seconds * exp(fast), high * hardware->gpu.gemm_max_fraction);
    }
    code = code ? code : find_median(&search, ALL, &x, err);
    if (code == TPP_OK) {
        char what[64];
        snprintf(what, sizeof what, "one measured step of %.6g s", measured_seconds);
        hardware->gpu.gemm_sustained_fraction = x;
        set_origin(hardware, origin, what, "");
    }
    free(search.trial);
    return code;
}
