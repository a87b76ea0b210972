/* strategy_option.h - `--strategy` and `--placement`: one strategy from the command line, completed and checked. */
#ifndef TPP_CLI_STRATEGY_OPTION_H
#define TPP_CLI_STRATEGY_OPTION_H

#include "cli/job_options.h"
#include "costmodel/strategy.h"

struct tpp_strategy_arguments {
    const char *strategy, *placement;
};

extern const struct tpp_option tpp_strategy_options[];

/* Parses, completes and checks; a strategy that cannot be run is TPP_E_STRATEGY. Needs arguments->strategy. */
enum tpp_code tpp_strategy_resolve(const struct tpp_strategy_arguments *arguments, const struct tpp_job_inputs *inputs,
                                   struct tpp_strategy *strategy, struct tpp_error *err);
/* Ranks of a group in one node, from `--placement "tp=2+2,cp=4"`: each named group is a sum of equal numbers, one a
 * node. `tensor_parallel` and `context_parallel` are the sizes the sums must have. 0 where a group is not named. */
enum tpp_code tpp_placement_parse(const char *text, uint32_t tensor_parallel, uint32_t context_parallel,
                                  uint32_t *tensor_ranks_per_node, uint32_t *context_ranks_per_node,
                                  struct tpp_error *err);

#endif
