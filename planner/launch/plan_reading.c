/* plan_reading.c - see plan_reading.h; the inverse of what megatron_lm.c writes. */
#include "planner/launch/plan_reading.h"

#include "planner/launch/plan_layout.h"

#include <stdio.h>
#include <math.h>
#include <string.h>

/* Entries of the tokenizers that are assumed where a script gives none: GPT-2's byte pairs, and Llama 3's. */
#define GPT2_VOCABULARY 50257
#define LARGE_VOCABULARY 128256

struct reading {
    const struct tpp_megatron_settings *s;
    const struct tpp_arguments *arguments;
    enum tpp_release release;
    struct tpp_problems *problems;
};

static bool is_set(int64_t value)
{
    return value != TPP_RULE_UNSET;
}

/* Numbers that no check below would see overflow. */
static uint32_t size_of(int64_t value)
{
    return value < 0 ? 0 : value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static int64_t or_else(int64_t value, int64_t otherwise)
{
    return is_set(value) ? value : otherwise;
}

/* Launch formats 1.2: 4 h, with --swiglu two thirds of that rounded down to a multiple of 64. */
static int64_t dense_width(const struct tpp_rule_settings *rules)
{
    if (is_set(rules->ffn_hidden_size))
        return rules->ffn_hidden_size;
    if (rules->hidden_size > TPP_RULE_MAX_SIZE || rules->hidden_size < 0)
        return 0;
    return rules->swiglu ? rules->hidden_size * 8 / 3 / 64 * 64 : 4 * rules->hidden_size;
}

static uint32_t vocabulary(const struct reading *r)
{
    const struct tpp_megatron_settings *s = r->s;
    if (is_set(s->vocab_size))
        return size_of(s->vocab_size);
    if (is_set(s->padded_vocab_size))
        return size_of(s->padded_vocab_size);
    uint32_t assumed = s->merge_file ? GPT2_VOCABULARY : LARGE_VOCABULARY;
    tpp_problems_add(r->problems, "assumed-vocabulary", TPP_SEVERITY_INFO,
                     tpp_argument_line(r->arguments, "--tokenizer-type"),
                     "write --vocab-size, or give the model with --model",
                     "the tokenizer's size is not written in the script: %u entries are assumed", assumed);
    return assumed;
}

/* Launch formats 1.4: the smallest multiple of divisor * tp that holds the vocabulary. */
static void add_padding(const struct reading *r, uint32_t vocab_size)
{
    int64_t divisor = r->s->vocabulary_multiple, unit = divisor * r->s->rules.tensor_parallel;
    if (divisor < 1 || divisor > TPP_RULE_MAX_SIZE)
        return;
    int64_t padded = (vocab_size + unit - 1) / unit * unit;
    uint32_t line = tpp_argument_line(r->arguments, "--make-vocab-size-divisible-by");
    if (divisor % 128 != 0)
        tpp_problems_add(r->problems, "odd-vocabulary", TPP_SEVERITY_WARNING, line, "leave the default of 128",
                         "--make-vocab-size-divisible-by %lld pads the vocabulary from %u to %lld entries: the rows of "
                         "a rank are no multiple of 128, on which products run best",
                         (long long)divisor, vocab_size, (long long)padded);
    else if (padded != vocab_size)
        tpp_problems_add(r->problems, "padded-vocabulary", TPP_SEVERITY_INFO, line, "",
                         "the vocabulary is padded from %u to %lld entries, a multiple of %lld * tp: a checkpoint made "
                         "with another tensor-parallel size may not load",
                         vocab_size, (long long)padded, (long long)divisor);
}

static void read_attention(const struct tpp_megatron_settings *s, struct tpp_model *model)
{
    const struct tpp_rule_settings *rules = &s->rules;
    int64_t heads = rules->num_attention_heads;
    model->num_attention_heads = size_of(heads);
    model->num_query_groups = rules->group_query_attention ? size_of(rules->num_query_groups) : size_of(heads);
    model->head_dim = size_of(or_else(rules->kv_channels, heads > 0 ? rules->hidden_size / heads : 0));
    model->qkv_bias = rules->linear_bias || s->qkv_bias;
    model->output_bias = model->mlp_bias = rules->linear_bias;
    model->qk_norm = s->qk_norm;
    model->qk_norm_elements = s->qk_norm ? 2 * model->head_dim : 0;
    if (!rules->multi_latent_attention)
        return;
    model->num_query_groups = model->num_attention_heads;
    model->q_lora_rank = size_of(s->q_lora_rank);
    model->kv_lora_rank = size_of(s->kv_lora_rank);
    model->qk_nope_head_dim = size_of(s->qk_head_dim);
    model->qk_rope_head_dim = size_of(s->qk_rope_head_dim);
    model->v_head_dim = size_of(s->v_head_dim);
    model->head_dim = model->qk_nope_head_dim + model->qk_rope_head_dim;
}

static void read_positions(const struct tpp_megatron_settings *s, struct tpp_model *model)
{
    const struct tpp_rule_settings *rules = &s->rules;
    bool is_learned = rules->position == TPP_RULE_POSITION_LEARNED && !s->no_position_embedding && !s->alibi;
    model->max_position_embeddings = size_of(rules->max_position_embeddings);
    model->position = is_learned ? TPP_POSITION_LEARNED
                      : rules->position == TPP_RULE_POSITION_ROPE || rules->position == TPP_RULE_POSITION_MROPE ||
                              rules->position == TPP_RULE_POSITION_YARN
                          ? TPP_POSITION_ROPE
                          : TPP_POSITION_NONE;
    model->learned_position_rows = is_learned ? model->max_position_embeddings : 0;
    if (s->alibi)
        model->position = TPP_POSITION_ALIBI;
    if (model->position == TPP_POSITION_ROPE) {
        model->rope_theta = s->rotary_base;
        model->rotary_fraction = s->rotary_fraction;
    }
}

static void read_experts(const struct reading *r, struct tpp_model *model)
{
    const struct tpp_rule_settings *rules = &r->s->rules;
    if (!is_set(rules->num_experts))
        return;
    model->num_experts = size_of(rules->num_experts);
    model->experts_per_token = size_of(rules->experts_per_token);
    model->moe_ffn_hidden_size = size_of(or_else(rules->moe_ffn_hidden_size, dense_width(rules)));
    model->shared_expert_hidden_size = size_of(or_else(rules->shared_expert_hidden_size, 0));
    model->shared_expert_gate = r->s->shared_expert_gate;
    model->moe_layer_period = 1;
    if (r->s->has_pattern) {
        model->first_k_dense = size_of(r->s->first_dense_layers);
        model->moe_layer_period = size_of(r->s->moe_layer_period);
    }
    if (!rules->has_dense_layers)
        model->ffn_hidden_size = 0;
    if (!r->s->is_pattern_read)
        tpp_problems_add(r->problems, "layer-pattern", TPP_SEVERITY_INFO,
                         tpp_argument_line(r->arguments, "--moe-layer-freq"), "",
                         "the layers with experts are costed as every %u-th of them; the script's pattern is another",
                         model->moe_layer_period);
}

static void read_model(const struct reading *r, const char *name, struct tpp_model *model)
{
    const struct tpp_rule_settings *rules = &r->s->rules;
    *model = (struct tpp_model){.num_layers = size_of(rules->num_layers),
                                .hidden_size = size_of(rules->hidden_size),
                                .ffn_hidden_size = size_of(dense_width(rules)),
                                .gated_mlp = rules->swiglu || rules->quick_geglu,
                                .norm = rules->rms_norm ? TPP_NORM_RMS : TPP_NORM_LAYER,
                                .norm_epsilon = r->s->norm_epsilon,
                                .norms_per_layer = 2,
                                .final_norm = true,
                                .embedding_norm = r->s->embedding_norm,
                                .tied_embeddings = !rules->untied_embeddings,
                                .mtp_num_layers = size_of(or_else(rules->mtp_num_layers, 0))};
    model->activation = rules->swiglu         ? TPP_ACTIVATION_SILU
                        : rules->squared_relu ? TPP_ACTIVATION_SQUARED_RELU
                                              : TPP_ACTIVATION_GELU;
    snprintf(model->name, sizeof model->name, "%s", name);
    snprintf(model->family, sizeof model->family, "megatron");
    model->vocab_size = vocabulary(r);
    add_padding(r, model->vocab_size);
    read_attention(r->s, model);
    read_positions(r->s, model);
    read_experts(r, model);
}

static enum tpp_precision fp8_precision(enum tpp_rule_fp8_recipe recipe)
{
    return recipe == TPP_RULE_FP8_MXFP8       ? TPP_PRECISION_MXFP8
           : recipe == TPP_RULE_FP8_BLOCKWISE ? TPP_PRECISION_FP8_BLOCK
                                              : TPP_PRECISION_FP8;
}

static bool is_argument(const struct reading *r, const char *name, const char *const values[])
{
    const struct tpp_argument *a = tpp_argument_find(r->arguments, name);
    for (size_t i = 0; a != NULL && a->num_values == 1 && values[i] != NULL; i++) {
        if (strcmp(a->values[0].text, values[i]) == 0)
            return true;
    }
    return false;
}

/* Both moments in bf16; bitsandbytes' AdamW in 8 bits, by the Trainer's names. */
static enum tpp_optimizer read_optimizer(const struct reading *r)
{
    static const char *const bf16[] = {"bf16", "bfloat16", "torch.bfloat16", NULL};
    static const char *const moments[][2] = {{"--exp-avg-dtype", "--exp-avg-sq-dtype"},
                                             {"--exp_avg_dtype", "--exp_avg_sq_dtype"},
                                             {"optimizer.exp_avg_dtype", "optimizer.exp_avg_sq_dtype"}};
    static const char *const in_8_bits[] = {"adamw_bnb_8bit", "adamw_8bit", NULL};
    if (is_argument(r, "--optim", in_8_bits))
        return TPP_OPTIMIZER_ADAMW_8BIT;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        if (is_argument(r, moments[i][0], bf16) && is_argument(r, moments[i][1], bf16))
            return TPP_OPTIMIZER_ADAMW_BF16;
    }
    return TPP_OPTIMIZER_ADAMW;
}

