#include "costmodel/evaluator.h"
#include "costmodel/sequence_lengths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rate of the NVLink collectives of tensor parallelism outside Megatron, relative to it [fit], 15.4. */
static const double other_stack_bus_fraction = 0.5;

enum tpp_code tpp_evaluator_new(const struct tpp_model *model, const struct tpp_hardware *hardware,
                                const struct tpp_job *job, const struct tpp_stack *stack, struct tpp_evaluator **out,
                                struct tpp_error *err)
{
    *out = NULL;
    enum tpp_code code = tpp_model_check(model, err);
    if (code == TPP_OK)
        code = tpp_job_check(job, model, err);
    if (code == TPP_OK)
        code = tpp_stack_check(stack, &hardware->gpu, job, err);
    if (code != TPP_OK)
        return code;
    struct tpp_evaluator *evaluator = calloc(1, sizeof(*evaluator));
    if (!evaluator)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    evaluator->model = model;
    evaluator->hardware = hardware;
    evaluator->job = job;
    evaluator->stack = stack;
    evaluator->links =
        tpp_links_make(hardware, stack->nic_ring_efficiency_fraction, stack->nic_send_recv_efficiency_fraction);
    if (stack->single_port_rings)
        evaluator->links.ring_limit_bytes_per_second =
            hardware->network.nic_bytes_per_second * hardware->network.ring_efficiency_fraction;
    evaluator->links.rings_only = stack->deterministic; /* megatron/training/determinism.py sets NCCL_ALGO=Ring */
    evaluator->tensor_links = evaluator->links;
    for (int i = 0; stack->tensor_parallel_other && i < TPP_COLLECTIVE_COUNT; i++)
        evaluator->tensor_links.bus_bytes_per_second[i] *= other_stack_bus_fraction;
    evaluator->useful_tokens = tpp_job_useful_tokens(job);
    evaluator->forward_flops = tpp_flops_forward(model, evaluator->useful_tokens, tpp_job_document_tokens(job));
    evaluator->interval = tpp_interval_make(model, hardware, job, stack);
    *out = evaluator;
    return TPP_OK;
}

void tpp_evaluator_free(struct tpp_evaluator *evaluator)
{
    if (!evaluator)
        return;
    for (uint32_t i = 0; i < evaluator->num_slots; i++)
        free(evaluator->slots[i]);
    free(evaluator->slots);
    tpp_uneven_cache_free(evaluator->uneven);
    free(evaluator);
}

/* Gradient of a tied embedding: the first and the last stage sum theirs once a step (2.1). */
static double tied_seconds(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                           const struct tpp_assembly *assembly)
{
    if (!tpp_stages_sum_embedding(evaluator, strategy) || tpp_job_is_adapter(evaluator->job))
        return 0;
    const uint32_t stride = strategy->tensor_parallel * strategy->context_parallel * strategy->data_parallel *
                            (strategy->pipeline_parallel - 1);
    const struct tpp_group pair = tpp_group_place(2, stride, evaluator->hardware->node.num_gpus);
    return tpp_collective_seconds(&evaluator->links, TPP_ALL_REDUCE, &pair,
                                  evaluator->stack->reduce_bytes * assembly->head->vocabulary_parameters);
}

struct slowest {
    struct tpp_stage stage;       /* slowest one */
    double sum_seconds;           /* of all stages */
    double sum_forward, sum_weight, sum_hidden, sum_trainable, sum_expert, sum_linear;
    double max_trainable, max_expert, max_tensors;
    double first_backward, first_trainable, first_expert;
};

