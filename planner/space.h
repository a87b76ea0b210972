/* space.h - the axes of the search: which values each size may take for a job, and what the user pinned or limited.
 *
 * The space is walked in three levels, always in the same order:
 *   cell     one (tensor, pipeline, context) triple; independent of every other, so a unit of work for a thread
 *   group    one choice inside a cell: kind of context parallelism, experts and how tokens reach them, sequence parallelism, chunks and layer split,
 *            micro-batch, ZeRO stage, recomputation, tensor-parallel overlap, offload and its depth
 *   variant  bucket sizes and data-parallel overlap of a group; variant 0 is the framework's default
 * Pins and limits decide which values are made at all; nothing is made and thrown away. The variants of a group are
 * accepted or refused together: nothing in tpp_strategy_check or in a framework's rules tells them apart. */
#ifndef TPP_PLANNER_SPACE_H
#define TPP_PLANNER_SPACE_H

#include "costmodel/job.h"
#include "costmodel/model/model.h"
#include "costmodel/stack.h"
#include "costmodel/strategy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPP_PIN_ANY (-1)

struct tpp_space_limits {
    /* Pins: TPP_PIN_ANY = free. */
    int64_t tensor_parallel, pipeline_parallel, virtual_pipeline_stages, context_parallel, expert_parallel, data_parallel;
    int64_t micro_batch_size, zero_stage;
    int64_t sequence_parallel;   /* 0, 1 */
    int64_t recompute;           /* enum tpp_recompute */
    int64_t recompute_modules;   /* TPP_MODULE_* bits that selective recomputation runs again: nothing else is tried */
    int64_t context_kind;        /* enum tpp_context_kind */
    int64_t offload;             /* enum tpp_offload */
    uint32_t offload_percent;    /* of the optimizer, where it is offloaded; 0: all */
    int64_t offload_layers;      /* layers whose activations are offloaded, of plans with one stage */
    int64_t dispatch;            /* enum tpp_dispatch; of plans that exchange tokens */
    int64_t expert_overlap;      /* 0, 1 */
    int64_t schedule;            /* enum tpp_schedule; free: 1F1B and interleaved. Others than 1F1B take pipelines alone */
    int64_t shared_overlap;      /* 0, 1; of plans that exchange tokens of a model with shared experts */
    int64_t reduce_bucket_size, allgather_bucket_size;
    /* Limits; 0 = the default in brackets. */
    uint32_t max_tensor_parallel;          /* [GPUs of a node] */
    uint32_t max_pipeline_parallel;        /* [number of layers] */
    uint32_t max_context_parallel;         /* [all] */
    uint32_t max_micro_batch_size;         /* [16] */
    uint32_t max_virtual_pipeline_stages;  /* [8] */
    bool offload_depths;         /* offload of activations is tried, in quarters of the layers */
    bool full_space;             /* every bucket size and overlap switch too, offload included */
    bool exhaustive;             /* cost every valid strategy: the answer is the same, for tests and measurements */
    double memory_headroom_fraction; /* share of capacity a plan must leave free: 0 .. 0.9 */
    uint32_t num_threads;        /* 0 = processors online; at most 256 */
    uint32_t keep;               /* plans to keep: 1 .. 1000 */
};

/* Everything free, no head-room beyond what `fit` asks for, the ten best. */
struct tpp_space_limits tpp_space_limits_defaults(void);
/* Ranges of the values above; TPP_E_RANGE with `where` "limits.<field>". */
enum tpp_code tpp_space_limits_check(const struct tpp_space_limits *limits, struct tpp_error *err);

/* Values that a size takes inside a cell. Micro-batch sizes beyond the first TPP_SPACE_MAX_VALUES divisors are not made. */
#define TPP_SPACE_MAX_VALUES 256

struct tpp_space_split { /* chunks of a rank and the layers on them */
    uint32_t virtual_pipeline_stages;
    uint32_t first_stage_layers, last_stage_layers;
    bool account_for_embedding, account_for_loss, balanced_split;
    uint32_t max_stage_layers; /* layers of the fullest stage */
};
struct tpp_space_context {
    enum tpp_context_kind kind;
    uint32_t ulysses_parallel;
};
struct tpp_space_experts {
    uint32_t expert_parallel, expert_tensor_parallel;
};
struct tpp_space_exchange { /* of tokens with their experts */
    enum tpp_dispatch dispatch;
    bool overlap, shared_overlap;
};
struct tpp_space_sharding {
    uint32_t zero_stage, shard_group;
    bool reshard_after_forward;
};
struct tpp_space_recompute {
    enum tpp_recompute kind;
    uint32_t quarters; /* of the fullest stage's layers that are recomputed; 0: all, or not FULL */
    uint32_t modules;  /* SELECTIVE: TPP_MODULE_* bits; 0: the framework's own choice */
};

struct tpp_space_cell {
    uint32_t tensor_parallel, pipeline_parallel, context_parallel, data_parallel;
    uint64_t num_groups; /* product of the numbers below; 0: nothing in this cell */
    uint32_t num_contexts, num_experts, num_exchanges, num_sequence_parallel, num_splits, num_micro_batch_sizes, num_shardings,
        num_recomputes, num_tp_overlaps, num_offloads, num_depths;
    struct tpp_space_context contexts[8];
    struct tpp_space_experts experts[TPP_SPACE_MAX_VALUES];
    struct tpp_space_exchange exchanges[10]; /* plain, overlapped and with shared experts beside; gathers plain alone */
    bool sequence_parallel[2];
    struct tpp_space_split splits[TPP_SPACE_MAX_VALUES];
    uint32_t micro_batch_sizes[TPP_SPACE_MAX_VALUES];
    struct tpp_space_sharding shardings[12];
    struct tpp_space_recompute recomputes[16];
    bool tp_overlaps[2];
    enum tpp_offload offloads[2];
    uint32_t depths[5]; /* layers whose activations are offloaded */
};

struct tpp_space; /* opaque: the cells */

/* The inputs are borrowed and must outlive the space. On success the caller owns *out. A space may be empty: a pin that
 * nothing satisfies is no error here, but TPP_E_UNSUPPORTED is a schedule that the framework does not have. */
enum tpp_code tpp_space_new(const struct tpp_model *model, uint32_t gpus_per_node, const struct tpp_job *job,
                            const struct tpp_stack *stack, const struct tpp_space_limits *limits,
                            struct tpp_space **out, struct tpp_error *err);
void tpp_space_free(struct tpp_space *space); /* NULL is fine */
size_t tpp_space_num_cells(const struct tpp_space *space);
/* Fills the values of cell `index`. */
void tpp_space_cell(const struct tpp_space *space, size_t index, struct tpp_space_cell *cell);
/* Fills the default variant of group `group` (0 .. num_groups - 1), completed for the job. False when the group repeats
 * another one (a depth of recomputation that rounds to the same number of layers) and is not part of the space. */
bool tpp_space_group(const struct tpp_space *space, const struct tpp_space_cell *cell, uint64_t group,
                     struct tpp_strategy *strategy);
uint32_t tpp_space_num_variants(const struct tpp_space *space, const struct tpp_strategy *group);
/* Changes `strategy` (a group's) into its variant `variant` (0 .. num_variants - 1). */
void tpp_space_set_variant(const struct tpp_space *space, uint32_t variant, struct tpp_strategy *strategy);

#endif
