#include "costmodel/model/model_families.h"

#include <string.h>

static const struct tpp_model_keys common_keys = {
    .layers = {{"num_hidden_layers"}},
    .hidden = {{"hidden_size"}},
    .heads = {{"num_attention_heads"}},
    .groups = {{"num_key_value_heads"}},
    .head_dim = {{"head_dim"}},
    .ffn = {{"intermediate_size"}},
    .vocab = {{"vocab_size"}},
    .positions = {{"max_position_embeddings"}},
};
static const struct tpp_model_keys gpt2_keys = {
    .layers = {{"n_layer", "num_hidden_layers"}},
    .hidden = {{"n_embd", "hidden_size"}},
    .heads = {{"n_head", "num_attention_heads"}},
    .groups = {{"n_head_kv"}},
    .ffn = {{"n_inner"}},
    .ffn_per_hidden = 4,
    .vocab = {{"vocab_size"}},
    .positions = {{"n_positions", "max_position_embeddings"}},
};
static const struct tpp_model_keys bloom_keys = {
    .layers = {{"n_layer", "num_hidden_layers"}},
    .hidden = {{"hidden_size", "n_embed", "n_embd"}},
    .heads = {{"n_head", "num_attention_heads"}},
    .ffn_per_hidden = 4,
    .vocab = {{"vocab_size"}},
    .positions = {{"seq_length"}},
};
static const struct tpp_model_keys falcon_keys = {
    .layers = {{"num_hidden_layers", "n_layer"}},
    .hidden = {{"hidden_size"}},
    .heads = {{"num_attention_heads", "n_head"}},
    .groups = {{"num_kv_heads", "n_head_kv"}},
    .ffn = {{"ffn_hidden_size"}},
    .ffn_per_hidden = 4,
    .vocab = {{"vocab_size"}},
    .positions = {{"max_position_embeddings"}},
};
static const struct tpp_model_keys opt_keys = {
    .layers = {{"num_hidden_layers"}},
    .hidden = {{"hidden_size"}},
    .heads = {{"num_attention_heads"}},
    .ffn = {{"ffn_dim"}},
    .vocab = {{"vocab_size"}},
    .positions = {{"max_position_embeddings"}},
};
static const struct tpp_model_keys mpt_keys = {
    .layers = {{"n_layers"}},
    .hidden = {{"d_model"}},
    .heads = {{"n_heads"}},
    .ffn_per_hidden = 4, /* expansion_ratio and ffn_config: see the hook */
    .vocab = {{"vocab_size"}},
    .positions = {{"max_seq_len"}},
};
static const struct tpp_model_keys chatglm_keys = {
    .layers = {{"num_layers", "num_hidden_layers"}},
    .hidden = {{"hidden_size"}},
    .heads = {{"num_attention_heads"}},
    .head_dim = {{"kv_channels"}},
    .ffn = {{"ffn_hidden_size"}},
    .vocab = {{"padded_vocab_size", "vocab_size"}},
    .positions = {{"seq_length"}},
};
static const struct tpp_model_keys qwen_keys = {
    .layers = {{"num_hidden_layers"}},
    .hidden = {{"hidden_size"}},
    .heads = {{"num_attention_heads"}},
    .head_dim = {{"kv_channels"}},
    .ffn = {{"intermediate_size"}},
    .vocab = {{"vocab_size"}},
    .positions = {{"max_position_embeddings"}},
};
static const struct tpp_model_keys llama4_keys = {
    .layers = {{"num_hidden_layers"}},
    .hidden = {{"hidden_size"}},
    .heads = {{"num_attention_heads"}},
    .groups = {{"num_key_value_heads"}},
    .head_dim = {{"head_dim"}},
    .ffn = {{"intermediate_size_mlp"}}, /* intermediate_size is one expert's */
    .vocab = {{"vocab_size"}},
    .positions = {{"max_position_embeddings"}},
};

