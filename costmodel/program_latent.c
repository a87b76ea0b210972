/* Multi-head latent attention: queries, keys and values through low-rank projections (cost-model 2.3, 4.2 D, 5.1, 7). The
 * down-projections are held by every tensor-parallel rank and, with sequence parallelism, see its own tokens only; what
 * they give is gathered, not the hidden state. */
#include "costmodel/program_parts.h"

bool tpp_builder_is_latent(const struct tpp_builder *builder)
{
    return builder->model->kv_lora_rank > 0;
}

struct latent {
    struct tpp_linear projections[4]; /* q down, q up, kv down, kv up */
    bool is_up[4];                    /* run again with mla_up_proj */
    int count;
    double gathered_width; /* elements a token that cross between the tensor-parallel ranks */
};

static struct latent latent_start(const struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    const double h = builder->hidden, heads = builder->local_heads, own = builder->tokens * builder->norm_share;
    const double query = heads * builder->qk_head_dim, kv_rank = model->kv_lora_rank, rope = model->qk_rope_head_dim;
    struct latent latent = {.gathered_width = model->q_lora_rank > 0 ? model->q_lora_rank + kv_rank + rope : h};
    if (model->q_lora_rank > 0) {
        latent.projections[latent.count++] =
            (struct tpp_linear){.name = "query down", .columns = model->q_lora_rank, .depth = h, .tokens = own};
        latent.is_up[latent.count] = true;
        latent.projections[latent.count++] =
            (struct tpp_linear){.name = "query up", .columns = query, .depth = model->q_lora_rank};
    } else {
        latent.is_up[latent.count] = true;
        latent.projections[latent.count++] = (struct tpp_linear){.name = "query", .columns = query, .depth = h};
    }
    latent.projections[latent.count++] =
        (struct tpp_linear){.name = "key and value down", .columns = kv_rank + rope, .depth = h, .tokens = own};
    latent.is_up[latent.count] = true;
    latent.projections[latent.count++] =
        (struct tpp_linear){.name = "key and value up",
                            .columns = heads * ((double)model->qk_nope_head_dim + model->v_head_dim),
                            .depth = kv_rank};
    for (int i = 1; i < latent.count; i += 2)
        latent.projections[i].unsaved_fraction = 1;
    return latent;
}

void tpp_build_latent_tensors(struct tpp_builder *builder)
{
    const struct tpp_model *model = builder->model;
    const struct latent latent = latent_start(builder);
    const double w = builder->stack->weight_bytes, n = builder->tokens, kv_rank = model->kv_lora_rank;
    for (int i = 0; i < latent.count; i++)
        tpp_build_linear_parameters(builder, &latent.projections[i]);
    builder->program->parameters += (double)model->q_lora_rank + kv_rank; /* the two inner norms */
    /* Inputs and outputs of the inner norms, and the keys' share of the up-projection, which is copied into k (4.2 D). */
    tpp_builder_tensor(builder, "latent queries", TPP_TENSOR_SAVED, 2 * w * model->q_lora_rank * n);
    tpp_builder_tensor(builder, "latent keys and values", TPP_TENSOR_SAVED,
                       w * (2 * kv_rank + model->qk_rope_head_dim) * n);
    tpp_builder_kept(builder, "keys before the copy", TPP_MODULE_LATENT_UP,
                     w * builder->local_heads * model->qk_nope_head_dim * n);
}

static void build_inner_norms(struct tpp_builder *builder, enum tpp_section section)
{
    const double elements = (double)builder->model->q_lora_rank + builder->model->kv_lora_rank;
    tpp_builder_memory(builder, "latent norms", section, TPP_PART_POINTWISE,
                       (section == TPP_SECTION_FORWARD ? 4 : 6) * elements * builder->tokens, 2);
}

static void build_gather(struct tpp_builder *builder, enum tpp_section section, enum tpp_collective collective,
                         double width)
{
    if (builder->sequence_parallel)
        tpp_builder_collective(builder, "latent", section, TPP_GROUP_TENSOR, collective,
                               builder->stack->weight_bytes * builder->tokens * width, TPP_NO_OP);
}

void tpp_build_latent_forward(struct tpp_builder *builder)
{
    const struct latent latent = latent_start(builder);
    for (int i = 0; i < latent.count; i++) {
        builder->modules |= latent.is_up[i] ? TPP_MODULE_LATENT_UP : 0;
        tpp_build_linear_forward(builder, &latent.projections[i]);
        builder->modules &= ~(uint32_t)TPP_MODULE_LATENT_UP;
    }
    build_inner_norms(builder, TPP_SECTION_FORWARD);
    build_gather(builder, TPP_SECTION_FORWARD, TPP_ALL_GATHER, latent.gathered_width);
}

void tpp_build_latent_backward(struct tpp_builder *builder)
{
    const struct latent latent = latent_start(builder);
    for (int i = latent.count - 1; i >= 0; i--)
        tpp_build_linear_backward(builder, &latent.projections[i], NULL, NULL);
    build_inner_norms(builder, TPP_SECTION_BACKWARD);
    build_gather(builder, TPP_SECTION_BACKWARD, TPP_REDUCE_SCATTER, latent.gathered_width);
    if (!builder->sequence_parallel)
        tpp_builder_collective(builder, "attention", TPP_SECTION_BACKWARD, TPP_GROUP_TENSOR, TPP_ALL_REDUCE,
                               builder->stack->weight_bytes * builder->tokens * builder->hidden, TPP_NO_OP);
}