/* One stage, or `times` equal ones of which this is the first: the first holds the most micro-batches in flight. */
static void add_stage(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                      const struct tpp_assembly *assembly, uint32_t index, struct tpp_stage_layers layers,
                      uint32_t times, struct slowest *slowest, struct tpp_memory *worst)
{
    struct tpp_stage stage;
    struct tpp_memory memory;
    tpp_stage_time(evaluator, strategy, assembly, index, layers, &stage);
    tpp_stage_memory(evaluator, strategy, assembly, &stage, index, &memory);
    if (index == 0 || stage.seconds > slowest->stage.seconds)
        slowest->stage = stage;
    if (index == 0 || memory.device_total_bytes > worst->device_total_bytes)
        *worst = memory;
    if (index == 0) {
        slowest->first_backward = stage.backward_seconds + stage.recompute_seconds;
        slowest->first_trainable = stage.trainable_parameters;
        slowest->first_expert = stage.expert_parameters;
    }
    slowest->sum_seconds += times * stage.seconds;
    slowest->sum_forward += times * stage.forward_seconds;
    slowest->sum_weight += times * stage.weight_seconds;
    slowest->sum_hidden += times * stage.hidden_seconds;
    slowest->sum_trainable += times * stage.trainable_parameters;
    slowest->sum_expert += times * stage.expert_parameters;
    slowest->sum_linear += times * stage.linear_parameters;
    slowest->max_trainable = fmax(slowest->max_trainable, stage.trainable_parameters);
    slowest->max_expert = fmax(slowest->max_expert, stage.expert_parameters);
    slowest->max_tensors = fmax(slowest->max_tensors, stage.num_parameter_tensors);
}

static void walk_stages(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                        const struct tpp_assembly *assembly, struct slowest *slowest, struct tpp_memory *worst)
{
    const uint32_t p = strategy->pipeline_parallel;
    memset(slowest, 0, sizeof(*slowest));
    for (uint32_t index = 0; index < p;) {
        const struct tpp_stage_layers layers = tpp_stage_layers(strategy, evaluator->model, index);
        uint32_t next = index + 1;
        for (; index > 0 && next + 1 < p; next++) { /* inner stages with equal layers are equal */
            const struct tpp_stage_layers others = tpp_stage_layers(strategy, evaluator->model, next);
            if (others.total != layers.total || others.moe != layers.moe)
                break;
        }
        add_stage(evaluator, strategy, assembly, index, layers, next - index, slowest, worst);
        index = next;
    }
}

/* Share of a layer's sections that is compute: transfers inside it are not slowed by others. */
static double compute_share(const struct tpp_layer *layer, enum tpp_section first, enum tpp_section last)
{
    double all = 0, transfers = 0;
    for (int section = first; section <= (int)last; section++) {
        all += layer->section_seconds[section];
        transfers += tpp_layer_transfer_seconds(layer, (enum tpp_section)section);
    }
    return all > 0 ? 1 - transfers / all : 1;
}

/* Gradients and parameters of a step: the dense part over dp*c ranks and the routed experts over theirs. */
static double gradient_seconds(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                               const struct tpp_assembly *assembly, const struct slowest *slowest)
{
    const double p = strategy->pipeline_parallel, copies = tpp_schedule_model_copies(strategy->schedule);
    const struct tpp_layer *layer = tpp_stage_layer(assembly, &slowest->stage);
    const double dense = (slowest->sum_trainable - slowest->sum_expert) / p, experts = slowest->sum_expert / p;
    const double linear = slowest->sum_linear / p, linear_experts = fmin(linear, experts);
    const struct tpp_gradient_step gradient = {
        .parts = {{&assembly->replicas, slowest->first_trainable - slowest->first_expert, dense,
                   tpp_stack_gathered_bytes(evaluator->stack, dense, linear - linear_experts), slowest->max_tensors},
                  {&assembly->expert_replicas, slowest->first_expert, experts,
                   tpp_stack_gathered_bytes(evaluator->stack, experts, linear_experts), 0}},
        .num_parts = evaluator->model->num_experts > 0 ? 2 : 1,
        .last_backward_seconds = slowest->first_backward * copies,
        .first_forward_seconds = slowest->sum_forward / p * copies,
        .backward_compute_share = compute_share(layer, TPP_SECTION_BACKWARD, TPP_SECTION_WEIGHT),
        .forward_compute_share = compute_share(layer, TPP_SECTION_FORWARD, TPP_SECTION_FORWARD),
    };
    return tpp_gradient_exposed_seconds(evaluator->hardware, &evaluator->links, evaluator->stack, strategy, &gradient);
}

