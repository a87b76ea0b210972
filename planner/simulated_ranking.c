#include "planner/simulated_ranking.h"

#include "costmodel/evaluator.h"
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

/* The plan with another bucket, when its step is shorter than that of *ranked by enough to be told. */
static enum tpp_code try_bucket(struct tpp_evaluator *evaluator, enum tpp_bucket bucket, uint64_t size,
                                struct tpp_simulated_plan *ranked, struct tpp_error *err)
{
    struct tpp_simulated_plan other = *ranked;
    tpp_bucket_set(&other.plan.strategy, bucket, size);
    enum tpp_code code = tpp_evaluator_cost(evaluator, &other.plan.strategy, &other.plan.cost, err);
    if (ranked->plan.cost.memory.is_replayed) /* with the larger bucket: it bounds the smaller one's */
        other.plan.cost.memory = ranked->plan.cost.memory;
    if (code == TPP_OK)
        code = simulate(evaluator, &other, err);
    if (code == TPP_OK && other.is_simulated &&
        other.simulated_seconds < ranked->simulated_seconds * (1 - TPP_SIMULATED_RESOLUTION_FRACTION)) {
        other.has_chosen[bucket] = true;
        *ranked = other;
    }
    return code;
}

/* Buckets that the plan leaves to the framework: sizes from slack and burst, and the default, by their simulated steps. */
static enum tpp_code choose_buckets(struct tpp_evaluator *evaluator, struct tpp_simulated_plan *ranked,
                                    struct tpp_error *err)
{
    const double default_seconds = ranked->simulated_seconds;
    enum tpp_code code = TPP_OK;
    for (int bucket = 0; bucket < TPP_BUCKET_COUNT && ranked->is_simulated && code == TPP_OK; bucket++) {
        uint64_t sizes[TPP_MAX_BUCKET_SIZES];
        size_t count;
        code = tpp_bucket_sizes(evaluator, &ranked->plan.strategy, (enum tpp_bucket)bucket, sizes, &count, err);
        for (size_t i = 0; i < count && code == TPP_OK; i++)
            code = try_bucket(evaluator, (enum tpp_bucket)bucket, sizes[i], ranked, err);
    }
    ranked->bucket_gain_fraction = 1 - ranked->simulated_seconds / default_seconds;
    return code;
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

static struct tpp_simulated_plan unsimulated(const struct tpp_plan *plan, size_t index)
{
    return (struct tpp_simulated_plan){
        .plan = *plan, .simulated_seconds = plan->cost.step_seconds, .estimated_index = index};
}

enum tpp_code tpp_simulated_step(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                 const struct tpp_job *job, const struct tpp_stack *stack, const struct tpp_plan *plan,
                                 struct tpp_simulated_plan *out, struct tpp_error *err)
{
    struct tpp_evaluator *evaluator = NULL;
    *out = unsimulated(plan, 0);
    enum tpp_code code = tpp_evaluator_new(model, hardware, job, stack, &evaluator, err);
    if (code == TPP_OK)
        code = simulate(evaluator, out, err);
    tpp_evaluator_free(evaluator);
    return code;
}

enum tpp_code tpp_simulated_ranking(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                    const struct tpp_job *job, const struct tpp_stack *stack,
                                    double memory_headroom_fraction, const struct tpp_plan *plans, size_t count,
                                    struct tpp_simulated_plan *ranked, struct tpp_error *err)
{
    struct tpp_evaluator *evaluator = NULL;
    enum tpp_code code = tpp_evaluator_new(model, hardware, job, stack, &evaluator, err);
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        ranked[i] = unsimulated(&plans[i], i);
        code = simulate(evaluator, &ranked[i], err);
        if (code == TPP_OK)
            code = choose_buckets(evaluator, &ranked[i], err);
        if (code == TPP_OK)
            put_in_order(ranked, i, memory_headroom_fraction);
    }
    tpp_evaluator_free(evaluator);
    return code;
}