/* What is the default of a precision counts as not chosen. The narrow gradients of ms-swift without narrow moments are
 * not modelled. */
static enum tpp_gradient_type read_gradient_type(const struct tpp_megatron_settings *s, enum tpp_optimizer optimizer)
{
    const struct tpp_rule_settings *rules = &s->rules;
    if (rules->fp16 && s->gradients_in_fp32)
        return TPP_GRADIENT_FP32;
    const bool is_modelled = rules->framework != TPP_FRAMEWORK_MS_SWIFT || optimizer == TPP_OPTIMIZER_ADAMW_BF16;
    return rules->bf16 && s->gradients_in_bf16 && is_modelled ? TPP_GRADIENT_BF16 : TPP_GRADIENT_DEFAULT;
}

static void read_job(const struct reading *r, struct tpp_job *job)
{
    const struct tpp_megatron_settings *s = r->s;
    const struct tpp_rule_settings *rules = &s->rules;
    int64_t model_parallel = rules->tensor_parallel * rules->pipeline_parallel * rules->context_parallel;
    int64_t replicas = model_parallel > 0 ? rules->world_size / model_parallel : 1;
    *job = tpp_job_defaults();
    job->num_gpus = size_of(rules->world_size);
    job->sequence_length = rules->sequence_length > 0 ? (uint64_t)rules->sequence_length : 0;
    job->global_batch_size = (uint64_t)or_else(rules->global_batch_size, rules->micro_batch_size * replicas);
    job->precision = rules->fp8 != TPP_RULE_FP8_NONE ? fp8_precision(rules->fp8_recipe)
                     : rules->fp16                   ? TPP_PRECISION_FP16
                     : rules->bf16                   ? TPP_PRECISION_BF16
                                                     : TPP_PRECISION_FP32;
    job->mtp_num_layers = s->trains_adapters ? 0 : size_of(or_else(rules->mtp_num_layers, 0));
    job->lora_rank = s->trains_adapters ? size_of(s->lora_rank) : job->lora_rank;
    job->lora_targets = s->trains_adapters ? s->lora_targets : job->lora_targets;
    job->task = s->trains_adapters    ? (s->quantised ? TPP_TASK_QLORA : TPP_TASK_LORA)
                : s->gives_checkpoint ? TPP_TASK_SFT
                                      : TPP_TASK_PRETRAIN;
    job->optimizer = read_optimizer(r);
    job->gradient_type = read_gradient_type(s, job->optimizer);
    job->hidden_dropout = s->hidden_dropout;
    job->attention_dropout = s->attention_dropout;
}

