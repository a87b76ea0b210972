/* evaluate.h - one plan in, its cost out: time, memory, bubble. The only entry that the planner and the command line use.
 *
 * An evaluator holds one model, cluster, job and stack, and a memo of timed layers (program.h, layer.h): the first
 * strategy with a new set of layer axes builds and times its layer programs, every later one only combines them and
 * allocates nothing. One evaluator a thread; the same strategy gives the same bits on every evaluator. */
#ifndef TPP_COSTMODEL_EVALUATE_H
#define TPP_COSTMODEL_EVALUATE_H

#include "costmodel/base/error.h"
#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stdint.h>

/* Leaves of the step-time tree (seconds of one optimizer step, on the critical path); they sum to step_seconds. */
enum tpp_time_term {
    TPP_TIME_GEMM,             /* linear layers, forward and backward */
    TPP_TIME_ATTENTION,        /* attention kernels */
    TPP_TIME_MEMORY_BOUND,     /* norms, activations, rotary, residuals, dequantisation */
    TPP_TIME_EMBEDDING_HEAD,   /* embedding, head GEMM and loss of the critical stage */
    TPP_TIME_RECOMPUTE,        /* forward work repeated in backward */
    TPP_TIME_HOST,             /* launch-bound excess over GPU time, blocking launches */
    TPP_TIME_TENSOR_COMM,      /* exposed tensor/sequence-parallel communication and its slow-down */
    TPP_TIME_CONTEXT_COMM,     /* exposed context-parallel communication and corrections */
    TPP_TIME_EXPERT_COMM,      /* exposed expert-parallel communication */
    TPP_TIME_SHARD_COMM,       /* exposed ZeRO-3/FSDP gathers and reduce-scatters, copies, slow-down */
    TPP_TIME_BUBBLE,           /* pipeline fill and drain */
    TPP_TIME_PIPELINE_COMM,    /* exposed point-to-point transfers */
    TPP_TIME_GRADIENT_COMM,    /* exposed data-parallel reduction and parameter gather, slow-down, tied embedding */
    TPP_TIME_OPTIMIZER,
    TPP_TIME_OFFLOAD,          /* exposed host transfers and host optimizer */
    TPP_TIME_FIXED,
    TPP_TIME_TERM_COUNT,
};

/* Leaves of the memory tree (bytes on the worst stage at its peak); ALLOCATED ones sum to peak_allocated_bytes. */
enum tpp_memory_term {
    TPP_MEMORY_WEIGHTS,
    TPP_MEMORY_GRADIENTS,
    TPP_MEMORY_OPTIMIZER,
    TPP_MEMORY_ACTIVATIONS,     /* kept for backward, all micro-batches in flight */
    TPP_MEMORY_RECOMPUTE_LAYER, /* full list of the layer being recomputed */
    TPP_MEMORY_BACKWARD,        /* transients of one layer's backward */
    TPP_MEMORY_LOGITS,          /* logits, loss, head transients */
    TPP_MEMORY_DUMMY_WGRAD,     /* cached dummy weight gradients of Transformer Engine */
    TPP_MEMORY_GATHERED,        /* ZeRO-3/FSDP: gathered parameters, unsharded gradients before reduction */
    TPP_MEMORY_BUCKETS,         /* communication buckets and pipeline buffers */
    TPP_MEMORY_WORKSPACES,      /* of cuBLAS and Transformer Engine */
    TPP_MEMORY_OPTIMIZER_STEP,  /* temporaries of the optimizer's step, when that is the peak */
    TPP_MEMORY_RESERVE,         /* fragmentation: reserved - allocated */
    TPP_MEMORY_CONTEXT,         /* CUDA context, outside the allocator */
    TPP_MEMORY_COMMUNICATORS,   /* NCCL, outside the allocator */
    TPP_MEMORY_TERM_COUNT,
};

enum tpp_fit { TPP_FIT_FITS, TPP_FIT_TIGHT, TPP_FIT_DOES_NOT_FIT };

