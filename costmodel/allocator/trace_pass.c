/* Passes of a micro-batch over a chunk: what a layer keeps, brings back, and needs for a moment (cost-model 4.2, 4.4, 4.5). */
#include "costmodel/allocator/trace_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIFE(name) (1U << (TPP_TENSOR_##name))
static const unsigned full_list = LIFE(INPUT) | LIFE(SAVED) | LIFE(EAGER) | LIFE(REPEATED);

static double sum_of(const struct tpp_program *program, unsigned lives)
{
    double bytes = 0;
    for (uint32_t i = 0; i < program->num_tensors; i++)
        if (lives >> program->tensors[i].life & 1)
            bytes += program->tensors[i].bytes;
    return bytes;
}

/* The tensors of these lives in the order of the program, each `scale` times its size. */
static void write_list(struct tpp_tracer *tracer, const struct tpp_program *program, unsigned lives, double scale,
                       struct tpp_tensor_ids *ids)
{
    for (uint32_t i = 0; i < program->num_tensors; i++)
        if (lives >> program->tensors[i].life & 1)
            tpp_ids_push(tracer, ids,
                         tpp_trace_allocate(tracer, program->tensors[i].name, scale * program->tensors[i].bytes,
                                            TPP_TRACE_COMPUTE_STREAM));
}

/* Layers of a chunk that are run again: the first ones; and how many at a time. */
struct recomputed {
    uint32_t count, unit;
};

static struct recomputed recomputed_layers(const struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk)
{
    const struct tpp_strategy *strategy = &tracer->strategy;
    const uint32_t number = strategy->recompute_num_layers;
    const bool uniform = strategy->recompute_method == TPP_RECOMPUTE_UNIFORM;
    if (strategy->recompute != TPP_RECOMPUTE_FULL)
        return (struct recomputed){0, 1};
    if (uniform || number == 0)
        return (struct recomputed){chunk->num_layers, uniform && number > 1 ? number : 1};
    /* The number is for the stage: an equal part of it for each chunk, the first ones get what does not divide. */
    const uint32_t num_chunks = tracer->order.num_chunks, index = (uint32_t)(chunk - tracer->order.chunks);
    const uint32_t part = number / num_chunks + (index < number % num_chunks);
    return (struct recomputed){part < chunk->num_layers ? part : chunk->num_layers, 1};
}

static unsigned selective_list(const struct tpp_tracer *tracer)
{
    return tracer->evaluator->stack->framework == TPP_FRAMEWORK_TORCHTITAN ? LIFE(INPUT) | LIFE(SELECTED)
                                                                           : LIFE(INPUT) | LIFE(SAVED) | LIFE(EAGER);
}

static unsigned kept_list(const struct tpp_tracer *tracer, struct recomputed again, uint32_t index)
{
    if (index < again.count)
        return index % again.unit == 0 ? LIFE(INPUT) : 0;
    return tracer->strategy.recompute == TPP_RECOMPUTE_SELECTIVE ? selective_list(tracer) : full_list;
}

/* What a product wrote lives until the next kernel has made the tensor that is kept from it: q, k and v before the rotary
 * embedding, the projections before the residual is added. */
static double product_bytes(const struct tpp_tracer *tracer, const struct tpp_program *program, const struct tpp_tensor *tensor)
{
    if (strcmp(tensor->name, "q, k, v") == 0)
        return tensor->bytes;
    const bool is_sum = tensor->life == TPP_TENSOR_INPUT || strcmp(tensor->name, "mlp norm input") == 0;
    return is_sum ? (double)tracer->evaluator->stack->weight_bytes * program->tokens * tracer->evaluator->model->hidden_size
                  : 0;
}

/* Forward of a layer: what is kept stays, the rest is freed two tensors later. */
static void forward_layer(struct tpp_tracer *tracer, const struct tpp_program *program, unsigned kept,
                          struct tpp_trace_slot *slot)
{
    uint32_t passing[2] = {TPP_NO_TENSOR, TPP_NO_TENSOR};
    if (tpp_trace_layer_has_order(tracer, program)) {
        tpp_trace_forward_in_order(tracer, program, &slot->kept);
        return;
    }
    for (uint32_t i = 0; i < program->num_tensors; i++) {
        const struct tpp_tensor *tensor = &program->tensors[i];
        const unsigned life = 1U << tensor->life;
        if (!(life & (full_list | kept)))
            continue;
        const uint32_t product = tpp_trace_allocate(tracer, "product before the next kernel",
                                                    product_bytes(tracer, program, tensor), TPP_TRACE_COMPUTE_STREAM);
        const uint32_t made = tpp_trace_allocate(tracer, tensor->name, tensor->bytes, TPP_TRACE_COMPUTE_STREAM);
        tpp_trace_release(tracer, product);
        if (life & kept) {
            tpp_ids_push(tracer, &slot->kept, made);
            continue;
        }
        tpp_trace_release(tracer, passing[1]);
        passing[1] = passing[0];
        passing[0] = made;
    }
    tpp_trace_release(tracer, passing[1]);
    tpp_trace_release(tracer, passing[0]);
}

