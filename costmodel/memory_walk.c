#include "costmodel/memory_walk.h"

#include "costmodel/data_parallel.h"
#include "costmodel/memory_buffers.h"

#include <math.h>
#include <string.h>

struct tpp_static_bytes tpp_static_bytes_per_parameter(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                                       double shard_ranks)
{
    const double w = stack->weight_bytes, g = stack->gradient_bytes, o = stack->optimizer_bytes, D = shard_ranks;
    const uint32_t zero = strategy->zero_stage;
    if (tpp_engine_is_fsdp(stack->engine)) {
        const double stored = stack->shard_weight_bytes;
        return (struct tpp_static_bytes){stored / D, g / D, o / D};
    }
    switch (stack->engine) {
    case TPP_ENGINE_DEEPSPEED:
        return (struct tpp_static_bytes){zero >= 3 ? w / D : w, zero >= 2 ? g / D : g, zero >= 1 ? o / D : o};
    case TPP_ENGINE_DEEPSPEED_PIPELINE:
        /* The bf16 optimizer shards its states even at stage 0 and accumulates in fp32 beside the bf16 gradients [15.7]. */
        if (stack->fp32_accumulation)
            return (struct tpp_static_bytes){w, g + 4, o / D};
        return (struct tpp_static_bytes){w, g, zero >= 1 ? o / D : o};
    default:
        return (struct tpp_static_bytes){w, g, zero >= 1 ? o / D : o};
    }
}

double tpp_micro_batches_awaiting_weights(const struct tpp_strategy *strategy, uint32_t stage)
{
    const double p = strategy->pipeline_parallel, r = stage, m = (double)strategy->num_micro_batches;
    switch (strategy->schedule) {
    case TPP_SCHEDULE_ZB_H1:
    case TPP_SCHEDULE_ZB_1P:
        return fmin(m - fmin(m, p - r), r);
    case TPP_SCHEDULE_ZB_H2:
        return fmin(m - fmin(m, 2 * (p - r) - 1), 2 * r);
    default:
        return 0;
    }
}

/* `before`: micro-batches whose B is yet to come, when there are that many. */
static double split_in_flight(const struct tpp_strategy *strategy, uint32_t stage, double before)
{
    return fmin((double)strategy->num_micro_batches, before) +
           TPP_WEIGHT_ACTIVATION_FRACTION * tpp_micro_batches_awaiting_weights(strategy, stage);
}

/* Micro-batches more than 1F1B holds: one for every barrier between F and B of the last stage; half as many again
 * interlaced (README of sail-sg/VocabularyParallelism: p + 1, p + 2, 1.5 p). */
static double vocabulary_in_flight(const struct tpp_strategy *strategy)
{
    switch (strategy->vocabulary_parallel) {
    case TPP_VOCABULARY_PARALLEL_ONE_BARRIER:
        return 1;
    case TPP_VOCABULARY_PARALLEL_TWO_BARRIERS:
        return 2;
    case TPP_VOCABULARY_PARALLEL_INTERLACED:
        return floor(strategy->pipeline_parallel / 2.0);
    default:
        return 0;
    }
}

double tpp_in_flight_micro_batches(const struct tpp_strategy *strategy, uint32_t stage)
{
    const double p = strategy->pipeline_parallel, v = strategy->virtual_pipeline_stages, r = stage;
    const double m = (double)strategy->num_micro_batches;
    switch (strategy->schedule) {
    case TPP_SCHEDULE_GPIPE:
        return m;
    case TPP_SCHEDULE_INTERLEAVED:
        return fmin(2 * (p - r - 1) + (v - 1) * tpp_strategy_group_size(strategy) + 1, m * v) / v;
    case TPP_SCHEDULE_ZB_H1:
    case TPP_SCHEDULE_ZB_1P:
        return split_in_flight(strategy, stage, p - r);
    case TPP_SCHEDULE_ZB_H2:
        return split_in_flight(strategy, stage, 2 * (p - r) - 1);
    case TPP_SCHEDULE_ZB_2P:
        return fmin(m, 2 * p);
    case TPP_SCHEDULE_ZB_V:
        return fmin(m, p);
    case TPP_SCHEDULE_DUALPIPE:
        return fmin(m, p + 1);
    case TPP_SCHEDULE_DUALPIPEV:
        return fmin(m, p + 0.5); /* 2p + 1 of the 2p chunks' worth */
    default:
        return fmin(m, p - r + vocabulary_in_flight(strategy));
    }
}

