#include "planner/simulated_ranking.h"

#include "costmodel/evaluator.h"
#include "costmodel/simulator/contention.h"
#include "costmodel/simulator/simulate.h"
#include "planner/rank.h"

/* Of one simulation: some milliseconds. Operation by operation where that is allowed, else layer by layer. */
static const uint64_t max_tasks = 12000, max_tasks_of_layers = 120000;

static enum tpp_code simulate(struct tpp_evaluator *evaluator, struct tpp_simulated_plan *ranked, struct tpp_error *err)
{
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    const struct tpp_strategy *strategy = &ranked->plan.strategy;
    double *seconds = &ranked->simulated_seconds;
    options.max_tasks = max_tasks;
    enum tpp_code code = tpp_simulation_periodic_step_seconds(evaluator, strategy, &options, seconds, err);
    if (code == TPP_E_RANGE) {
        options.detail = TPP_DETAIL_LAYERS;
        options.max_tasks = max_tasks_of_layers;
        code = tpp_simulation_periodic_step_seconds(evaluator, strategy, &options, seconds, err);
    }
    ranked->is_simulated = code == TPP_OK;
    return code == TPP_E_RANGE ? TPP_OK : code; /* too large: the estimate stays */
}

/* A plan with the engine's default bucket whose bursts stall its layers (9.4): the largest bucket that fits in the slack, and half
 * of it, are simulated, and the best is kept when it is worth telling. Smaller buckets only lower the memory. */
static enum tpp_code choose_bucket(struct tpp_evaluator *evaluator, struct tpp_simulated_plan *ranked, struct tpp_error *err)
{
    struct tpp_burst burst;
    bool has_burst;
    if (!ranked->is_simulated || ranked->plan.strategy.reduce_bucket_size != 0 ||
        !tpp_engine_is_deepspeed(evaluator->stack->engine))
        return TPP_OK;
    enum tpp_code code = tpp_burst_of_plan(evaluator, &ranked->plan.strategy, &burst, &has_burst, err);
    if (code != TPP_OK || !has_burst || !(tpp_burst_stall_seconds(&burst) > 0))
        return code;
    double recommended;
    code = tpp_burst_recommended_of_plan(evaluator, &ranked->plan.strategy, &recommended, err);
    if (code != TPP_OK)
        return code;
    const double default_seconds = ranked->simulated_seconds;
    for (int divisor = 1; divisor <= 2; divisor++) {
        struct tpp_simulated_plan other = *ranked;
        if (!(recommended / divisor >= 1))
            continue;
        other.plan.strategy.reduce_bucket_size = (uint64_t)tpp_burst_rounded_elements(recommended / divisor);
        if ((double)other.plan.strategy.reduce_bucket_size >= burst.bucket_elements)
            continue;
        code = tpp_evaluator_cost(evaluator, &other.plan.strategy, &other.plan.cost, err);
        if (ranked->plan.cost.memory.is_replayed) /* with the larger bucket: it bounds the smaller one's */
            other.plan.cost.memory = ranked->plan.cost.memory;
        if (code == TPP_OK)
            code = simulate(evaluator, &other, err);
        if (code != TPP_OK)
            return code;
        other.bucket_gain_fraction = 1 - other.simulated_seconds / default_seconds;
        if (other.is_simulated && other.bucket_gain_fraction >= TPP_SIMULATED_RESOLUTION_FRACTION &&
            other.simulated_seconds < ranked->simulated_seconds)
            *ranked = other;
    }
    return TPP_OK;
}

static bool is_before(const struct tpp_simulated_plan *a, const struct tpp_simulated_plan *b, double headroom_fraction)
{
    const enum tpp_rank_class class_a = tpp_rank_class(&a->plan.cost.memory, headroom_fraction);
    const enum tpp_rank_class class_b = tpp_rank_class(&b->plan.cost.memory, headroom_fraction);
    return class_a != class_b ? class_a < class_b
                              : a->simulated_seconds < b->simulated_seconds * (1 - TPP_SIMULATED_RESOLUTION_FRACTION);
}

/* Insertion from behind: the lists are short, and equal steps must keep their order. */
static void put_in_order(struct tpp_simulated_plan *ranked, size_t last, double headroom_fraction)
{
    const struct tpp_simulated_plan plan = ranked[last];
    while (last > 0 && is_before(&plan, &ranked[last - 1], headroom_fraction)) {
        ranked[last] = ranked[last - 1];
        last--;
    }
    ranked[last] = plan;
}

enum tpp_code tpp_simulated_ranking(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                    const struct tpp_job *job, const struct tpp_stack *stack,
                                    double memory_headroom_fraction, const struct tpp_plan *plans, size_t count,
                                    struct tpp_simulated_plan *ranked, struct tpp_error *err)
{
    struct tpp_evaluator *evaluator = NULL;
    enum tpp_code code = tpp_evaluator_new(model, hardware, job, stack, &evaluator, err);
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        ranked[i] = (struct tpp_simulated_plan){
            .plan = plans[i], .simulated_seconds = plans[i].cost.step_seconds, .estimated_index = i};
        code = simulate(evaluator, &ranked[i], err);
        if (code == TPP_OK)
            code = choose_bucket(evaluator, &ranked[i], err);
        if (code == TPP_OK)
            put_in_order(ranked, i, memory_headroom_fraction);
    }
    tpp_evaluator_free(evaluator);
    return code;
}
