/* shared.c - see shared.h and configurations.h. */
#include "planner/launch/config/shared.h"

#include <stdio.h>
#include <string.h>

static const struct tpp_configuration *const configurations[] = {
    &tpp_configuration_torchtitan,
    &tpp_configuration_nanotron,
    &tpp_configuration_accelerate,
};
#define NUM_CONFIGURATIONS (sizeof configurations / sizeof *configurations)

enum tpp_code tpp_configuration_find(const struct tpp_config *config, const char *file,
                                     const struct tpp_configuration **out, struct tpp_error *err)
{
    for (size_t i = 0; i < NUM_CONFIGURATIONS; i++) {
        if (configurations[i]->is_own(config)) {
            *out = configurations[i];
            return TPP_OK;
        }
    }
    return tpp_fail(err, TPP_E_UNSUPPORTED, file,
                    "give a file of torchtitan (TOML), nanotron or accelerate (YAML), or a launch script",
                    "the keys of this file are those of no framework that is read");
}

const struct tpp_configuration *tpp_configuration_of(enum tpp_framework framework)
{
    for (size_t i = 0; i < NUM_CONFIGURATIONS; i++) {
        if (configurations[i]->framework == framework)
            return configurations[i];
    }
    return NULL;
}

static uint32_t line_of_value(const struct tpp_configuration *configuration, const struct tpp_config *config,
                              const char *name, size_t length)
{
    for (const struct tpp_rule_keys *row = configuration->rule_keys; row->value != NULL; row++) {
        if (strlen(row->value) != length || memcmp(row->value, name, length) != 0)
            continue;
        for (size_t i = 0; i < sizeof row->keys / sizeof *row->keys && row->keys[i] != NULL; i++) {
            if (tpp_config_line(config, row->keys[i]) > 0)
                return tpp_config_line(config, row->keys[i]);
        }
    }
    return 0;
}

/* Of the first value that the rule reads and the file has; 0: of none. */
static uint32_t line_of_values(const struct tpp_configuration *configuration, const struct tpp_config *config,
                               const char *values)
{
    while (*values != '\0') {
        const size_t length = strcspn(values, " ");
        const uint32_t line = line_of_value(configuration, config, values, length);
        if (line > 0)
            return line;
        values += length + (values[length] == ' ');
    }
    return 0;
}

void tpp_configuration_judge(const struct tpp_configuration *configuration,
                             const struct tpp_configuration_reading *reading, struct tpp_problems *problems)
{
    struct tpp_violation violations[16];
    size_t count = tpp_rules_violations(&reading->rules, TPP_RELEASE_NEWEST, violations, 16);
    for (size_t i = 0; i < count && i < 16; i++)
        tpp_problems_add(problems, violations[i].code,
                         violations[i].stage == TPP_RULE_SILENT ? TPP_SEVERITY_WARNING : TPP_SEVERITY_ERROR,
                         line_of_values(configuration, reading->config, violations[i].values), violations[i].hint, "%s",
                         violations[i].message);
}

int64_t tpp_size_between(int64_t value)
{
    return value < 1 ? 1 : value > TPP_RULE_MAX_SIZE ? TPP_RULE_MAX_SIZE : value;
}

enum tpp_code tpp_complete_plan(enum tpp_engine engine, const struct tpp_hardware *hardware,
                                enum tpp_framework framework, struct tpp_plan_reading *plan, struct tpp_error *err)
{
    enum tpp_code code = tpp_model_check(&plan->model, err);
    if (code == TPP_OK)
        code = tpp_job_check(&plan->job, &plan->model, err);
    if (code != TPP_OK)
        return code;
    tpp_stack_defaults(framework, &hardware->gpu, &plan->job, &plan->stack);
    plan->stack.engine = engine;
    tpp_stack_set_dtypes(&plan->stack, &plan->job);
    code = tpp_stack_check(&plan->stack, &hardware->gpu, &plan->job, err);
    return code != TPP_OK ? code : tpp_strategy_complete(&plan->strategy, &plan->job, err);
}

void tpp_rules_of_plan(const struct tpp_plan_reading *plan, const struct tpp_hardware *hardware, int64_t world_size,
                       struct tpp_rule_settings *rules)
{
    tpp_rule_settings_for_job(&plan->model, &plan->job, &plan->stack, hardware->gpu.compute_capability, rules);
    tpp_rule_settings_for_strategy(&plan->strategy, TPP_RELEASE_NEWEST, rules);
    rules->is_checked = false; /* the numbers come from a file */
    rules->world_size = world_size;
}

bool tpp_same_shape(const struct tpp_model *a, const struct tpp_model *b)
{
    return a->num_layers == b->num_layers && a->hidden_size == b->hidden_size &&
           a->num_attention_heads == b->num_attention_heads && a->num_query_groups == b->num_query_groups &&
           a->ffn_hidden_size == b->ffn_hidden_size && a->head_dim == b->head_dim && a->vocab_size == b->vocab_size &&
           a->num_experts == b->num_experts && a->moe_ffn_hidden_size == b->moe_ffn_hidden_size &&
           a->tied_embeddings == b->tied_embeddings && a->qk_norm == b->qk_norm && a->qkv_bias == b->qkv_bias;
}
