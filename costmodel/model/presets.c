#include "costmodel/model/presets.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
/* Columns of presets.def. A layer count includes no MTP blocks; ffn is one matrix of the dense MLP (0: every layer has
 * experts); `shared` is the width of all shared experts together. */
#define SHAPE(layers, hidden, heads, groups, head, ffn, vocab)                                                         \
    .num_layers = layers, .hidden_size = hidden, .num_attention_heads = heads, .num_query_groups = groups,             \
    .head_dim = head, .ffn_hidden_size = ffn, .vocab_size = vocab
#define EXPERTS(experts, per_token, ffn, shared, dense, period)                                                        \
    .num_experts = experts, .experts_per_token = per_token, .moe_ffn_hidden_size = ffn,                                \
    .shared_expert_hidden_size = shared, .first_k_dense = dense, .moe_layer_period = period
#define GROUPS(groups, per_token) .expert_groups = groups, .groups_per_token = per_token
#define LATENT(q_rank, kv_rank, nope, rope, value)                                                                     \
    .q_lora_rank = q_rank, .kv_lora_rank = kv_rank, .qk_nope_head_dim = nope, .qk_rope_head_dim = rope,                \
    .v_head_dim = value
#define ROTARY(positions, theta, epsilon)                                                                              \
    .max_position_embeddings = positions, .rope_theta = theta, .norm_epsilon = epsilon

/* Blocks that many families share. */
#define LLAMA_BLOCK                                                                                                    \
    .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_SILU, .position = TPP_POSITION_ROPE, .norms_per_layer = 2,      \
    .gated_mlp = true, .final_norm = true
#define GPT_BLOCK                                                                                                      \
    .norm = TPP_NORM_LAYER, .norms_per_layer = 2, .final_norm = true, .qkv_bias = true, .output_bias = true,           \
    .mlp_bias = true

/* What the shipped models of a family have in common. */
#define BAICHUAN                                                                                                       \
    .family = "baichuan", .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_SILU, .norms_per_layer = 2,               \
    .gated_mlp = true, .final_norm = true
#define BLOOM                                                                                                          \
    .family = "bloom", GPT_BLOCK, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ALIBI,                   \
    .embedding_norm = true
#define CHATGLM                                                                                                        \
    .family = "chatglm", LLAMA_BLOCK, .qkv_bias = true, .rotary_fraction = 0.5
#define COHERE                                                                                                         \
    .family = "cohere", .norm = TPP_NORM_LAYER_NO_BIAS, .activation = TPP_ACTIVATION_SILU,                             \
    .position = TPP_POSITION_ROPE, .norms_per_layer = 1, .gated_mlp = true, .final_norm = true,                        \
    .parallel_block = true, .rotary_fraction = 1
#define DEEPSEEK                                                                                                       \
    .family = "deepseek", LLAMA_BLOCK, .rotary_fraction = 1
#define DEEPSEEK_V2                                                                                                    \
    .family = "deepseek_v2", LLAMA_BLOCK, .rotary_fraction = 1.0 / 3
#define DEEPSEEK_V3                                                                                                    \
    .family = "deepseek_v3", LLAMA_BLOCK, .rotary_fraction = 1.0 / 3, .router_bias = true
#define FALCON                                                                                                         \
    .family = "falcon", .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ROPE,      \
    .final_norm = true, .parallel_block = true, .rotary_fraction = 1
#define GEMMA                                                                                                          \
    .family = "gemma", .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ROPE,         \
    .norms_per_layer = 2, .gated_mlp = true, .final_norm = true, .rotary_fraction = 1
#define GEMMA2                                                                                                         \
    .family = "gemma2", .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ROPE,        \
    .norms_per_layer = 4, .gated_mlp = true, .final_norm = true, .rotary_fraction = 1
#define GEMMA3_TEXT                                                                                                    \
    .family = "gemma3_text", .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ROPE,   \
    .norms_per_layer = 4, .gated_mlp = true, .final_norm = true, .qk_norm = true, .rotary_fraction = 1
#define GPT2                                                                                                           \
    .family = "gpt2", GPT_BLOCK, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_LEARNED
#define GPT3                                                                                                           \
    .family = "gpt3", GPT_BLOCK, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_LEARNED
#define GPT_BIGCODE                                                                                                    \
    .family = "gpt_bigcode", GPT_BLOCK, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_LEARNED
#define GPT_NEOX                                                                                                       \
    .family = "gpt_neox", GPT_BLOCK, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ROPE,                 \
    .parallel_block = true, .rotary_fraction = 0.25
#define GPT_OSS                                                                                                        \
    .family = "gpt_oss", LLAMA_BLOCK, .qkv_bias = true, .output_bias = true, .rotary_fraction = 1,                     \
    .router_bias = true, .expert_bias = true
