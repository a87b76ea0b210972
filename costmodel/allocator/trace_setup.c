/* What lies on the device for good: weights, gradients, optimizer states (cost-model 4.1), and communication buckets. */
#include "costmodel/allocator/trace_parts.h"
#include "costmodel/memory_buffers.h"

#include <math.h>

/* Bytes of one layer (or end) by the rules of the memory walk, and how many elements they are spread over. */
struct layer_bytes {
    double weights, gradients, optimizer, trainable;
    double expert_optimizer; /* of `optimizer`, the routed experts' */
};

static bool is_weight_gemm(const struct tpp_op *op)
{
    return op->section == TPP_SECTION_FORWARD && (op->kind == TPP_OP_GEMM || op->kind == TPP_OP_GROUPED_GEMM) &&
           op->part == TPP_PART_LINEAR;
}

static struct layer_bytes bytes_of(const struct tpp_tracer *tracer, const struct tpp_program *program)
{
    const struct tpp_evaluator *evaluator = tracer->evaluator;
    const bool adapter = tpp_job_is_adapter(evaluator->job);
    const bool is_end = program->axes.kind == TPP_LAYER_EMBEDDING || program->axes.kind == TPP_LAYER_HEAD;
    const struct tpp_static_bytes per =
        tpp_static_bytes_per_parameter(evaluator->stack, &tracer->strategy, tracer->replicas.shard_ranks);
    const struct tpp_static_bytes expert =
        tpp_static_bytes_per_parameter(evaluator->stack, &tracer->strategy, tracer->expert_replicas.shard_ranks);
    const double experts = is_end ? 0 : program->expert_parameters;
    const double trainable = !adapter ? program->parameters : is_end ? 0 : program->trainable_parameters;
    struct layer_bytes bytes = {
        .weights = program->parameters * per.weights + experts * (expert.weights - per.weights) +
                   (adapter ? trainable * per.weights : 0),
        .gradients = trainable * per.gradients + (adapter ? 0 : experts * (expert.gradients - per.gradients)),
        .optimizer = trainable * per.optimizer + (adapter ? 0 : experts * (expert.optimizer - per.optimizer)),
        .trainable = trainable,
        .expert_optimizer = adapter ? 0 : experts * expert.optimizer,
    };
    if (program->axes.kind == TPP_LAYER_EMBEDDING)
        bytes.optimizer += trainable * tpp_wide_moment_bytes(evaluator->stack, &per);
    const double linear_bytes =
        tpp_stack_linear_weight_bytes(evaluator->stack, &evaluator->hardware->gpu, evaluator->job);
    if (!is_end)
        bytes.weights += program->linear_parameters * (linear_bytes / evaluator->stack->weight_bytes - 1) * per.weights;
    bytes.optimizer *= 1 - tpp_strategy_offload_fraction(&tracer->strategy);
    bytes.expert_optimizer *= 1 - tpp_strategy_offload_fraction(&tracer->strategy);
    return bytes;
}

static void add(struct tpp_tracer *tracer, const char *name, double bytes, struct tpp_tensor_ids *ids)
{
    const uint32_t tensor = tpp_trace_allocate(tracer, name, bytes, TPP_TRACE_COMPUTE_STREAM);
    if (ids != NULL)
        tpp_ids_push(tracer, ids, tensor);
}

/* `bytes` of the layer spread over its weight matrices by their size, and the rest (norms, biases) as one tensor. */
static void spread(struct tpp_tracer *tracer, const struct tpp_program *program, const char *name, double bytes,
                   struct tpp_tensor_ids *ids)
{
    double left = program->parameters;
    for (uint32_t i = 0; i < program->num_ops; i++) {
        const struct tpp_op *op = &program->ops[i];
        const double elements = is_weight_gemm(op) ? op->gemm.batch * op->gemm.n * op->gemm.k : 0;
        if (elements <= 0 || elements > left)
            continue;
        left -= elements;
        const bool is_grouped = op->kind == TPP_OP_GROUPED_GEMM; /* a matrix for each expert */
        const double count = is_grouped ? op->gemm.batch : 1;
        for (double n = 0; n < count; n++)
            add(tracer, name, bytes * elements / count / program->parameters, ids);
    }
    if (program->parameters > 0)
        add(tracer, name, bytes * left / program->parameters, ids);
}

