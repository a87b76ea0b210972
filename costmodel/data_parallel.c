#include "costmodel/data_parallel.h"

#include "costmodel/kernel_time.h"

#include <math.h>

/* Share of a pass that a reduction or gather can hide behind (9.1). */
static const double hiding_fraction = 0.9;
/* Host Adam: bytes moved a parameter (states and master weight read and written, gradient read) and the share of the
 * host's memory bandwidth one GPU's process gets; assumed, nobody published it for these nodes. */
static const double host_adam_bytes = 28, host_adam_bytes_per_second = 20e9;
/* Traffic of the optimizer a parameter (5.4): fused Adam with the norm; PyTorch foreach over fp32 shards. */
static const double fused_adam_bytes = 34, foreach_adam_bytes = 44;
static const double foreach_tensor_seconds = 5e-6;
/* Megatron's default bucket (launch-formats 1.4): elements, and elements a data-parallel rank. */
static const double megatron_bucket = 40e6, megatron_bucket_per_rank = 1e6;
/* PyTorch DDP's bucket_cap_mb (4.4). */
static const double ddp_bucket_bytes = 25e6;

static struct tpp_replicas replicas_of(const struct tpp_strategy *strategy, const struct tpp_stack *stack,
                                       uint32_t gpus_per_node, uint32_t ranks, uint32_t stride)
{
    const uint32_t shard = strategy->shard_group > 0 && strategy->shard_group < ranks ? strategy->shard_group : ranks;
    const bool is_sharded = strategy->zero_stage > 0 || tpp_engine_is_fsdp(stack->engine) ||
                            stack->fp32_accumulation;
    return (struct tpp_replicas){
        .all = tpp_group_place(ranks, stride, gpus_per_node),
        .shard = tpp_group_place(shard, stride, gpus_per_node),
        .replicate = tpp_group_place(ranks / shard, stride * shard, gpus_per_node),
        .shard_ranks = is_sharded ? shard : 1,
    };
}

struct tpp_replicas tpp_replicas_make(const struct tpp_strategy *strategy, const struct tpp_stack *stack,
                                      uint32_t gpus_per_node)
{
    return replicas_of(strategy, stack, gpus_per_node, strategy->data_parallel * strategy->context_parallel,
                       strategy->tensor_parallel);
}

struct tpp_replicas tpp_expert_replicas_make(const struct tpp_strategy *strategy, const struct tpp_stack *stack,
                                             uint32_t gpus_per_node)
{
    const uint32_t stage_ranks =
        strategy->tensor_parallel * strategy->data_parallel * strategy->context_parallel;
    const uint32_t stride = strategy->expert_parallel * strategy->expert_tensor_parallel;
    const uint32_t ranks = stride > 0 && stage_ranks >= stride ? stage_ranks / stride : 1;
    return replicas_of(strategy, stack, gpus_per_node, ranks, stride);
}

/* What a transfer hides behind: a pass of one micro-batch through the whole stage, which the interleaved schedule cuts. */
struct cover {
    double pass_seconds;
    double chunks;       /* model chunks of the stage, each with its own reduction and gather */
    double group;        /* micro-batches that run through one chunk before the next one's turn */
};

/* Exposed part of a transfer cut in `num_buckets`, with the slow-down (9.1, 9.3). Of v chunks the first v - 1 in line hide
 * behind what the last chunk's turn leaves: a pass of one micro-batch through their own chunk and of a whole group through
 * the chunks after it (Megatron-Core, forward_backward_pipelining_with_interleaving: a chunk's gradients leave after its last
 * micro-batch, its parameters arrive before its first one). The last chunk has its own pass alone. */
static double overlapped(double transfer_seconds, double num_buckets, const struct cover *cover, double slowdown)
{
    const double v = cover->chunks, pass = hiding_fraction * cover->pass_seconds / v;
    const double in_line = transfer_seconds - pass * (1 + (v - 1) * cover->group);
    const double last = transfer_seconds / v - pass;
    const double exposed = fmax(fmax(transfer_seconds / num_buckets, in_line), last);
    return exposed + slowdown * (transfer_seconds - exposed);
}

static struct cover cover_of(const struct tpp_strategy *strategy, double pass_seconds)
{
    struct cover cover = {.pass_seconds = pass_seconds, .chunks = 1, .group = 1};
    if (strategy->schedule == TPP_SCHEDULE_INTERLEAVED) {
        cover.chunks = strategy->virtual_pipeline_stages;
        cover.group = fmin(strategy->pipeline_parallel, (double)strategy->num_micro_batches);
    }
    return cover;
}

double tpp_deepspeed_bucket_size(uint64_t given)
{
    return given > 0 ? (double)given : TPP_DEEPSPEED_DEFAULT_BUCKET;
}