static void read_attention_kernel(const struct tpp_megatron_settings *s, enum tpp_release release,
                                  const struct tpp_gpu *gpu, struct tpp_stack *stack)
{
    bool has_flash2 = gpu->flash_forward_fraction[TPP_ATTENTION_FLASH2] > 0;
    bool uses_flash =
        s->attention == TPP_MEGATRON_ATTENTION_FLASH || (release < TPP_RELEASE_0_11 && s->flash_attention);
    if (s->attention == TPP_MEGATRON_ATTENTION_UNFUSED || s->attention == TPP_MEGATRON_ATTENTION_LOCAL ||
        (s->rules.local_transformer && !s->flash_attention && s->attention == TPP_MEGATRON_ATTENTION_AUTO))
        stack->attention = TPP_ATTENTION_FUSED_SOFTMAX;
    else if (s->flash_3 && gpu->flash_forward_fraction[TPP_ATTENTION_FLASH3] > 0)
        stack->attention = TPP_ATTENTION_FLASH3;
    else if (uses_flash && has_flash2)
        stack->attention = TPP_ATTENTION_FLASH2;
}

/* Megatron-DeepSpeed: the engine that runs, unfused attention unless it is asked for. */
static void read_deepspeed_stack(const struct tpp_megatron_settings *s, const struct tpp_hardware *hardware,
                                 const struct tpp_job *job, struct tpp_stack *stack)
{
    const struct tpp_gpu *gpu = &hardware->gpu;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, gpu, job, stack);
    stack->engine = !s->deepspeed              ? TPP_ENGINE_MEGATRON
                    : s->rules.pipeline_engine ? TPP_ENGINE_DEEPSPEED_PIPELINE
                                               : TPP_ENGINE_DEEPSPEED;
    tpp_stack_set_dtypes(stack, job);
    stack->attention = s->flash_attention && gpu->flash_forward_fraction[TPP_ATTENTION_FLASH2] > 0
                           ? TPP_ATTENTION_FLASH2
                           : TPP_ATTENTION_FUSED_SOFTMAX;
    stack->vocabulary_multiple = size_of(s->vocabulary_multiple);
}

