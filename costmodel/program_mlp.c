/* The dense MLP of a layer: parameters, kept tensors, operations (cost-model 2.1, 4.2, 4.4, 5.1, 5.3, 15.2, 15.9). */
#include "costmodel/program_parts.h"

static bool has_mlp_adapters(const struct tpp_builder *builder)
{
    return builder->frozen && builder->job->lora_targets == TPP_LORA_ALL_LINEAR;
}

/* Gate and up projection as one product (column-parallel); plain: one matrix. */
static struct tpp_linear mlp_in(const struct tpp_builder *builder)
{
    const double matrices = builder->model->gated_mlp ? 2 : 1;
    struct tpp_linear linear = {
        .name = "mlp in",
        .columns = matrices * builder->local_ffn,
        .depth = builder->hidden,
        .bias_elements = builder->model->mlp_bias ? matrices * builder->local_ffn : 0,
        .unsaved_fraction = 1 - 1 / matrices,
    };
    if (has_mlp_adapters(builder)) {
        linear.adapter_inputs = matrices * builder->hidden;
        linear.adapter_outputs = linear.columns;
    }
    return linear;
}

static struct tpp_linear mlp_out(const struct tpp_builder *builder)
{
    struct tpp_linear linear = {
        .name = "mlp out",
        .columns = builder->hidden,
        .depth = builder->local_ffn,
        .is_row_parallel = true,
        .bias_elements = builder->model->mlp_bias ? builder->hidden : 0, /* replicated */
    };
    if (has_mlp_adapters(builder)) {
        linear.adapter_inputs = builder->local_ffn;
        linear.adapter_outputs = builder->hidden;
    }
    return linear;
}

void tpp_build_activation(struct tpp_builder *builder, enum tpp_section section, double elements)
{
    const bool gated = builder->model->gated_mlp;
    const bool eager = gated && builder->stack->activation_kernel == TPP_KERNEL_EAGER;
    /* Halves of one product are cut as views; autograd joins their gradients by a copy, after two products and silu's backward. */
    const bool joins = eager && tpp_framework_is_eager_between_products(builder->stack->framework);
    const double forward = eager ? 10 : gated ? 6 : 4, backward = joins ? 26 : eager ? 16 : gated ? 10 : 6;
    const bool is_forward = section == TPP_SECTION_FORWARD;
    tpp_builder_memory(builder, "activation", section, TPP_PART_POINTWISE, (is_forward ? forward : backward) * elements,
                       joins && !is_forward ? 4 : eager ? 2 : 1);
}

/* Megatron-Core: the gradient of the MLP-in output, the gathered norm output and its gradient. 4.4 has the first twice, but
 * the gradient of the activation takes the place of its output, which the product before has just freed. Plain autograd:
 * the gradients of the MLP-in output and of the activation; an eager activation has no more at once, the product's backward
 * those of its three tensors, the activation's of the same three. */
static void build_backward_tensors(struct tpp_builder *builder, double in)
{
    const double n = builder->tokens, w = builder->stack->weight_bytes, f = builder->local_ffn;
    if (tpp_stack_is_plain_torch(builder->stack)) {
        tpp_builder_tensor(builder, "mlp gradients", TPP_TENSOR_BACKWARD_MLP, w * (in + f) * n);
        return;
    }
    tpp_builder_tensor(builder, "mlp in gradient", TPP_TENSOR_BACKWARD_MLP, w * in * n);
    tpp_builder_tensor(builder, "gathered norm output", TPP_TENSOR_BACKWARD_MLP, 2 * w * builder->hidden * n);
}