/* Logits of the head's product on this rank. */
static double logits_of(const struct tpp_program *head)
{
    for (uint32_t i = 0; i < head->num_ops; i++)
        if (head->ops[i].kind == TPP_OP_GEMM && head->ops[i].section == TPP_SECTION_FORWARD)
            return head->ops[i].gemm.m * head->ops[i].gemm.n;
    return 0;
}

/* The program counts logits and loss as one sum: here the 16-bit logits are a tensor of their own, and what is left are fp32
 * copies and gradients of as many elements (4.4); a compiled loss has none of fp32. */
static void write_loss(struct tpp_tracer *tracer)
{
    const struct tpp_program *head = &tracer->programs[TPP_LAYER_HEAD];
    const double copy = (tracer->evaluator->stack->loss_kernel == TPP_LOSS_COMPILED ? 2 : 4) * logits_of(head);
    tracer->layer = TPP_TRACE_NO_LAYER;
    tracer->phase = TPP_TRACE_LOSS;
    for (uint32_t i = 0; i < head->num_tensors; i++) {
        const struct tpp_tensor *tensor = &head->tensors[i];
        double left = tensor->life == TPP_TENSOR_LOSS ? tensor->bytes : 0;
        const double first = copy > 0 ? fmod(left, copy) : left;
        for (double bytes = first > 0 ? first : copy; left >= 1; left -= bytes, bytes = copy)
            tpp_ids_push(tracer, &tracer->scratch,
                         tpp_trace_allocate(tracer, tensor->name, bytes, TPP_TRACE_COMPUTE_STREAM));
    }
    tpp_ids_release(tracer, &tracer->scratch, 0);
}

/* The stage output that DeepSpeed's pipeline engine keeps for each micro-batch in flight (15.7). */
static void write_output(struct tpp_tracer *tracer, struct tpp_trace_slot *slot)
{
    const bool engine = tracer->evaluator->stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE;
    if (engine && tracer->strategy.pipeline_parallel > 1)
        slot->output = tpp_trace_allocate(
            tracer, "stage output", sum_of(tpp_trace_program(tracer, tracer->order.chunks[0].first_layer), LIFE(INPUT)),
            TPP_TRACE_COMPUTE_STREAM);
}

/* The layer whose tensors are on the host from this one's forward on, until its backward (memory_walk.c); none: false. */
static bool goes_to_host_with(const struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk, uint32_t index,
                              uint32_t *away)
{
    const uint32_t stay = chunk->num_layers - tracer->strategy.offload_layers;
    *away = index - stay;
    return index >= stay && *away < tracer->strategy.offload_layers;
}

static void send_to_host(struct tpp_tracer *tracer, struct tpp_trace_slot *slot, uint32_t index)
{
    const size_t end = slot->layer_starts[index + 1];
    if (end > slot->num_sizes) {
        uint64_t *sizes = realloc(slot->sizes, slot->kept.count * sizeof(*sizes));
        if (sizes == NULL) {
            tracer->failed = true;
            return;
        }
        slot->sizes = sizes;
        slot->num_sizes = slot->kept.count;
    }
    for (size_t i = slot->layer_starts[index]; i < end; i++) {
        slot->sizes[i] = tracer->sizes[slot->kept.ids[i]];
        tpp_trace_release(tracer, slot->kept.ids[i]);
        slot->kept.ids[i] = TPP_NO_TENSOR;
    }
}

static void bring_from_host(struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk, struct tpp_trace_slot *slot,
                            uint32_t index)
{
    tracer->layer = chunk->first_layer + index;
    for (size_t i = slot->layer_starts[index]; i < slot->layer_starts[index + 1]; i++)
        slot->kept.ids[i] = tpp_trace_allocate(tracer, "activation from the host", (double)slot->sizes[i],
                                               TPP_TRACE_COMPUTE_STREAM);
}

