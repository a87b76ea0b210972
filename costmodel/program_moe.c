/* A layer's mixture of experts: router, dispatch, grouped products, combine, shared experts (cost-model 2.2, 4.2 C, 5.1
 * "Grouped GEMM", 7 "EP"). */
#include "costmodel/program_parts.h"

#include <math.h>
#include <string.h>

/* Sizes on one rank. */
struct experts {
    double own_tokens;     /* tokens of the micro-batch that this rank routes: n_q */
    double routed;         /* token copies that leave it, and on average arrive: n_q k */
    double arriving;       /* what the network brings: the copies, or each token once for the rank's experts */
    double gathered;       /* ALL_GATHER: tokens of all ranks of the group, which each of them gets; else 0 */
    struct tpp_token_dispatch dispatch; /* bytes 0: NCCL's all-to-all of copies */
    double rows;           /* rows of one local expert's product */
    double count;          /* local experts, E / e */
    double in_width, out_width; /* of the products inside an expert: (2) f_e / et, f_e / et */
};

static struct experts experts_start(const struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    const struct tpp_layer_axes *axes = &builder->program->axes;
    const double et = axes->expert_tensor_parallel, own = builder->tokens * builder->norm_share;
    /* With a capacity every expert gets exactly that many rows, padding included; else the fullest rank decides. */
    const double capacity = builder->job->expert_capacity_factor;
    const double load = capacity > 0 ? capacity : tpp_job_expert_imbalance(builder->job, axes->expert_parallel);
    struct experts experts = {
        .own_tokens = own,
        .routed = own * model->experts_per_token * load,
        .count = (double)model->num_experts / axes->expert_parallel,
        .out_width = model->moe_ffn_hidden_size / et,
    };
    experts.in_width = (model->gated_mlp ? 2 : 1) * experts.out_width;
    experts.rows = experts.routed * et / experts.count;
    if (experts.rows < 1)
        experts.rows = 1;
    experts.arriving = experts.routed;
    if (axes->dispatch == TPP_DISPATCH_ALL_GATHER) {
        experts.gathered = axes->expert_parallel > 1 ? own * axes->expert_parallel : 0;
    } else if (axes->dispatch != TPP_DISPATCH_ALL_TO_ALL) {
        experts.dispatch = (struct tpp_token_dispatch){
            .bytes = builder->stack->weight_bytes * own * load * builder->hidden,
            .experts_per_token = model->experts_per_token,
            .num_experts = model->num_experts,
            .num_groups = model->expert_groups,
            .groups_per_token = model->groups_per_token,
        };
        experts.arriving = own * load * tpp_expected_parts(&experts.dispatch, axes->expert_parallel);
    }
    return experts;
}

static struct tpp_linear shared_in(const struct tpp_builder *builder)
{
    const double width = (double)builder->model->shared_expert_hidden_size / builder->tensor_parallel;
    return (struct tpp_linear){.name = "shared expert in", .columns = (builder->model->gated_mlp ? 2 : 1) * width,
                               .depth = builder->hidden};
}

static struct tpp_linear shared_out(const struct tpp_builder *builder)
{
    const double width = (double)builder->model->shared_expert_hidden_size / builder->tensor_parallel;
    return (struct tpp_linear){.name = "shared expert out", .columns = builder->hidden, .depth = width,
                               .is_row_parallel = true};
}

static void build_parameters(struct tpp_builder *builder, const struct experts *experts)
{
    const struct tpp_model *model = builder->model;
    struct tpp_program *program = builder->program;
    const double h = builder->hidden, one = h * (experts->in_width + experts->out_width);
    program->expert_parameters = experts->count * one;
    if (model->expert_bias)
        program->expert_parameters += experts->count * (experts->in_width + h);
    program->parameters += program->expert_parameters + h * model->num_experts +
                           (model->router_bias ? model->num_experts : 0) + (model->shared_expert_gate ? h : 0);
    program->linear_parameters += experts->count * one;
    program->num_tensors_of_parameters += 1 + 2 * experts->count;
    if (builder->stack->transformer_engine && !builder->frozen && builder->stack->gradient_bytes == 4)
        tpp_builder_tensor(builder, "expert", TPP_TENSOR_DUMMY, 2 * one);
    if (model->shared_expert_hidden_size > 0) {
        const struct tpp_linear first = shared_in(builder), second = shared_out(builder);
        tpp_build_linear_parameters(builder, &first);
        tpp_build_linear_parameters(builder, &second);
    }
}

