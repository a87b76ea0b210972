/* The burst index of a plan (cost-model 9.4), from its layers and groups. */
#include "costmodel/evaluator.h"
#include "costmodel/simulator/contention.h"

/* One layer's backward on a middle stage, recomputation included. */
static double backward_seconds(const struct tpp_strategy *strategy, const struct tpp_layer *layer, double num_layers)
{
    return layer->section_seconds[TPP_SECTION_BACKWARD] + layer->section_seconds[TPP_SECTION_WEIGHT] +
           tpp_recomputed_layers(strategy, num_layers) / num_layers * tpp_layer_recompute_seconds(layer) +
           layer->repeated_seconds;
}

enum tpp_code tpp_burst_of_plan(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                struct tpp_burst *burst, bool *has_burst, struct tpp_error *err)
{
    struct tpp_assembly assembly;
    *has_burst = false;
    enum tpp_code code = tpp_strategy_check(strategy, evaluator->model, evaluator->job, evaluator->stack, err);
    if (code == TPP_OK)
        code = tpp_assemble(evaluator, strategy, &assembly, err);
    if (code != TPP_OK || !assembly.is_sharded)
        return code;
    const struct tpp_layer *layer = assembly.moe ? assembly.moe : assembly.decoder;
    const struct tpp_group *group = &assembly.replicas.shard;
    const struct tpp_links *links = &evaluator->links;
    const bool is_deepspeed = evaluator->stack->engine == TPP_ENGINE_DEEPSPEED;
    const double n = group->size;
    const double elements =
        is_deepspeed ? tpp_deepspeed_bucket_size(strategy->reduce_bucket_size) : layer->trainable_parameters;
    const double bytes = elements * evaluator->stack->reduce_bytes;
    if (elements <= 0)
        return TPP_OK;
    const double latency = tpp_collective_seconds(links, TPP_REDUCE_SCATTER, group, 1);
    const double seconds = tpp_collective_seconds(links, TPP_REDUCE_SCATTER, group, bytes);
    const double num_layers = tpp_stage_layers(strategy, evaluator->model, 0).total;
    *has_burst = true;
    *burst = (struct tpp_burst){
        .latency_seconds = latency,
        .bucket_elements = elements,
        .element_bytes = evaluator->stack->reduce_bytes,
        .num_ranks = n,
        .bytes_per_second = bytes * (n - 1) / n / (seconds - latency),
        .layer_seconds = backward_seconds(strategy, layer, num_layers > 0 ? num_layers : 1),
        .gather_seconds = assembly.sharded.gather_seconds[0],
        .prefetch_layers = 1,
        .layer_elements = layer->trainable_parameters,
    };
    return TPP_OK;
}

enum tpp_code tpp_burst_recommended_of_plan(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                            double *elements, struct tpp_error *err)
{
    struct tpp_strategy other = *strategy;
    *elements = 0;
    for (int i = 0; i < 16; i++) { /* from above, it falls to where it stays in a few rounds */
        struct tpp_burst burst;
        bool has_burst;
        const enum tpp_code code = tpp_burst_of_plan(evaluator, &other, &burst, &has_burst, err);
        if (code != TPP_OK || !has_burst)
            return code;
        const double next = tpp_burst_rounded_elements(tpp_burst_recommended_elements(&burst));
        if (*elements > 0 && next >= *elements)
            break;
        *elements = next;
        other.reduce_bucket_size = (uint64_t)next;
    }
    return TPP_OK;
}
