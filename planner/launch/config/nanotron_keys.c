/* nanotron_keys.c - the keys of a nanotron configuration: launch formats, section 8; names and defaults of
 * src/nanotron/config at 2411b02. */
#include "planner/launch/config/nanotron.h"

struct tpp_nanotron_settings tpp_nanotron_defaults(void)
{
    return (struct tpp_nanotron_settings){.activation = "silu",
                                          .optimizer_name = "adamW",
                                          .start_step = 1,
                                          .seed = 42,
                                          .tensor = 1,
                                          .pipeline = 1,
                                          .data = 1,
                                          .context = 1,
                                          .expert = 1,
                                          .bucket_megabytes = 25,
                                          .vocabulary_multiple = 1,
                                          .rms_epsilon = 1e-6,
                                          .rope_theta = 10000,
                                          .hidden_size = 4096,
                                          .ffn_hidden_size = 11008,
                                          .num_heads = 32,
                                          .num_key_value_heads = TPP_KEY_UNSET,
                                          .num_layers = 32,
                                          .vocab_size = 32000,
                                          .max_positions = 2048,
                                          .heads_stride = TPP_KEY_UNSET,
                                          .num_experts = TPP_KEY_UNSET,
                                          .experts_per_token = TPP_KEY_UNSET,
                                          .moe_ffn_hidden_size = TPP_KEY_UNSET,
                                          .shared_expert_hidden_size = TPP_KEY_UNSET};
}

#define AT(field) offsetof(struct tpp_nanotron_settings, field)
#define OTHER(path)                                                                                                    \
    {                                                                                                                  \
        path, TPP_KEY_OTHER, 0, NULL, TPP_WRITE_NEVER, false                                                           \
    }
#define SIZE(path, field)                                                                                              \
    {                                                                                                                  \
        path, TPP_KEY_INTEGER, AT(field), NULL, TPP_WRITE_ALWAYS, true                                                 \
    }
#define TEXT(path, field)                                                                                              \
    {                                                                                                                  \
        path, TPP_KEY_TEXT, AT(field), NULL, TPP_WRITE_CHANGED, false                                                  \
    }
#define NUMBER(path, field)                                                                                            \
    {                                                                                                                  \
        path, TPP_KEY_NUMBER, AT(field), NULL, TPP_WRITE_ALWAYS, false                                                 \
    }
#define SWITCH(path, field, write)                                                                                     \
    {                                                                                                                  \
        path, TPP_KEY_BOOLEAN, AT(field), NULL, write, false                                                           \
    }

