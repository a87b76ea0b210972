/* Embedding and output head with the loss (cost-model 4.4, 5.1, 5.3, 7, 15.4, 15.8). */
#include "costmodel/program_parts.h"

/* Whole logits are brought together on every rank: plain PyTorch tensor parallelism (15.4). */
static bool gathers_logits(const struct tpp_builder *builder)
{
    return builder->stack->lm_head_output == TPP_LM_HEAD_GATHERED && builder->tensor_parallel > 1;
}

/* Cross entropy on 16-bit logits, by PyTorch or in place. */
static bool loss_is_narrow(const struct tpp_stack *stack)
{
    return stack->loss_keeps_type && (stack->loss_kernel == TPP_LOSS_EAGER || stack->loss_kernel == TPP_LOSS_FUSED);
}

/* Memory at the loss, bytes of one local logit, by implementation (4.4, 15.4, 15.8). */
static double loss_peak_bytes(const struct tpp_builder *builder)
{
    const struct tpp_stack *stack = builder->stack;
    const bool is_hugging_face = stack->framework == TPP_FRAMEWORK_HF_TRAINER;
    const bool is_torchtitan = stack->framework == TPP_FRAMEWORK_TORCHTITAN;
    const double kept = stack->keeps_logits ? 2 : 0;
    if (loss_is_narrow(stack)) /* the logits, their copy without the last position, its log-softmax, 2 bytes each */
        return stack->loss_kernel == TPP_LOSS_FUSED ? 4 : 6;
    switch (stack->loss_kernel) {
    case TPP_LOSS_FUSED: /* Hugging Face keeps its float() copy; flash-attention's loss writes a new gradient; TE and
                            Triton write it in place */
        return is_hugging_face ? 8 + kept : tpp_stack_is_plain_torch(stack) ? 4 : 2;
    case TPP_LOSS_UNFUSED:
        return 10;
    case TPP_LOSS_COMPILED: /* 16-bit logits and their gradient; Hugging Face and torchtune hand over fp32 ones */
        return is_hugging_face ? 9.5 : 4;
    case TPP_LOSS_FUSED_LINEAR:
        return 0;
    default: /* backward: 2 bf16 when the caller keeps them, 4 log-softmax, 4 its gradient, 4 that of the fp32 logits; 15.4 has 18
                where logits are gathered. torchtitan drops them (train.py, "del pred"); PyTorch's loss_parallel adds one more
                fp32 copy (distributed/tensor/parallel/loss.py, _nll_loss_and_log_softmax_backward) */
        if (is_torchtitan)
            return builder->tensor_parallel > 1 ? 16 : 12;
        return is_hugging_face ? 12 + kept : gathers_logits(builder) ? 18 : 14;
    }
}

/* The gradient takes the place of the logits: these are all that is left of them when the head's backward begins. */
static bool loss_writes_in_place(const struct tpp_builder *builder)
{
    return builder->stack->loss_kernel == TPP_LOSS_FUSED && !tpp_stack_is_plain_torch(builder->stack);
}

/* Vocabulary layers cut over the stages keep their fp32 exponentials until the reduction that T waits for. */
static bool waits_for_barrier(const struct tpp_builder *builder)
{
    const enum tpp_vocabulary_parallel kind = builder->program->axes.vocabulary_parallel;
    return kind == TPP_VOCABULARY_PARALLEL_ONE_BARRIER || kind == TPP_VOCABULARY_PARALLEL_TWO_BARRIERS;
}

/* Traffic of the loss, bytes of one local logit (5.3, 15.4). */
static double loss_traffic_bytes(const struct tpp_builder *builder, enum tpp_section section)
{
    const bool forward = section == TPP_SECTION_FORWARD;
    const bool is_hugging_face = builder->stack->framework == TPP_FRAMEWORK_HF_TRAINER;
    const bool one_barrier =
        builder->program->axes.vocabulary_parallel == TPP_VOCABULARY_PARALLEL_ONE_BARRIER;
    if (loss_is_narrow(builder->stack)) { /* copied and read, or replaced by its log-softmax; that, its gradient and the logits' */
        const bool fused = builder->stack->loss_kernel == TPP_LOSS_FUSED;
        return forward ? (fused ? 6 : 8) : fused ? 4 : 6;
    }
    switch (builder->stack->loss_kernel) {
    case TPP_LOSS_COMPILED: /* read for the maximum and for the sum; read again, gradient written */
        return is_hugging_face ? (forward ? 18 : 12) : 4;
    case TPP_LOSS_UNFUSED: /* S and T of the fork, vocab_output.py: S casts its exponentials to 16 bits for the input gradient
                              (4 + 2), T rescales them (4 + 4) */
        return forward ? 34 + (one_barrier ? 6 : 0) : 14 + (waits_for_barrier(builder) ? 8 : 0);
    case TPP_LOSS_FUSED: /* llm-foundry's reads the logits for the maximum and for the sum, and writes nothing (flash-attention,
                            csrc/xentropy/xentropy_kernel.cu, cunn_SoftMaxXEntropyForward) */
        return forward ? (builder->stack->framework == TPP_FRAMEWORK_LLM_FOUNDRY ? 4 : 10) : 4;
    case TPP_LOSS_FUSED_LINEAR:
        return forward ? 10 : 4;
    default:
        return forward ? 18 : 12;
    }
}

