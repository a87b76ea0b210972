/* Stages and micro-batches (cost-model 10.2 items 2, 3, 6, 8; field note B1). */
#include "planner/risk_checks.h"

#include "costmodel/data_parallel.h"
#include "planner/rules/schedules.h"

#define WANTED_MICRO_BATCHES_PER_STAGE 4 /* m >= 4p keeps the bubble of 1F1B near 20 % */
#define INTERLEAVE_BELOW 8               /* m/p below it: chunks pay */
#define IMBALANCE_FRACTION 0.05
#define MANY_MICRO_BATCHES 8
#define UNEVEN_FRACTION 0.05             /* of the step, from which other plans are worth a look */

static void few_micro_batches(struct tpp_risk_context *c)
{
    const uint32_t p = c->strategy->pipeline_parallel;
    const unsigned long long m = c->strategy->num_micro_batches;
    const double bubble = 100 * c->cost->bubble_fraction;
    if (p == 1) {
        return;
    }
    if (m < p) {
        tpp_risk_add(c, "fewer-micro-batches-than-stages", TPP_SEVERITY_WARNING,
                     "lower the micro-batch or the pipeline size, or raise the global batch",
                     "%llu micro-batches cannot fill %u stages: the pipeline is idle %.0f %% of the time", m, p,
                     bubble);
    } else if (m < (unsigned long long)WANTED_MICRO_BATCHES_PER_STAGE * p &&
               c->strategy->virtual_pipeline_stages == 1) {
        tpp_risk_add(c, "few-micro-batches", TPP_SEVERITY_INFO,
                     "lower the micro-batch or the pipeline size, or interleave",
                     "%llu micro-batches on %u stages are below %d a stage: the bubble is %.0f %%", m, p,
                     WANTED_MICRO_BATCHES_PER_STAGE, bubble);
    }
}

static void missing_schedule(struct tpp_risk_context *c)
{
    struct tpp_error err;
    if (c->strategy->pipeline_parallel > 1 &&
        tpp_framework_check_schedule(c->stack->framework, c->strategy->schedule, &err) != TPP_OK) {
        tpp_risk_add(c, "schedule-missing", TPP_SEVERITY_ERROR, err.hint, "%s", err.message);
    }
}

static void missing_chunks(struct tpp_risk_context *c)
{
    const uint32_t p = c->strategy->pipeline_parallel;
    const unsigned long long m = c->strategy->num_micro_batches;
    const bool can_interleave = c->stack->engine != TPP_ENGINE_DEEPSPEED_PIPELINE && p > 1 && m >= p && m % p == 0 &&
                                c->model->num_layers >= 2 * p;
    if (can_interleave && c->strategy->schedule == TPP_SCHEDULE_1F1B && m < (unsigned long long)INTERLEAVE_BELOW * p) {
        tpp_risk_add(c, "interleaving-missing", TPP_SEVERITY_INFO,
                     "try two or more virtual stages: they divide the bubble and cost transfers and memory",
                     "%llu micro-batches on %u stages without interleaving leave a bubble of %.0f %%", m, p,
                     100 * c->cost->bubble_fraction);
    }
}

/* Seconds of one micro-batch on the slowest stage: what its leaves of the time tree sum to. */
static double stage_seconds(const struct tpp_risk_context *c)
{
    static const enum tpp_time_term leaves[] = {
        TPP_TIME_GEMM, TPP_TIME_ATTENTION,   TPP_TIME_MEMORY_BOUND, TPP_TIME_EMBEDDING_HEAD, TPP_TIME_RECOMPUTE,
        TPP_TIME_HOST, TPP_TIME_TENSOR_COMM, TPP_TIME_CONTEXT_COMM, TPP_TIME_EXPERT_COMM,    TPP_TIME_SHARD_COMM};
    double sum = 0;
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
        sum += c->cost->time_terms[leaves[i]];
    }
    return sum / (double)c->strategy->num_micro_batches;
}

static void uneven_stages(struct tpp_risk_context *c)
{
    const uint32_t p = c->strategy->pipeline_parallel;
    const double slowest = stage_seconds(c);
    if (p == 1 || !(slowest > 0)) {
        return;
    }
    const double fraction = c->cost->imbalance_seconds / (p * slowest);
    if (fraction > IMBALANCE_FRACTION) {
        tpp_risk_add(c, "stage-imbalance", TPP_SEVERITY_WARNING,
                     "give the first or last stage a layer less (first_layers, last_layers, account_loss)",
                     "stages wait for the slowest one %.0f %% of their time", 100 * fraction);
    }
}

static void uneven_micro_batches(struct tpp_risk_context *c)
{
    const double fraction = c->cost->uneven_seconds / c->cost->step_seconds;
    if (fraction > UNEVEN_FRACTION) {
        tpp_risk_add(c, "uneven-micro-batches", TPP_SEVERITY_WARNING,
                     c->strategy->virtual_pipeline_stages > 1 ? "pack sequences (--seq-packing), or use fewer stages"
                                                              : "pack sequences (--seq-packing), interleave, or use fewer stages",
                     "stages wait %.0f %% of the step for micro-batches that are longer than others", 100 * fraction);
    }
}

static void repeated_gathers(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    const unsigned long long m = s->num_micro_batches;
    if (s->zero_stage == 3 && !tpp_keeps_gathered(c->stack, s) && (s->pipeline_parallel > 1 || m >= MANY_MICRO_BATCHES)) {
        tpp_risk_add(c, "parameters-gathered-every-micro-batch", TPP_SEVERITY_WARNING,
                     "prefer stage 1 or 2 here, or a larger micro-batch",
                     "sharded parameters are gathered again for each of %llu micro-batches%s", m,
                     s->pipeline_parallel > 1 ? " on every stage" : "");
    }
}

tpp_risk_check *const tpp_risk_pipeline_checks[] = {
    missing_schedule, few_micro_batches, missing_chunks, uneven_stages, uneven_micro_batches, repeated_gathers, NULL,
};
