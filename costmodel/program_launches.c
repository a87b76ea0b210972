/* What the host launches for one layer and micro-batch (cost-model 5.5), part by part: CUDA graphs capture some of them.
 *
 * Kernels are counted in the sources named below, eager, memory sets and copies included. Counts of a dense layer are
 * 5.5's 16 and 30 (15.5's where launches block); those of its attention are what is left without norm, two linears,
 * activation and residual.
 *
 * In Megatron an operation takes the host 45 us, not the 6 us of a bare launch: modules, autograd nodes, views and
 * allocations come with it. It is what the blocking launches of BigScience show, where nothing hides the host (15.5).
 * Held against: GPT-OSS 20B on 16 H100 (pp 4, two micro-batches, six layers a stage: five times six layers a step) takes
 * 467 to 520 ms eager and 391 to 399 ms with attention, router and its preparation captured (Megatron-Bridge,
 * perf-cuda-graphs/card.yaml), 3.3 ms a layer for 76 of its operations: 43 us, 31 to 57. */
#include "costmodel/program_parts.h"

struct launches {
    double forward, backward;
};

static const double graph_divisor = 10; /* 5.5: graphs divide the count by 3 to 10 */

/* Layers of Megatron, in whose Python an operation costs the host many times its launch. */
static bool has_python_layers(const struct tpp_stack *stack)
{
    return stack->framework == TPP_FRAMEWORK_MEGATRON_LM || stack->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED ||
           stack->framework == TPP_FRAMEWORK_NEMO ||
           (stack->framework == TPP_FRAMEWORK_MS_SWIFT && stack->engine == TPP_ENGINE_MEGATRON);
}

static double divisor_of(const struct tpp_stack *stack, uint32_t part)
{
    const bool captured = stack->cuda_graphs && (stack->graph_parts == 0 || (stack->graph_parts & part) != 0);
    return captured ? graph_divisor : 1;
}

/* Launches that one call of C++ makes, without Python between them. */
static void add_launches(struct tpp_builder *builder, uint32_t part, double forward, double backward)
{
    const double divisor = divisor_of(builder->stack, part);
    builder->program->forward_launches += forward / divisor;
    builder->program->backward_launches += backward / divisor;
}

static void add(struct tpp_builder *builder, uint32_t part, double forward, double backward)
{
    const double divisor = divisor_of(builder->stack, part);
    if (!has_python_layers(builder->stack)) {
        add_launches(builder, part, forward, backward);
        return;
    }
    builder->program->forward_operations += forward / divisor;
    builder->program->backward_operations += backward / divisor;
}

/* Quantisation of one operand, Transformer Engine (csrc/quantizer.cpp): one cast that keeps the amax for delayed scaling;
 * a memory set, the amax, the scale and the cast for current scaling; one cast for blocks. */
static double quantise_launches(const struct tpp_builder *builder)
{
    return builder->stack->current_scaling && builder->job->precision == TPP_PRECISION_FP8 ? 4 : 1;
}

/* Beside the product's own launch: forward quantises the input, backward the gradient, once for both products. MXFP8's
 * products want the scales of both operands swizzled (csrc/extensions/gemm.cpp). Weights are kept in FP8. */
static struct launches linear_extras(const struct tpp_builder *builder)
{
    if (!tpp_precision_is_fp8(builder->job->precision))
        return (struct launches){0, 0};
    const double quantise = quantise_launches(builder), swizzle = builder->job->precision == TPP_PRECISION_MXFP8 ? 2 : 0;
    return (struct launches){quantise + swizzle, quantise + 2 * swizzle};
}

static void count_attention(struct tpp_builder *builder)
{
    const bool blocking = builder->stack->launch_blocking;
    const bool rotary = builder->model->gated_mlp || builder->model->position == TPP_POSITION_ROPE;
    const struct launches extras = linear_extras(builder);
    double forward = blocking ? (rotary ? 20 : 11) : 10, backward = blocking ? (rotary ? 33 : 20) : 19, linears = 2;
    if (tpp_builder_is_latent(builder)) {
        /* Megatron-Core, multi_latent_attention.py: query down and up (or one), key and value down and up instead of one
         * qkv product; the inner norms; rotary embedding of q and of k with their copies, keys expanded over heads. */
        const double more = builder->model->q_lora_rank > 0 ? 3 : 2, norms = builder->model->q_lora_rank > 0 ? 2 : 1;
        linears += more;
        forward += more + norms + 3;
        backward += 2 * more + norms + 3;
    }
    add(builder, TPP_GRAPH_ATTENTION, forward, backward);
    add_launches(builder, TPP_GRAPH_ATTENTION, linears * extras.forward, linears * extras.backward);
}

static void count_mlp(struct tpp_builder *builder)
{
    const bool blocking = builder->stack->launch_blocking;
    const bool rotary = builder->model->gated_mlp || builder->model->position == TPP_POSITION_ROPE;
    const struct launches extras = linear_extras(builder);
    add(builder, TPP_GRAPH_MLP, blocking ? (rotary ? 12 : 7) : 6, blocking ? (rotary ? 19 : 12) : 11);
    add_launches(builder, TPP_GRAPH_MLP, 2 * extras.forward, 2 * extras.backward);
}

