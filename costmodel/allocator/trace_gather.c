/* Parameters that ZeRO-3 and FSDP gather layer by layer, and gradients before they are scattered (cost-model 4.4). */
#include "costmodel/allocator/trace_parts.h"
#include "costmodel/memory_buffers.h"

#include <math.h>

static double end_parameters(const struct tpp_tracer *tracer, bool is_sum)
{
    const double embedding = tracer->has_embedding ? tracer->programs[TPP_LAYER_EMBEDDING].parameters : 0;
    const double head = tracer->has_head ? tracer->programs[TPP_LAYER_HEAD].parameters : 0;
    return is_sum ? embedding + head : fmax(embedding, head);
}

static double stage_parameters(const struct tpp_tracer *tracer)
{
    double parameters = end_parameters(tracer, true);
    for (uint32_t c = 0; c < tracer->order.num_chunks; c++)
        for (uint32_t i = 0; i < tracer->order.chunks[c].num_layers; i++)
            parameters += tpp_trace_program(tracer, tracer->order.chunks[c].first_layer + i)->parameters;
    return parameters;
}

static bool is_deepspeed(const struct tpp_tracer *tracer)
{
    return tracer->evaluator->stack->engine == TPP_ENGINE_DEEPSPEED;
}

/* DeepSpeed stops gathering at its limit: everything it holds shrinks with it. */
static double deepspeed_share(const struct tpp_tracer *tracer)
{
    const uint32_t first = tracer->order.chunks[0].first_layer;
    const double wanted = TPP_DEEPSPEED_PREFETCH_BUCKET + 2 * tpp_trace_program(tracer, first)->parameters + end_parameters(tracer, false);
    return fmin(1, TPP_DEEPSPEED_LIVE_PARAMETERS / wanted);
}

void tpp_trace_gather_root(struct tpp_tracer *tracer)
{
    const double w = tracer->evaluator->stack->weight_bytes;
    if (!tracer->is_sharded && !tracer->keeps_gathered)
        return;
    uint32_t made[2];
    if (is_deepspeed(tracer)) {
        const double share = w * deepspeed_share(tracer);
        made[0] = tpp_trace_allocate(tracer, "prefetch bucket", share * TPP_DEEPSPEED_PREFETCH_BUCKET,
                                     TPP_TRACE_COMMUNICATION_STREAM);
        made[1] = tpp_trace_allocate(tracer, "gathered embedding or head", share * end_parameters(tracer, false),
                                     TPP_TRACE_COMMUNICATION_STREAM);
    } else if (tracer->keeps_gathered) {
        const double elements = stage_parameters(tracer);
        made[0] = tpp_trace_allocate(tracer, "gathered parameters", w * elements, TPP_TRACE_COMMUNICATION_STREAM);
        made[1] = tpp_trace_allocate(tracer, "gradients before reduction",
                                     tracer->evaluator->stack->reduce_bytes * elements, TPP_TRACE_COMPUTE_STREAM);
    } else {
        made[0] = tpp_trace_allocate(tracer, "gathered root unit", w * end_parameters(tracer, true),
                                     TPP_TRACE_COMMUNICATION_STREAM);
        made[1] = TPP_NO_TENSOR;
    }
    for (int i = 0; i < 2; i++) {
        tpp_trace_record(tracer, made[i], TPP_TRACE_COMPUTE_STREAM);
        tpp_ids_push(tracer, &tracer->step_tensors, made[i]);
    }
}

