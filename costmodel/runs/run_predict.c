#include "costmodel/runs/run_predict.h"

#include "costmodel/flops.h"
#include "costmodel/simulator/simulate.h"

#include <stdio.h>
#include <string.h>

/* Replaces the step of the estimate by the simulated one. */
static enum tpp_code simulate(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                              struct tpp_cost *cost, struct tpp_error *err)
{
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    double step_seconds = 0;
    const enum tpp_code code = tpp_simulation_step_seconds(evaluator, strategy, &options, &step_seconds, err);
    if (code == TPP_OK) {
        const double ratio = step_seconds / cost->step_seconds;
        cost->step_seconds = step_seconds;
        cost->step_seconds_low *= ratio;
        cost->step_seconds_high *= ratio;
    }
    return code;
}

/* One evaluation of the run with other micro-batches: the same job, as many sequences as they hold. */
static enum tpp_code cost_micro_batches(const struct tpp_run *run, const struct tpp_hardware *hardware,
                                        enum tpp_run_method method, uint32_t micro_batch_size,
                                        uint64_t num_micro_batches, struct tpp_cost *cost, struct tpp_error *err)
{
    struct tpp_job job = run->job;
    struct tpp_strategy strategy = run->strategy;
    struct tpp_evaluator *evaluator = NULL;
    strategy.micro_batch_size = micro_batch_size;
    strategy.num_micro_batches = num_micro_batches;
    job.global_batch_size = (uint64_t)strategy.data_parallel * micro_batch_size * num_micro_batches;
    enum tpp_code code = tpp_strategy_complete(&strategy, &job, err);
    if (code == TPP_OK)
        code = tpp_evaluator_new(&run->model, hardware, &job, &run->stack, &evaluator, err);
    if (code == TPP_OK)
        code = tpp_evaluator_cost(evaluator, &strategy, cost, err);
    if (code == TPP_OK && method == TPP_RUN_SIMULATE)
        code = simulate(evaluator, &strategy, cost, err);
    tpp_evaluator_free(evaluator);
    return code;
}

/* A last, smaller micro-batch costs what the second of two such micro-batches costs: the difference of two steps has no
 * optimizer and no gradient reduction in it. */
static enum tpp_code add_remainder(const struct tpp_run *run, const struct tpp_hardware *hardware,
                                   struct tpp_cost *cost, struct tpp_error *err)
{
    struct tpp_cost one, two;
    enum tpp_code code = cost_micro_batches(run, hardware, TPP_RUN_ESTIMATE, run->remainder_sequences, 1, &one, err);
    if (code == TPP_OK)
        code = cost_micro_batches(run, hardware, TPP_RUN_ESTIMATE, run->remainder_sequences, 2, &two, err);
    if (code != TPP_OK)
        return code;
    cost->step_seconds += two.step_seconds - one.step_seconds;
    cost->step_seconds_low += two.step_seconds_low - one.step_seconds_low;
    cost->step_seconds_high += two.step_seconds_high - one.step_seconds_high;
    return TPP_OK;
}

static void set_prediction(const struct tpp_cost *cost, struct tpp_run_prediction *prediction)
{
    prediction->step_seconds = cost->step_seconds;
    prediction->step_seconds_low = cost->step_seconds_low;
    prediction->step_seconds_high = cost->step_seconds_high;
    prediction->peak_allocated_bytes = cost->memory.peak_allocated_bytes;
    prediction->peak_reserved_bytes = cost->memory.peak_reserved_bytes;
    prediction->device_total_bytes = cost->memory.device_total_bytes;
    prediction->fit = cost->memory.fit;
}

/* With the sequences of a last, smaller micro-batch, which `cost` has not counted. */
static double seconds_at_peak(const struct tpp_run *run, const struct tpp_cost *cost, const struct tpp_gpu *gpu)
{
    const double counted = (double)run->strategy.micro_batch_size * (double)run->strategy.num_micro_batches;
    return tpp_flops_least_seconds(cost->necessary_flops, &run->job, gpu) *
           (1 + (double)run->remainder_sequences / counted);
}

static enum tpp_code refuse(struct tpp_run_prediction *prediction, enum tpp_code code, const struct tpp_error *fault,
                            struct tpp_error *err)
{
    snprintf(prediction->skipped, sizeof prediction->skipped, "%.190s", fault->message);
    if (code != TPP_E_MEMORY)
        return TPP_OK;
    if (err != NULL)
        *err = *fault;
    return code;
}

enum tpp_code tpp_run_predict(const struct tpp_run *run, struct tpp_run_profiles *profiles, enum tpp_run_method method,
                              struct tpp_run_prediction *prediction, struct tpp_error *err)
{
    struct tpp_error fault = {0};
    memset(prediction, 0, sizeof *prediction);
    memcpy(prediction->skipped, run->skipped, sizeof prediction->skipped);
    if (run->skipped[0] != '\0')
        return TPP_OK;
    const struct tpp_hardware *profile = tpp_run_profiles_find(profiles, run->cluster.profile, &fault);
    if (profile == NULL)
        return refuse(prediction, fault.code, &fault, err);
    struct tpp_hardware hardware = *profile;
    struct tpp_cost cost;
    tpp_run_cluster_apply(&run->cluster, &hardware);
    enum tpp_code code = tpp_hardware_check(&hardware, &fault);
    if (code == TPP_OK)
        code = cost_micro_batches(run, &hardware, method, run->strategy.micro_batch_size,
                                  run->strategy.num_micro_batches, &cost, &fault);
    if (code == TPP_OK && run->remainder_sequences > 0)
        code = add_remainder(run, &hardware, &cost, &fault);
    if (code != TPP_OK)
        return refuse(prediction, code, &fault, err);
    set_prediction(&cost, prediction);
    prediction->seconds_at_peak = seconds_at_peak(run, &cost, &hardware.gpu);
    return TPP_OK;
}

double tpp_run_predicted_peak_bytes(const struct tpp_run *run, const struct tpp_run_prediction *prediction)
{
    switch (run->memory_kind) {
    case TPP_RUN_MEMORY_ALLOCATED:
        return prediction->peak_allocated_bytes;
    case TPP_RUN_MEMORY_RESERVED:
        return prediction->peak_reserved_bytes;
    case TPP_RUN_MEMORY_DEVICE:
        return prediction->device_total_bytes;
    case TPP_RUN_MEMORY_UNKNOWN:
        break;
    }
    return 0;
}