static double padded_vocabulary(const struct tpp_builder *builder)
{
    return (double)tpp_padded_vocabulary(builder->model->vocab_size, builder->stack->vocabulary_multiple,
                                         builder->tensor_parallel);
}

/* Rows of embedding and head on one rank. */
static double local_vocabulary(const struct tpp_builder *builder)
{
    const uint32_t shards = builder->program->axes.vocabulary_shards;
    return padded_vocabulary(builder) / builder->tensor_parallel / (shards > 1 ? shards : 1);
}

void tpp_build_embedding(struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    const double n = builder->tokens, h = builder->hidden, w = builder->stack->weight_bytes;
    const double activation = w * n * h;
    const bool dropout = builder->job->hidden_dropout > 0;
    const double norm = model->norm == TPP_NORM_LAYER ? 2 : 1;
    struct tpp_program *program = builder->program;
    const double rows = local_vocabulary(builder);
    /* Positions and norms lie on one stage only, the one whose time and memory bind. */
    program->parameters = rows * h + model->learned_position_rows * h +
                          (model->embedding_norm ? norm * h : 0);
    program->num_tensors_of_parameters = 1;
    tpp_builder_memory(builder, "embedding", TPP_SECTION_FORWARD, TPP_PART_HEAD, (6 + (dropout ? 3 : 0)) * h * n, 2);
    tpp_builder_collective(builder, "embedding", TPP_SECTION_FORWARD, TPP_GROUP_TENSOR,
                           builder->sequence_parallel ? TPP_REDUCE_SCATTER : TPP_ALL_REDUCE, activation, TPP_NO_OP);
    if (builder->frozen)
        return;
    if (builder->sequence_parallel)
        tpp_builder_collective(builder, "embedding", TPP_SECTION_BACKWARD, TPP_GROUP_TENSOR, TPP_ALL_GATHER, activation,
                               TPP_NO_OP);
    tpp_builder_memory(builder, "embedding", TPP_SECTION_BACKWARD, TPP_PART_HEAD, 10 * h * n, 2);
    /* Its gradient is dense and starts from zeros (torch's embedding_dense_backward); Megatron's hook adds it to the main
     * gradient, as no GEMM does that here. Engines that add up all gradients count that elsewhere (15.7). */
    const bool adds = builder->stack->engine == TPP_ENGINE_MEGATRON;
    tpp_builder_memory(builder, "embedding gradient", TPP_SECTION_WEIGHT, TPP_PART_HEAD,
                       rows * h * (w + (adds ? w + 2.0 * builder->stack->gradient_bytes : 0)), 2);
}

static void build_head_tensors(struct tpp_builder *builder, double local_logits)
{
    const double n = builder->tokens, h = builder->hidden, w = builder->stack->weight_bytes;
    tpp_builder_tensor(builder, "logits and loss", TPP_TENSOR_LOSS,
                       loss_peak_bytes(builder) / 2 * w * n * local_logits);
    tpp_builder_tensor(builder, "final norm input", TPP_TENSOR_LOSS, w * n * h * builder->norm_share);
    tpp_builder_tensor(builder, "head input", TPP_TENSOR_LOSS, w * n * h * builder->norm_share);
    if (builder->sequence_parallel)
        tpp_builder_tensor(builder, "tensor-parallel gather buffer", TPP_TENSOR_LOSS, w * n * h);
    if (loss_writes_in_place(builder)) /* elsewhere the loss needs more than the head's backward after it */
        tpp_builder_tensor(builder, "head input gradient", TPP_TENSOR_LOSS, w * n * h);
}

