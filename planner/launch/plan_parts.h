/* plan_parts.h - private to the readers of plans: settings of a command line, and the parts that a plan is made of. */
#ifndef TPP_PLANNER_LAUNCH_PLAN_PARTS_H
#define TPP_PLANNER_LAUNCH_PLAN_PARTS_H

#include "planner/launch/plan_reading.h"

struct tpp_plan_source { /* all borrowed */
    const struct tpp_megatron_settings *s;
    const struct tpp_arguments *arguments;
    enum tpp_release release;
    struct tpp_problems *problems;
};

static inline bool tpp_plan_is_set(int64_t value)
{
    return value != TPP_RULE_UNSET;
}

static inline int64_t tpp_plan_or_else(int64_t value, int64_t otherwise)
{
    return tpp_plan_is_set(value) ? value : otherwise;
}

/* Numbers that no later check would see overflow. */
static inline uint32_t tpp_plan_size_of(int64_t value)
{
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

/* plan_model.c: the shape from the options, under `name`. */
void tpp_plan_read_model(const struct tpp_plan_source *source, const char *name, struct tpp_model *model);
/* The options that contradict a shape given beside them are named. */
void tpp_plan_compare_models(const struct tpp_plan_source *source, const struct tpp_model *model);
/* The vocabulary is padded to a multiple of this and tp; 1: of tp alone, or not at all. */
int64_t tpp_plan_vocabulary_multiple(const struct tpp_plan_source *source, uint32_t vocab_size);
/* What the padding does, for whichever shape is used; nothing outside Megatron. */
void tpp_plan_judge_vocabulary(const struct tpp_plan_source *source, uint32_t vocab_size);

/* plan_job.c: without the padding of the vocabulary */
void tpp_plan_read_job(const struct tpp_plan_source *source, struct tpp_job *job);
void tpp_plan_read_stack(const struct tpp_plan_source *source, const struct tpp_hardware *hardware,
                         const struct tpp_job *job, struct tpp_stack *stack);

/* plan_strategy.c: completed for the job; the errors of tpp_strategy_complete. */
enum tpp_code tpp_plan_read_strategy(const struct tpp_plan_source *source, const struct tpp_job *job,
                                     struct tpp_strategy *strategy, struct tpp_error *err);

#endif
