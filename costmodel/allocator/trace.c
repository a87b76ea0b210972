#include "costmodel/allocator/trace_parts.h"

#include <stdlib.h>
#include <string.h>

/* Micro-batches of a step that are written at most: with fixed lengths the pipeline repeats itself after a few rounds. */
static const uint32_t fixed_rounds = 3, max_micro_batches = 1024;

static uint32_t micro_batches_written(const struct tpp_tracer *tracer)
{
    const uint32_t p = tracer->strategy.pipeline_parallel;
    uint64_t limit = max_micro_batches > 3 * p ? max_micro_batches : 3 * p;
    if (tpp_lengths_is_fixed(tracer->lengths) && tracer->strategy.schedule != TPP_SCHEDULE_GPIPE)
        limit = (uint64_t)fixed_rounds * p + 1;
    const uint64_t group = tpp_strategy_group_size(&tracer->strategy); /* interleaved schedules work in whole ones */
    if (group > limit && group <= max_micro_batches)
        limit = group;
    limit = group > limit ? limit / p * p : limit / group * group;
    return (uint32_t)(tracer->strategy.num_micro_batches < limit ? tracer->strategy.num_micro_batches : limit);
}

const struct tpp_program *tpp_trace_program(const struct tpp_tracer *tracer, uint32_t layer)
{
    const struct tpp_model *model = tracer->evaluator->model;
    const bool is_moe = model->num_experts > 0 && tpp_model_layer_is_moe(model, layer);
    return &tracer->programs[is_moe ? TPP_LAYER_MOE : TPP_LAYER_DECODER];
}

/* Layer programs of sequences of `length` tokens, unless they are the last ones built. */
static void build_programs(struct tpp_tracer *tracer, uint64_t length)
{
    struct tpp_job job = *tracer->evaluator->job;
    if (tracer->length == length)
        return;
    tracer->length = length;
    job.sequence_length = length;
    if (job.attention_block_length > length)
        job.attention_block_length = 0;
    for (int kind = 0; kind < TPP_LAYER_KIND_COUNT; kind++)
        if (kind != TPP_LAYER_MOE || tracer->evaluator->model->num_experts > 0)
            tpp_program_build(tracer->evaluator->model, &job, tracer->evaluator->stack, &tracer->axes[kind],
                              &tracer->programs[kind]);
}

static void read_axes(struct tpp_tracer *tracer)
{
    for (int kind = 0; kind < TPP_LAYER_KIND_COUNT; kind++) {
        struct tpp_timing timing;
        if (kind == TPP_LAYER_MOE && tracer->evaluator->model->num_experts == 0)
            continue;
        tracer->axes[kind] =
            tpp_evaluator_program(tracer->evaluator, &tracer->strategy, (enum tpp_layer_kind)kind, TPP_PASSES_ALONE, &timing)->axes;
    }
}

static enum tpp_code make_slots(struct tpp_tracer *tracer, struct tpp_error *err)
{
    const size_t count = (size_t)tracer->num_micro_batches * tracer->order.num_chunks;
    tracer->slots = calloc(count + 1, sizeof(*tracer->slots));
    bool failed = tracer->slots == NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        tracer->slots[i].output = TPP_NO_TENSOR;
        const uint32_t layers = tracer->order.chunks[i % tracer->order.num_chunks].num_layers;
        tracer->slots[i].layer_starts = calloc(layers + 1, sizeof(*tracer->slots[i].layer_starts));
        failed = tracer->slots[i].layer_starts == NULL;
    }
    return failed ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the trace") : TPP_OK;
}

static enum tpp_code prepare(struct tpp_tracer *tracer, struct tpp_error *err)
{
    const struct tpp_evaluator *evaluator = tracer->evaluator;
    const uint32_t gpus_per_node = evaluator->hardware->node.num_gpus;
    tracer->replicas = tpp_replicas_make(&tracer->strategy, evaluator->stack, gpus_per_node);
    tracer->expert_replicas = evaluator->model->num_experts > 0
                                  ? tpp_expert_replicas_make(&tracer->strategy, evaluator->stack, gpus_per_node)
                                  : tracer->replicas;
    tracer->keeps_gathered = tpp_keeps_gathered(evaluator->stack, &tracer->strategy) && tracer->replicas.shard_ranks > 1;
    tracer->is_sharded = tpp_gathers_layers(evaluator->stack, &tracer->strategy, &tracer->replicas);
    tracer->num_micro_batches = micro_batches_written(tracer);
    enum tpp_code code = tpp_trace_order_make(&tracer->strategy, evaluator->model->num_layers, tracer->stage,
                                              tracer->num_micro_batches, &tracer->order, err);
    if (code == TPP_OK)
        code = make_slots(tracer, err);
    for (uint32_t c = 0; code == TPP_OK && c < tracer->order.num_chunks; c++) {
        tracer->has_embedding = tracer->has_embedding || tracer->order.chunks[c].is_first;
        tracer->has_head = tracer->has_head || tracer->order.chunks[c].is_last;
    }
    read_axes(tracer);
    build_programs(tracer, evaluator->job->sequence_length);
    return code;
}

