#include "calibrate/fit/fit_group.h"

#include "costmodel/base/statistics.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum tpp_code out_of_memory(struct tpp_error *err)
{
    return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
}

uint64_t tpp_fit_mix(uint64_t digest, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return tpp_solve_mix(digest ^ bits);
}

static int compare_digests(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Sorts, and keeps one of each. Returns their number. */
static size_t make_unique(uint64_t *digests, size_t count)
{
    size_t kept = 0;
    qsort(digests, count, sizeof *digests, compare_digests);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || digests[i] != digests[kept - 1]) {
            digests[kept++] = digests[i];
        }
    }
    return kept;
}

enum tpp_code tpp_fit_hold_out(struct tpp_fit_set *set, uint64_t (*shape)(const struct tpp_sample *sample),
                               struct tpp_error *err)
{
    const size_t count = set->points.count;
    uint64_t *digests = malloc((count + 1) * sizeof *digests);
    free(set->is_held_out);
    set->is_held_out = calloc(count + 1, sizeof *set->is_held_out);
    if (!digests || !set->is_held_out) {
        free(digests);
        return out_of_memory(err);
    }
    for (size_t i = 0; i < count; i++) {
        digests[i] = shape(set->points.items[i]);
    }
    const size_t num_shapes = make_unique(digests, count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t digest = shape(set->points.items[i]);
        const uint64_t *place = bsearch(&digest, digests, num_shapes, sizeof *digests, compare_digests);
        set->is_held_out[i] = (place - digests) % 10 >= 7;
    }
    free(digests);
    return TPP_OK;
}

void tpp_fit_set_release(struct tpp_fit_set *set)
{
    free(set->points.items);
    free(set->is_held_out);
    memset(set, 0, sizeof *set);
}

bool tpp_fit_has_room_for_notes(const struct tpp_fit_report *report)
{
    return report->num_notes < sizeof report->notes / sizeof report->notes[0];
}

void tpp_fit_note(struct tpp_fit_report *report, const char *format, ...)
{
    if (tpp_fit_has_room_for_notes(report)) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(report->notes[report->num_notes++], sizeof report->notes[0], format, arguments);
        va_end(arguments);
    }
}

enum tpp_code tpp_fit_collect(const struct tpp_fit_run *run, tpp_fit_select *select, const void *context,
                              struct tpp_fit_set *set, struct tpp_error *err)
{
    const struct tpp_samples *samples = run->samples;
    memset(set, 0, sizeof *set);
    set->points.items = malloc((samples->count ? samples->count : 1) * sizeof *set->points.items);
    if (!set->points.items) {
        return out_of_memory(err);
    }
    for (size_t i = 0; i < samples->count; i++) {
        const struct tpp_sample *sample = &samples->items[i];
        const enum tpp_fit_use use = select(sample, context);
        switch (use == TPP_FIT_USE && sample->is_wrong ? TPP_FIT_LEAVE_OUT : use) {
        case TPP_FIT_USE:
            set->points.items[set->points.count++] = sample;
            break;
        case TPP_FIT_LEAVE_OUT:
            set->num_left_out++;
            break;
        case TPP_FIT_OTHER:
            break;
        }
    }
    return TPP_OK;
}

enum tpp_code tpp_fit_leave_out_impossible(const struct tpp_fit_run *run, tpp_predict *least, const char *name,
                                           struct tpp_fit_set *set, struct tpp_error *err)
{
    const size_t count = set->points.count;
    set->points.count = 0;
    for (size_t i = 0; i < count; i++) {
        const struct tpp_sample *sample = set->points.items[i];
        if (sample->seconds < least(run->base, sample)) {
            set->num_impossible++;
        } else {
            set->points.items[set->points.count++] = sample;
        }
    }
    if (set->num_impossible > set->points.count) {
        return tpp_fail(err, TPP_E_RANGE, name, "is this the GPU of --base? else the times are wrong",
                        "%zu of %zu samples are faster than the peak of %.60s: physically impossible",
                        set->num_impossible, count, run->base->gpu.name);
    }
    return TPP_OK;
}