static void read_stack(const struct tpp_megatron_settings *s, enum tpp_release release,
                       const struct tpp_hardware *hardware, const struct tpp_job *job, struct tpp_stack *stack)
{
    const struct tpp_rule_settings *rules = &s->rules;
    tpp_stack_defaults(rules->framework, &hardware->gpu, job, stack);
    if (rules->framework == TPP_FRAMEWORK_MEGATRON_LM)
        snprintf(stack->release, sizeof stack->release, "%s", tpp_release_name(release));
    if (rules->torch_fsdp2 || rules->megatron_fsdp)
        stack->engine = TPP_ENGINE_FSDP2;
    tpp_stack_set_dtypes(stack, job);
    read_attention_kernel(s, release, &hardware->gpu, stack);
    stack->transformer_engine = !rules->local_transformer;
    if (rules->local_transformer)
        stack->memory_bound_factor = 1.2; /* cost-model 5.3: kernels of Megatron's own */
    stack->loss_kernel = s->cross_entropy_fusion ? TPP_LOSS_FUSED : TPP_LOSS_UNFUSED;
    stack->overlap_p2p = rules->overlap_p2p;
    stack->cuda_graphs = rules->cuda_graph != TPP_RULE_GRAPH_NONE;
    stack->tensor_parallel_async = rules->async_tensor_all_reduce;
    stack->vocabulary_multiple = size_of(s->vocabulary_multiple);
}