double tpp_gradient_bucket_size(const struct tpp_stack *stack, const struct tpp_replicas *replicas, uint64_t given)
{
    if (given > 0)
        return (double)given;
    if (stack->engine == TPP_ENGINE_MEGATRON)
        return fmax(megatron_bucket, megatron_bucket_per_rank * replicas->all.size);
    return stack->engine == TPP_ENGINE_DDP ? ddp_bucket_bytes / stack->gradient_bytes : TPP_DEEPSPEED_DEFAULT_BUCKET;
}

double tpp_gradient_num_buckets(const struct tpp_stack *stack, const struct tpp_replicas *replicas, double parameters,
                                uint64_t given)
{
    return fmax(1, ceil(parameters / tpp_gradient_bucket_size(stack, replicas, given)));
}

struct tpp_gradient_traffic tpp_gradient_traffic_of(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                                    const struct tpp_replicas *replicas)
{
    struct tpp_gradient_traffic traffic = {0};
    if (replicas->all.size <= 1 || strategy->zero_stage >= 3 || tpp_engine_is_fsdp(stack->engine))
        return traffic;
    const bool is_deepspeed = tpp_engine_is_deepspeed(stack->engine);
    const bool sharded = replicas->shard_ranks > 1, has_groups = replicas->replicate.size > 1;
    const bool scatter = sharded && !has_groups && !(is_deepspeed && strategy->zero_stage < 2);
    const bool may_overlap = !stack->launch_blocking && stack->engine != TPP_ENGINE_DEEPSPEED_PIPELINE;
    traffic.has_any = true;
    traffic.reduce = scatter ? TPP_REDUCE_SCATTER : TPP_ALL_REDUCE;
    traffic.gathers = sharded;
    traffic.reduces_each_micro_batch = is_deepspeed && strategy->zero_stage == 2;
    traffic.reduce_overlaps = may_overlap && strategy->overlap_grad_reduce;
    traffic.gather_overlaps = may_overlap && strategy->overlap_param_gather && sharded;
    traffic.reduce_bucket_size = strategy->reduce_bucket_size;
    traffic.gather_bucket_size = strategy->allgather_bucket_size;
    /* Megatron has one size for both directions, in use while reductions overlap (launch-formats 1.4 item 9). */
    if (stack->engine == TPP_ENGINE_MEGATRON) {
        if (!strategy->overlap_grad_reduce)
            traffic.reduce_bucket_size = TPP_ONE_BUCKET;
        traffic.gather_bucket_size = traffic.reduce_bucket_size;
    }
    return traffic;
}

double tpp_gradient_exposed_seconds(const struct tpp_hardware *hardware, const struct tpp_links *links,
                                    const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                    const struct tpp_replicas *replicas, const struct tpp_gradient_step *step)
{
    const struct tpp_gradient_traffic traffic = tpp_gradient_traffic_of(stack, strategy, replicas);
    if (!traffic.has_any)
        return 0;
    const double P = step->parameters, gradient_bytes = stack->reduce_bytes * P, slow = hardware->overlap_slowdown_fraction;
    /* Each bucket is a collective of its own, with its own latency and ramp. */
    const double nb = tpp_gradient_num_buckets(stack, replicas, P, traffic.reduce_bucket_size);
    const double na = tpp_gradient_num_buckets(stack, replicas, P, traffic.gather_bucket_size);
    const double reduce = nb * tpp_collective_seconds(links, traffic.reduce, &replicas->all, gradient_bytes / nb);
    const double gather =
        traffic.gathers
            ? na * tpp_collective_seconds(links, TPP_ALL_GATHER, &replicas->shard, stack->weight_bytes * P / na)
            : 0;
    /* ZeRO-2 keeps gradients sharded: every micro-step reduces, behind its own backward. */
    const double steps = traffic.reduces_each_micro_batch ? (double)strategy->num_micro_batches : 1;
    const struct cover backward = cover_of(strategy, step->last_backward_seconds);
    const struct cover forward = cover_of(strategy, step->first_forward_seconds);
    double exposed = steps * reduce + gather;
    if (traffic.reduce_overlaps)
        exposed = steps * overlapped(reduce, nb, &backward, slow) + gather;
    if (traffic.gather_overlaps)
        exposed += overlapped(gather, na, &forward, slow) - gather;
    return exposed;
}

double tpp_optimizer_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack,
                             const struct tpp_strategy *strategy, double shard_ranks, double parameters,
                             double num_tensors)
{
    const double rate = tpp_memory_rate_bytes_per_second(gpu), shard = parameters / shard_ranks;
    const bool offloaded = strategy->offload == TPP_OFFLOAD_OPTIMIZER;
    if (tpp_engine_is_fsdp(stack->engine) || stack->engine == TPP_ENGINE_DDP) {
        const double bytes = foreach_adam_bytes * (stack->shard_weight_bytes + stack->optimizer_bytes) / 12.0;
        return fmax(shard * bytes / rate, foreach_tensor_seconds * num_tensors);
    }
    const double narrower = 2 * (8 - stack->moment_bytes); /* moments are read and written */
    const double update = offloaded ? 0 : shard * (fused_adam_bytes - narrower) / rate;
    return update + parameters * 2 * stack->gradient_bytes / rate;
}

