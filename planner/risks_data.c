/* Gradient and parameter traffic: exposed communication, buckets, networks (cost-model 9.4, 10.2 items 4, 10; 15.6). */
#include "planner/risk_checks.h"

#include "costmodel/base/units.h"
#include "costmodel/data_parallel.h"
#include "costmodel/evaluate.h"
#include "costmodel/simulator/contention.h"

#include <math.h>
#include <stdio.h>

#define EXPOSED_FRACTION 0.30
#define MOSTLY_EXPOSED_FRACTION 0.50
#define GOOD_RING_EFFICIENCY 0.85 /* of InfiniBand and RoCE with a NIC for one or two GPUs */
#define POOR_RING_EFFICIENCY 0.25 /* published for four Omni-Path ports a node (15.6) */

/* The term of communication that is exposed longest, and what makes it shorter. */
static const char *exposed_hint(const struct tpp_cost *cost)
{
    static const struct {
        enum tpp_time_term term;
        const char *hint;
    } rows[] = {
        {TPP_TIME_TENSOR_COMM, "most is tensor parallel: lower the tensor-parallel size"},
        {TPP_TIME_CONTEXT_COMM, "most is context parallel: lower its size or change its kind"},
        {TPP_TIME_EXPERT_COMM, "most is expert parallel: keep experts inside a node"},
        {TPP_TIME_SHARD_COMM, "most is gathering parameters: shard less, or raise the micro-batch"},
        {TPP_TIME_GRADIENT_COMM, "most is reducing gradients: accumulate more micro-batches, or overlap"},
        {TPP_TIME_PIPELINE_COMM, "most is sending between stages: use fewer stages or chunks"},
    };
    size_t largest = 0;
    for (size_t i = 1; i < sizeof rows / sizeof rows[0]; i++) {
        largest = cost->time_terms[rows[i].term] > cost->time_terms[rows[largest].term] ? i : largest;
    }
    return rows[largest].hint;
}

static void exposed(struct tpp_risk_context *c)
{
    const double fraction = c->cost->exposed_communication_fraction;
    if (fraction > MOSTLY_EXPOSED_FRACTION) {
        tpp_risk_add(c, "mostly-communication", TPP_SEVERITY_WARNING, exposed_hint(c->cost),
                     "%.0f %% of the step is exposed communication: do not run this unless you must", 100 * fraction);
    } else if (fraction > EXPOSED_FRACTION) {
        tpp_risk_add(c, "exposed-communication", TPP_SEVERITY_WARNING, exposed_hint(c->cost),
                     "%.0f %% of the step is exposed communication", 100 * fraction);
    }
}

/* Trained parameters a rank holds whole, about: those whose 16-bit weights are on the worst stage. */
static double local_parameters(const struct tpp_risk_context *c)
{
    const double each = tpp_precision_is_fp8(c->job->precision)
                            ? tpp_stack_linear_weight_bytes(c->stack, &c->hardware->gpu, c->job)
                            : c->stack->weight_bytes;
    return c->cost->memory.terms[TPP_MEMORY_WEIGHTS] / each;
}

static void large_bucket(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    const struct tpp_replicas replicas = tpp_replicas_make(s, c->stack, c->hardware->node.num_gpus);
    if (replicas.all.size == 1 || !s->overlap_grad_reduce || s->zero_stage == 3 ||
        tpp_engine_is_fsdp(c->stack->engine) || tpp_job_is_adapter(c->job) || c->stack->engine == TPP_ENGINE_DDP) {
        return;
    }
    const double size = tpp_gradient_bucket_size(c->stack, &replicas, s->reduce_bucket_size);
    if (size > local_parameters(c) / 3) {
        tpp_risk_add(
            c, "bucket-too-large", TPP_SEVERITY_INFO,
            "set the reduce bucket to a third of the parameters of a rank, or less",
            "a reduce bucket of %.3g elements is above a third of the %.3g parameters of a rank: little overlaps", size,
            local_parameters(c));
    }
}

