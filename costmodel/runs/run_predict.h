/* run_predict.h - what the cost model says about a published run. */
#ifndef TPP_COSTMODEL_RUNS_RUN_PREDICT_H
#define TPP_COSTMODEL_RUNS_RUN_PREDICT_H

#include "costmodel/base/error.h"
#include "costmodel/evaluate.h"
#include "costmodel/runs/run.h"
#include "costmodel/runs/run_hardware.h"

#include <stdbool.h>

enum tpp_run_method {
    TPP_RUN_ESTIMATE, /* the closed forms of tpp_evaluator_cost */
    TPP_RUN_SIMULATE, /* the step as events; its interval is as wide, relative to the step, as the estimate's */
};

struct tpp_run_prediction {
    char skipped[200]; /* why there is no prediction; "" = there is one */
    double step_seconds, step_seconds_low, step_seconds_high;
    double peak_allocated_bytes, peak_reserved_bytes, device_total_bytes; /* of the rank that needs most */
    enum tpp_fit fit;
    double seconds_at_peak; /* all GPUs do nothing but the necessary operations at their peak (tpp_flops_least_seconds) */
};

/* Always fills *prediction; a run that was skipped, or that the evaluator refuses, has its reason there. Fails for lack
 * of memory only. */
enum tpp_code tpp_run_predict(const struct tpp_run *run, struct tpp_run_profiles *profiles,
                              enum tpp_run_method method, struct tpp_run_prediction *prediction,
                              struct tpp_error *err);

/* The predicted peak that the published one is compared with; 0 when the source does not say what it measured. */
double tpp_run_predicted_peak_bytes(const struct tpp_run *run, const struct tpp_run_prediction *prediction);

#endif
