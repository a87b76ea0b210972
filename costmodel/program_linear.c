/* Linear layers, norms and residuals, and the tensor-parallel collectives around them (cost-model 5.1, 5.3, 7, 15.2). */
#include "costmodel/program_parts.h"

/* Traffic of each quantised parameter in every pass, at the rate of element-wise kernels. It moves 2.6 B (0.56 read, 2 written), and
 * 15.8 says 4.5; bitsandbytes' kernel is slower than its traffic. Steps of two batch sizes on one GPU leave 0.15 s that does not
 * grow with them, of adapters on 16-bit weights 0.05: 7.0 and 7.5 B [fit on Mistral 7B and Llama 3 8B, eight rows of S23]. */
static const double dequantise_bytes = 7;

double tpp_linear_tokens(const struct tpp_builder *builder, const struct tpp_linear *linear)
{
    return linear->tokens > 0 ? linear->tokens : builder->tokens;
}

void tpp_build_linear_parameters(struct tpp_builder *builder, const struct tpp_linear *linear)
{
    struct tpp_program *program = builder->program;
    const double weights = linear->columns * linear->depth;
    program->parameters += weights + linear->bias_elements;
    program->linear_parameters += weights;
    program->num_tensors_of_parameters += linear->bias_elements > 0 ? 2 : 1;
    if (builder->frozen && tpp_linear_has_adapter(linear))
        tpp_build_adapter_parameters(builder, linear);
    /* One cached bf16 buffer for each distinct weight shape (4.4, Transformer Engine with fused wgrad accumulation). */
    if (builder->stack->transformer_engine && !builder->frozen && builder->stack->gradient_bytes == 4)
        tpp_builder_tensor(builder, linear->name, TPP_TENSOR_DUMMY, 2 * weights);
}

/* Autocast makes a 16-bit copy of an fp32 weight for every product (torch caches those of leaves alone, and the views that FSDP
 * hands out are none), and its backward an fp32 gradient of the 16-bit one. */
static void build_weight_cast(struct tpp_builder *builder, const struct tpp_linear *linear, enum tpp_section section)
{
    const struct tpp_stack *stack = builder->stack;
    if (stack->gathered_linear_bytes > stack->weight_bytes)
        tpp_builder_memory(builder, "weight cast", section, TPP_PART_POINTWISE,
                           (stack->gathered_linear_bytes + stack->weight_bytes) * linear->columns * linear->depth, 1);
}

void tpp_build_dequantise(struct tpp_builder *builder, enum tpp_section section, double weights, double matrices)
{
    if (builder->job->task == TPP_TASK_QLORA)
        tpp_builder_memory(builder, "dequantise", section, TPP_PART_POINTWISE, dequantise_bytes * weights, matrices);
}

int tpp_build_linear_forward(struct tpp_builder *builder, const struct tpp_linear *linear)
{
    const double n = tpp_linear_tokens(builder, linear);
    tpp_build_dequantise(builder, TPP_SECTION_FORWARD, linear->columns * linear->depth, 1);
    build_weight_cast(builder, linear, TPP_SECTION_FORWARD);
    const int gemm = tpp_builder_gemm(builder, linear->name, TPP_SECTION_FORWARD, TPP_PART_LINEAR, n, linear->columns,
                                      linear->depth);
    if (linear->unsaved_fraction > 0) {
        builder->program->ops[gemm].modules |= TPP_MODULE_UNSAVED;
        builder->program->ops[gemm].repeated_fraction = linear->unsaved_fraction;
    }
    if (builder->frozen && tpp_linear_has_adapter(linear))
        tpp_build_adapter_forward(builder, linear);
    return gemm;
}

/* The gradient of a bias is the column sum of the output's gradient: a kernel of its own that reads it once
 * (torch.nn.Linear under autograd; Megatron's LinearWithGradAccumulationAndAsyncCommunication: grad_output.sum(dim=0)).
 * Transformer Engine takes it from the epilogue of the weight gradient's product. */
