/* flops.h - operations of one training step, in the conventions of cost-model 3 [exact]: E3. */
#ifndef TPP_COSTMODEL_FLOPS_H
#define TPP_COSTMODEL_FLOPS_H

#include "costmodel/model/model.h"
#include "costmodel/strategy.h"

#include <stdbool.h>

/* Forward of one sequence: what every other figure is made of. */
struct tpp_flops {
    double layers;    /* linear layers without the head (experts: the active ones) */
    double head;      /* output head */
    double attention; /* attention cores, whole score matrix (causal: half of it) */
};

struct tpp_flops tpp_flops_forward(const struct tpp_model *model, double sequence_length);

/* Model FLOPs of one step of `sequences`: 3 x forward. The weight gradients that frozen layers do not have are counted
 * all the same (the convention of published figures). `causal` halves the attention part. */
double tpp_flops_model(const struct tpp_flops *forward, double sequences, bool causal);
/* Executed FLOPs: with recomputation (3.2). `recomputed_fraction`: share of the layers that are recomputed in full;
 * selective recomputation repeats the attention core when it is not a flash kernel. */
double tpp_flops_hardware(const struct tpp_flops *forward, double sequences, enum tpp_recompute recompute,
                          double recomputed_fraction, bool unfused_attention);

#endif
