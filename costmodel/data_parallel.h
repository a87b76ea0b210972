/* data_parallel.h - gradients, parameters and the optimizer once a step: who they are reduced over, how much of it hides
 * behind compute (cost-model 5.4, 7 "DP", 9.1, 15.6, 15.7). ZeRO-3 and FSDP: sharded_layer.h. */
#ifndef TPP_COSTMODEL_DATA_PARALLEL_H
#define TPP_COSTMODEL_DATA_PARALLEL_H

#include "costmodel/collective_time.h"
#include "costmodel/job.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stdint.h>

/* DeepSpeed's default reduce_bucket_size and allgather_bucket_size, elements (launch-formats 3). */
#define TPP_DEEPSPEED_DEFAULT_BUCKET 5e8
/* The bucket that is used, elements; `given` 0: the default. */
double tpp_deepspeed_bucket_size(uint64_t given);

struct tpp_replicas {
    struct tpp_group all;      /* dp * c ranks that hold the same parameters; with dualpipe those of stages r and p-1-r, 2 dp c */
    struct tpp_group shard;    /* ranks the states are sharded over; == all without a smaller group */
    struct tpp_group replicate; /* ranks that hold the same shard (HSDP, zero groups); size 1 without */
    double shard_ranks;        /* D of the optimizer states: 1 when nothing is sharded */
};

/* The same for routed experts, which are cut over the grid etp-ep-edp-pp of the same ranks (6.2, launch-formats 1.6). */
struct tpp_replicas tpp_expert_replicas_make(const struct tpp_strategy *strategy, const struct tpp_stack *stack,
                                             uint32_t gpus_per_node);

/* Groups by rank order tp-cp-dp-pp (6.2). */
struct tpp_replicas tpp_replicas_make(const struct tpp_strategy *strategy, const struct tpp_stack *stack,
                                      uint32_t gpus_per_node);

#define TPP_ONE_BUCKET UINT64_MAX

/* How the gradients of a step and the parameters after it travel (7 "DP", 9.1, 15.7): what tpp_gradient_exposed_seconds
 * sums up, and what the simulator runs bucket by bucket. */
struct tpp_gradient_traffic {
    bool has_any;                 /* false: nobody to reduce with, or the traffic is in the layers (ZeRO-3, FSDP) */
    enum tpp_collective reduce;   /* over replicas->all */
    bool gathers;                 /* parameters over replicas->shard */
    bool reduces_each_micro_batch; /* ZeRO-2: gradients are kept sharded */
    bool reduce_overlaps, gather_overlaps;
    uint64_t reduce_bucket_size, gather_bucket_size; /* elements, as tpp_gradient_num_buckets takes them */
};
/* torchtitan with pipeline stages shards states alone (ZeRO-3 in name): its parameters stay gathered from the first micro-batch
 * on (models/llama3/infra/parallelize.py, reshard_after_forward = not pp_enabled), and PyTorch's pipeline stages reduce
 * the gradients, whole and in the reduction's type, behind the last backward pass (distributed/pipelining/stage.py,
 * backward_maybe_with_nosync). */
bool tpp_keeps_gathered(const struct tpp_stack *stack, const struct tpp_strategy *strategy);
/* ZeRO-3 and FSDP elsewhere: parameters are gathered layer by layer, and their gradients reduced, in every micro-batch. */
bool tpp_gathers_layers(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                        const struct tpp_replicas *replicas);
struct tpp_gradient_traffic tpp_gradient_traffic_of(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                                    const struct tpp_replicas *replicas);
/* Elements of one bucket: `given`, 0 = the engine's default, TPP_ONE_BUCKET = uncut. */
double tpp_gradient_bucket_size(const struct tpp_stack *stack, const struct tpp_replicas *replicas, uint64_t given);
/* Buckets that `parameters` elements fill. */
double tpp_gradient_num_buckets(const struct tpp_stack *stack, const struct tpp_replicas *replicas, double parameters,
                                uint64_t given);

