#include "costmodel/layer.h"

#include <math.h>
#include <string.h>

/* Share of a compute operation that a transfer can hide behind, cost-model 7 "TP". */
static const double hiding_fraction = 0.9;
/* rho: share of exposed tensor-parallel transfers that user-buffer overlap hides [fit on NeMo recipes], section 7. */
static const double tensor_overlap_fraction = 0.5;

static const struct tpp_group *group_of(const struct tpp_op *op, const struct tpp_timing *timing)
{
    switch (op->group) {
    case TPP_GROUP_TENSOR:
        return &timing->tensor_group;
    case TPP_GROUP_ULYSSES:
        return &timing->ulysses_group;
    case TPP_GROUP_EXPERT:
        return &timing->expert_group;
    case TPP_GROUP_EXPERT_TENSOR:
        return &timing->expert_tensor_group;
    default:
        return &timing->context_group;
    }
}

double tpp_op_seconds(const struct tpp_op *op, const struct tpp_timing *timing)
{
    const double factor = op->scaled ? timing->memory_bound_factor : 1;
    switch (op->kind) {
    case TPP_OP_GEMM:
        return tpp_gemm_seconds(timing->gpu, &op->gemm);
    case TPP_OP_GROUPED_GEMM:
        return tpp_grouped_gemm_seconds(timing->gpu, &op->gemm);
    case TPP_OP_FLASH_FORWARD:
        return tpp_flash_forward_seconds(timing->gpu, &op->attention);
    case TPP_OP_FLASH_BACKWARD:
        return tpp_flash_backward_seconds(timing->gpu, &op->attention);
    case TPP_OP_ATTENTION_GEMM: {
        const double rows = op->attention.batch * op->attention.heads * op->attention.query_length;
        return factor * tpp_attention_gemm_seconds(timing->gpu, rows * op->attention.key_length, rows,
                                                   op->attention.qk_head_dim) +
               timing->gpu->kernel_gap_seconds;
    }
    case TPP_OP_MEMORY:
        if (op->rate_fraction > 0)
            return op->bytes / (op->rate_fraction * timing->gpu->memory_bandwidth_bytes_per_second) +
                   op->kernels * timing->gpu->kernel_gap_seconds;
        return tpp_memory_bound_seconds(timing->gpu, op->bytes, factor, op->kernels);
    default:
        if (op->dispatch.bytes > 0)
            return tpp_dispatch_seconds(timing->context_links, group_of(op, timing), &op->dispatch);
        return tpp_collective_seconds(op->group == TPP_GROUP_TENSOR ? timing->links : timing->context_links,
                                      op->collective, group_of(op, timing), op->bytes);
    }
}

double tpp_op_hiding_seconds(const struct tpp_program *program, const struct tpp_op *op, const struct tpp_timing *timing)
{
    const struct tpp_op *first = &program->ops[op->hidden_behind];
    double seconds = tpp_op_seconds(first, timing);
    for (uint32_t i = 1; i < op->num_hiding; i++)
        seconds += first[i].count * tpp_op_seconds(&first[i], timing);
    return seconds;
}

/* What a transfer adds to the critical path: what does not fit behind the operation it overlaps, and the slow-down of
 * that operation, sigma * overlapped time (7, 9.3). A ring step is not slowed: its send and receive use no SM time to
 * speak of beside a whole attention step. */
double tpp_op_exposed_seconds(const struct tpp_program *program, const struct tpp_op *op,
                              const struct tpp_timing *timing)
{
    const double transfer = tpp_op_seconds(op, timing);
    double exposed = transfer;
    if (op->hidden_behind != TPP_NO_OP) {
        const double compute = tpp_op_hiding_seconds(program, op, timing);
        exposed = op->each_step ? fmax(0, transfer - compute)
                                : fmax(0, transfer - hiding_fraction * compute) +
                                      timing->overlap_slowdown_fraction * fmin(transfer, compute);
    }
    if (op->part == TPP_PART_TENSOR && timing->tensor_comm_overlap)
        exposed *= 1 - tensor_overlap_fraction;
    if (op->part == TPP_PART_EXPERT && timing->expert_overlap)
        exposed *= timing->expert_exposed_fraction;
    return op->count * exposed;
}

/* Megatron's --overlap-moe-expert-parallel-comm runs the dispatch and the combine of one micro-batch's forward beside the
 * compute of another's backward, and the other way round: over a layer's forward and backward the transfers
 * (C seconds) hide behind the compute (X seconds) as any other does (7, 9.3),
 *
 *     exposed = max(0, C - 0.9 X) + sigma min(C, X)
 *
 * each its share of it. The first forward and the last backward of a step find no partner: not covered, 1 / m of it. */
void tpp_timing_overlap_experts(const struct tpp_program *program, struct tpp_timing *timing)
{
    double transfers = 0, compute = 0;
    timing->expert_exposed_fraction = 1;
    for (uint32_t i = 0; i < program->num_ops; i++) {
        const struct tpp_op *op = &program->ops[i];
        if (op->kind != TPP_OP_COMMUNICATION)
            compute += op->count * tpp_op_seconds(op, timing);
        else if (op->part == TPP_PART_EXPERT)
            transfers += op->count * tpp_op_seconds(op, timing);
    }
    if (transfers > 0)
        timing->expert_exposed_fraction =
            fmin(1, (fmax(0, transfers - hiding_fraction * compute) +
                     timing->overlap_slowdown_fraction * fmin(transfers, compute)) /
                        transfers);
}

