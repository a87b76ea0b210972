/* What is known not to be a plain transformer, and how to tell. */
#include "costmodel/model/model_families.h"

#include <cjson/cJSON.h>
#include <string.h>

/* Model types that are understood well enough to say why they cannot be described. */
static const struct {
    const char *model_type, *reason;
} refused[] = {
    {"bamba", "it mixes state-space layers with attention"},
    {"bert", "it is an encoder"},
    {"deepseek_v32", "its attention picks tokens with a learned index"},
    {"falcon_h1", "it mixes state-space layers with attention"},
    {"falcon_mamba", "it is a state-space model"},
    {"gemma3n", "it shares keys and values between layers and has embeddings in every layer"},
    {"granitemoehybrid", "it mixes state-space layers with attention"},
    {"jamba", "it mixes state-space layers with attention"},
    {"kimi_linear", "it mixes linear attention with attention"},
    {"lfm2", "it mixes convolutions with attention"},
    {"mamba", "it is a state-space model"},
    {"mamba2", "it is a state-space model"},
    {"minimax", "it mixes linear attention with attention"},
    {"mllama", "it has layers that attend to an image"},
    {"nemotron_h", "it mixes state-space layers with attention"},
    {"qwen3_5", "it mixes linear attention with attention"},
    {"qwen3_next", "it mixes linear attention with attention"},
    {"recurrent_gemma", "it mixes recurrent layers with attention"},
    {"rwkv", "it is a recurrent model"},
    {"t5", "it has an encoder and a decoder"},
    {"whisper", "it has an encoder and a decoder"},
    {"zamba", "it mixes state-space layers with attention"},
    {"zamba2", "it mixes state-space layers with attention"},
};

const char *tpp_model_refused_type(const char *model_type)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (strcmp(refused[i].model_type, model_type) == 0)
            return refused[i].reason;
    }
    return NULL;
}

/* How the keys of state-space, linear-attention and recurrent layers begin. */
static const char *const hybrid_prefixes[] = {
    "mamba_",
    "ssm_",
    "linear_attn",
    "linear_num_",
    "linear_key_",
    "linear_value_",
    "linear_conv_",
    "attn_layer_period",
    "attn_layer_offset",
    "attn_layer_idx",
    "attn_type_list",
    "hybrid_override_pattern",
    "hybrid_layer",
    "layers_block_type",
    "block_types",
    "lru_width",
    "lightning_",
    "state_size",
    "time_step_rank",
    "conv_L_cache",
};

static bool is_hybrid_key(const char *name)
{
    for (size_t i = 0; i < sizeof(hybrid_prefixes) / sizeof(hybrid_prefixes[0]); i++) {
        if (strncmp(name, hybrid_prefixes[i], strlen(hybrid_prefixes[i])) == 0)
            return true;
    }
    return false;
}

static const char *const expert_keys[] = {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"};

bool tpp_model_find_expert_key(struct tpp_json config, const char **key)
{
    for (size_t i = 0; i < sizeof(expert_keys) / sizeof(expert_keys[0]); i++) {
        double count = 0;
        if (tpp_json_get_number(config, expert_keys[i], 0, 1e9, &count, NULL) == TPP_OK && count > 1) {
            *key = expert_keys[i];
            return true;
        }
    }
    return false;
}

/* Walks the members themselves: asking for each by number would take the square of their number. */
bool tpp_model_find_hybrid_key(struct tpp_json config, const char **key)
{
    const struct cJSON *member;
    cJSON_ArrayForEach(member, config.node)
    {
        if (member->string != NULL && !cJSON_IsNull(member) && is_hybrid_key(member->string)) {
            *key = member->string;
            return true;
        }
    }
    return false;
}
