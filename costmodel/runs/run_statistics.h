/* run_statistics.h - the figures of one set of runs. Internal to costmodel/runs. */
#ifndef TPP_COSTMODEL_RUNS_RUN_STATISTICS_H
#define TPP_COSTMODEL_RUNS_RUN_STATISTICS_H

#include "costmodel/runs/run_report.h"

/* A run and its prediction; `order` keeps sorts stable. */
struct tpp_run_pair {
    const struct tpp_run *run;
    const struct tpp_run_prediction *prediction;
    size_t order;
    double naive_seconds; /* step at the GPU type's one MFU; 0 = unknown */
};

/* Errors of step time or memory over the pairs; `scratch` has room for `count` numbers. macro_mean_abs = mean_abs. */
struct tpp_run_errors tpp_run_step_errors(const struct tpp_run_pair *pairs, size_t count, double *scratch);
/* The same of the naive prediction: every run at one MFU of its GPU type. */
struct tpp_run_errors tpp_run_naive_errors(const struct tpp_run_pair *pairs, size_t count, double *scratch);
/* seconds_at_peak / measured: the median over the timed, predicted runs of `pairs`; 0 without any. */
double tpp_run_median_utilization(const struct tpp_run_pair *pairs, size_t count, double *scratch);
struct tpp_run_errors tpp_run_memory_errors(const struct tpp_run_pair *pairs, size_t count, double *scratch);
struct tpp_run_fits tpp_run_count_fits(const struct tpp_run_pair *pairs, size_t count);
/* Sorts `pairs` in place by job. */
struct tpp_run_ranking tpp_run_rank(struct tpp_run_pair *pairs, size_t count);

#endif
