/* nanotron.c - the configuration of a nanotron job as a plan (launch formats, section 8). */
#include "planner/launch/config/nanotron.h"

#include <stdio.h>
#include <string.h>

static bool is_own(const struct tpp_config *config)
{
    return tpp_config_find(config, "parallelism.tp") != NULL || tpp_config_find(config, "parallelism.dp") != NULL ||
           tpp_config_find(config, "tokens.batch_accumulation_per_replica") != NULL;
}

static void read_model(const struct tpp_nanotron_settings *s, const char *name, struct tpp_model *model)
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

static void read_job(const struct tpp_nanotron_settings *s, int64_t world, struct tpp_job *job)
{
    *job = tpp_job_defaults();
    job->num_gpus = (uint32_t)tpp_size_between(world);
    job->sequence_length = s->sequence_length > 0 ? (uint64_t)s->sequence_length : 0;
    job->global_batch_size = (uint64_t)(tpp_size_between(s->micro_batch_size) * tpp_size_between(s->data)) *
                             (uint64_t)tpp_size_between(s->accumulation);
    job->precision = s->dtype == 2 ? TPP_PRECISION_FP32 : s->dtype == 1 ? TPP_PRECISION_FP16 : TPP_PRECISION_BF16;
}

static void read_strategy(const struct tpp_nanotron_settings *s, struct tpp_strategy *out)
{
    *out = tpp_strategy_defaults();
    if (s->num_experts != TPP_KEY_UNSET)
        out->expert_tensor_parallel = (uint32_t)tpp_size_between(s->tensor);
    out->tensor_parallel = (uint32_t)tpp_size_between(s->tensor);
    out->pipeline_parallel = (uint32_t)tpp_size_between(s->pipeline);
    out->context_parallel = (uint32_t)tpp_size_between(s->context);
    out->data_parallel = (uint32_t)tpp_size_between(s->data);
    out->micro_batch_size = (uint32_t)tpp_size_between(s->micro_batch_size);
    out->sequence_parallel = s->tensor > 1 && s->tensor_mode == NANOTRON_MODE_REDUCE_SCATTER;
    out->context_kind =
        s->attention == NANOTRON_ATTENTION_GATHER && s->context > 1 ? TPP_CONTEXT_ALL_GATHER : TPP_CONTEXT_RING;
    out->zero_stage = s->zero_stage > 0 ? 1 : 0;
    out->overlap_param_gather = out->zero_stage > 0;
    out->recompute = s->recompute_layer ? TPP_RECOMPUTE_FULL : TPP_RECOMPUTE_NONE;
    out->schedule = s->pipeline > 1 && s->engine == NANOTRON_ENGINE_AFAB ? TPP_SCHEDULE_GPIPE : TPP_SCHEDULE_1F1B;
}

#define RATE(name) "optimizer.learning_rate_scheduler." name

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words != NULL && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* NULL for null, a list and a table, too. */
static const struct tpp_config_entry *stage_key(const struct tpp_config *config, uint32_t stage, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "data_stages.%u.%s", stage, name);
    const struct tpp_config_entry *entry = tpp_config_find(config, path);
    return entry != NULL && entry->kind != TPP_CONFIG_NULL && entry->kind < TPP_CONFIG_LIST ? entry : NULL;
}

/* A stage of data that has the name or the first step of one before it. */
static void judge_stage(const struct tpp_config *config, uint32_t stage, const char *name,
                        struct tpp_problems *problems)
{
    const struct tpp_config_entry *here = stage_key(config, stage, name);
    for (uint32_t before = 0; here != NULL && before < stage; before++) {
        const struct tpp_config_entry *other = stage_key(config, before, name);
        if (other == NULL || strcmp(other->text, here->text) != 0)
            continue;
        tpp_problems_add(problems, "NT-7", TPP_SEVERITY_ERROR, here->line, "write another one",
                         "two data stages have the %s %.60s", name, here->text);
        return;
    }
}

