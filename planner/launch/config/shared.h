/* shared.h - private to the frameworks that are configured by a file. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_SHARED_H
#define TPP_PLANNER_LAUNCH_CONFIG_SHARED_H

#include "planner/launch/config/configurations.h"
#include "planner/launch/config/keys.h"
#include "planner/launch/refusal.h"

/* Sizes of a file, cut to what can be multiplied: 1 .. TPP_RULE_MAX_SIZE. */
int64_t tpp_size_between(int64_t value);
/* Fills stack and strategy (which has its sizes) of a plan whose model and job are set, and checks all of them. */
enum tpp_code tpp_complete_plan(enum tpp_engine engine, const struct tpp_hardware *hardware,
                                enum tpp_framework framework, struct tpp_plan_reading *plan, struct tpp_error *err);
/* The rules' settings of a plan that was read, for a world of `world_size`. */
void tpp_rules_of_plan(const struct tpp_plan_reading *plan, const struct tpp_hardware *hardware, int64_t world_size,
                       struct tpp_rule_settings *rules);
/* Same sizes, whatever the names. */
bool tpp_same_shape(const struct tpp_model *a, const struct tpp_model *b);

#endif
