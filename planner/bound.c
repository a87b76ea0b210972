#include "planner/bound.h"

/* Sums are made in another order than the evaluator's: a part in 1e9 below them is safe from rounding. */
#define ROUNDING_FRACTION 1e-9

struct tpp_bound tpp_bound_of_variants(const struct tpp_cost *cost, double headroom_fraction)
{
    const struct tpp_memory *memory = &cost->memory;
    const double seconds =
        cost->step_seconds - cost->time_terms[TPP_TIME_GRADIENT_COMM] - cost->time_terms[TPP_TIME_SHARD_COMM];
    const double bytes = memory->device_total_bytes - memory->terms[TPP_MEMORY_BUCKETS] -
                         memory->terms[TPP_MEMORY_GATHERED] - memory->terms[TPP_MEMORY_GRADIENTS] -
                         memory->terms[TPP_MEMORY_RESERVE];
    const double missing = bytes * (1 - ROUNDING_FRACTION) - memory->capacity_bytes * (1 - headroom_fraction);
    return (struct tpp_bound){
        .rank_class = missing > 0 ? TPP_RANK_DOES_NOT_FIT : TPP_RANK_FITS,
        .missing_bytes = missing > 0 ? missing : 0,
        .step_seconds = seconds * (1 - ROUNDING_FRACTION),
    };
}