static const struct tpp_layer *last_layer(const struct tpp_walk_stage *stage)
{
    return stage->last ? stage->last : stage->decoder;
}

static double all_parameters(const struct tpp_walk_stage *stage)
{
    return stage->num_layers * stage->decoder->parameters + (stage->embedding ? stage->embedding->parameters : 0) +
           (stage->head ? stage->head->parameters : 0);
}

/* Embedding and head carry no adapters. */
static double trainable_parameters(const struct tpp_walk *walk, const struct tpp_walk_stage *stage)
{
    return tpp_job_is_adapter(walk->job) ? stage->num_layers * stage->decoder->trainable_parameters
                                         : all_parameters(stage);
}

/* DeepSpeed's own estimate (runtime/zero/stage3.py, estimate_zero3_model_states_mem_needs): 16 bytes a parameter, and half as
 * much again for pinned buffers that states and gradients pass through. */
static const double host_buffer_factor = 1.5;

double tpp_wide_moment_bytes(const struct tpp_stack *stack, const struct tpp_static_bytes *per)
{
    const bool is_wide = stack->optimizer == TPP_OPTIMIZER_ADAMW_8BIT && tpp_stack_is_plain_torch(stack);
    return is_wide ? per->optimizer * (8 - stack->moment_bytes) / stack->optimizer_bytes : 0;
}

static double host_bytes(const struct tpp_walk *walk, double optimizer)
{
    return optimizer * walk->hardware->node.num_gpus * (tpp_engine_is_deepspeed(walk->stack->engine) ? host_buffer_factor : 1);
}

static double expert_parameters(const struct tpp_walk_stage *stage)
{
    return stage->num_layers * stage->decoder->expert_parameters + (stage->head ? stage->head->expert_parameters : 0);
}

static struct tpp_static_bytes expert_static(const struct tpp_walk *walk)
{
    return tpp_static_bytes_per_parameter(walk->stack, walk->strategy, walk->expert_shard_ranks);
}

/* Frozen base weights (LoRA, QLoRA): their bytes only; the adapters train with full state. */
static void static_terms(const struct tpp_walk *walk, const struct tpp_walk_stage *stage, struct tpp_memory *memory)
{
    const double parameters = all_parameters(stage), trainable = trainable_parameters(walk, stage);
    const double linear = stage->num_layers * stage->decoder->linear_parameters;
    const bool adapter = tpp_job_is_adapter(walk->job);
    const double experts = expert_parameters(stage), away = tpp_strategy_offload_fraction(walk->strategy);
    const struct tpp_static_bytes per =
        tpp_static_bytes_per_parameter(walk->stack, walk->strategy, walk->shard_ranks);
    const struct tpp_static_bytes expert = expert_static(walk);
    const double optimizer =
        trainable * per.optimizer + (adapter ? 0 : experts * (expert.optimizer - per.optimizer)) +
        (adapter || !stage->embedding ? 0 : stage->embedding->parameters * tpp_wide_moment_bytes(walk->stack, &per));
    memory->terms[TPP_MEMORY_WEIGHTS] = parameters * per.weights + experts * (expert.weights - per.weights) +
                                        (adapter ? trainable * per.weights : 0);
    const double linear_bytes = tpp_stack_linear_weight_bytes(walk->stack, &walk->hardware->gpu, walk->job);
    memory->terms[TPP_MEMORY_WEIGHTS] += linear * (linear_bytes / walk->stack->weight_bytes - 1) * per.weights;
    memory->terms[TPP_MEMORY_GRADIENTS] =
        trainable * per.gradients + (adapter ? 0 : experts * (expert.gradients - per.gradients));
    memory->terms[TPP_MEMORY_OPTIMIZER] =
        (1 - away) * (optimizer - tpp_optimizer_late_bytes(walk->stack, optimizer));
    memory->host_bytes = away * host_bytes(walk, optimizer);
}

/* Full list of one layer, and what selective recomputation keeps of it (4.2 A, B, E). */
static double full_list_bytes(const struct tpp_layer *layer)
{
    return layer->bytes[TPP_TENSOR_INPUT] + layer->bytes[TPP_TENSOR_SAVED] + layer->bytes[TPP_TENSOR_EAGER] +
           layer->bytes[TPP_TENSOR_REPEATED];
}

