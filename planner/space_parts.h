/* space_parts.h - private to the space: what it holds. */
#ifndef TPP_PLANNER_SPACE_PARTS_H
#define TPP_PLANNER_SPACE_PARTS_H

#include "planner/rules/release.h"
#include "planner/space.h"

struct tpp_space_sizes {
    uint32_t tensor, pipeline, context;
};

struct tpp_space {
    const struct tpp_model *model;
    const struct tpp_job *job;
    const struct tpp_stack *stack;
    enum tpp_release release; /* that rules are asked for */
    struct tpp_space_limits limits;
    uint32_t gpus_per_node;
    struct tpp_space_sizes *cells;
    size_t num_cells;
};

static inline bool tpp_pin_is_free(int64_t pin)
{
    return pin == TPP_PIN_ANY;
}

/* DeepSpeed's own pipeline, which also runs its plain engine's jobs as soon as there is more than one stage. */
static inline bool tpp_space_has_deepspeed_pipeline(const struct tpp_space *space, uint32_t p)
{
    return space->stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE ||
           (space->stack->engine == TPP_ENGINE_DEEPSPEED && p > 1);
}

#endif