/* Parameters that the same ranks hold: the dense part of the model, or the routed experts. */
struct tpp_gradient_part {
    const struct tpp_replicas *replicas;
    double first_parameters;   /* trainable, on one rank of the first stage, which reduces last */
    double mean_parameters;    /* the same, mean of all stages: each gathers before its first pass */
    double mean_gathered_bytes; /* of those (tpp_stack_gathered_bytes) */
    double num_tensors;        /* weights of a stage; 0: not counted, more than ranks */
};
#define TPP_MAX_GRADIENT_PARTS 2

struct tpp_gradient_step {
    struct tpp_gradient_part parts[TPP_MAX_GRADIENT_PARTS];
    uint32_t num_parts;
    double last_backward_seconds; /* one micro-batch of the whole first stage; ZeRO-2 hides the reduction of every micro-step
                                     behind it */
    double first_forward_seconds; /* one micro-batch of a mean stage */
    double backward_compute_share, forward_compute_share; /* what transfers slow of them: the rest waits for transfers of its
                                                             own */
};

/* Parameters behind the optimizer, beside nothing: all-gathers of `num_buckets` equal parts of the bytes. With the stack's
 * broadcasts_parameters one broadcast of each rank that owns any of the `num_tensors` (InternEvo,
 * solver/optimizer/hybrid_zero_optim.py: _partition_param_list hands out whole tensors, largest first; broadcast_params goes
 * from rank to rank and skips those without). */
double tpp_gather_at_once_seconds(const struct tpp_links *links, const struct tpp_stack *stack, const struct tpp_group *shard,
                                  double bytes, double num_buckets, double num_tensors);

/* Seconds that gradient reduction and parameter gather of one step add to it, slow-down included (9.1, 15.7). 0 for FSDP and
 * ZeRO-3, whose traffic is in the layers. With T a transfer of all parts in buckets of t each (they share the ports), C the
 * pass that it runs beside, f = t/T, and sigma the slow-down of the share of C that is compute, a reduction adds
 *
 *     max(t + sigma (T - t), T - (1 - f) C)
 *
 * The pass is slowed by what travels beside it and leaves the last bucket over; or transfers follow one another from the
 * first full bucket on. A gather is the same backwards in time. (9.1 adds sigma of what is hidden to T - 0.9 C: a pass that
 * waits for transfers anyway does not feel the slow-down.) In a pipeline of p stages and v chunks:
 *
 * - Megatron's stages gather when their first pass comes, one after the other: p times that; the interleaved schedule gathers
 *   everywhere when the step begins (--align-param-gather).
 * - With align_grad_reduce the first stage alone reduces beside its last pass; interleaved chunks leave whole behind theirs, and
 *   the last one, T/v, behind everything. Without it the last micro-batch is slowed on every stage that it passes.
 * - Interleaved chunks but the last hide behind the group of micro-batches that runs through the chunks after them.
 *
 * Checked by tests/unit/test_data_parallel.c, and against the simulated step by tests/property/property_simulation.c. */
double tpp_gradient_exposed_seconds(const struct tpp_hardware *hardware, const struct tpp_links *links,
                                    const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                    const struct tpp_gradient_step *step);

/* T_opt of 5.4: `parameters` trainable ones on a rank before sharding, in `num_tensors` tensors. */
double tpp_optimizer_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack,
                             const struct tpp_strategy *strategy, double shard_ranks, double parameters,
                             double num_tensors);
/* What the host needs at least for the step of Megatron-Core's distributed optimizer, which handles tensor by tensor what is not in
 * the update itself: runs beside that, the longer one counts. 0 for others. */
double tpp_optimizer_host_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack,
                                  const struct tpp_strategy *strategy, double num_tensors);
/* Optimizer states on the host: gradients down, host Adam, weights up; one rank's share. */
double tpp_offload_seconds(const struct tpp_hardware *hardware, double shard_parameters, double weight_bytes);

/* Adding one micro-batch's gradients to those before it, outside the GEMMs: traffic of `parameters` in `num_tensors`
 * tensors, with the launches when they block. 0 where the GEMM accumulates (Megatron) or only shards are added (FSDP). */
double tpp_accumulation_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack, double parameters,
                                double num_tensors);

#endif
