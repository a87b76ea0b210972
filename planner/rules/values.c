/* values.c - numbers of the rules by name: what a message shows, and which numbers no rule is asked about. */
#include "planner/rules/layout.h"
#include "planner/rules/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct named_value {
    const char *name;
    bool is_derived; /* offset into the context, else into the settings */
    size_t offset;
};

#define SETTING(name, field)                                                                                           \
    {                                                                                                                  \
        name, false, offsetof(struct tpp_rule_settings, field)                                                         \
    }
#define DERIVED(name, field)                                                                                           \
    {                                                                                                                  \
        name, true, offsetof(struct tpp_rule_context, field)                                                           \
    }

static const struct named_value named_values[] = {
    SETTING("world", world_size),
    DERIVED("tp", tensor_parallel),
    DERIVED("pp", pipeline_parallel),
    SETTING("cp", context_parallel),
    SETTING("ep", expert_parallel),
    DERIVED("etp", expert_tensor_parallel),
    DERIVED("dp", data_parallel),
    DERIVED("edp", expert_data_parallel),
    DERIVED("vp", virtual_stages),
    SETTING("instances", optimizer_instances),
    SETTING("hierarchical-product", hierarchical_product),
    SETTING("context-types", num_context_types),
    DERIVED("global-batch", global_batch_size),
    SETTING("micro-batch", micro_batch_size),
    DERIVED("micro-batches", num_micro_batches),
    SETTING("group", microbatch_group_size),
    SETTING("eval-batch", eval_global_batch_size),
    SETTING("rampup-start", rampup_start),
    SETTING("rampup-increment", rampup_increment),
    SETTING("layers", num_layers),
    SETTING("first-layers", first_stage_layers),
    SETTING("last-layers", last_stage_layers),
    SETTING("layers-per-virtual-stage", layers_per_virtual_stage),
    SETTING("layer-pattern", layer_pattern_length),
    SETTING("hidden", hidden_size),
    SETTING("heads", num_attention_heads),
    DERIVED("groups", num_query_groups),
    DERIVED("kv-channels", kv_channels),
    DERIVED("ffn", ffn_hidden_size),
    DERIVED("moe-ffn", moe_ffn_hidden_size),
    SETTING("shared-ffn", shared_expert_hidden_size),
    SETTING("sequence", sequence_length),
    SETTING("max-positions", max_position_embeddings),
    SETTING("experts", num_experts),
    SETTING("topk", experts_per_token),
    SETTING("router-groups", router_num_groups),
    SETTING("group-topk", router_group_topk),
    SETTING("zero", zero_stage),
    SETTING("bucket", ddp_bucket_size),
    SETTING("gather-bucket", allgather_bucket_size),
    SETTING("shard-group", shard_group),
};

static int64_t number_at(const void *base, size_t offset)
{
    int64_t value;
    memcpy(&value, (const char *)base + offset, sizeof value);
    return value;
}

static bool find_value(const struct tpp_rule_context *c, const char *name, size_t length, int64_t *value)
{
    for (size_t i = 0; i < sizeof named_values / sizeof *named_values; i++) {
        const struct named_value *row = &named_values[i];
        if (strlen(row->name) == length && memcmp(row->name, name, length) == 0) {
            *value = number_at(row->is_derived ? (const void *)c : (const void *)c->s, row->offset);
            return true;
        }
    }
    if (c->s->pipeline_layout == NULL || strncmp(name, "layout-", 7) != 0)
        return false;
    struct tpp_layout layout = tpp_layout_read(c->s->pipeline_layout);
    *value = name[7] == 's' ? layout.num_stages : layout.num_layers;
    return true;
}

void tpp_rule_describe(const struct tpp_rule_context *c, const char *values, char *buffer, size_t size)
{
    size_t used = strlen(buffer);
    const char *open = " (";
    while (*values != '\0' && used < size) {
        size_t length = strcspn(values, " ");
        int64_t value;
        if (find_value(c, values, length, &value) && tpp_rule_is_set(value)) {
            int count = snprintf(buffer + used, size - used, "%s%.*s = %" PRId64, open, (int)length, values, value);
            used += count > 0 ? (size_t)count : 0;
            open = ", ";
        }
        values += length + (values[length] == ' ');
    }
    if (*open == ',' && used < size)
        snprintf(buffer + used, size - used, ")");
}

