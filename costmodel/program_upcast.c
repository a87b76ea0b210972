/* Hidden states in fp32 around 16-bit products: what peft's prepare_model_for_kbit_training (peft/utils/other.py) makes of a
 * quantised model. It casts every 16-bit parameter up, embedding and norms with it, so that the residual stream is fp32;
 * fms-acceleration (framework_plugin_bnb.py) calls the casts that follow extraneous and avoids them. bitsandbytes then takes the
 * type of its first input as its compute type (nn/modules.py, Linear4bit.set_compute_type): under autocast the dequantised weights
 * are cast to fp32 and back before the product, 6 bytes each way, in forward alone; its output is cast up again.
 *
 * Bytes beyond those of 16-bit states, a cast 6: kernels that run in fp32 move twice as much. Checked by
 * tests/unit/test_program_bytes.c; the same step with and without, Mistral 7B on A100 (fms-acceleration, a100_80gb.csv): 1.09 s
 * longer for 16384 tokens, 2.03 for 32768. */
#include "costmodel/program_parts.h"

/* An adapter drops its input in fp32, 4 more, and casts it down. */
static const double cast_bytes = 6, weight_cast_bytes = 12, adapter_bytes = 10;

static void add(struct tpp_builder *builder, enum tpp_section section, double bytes, double kernels)
{
    tpp_builder_memory(builder, "casts of fp32 states", section, TPP_PART_POINTWISE, bytes, kernels);
}

static void add_weights(struct tpp_builder *builder, enum tpp_section section, double weights, double matrices)
{
    if (section == TPP_SECTION_FORWARD)
        add(builder, section, weight_cast_bytes * weights, 2 * matrices);
}

/* q, k and v have an input cast and an output; the kernel wants 16 bits again; the output product is handed them. Sums: two
 * residuals, 4 and 6 forward, 8 back; two of input gradients, 6 each. The two norms save a cast up and down, 12, and multiply their
 * weight in fp32, 4. */
void tpp_build_attention_upcast(struct tpp_builder *builder, enum tpp_section section, const struct tpp_linear *qkv,
                                double rotated)
{
    if (!builder->stack->upcasts_states)
        return;
    const bool forward = section == TPP_SECTION_FORWARD, eager = builder->stack->rope_kernel == TPP_KERNEL_EAGER;
    const double h = builder->hidden, rotary = eager ? (forward ? 20 : 24) : 4;
    const double adapters = adapter_bytes * qkv->adapter_inputs;
    add(builder, section,
        builder->tokens * (3 * cast_bytes * h + 2 * cast_bytes * qkv->columns + rotary * rotated + adapters +
                           (forward ? 10 : 20) * h - 2 * 8 * h),
        9);
    add_weights(builder, section, qkv->columns * qkv->depth, 3);
}

/* Gate and up have an input cast and an output each, the product back both once; the activation runs in fp32 between. A sum of
 * the two inputs' gradients, 6. What routes rows to experts in fp32: gather 4, weighting 4, sum 6. */
void tpp_build_mlp_upcast(struct tpp_builder *builder, enum tpp_section section, double rows, double width, double experts,
                          double adapted)
{
    if (!builder->stack->upcasts_states)
        return;
    const bool forward = section == TPP_SECTION_FORWARD, gated = builder->model->gated_mlp;
    const double matrices = gated ? 2 : 1, h = builder->hidden;
    const double activation = gated ? (forward ? 10 : 16) : (forward ? 4 : 6);
    const double routing = experts > 0 ? 14 : 0, sums = gated && !forward ? 6 : 0;
    add(builder, section,
        rows * ((cast_bytes * (matrices + 1) + sums + routing) * h + (cast_bytes * (matrices + 1) + activation) * width +
                adapter_bytes * adapted),
        2 * (matrices + 1) * (experts > 0 ? experts : 1));
    add_weights(builder, section, (matrices + 1) * h * width * (experts > 0 ? experts : 1),
                (matrices + 1) * (experts > 0 ? experts : 1));
}
