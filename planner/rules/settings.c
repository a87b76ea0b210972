/* settings.c - rule settings from what the planner knows. */
#include "planner/rules/rules.h"

/* Model, job and stack were checked before (tpp_model_check, tpp_job_check): their numbers are within the limits here.
 */
static int64_t number(uint64_t value)
{
    return value > (uint64_t)TPP_RULE_MAX_NUMBER ? TPP_RULE_MAX_NUMBER : (int64_t)value;
}

enum tpp_release tpp_rules_release(const struct tpp_stack *stack)
{
    enum tpp_release release;
    if (stack->framework != TPP_FRAMEWORK_MEGATRON_LM ||
        tpp_release_parse(stack->release, NULL, &release, NULL) != TPP_OK)
        return TPP_RELEASE_NEWEST;
    return release;
}

struct tpp_rule_settings tpp_rule_settings_defaults(enum tpp_framework framework)
{
    return (struct tpp_rule_settings){
        .framework = framework,
        .world_size = 1,
        .tensor_parallel = 1,
        .pipeline_parallel = 1,
        .context_parallel = 1,
        .expert_parallel = 1,
        .expert_tensor_parallel = framework == TPP_FRAMEWORK_MS_SWIFT ? 1 : TPP_RULE_UNSET,
        .layers_per_virtual_stage = TPP_RULE_UNSET,
        .virtual_stages_per_rank = TPP_RULE_UNSET,
        .first_stage_layers = TPP_RULE_UNSET,
        .last_stage_layers = TPP_RULE_UNSET,
        .microbatch_group_size = TPP_RULE_UNSET,
        .overlap_p2p = true,
        .context_types = TPP_RULE_CONTEXT_P2P,
        .num_context_types = 1,
        .hierarchical_product = TPP_RULE_UNSET,
        .hierarchical_first = TPP_RULE_UNSET,
        .tensor_weight_shards = TPP_RULE_UNSET,
        .expert_weight_shards = TPP_RULE_UNSET,
        .micro_batch_size = 1,
        .global_batch_size = TPP_RULE_UNSET,
        .eval_global_batch_size = TPP_RULE_UNSET,
        .eval_micro_batch_size = TPP_RULE_UNSET,
        .rampup_start = TPP_RULE_UNSET,
        .rampup_increment = TPP_RULE_UNSET,
        .ffn_hidden_size = TPP_RULE_UNSET,
        .kv_channels = TPP_RULE_UNSET,
        .num_query_groups = 1,
        .linear_bias = true,
        .rope_fusion = true,
        .mtp_num_layers = TPP_RULE_UNSET,
        .num_experts = TPP_RULE_UNSET,
        .experts_per_token = 2,
        .moe_ffn_hidden_size = TPP_RULE_UNSET,
        .shared_expert_hidden_size = TPP_RULE_UNSET,
        .layer_pattern_length = TPP_RULE_UNSET,
        .router_num_groups = TPP_RULE_UNSET,
        .router_group_topk = TPP_RULE_UNSET,
        .bias_dropout_fusion = true,
        .recompute_num_layers = TPP_RULE_UNSET,
        .gradient_accumulation_fusion = true,
        .async_tensor_all_reduce = true,
        .align_grad_reduce = true,
        .optimizer_instances = 1,
        .optimizer_offload_fraction = framework == TPP_FRAMEWORK_NEMO ? 0 : 1,
        .ddp_bucket_size = TPP_RULE_UNSET,
        .ddp_num_buckets = TPP_RULE_UNSET,
        .allgather_bucket_size = TPP_RULE_UNSET,
        .shard_group = TPP_RULE_UNSET,
        .zero_stage = framework == TPP_FRAMEWORK_TORCHTITAN ? 3 : 0,
        .data_parallel = TPP_RULE_UNSET,
        .cuda_device_max_connections = TPP_RULE_UNSET,
        .compute_capability = 9.0,
    };
}