void tpp_build_mlp_tensors(struct tpp_builder *builder)
{
    const struct tpp_stack *stack = builder->stack;
    const double n = builder->tokens, q = builder->norm_share, f = builder->local_ffn, h = builder->hidden;
    const double w = stack->weight_bytes, in = builder->model->gated_mlp ? 2 * f : f;
    const struct tpp_linear first = mlp_in(builder), second = mlp_out(builder);
    const bool has_weight_gradient = !builder->frozen || has_mlp_adapters(builder); /* else no product keeps its input */
    tpp_build_linear_parameters(builder, &first);
    tpp_build_linear_parameters(builder, &second);
    if (builder->model->gated_mlp && tpp_stack_is_plain_torch(stack)) /* gate and up are linears of their own */
        builder->program->num_tensors_of_parameters += first.bias_elements > 0 ? 2 : 1;
    tpp_builder_tensor(builder, "mlp norm input", TPP_TENSOR_SAVED, w * h * q * n);
    if (has_weight_gradient)
        tpp_builder_kept(builder, "mlp norm output", TPP_MODULE_LAYER_NORM,
                         tpp_builder_input_bytes(builder) * h * tpp_builder_kept_share(builder, builder->model->gated_mlp ? 2 : 1) * n);
    if (stack->norm_kernel == TPP_KERNEL_EAGER)
        tpp_builder_tensor(builder, "mlp norm eager copies", TPP_TENSOR_EAGER, 10 * h * q * n);
    tpp_builder_kept(builder, "mlp in output", TPP_MODULE_MLP, w * in * n);
    if (has_weight_gradient)
        tpp_builder_kept(builder, "activation output", TPP_MODULE_MLP, tpp_builder_input_bytes(builder) * f * n);
    const bool eager = builder->model->gated_mlp && stack->activation_kernel == TPP_KERNEL_EAGER;
    if (eager)
        tpp_builder_tensor(builder, "activation eager copy", TPP_TENSOR_SAVED, 2 * f * n);
    if (builder->job->hidden_dropout > 0)
        tpp_builder_tensor(builder, "mlp dropout mask", TPP_TENSOR_SAVED, h * q * n);
    /* torchtitan's selective policy keeps every second product: gate and down (4.2 E). */
    tpp_builder_tensor(builder, "mlp kept by policy", TPP_TENSOR_SELECTED,
                       (w * f + w * h * q) * n);
    build_backward_tensors(builder, in);
}

void tpp_build_mlp_forward(struct tpp_builder *builder)
{
    const struct tpp_linear first = mlp_in(builder), second = mlp_out(builder);
    builder->modules |= TPP_MODULE_MLP;
    tpp_build_tensor_entry_forward(builder, "mlp");
    tpp_build_linear_forward(builder, &first);
    tpp_build_activation(builder, TPP_SECTION_FORWARD, builder->local_ffn * builder->tokens);
    const uint32_t first_unneeded = builder->program->num_ops;
    tpp_build_linear_forward(builder, &second);
    tpp_build_tensor_exit_forward(builder, "mlp");
    tpp_builder_skip_again(builder, first_unneeded, 1);
    tpp_build_mlp_upcast(builder, TPP_SECTION_FORWARD, builder->tokens, builder->local_ffn, 0,
                         first.adapter_inputs + second.adapter_inputs);
    tpp_build_fills(builder, TPP_SECTION_FORWARD, (first.columns + builder->hidden) * builder->tokens, 2);
    builder->modules &= ~(uint32_t)TPP_MODULE_MLP;
}

void tpp_build_mlp_backward(struct tpp_builder *builder)
{
    const struct tpp_linear first = mlp_in(builder), second = mlp_out(builder);
    int dgrad, wgrad;
    tpp_build_tensor_exit_backward(builder, "mlp");
    tpp_build_linear_backward(builder, &second, NULL, NULL);
    tpp_build_activation(builder, TPP_SECTION_BACKWARD, builder->local_ffn * builder->tokens);
    tpp_build_linear_backward(builder, &first, &dgrad, &wgrad);
    tpp_build_tensor_entry_backward(builder, "mlp", builder->model->gated_mlp ? 2 : 1, dgrad, wgrad);
    tpp_build_fills(builder, TPP_SECTION_BACKWARD, (second.depth + builder->hidden) * builder->tokens, 2);
    tpp_build_mlp_upcast(builder, TPP_SECTION_BACKWARD, builder->tokens, builder->local_ffn, 0,
                         first.adapter_inputs + second.adapter_inputs);
}
