/* The attention core and context parallelism: flash kernels, ring steps, all-gathers, head all-to-alls, and the unfused
 * products with their softmax (cost-model 5.2, 7 "CP", 15.3). */
#include "costmodel/program_parts.h"

#include <math.h>

/* How the sequence and the heads of one micro-batch lie on a rank during attention. */
struct core {
    double ring;          /* ranks of the ring (or of the key/value gather), 1 without */
    double heads, groups; /* on this rank during attention */
    double rows;          /* sequences (or packed documents) */
    double length;        /* tokens of one of them held by this rank */
    bool gathered;        /* keys and values of the whole sequence are here */
    double whole_length;  /* tokens of one sequence or document, all ranks together */
};

static struct core core_start(const struct tpp_builder *builder)
{
    const struct tpp_layer_axes *axes = &builder->program->axes;
    const double c = axes->context_parallel;
    const double u = axes->context_kind == TPP_CONTEXT_ULYSSES  ? c
                     : axes->context_kind == TPP_CONTEXT_HYBRID ? axes->ulysses_parallel
                                                                : 1;
    const double s = (double)builder->job->sequence_length, block = (double)builder->job->attention_block_length;
    struct core core = {
        .ring = c / u,
        .heads = builder->local_heads / u,
        .groups = fmax(1, builder->local_groups / u),
        .rows = axes->micro_batch_size,
        .whole_length = s,
        .gathered = axes->context_kind == TPP_CONTEXT_ALL_GATHER && c > 1,
    };
    if (block > 0) { /* packed documents: only the blocks on the diagonal are computed; of padded sequences, an average */
        core.rows *= s / block;
        core.whole_length = block;
    }
    core.length = core.whole_length / core.ring;
    return core;
}

static struct tpp_op *flash_op(struct tpp_builder *builder, const struct core *core, const char *name,
                               enum tpp_section section, double query_length, double key_length, bool causal)
{
    struct tpp_op *op = tpp_builder_op(builder, name,
                                       section == TPP_SECTION_FORWARD ? TPP_OP_FLASH_FORWARD : TPP_OP_FLASH_BACKWARD,
                                       section, TPP_PART_ATTENTION);
    op->attention = (struct tpp_attention){
        .batch = core->rows, .heads = core->heads, .query_length = query_length, .key_length = key_length,
        .qk_head_dim = builder->qk_head_dim, .v_head_dim = builder->v_head_dim, .causal = causal,
        .kernel = builder->stack->attention, .deterministic = builder->stack->deterministic,
        .quantised = builder->stack->fp8_attention,
    };
    return op;
}

/* Elements of keys and values of one token on this rank during attention. */
static double key_value_width(const struct tpp_builder *builder, const struct core *core)
{
    return core->groups * (builder->key_width + builder->value_width) / builder->local_groups;
}

/* Ring: the other c-1 steps are full (s/c x s/2c) rectangles on every rank, thanks to the zig-zag cut; each hides the
 * transfer of the next keys and values (backward: and of their gradients), plus a correction of the partial results. */
static void build_ring_steps(struct tpp_builder *builder, const struct core *core, enum tpp_section section)
{
    const bool forward = section == TPP_SECTION_FORWARD;
    const double steps = core->ring - 1;
    flash_op(builder, core, "ring attention", section, core->length, core->length / 2, false)->count = steps;
    const int attention = (int)builder->program->num_ops - 1;
    struct tpp_op *op = tpp_builder_op(builder, "ring keys and values", TPP_OP_COMMUNICATION, section, TPP_PART_CONTEXT);
    op->group = TPP_GROUP_CONTEXT;
    op->collective = TPP_SEND_RECV;
    op->count = steps;
    op->bytes = (forward ? 2 : 4) * core->rows * core->length * key_value_width(builder, core);
    op->hidden_behind = attention;
    op->each_step = true;
    const int correction = tpp_builder_memory(builder, "ring correction", section, TPP_PART_CONTEXT,
                                              6 * builder->tokens * builder->local_heads * builder->v_head_dim, 1);
    builder->program->ops[correction].count = steps;
}

/* MXFP8's operands: q, k and v forward, the output's gradient backward, are read in 16 bits and written along rows and along columns
 * (Transformer Engine, attention/dot_product_attention/utils.py, get_attention_quantizers). */
static void build_attention_casts(struct tpp_builder *builder, enum tpp_section section)
{
    const bool forward = section == TPP_SECTION_FORWARD;
    const double bytes = 2 + 2 * (1 + 1.0 / 32), heads = builder->local_heads;
    const double width =
        forward ? heads * builder->qk_head_dim + builder->key_width + builder->value_width : heads * builder->v_head_dim;
    tpp_builder_memory(builder, "attention casts", section, TPP_PART_ATTENTION, bytes * width * builder->tokens, forward ? 3 : 1);
}