void tpp_build_moe_tensors(struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    const struct experts experts = experts_start(builder);
    const double w = builder->stack->weight_bytes, h = builder->hidden, own = experts.own_tokens;
    const double rows = experts.rows * experts.count, shared = shared_out(builder).depth * builder->tokens;
    const double in = model->gated_mlp ? 2 : 1;
    build_parameters(builder, &experts);
    tpp_builder_tensor(builder, "mlp norm input", TPP_TENSOR_SAVED, w * h * own);
    tpp_builder_kept(builder, "mlp norm output", TPP_MODULE_LAYER_NORM, w * h * own);
    tpp_builder_kept(builder, "router", TPP_MODULE_MOE, 8.0 * model->num_experts * own);
    tpp_builder_kept(builder, "permuted tokens", TPP_MODULE_MOE, tpp_builder_input_bytes(builder) * h * rows);
    tpp_builder_kept(builder, "expert in", TPP_MODULE_MOE, w * experts.in_width * rows);
    tpp_builder_kept(builder, "expert activation", TPP_MODULE_MOE | TPP_MODULE_EXPERT_ACTIVATION,
                     tpp_builder_input_bytes(builder) * experts.out_width * rows);
    if (experts.gathered == 0) /* else rows of the second product are added and dropped */
        tpp_builder_kept(builder, "tokens before the combine", TPP_MODULE_MOE, w * h * experts.routed);
    tpp_builder_kept(builder, "shared expert", TPP_MODULE_MOE | TPP_MODULE_SHARED_EXPERTS, w * (in + 1) * shared);
    if (builder->program->axes.shared_overlap && builder->sequence_parallel && shared > 0)
        tpp_builder_kept(builder, "shared expert input", TPP_MODULE_MOE | TPP_MODULE_SHARED_EXPERTS,
                         tpp_builder_input_bytes(builder) * h * builder->tokens);
    tpp_builder_tensor(builder, "expert gradients", TPP_TENSOR_BACKWARD_MLP, w * experts.in_width * rows);
    tpp_builder_tensor(builder, "permutation workspace", TPP_TENSOR_BACKWARD_MLP, w * h * (fmax(experts.routed, experts.gathered * builder->program->axes.expert_tensor_parallel) + rows));
}

/* A layer without capacity is captured whole only when no count of tokens comes to the host: its products read them on the GPU,
 * and those of MXFP8 do the activation, its weighting, the biases and the quantisation of what they write in their epilogues
 * (Transformer Engine's fused grouped MLP, pull request 2769, NVTE_CUTEDSL_FUSED_GROUPED_MLP=1 in every recipe of
 * Megatron-Bridge 0.5 and 0.6 with full-iteration graphs). */
static bool fuses_experts(const struct tpp_builder *builder)
{
    const struct tpp_stack *stack = builder->stack;
    return stack->transformer_engine && stack->cuda_graphs && stack->graph_parts == 0 &&
           builder->job->precision == TPP_PRECISION_MXFP8 && builder->job->expert_capacity_factor == 0;
}