static void set_experts(const struct tpp_model *model, struct tpp_rule_settings *settings)
{
    if (model->num_experts == 0)
        return;
    settings->num_experts = model->num_experts;
    settings->experts_per_token = model->experts_per_token;
    settings->moe_ffn_hidden_size = model->moe_ffn_hidden_size;
    if (model->shared_expert_hidden_size > 0)
        settings->shared_expert_hidden_size = model->shared_expert_hidden_size;
    if (model->first_k_dense > 0 || model->moe_layer_period > 1) {
        settings->layer_pattern_length = model->num_layers;
        settings->has_dense_layers = true;
    }
    settings->grouped_gemm = true;
    settings->dispatcher = TPP_RULE_ALLTOALL;
    settings->router_pre_softmax = model->experts_per_token == 1;
}

static void set_model(const struct tpp_model *model, struct tpp_rule_settings *settings)
{
    settings->num_layers = model->num_layers;
    settings->hidden_size = model->hidden_size;
    settings->num_attention_heads = model->num_attention_heads;
    settings->multi_latent_attention = model->kv_lora_rank > 0;
    settings->group_query_attention =
        model->num_query_groups != model->num_attention_heads && !settings->multi_latent_attention;
    settings->num_query_groups = model->num_query_groups;
    settings->kv_channels = model->head_dim > 0 ? (int64_t)model->head_dim : TPP_RULE_UNSET;
    if (model->ffn_hidden_size > 0)
        settings->ffn_hidden_size = model->ffn_hidden_size;
    settings->swiglu = model->gated_mlp;
    settings->squared_relu = !model->gated_mlp && model->activation == TPP_ACTIVATION_SQUARED_RELU;
    settings->linear_bias = model->mlp_bias || model->output_bias;
    settings->untied_embeddings = !model->tied_embeddings;
    settings->rms_norm = model->norm == TPP_NORM_RMS;
    settings->position = model->position == TPP_POSITION_ROPE      ? TPP_RULE_POSITION_ROPE
                         : model->position == TPP_POSITION_LEARNED ? TPP_RULE_POSITION_LEARNED
                                                                   : TPP_RULE_POSITION_NONE;
    settings->rope_fusion = !settings->multi_latent_attention;
    set_experts(model, settings);
}

/* MXFP8 has e4m3 alone in Transformer Engine's recipe; the per-tensor and block recipes take e5m2 gradients. */
static void set_fp8(enum tpp_precision precision, const struct tpp_stack *stack, struct tpp_rule_settings *settings)
{
    if (!tpp_precision_is_fp8(precision))
        return;
    settings->fp8_param_gather = stack->fp8_weights;
    settings->fp8 = precision == TPP_PRECISION_FP8 ? TPP_RULE_FP8_HYBRID : TPP_RULE_FP8_E4M3;
    settings->fp8_recipe = precision == TPP_PRECISION_MXFP8       ? TPP_RULE_FP8_MXFP8
                           : precision == TPP_PRECISION_FP8_BLOCK ? TPP_RULE_FP8_BLOCKWISE
                           : stack->current_scaling               ? TPP_RULE_FP8_TENSORWISE
                                                                  : TPP_RULE_FP8_DELAYED;
}

