/* memory_walk.h - bytes alive on one rank of one stage over a step, and the peak of them (cost-model section 4).
 *
 * Reads the same layers as the timer. Everything is a double of whole bytes: exact below 2^53. */
#ifndef TPP_COSTMODEL_MEMORY_WALK_H
#define TPP_COSTMODEL_MEMORY_WALK_H

#include "costmodel/evaluate.h"
#include "costmodel/layer.h"

#include <stdbool.h>

/* Bytes a parameter of weights, gradients and optimizer states on one rank (4.1, 15.7). */
struct tpp_static_bytes {
    double weights, gradients, optimizer;
};

/* `shard_ranks`: D, ranks the states are sharded over. Quantised base weights are not covered here. */
struct tpp_static_bytes tpp_static_bytes_per_parameter(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                                       double shard_ranks);

/* Bytes an embedding's parameter takes beyond those of `per`: its moments stay in fp32 under Hugging Face's 8-bit AdamW. */
double tpp_wide_moment_bytes(const struct tpp_stack *stack, const struct tpp_static_bytes *per);
/* Share of the optimizer's states that one of the two moments is; the rest is master weights and fp32 gradients. */
double tpp_optimizer_moment_fraction(const struct tpp_stack *stack);
/* Part of `states` bytes that is there in the optimizer's step only: the fp32 gradients of DeepSpeed's ZeRO and of Megatron's fp16
 * training, 4 of 16. Megatron: _copy_model_grads_to_main_grads assigns shard_model_grad.float(), and zero_grad drops it
 * (core/optimizer/distrib_optimizer.py and optimizer.py). */
double tpp_optimizer_late_bytes(const struct tpp_stack *stack, double states);
/* Elements of DeepSpeed's sub_group_size: stage 3 steps that many parameters at a time. */
#define TPP_DEEPSPEED_SUB_GROUP 1e9
/* What the step makes beside the states that are there: late ones, and copies (below); stage 3 for a sub-group. Transformer
 * Engine's FusedAdam widens narrow moments to fp32 for all parameters of a group at once (pytorch/optimizers/fused_adam.py,
 * get_unscaled_state: 8 bytes a parameter), and Megatron steps experts (`expert_states` of `states`) and the rest one after
 * the other. */
double tpp_optimizer_step_bytes(const struct tpp_stack *stack, const struct tpp_strategy *strategy, double states,
                                double expert_states);

/* How often a gathered unit is there: FSDP2 copies what arrives into its parameters (torch, _fsdp_collectives.py,
 * foreach_all_gather_copy_out), FSDP1's are views of it (_flat_param.py, _all_gather_flat_param). */
double tpp_fsdp_copies(const struct tpp_stack *stack);
/* True when gradients are made in every backward and dropped after the step (zero_grad sets them to None): plain autograd,
 * FSDP or a single rank, with one micro-batch a step. They are not there yet at the loss. Other engines keep buffers. */
bool tpp_gradients_are_fresh(const struct tpp_stack *stack, const struct tpp_strategy *strategy);
/* True when the optimizer is torch.optim.AdamW over lists of tensors (foreach), which makes the square root of all second
 * moments at once: a moment's width for each parameter of the rank [4.5 iii; measured: 10 bytes a parameter of pure bf16
 * training, 8 of them states]. Fused optimizers have no such thing. */
bool tpp_optimizer_makes_copies(const struct tpp_stack *stack);

/* True when a fully recomputed layer is alive twice in its backward: FSDP of plain PyTorch around frozen weights (LoRA, QLoRA),
 * whose units have no gradient of their own to wait for [15.8]. With trained weights it is there once: the measured peaks of
 * full fine-tuning on 4 GPUs grow by 1.94 GiB a sequence of 4096 tokens, those of adapters by 3.0. */
bool tpp_recomputed_layer_is_twice(const struct tpp_job *job, const struct tpp_stack *stack,
                                   const struct tpp_strategy *strategy);