/* FSDP: what arrives, flat, and with version 2 its copies as parameters. */
static void gather_fsdp(struct tpp_tracer *tracer, const struct tpp_program *program, struct tpp_tensor_ids *ids)
{
    const double w = tracer->evaluator->stack->weight_bytes;
    const bool quantised = tracer->evaluator->job->task == TPP_TASK_QLORA;
    const double linear = program->linear_parameters * (quantised ? TPP_NF4_BYTES : w);
    const double bytes = linear + (program->parameters - program->linear_parameters) * w;
    const uint32_t flat = tpp_trace_allocate(tracer, "all-gather output", bytes, TPP_TRACE_COMMUNICATION_STREAM);
    tpp_trace_record(tracer, flat, TPP_TRACE_COMPUTE_STREAM);
    tpp_ids_push(tracer, ids, flat);
    if (tpp_fsdp_copies(tracer->evaluator->stack) > 1)
        tpp_ids_push(tracer, ids, tpp_trace_allocate(tracer, "gathered parameters", bytes, TPP_TRACE_COMPUTE_STREAM));
}

/* DeepSpeed: each parameter a tensor of its own. */
static void gather_deepspeed(struct tpp_tracer *tracer, const struct tpp_program *program, struct tpp_tensor_ids *ids)
{
    const double w = tracer->evaluator->stack->weight_bytes * deepspeed_share(tracer);
    double left = program->parameters;
    for (uint32_t i = 0; i <= program->num_ops && left > 0; i++) {
        const struct tpp_op *op = &program->ops[i];
        const bool is_rest = i == program->num_ops;
        const bool is_weight = !is_rest && op->section == TPP_SECTION_FORWARD && op->part == TPP_PART_LINEAR &&
                               (op->kind == TPP_OP_GEMM || op->kind == TPP_OP_GROUPED_GEMM);
        const double elements = is_rest ? left : is_weight ? op->gemm.batch * op->gemm.n * op->gemm.k : 0;
        if (elements <= 0 || elements > left)
            continue;
        left -= elements;
        const uint32_t tensor =
            tpp_trace_allocate(tracer, "gathered parameters", w * elements, TPP_TRACE_COMMUNICATION_STREAM);
        tpp_trace_record(tracer, tensor, TPP_TRACE_COMPUTE_STREAM);
        tpp_ids_push(tracer, ids, tensor);
    }
}

void tpp_trace_gather(struct tpp_tracer *tracer, uint32_t layer, uint32_t in_use)
{
    struct tpp_gathered_unit *place = NULL;
    if (!tracer->is_sharded)
        return;
    for (int i = 0; i < TPP_TRACE_UNITS; i++) {
        if (tracer->units[i].layer == layer)
            return;
        if (tracer->units[i].layer == TPP_TRACE_NO_LAYER || (place == NULL && tracer->units[i].layer != in_use))
            place = &tracer->units[i];
    }
    if (place == NULL)
        return;
    tpp_ids_release(tracer, &place->tensors, 0);
    place->layer = layer;
    const struct tpp_program *program = tpp_trace_program(tracer, layer);
    if (is_deepspeed(tracer))
        gather_deepspeed(tracer, program, &place->tensors);
    else
        gather_fsdp(tracer, program, &place->tensors);
}

void tpp_trace_scatter_all(struct tpp_tracer *tracer)
{
    for (int i = 0; i < TPP_TRACE_UNITS; i++) {
        tpp_ids_release(tracer, &tracer->units[i].tensors, 0);
        tracer->units[i].layer = TPP_TRACE_NO_LAYER;
    }
}

uint32_t tpp_trace_unsharded_gradients(struct tpp_tracer *tracer, uint32_t layer)
{
    if (!tracer->is_sharded || is_deepspeed(tracer) || tpp_job_is_adapter(tracer->evaluator->job))
        return TPP_NO_TENSOR;
    const double elements = layer == TPP_TRACE_NO_LAYER ? end_parameters(tracer, false)
                                                        : tpp_trace_program(tracer, layer)->parameters;
    const uint32_t tensor = tpp_trace_allocate(tracer, "gradients before reduction",
                                               tracer->evaluator->stack->reduce_bytes * elements,
                                               TPP_TRACE_COMPUTE_STREAM);
    tpp_trace_record(tracer, tensor, TPP_TRACE_COMMUNICATION_STREAM);
    return tensor;
}
