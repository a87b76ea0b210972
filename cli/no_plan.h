/* no_plan.h - what to say when no plan fits: what is missing, the plans that come nearest, the smallest changes. */
#ifndef TPP_CLI_NO_PLAN_H
#define TPP_CLI_NO_PLAN_H

#include "cli/command.h"
#include "cli/find_plans.h"
#include "cli/job_options.h"

/* After a search without a plan. Both search for remedies, which takes as long as several searches. */
enum tpp_code tpp_no_plan_append(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                                 const struct tpp_found_plans *found, struct tpp_answer *answer, struct tpp_error *err);
/* "shortage": {...} and "nearest": [PLAN...], or "refused": {...} when no strategy is valid; "remedies": [...]. */
enum tpp_code tpp_no_plan_add_json(const struct tpp_job_inputs *inputs, const struct tpp_space_limits *limits,
                                   const struct tpp_found_plans *found, struct tpp_json_writer *writer,
                                   struct cJSON *parent, struct tpp_error *err);

#endif
