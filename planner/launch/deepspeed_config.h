/* deepspeed_config.h - private: the ds_config.json that a script writes. */
#ifndef TPP_PLANNER_LAUNCH_DEEPSPEED_CONFIG_H
#define TPP_PLANNER_LAUNCH_DEEPSPEED_CONFIG_H

#include "planner/launch/megatron_arguments.h"

/* Looks for the file that --deepspeed_config names among those the script writes, and fills settings->config. */
void tpp_deepspeed_config_read(const struct tpp_arguments *arguments, const struct tpp_shell_script *script,
                               struct tpp_megatron_settings *settings, struct tpp_problems *problems);

#endif