static double selective_bytes(const struct tpp_stack *stack, const struct tpp_layer *layer)
{
    if (stack->framework == TPP_FRAMEWORK_TORCHTITAN)
        return layer->bytes[TPP_TENSOR_INPUT] + layer->bytes[TPP_TENSOR_SELECTED];
    return layer->bytes[TPP_TENSOR_INPUT] + layer->bytes[TPP_TENSOR_SAVED] + layer->bytes[TPP_TENSOR_EAGER];
}

/* What a layer keeps when it is not recomputed as a whole. */
static double kept_bytes(const struct tpp_stack *stack, const struct tpp_strategy *strategy, const struct tpp_layer *layer)
{
    return strategy->recompute == TPP_RECOMPUTE_NONE ? full_list_bytes(layer) : selective_bytes(stack, layer);
}

double tpp_recomputed_layers(const struct tpp_strategy *strategy, double num_layers)
{
    if (strategy->recompute != TPP_RECOMPUTE_FULL)
        return 0;
    if (strategy->recompute_method == TPP_RECOMPUTE_UNIFORM || strategy->recompute_num_layers == 0)
        return num_layers;
    return fmin(num_layers, strategy->recompute_num_layers);
}

/* Layers that are run again together. */
static double layers_at_once(const struct tpp_strategy *strategy, double num_layers)
{
    const bool in_units = strategy->recompute == TPP_RECOMPUTE_FULL &&
                          strategy->recompute_method == TPP_RECOMPUTE_UNIFORM && strategy->recompute_num_layers > 1;
    return in_units ? fmin(strategy->recompute_num_layers, num_layers) : 1;
}

double tpp_kept_by_layers_bytes(const struct tpp_stack *stack, const struct tpp_strategy *strategy,
                                const struct tpp_layer *layer, double num_layers, double count)
{
    const double again = fmin(count, tpp_recomputed_layers(strategy, num_layers));
    const double whole =
        strategy->recompute == TPP_RECOMPUTE_FULL ? full_list_bytes(layer) : kept_bytes(stack, strategy, layer);
    return ceil(again / layers_at_once(strategy, num_layers)) * layer->bytes[TPP_TENSOR_INPUT] +
           (count - again) * whole;
}

/* What is on the host of one micro-batch. Of L layers n offloaded ones, no more than L - n have tensors on the device at any
 * time: a layer's are freed before the layer L - n further on starts, and come back with that one's backward (Transformer
 * Engine, pytorch/cpu_offload.py, _default_offload_sync_init). */
static double offloaded_bytes(const struct tpp_walk *walk, const struct tpp_walk_stage *stage)
{
    return tpp_kept_by_layers_bytes(walk->stack, walk->strategy, stage->decoder, stage->num_layers,
                                    fmin(walk->strategy->offload_layers, stage->num_layers));
}

double tpp_walk_micro_batch_bytes(const struct tpp_walk *walk, const struct tpp_walk_stage *stage)
{
    return tpp_kept_by_layers_bytes(walk->stack, walk->strategy, stage->decoder, stage->num_layers, stage->num_layers) -
           offloaded_bytes(walk, stage);
}

static void activation_terms(const struct tpp_walk *walk, const struct tpp_walk_stage *stage, struct tpp_memory *memory)
{
    const struct tpp_strategy *strategy = walk->strategy;
    const struct tpp_layer *layer = stage->decoder, *last = last_layer(stage);
    const double again = tpp_recomputed_layers(strategy, stage->num_layers);
    const double kept = kept_bytes(walk->stack, strategy, layer);
    const double fraction = again > 0 ? 0 : 1 - layer->bytes[TPP_TENSOR_INPUT] / fmax(kept, 1);
    const double in_flight =
        stage->in_flight + stage->awaiting_weights * fmax(0, fraction - TPP_WEIGHT_ACTIVATION_FRACTION);
    memory->terms[TPP_MEMORY_ACTIVATIONS] = in_flight * tpp_walk_micro_batch_bytes(walk, stage);
    if (stage->head) /* multi-token-prediction blocks, whose backward follows at once; a head alone keeps nothing */
        memory->terms[TPP_MEMORY_ACTIVATIONS] += kept_bytes(walk->stack, strategy, stage->head);
    if (again > 0)
        memory->terms[TPP_MEMORY_RECOMPUTE_LAYER] =
            layers_at_once(strategy, stage->num_layers) * full_list_bytes(last) - last->bytes[TPP_TENSOR_INPUT];
    else if (strategy->recompute == TPP_RECOMPUTE_SELECTIVE)
        memory->terms[TPP_MEMORY_RECOMPUTE_LAYER] =
            fmax(0, full_list_bytes(last) - kept_bytes(walk->stack, strategy, last));
}