/* `from_epilogue`: the first operand is what the activation made of another product. */
static void build_grouped(struct tpp_builder *builder, const char *name, enum tpp_section section,
                          const struct experts *experts, bool from_epilogue, double m, double n, double k)
{
    struct tpp_op *op = tpp_builder_op(builder, name, TPP_OP_GROUPED_GEMM, section, TPP_PART_LINEAR);
    op->gemm = (struct tpp_gemm){
        .m = m, .n = n, .k = k, .batch = experts->count,
        .kind = section == TPP_SECTION_WEIGHT ? TPP_GEMM_WGRAD : TPP_GEMM_FORWARD,
        .element_bytes = builder->job->precision == TPP_PRECISION_FP32 ? 4 : 2,
        .number = builder->stack->quantised == TPP_QUANTISED_LINEARS ? TPP_NUMBER_PLAIN : tpp_builder_number(builder),
        .reuses_copies = section == TPP_SECTION_WEIGHT || (from_epilogue && fuses_experts(builder)),
    };
}

/* Permuting and un-permuting move about 4 x 4 n k h bytes a pass at half of the HBM rate (7 "EP"). What arrives once for
 * all experts of a rank is read once and written once for each, and the other way round: 2 x (n k + arriving) rows of
 * 2 bytes. Of gathered tokens a rank picks rows, 2 + 2 bytes, and adds them into zeros for all, 2 bytes of these, 2 + 4 of
 * a row; backward the other way round. */
static void build_permute(struct tpp_builder *builder, enum tpp_section section, const struct experts *experts)
{
    const bool once = experts->dispatch.bytes > 0;
    const double rows = experts->rows * experts->count, et = builder->program->axes.expert_tensor_parallel;
    const double bytes = experts->gathered > 0 ? 10 * rows + 2 * experts->gathered * et
                         : once                ? 4 * (experts->routed + experts->arriving)
                                               : 16 * experts->routed;
    const int op =
        tpp_builder_memory(builder, "permute", section, TPP_PART_POINTWISE, bytes * builder->hidden, once ? 2 : 4);
    builder->program->ops[op].rate_fraction = 0.5;
}

/* Operations in a row that run beside a transfer; none: 0. */
struct beside {
    uint32_t first, count;
};

/* All tokens of the group to each rank with the router's map and probabilities, 1 and 4 bytes an expert; results, and back the
 * gradients of tokens and probabilities, reduced and scattered. */
static void build_gathered_exchange(struct tpp_builder *builder, const char *name, enum tpp_section section,
                                    const struct experts *experts, enum tpp_collective collective, bool has_scores)
{
    const bool forward = section == TPP_SECTION_FORWARD;
    const double scores = has_scores ? (forward ? 5.0 : 4.0) * builder->model->num_experts : 0;
    const double bytes = experts->gathered * (builder->stack->weight_bytes * builder->hidden + scores);
    tpp_builder_collective(builder, name, section, TPP_GROUP_EXPERT, collective, bytes, TPP_NO_OP);
    tpp_builder_collective(builder, name, section, TPP_GROUP_EXPERT_TENSOR, collective,
                           bytes * builder->program->axes.expert_tensor_parallel, TPP_NO_OP);
}

/* Dispatch and combine; over the expert-tensor ranks what arrived is gathered and the results are summed. */
static void build_exchange(struct tpp_builder *builder, const char *name, enum tpp_section section,
                           const struct experts *experts, enum tpp_collective tensor_collective, struct beside beside)
{
    const double w = builder->stack->weight_bytes, h = builder->hidden;
    const uint32_t before = builder->program->num_ops;
    if (experts->gathered > 0) {
        build_gathered_exchange(builder, name, section, experts, tensor_collective, strcmp(name, "dispatch") == 0);
        return;
    }
    tpp_builder_collective(builder, name, section, TPP_GROUP_EXPERT, TPP_ALL_TO_ALL, w * experts->arriving * h,
                           beside.count > 0 ? (int)beside.first : TPP_NO_OP);
    if (builder->program->num_ops > before) {
        builder->program->ops[before].dispatch = experts->dispatch;
        builder->program->ops[before].num_hiding = beside.count;
    }
    tpp_builder_collective(builder, name, section, TPP_GROUP_EXPERT_TENSOR, tensor_collective,
                           w * experts->rows * experts->count * h, TPP_NO_OP);
}

