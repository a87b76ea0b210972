/* cost_strategy.h - costs the one strategy that the command line names. */
#ifndef TPP_CLI_COST_STRATEGY_H
#define TPP_CLI_COST_STRATEGY_H

#include "cli/job_options.h"
#include "cli/strategy_option.h"
#include "planner/search.h"

/* Parses, checks and costs. *inputs takes the engine that the strategy's stages need. `stages` may be NULL; else
 * *stages is owned by the caller (free), one entry a pipeline stage. */
enum tpp_code tpp_cost_strategy(struct tpp_job_inputs *inputs, const struct tpp_strategy_arguments *arguments,
                                struct tpp_plan *plan, struct tpp_stage_cost **stages, struct tpp_error *err);

#endif
