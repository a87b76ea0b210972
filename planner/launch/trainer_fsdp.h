/* trainer_fsdp.h - private: --fsdp and --fsdp_config of Hugging Face's Trainer, and --fsdp of swift sft, which names a
 * file with both or one that it brings. */
#ifndef TPP_PLANNER_LAUNCH_TRAINER_FSDP_H
#define TPP_PLANNER_LAUNCH_TRAINER_FSDP_H

#include "planner/launch/megatron_arguments.h"

/* Sets version, sharding, offload and recomputation in *settings, and adds what the Trainer refuses (AC). Hybrid
 * sharding sets shards_in_node: how many nodes there are is the caller's. */
void tpp_trainer_read_fsdp(const struct tpp_arguments *arguments, const struct tpp_shell_script *script, bool is_swift,
                           struct tpp_megatron_settings *settings, struct tpp_problems *problems);

#endif