/* Engines that keep the states of all parameters in a few flat tensors. */
static bool is_flat(const struct tpp_tracer *tracer)
{
    return tpp_engine_is_deepspeed(tracer->evaluator->stack->engine);
}

typedef double pick_function(const struct tpp_tracer *tracer, const struct layer_bytes *bytes);

static double pick_weights(const struct tpp_tracer *tracer, const struct layer_bytes *bytes)
{
    (void)tracer;
    return bytes->weights;
}

static double pick_gradients(const struct tpp_tracer *tracer, const struct layer_bytes *bytes)
{
    (void)tracer;
    return bytes->gradients;
}

/* All but the two moments and what is made in the step. */
static double pick_master(const struct tpp_tracer *tracer, const struct layer_bytes *bytes)
{
    return bytes->optimizer * (1 - 2 * tpp_optimizer_moment_fraction(tracer->evaluator->stack)) -
           tpp_optimizer_late_bytes(tracer->evaluator->stack, bytes->optimizer);
}

static double pick_moment(const struct tpp_tracer *tracer, const struct layer_bytes *bytes)
{
    return bytes->optimizer * tpp_optimizer_moment_fraction(tracer->evaluator->stack);
}

static void write_one(struct tpp_tracer *tracer, const struct tpp_program *program, const char *name,
                      pick_function *pick, double *flat, struct tpp_tensor_ids *ids)
{
    const struct layer_bytes bytes = bytes_of(tracer, program);
    if (flat != NULL)
        *flat += pick(tracer, &bytes);
    else
        spread(tracer, program, name, pick(tracer, &bytes), ids);
}

/* One kind of state of the whole stage: tensor by tensor (`ids`, unless NULL, gets them), or as one flat buffer. */
static void write_states(struct tpp_tracer *tracer, const char *name, pick_function *pick, bool flat,
                         struct tpp_tensor_ids *ids)
{
    double sum = 0, *total = flat ? &sum : NULL;
    if (tracer->has_embedding)
        write_one(tracer, &tracer->programs[TPP_LAYER_EMBEDDING], name, pick, total, ids);
    for (uint32_t c = 0; c < tracer->order.num_chunks; c++) {
        const struct tpp_trace_chunk *chunk = &tracer->order.chunks[c];
        for (uint32_t i = 0; i < chunk->num_layers; i++)
            write_one(tracer, tpp_trace_program(tracer, chunk->first_layer + i), name, pick, total, ids);
    }
    if (tracer->has_head)
        write_one(tracer, &tracer->programs[TPP_LAYER_HEAD], name, pick, total, ids);
    if (flat)
        tpp_trace_allocate(tracer, name, sum, TPP_TRACE_COMPUTE_STREAM);
}

/* Megatron's distributed optimizer cuts the flat buffer, which holds the parameters from the last to the first, in as many
 * ranges as there are ranks: a rank has the states of whole parameters, but for those at the ends of its range. Experts
 * have a buffer of their own. Here: what is left of the first rank's two ranges. */
struct ranges {
    double dense_bytes, expert_bytes;
};

static void write_range(struct tpp_tracer *tracer, const char *name, double elements, double *left)
{
    const double bytes = fmin(*left, 4 * elements); /* of fp32 */
    tpp_trace_allocate(tracer, name, bytes, TPP_TRACE_COMPUTE_STREAM);
    *left -= bytes;
}

static void write_ranges_of(struct tpp_tracer *tracer, const char *name, const struct tpp_program *program,
                            struct ranges *left)
{
    double rest = program->parameters;
    for (uint32_t i = program->num_ops; i-- > 0;) {
        const struct tpp_op *op = &program->ops[i];
        const bool is_expert = op->kind == TPP_OP_GROUPED_GEMM;
        const double matrix = is_weight_gemm(op) ? op->gemm.n * op->gemm.k : 0;
        if (matrix <= 0 || op->gemm.batch * matrix > rest)
            continue;
        rest -= op->gemm.batch * matrix;
        for (double n = 0; n < op->gemm.batch; n++)
            write_range(tracer, name, matrix, is_expert ? &left->expert_bytes : &left->dense_bytes);
    }
    write_range(tracer, name, rest, &left->dense_bytes);
}

