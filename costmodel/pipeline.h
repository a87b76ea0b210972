/* pipeline.h - closed forms of the pipeline schedules (cost-model 8.1): what the stages' times make of a whole step. */
#ifndef TPP_COSTMODEL_PIPELINE_H
#define TPP_COSTMODEL_PIPELINE_H

#include "costmodel/strategy.h"

struct tpp_pipeline_times {
    double slowest_seconds;   /* one micro-batch, forward to recompute, on the slowest stage */
    double others_seconds;    /* the same, summed over all other stages */
    double edge_seconds;      /* Tc: one transfer between neighbours */
};

struct tpp_pipeline {
    double busy_seconds;      /* of the slowest stage: m times its micro-batch */
    double bubble_seconds;    /* fill and drain */
    double edge_seconds;      /* transfers on the critical path */
    double seconds;           /* sum of the three */
    double bubble_fraction;   /* 1 - busy / (p * makespan), without transfer edges; (p-1)/(v m + p-1) for uniform stages */
};

/* m T of the slowest stage + the sum of the other stages (interleaved: over v) + edges: 2(p-1) Tc for GPipe (once through
 * the pipeline and back), (2(p-1) ceil(m/p) + 2(p-2)) Tc for 1F1B, ((2v-1)p-2) Tc for interleaved. Uniform stages give the (p-1)(F+B+W) and (p-1)(F+B+W)/v of 8.1 [exact]: E8. */
struct tpp_pipeline tpp_pipeline_step(const struct tpp_strategy *strategy, const struct tpp_pipeline_times *times);

#endif