/* Standard deviation of log(predicted / measured) of a device's total (section 12): what the out-of-memory probability is
 * made of. */
#define TPP_MEMORY_TOTAL_SIGMA 0.05
/* 10.2 rule 9: above this share of the card the allocator starts to retry. */
#define TPP_MEMORY_TIGHT_FRACTION 0.92

struct tpp_walk_stage {
    const struct tpp_layer *decoder;    /* one decoder layer; of a stage with dense layers and layers with experts, the mean one */
    const struct tpp_layer *dense, *last; /* of such a stage, one of the dense layers and the one whose backward comes first: what
                                           is alive of a single layer is not the mean; NULL where all are alike */
    const struct tpp_layer *embedding;  /* NULL when the stage has none */
    const struct tpp_layer *head;       /* NULL when the stage has none */
    double num_layers;                  /* decoder layers on the stage */
    double in_flight;                   /* micro-batches whose activations are alive at the peak (4.3), in passes through
                                           all layers of the stage: half of them where the model is there twice */
    double awaiting_weights;            /* of these, micro-batches between B and W, which in_flight counts as 32/34 each */
};

/* Everything of the job that the walk needs beside the stage. */
struct tpp_walk {
    const struct tpp_job *job;
    const struct tpp_stack *stack;
    const struct tpp_strategy *strategy;
    const struct tpp_hardware *hardware;
    double shard_ranks;                 /* D */
    double expert_shard_ranks;          /* D of the routed experts */
    double communicator_bytes;          /* of all groups of the rank, tpp_walk_communicator_bytes */
};

/* Fills memory->terms, host_bytes and the three sums for one stage (4.2-4.5, 10.1, 15.7-15.9). */
void tpp_walk_stage_memory(const struct tpp_walk *walk, const struct tpp_walk_stage *stage, struct tpp_memory *memory);
/* What one micro-batch keeps for backward on all decoder layers of the stage (4.2), whenever the peak is. */
double tpp_walk_micro_batch_bytes(const struct tpp_walk *walk, const struct tpp_walk_stage *stage);
/* Share of a node's host memory that offloaded tensors may take; the rest is the system's, data loaders' and checkpoints'. */
#define TPP_HOST_USABLE_FRACTION 0.9
bool tpp_host_is_full(const struct tpp_memory *memory);
/* Fills the rest: fragmentation, probability, verdict. */
void tpp_walk_verdict(struct tpp_memory *memory);

/* Device memory of NCCL for the groups that a strategy opens on every stage (4.4): all but that of a tied embedding. */
double tpp_walk_communicator_bytes(const struct tpp_hardware *hardware, const struct tpp_strategy *strategy);

/* Layers of a stage of `num_layers` whose forward is run again in backward: none, all, or as many of each
 * chunk as add up to the strategy's number for the stage (4.2 E). */
double tpp_recomputed_layers(const struct tpp_strategy *strategy, double num_layers);

/* Bytes that the first `count` of a stage's `num_layers` layers, all like this one, keep of one micro-batch until their
 * backward (4.2); those that are recomputed come first. */
double tpp_kept_by_layers_bytes(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                const struct tpp_layer *layer, double num_layers, double count);
/* What a micro-batch keeps between B and W, over what it keeps before B: 32 s b h of 34 s b h a layer, with attention that
 * keeps no scores (4.3). */
#define TPP_WEIGHT_ACTIVATION_FRACTION (32.0 / 34)

/* In-flight micro-batches of stage `stage` (4.3) [exact]: E7. Where weight gradients come later, what they keep counts as
 * 32/34 of a micro-batch. The walk counts more where a layer keeps so much (experts) that its input, all that B frees, is a
 * smaller part of it. */
double tpp_in_flight_micro_batches(const struct tpp_strategy *strategy, uint32_t stage);
/* Of these, micro-batches that wait for their weight gradients alone; 0 where these come with B. */
double tpp_micro_batches_awaiting_weights(const struct tpp_strategy *strategy, uint32_t stage);

#endif
