#include "planner/bucket_sizes.h"

#include "costmodel/evaluator.h"
#include "costmodel/simulator/contention.h"
#include "planner/rules/release.h"

#include <math.h>

/* A bucket above this share of the rank's parameters overlaps little (10.2 item 10). */
static const double max_parameter_share = 1.0 / 3;

void tpp_bucket_set(struct tpp_strategy *strategy, enum tpp_bucket bucket, uint64_t size)
{
    if (bucket == TPP_BUCKET_REDUCE)
        strategy->reduce_bucket_size = size;
    else
        strategy->allgather_bucket_size = size;
}

/* --ddp-bucket-size came with 0.7; ms-swift has no such option. One size serves both directions in Megatron. */
static bool has_option(const struct tpp_stack *stack, uint32_t zero_stage, enum tpp_bucket bucket)
{
    enum tpp_release release;
    if (tpp_engine_is_deepspeed(stack->engine))
        return stack->engine == TPP_ENGINE_DEEPSPEED && zero_stage > 0;
    if (stack->engine != TPP_ENGINE_MEGATRON || bucket == TPP_BUCKET_GATHER ||
        stack->framework == TPP_FRAMEWORK_MS_SWIFT)
        return false;
    return tpp_release_parse(stack->release, NULL, &release, NULL) != TPP_OK || release >= TPP_RELEASE_0_7;
}

/* The part of a stage that a rank holds before sharding, and reduces: of an average stage. */
static double local_elements(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                             const struct tpp_assembly *assembly)
{
    const double layers = (double)evaluator->model->num_layers / strategy->pipeline_parallel;
    return layers * assembly->decoder->trainable_parameters;
}

/* Sizes of buckets that travel behind the passes of whole layers. */
static size_t behind_layers(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                            const struct tpp_assembly *assembly, enum tpp_bucket bucket, uint64_t *sizes)
{
    const struct tpp_stack *stack = evaluator->stack;
    const struct tpp_replicas *replicas = &assembly->replicas;
    const struct tpp_gradient_traffic traffic = tpp_gradient_traffic_of(stack, strategy, replicas);
    const bool reduces = bucket == TPP_BUCKET_REDUCE;
    if (!traffic.has_any || tpp_engine_is_fsdp(stack->engine) || !(reduces ? traffic.reduce_overlaps : traffic.gather_overlaps))
        return 0;
    const struct tpp_group *group = reduces ? &replicas->all : &replicas->shard;
    const enum tpp_collective collective = reduces ? traffic.reduce : TPP_ALL_GATHER;
    const double default_size = tpp_gradient_bucket_size(stack, replicas, 0);
    const double element_bytes = reduces ? stack->reduce_bytes : stack->weight_bytes, bytes = default_size * element_bytes;
    const double latency = tpp_collective_seconds(&evaluator->links, collective, group, 1);
    const double seconds = tpp_collective_seconds(&evaluator->links, collective, group, bytes);
    const double *pass = assembly->decoder->section_seconds;
    const double n = group->size;
    const struct tpp_burst burst = {
        .latency_seconds = latency, .bucket_elements = default_size, .element_bytes = element_bytes, .num_ranks = n,
        .bytes_per_second = bytes * (n - 1) / n / (seconds - latency), .prefetch_layers = 1,
        .layer_seconds = reduces ? pass[TPP_SECTION_BACKWARD] + pass[TPP_SECTION_WEIGHT] : pass[TPP_SECTION_FORWARD],
        .layer_elements = assembly->decoder->trainable_parameters};
    struct tpp_burst none = burst;
    none.layer_seconds = 0; /* what latency allows */
    const double smallest = tpp_burst_recommended_elements(&none);
    const double largest = fmax(smallest, fmin(tpp_burst_recommended_elements(&burst),
                                               max_parameter_share * local_elements(evaluator, strategy, assembly)));
    const double candidates[TPP_MAX_BUCKET_SIZES] = {smallest, largest};
    size_t count = 0;
    for (size_t i = 0; i < TPP_MAX_BUCKET_SIZES; i++) {
        const uint64_t size = (uint64_t)tpp_burst_rounded_elements(candidates[i]);
        const bool is_new = size != (uint64_t)default_size && (count == 0 || size != sizes[count - 1]);
        if (is_new && (!tpp_engine_is_deepspeed(stack->engine) || (double)size < default_size))
            sizes[count++] = size;
    }
    return count;
}

static enum tpp_code between_gathers(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                     uint64_t *sizes, size_t *count, struct tpp_error *err)
{
    struct tpp_burst burst;
    bool has_burst;
    double recommended = 0;
    enum tpp_code code = tpp_burst_of_plan(evaluator, strategy, &burst, &has_burst, err);
    if (code != TPP_OK || !has_burst || !(tpp_burst_stall_seconds(&burst) > 0))
        return code;
    code = tpp_burst_recommended_of_plan(evaluator, strategy, &recommended, err);
    for (int divisor = 1; divisor <= TPP_MAX_BUCKET_SIZES && code == TPP_OK && recommended / divisor >= 1; divisor++) {
        const double size = tpp_burst_rounded_elements(recommended / divisor);
        if (size < burst.bucket_elements)
            sizes[(*count)++] = (uint64_t)size;
    }
    return code;
}

enum tpp_code tpp_bucket_sizes(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                               enum tpp_bucket bucket, uint64_t sizes[TPP_MAX_BUCKET_SIZES], size_t *count,
                               struct tpp_error *err)
{
    struct tpp_assembly assembly;
    const uint64_t given = bucket == TPP_BUCKET_REDUCE ? strategy->reduce_bucket_size : strategy->allgather_bucket_size;
    *count = 0;
    if (given != 0 || !has_option(evaluator->stack, strategy->zero_stage, bucket) || tpp_job_is_adapter(evaluator->job))
        return TPP_OK;
    const enum tpp_code code = tpp_assemble(evaluator, strategy, &assembly, err);
    if (code != TPP_OK)
        return code;
    if (assembly.is_sharded)
        return bucket == TPP_BUCKET_REDUCE ? between_gathers(evaluator, strategy, sizes, count, err) : TPP_OK;
    *count = behind_layers(evaluator, strategy, &assembly, bucket, sizes);
    return TPP_OK;
}