static void measure_host(const struct tpp_program *program, const struct tpp_timing *timing, struct tpp_layer *layer)
{
    const double operations[2] = {program->forward_operations, program->backward_operations};
    const double launches[2] = {program->forward_launches, program->backward_launches};
    const double gpu[2] = {layer->section_seconds[TPP_SECTION_FORWARD],
                           layer->section_seconds[TPP_SECTION_BACKWARD] + layer->section_seconds[TPP_SECTION_WEIGHT]};
    double host_total = 0;
    for (int i = 0; i < 2; i++) {
        const enum tpp_section section = i == 0 ? TPP_SECTION_FORWARD : TPP_SECTION_BACKWARD;
        double host = operations[i] * timing->gpu->host_operation_seconds +
                      launches[i] * timing->gpu->host_launch_seconds;
        double excess = fmax(0, host - gpu[i]);
        if (timing->launch_blocking)
            excess = host = (operations[i] + launches[i]) * TPP_BLOCKING_LAUNCH_SECONDS;
        layer->host_seconds[section] = excess;
        layer->section_seconds[section] += excess;
        host_total += host;
    }
    layer->host_bound_fraction = gpu[0] + gpu[1] > 0 ? host_total / (gpu[0] + gpu[1]) : 0;
}

void tpp_layer_measure(const struct tpp_program *program, const struct tpp_timing *timing, struct tpp_layer *layer)
{
    memset(layer, 0, sizeof(*layer));
    for (uint32_t i = 0; i < program->num_ops; i++) {
        const struct tpp_op *op = &program->ops[i];
        const double seconds = op->kind == TPP_OP_COMMUNICATION ? tpp_op_exposed_seconds(program, op, timing)
                                                                : op->count * tpp_op_seconds(op, timing);
        layer->seconds[op->section][op->part] += seconds;
        if (op->section == TPP_SECTION_FORWARD && (op->modules & program->axes.recompute_modules) != 0)
            layer->repeated_seconds += op->repeated_fraction * seconds;
        layer->skipped_seconds += op->skipped_fraction * seconds;
    }
    for (int section = 0; section < TPP_SECTION_COUNT; section++)
        for (int part = 0; part < TPP_PART_COUNT; part++)
            layer->section_seconds[section] += layer->seconds[section][part];
    measure_host(program, timing, layer);
    for (uint32_t i = 0; i < program->num_tensors; i++)
        layer->bytes[program->tensors[i].life] += program->tensors[i].bytes;
    layer->parameters = program->parameters;
    layer->vocabulary_parameters = program->vocabulary_parameters;
    layer->linear_parameters = program->linear_parameters;
    layer->expert_parameters = program->expert_parameters;
    layer->trainable_parameters = program->trainable_parameters;
    layer->num_parameter_tensors = program->num_tensors_of_parameters;
    layer->tokens = program->tokens;
}

double tpp_layer_recompute_seconds(const struct tpp_layer *layer)
{
    return layer->section_seconds[TPP_SECTION_FORWARD] - layer->skipped_seconds;
}

static void blend_values(double *out, const double *moe, size_t count, double dense_share)
{
    for (size_t i = 0; i < count; i++)
        out[i] = dense_share * out[i] + (1 - dense_share) * moe[i];
}

double tpp_layer_transfer_seconds(const struct tpp_layer *layer, enum tpp_section section)
{
    return layer->seconds[section][TPP_PART_TENSOR] + layer->seconds[section][TPP_PART_CONTEXT] +
           layer->seconds[section][TPP_PART_EXPERT];
}

struct tpp_layer tpp_layer_blend(const struct tpp_layer *dense, double num_dense, const struct tpp_layer *moe,
                                 double num_moe)
{
    struct tpp_layer blend = *dense;
    const double share = num_dense / (num_dense + num_moe);
    for (int section = 0; section < TPP_SECTION_COUNT; section++)
        blend_values(blend.seconds[section], moe->seconds[section], TPP_PART_COUNT, share);
    blend_values(&blend.repeated_seconds, &moe->repeated_seconds, 1, share);
    blend_values(&blend.skipped_seconds, &moe->skipped_seconds, 1, share);
    blend_values(blend.section_seconds, moe->section_seconds, TPP_SECTION_COUNT, share);
    blend_values(blend.host_seconds, moe->host_seconds, TPP_SECTION_COUNT, share);
    blend_values(blend.bytes, moe->bytes, TPP_TENSOR_LIFE_COUNT, share);
    blend_values(&blend.host_bound_fraction, &moe->host_bound_fraction, 1, share);
    blend_values(&blend.parameters, &moe->parameters, 1, share);
    blend_values(&blend.linear_parameters, &moe->linear_parameters, 1, share);
    blend_values(&blend.expert_parameters, &moe->expert_parameters, 1, share);
    blend_values(&blend.trainable_parameters, &moe->trainable_parameters, 1, share);
    blend_values(&blend.num_parameter_tensors, &moe->num_parameter_tensors, 1, share);
    static const enum tpp_tensor_life largest[] = {TPP_TENSOR_BACKWARD_MLP, TPP_TENSOR_BACKWARD_ATTENTION,
                                                   TPP_TENSOR_DUMMY};
    for (size_t i = 0; i < sizeof(largest) / sizeof(largest[0]); i++)
        blend.bytes[largest[i]] = fmax(dense->bytes[largest[i]], moe->bytes[largest[i]]);
    return blend;
}
