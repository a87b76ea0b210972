/* How far off a formula is on measured samples. */
#include "calibrate/fit/fit_group.h"
#include "costmodel/base/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_errors(const void *a, const void *b)
{
    const double left = fabs(((const struct tpp_sample_error *)a)->error);
    const double right = fabs(((const struct tpp_sample_error *)b)->error);
    return (left > right) - (left < right);
}

/* The error that nine tenths of the time do not exceed; `errors` are sorted by size. */
static double time_quantile(const struct tpp_sample_error *errors, size_t count)
{
    double total = 0, sum = 0;
    size_t i = 0;
    for (size_t j = 0; j < count; j++) {
        total += errors[j].seconds;
    }
    while (i + 1 < count && (sum += errors[i].seconds) < 0.9 * total) {
        i++;
    }
    return count > 0 ? fabs(errors[i].error) : 0;
}

enum tpp_code tpp_fit_summarise(struct tpp_sample_error *items, size_t count, struct tpp_fit_errors *errors,
                                struct tpp_error *err)
{
    double *values = malloc((count + 1) * sizeof *values);
    if (!values) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = items[i].error;
    }
    tpp_sort_numbers(values, count);
    errors->count = count;
    errors->bias = tpp_sorted_quantile(values, count, 0.5);
    qsort(items, count, sizeof *items, compare_errors);
    for (size_t i = 0; i < count; i++) {
        values[i] = fabs(items[i].error);
    }
    errors->median = tpp_sorted_quantile(values, count, 0.5);
    errors->p90 = tpp_sorted_quantile(values, count, 0.9);
    errors->time_p90 = time_quantile(items, count);
    free(values);
    return TPP_OK;
}

enum tpp_code tpp_fit_judge(const struct tpp_hardware *hardware, tpp_predict *predict, const struct tpp_fit_set *set,
                            enum tpp_fit_part part, struct tpp_fit_errors *errors, struct tpp_error *err)
{
    struct tpp_points points;
    memset(errors, 0, sizeof *errors);
    enum tpp_code code = tpp_fit_take_part(set, part, &points, err);
    struct tpp_sample_error *items = code ? NULL : malloc((points.count + 1) * sizeof *items);
    if (!code && !items) {
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    size_t count = 0;
    for (size_t i = 0; code == TPP_OK && i < points.count; i++) {
        const double seconds = points.items[i]->seconds, error = predict(hardware, points.items[i]) / seconds - 1;
        if (isfinite(error)) {
            items[count++] = (struct tpp_sample_error){error, seconds};
        }
    }
    code = code ? code : tpp_fit_summarise(items, count, errors, err);
    free(items);
    free(points.items);
    return code;
}

/* 90 % half-width of a prediction from the fit's own statistics: the scatter of the samples around it, and what its
 * values may be off by. */
static double covariance_error(const struct tpp_fit_plan *plan, const struct tpp_solution *solution, size_t num_samples)
{
    static const double half_width = 1.645; /* of a normal distribution, in standard deviations */
    double squares = 0, num_fitted = 0;
    for (size_t i = 0; i < plan->num_unknowns; i++) {
        if (solution->state[i] == TPP_UNKNOWN_FITTED && solution->value[i] != 0) {
            const double relative = solution->error[i] / solution->value[i];
            squares += relative * relative;
            num_fitted++;
        }
    }
    const double freedom = fmax((double)num_samples - num_fitted, 1);
    return half_width * sqrt(solution->scale * solution->scale * (double)num_samples / freedom + squares);
}

/* Nine tenths of the held-out time, with the fit, or with the base's values where these are kept. A few samples hardly
 * have a 90 % point: with fewer than LEAST_HELD_OUT the covariance says how far off the fit may be, and it can widen what
 * the base says, never narrow it. */
void tpp_fit_write_error(struct tpp_fit_run *run, const struct tpp_fit_group *group, const struct tpp_fit_plan *plan,
                         const struct tpp_solution *solution, const struct tpp_fit_set *set)
{
    enum { LEAST_HELD_OUT = 10 };
    const bool is_kept = solution->state[0] == TPP_UNKNOWN_NO_BETTER;
    const struct tpp_fit_errors *errors = is_kept ? &group->held_out_before : &group->held_out_after;
    uint32_t index;
    char addition[80];
    if (!plan->is_in_profile || !plan->error_key || !tpp_hardware_field_index(plan->error_key, &index)) {
        return;
    }
    const double base = tpp_hardware_get(run->base, index);
    double error = errors->time_p90;
    snprintf(addition, sizeof addition, ", nine tenths of the time of %zu held out are within it", errors->count);
    if (errors->count < LEAST_HELD_OUT) {
        error = is_kept ? base : covariance_error(plan, solution, group->num_fitted);
        tpp_fit_note(run->report, "%s: only %zu samples held out, %d are needed: %s", plan->error_key, errors->count,
                     LEAST_HELD_OUT, error > base ? "taken from the fit's covariance" : "as before");
        snprintf(addition, sizeof addition, ", by the covariance: only %zu held out", errors->count);
        if (error <= base) {
            return;
        }
    }
    tpp_hardware_set(run->hardware, plan->error_key, fmin(error, tpp_hardware_fields(NULL)[index].max), NULL, NULL);
    tpp_fit_set_origin(run, plan->error_key, set, 0, addition);
}
