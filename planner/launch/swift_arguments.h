/* swift_arguments.h - a command line of ms-swift's megatron side (megatron sft|pt|rlhf) as the same settings as
 * Megatron-LM's. The shape comes from a model that the line only names. */
#ifndef TPP_PLANNER_LAUNCH_SWIFT_ARGUMENTS_H
#define TPP_PLANNER_LAUNCH_SWIFT_ARGUMENTS_H

#include "planner/launch/megatron_arguments.h"

/* NULL when there is no option of that exact name. */
const struct tpp_launch_option *tpp_swift_option_find(const char *name);

/* As tpp_megatron_read. `entry` is "sft", "pt" or "rlhf". */
enum tpp_code tpp_swift_read(struct tpp_shell_words words, const struct tpp_shell_script *script, const char *entry,
                             struct tpp_arguments *arguments, struct tpp_megatron_settings *out,
                             struct tpp_problems *problems, struct tpp_error *err);

/* Adds what is refused beside the sizes of a plan: SW-2, SW-5, SW-8, SW-10; in swift_findings.c. */
void tpp_swift_find_refused(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *settings,
                            struct tpp_problems *problems);

/* The shape that the rules are asked with: the model's, or (NULL) one that every rule of shapes accepts, so that the
 * rules that are left still say what they find. */
void tpp_swift_set_shape(struct tpp_megatron_settings *settings, const struct tpp_model *model);

/* A shipped model that an argument (NULL: none) names ("Qwen/Qwen2.5-7B"); NULL: none. */
const struct tpp_model *tpp_swift_model(const struct tpp_argument *argument);

#endif
