/* deepspeed_config.h - private: the ds_config.json that a script writes, or that is beside it. */
#ifndef TPP_PLANNER_LAUNCH_DEEPSPEED_CONFIG_H
#define TPP_PLANNER_LAUNCH_DEEPSPEED_CONFIG_H

#include "costmodel/base/json_read.h"
#include "planner/launch/megatron_arguments.h"

/* Looks for the file that an argument (NULL: none) names, and fills *config. */
void tpp_deepspeed_config_read(const struct tpp_argument *argument, const struct tpp_shell_script *script,
                               struct tpp_deepspeed_config *config, struct tpp_problems *problems);

/* Fills the rest of *config, which has its line, from the configuration's own object, and adds what DeepSpeed refuses
 * in it: DS-3, DS-4, DS-8, DS-9 and unknown keys. */
void tpp_deepspeed_config_take(struct tpp_json root, struct tpp_deepspeed_config *config,
                               struct tpp_problems *problems);
/* DS-1 (also for what the configuration leaves out), DS-2, DS-7, for `data` data-parallel ranks; in
 * deepspeed_findings.c. */
void tpp_deepspeed_check_alone(const struct tpp_deepspeed_config *config, int64_t data, struct tpp_problems *problems);

/* DS-1, DS-2, DS-7 and equal numbers in the configuration and in the Trainer's arguments, for `data` data-parallel
 * ranks; in deepspeed_findings.c. */
void tpp_deepspeed_check_trainer(const struct tpp_megatron_settings *settings, int64_t data,
                                 struct tpp_problems *problems);

#endif
