/* plan_strategy.c - how the options split the job over the GPUs; the inverse of what the emitters write. */
#include "planner/launch/plan_layout.h"
#include "planner/launch/plan_parts.h"

#include <math.h>

static uint32_t chunks_of(const struct tpp_rule_settings *rules)
{
    int64_t slots = rules->num_layers + rules->account_for_embedding + rules->account_for_loss;
    if (tpp_plan_is_set(rules->virtual_stages_per_rank))
        return tpp_plan_size_of(rules->virtual_stages_per_rank);
    if (tpp_plan_is_set(rules->layers_per_virtual_stage) && rules->layers_per_virtual_stage > 0 &&
        rules->pipeline_parallel > 0)
        return tpp_plan_size_of(slots / rules->pipeline_parallel / rules->layers_per_virtual_stage);
    return 1;
}

static void read_layout(const struct tpp_plan_source *r, struct tpp_strategy *strategy)
{
    const char *layout = r->s->rules.pipeline_layout;
    if (layout != NULL && tpp_plan_read_layout(layout, strategy) == TPP_PLAN_LAYOUT_OTHER)
        tpp_problems_add(r->problems, "layout", TPP_SEVERITY_INFO,
                         tpp_argument_line(r->arguments, "--pipeline-model-parallel-layout"), "",
                         "the stages of the layout hold different numbers of layers: they are costed as even ones");
}