/* Megatron-Core, router.py and moe_utils.py, neither fused. Forward: product 1 and two casts; softmax 1, top-k 2, the
 * probabilities and the map written by zeros, casts and scatters 6, tokens an expert 1; for the auxiliary loss scores 1,
 * top-k 2, map 4, sums, products and the log 7. Backward: the loss's scale, products and softmax 5, gather and softmax 2,
 * top-k 2, sums and casts 3, both products 2. */
static const struct launches router_launches = {27, 14};
/* With Transformer Engine's fused kernels: product 1 and two casts; scores and choice 1, tokens an expert 1, scores and loss 3.
 * Backward: the loss 2, scores 1, sums and casts 2, both products 2. */
static const struct launches fused_router_launches = {8, 7};

/* The host learns how much arrives before it sends: token_dispatcher.py, preprocess: sums 6, casts and copies 3, the
 * gather of counts 1, four copies to the host; DeepEP's layout 1 and maps of indices 3; HybridEP's metadata 2 and scan 1. Gathered
 * tokens: the local parts of map and probabilities 2, their sum, its cast and the copy to the host 3. */
static double preprocess_launches(enum tpp_dispatch dispatch, bool is_padded)
{
    if (is_padded)
        return 0;
    return dispatch == TPP_DISPATCH_ALL_TO_ALL   ? 14
           : dispatch == TPP_DISPATCH_ALL_GATHER ? 5
           : dispatch == TPP_DISPATCH_DEEPEP     ? 4
                                                 : 3;
}

/* All-to-all: row map 3 and permutation 1, tokens and probabilities 2, chunks sorted by expert 2; back: sort 2, exchange 1,
 * un-permutation 1. DeepEP: dispatch 3 with its notification, permutation 4; un-permutation 1, combine 2. HybridEP permutes
 * as it sends: 2 and 2. Gathered tokens: map, probabilities and tokens 3, row map 3 and permutation 1; un-permutation 2, reduction 1.
 * Backward runs the same with the maps known. */
static struct launches exchange_launches(enum tpp_dispatch dispatch)
{
    switch (dispatch) {
    case TPP_DISPATCH_ALL_TO_ALL:
        return (struct launches){12, 9};
    case TPP_DISPATCH_DEEPEP:
        return (struct launches){10, 7};
    case TPP_DISPATCH_ALL_GATHER:
        return (struct launches){10, 6};
    default:
        return (struct launches){4, 4};
    }
}

/* Products of one linear of all local experts. Transformer Engine's GroupedLinear starts one cuBLAS product an expert, on
 * several streams (nvte_multi_tensor_gemm), and quantises expert by expert, but for delayed scaling, which casts all at
 * once, and the swizzle. torchtitan's torch._grouped_mm is one kernel after the one that makes its offsets. Elsewhere
 * each expert is a module of its own. */
static struct launches expert_linear_launches(const struct tpp_builder *builder, double experts)
{
    if (builder->stack->framework == TPP_FRAMEWORK_TORCHTITAN)
        experts = 1;
    const struct launches extras = linear_extras(builder);
    const bool fused_casts = builder->job->precision == TPP_PRECISION_FP8 && !builder->stack->current_scaling;
    const double swizzle = builder->job->precision == TPP_PRECISION_MXFP8 ? 2 : 0;
    const double casts = extras.forward > 0 ? (fused_casts ? 1 : experts * quantise_launches(builder)) : 0;
    return (struct launches){experts + casts + swizzle, 2 * experts + casts + 2 * swizzle};
}

/* Loops over experts in plain PyTorch: transformers, MixtralSparseMoeBlock: mask 1, rows by torch.where 4, gathers 2,
 * activation and product 2, weighting 1, index_add 1; backward of each of the last six. */
static const struct launches expert_loop_launches = {11, 8};

/* Tensors that Transformer Engine's GroupedLinear makes for an expert beside its products: views of input and output; of the
 * gradient, of the input's gradient, and a dummy for the weight's. Each takes the host about 5 us (its pull request 865), as
 * much as a launch; for both linears of an expert 19 us forward and 33 us backward were measured on GB200 (issue 2897). */
static const struct launches expert_tensors = {2, 3};

/* From permutation to un-permutation Megatron-Core runs through Python classes of dispatcher and experts, autograd functions with all
 * the weights of a rank as arguments, and waits for counts: so many times the host time of other operations [fit]. The golden iteration
 * times of 17 of Megatron-LM's functional tests with experts (8 H100, hidden size 512: the host alone; tests/functional_tests/
 * test_cases/moe at d98e8a64) want 8; with 6 their median is predicted 13 % too fast, with 1 36 %. Held against: eager steps of
 * Megatron-Bridge, which alone would want 3 (Qwen3 on H100), 5 and 7 (on B200) and 9 (Moonlight); NeMo 25's Mixtral, 4. */