/* Hugging Face's layers under DeepSpeed, FSDP or DistributedDataParallel. */
static void read_trainer_stack(const struct tpp_megatron_settings *s, const struct tpp_hardware *hardware,
                               const struct tpp_job *job, struct tpp_stack *stack)
{
    const enum tpp_framework framework = s->rules.framework;
    tpp_stack_defaults(framework, &hardware->gpu, job, stack);
    const enum tpp_engine engine = s->deepspeed || framework == TPP_FRAMEWORK_MS_SWIFT ? TPP_ENGINE_DEEPSPEED
                                   : s->rules.fsdp_version == 2                        ? TPP_ENGINE_FSDP2
                                   : s->rules.fsdp_version == 1                        ? TPP_ENGINE_FSDP1
                                                                                       : TPP_ENGINE_DDP;
    tpp_stack_set_engine(stack, engine, &hardware->gpu, job);
    if (s->attention == TPP_MEGATRON_ATTENTION_LOCAL)
        stack->attention = TPP_ATTENTION_EAGER;
}

static uint32_t chunks_of(const struct tpp_rule_settings *rules)
{
    int64_t slots = rules->num_layers + rules->account_for_embedding + rules->account_for_loss;
    if (is_set(rules->virtual_stages_per_rank))
        return size_of(rules->virtual_stages_per_rank);
    if (is_set(rules->layers_per_virtual_stage) && rules->layers_per_virtual_stage > 0 && rules->pipeline_parallel > 0)
        return size_of(slots / rules->pipeline_parallel / rules->layers_per_virtual_stage);
    return 1;
}

static void read_layout(const struct reading *r, struct tpp_strategy *strategy)
{
    const char *layout = r->s->rules.pipeline_layout;
    if (layout != NULL && tpp_plan_read_layout(layout, strategy) == TPP_PLAN_LAYOUT_OTHER)
        tpp_problems_add(r->problems, "layout", TPP_SEVERITY_INFO,
                         tpp_argument_line(r->arguments, "--pipeline-model-parallel-layout"), "",
                         "the stages of the layout hold different numbers of layers: they are costed as even ones");
}

static void read_context(const struct tpp_rule_settings *rules, struct tpp_strategy *strategy)
{
    strategy->context_parallel = size_of(rules->context_parallel);
    if (rules->context_parallel <= 1)
        return;
    strategy->context_kind = rules->context_types & TPP_RULE_CONTEXT_A2A_P2P      ? TPP_CONTEXT_HYBRID
                             : rules->context_types & TPP_RULE_CONTEXT_A2A        ? TPP_CONTEXT_ULYSSES
                             : rules->context_types & TPP_RULE_CONTEXT_ALL_GATHER ? TPP_CONTEXT_ALL_GATHER
                                                                                  : TPP_CONTEXT_RING;
    if (strategy->context_kind == TPP_CONTEXT_HYBRID && is_set(rules->hierarchical_first))
        strategy->ulysses_parallel = size_of(rules->hierarchical_first);
}

