/* bridge_recipes.c - the recipes of Megatron-Bridge that train shipped models (its megatron.bridge.recipes). */
#include "planner/launch/bridge_arguments.h"

#include "costmodel/model/presets.h"
#include "planner/launch/config/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *stem, *model;
    bool trains_only; /* it has no recipes for fine-tuning */
} recipes[] = {
    {"llama2_7b", "llama2-7b", true},
    {"llama3_70b", "llama3-70b", false},
    {"llama31_8b", "llama3.1-8b", false},
    {"llama31_70b", "llama3.1-70b", false},
    {"llama31_405b", "llama3.1-405b", false},
    {"llama32_1b", "llama3.2-1b", false},
    {"llama32_3b", "llama3.2-3b", false},
    {"qwen2_7b", "qwen2-7b", false},
    {"qwen25_500m", "qwen2.5-0.5b", false},
    {"qwen25_1p5b", "qwen2.5-1.5b", false},
    {"qwen25_7b", "qwen2.5-7b", false},
    {"qwen25_14b", "qwen2.5-14b", false},
    {"qwen25_32b", "qwen2.5-32b", false},
    {"qwen25_72b", "qwen2.5-72b", false},
    {"qwen3_600m", "qwen3-0.6b", false},
    {"qwen3_1p7b", "qwen3-1.7b", false},
    {"qwen3_4b", "qwen3-4b", false},
    {"qwen3_8b", "qwen3-8b", false},
    {"qwen3_32b", "qwen3-32b", false},
    {"qwen3_30b_a3b", "qwen3-30b-a3b", false},
    {"qwen3_235b_a22b", "qwen3-235b-a22b", false},
    {"gpt_oss_20b", "gpt-oss-20b", false},
    {"gpt_oss_120b", "gpt-oss-120b", false},
    {"deepseek_v2_lite", "deepseek-v2-lite", true},
    {"deepseek_v2", "deepseek-v2", true},
    {"deepseek_v3", "deepseek-v3", true},
    {"gpt3_175b", "gpt3-175b", true},
};
#define NUM_RECIPES (sizeof recipes / sizeof *recipes)

struct sizes {
    const char *name;
    uint32_t tensor, pipeline, virtual_stages, context, expert, expert_tensor; /* 0: not set */
    uint32_t micro_batch_size, global_batch_size, sequence_length;
    bool sequence_parallel, overlap, tensor_overlap, recomputes, exchanges_heads;
};
#define ROW(...) {__VA_ARGS__},
static const struct sizes sizes[] = {
#include "planner/launch/bridge_recipe_sizes.inc"
};
#undef ROW

const struct tpp_argument *tpp_bridge_recipe(const struct tpp_arguments *arguments)
{
    const struct tpp_argument *recipe = tpp_argument_find(arguments, "--recipe");
    return recipe != NULL ? recipe : tpp_argument_find(arguments, "--model");
}

/* "llama31_8b" of "llama31_8b_pretrain_2gpu_h100_bf16_config". */
static size_t stem_length(const char *name)
{
    static const char *const tasks[] = {"_pretrain", "_sft", "_peft"};
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        const char *task = strstr(name, tasks[i]);
        if (task != NULL)
            return (size_t)(task - name);
    }
    return strlen(name);
}

const struct tpp_model *tpp_bridge_model(const struct tpp_argument *recipe)
{
    if (recipe == NULL || recipe->num_values == 0 || recipe->values[0].note != 0)
        return NULL;
    const char *name = recipe->values[0].text;
    const size_t length = stem_length(name);
    for (size_t i = 0; i < NUM_RECIPES; i++) {
        if (strlen(recipes[i].stem) == length && memcmp(recipes[i].stem, name, length) == 0)
            return tpp_model_preset(recipes[i].model);
    }
    return NULL;
}

static int64_t override_of(const struct tpp_arguments *arguments, const char *key, int64_t otherwise)
{
    const struct tpp_argument *given = tpp_argument_find(arguments, key);
    int64_t value;
    return given != NULL && given->is_known && !given->is_null && given->num_values == 1 &&
                   tpp_argument_integer(given->values[0].text, &value)
               ? value
               : otherwise;
}

