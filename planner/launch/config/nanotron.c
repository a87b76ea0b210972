/* nanotron.c - the configuration of nanotron: keys and rules of launch formats, section 8; names and defaults of
 * src/nanotron/config at 2411b02. */
#include "planner/launch/config/shared.h"
#include "planner/launch/emitter.h"

#include <stdio.h>
#include <string.h>

enum engine { ENGINE_AFAB, ENGINE_1F1B };
enum tensor_mode { MODE_ALL_REDUCE, MODE_REDUCE_SCATTER };
enum attention {
    ATTENTION_FLASH2,
    ATTENTION_SDPA,
    ATTENTION_FLEX,
    ATTENTION_RING,
    ATTENTION_RING_TRITON,
    ATTENTION_GATHER
};

struct settings {
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

static struct settings defaults(void)
{
    return (struct settings){.activation = "silu",
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

#define AT(field) offsetof(struct settings, field)
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
#define SHAPE(name) "model.model_config." name

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
    TEXT("data_stages.0.data.dataset.dataset_folder", dataset),
    {"data_stages.0.data.seed", TPP_KEY_INTEGER, AT(seed), NULL, TPP_WRITE_ALWAYS, false},
    OTHER("data_stages"),
    OTHER("logging"),
    OTHER("metrics_logging"),
    OTHER("profiler"),
    OTHER("lighteval"),
    OTHER("s3_upload"),
};
static const struct tpp_key_table table = {"nanotron", keys, sizeof keys / sizeof *keys, TPP_SEVERITY_ERROR};

/* ---- a plan as settings ---- */

static void set_model(const struct tpp_launch_request *request, struct settings *s)
{
    const struct tpp_model *model = request->model;
    const bool is_gathered = request->strategy->context_kind == TPP_CONTEXT_ALL_GATHER;
    s->num_layers = model->num_layers;
    s->hidden_size = model->hidden_size;
    s->ffn_hidden_size =
        model->num_experts > 0 && model->ffn_hidden_size == 0 ? model->moe_ffn_hidden_size : model->ffn_hidden_size;
    s->num_heads = model->num_attention_heads;
    s->num_key_value_heads = model->num_query_groups;
    s->vocab_size = model->vocab_size;
    s->max_positions = model->max_position_embeddings > request->job->sequence_length
                           ? model->max_position_embeddings
                           : (int64_t)request->job->sequence_length;
    s->rms_epsilon = model->norm_epsilon > 0 ? model->norm_epsilon : s->rms_epsilon;
    s->rope_theta = model->rope_theta;
    s->tied_embeddings = model->tied_embeddings;
    s->attention_bias = model->qkv_bias;
    /* Its Llama layers have neither biases, experts nor context parallelism; its Qwen2 layers have all of them. */
    s->is_qwen2 = model->qkv_bias || model->num_experts > 0 || request->strategy->context_parallel > 1;
    s->is_llama = !s->is_qwen2;
    if (request->strategy->context_parallel > 1) {
        s->attention = is_gathered ? ATTENTION_GATHER : ATTENTION_RING;
        s->heads_stride = is_gathered ? 1 : TPP_KEY_UNSET;
    }
    if (model->num_experts == 0)
        return;
    s->num_experts = model->num_experts;
    s->experts_per_token = model->experts_per_token;
    s->moe_ffn_hidden_size = model->moe_ffn_hidden_size;
    s->has_shared_expert = model->shared_expert_hidden_size > 0;
    if (s->has_shared_expert)
        s->shared_expert_hidden_size = model->shared_expert_hidden_size;
}

static void set_training(struct settings *s)
{
    s->project = "tp-plan";
    s->checkpoints_path = "@CHECKPOINT_PATH@";
    s->tokenizer = "@TOKENIZER_MODEL@";
    s->dataset = "@DATA_PATH@";
    s->train_steps = "@TRAIN_ITERS@";
    s->learning_rate = "@LR@";
    s->stage_name = "training";
    s->warmup_style = "linear";
    s->decay_style = "linear";
    s->checkpoint_interval = 1000;
    s->accumulate_in_fp32 = s->fused_adam = true;
    s->weight_decay = 0.1;
    s->clip_grad = 1;
    s->beta1 = 0.9;
    s->beta2 = 0.95;
    s->adam_epsilon = 1e-8;
    s->init_std = 0.02;
}

static void set_settings(const struct tpp_launch_request *request, struct settings *s)
{
    const struct tpp_strategy *plan = request->strategy;
    *s = defaults();
    set_model(request, s);
    set_training(s);
    s->data = plan->data_parallel;
    s->tensor = plan->tensor_parallel;
    s->pipeline = plan->pipeline_parallel;
    s->context = plan->context_parallel;
    s->engine = plan->schedule == TPP_SCHEDULE_GPIPE ? ENGINE_AFAB : ENGINE_1F1B;
    s->tensor_mode = plan->sequence_parallel ? MODE_REDUCE_SCATTER : MODE_ALL_REDUCE;
    s->tensor_async = plan->sequence_parallel && request->stack->tensor_parallel_async;
    s->recompute_layer = plan->recompute == TPP_RECOMPUTE_FULL;
    s->sequence_length = (int64_t)request->job->sequence_length;
    s->micro_batch_size = plan->micro_batch_size;
    s->accumulation = (int64_t)plan->num_micro_batches;
    s->zero_stage = plan->zero_stage;
    s->dtype = request->job->precision == TPP_PRECISION_FP32   ? 2
               : request->job->precision == TPP_PRECISION_FP16 ? 1
                                                               : 0;
}

static enum tpp_code check_plan(const struct tpp_launch_request *request, struct tpp_error *err)
{
    struct tpp_rule_settings settings;
    const struct tpp_strategy *s = request->strategy;
    const struct tpp_model *model = request->model;
    const bool has_stages = s->pipeline_parallel > 1;
    const struct tpp_refusal refusals[] = {
        {tpp_launch_has_window(request), "model.sliding_window", "its attention has no window"},
        {tpp_job_is_adapter(request->job), "job.task", "it trains no adapters"},
        {request->job->precision == TPP_PRECISION_FP8, "job.precision", "it has no FP8 of its own"},
        {has_stages && s->schedule != TPP_SCHEDULE_1F1B && s->schedule != TPP_SCHEDULE_GPIPE, "strategy.schedule",
         "its pipeline engines are afab and 1f1b"},
        {s->reduce_bucket_size > 0 || s->allgather_bucket_size > 0, "strategy.reduce_bucket_size",
         "the plan's buckets count elements, its own megabytes"},
        {s->shard_group > 0, "strategy.shard_group", "the optimizer is sharded over all data-parallel ranks"},
        {s->zero_stage > 0 && request->stack->engine == TPP_ENGINE_DDP, "stack.engine",
         "the plan's engine has no sharded optimizer"},
        {s->tp_comm_overlap, "strategy.tp_comm_overlap", "it has no user buffers"},
        {s->offload != TPP_OFFLOAD_NONE, "strategy.offload", "it offloads nothing"},
        {model->norm != TPP_NORM_RMS || !model->gated_mlp || model->activation != TPP_ACTIVATION_SILU ||
             model->position != TPP_POSITION_ROPE || model->rotary_fraction < 1,
         "model", "its layers are those of Llama and Qwen2: RMSNorm, SwiGLU, rotary positions"},
        {model->output_bias || model->mlp_bias || model->lm_head_bias || model->parallel_block ||
             model->embedding_norm || model->norms_per_layer != 2 || model->kv_lora_rank > 0 ||
             model->mtp_num_layers > 0 || model->qk_norm,
         "model", "its layers have no such biases, norms or attention"},
        {(uint64_t)model->head_dim * model->num_attention_heads != model->hidden_size, "model.head_dim",
         "the heads must make the hidden size"},
        {model->num_experts > 0 && (model->first_k_dense > 0 || model->moe_layer_period > 1 ||
                                    model->shared_expert_gate || model->router_bias || model->expert_bias),
         "model", "every layer has the same experts, without gates or biases"},
    };
    enum tpp_code code = tpp_refusal_first(refusals, sizeof refusals / sizeof *refusals,
                                           "nanotron cannot run this plan:", "choose another plan or framework", err);
    if (code == TPP_OK)
        code = tpp_launch_check_plain(request, "nanotron cannot run this plan:", err);
    return code != TPP_OK ? code : tpp_launch_check_rules(request, "nanotron", &settings, err);
}

enum tpp_code tpp_nanotron_write(const struct tpp_launch_request *request, struct tpp_text *out, struct tpp_error *err)
{
    struct settings settings;
    const struct settings of_framework = defaults();
    enum tpp_code code = check_plan(request, err);
    if (code != TPP_OK)
        return code;
    set_settings(request, &settings);
    tpp_config_keys_write(&table, &settings, &of_framework, TPP_CONFIG_YAML, out);
    return TPP_OK;
}

/* What only the user knows goes into a copy: numbers as numbers, everything else as JSON texts, which YAML reads too.
 */
static const char fill_in[] = "NANOTRON_FILLED=\"$NANOTRON_CONFIG.filled.yaml\"\n"
                              "export CHECKPOINT_PATH TOKENIZER_MODEL DATA_PATH TRAIN_ITERS LR\n"
                              "python3 -c '\n"
                              "import json, os, re, sys\n"
                              "def value(match):\n"
                              "    word = os.environ[match.group(1)]\n"
                              "    if re.fullmatch(r\"[0-9]+\", word):\n"
                              "        return word\n"
                              "    if re.fullmatch(r\"[0-9.]+([eE][-+]?[0-9]+)?\", word):\n"
                              "        return \"%.9e\" % float(word)\n"
                              "    return json.dumps(word)\n"
                              "with open(sys.argv[1]) as file:\n"
                              "    text = file.read()\n"
                              "with open(sys.argv[2], \"w\") as file:\n"
                              "    file.write(re.sub(r\"\\\"@([A-Z_]+)@\\\"\", value, text))\n"
                              "' \"$NANOTRON_CONFIG\" \"$NANOTRON_FILLED\"\n\n";

enum tpp_code tpp_launch_emit_nanotron(const struct tpp_launch_request *request, struct tpp_script *script,
                                       struct tpp_error *err)
{
    struct tpp_text content;
    tpp_text_init(&content);
    enum tpp_code code = tpp_nanotron_write(request, &content, err);
    if (code == TPP_OK) {
        tpp_script_header(script, request);
        tpp_script_comment(script, "What only you know.");
        tpp_script_required(script, "NANOTRON_PATH", "the folder of the nanotron checkout");
        tpp_script_required(script, "DATA_PATH", "the folder of the tokenized data");
        tpp_script_required(script, "TOKENIZER_MODEL", "the name or folder of the tokenizer");
        tpp_script_required(script, "CHECKPOINT_PATH", "the folder that checkpoints are written to");
        tpp_script_required(script, "TRAIN_ITERS", "the number of optimizer steps");
        tpp_script_required(script, "LR", "the learning rate");
        tpp_script_required_nodes(script, request);
        tpp_text_append(script->out, "\n");
        tpp_script_environment(script, request);
        tpp_script_export(script, request, "CUDA_DEVICE_MAX_CONNECTIONS", "1",
                          "Kernels start in the order they are queued: asynchronous tensor parallelism needs it.");
        tpp_text_append(script->out, "\n");
        tpp_script_config(script, request, "NANOTRON_CONFIG", "nanotron.yaml", &content);
        tpp_text_append(script->out, fill_in);
        tpp_script_torchrun(script, request, "\"$NANOTRON_PATH/run_train.py\"",
                            "--config-file \"$NANOTRON_FILLED\" \"$@\"");
    }
    tpp_text_release(&content);
    return code;
}

/* ---- settings as a plan ---- */

static bool is_own(const struct tpp_config *config)
{
    return tpp_config_find(config, "parallelism.tp") != NULL || tpp_config_find(config, "parallelism.dp") != NULL ||
           tpp_config_find(config, "tokens.batch_accumulation_per_replica") != NULL;
}

static void read_model(const struct settings *s, const char *name, struct tpp_model *model)
{
    const int64_t heads = tpp_size_between(s->num_heads);
    *model = (struct tpp_model){.num_layers = (uint32_t)tpp_size_between(s->num_layers),
                                .hidden_size = (uint32_t)tpp_size_between(s->hidden_size),
                                .num_attention_heads = (uint32_t)heads,
                                .ffn_hidden_size = (uint32_t)tpp_size_between(s->ffn_hidden_size),
                                .vocab_size = (uint32_t)tpp_size_between(s->vocab_size),
                                .max_position_embeddings = (uint32_t)tpp_size_between(s->max_positions),
                                .gated_mlp = true,
                                .activation = TPP_ACTIVATION_SILU,
                                .position = TPP_POSITION_ROPE,
                                .rope_theta = s->rope_theta,
                                .rotary_fraction = 1,
                                .norm = TPP_NORM_RMS,
                                .norm_epsilon = s->rms_epsilon,
                                .norms_per_layer = 2,
                                .final_norm = true,
                                .qkv_bias = s->attention_bias,
                                .tied_embeddings = s->tied_embeddings};
    model->num_query_groups =
        s->num_key_value_heads == TPP_KEY_UNSET ? (uint32_t)heads : (uint32_t)tpp_size_between(s->num_key_value_heads);
    model->head_dim = model->hidden_size / model->num_attention_heads;
    snprintf(model->name, sizeof model->name, "%s", name);
    snprintf(model->family, sizeof model->family, "%s", s->is_qwen2 ? "qwen2" : "llama");
    if (s->num_experts == TPP_KEY_UNSET)
        return;
    model->num_experts = (uint32_t)tpp_size_between(s->num_experts);
    model->experts_per_token =
        s->experts_per_token == TPP_KEY_UNSET ? 2 : (uint32_t)tpp_size_between(s->experts_per_token);
    model->moe_ffn_hidden_size =
        s->moe_ffn_hidden_size == TPP_KEY_UNSET ? 1408 : (uint32_t)tpp_size_between(s->moe_ffn_hidden_size);
    if (s->has_shared_expert)
        model->shared_expert_hidden_size = s->shared_expert_hidden_size == TPP_KEY_UNSET
                                               ? 5632
                                               : (uint32_t)tpp_size_between(s->shared_expert_hidden_size);
    model->moe_layer_period = 1;
    model->ffn_hidden_size = 0;
}

static void read_job(const struct settings *s, int64_t world, struct tpp_job *job)
{
    *job = tpp_job_defaults();
    job->num_gpus = (uint32_t)tpp_size_between(world);
    job->sequence_length = s->sequence_length > 0 ? (uint64_t)s->sequence_length : 0;
    job->global_batch_size = (uint64_t)(tpp_size_between(s->micro_batch_size) * tpp_size_between(s->data)) *
                             (uint64_t)tpp_size_between(s->accumulation);
    job->precision = s->dtype == 2 ? TPP_PRECISION_FP32 : s->dtype == 1 ? TPP_PRECISION_FP16 : TPP_PRECISION_BF16;
}

static void read_strategy(const struct settings *s, struct tpp_strategy *out)
{
    *out = tpp_strategy_defaults();
    if (s->num_experts != TPP_KEY_UNSET)
        out->expert_tensor_parallel = (uint32_t)tpp_size_between(s->tensor);
    out->tensor_parallel = (uint32_t)tpp_size_between(s->tensor);
    out->pipeline_parallel = (uint32_t)tpp_size_between(s->pipeline);
    out->context_parallel = (uint32_t)tpp_size_between(s->context);
    out->data_parallel = (uint32_t)tpp_size_between(s->data);
    out->micro_batch_size = (uint32_t)tpp_size_between(s->micro_batch_size);
    out->sequence_parallel = s->tensor > 1 && s->tensor_mode == MODE_REDUCE_SCATTER;
    out->context_kind = s->attention == ATTENTION_GATHER && s->context > 1 ? TPP_CONTEXT_ALL_GATHER : TPP_CONTEXT_RING;
    out->zero_stage = s->zero_stage > 0 ? 1 : 0;
    out->overlap_param_gather = out->zero_stage > 0;
    out->recompute = s->recompute_layer ? TPP_RECOMPUTE_FULL : TPP_RECOMPUTE_NONE;
    out->schedule = s->pipeline > 1 && s->engine == ENGINE_AFAB ? TPP_SCHEDULE_GPIPE : TPP_SCHEDULE_1F1B;
}

static void judge_settings(const struct settings *s, const struct tpp_config *config, struct tpp_problems *problems)
{
    static const char *const needed[] = {"parallelism.dp",          "parallelism.pp",
                                         "parallelism.tp",          "tokens.sequence_length",
                                         "tokens.micro_batch_size", "tokens.batch_accumulation_per_replica",
                                         "optimizer.zero_stage"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (tpp_config_find(config, needed[i]) == NULL)
            tpp_problems_add(problems, "missing-key", TPP_SEVERITY_ERROR, 0, "write it", "%s is missing", needed[i]);
    }
    if (s->tensor_async && s->tensor_mode == MODE_ALL_REDUCE && s->tensor > 1)
        tpp_problems_add(problems, "dead-setting", TPP_SEVERITY_WARNING,
                         tpp_config_line(config, "parallelism.tp_linear_async_communication"),
                         "set tp_mode to REDUCE_SCATTER", "asynchronous communication needs REDUCE_SCATTER");
    if (s->context > 1 && s->attention < ATTENTION_RING)
        tpp_problems_add(problems, "NT", TPP_SEVERITY_ERROR,
                         tpp_config_line(config, "parallelism.context_parallel_size"),
                         "set _attn_implementation to ring, or to llama3_ring_attention",
                         "context parallelism needs an attention that goes over ranks");
    if (s->attention == ATTENTION_GATHER && s->heads_stride == TPP_KEY_UNSET)
        tpp_problems_add(problems, "NT", TPP_SEVERITY_ERROR, tpp_config_line(config, SHAPE("_attn_implementation")),
                         "set ring_attn_heads_k_stride", "llama3_ring_attention needs ring_attn_heads_k_stride");
}

static enum tpp_code read(const struct tpp_configuration_request *request, struct tpp_configuration_reading *out,
                          struct tpp_problems *problems, struct tpp_error *err)
{
    struct settings s = defaults();
    bool is_incomplete = false;
    memset(out, 0, sizeof *out);
    out->config = request->config;
    s.sequence_length = s.micro_batch_size = s.accumulation = 0;
    tpp_config_keys_read(&table, request->config, &s, &is_incomplete, problems);
    const size_t before = problems->count;
    judge_settings(&s, request->config, problems);
    int64_t world = tpp_size_between(tpp_size_between(s.tensor) * tpp_size_between(s.pipeline));
    world = tpp_size_between(tpp_size_between(world * tpp_size_between(s.context)) * tpp_size_between(s.data));
    out->is_world_known = true;
    if (is_incomplete || (problems->count > before && s.sequence_length == 0))
        return TPP_OK;
    if (request->model != NULL)
        out->plan.model = *request->model;
    else
        read_model(&s, request->name, &out->plan.model);
    read_job(&s, world, &out->plan.job);
    read_strategy(&s, &out->plan.strategy);
    const enum tpp_engine engine = s.zero_stage > 0 ? TPP_ENGINE_MEGATRON : TPP_ENGINE_DDP;
    tpp_stack_defaults(TPP_FRAMEWORK_NANOTRON, &request->hardware->gpu, &out->plan.job, &out->plan.stack);
    out->plan.stack.engine = engine;
    tpp_rules_of_plan(&out->plan, request->hardware, request->world_size > 0 ? request->world_size : world,
                      &out->rules);
    out->rules.zero_stage = s.zero_stage;
    out->rules.expert_parallel = s.expert;
    enum tpp_code code = tpp_complete_plan(engine, request->hardware, TPP_FRAMEWORK_NANOTRON, &out->plan, err);
    out->plan.stack.tensor_parallel_async = s.tensor_async;
    out->has_plan = code == TPP_OK && !tpp_problems_have(problems, TPP_SEVERITY_ERROR);
    return code;
}

static const struct tpp_rule_keys rule_keys[] = {
    {"dp", {"parallelism.dp"}},
    {"tp", {"parallelism.tp"}},
    {"pp", {"parallelism.pp"}},
    {"cp", {"parallelism.context_parallel_size"}},
    {"ep", {"parallelism.expert_parallel_size"}},
    {"recompute", {"parallelism.recompute_layer"}},
    {"heads", {SHAPE("num_attention_heads")}},
    {"groups", {SHAPE("num_key_value_heads")}},
    {"layers", {SHAPE("num_hidden_layers")}},
    {"sequence", {"tokens.sequence_length"}},
    {"micro-batch", {"tokens.micro_batch_size"}},
    {"micro-batches", {"tokens.batch_accumulation_per_replica"}},
    {"global-batch", {"tokens.batch_accumulation_per_replica"}},
    {"zero", {"optimizer.zero_stage"}},
    {NULL, {NULL}},
};

const struct tpp_configuration tpp_configuration_nanotron = {
    .framework = TPP_FRAMEWORK_NANOTRON,
    .is_own = is_own,
    .read = read,
    .rule_keys = rule_keys,
};
