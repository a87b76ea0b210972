#include "costmodel/program.h"

#include "costmodel/program_parts.h"

uint64_t tpp_padded_vocabulary(uint64_t vocab_size, uint32_t multiple, uint32_t tensor_parallel)
{
    const uint64_t unit = (uint64_t)multiple * (multiple > 1 ? tensor_parallel : 1);
    return (vocab_size + unit - 1) / unit * unit;
}

struct tpp_op *tpp_builder_op(struct tpp_builder *builder, const char *name, enum tpp_op_kind kind,
                              enum tpp_section section, enum tpp_op_part part)
{
    struct tpp_program *program = builder->program;
    assert(program->num_ops < TPP_PROGRAM_MAX_OPS);
    struct tpp_op *op = &program->ops[program->num_ops++];
    *op = (struct tpp_op){.name = name, .kind = kind, .section = section, .part = part, .count = 1,
                          .hidden_behind = TPP_NO_OP, .modules = builder->modules,
                          .repeated_fraction = 1};
    return op;
}

int tpp_builder_memory(struct tpp_builder *builder, const char *name, enum tpp_section section, enum tpp_op_part part,
                       double bytes, double kernels)
{
    if (bytes <= 0)
        return TPP_NO_OP;
    struct tpp_op *op = tpp_builder_op(builder, name, TPP_OP_MEMORY, section, part);
    op->bytes = bytes;
    op->kernels = kernels;
    op->scaled = true;
    return (int)builder->program->num_ops - 1;
}

enum tpp_number tpp_builder_number(const struct tpp_builder *builder)
{
    switch (builder->job->precision) {
    case TPP_PRECISION_FP8:
        return TPP_NUMBER_FP8;
    case TPP_PRECISION_FP8_BLOCK:
        return TPP_NUMBER_FP8_BLOCK;
    case TPP_PRECISION_MXFP8:
        return builder->stack->framework == TPP_FRAMEWORK_TORCHTITAN ? TPP_NUMBER_MXFP8_APART : TPP_NUMBER_MXFP8;
    default:
        return TPP_NUMBER_PLAIN;
    }
}

/* Weight gradients are summed in fp32 by the product itself. FSDP's come out in the type of the weights, its fp32 sum is that of
 * the shards, behind the reduction (torch/distributed/fsdp/_runtime_utils.py, _post_backward_hook). */
static bool accumulates_in_product(const struct tpp_stack *stack)
{
    return stack->gradient_bytes == 4 && !tpp_engine_is_fsdp(stack->engine);
}

static enum tpp_number linear_number(const struct tpp_builder *builder, enum tpp_section section)
{
    const struct tpp_stack *stack = builder->stack;
    const enum tpp_number number = tpp_builder_number(builder);
    if (stack->quantised == TPP_QUANTISED_EXPERTS)
        return TPP_NUMBER_PLAIN;
    if (number != TPP_NUMBER_FP8 || stack->row_scaling == TPP_ROW_SCALING_NONE)
        return number;
    return section == TPP_SECTION_WEIGHT && stack->row_scaling == TPP_ROW_SCALING_PLAIN_GRADIENT ? TPP_NUMBER_PLAIN
                                                                                                  : TPP_NUMBER_FP8_ROWS;
}

int tpp_builder_gemm(struct tpp_builder *builder, const char *name, enum tpp_section section, enum tpp_op_part part,
                     double m, double n, double k)
{
    struct tpp_op *op = tpp_builder_op(builder, name, TPP_OP_GEMM, section, part);
    op->gemm = (struct tpp_gemm){
        .m = m, .n = n, .k = k, .batch = 1,
        .kind = section == TPP_SECTION_WEIGHT && accumulates_in_product(builder->stack) ? TPP_GEMM_WGRAD : TPP_GEMM_FORWARD,
        .element_bytes = builder->job->precision == TPP_PRECISION_FP32 ? 4 : 2,
        .number = part == TPP_PART_LINEAR ? linear_number(builder, section) : TPP_NUMBER_PLAIN,
        .reuses_copies = section == TPP_SECTION_WEIGHT,
        .casts = section == TPP_SECTION_FORWARD    ? TPP_CASTS_FORWARD
                 : section == TPP_SECTION_BACKWARD ? TPP_CASTS_DGRAD
                                                   : TPP_CASTS_WGRAD,
    };
    return (int)builder->program->num_ops - 1;
}

void tpp_builder_collective(struct tpp_builder *builder, const char *name, enum tpp_section section,
                            enum tpp_group_kind group, enum tpp_collective collective, double bytes, int hidden_behind)
{
    const struct tpp_layer_axes *axes = &builder->program->axes;
    const uint32_t size = group == TPP_GROUP_TENSOR          ? builder->tensor_parallel
                          : group == TPP_GROUP_EXPERT        ? axes->expert_parallel
                          : group == TPP_GROUP_EXPERT_TENSOR ? axes->expert_tensor_parallel
                                                             : axes->context_parallel;
    if (size <= 1 || bytes <= 0)
        return;
    struct tpp_op *op = tpp_builder_op(builder, name, TPP_OP_COMMUNICATION, section,
                                       group == TPP_GROUP_TENSOR   ? TPP_PART_TENSOR
                                       : group >= TPP_GROUP_EXPERT ? TPP_PART_EXPERT
                                                                   : TPP_PART_CONTEXT);
    op->group = group;
    op->collective = collective;
    op->bytes = bytes;
    op->hidden_behind = hidden_behind;
}

