#include "costmodel/sharded_layer.h"

#include "costmodel/kernel_time.h"

#include <math.h>

enum { FORWARD, BACKWARD };

/* ZeRO-3 of DeepSpeed before 0.4.1: every parameter is gathered by itself, copied and waited for. One 8-GPU node gathered
 * 5.1e9 fp16 parameters in 0.42 s (DeepSpeed issue 1174: forward 480 ms against 60 ms of ZeRO-2): 24 GB/s, whatever
 * the links could do. A layer has four large parameters. */
static const double synchronous_gather_bytes_per_second = 24e9, large_parameters_per_layer = 4;

/* It hands a list of n tensors to torch.distributed.all_gather and reduce_scatter (partition_parameters.py of March 2021,
 * _allgather_param, _reduce_scatter_gradient), whose NCCL backend flattens it: one copy of a rank's part after the other behind the
 * gather, and before the reduction (ProcessGroupNCCL::allgather, reduce_scatter), each as long as its launch. */
static double list_copy_seconds(const struct tpp_gpu *gpu, const struct tpp_replicas *replicas)
{
    return large_parameters_per_layer * replicas->shard.size * gpu->host_launch_seconds;
}

static double synchronous_gather_seconds(const struct tpp_gpu *gpu, const struct tpp_links *links,
                                         const struct tpp_replicas *replicas, double bytes)
{
    const double part = bytes / large_parameters_per_layer;
    return large_parameters_per_layer * fmax(tpp_collective_seconds(links, TPP_ALL_GATHER, &replicas->shard, part),
                                             part / synchronous_gather_bytes_per_second) +
           list_copy_seconds(gpu, replicas);
}

static bool waits_for_everything(const struct tpp_stack *stack)
{
    return stack->synchronous_gather || stack->launch_blocking;
}

/* Elements of a reduction: DeepSpeed collects a bucket, FSDP sends a layer. */
static double bucket_of(const struct tpp_stack *stack, const struct tpp_strategy *strategy)
{
    return stack->engine == TPP_ENGINE_DEEPSPEED && !waits_for_everything(stack)
               ? tpp_deepspeed_bucket_size(strategy->reduce_bucket_size)
               : 0;
}

/* Of `elements`, in their share of buckets or by themselves. */
static double reduce_seconds(const struct tpp_links *links, const struct tpp_stack *stack,
                             const struct tpp_strategy *strategy, const struct tpp_replicas *replicas, double elements)
{
    const double bucket = bucket_of(stack, strategy), together = bucket > 0 ? bucket : elements;
    if (elements <= 0)
        return 0;
    return elements / together *
           tpp_collective_seconds(links, TPP_REDUCE_SCATTER, &replicas->shard, stack->reduce_bytes * together);
}

/* How much transfers slow a layer: all but its own transfers. */
static double slowdown_of(double all_seconds, double own_transfer_seconds, double sigma)
{
    return all_seconds > 0 ? sigma * (1 - own_transfer_seconds / all_seconds) : 0;
}

/* FSDP2 and DeepSpeed copy what arrived out of one buffer. FSDP1's parameters are views of it
 * (FlatParamHandle._use_unsharded_views); it casts its fp32 shard before (_use_low_precision_shard), a part of n. */
double tpp_gather_copy_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack, const struct tpp_replicas *replicas,
                               double gathered_bytes)
{
    const double rate = tpp_memory_rate_bytes_per_second(gpu), made = stack->gathered_rest_bytes;
    if (stack->synchronous_gather)
        return 0; /* part of the measured rate */
    if (stack->engine != TPP_ENGINE_FSDP1)
        return 2 * gathered_bytes / rate;
    return stack->shard_weight_bytes > made
               ? (stack->shard_weight_bytes / made + 1) * gathered_bytes / replicas->shard.size / rate
               : 0;
}

/* DeepSpeed copies gradients into a bucket. FSDP1's autograd puts the gradients of the views together, and they are cast then
 * (_post_backward_hook); FSDP2 casts as it copies (foreach_reduce: chunk_cat). A list of n inputs is copied one by one. */
double tpp_gradient_copy_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack, const struct tpp_replicas *replicas,
                                 double elements)
{
    const double made = stack->gathered_rest_bytes, sent = stack->reduce_bytes;
    double bytes = 2 * made;
    if (stack->synchronous_gather)
        return list_copy_seconds(gpu, replicas);
    if (stack->engine == TPP_ENGINE_FSDP1)
        bytes += sent != made ? made + sent : 0;
    else if (stack->engine == TPP_ENGINE_FSDP2)
        bytes = made + sent;
    return bytes * elements / tpp_memory_rate_bytes_per_second(gpu);
}

