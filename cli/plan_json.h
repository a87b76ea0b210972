/* plan_json.h - a plan as JSON, by the contract that other programs read: no key here is ever renamed. */
#ifndef TPP_CLI_PLAN_JSON_H
#define TPP_CLI_PLAN_JSON_H

#include "costmodel/base/json_write.h"
#include "costmodel/evaluate.h"

/* Everything of PLAN that follows from strategy and cost: all but "risks" and "launch". */
void tpp_plan_add_json(unsigned rank, const struct tpp_strategy *strategy, const struct tpp_cost *cost,
                       struct tpp_json_writer *writer, struct cJSON *plan);
/* "stages": [...], one object a pipeline stage. */
void tpp_stages_add_json(const struct tpp_stage_cost *stages, size_t num_stages, struct tpp_json_writer *writer,
                         struct cJSON *parent);

#endif