/* Cached dummy weight gradients of the decoder shapes, and the head's (4.4). */
static double dummy_bytes(const struct tpp_walk_stage *stage)
{
    const double dense = stage->dense ? stage->dense->bytes[TPP_TENSOR_DUMMY] : 0;
    return fmax(dense, last_layer(stage)->bytes[TPP_TENSOR_DUMMY]) + (stage->head ? stage->head->bytes[TPP_TENSOR_DUMMY] : 0);
}

double tpp_fsdp_copies(const struct tpp_stack *stack)
{
    return stack->engine == TPP_ENGINE_FSDP2 ? 2 : 1;
}

/* ZeRO-3/FSDP: gathered parameters (the unit in use and the prefetched one, with their copies; the root unit), gradients
 * before their reduce-scatter: of a unit and, while the last layer's backward begins, of the larger end (4.4). */
static double gathered_bytes(const struct tpp_walk *walk, const struct tpp_walk_stage *stage, bool with_end_gradients)
{
    if (walk->strategy->zero_stage < 3 || walk->shard_ranks <= 1)
        return 0;
    if (tpp_keeps_gathered(walk->stack, walk->strategy))
        return (walk->stack->weight_bytes + walk->stack->reduce_bytes) * all_parameters(stage);
    const struct tpp_layer *layer = last_layer(stage);
    const double w = walk->stack->weight_bytes, unit = layer->parameters;
    const double embedding = stage->embedding ? stage->embedding->parameters : 0;
    const double head = stage->head ? stage->head->parameters : 0;
    if (walk->stack->engine == TPP_ENGINE_DEEPSPEED)
        return w * fmin(TPP_DEEPSPEED_LIVE_PARAMETERS,
                        TPP_DEEPSPEED_PREFETCH_BUCKET + 2 * unit + fmax(embedding, head));
    const bool quantised = walk->job->task == TPP_TASK_QLORA;
    const double linear_bytes = layer->linear_parameters * (quantised ? TPP_NF4_BYTES : w);
    const double unit_bytes = linear_bytes + (unit - layer->linear_parameters) * w;
    const double end = with_end_gradients ? fmax(embedding, head) : 0;
    const double gradients = tpp_job_is_adapter(walk->job) ? 0 : walk->stack->reduce_bytes * (unit + end);
    return tpp_fsdp_copies(walk->stack) * 2 * unit_bytes + w * (embedding + head) + gradients;
}

/* Communication buffers, and the stage output that DeepSpeed's pipeline engine keeps for every micro-batch in flight (15.7). */
static double bucket_bytes(const struct tpp_walk *walk, const struct tpp_walk_stage *stage)
{
    const struct tpp_communication_buffers buffers =
        tpp_communication_buffers_make(walk->stack, walk->strategy,
                                       stage->num_layers * stage->decoder->trainable_parameters,
                                       trainable_parameters(walk, stage));
    const bool keeps_outputs =
        walk->stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE && walk->strategy->pipeline_parallel > 1;
    return buffers.num_contiguous * buffers.contiguous_bytes + buffers.engine_bytes + buffers.ddp_bytes +
           (keeps_outputs ? stage->in_flight * stage->decoder->bytes[TPP_TENSOR_INPUT] : 0);
}

static double workspace_bytes(const struct tpp_walk *walk, const struct tpp_walk_stage *stage)
{
    const struct tpp_library_workspaces workspaces = tpp_library_workspaces_make(
        walk->stack, &walk->hardware->gpu, stage->head != NULL, stage->decoder->expert_parameters > 0);
    return tpp_library_workspaces_bytes(&workspaces);
}

/* 10.1: reserved over allocated with static shapes, best case of the published runs. */
static const double static_fragmentation = 0.04;

/* Reserved beyond what is allocated at the peak. Megatron's fp32 copies of fp16 gradients are made in the step, parameter by
 * parameter, and are larger than the activations whose blocks are free by then, so both stay reserved: an upper bound, as none
 * of them is said to fit. */