static void add_ranges(const struct tpp_tracer *tracer, const struct tpp_program *program, pick_function *pick,
                       struct ranges *ranges)
{
    struct layer_bytes bytes = bytes_of(tracer, program);
    const double all = pick(tracer, &bytes);
    bytes.optimizer = bytes.expert_optimizer;
    const double experts = pick(tracer, &bytes);
    ranges->dense_bytes += all - experts;
    ranges->expert_bytes += experts;
}

static void write_ranges(struct tpp_tracer *tracer, const char *name, pick_function *pick)
{
    struct ranges ranges = {0};
    const struct tpp_trace_chunk *chunks = tracer->order.chunks;
    if (tracer->has_embedding)
        add_ranges(tracer, &tracer->programs[TPP_LAYER_EMBEDDING], pick, &ranges);
    if (tracer->has_head)
        add_ranges(tracer, &tracer->programs[TPP_LAYER_HEAD], pick, &ranges);
    for (uint32_t c = 0; c < tracer->order.num_chunks; c++)
        for (uint32_t i = 0; i < chunks[c].num_layers; i++)
            add_ranges(tracer, tpp_trace_program(tracer, chunks[c].first_layer + i), pick, &ranges);
    if (tracer->has_head)
        write_ranges_of(tracer, name, &tracer->programs[TPP_LAYER_HEAD], &ranges);
    for (uint32_t c = tracer->order.num_chunks; c-- > 0;)
        for (uint32_t i = chunks[c].num_layers; i-- > 0;)
            write_ranges_of(tracer, name, tpp_trace_program(tracer, chunks[c].first_layer + i), &ranges);
    if (tracer->has_embedding)
        write_ranges_of(tracer, name, &tracer->programs[TPP_LAYER_EMBEDDING], &ranges);
    /* What the products do not name: of wider states, or of experts outside them. */
    write_range(tracer, name, INFINITY, &ranges.dense_bytes);
    write_range(tracer, name, INFINITY, &ranges.expert_bytes);
}

static double trainable_on_stage(const struct tpp_tracer *tracer, bool with_ends)
{
    double sum = 0;
    for (uint32_t c = 0; c < tracer->order.num_chunks; c++)
        for (uint32_t i = 0; i < tracer->order.chunks[c].num_layers; i++) {
            const uint32_t layer = tracer->order.chunks[c].first_layer + i;
            sum += bytes_of(tracer, tpp_trace_program(tracer, layer)).trainable;
        }
    if (with_ends && tracer->has_embedding)
        sum += bytes_of(tracer, &tracer->programs[TPP_LAYER_EMBEDDING]).trainable;
    if (with_ends && tracer->has_head)
        sum += bytes_of(tracer, &tracer->programs[TPP_LAYER_HEAD]).trainable;
    return sum;
}

static void write_buckets(struct tpp_tracer *tracer)
{
    const char *name = "communication bucket";
    const struct tpp_communication_buffers buffers =
        tpp_communication_buffers_make(tracer->evaluator->stack, &tracer->strategy, trainable_on_stage(tracer, false),
                                       trainable_on_stage(tracer, true));
    tpp_trace_allocate(tracer, name, buffers.engine_bytes, TPP_TRACE_COMPUTE_STREAM);
    for (double left = buffers.ddp_bytes; left > 0; left -= TPP_DDP_BUCKET_BYTES)
        tpp_trace_allocate(tracer, name, fmin(left, TPP_DDP_BUCKET_BYTES), TPP_TRACE_COMPUTE_STREAM);
    for (uint32_t i = 0; i < buffers.num_contiguous; i++)
        tpp_trace_allocate(tracer, name, buffers.contiguous_bytes, TPP_TRACE_COMPUTE_STREAM);
}

static void write_workspaces(struct tpp_tracer *tracer)
{
    bool has_experts = false;
    for (uint32_t c = 0; c < tracer->order.num_chunks; c++)
        for (uint32_t i = 0; i < tracer->order.chunks[c].num_layers; i++)
            has_experts = has_experts ||
                          tpp_trace_program(tracer, tracer->order.chunks[c].first_layer + i)->expert_parameters > 0;
    const struct tpp_library_workspaces workspaces = tpp_library_workspaces_make(
        tracer->evaluator->stack, &tracer->evaluator->hardware->gpu, tracer->has_head, has_experts);
    for (uint32_t i = 0; i < workspaces.num_cublas; i++)
        tpp_trace_allocate(tracer, "cuBLAS workspace", workspaces.cublas_bytes, TPP_TRACE_COMPUTE_STREAM);
    for (uint32_t i = 0; i < workspaces.num_engine; i++)
        tpp_trace_allocate(tracer, "Transformer Engine workspace", workspaces.engine_bytes, TPP_TRACE_COMPUTE_STREAM);
}

