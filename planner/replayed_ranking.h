/* replayed_ranking.h - the short list of a search, its memory replayed through PyTorch's allocator
 * (costmodel/allocator/replay.h).
 *
 * The search ranks by the memory walk with a fixed reserve. Replaying the few best plans says what each really reserves,
 * whether it retries, and which setting of the allocator helps it. */
#ifndef TPP_PLANNER_REPLAYED_RANKING_H
#define TPP_PLANNER_REPLAYED_RANKING_H

#include "costmodel/allocator/replay.h"
#include "planner/search.h"

/* Replays `count` plans, best first, and puts the result into their costs (tpp_replay_choose, which explains `given`).
 * options->num_steps does not count: of lengths that vary, as many steps are played as make 32 micro-batches, 2 to 10.
 * Plans that turn out tight, or not to fit, go behind those of a better class (rank.h) and keep their order otherwise.
 * TPP_E_MEMORY and TPP_E_INTERNAL are the only failures with options that were checked; inputs are borrowed. */
enum tpp_code tpp_replayed_ranking(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                   const struct tpp_job *job, const struct tpp_stack *stack,
                                   double memory_headroom_fraction, const struct tpp_replay_options *options,
                                   const char *given, struct tpp_plan *plans, size_t count, struct tpp_error *err);

/* The plan to take instead of the first when memory is a worry there (it is tight, retries, or reserves 15 % more than it
 * allocates): the next one that fits without. `count` when there is none, or no worry. */
size_t tpp_replayed_calmer_plan(const struct tpp_plan *plans, size_t count);

#endif
