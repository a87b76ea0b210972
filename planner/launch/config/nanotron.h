/* nanotron.h - private: the settings of a nanotron job, and the one table that reads and writes them. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_NANOTRON_H
#define TPP_PLANNER_LAUNCH_CONFIG_NANOTRON_H

#include "planner/launch/config/shared.h"

#define SHAPE(name) "model.model_config." name

enum tpp_nanotron_engine { NANOTRON_ENGINE_AFAB, NANOTRON_ENGINE_1F1B };
enum tpp_nanotron_tensor_mode { NANOTRON_MODE_ALL_REDUCE, NANOTRON_MODE_REDUCE_SCATTER };
enum tpp_nanotron_attention {
    NANOTRON_ATTENTION_FLASH2,
    NANOTRON_ATTENTION_SDPA,
    NANOTRON_ATTENTION_FLEX,
    NANOTRON_ATTENTION_RING,
    NANOTRON_ATTENTION_RING_TRITON,
    NANOTRON_ATTENTION_GATHER
};

struct tpp_nanotron_settings {
    const char *project, *checkpoints_path, *tokenizer, *dataset, *train_steps, *learning_rate; /* filled in later */
    const char *stage_name, *warmup_style, *decay_style, *optimizer_name, *activation;
    int64_t checkpoint_interval, start_step, seed;
    int64_t tensor, pipeline, data, context, expert;
    unsigned engine, tensor_mode, attention, dtype; /* 0: bfloat16, 1: float16, 2: float32 */
    bool tensor_async, recompute_layer;
    int64_t sequence_length, micro_batch_size, accumulation;
    int64_t zero_stage;
    bool accumulate_in_fp32, fused_adam, is_llama, is_qwen2, tied_embeddings, attention_bias, has_shared_expert;
    double weight_decay, clip_grad, beta1, beta2, adam_epsilon, init_std, rms_epsilon, rope_theta;
    int64_t bucket_megabytes, vocabulary_multiple;
    int64_t num_layers, hidden_size, ffn_hidden_size, num_heads, num_key_value_heads, vocab_size, max_positions;
    int64_t heads_stride;
    int64_t num_experts, experts_per_token, moe_ffn_hidden_size, shared_expert_hidden_size;
};

struct tpp_nanotron_settings tpp_nanotron_defaults(void);
extern const struct tpp_key_table tpp_nanotron_table;

#endif