/* A product of the head: in 16 bits whatever the layers', unless the stack quantises the output projection as a linear of Transformer
 * Engine (Megatron-Core, TELMHeadColumnParallelLinear); its output and the loss stay in 16 bits and more. */
static int build_head_gemm(struct tpp_builder *builder, enum tpp_section section, double m, double n, double k)
{
    const int gemm = tpp_builder_gemm(builder, "head", section, TPP_PART_HEAD, m, n, k);
    if (builder->stack->fp8_head)
        builder->program->ops[gemm].gemm.number = tpp_builder_number(builder);
    return gemm;
}

/* Head GEMMs, loss and their collectives: one gather of the input (SP), three all-reduces of 4n bytes for the
 * vocabulary-parallel loss, or one gather of all logits. */
static void build_head_ops(struct tpp_builder *builder, double local_vocabulary, double local_logits)
{
    const double n = builder->tokens, h = builder->hidden, activation = builder->stack->weight_bytes * n * h;
    const bool gathered = gathers_logits(builder);
    const uint32_t modules = builder->modules;
    if (builder->stack->recomputes_head)
        builder->modules |= TPP_MODULE_WHOLE_LAYER;
    tpp_build_norm(builder, TPP_SECTION_FORWARD, 1);
    tpp_build_tensor_entry_forward(builder, "head");
    build_head_gemm(builder, TPP_SECTION_FORWARD, n, local_vocabulary, h);
    if (gathered)
        tpp_builder_collective(builder, "logits", TPP_SECTION_FORWARD, TPP_GROUP_TENSOR, TPP_ALL_GATHER,
                               builder->stack->weight_bytes * n * local_logits, TPP_NO_OP);
    builder->modules = modules;
    for (int i = 0; !gathered && i < 3; i++)
        tpp_builder_collective(builder, "loss", TPP_SECTION_FORWARD, TPP_GROUP_TENSOR, TPP_ALL_REDUCE, 4 * n, TPP_NO_OP);
    tpp_builder_memory(builder, "loss", TPP_SECTION_FORWARD, TPP_PART_HEAD,
                       (loss_traffic_bytes(builder, TPP_SECTION_FORWARD) + builder->stack->metric_logit_bytes) * n * local_logits,
                       4);
    tpp_builder_memory(builder, "loss", TPP_SECTION_BACKWARD, TPP_PART_HEAD,
                       loss_traffic_bytes(builder, TPP_SECTION_BACKWARD) * n * local_logits, 2);
    build_head_gemm(builder, TPP_SECTION_BACKWARD, n, h, local_vocabulary);
    int wgrad = TPP_NO_OP;
    if (!builder->frozen)
        wgrad = build_head_gemm(builder, TPP_SECTION_WEIGHT, local_vocabulary, h, n);
    tpp_builder_collective(builder, "head", TPP_SECTION_BACKWARD, TPP_GROUP_TENSOR,
                           builder->sequence_parallel ? TPP_REDUCE_SCATTER : TPP_ALL_REDUCE, activation,
                           tpp_builder_overlaps_tensor(builder) ? wgrad : TPP_NO_OP);
    tpp_build_norm(builder, TPP_SECTION_BACKWARD, 1);
}

/* The projection of a multi-token-prediction block: the normed hidden state beside the normed embedding of the next token,
 * 2h wide, back to h. Column-parallel in Megatron-Core, its output is gathered. */
static struct tpp_linear mtp_projection(const struct tpp_builder *builder)
{
    return (struct tpp_linear){.name = "mtp projection", .columns = builder->hidden / builder->tensor_parallel,
                               .depth = 2 * builder->hidden};
}

static void build_mtp_edges(struct tpp_builder *builder, enum tpp_section section)
{
    const bool forward = section == TPP_SECTION_FORWARD;
    const double h = builder->hidden, n = builder->tokens;
    const double whole = builder->stack->weight_bytes * n * h;
    const struct tpp_linear projection = mtp_projection(builder);
    tpp_builder_memory(builder, "mtp embedding", section, TPP_PART_HEAD, (forward ? 6 : 10) * h * n, 2);
    tpp_build_norm(builder, section, 2);
    tpp_builder_collective(builder, "mtp projection", section, TPP_GROUP_TENSOR,
                           builder->sequence_parallel == forward ? TPP_ALL_GATHER : TPP_REDUCE_SCATTER, 2 * whole,
                           TPP_NO_OP);
    if (forward)
        tpp_build_linear_forward(builder, &projection);
    else
        tpp_build_linear_backward(builder, &projection, NULL, NULL);
}

