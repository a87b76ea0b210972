/* plan_schedule.h - the pipeline of one plan as events: every chunk with its own layers, embedding and head
 * (cost-model 8.2 "uneven stages", 9.1). What the closed forms of pipeline.h take as one slowest stage, this keeps
 * apart. */
#ifndef TPP_COSTMODEL_SCHEDULES_PLAN_SCHEDULE_H
#define TPP_COSTMODEL_SCHEDULES_PLAN_SCHEDULE_H

#include "costmodel/evaluate.h"
#include "costmodel/schedules/schedule.h"

/* The schedule problem of a completed strategy: times and kept bytes of its chunks from the evaluator's layers. Fills
 * *problem, which borrows `chunks` (room for pipeline_parallel * virtual_pipeline_stages of them). With the seconds of
 * all operations on a stage and its transfers, a stage is as busy as the evaluator's. TPP_E_STRATEGY as
 * tpp_evaluator_cost. */
enum tpp_code tpp_plan_schedule(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                struct tpp_schedule_chunk *chunks, struct tpp_schedule_problem *problem,
                                struct tpp_error *err);

#endif