#define GPTJ                                                                                                           \
    .family = "gptj", .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ROPE,        \
    .norms_per_layer = 1, .final_norm = true, .parallel_block = true, .mlp_bias = true, .lm_head_bias = true,          \
    .rotary_fraction = 0.25
#define INTERNLM                                                                                                       \
    .family = "internlm", LLAMA_BLOCK, .qkv_bias = true, .output_bias = true, .rotary_fraction = 1
#define INTERNLM2                                                                                                      \
    .family = "internlm2", LLAMA_BLOCK, .rotary_fraction = 1
#define KIMI_K2                                                                                                        \
    .family = "kimi_k2", LLAMA_BLOCK, .rotary_fraction = 1.0 / 3, .router_bias = true
#define LLAMA                                                                                                          \
    .family = "llama", LLAMA_BLOCK, .rotary_fraction = 1
#define LLAMA4                                                                                                         \
    .family = "llama4", LLAMA_BLOCK, .rotary_fraction = 1
#define MINICPM3                                                                                                       \
    .family = "minicpm3", LLAMA_BLOCK, .rotary_fraction = 1.0 / 3
#define MISTRAL                                                                                                        \
    .family = "mistral", LLAMA_BLOCK, .rotary_fraction = 1
#define MIXTRAL                                                                                                        \
    .family = "mixtral", LLAMA_BLOCK, .rotary_fraction = 1
#define MPT                                                                                                            \
    .family = "mpt", .norm = TPP_NORM_LAYER_NO_BIAS, .activation = TPP_ACTIVATION_GELU,                                \
    .position = TPP_POSITION_ALIBI, .norms_per_layer = 2, .final_norm = true
#define OLMO2                                                                                                          \
    .family = "olmo2", LLAMA_BLOCK, .qk_norm = true, .rotary_fraction = 1
#define OPT                                                                                                            \
    .family = "opt", GPT_BLOCK, .activation = TPP_ACTIVATION_RELU, .position = TPP_POSITION_LEARNED
#define PHI_MSFT                                                                                                       \
    .family = "phi-msft", .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ROPE,    \
    .norms_per_layer = 1, .final_norm = true, .parallel_block = true, .qkv_bias = true, .output_bias = true,           \
    .mlp_bias = true, .lm_head_bias = true, .rotary_fraction = 0.4
#define PHI3                                                                                                           \
    .family = "phi3", LLAMA_BLOCK
#define PHIMOE                                                                                                         \
    .family = "phimoe", .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_SILU, .position = TPP_POSITION_ROPE,      \
    .norms_per_layer = 2, .gated_mlp = true, .final_norm = true, .qkv_bias = true, .output_bias = true,                \
    .lm_head_bias = true, .rotary_fraction = 1
#define QWEN                                                                                                           \
    .family = "qwen", LLAMA_BLOCK, .qkv_bias = true, .rotary_fraction = 1
#define QWEN2                                                                                                          \
    .family = "qwen2", LLAMA_BLOCK, .qkv_bias = true, .rotary_fraction = 1
#define QWEN2_5_VL                                                                                                     \
    .family = "qwen2_5_vl", LLAMA_BLOCK, .qkv_bias = true, .rotary_fraction = 1
#define QWEN2_MOE                                                                                                      \
    .family = "qwen2_moe", LLAMA_BLOCK, .qkv_bias = true, .rotary_fraction = 1, .shared_expert_gate = true
#define QWEN3                                                                                                          \
    .family = "qwen3", LLAMA_BLOCK, .qk_norm = true, .rotary_fraction = 1
#define QWEN3_MOE                                                                                                      \
    .family = "qwen3_moe", LLAMA_BLOCK, .qk_norm = true, .rotary_fraction = 1
#define STABLELM                                                                                                       \
    .family = "stablelm", .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_SILU, .position = TPP_POSITION_ROPE,    \
    .norms_per_layer = 2, .gated_mlp = true, .final_norm = true, .rotary_fraction = 0.25
#define STARCODER2                                                                                                     \
    .family = "starcoder2", GPT_BLOCK, .activation = TPP_ACTIVATION_GELU, .position = TPP_POSITION_ROPE,               \
    .rotary_fraction = 1
#define XVERSE                                                                                                         \
    .family = "xverse", LLAMA_BLOCK, .rotary_fraction = 1

static const struct tpp_model presets[] = {
#include "costmodel/model/presets.def"
};
/* clang-format on */
#define NUM_PRESETS (sizeof(presets) / sizeof(presets[0]))

const struct tpp_model *tpp_model_presets(size_t *count)
{
    *count = NUM_PRESETS;
    return presets;
}

static int compare_name(const void *name, const void *preset)
{
    return strcmp(name, ((const struct tpp_model *)preset)->name);
}

const struct tpp_model *tpp_model_preset(const char *name)
{
    return bsearch(name, presets, NUM_PRESETS, sizeof(presets[0]), compare_name);
}