static double reserve_bytes(const struct tpp_walk *walk, double allocated, double late)
{
    return fmax(round(allocated * static_fragmentation), walk->stack->engine == TPP_ENGINE_MEGATRON ? late : 0);
}

double tpp_walk_communicator_bytes(const struct tpp_hardware *hardware, const struct tpp_strategy *strategy)
{
    const uint32_t replicas = strategy->data_parallel * strategy->context_parallel *
                              tpp_schedule_model_copies(strategy->schedule);
    const bool is_alone = strategy->tensor_parallel * replicas * strategy->pipeline_parallel <= 1;
    const bool has_experts = strategy->expert_parallel > 1;
    /* Tensor, context, data, pipeline, expert and expert-data, and the world's own for barriers and metrics. */
    const double groups = (strategy->tensor_parallel > 1) + (strategy->context_parallel > 1) + (replicas > 1) +
                          (strategy->pipeline_parallel > 1) + 2 * has_experts + !is_alone;
    const bool swaps_heads = strategy->context_parallel > 1 && (strategy->context_kind == TPP_CONTEXT_ULYSSES ||
                                                                strategy->context_kind == TPP_CONTEXT_HYBRID);
    const bool all_to_all = has_experts || swaps_heads;
    return groups * hardware->network.nccl_communicator_bytes +
           (all_to_all ? hardware->network.nccl_all_to_all_bytes : 0);
}

/* `late`: bytes of the optimizer's step that are not there at the peak. */
static void sum_up(const struct tpp_walk *walk, double late, struct tpp_memory *memory)
{
    double allocated = 0;
    for (int i = 0; i < TPP_MEMORY_RESERVE; i++)
        allocated += memory->terms[i];
    memory->peak_allocated_bytes = allocated;
    memory->terms[TPP_MEMORY_RESERVE] = reserve_bytes(walk, allocated, late);
    memory->peak_reserved_bytes = allocated + memory->terms[TPP_MEMORY_RESERVE];
    memory->terms[TPP_MEMORY_CONTEXT] = (double)walk->hardware->gpu.context_bytes;
    memory->terms[TPP_MEMORY_COMMUNICATORS] = walk->communicator_bytes;
    memory->device_total_bytes = memory->peak_reserved_bytes + memory->terms[TPP_MEMORY_CONTEXT] +
                                 memory->terms[TPP_MEMORY_COMMUNICATORS];
    memory->capacity_bytes = (double)walk->hardware->gpu.memory_bytes;
}

bool tpp_host_is_full(const struct tpp_memory *memory)
{
    return memory->host_capacity_bytes > 0 && memory->host_bytes > TPP_HOST_USABLE_FRACTION * memory->host_capacity_bytes;
}

void tpp_walk_verdict(struct tpp_memory *memory)
{
    memory->fragmentation_fraction = memory->terms[TPP_MEMORY_RESERVE] / memory->peak_reserved_bytes;
    const double z = log(memory->device_total_bytes / memory->capacity_bytes) / TPP_MEMORY_TOTAL_SIGMA;
    memory->out_of_memory_probability = 0.5 * erfc(-z / sqrt(2));
    memory->fit = memory->device_total_bytes > memory->capacity_bytes || tpp_host_is_full(memory) ? TPP_FIT_DOES_NOT_FIT
                  : memory->device_total_bytes > TPP_MEMORY_TIGHT_FRACTION * memory->capacity_bytes ? TPP_FIT_TIGHT
                                                                                                   : TPP_FIT_FITS;
}

bool tpp_recomputed_layer_is_twice(const struct tpp_job *job, const struct tpp_stack *stack,
                                   const struct tpp_strategy *strategy)
{
    return strategy->zero_stage >= 3 && strategy->recompute == TPP_RECOMPUTE_FULL && tpp_job_is_adapter(job) &&
           tpp_stack_is_plain_torch(stack);
}

/* Transients of one layer's backward. A layer that is alive twice is so without what eager norms keep [15.8: the slope of
 * measured peaks over the batch]. */
static double backward_bytes(const struct tpp_walk *walk, const struct tpp_layer *layer)
{
    const double plain = fmax(layer->bytes[TPP_TENSOR_BACKWARD_MLP], layer->bytes[TPP_TENSOR_BACKWARD_ATTENTION]);
    const bool twice = tpp_recomputed_layer_is_twice(walk->job, walk->stack, walk->strategy);
    const double second = full_list_bytes(layer) + plain - 2 * layer->bytes[TPP_TENSOR_EAGER];
    return twice ? plain + fmax(0, second) : plain;
}