void tpp_builder_skip_again(struct tpp_builder *builder, uint32_t first_op, double fraction)
{
    if (!builder->stack->checkpoint_stops_early || builder->frozen)
        return;
    for (uint32_t i = first_op; i < builder->program->num_ops; i++)
        builder->program->ops[i].skipped_fraction = fraction;
}

void tpp_builder_tensor(struct tpp_builder *builder, const char *name, enum tpp_tensor_life life, double bytes)
{
    if (bytes <= 0)
        return;
    if (life == TPP_TENSOR_SAVED && (builder->program->axes.recompute_modules & builder->modules) != 0)
        life = TPP_TENSOR_REPEATED;
    assert(builder->program->num_tensors < TPP_PROGRAM_MAX_TENSORS);
    builder->program->tensors[builder->program->num_tensors++] =
        (struct tpp_tensor){.name = name, .life = life, .bytes = bytes};
}

void tpp_builder_kept(struct tpp_builder *builder, const char *name, uint32_t modules, double bytes)
{
    const bool again = (builder->program->axes.recompute_modules & modules) != 0;
    tpp_builder_tensor(builder, name, again ? TPP_TENSOR_REPEATED : TPP_TENSOR_SAVED, bytes);
}

/* Sizes that every part uses, once. */
static struct tpp_builder builder_start(const struct tpp_model *model, const struct tpp_job *job,
                                        const struct tpp_stack *stack, struct tpp_program *program)
{
    const struct tpp_layer_axes *axes = &program->axes;
    const double t = axes->tensor_parallel;
    struct tpp_builder builder = {
        .model = model, .job = job, .stack = stack, .program = program,
        .tensor_parallel = axes->tensor_parallel,
        .sequence_parallel = axes->sequence_parallel && axes->tensor_parallel > 1,
        .frozen = tpp_job_is_adapter(job),
        .hidden = model->hidden_size,
        .tokens = (double)axes->micro_batch_size * (double)job->sequence_length / axes->context_parallel,
    };
    builder.norm_share = builder.sequence_parallel ? 1 / t : 1;
    /* Megatron keeps one KV head on each rank when there are fewer than ranks (cost-model 2.1). */
    builder.local_heads = model->num_attention_heads / t;
    builder.local_groups = model->num_query_groups < t ? 1 : model->num_query_groups / t;
    builder.local_ffn = model->ffn_hidden_size / t;
    builder.qk_head_dim = builder.v_head_dim = model->head_dim;
    builder.key_width = builder.value_width = builder.local_groups * model->head_dim;
    if (tpp_builder_is_latent(&builder)) { /* keys and values are expanded for every head */
        builder.qk_head_dim = (double)model->qk_nope_head_dim + model->qk_rope_head_dim;
        builder.v_head_dim = model->v_head_dim;
        builder.local_groups = builder.local_heads;
        builder.key_width = builder.local_heads * builder.qk_head_dim;
        builder.value_width = builder.local_heads * builder.v_head_dim;
    }
    return builder;
}

/* torchtitan's selective policy saves every second product (q, v, gate, down), the result of kernels of attention in its list and what reductions and
 * all-to-alls bring; the rest runs again (4.2 E; its _op_sac_save_list). The products' own shares are in their linears. */
static void mark_unsaved(struct tpp_program *program, bool repeats_attention)
{
    for (uint32_t i = 0; i < program->num_ops; i++) {
        struct tpp_op *op = &program->ops[i];
        const bool again = op->kind == TPP_OP_MEMORY || op->kind == TPP_OP_GROUPED_GEMM ||
                           op->kind == TPP_OP_ATTENTION_GEMM ||
                           (op->kind == TPP_OP_COMMUNICATION && op->group == TPP_GROUP_TENSOR &&
                            op->collective == TPP_ALL_GATHER) ||
                           (op->kind == TPP_OP_FLASH_FORWARD && repeats_attention);
        if (again && op->section == TPP_SECTION_FORWARD)
            op->modules |= TPP_MODULE_UNSAVED;
    }
}

void tpp_program_build(const struct tpp_model *model, const struct tpp_job *job, const struct tpp_stack *stack,
                       const struct tpp_layer_axes *axes, struct tpp_program *program)
{
    program->axes = *axes;
    program->num_ops = program->num_tensors = 0;
    program->parameters = program->linear_parameters = program->vocabulary_parameters = program->trainable_parameters = program->expert_parameters = 0;
    program->num_tensors_of_parameters = program->forward_launches = program->backward_launches = 0;
    program->forward_operations = program->backward_operations = 0;
    struct tpp_builder builder = builder_start(model, job, stack, program);
    program->tokens = builder.tokens;
    switch (axes->kind) {
    case TPP_LAYER_EMBEDDING:
        tpp_build_embedding(&builder);
        break;
    case TPP_LAYER_HEAD:
        tpp_build_head(&builder);
        break;
    case TPP_LAYER_MOE:
        tpp_build_attention_tensors(&builder);
        tpp_build_moe_tensors(&builder);
        tpp_build_attention_forward(&builder);
        tpp_build_moe_forward(&builder);
        tpp_build_moe_backward(&builder);
        tpp_build_attention_backward(&builder);
        tpp_count_launches(&builder, true);
        break;
    default:
        tpp_build_attention_tensors(&builder);
        tpp_build_mlp_tensors(&builder);
        tpp_build_attention_forward(&builder);
        tpp_build_mlp_forward(&builder);
        tpp_build_mlp_backward(&builder);
        tpp_build_attention_backward(&builder);
        tpp_count_launches(&builder, false);
        break;
    }
    if (axes->recompute_modules & TPP_MODULE_UNSAVED)
        mark_unsaved(program, stack->policy_repeats_attention);
    if (!builder.frozen)
        program->trainable_parameters = program->parameters;
}