enum tpp_code tpp_fit_take_part(const struct tpp_fit_set *set, enum tpp_fit_part part, struct tpp_points *points,
                                struct tpp_error *err)
{
    points->count = 0;
    points->items = malloc((set->points.count + 1) * sizeof *points->items);
    if (!points->items) {
        return out_of_memory(err);
    }
    for (size_t i = 0; i < set->points.count; i++) {
        if (part == TPP_FIT_ALL || set->is_held_out[i] == (part == TPP_FIT_HELD_OUT)) {
            points->items[points->count++] = set->points.items[i];
        }
    }
    return TPP_OK;
}

struct tpp_fit_group *tpp_fit_new_group(struct tpp_fit_report *report)
{
    if (report->num_groups == report->group_capacity) {
        const size_t capacity = report->group_capacity ? 2 * report->group_capacity : 16;
        struct tpp_fit_group *groups = realloc(report->groups, capacity * sizeof *groups);
        if (!groups) {
            return NULL;
        }
        report->groups = groups;
        report->group_capacity = capacity;
    }
    struct tpp_fit_group *group = &report->groups[report->num_groups++];
    memset(group, 0, sizeof *group);
    group->first_residual = report->num_residuals;
    return group;
}

static enum tpp_code add_residuals(struct tpp_fit_report *report, struct tpp_fit_group *group,
                                   const struct tpp_hardware *hardware, const struct tpp_hardware *base,
                                   const struct tpp_fit_plan *plan, const struct tpp_fit_set *set,
                                   struct tpp_error *err)
{
    const size_t needed = report->num_residuals + set->points.count;
    if (needed > report->residual_capacity) {
        const size_t capacity = needed + needed / 2;
        struct tpp_fit_residual *residuals = realloc(report->residuals, capacity * sizeof *residuals);
        if (!residuals) {
            return out_of_memory(err);
        }
        report->residuals = residuals;
        report->residual_capacity = capacity;
    }
    for (size_t i = 0; i < set->points.count; i++) {
        const struct tpp_sample *sample = set->points.items[i];
        report->residuals[report->num_residuals++] =
            (struct tpp_fit_residual){.size = plan->size(sample),
                                      .measured_seconds = sample->seconds,
                                      .predicted_seconds = plan->predict(hardware, sample),
                                      .base_seconds = plan->predict(base, sample),
                                      .is_held_out = set->is_held_out[i]};
    }
    group->num_residuals = set->points.count;
    return TPP_OK;
}

/* Fits on 70 % of the shapes, and judges on the rest. */
static enum tpp_code cross_validate(const struct tpp_hardware *start, const struct tpp_fit_plan *plan,
                                    const struct tpp_fit_set *set, struct tpp_fit_group *group, struct tpp_error *err)
{
    struct tpp_points part;
    struct tpp_solution solution;
    struct tpp_hardware *trial = malloc(sizeof *trial);
    enum tpp_code code = trial ? tpp_fit_take_part(set, TPP_FIT_KEPT, &part, err) : out_of_memory(err);
    if (code == TPP_OK) {
        *trial = *start;
        code = tpp_solve(trial, plan->unknowns, plan->num_unknowns, plan->predict, &part, &solution, err);
        free(part.items);
    }
    code = code ? code : tpp_fit_judge(trial, plan->predict, set, TPP_FIT_HELD_OUT, &group->held_out_after, err);
    free(trial);
    return code;
}

static void add_values(struct tpp_fit_run *run, struct tpp_fit_group *group, const struct tpp_fit_plan *plan,
                       const struct tpp_solution *solution, const struct tpp_fit_set *set)
{
    char errors[80];
    tpp_fit_describe_errors(&group->held_out_after, errors, sizeof errors);
    for (size_t i = 0; i < plan->num_unknowns; i++) {
        uint32_t index;
        const char *key = plan->unknowns[i].key;
        const bool is_fitted = solution->state[i] == TPP_UNKNOWN_FITTED || solution->state[i] == TPP_UNKNOWN_OFF;
        tpp_hardware_field_index(key, &index);
        group->values[group->num_values++] =
            (struct tpp_fit_value){.key = key,
                                   .base = tpp_hardware_get(run->base, index),
                                   .value = solution->value[i],
                                   .error = solution->error[i],
                                   .state = tpp_unknown_state_name(solution->state[i])};
        if (plan->is_in_profile && is_fitted) {
            tpp_hardware_set(run->hardware, key, solution->value[i], NULL, NULL);
            tpp_fit_set_origin(run, key, set, solution->value[i] != 0 ? solution->error[i] / solution->value[i] : 0,
                               errors);
        }
    }
}

