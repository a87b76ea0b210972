#include "costmodel/model/model_fields.h"

/* clang-format off */
#define U32(key_, member_, group_, min_, max_)                                                                         \
    {key_, #member_, offsetof(struct tpp_model, member_), 0, TPP_FIELD_U32, group_, min_, max_}
#define COUNT(member_, group_, min_, max_) U32(#member_, member_, group_, min_, max_)
#define FLAG(member_, group_)                                                                                          \
    {#member_, #member_, offsetof(struct tpp_model, member_), 0, TPP_FIELD_BOOL, group_, 0, 1}
#define NUMBER(member_, min_, max_)                                                                                    \
    {#member_, #member_, offsetof(struct tpp_model, member_), 0, TPP_FIELD_NUMBER, TPP_FIELD_ALWAYS, min_, max_}
#define TEXT(member_, group_)                                                                                          \
    {#member_, #member_, offsetof(struct tpp_model, member_), sizeof(((struct tpp_model *)0)->member_),                \
     TPP_FIELD_TEXT, group_, 0, 0}
#define CHOICE(member_, kind_)                                                                                         \
    {#member_, #member_, offsetof(struct tpp_model, member_), 0, kind_, TPP_FIELD_ALWAYS, 0, 0}

#define MAX_WIDTH TPP_MODEL_MAX_WIDTH
#define MAX_HIDDEN TPP_MODEL_MAX_HIDDEN
#define MAX_HEADS TPP_MODEL_MAX_HEADS
#define MAX_POSITIONS TPP_MODEL_MAX_POSITIONS

static const struct tpp_model_field fields[] = {
    TEXT(name, TPP_FIELD_ALWAYS),
    TEXT(family, TPP_FIELD_ALWAYS),
    TEXT(stored_as, TPP_FIELD_QUANTIZED),
    U32("layers", num_layers, TPP_FIELD_ALWAYS, 1, TPP_MODEL_MAX_LAYERS),
    COUNT(hidden_size, TPP_FIELD_ALWAYS, 1, MAX_HIDDEN),
    COUNT(num_attention_heads, TPP_FIELD_ALWAYS, 1, MAX_HEADS),
    COUNT(num_query_groups, TPP_FIELD_ALWAYS, 1, MAX_HEADS),
    COUNT(head_dim, TPP_FIELD_ALWAYS, 1, MAX_HEADS),
    COUNT(ffn_hidden_size, TPP_FIELD_ALWAYS, 0, MAX_WIDTH),
    FLAG(gated_mlp, TPP_FIELD_ALWAYS),
    COUNT(vocab_size, TPP_FIELD_ALWAYS, 1, MAX_WIDTH),
    COUNT(max_position_embeddings, TPP_FIELD_ALWAYS, 0, MAX_POSITIONS),
    CHOICE(position, TPP_FIELD_POSITION),
    COUNT(learned_position_rows, TPP_FIELD_ALWAYS, 0, MAX_POSITIONS),
    NUMBER(rope_theta, 0, 1e15),
    NUMBER(rotary_fraction, 0, 1),
    CHOICE(norm, TPP_FIELD_NORM),
    NUMBER(norm_epsilon, 0, 1),
    CHOICE(activation, TPP_FIELD_ACTIVATION),
    COUNT(norms_per_layer, TPP_FIELD_ALWAYS, 0, 8),
    FLAG(final_norm, TPP_FIELD_ALWAYS),
    FLAG(embedding_norm, TPP_FIELD_ALWAYS),
    FLAG(qk_norm, TPP_FIELD_ALWAYS),
    COUNT(qk_norm_elements, TPP_FIELD_ALWAYS, 0, MAX_POSITIONS),
    FLAG(parallel_block, TPP_FIELD_ALWAYS),
    FLAG(qkv_bias, TPP_FIELD_ALWAYS),
    FLAG(output_bias, TPP_FIELD_ALWAYS),
    FLAG(mlp_bias, TPP_FIELD_ALWAYS),
    FLAG(lm_head_bias, TPP_FIELD_ALWAYS),
    FLAG(tied_embeddings, TPP_FIELD_ALWAYS),
    COUNT(sliding_window, TPP_FIELD_ALWAYS, 0, MAX_POSITIONS),
    COUNT(sliding_window_layers, TPP_FIELD_ALWAYS, 0, TPP_MODEL_MAX_LAYERS),
    COUNT(attention_sink_elements, TPP_FIELD_ALWAYS, 0, MAX_HEADS),
    COUNT(mtp_num_layers, TPP_FIELD_ALWAYS, 0, TPP_MODEL_MAX_MTP_LAYERS),
    COUNT(num_experts, TPP_FIELD_EXPERTS, 0, MAX_HEADS),
    COUNT(experts_per_token, TPP_FIELD_EXPERTS, 0, MAX_HEADS),
    COUNT(expert_groups, TPP_FIELD_EXPERTS, 0, MAX_HEADS),
    COUNT(groups_per_token, TPP_FIELD_EXPERTS, 0, MAX_HEADS),
    COUNT(moe_ffn_hidden_size, TPP_FIELD_EXPERTS, 0, MAX_WIDTH),
    COUNT(shared_expert_hidden_size, TPP_FIELD_EXPERTS, 0, MAX_WIDTH),
    FLAG(shared_expert_gate, TPP_FIELD_EXPERTS),
    FLAG(router_bias, TPP_FIELD_EXPERTS),
    FLAG(expert_bias, TPP_FIELD_EXPERTS),
    COUNT(first_k_dense, TPP_FIELD_EXPERTS, 0, TPP_MODEL_MAX_LAYERS),
    COUNT(moe_layer_period, TPP_FIELD_EXPERTS, 0, TPP_MODEL_MAX_LAYERS),
    COUNT(q_lora_rank, TPP_FIELD_LATENT, 0, MAX_HIDDEN),
    COUNT(kv_lora_rank, TPP_FIELD_LATENT, 0, MAX_HIDDEN),
    COUNT(qk_nope_head_dim, TPP_FIELD_LATENT, 0, MAX_HEADS),
    COUNT(qk_rope_head_dim, TPP_FIELD_LATENT, 0, MAX_HEADS),
    COUNT(v_head_dim, TPP_FIELD_LATENT, 0, MAX_HEADS),
};
/* clang-format on */

static const char *const norm_names[] = {"rms_norm", "layer_norm", "layer_norm_no_bias", "no_parameters", NULL};
static const char *const activation_names[] = {"gelu", "silu", "relu", "squared_relu", NULL};
static const char *const position_names[] = {"rope", "learned", "alibi", "none", NULL};

/* The rows above by key, then what is written for the reader but computed (checked when read back). A test compares
 * this list with the rows. */
static const char *const compact_keys[] = {
    "name",
    "family",
    "stored_as",
    "layers",
    "hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "head_dim",
    "ffn_hidden_size",
    "gated_mlp",
    "vocab_size",
    "max_position_embeddings",
    "position",
    "learned_position_rows",
    "rope_theta",
    "rotary_fraction",
    "norm",
    "norm_epsilon",
    "activation",
    "norms_per_layer",
    "final_norm",
    "embedding_norm",
    "qk_norm",
    "qk_norm_elements",
    "parallel_block",
    "qkv_bias",
    "output_bias",
    "mlp_bias",
    "lm_head_bias",
    "tied_embeddings",
    "sliding_window",
    "sliding_window_layers",
    "attention_sink_elements",
    "mtp_num_layers",
    "num_experts",
    "experts_per_token",
    "expert_groups",
    "groups_per_token",
    "moe_ffn_hidden_size",
    "shared_expert_hidden_size",
    "shared_expert_gate",
    "router_bias",
    "expert_bias",
    "first_k_dense",
    "moe_layer_period",
    "q_lora_rank",
    "kv_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "v_head_dim",
    "total_parameters",
    "active_parameters",
    "schema_version",
    NULL,
};

const struct tpp_model_field *tpp_model_fields(size_t *count)
{
    *count = sizeof(fields) / sizeof(fields[0]);
    return fields;
}

const char *const *tpp_model_compact_keys(void)
{
    return compact_keys;
}

const char *const *tpp_model_field_names(enum tpp_model_field_kind kind)
{
    switch (kind) {
    case TPP_FIELD_NORM:
        return norm_names;
    case TPP_FIELD_ACTIVATION:
        return activation_names;
    case TPP_FIELD_POSITION:
        return position_names;
    default:
        return NULL;
    }
}

static const char *name_at(const char *const *names, unsigned index)
{
    for (unsigned i = 0; names[i] != NULL; i++) {
        if (i == index)
            return names[i];
    }
    return "unknown";
}

const char *tpp_norm_name(enum tpp_norm norm)
{
    return name_at(norm_names, (unsigned)norm);
}

const char *tpp_activation_name(enum tpp_activation activation)
{
    return name_at(activation_names, (unsigned)activation);
}

const char *tpp_position_name(enum tpp_position position)
{
    return name_at(position_names, (unsigned)position);
}
