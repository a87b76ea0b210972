/* report.h - a prediction as text for people: the job in one line, one plan in full, many plans as a table. */
#ifndef TPP_CLI_REPORT_H
#define TPP_CLI_REPORT_H

#include "cli/command.h"
#include "cli/job_options.h"
#include "costmodel/base/json_write.h"
#include "costmodel/evaluate.h"
#include "planner/search.h"
#include "planner/simulated_ranking.h"

/* "deepseek-coder-33b on 4 nodes of dgx-a100-80g (32 GPUs): ..." */
void tpp_report_job(const struct tpp_job_inputs *inputs, struct tpp_text *out);
/* Strategy, time, rate, bubble, memory of one plan, one line each. */
void tpp_report_plan(const struct tpp_strategy *strategy, const struct tpp_cost *cost, struct tpp_answer *answer);
/* The stages of a pipeline as a table; false when out of memory. */
bool tpp_report_stages(const struct tpp_stage_cost *stages, size_t num_stages, struct tpp_answer *answer);
/* Ranked plans as a table; sizes that are 1 in every plan have no column. False when out of memory. */
bool tpp_report_table(const struct tpp_plan *plans, size_t num_plans, struct tpp_answer *answer);
/* What binds the first plan, and what the second loses against it and where. */
void tpp_report_reasons(const struct tpp_plan *plans, const struct tpp_simulated_plan *simulated, size_t num_plans,
                        struct tpp_answer *answer);
/* The same as "reasons": {...}. */
void tpp_reasons_add_json(const struct tpp_plan *plans, const struct tpp_simulated_plan *simulated, size_t num_plans,
                          struct tpp_json_writer *writer, struct cJSON *parent);

#endif
