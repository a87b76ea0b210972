/* One dense layer of Megatron-Core with Transformer Engine, allocation by allocation: what each operation makes and frees,
 * in the order it runs. Read from Megatron-Core's attention.py (query reshaped to a copy, rotary embedding, value made
 * contiguous by Transformer Engine's get_qkv_layout), mlp.py and fused_bias_swiglu.py, and Transformer Engine's
 * layernorm_linear.py, attention.cpp and context_parallel.py (heads swapped by all-to-alls whose chunks are put in order on a
 * stream of their own). Sizes are those of the layer program. */
#include "costmodel/allocator/trace_parts.h"

#include <math.h>
#include <string.h>

static const unsigned kept_lives =
    1U << TPP_TENSOR_INPUT | 1U << TPP_TENSOR_SAVED | 1U << TPP_TENSOR_EAGER | 1U << TPP_TENSOR_REPEATED;
/* Tensors that "q, k, v" of the program are. */
enum { QUERY, KEY, VALUE, NUM_HEADS };

static uint32_t make(struct tpp_tracer *tracer, const char *name, double bytes)
{
    return tpp_trace_allocate(tracer, name, bytes, TPP_TRACE_COMPUTE_STREAM);
}

static bool is_named(const struct tpp_tensor *tensor, const char *name)
{
    return strcmp(tensor->name, name) == 0;
}

static bool is_kept(const struct tpp_tensor *tensor)
{
    return kept_lives >> tensor->life & 1 && tensor->bytes >= 1;
}

/* Bytes of the tensors of these lives that are called `name`, or (NULL) of all. */
static double bytes_of(const struct tpp_program *program, unsigned lives, const char *name)
{
    double bytes = 0;
    for (uint32_t i = 0; i < program->num_tensors; i++)
        if (lives >> program->tensors[i].life & 1 && (name == NULL || is_named(&program->tensors[i], name)))
            bytes += program->tensors[i].bytes;
    return bytes;
}

static double kept_bytes(const struct tpp_program *program, const char *name)
{
    return bytes_of(program, kept_lives, name);
}

/* Hidden states of all the rank's tokens, before sequence parallelism cuts them. */
static double hidden_bytes(const struct tpp_tracer *tracer, const struct tpp_program *program)
{
    return (double)tracer->evaluator->stack->weight_bytes * program->tokens * tracer->evaluator->model->hidden_size;
}

static bool swaps_heads(const struct tpp_program *program)
{
    return program->axes.context_parallel > 1 && program->axes.context_kind == TPP_CONTEXT_ULYSSES;
}

/* Bytes of q, k and v on this rank. */
static void head_bytes(const struct tpp_tracer *tracer, const struct tpp_program *program, double *bytes)
{
    const struct tpp_model *model = tracer->evaluator->model;
    const double t = program->axes.tensor_parallel, whole = kept_bytes(program, "q, k, v");
    const double heads = model->num_attention_heads / t, groups = fmax(1, model->num_query_groups / t);
    bytes[QUERY] = whole * heads / (heads + 2 * groups);
    bytes[KEY] = bytes[VALUE] = whole * groups / (heads + 2 * groups);
}

bool tpp_trace_layer_has_order(const struct tpp_tracer *tracer, const struct tpp_program *program)
{
    const struct tpp_model *model = tracer->evaluator->model;
    const double mlp = bytes_of(program, 1U << TPP_TENSOR_BACKWARD_MLP, NULL);
    const double attention = bytes_of(program, 1U << TPP_TENSOR_BACKWARD_ATTENTION, NULL);
    return tracer->evaluator->stack->transformer_engine && program->axes.kind == TPP_LAYER_DECODER &&
           model->kv_lora_rank == 0 && tracer->strategy.recompute == TPP_RECOMPUTE_NONE &&
           !tracer->order.splits_backward && mlp >= attention;
}

/* q, k and v as attention keeps them; returns the product they are cut from, which lives until attention returns (v is a
 * view of it). */