void tpp_trace_forward(struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk, struct tpp_trace_slot *slot)
{
    const struct recomputed again = recomputed_layers(tracer, chunk);
    slot->kept.count = 0;
    write_output(tracer, slot);
    for (uint32_t i = 0; i < chunk->num_layers; i++) {
        const uint32_t layer = chunk->first_layer + i;
        uint32_t away;
        tracer->layer = layer;
        slot->layer_starts[i] = slot->kept.count;
        if (goes_to_host_with(tracer, chunk, i, &away))
            send_to_host(tracer, slot, away);
        tpp_trace_finish(tracer);
        tpp_trace_gather(tracer, layer, TPP_TRACE_NO_LAYER);
        if (i + 1 < chunk->num_layers)
            tpp_trace_gather(tracer, layer + 1, layer);
        forward_layer(tracer, tpp_trace_program(tracer, layer), kept_list(tracer, again, i), slot);
    }
    slot->layer_starts[chunk->num_layers] = slot->kept.count;
    if (chunk->is_last)
        write_loss(tracer);
    else
        tpp_trace_scatter_all(tracer);
}

/* Transformer Engine's cached weight gradients: made at the first backward, for good. */
static void write_dummies(struct tpp_tracer *tracer, const struct tpp_program *program)
{
    struct tpp_tensor_ids forever = {0};
    if (tracer->has_dummies)
        return;
    tracer->has_dummies = true;
    const struct tpp_program *moe = &tracer->programs[TPP_LAYER_MOE];
    const bool has_moe = tracer->evaluator->model->num_experts > 0;
    if (has_moe && sum_of(moe, LIFE(DUMMY)) > sum_of(program, LIFE(DUMMY)))
        program = moe;
    tracer->phase = TPP_TRACE_OUTSIDE;
    write_list(tracer, program, LIFE(DUMMY), 1, &forever);
    if (tracer->has_head)
        write_list(tracer, &tracer->programs[TPP_LAYER_HEAD], LIFE(DUMMY), 1, &forever);
    tracer->phase = TPP_TRACE_BACKWARD;
    tpp_ids_drop(&forever); /* the tensors stay */
}

/* What selective recomputation brings back before a layer's backward: the core, or what a policy did not keep. */
static void write_reselected(struct tpp_tracer *tracer, const struct tpp_program *program, struct tpp_tensor_ids *ids)
{
    if (tracer->evaluator->stack->framework != TPP_FRAMEWORK_TORCHTITAN) {
        write_list(tracer, program, LIFE(REPEATED), 1, ids);
        return;
    }
    const unsigned list = full_list & ~LIFE(INPUT);
    const double missing = sum_of(program, full_list) - sum_of(program, selective_list(tracer));
    if (missing > 0)
        write_list(tracer, program, list, missing / sum_of(program, list), ids);
}

/* Transients of one layer's backward, as memory_walk.c's backward_bytes: the second copy of a layer that FSDP runs again, with
 * its gradients, is alive beside the larger of the MLP's and attention's. */
static void write_transients(struct tpp_tracer *tracer, const struct tpp_program *program)
{
    struct tpp_tensor_ids *ids = &tracer->scratch;
    const size_t before = ids->count;
    const bool twice =
        tpp_recomputed_layer_is_twice(tracer->evaluator->job, tracer->evaluator->stack, &tracer->strategy);
    const double plain = fmax(sum_of(program, LIFE(BACKWARD_MLP)), sum_of(program, LIFE(BACKWARD_ATTENTION)));
    const double copied = sum_of(program, full_list & ~LIFE(EAGER));
    const double second = copied + plain - sum_of(program, LIFE(EAGER));
    if (twice && second > 0)
        write_list(tracer, program, full_list & ~LIFE(EAGER), second / copied, ids);
    const size_t extras = ids->count;
    write_list(tracer, program, LIFE(BACKWARD_MLP), 1, ids);
    tpp_ids_release(tracer, ids, extras);
    write_list(tracer, program, LIFE(BACKWARD_ATTENTION), 1, ids);
    tpp_ids_release(tracer, ids, before);
}

/* Brings the layers of the unit that ends with layer `index` back; their tensors follow each other in the slot's order. */
static void recompute_unit(struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk, uint32_t first, uint32_t index)
{
    for (uint32_t i = first; i <= index; i++) {
        tracer->layer = chunk->first_layer + i;
        const struct tpp_program *program = tpp_trace_program(tracer, tracer->layer);
        write_list(tracer, program, i == first ? full_list & ~LIFE(INPUT) : full_list, 1, &tracer->scratch);
    }
}

