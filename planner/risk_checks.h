/* risk_checks.h - private to the risks: what every check looks at, and the checks by subject. */
#ifndef TPP_PLANNER_RISK_CHECKS_H
#define TPP_PLANNER_RISK_CHECKS_H

#include "planner/risks.h"

struct tpp_risk_context {
    const struct tpp_model *model;
    const struct tpp_hardware *hardware;
    const struct tpp_job *job;
    const struct tpp_stack *stack;
    const struct tpp_strategy *strategy;
    const struct tpp_cost *cost;
    struct tpp_risk *out;
    size_t count, max;
};

/* Adds a risk; `hint` may be NULL. */
void tpp_risk_add(struct tpp_risk_context *c, const char *code, enum tpp_severity severity, const char *hint,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));

typedef void tpp_risk_check(struct tpp_risk_context *c);

/* Each list ends with NULL. */
extern tpp_risk_check *const tpp_risk_tensor_checks[];   /* risks_tensor.c: tensor, sequence and expert parallelism, kernels */
extern tpp_risk_check *const tpp_risk_pipeline_checks[]; /* risks_pipeline.c: stages and micro-batches */
extern tpp_risk_check *const tpp_risk_context_checks[];  /* risks_context.c: long sequences */
extern tpp_risk_check *const tpp_risk_memory_checks[];   /* risks_memory.c */
extern tpp_risk_check *const tpp_risk_data_checks[];     /* risks_data.c: sharding, buckets, network */
extern tpp_risk_check *const tpp_risk_job_checks[];      /* risks_job.c: batch, precision, times */

#endif