void tpp_rule_settings_for_job(const struct tpp_model *model, const struct tpp_job *job, const struct tpp_stack *stack,
                               double compute_capability, struct tpp_rule_settings *settings)
{
    *settings = tpp_rule_settings_defaults(stack->framework);
    set_model(model, settings);
    settings->world_size = job->num_gpus;
    settings->sequence_length = number(job->sequence_length);
    settings->max_position_embeddings = settings->sequence_length; /* what we write is never shorter */
    settings->global_batch_size = number(job->global_batch_size);
    settings->fp16 = job->precision == TPP_PRECISION_FP16;
    set_fp8(job->precision, stack, settings);
    settings->bf16 = job->precision == TPP_PRECISION_BF16 || settings->fp8 != TPP_RULE_FP8_NONE;
    if (job->mtp_num_layers > 0)
        settings->mtp_num_layers = job->mtp_num_layers;
    settings->has_capacity_factor = settings->pad_to_capacity = job->expert_capacity_factor > 0;
    settings->narrow_state = job->optimizer == TPP_OPTIMIZER_ADAMW_BF16;
    settings->torch_fsdp2 = stack->framework == TPP_FRAMEWORK_MEGATRON_LM && stack->engine == TPP_ENGINE_FSDP2;
    settings->megatron_fsdp = stack->engine == TPP_ENGINE_FSDP2 &&
                              (stack->framework == TPP_FRAMEWORK_NEMO || stack->framework == TPP_FRAMEWORK_MS_SWIFT);
    if (settings->megatron_fsdp)
        settings->checkpoint_format = TPP_RULE_FSDP_DTENSOR;
    settings->gradient_accumulation_fusion = !settings->torch_fsdp2;
    settings->local_transformer = stack->framework == TPP_FRAMEWORK_MEGATRON_LM && !stack->transformer_engine;
    settings->cuda_graph = stack->cuda_graphs ? TPP_RULE_GRAPH_LOCAL : TPP_RULE_GRAPH_NONE;
    settings->mcore_models = true;
    settings->overlap_p2p = stack->overlap_p2p;
    settings->pipeline_engine = stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE;
    settings->sums_in_fp32 = stack->engine == TPP_ENGINE_DEEPSPEED && stack->gradient_bytes > stack->weight_bytes;
    settings->engine_follows_stages = stack->engine == TPP_ENGINE_DEEPSPEED;
    if (stack->framework == TPP_FRAMEWORK_HF_TRAINER && tpp_engine_is_fsdp(stack->engine))
        settings->fsdp_version = stack->engine == TPP_ENGINE_FSDP2 ? 2 : 1;
    settings->no_parallelism_config = settings->fsdp_version == 2 && tpp_version_is_before(stack->release, 1, 10);
    settings->compute_capability = compute_capability;
    settings->has_train_iters = true;
    settings->num_data_sources = 1;
    settings->packs_sequences = job->task != TPP_TASK_PRETRAIN;
}

/* Layers a virtual stage where that is all a release knows, or where everything divides; else stages a rank. */
static void set_interleaving(const struct tpp_strategy *strategy, enum tpp_release release,
                             struct tpp_rule_settings *settings)
{
    int64_t chunks = strategy->virtual_pipeline_stages, stages = strategy->pipeline_parallel;
    bool uneven = strategy->first_stage_layers > 0 || strategy->last_stage_layers > 0 ||
                  strategy->account_for_embedding || strategy->account_for_loss;
    settings->layers_per_virtual_stage = settings->virtual_stages_per_rank = TPP_RULE_UNSET;
    if (chunks <= 1)
        return;
    if (uneven && release >= TPP_RELEASE_0_11)
        settings->virtual_stages_per_rank = chunks;
    else if (settings->num_layers % (chunks * stages) == 0)
        settings->layers_per_virtual_stage = settings->num_layers / (chunks * stages);
    else
        settings->layers_per_virtual_stage = TPP_RULE_MAX_SIZE; /* divides nothing: refused by ML-21 */
}

static void set_context(const struct tpp_strategy *strategy, struct tpp_rule_settings *settings)
{
    static const unsigned types[] = {
        [TPP_CONTEXT_RING] = TPP_RULE_CONTEXT_P2P,
        [TPP_CONTEXT_ALL_GATHER] = TPP_RULE_CONTEXT_ALL_GATHER,
        [TPP_CONTEXT_ULYSSES] = TPP_RULE_CONTEXT_A2A,
        [TPP_CONTEXT_HYBRID] = TPP_RULE_CONTEXT_A2A_P2P,
    };
    settings->context_parallel = strategy->context_parallel;
    settings->context_types = strategy->context_parallel > 1 ? types[strategy->context_kind] : TPP_RULE_CONTEXT_P2P;
    settings->hierarchical_first = settings->hierarchical_product = TPP_RULE_UNSET;
    if (settings->context_types == TPP_RULE_CONTEXT_A2A_P2P && strategy->ulysses_parallel > 0) {
        int64_t ranks = strategy->ulysses_parallel;
        settings->hierarchical_first = ranks;
        settings->hierarchical_product = strategy->context_parallel / ranks * ranks;
    }
}

