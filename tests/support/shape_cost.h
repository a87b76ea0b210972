/* shape_cost.h - what a strategy costs on a framework's own stack, for tests that ask once. */
#ifndef TPP_TESTS_SUPPORT_SHAPE_COST_H
#define TPP_TESTS_SUPPORT_SHAPE_COST_H

#include "costmodel/evaluate.h"
#include "tests/support/shapes.h"

static inline struct tpp_cost shape_cost(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                         enum tpp_framework framework, const struct tpp_job *job,
                                         const struct tpp_strategy *strategy)
{
    struct tpp_stack stack;
    struct tpp_evaluator *evaluator = NULL;
    struct tpp_cost cost;
    tpp_stack_defaults(framework, &hardware->gpu, job, &stack);
    assert_int_equal(tpp_evaluator_new(model, hardware, job, &stack, &evaluator, NULL), TPP_OK);
    assert_int_equal(tpp_evaluator_cost(evaluator, strategy, &cost, NULL), TPP_OK);
    tpp_evaluator_free(evaluator);
    return cost;
}

#endif
