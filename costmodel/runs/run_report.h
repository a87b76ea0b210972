/* run_report.h - predictions against measurements: errors, fit verdicts, ranking, by group and over all.
 *
 * error_fraction = predicted / measured - 1. Every figure counts predicted runs only; how many were skipped, and why,
 * is listed beside them. The group "vtrain-single" is no raw measurement (its times are exactly linear in the number of
 * micro-batches): it is listed, and kept out of every figure over all groups. */
#ifndef TPP_COSTMODEL_RUNS_RUN_REPORT_H
#define TPP_COSTMODEL_RUNS_RUN_REPORT_H

#include "costmodel/base/error.h"
#include "costmodel/base/json_write.h"
#include "costmodel/base/text.h"
#include "costmodel/runs/run.h"
#include "costmodel/runs/run_predict.h"

#include <stdbool.h>
#include <stddef.h>

struct tpp_run_errors { /* all 0 when n is 0 */
    size_t n;
    double mean_abs, median_abs, bias, max_abs;
    double within_10pct;      /* share with |error| <= 10 % */
    double interval_coverage; /* share of measured values inside [low, high]; memory has no interval: -1 */
    double macro_mean_abs;    /* plain mean over groups of each group's mean_abs; of one group: its mean_abs */
};

struct tpp_run_fits { /* of runs known to have run, or to have run out of memory */
    size_t n, num_right;
    size_t said_fits_but_out_of_memory, said_out_of_memory_but_fits;
};

/* Pairs of runs of one job (same group, model shape, GPUs, sequence, global batch, precision and task) with different
 * plans whose measured times differ by more than 1 %. */
struct tpp_run_ranking {
    size_t groups; /* jobs with two timed runs or more */
    size_t pairs, num_right;
    double mean_regret_fraction; /* measured(predicted best) / measured(best) - 1, mean over jobs */
};

struct tpp_run_figures {
    char name[64]; /* of the group, GPU or framework; "" over all */
    size_t num_runs, num_skipped;
    struct tpp_run_errors step, memory;
    struct tpp_run_errors naive; /* of the step when every run of a GPU type has one MFU, the median of these very runs */
    struct tpp_run_fits fit;
    struct tpp_run_ranking ranking;
};

struct tpp_run_skip_count {
    char reason[200];
    size_t count;
};

struct tpp_run_report {
    struct tpp_run_figures all;
    struct tpp_run_figures *groups; /* owned, in the order of their first run */
    size_t num_groups;
    struct tpp_run_figures *gpus, *frameworks; /* owned; the runs of `all` by GPU and by framework */
    size_t num_gpus, num_frameworks;
    struct tpp_run_skip_count *skips; /* owned, most frequent first */
    size_t num_skips;
};

struct tpp_run_error { /* of one run; false = nothing to compare */
    bool has_step, has_memory;
    double step_fraction, memory_fraction;
};

/* predicted / measured - 1 of time and peak memory. */
struct tpp_run_error tpp_run_error(const struct tpp_run *run, const struct tpp_run_prediction *prediction);

/* `predictions[i]` belongs to `runs[i]`. On success the caller releases *report. */
enum tpp_code tpp_run_report_make(const struct tpp_run *runs, const struct tpp_run_prediction *predictions,
                                  size_t count, struct tpp_run_report *report, struct tpp_error *err);
void tpp_run_report_release(struct tpp_run_report *report);

/* Adds "rows" and "summary" to `parent`. */
void tpp_run_report_add_json(const struct tpp_run_report *report, const struct tpp_run *runs,
                             const struct tpp_run_prediction *predictions, size_t count, struct tpp_json_writer *writer,
                             struct cJSON *parent);
/* The table by group for people, then what was skipped. */
void tpp_run_report_append_text(const struct tpp_run_report *report, struct tpp_text *text);
/* A page that needs no other file and no network: the tables, and measured against predicted step seconds as a picture
 * (SVG, both axes logarithmic, a colour a group; a point tells its run on hovering). Texts from files are escaped. */
void tpp_run_report_append_html(const struct tpp_run_report *report, const struct tpp_run *runs,
                                const struct tpp_run_prediction *predictions, size_t count, struct tpp_text *html);
/* One line a run: measured, predicted, error, or the reason why not. */
void tpp_run_rows_append_text(const struct tpp_run *runs, const struct tpp_run_prediction *predictions, size_t count,
                              struct tpp_text *text);

#endif
