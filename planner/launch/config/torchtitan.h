/* torchtitan.h - private: the settings of a torchtitan job, and the one table that reads and writes them. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_TORCHTITAN_H
#define TPP_PLANNER_LAUNCH_CONFIG_TORCHTITAN_H

#include "planner/launch/config/shared.h"

enum tpp_titan_reshard { TITAN_RESHARD_DEFAULT, TITAN_RESHARD_ALWAYS, TITAN_RESHARD_NEVER };
enum tpp_titan_checkpointing {
    TITAN_CHECKPOINT_SELECTIVE,
    TITAN_CHECKPOINT_FULL,
    TITAN_CHECKPOINT_MEMORY_BUDGET,
    TITAN_CHECKPOINT_NONE
};
enum tpp_titan_schedule {
    TITAN_SCHEDULE_1F1B,
    TITAN_SCHEDULE_GPIPE,
    TITAN_SCHEDULE_INTERLEAVED,
    TITAN_SCHEDULE_LOOPED_BFS,
    TITAN_SCHEDULE_INTERLEAVED_ZERO_BUBBLE,
    TITAN_SCHEDULE_ZBV,
    TITAN_SCHEDULE_DUALPIPEV,
};

struct tpp_titan_settings {
    const char *model_name, *flavor;
    bool float8;
    int64_t local_batch_size, global_batch_size, seq_len;
    unsigned dtype, mixed_precision_param; /* 0: bfloat16, 1: float32 */
    bool cpu_offload;
    int64_t replicate, shard, tensor, pipeline, context, expert, expert_tensor;
    unsigned reshard, schedule, rotate_method;
    bool disable_loss_parallel, async_tensor_parallel;
    int64_t layers_per_stage, first_less, last_less, microbatch_size;
    const char *schedule_csv;
    unsigned checkpointing;
    const char *selective_option;
    bool compile;
};

extern const struct tpp_key_table tpp_titan_table;
/* What a file means that says nothing. */
struct tpp_titan_settings tpp_titan_defaults(void);
/* Layers and what the ends hold beside them. */
int64_t tpp_titan_slots(const struct tpp_model *model, const struct tpp_titan_settings *s);
/* Name and flavor of a model of that shape; NULL: it has none. */
void tpp_titan_set_flavor(const struct tpp_model *model, struct tpp_titan_settings *s);
/* The inverse: a shipped model; NULL: not known. */
const struct tpp_model *tpp_titan_model(const struct tpp_titan_settings *s);

#endif
