/* trainer_arguments.h - a command line of Hugging Face's Trainer with DeepSpeed (deepspeed train.py --deepspeed
 * ds.json), or of ms-swift's Transformers side (swift sft|pt), as the same settings as Megatron-LM's. The shape comes
 * from a model that the line only names. */
#ifndef TPP_PLANNER_LAUNCH_TRAINER_ARGUMENTS_H
#define TPP_PLANNER_LAUNCH_TRAINER_ARGUMENTS_H

#include "planner/launch/megatron_arguments.h"

/* NULL when it is no option that changes a plan. */
const struct tpp_launch_option *tpp_trainer_option_find(const char *name);

/* As tpp_megatron_read. `is_swift`: the names and defaults of swift sft; `entry` is "sft", "pt" or a program. */
enum tpp_code tpp_trainer_read(struct tpp_shell_words words, const struct tpp_shell_script *script, const char *entry,
                               bool is_swift, struct tpp_arguments *arguments, struct tpp_megatron_settings *out,
                               struct tpp_problems *problems, struct tpp_error *err);

/* When the world size is set: the global batch, and what the configuration and the options contradict each other in
 * (DS-1, DS-2, DS-7). */
void tpp_trainer_complete(struct tpp_megatron_settings *settings, struct tpp_problems *problems);

#endif