/* Megatron counts the layers of block recomputation in each model chunk. All layers in units of one is the same as
 * block recomputation of every layer. */
static void set_recompute(const struct tpp_strategy *strategy, struct tpp_rule_settings *settings)
{
    int64_t layers = strategy->recompute_num_layers, chunks = strategy->virtual_pipeline_stages;
    bool block = strategy->recompute_method == TPP_RECOMPUTE_BLOCK && layers > 0;
    settings->recompute_method = TPP_RULE_METHOD_NONE;
    settings->recompute_num_layers = TPP_RULE_UNSET;
    settings->recompute_modules = strategy->recompute_modules;
    settings->recompute =
        strategy->recompute == TPP_RECOMPUTE_SELECTIVE ? TPP_RULE_GRANULARITY_SELECTIVE : TPP_RULE_GRANULARITY_NONE;
    if (strategy->recompute != TPP_RECOMPUTE_FULL)
        return;
    settings->recompute = TPP_RULE_GRANULARITY_FULL;
    settings->recompute_method = block ? TPP_RULE_METHOD_BLOCK : TPP_RULE_METHOD_UNIFORM;
    if (block)
        settings->recompute_num_layers = (layers + chunks - 1) / (chunks > 0 ? chunks : 1);
    else
        settings->recompute_num_layers = strategy->recompute_method == TPP_RECOMPUTE_UNIFORM && layers > 0 ? layers : 1;
}

/* DeepEP and HybridEP are backends of the flex dispatcher; before 0.16 it had DeepEP alone, by a switch. */
static void set_dispatch(const struct tpp_strategy *strategy, enum tpp_release release,
                         struct tpp_rule_settings *settings)
{
    settings->overlap_expert_comm = strategy->expert_overlap;
    settings->shared_expert_overlap = strategy->shared_overlap;
    if (settings->num_experts == TPP_RULE_UNSET)
        return;
    settings->dispatcher = strategy->dispatch == TPP_DISPATCH_ALL_TO_ALL   ? TPP_RULE_ALLTOALL
                           : strategy->dispatch == TPP_DISPATCH_ALL_GATHER ? TPP_RULE_ALLGATHER
                                                                           : TPP_RULE_FLEX;
    settings->flex_backend = strategy->dispatch == TPP_DISPATCH_HYBRIDEP ? TPP_RULE_HYBRIDEP : TPP_RULE_DEEPEP;
    settings->enable_deepep = strategy->dispatch == TPP_DISPATCH_DEEPEP && release < TPP_RELEASE_0_16;
}

/* Replicas of a sharded optimizer: the ranks that share weights over those of one shard group. */
static void set_optimizer(const struct tpp_strategy *strategy, struct tpp_rule_settings *settings)
{
    int64_t ranks = (int64_t)strategy->data_parallel * strategy->context_parallel;
    settings->distributed_optimizer = strategy->zero_stage > 0 && !settings->torch_fsdp2;
    settings->overlap_grad_reduce = strategy->overlap_grad_reduce && !settings->torch_fsdp2;
    settings->overlap_param_gather = strategy->overlap_param_gather && settings->distributed_optimizer;
    settings->align_grad_reduce = strategy->align_grad_reduce;
    if (strategy->microbatch_group_size > 0)
        settings->microbatch_group_size = strategy->microbatch_group_size;
    settings->optimizer_cpu_offload = strategy->offload == TPP_OFFLOAD_OPTIMIZER;
    settings->optimizer_offload_fraction = tpp_strategy_offload_fraction(strategy);
    settings->cpu_offload_layers = strategy->offload_layers;
    settings->precision_aware_optimizer = settings->optimizer_cpu_offload || settings->narrow_state;
    settings->keeps_gathered_weights = settings->torch_fsdp2 && !strategy->reshard_after_forward;
    settings->partial_fsdp =
        settings->megatron_fsdp && (strategy->zero_stage < 3 || !strategy->reshard_after_forward ||
                                    !strategy->overlap_grad_reduce || !strategy->overlap_param_gather);
    settings->optimizer_instances = 1;
    if (settings->distributed_optimizer && strategy->shard_group > 0 && ranks > strategy->shard_group)
        settings->optimizer_instances = (ranks + strategy->shard_group - 1) / strategy->shard_group;
    settings->ddp_bucket_size =
        strategy->reduce_bucket_size > 0 ? number(strategy->reduce_bucket_size) : TPP_RULE_UNSET;
    settings->allgather_bucket_size =
        strategy->allgather_bucket_size > 0 ? number(strategy->allgather_bucket_size) : TPP_RULE_UNSET;
    settings->shard_group = strategy->shard_group > 0 ? strategy->shard_group : TPP_RULE_UNSET;
    settings->zero_stage = strategy->zero_stage;
    settings->data_parallel = strategy->data_parallel > 0 ? strategy->data_parallel : TPP_RULE_UNSET;
}

