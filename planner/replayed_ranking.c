#include "planner/replayed_ranking.h"

#include "planner/rank.h"

/* 10.1: reserved over allocated from which on a run is worth a look. */
static const double fragmented_ratio = 1.15;

/* The pools have most of their size after a few dozen lengths, and a moment after the moments of the optimizer. */
static uint32_t steps_of(const struct tpp_strategy *strategy)
{
    static const uint64_t wanted = 32, least = 2, most = 10;
    const uint64_t steps = wanted / strategy->num_micro_batches;
    return (uint32_t)(steps < least ? least : steps > most ? most : steps);
}

/* Insertion from behind: the lists are short, and plans of one class must keep their order. */
static void put_in_order(struct tpp_plan *plans, size_t last, double headroom_fraction)
{
    const struct tpp_plan plan = plans[last];
    const enum tpp_rank_class rank_class = tpp_rank_class(&plan.cost.memory, headroom_fraction);
    while (last > 0 && rank_class < tpp_rank_class(&plans[last - 1].cost.memory, headroom_fraction)) {
        plans[last] = plans[last - 1];
        last--;
    }
    plans[last] = plan;
}

enum tpp_code tpp_replayed_ranking(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                   const struct tpp_job *job, const struct tpp_stack *stack,
                                   double memory_headroom_fraction, const struct tpp_replay_options *options,
                                   const char *given, struct tpp_plan *plans, size_t count, struct tpp_error *err)
{
    struct tpp_evaluator *evaluator = NULL;
    struct tpp_replay_options each = *options;
    enum tpp_code code = tpp_evaluator_new(model, hardware, job, stack, &evaluator, err);
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        each.num_steps = tpp_lengths_is_fixed(options->lengths) || options->packing ? tpp_replay_defaults().num_steps
                                                                                   : steps_of(&plans[i].strategy);
        code = tpp_replay_choose(evaluator, &plans[i].strategy, &each, given, &plans[i].cost.memory, err);
        if (code == TPP_OK)
            put_in_order(plans, i, memory_headroom_fraction);
    }
    tpp_evaluator_free(evaluator);
    return code;
}

static bool is_worrying(const struct tpp_memory *memory)
{
    return memory->fit != TPP_FIT_FITS || memory->retries_per_1000_steps > 0 ||
           memory->peak_reserved_bytes > fragmented_ratio * memory->peak_allocated_bytes;
}

size_t tpp_replayed_calmer_plan(const struct tpp_plan *plans, size_t count)
{
    if (count == 0 || !is_worrying(&plans[0].cost.memory))
        return count;
    for (size_t i = 1; i < count; i++)
        if (!is_worrying(&plans[i].cost.memory))
            return i;
    return count;
}
