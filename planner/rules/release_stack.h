/* release_stack.h - what an older release of a framework runs: its kernels and overlaps. */
#ifndef TPP_PLANNER_RULES_RELEASE_STACK_H
#define TPP_PLANNER_RULES_RELEASE_STACK_H

#include "costmodel/model/model.h"
#include "costmodel/stack.h"

/* Changes *stack, the defaults of its framework's current release (tpp_stack_defaults, tpp_stack_set_engine), into those of
 * stack->release; nothing for "" and releases that are not known.
 *
 *   Megatron-LM before 0.6     layers of its own, not Transformer Engine's (launch-formats 1.3: the default of --transformer-impl),
 *                              memory-bound kernels 1.2 times as long instead of 1.05 (cost-model 5.3); FlashAttention-2's package
 *                              instead of cuDNN. Kept for FP8 products, and for RMSNorm, which these layers lack (ML-98).
 *   Megatron-LM before 23.06   interleaved stages wait for their transfers (launch-formats 1.3: --overlap-p2p-communication)
 *   Megatron-LM v2.6           no FlashAttention: there is no --use-flash-attn yet
 *   Megatron-LM before 0.11,   experts padded to a capacity are sorted and waited for as others are (its commit f27a04f)
 *   NeMo before 25.04
 *   NeMo before 25             FP8 weights beside 16-bit ones: the launcher's scripts set fp8 and fp8_hybrid alone
 *   torchtitan before 0.1      the loss is not compiled (its pull request 1033 and commit e8977b0) */
void tpp_stack_take_release(struct tpp_stack *stack, const struct tpp_model *model, const struct tpp_gpu *gpu,
                            const struct tpp_job *job);

#endif