static const struct tpp_model_expert_keys mixtral_experts = {
    .experts = {{"num_local_experts"}}, .per_token = {{"num_experts_per_tok"}}, .ffn = {{"intermediate_size"}}};
static const struct tpp_model_expert_keys gpt_oss_experts = {
    .experts = {{"num_local_experts", "num_experts"}},
    .per_token = {{"num_experts_per_tok", "experts_per_token"}},
    .ffn = {{"intermediate_size"}},
    .router_bias = true,
    .expert_bias = true,
};
static const struct tpp_model_expert_keys deepseek_experts = {
    .experts = {{"n_routed_experts"}},
    .per_token = {{"num_experts_per_tok"}},
    .ffn = {{"moe_intermediate_size"}},
    .groups = {{"n_group"}},
    .groups_per_token = {{"topk_group"}},
    .shared_count = "n_shared_experts",
    .first_k_dense = "first_k_dense_replace",
    .frequency = "moe_layer_freq",
    .may_be_null = true,
};
static const struct tpp_model_expert_keys deepseek_v3_experts = {
    .experts = {{"n_routed_experts"}},
    .per_token = {{"num_experts_per_tok"}},
    .ffn = {{"moe_intermediate_size"}},
    .groups = {{"n_group"}},
    .groups_per_token = {{"topk_group"}},
    .shared_count = "n_shared_experts",
    .first_k_dense = "first_k_dense_replace",
    .frequency = "moe_layer_freq",
    .router_bias = true, /* e_score_correction_bias */
    .needs_layout = true,
    .may_be_null = true,
};
static const struct tpp_model_expert_keys qwen2_moe_experts = {
    .experts = {{"num_experts"}},
    .per_token = {{"num_experts_per_tok"}},
    .ffn = {{"moe_intermediate_size"}},
    .shared_size = "shared_expert_intermediate_size",
    .period = "decoder_sparse_step",
    .dense_layers = "mlp_only_layers",
    .needs_layout = true,
    .gate = true,
};
static const struct tpp_model_expert_keys qwen3_moe_experts = {
    .experts = {{"num_experts", "num_local_experts"}},
    .per_token = {{"num_experts_per_tok"}},
    .ffn = {{"moe_intermediate_size"}},
    .shared_size = "shared_expert_intermediate_size", /* 0 in every published file */
    .period = "decoder_sparse_step",
    .dense_layers = "mlp_only_layers",
};
static const struct tpp_model_expert_keys llama4_experts = {
    .experts = {{"num_local_experts"}},
    .per_token = {{"num_experts_per_tok"}},
    .ffn = {{"intermediate_size"}},
    .always_shared = true,
    .period = "interleave_moe_layer_step",
    .expert_layers = "moe_layers",
};
static const struct tpp_model_expert_keys olmoe_experts = {
    .experts = {{"num_experts"}}, .per_token = {{"num_experts_per_tok"}}, .ffn = {{"intermediate_size"}}};

/* clang-format off */
/* What whole groups of rows share. The Llama block: RMSNorm, gated SiLU, rotary, two norms. */
#define LLAMA_BLOCK                                                                                                    \
    .keys = &common_keys, .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_SILU, .is_gated = true,                   \
    .position = TPP_POSITION_ROPE
/* The GPT block: LayerNorm with biases, GELU, no gate. */
#define GPT_BLOCK .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_GELU
#define GEMMA_BLOCK                                                                                                    \
    .keys = &common_keys, .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_GELU, .is_gated = true,                   \
    .position = TPP_POSITION_ROPE, .is_tied = true, .default_head_dim = 256, .bias_keys = {ATTENTION_BIAS}
