/* deepspeed_arguments.h - a command line of Megatron-DeepSpeed (or BLOOM's fork of it) and its ds_config.json as the
 * same settings as Megatron-LM's. */
#ifndef TPP_PLANNER_LAUNCH_DEEPSPEED_ARGUMENTS_H
#define TPP_PLANNER_LAUNCH_DEEPSPEED_ARGUMENTS_H

#include "planner/launch/megatron_arguments.h"

/* NULL when neither fork has an option of that exact name. */
const struct tpp_launch_option *tpp_deepspeed_option_find(const char *name);

/* As tpp_megatron_read. A ds_config.json that the script writes is read too (its text may hold variables); one that it
 * only names is left out, which is said. */
enum tpp_code tpp_deepspeed_read(struct tpp_shell_words words, const struct tpp_shell_script *script,
                                 struct tpp_arguments *arguments, struct tpp_megatron_settings *out,
                                 struct tpp_problems *problems, struct tpp_error *err);

/* Adds what stops nothing but does not do what it says, and what the configuration and the options contradict each
 * other in (MD-6, MD-7, DS-1, DS-2). The world size must be set. */
void tpp_deepspeed_find_dead(const struct tpp_arguments *arguments, const struct tpp_megatron_settings *settings,
                             struct tpp_problems *problems);

#endif