struct tpp_sharded_layer tpp_sharded_layer_time(const struct tpp_hardware *hardware, const struct tpp_links *links,
                                                const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                                const struct tpp_replicas *replicas, const struct tpp_sharded_work *work)
{
    const double gather = stack->synchronous_gather
                              ? synchronous_gather_seconds(&hardware->gpu, links, replicas, work->gathered_bytes)
                              : tpp_collective_seconds(links, TPP_ALL_GATHER, &replicas->shard, work->gathered_bytes);
    const double copy = tpp_gather_copy_seconds(&hardware->gpu, stack, replicas, work->gathered_bytes);
    const double gradient_copy = tpp_gradient_copy_seconds(&hardware->gpu, stack, replicas, work->reduced_parameters);
    struct tpp_sharded_layer layer = {
        .alone_seconds = {work->forward_seconds, work->backward_seconds},
        .gather_seconds = {gather, strategy->reshard_after_forward ? gather : 0},
        .reduce_seconds = reduce_seconds(links, stack, strategy, replicas, work->reduced_parameters),
        .replicate_seconds = tpp_collective_seconds(links, TPP_ALL_REDUCE, &replicas->replicate,
                                                    stack->reduce_bytes * work->reduced_parameters / replicas->shard.size),
        .layer_elements = work->reduced_parameters,
        .bucket_elements = bucket_of(stack, strategy),
        .is_synchronous = waits_for_everything(stack),
    };
    const double sigma = layer.is_synchronous ? 0 : hardware->overlap_slowdown_fraction;
    const double forward = work->forward_seconds + copy;
    const double backward = work->backward_seconds + (strategy->reshard_after_forward ? copy : 0) + gradient_copy;
    layer.slowdown = slowdown_of(backward, work->backward_transfer_seconds, sigma);
    layer.unslowed_seconds[FORWARD] = forward;
    layer.unslowed_seconds[BACKWARD] = backward;
    layer.compute_seconds[FORWARD] = forward + slowdown_of(forward, work->forward_transfer_seconds, sigma) * gather;
    layer.compute_seconds[BACKWARD] =
        backward + layer.slowdown * fmax(layer.gather_seconds[BACKWARD] + layer.reduce_seconds, layer.replicate_seconds);
    return layer;
}

struct tpp_sharded_ends tpp_sharded_ends_time(const struct tpp_links *links, const struct tpp_stack *stack,
                                              const struct tpp_strategy *strategy, const struct tpp_replicas *replicas,
                                              double embedding_parameters, double head_parameters, double head_seconds)
{
    const double all = embedding_parameters + head_parameters;
    const bool is_one_unit = stack->engine == TPP_ENGINE_FSDP1;
    return (struct tpp_sharded_ends){
        .gather_seconds =
            tpp_collective_seconds(links, TPP_ALL_GATHER, &replicas->shard, tpp_stack_gathered_bytes(stack, all, 0)),
        .first_reduce_seconds = reduce_seconds(links, stack, strategy, replicas, is_one_unit ? 0 : head_parameters),
        .last_reduce_seconds = reduce_seconds(links, stack, strategy, replicas, is_one_unit ? all : embedding_parameters),
        .reduced_elements = all,
        .head_seconds = head_seconds,
    };
}

double tpp_sharded_forward_extra_seconds(const struct tpp_sharded_layer *layer, const struct tpp_sharded_ends *ends,
                                         double num_layers)
{
    const double F = layer->compute_seconds[FORWARD], G = layer->gather_seconds[FORWARD], n = num_layers;
    const double pass = layer->is_synchronous ? n * (F + G) : fmax(G + n * F, n * G + layer->unslowed_seconds[FORWARD]);
    return ends->gather_seconds + (n > 0 ? pass : 0) - n * layer->alone_seconds[FORWARD];
}

/* What is left of a layer's backward pass when transfers of `beside_seconds` beside it are over. */
static double backward_rest_seconds(const struct tpp_sharded_layer *layer, double beside_seconds)
{
    return fmax(0, layer->unslowed_seconds[BACKWARD] - (1 - layer->slowdown) * beside_seconds);
}

double tpp_sharded_backward_extra_seconds(const struct tpp_sharded_layer *layer, const struct tpp_sharded_ends *ends,
                                          double num_layers)
{
    const double B = layer->compute_seconds[BACKWARD], G = layer->gather_seconds[BACKWARD], R = layer->reduce_seconds;
    const double n = num_layers, both = R + layer->replicate_seconds, alone = n * layer->alone_seconds[BACKWARD];
    if (layer->is_synchronous)
        return n * (B + G + both) + ends->first_reduce_seconds + ends->last_reduce_seconds - alone;
    const double hidden = fmin(G, ends->head_seconds);
    double last = (n > 0 ? both : 0) + ends->last_reduce_seconds, all = n * R + ends->first_reduce_seconds;
    if (layer->bucket_elements > 0) { /* what fills no bucket is left; the ends are in line like the layers */
        const double elements = n * layer->layer_elements + ends->reduced_elements;
        const double reduced = all + ends->last_reduce_seconds;
        last = elements > 0 ? reduced * fmod(elements, layer->bucket_elements) / elements : 0;
        return fmax(G - hidden + n * B + last, n * G - hidden + reduced) - alone;
    }
    const double transfers = fmax(n * G + all, n * layer->replicate_seconds);
    const double rests = n > 1 ? backward_rest_seconds(layer, G + ends->first_reduce_seconds) + backward_rest_seconds(layer, R)
                               : layer->unslowed_seconds[BACKWARD];
    return fmax(G - hidden + n * B + last, transfers - hidden + rests + ends->last_reduce_seconds) - alone;
}
