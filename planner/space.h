/* space.h - the axes of the search: which values each size may take for a job, and what the user pinned or limited. */
#ifndef TPP_PLANNER_SPACE_H
#define TPP_PLANNER_SPACE_H

#include "costmodel/job.h"
#include "costmodel/strategy.h"

#include <stdbool.h>
#include <stdint.h>

#define TPP_PIN_ANY (-1)

struct tpp_space_limits {
    /* Pins: TPP_PIN_ANY = free. */
    int64_t tensor_parallel, pipeline_parallel, virtual_pipeline_stages, context_parallel, expert_parallel, data_parallel;
    int64_t micro_batch_size, zero_stage;
    int64_t sequence_parallel;   /* 0, 1 */
    int64_t recompute;           /* enum tpp_recompute */
    int64_t context_kind;        /* enum tpp_context_kind */
    int64_t offload;             /* enum tpp_offload */
    int64_t reduce_bucket_size, allgather_bucket_size;
    /* Limits; 0 = the default in brackets. */
    uint32_t max_tensor_parallel;          /* [GPUs of a node] */
    uint32_t max_pipeline_parallel;        /* [number of layers] */
    uint32_t max_context_parallel;         /* [all] */
    uint32_t max_micro_batch_size;         /* [16] */
    uint32_t max_virtual_pipeline_stages;  /* [8] */
    bool full_space;             /* every bucket size and overlap switch too, offload included */
    double memory_headroom_fraction; /* share of capacity a plan must leave free: 0 .. 0.9 */
    uint32_t num_threads;        /* 0 = processors online */
    uint32_t keep;               /* plans to keep: 1 .. 1000 */
};

struct tpp_space_limits tpp_space_limits_defaults(void);

#endif
