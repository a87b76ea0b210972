/* simulated_list.h - the best plans of a search in the order of their simulated steps, for the commands that search. */
#ifndef TPP_CLI_SIMULATED_LIST_H
#define TPP_CLI_SIMULATED_LIST_H

#include "cli/command.h"
#include "cli/find_plans.h"

struct tpp_simulated_list_arguments {
    bool simulate, no_simulate;
};
extern const struct tpp_option tpp_simulated_list_options[];

/* TPP_E_USAGE when both are given. Else the search keeps enough plans for the short list. */
enum tpp_code tpp_simulated_list_prepare(const struct tpp_simulated_list_arguments *arguments,
                                         struct tpp_space_limits *limits, struct tpp_error *err);
/* Puts found->plans in the order of their simulated steps, and leaves the first `top` of them; does nothing with
 * --no-simulate but leaving `top`. */
enum tpp_code tpp_simulated_list(const struct tpp_simulated_list_arguments *arguments,
                                 const struct tpp_job_inputs *inputs, double memory_headroom_fraction, size_t top,
                                 struct tpp_found_plans *found, struct tpp_error *err);
/* Where simulation and estimate differ, in place or by 1 % and more. Appends nothing when nothing was simulated. */
void tpp_simulated_list_append(const struct tpp_found_plans *found, struct tpp_answer *answer);
/* Members of plan `index`; none when nothing was simulated. */
void tpp_simulated_list_add_json(const struct tpp_found_plans *found, size_t index, struct tpp_json_writer *writer,
                                 struct cJSON *plan);

#endif