static const double expert_path_factor = 6;
/* Experts padded to a capacity: the host knows every size, so that it neither copies counts nor waits, transfers and products have equal
 * parts, and chunks are transposed instead of sorted (token_dispatcher.py, drop_and_pad, since commit f27a04f of January 2025) [fit on
 * Grok-1 of dgxc v25.05, 512 H100]. Held against: eager steps of Qwen3 235B on B200 (Megatron-Bridge 25.09), which want 2.9 and 3.3, and of
 * DeepSeek-V2's four layers (SimuMax on B200), which want 7. */
static const double padded_path_factor = 4;
/* And the router masks what an expert has no room for: top-k 2, mask 3, product 1 (moe_utils.py, apply_router_token_dropping); back: product 1. */
static const struct launches dropping_launches = {6, 1};

static void count_experts(struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    const enum tpp_dispatch dispatch = builder->program->axes.dispatch;
    const double experts = (double)model->num_experts / builder->program->axes.expert_parallel;
    const struct launches exchange = exchange_launches(dispatch), linear = expert_linear_launches(builder, experts);
    const bool loops = tpp_stack_is_plain_torch(builder->stack);
    const bool drops = builder->job->expert_capacity_factor > 0, is_padded = drops && !builder->stack->waits_when_padded;
    double linears = 2, forward = 2, backward = 2; /* norm and residual */
    if (loops || builder->stack->framework == TPP_FRAMEWORK_TORCHTITAN)
        linears = model->gated_mlp ? 3 : 2; /* gate and up apart */
    if (loops) {
        forward += experts * expert_loop_launches.forward;
        backward += experts * expert_loop_launches.backward;
    } else { /* weighted activation, and in backward the gradient of the probabilities too */
        const double waiting = is_padded ? padded_path_factor : expert_path_factor;
        const double factor = builder->stack->transformer_engine ? waiting : 1;
        forward += factor * (exchange.forward + 1);
        backward += factor * (exchange.backward + 2);
    }
    const struct launches router = builder->stack->fused_router ? fused_router_launches : router_launches;
    add(builder, TPP_GRAPH_ROUTER, router.forward + (loops ? 0 : preprocess_launches(dispatch, is_padded)), router.backward);
    if (drops)
        add(builder, TPP_GRAPH_ROUTER, dropping_launches.forward, dropping_launches.backward);
    add_launches(builder, TPP_GRAPH_MLP, linears * linear.forward, linears * linear.backward);
    if (builder->stack->transformer_engine)
        add_launches(builder, TPP_GRAPH_MLP, linears * experts * expert_tensors.forward,
                     linears * experts * expert_tensors.backward);
    if (model->expert_bias && builder->stack->transformer_engine) { /* program_moe.c, build_expert_bias */
        forward += 2 * experts + 2;
        backward += 6 * experts + 2;
    }
    if (model->shared_expert_hidden_size > 0) { /* two linears, activation, sum; and the gate's product and sigmoid */
        const struct launches extras = linear_extras(builder);
        forward += 4 + (model->shared_expert_gate ? 3 : 0);
        backward += 6 + (model->shared_expert_gate ? 5 : 0);
        add_launches(builder, TPP_GRAPH_MLP, 2 * extras.forward, 2 * extras.backward);
    }
    add(builder, TPP_GRAPH_MLP, forward, backward);
}

/* A module that selective recomputation runs again costs the host more than its own operations (Megatron-Core, random.py,
 * CheckpointWithoutOutput). Forward: states of two generators, the node, storage released, hook. Backward: states kept, set and set
 * back 6, inputs detached 1, an inner backward 1, storage filled again 2. At 45 us 0.68 ms; Moonlight's six modules on 8 H100,
 * where the host limits, 0.35 to 0.88 ms (Megatron-Bridge, perf-activation-recompute/card.yaml). */
static const struct launches recomputed_module = {5, 10};

static void count_recomputed(struct tpp_builder *builder, bool has_experts)
{
    const uint32_t modules = builder->program->axes.recompute_modules;
    const struct {
        uint32_t module;
        double times;
    } counts[] = {
        {TPP_MODULE_CORE_ATTENTION, 1},
        {TPP_MODULE_LAYER_NORM, 2},
        {TPP_MODULE_LATENT_UP, tpp_builder_is_latent(builder)},
        {TPP_MODULE_EXPERT_ACTIVATION, has_experts},
        {TPP_MODULE_MOE, has_experts},
        {TPP_MODULE_SHARED_EXPERTS, has_experts && builder->model->shared_expert_hidden_size > 0},
        {TPP_MODULE_MLP, !has_experts},
    };
    double times = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        times += (modules & counts[i].module) != 0 ? counts[i].times : 0;
    add(builder, TPP_GRAPH_MLP, times * recomputed_module.forward, times * recomputed_module.backward);
}

void tpp_count_launches(struct tpp_builder *builder, bool has_experts)
{
    count_attention(builder);
    if (has_experts)
        count_experts(builder);
    else
        count_mlp(builder);
    count_recomputed(builder, has_experts);
}