void tpp_bridge_reshape(const struct tpp_arguments *arguments, const struct tpp_model *model, struct tpp_model *out,
                        struct tpp_problems *problems)
{
    const int64_t layers = override_of(arguments, "model.num_layers", model->num_layers);
    const bool is_uniform = model->sliding_window_layers == 0 || model->sliding_window_layers == model->num_layers;
    const bool has_layers =
        layers == model->num_layers || (is_uniform && layers > model->first_k_dense && layers <= 10000);
    const bool has_width = override_of(arguments, "model.hidden_size", model->hidden_size) == model->hidden_size;
    *out = *model;
    if (has_layers) {
        out->num_layers = (uint32_t)layers;
        out->sliding_window_layers = model->sliding_window_layers > 0 ? out->num_layers : 0;
    }
    if (!has_layers || !has_width)
        tpp_problems_add(problems, "other-shape", TPP_SEVERITY_WARNING,
                         tpp_argument_line(arguments, has_layers ? "model.hidden_size" : "model.num_layers"),
                         "give the config.json of this shape with --model",
                         "the %s of the recipe's model is costed, not the override's",
                         has_layers ? "hidden size" : "number of layers");
}

const char *tpp_bridge_recipe_of(const struct tpp_model *model, enum tpp_task task)
{
    for (size_t i = 0; i < NUM_RECIPES; i++) {
        const struct tpp_model *shipped = tpp_model_preset(recipes[i].model);
        if (strcmp(model->name, recipes[i].model) == 0 && shipped != NULL && tpp_same_shape(model, shipped))
            return recipes[i].trains_only && task != TPP_TASK_PRETRAIN ? NULL : recipes[i].stem;
    }
    return NULL;
}

static int compare_name(const void *name, const void *row)
{
    return strcmp(name, ((const struct sizes *)row)->name);
}

/* Embedding and loss count as a layer each (account_for_embedding_in_pipeline_split and ..._loss_...). */
static bool counts_ends(const char *stem)
{
    static const char *const stems[] = {"llama31_405b_", "qwen3_235b_a22b_"};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        if (strncmp(stem, stems[i], strlen(stems[i])) == 0)
            return true;
    }
    return false;
}

bool tpp_bridge_recipe_apply(const char *name, struct tpp_rule_settings *rules)
{
    char stem[96];
    size_t length = strlen(name);
    if (length > 7 && strcmp(name + length - 7, "_config") == 0)
        length -= 7;
    snprintf(stem, sizeof stem, "%.*s", (int)(length < sizeof stem ? length : sizeof stem - 1), name);
    const struct sizes *row = bsearch(stem, sizes, sizeof sizes / sizeof *sizes, sizeof *sizes, compare_name);
    if (row == NULL)
        return false;
    rules->tensor_parallel = row->tensor;
    rules->pipeline_parallel = row->pipeline;
    rules->virtual_stages_per_rank = row->virtual_stages > 0 ? row->virtual_stages : TPP_RULE_UNSET;
    rules->context_parallel = row->context;
    rules->context_types = row->exchanges_heads ? TPP_RULE_CONTEXT_A2A : rules->context_types;
    rules->expert_parallel = row->expert;
    rules->expert_tensor_parallel = row->expert_tensor > 0 ? row->expert_tensor : TPP_RULE_UNSET;
    rules->micro_batch_size = row->micro_batch_size;
    rules->global_batch_size = row->global_batch_size;
    rules->sequence_length = row->sequence_length;
    rules->sequence_parallel = row->sequence_parallel;
    rules->overlap_grad_reduce = rules->overlap_param_gather = row->overlap;
    rules->tp_comm_overlap = row->tensor_overlap;
    rules->account_for_embedding = rules->account_for_loss = counts_ends(stem);
    if (row->recomputes) {
        rules->recompute = TPP_RULE_GRANULARITY_FULL;
        rules->recompute_method = TPP_RULE_METHOD_UNIFORM;
        rules->recompute_num_layers = 1;
    }
    return true;
}
