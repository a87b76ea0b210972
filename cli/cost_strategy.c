#include "cli/cost_strategy.h"

#include <stdlib.h>

static enum tpp_code cost_stages(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 struct tpp_stage_cost **stages, struct tpp_error *err)
{
    *stages = calloc(strategy->pipeline_parallel, sizeof **stages);
    if (*stages == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    const enum tpp_code code = tpp_evaluator_stages(evaluator, strategy, *stages, err);
    if (code != TPP_OK) {
        free(*stages);
        *stages = NULL;
    }
    return code;
}

enum tpp_code tpp_cost_strategy(struct tpp_job_inputs *inputs, const struct tpp_strategy_arguments *arguments,
                                struct tpp_plan *plan, struct tpp_stage_cost **stages, struct tpp_error *err)
{
    struct tpp_evaluator *evaluator = NULL;
    enum tpp_code code = tpp_strategy_resolve(arguments, inputs, &plan->strategy, err);
    if (code == TPP_OK)
        tpp_job_take_stages(plan->strategy.pipeline_parallel, inputs);
    if (code == TPP_OK)
        code = tpp_evaluator_new(&inputs->model, &inputs->hardware, &inputs->job, &inputs->stack, &evaluator, err);
    if (code == TPP_OK)
        code = tpp_evaluator_cost(evaluator, &plan->strategy, &plan->cost, err);
    if (code == TPP_OK && stages != NULL)
        code = cost_stages(evaluator, &plan->strategy, stages, err);
    tpp_evaluator_free(evaluator);
    return code;
}
