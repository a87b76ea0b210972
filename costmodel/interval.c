/* How sure a predicted step is. */
#include "costmodel/interval.h"

#include <math.h>

/* The four products of a layer miss independently of each other, their three passes together. */
static const double independent_products = 4;

/* Errors of what the kernels and transfers do not explain, as 90 % half-widths: how far published steps of a regime
 * were off beyond those of the regime before it (sections 12 and 15 of the cost model, whose constants are shared by
 * all of them). */
static const double any_step = 0.06;          /* clocks, software releases: the same job again, a release later */
static const double other_engine = 0.11;      /* outside Megatron: kernels are less well known */
static const double fp8_recipe = 0.14;        /* casts and scales differ by recipe and release */
static const double blackwell = 0.09;         /* two public stacks disagree by 20 % */
static const double unfused_attention = 0.04;
static const double blocking_launches = 0.05;
static const double experts = 0.18;           /* balance and dispatch, which nobody publishes */
static const double bubble_error = 0.4;       /* of the bubble: engines add work between micro-batches */
static const double host_error = 0.15;        /* where the host's launches limit the step */

/* Seconds by the kind of formula that they come from. */
struct shares {
    double gemm, attention, memory, inside_node, between_nodes;
};

/* Recomputation repeats all kinds; by time it is mostly products, as are head and embedding. */
static struct shares shares_of(const struct tpp_interval *interval, const struct tpp_cost *cost)
{
    const double *terms = cost->time_terms;
    const double far = terms[TPP_TIME_CONTEXT_COMM] + terms[TPP_TIME_EXPERT_COMM] + terms[TPP_TIME_SHARD_COMM] +
                       terms[TPP_TIME_PIPELINE_COMM] + terms[TPP_TIME_GRADIENT_COMM];
    return (struct shares){
        .gemm = terms[TPP_TIME_GEMM] + terms[TPP_TIME_EMBEDDING_HEAD] + terms[TPP_TIME_RECOMPUTE],
        .attention = terms[TPP_TIME_ATTENTION],
        .memory = terms[TPP_TIME_MEMORY_BOUND] + terms[TPP_TIME_OPTIMIZER],
        .inside_node = terms[TPP_TIME_TENSOR_COMM] + (interval->is_one_node ? far : 0),
        .between_nodes = interval->is_one_node ? 0 : far,
    };
}

struct tpp_interval tpp_interval_make(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                      const struct tpp_job *job, const struct tpp_stack *stack)
{
    const bool is_megatron = stack->engine == TPP_ENGINE_MEGATRON && !tpp_stack_is_plain_torch(stack);
    const double parts[] = {
        any_step,
        is_megatron ? 0 : other_engine,
        tpp_precision_is_fp8(job->precision) ? fp8_recipe : 0,
        hardware->gpu.compute_capability >= 10 ? blackwell : 0,
        stack->attention >= TPP_FLASH_KERNEL_COUNT ? unfused_attention : 0,
        stack->launch_blocking ? blocking_launches : 0,
        model->num_experts > 0 ? experts : 0,
    };
    struct tpp_interval interval = {
        .gemm_error = hardware->gpu.gemm_error_fraction / sqrt(independent_products),
        .attention_error = hardware->gpu.attention_error_fraction,
        .memory_error = hardware->gpu.memory_error_fraction,
        .inside_node_error = hardware->node.collective_error_fraction,
        .between_nodes_error = hardware->network.collective_error_fraction,
        .is_one_node = job->num_gpus <= hardware->node.num_gpus,
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        interval.regime_square += parts[i] * parts[i];
    return interval;
}

double tpp_interval_fraction(const struct tpp_interval *interval, const struct tpp_cost *cost)
{
    const struct shares shares = shares_of(interval, cost);
    const double bubble = bubble_error * cost->bubble_fraction;
    const double host = host_error * fmin(1, cost->host_bound_fraction);
    const double parts[] = {
        shares.gemm * interval->gemm_error,
        shares.attention * interval->attention_error,
        shares.memory * interval->memory_error,
        shares.inside_node * interval->inside_node_error,
        shares.between_nodes * interval->between_nodes_error,
    };
    double squares = interval->regime_square + bubble * bubble + host * host;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        squares += parts[i] * parts[i] / (cost->step_seconds * cost->step_seconds);
    return fmin(TPP_INTERVAL_MAX_FRACTION, sqrt(squares));
}