static void backward_layer(struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk, uint32_t index,
                           struct recomputed again, struct tpp_trace_slot *slot)
{
    const uint32_t layer = chunk->first_layer + index;
    const struct tpp_program *program = tpp_trace_program(tracer, layer);
    tracer->layer = layer;
    tpp_trace_finish(tracer);
    tpp_trace_gather(tracer, layer, TPP_TRACE_NO_LAYER);
    if (index > 0)
        tpp_trace_gather(tracer, layer - 1, layer);
    const bool ends_unit = index < again.count && (index + 1 == again.count || (index + 1) % again.unit == 0);
    if (ends_unit)
        recompute_unit(tracer, chunk, index / again.unit * again.unit, index);
    tracer->layer = layer;
    const size_t recomputed = tracer->scratch.count;
    if (tracer->strategy.recompute == TPP_RECOMPUTE_SELECTIVE)
        write_reselected(tracer, program, &tracer->scratch);
    const uint32_t gradients = tpp_trace_unsharded_gradients(tracer, layer);
    if (tpp_trace_layer_has_order(tracer, program))
        tpp_trace_backward_in_order(tracer, program, &slot->kept.ids[slot->layer_starts[index]]);
    else
        write_transients(tracer, program);
    tpp_trace_release(tracer, gradients);
    tpp_ids_release(tracer, &tracer->scratch, recomputed);
    if (index < again.count) { /* the last layer's part of what was brought back */
        uint32_t tensors = 0;
        const unsigned list = index % again.unit == 0 ? full_list & ~LIFE(INPUT) : full_list;
        for (uint32_t i = 0; i < program->num_tensors; i++)
            tensors += list >> program->tensors[i].life & 1 && program->tensors[i].bytes >= 1;
        tpp_ids_release(tracer, &tracer->scratch, tracer->scratch.count > tensors ? tracer->scratch.count - tensors : 0);
    }
}

/* Weight gradients of a layer do not need its input, the first tensor it keeps: the rest waits for their pass. */
static void release_input(struct tpp_tracer *tracer, struct tpp_trace_slot *slot, uint32_t index)
{
    const size_t first = slot->layer_starts[index];
    if (slot->layer_starts[index + 1] - first < 2)
        return;
    tpp_trace_release(tracer, slot->kept.ids[first]);
    slot->kept.ids[first] = TPP_NO_TENSOR;
}

/* Megatron fuses the weight gradients of products into its buffer; that of the embedding comes from PyTorch, whole and in the
 * weights' type, before it is added. The walk has no moment for it: left out where it would be the peak. */
static void write_embedding_gradient(struct tpp_tracer *tracer)
{
    const struct tpp_stack *stack = tracer->evaluator->stack;
    const double bytes = stack->weight_bytes * tracer->programs[TPP_LAYER_EMBEDDING].parameters;
    const bool fits = (double)tracer->alive_bytes + bytes <= (double)tracer->peak_bytes;
    if (stack->engine == TPP_ENGINE_MEGATRON && fits && !tpp_job_is_adapter(tracer->evaluator->job))
        tpp_trace_release(tracer, tpp_trace_allocate(tracer, "embedding gradient", bytes, TPP_TRACE_COMPUTE_STREAM));
}

void tpp_trace_backward(struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk, struct tpp_trace_slot *slot)
{
    const struct recomputed again = recomputed_layers(tracer, chunk);
    tracer->layer = TPP_TRACE_NO_LAYER;
    if (chunk->num_layers > 0)
        write_dummies(tracer, tpp_trace_program(tracer, chunk->first_layer));
    uint32_t ends = tpp_trace_unsharded_gradients(tracer, TPP_TRACE_NO_LAYER);
    if (chunk->is_last)
        tpp_trace_fresh_gradients(tracer, &tracer->programs[TPP_LAYER_HEAD]);
    uint32_t away;
    for (uint32_t i = chunk->num_layers; i-- > 0;) {
        if (goes_to_host_with(tracer, chunk, i + 1, &away))
            bring_from_host(tracer, chunk, slot, away);
        backward_layer(tracer, chunk, i, again, slot);
        tpp_trace_fresh_gradients(tracer, tpp_trace_program(tracer, chunk->first_layer + i));
        if (!tracer->order.splits_backward)
            tpp_ids_release(tracer, &slot->kept, slot->layer_starts[i]);
        else
            release_input(tracer, slot, i);
        tpp_trace_release(tracer, ends);
        ends = TPP_NO_TENSOR;
    }
    tpp_trace_release(tracer, ends);
    if (chunk->is_first)
        write_embedding_gradient(tracer);
    tpp_trace_release(tracer, tracer->upstream);
    tracer->upstream = TPP_NO_TENSOR;
    tpp_trace_scatter_all(tracer);
    tpp_trace_release(tracer, slot->output);
    slot->output = TPP_NO_TENSOR;
}

void tpp_trace_weight(struct tpp_tracer *tracer, struct tpp_trace_slot *slot)
{
    tracer->layer = TPP_TRACE_NO_LAYER;
    tpp_ids_release(tracer, &slot->kept, 0);
}