/* The value that tpp-plan's scripts set; Megatron-Bridge and ms-swift choose theirs as their release demands. */
static int64_t max_connections(const struct tpp_rule_settings *settings, enum tpp_release release)
{
    bool model_parallel = settings->tensor_parallel > 1 || settings->context_parallel > 1;
    if (release < TPP_RELEASE_0_12 || settings->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED)
        return 1;
    if (settings->torch_fsdp2 || settings->megatron_fsdp)
        return 8;
    if (settings->compute_capability >= 10.0 && (release > TPP_RELEASE_0_12 || settings->tensor_parallel == 1))
        return 32;
    return model_parallel ? 1 : 8;
}

static bool is_size(uint32_t value)
{
    return value >= 1 && value <= TPP_RULE_MAX_SIZE;
}

/* What a strategy brings; model and job have been checked by their owners. */
static bool has_sizes_in_range(const struct tpp_strategy *s)
{
    return is_size(s->tensor_parallel) && is_size(s->pipeline_parallel) && is_size(s->virtual_pipeline_stages) &&
           is_size(s->context_parallel) && is_size(s->expert_parallel) &&
           s->expert_tensor_parallel <= TPP_RULE_MAX_SIZE && s->micro_batch_size >= 1;
}

void tpp_rule_settings_for_strategy(const struct tpp_strategy *strategy, enum tpp_release release,
                                    struct tpp_rule_settings *settings)
{
    settings->tensor_parallel = strategy->tensor_parallel;
    settings->pipeline_parallel = strategy->pipeline_parallel;
    if (settings->engine_follows_stages)
        settings->pipeline_engine = strategy->pipeline_parallel > 1;
    settings->expert_parallel = strategy->expert_parallel;
    if (settings->num_experts != TPP_RULE_UNSET && strategy->expert_tensor_parallel > 0)
        settings->expert_tensor_parallel = strategy->expert_tensor_parallel;
    else
        settings->expert_tensor_parallel = strategy->tensor_parallel;
    set_context(strategy, settings);
    set_interleaving(strategy, release, settings);
    settings->first_stage_layers = strategy->first_stage_layers > 0 ? strategy->first_stage_layers : TPP_RULE_UNSET;
    settings->last_stage_layers = strategy->last_stage_layers > 0 ? strategy->last_stage_layers : TPP_RULE_UNSET;
    settings->account_for_embedding = strategy->account_for_embedding;
    settings->account_for_loss = strategy->account_for_loss;
    settings->sequence_parallel = strategy->sequence_parallel;
    settings->tp_comm_overlap = strategy->tp_comm_overlap;
    settings->micro_batch_size = strategy->micro_batch_size;
    settings->cuda_device_max_connections = max_connections(settings, release);
    set_optimizer(strategy, settings);
    set_recompute(strategy, settings);
    set_dispatch(strategy, release, settings);
    settings->is_checked = has_sizes_in_range(strategy);
}
