/* memory_replay.h - a plan's steps played through PyTorch's allocator: the options that ask for it, and its answer. */
#ifndef TPP_CLI_MEMORY_REPLAY_H
#define TPP_CLI_MEMORY_REPLAY_H

#include "cli/command.h"
#include "cli/job_options.h"
#include "costmodel/allocator/replay.h"
#include "costmodel/base/json_write.h"
#include "planner/search.h"

struct tpp_replay_arguments {
    const char *lengths, *settings, *snapshot;
    int64_t seed, num_steps; /* TPP_OPTION_ABSENT: not given */
    bool packing;
};

extern const struct tpp_option tpp_replay_options_table[];      /* what is replayed */
extern const struct tpp_option tpp_replay_plan_options_table[]; /* of one plan: how long, and its snapshot */

/* Lengths and settings as the options have them, but for the number of steps; the caller releases *lengths (also on failure),
 * which *options borrows. TPP_E_USAGE for options that would have no effect. */
enum tpp_code tpp_replay_options_resolve(const struct tpp_replay_arguments *arguments, const struct tpp_job *job,
                                         struct tpp_lengths *lengths, struct tpp_replay_options *options,
                                         struct tpp_error *err);

/* Gives the job the lengths that the options name, if any: padding and packing take time, too (sequence_lengths.h). */
enum tpp_code tpp_replay_take_lengths(const struct tpp_replay_arguments *arguments, struct tpp_job *job,
                                      struct tpp_error *err);

/* What was replayed; `is_asked` is false when no option of the part was given: then nothing is filled or printed. */
struct tpp_replay_answer {
    bool is_asked, varies;    /* varies: steps have lengths of their own */
    struct tpp_replay replay; /* owned */
    struct tpp_replay_advice advice[TPP_REPLAY_MAX_ADVICE];
    uint32_t num_advice;
};

/* Replays the plan, puts the result into its cost, and writes the snapshot when a file is named. On success the caller
 * releases *out. `arguments` must outlive the plan. */
enum tpp_code tpp_replay_run(const struct tpp_replay_arguments *arguments, const struct tpp_job_inputs *inputs,
                             struct tpp_plan *plan, struct tpp_replay_answer *out, struct tpp_error *err);
void tpp_replay_answer_release(struct tpp_replay_answer *replayed);
void tpp_replay_append(const struct tpp_replay_answer *replayed, struct tpp_answer *answer);
/* "replay": {...} */
void tpp_replay_add_json(const struct tpp_replay_answer *replayed, struct tpp_json_writer *writer, struct cJSON *parent);

#endif