/* Plain autograd reads the new gradient, reads and writes the sum. DeepSpeed's bf16 optimizer of the pipeline engine
 * turns every bf16 gradient into an fp32 copy (2 + 4 B), adds it to the fp32 sum (4 + 4 + 4 B) and clears it (2 B), tensor
 * by tensor: three launches each (DeepSpeed, bf16_optimizer.py, update_hp_grads). */
double tpp_accumulation_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack, double parameters,
                                double num_tensors)
{
    double bytes = 3.0 * stack->gradient_bytes, launches = 1;
    if (stack->engine == TPP_ENGINE_MEGATRON || tpp_engine_is_fsdp(stack->engine))
        return 0;
    if (stack->fp32_accumulation) {
        bytes = 20;
        launches = 3;
    }
    return bytes * parameters / tpp_memory_rate_bytes_per_second(gpu) +
           (stack->launch_blocking ? num_tensors * launches * TPP_BLOCKING_LAUNCH_SECONDS : 0);
}

double tpp_offload_seconds(const struct tpp_hardware *hardware, double shard_parameters, double weight_bytes)
{
    const double link = hardware->node.host_link_bytes_per_second;
    return shard_parameters * (4 / link + host_adam_bytes / host_adam_bytes_per_second + weight_bytes / link);
}

/* ZeRO-3 of DeepSpeed before 0.4.1: every parameter is gathered by itself, copied and waited for. One 8-GPU node gathered
 * 5.1e9 fp16 parameters in 0.42 s (DeepSpeed issue 1174: forward 480 ms against 60 ms of ZeRO-2): 24 GB/s, whatever
 * the links could do. A layer has four large parameters. */
static const double synchronous_gather_bytes_per_second = 24e9, large_parameters_per_layer = 4;

static struct tpp_sharded_layer synchronous_layer(const struct tpp_links *links, const struct tpp_stack *stack,
                                                  const struct tpp_strategy *strategy,
                                                  const struct tpp_replicas *replicas, double gathered_bytes,
                                                  double reduced_parameters)
{
    const double part = gathered_bytes / large_parameters_per_layer;
    const double gather =
        large_parameters_per_layer * fmax(tpp_collective_seconds(links, TPP_ALL_GATHER, &replicas->shard, part),
                                          part / synchronous_gather_bytes_per_second);
    const double reduce = tpp_collective_seconds(links, TPP_REDUCE_SCATTER, &replicas->shard,
                                                 stack->reduce_bytes * reduced_parameters);
    return (struct tpp_sharded_layer){
        .gather_seconds = gather,
        .reduce_seconds = reduce,
        .forward_extra_seconds = gather,
        .backward_extra_seconds = (strategy->reshard_after_forward ? gather : 0) + reduce,
    };
}

struct tpp_sharded_layer tpp_sharded_layer_time(const struct tpp_hardware *hardware, const struct tpp_links *links,
                                                const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                                const struct tpp_replicas *replicas, double gathered_bytes,
                                                double reduced_parameters, double forward_seconds,
                                                double backward_seconds)
{
    if (stack->synchronous_gather)
        return synchronous_layer(links, stack, strategy, replicas, gathered_bytes, reduced_parameters);
    const double slow = hardware->overlap_slowdown_fraction;
    const double gather = tpp_collective_seconds(links, TPP_ALL_GATHER, &replicas->shard, gathered_bytes);
    const double gradient_bytes = stack->reduce_bytes * reduced_parameters;
    const double scatter = tpp_collective_seconds(links, TPP_REDUCE_SCATTER, &replicas->shard, gradient_bytes);
    const double replicate = tpp_collective_seconds(links, TPP_ALL_REDUCE, &replicas->replicate,
                                                    gradient_bytes / replicas->shard.size);
    /* 4 B a gathered parameter: copy-out of the flat buffer. */
    const double copy = 2 * gathered_bytes / tpp_memory_rate_bytes_per_second(&hardware->gpu);
    /* Gather and reduce-scatter share a communicator; the shards are summed over the replicas on a stream of its own. */
    const double again = strategy->reshard_after_forward ? gather : 0;
    const double backward_comm = fmax(again + scatter, replicate);
    struct tpp_sharded_layer layer = {.gather_seconds = gather, .reduce_seconds = scatter + replicate};
    const double forward = fmax(forward_seconds * (1 + slow * fmin(1, gather / forward_seconds)), gather) + copy;
    const double backward =
        fmax(backward_seconds * (1 + slow * fmin(1, backward_comm / backward_seconds)), backward_comm) + 2 * copy;
    layer.forward_extra_seconds = forward - forward_seconds;
    layer.backward_extra_seconds = backward - backward_seconds;
    return layer;
}
