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

/* Whether a pin, if any, names this value. */
static inline bool tpp_pin_allows(int64_t pin, uint64_t value)
{
    return tpp_pin_is_free(pin) || (uint64_t)pin == value;
}

/* Megatron-LM and Megatron-Bridge on Megatron's own engine: what is written for them names dispatchers and modules. */
static inline bool tpp_space_is_megatron_core(const struct tpp_space *space)
{
    return space->stack->engine == TPP_ENGINE_MEGATRON && (space->stack->framework == TPP_FRAMEWORK_MEGATRON_LM ||
                                                           space->stack->framework == TPP_FRAMEWORK_NEMO);
}

/* Values of one axis, into the cell; space_experts.c, space_recompute.c. */
void tpp_space_add_experts(const struct tpp_space *space, struct tpp_space_cell *cell);
void tpp_space_add_exchanges(const struct tpp_space *space, struct tpp_space_cell *cell);
void tpp_space_add_recomputes(const struct tpp_space *space, struct tpp_space_cell *cell);
/* Sets exchange `index` beside the sizes of the experts. False where these leave nothing to send. */
bool tpp_space_set_exchange(const struct tpp_space_cell *cell, uint32_t index, struct tpp_strategy *strategy);
/* False when the depth is no number of layers of its own: 0, or that of the depth before. */
bool tpp_space_set_recompute(struct tpp_strategy *strategy, struct tpp_space_recompute recompute, uint32_t stage_layers);

/* DeepSpeed's own pipeline, which also runs its plain engine's jobs as soon as there is more than one stage. */
static inline bool tpp_space_has_deepspeed_pipeline(const struct tpp_space *space, uint32_t p)
{
    return space->stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE ||
           (space->stack->engine == TPP_ENGINE_DEEPSPEED && p > 1);
}

#endif