static void read_recompute(const struct tpp_rule_settings *rules, struct tpp_strategy *strategy)
{
    strategy->recompute = rules->recompute == TPP_RULE_GRANULARITY_FULL        ? TPP_RECOMPUTE_FULL
                          : rules->recompute == TPP_RULE_GRANULARITY_SELECTIVE ? TPP_RECOMPUTE_SELECTIVE
                                                                               : TPP_RECOMPUTE_NONE;
    if (strategy->recompute == TPP_RECOMPUTE_SELECTIVE)
        strategy->recompute_modules = rules->recompute_modules & TPP_MODULE_ALL;
    if (strategy->recompute != TPP_RECOMPUTE_FULL)
        return;
    int64_t layers = or_else(rules->recompute_num_layers, 1);
    if (rules->recompute_method == TPP_RULE_METHOD_BLOCK) { /* Megatron counts them in each chunk */
        strategy->recompute_method = TPP_RECOMPUTE_BLOCK;
        strategy->recompute_num_layers = size_of(layers) * strategy->virtual_pipeline_stages;
    } else {
        strategy->recompute_num_layers = size_of(layers);
    }
}

/* Megatron-DeepSpeed, the Trainer, swift sft. */
static bool is_deepspeed(const struct tpp_rule_settings *rules)
{
    return rules->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED || rules->engine_follows_stages;
}

static uint32_t zero_stage(const struct tpp_megatron_settings *s, enum tpp_release release)
{
    const struct tpp_rule_settings *rules = &s->rules;
    enum tpp_megatron_sharding sharding = s->sharding;
    if (is_deepspeed(rules))
        return rules->zero_stage < 0 ? 0 : rules->zero_stage > 3 ? 3 : (uint32_t)rules->zero_stage;
    if (rules->torch_fsdp2)
        return 3;
    if (!rules->megatron_fsdp)
        return rules->distributed_optimizer ? 1 : 0;
    if (sharding == TPP_MEGATRON_SHARD_DEFAULT)
        sharding = release >= TPP_RELEASE_0_18 ? TPP_MEGATRON_SHARD_PARAMETERS : TPP_MEGATRON_SHARD_NOTHING;
    return (uint32_t)sharding;
}

/* The engine overlaps what the configuration does not forbid; its pipeline engine nothing. */
static void read_deepspeed_overlap(const struct tpp_megatron_settings *s, struct tpp_strategy *strategy)
{
    strategy->overlap_grad_reduce = !s->rules.pipeline_engine && (!s->config.has_overlap || s->config.overlap);
    strategy->overlap_param_gather = strategy->overlap_grad_reduce && strategy->zero_stage > 0;
}

static void read_offload(const struct tpp_megatron_settings *s, struct tpp_strategy *strategy)
{
    const struct tpp_rule_settings *rules = &s->rules;
    const double fraction = s->config.offload_ratio > 0 ? s->config.offload_ratio : rules->optimizer_offload_fraction;
    if (rules->optimizer_cpu_offload && fraction > 0)
        strategy->offload = TPP_OFFLOAD_OPTIMIZER;
    if (strategy->offload == TPP_OFFLOAD_OPTIMIZER && fraction < 1) /* of less than half a percent one is left */
        strategy->offload_percent = (uint32_t)fmax(1, round(100 * fraction));
    strategy->offload_layers = rules->cpu_offload_layers > 0 ? size_of(rules->cpu_offload_layers) : 0;
}

