/* rules.c - asks the rules of a framework, in order. */
#include "planner/rules/layout.h"
#include "planner/rules/table.h"

#include <stdio.h>

/* Rules of Megatron Core on what every program hands to it. */
#define CORE_GROUPS                                                                                                    \
    &tpp_rules_megatron_pipeline, &tpp_rules_megatron_layout, &tpp_rules_megatron_model, &tpp_rules_megatron_latent,   \
        &tpp_rules_megatron_moe, &tpp_rules_megatron_optimizer, &tpp_rules_megatron_fsdp, &tpp_rules_megatron_memory,  \
        &tpp_rules_megatron_precision

static const struct tpp_rule_group *const megatron_groups[] = {
    &tpp_rules_megatron_parallel, &tpp_rules_megatron_context, CORE_GROUPS, &tpp_rules_megatron_training, NULL};
/* NeMo and Megatron-Bridge hand their sizes to Megatron Core, but have training loops and data of their own. */
static const struct tpp_rule_group *const core_groups[] = {&tpp_rules_megatron_parallel, &tpp_rules_megatron_context,
                                                           CORE_GROUPS, &tpp_rules_bridge, NULL};
static const struct tpp_rule_group *const swift_groups[] = {&tpp_rules_swift, CORE_GROUPS, NULL};
static const struct tpp_rule_group *const deepspeed_groups[] = {&tpp_rules_deepspeed, NULL};
static const struct tpp_rule_group *const torchtitan_groups[] = {&tpp_rules_torchtitan, NULL};
static const struct tpp_rule_group *const nanotron_groups[] = {&tpp_rules_nanotron, NULL};
static const struct tpp_rule_group *const trainer_groups[] = {&tpp_rules_trainer, NULL};
static const struct tpp_rule_group *const transformers_groups[] = {&tpp_rules_transformers, NULL};
static const struct tpp_rule_group *const accelerate_groups[] = {&tpp_rules_accelerate, &tpp_rules_transformers, NULL};
static const struct tpp_rule_group *const no_groups[] = {NULL};

static const struct tpp_rule_group *const *groups_of(const struct tpp_rule_settings *settings)
{
    const enum tpp_framework framework = settings->framework;
    static const struct tpp_rule_group *const *const groups[TPP_FRAMEWORK_COUNT] = {
        [TPP_FRAMEWORK_MEGATRON_LM] = megatron_groups,    [TPP_FRAMEWORK_NEMO] = core_groups,
        [TPP_FRAMEWORK_MS_SWIFT] = swift_groups,          [TPP_FRAMEWORK_MEGATRON_DEEPSPEED] = deepspeed_groups,
        [TPP_FRAMEWORK_TORCHTITAN] = torchtitan_groups,   [TPP_FRAMEWORK_NANOTRON] = nanotron_groups,
        [TPP_FRAMEWORK_HF_TRAINER] = transformers_groups,
    };
    if (settings->fsdp_version > 0)
        return accelerate_groups;
    if (settings->engine_follows_stages &&
        (framework == TPP_FRAMEWORK_MS_SWIFT || framework == TPP_FRAMEWORK_HF_TRAINER))
        return trainer_groups;
    return (unsigned)framework < TPP_FRAMEWORK_COUNT && groups[framework] != NULL ? groups[framework] : no_groups;
}

static int64_t at_least_one(int64_t value)
{
    return value < 1 ? 1 : value;
}

/* Until 0.8 sizes that exceed the world are cut down without a word. */
static void understand_sizes(struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    c->tensor_parallel = s->tensor_parallel;
    c->pipeline_parallel = s->pipeline_parallel;
    bool cuts = s->framework == TPP_FRAMEWORK_MEGATRON_LM && c->release <= TPP_RELEASE_0_8;
    if (cuts && c->tensor_parallel > s->world_size)
        c->tensor_parallel = s->world_size;
    if (cuts && c->pipeline_parallel > s->world_size / c->tensor_parallel)
        c->pipeline_parallel = s->world_size / c->tensor_parallel;
    c->expert_tensor_parallel = tpp_rule_is_set(s->expert_tensor_parallel) && c->release >= TPP_RELEASE_0_10
                                    ? s->expert_tensor_parallel
                                    : c->tensor_parallel;
    c->model_parallel = c->tensor_parallel * c->pipeline_parallel * s->context_parallel;
    c->data_parallel = at_least_one(s->world_size / c->model_parallel);
    c->expert_data_parallel = s->world_size / (c->expert_tensor_parallel * s->expert_parallel * c->pipeline_parallel);
    c->sequence_parallel = s->sequence_parallel && c->tensor_parallel > 1;
}

