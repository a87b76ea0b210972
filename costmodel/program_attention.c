/* The attention block of a layer without its core: projections, norms, residuals, rotary embedding, layout copies and
 * kept tensors (cost-model 2.1, 4.2, 4.4, 5.1, 5.3, 15.2, 15.9). */
#include "costmodel/program_parts.h"

#include <math.h>

/* Width of q, k and v together on one rank. */
static double qkv_width(const struct tpp_builder *builder)
{
    return builder->local_heads * builder->qk_head_dim + builder->key_width + builder->value_width;
}

/* Keys and values are there once for each query head before they are turned; a single group stays a view until then. */
static bool repeats_keys(const struct tpp_builder *builder)
{
    return tpp_framework_is_eager_between_products(builder->stack->framework) && !tpp_builder_is_latent(builder) &&
           builder->local_groups < builder->local_heads;
}

/* Width of q, k and v together as the kernel takes them. */
static double core_width(const struct tpp_builder *builder)
{
    return repeats_keys(builder) ? 3 * builder->local_heads * builder->model->head_dim : qkv_width(builder);
}

static struct tpp_linear qkv_linear(const struct tpp_builder *builder)
{
    const double d = builder->model->head_dim, query = builder->local_heads * d, key = builder->local_groups * d;
    struct tpp_linear linear = {
        .name = "qkv",
        .columns = qkv_width(builder),
        .depth = builder->hidden,
        .bias_elements = builder->model->qkv_bias ? qkv_width(builder) : 0,
        .unsaved_fraction = builder->key_width / qkv_width(builder),
    };
    if (builder->frozen) { /* q, k and v carry an adapter each */
        const bool with_key = builder->job->lora_targets != TPP_LORA_QV;
        linear.adapter_inputs = (with_key ? 3 : 2) * builder->hidden;
        linear.adapter_outputs = query + key + (with_key ? key : 0);
    }
    return linear;
}

static struct tpp_linear output_linear(const struct tpp_builder *builder)
{
    struct tpp_linear linear = {
        .name = "attention output",
        .columns = builder->hidden,
        .depth = builder->local_heads * builder->v_head_dim,
        .is_row_parallel = true,
        .bias_elements = builder->model->output_bias ? builder->hidden : 0, /* replicated */
        .unsaved_fraction = tpp_builder_is_latent(builder) && builder->model->q_lora_rank > 0 ? 0 : 1, /* fourth or fifth */
    };
    const enum tpp_lora_targets targets = builder->job->lora_targets;
    if (builder->frozen && (targets == TPP_LORA_ALL_LINEAR || targets == TPP_LORA_ATTENTION)) {
        linear.adapter_inputs = linear.depth;
        linear.adapter_outputs = builder->hidden;
    }
    return linear;
}

/* Norms, their parameters (replicated on every rank) and the q/k norms. */
static void build_norm_parameters(struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    const double elements = model->norm == TPP_NORM_LAYER ? 2 : model->norm == TPP_NORM_NO_PARAMETERS ? 0 : 1;
    builder->program->parameters += model->norms_per_layer * elements * builder->hidden + model->qk_norm_elements;
    builder->program->num_tensors_of_parameters += model->norms_per_layer;
}

static void build_core_tensors(struct tpp_builder *builder)
{
    const double n = builder->tokens, heads = builder->local_heads, s = (double)builder->job->sequence_length;
    switch (builder->stack->attention) {
    case TPP_ATTENTION_EAGER: /* 7 a s / t [15.9] */
        tpp_builder_kept(builder, "attention scores", TPP_MODULE_CORE_ATTENTION, 7 * heads * s * n);
        break;
    case TPP_ATTENTION_FUSED_SOFTMAX: /* softmax output 2; with dropout its output 2 and mask 1 more [S3] */
        tpp_builder_kept(builder, "attention scores", TPP_MODULE_CORE_ATTENTION,
                           (builder->job->attention_dropout > 0 ? 5 : 2) * heads * s * n);
        break;
    default:
        if (builder->stack->attention_bias)
            tpp_builder_kept(builder, "attention bias", TPP_MODULE_CORE_ATTENTION, 2 * heads * s * n);
        tpp_builder_kept(builder, "softmax log-sum-exp", TPP_MODULE_CORE_ATTENTION, 4 * heads * n);
        if (!builder->stack->policy_repeats_attention)
            tpp_builder_tensor(builder, "softmax log-sum-exp", TPP_TENSOR_SELECTED, 4 * heads * n);
        break;
    }
}