static uint32_t forward_heads(struct tpp_tracer *tracer, const struct tpp_program *program, struct tpp_tensor_ids *kept)
{
    static const char *const names[NUM_HEADS] = {"query", "key", "value"};
    const bool swapped = swaps_heads(program);
    const size_t before = tracer->scratch.count;
    double bytes[NUM_HEADS];
    uint32_t heads[NUM_HEADS];
    head_bytes(tracer, program, bytes);
    const uint32_t product = make(tracer, "q, k, v product", kept_bytes(program, "q, k, v"));
    const uint32_t reshaped = make(tracer, "query reshaped", bytes[QUERY]);
    heads[QUERY] = make(tracer, names[QUERY], bytes[QUERY]);
    tpp_trace_release(tracer, reshaped);
    heads[KEY] = make(tracer, names[KEY], bytes[KEY]);
    heads[VALUE] = make(tracer, names[VALUE], bytes[VALUE]);
    for (int i = 0; i < NUM_HEADS; i++) {
        if (swapped) { /* a copy by ranks, what arrives, and that in the sequence's order */
            tpp_ids_push(tracer, &tracer->scratch, heads[i]);
            tpp_ids_push(tracer, &tracer->scratch, make(tracer, "heads by rank", bytes[i]));
            tpp_ids_push(tracer, &tracer->scratch, make(tracer, "heads received", bytes[i]));
            heads[i] = tpp_trace_allocate(tracer, names[i], bytes[i], TPP_TRACE_COMMUNICATION_STREAM);
        }
        tpp_ids_push(tracer, kept, heads[i]);
    }
    tpp_ids_release(tracer, &tracer->scratch, before);
    return product;
}

/* Attention's result goes back to the ranks of its tokens: a copy in the order of the chunks, what arrives. */
static void return_heads(struct tpp_tracer *tracer, double bytes)
{
    const uint32_t ordered = tpp_trace_allocate(tracer, "heads in order", bytes, TPP_TRACE_COMMUNICATION_STREAM);
    const uint32_t received = make(tracer, "heads received", bytes);
    tpp_trace_release(tracer, ordered);
    tpp_trace_release(tracer, received);
}

void tpp_trace_forward_in_order(struct tpp_tracer *tracer, const struct tpp_program *program, struct tpp_tensor_ids *kept)
{
    uint32_t product = TPP_NO_TENSOR; /* of q, k and v */
    for (uint32_t i = 0; i < program->num_tensors; i++) {
        const struct tpp_tensor *tensor = &program->tensors[i];
        if (!is_kept(tensor))
            continue;
        if (is_named(tensor, "q, k, v")) {
            product = forward_heads(tracer, program, kept);
            continue;
        }
        /* Sums of the residual and a projection; what is gathered for a product goes when that is done. */
        const bool is_mlp = is_named(tensor, "mlp norm input"), is_sum = is_mlp || tensor->life == TPP_TENSOR_INPUT;
        const bool is_gathered = program->axes.sequence_parallel && (is_named(tensor, "mlp in output"));
        const uint32_t before =
            make(tracer, is_sum ? "projection" : "gathered norm output",
                 is_sum || is_gathered ? hidden_bytes(tracer, program) : 0);
        if (is_mlp) {
            tpp_trace_release(tracer, product);
            product = TPP_NO_TENSOR;
        }
        if (is_named(tensor, "attention output") && swaps_heads(program))
            return_heads(tracer, tensor->bytes);
        tpp_ids_push(tracer, kept, make(tracer, tensor->name, tensor->bytes));
        tpp_trace_release(tracer, before);
    }
    tpp_trace_release(tracer, product);
}

enum part { MLP_ACTIVATION, MLP_IN, MLP_REST, ATTENTION_CORE, ATTENTION_REST };

static enum part part_of(const struct tpp_tensor *tensor, bool is_mlp)
{
    if (is_mlp)
        return is_named(tensor, "activation output") ? MLP_ACTIVATION
               : is_named(tensor, "mlp in output")   ? MLP_IN
                                                     : MLP_REST;
    const bool is_entry = tensor->life == TPP_TENSOR_INPUT || is_named(tensor, "attention norm output");
    return is_entry ? ATTENTION_REST : ATTENTION_CORE;
}

/* Frees what the layer keeps for this part; `ids` are the layer's, as tpp_trace_forward_in_order wrote them. */
static void release_part(struct tpp_tracer *tracer, const struct tpp_program *program, uint32_t *ids, enum part part)
{
    size_t next = 0;
    bool is_mlp = false;
    for (uint32_t i = 0; i < program->num_tensors; i++) {
        const struct tpp_tensor *tensor = &program->tensors[i];
        if (!is_kept(tensor))
            continue;
        is_mlp = is_mlp || is_named(tensor, "mlp norm input");
        for (int n = is_named(tensor, "q, k, v") ? NUM_HEADS : 1; n > 0; n--, next++)
            if (part_of(tensor, is_mlp) == part) {
                tpp_trace_release(tracer, ids[next]);
                ids[next] = TPP_NO_TENSOR;
            }
    }
}

/* Input gradient of a product after a norm, the norm's backward, and the sum with the residual's gradient. `outputs` (the
 * gradient of the product's output) goes before the sum is made. */
