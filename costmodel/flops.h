/* flops.h - operations of one training step, in the conventions of cost-model 3 [exact]: E3. */
#ifndef TPP_COSTMODEL_FLOPS_H
#define TPP_COSTMODEL_FLOPS_H

#include "costmodel/model/model.h"
#include "costmodel/strategy.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>

/* Forward of one sequence: what every other figure is made of. */
struct tpp_flops {
    double layers;    /* linear layers without the head (experts: the active ones) */
    double head;      /* output head */
    double attention; /* attention cores, whole score matrix (causal: half of it) */
    double attended;  /* the scores that causality and sliding windows leave: a window of w in a sequence of s, w s - w^2/2 */
};

/* `document_length`: tokens of one packed document when attention stays inside documents (3.1: the sum of their squares
 * instead of s^2); 0 or the sequence's length or more: one document a sequence. */
struct tpp_flops tpp_flops_forward(const struct tpp_model *model, double sequence_length, double document_length);

/* Model FLOPs of one step of `sequences`: 3 x forward. The weight gradients that frozen layers do not have are counted
 * all the same (the convention of published figures). `causal` halves the attention part. */
double tpp_flops_model(const struct tpp_flops *forward, double sequences, bool causal);
/* Executed FLOPs: with recomputation (3.2). `recomputed_fraction`: share of the layers that are recomputed in full;
 * selective recomputation repeats the attention core when it is not a flash kernel. */
double tpp_flops_hardware(const struct tpp_flops *forward, double sequences, enum tpp_recompute recompute,
                          double recomputed_fraction, bool unfused_attention);
/* What a step of `sequences` cannot do without: 3 x forward with the attended scores alone. */
double tpp_flops_necessary(const struct tpp_flops *forward, double sequences);
/* The shortest step that physics allows: every GPU of the job does nothing but the necessary operations, at the fastest
 * multiplication of the precision. `necessary_flops`: of the step, as tpp_flops_necessary counts. Adapters leave out the weight gradients of the frozen layers, one third of the work (15.8); that third is not counted. */
double tpp_flops_least_seconds(double necessary_flops, const struct tpp_job *job, const struct tpp_gpu *gpu);

#endif
