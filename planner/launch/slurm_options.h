/* slurm_options.h - the size of a job in the options of sbatch and srun. */
#ifndef TPP_PLANNER_LAUNCH_SLURM_OPTIONS_H
#define TPP_PLANNER_LAUNCH_SLURM_OPTIONS_H

#include "planner/launch/shell_reader.h"

struct tpp_slurm_options { /* 0: not given, or no number */
    uint32_t nodes, tasks, tasks_per_node, gpus_per_node;
};

/* Words that are no such options are passed over; the last one of a name wins. */
void tpp_slurm_options_read(struct tpp_shell_words words, struct tpp_slurm_options *options);

#endif