/* One more layer like the model's last, behind its projection and in front of the shared head (2.2). */
static void build_mtp_block(struct tpp_builder *builder, double local_vocabulary, double local_logits)
{
    const struct tpp_model *model = builder->model;
    const bool is_moe = tpp_model_layer_is_moe(model, model->num_layers - 1);
    const struct tpp_linear projection = mtp_projection(builder);
    const double norm = model->norm == TPP_NORM_LAYER ? 2 : model->norm == TPP_NORM_NO_PARAMETERS ? 0 : 1;
    const double w = builder->stack->weight_bytes;
    tpp_build_linear_parameters(builder, &projection);
    builder->program->parameters += 3 * norm * builder->hidden; /* of both inputs and of the output */
    builder->modules |= TPP_MODULE_WHOLE_LAYER;
    tpp_builder_tensor(builder, "mtp projection input", TPP_TENSOR_SAVED,
                       2 * w * builder->hidden * builder->norm_share * builder->tokens);
    tpp_build_attention_tensors(builder);
    if (is_moe)
        tpp_build_moe_tensors(builder);
    else
        tpp_build_mlp_tensors(builder);
    build_head_tensors(builder, local_logits);
    build_mtp_edges(builder, TPP_SECTION_FORWARD);
    tpp_build_attention_forward(builder);
    if (is_moe)
        tpp_build_moe_forward(builder);
    else
        tpp_build_mlp_forward(builder);
    builder->modules &= ~(uint32_t)TPP_MODULE_WHOLE_LAYER;
    build_head_ops(builder, local_vocabulary, local_logits);
    if (is_moe)
        tpp_build_moe_backward(builder);
    else
        tpp_build_mlp_backward(builder);
    tpp_build_attention_backward(builder);
    build_mtp_edges(builder, TPP_SECTION_BACKWARD);
    tpp_count_launches(builder, is_moe);
}

/* All blocks are equal: what is added for the first counts once for each. Dummy weight gradients are shared by equal
 * shapes, and so with the layers. */
static void build_mtp_blocks(struct tpp_builder *builder, double local_vocabulary, double local_logits)
{
    struct tpp_program *program = builder->program;
    const double blocks = builder->job->mtp_num_layers, more = blocks - 1;
    const struct tpp_program before = {.parameters = program->parameters,
                                       .num_tensors_of_parameters = program->num_tensors_of_parameters};
    const uint32_t first_op = program->num_ops, first_tensor = program->num_tensors;
    build_mtp_block(builder, local_vocabulary, local_logits);
    program->parameters += more * (program->parameters - before.parameters);
    program->linear_parameters *= blocks;
    program->expert_parameters *= blocks;
    program->num_tensors_of_parameters += more * (program->num_tensors_of_parameters - before.num_tensors_of_parameters);
    program->forward_launches *= blocks;
    program->backward_launches *= blocks;
    for (uint32_t i = first_op; i < program->num_ops; i++)
        program->ops[i].count *= blocks;
    for (uint32_t i = first_tensor; i < program->num_tensors; i++)
        program->tensors[i].bytes *= program->tensors[i].life == TPP_TENSOR_DUMMY ? 0 : blocks;
}

void tpp_build_head(struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    const double h = builder->hidden;
    const double local = local_vocabulary(builder);
    const bool gathered = gathers_logits(builder);
    const double local_logits = gathered ? padded_vocabulary(builder) : local;
    struct tpp_program *program = builder->program;
    program->parameters = (model->final_norm ? h * (model->norm == TPP_NORM_LAYER ? 2 : 1) : 0);
    program->num_tensors_of_parameters = 1;
    if (program->axes.untied_copy) {
        program->vocabulary_parameters = local * h + (model->lm_head_bias ? local : 0);
        program->parameters += program->vocabulary_parameters;
        program->num_tensors_of_parameters += 1;
    }
    if (builder->stack->transformer_engine && !builder->frozen && builder->stack->gradient_bytes == 4)
        tpp_builder_tensor(builder, "head", TPP_TENSOR_DUMMY, 2 * local * h);
    if (waits_for_barrier(builder))
        tpp_builder_tensor(builder, "exponentials", TPP_TENSOR_SAVED, 4 * builder->tokens * local_logits);
    build_head_tensors(builder, local_logits);
    build_head_ops(builder, local, local_logits);
    if (builder->job->mtp_num_layers > 0)
        build_mtp_blocks(builder, local, local_logits);
}
