/* interval.h - the 90 % interval of a predicted step, from the errors of what it is made of. */
#ifndef TPP_COSTMODEL_INTERVAL_H
#define TPP_COSTMODEL_INTERVAL_H

#include "costmodel/evaluate.h"

/* Wider is no statement. */
#define TPP_INTERVAL_MAX_FRACTION 0.5

/* What of the interval no strategy changes: errors of the profile, and the regimes of model, hardware, job and stack. */
struct tpp_interval {
    double regime_square; /* sum of r^2 of the regimes below that the strategy has no part in */
    double gemm_error, attention_error, memory_error, inside_node_error, between_nodes_error; /* e; e_g / sqrt(4) */
    bool is_one_node;     /* all communication is inside a node */
};
struct tpp_interval tpp_interval_make(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                      const struct tpp_job *job, const struct tpp_stack *stack);

/* Half-width w of the 90 % interval [t / (1 + w), t (1 + w)] of a step of t seconds:
 *
 *     w^2 = (e_g s_g / sqrt(4))^2 + (e_a s_a)^2 + (e_m s_m)^2 + (e_n s_n)^2 + (e_x s_x)^2 + sum of regimes r^2
 *
 * s: share of the step in GEMMs (with head, embedding and recomputation), attention, memory-bound kernels (with the
 * optimizer), exposed communication inside a node and between nodes; e: the profile's gemm_error_fraction,
 * attention_error_fraction, memory_error_fraction and the two collective_error_fraction, which `calibrate fit` takes from
 * samples that were held out; sqrt(4): the four products of a layer miss independently. r: what published steps of a
 * regime (engine, FP8, Blackwell, experts, bubble, ...) miss by beyond that. A function of cost->step_seconds,
 * time_terms, bubble_fraction and host_bound_fraction alone; no allocation.
 * Source of the rule: independent errors add in quadrature. Checked by tests/unit/test_interval.c, its coverage by
 * tests/reference/reference_published_runs.c. */
double tpp_interval_fraction(const struct tpp_interval *interval, const struct tpp_cost *cost);

#endif