static void build_bias_gradient(struct tpp_builder *builder, const struct tpp_linear *linear)
{
    const double share = linear->is_row_parallel ? builder->norm_share : 1; /* added after the reduction */
    const double outputs = tpp_linear_tokens(builder, linear) * share * linear->bias_elements;
    if (outputs > 0 && !builder->frozen && !builder->stack->transformer_engine)
        tpp_builder_memory(builder, "bias gradient", TPP_SECTION_WEIGHT, TPP_PART_POINTWISE,
                           builder->stack->weight_bytes * outputs, 1);
}

void tpp_build_linear_backward(struct tpp_builder *builder, const struct tpp_linear *linear, int *dgrad, int *wgrad)
{
    const double n = tpp_linear_tokens(builder, linear);
    tpp_build_dequantise(builder, TPP_SECTION_BACKWARD, linear->columns * linear->depth, 1);
    const int input = tpp_builder_gemm(builder, linear->name, TPP_SECTION_BACKWARD, TPP_PART_LINEAR, n, linear->depth,
                                       linear->columns);
    int weight = TPP_NO_OP;
    if (!builder->frozen) {
        weight = tpp_builder_gemm(builder, linear->name, TPP_SECTION_WEIGHT, TPP_PART_LINEAR, linear->columns,
                                  linear->depth, n);
        build_weight_cast(builder, linear, TPP_SECTION_WEIGHT);
        build_bias_gradient(builder, linear);
    } else if (tpp_linear_has_adapter(linear)) {
        tpp_build_adapter_backward(builder, linear);
    }
    if (dgrad)
        *dgrad = input;
    if (wgrad)
        *wgrad = weight;
}

/* Bytes of one activation of the micro-batch, n h elements of the compute type. */
static double activation_bytes(const struct tpp_builder *builder)
{
    return builder->stack->weight_bytes * builder->tokens * builder->hidden;
}

/* Transformer Engine quantises what it gathers for an FP8 product before the transfer. */
static double gathered_bytes(const struct tpp_builder *builder)
{
    const bool fp8 = tpp_precision_is_fp8(builder->job->precision) && builder->stack->transformer_engine;
    return activation_bytes(builder) * (fp8 ? 0.5 : 1);
}

void tpp_build_tensor_entry_forward(struct tpp_builder *builder, const char *name)
{
    if (builder->sequence_parallel)
        tpp_builder_collective(builder, name, TPP_SECTION_FORWARD, TPP_GROUP_TENSOR, TPP_ALL_GATHER,
                               gathered_bytes(builder), TPP_NO_OP);
}

void tpp_build_tensor_exit_forward(struct tpp_builder *builder, const char *name)
{
    tpp_builder_collective(builder, name, TPP_SECTION_FORWARD, TPP_GROUP_TENSOR,
                           builder->sequence_parallel ? TPP_REDUCE_SCATTER : TPP_ALL_REDUCE, activation_bytes(builder),
                           TPP_NO_OP);
}

void tpp_build_tensor_exit_backward(struct tpp_builder *builder, const char *name)
{
    if (builder->sequence_parallel)
        tpp_builder_collective(builder, name, TPP_SECTION_BACKWARD, TPP_GROUP_TENSOR, TPP_ALL_GATHER,
                               gathered_bytes(builder), TPP_NO_OP);
}

bool tpp_builder_overlaps_tensor(const struct tpp_builder *builder)
{
    return builder->stack->tensor_parallel_async && !builder->stack->launch_blocking;
}

double tpp_builder_input_bytes(const struct tpp_builder *builder)
{
    static const double mx_scale = 1.0 / 32, block_scale = 4.0 / 128;
    const enum tpp_precision precision = builder->job->precision;
    if (!tpp_precision_is_fp8(precision) || !builder->stack->transformer_engine || builder->frozen)
        return builder->stack->weight_bytes;
    return 1 + (precision == TPP_PRECISION_MXFP8 ? mx_scale : precision == TPP_PRECISION_FP8_BLOCK ? block_scale : 0);
}

