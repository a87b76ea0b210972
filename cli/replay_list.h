/* replay_list.h - the plans of `plan` and `launch` with their memory replayed (planner/replayed_ranking.h), and what that said.
 */
#ifndef TPP_CLI_REPLAY_LIST_H
#define TPP_CLI_REPLAY_LIST_H

#include "cli/find_plans.h"
#include "cli/memory_replay.h"

/* The short list of a search (planner/replayed_ranking.h). `arguments` must outlive *found. */
enum tpp_code tpp_replay_list(const struct tpp_replay_arguments *arguments, const struct tpp_job_inputs *inputs,
                              double memory_headroom_fraction, struct tpp_found_plans *found, struct tpp_error *err);
/* One plan that a command was given: the same, for its cost alone. */
enum tpp_code tpp_replay_one(const struct tpp_replay_arguments *arguments, const struct tpp_job_inputs *inputs,
                             struct tpp_plan *plan, struct tpp_error *err);
/* What replaying the list said of its first plan: reserve, retries, the setting that helps, a calmer plan and its price. */
void tpp_replay_list_append(const struct tpp_plan *plans, size_t num_plans, struct tpp_answer *answer);
/* "calmer_plan": {"rank", "peak_reserved_bytes", "added_step_seconds"}: the plan without the first one's trouble with memory;
 * null when there is none, or no trouble. */
void tpp_replay_calmer_add_json(const struct tpp_plan *plans, size_t num_plans, struct tpp_json_writer *writer,
                                struct cJSON *parent);
/* What was replayed, of "memory": alloc_conf, retries and what it reserves without the setting; null when nothing was. */
void tpp_replay_memory_add_json(const struct tpp_memory *memory, struct tpp_json_writer *writer, struct cJSON *object);

#endif
