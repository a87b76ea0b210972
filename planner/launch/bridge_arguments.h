/* bridge_arguments.h - a command line of Megatron-Bridge's run_recipe.py (options, and KEY=VALUE overrides in Hydra's
 * grammar) as the same settings as Megatron-LM's (launch formats, section 7). The shape comes from a recipe that the
 * line only names. */
#ifndef TPP_PLANNER_LAUNCH_BRIDGE_ARGUMENTS_H
#define TPP_PLANNER_LAUNCH_BRIDGE_ARGUMENTS_H

#include "planner/launch/megatron_arguments.h"

/* By its name or short name ("-tp", "--tensor_model_parallel_size", "model.tensor_model_parallel_size"); NULL: no
 * option or key that is known here. */
const struct tpp_launch_option *tpp_bridge_option_find(const char *name);

/* As tpp_megatron_read. The sizes of a known recipe are taken from it; of another one they are taken as 1, and said so.
 */
enum tpp_code tpp_bridge_read(struct tpp_shell_words words, const struct tpp_shell_script *script,
                              struct tpp_arguments *arguments, struct tpp_megatron_settings *out,
                              struct tpp_problems *problems, struct tpp_error *err);

/* The option that names the recipe: --recipe or --model; NULL: neither is given. */
const struct tpp_argument *tpp_bridge_recipe(const struct tpp_arguments *arguments);
/* Sets what the recipe of that name ("llama31_8b_pretrain_2gpu_h100_bf16_config") sets; false, and nothing set, when it
 * is not known. */
bool tpp_bridge_recipe_apply(const char *name, struct tpp_rule_settings *rules);
/* The shipped model that a recipe trains ("llama31_8b", "llama31_8b_pretrain_config"); NULL: not known. */
const struct tpp_model *tpp_bridge_model(const struct tpp_argument *recipe);
/* `model` with the number of layers that the overrides set; says of the overrides of its shape that are not followed.
 */
void tpp_bridge_reshape(const struct tpp_arguments *arguments, const struct tpp_model *model, struct tpp_model *out,
                        struct tpp_problems *problems);
/* What --model takes for a shipped model and a task that it has a recipe for; NULL: none is known. */
const char *tpp_bridge_recipe_of(const struct tpp_model *model, enum tpp_task task);

#endif
