/* check_script.h - a launch script as settings, problems and, where everything needed is known, a costed plan. */
#ifndef TPP_CLI_CHECK_SCRIPT_H
#define TPP_CLI_CHECK_SCRIPT_H

#include "cli/job_options.h"
#include "cli/measured.h"
#include "planner/launch/config/configurations.h"
#include "planner/launch/launch_line.h"
#include "planner/launch/swift_config.h"
#include "planner/launch/megatron_arguments.h"
#include "planner/launch/problems.h"
#include "planner/search.h"

struct tpp_check_arguments {
    const char *cluster, *model, *framework, *framework_version;
    int64_t nodes, world_size;
    struct tpp_option_list set;
    double measured_step_seconds, measured_tflops;
    const char *baseline, *sarif;
    double tolerance;
    bool json;
};

struct tpp_check {
    const struct tpp_check_arguments *arguments;
    const char *file;                /* as it is named in messages */
    char *text;                      /* of the script; owned */
    struct tpp_shell_source source;  /* of the files beside it */
    struct tpp_shell_script *script; /* owned; NULL: a configuration file */
    struct tpp_swift_config *swift_config; /* owned: a file of options that the line names; NULL: none */
    struct tpp_launch_line line; /* of a configuration file: without a command */
    enum tpp_framework framework;
    enum tpp_release release;
    struct tpp_arguments given; /* owned */
    struct tpp_megatron_settings settings;
    bool is_shape_assumed; /* the settings' layers, widths, heads and experts are of no model */
    bool is_length_assumed;
    struct tpp_problems problems; /* owned */
    bool is_world_known;
    struct tpp_job_inputs inputs; /* hardware always; the rest with has_plan */
    bool has_plan;
    struct tpp_plan plan;
    bool has_better;
    struct tpp_plan better; /* of the same job on the same GPUs */
    bool is_better_simulated; /* the next two come from simulated steps, not from the estimates */
    double better_seconds, better_gain_fraction; /* its step; time of the script's over it, less 1 */
    bool has_measured;
    struct tpp_measured measured;
};

/* Reads and judges. A script that cannot be read, or of a framework that is not, is an error; what is wrong with one
 * that can is in check->problems. The caller releases *check, also after a failure. `path` "-" is standard input. */
enum tpp_code tpp_check_script(const struct tpp_check_arguments *arguments, const char *path, struct tpp_check *check,
                               struct tpp_error *err);
void tpp_check_release(struct tpp_check *check);
/* Costs check->plan.strategy with check->inputs. */
enum tpp_code tpp_check_cost(struct tpp_check *check, struct tpp_error *err);

#endif