static void build_flash(struct tpp_builder *builder, const struct core *core, enum tpp_section section)
{
    const struct tpp_model *model = builder->model;
    /* Layers with a sliding window see at most that many keys a query. A ring passes whole chunks on, so that the window
     * saves something inside a rank's own chunk alone; where keys and values are gathered, it is cut out of them. */
    const double keys = core->gathered ? core->whole_length : core->length;
    const double windowed = model->sliding_window > 0 && model->sliding_window < keys
                                ? (double)model->sliding_window_layers / model->num_layers
                                : 0;
    if (windowed < 1)
        flash_op(builder, core, "attention", section, core->length, keys, !builder->stack->attention_bias)->count = 1 - windowed;
    if (builder->stack->attention_bias) /* made by a sum: written; read */
        tpp_builder_memory(builder, "attention bias", section, TPP_PART_ATTENTION,
                           (section == TPP_SECTION_FORWARD ? 4 : 2) * core->rows * core->heads * core->length * keys, 1);
    /* Backward of MXFP8 computes what the window masks too: 0.64, 2.08 and 7.4 ms at 2048, 4096 and 8192 tokens where 16 bits take 0.24,
     * 0.47 and 0.91 (gpt-oss on GB200, the tables of kernel_time.c). */
    const bool skips = section == TPP_SECTION_FORWARD || !builder->stack->fp8_attention;
    const double seen = skips ? model->sliding_window : keys;
    if (windowed > 0)
        flash_op(builder, core, "window attention", section, core->length, seen, !skips)->count = windowed;
    if (builder->stack->fp8_attention)
        build_attention_casts(builder, section);
    if (core->ring > 1 && !core->gathered)
        build_ring_steps(builder, core, section);
}

/* Traffic of the softmax, bytes of one score (5.2, 15.3). Dropout adds 5 each way; the 9 and 11 that 15.3 gives for
 * Megatron's fused kernel include it, or example E10 would not hold. Aleph-Alpha/scaling (core/nn/masked_softmax) casts up
 * 6, fills the mask in place 8, softmax 8, casts down 6; back: cast 6, softmax 12, fill 8, cast 6. */
static double softmax_bytes(const struct tpp_builder *builder, enum tpp_section section)
{
    const bool forward = section == TPP_SECTION_FORWARD;
    const double dropout = builder->job->attention_dropout > 0 ? 5 : 0;
    if (builder->stack->attention == TPP_ATTENTION_EAGER && builder->stack->softmax_in_place)
        return (forward ? 28 : 32) + dropout;
    if (builder->stack->attention == TPP_ATTENTION_EAGER)
        return (forward ? 33 : 38) + dropout;
    return (forward ? 4 : 6) + dropout;
}

static void build_unfused(struct tpp_builder *builder, const struct core *core, enum tpp_section section)
{
    const bool forward = section == TPP_SECTION_FORWARD;
    struct tpp_op *op =
        tpp_builder_op(builder, "attention products", TPP_OP_ATTENTION_GEMM, section, TPP_PART_ATTENTION);
    op->attention = (struct tpp_attention){
        .batch = core->rows, .heads = core->heads, .query_length = core->length, .key_length = core->whole_length,
        .qk_head_dim = builder->qk_head_dim, .v_head_dim = builder->v_head_dim,
        .kernel = builder->stack->attention,
    };
    op->count = forward ? 2 : 4;
    op->scaled = true;
    const double scores = core->rows * core->heads * core->length * core->whole_length;
    tpp_builder_memory(builder, "softmax", section, TPP_PART_ATTENTION,
                       softmax_bytes(builder, section) * scores, 2);
}

static void build_context_collective(struct tpp_builder *builder, const char *name, enum tpp_section section,
                                     enum tpp_group_kind group, enum tpp_collective collective, double bytes)
{
    tpp_builder_collective(builder, name, section, group, collective, bytes, TPP_NO_OP);
}

/* Ulysses: queries, keys and values change from sequence cuts to head cuts, the result changes back (7 "Ulysses"). Keys
 * and values are replicated when there are fewer groups than ranks. */
static void build_head_swap(struct tpp_builder *builder, const struct core *core, enum tpp_section section)
{
    const struct tpp_layer_axes *axes = &builder->program->axes;
    const double u = axes->context_parallel / core->ring, n = builder->tokens;
    if (u <= 1)
        return;
    const double copies = fmax(builder->local_groups, u) / builder->local_groups;
    build_context_collective(builder, "q, k, v all-to-all", section, TPP_GROUP_ULYSSES, TPP_ALL_TO_ALL,
                             2 * n *
                                 (builder->local_heads * builder->qk_head_dim +
                                  copies * (builder->key_width + builder->value_width)));
    build_context_collective(builder, "attention output all-to-all", section, TPP_GROUP_ULYSSES, TPP_ALL_TO_ALL,
                             2 * n * builder->local_heads * builder->v_head_dim);
}

static void build_key_value_gather(struct tpp_builder *builder, const struct core *core, enum tpp_section section)
{
    if (!core->gathered)
        return;
    const double bytes =
        2 * builder->program->axes.micro_batch_size * (double)builder->job->sequence_length *
        key_value_width(builder, core);
    build_context_collective(builder, "keys and values", section, TPP_GROUP_CONTEXT, TPP_ALL_GATHER, bytes);
    if (section == TPP_SECTION_BACKWARD)
        build_context_collective(builder, "key and value gradients", section, TPP_GROUP_CONTEXT, TPP_REDUCE_SCATTER,
                                 bytes);
}

static void build_core(struct tpp_builder *builder, enum tpp_section section)
{
    const struct core core = core_start(builder);
    builder->modules |= TPP_MODULE_CORE_ATTENTION;
    build_head_swap(builder, &core, section);
    build_key_value_gather(builder, &core, section);
    if (builder->stack->attention < TPP_FLASH_KERNEL_COUNT)
        build_flash(builder, &core, section);
    else
        build_unfused(builder, &core, section);
    builder->modules &= ~(uint32_t)TPP_MODULE_CORE_ATTENTION;
}

void tpp_build_core_forward(struct tpp_builder *builder)
{
    build_core(builder, TPP_SECTION_FORWARD);
}

void tpp_build_core_backward(struct tpp_builder *builder)
{
    build_core(builder, TPP_SECTION_BACKWARD);
}