/* Chunks a rank. One chunk counts as none since 0.14, and always in a layout. */
static int64_t count_virtual_stages(const struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    int64_t chunks = 0;
    if (s->pipeline_layout != NULL) {
        chunks = tpp_layout_read(s->pipeline_layout).num_stages / c->pipeline_parallel;
        return chunks > 1 ? chunks : 0;
    }
    if (tpp_rule_is_set(s->virtual_stages_per_rank))
        chunks = s->virtual_stages_per_rank;
    else if (tpp_rule_is_set(s->layers_per_virtual_stage))
        chunks = c->slots / c->pipeline_parallel / s->layers_per_virtual_stage;
    return chunks == 1 && c->release >= TPP_RELEASE_0_14 ? 0 : chunks;
}

/* Megatron's default width: 4 h, with SwiGLU 8/3 h in whole multiples of 64. */
static int64_t default_ffn(const struct tpp_rule_settings *s)
{
    return s->swiglu ? 4 * s->hidden_size * 2 / 3 / 64 * 64 : 4 * s->hidden_size;
}

static void understand_model(struct tpp_rule_context *c)
{
    const struct tpp_rule_settings *s = c->s;
    c->is_moe = tpp_rule_is_set(s->num_experts);
    c->num_query_groups = s->group_query_attention ? s->num_query_groups : s->num_attention_heads;
    c->kv_channels = tpp_rule_is_set(s->kv_channels) ? s->kv_channels : s->hidden_size / s->num_attention_heads;
    c->ffn_hidden_size = tpp_rule_is_set(s->ffn_hidden_size) ? s->ffn_hidden_size : default_ffn(s);
    c->moe_ffn_hidden_size = tpp_rule_is_set(s->moe_ffn_hidden_size) ? s->moe_ffn_hidden_size : c->ffn_hidden_size;
}

static void understand(const struct tpp_rule_settings *s, enum tpp_release release, struct tpp_rule_context *c)
{
    *c = (struct tpp_rule_context){.s = s, .release = release};
    understand_sizes(c);
    understand_model(c);
    c->global_batch_size =
        tpp_rule_is_set(s->global_batch_size) ? s->global_batch_size : s->micro_batch_size * c->data_parallel;
    c->num_micro_batches = c->global_batch_size / (s->micro_batch_size * c->data_parallel);
    c->slots = s->num_layers + s->account_for_embedding + s->account_for_loss;
    c->virtual_stages = count_virtual_stages(c);
    c->fsdp = s->torch_fsdp2 || s->megatron_fsdp;
}

static bool is_broken(const struct tpp_rule *rule, const struct tpp_rule_context *c)
{
    return c->release >= rule->first && c->release <= rule->last && !rule->holds(c);
}

bool tpp_rules_accept(const struct tpp_rule_settings *settings, enum tpp_release release)
{
    struct tpp_rule_context c;
    if (!settings->is_checked && tpp_rule_bad_number(settings) != NULL)
        return false;
    understand(settings, release, &c);
    for (const struct tpp_rule_group *const *group = groups_of(settings); *group != NULL; group++) {
        if ((*group)->applies != NULL && !(*group)->applies(&c))
            continue;
        for (size_t i = 0; i < (*group)->count; i++) {
            if (is_broken(&(*group)->rules[i], &c))
                return false;
        }
    }
    return true;
}

static void report(const struct tpp_rule *rule, const struct tpp_rule_context *c, struct tpp_violation *out)
{
    *out = (struct tpp_violation){.code = rule->code, .stage = rule->stage, .hint = rule->hint, .values = rule->values};
    snprintf(out->message, sizeof out->message, "%s", rule->message);
    tpp_rule_describe(c, rule->values, out->message, sizeof out->message);
}

static size_t report_bad_number(const char *name, struct tpp_violation *out, size_t max)
{
    if (max > 0) {
        *out = (struct tpp_violation){.code = "range", .hint = "give a number in the valid range", .values = ""};
        snprintf(out->message, sizeof out->message, "%s is below its least value, or too large", name);
    }
    return 1;
}

size_t tpp_rules_violations(const struct tpp_rule_settings *settings, enum tpp_release release,
                            struct tpp_violation *out, size_t max)
{
    struct tpp_rule_context c;
    size_t count = 0;
    const char *bad = tpp_rule_bad_number(settings);
    if (bad != NULL)
        return report_bad_number(bad, out, max);
    understand(settings, release, &c);
    for (const struct tpp_rule_group *const *group = groups_of(settings); *group != NULL; group++) {
        if ((*group)->applies != NULL && !(*group)->applies(&c))
            continue;
        for (size_t i = 0; i < (*group)->count; i++) {
            if (!is_broken(&(*group)->rules[i], &c))
                continue;
            if (count < max)
                report(&(*group)->rules[i], &c, &out[count]);
            count++;
        }
    }
    return count;
}