/* NT-7: words of the learning rate, and stages of data. */
static void judge_schedule(const struct tpp_nanotron_settings *s, const struct tpp_config *config,
                           struct tpp_problems *problems)
{
    static const char *const warmups[] = {"linear", "constant", NULL};
    static const char *const decays[] = {"linear", "cosine", "1-sqrt", NULL};
    const struct tpp_config_entry *stages = tpp_config_find(config, "data_stages");
    if (s->warmup_style != NULL && !is_one_of(s->warmup_style, warmups))
        tpp_problems_add(problems, "NT-7", TPP_SEVERITY_ERROR, tpp_config_line(config, RATE("lr_warmup_style")),
                         "write linear or constant", "lr_warmup_style cannot be %.60s", s->warmup_style);
    if (s->decay_style != NULL && !is_one_of(s->decay_style, decays))
        tpp_problems_add(problems, "NT-7", TPP_SEVERITY_ERROR, tpp_config_line(config, RATE("lr_decay_style")),
                         "write linear, cosine or 1-sqrt", "lr_decay_style cannot be %.60s", s->decay_style);
    for (uint32_t i = 1; stages != NULL && stages->kind == TPP_CONFIG_LIST && i < stages->num_items && i < 64; i++) {
        judge_stage(config, i, "name", problems);
        judge_stage(config, i, "start_training_step", problems);
    }
}

#define ACCUMULATE "optimizer.accumulate_grad_in_fp32"

static void judge_settings(const struct tpp_nanotron_settings *s, const struct tpp_config *config,
                           struct tpp_problems *problems)
{
    static const char *const needed[] = {"parallelism.dp",          "parallelism.pp",
                                         "parallelism.tp",          "tokens.sequence_length",
                                         "tokens.micro_batch_size", "tokens.batch_accumulation_per_replica",
                                         "optimizer.zero_stage"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (tpp_config_find(config, needed[i]) == NULL)
            tpp_problems_add(problems, "missing-key", TPP_SEVERITY_ERROR, 0, "write it", "%s is missing", needed[i]);
    }
    if (s->tensor_async && s->tensor_mode == NANOTRON_MODE_ALL_REDUCE && s->tensor > 1)
        tpp_problems_add(problems, "dead-setting", TPP_SEVERITY_WARNING,
                         tpp_config_line(config, "parallelism.tp_linear_async_communication"),
                         "set tp_mode to REDUCE_SCATTER", "asynchronous communication needs REDUCE_SCATTER");
    if (!s->accumulate_in_fp32 && s->dtype != 2 && tpp_config_find(config, ACCUMULATE) != NULL)
        tpp_problems_add(problems, "not-modelled", TPP_SEVERITY_WARNING, tpp_config_line(config, ACCUMULATE),
                         "set " ACCUMULATE " to true",
                         "without fp32 gradients nanotron keeps no fp32 weights and moments either: they are costed "
                         "with them");
    judge_schedule(s, config, problems);
    if (s->context > 1 && s->attention < NANOTRON_ATTENTION_RING)
        tpp_problems_add(problems, "NT", TPP_SEVERITY_ERROR,
                         tpp_config_line(config, "parallelism.context_parallel_size"),
                         "set _attn_implementation to ring, or to llama3_ring_attention",
                         "context parallelism needs an attention that goes over ranks");
    if (s->attention == NANOTRON_ATTENTION_GATHER && s->heads_stride == TPP_KEY_UNSET)
        tpp_problems_add(problems, "NT", TPP_SEVERITY_ERROR, tpp_config_line(config, SHAPE("_attn_implementation")),
                         "set ring_attn_heads_k_stride", "llama3_ring_attention needs ring_attn_heads_k_stride");
}

static enum tpp_code read(const struct tpp_configuration_request *request, struct tpp_configuration_reading *out,
                          struct tpp_problems *problems, struct tpp_error *err)
{
    struct tpp_nanotron_settings s = tpp_nanotron_defaults();
    bool is_incomplete = false;
    memset(out, 0, sizeof *out);
    out->config = request->config;
    s.sequence_length = s.micro_batch_size = s.accumulation = 0;
    tpp_config_keys_read(&tpp_nanotron_table, request->config, &s, &is_incomplete, problems);
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
    out->rules.sequence_parallel = s.tensor_mode == NANOTRON_MODE_REDUCE_SCATTER; /* without effect on one rank */
    out->rules.group_query_attention = out->rules.group_query_attention || s.num_key_value_heads != TPP_KEY_UNSET;
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
