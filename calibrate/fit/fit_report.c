/* What a fit found, for people and for programs. */
#include "calibrate/fit/fit.h"

#include <math.h>

static void append_errors(struct tpp_text *out, const char *name, const struct tpp_fit_errors *before,
                          const struct tpp_fit_errors *after)
{
    if (after->count == 0) {
        tpp_text_format(out, "  %-9s      0 samples\n", name);
        return;
    }
    tpp_text_format(out,
                    "  %-9s %6zu samples: median error %5.1f %% -> %5.1f %%, 90 %% within %5.1f %% -> %5.1f %%, "
                    "bias %+.1f %% -> %+.1f %%\n",
                    name, after->count, 100 * before->median, 100 * after->median, 100 * before->p90, 100 * after->p90,
                    100 * before->bias, 100 * after->bias);
}

static void append_group(struct tpp_text *out, const struct tpp_fit_group *group)
{
    tpp_text_format(out, "%s: %zu samples, %s", group->name, group->num_samples, group->range);
    if (group->num_left_out > 0) {
        tpp_text_format(out, " (%zu outside the range of the formula)", group->num_left_out);
    }
    if (group->num_impossible > 0) {
        tpp_text_format(out, " (%zu faster than the GPU's peak, physically impossible: left out)", group->num_impossible);
    }
    if (group->num_fitted < group->num_samples) {
        tpp_text_format(out, " (fitted to %zu of them)", group->num_fitted);
    }
    tpp_text_append(out, group->is_in_profile ? "\n" : "; not in the profile\n");
    for (size_t i = 0; i < group->num_values; i++) {
        const struct tpp_fit_value *value = &group->values[i];
        tpp_text_format(out, "  %-42s %11.5g -> %11.5g", value->key, value->base, value->value);
        if (value->error > 0) {
            tpp_text_format(out, " +- %.2g", value->error);
        }
        tpp_text_format(out, "  %s\n", value->state);
    }
    if (group->all_after.count > 0) { /* else nothing was predicted: values measured directly, too few steps */
        append_errors(out, "held out", &group->held_out_before, &group->held_out_after);
        append_errors(out, "all", &group->all_before, &group->all_after);
    }
}

void tpp_fit_report_text(const struct tpp_fit_report *report, struct tpp_text *out)
{
    for (size_t i = 0; i < report->num_groups; i++) {
        append_group(out, &report->groups[i]);
    }
    for (uint32_t i = 0; i < report->num_notes; i++) {
        tpp_text_format(out, "note: %s\n", report->notes[i]);
    }
}

static void add_errors(struct tpp_json_writer *writer, struct cJSON *parent, const char *name,
                       const struct tpp_fit_errors *errors)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, name);
    tpp_json_add_u64(writer, object, "n", errors->count);
    tpp_json_add_number(writer, object, "median_abs", errors->median);
    tpp_json_add_number(writer, object, "p90_abs", errors->p90);
    tpp_json_add_number(writer, object, "time_p90_abs", errors->time_p90);
    tpp_json_add_number(writer, object, "bias", errors->bias);
}

static void add_group(struct tpp_json_writer *writer, struct cJSON *groups, const struct tpp_fit_group *group)
{
    struct cJSON *object = tpp_json_add_object(writer, groups, NULL);
    tpp_json_add_string(writer, object, "name", group->name);
    tpp_json_add_string(writer, object, "range", group->range);
    tpp_json_add_u64(writer, object, "samples", group->num_samples);
    tpp_json_add_u64(writer, object, "left_out", group->num_left_out);
    tpp_json_add_u64(writer, object, "impossible", group->num_impossible);
    tpp_json_add_u64(writer, object, "fitted", group->num_fitted);
    tpp_json_add_bool(writer, object, "in_profile", group->is_in_profile);
    struct cJSON *values = tpp_json_add_array(writer, object, "values");
    for (size_t i = 0; i < group->num_values; i++) {
        const struct tpp_fit_value *value = &group->values[i];
        struct cJSON *row = tpp_json_add_object(writer, values, NULL);
        tpp_json_add_string(writer, row, "key", value->key);
        tpp_json_add_number(writer, row, "base", value->base);
        tpp_json_add_number(writer, row, "value", value->value);
        tpp_json_add_number(writer, row, "standard_error", value->error);
        tpp_json_add_string(writer, row, "state", value->state);
    }
    add_errors(writer, object, "held_out_before", &group->held_out_before);
    add_errors(writer, object, "held_out_after", &group->held_out_after);
    add_errors(writer, object, "all_before", &group->all_before);
    add_errors(writer, object, "all_after", &group->all_after);
}

void tpp_fit_report_json(const struct tpp_fit_report *report, struct tpp_json_writer *writer, struct cJSON *parent)
{
    struct cJSON *groups = tpp_json_add_array(writer, parent, "groups");
    for (size_t i = 0; i < report->num_groups; i++) {
        add_group(writer, groups, &report->groups[i]);
    }
    struct cJSON *notes = tpp_json_add_array(writer, parent, "notes");
    for (uint32_t i = 0; i < report->num_notes; i++) {
        tpp_json_add_string(writer, notes, NULL, report->notes[i]);
    }
}

void tpp_fit_residual_table(const struct tpp_fit_report *report, struct tpp_text *out)
{
    tpp_text_append(out, "group,size,measured_seconds,predicted_seconds,base_seconds,held_out\n");
    for (size_t i = 0; i < report->num_groups; i++) {
        const struct tpp_fit_group *group = &report->groups[i];
        for (size_t j = 0; j < group->num_residuals; j++) {
            const struct tpp_fit_residual *residual = &report->residuals[group->first_residual + j];
            tpp_text_format(out, "\"%s\",%.10g,%.6g,%.6g,%.6g,%d\n", group->name, residual->size,
                            residual->measured_seconds, residual->predicted_seconds, residual->base_seconds,
                            residual->is_held_out);
        }
    }
}
