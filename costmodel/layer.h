/* layer.h - a layer program read by the timer and by the memory walk: seconds by section and part, bytes by lifetime.
 *
 * This is what a candidate is put together from: small, a value, kept in the evaluator's memo. */
#ifndef TPP_COSTMODEL_LAYER_H
#define TPP_COSTMODEL_LAYER_H

#include "costmodel/collective_time.h"
#include "costmodel/program.h"

#include <stdbool.h>

#define TPP_PART_COUNT (TPP_PART_EXPERT + 1)

/* What the timer needs to know beside the program. */
struct tpp_timing {
    const struct tpp_gpu *gpu;
    const struct tpp_links *links;         /* of the tensor-parallel group's stack (15.4) */
    double overlap_slowdown_fraction;      /* sigma */
    double memory_bound_factor;            /* U */
    struct tpp_group tensor_group, context_group, ulysses_group, expert_group, expert_tensor_group;
    const struct tpp_links *context_links; /* of every other group */
    bool tensor_comm_overlap;              /* rho of section 7 */
    bool expert_overlap;                   /* dispatch and combine run beside another micro-batch's compute */
    double expert_exposed_fraction;        /* of them, with expert_overlap; tpp_timing_overlap_experts */
    bool launch_blocking;
};

struct tpp_layer {
    double seconds[TPP_SECTION_COUNT][TPP_PART_COUNT]; /* one micro-batch; communication: exposed part and slow-down */
    double repeated_seconds;               /* forward that selective recomputation runs again: of the axes' modules */
    double skipped_seconds;                /* forward that full recomputation leaves out */
    double section_seconds[TPP_SECTION_COUNT]; /* sums of the rows above plus the host's excess */
    double host_seconds[TPP_SECTION_COUNT];    /* launch-bound excess (5.5) or blocking launches (15.5) */
    double host_bound_fraction;            /* host launch time over GPU time, forward and backward */
    double bytes[TPP_TENSOR_LIFE_COUNT];   /* one micro-batch, summed by lifetime */
    double vocabulary_parameters;          /* of them in the output matrix */
    double parameters, linear_parameters, expert_parameters, trainable_parameters, num_parameter_tensors;
    double tokens;
};

/* Sets timing->expert_exposed_fraction for the program. */
void tpp_timing_overlap_experts(const struct tpp_program *program, struct tpp_timing *timing);

/* Cost-model 5.5, 7, 9.3; pure. */
void tpp_layer_measure(const struct tpp_program *program, const struct tpp_timing *timing, struct tpp_layer *layer);
/* What `dense` and `moe` layers of one stage cost on average: sums over the stage come out exactly; transients of backward
 * are those of the larger kind. */
struct tpp_layer tpp_layer_blend(const struct tpp_layer *dense, double num_dense, const struct tpp_layer *moe,
                                 double num_moe);

/* What full recomputation of the layer takes: its forward without what nothing in backward needs. */
double tpp_layer_recompute_seconds(const struct tpp_layer *layer);
/* What tensor, context and expert parallelism transfer within a section: part of section_seconds, not slowed by others. */
double tpp_layer_transfer_seconds(const struct tpp_layer *layer, enum tpp_section section);

/* Seconds of one run of an operation, exposed or not. */
double tpp_op_seconds(const struct tpp_op *op, const struct tpp_timing *timing);
/* Seconds of what a hidden transfer runs beside: its operation, or all of them in a row. */
double tpp_op_hiding_seconds(const struct tpp_program *program, const struct tpp_op *op, const struct tpp_timing *timing);
/* What all runs of a transfer add to the critical path: what does not hide behind its operation, and the slow-down of that. */
double tpp_op_exposed_seconds(const struct tpp_program *program, const struct tpp_op *op,
                              const struct tpp_timing *timing);

#endif