enum tpp_code tpp_tracer_new(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy, uint32_t stage,
                             const struct tpp_trace_options *options, struct tpp_tracer **out, struct tpp_error *err)
{
    *out = NULL;
    enum tpp_code code = tpp_strategy_check(strategy, evaluator->model, evaluator->job, evaluator->stack, err);
    if (code != TPP_OK)
        return code;
    if (stage >= strategy->pipeline_parallel)
        return tpp_fail(err, TPP_E_RANGE, "stage", "stages count from 0", "there is no stage %u of %u", stage,
                        strategy->pipeline_parallel);
    struct tpp_tracer *tracer = calloc(1, sizeof(*tracer));
    if (tracer == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the trace");
    tracer->evaluator = evaluator;
    tracer->strategy = *strategy;
    tracer->stage = stage;
    tracer->lengths = options->lengths != NULL && !options->packing ? options->lengths : &tracer->fixed;
    tracer->random = options->seed;
    tracer->layer = TPP_TRACE_NO_LAYER;
    tracer->upstream = TPP_NO_TENSOR;
    for (int i = 0; i < TPP_TRACE_UNITS; i++)
        tracer->units[i].layer = TPP_TRACE_NO_LAYER;
    code = prepare(tracer, err);
    if (code == TPP_OK)
        *out = tracer;
    else
        tpp_tracer_free(tracer);
    return code;
}

void tpp_tracer_free(struct tpp_tracer *tracer)
{
    if (tracer == NULL)
        return;
    const size_t count = (size_t)tracer->num_micro_batches * tracer->order.num_chunks;
    for (size_t i = 0; tracer->slots != NULL && i < count; i++) {
        free(tracer->slots[i].layer_starts);
        free(tracer->slots[i].sizes);
        tpp_ids_drop(&tracer->slots[i].kept);
    }
    for (int i = 0; i < TPP_TRACE_UNITS; i++)
        tpp_ids_drop(&tracer->units[i].tensors);
    tpp_ids_drop(&tracer->step_tensors);
    tpp_ids_drop(&tracer->scratch);
    tpp_ids_drop(&tracer->gradients);
    tpp_ids_drop(&tracer->free_ids);
    tpp_trace_order_release(&tracer->order);
    free(tracer->slots);
    free(tracer->events);
    free(tracer->sizes);
    free(tracer);
}

/* The longest of the micro-batch's sequences, to which the others are padded, in whole parts for every rank that cuts the
 * sequence: 2 c for ring attention, t for sequence parallelism. */
static uint64_t draw_length(struct tpp_tracer *tracer)
{
    const uint64_t limit = tracer->evaluator->job->sequence_length;
    const uint64_t unit = (uint64_t)tracer->strategy.tensor_parallel * tracer->strategy.context_parallel *
                          (tracer->strategy.context_parallel > 1 ? 2 : 1);
    uint64_t longest = 0;
    for (uint32_t i = 0; i < tracer->strategy.micro_batch_size; i++) {
        const uint64_t length = tpp_lengths_sample(tracer->lengths, limit, &tracer->random);
        longest = length > longest ? length : longest;
    }
    longest = (longest + unit - 1) / unit * unit;
    return longest < limit ? longest : limit;
}

static enum tpp_code answer(const struct tpp_tracer *tracer, struct tpp_error *err)
{
    return tracer->failed ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the trace") : TPP_OK;
}

enum tpp_code tpp_tracer_setup(struct tpp_tracer *tracer, struct tpp_error *err)
{
    tracer->num_events = 0;
    tpp_trace_static(tracer);
    tracer->peak_bytes = tracer->alive_bytes;
    return answer(tracer, err);
}

static void run_pass(struct tpp_tracer *tracer, const struct tpp_pass *pass)
{
    const struct tpp_trace_chunk *chunk = &tracer->order.chunks[pass->chunk];
    struct tpp_trace_slot *slots = &tracer->slots[(size_t)pass->micro_batch * tracer->order.num_chunks];
    struct tpp_trace_slot *slot = &slots[pass->chunk];
    tracer->micro_batch = pass->micro_batch;
    build_programs(tracer, slots->length);
    tracer->phase = pass->kind == TPP_PASS_FORWARD    ? TPP_TRACE_FORWARD
                    : pass->kind == TPP_PASS_BACKWARD ? TPP_TRACE_BACKWARD
                                                      : TPP_TRACE_WEIGHT;
    if (pass->kind == TPP_PASS_FORWARD)
        tpp_trace_forward(tracer, chunk, slot);
    else if (pass->kind == TPP_PASS_BACKWARD)
        tpp_trace_backward(tracer, chunk, slot);
    else
        tpp_trace_weight(tracer, slot);
}

enum tpp_code tpp_tracer_step(struct tpp_tracer *tracer, struct tpp_error *err)
{
    tracer->num_events = 0;
    for (uint32_t i = 0; i < tracer->num_micro_batches; i++)
        tracer->slots[(size_t)i * tracer->order.num_chunks].length = draw_length(tracer);
    tracer->micro_batch = 0;
    tracer->layer = TPP_TRACE_NO_LAYER;
    tracer->phase = TPP_TRACE_OUTSIDE;
    tpp_trace_gather_root(tracer);
    for (size_t i = 0; i < tracer->order.num_passes && !tracer->failed; i++)
        run_pass(tracer, &tracer->order.passes[i]);
    tracer->micro_batch = 0;
    tracer->layer = TPP_TRACE_NO_LAYER;
    tracer->phase = TPP_TRACE_OPTIMIZER;
    tpp_ids_release(tracer, &tracer->step_tensors, 0);
    tpp_trace_finish(tracer);
    tpp_trace_optimizer(tracer, tracer->num_steps++ == 0);
    return answer(tracer, err);
}

const struct tpp_trace_event *tpp_tracer_events(const struct tpp_tracer *tracer, size_t *count)
{
    *count = tracer->num_events;
    return tracer->events;
}

uint32_t tpp_tracer_num_tensors(const struct tpp_tracer *tracer)
{
    return tracer->num_ids;
}

uint64_t tpp_tracer_peak_bytes(const struct tpp_tracer *tracer)
{
    return tracer->peak_bytes;
}