void tpp_build_attention_tensors(struct tpp_builder *builder)
{
    const struct tpp_stack *stack = builder->stack;
    const double n = builder->tokens, q = builder->norm_share, h = builder->hidden, w = stack->weight_bytes;
    const double context = builder->local_heads * builder->v_head_dim;
    const enum tpp_context_kind kind = builder->program->axes.context_kind;
    const bool swaps_heads = kind == TPP_CONTEXT_ULYSSES || kind == TPP_CONTEXT_HYBRID;
    const struct tpp_linear first = qkv_linear(builder), second = output_linear(builder);
    if (tpp_builder_is_latent(builder))
        tpp_build_latent_tensors(builder);
    else
        tpp_build_linear_parameters(builder, &first);
    tpp_build_linear_parameters(builder, &second);
    build_norm_parameters(builder);
    tpp_builder_tensor(builder, "layer input", TPP_TENSOR_INPUT, (stack->upcasts_states ? 4 : w) * h * q * n);
    tpp_builder_kept(builder, "attention norm output", TPP_MODULE_LAYER_NORM,
                     tpp_builder_input_bytes(builder) * h * tpp_builder_kept_share(builder, 3) * n);
    if (stack->norm_kernel == TPP_KERNEL_EAGER)
        tpp_builder_tensor(builder, "attention norm eager copies", TPP_TENSOR_EAGER, 10 * h * q * n);
    tpp_builder_kept(builder, "q, k, v", tpp_builder_is_latent(builder) ? TPP_MODULE_LATENT_UP : 0, w * core_width(builder) * n);
    if (builder->model->qk_norm)
        tpp_builder_tensor(builder, "q and k before their norms", TPP_TENSOR_SAVED,
                           w * (builder->local_heads + builder->local_groups) * builder->model->head_dim * n);
    tpp_builder_tensor(builder, "attention output", TPP_TENSOR_SAVED, w * context * n);
    if (tpp_builder_input_bytes(builder) < w) /* the kernel keeps its result in 16 bits, the projection its input */
        tpp_builder_tensor(builder, "quantised attention output", TPP_TENSOR_SAVED,
                           tpp_builder_input_bytes(builder) * context * n);
    if (swaps_heads && builder->program->axes.context_parallel > 1)
        tpp_builder_tensor(builder, "attention output before all-to-all", TPP_TENSOR_SAVED, w * context * n);
    build_core_tensors(builder);
    if (builder->job->hidden_dropout > 0)
        tpp_builder_tensor(builder, "attention dropout mask", TPP_TENSOR_SAVED, h * q * n);
    tpp_builder_tensor(builder, "attention kept by policy", TPP_TENSOR_SELECTED,
                       w * ((stack->policy_repeats_attention ? 1 : 2) * context + builder->key_width) * n);
    /* Backward: dO, dQ, dK, dV, the fp32 dQ accumulator of flash attention, the gathered norm output (4.4). */
    const bool flash = stack->attention < TPP_FLASH_KERNEL_COUNT;
    const double accumulators =
        tpp_flash2_accumulators(stack->accumulator_blocks, builder->program->axes.micro_batch_size * builder->local_heads,
                                stack->deterministic && stack->attention == TPP_ATTENTION_FLASH2);
    tpp_builder_tensor(builder, "q, k, v gradients", TPP_TENSOR_BACKWARD_ATTENTION,
                       (w * (core_width(builder) + context) + (flash ? 4 * accumulators * context : 0)) * n);
    tpp_builder_tensor(builder, "gathered norm output", TPP_TENSOR_BACKWARD_ATTENTION, 2 * w * h * n);
}

/* Elements of q and k that the rotary embedding turns; of latent attention a part of q, and one shared key. */
static double rotated_width(const struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    if (tpp_builder_is_latent(builder))
        return (builder->local_heads + 1) * model->qk_rope_head_dim;
    return (builder->local_heads + (repeats_keys(builder) ? builder->local_heads : builder->local_groups)) * model->head_dim;
}

