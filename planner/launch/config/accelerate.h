/* accelerate.h - the configuration of accelerate launch --config_file (launch formats, section 5): its settings, the
 * one table that reads and writes them, a plan as FSDP of version 1 or 2, and back as settings of a Trainer's command
 * line.
 *
 * FSDP is ZeRO stage 3 of a plan; resharding after forward off is SHARD_GRAD_OP. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_ACCELERATE_H
#define TPP_PLANNER_LAUNCH_CONFIG_ACCELERATE_H

#include "planner/launch/config/keys.h"
#include "planner/launch/launch.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/megatron_arguments.h"

enum tpp_accelerate_type {
    ACCELERATE_FSDP,
    ACCELERATE_DEEPSPEED,
    ACCELERATE_MULTI_GPU,
    ACCELERATE_MEGATRON_LM,
    ACCELERATE_NO,
    ACCELERATE_NO_UNQUOTED, /* YAML 1.1 reads NO as false */
    ACCELERATE_OTHER_TYPE,
};
enum tpp_accelerate_sharding { /* fsdp_sharding_strategy, by name or by number from 1 */
                               ACCELERATE_FULL_SHARD,
                               ACCELERATE_SHARD_GRAD_OP,
                               ACCELERATE_NO_SHARD,
                               ACCELERATE_HYBRID_SHARD,
                               ACCELERATE_HYBRID_SHARD_ZERO2,
                               ACCELERATE_NUM_SHARDINGS,
};
enum tpp_accelerate_reshard { /* fsdp_reshard_after_forward; behind these two, a strategy */
                              ACCELERATE_RESHARD_TRUE,
                              ACCELERATE_RESHARD_FALSE,
};
enum tpp_accelerate_precision {
    ACCELERATE_PRECISION_NO,
    ACCELERATE_PRECISION_FP16,
    ACCELERATE_PRECISION_BF16,
    ACCELERATE_PRECISION_FP8,
    ACCELERATE_PRECISION_NO_UNQUOTED,
};

struct tpp_accelerate_settings {
    unsigned compute_environment, type, precision; /* 0: LOCAL_MACHINE; the enums above */
    int64_t num_machines, num_processes;           /* processes of all machines; -1: as many as there are GPUs */
    int64_t version;                               /* 1, 2 */
    unsigned sharding, reshard, state_dict, wrap, prefetch;
    bool offload, forward_prefetch, original_parameters, sync_states, efficient_loading, checkpointing;
    bool checkpointing_offload;
    int64_t replicate, shard, tensor, context, sequence; /* parallelism_config */
    unsigned rotation;                                   /* 0: allgather, 1: alltoall */
    int64_t zero_stage;                                  /* deepspeed_config */
    unsigned optimizer_device, parameter_device;         /* 0: none, 1: cpu, 2: nvme */
    const char *deepspeed_file;
};

struct tpp_accelerate_settings tpp_accelerate_defaults(void);
extern const struct tpp_key_table tpp_accelerate_table;

/* What FSDP under accelerate cannot run. TPP_E_UNSUPPORTED, or TPP_E_STRATEGY with the rule (AC). */
enum tpp_code tpp_accelerate_check(const struct tpp_launch_request *request, struct tpp_error *err);
/* Appends the file of a plan that tpp_accelerate_check takes. TPP_E_MEMORY. */
enum tpp_code tpp_accelerate_write(const struct tpp_launch_request *request, struct tpp_text *out,
                                   struct tpp_error *err);

/* What accelerate launch adds to a command line of the Trainer that tpp_trainer_read has read: the file that
 * --config_file names, and the launcher's own options, which win. Sets nodes and ranks of the line, too, where the
 * command does not say them. Fails as tpp_config_read does. */
enum tpp_code tpp_accelerate_read(struct tpp_launch_line *line, const struct tpp_shell_script *script,
                                  struct tpp_megatron_settings *settings, struct tpp_problems *problems,
                                  struct tpp_error *err);

#endif