static void read_data_parallel(const struct tpp_megatron_settings *s, enum tpp_release release,
                               struct tpp_strategy *strategy)
{
    const struct tpp_rule_settings *rules = &s->rules;
    uint64_t ranks = (uint64_t)strategy->data_parallel * strategy->context_parallel;
    strategy->zero_stage = zero_stage(s, release);
    strategy->reshard_after_forward = !s->keeps_gathered;
    strategy->overlap_grad_reduce = rules->overlap_grad_reduce || strategy->zero_stage > 1;
    strategy->overlap_param_gather = rules->overlap_param_gather || strategy->zero_stage > 1;
    strategy->align_grad_reduce = rules->align_grad_reduce || !rules->overlap_grad_reduce;
    if (is_set(rules->ddp_bucket_size) && rules->ddp_bucket_size > 0)
        strategy->reduce_bucket_size = (uint64_t)rules->ddp_bucket_size;
    if (is_set(s->config.reduce_bucket_size) && s->config.reduce_bucket_size > 0)
        strategy->reduce_bucket_size = (uint64_t)s->config.reduce_bucket_size;
    if (is_set(s->config.allgather_bucket_size) && s->config.allgather_bucket_size > 0)
        strategy->allgather_bucket_size = (uint64_t)s->config.allgather_bucket_size;
    if (is_deepspeed(rules))
        read_deepspeed_overlap(s, strategy);
    if (rules->optimizer_instances > 1 && strategy->zero_stage > 0)
        strategy->shard_group = size_of((int64_t)ranks / rules->optimizer_instances);
    read_offload(s, strategy);
    strategy->tp_comm_overlap = rules->tp_comm_overlap;
    if (is_set(rules->num_experts) && rules->dispatcher == TPP_RULE_FLEX)
        strategy->dispatch =
            release >= TPP_RELEASE_0_16 && !rules->enable_deepep && rules->flex_backend == TPP_RULE_HYBRIDEP
                ? TPP_DISPATCH_HYBRIDEP
                : TPP_DISPATCH_DEEPEP;
    strategy->expert_overlap = rules->overlap_expert_comm && strategy->expert_parallel > 1;
    strategy->shared_overlap = rules->shared_expert_overlap && strategy->expert_parallel > 1 &&
                               is_set(rules->shared_expert_hidden_size) && rules->shared_expert_hidden_size > 0;
}

static enum tpp_code read_strategy(const struct reading *r, const struct tpp_job *job, struct tpp_strategy *strategy,
                                   struct tpp_error *err)
{
    const struct tpp_rule_settings *rules = &r->s->rules;
    *strategy = tpp_strategy_defaults();
    strategy->tensor_parallel = size_of(rules->tensor_parallel);
    strategy->pipeline_parallel = size_of(rules->pipeline_parallel);
    strategy->virtual_pipeline_stages = chunks_of(rules) > 0 ? chunks_of(rules) : 1;
    strategy->expert_parallel = is_set(rules->num_experts) ? size_of(rules->expert_parallel) : 1;
    strategy->expert_tensor_parallel = size_of(or_else(rules->expert_tensor_parallel, rules->tensor_parallel));
    if (!is_set(rules->num_experts))
        strategy->expert_tensor_parallel = tpp_strategy_defaults().expert_tensor_parallel;
    strategy->micro_batch_size = size_of(rules->micro_batch_size);
    strategy->sequence_parallel = rules->sequence_parallel && rules->tensor_parallel > 1;
    strategy->first_stage_layers = size_of(or_else(rules->first_stage_layers, 0));
    strategy->last_stage_layers = size_of(or_else(rules->last_stage_layers, 0));
    strategy->account_for_embedding = rules->account_for_embedding;
    strategy->account_for_loss = rules->account_for_loss;
    strategy->balanced_split = rules->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED && rules->pipeline_engine &&
                               rules->pipeline_parallel > 0 && rules->num_layers % rules->pipeline_parallel != 0;
    if (r->s->zero_bubble && rules->pipeline_parallel > 1)
        strategy->schedule = TPP_SCHEDULE_ZB_H1;
    const int64_t group = r->s->rules.microbatch_group_size;
    if (is_set(group) && strategy->virtual_pipeline_stages > 1 && group != strategy->pipeline_parallel)
        strategy->microbatch_group_size = size_of(group);
    read_layout(r, strategy);
    read_context(rules, strategy);
    read_recompute(rules, strategy);
    enum tpp_code code = tpp_strategy_complete(strategy, job, err);
    if (code == TPP_OK)
        read_data_parallel(r->s, r->release, strategy);
    return code;
}