struct tpp_memory {
    double peak_allocated_bytes;
    double peak_reserved_bytes;
    double device_total_bytes;       /* reserved + context + communicators: compare with capacity */
    double capacity_bytes;
    double fragmentation_fraction;   /* (reserved - allocated) / reserved */
    double out_of_memory_probability;
    double host_bytes, host_capacity_bytes; /* per node, for offload; capacity 0: not known */
    uint32_t worst_stage;
    enum tpp_fit fit;
    /* Filled by a replay (allocator/replay.h): reserve, totals and verdict above are then the worse of walk and replay. */
    bool is_replayed;
    double retries_per_1000_steps;
    double replayed_allocated_bytes; /* by the replay, whose sequences may all be shorter than the walk's */
    double replayed_reserved_bytes, unset_reserved_bytes; /* reserved by the replay: with alloc_conf, without */
    const char *alloc_conf;          /* PYTORCH_CUDA_ALLOC_CONF that helps, or the caller's; NULL: none. Not owned */
    double terms[TPP_MEMORY_TERM_COUNT];
};

struct tpp_cost {
    double step_seconds, step_seconds_low, step_seconds_high; /* low, high: 90 % interval */
    double time_terms[TPP_TIME_TERM_COUNT];
    double tokens_per_second_per_gpu;       /* of useful tokens */
    double computed_sequence_tokens;        /* of one sequence, padding included, on the rank that takes longest */
    double useful_token_fraction;           /* of them, those that are no padding: below 1 with lengths that differ */
    double model_flops;                     /* of one step, all GPUs, attention counted in full (cost-model 3.2) */
    double model_flops_causal;              /* the same with the causal half */
    double necessary_flops;                 /* of the scores, only what causality and windows leave */
    double hardware_flops;                  /* with recomputation */
    double model_flops_per_second_per_gpu;
    double model_flops_utilization;         /* against the bf16 peak; of an FP8 job against the FP8 peak (3.2) */
    double bubble_fraction;                 /* idle share of the pipeline */
    double uneven_seconds;                  /* of the bubble, what padded micro-batches of different lengths wait for each other */
    double exposed_communication_fraction;  /* all exposed communication over the step */
    double host_bound_fraction;             /* host launch time over GPU time of a layer; above 0.7 is worth a warning */
    double imbalance_seconds;               /* sum over stages of (slowest stage - stage), one micro-batch */
    struct tpp_memory memory;
};

struct tpp_stage_cost { /* of one micro-batch on one stage */
    uint32_t num_layers;
    double forward_seconds, backward_seconds, recompute_seconds;
    double in_flight_micro_batches;
    uint64_t parameters;                    /* on one rank of the stage */
    struct tpp_memory memory;
};

struct tpp_evaluator; /* opaque */

/* All four are borrowed and must outlive the evaluator; checked here (tpp_model_check, tpp_job_check, tpp_stack_check).
 * On success the caller owns *out. */
enum tpp_code tpp_evaluator_new(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                const struct tpp_job *job, const struct tpp_stack *stack, struct tpp_evaluator **out,
                                struct tpp_error *err);
void tpp_evaluator_free(struct tpp_evaluator *evaluator); /* NULL is fine */

/* Costs a strategy that tpp_strategy_complete has filled. TPP_E_STRATEGY when it cannot be run (tpp_strategy_check). */
enum tpp_code tpp_evaluator_cost(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 struct tpp_cost *cost, struct tpp_error *err);
/* Stages of the strategy: `stages` has room for strategy->pipeline_parallel entries. */
enum tpp_code tpp_evaluator_stages(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                   struct tpp_stage_cost *stages, struct tpp_error *err);

/* The trees for --explain: name of a leaf ("gemm") and of its group ("compute", "communication", "pipeline", ...). */
const char *tpp_time_term_name(enum tpp_time_term term);
const char *tpp_time_term_group(enum tpp_time_term term);
const char *tpp_memory_term_name(enum tpp_memory_term term);
const char *tpp_memory_term_group(enum tpp_memory_term term);
const char *tpp_fit_name(enum tpp_fit fit); /* "fits", "tight", "does not fit" */

#endif