static void build_experts_dequantise(struct tpp_builder *builder, enum tpp_section section, const struct experts *experts)
{
    tpp_build_dequantise(builder, section, experts->count * builder->hidden * (experts->in_width + experts->out_width),
                         (builder->model->gated_mlp ? 3 : 2) * experts->count);
}

/* Experts one after the other, each over the rows of its tokens (transformers, MixtralSparseMoeBlock): backward of
 * hidden_states[None, top_x] fills a gradient of all tokens with zeros, puts the rows into it, and adds it to that of the experts before:
 * 4 elements moved for each. */
static void build_loop_gradients(struct tpp_builder *builder, const struct experts *experts)
{
    if (tpp_stack_is_plain_torch(builder->stack))
        tpp_builder_memory(builder, "expert loop gradients", TPP_SECTION_BACKWARD, TPP_PART_POINTWISE,
                           4 * builder->stack->weight_bytes * experts->count * experts->own_tokens * builder->hidden,
                           2 * experts->count);
}

/* gpt-oss clamps both halves before the fused kernel, in PyTorch (Megatron-Core, weighted_bias_quick_geglu_impl): two clamps read and
 * write 2 bytes each, their concatenation 4 and 4. Backward: gradient and input read, gradient written by each clamp,
 * 6 and 6; halves joined 4 and 4. */
static void build_expert_activation(struct tpp_builder *builder, enum tpp_section section, double elements)
{
    const bool forward = section == TPP_SECTION_FORWARD;
    if (fuses_experts(builder))
        return;
    tpp_build_activation(builder, section, elements);
    if (builder->model->expert_bias && builder->stack->transformer_engine)
        tpp_builder_memory(builder, "clamp", section, TPP_PART_POINTWISE, (forward ? 16 : 20) * elements, 3);
}

/* Biases of experts in Transformer Engine's grouped layers. That of the second product is weighted by the router's fp32
 * probability, expert by expert, in PyTorch (Megatron-Core, TEGroupedMLP._apply_bias). Bytes an element forward: product of bias
 * and probability 4; sum 2 + 4 + 4; concatenation 4 + 4; cast 4 + 2. Backward: cast 2 + 4; the rows' gradient cast 4 + 2 and
 * joined 2 + 2; for the probability and for the bias a product 4 + 4 and its sum 4 each. The first bias is added by the
 * product itself; its gradient is a column sum of 2. */
static void build_expert_bias(struct tpp_builder *builder, enum tpp_section section, const struct experts *experts)
{
    const double rows = experts->rows * experts->count, h = builder->hidden;
    const bool forward = section == TPP_SECTION_FORWARD;
    if (!builder->model->expert_bias || !builder->stack->transformer_engine || fuses_experts(builder))
        return;
    tpp_builder_memory(builder, "expert bias", section, TPP_PART_POINTWISE, (forward ? 28 : 40) * rows * h,
                       (forward ? 2 : 5) * experts->count + 2);
    if (!forward && !builder->frozen)
        tpp_builder_memory(builder, "expert bias gradient", TPP_SECTION_WEIGHT, TPP_PART_POINTWISE,
                           builder->stack->weight_bytes * rows * experts->in_width, experts->count);
}

/* Router in fp32 (7 "EP"). */
static void build_router(struct tpp_builder *builder, enum tpp_section section, const struct experts *experts)
{
    const double own = experts->own_tokens, E = builder->model->num_experts, h = builder->hidden;
    const bool forward = section == TPP_SECTION_FORWARD;
    int gemm = tpp_builder_gemm(builder, "router", section, TPP_PART_POINTWISE, own, forward ? E : h, forward ? h : E);
    builder->program->ops[gemm].gemm.element_bytes = 4;
    if (!forward && !builder->frozen) {
        gemm = tpp_builder_gemm(builder, "router", TPP_SECTION_WEIGHT, TPP_PART_POINTWISE, E, h, own);
        builder->program->ops[gemm].gemm.element_bytes = 4;
    }
    /* Scores in fp32 are written and read once; about 20 small kernels choose among them. */
    tpp_builder_memory(builder, "router", section, TPP_PART_POINTWISE, 8 * E * own, 20);
}

