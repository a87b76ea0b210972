/* determinism.h - private: what Megatron's deterministic mode needs of options and environment (ML-99). */
#ifndef TPP_PLANNER_LAUNCH_DETERMINISM_H
#define TPP_PLANNER_LAUNCH_DETERMINISM_H

#include "planner/launch/launch.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/megatron_arguments.h"
#include "planner/launch/script.h"

/* Adds what a deterministic run of the line is refused for; nothing for another run. */
void tpp_determinism_judge(const struct tpp_launch_line *line, const struct tpp_arguments *arguments,
                           const struct tpp_megatron_settings *settings, enum tpp_release release,
                           struct tpp_problems *problems);

/* The variables of a deterministic plan; nothing for another one. */
void tpp_determinism_export(struct tpp_script *script, const struct tpp_launch_request *request);

#endif
