/* flops.h - operations of one training step, in the conventions of cost-model 3 [exact]: E3. */
#ifndef TPP_COSTMODEL_FLOPS_H
#define TPP_COSTMODEL_FLOPS_H

#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/strategy.h"

/* Forward of one sequence of `sequence_length` tokens: linear layers (experts: the active ones) and the head. */
double tpp_flops_linear_forward(const struct tpp_model *model, double sequence_length);
/* Of that, the output head. */
double tpp_flops_head_forward(const struct tpp_model *model, double sequence_length);
/* Attention cores of all layers, forward, whole score matrix (causal: half of it). */
double tpp_flops_attention_forward(const struct tpp_model *model, double sequence_length);

/* Model FLOPs of one step: 3 x forward x global batch; adapters: no weight gradients of frozen layers are NOT taken off
 * (the convention of published figures). `causal` halves the attention part. */
double tpp_flops_model(const struct tpp_model *model, const struct tpp_job *job, bool causal);
/* Executed FLOPs: with recomputation (3.2). `recomputed_fraction`: share of the layers that are recomputed in full. */
double tpp_flops_hardware(const struct tpp_model *model, const struct tpp_job *job, enum tpp_recompute recompute,
                          double recomputed_fraction, bool unfused_attention);

#endif
