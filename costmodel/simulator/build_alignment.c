/* When the stages of a Megatron pipeline start to reduce their gradients: --align-grad-reduce, on by default (until 0.8
 * --delay-grad-reduce), so that transfers slow all stages at once and not one after the other.
 *
 * Source: megatron/core/pipeline_parallel/schedules.py. With config.grad_sync_func set, interleaved rank r starts all buckets
 * of a chunk behind its backward pass k when pass k - r was the chunk's last (grad_sync_virtual_microbatch_id): it is r passes
 * ahead of the first rank, so that all start about then. What is left starts behind the rank's last pass, chunk by chunk in
 * model order ("launch any remaining grad reductions"). Without interleaving the first stage alone reduces bucket by bucket in
 * its last pass; the others start behind theirs. */
#include "costmodel/simulator/build.h"

bool tpp_build_holds_gradients(const struct tpp_build *build, uint32_t stage)
{
    const struct tpp_strategy *strategy = build->strategy;
    if (build->options->mode != TPP_SIMULATION_EVENTS || build->evaluator->stack->engine != TPP_ENGINE_MEGATRON ||
        !strategy->align_grad_reduce)
        return false;
    return strategy->schedule == TPP_SCHEDULE_INTERLEAVED || (strategy->schedule == TPP_SCHEDULE_1F1B && stage > 0);
}

void tpp_build_hold_gradients(struct tpp_build *build, uint32_t device, uint32_t chunk, bool is_last)
{
    struct tpp_held_gradients *held = &build->held;
    const uint32_t stage = device % build->num_stages, pass = held->num_backward++;
    if (!tpp_build_holds_gradients(build, stage))
        return;
    if (is_last)
        held->chunks[held->first + held->count++] = (struct tpp_held_chunk){chunk, pass};
    if (held->count == 0 || held->chunks[held->first].since + stage != pass ||
        build->strategy->schedule != TPP_SCHEDULE_INTERLEAVED)
        return;
    tpp_build_start_reductions(build, device, held->chunks[held->first].chunk);
    held->first++;
    held->count--;
}

void tpp_build_release_gradients(struct tpp_build *build, uint32_t device)
{
    struct tpp_held_gradients *held = &build->held;
    for (uint32_t i = held->count; i-- > 0;) /* the last chunk of the model was complete first */
        tpp_build_start_reductions(build, device, held->chunks[held->first + i].chunk);
    held->first = held->count = held->num_backward = 0;
}
