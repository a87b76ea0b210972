/* Adapters of frozen linears (LoRA, QLoRA): their parameters, what they keep, their products and the kernels around them. */
#include "costmodel/program_parts.h"

bool tpp_linear_has_adapter(const struct tpp_linear *linear)
{
    return linear->adapter_inputs > 0;
}

/* Rank of all adapters of the linear together: q, k and v (gate and up) have one each. */
static double adapter_width(const struct tpp_builder *builder, const struct tpp_linear *linear)
{
    return builder->job->lora_rank * linear->adapter_inputs / linear->depth;
}

void tpp_build_adapter_parameters(struct tpp_builder *builder, const struct tpp_linear *linear)
{
    builder->program->trainable_parameters +=
        builder->job->lora_rank * (linear->adapter_inputs + linear->adapter_outputs);
    /* peft, tuners/lora/layer.py: lora_A(dropout(x)) keeps what dropout lets through, and dropout its mask of a byte. */
    if (builder->job->lora_dropout > 0)
        tpp_builder_tensor(
            builder, "adapter inputs after dropout", TPP_TENSOR_SAVED,
            (builder->stack->weight_bytes + 1) * linear->adapter_inputs * tpp_linear_tokens(builder, linear));
}

/* Bytes that an input of an adapter moves on its way to the product, and its gradient on the way back. PEFT's adapters of
 * 16-bit weights are fp32 (get_peft_model, autocast_adapter_dtype): x is cast up, dropped in fp32 (read 4, write 4, mask 1) and
 * cast down by autocast (tuners/lora/layer.py, Linear.forward); backward the same from the end. Over quantised weights, and in
 * other implementations, x stays as it is (tuners/lora/bnb.py, gptq.py, fms-acceleration's unsloth_lora/bnb/fast_lora.py). */
static double input_bytes(const struct tpp_builder *builder)
{
    const double w = builder->stack->weight_bytes;
    const bool casts = builder->stack->peft_adapters && builder->job->task == TPP_TASK_LORA && w < 4;
    const double dropped = builder->job->lora_dropout > 0 ? 2 * (casts ? 4 : w) + 1 : 0;
    return dropped + (casts ? 2 * (w + 4) : 0);
}

/* Forward: the way in; the adapter's output times the scaling in PEFT (read, write), added to the frozen product's (read, read,
 * write). Backward: the scaling, the way back, and each adapter's part of the input's gradient added to the rest. Outside plain
 * PyTorch one sum for the linear each way. */
static void build_pointwise(struct tpp_builder *builder, const struct tpp_linear *linear, enum tpp_section section)
{
    const double n = tpp_linear_tokens(builder, linear), w = builder->stack->weight_bytes;
    const bool forward = section == TPP_SECTION_FORWARD;
    if (!tpp_stack_is_plain_torch(builder->stack)) {
        tpp_builder_memory(builder, "adapter sum", section, TPP_PART_POINTWISE,
                           3 * w * n * (forward ? linear->columns : linear->depth), 1);
        return;
    }
    const double adapters = linear->adapter_inputs / linear->depth;
    const double scaling = builder->stack->peft_adapters ? 2 * w * linear->adapter_outputs : 0;
    tpp_builder_memory(builder, "adapter input", section, TPP_PART_POINTWISE,
                       input_bytes(builder) * n * linear->adapter_inputs, adapters);
    tpp_builder_memory(builder, "adapter sum", section, TPP_PART_POINTWISE,
                       n * (scaling + 3 * w * (forward ? linear->adapter_outputs : linear->adapter_inputs)),
                       adapters * (scaling > 0 ? 2 : 1));
}

void tpp_build_adapter_forward(struct tpp_builder *builder, const struct tpp_linear *linear)
{
    const double n = tpp_linear_tokens(builder, linear);
    tpp_builder_gemm(builder, "adapter", TPP_SECTION_FORWARD, TPP_PART_LINEAR, n, adapter_width(builder, linear),
                     linear->depth);
    tpp_builder_gemm(builder, "adapter", TPP_SECTION_FORWARD, TPP_PART_LINEAR, n, linear->adapter_outputs,
                     builder->job->lora_rank);
    build_pointwise(builder, linear, TPP_SECTION_FORWARD);
}

void tpp_build_adapter_backward(struct tpp_builder *builder, const struct tpp_linear *linear)
{
    const double n = tpp_linear_tokens(builder, linear), rank = builder->job->lora_rank;
    const double width = adapter_width(builder, linear);
    tpp_builder_gemm(builder, "adapter", TPP_SECTION_BACKWARD, TPP_PART_LINEAR, n, rank, linear->adapter_outputs);
    tpp_builder_gemm(builder, "adapter", TPP_SECTION_BACKWARD, TPP_PART_LINEAR, n, linear->depth, width);
    build_pointwise(builder, linear, TPP_SECTION_BACKWARD);
    tpp_builder_gemm(builder, "adapter", TPP_SECTION_WEIGHT, TPP_PART_LINEAR, linear->adapter_outputs, rank, n);
    tpp_builder_gemm(builder, "adapter", TPP_SECTION_WEIGHT, TPP_PART_LINEAR, width, linear->depth, n);
}