double tpp_optimizer_moment_fraction(const struct tpp_stack *stack)
{
    return fmin(stack->moment_bytes, stack->optimizer_bytes) / 2 / stack->optimizer_bytes;
}

double tpp_optimizer_late_bytes(const struct tpp_stack *stack, double states)
{
    const struct tpp_state_bytes bytes = tpp_stack_state_bytes(stack);
    const bool is_made = stack->engine == TPP_ENGINE_DEEPSPEED || stack->engine == TPP_ENGINE_MEGATRON;
    return is_made ? states * bytes.gradient_copies / stack->optimizer_bytes : 0;
}

double tpp_optimizer_step_bytes(const struct tpp_stack *stack, const struct tpp_strategy *strategy, double states,
                                double expert_states)
{
    if (stack->optimizer == TPP_OPTIMIZER_ADAMW_BF16)
        return fmax(expert_states, states - expert_states) * 8 / stack->optimizer_bytes;
    const bool in_groups = stack->engine == TPP_ENGINE_DEEPSPEED && strategy->zero_stage >= 3;
    const double most = in_groups ? 4 * TPP_DEEPSPEED_SUB_GROUP : INFINITY;
    const double copies = tpp_optimizer_makes_copies(stack) ? states * tpp_optimizer_moment_fraction(stack) : 0;
    return fmin(most, tpp_optimizer_late_bytes(stack, states)) + fmin(most, copies);
}

bool tpp_gradients_are_fresh(const struct tpp_stack *stack, const struct tpp_strategy *strategy)
{
    const bool is_alone = stack->engine == TPP_ENGINE_DDP && strategy->data_parallel * strategy->context_parallel <= 1;
    return (tpp_engine_is_fsdp(stack->engine) || is_alone) && strategy->num_micro_batches == 1 &&
           strategy->pipeline_parallel == 1;
}

bool tpp_optimizer_makes_copies(const struct tpp_stack *stack)
{
    return (stack->framework == TPP_FRAMEWORK_HF_TRAINER || stack->framework == TPP_FRAMEWORK_OTHER) &&
           stack->optimizer == TPP_OPTIMIZER_ADAMW;
}

/* Gradients that are there: at the loss, when the last layer's backward begins (the head's), when the last offloaded layer is
 * back (all but those of the layers whose activations are there), when that of the first layer begins: all but its own and the
 * embedding's (of a unit of layers the first one's, too: an upper bound). */
enum moment { AT_LOSS, AT_LAST_LAYER, AT_LAST_RETURN, AT_FIRST_LAYER, AT_STEP, NUM_MOMENTS };

static double gradient_bytes(const struct tpp_walk *walk, const struct tpp_walk_stage *stage, enum moment moment,
                             double all)
{
    const bool adapter = tpp_job_is_adapter(walk->job);
    const double per = tpp_static_bytes_per_parameter(walk->stack, walk->strategy, walk->shard_ranks).gradients;
    const double head = stage->head && !adapter ? per * stage->head->parameters : 0;
    const double embedding = stage->embedding && !adapter ? per * stage->embedding->parameters : 0;
    if (moment == AT_STEP || !tpp_gradients_are_fresh(walk->stack, walk->strategy))
        return all;
    const double missing = moment == AT_LAST_RETURN ? stage->num_layers - walk->strategy->offload_layers : 1;
    return moment == AT_LOSS         ? 0
           : moment == AT_LAST_LAYER ? head
                                     : all - embedding - missing * (all - embedding - head) / stage->num_layers;
}

/* Fills the terms that differ from moment to moment (4.5) and returns their sum. `backward` is backward_bytes, `loss` the
 * head's, `all` the bytes of all gradients, `states` those of the optimizer with what it makes in its step,
 * `expert_states` of them the routed experts'. */
