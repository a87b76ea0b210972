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
enum { BISECTIONS = 40, LEAST_STEPS = 4 };

/* Everything one search needs; `values` has room for all steps. */
struct search {
    const struct tpp_measured_steps *steps;
    struct tpp_hardware *trial;
    double *values;
};

enum part { ALL, KEPT, HELD_OUT };

/* Three of every ten, spread evenly: neighbours in a file are alike. */
static bool is_held_out(size_t index)
{
    return index % 10 == 2 || index % 10 == 5 || index % 10 == 8;
}

/* log(predicted / measured) of the steps of a part at g_sus = x, in search->values. */
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
        search->values[(*count)++] = log(seconds / steps->seconds[i]);
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
    memset(errors, 0, sizeof *errors);
    const enum tpp_code code = step_errors(search, x, part, &errors->count, err);
    if (code) {
        return code;
    }
    errors->bias = expm1(tpp_sorted_quantile(search->values, errors->count, 0.5));
    for (size_t i = 0; i < errors->count; i++) {
        search->values[i] = fabs(expm1(search->values[i]));
    }
    tpp_sort_numbers(search->values, errors->count);
    errors->median = tpp_sorted_quantile(search->values, errors->count, 0.5);
    errors->p90 = errors->time_p90 = tpp_sorted_quantile(search->values, errors->count, 0.9);
    return TPP_OK;
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
    group->num_samples = steps->count;
    group->is_in_profile = true;
}

enum tpp_code tpp_fit_steps(struct tpp_hardware *hardware, const struct tpp_measured_steps *steps, const char *source,
                            struct tpp_fit_report *report, struct tpp_error *err)
{
    const double base = hardware->gpu.gemm_sustained_fraction;
    double x = base, error = 0;
    uint32_t index;
    struct tpp_fit_group *group = tpp_fit_new_group(report);
    struct search search = {.steps = steps,
                            .trial = malloc(sizeof *hardware),
                            .values = malloc((steps->count + 1) * sizeof *search.values)};
    enum tpp_code code =
        group && search.trial && search.values ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    const bool is_enough = steps->count >= LEAST_STEPS;
    if (code == TPP_OK) {
        *search.trial = *hardware;
        describe(steps, group);
    }
    if (code == TPP_OK && is_enough) {
        code = find_median(&search, ALL, &x, err);
        code = code ? code : standard_error(&search, x, &error, err);
        code = code ? code : cross_validate(&search, base, x, group, err);
    }
    if (code == TPP_OK) {
        group->values[group->num_values++] = (struct tpp_fit_value){
            key, base, x, error, tpp_unknown_state_name(is_enough ? TPP_UNKNOWN_FITTED : TPP_UNKNOWN_TOO_FEW_POINTS)};
    }
    if (code == TPP_OK && is_enough && tpp_hardware_field_index(key, &index)) {
        hardware->gpu.gemm_sustained_fraction = x;
        hardware->origins[index].provenance = TPP_PROVENANCE_PUBLISHED;
        snprintf(hardware->origins[index].source, sizeof hardware->origins[index].source,
                 "calibrate fit: %zu measured training steps (%.100s), +-%.2g %%", steps->count, source,
                 100 * error / x);
    }
    free(search.trial);
    free(search.values);
    return code;
}

static enum tpp_code one_step(const struct tpp_hardware *hardware, const void *context, size_t index, double *seconds,
                              struct tpp_error *err)
{
    const struct tpp_measured_step *step = context;
    (void)index;
    return step->predict(hardware, step->context, seconds, err);
}

enum tpp_code tpp_fit_one_step(struct tpp_hardware *hardware, double measured_seconds, const char *source,
                               tpp_fit_step *step, const void *context, struct tpp_error *err)
{
    const struct tpp_measured_step measured = {step, context};
    const struct tpp_measured_steps steps = {&measured_seconds, 1, one_step, &measured};
    double value, x = 0, low, high, slow = 0, fast = 0;
    uint32_t index;
    struct search search = {.steps = &steps, .trial = malloc(sizeof *hardware), .values = &value};
    if (!search.trial) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    *search.trial = *hardware;
    limits_of(hardware, &low, &high);
    enum tpp_code code = median_error(&search, low, ALL, &slow, err);
    code = code ? code : median_error(&search, high, ALL, &fast, err);
    if (code == TPP_OK && !(slow >= 0 && fast <= 0)) {
        code =
            tpp_fail(err, TPP_E_RANGE, source, "check that the measured step is of this job, or calibrate with samples",
                     "no GEMM rate explains a step of %.6g s: %.6g s at %.3g of the peak, %.6g s at %.3g of it",
                     measured_seconds, measured_seconds * exp(slow), low * hardware->gpu.gemm_max_fraction,
                     measured_seconds * exp(fast), high * hardware->gpu.gemm_max_fraction);
    }
    code = code ? code : find_median(&search, ALL, &x, err);
    if (code == TPP_OK && tpp_hardware_field_index(key, &index)) {
        hardware->gpu.gemm_sustained_fraction = x;
        hardware->origins[index].provenance = TPP_PROVENANCE_MEASURED;
        snprintf(hardware->origins[index].source, sizeof hardware->origins[index].source,
                 "calibrated to one measured step of %.6g s (%.100s)", measured_seconds, source);
    }
    free(search.trial);
    return code;
}