/* The errors of the profile as it was, and of the fit, on all samples and on those held out. */
static enum tpp_code judge_group(const struct tpp_fit_run *run, const struct tpp_hardware *fitted,
                                 const struct tpp_fit_plan *plan, const struct tpp_fit_set *set,
                                 struct tpp_fit_group *group, struct tpp_error *err)
{
    enum tpp_code code = tpp_fit_judge(run->base, plan->predict, set, TPP_FIT_HELD_OUT, &group->held_out_before, err);
    code = code ? code : tpp_fit_judge(run->base, plan->predict, set, TPP_FIT_ALL, &group->all_before, err);
    return code ? code : tpp_fit_judge(fitted, plan->predict, set, TPP_FIT_ALL, &group->all_after, err);
}

/* The held-out samples speak against the fit: median and 90 % point together, as the median of a few samples alone may
 * move either way by chance. */
static bool is_no_better(const struct tpp_fit_group *group)
{
    const struct tpp_fit_errors *before = &group->held_out_before, *after = &group->held_out_after;
    return after->count > 0 && after->count == before->count &&
           after->median + after->p90 > before->median + before->p90;
}

/* Puts the base's values back. held_out_after keeps what the fit would have given. */
static enum tpp_code revert(const struct tpp_fit_run *run, struct tpp_hardware *hardware,
                            const struct tpp_fit_plan *plan, const struct tpp_fit_set *set, struct tpp_fit_group *group,
                            struct tpp_solution *solution, struct tpp_error *err)
{
    for (size_t i = 0; i < plan->num_unknowns; i++) {
        uint32_t index;
        tpp_hardware_field_index(plan->unknowns[i].key, &index);
        solution->value[i] = tpp_hardware_get(run->base, index);
        solution->error[i] = 0;
        if (solution->state[i] == TPP_UNKNOWN_FITTED || solution->state[i] == TPP_UNKNOWN_OFF) {
            solution->state[i] = TPP_UNKNOWN_NO_BETTER;
        }
        if (solution->value[i] > 0) { /* a kernel that the base does not have keeps its start */
            tpp_hardware_set(hardware, plan->unknowns[i].key, solution->value[i], NULL, NULL);
            hardware->origins[index] = run->base->origins[index];
        }
    }
    if (plan->revert) {
        plan->revert(hardware, run->base);
    }
    return tpp_fit_judge(hardware, plan->predict, set, TPP_FIT_ALL, &group->all_after, err);
}

enum tpp_code tpp_fit_group(struct tpp_fit_run *run, struct tpp_hardware *hardware, const struct tpp_fit_plan *plan,
                            struct tpp_fit_set *set, struct tpp_error *err)
{
    struct tpp_solution solution;
    if (set->points.count == 0) {
        return TPP_OK;
    }
    struct tpp_fit_group *group = tpp_fit_new_group(run->report);
    if (!group) {
        return out_of_memory(err);
    }
    snprintf(group->name, sizeof group->name, "%s", plan->name);
    plan->describe(set, group->range, sizeof group->range);
    group->num_samples = set->points.count;
    group->num_left_out = set->num_left_out;
    group->num_impossible = set->num_impossible;
    group->num_fitted = set->points.count < TPP_SOLVE_MAX_POINTS ? set->points.count : TPP_SOLVE_MAX_POINTS;
    group->is_in_profile = plan->is_in_profile;
    enum tpp_code code = tpp_fit_hold_out(set, plan->shape, err);
    code = code ? code : cross_validate(hardware, plan, set, group, err);
    code = code ? code
                : tpp_solve(hardware, plan->unknowns, plan->num_unknowns, plan->predict, &set->points, &solution, err);
    code = code ? code : judge_group(run, hardware, plan, set, group, err);
    /* What is only shown has no base to go back to: the base's values are of the formula as a whole. */
    if (code == TPP_OK && plan->is_in_profile && is_no_better(group)) {
        code = revert(run, hardware, plan, set, group, &solution, err);
    }
    code = code ? code : add_residuals(run->report, group, hardware, run->base, plan, set, err);
    if (code == TPP_OK) {
        add_values(run, group, plan, &solution, set);
        tpp_fit_write_error(run, group, plan, &solution, set);
    }
    return code;
}