static double set_moment(const struct tpp_walk *walk, const struct tpp_walk_stage *stage, enum moment moment,
                         double backward, double loss, double all, double states, double expert_states,
                         struct tpp_memory *memory)
{
    double *terms = memory->terms;
    const bool in_layer = moment != AT_LOSS && moment != AT_STEP;
    terms[TPP_MEMORY_GRADIENTS] = gradient_bytes(walk, stage, moment, all);
    terms[TPP_MEMORY_ACTIVATIONS] = terms[TPP_MEMORY_RECOMPUTE_LAYER] = terms[TPP_MEMORY_GATHERED] = 0;
    if (moment != AT_STEP) {
        activation_terms(walk, stage, memory);
        terms[TPP_MEMORY_GATHERED] = gathered_bytes(walk, stage, moment == AT_LOSS || moment == AT_LAST_LAYER);
    }
    if (moment == AT_LAST_RETURN || moment == AT_FIRST_LAYER)
        terms[TPP_MEMORY_ACTIVATIONS] =
            tpp_kept_by_layers_bytes(walk->stack, walk->strategy, stage->decoder, stage->num_layers,
                                     moment == AT_LAST_RETURN ? stage->num_layers - walk->strategy->offload_layers
                                                              : layers_at_once(walk->strategy, stage->num_layers));
    if (!in_layer)
        terms[TPP_MEMORY_RECOMPUTE_LAYER] = 0;
    terms[TPP_MEMORY_BACKWARD] = in_layer ? backward : 0;
    terms[TPP_MEMORY_LOGITS] = moment == AT_LOSS ? loss : 0;
    terms[TPP_MEMORY_OPTIMIZER_STEP] =
        moment == AT_STEP ? tpp_optimizer_step_bytes(walk->stack, walk->strategy, states, expert_states) : 0;
    return terms[TPP_MEMORY_GRADIENTS] + terms[TPP_MEMORY_ACTIVATIONS] + terms[TPP_MEMORY_RECOMPUTE_LAYER] +
           terms[TPP_MEMORY_GATHERED] + terms[TPP_MEMORY_BACKWARD] + terms[TPP_MEMORY_LOGITS] +
           terms[TPP_MEMORY_OPTIMIZER_STEP];
}

/* 4.5: the peak is at the loss of the last stage, inside one layer's backward with all micro-batches alive (or, where
 * gradients appear as activations go, at its end), or in the optimizer's step. */
void tpp_walk_stage_memory(const struct tpp_walk *walk, const struct tpp_walk_stage *stage, struct tpp_memory *memory)
{
    memset(memory, 0, sizeof(*memory));
    static_terms(walk, stage, memory);
    memory->host_bytes += walk->hardware->node.num_gpus * stage->in_flight * offloaded_bytes(walk, stage);
    memory->host_capacity_bytes = (double)walk->hardware->node.host_memory_bytes;
    memory->terms[TPP_MEMORY_DUMMY_WGRAD] = dummy_bytes(stage);
    memory->terms[TPP_MEMORY_BUCKETS] = bucket_bytes(walk, stage);
    memory->terms[TPP_MEMORY_WORKSPACES] = workspace_bytes(walk, stage);
    const double backward = backward_bytes(walk, last_layer(stage)), all = memory->terms[TPP_MEMORY_GRADIENTS];
    const double loss = stage->head ? stage->head->bytes[TPP_TENSOR_LOSS] : 0;
    const bool fresh = tpp_gradients_are_fresh(walk->stack, walk->strategy);
    const double late = tpp_optimizer_late_bytes(walk->stack, 1);
    const double states = memory->terms[TPP_MEMORY_OPTIMIZER] / (1 - late);
    const double experts = tpp_job_is_adapter(walk->job) ? 0
                                                         : (1 - tpp_strategy_offload_fraction(walk->strategy)) *
                                                               expert_parameters(stage) * expert_static(walk).optimizer;
    const bool steps = fresh || tpp_optimizer_step_bytes(walk->stack, walk->strategy, 1, 0) > 0;
    enum moment best = AT_LAST_LAYER;
    double most = 0;
    for (enum moment moment = AT_LOSS; moment < NUM_MOMENTS; moment++) {
        const bool counts = moment == AT_LOSS          ? loss > 0
                            : moment == AT_LAST_RETURN ? fresh && walk->strategy->offload_layers > 0
                            : moment == AT_FIRST_LAYER ? fresh
                            : moment == AT_STEP        ? steps
                                                       : true;
        const double bytes = counts ? set_moment(walk, stage, moment, backward, loss, all, states, experts, memory) : 0;
        if (bytes > most || (bytes >= most && moment == AT_LAST_LAYER)) {
            most = bytes;
            best = moment;
        }
    }
    set_moment(walk, stage, best, backward, loss, all, states, experts, memory);
    sum_up(walk, best == AT_STEP ? 0 : tpp_optimizer_late_bytes(walk->stack, states), memory);
}
