/* bridge_recipes.c - the recipes of Megatron-Bridge that train shipped models (its megatron.bridge.recipes). */
#include "planner/launch/bridge_arguments.h"

#include "costmodel/model/presets.h"
#include "planner/launch/config/shared.h"

#include <stdio.h>
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

const char *tpp_bridge_recipe_of(const struct tpp_model *model, enum tpp_task task)
{
    for (size_t i = 0; i < NUM_RECIPES; i++) {
        const struct tpp_model *shipped = tpp_model_preset(recipes[i].model);
        if (strcmp(model->name, recipes[i].model) == 0 && shipped != NULL && tpp_same_shape(model, shipped))
            return recipes[i].trains_only && task != TPP_TASK_PRETRAIN ? NULL : recipes[i].stem;
    }
    return NULL;
}