#define BIAS_ATTENTION (TPP_BIAS_QKV | TPP_BIAS_OUTPUT)
#define BIAS_LAYER (TPP_BIAS_QKV | TPP_BIAS_OUTPUT | TPP_BIAS_MLP)
#define ATTENTION_BIAS {"attention_bias", BIAS_ATTENTION, false}
#define MLP_BIAS {"mlp_bias", TPP_BIAS_MLP, false}
#define LM_HEAD_BIAS {"lm_head_bias", TPP_BIAS_LM_HEAD, false}
#define QWEN_WINDOW .window = TPP_WINDOW_FROM_LAYER, .window_key = "sliding_window", .window_default = 4096
#define GEMMA3_BLOCK                                                                                                   \
    GEMMA_BLOCK, .norms_per_layer = 4, .qk_norm = TPP_QK_NORM_PER_HEAD, .window = TPP_WINDOW_PATTERN,                  \
                 .window_key = "sliding_window", .window_default = 4096, .window_period = 6, .default_heads = 8,       \
                 .default_groups = 4, .default_vocab = 262208, .default_positions = 131072, .default_theta = 1e6
#define LLAMA4_BLOCK                                                                                                   \
    .keys = &llama4_keys, .nested = "text_config", .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_SILU,            \
    .is_gated = true, .position = TPP_POSITION_ROPE, .norms_per_layer = 2, .bias_keys = {ATTENTION_BIAS},              \
    .qk_norm = TPP_QK_NORM_NO_WEIGHTS, .qk_norm_key = "use_qk_norm", .qk_norm_default = true,                          \
    .window = TPP_WINDOW_PATTERN, .window_key = "attention_chunk_size", .window_default = 8192, .window_period = 4,    \
    .experts = &llama4_experts, .default_groups = 8, .default_theta = 500000
#define QWEN2_BLOCK LLAMA_BLOCK, .norms_per_layer = 2, .biases = TPP_BIAS_QKV, QWEN_WINDOW
#define DEEPSEEK_BLOCK LLAMA_BLOCK, .norms_per_layer = 2, .bias_keys = {ATTENTION_BIAS}

