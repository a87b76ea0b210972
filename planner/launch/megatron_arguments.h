/* megatron_arguments.h - a command line of Megatron-LM as settings: what the rules ask, and what only a prediction
 * asks.
 *
 * The names come from the same option table that scripts are written with. */
#ifndef TPP_PLANNER_LAUNCH_MEGATRON_ARGUMENTS_H
#define TPP_PLANNER_LAUNCH_MEGATRON_ARGUMENTS_H

#include "planner/launch/arguments.h"
#include "planner/rules/rules.h"

enum tpp_megatron_attention { /* --attention-backend */
                              TPP_MEGATRON_ATTENTION_AUTO,
                              TPP_MEGATRON_ATTENTION_FLASH,
                              TPP_MEGATRON_ATTENTION_FUSED,
                              TPP_MEGATRON_ATTENTION_UNFUSED,
                              TPP_MEGATRON_ATTENTION_LOCAL,
};
enum tpp_megatron_sharding { /* --data-parallel-sharding-strategy */
                             TPP_MEGATRON_SHARD_NOTHING,
                             TPP_MEGATRON_SHARD_OPTIMIZER,
                             TPP_MEGATRON_SHARD_GRADIENTS,
                             TPP_MEGATRON_SHARD_PARAMETERS,
                             TPP_MEGATRON_SHARD_DEFAULT,
};

enum tpp_megatron_padding { /* of the vocabulary, in Megatron-Bridge: model.should_pad_vocab */
                            TPP_MEGATRON_PADDING_ON,
                            TPP_MEGATRON_PADDING_OFF,
                            TPP_MEGATRON_PADDING_OF_RECIPE,
};

enum tpp_deepspeed_type { TPP_DEEPSPEED_TYPE_UNSET, TPP_DEEPSPEED_FP32, TPP_DEEPSPEED_FP16, TPP_DEEPSPEED_BF16 };

struct tpp_deepspeed_config { /* of a ds_config.json; numbers UNSET where it has none */
    bool is_known;
    uint32_t line; /* of the script that writes it */
    int64_t train_batch_size, micro_batch_size, accumulation, zero_stage;
    bool is_batch_open; /* one of the three is "auto", or no number */
    int64_t reduce_bucket_size, allgather_bucket_size;
    bool has_overlap, overlap; /* overlap_comm */
    bool fp16, bf16, offloads_optimizer, offloads_parameters;
    double offload_ratio;                        /* of the optimizer; 0: not read */
    enum tpp_deepspeed_type sums_in, reduces_in; /* data_types.grad_accum_dtype, communication_data_type */
};

struct tpp_megatron_settings {
    struct tpp_rule_settings rules;
    /* Model: */
    double norm_epsilon, rotary_base, rotary_fraction;
    int64_t vocab_size, padded_vocab_size, vocabulary_multiple; /* UNSET: not given */
    enum tpp_megatron_padding vocabulary_padding;
    bool qk_norm, qkv_bias, shared_expert_gate;
    bool has_pattern; /* of --moe-layer-freq: */
    bool is_pattern_read;
    int64_t first_dense_layers, moe_layer_period;
    int64_t q_lora_rank, kv_lora_rank, qk_head_dim, qk_rope_head_dim, v_head_dim;
    /* Job and software: */
    double hidden_dropout, attention_dropout;
    bool gradients_in_bf16, gradients_in_fp32; /* asked for; neither: the default of the precision */
    uint32_t graph_parts;                      /* TPP_GRAPH_* of the modules that CUDA graphs are of; 0: none named */
    bool keeps_gathered, cross_entropy_fusion, gives_checkpoint;
    bool shards_in_node; /* FSDP: replicas on every node */
    bool cpu_offloading; /* Megatron-Bridge: without it no layers are offloaded, whatever their number */
    bool flash_attention, deterministic;
    enum tpp_megatron_attention attention;
    enum tpp_megatron_sharding sharding;
    bool is_incomplete; /* something that a prediction needs is written, and not known or no value: not set here */
    bool merge_file;    /* a byte-pair tokenizer with the vocabulary of GPT-2 */
    bool log_throughput;
    /* Megatron-DeepSpeed: */
    bool deepspeed, no_pipeline_engine, deepspeed_checkpointing, checkpoint_activations, embedding_norm, alibi;
    bool zero_bubble;  /* --enable-zbh1-pipeline */
    bool cuts_experts; /* --enable-expert-tensor-parallelism */
    bool foreign_ddp;  /* --DDP-impl is not local */
    int64_t checkpoint_num_layers;
    int64_t written_zero_stage; /* --zero-stage; the rules have the one that is used */
    struct tpp_deepspeed_config config;
    /* ms-swift: */
    bool trains_adapters, quantised; /* quantised: weights in 4 bits under the adapters */
    int64_t lora_rank, packing_length;
    enum tpp_lora_targets lora_targets;
    bool flash_3; /* --attention_backend pins the version */
    /* Trainer: */
    bool owns_deepspeed;  /* a program with DeepSpeed's own arguments: the configuration has batch and precision */
    int64_t accumulation; /* UNSET: the framework chooses it */
    /* Without effect: */
    bool no_position_embedding, no_masked_softmax_fusion, use_mcore_models;
};

/* Reads the words into *out, with the defaults of the release for what is not given. World size and environment are the
 * caller's. `entry` is the program (NULL: pretrain_gpt.py): another one may have options of its own. *arguments is what
 * was given, released by the caller; strings in *out point into the words. Fails as
 * tpp_arguments_read does. */
enum tpp_code tpp_megatron_read(struct tpp_shell_words words, const struct tpp_shell_script *script, const char *entry,
                                enum tpp_release release, struct tpp_arguments *arguments,
                                struct tpp_megatron_settings *out, struct tpp_problems *problems,
                                struct tpp_error *err);

/* Adds what is dead or contradicts itself: it stops nothing, but does not do what it says. */
void tpp_megatron_find_dead(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *settings,
                            enum tpp_release release, struct tpp_problems *problems);
/* Adds the rules that are broken, each at the line of the options it is about, else at `command_line`. */
void tpp_megatron_find_violations(const struct tpp_arguments *arguments, const struct tpp_rule_settings *settings,
                                  enum tpp_release release, uint32_t command_line, struct tpp_problems *problems);

/* Numbers near the script's that would keep the rule `code` in the release: one sentence without a full stop; "" where
 * there are none to be computed. */
void tpp_megatron_suggest(const char *code, const struct tpp_rule_settings *settings, enum tpp_release release,
                          char *hint, size_t size);

#endif