/* Rotary embedding of q and k, the q/k norms, and the copies into the kernel's layout. */
static void build_qkv_pointwise(struct tpp_builder *builder, enum tpp_section section)
{
    const struct tpp_model *model = builder->model;
    const double n = builder->tokens, rotated = rotated_width(builder);
    const bool eager = builder->stack->rope_kernel == TPP_KERNEL_EAGER, forward = section == TPP_SECTION_FORWARD;
    /* Five operations forward: two products, a half's sign, the halves joined, a sum; backward the same five, but where halves were
       cut by slices, whose gradients are zero-filled, which is the 24 of 15.2. */
    const bool unbinds = tpp_framework_is_eager_between_products(builder->stack->framework);
    if (repeats_keys(builder) && builder->local_groups > 1)
        tpp_builder_memory(builder, "repeated keys and values", section, TPP_PART_POINTWISE,
                           4 * (builder->local_heads + builder->local_groups) * model->head_dim * n, 2);
    if (model->position == TPP_POSITION_ROPE)
        tpp_builder_memory(builder, "rotary embedding", section, TPP_PART_POINTWISE,
                           (eager ? (forward || unbinds ? 20 : 24) : 4) * rotated * n, eager ? (unbinds ? 10 : 6) : 1);
    if (model->qk_norm)
        tpp_builder_memory(builder, "q and k norms", section, TPP_PART_POINTWISE, (forward ? 4 : 6) * rotated * n, 2);
    if (!builder->stack->qkv_views)
        tpp_builder_memory(builder, "q, k, v layout", section, TPP_PART_POINTWISE, 4 * core_width(builder) * n, 3);
    else if (!forward)
        tpp_builder_memory(builder, "q, k, v gradients", section, TPP_PART_POINTWISE, 4 * qkv_width(builder) * n, 1);
}

/* Results of norms, both products and attention; backward their gradients. */
static void build_attention_fills(struct tpp_builder *builder, enum tpp_section section)
{
    const struct tpp_model *model = builder->model;
    const double context = builder->local_heads * builder->v_head_dim;
    const double norms = model->norms_per_layer * builder->hidden * builder->norm_share;
    tpp_build_fills(builder, section, (norms + qkv_width(builder) + context + builder->hidden) * builder->tokens,
                    model->norms_per_layer + 3);
}

void tpp_build_attention_forward(struct tpp_builder *builder)
{
    const struct tpp_linear first = qkv_linear(builder), second = output_linear(builder);
    builder->modules |= TPP_MODULE_LAYER_NORM;
    tpp_build_norm(builder, TPP_SECTION_FORWARD, builder->model->norms_per_layer);
    builder->modules &= ~(uint32_t)TPP_MODULE_LAYER_NORM;
    if (tpp_builder_is_latent(builder)) {
        tpp_build_latent_forward(builder);
    } else {
        tpp_build_tensor_entry_forward(builder, "attention");
        tpp_build_linear_forward(builder, &first);
    }
    if (tpp_builder_is_latent(builder))
        builder->modules |= TPP_MODULE_LATENT_UP;
    build_qkv_pointwise(builder, TPP_SECTION_FORWARD);
    builder->modules &= ~(uint32_t)TPP_MODULE_LATENT_UP;
    tpp_build_core_forward(builder);
    tpp_build_linear_forward(builder, &second);
    tpp_build_tensor_exit_forward(builder, "attention");
    const uint32_t residuals = builder->program->num_ops;
    tpp_build_residual(builder, TPP_SECTION_FORWARD);
    tpp_builder_skip_again(builder, residuals, 0.5); /* the one behind the MLP */
    build_attention_fills(builder, TPP_SECTION_FORWARD);
    tpp_build_attention_upcast(builder, TPP_SECTION_FORWARD, &first, rotated_width(builder));
}

void tpp_build_attention_backward(struct tpp_builder *builder)
{
    const struct tpp_linear first = qkv_linear(builder), second = output_linear(builder);
    int dgrad, wgrad;
    tpp_build_residual(builder, TPP_SECTION_BACKWARD);
    tpp_build_tensor_exit_backward(builder, "attention");
    tpp_build_linear_backward(builder, &second, NULL, NULL);
    tpp_build_core_backward(builder);
    build_qkv_pointwise(builder, TPP_SECTION_BACKWARD);
    if (tpp_builder_is_latent(builder)) {
        tpp_build_latent_backward(builder);
    } else {
        tpp_build_linear_backward(builder, &first, &dgrad, &wgrad);
        const bool is_one = builder->model->num_query_groups == builder->model->num_attention_heads &&
                            !builder->stack->tensor_parallel_copies;
        tpp_build_tensor_entry_backward(builder, "attention", is_one ? 1 : 3, dgrad, wgrad);
    }
    tpp_build_norm(builder, TPP_SECTION_BACKWARD, builder->model->norms_per_layer);
    build_attention_fills(builder, TPP_SECTION_BACKWARD);
    tpp_build_attention_upcast(builder, TPP_SECTION_BACKWARD, &first, rotated_width(builder));
}