static const struct tpp_model_family families[] = {
    {.model_type = "baichuan", LLAMA_BLOCK, .norms_per_layer = 2, .finish = tpp_model_finish_baichuan},
    {.model_type = "bloom", .keys = &bloom_keys, GPT_BLOCK, .position = TPP_POSITION_ALIBI, .norms_per_layer = 2,
     .embedding_norm = true, .is_tied = true, .biases = BIAS_LAYER},
    {.model_type = "chatglm", .keys = &chatglm_keys, .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_SILU,
     .is_gated = true, .position = TPP_POSITION_ROPE, .norms_per_layer = 2,
     .bias_keys = {{"add_bias_linear", BIAS_LAYER, false}}, .default_rotary_fraction = 0.5,
     .finish = tpp_model_finish_chatglm},
    {.model_type = "cohere", .keys = &common_keys, .norm = TPP_NORM_LAYER_NO_BIAS, .activation = TPP_ACTIVATION_SILU,
     .is_gated = true, .position = TPP_POSITION_ROPE, .norms_per_layer = 1, .is_parallel = true, .is_tied = true,
     .bias_keys = {ATTENTION_BIAS}, .qk_norm = TPP_QK_NORM_FULL, .qk_norm_key = "use_qk_norm"},
    {.model_type = "cohere2", .keys = &common_keys, .norm = TPP_NORM_LAYER_NO_BIAS, .activation = TPP_ACTIVATION_SILU,
     .is_gated = true, .position = TPP_POSITION_ROPE, .norms_per_layer = 1, .is_parallel = true, .is_tied = true,
     .bias_keys = {ATTENTION_BIAS}, .window = TPP_WINDOW_PATTERN, .window_key = "sliding_window",
     .window_default = 4096, .window_period = 4},
    {.model_type = "deepseek", DEEPSEEK_BLOCK, .experts = &deepseek_experts},
    {.model_type = "deepseek_v2", DEEPSEEK_BLOCK, .experts = &deepseek_experts, .is_latent = true},
    {.model_type = "deepseek_v3", DEEPSEEK_BLOCK, .experts = &deepseek_v3_experts, .is_latent = true,
     .needs_q_rank = true, .has_mtp = true},
    {.model_type = "falcon", .keys = &falcon_keys, GPT_BLOCK, .position = TPP_POSITION_ROPE, .norms_per_layer = 2,
     .is_tied = true, .bias_keys = {{"bias", BIAS_LAYER, false}}, .default_positions = 2048,
     .finish = tpp_model_finish_falcon},
    {.model_type = "gemma", GEMMA_BLOCK, .norms_per_layer = 2},
    {.model_type = "gemma2", GEMMA_BLOCK, .norms_per_layer = 4, .window = TPP_WINDOW_PATTERN,
     .window_key = "sliding_window", .window_default = 4096, .window_period = 2, .default_groups = 4},
    {.model_type = "gemma3", GEMMA3_BLOCK, .nested = "text_config"},
    {.model_type = "gemma3_text", GEMMA3_BLOCK},
    {.model_type = "glm", LLAMA_BLOCK, .norms_per_layer = 2, .bias_keys = {{"attention_bias", TPP_BIAS_QKV, false}},
     .default_groups = 2, .default_head_dim = 128, .default_rotary_fraction = 0.5},
    {.model_type = "glm4", LLAMA_BLOCK, .norms_per_layer = 4, .bias_keys = {{"attention_bias", TPP_BIAS_QKV, false}},
     .default_groups = 2, .default_head_dim = 128, .default_rotary_fraction = 0.5},
    {.model_type = "glm4_moe", LLAMA_BLOCK, .norms_per_layer = 2,
     .bias_keys = {{"attention_bias", TPP_BIAS_QKV, false}}, .qk_norm = TPP_QK_NORM_PER_HEAD,
     .qk_norm_key = "use_qk_norm", .experts = &deepseek_v3_experts, .has_mtp = true, .default_groups = 8,
     .default_rotary_fraction = 0.5},
    {.model_type = "gpt2", .keys = &gpt2_keys, GPT_BLOCK, .position = TPP_POSITION_LEARNED, .norms_per_layer = 2,
     .is_tied = true, .biases = BIAS_LAYER, .default_positions = 1024},
    {.model_type = "gpt_bigcode", .keys = &gpt2_keys, GPT_BLOCK, .position = TPP_POSITION_LEARNED,
     .norms_per_layer = 2, .is_tied = true, .biases = BIAS_LAYER, .default_positions = 1024,
     .finish = tpp_model_finish_gpt_bigcode},
    {.model_type = "gpt_neox", .keys = &common_keys, GPT_BLOCK, .position = TPP_POSITION_ROPE, .norms_per_layer = 2,
     .is_parallel = true, .biases = BIAS_LAYER, .bias_keys = {ATTENTION_BIAS}, .default_rotary_fraction = 0.25,
     .finish = tpp_model_finish_gpt_neox},
    {.model_type = "gpt_oss", LLAMA_BLOCK, .norms_per_layer = 2, .biases = BIAS_ATTENTION,
     .bias_keys = {ATTENTION_BIAS}, .window = TPP_WINDOW_PATTERN, .window_key = "sliding_window",
     .window_default = 128, .window_period = 2, .experts = &gpt_oss_experts, .has_sinks = true, .default_groups = 8,
     .default_head_dim = 64, .default_theta = 150000},
    {.model_type = "gptj", .keys = &gpt2_keys, GPT_BLOCK, .position = TPP_POSITION_ROPE, .norms_per_layer = 1,
     .is_parallel = true, .biases = TPP_BIAS_MLP | TPP_BIAS_LM_HEAD, .default_positions = 2048},
    {.model_type = "granite", LLAMA_BLOCK, .norms_per_layer = 2,
     .bias_keys = {ATTENTION_BIAS, MLP_BIAS}},
    {.model_type = "internlm", LLAMA_BLOCK, .norms_per_layer = 2, .biases = BIAS_ATTENTION,
     .bias_keys = {{"bias", BIAS_ATTENTION, false}}},
    {.model_type = "internlm2", LLAMA_BLOCK, .norms_per_layer = 2, .biases = BIAS_ATTENTION,
     .bias_keys = {{"bias", BIAS_ATTENTION, false}}},
    {.model_type = "kimi_k2", DEEPSEEK_BLOCK, .experts = &deepseek_v3_experts, .is_latent = true,
     .needs_q_rank = true, .has_mtp = true},
    {.model_type = "llama", LLAMA_BLOCK, .norms_per_layer = 2, .bias_keys = {ATTENTION_BIAS, MLP_BIAS}},
    {.model_type = "llama4", LLAMA4_BLOCK},
    {.model_type = "llama4_text", LLAMA4_BLOCK},
    {.model_type = "minicpm3", LLAMA_BLOCK, .norms_per_layer = 2, .is_tied = true, .bias_keys = {ATTENTION_BIAS},
     .is_latent = true, .needs_q_rank = true, .value_is_hidden = true},
    {.model_type = "mistral", LLAMA_BLOCK, .norms_per_layer = 2, .window = TPP_WINDOW_ALL,
     .window_key = "sliding_window", .window_default = 4096, .default_groups = 8},
    {.model_type = "mistral3", LLAMA_BLOCK, .nested = "text_config", .norms_per_layer = 2, .window = TPP_WINDOW_ALL,
     .window_key = "sliding_window", .default_groups = 8},
    {.model_type = "mixtral", LLAMA_BLOCK, .norms_per_layer = 2, .window = TPP_WINDOW_ALL,
     .window_key = "sliding_window", .experts = &mixtral_experts, .default_groups = 8, .default_theta = 1e6},
    {.model_type = "mpt", .keys = &mpt_keys, .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_GELU,
     .position = TPP_POSITION_LEARNED, .norms_per_layer = 2, .is_tied = true,
     .bias_keys = {{"no_bias", BIAS_LAYER, true}}, .default_positions = 2048, .finish = tpp_model_finish_mpt},
    {.model_type = "nemotron", .keys = &common_keys, .norm = TPP_NORM_LAYER,
     .activation = TPP_ACTIVATION_SQUARED_RELU, .position = TPP_POSITION_ROPE, .norms_per_layer = 2,
     .bias_keys = {ATTENTION_BIAS, MLP_BIAS}, .default_rotary_fraction = 0.5},
    {.model_type = "olmo", .keys = &common_keys, .norm = TPP_NORM_NO_PARAMETERS, .activation = TPP_ACTIVATION_SILU,
     .is_gated = true, .position = TPP_POSITION_ROPE, .norms_per_layer = 2, .bias_keys = {ATTENTION_BIAS}},
    {.model_type = "olmo2", LLAMA_BLOCK, .norms_per_layer = 2, .bias_keys = {ATTENTION_BIAS},
     .qk_norm = TPP_QK_NORM_FULL},
    {.model_type = "olmoe", LLAMA_BLOCK, .norms_per_layer = 2, .bias_keys = {ATTENTION_BIAS},
     .qk_norm = TPP_QK_NORM_FULL, .experts = &olmoe_experts},
    {.model_type = "opt", .keys = &opt_keys, .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_RELU,
     .position = TPP_POSITION_LEARNED, .norms_per_layer = 2, .is_tied = true, .biases = BIAS_LAYER,
     .bias_keys = {{"enable_bias", BIAS_LAYER, false}}, .default_positions = 2048, .finish = tpp_model_finish_opt},
    {.model_type = "phi", .keys = &common_keys, GPT_BLOCK, .position = TPP_POSITION_ROPE, .norms_per_layer = 1,
     .is_parallel = true, .biases = BIAS_LAYER | TPP_BIAS_LM_HEAD, .qk_norm_key = "qk_layernorm",
     .qk_norm = TPP_QK_NORM_PER_HEAD, .default_rotary_fraction = 0.5},
    {.model_type = "phi-msft", .keys = &gpt2_keys, GPT_BLOCK, .position = TPP_POSITION_ROPE, .norms_per_layer = 1,
     .is_parallel = true, .biases = BIAS_LAYER | TPP_BIAS_LM_HEAD, .default_positions = 2048},
    {.model_type = "phi3", LLAMA_BLOCK, .norms_per_layer = 2, .bias_keys = {ATTENTION_BIAS, MLP_BIAS, LM_HEAD_BIAS},
     .window = TPP_WINDOW_ALL, .window_key = "sliding_window"},
    {.model_type = "phimoe", .keys = &common_keys, .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_SILU,
     .is_gated = true, .position = TPP_POSITION_ROPE, .norms_per_layer = 2,
     .bias_keys = {ATTENTION_BIAS, LM_HEAD_BIAS}, .window = TPP_WINDOW_ALL, .window_key = "sliding_window",
     .experts = &mixtral_experts, .default_groups = 8, .default_theta = 1e6},
    {.model_type = "qwen", .keys = &qwen_keys, .norm = TPP_NORM_RMS, .activation = TPP_ACTIVATION_SILU,
     .is_gated = true, .position = TPP_POSITION_ROPE, .norms_per_layer = 2, .biases = TPP_BIAS_QKV,
     .bias_keys = {{"no_bias", TPP_BIAS_OUTPUT | TPP_BIAS_MLP, true}}, .finish = tpp_model_finish_qwen},
    {.model_type = "qwen2", QWEN2_BLOCK},
    {.model_type = "qwen2_5_vl", QWEN2_BLOCK, .nested = "text_config"},
    {.model_type = "qwen2_moe", QWEN2_BLOCK, .bias_keys = {{"qkv_bias", TPP_BIAS_QKV, false}},
     .experts = &qwen2_moe_experts},
    {.model_type = "qwen2_vl", QWEN2_BLOCK, .nested = "text_config"},
    {.model_type = "qwen3", LLAMA_BLOCK, .norms_per_layer = 2, .bias_keys = {ATTENTION_BIAS},
     .qk_norm = TPP_QK_NORM_PER_HEAD, QWEN_WINDOW, .default_head_dim = 128},
    {.model_type = "qwen3_moe", LLAMA_BLOCK, .norms_per_layer = 2,
     .bias_keys = {ATTENTION_BIAS, {"qkv_bias", TPP_BIAS_QKV, false}}, .qk_norm = TPP_QK_NORM_PER_HEAD, QWEN_WINDOW,
     .experts = &qwen3_moe_experts, .default_groups = 4},
    {.model_type = "stablelm", .keys = &common_keys, .norm = TPP_NORM_LAYER, .activation = TPP_ACTIVATION_SILU,
     .is_gated = true, .position = TPP_POSITION_ROPE, .norms_per_layer = 2,
     .bias_keys = {{"use_qkv_bias", TPP_BIAS_QKV, false}}, .default_rotary_fraction = 0.25,
     .finish = tpp_model_finish_stablelm},
    {.model_type = "starcoder2", .keys = &common_keys, GPT_BLOCK, .position = TPP_POSITION_ROPE, .norms_per_layer = 2,
     .is_tied = true, .biases = BIAS_LAYER, .bias_keys = {{"use_bias", BIAS_LAYER, false}}, .window = TPP_WINDOW_ALL,
     .window_key = "sliding_window", .default_groups = 2},
    {.model_type = "xverse", LLAMA_BLOCK, .norms_per_layer = 2},
};
/* clang-format on */
#define NUM_FAMILIES (sizeof(families) / sizeof(families[0]))

const struct tpp_model_family *tpp_model_family_find(const char *model_type)
{
    for (size_t i = 0; i < NUM_FAMILIES; i++) {
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    }
    return NULL;
}

const struct tpp_model_family *tpp_model_families(size_t *count)
{
    *count = NUM_FAMILIES;
    return families;
}
