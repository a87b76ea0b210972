/* Gradient and parameter traffic: exposed communication, buckets, networks (cost-model 9.4, 10.2 items 4, 10; 15.6). */
#include "planner/risk_checks.h"

#include "costmodel/base/units.h"
#include "costmodel/data_parallel.h"

#include <math.h>
#include <stdio.h>

#define EXPOSED_FRACTION 0.30
#define MOSTLY_EXPOSED_FRACTION 0.50
#define GOOD_RING_EFFICIENCY 0.85 /* of InfiniBand and RoCE with a NIC for one or two GPUs */
#define POOR_RING_EFFICIENCY 0.25 /* published for four Omni-Path ports a node (15.6) */
#define LATENCY_FRACTION 0.1      /* of a transfer, that a bucket may spend on latency */

static bool is_deepspeed(const struct tpp_risk_context *c)
{
    return c->stack->engine == TPP_ENGINE_DEEPSPEED || c->stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE;
}

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
    return c->cost->memory.terms[TPP_MEMORY_WEIGHTS] / c->stack->weight_bytes;
}

static void large_bucket(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    const struct tpp_replicas replicas = tpp_replicas_make(s, c->stack, c->hardware->node.num_gpus);
    if (replicas.all.size == 1 || !s->overlap_grad_reduce || s->zero_stage == 3 || tpp_engine_is_fsdp(c->stack->engine) ||
        tpp_job_is_adapter(c->job) || c->stack->engine == TPP_ENGINE_DDP) {
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

struct burst {
    double rate_bytes_per_second; /* of one rank's share of the ring */
    double latency_seconds;
    double slack_seconds;
    double bytes_per_element;
};

/* Seconds of `elements` reduced in one go over n ranks: a + B_e g (n-1)/n / B (cost-model 9.4). */
static double burst_seconds(const struct burst *burst, double ranks, double elements)
{
    return burst->latency_seconds +
           elements * burst->bytes_per_element * (ranks - 1) / ranks / burst->rate_bytes_per_second;
}

/* Backward seconds of one layer and micro-batch, about: two thirds of the compute, recomputation on top. */
static double layer_backward_seconds(const struct tpp_risk_context *c)
{
    const double *terms = c->cost->time_terms;
    const double compute = terms[TPP_TIME_GEMM] + terms[TPP_TIME_ATTENTION] + terms[TPP_TIME_MEMORY_BOUND];
    const double layers = (double)c->model->num_layers / c->strategy->pipeline_parallel;
    return (compute * 2 / 3 + terms[TPP_TIME_RECOMPUTE]) / (double)c->strategy->num_micro_batches / layers;
}

static struct burst measure_burst(const struct tpp_risk_context *c, const struct tpp_replicas *replicas,
                                  double layer_parameters)
{
    const struct tpp_links links = tpp_links_make(c->hardware, c->stack->nic_ring_efficiency_fraction,
                                                  c->stack->nic_send_recv_efficiency_fraction);
    const struct tpp_group *group = &replicas->shard;
    const double gather =
        tpp_collective_seconds(&links, TPP_ALL_GATHER, group, c->stack->weight_bytes * layer_parameters);
    return (struct burst){
        .rate_bytes_per_second =
            fmin(links.bus_bytes_per_second[TPP_REDUCE_SCATTER],
                 group->ranks_per_node * links.nic_bytes_per_second * links.ring_efficiency_fraction),
        .latency_seconds = tpp_collective_seconds(&links, TPP_REDUCE_SCATTER, group, 1),
        .slack_seconds = layer_backward_seconds(c) - gather,
        .bytes_per_element = c->stack->reduce_bytes,
    };
}

/* Largest bucket whose burst fits the slack, but none that is mostly latency. */
static double recommended_bucket(const struct burst *burst, double ranks)
{
    const double per_element = burst->bytes_per_element / burst->rate_bytes_per_second;
    const double fits = (burst->slack_seconds - burst->latency_seconds) / (per_element * (ranks - 1) / ranks);
    const double least = burst->latency_seconds / LATENCY_FRACTION / per_element;
    return fmax(fits, least);
}

/* ZeRO-3 reduces in bursts that its gathers of parameters meet on one communicator or NIC. Nobody has published a
 * measurement of it: confidence low. */
static void bucket_burst(struct tpp_risk_context *c)
{
    const struct tpp_strategy *s = c->strategy;
    const struct tpp_replicas replicas = tpp_replicas_make(s, c->stack, c->hardware->node.num_gpus);
    if (s->zero_stage != 3 || !is_deepspeed(c) || replicas.shard.num_nodes < 2 || tpp_job_is_adapter(c->job)) {
        return;
    }
    struct tpp_model_counts counts;
    tpp_model_count(c->model, &counts);
    const double layer_parameters = (double)counts.dense_layer / s->tensor_parallel, ranks = replicas.shard.size;
    const struct burst burst = measure_burst(c, &replicas, layer_parameters);
    const double size = tpp_gradient_bucket_size(c->stack, &replicas, s->reduce_bucket_size);
    const double seconds = burst_seconds(&burst, ranks, size);
    if (seconds > burst.slack_seconds) {
        char length[32], slack[32];
        tpp_format_seconds(length, sizeof length, seconds);
        tpp_format_seconds(slack, sizeof slack, fmax(0, burst.slack_seconds));
        char hint[160];
        snprintf(hint, sizeof hint, "try a reduce bucket of %.2g elements (confidence low: nobody has measured this)",
                 recommended_bucket(&burst, ranks));
        tpp_risk_add(c, "bucket-burst", TPP_SEVERITY_INFO, hint,
                     "a bucket of %.3g elements is a burst of %s every %.1f layers, where gathers leave a slack of %s",
                     size, length, size / layer_parameters, slack);
    }
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