struct bounds {
    const char *name;
    size_t offset;
    int64_t min, max;
    bool is_optional;
};

#define SIZE(field)                                                                                                    \
    {                                                                                                                  \
#field, offsetof(struct tpp_rule_settings, field), 1, TPP_RULE_MAX_SIZE, false                                 \
    }
#define OPTIONAL_SIZE(field)                                                                                           \
    {                                                                                                                  \
#field, offsetof(struct tpp_rule_settings, field), 1, TPP_RULE_MAX_SIZE, true                                  \
    }
#define NUMBER(field, min)                                                                                             \
    {                                                                                                                  \
#field, offsetof(struct tpp_rule_settings, field), min, TPP_RULE_MAX_NUMBER, false                             \
    }
#define OPTIONAL_NUMBER(field, min)                                                                                    \
    {                                                                                                                  \
#field, offsetof(struct tpp_rule_settings, field), min, TPP_RULE_MAX_NUMBER, true                              \
    }

/* Frameworks stop on a size below 1 in one way or another (a division by zero, an empty model). Counts of layers at the
 * ends are left to ML-25. */
static const struct bounds bounds[] = {
    SIZE(world_size),
    SIZE(tensor_parallel),
    SIZE(pipeline_parallel),
    SIZE(context_parallel),
    SIZE(expert_parallel),
    OPTIONAL_SIZE(expert_tensor_parallel),
    OPTIONAL_SIZE(tensor_weight_shards),
    OPTIONAL_SIZE(expert_weight_shards),
    OPTIONAL_SIZE(layers_per_virtual_stage),
    OPTIONAL_SIZE(virtual_stages_per_rank),
    OPTIONAL_NUMBER(first_stage_layers, -TPP_RULE_MAX_NUMBER),
    OPTIONAL_NUMBER(last_stage_layers, -TPP_RULE_MAX_NUMBER),
    OPTIONAL_NUMBER(microbatch_group_size, 1),
    OPTIONAL_NUMBER(hierarchical_product, 1),
    OPTIONAL_NUMBER(hierarchical_first, 1),
    NUMBER(micro_batch_size, 1),
    OPTIONAL_NUMBER(global_batch_size, 1),
    OPTIONAL_NUMBER(eval_global_batch_size, 1),
    OPTIONAL_NUMBER(eval_micro_batch_size, 1),
    OPTIONAL_NUMBER(rampup_start, 0),
    OPTIONAL_NUMBER(rampup_increment, 0),
    SIZE(num_layers),
    NUMBER(hidden_size, 1),
    SIZE(num_attention_heads),
    OPTIONAL_NUMBER(ffn_hidden_size, 1),
    OPTIONAL_NUMBER(kv_channels, 1),
    SIZE(num_query_groups),
    NUMBER(sequence_length, 1),
    NUMBER(max_position_embeddings, 1),
    OPTIONAL_SIZE(num_experts),
    NUMBER(experts_per_token, 0),
    OPTIONAL_NUMBER(moe_ffn_hidden_size, 1),
    OPTIONAL_NUMBER(shared_expert_hidden_size, 1),
    OPTIONAL_NUMBER(router_num_groups, 1),
    OPTIONAL_NUMBER(router_group_topk, 0),
    SIZE(optimizer_instances),
    OPTIONAL_SIZE(data_parallel),
    OPTIONAL_NUMBER(ddp_bucket_size, 0),
    OPTIONAL_NUMBER(ddp_num_buckets, 0),
};

const char *tpp_rule_bad_number(const struct tpp_rule_settings *settings)
{
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        int64_t value = number_at(settings, bounds[i].offset);
        if (bounds[i].is_optional && value == TPP_RULE_UNSET)
            continue;
        if (value < bounds[i].min || value > bounds[i].max)
            return bounds[i].name;
    }
    return NULL;
}