double tpp_builder_kept_share(const struct tpp_builder *builder, uint32_t num_linears)
{
    if (builder->stack->tensor_parallel_copies && builder->tensor_parallel > 1)
        return num_linears;
    return builder->stack->tensor_parallel_autograd ? 1 : builder->norm_share;
}

void tpp_build_tensor_entry_backward(struct tpp_builder *builder, const char *name, uint32_t num_linears, int dgrad,
                                     int wgrad)
{
    const bool autograd = builder->stack->tensor_parallel_autograd;
    const bool async = tpp_builder_overlaps_tensor(builder);
    const double bytes = activation_bytes(builder);
    if (!builder->sequence_parallel) {
        for (uint32_t i = 0; i < (autograd ? num_linears : 1); i++)
            tpp_builder_collective(builder, name, TPP_SECTION_BACKWARD, TPP_GROUP_TENSOR, TPP_ALL_REDUCE, bytes,
                                   async ? wgrad : TPP_NO_OP);
        return;
    }
    if (!builder->frozen && !autograd) /* the saved norm output is gathered again for wgrad only */
        tpp_builder_collective(builder, name, TPP_SECTION_BACKWARD, TPP_GROUP_TENSOR, TPP_ALL_GATHER,
                               gathered_bytes(builder), async ? dgrad : TPP_NO_OP);
    tpp_builder_collective(builder, name, TPP_SECTION_BACKWARD, TPP_GROUP_TENSOR, TPP_REDUCE_SCATTER, bytes,
                           async ? wgrad : TPP_NO_OP);
}

void tpp_build_fills(struct tpp_builder *builder, enum tpp_section section, double elements, double num_tensors)
{
    if (builder->stack->deterministic && builder->stack->transformer_engine)
        tpp_builder_memory(builder, "fills", section, TPP_PART_POINTWISE, builder->stack->weight_bytes * elements, num_tensors);
}

void tpp_build_norm(struct tpp_builder *builder, enum tpp_section section, double num_norms)
{
    const bool eager = builder->stack->norm_kernel == TPP_KERNEL_EAGER;
    const bool rms = builder->model->norm == TPP_NORM_RMS;
    /* Eager RMSNorm in fp32, of Hugging Face and Aleph-Alpha/scaling. Forward: cast up 6, square 8, mean 4, x times the root 8, cast
     * down 6, weight 4. Backward: of the weight's product 4, and 6 and 2 for the sum over tokens; cast 6; of the root's product 8, 12
     * and 4; of the square (self.pow(1), times 2, times the gradient) 24; sum 12; cast 6. LayerNorm under autocast is one fp32
     * kernel between a cast up (2 + 4 B) and a cast down (4 + 2 B): 20 B forward, the same and the gradients backward, 30 B. */
    const double forward = !eager ? 4 : rms ? 36 : 20, backward = !eager ? 6 : rms ? 84 : 30;
    tpp_builder_memory(builder, "norm", section, TPP_PART_POINTWISE,
                       num_norms * (section == TPP_SECTION_FORWARD ? forward : backward) * builder->hidden *
                           builder->tokens * builder->norm_share,
                       num_norms * (!eager ? 1 : rms ? 7 : 3));
}

void tpp_build_residual(struct tpp_builder *builder, enum tpp_section section)
{
    const bool dropout = builder->job->hidden_dropout > 0;
    const double forward = dropout ? 14 : 12, backward = dropout ? 10 : 8;
    tpp_builder_memory(builder, "residual", section, TPP_PART_POINTWISE,
                       (section == TPP_SECTION_FORWARD ? forward : backward) * builder->hidden * builder->tokens *
                           builder->norm_share,
                       2);
}
