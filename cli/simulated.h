/* simulated.h - the step of a plan simulated as events, for a command: options, answer, timeline and trace. */
#ifndef TPP_CLI_SIMULATED_H
#define TPP_CLI_SIMULATED_H

#include "cli/command.h"
#include "cli/job_options.h"
#include "costmodel/base/json_write.h"
#include "costmodel/simulator/simulate.h"
#include "planner/search.h"

#include <stdbool.h>

struct tpp_simulated_arguments {
    bool simulate, timeline;
    const char *trace;               /* file to write; NULL: none */
    const char *slow_gpu, *slow_nic; /* "STAGE:FACTOR"; NULL: none */
    double jitter_fraction;
    int64_t seed;                    /* TPP_OPTION_ABSENT: 1 */
};
extern const struct tpp_option tpp_simulated_options[];

/* A simulated step, with what it is compared with. */
struct tpp_simulated {
    struct tpp_evaluator *evaluator;
    struct tpp_simulation *simulation;
    double undisturbed_seconds; /* the step without slow GPUs, slow NICs and jitter; 0 when there are none */
};

/* True when any option asks for a simulation. */
bool tpp_simulated_is_wanted(const struct tpp_simulated_arguments *arguments);
/* Simulates the plan's step. TPP_E_USAGE for options that do not fit together, TPP_E_RANGE for values out of range. On
 * success the caller owns what *out holds (tpp_simulated_release); `inputs` must outlive it. */
enum tpp_code tpp_simulated_run(const struct tpp_simulated_arguments *arguments, const struct tpp_job_inputs *inputs,
                                const struct tpp_strategy *strategy, struct tpp_simulated *out, struct tpp_error *err);
void tpp_simulated_release(struct tpp_simulated *simulated); /* all zero is fine */

/* Writes --trace's file, when one was named. */
enum tpp_code tpp_simulated_write_trace(const struct tpp_simulated_arguments *arguments,
                                        const struct tpp_simulated *simulated, struct tpp_error *err);
/* Times, idle share, contention of links, and the timeline when it was asked for. False when out of memory. */
bool tpp_simulated_append(const struct tpp_simulated_arguments *arguments, const struct tpp_simulated *simulated,
                          const struct tpp_plan *plan, struct tpp_answer *answer);
/* The same as "simulation": {...}. */
void tpp_simulated_add_json(const struct tpp_simulated *simulated, const struct tpp_plan *plan,
                            struct tpp_json_writer *writer, struct cJSON *parent);

#endif
