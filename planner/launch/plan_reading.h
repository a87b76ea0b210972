/* plan_reading.h - settings of a command line as model, job, stack and strategy: what a prediction is made of. The
 * framework is the settings'. */
#ifndef TPP_PLANNER_LAUNCH_PLAN_READING_H
#define TPP_PLANNER_LAUNCH_PLAN_READING_H

#include "hwprofiles/hardware.h"
#include "planner/launch/megatron_arguments.h"

struct tpp_plan_reading {
    struct tpp_model model;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy; /* completed */
};

/* Fills *out for a world that the settings name. `model`: the shape when the user gives it; NULL: from the options.
 * `name` becomes the model's name. What had to be assumed is added to `problems`. The errors of tpp_model_check,
 * tpp_job_check, tpp_stack_check and tpp_strategy_complete; `where` names the field. */
enum tpp_code tpp_plan_from_megatron(const struct tpp_megatron_settings *settings,
                                     const struct tpp_arguments *arguments, enum tpp_release release,
                                     const struct tpp_hardware *hardware, const struct tpp_model *model,
                                     const char *name, struct tpp_plan_reading *out, struct tpp_problems *problems,
                                     struct tpp_error *err);

#endif