/* A shape given beside the options: the ones that contradict it are named. */
static void compare_models(const struct reading *r, const struct tpp_model *model)
{
    const struct {
        const char *option;
        int64_t written;
        int64_t given;
    } sizes[] = {
        {"--num-layers", r->s->rules.num_layers, model->num_layers},
        {"--hidden-size", r->s->rules.hidden_size, model->hidden_size},
        {"--num-attention-heads", r->s->rules.num_attention_heads, model->num_attention_heads},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].written > 0 && sizes[i].written != sizes[i].given)
            tpp_problems_add(r->problems, "other-model", TPP_SEVERITY_WARNING,
                             tpp_argument_line(r->arguments, sizes[i].option), "give the model that the script trains",
                             "%s is %lld in the script and %lld in the model %s", sizes[i].option,
                             (long long)sizes[i].written, (long long)sizes[i].given, model->name);
    }
}

/* Numbers whose products below cannot overflow. */
static enum tpp_code check_sizes(const struct tpp_rule_settings *rules, struct tpp_error *err)
{
    const int64_t sizes[] = {rules->world_size,       rules->tensor_parallel, rules->pipeline_parallel,
                             rules->context_parallel, rules->expert_parallel, rules->micro_batch_size,
                             rules->num_layers};
    const int64_t numbers[] = {or_else(rules->global_batch_size, 1), rules->sequence_length, rules->hidden_size,
                               or_else(rules->recompute_num_layers, 1), or_else(rules->virtual_stages_per_rank, 1)};
    bool is_right = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        is_right = is_right && sizes[i] >= 1 && sizes[i] <= TPP_RULE_MAX_SIZE;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        is_right = is_right && numbers[i] >= 1 && numbers[i] <= TPP_RULE_MAX_NUMBER;
    if (is_right)
        return TPP_OK;
    return tpp_fail(err, TPP_E_RANGE, "script", "give sizes of at least 1",
                    "a size of the script is outside of what can be run");
}

enum tpp_code tpp_plan_from_megatron(const struct tpp_megatron_settings *settings,
                                     const struct tpp_arguments *arguments, enum tpp_release release,
                                     const struct tpp_hardware *hardware, const struct tpp_model *model,
                                     const char *name, struct tpp_plan_reading *out, struct tpp_problems *problems,
                                     struct tpp_error *err)
{
    const struct reading r = {settings, arguments, release, problems};
    memset(out, 0, sizeof *out);
    if (tpp_argument_find(arguments, "--ds-sequence-parallel-fpdt") != NULL)
        return tpp_fail(err, TPP_E_UNSUPPORTED, "--ds-sequence-parallel-fpdt", "take it out to see the step without it",
                        "attention in chunks that wait in host memory (FPDT) is not modelled");
    enum tpp_code code = check_sizes(&settings->rules, err);
    if (code != TPP_OK)
        return code;
    if (model != NULL) {
        out->model = *model;
        compare_models(&r, model);
    } else {
        read_model(&r, name, &out->model);
    }
    read_job(&r, &out->job);
    code = tpp_model_check(&out->model, err);
    if (code == TPP_OK)
        code = tpp_job_check(&out->job, &out->model, err);
    if (code != TPP_OK)
        return code;
    if (settings->rules.framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED)
        read_deepspeed_stack(settings, hardware, &out->job, &out->stack);
    else if (settings->rules.engine_follows_stages)
        read_trainer_stack(settings, hardware, &out->job, &out->stack);
    else
        read_stack(settings, release, hardware, &out->job, &out->stack);
    code = tpp_stack_check(&out->stack, &hardware->gpu, &out->job, err);
    return code != TPP_OK ? code : read_strategy(&r, &out->job, &out->strategy, err);
}
