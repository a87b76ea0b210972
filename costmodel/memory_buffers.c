#include "costmodel/memory_buffers.h"

#include "costmodel/data_parallel.h"

#include <math.h>

/* Reduce and gather buffers of DeepSpeed's pipeline engine (15.7). */
static const double pipeline_engine_bytes = 2e9;

struct tpp_communication_buffers tpp_communication_buffers_make(const struct tpp_stack *stack,
                                                                const struct tpp_strategy *strategy,
                                                                double layer_parameters, double all_parameters)
{
    struct tpp_communication_buffers buffers = {.num_contiguous = 0};
    const bool is_alone = strategy->data_parallel * strategy->context_parallel <= 1;
    if (stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE)
        buffers.engine_bytes = pipeline_engine_bytes;
    if (stack->engine == TPP_ENGINE_DDP && !is_alone)
        buffers.ddp_bytes = stack->gradient_bytes * all_parameters;
    if (stack->engine != TPP_ENGINE_DEEPSPEED || strategy->zero_stage == 0 || is_alone)
        return buffers;
    buffers.num_contiguous = strategy->overlap_grad_reduce ? 2 : 1;
    buffers.contiguous_bytes =
        stack->gradient_bytes * fmin(tpp_deepspeed_bucket_size(strategy->reduce_bucket_size), layer_parameters);
    return buffers;
}

/* caching-allocator section 10: two of 4 MiB and eight of 16 KiB before Hopper. */
static const double cublas_hopper_bytes = 32.0 * 1048576, cublas_older_bytes = 2 * 4.0 * 1048576 + 8 * 16.0 * 1024;
/* transformer_engine/pytorch/module/base.py, get_cublas_workspace_size_bytes and _num_cublas_streams. */
static const double engine_hopper_bytes = 32.0 * 1048576, engine_older_bytes = 4.0 * 1048576;
enum { ENGINE_STREAMS = 4 };

struct tpp_library_workspaces tpp_library_workspaces_make(const struct tpp_stack *stack, const struct tpp_gpu *gpu,
                                                          bool has_head, bool has_experts)
{
    const bool is_hopper = gpu->compute_capability >= 9;
    const bool multiplies = !stack->transformer_engine || has_head || has_experts;
    return (struct tpp_library_workspaces){
        .cublas_bytes = is_hopper ? cublas_hopper_bytes : cublas_older_bytes,
        .engine_bytes = is_hopper ? engine_hopper_bytes : engine_older_bytes,
        .num_cublas = multiplies ? 2 : 0,
        .num_engine = !stack->transformer_engine ? 0 : has_experts ? 1 + ENGINE_STREAMS : 1,
    };
}

double tpp_library_workspaces_bytes(const struct tpp_library_workspaces *workspaces)
{
    return workspaces->num_cublas * workspaces->cublas_bytes + workspaces->num_engine * workspaces->engine_bytes;
}