/* Parameters whose states one rank updates, and what it holds of them before sharding. */
static double optimizer_seconds(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                const struct tpp_assembly *assembly, const struct slowest *slowest)
{
    const struct tpp_gpu *gpu = &evaluator->hardware->gpu;
    const double dense = slowest->max_trainable - slowest->max_expert;
    double seconds = tpp_optimizer_seconds(gpu, evaluator->stack, strategy, assembly->replicas.shard_ranks, dense,
                                           slowest->max_tensors);
    if (slowest->max_expert > 0)
        seconds += tpp_optimizer_seconds(gpu, evaluator->stack, strategy, assembly->expert_replicas.shard_ranks,
                                         slowest->max_expert, 0);
    return fmax(seconds, tpp_optimizer_host_seconds(gpu, evaluator->stack, strategy, slowest->max_tensors));
}

/* Everything once a step beside the pipeline: gradients, optimizer, offload, fixed (9.1, 5.4). */
static void once_a_step(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                        const struct tpp_assembly *assembly, const struct slowest *slowest, double *terms)
{
    const struct tpp_stack *stack = evaluator->stack;
    const double shard = (slowest->max_trainable - slowest->max_expert) / assembly->replicas.shard_ranks +
                         slowest->max_expert / assembly->expert_replicas.shard_ranks;
    terms[TPP_TIME_GRADIENT_COMM] += gradient_seconds(evaluator, strategy, assembly, slowest) +
                                     tied_seconds(evaluator, strategy, assembly);
    terms[TPP_TIME_OPTIMIZER] += optimizer_seconds(evaluator, strategy, assembly, slowest);
    if (strategy->offload == TPP_OFFLOAD_OPTIMIZER)
        terms[TPP_TIME_OFFLOAD] += tpp_offload_seconds(
            evaluator->hardware, tpp_strategy_offload_fraction(strategy) * shard, stack->weight_bytes);
    terms[TPP_TIME_FIXED] += stack->fixed_seconds;
}

/* `computed_tokens`: of a micro-batch on one rank, as the layers have them. */
static void derived_figures(const struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                            const struct slowest *slowest, double computed_tokens, struct tpp_cost *cost)
{
    static const enum tpp_time_term communication[] = {TPP_TIME_TENSOR_COMM, TPP_TIME_CONTEXT_COMM,
                                                       TPP_TIME_EXPERT_COMM, TPP_TIME_SHARD_COMM,
                                                       TPP_TIME_PIPELINE_COMM, TPP_TIME_GRADIENT_COMM};
    const struct tpp_job *job = evaluator->job;
    double exposed = 0;
    for (size_t i = 0; i < sizeof(communication) / sizeof(communication[0]); i++)
        exposed += cost->time_terms[communication[i]];
    cost->exposed_communication_fraction = exposed / cost->step_seconds;
    const double gpu_seconds = cost->step_seconds * job->num_gpus;
    cost->tokens_per_second_per_gpu = (double)job->global_batch_size * evaluator->useful_tokens / gpu_seconds;
    cost->computed_sequence_tokens = computed_tokens * strategy->context_parallel / strategy->micro_batch_size;
    cost->useful_token_fraction = evaluator->useful_tokens / cost->computed_sequence_tokens;
    const double sequences = (double)job->global_batch_size;
    cost->model_flops = tpp_flops_model(&evaluator->forward_flops, sequences, false);
    cost->model_flops_causal = tpp_flops_model(&evaluator->forward_flops, sequences, true);
    cost->necessary_flops = tpp_flops_necessary(&evaluator->forward_flops, sequences);
    cost->hardware_flops = tpp_flops_hardware(&evaluator->forward_flops, sequences, strategy->recompute,
                                              slowest->stage.recomputed_layers / slowest->stage.num_layers,
                                              evaluator->stack->attention >= TPP_FLASH_KERNEL_COUNT);
    cost->model_flops_per_second_per_gpu = cost->model_flops / gpu_seconds;
    const struct tpp_gpu *gpu = &evaluator->hardware->gpu;
    cost->model_flops_utilization =
        cost->model_flops_per_second_per_gpu /
        (tpp_precision_is_fp8(job->precision) ? gpu->fp8_flops_per_second : gpu->bf16_flops_per_second);
    cost->imbalance_seconds = strategy->pipeline_parallel * slowest->stage.seconds - slowest->sum_seconds;
}

static enum tpp_code check_and_assemble(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                        struct tpp_assembly *assembly, struct tpp_error *err)
{
    const enum tpp_code code = tpp_strategy_check(strategy, evaluator->model, evaluator->job, evaluator->stack, err);
    return code == TPP_OK ? tpp_assemble(evaluator, strategy, assembly, err) : code;
}

