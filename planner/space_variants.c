/* Variants of a group: bucket sizes and what overlaps with data-parallel traffic. */
#include "planner/space_parts.h"

#include <assert.h>

/* Bucket sizes in elements beside the framework's default (0): a decade around the defaults of Megatron (4e7) and of
 * DeepSpeed (5e8; its advice for tight memory is 2e8). */
static const uint64_t megatron_buckets[] = {0, 10000000, 20000000, 100000000, 200000000, 400000000};
static const uint64_t deepspeed_buckets[] = {0, 20000000, 50000000, 100000000, 200000000, 1000000000};
enum { NUM_BUCKETS = 6 };

struct variants {
    const uint64_t *reduce, *allgather; /* of NUM_BUCKETS values */
    uint32_t num_reduce, num_allgather;
    uint32_t num_overlaps;
    bool can_overlap_reduce, can_overlap_gather;
};

/* Whether a launch can say how large buckets are: nanotron counts megabytes, the megatron side of ms-swift has no
 * option, Megatron-LM has one since 0.7. */
static bool has_bucket_size(const struct tpp_space *space)
{
    const enum tpp_framework framework = space->stack->framework;
    return framework != TPP_FRAMEWORK_MS_SWIFT && framework != TPP_FRAMEWORK_NANOTRON &&
           space->release >= TPP_RELEASE_0_7;
}

/* Whether a launch can switch the overlap of reductions off: what wraps a model in nanotron and torchtitan always does.
 */
static bool has_overlap_switch(const struct tpp_stack *stack)
{
    return stack->framework != TPP_FRAMEWORK_NANOTRON && stack->framework != TPP_FRAMEWORK_TORCHTITAN;
}

/* What a group's variants differ in. Only what the engine really looks at: Megatron has one bucket size, in use while
 * reductions overlap; DeepSpeed's gather buckets belong to stages 1 and 2, and its pipeline engine overlaps nothing. */
static struct variants list_variants(const struct tpp_space *space, const struct tpp_strategy *group)
{
    struct variants variants = {
        .reduce = megatron_buckets,
        .allgather = deepspeed_buckets,
        .num_reduce = 1,
        .num_allgather = 1,
        .num_overlaps = 1,
        .can_overlap_reduce = true,
        .can_overlap_gather = group->zero_stage > 0,
    };
    const bool is_single = (uint64_t)group->data_parallel * group->context_parallel == 1;
    const enum tpp_engine engine = space->stack->engine;
    if (tpp_space_has_deepspeed_pipeline(space, group->pipeline_parallel) || space->release < TPP_RELEASE_0_4) {
        variants.can_overlap_reduce = variants.can_overlap_gather = false;
    }
    if (!space->limits.full_space || is_single) {
        return variants;
    }
    if (engine == TPP_ENGINE_MEGATRON) {
        variants.num_reduce = has_bucket_size(space) ? NUM_BUCKETS : 1;
        variants.num_overlaps = variants.can_overlap_gather ? 3 : variants.can_overlap_reduce ? 2 : 1;
    } else if (engine == TPP_ENGINE_DEEPSPEED && group->pipeline_parallel == 1 && group->zero_stage > 0) {
        variants.reduce = deepspeed_buckets;
        variants.num_reduce = NUM_BUCKETS;
        variants.num_allgather = group->zero_stage < 3 ? NUM_BUCKETS : 1;
        variants.num_overlaps = 2;
    } else if (engine == TPP_ENGINE_DDP) {
        variants.num_overlaps = 2;
    }
    variants.num_overlaps = has_overlap_switch(space->stack) ? variants.num_overlaps : 1;
    variants.num_reduce = tpp_pin_is_free(space->limits.reduce_bucket_size) ? variants.num_reduce : 1;
    variants.num_allgather = tpp_pin_is_free(space->limits.allgather_bucket_size) ? variants.num_allgather : 1;
    return variants;
}

/* Without overlap Megatron has one bucket, whatever its size: that switch setting has no bucket axis. */
static uint32_t num_without_overlap(const struct tpp_space *space, const struct variants *variants)
{
    return space->stack->engine == TPP_ENGINE_MEGATRON ? 1 : variants->num_reduce * variants->num_allgather;
}

uint32_t tpp_space_num_variants(const struct tpp_space *space, const struct tpp_strategy *group)
{
    const struct variants variants = list_variants(space, group);
    const uint32_t sizes = variants.num_reduce * variants.num_allgather;
    return (variants.num_overlaps - 1) * sizes +
           (variants.num_overlaps == 1 ? sizes : num_without_overlap(space, &variants));
}

static uint64_t pin_or(int64_t pin, uint64_t value)
{
    return tpp_pin_is_free(pin) ? value : (uint64_t)pin;
}

/* Settings in order: everything overlaps; with three, reductions alone; nothing. */
void tpp_space_set_variant(const struct tpp_space *space, uint32_t variant, struct tpp_strategy *strategy)
{
    const struct variants variants = list_variants(space, strategy);
    const uint32_t sizes = variants.num_reduce * variants.num_allgather;
    const uint32_t setting = variant / sizes, size = variant % sizes;
    const bool is_last = setting > 0 && setting == variants.num_overlaps - 1;
    assert(setting < variants.num_overlaps);
    strategy->overlap_grad_reduce = variants.can_overlap_reduce && !is_last;
    strategy->overlap_param_gather = variants.can_overlap_gather && setting == 0;
    strategy->reduce_bucket_size =
        pin_or(space->limits.reduce_bucket_size, variants.reduce[size / variants.num_allgather]);
    strategy->allgather_bucket_size =
        pin_or(space->limits.allgather_bucket_size, variants.allgather[size % variants.num_allgather]);
}