static void read_context(const struct tpp_rule_settings *rules, struct tpp_strategy *strategy)
{
    strategy->context_parallel = tpp_plan_size_of(rules->context_parallel);
    if (rules->context_parallel <= 1)
        return;
    strategy->context_kind = rules->context_types & TPP_RULE_CONTEXT_A2A_P2P      ? TPP_CONTEXT_HYBRID
                             : rules->context_types & TPP_RULE_CONTEXT_A2A        ? TPP_CONTEXT_ULYSSES
                             : rules->context_types & TPP_RULE_CONTEXT_ALL_GATHER ? TPP_CONTEXT_ALL_GATHER
                                                                                  : TPP_CONTEXT_RING;
    if (strategy->context_kind == TPP_CONTEXT_HYBRID && tpp_plan_is_set(rules->hierarchical_first))
        strategy->ulysses_parallel = tpp_plan_size_of(rules->hierarchical_first);
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
    int64_t layers = tpp_plan_or_else(rules->recompute_num_layers, 1);
    if (rules->recompute_method == TPP_RULE_METHOD_BLOCK) { /* Megatron counts them in each chunk */
        strategy->recompute_method = TPP_RECOMPUTE_BLOCK;
        strategy->recompute_num_layers = tpp_plan_size_of(layers) * strategy->virtual_pipeline_stages;
    } else {
        strategy->recompute_num_layers = tpp_plan_size_of(layers);
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
    strategy->offload_layers = rules->cpu_offload_layers > 0 ? tpp_plan_size_of(rules->cpu_offload_layers) : 0;
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
    if (tpp_plan_is_set(rules->ddp_bucket_size) && rules->ddp_bucket_size > 0)
        strategy->reduce_bucket_size = (uint64_t)rules->ddp_bucket_size;
    if (tpp_plan_is_set(s->config.reduce_bucket_size) && s->config.reduce_bucket_size > 0)
        strategy->reduce_bucket_size = (uint64_t)s->config.reduce_bucket_size;
    if (tpp_plan_is_set(s->config.allgather_bucket_size) && s->config.allgather_bucket_size > 0)
        strategy->allgather_bucket_size = (uint64_t)s->config.allgather_bucket_size;
    if (is_deepspeed(rules))
        read_deepspeed_overlap(s, strategy);
    if (rules->optimizer_instances > 1 && strategy->zero_stage > 0)
        strategy->shard_group = tpp_plan_size_of((int64_t)ranks / rules->optimizer_instances);
    read_offload(s, strategy);
    strategy->tp_comm_overlap = rules->tp_comm_overlap;
    const bool is_core = rules->framework == TPP_FRAMEWORK_MEGATRON_LM || rules->framework == TPP_FRAMEWORK_NEMO ||
                         rules->framework == TPP_FRAMEWORK_MS_SWIFT;
    if (tpp_plan_is_set(rules->num_experts) && is_core && rules->dispatcher == TPP_RULE_ALLGATHER)
        strategy->dispatch = TPP_DISPATCH_ALL_GATHER;
    if (tpp_plan_is_set(rules->num_experts) && rules->dispatcher == TPP_RULE_FLEX)
        strategy->dispatch =
            release >= TPP_RELEASE_0_16 && !rules->enable_deepep && rules->flex_backend == TPP_RULE_HYBRIDEP
                ? TPP_DISPATCH_HYBRIDEP
                : TPP_DISPATCH_DEEPEP;
    strategy->expert_overlap = rules->overlap_expert_comm && strategy->expert_parallel > 1;
    strategy->shared_overlap = rules->shared_expert_overlap && strategy->expert_parallel > 1 &&
                               tpp_plan_is_set(rules->shared_expert_hidden_size) &&
                               rules->shared_expert_hidden_size > 0;
}

enum tpp_code tpp_plan_read_strategy(const struct tpp_plan_source *r, const struct tpp_job *job,
                                     struct tpp_strategy *strategy, struct tpp_error *err)
{
    const struct tpp_rule_settings *rules = &r->s->rules;
    *strategy = tpp_strategy_defaults();
    strategy->tensor_parallel = tpp_plan_size_of(rules->tensor_parallel);
    strategy->pipeline_parallel = tpp_plan_size_of(rules->pipeline_parallel);
    strategy->virtual_pipeline_stages = chunks_of(rules) > 0 ? chunks_of(rules) : 1;
    strategy->expert_parallel = tpp_plan_is_set(rules->num_experts) ? tpp_plan_size_of(rules->expert_parallel) : 1;
    strategy->expert_tensor_parallel =
        tpp_plan_size_of(tpp_plan_or_else(rules->expert_tensor_parallel, rules->tensor_parallel));
    if (!tpp_plan_is_set(rules->num_experts))
        strategy->expert_tensor_parallel = tpp_strategy_defaults().expert_tensor_parallel;
    strategy->micro_batch_size = tpp_plan_size_of(rules->micro_batch_size);
    strategy->sequence_parallel = rules->sequence_parallel && rules->tensor_parallel > 1;
    strategy->first_stage_layers = tpp_plan_size_of(tpp_plan_or_else(rules->first_stage_layers, 0));
    strategy->last_stage_layers = tpp_plan_size_of(tpp_plan_or_else(rules->last_stage_layers, 0));
    strategy->account_for_embedding = rules->account_for_embedding;
    strategy->account_for_loss = rules->account_for_loss;
    strategy->balanced_split = rules->framework == TPP_FRAMEWORK_MEGATRON_DEEPSPEED && rules->pipeline_engine &&
                               rules->pipeline_parallel > 0 && rules->num_layers % rules->pipeline_parallel != 0;
    if (r->s->zero_bubble && rules->pipeline_parallel > 1)
        strategy->schedule = TPP_SCHEDULE_ZB_H1;
    read_layout(r, strategy);
    const int64_t group = r->s->rules.microbatch_group_size;
    if (tpp_plan_is_set(group) && strategy->virtual_pipeline_stages > 1 && group != strategy->pipeline_parallel)
        strategy->microbatch_group_size = tpp_plan_size_of(group);
    read_context(rules, strategy);
    read_recompute(rules, strategy);
    enum tpp_code code = tpp_strategy_complete(strategy, job, err);
    if (code == TPP_OK)
        read_data_parallel(r->s, r->release, strategy);
    return code;
}