static void build_shared_forward(struct tpp_builder *builder)
{
    if (builder->model->shared_expert_hidden_size == 0 || builder->program->axes.shared_overlap)
        return;
    const struct tpp_linear first = shared_in(builder), second = shared_out(builder);
    tpp_build_tensor_entry_forward(builder, "shared expert");
    tpp_build_linear_forward(builder, &first);
    tpp_build_activation(builder, TPP_SECTION_FORWARD, second.depth * builder->tokens);
    tpp_build_linear_forward(builder, &second);
    tpp_build_tensor_exit_forward(builder, "shared expert");
}

static void build_shared_backward(struct tpp_builder *builder)
{
    if (builder->model->shared_expert_hidden_size == 0 || builder->program->axes.shared_overlap)
        return;
    const struct tpp_linear first = shared_in(builder), second = shared_out(builder);
    int dgrad, wgrad;
    tpp_build_tensor_exit_backward(builder, "shared expert");
    tpp_build_linear_backward(builder, &second, NULL, NULL);
    tpp_build_activation(builder, TPP_SECTION_BACKWARD, second.depth * builder->tokens);
    tpp_build_linear_backward(builder, &first, &dgrad, &wgrad);
    tpp_build_tensor_entry_backward(builder, "shared expert", builder->model->gated_mlp ? 2 : 1, dgrad, wgrad);
}

/* Shared experts on a stream of their own (Megatron-Core, shared_experts.py and token_dispatcher.py): the first product and the
 * activation run beside the dispatch, the second product beside the combine, both passes. Their linears leave transfers
 * to explicit ones in 16 bits, which share the links with the exchange: not hidden. What was gathered is kept. */
static void build_shared_transfer(struct tpp_builder *builder, enum tpp_section section, enum tpp_collective collective)
{
    tpp_builder_collective(builder, "shared expert", section, TPP_GROUP_TENSOR, collective,
                           builder->stack->weight_bytes * builder->tokens * builder->hidden, TPP_NO_OP);
}

static struct beside beside_since(const struct tpp_builder *builder, uint32_t first)
{
    return (struct beside){first, builder->program->num_ops - first};
}

/* The half with the first product, which runs beside the dispatch. */
static struct beside build_shared_beside_dispatch(struct tpp_builder *builder, enum tpp_section section)
{
    if (!builder->program->axes.shared_overlap)
        return (struct beside){0, 0};
    const struct tpp_linear linear = shared_in(builder);
    const double elements = shared_out(builder).depth * builder->tokens;
    const bool forward = section == TPP_SECTION_FORWARD;
    if (forward && builder->sequence_parallel)
        build_shared_transfer(builder, section, TPP_ALL_GATHER);
    const uint32_t first = builder->program->num_ops;
    if (forward)
        tpp_build_linear_forward(builder, &linear);
    tpp_build_activation(builder, section, elements);
    if (!forward)
        tpp_build_linear_backward(builder, &linear, NULL, NULL);
    return beside_since(builder, first);
}

/* The half with the second product, which runs beside the combine. */
static struct beside build_shared_beside_combine(struct tpp_builder *builder, enum tpp_section section)
{
    if (!builder->program->axes.shared_overlap)
        return (struct beside){0, 0};
    const struct tpp_linear linear = shared_out(builder);
    if (section == TPP_SECTION_BACKWARD && builder->sequence_parallel)
        build_shared_transfer(builder, section, TPP_ALL_GATHER);
    const uint32_t first = builder->program->num_ops;
    if (section == TPP_SECTION_FORWARD)
        tpp_build_linear_forward(builder, &linear);
    else
        tpp_build_linear_backward(builder, &linear, NULL, NULL);
    return beside_since(builder, first);
}

/* Its output forward, its input's gradient backward. */
static void build_shared_sum(struct tpp_builder *builder, enum tpp_section section)
{
    if (builder->program->axes.shared_overlap)
        build_shared_transfer(builder, section, builder->sequence_parallel ? TPP_REDUCE_SCATTER : TPP_ALL_REDUCE);
}