/* The burst of a ZeRO-3 plan of DeepSpeed, whose bucket is a choice (FSDP's is a layer), and the recommended bucket. */
static bool find_burst(const struct tpp_risk_context *c, struct tpp_burst *burst, double *recommended)
{
    struct tpp_evaluator *evaluator = NULL;
    bool has_burst = false;
    if (c->strategy->zero_stage != 3 || !tpp_engine_is_deepspeed(c->stack->engine) || tpp_job_is_adapter(c->job))
        return false;
    if (tpp_evaluator_new(c->model, c->hardware, c->job, c->stack, &evaluator, NULL) != TPP_OK ||
        tpp_burst_of_plan(evaluator, c->strategy, burst, &has_burst, NULL) != TPP_OK ||
        tpp_burst_recommended_of_plan(evaluator, c->strategy, recommended, NULL) != TPP_OK)
        has_burst = false;
    tpp_evaluator_free(evaluator);
    return has_burst;
}

/* ZeRO-3 reduces in bursts that its gathers of parameters meet on one communicator. A bucket that is no larger than the
 * recommended one is as good as can be. Nobody has published a measurement of it: confidence low. */
static void bucket_burst(struct tpp_risk_context *c)
{
    struct tpp_burst burst;
    double recommended;
    char length[32], slack[32], hint[160];
    if (!find_burst(c, &burst, &recommended) || !(tpp_burst_stall_seconds(&burst) > 0) ||
        burst.bucket_elements <= recommended)
        return;
    tpp_format_seconds(length, sizeof length, tpp_burst_seconds(&burst));
    tpp_format_seconds(slack, sizeof slack, fmax(0, tpp_burst_slack_seconds(&burst)));
    snprintf(hint, sizeof hint, "try a reduce bucket of %.2g elements (confidence low: nobody has measured this)",
             recommended);
    tpp_risk_add(c, "bucket-burst", TPP_SEVERITY_INFO, hint,
                 "a bucket of %.3g elements is a burst of %s every %.1f layers, where gathers leave a slack of %s",
                 burst.bucket_elements, length, tpp_burst_period_layers(&burst), slack);
}

/* 15.6: fewer NICs than one for two GPUs may be something else than InfiniBand or RoCE; say what that would mean. */
static void unsure_network(struct tpp_risk_context *c)
{
    const struct tpp_node *node = &c->hardware->node;
    if (c->job->num_gpus <= node->num_gpus || 2 * c->hardware->network.num_nics >= node->num_gpus) {
        return;
    }
    const struct tpp_replicas replicas = tpp_replicas_make(c->strategy, c->stack, node->num_gpus);
    const double bytes = c->stack->reduce_bytes * local_parameters(c);
    const struct tpp_links good = tpp_links_make(c->hardware, GOOD_RING_EFFICIENCY, 0);
    const struct tpp_links poor = tpp_links_make(c->hardware, POOR_RING_EFFICIENCY, 0);
    char fast[32], slow[32];
    tpp_format_seconds(fast, sizeof fast, tpp_collective_seconds(&good, TPP_ALL_REDUCE, &replicas.all, bytes));
    tpp_format_seconds(slow, sizeof slow, tpp_collective_seconds(&poor, TPP_ALL_REDUCE, &replicas.all, bytes));
    tpp_risk_add(
        c, "network-rate-uncertain", TPP_SEVERITY_WARNING,
        "measure one step, or the all-reduce with nccl-tests, and calibrate the profile",
        "%u NICs for %u GPUs may not deliver their rate: reducing the gradients takes %s at %.0f %% and %s at %.0f %%",
        c->hardware->network.num_nics, node->num_gpus, fast, 100 * GOOD_RING_EFFICIENCY, slow,
        100 * POOR_RING_EFFICIENCY);
}

tpp_risk_check *const tpp_risk_data_checks[] = {
    exposed, large_bucket, bucket_burst, unsure_network, NULL,
};