static void backward_entry(struct tpp_tracer *tracer, const struct tpp_program *program, uint32_t outputs)
{
    const double hidden = hidden_bytes(tracer, program), residual = kept_bytes(program, "layer input");
    const uint32_t gathered = make(tracer, "gathered norm output", program->axes.sequence_parallel ? hidden : 0);
    const uint32_t product = make(tracer, "gradient of the gathered norm output", program->axes.sequence_parallel ? hidden : 0);
    const uint32_t norm = make(tracer, "gradient of the norm output", residual);
    tpp_trace_release(tracer, product);
    tpp_trace_release(tracer, gathered);
    const uint32_t input = make(tracer, "gradient of the norm input", residual);
    /* The gain's gradient, in parts: a row of fp32 for each multiprocessor. */
    const double row = 4.0 * tracer->evaluator->model->hidden_size;
    tpp_trace_release(tracer, make(tracer, "parts of a norm's gradient", row * tracer->evaluator->hardware->gpu.num_sms));
    tpp_trace_release(tracer, outputs);
    tpp_trace_release(tracer, norm);
    const uint32_t sum = make(tracer, "gradient of the residual", residual);
    tpp_trace_release(tracer, input);
    tpp_trace_release(tracer, tracer->upstream);
    tracer->upstream = sum;
}

static void backward_mlp(struct tpp_tracer *tracer, const struct tpp_program *program, uint32_t *ids)
{
    const double in = bytes_of(program, 1U << TPP_TENSOR_BACKWARD_MLP, "mlp in gradient");
    const double beside = bytes_of(program, 1U << TPP_TENSOR_BACKWARD_MLP, NULL) - in;
    /* The walk's second hidden state in backward of the MLP: the gathered gradient of its output. */
    const uint32_t gathered = make(tracer, "gathered gradient", beside - kept_bytes(program, "layer input"));
    const uint32_t activation = make(tracer, "activation gradient", kept_bytes(program, "activation output"));
    release_part(tracer, program, ids, MLP_ACTIVATION);
    const uint32_t outputs = make(tracer, "mlp in gradient", in);
    tpp_trace_release(tracer, activation);
    tpp_trace_release(tracer, gathered);
    release_part(tracer, program, ids, MLP_IN);
    backward_entry(tracer, program, outputs);
    release_part(tracer, program, ids, MLP_REST);
}

static void backward_core(struct tpp_tracer *tracer, const struct tpp_program *program, uint32_t *gradients)
{
    const double context = kept_bytes(program, "attention output");
    const bool swapped = swaps_heads(program);
    double bytes[NUM_HEADS];
    head_bytes(tracer, program, bytes);
    uint32_t output = make(tracer, "attention output gradient", context);
    if (swapped) {
        const uint32_t by_rank = make(tracer, "heads by rank", context), received = make(tracer, "heads received", context);
        tpp_trace_release(tracer, output);
        output = tpp_trace_allocate(tracer, "attention output gradient", context, TPP_TRACE_COMMUNICATION_STREAM);
        tpp_trace_release(tracer, by_rank);
        tpp_trace_release(tracer, received);
    }
    for (int i = 0; i < NUM_HEADS; i++)
        gradients[i] = make(tracer, "q, k, v gradients", bytes[i]);
    /* Flash attention adds up the gradient of q in fp32. */
    tpp_trace_release(tracer, make(tracer, "query gradient sums", 4 * context / tracer->evaluator->stack->weight_bytes));
    tpp_trace_release(tracer, output);
    for (int i = 0; swapped && i < NUM_HEADS; i++)
        return_heads(tracer, bytes[i]);
}

static void backward_attention(struct tpp_tracer *tracer, const struct tpp_program *program, uint32_t *ids)
{
    uint32_t gradients[NUM_HEADS];
    double bytes[NUM_HEADS];
    const uint32_t gathered =
        make(tracer, "gathered gradient", program->axes.sequence_parallel ? hidden_bytes(tracer, program) : 0);
    head_bytes(tracer, program, bytes);
    backward_core(tracer, program, gradients);
    tpp_trace_release(tracer, gathered);
    release_part(tracer, program, ids, ATTENTION_CORE);
    for (int i = QUERY; i <= KEY; i++) { /* the rotary embedding's */
        const uint32_t turned = make(tracer, "q, k, v gradients", bytes[i]);
        tpp_trace_release(tracer, gradients[i]);
        gradients[i] = turned;
    }
    const uint32_t outputs = make(tracer, "gradient of the q, k, v product", kept_bytes(program, "q, k, v"));
    for (int i = 0; i < NUM_HEADS; i++)
        tpp_trace_release(tracer, gradients[i]);
    backward_entry(tracer, program, outputs);
    release_part(tracer, program, ids, ATTENTION_REST);
}

void tpp_trace_backward_in_order(struct tpp_tracer *tracer, const struct tpp_program *program, uint32_t *ids)
{
    if (tracer->upstream == TPP_NO_TENSOR)
        tracer->upstream = make(tracer, "gradient of the output", kept_bytes(program, "layer input"));
    backward_mlp(tracer, program, ids);
    backward_attention(tracer, program, ids);
}
