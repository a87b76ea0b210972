#include "costmodel/runs/run_report.h"

static void add_number_or_null(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, bool is_known,
                               double value)
{
    if (is_known)
        tpp_json_add_number(writer, parent, name, value);
    else
        tpp_json_add_null(writer, parent, name);
}

static void add_errors(struct tpp_json_writer *writer, struct cJSON *parent, const char *name,
                       const struct tpp_run_errors *errors)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, name);
    const bool has_any = errors->n > 0;
    tpp_json_add_u64(writer, object, "n", errors->n);
    add_number_or_null(writer, object, "mean_abs", has_any, errors->mean_abs);
    add_number_or_null(writer, object, "median_abs", has_any, errors->median_abs);
    add_number_or_null(writer, object, "bias", has_any, errors->bias);
    add_number_or_null(writer, object, "within_10pct", has_any, errors->within_10pct);
    add_number_or_null(writer, object, "max_abs", has_any, errors->max_abs);
    add_number_or_null(writer, object, "interval_coverage", has_any && errors->interval_coverage >= 0,
                       errors->interval_coverage);
    add_number_or_null(writer, object, "macro_mean_abs", has_any, errors->macro_mean_abs);
}

static void add_fit(struct tpp_json_writer *writer, struct cJSON *parent, const struct tpp_run_fits *fit)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "fit");
    tpp_json_add_u64(writer, object, "n", fit->n);
    add_number_or_null(writer, object, "right_fraction", fit->n > 0,
                       fit->n > 0 ? (double)fit->num_right / (double)fit->n : 0);
    tpp_json_add_u64(writer, object, "said_fits_but_out_of_memory", fit->said_fits_but_out_of_memory);
    tpp_json_add_u64(writer, object, "said_out_of_memory_but_fits", fit->said_out_of_memory_but_fits);
}

static void add_ranking(struct tpp_json_writer *writer, struct cJSON *parent, const struct tpp_run_ranking *ranking)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, "ranking");
    tpp_json_add_u64(writer, object, "groups", ranking->groups);
    tpp_json_add_u64(writer, object, "pairs", ranking->pairs);
    add_number_or_null(writer, object, "pairs_right_fraction", ranking->pairs > 0,
                       ranking->pairs > 0 ? (double)ranking->num_right / (double)ranking->pairs : 0);
    add_number_or_null(writer, object, "mean_regret_fraction", ranking->groups > 0, ranking->mean_regret_fraction);
}

static void add_figures(struct tpp_json_writer *writer, struct cJSON *parent, const struct tpp_run_figures *figures)
{
    add_errors(writer, parent, "step", &figures->step);
    add_errors(writer, parent, "memory", &figures->memory);
    add_errors(writer, parent, "naive_step", &figures->naive);
    add_fit(writer, parent, &figures->fit);
    add_ranking(writer, parent, &figures->ranking);
    tpp_json_add_u64(writer, parent, "runs", figures->num_runs);
    tpp_json_add_u64(writer, parent, "skipped", figures->num_skipped);
}

static void add_sets(struct tpp_json_writer *writer, struct cJSON *parent, const char *name,
                     const struct tpp_run_figures *sets, size_t count)
{
    struct cJSON *object = tpp_json_add_object(writer, parent, name);
    for (size_t i = 0; i < count; i++)
        add_figures(writer, tpp_json_add_object(writer, object, sets[i].name), &sets[i]);
}

static void add_row(struct tpp_json_writer *writer, struct cJSON *rows, const struct tpp_run *run,
                    const struct tpp_run_prediction *prediction)
{
    struct cJSON *row = tpp_json_add_object(writer, rows, NULL);
    const struct tpp_run_error error = tpp_run_error(run, prediction);
    const bool is_predicted = prediction->skipped[0] == '\0';
    const double peak_bytes = tpp_run_predicted_peak_bytes(run, prediction);
    tpp_json_add_string(writer, row, "id", run->id);
    tpp_json_add_string(writer, row, "group", run->group);
    add_number_or_null(writer, row, "measured_step_seconds", run->measured_step_seconds > 0,
                       run->measured_step_seconds);
    add_number_or_null(writer, row, "predicted_step_seconds", is_predicted, prediction->step_seconds);
    add_number_or_null(writer, row, "predicted_step_seconds_low", is_predicted, prediction->step_seconds_low);
    add_number_or_null(writer, row, "predicted_step_seconds_high", is_predicted, prediction->step_seconds_high);
    add_number_or_null(writer, row, "error_fraction", error.has_step, error.step_fraction);
    add_number_or_null(writer, row, "measured_peak_bytes", run->measured_peak_bytes > 0, run->measured_peak_bytes);
    add_number_or_null(writer, row, "predicted_peak_bytes", is_predicted && peak_bytes > 0, peak_bytes);
    add_number_or_null(writer, row, "memory_error_fraction", error.has_memory, error.memory_fraction);
    if (run->out_of_memory == TPP_RUN_UNSAID)
        tpp_json_add_null(writer, row, "measured_out_of_memory");
    else
        tpp_json_add_bool(writer, row, "measured_out_of_memory", run->out_of_memory == TPP_RUN_YES);
    if (is_predicted)
        tpp_json_add_bool(writer, row, "predicted_out_of_memory", prediction->fit == TPP_FIT_DOES_NOT_FIT);
    else
        tpp_json_add_null(writer, row, "predicted_out_of_memory");
    tpp_json_add_string(writer, row, "skipped", is_predicted ? NULL : prediction->skipped);
}

void tpp_run_report_add_json(const struct tpp_run_report *report, const struct tpp_run *runs,
                             const struct tpp_run_prediction *predictions, size_t count, struct tpp_json_writer *writer,
                             struct cJSON *parent)
{
    struct cJSON *rows = tpp_json_add_array(writer, parent, "rows");
    for (size_t i = 0; i < count; i++)
        add_row(writer, rows, &runs[i], &predictions[i]);
    struct cJSON *summary = tpp_json_add_object(writer, parent, "summary");
    add_figures(writer, summary, &report->all);
    add_sets(writer, summary, "groups", report->groups, report->num_groups);
    add_sets(writer, summary, "gpus", report->gpus, report->num_gpus);
    add_sets(writer, summary, "frameworks", report->frameworks, report->num_frameworks);
    struct cJSON *skips = tpp_json_add_array(writer, summary, "skipped_reasons");
    for (size_t i = 0; i < report->num_skips; i++) {
        struct cJSON *skip = tpp_json_add_object(writer, skips, NULL);
        tpp_json_add_string(writer, skip, "reason", report->skips[i].reason);
        tpp_json_add_u64(writer, skip, "count", report->skips[i].count);
    }
}
