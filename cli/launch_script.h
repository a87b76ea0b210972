/* launch_script.h - the launch script of a plan, with what was predicted in its header. */
#ifndef TPP_CLI_LAUNCH_SCRIPT_H
#define TPP_CLI_LAUNCH_SCRIPT_H

#include "cli/job_options.h"
#include "costmodel/base/text.h"
#include "costmodel/evaluate.h"
#include "planner/launch/launch.h"

#include <stdbool.h>

struct tpp_launch_choices {
    bool slurm, debug;
    const char *job_name; /* NULL: the model's name */
};

/* The release of the framework: what --framework-version names, or the newest known. TPP_E_USAGE when it names none.
 * Frameworks that do not carry Megatron-LM's numbers always have the newest. */
enum tpp_code tpp_launch_release(const struct tpp_stack *stack, enum tpp_release *release, struct tpp_error *err);
/* False, with *err, when the framework, or this release, has not the job's precision, task or types of states, whatever
 * the plan. Of Megatron-LM, whose costs stand for loops of one's own on Megatron Core too, only the types are asked. */
bool tpp_launch_trains(const struct tpp_job_inputs *inputs, struct tpp_error *err);
/* Appends one script that holds everything; fails as tpp_launch_emit does. */
enum tpp_code tpp_launch_script(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                                const struct tpp_cost *cost, const struct tpp_launch_choices *choices,
                                struct tpp_text *out, struct tpp_error *err);
/* The script and its configuration files apart; the caller releases *launch, also after a failure. */
enum tpp_code tpp_launch_files(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                               const struct tpp_cost *cost, const struct tpp_launch_choices *choices,
                               struct tpp_launch_output *launch, struct tpp_error *err);
/* "launch": the script, or null with "launch_error" when the framework has none for this plan. */
void tpp_launch_add_json(const struct tpp_job_inputs *inputs, const struct tpp_strategy *strategy,
                         const struct tpp_cost *cost, const struct tpp_launch_choices *choices,
                         struct tpp_json_writer *writer, struct cJSON *plan);

#endif