void tpp_build_moe_forward(struct tpp_builder *builder)
{
    const struct experts experts = experts_start(builder);
    const double rows = experts.rows, h = builder->hidden;
    builder->modules |= TPP_MODULE_MOE;
    build_router(builder, TPP_SECTION_FORWARD, &experts);
    build_permute(builder, TPP_SECTION_FORWARD, &experts);
    struct beside beside = build_shared_beside_dispatch(builder, TPP_SECTION_FORWARD);
    build_exchange(builder, "dispatch", TPP_SECTION_FORWARD, &experts, TPP_ALL_GATHER, beside);
    build_experts_dequantise(builder, TPP_SECTION_FORWARD, &experts);
    build_grouped(builder, "expert in", TPP_SECTION_FORWARD, &experts, false, rows, experts.in_width, h);
    builder->modules |= TPP_MODULE_EXPERT_ACTIVATION;
    build_expert_activation(builder, TPP_SECTION_FORWARD, experts.out_width * rows * experts.count);
    builder->modules &= ~(uint32_t)TPP_MODULE_EXPERT_ACTIVATION;
    build_grouped(builder, "expert out", TPP_SECTION_FORWARD, &experts, true, rows, h, experts.out_width);
    build_expert_bias(builder, TPP_SECTION_FORWARD, &experts);
    beside = build_shared_beside_combine(builder, TPP_SECTION_FORWARD);
    build_exchange(builder, "combine", TPP_SECTION_FORWARD, &experts, TPP_REDUCE_SCATTER, beside);
    build_shared_sum(builder, TPP_SECTION_FORWARD);
    tpp_build_mlp_upcast(builder, TPP_SECTION_FORWARD, rows * experts.count, experts.out_width, experts.count, 0);
    builder->modules |= TPP_MODULE_SHARED_EXPERTS;
    build_shared_forward(builder);
    builder->modules &= ~(uint32_t)(TPP_MODULE_MOE | TPP_MODULE_SHARED_EXPERTS);
}

void tpp_build_moe_backward(struct tpp_builder *builder)
{
    const struct experts experts = experts_start(builder);
    const double rows = experts.rows, h = builder->hidden;
    build_shared_backward(builder);
    struct beside beside = build_shared_beside_combine(builder, TPP_SECTION_BACKWARD);
    build_exchange(builder, "combine", TPP_SECTION_BACKWARD, &experts, TPP_ALL_GATHER, beside);
    build_expert_bias(builder, TPP_SECTION_BACKWARD, &experts);
    build_experts_dequantise(builder, TPP_SECTION_BACKWARD, &experts);
    build_grouped(builder, "expert out", TPP_SECTION_BACKWARD, &experts, false, rows, experts.out_width, h);
    build_expert_activation(builder, TPP_SECTION_BACKWARD, experts.out_width * rows * experts.count);
    build_grouped(builder, "expert in", TPP_SECTION_BACKWARD, &experts, true, rows, h, experts.in_width);
    if (!builder->frozen) {
        build_grouped(builder, "expert out", TPP_SECTION_WEIGHT, &experts, false, h, experts.out_width, rows);
        build_grouped(builder, "expert in", TPP_SECTION_WEIGHT, &experts, false, experts.in_width, h, rows);
    }
    beside = build_shared_beside_dispatch(builder, TPP_SECTION_BACKWARD);
    build_exchange(builder, "dispatch", TPP_SECTION_BACKWARD, &experts, TPP_REDUCE_SCATTER, beside);
    build_shared_sum(builder, TPP_SECTION_BACKWARD);
    build_loop_gradients(builder, &experts);
    build_permute(builder, TPP_SECTION_BACKWARD, &experts);
    build_router(builder, TPP_SECTION_BACKWARD, &experts);
    tpp_build_mlp_upcast(builder, TPP_SECTION_BACKWARD, rows * experts.count, experts.out_width, experts.count, 0);
}
