#include "costmodel/data_parallel.h"

#include "costmodel/kernel_time.h"
#include "costmodel/schedules/schedule.h"

#include <math.h>

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

/* The ranks of a group on one stage, and as many on the stage that holds the second copy of its layers: stages 0 and p-1, the
 * pair that is furthest apart. */
static struct tpp_group on_both_stages(const struct tpp_strategy *strategy, struct tpp_group group,
                                       uint32_t gpus_per_node)
{
    const uint64_t stage_ranks =
        (uint64_t)strategy->tensor_parallel * strategy->context_parallel * strategy->data_parallel;
    const uint64_t span = (strategy->pipeline_parallel - 1) * stage_ranks + (uint64_t)(group.size - 1) * group.stride;
    const bool is_in_one_node = span < gpus_per_node;
    group.ranks_per_node *= is_in_one_node ? 2 : 1;
    group.num_nodes *= is_in_one_node ? 1 : 2;
    group.size *= 2;
    group.node_span = (uint32_t)(span / gpus_per_node) + 1;
    return group;
}

static struct tpp_replicas replicas_of(const struct tpp_strategy *strategy, const struct tpp_stack *stack,
                                       uint32_t gpus_per_node, uint32_t stage_ranks, uint32_t stride)
{
    const bool has_copy = tpp_schedule_model_copies(strategy->schedule) == 2;
    const uint32_t ranks = stage_ranks * tpp_schedule_model_copies(strategy->schedule);
    const uint32_t shard = strategy->shard_group > 0 && strategy->shard_group < ranks ? strategy->shard_group : ranks;
    const struct tpp_group all = tpp_group_place(stage_ranks, stride, gpus_per_node);
    const struct tpp_group replicate =
        tpp_group_place(shard < stage_ranks ? stage_ranks / shard : 1, stride * shard, gpus_per_node);
    const bool is_sharded = strategy->zero_stage > 0 || tpp_engine_is_fsdp(stack->engine) ||
                            stack->fp32_accumulation;
    return (struct tpp_replicas){
        .all = has_copy ? on_both_stages(strategy, all, gpus_per_node) : all,
        .shard = has_copy && shard == ranks ? on_both_stages(strategy, all, gpus_per_node)
                                            : tpp_group_place(shard, stride, gpus_per_node),
        .replicate =
            has_copy && shard < ranks ? on_both_stages(strategy, replicate, gpus_per_node) : replicate,
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

bool tpp_keeps_gathered(const struct tpp_stack *stack, const struct tpp_strategy *strategy)
{
    return stack->framework == TPP_FRAMEWORK_TORCHTITAN && strategy->zero_stage >= 3 && strategy->pipeline_parallel > 1;
}

bool tpp_gathers_layers(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                        const struct tpp_replicas *replicas)
{
    return strategy->zero_stage >= 3 && replicas->shard.size > 1 && !tpp_keeps_gathered(stack, strategy);
}

struct tpp_gradient_traffic tpp_gradient_traffic_of(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                                    const struct tpp_replicas *replicas)
{
    struct tpp_gradient_traffic traffic = {0};
    const bool keeps = tpp_keeps_gathered(stack, strategy);
    if (replicas->all.size <= 1 || (!keeps && (strategy->zero_stage >= 3 || tpp_engine_is_fsdp(stack->engine))))
        return traffic;
    const bool is_deepspeed = tpp_engine_is_deepspeed(stack->engine);
    const bool sharded = replicas->shard_ranks > 1, has_groups = replicas->replicate.size > 1;
    const bool scatter = sharded && !has_groups && !(is_deepspeed && strategy->zero_stage < 2);
    const bool may_overlap = !stack->launch_blocking && stack->engine != TPP_ENGINE_DEEPSPEED_PIPELINE;
    traffic.has_any = true;
    traffic.reduce = scatter ? TPP_REDUCE_SCATTER : TPP_ALL_REDUCE;
    traffic.gathers = sharded;
    traffic.reduces_each_micro_batch = is_deepspeed && strategy->zero_stage == 2;
    traffic.reduce_overlaps = may_overlap && strategy->overlap_grad_reduce && !keeps;
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

/* The gradients or the parameters of a stage on their way: all parts together, whose ranks share the ports. */
struct transfer {
    double seconds, bucket_seconds; /* T, t: every bucket is a collective of its own, with its own latency and ramp */
};

static void add_buckets(const struct tpp_links *links, enum tpp_collective collective, const struct tpp_group *group,
                        double bytes, double num_buckets, struct transfer *transfer)
{
    const double seconds = tpp_collective_seconds(links, collective, group, bytes / num_buckets);
    transfer->seconds += num_buckets * seconds;
    transfer->bucket_seconds += seconds;
}

double tpp_gather_at_once_seconds(const struct tpp_links *links, const struct tpp_stack *stack, const struct tpp_group *shard,
                                  double bytes, double num_buckets, double num_tensors)
{
    if (stack->broadcasts_parameters)
        return tpp_broadcasts_seconds(links, shard, bytes, num_tensors > 0 ? fmin(shard->size, num_tensors) : shard->size);
    return num_buckets * tpp_collective_seconds(links, TPP_ALL_GATHER, shard, bytes / num_buckets);
}

/* What a transfer runs beside. */
struct cover {
    double pass_seconds; /* C: one micro-batch through the whole stage */
    double stages;       /* p */
    double chunks;       /* v of the interleaved schedule, each with a reduction and a gather of its own; 1 */
    double group;        /* micro-batches that run through one chunk before the next one's turn; 1 */
    double slowdown;     /* sigma, of a whole pass */
};

static struct cover cover_of(const struct tpp_hardware *hardware, const struct tpp_strategy *strategy, double pass_seconds,
                             double compute_share)
{
    struct cover cover = {.pass_seconds = pass_seconds, .stages = strategy->pipeline_parallel, .chunks = 1, .group = 1,
                          .slowdown = hardware->overlap_slowdown_fraction * compute_share};
    if (strategy->schedule == TPP_SCHEDULE_INTERLEAVED) {
        cover.chunks = strategy->virtual_pipeline_stages;
        cover.group = tpp_strategy_group_size(strategy);
    }
    return cover;
}

/* Chunks one after the other, each bucket when its part of the pass is done (or before it begins). */
static double beside_passes(const struct transfer *transfer, const struct cover *cover)
{
    const double T = transfer->seconds, t = transfer->bucket_seconds, v = cover->chunks, C = cover->pass_seconds;
    const double filled = C * fmin(t / T, 1 / v); /* the pass up to the first full bucket */
    const double in_line = T - (C / v * (1 + (v - 1) * cover->group) - filled), last = T / v - (C / v - filled);
    return fmax(t + cover->slowdown * (T - t), fmax(in_line, last));
}

/* Chunks behind their last passes: all but the last one's transfers hide behind the chunks after it. */
static double behind_passes(const struct transfer *transfer, const struct cover *cover)
{
    const double T = transfer->seconds, v = cover->chunks;
    return fmax(T / v + cover->slowdown * (T - T / v), T - cover->pass_seconds * (v - 1) / v * cover->group);
}

/* What the last micro-batch meets on its way down to the first stage: the passes of the other stages, slowed by their
 * reductions for as long as these or the slowed pass last. */
static double slowed_on_the_way(const struct transfer *transfer, const struct cover *cover)
{
    const double T = transfer->seconds, t = transfer->bucket_seconds, sigma = cover->slowdown;
    const double pass = cover->pass_seconds * (1 - t / T) / (1 - sigma);
    return (cover->stages - 1) * sigma * fmin(T - t, pass);
}

static double reduction_seconds(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                const struct transfer *transfer, const struct cover *cover)
{
    const bool is_aligned = stack->engine == TPP_ENGINE_MEGATRON && strategy->align_grad_reduce;
    if (is_aligned && strategy->schedule == TPP_SCHEDULE_INTERLEAVED)
        return behind_passes(transfer, cover);
    const bool is_alone = (is_aligned && strategy->schedule == TPP_SCHEDULE_1F1B) ||
                          tpp_schedule_info(strategy->schedule)->splits_backward;
    return beside_passes(transfer, cover) + (is_alone ? 0 : slowed_on_the_way(transfer, cover));
}

double tpp_gradient_exposed_seconds(const struct tpp_hardware *hardware, const struct tpp_links *links,
                                    const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                    const struct tpp_gradient_step *step)
{
    struct transfer reduce = {0, 0}, gather = {0, 0};
    struct tpp_gradient_traffic traffic = {0};
    for (uint32_t i = 0; i < step->num_parts; i++) {
        const struct tpp_gradient_part *part = &step->parts[i];
        const struct tpp_gradient_traffic own = tpp_gradient_traffic_of(stack, strategy, part->replicas);
        if (!own.has_any || part->first_parameters <= 0)
            continue;
        traffic = own; /* what overlaps is the same for all */
        const double nb = tpp_gradient_num_buckets(stack, part->replicas, part->first_parameters, own.reduce_bucket_size);
        const double na = tpp_gradient_num_buckets(stack, part->replicas, part->mean_parameters, own.gather_bucket_size);
        add_buckets(links, own.reduce, &part->replicas->all, stack->reduce_bytes * part->first_parameters, nb, &reduce);
        if (own.gathers && own.gather_overlaps)
            add_buckets(links, TPP_ALL_GATHER, &part->replicas->shard, part->mean_gathered_bytes, na, &gather);
        else if (own.gathers)
            gather.seconds += tpp_gather_at_once_seconds(links, stack, &part->replicas->shard, part->mean_gathered_bytes, na,
                                                         part->num_tensors);
    }
    const struct cover backward = cover_of(hardware, strategy, step->last_backward_seconds, step->backward_compute_share);
    const struct cover forward = cover_of(hardware, strategy, step->first_forward_seconds, step->forward_compute_share);
    const double steps = traffic.reduces_each_micro_batch ? (double)strategy->num_micro_batches : 1;
    const double gathers = strategy->virtual_pipeline_stages > 1 ? 1 : forward.stages;
    const bool hides_reduction = traffic.reduce_overlaps && reduce.seconds > 0;
    const bool hides_gather = traffic.gather_overlaps && gather.seconds > 0;
    return steps * (hides_reduction ? reduction_seconds(stack, strategy, &reduce, &backward) : reduce.seconds) +
           (hides_gather ? gathers * beside_passes(&gather, &forward) : gather.seconds);
}

double tpp_optimizer_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack,
                             const struct tpp_strategy *strategy, double shard_ranks, double parameters,
                             double num_tensors)
{
    const double rate = tpp_memory_rate_bytes_per_second(gpu), shard = parameters / shard_ranks;
    if (tpp_engine_is_fsdp(stack->engine) || stack->engine == TPP_ENGINE_DDP) {
        const double bytes = foreach_adam_bytes * (stack->shard_weight_bytes + stack->optimizer_bytes) / 12.0;
        return fmax(shard * bytes / rate, foreach_tensor_seconds * num_tensors);
    }
    const double narrower = 2 * (8 - stack->moment_bytes); /* moments are read and written */
    const double here = shard * (1 - tpp_strategy_offload_fraction(strategy));
    const double update = here * (fused_adam_bytes - narrower) / rate;
    return update + parameters * 2 * stack->gradient_bytes / rate;
}

/* Launches or as much for one tensor in Megatron-Core's distrib_optimizer.py: gradient and weight are sliced one by one, 3 views, and the
 * weight copied. For moments in bf16 Transformer Engine's fused_adam.py casts both up and back. */
static const double sharded_tensor_launches = 4, cast_moments_launches = 4;

double tpp_optimizer_host_seconds(const struct tpp_gpu *gpu, const struct tpp_stack *stack,
                                  const struct tpp_strategy *strategy, double num_tensors)
{
    if (stack->engine != TPP_ENGINE_MEGATRON || strategy->zero_stage == 0)
        return 0;
    const bool casts = stack->optimizer == TPP_OPTIMIZER_ADAMW_BF16;
    return num_tensors * (sharded_tensor_launches + (casts ? cast_moments_launches : 0)) * gpu->host_launch_seconds;
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
