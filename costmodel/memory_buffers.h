/* memory_buffers.h - what engines and libraries keep on the device beside tensors of the model: communication buffers
 * (cost-model 4.4, 15.7) and workspaces (caching-allocator section 10). Read by the memory walk and by the trace. */
#ifndef TPP_COSTMODEL_MEMORY_BUFFERS_H
#define TPP_COSTMODEL_MEMORY_BUFFERS_H

#include "costmodel/stack.h"
#include "costmodel/strategy.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stdint.h>

/* DeepSpeed's defaults of stage3_max_live_parameters and stage3_prefetch_bucket_size, elements (launch-formats 3). */
#define TPP_DEEPSPEED_LIVE_PARAMETERS 1e9
#define TPP_DEEPSPEED_PREFETCH_BUCKET 5e7
/* bucket_cap_mb of PyTorch's DistributedDataParallel: 25 MiB. */
#define TPP_DDP_BUCKET_BYTES (25.0 * 1048576)

struct tpp_communication_buffers {
    double contiguous_bytes;  /* DeepSpeed's contiguous gradients, each */
    uint32_t num_contiguous;  /* 2 when they overlap with backward */
    double engine_bytes;      /* reduce and gather buffers of DeepSpeed's pipeline engine */
    double ddp_bytes;         /* of all buckets of DDP: a copy of the gradients */
};

/* `layer_parameters`, `all_parameters`: trainable ones of the stage on one rank, without and with embedding and head. Megatron
 * reduces in its gradient buffer: all zero. */
struct tpp_communication_buffers tpp_communication_buffers_make(const struct tpp_stack *stack,
                                                                const struct tpp_strategy *strategy,
                                                                double layer_parameters, double all_parameters);

struct tpp_library_workspaces {
    double cublas_bytes, engine_bytes; /* each: PyTorch's cuBLAS, Transformer Engine */
    uint32_t num_cublas, num_engine;
};

/* PyTorch gives every thread that multiplies a cuBLAS workspace of its own: forward and autograd. Layers of Transformer Engine
 * multiply with its own one, grouped products on four streams with four; PyTorch's are left for the head and routers. */
struct tpp_library_workspaces tpp_library_workspaces_make(const struct tpp_stack *stack, const struct tpp_gpu *gpu,
                                                          bool has_head, bool has_experts);
double tpp_library_workspaces_bytes(const struct tpp_library_workspaces *workspaces); /* their sum */

#endif