enum tpp_code tpp_evaluator_cost(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 struct tpp_cost *cost, struct tpp_error *err)
{
    struct tpp_assembly assembly;
    struct slowest slowest;
    double uneven = 0;
    enum tpp_code code = check_and_assemble(evaluator, strategy, &assembly, err);
    if (code != TPP_OK)
        return code;
    memset(cost, 0, sizeof(*cost));
    walk_stages(evaluator, strategy, &assembly, &slowest, &cost->memory);
    tpp_walk_verdict(&cost->memory);
    const double others = slowest.sum_seconds - slowest.stage.seconds;
    code = tpp_uneven_wait_cached(&evaluator->uneven, evaluator->job, strategy,
                                  others / (fmax(1, strategy->pipeline_parallel - 1.0) * slowest.stage.seconds), &uneven, err);
    if (code != TPP_OK)
        return code;
    const struct tpp_pipeline_times times = {
        .slowest_seconds = slowest.stage.seconds,
        .others_seconds = others,
        /* Vocabulary passes fill no gap and make none: the pipeline fills and drains with F and B alone (arXiv 2411.05288,
           section 5: the bubble of 1F1B). */
        .others_vocabulary_seconds = (strategy->pipeline_parallel - 1) * slowest.stage.vocabulary_seconds,
        .edge_seconds = assembly.edge_seconds,
        .others_forward_seconds = slowest.sum_forward - slowest.stage.forward_seconds,
        .others_weight_seconds = slowest.sum_weight - slowest.stage.weight_seconds,
        .others_hidden_seconds = slowest.sum_hidden - slowest.stage.hidden_seconds,
        .paired_fraction = assembly.paired_fraction,
        .uneven_seconds = uneven * slowest.stage.seconds,
    };
    const struct tpp_pipeline pipeline = tpp_pipeline_step(strategy, &times);
    tpp_stage_terms(&assembly, &slowest.stage, (double)strategy->num_micro_batches, cost->time_terms);
    cost->time_terms[TPP_TIME_BUBBLE] += pipeline.bubble_seconds;
    cost->time_terms[TPP_TIME_PIPELINE_COMM] += pipeline.edge_seconds;
    once_a_step(evaluator, strategy, &assembly, &slowest, cost->time_terms);
    for (int term = 0; term < TPP_TIME_TERM_COUNT; term++)
        cost->step_seconds += cost->time_terms[term];
    cost->uneven_seconds = times.uneven_seconds;
    cost->bubble_fraction = pipeline.bubble_fraction;
    cost->host_bound_fraction = tpp_stage_layer(&assembly, &slowest.stage)->host_bound_fraction;
    derived_figures(evaluator, strategy, &slowest, assembly.decoder->tokens, cost);
    const double half_width = tpp_interval_fraction(&evaluator->interval, cost);
    cost->step_seconds_low = cost->step_seconds / (1 + half_width);
    cost->step_seconds_high = cost->step_seconds * (1 + half_width);
    return TPP_OK;
}

enum tpp_code tpp_evaluator_stages(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                   struct tpp_stage_cost *stages, struct tpp_error *err)
{
    struct tpp_assembly assembly;
    const enum tpp_code code = check_and_assemble(evaluator, strategy, &assembly, err);
    if (code != TPP_OK)
        return code;
    for (uint32_t index = 0; index < strategy->pipeline_parallel; index++) {
        struct tpp_stage stage;
        tpp_stage_time(evaluator, strategy, &assembly, index,
                       tpp_stage_layers(strategy, evaluator->model, index), &stage);
        stages[index] = (struct tpp_stage_cost){
            .num_layers = (uint32_t)stage.num_layers,
            .forward_seconds = stage.forward_seconds,
            .backward_seconds = stage.backward_seconds,
            .recompute_seconds = stage.recompute_seconds,
            .in_flight_micro_batches = tpp_in_flight_micro_batches(strategy, index),
            .parameters = (uint64_t)stage.parameters,
        };
        tpp_stage_memory(evaluator, strategy, &assembly, &stage, index, &stages[index].memory);
        tpp_walk_verdict(&stages[index].memory);
    }
    return TPP_OK;
}
