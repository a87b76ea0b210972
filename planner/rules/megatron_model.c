/* megatron_model.c - Megatron-LM's rules for the model's shape (ML-4 .. ML-7, ML-10, ML-84, ML-85, ML-95, ML-98). */
#include "planner/rules/table.h"

static bool heads_divide(const struct tpp_rule_context *c)
{
    return c->s->num_attention_heads % c->tensor_parallel == 0;
}

static bool uses_groups(const struct tpp_rule_context *c)
{
    return c->s->group_query_attention && !c->s->multi_latent_attention;
}

static bool groups_divide_heads(const struct tpp_rule_context *c)
{
    return !uses_groups(c) || tpp_rule_divides(c->num_query_groups, c->s->num_attention_heads);
}

/* Since 0.16 ranks may share a group, when the projection of all heads and groups still divides. */
static bool groups_divide(const struct tpp_rule_context *c)
{
    int64_t groups = c->num_query_groups, ranks = c->tensor_parallel;
    if (!c->s->group_query_attention || groups % ranks == 0)
        return true;
    return c->release >= TPP_RELEASE_0_16 && ranks % groups == 0;
}

static bool shared_groups_divide(const struct tpp_rule_context *c)
{
    if (!uses_groups(c) || c->num_query_groups >= c->tensor_parallel)
        return true;
    return (c->s->num_attention_heads + 2 * c->num_query_groups) * c->kv_channels % c->tensor_parallel == 0;
}

static bool hidden_divides(const struct tpp_rule_context *c)
{
    return tpp_rule_is_set(c->s->kv_channels) || c->s->hidden_size % c->s->num_attention_heads == 0;
}

static bool mlp_divides(const struct tpp_rule_context *c)
{
    bool has_dense = !c->is_moe || c->s->has_dense_layers;
    return !has_dense || c->ffn_hidden_size % c->tensor_parallel == 0;
}

static bool positions_reach(const struct tpp_rule_context *c)
{
    return c->s->max_position_embeddings >= c->s->sequence_length;
}

static bool latent_without_groups(const struct tpp_rule_context *c)
{
    return !c->s->multi_latent_attention || !c->s->group_query_attention;
}

static bool latent_one_rank(const struct tpp_rule_context *c)
{
    return !c->s->multi_latent_attention || c->tensor_parallel == 1;
}

static bool latent_without_fusion(const struct tpp_rule_context *c)
{
    return !c->s->multi_latent_attention || c->s->position != TPP_RULE_POSITION_ROPE || !c->s->rope_fusion;
}

/* 0.10 builds no rotary embedding for another position type, which its latent attention then misses. */
static bool latent_has_rotary(const struct tpp_rule_context *c)
{
    return !c->s->multi_latent_attention || c->s->position == TPP_RULE_POSITION_ROPE;
}

static bool mtp_has_rotary(const struct tpp_rule_context *c)
{
    return !tpp_rule_is_set(c->s->mtp_num_layers) || c->s->position == TPP_RULE_POSITION_ROPE ||
           c->s->position == TPP_RULE_POSITION_NONE;
}

static bool one_activation(const struct tpp_rule_context *c)
{
    return !c->s->swiglu || !(c->s->squared_relu || c->s->quick_geglu);
}

static bool local_has_layer_norm(const struct tpp_rule_context *c)
{
    return !c->s->local_transformer || !c->s->rms_norm;
}

static bool is_latent(const struct tpp_rule_context *c)
{
    return c->s->multi_latent_attention || tpp_rule_is_set(c->s->mtp_num_layers);
}

static const struct tpp_rule latent_rules[] = {
    {"ML-84", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_16), latent_without_groups,
     "multi-latent attention excludes --group-query-attention", "", "drop --group-query-attention"},
    {"ML-84", TPP_RULE_AT_BUILD, TPP_RELEASE_0_10, TPP_RELEASE_0_10, latent_one_rank,
     "multi-latent attention needs a tensor parallel size of 1 in this release", "tp", "use a newer release"},
    {"ML-84", TPP_RULE_AT_BUILD, TPP_RELEASE_0_10, TPP_RELEASE_0_10, latent_has_rotary,
     "multi-latent attention needs rotary positions in this release", "", "use a newer release"},
    {"ML-84", TPP_RULE_AT_ARGUMENTS, TPP_RELEASE_0_11, TPP_RELEASE_0_12, latent_without_fusion,
     "multi-latent attention with rotary positions needs --no-rope-fusion in this release", "", "add --no-rope-fusion"},
    {"ML-85", TPP_RULE_AT_ARGUMENTS, TPP_RULE_SINCE(0_12), mtp_has_rotary,
     "multi-token prediction needs rotary positions or none", "", "use --position-embedding-type rope"},
};

static const struct tpp_rule rules[] = {
    {"ML-4", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, heads_divide,
     "the attention heads must be a multiple of the tensor parallel size", "heads tp",
     "choose a tensor parallel size that divides the heads"},
    {"ML-5", TPP_RULE_AT_BUILD, TPP_RULE_EVER, groups_divide_heads,
     "the attention heads must be a multiple of the query groups", "heads groups", "change --num-query-groups"},
    {"ML-5", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, groups_divide,
     "the query groups must be a multiple of the tensor parallel size (since 0.16 also the other way round)",
     "groups tp", "lower the tensor parallel size"},
    {"ML-5", TPP_RULE_AT_BUILD, TPP_RULE_SINCE(0_16), shared_groups_divide,
     "with fewer query groups than tensor-parallel ranks, (heads + 2 * groups) * channels must divide by the ranks",
     "heads groups kv-channels tp", "lower the tensor parallel size"},
    {"ML-6", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, hidden_divides,
     "the hidden size must be a multiple of the attention heads when no --kv-channels is given", "hidden heads",
     "give --kv-channels"},
    {"ML-7", TPP_RULE_AT_BUILD, TPP_RULE_EVER, mlp_divides,
     "the MLP's width must be a multiple of the tensor parallel size", "ffn tp", "change the tensor parallel size"},
    {"ML-10", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, positions_reach,
     "the sequence must not be longer than --max-position-embeddings", "sequence max-positions",
     "raise --max-position-embeddings"},
    {"ML-95", TPP_RULE_AT_ARGUMENTS, TPP_RULE_EVER, one_activation,
     "--swiglu excludes --squared-relu and --quick-geglu", "", "give one activation"},
    {"ML-98", TPP_RULE_AT_BUILD, TPP_RULE_EVER, local_has_layer_norm, "--transformer-impl local has no RMSNorm", "",
     "use the Transformer Engine implementation"},
};

const struct tpp_rule_group tpp_rules_megatron_latent = TPP_RULE_GROUP(latent_rules, is_latent);
const struct tpp_rule_group tpp_rules_megatron_model = TPP_RULE_GROUP(rules, NULL);