static const struct tpp_config_key keys[] = {
    TEXT("general.project", project),
    OTHER("general.run"),
    OTHER("general.seed"),
    OTHER("general.step"),
    OTHER("general.consumed_train_samples"),
    OTHER("general.benchmark_csv_path"),
    OTHER("general.ignore_sanity_checks"),
    SIZE("parallelism.dp", data),
    SIZE("parallelism.pp", pipeline),
    SIZE("parallelism.tp", tensor),
    {"parallelism.pp_engine", TPP_KEY_CHOICE, AT(engine), "afab|1f1b", TPP_WRITE_ALWAYS, true},
    {"parallelism.tp_mode", TPP_KEY_CHOICE, AT(tensor_mode), "ALL_REDUCE|REDUCE_SCATTER", TPP_WRITE_ALWAYS, true},
    SWITCH("parallelism.tp_linear_async_communication", tensor_async, TPP_WRITE_ALWAYS),
    {"parallelism.recompute_layer", TPP_KEY_BOOLEAN, AT(recompute_layer), NULL, TPP_WRITE_ALWAYS, true},
    OTHER("parallelism.tp_recompute_allgather"),
    SIZE("parallelism.expert_parallel_size", expert),
    SIZE("parallelism.context_parallel_size", context),
    SIZE("tokens.sequence_length", sequence_length),
    TEXT("tokens.train_steps", train_steps),
    SIZE("tokens.micro_batch_size", micro_batch_size),
    SIZE("tokens.batch_accumulation_per_replica", accumulation),
    OTHER("tokens.val_check_interval"),
    OTHER("tokens.limit_val_batches"),
    OTHER("tokens.limit_test_batches"),
    {"optimizer.zero_stage", TPP_KEY_INTEGER, AT(zero_stage), NULL, TPP_WRITE_ALWAYS, true},
    NUMBER("optimizer.weight_decay", weight_decay),
    NUMBER("optimizer.clip_grad", clip_grad),
    SWITCH("optimizer.accumulate_grad_in_fp32", accumulate_in_fp32, TPP_WRITE_ALWAYS),
    OTHER("optimizer.weight_decay_exclude_named_params"),
    {"optimizer.optimizer_factory.name", TPP_KEY_TEXT, AT(optimizer_name), NULL, TPP_WRITE_ALWAYS, false},
    NUMBER("optimizer.optimizer_factory.adam_beta1", beta1),
    NUMBER("optimizer.optimizer_factory.adam_beta2", beta2),
    NUMBER("optimizer.optimizer_factory.adam_eps", adam_epsilon),
    SWITCH("optimizer.optimizer_factory.torch_adam_is_fused", fused_adam, TPP_WRITE_ALWAYS),
    TEXT("optimizer.learning_rate_scheduler.learning_rate", learning_rate),
    TEXT("optimizer.learning_rate_scheduler.lr_warmup_style", warmup_style),
    TEXT("optimizer.learning_rate_scheduler.lr_decay_style", decay_style),
    OTHER("optimizer.learning_rate_scheduler.lr_warmup_steps"),
    OTHER("optimizer.learning_rate_scheduler.lr_decay_steps"),
    OTHER("optimizer.learning_rate_scheduler.lr_decay_starting_step"),
    OTHER("optimizer.learning_rate_scheduler.min_decay_lr"),
    {"model.dtype", TPP_KEY_CHOICE, AT(dtype), "bfloat16|float16|float32", TPP_WRITE_ALWAYS, false},
    {"model.ddp_bucket_cap_mb", TPP_KEY_INTEGER, AT(bucket_megabytes), NULL, TPP_WRITE_CHANGED, false},
    {"model.make_vocab_size_divisible_by", TPP_KEY_INTEGER, AT(vocabulary_multiple), NULL, TPP_WRITE_CHANGED, false},
    NUMBER("model.init_method.std", init_std),
    OTHER("model.init_method"),
    SWITCH(SHAPE("is_llama_config"), is_llama, TPP_WRITE_CHANGED),
    SWITCH(SHAPE("is_qwen2_config"), is_qwen2, TPP_WRITE_CHANGED),
    SIZE(SHAPE("num_hidden_layers"), num_layers),
    SIZE(SHAPE("hidden_size"), hidden_size),
    SIZE(SHAPE("intermediate_size"), ffn_hidden_size),
    SIZE(SHAPE("num_attention_heads"), num_heads),
    {SHAPE("num_key_value_heads"), TPP_KEY_INTEGER, AT(num_key_value_heads), NULL, TPP_WRITE_ALWAYS, true},
    SIZE(SHAPE("vocab_size"), vocab_size),
    SIZE(SHAPE("max_position_embeddings"), max_positions),
    {SHAPE("hidden_act"), TPP_KEY_TEXT, AT(activation), NULL, TPP_WRITE_ALWAYS, false},
    NUMBER(SHAPE("rms_norm_eps"), rms_epsilon),
    NUMBER(SHAPE("rope_theta"), rope_theta),
    SWITCH(SHAPE("tie_word_embeddings"), tied_embeddings, TPP_WRITE_ALWAYS),
    SWITCH(SHAPE("attention_bias"), attention_bias, TPP_WRITE_CHANGED),
    {SHAPE("_attn_implementation"), TPP_KEY_CHOICE, AT(attention),
     "flash_attention_2|sdpa|flex_attention|ring|ring_flash_triton|llama3_ring_attention", TPP_WRITE_CHANGED, false},
    {SHAPE("ring_attn_heads_k_stride"), TPP_KEY_INTEGER, AT(heads_stride), NULL, TPP_WRITE_CHANGED, false},
    {SHAPE("moe_config"), TPP_KEY_SECTION, 0, NULL, TPP_WRITE_NEVER, false},
    {SHAPE("moe_config.num_experts"), TPP_KEY_INTEGER, AT(num_experts), NULL, TPP_WRITE_CHANGED, true},
    {SHAPE("moe_config.top_k"), TPP_KEY_INTEGER, AT(experts_per_token), NULL, TPP_WRITE_CHANGED, true},
    {SHAPE("moe_config.moe_intermediate_size"), TPP_KEY_INTEGER, AT(moe_ffn_hidden_size), NULL, TPP_WRITE_CHANGED,
     true},
    {SHAPE("moe_config.shared_expert_intermediate_size"), TPP_KEY_INTEGER, AT(shared_expert_hidden_size), NULL,
     TPP_WRITE_CHANGED, true},
    SWITCH(SHAPE("moe_config.enable_shared_expert"), has_shared_expert, TPP_WRITE_CHANGED),
    OTHER(SHAPE("moe_config.router_aux_loss_coef")),
    OTHER(SHAPE("moe_config.layers")),
    OTHER(SHAPE("moe_config.token_dispatcher_type")),
    OTHER(SHAPE("bos_token_id")),
    OTHER(SHAPE("eos_token_id")),
    OTHER(SHAPE("pad_token_id")),
    OTHER(SHAPE("initializer_range")),
    OTHER(SHAPE("pretraining_tp")),
    OTHER(SHAPE("rope_scaling")),
    OTHER(SHAPE("rope_interleaved")),
    OTHER(SHAPE("use_cache")),
    OTHER(SHAPE("z_loss_enabled")),
    OTHER(SHAPE("z_loss_coefficient")),
    OTHER(SHAPE("rope_seq_len_interpolation_factor")),
    OTHER(SHAPE("flex_attention_mask")),
    OTHER(SHAPE("sliding_window_size")),
    OTHER(SHAPE("no_rope_layer")),
    OTHER(SHAPE("_fused_rotary_emb")),
    OTHER(SHAPE("_fused_rms_norm")),
    OTHER(SHAPE("_use_qkv_packed")),
    OTHER(SHAPE("_use_doc_masking")),
    OTHER(SHAPE("log_attn_probs")),
    TEXT("tokenizer.tokenizer_name_or_path", tokenizer),
    OTHER("tokenizer.tokenizer_revision"),
    OTHER("tokenizer.tokenizer_max_length"),
    {"checkpoints.checkpoint_interval", TPP_KEY_INTEGER, AT(checkpoint_interval), NULL, TPP_WRITE_CHANGED, false},
    TEXT("checkpoints.checkpoints_path", checkpoints_path),
    OTHER("checkpoints"),
    TEXT("data_stages.0.name", stage_name),
    {"data_stages.0.start_training_step", TPP_KEY_INTEGER, AT(start_step), NULL, TPP_WRITE_ALWAYS, false},
    {"data_stages.0.data.dataset.dataset_folder", TPP_KEY_TEXT, AT(dataset), "list", TPP_WRITE_CHANGED, false},
    {"data_stages.0.data.seed", TPP_KEY_INTEGER, AT(seed), NULL, TPP_WRITE_ALWAYS, false},
    OTHER("data_stages"),
    OTHER("logging"),
    OTHER("metrics_logging"),
    OTHER("profiler"),
    OTHER("lighteval"),
    OTHER("s3_upload"),
};
const struct tpp_key_table tpp_nanotron_table = {"nanotron", keys, sizeof keys / sizeof *keys, TPP_SEVERITY_ERROR};