static bool is_megatron(const struct tpp_tracer *tracer)
{
    return tracer->evaluator->stack->engine == TPP_ENGINE_MEGATRON;
}

static void write_optimizer(struct tpp_tracer *tracer, const char *name, pick_function *pick)
{
    if (is_megatron(tracer) && tracer->strategy.zero_stage >= 1 && !tpp_job_is_adapter(tracer->evaluator->job))
        write_ranges(tracer, name, pick);
    else
        write_states(tracer, name, pick, is_flat(tracer), NULL);
}

/* Megatron's distributed optimizer makes the model's parameters one by one, then the flat buffers of weights and gradients,
 * copies the parameters in and frees them (core/distributed/param_and_grad_buffer.py). */
void tpp_trace_static(struct tpp_tracer *tracer)
{
    const bool flat = is_flat(tracer), megatron = is_megatron(tracer), moves = megatron && tracer->strategy.zero_stage >= 1;
    if (moves)
        write_states(tracer, "weights before they are flat", pick_weights, false, &tracer->scratch);
    write_states(tracer, "weights", pick_weights, flat || moves, NULL);
    if (!tpp_gradients_are_fresh(tracer->evaluator->stack, &tracer->strategy))
        write_states(tracer, "gradients", pick_gradients, flat || megatron, NULL);
    tpp_ids_release(tracer, &tracer->scratch, 0);
    write_optimizer(tracer, "master weights", pick_master);
    if (flat)
        for (int i = 0; i < 2; i++)
            write_optimizer(tracer, "optimizer moments", pick_moment);
    write_buckets(tracer);
    write_workspaces(tracer);
}

static void write_moments(struct tpp_tracer *tracer)
{
    if (is_flat(tracer))
        return;
    for (int i = 0; i < 2; i++)
        write_optimizer(tracer, "optimizer moments", pick_moment);
}

void tpp_trace_fresh_gradients(struct tpp_tracer *tracer, const struct tpp_program *program)
{
    if (!tpp_gradients_are_fresh(tracer->evaluator->stack, &tracer->strategy))
        return;
    const struct layer_bytes bytes = bytes_of(tracer, program);
    tpp_ids_push(tracer, &tracer->gradients,
                 tpp_trace_allocate(tracer, "gradients", bytes.gradients, TPP_TRACE_COMPUTE_STREAM));
}

static void add_states(const struct tpp_tracer *tracer, const struct tpp_program *program, struct layer_bytes *sum)
{
    const struct layer_bytes bytes = bytes_of(tracer, program);
    sum->optimizer += bytes.optimizer;
    sum->expert_optimizer += bytes.expert_optimizer;
}

void tpp_trace_optimizer(struct tpp_tracer *tracer, bool is_first)
{
    if (tracer->has_embedding) /* the root unit has just been dropped, then its gradient is scattered */
        tpp_trace_fresh_gradients(tracer, &tracer->programs[TPP_LAYER_EMBEDDING]);
    if (is_first)
        write_moments(tracer);
    struct layer_bytes all = {0};
    for (uint32_t c = 0; c < tracer->order.num_chunks; c++)
        for (uint32_t i = 0; i < tracer->order.chunks[c].num_layers; i++)
            add_states(tracer, tpp_trace_program(tracer, tracer->order.chunks[c].first_layer + i), &all);
    if (tracer->has_embedding)
        add_states(tracer, &tracer->programs[TPP_LAYER_EMBEDDING], &all);
    if (tracer->has_head)
        add_states(tracer, &tracer->programs[TPP_LAYER_HEAD], &all);
    tpp_trace_release(tracer,
                      tpp_trace_allocate(tracer, "temporaries of the optimizer's step",
                                         tpp_optimizer_step_bytes(tracer->evaluator->stack, &tracer->strategy,
                                                                  all.optimizer, all.expert_optimizer),
                                         TPP_TRACE_COMPUTE_STREAM));
    tpp_ids_release(tracer, &tracer->gradients, 0);
}
