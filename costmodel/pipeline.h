/* pipeline.h - closed forms of the pipeline schedules (cost-model 8.1): what the stages' times make of a whole step. */
#ifndef TPP_COSTMODEL_PIPELINE_H
#define TPP_COSTMODEL_PIPELINE_H

#include "costmodel/strategy.h"

struct tpp_pipeline_times {
    double slowest_seconds;   /* one micro-batch, forward to recompute, on the slowest stage */
    double others_seconds;    /* the same, summed over all other stages */
    double edge_seconds;      /* Tc: one transfer between neighbours */
    /* Parts of others_seconds, for schedules that split the backward pass; 0 is taken as nothing to split. */
    double others_forward_seconds; /* F */
    double others_weight_seconds;  /* W */
    double others_vocabulary_seconds; /* passes of shared vocabulary layers and what they cost beside: in neither fill nor drain */
    double uneven_seconds;         /* what micro-batches of different lengths wait for each other (uneven_pipeline.h) */
    /* dualpipe, dualpipev: what a pair of all passes F and B + W saves, and the share of passes that run in pairs and have it
     * off their times above. */
    double others_hidden_seconds;  /* H */
    double paired_fraction;        /* phi */
};

struct tpp_pipeline {
    double busy_seconds;      /* of the slowest stage: m times its micro-batch */
    double bubble_seconds;    /* fill and drain, and uneven_seconds */
    double edge_seconds;      /* transfers on the critical path */
    double seconds;           /* sum of the three */
    double bubble_fraction;   /* 1 - busy / (p * makespan), without transfers; uniform: (p-1)/(v m + p-1) */
};

/* Latency terms hold while Tc is small beside F, B and W; the event model (schedules/schedule.h) has no such limit. With
 * T = F + B + W, R the sum of T over the other stages, R_F and R_W its parts (the passes of shared vocabulary layers are in T,
 * and not in R):
 *
 *   gpipe        m T + R + 2(p-1) Tc
 *   1f1b         m T + R + (2(p-1) + 2(m-1 - ceil((m-1)/p))) Tc; with p | m the 2(p-1) m/p + 2(p-2) of 8.1 [exact]
 *   interleaved  m T + R/v + 2(vp - 1) Tc [exact]: p Tc more than 8.1, which leaves out most hops from the last stage
 *                round to the first
 *   zb-h1, zb-1p m T + R - R_W (1 + min(m-1, p-1)/(p-1)) and the latency of 1f1b with at most p+1 micro-batches,
 *                4(p-1) Tc
 *   zb-h2        m T + max(0, R - R_W (1 + min(m-1, 2p-2)/(p-1))) + 2(p-1) Tc, of the longest stage's own span
 *   zb-v         as zb-h2: nothing for F = B = W, an approximation for other ratios
 *   zb-2p        m T + 2(p-1) Tc, its own span, for m >= 3p; as zb-h2 for fewer
 *   dualpipe     m (T - phi H) + (p/2-1)/(p-1) (R - R_H + (R - R_F) - 3 R_W), a pair F&B taking F + B + W - H, for stages
 *                in the middle, where phi = (m-p-1)/m; dualpipev: half of p-1 such stages, phi = (2m-2p-1)/2m. Exact for
 *                F = B = W; for other ratios within 20 % of the idle time
 *
 * Uniform stages give the idle times of 8.1: E8. */
struct tpp_pipeline tpp_pipeline_step(const struct tpp_strategy *strategy, const struct tpp_pipeline_times *times);

#endif
