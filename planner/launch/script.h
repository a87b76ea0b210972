/* script.h - writes bash: comments, environment, arrays of options that the framework has, configuration files, and the
 * command that starts the ranks. */
#ifndef TPP_PLANNER_LAUNCH_SCRIPT_H
#define TPP_PLANNER_LAUNCH_SCRIPT_H

#include "costmodel/base/text.h"
#include "planner/launch/launch.h"
#include "planner/launch/options.h"

#include <stdint.h>

/* A script for one framework. The first option that its table does not have in the release, or that does not take the
 * value, is remembered: tpp_script_finish says so. */
struct tpp_script {
    struct tpp_text *out;
    struct tpp_launch_output *files; /* takes the configuration files; NULL: the script writes them by itself */
    const char *framework;           /* for messages: "Megatron-LM" */
    bool has_releases;               /* the release is one of this framework */
    enum tpp_release release;
    const struct tpp_launch_option *(*find_option)(const char *name); /* NULL: options are not checked */
    const char *refused_option;                                       /* NULL = none */
    char refused_value[64];
};

/* A comment of one line; control characters become '?', so that nothing can leave the comment. */
void tpp_script_comment(struct tpp_script *script, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Options, each on a line of an array (a name without a hyphen is a key: key=value) that tpp_script_array_begin
 * ("NAME=(") and _end (")") enclose. */
void tpp_script_array_begin(struct tpp_script *script, const char *name);
void tpp_script_array_end(struct tpp_script *script);
void tpp_script_flag(struct tpp_script *script, const char *name);
void tpp_script_flag_if(struct tpp_script *script, bool is_on, const char *name);
void tpp_script_integer(struct tpp_script *script, const char *name, int64_t value);
/* The shortest text that reads back equal. */
void tpp_script_number(struct tpp_script *script, const char *name, double value);
void tpp_script_word(struct tpp_script *script, const char *name, const char *value);
/* `expression` is shell text of our own ("\"$LR\""), written as it is. */
void tpp_script_expression(struct tpp_script *script, const char *name, const char *expression);

/* A variable that must be set when the script starts; `what` completes "set NAME to ...". */
void tpp_script_required(struct tpp_script *script, const char *name, const char *what);
/* export NAME=VALUE with the reason above it; `value` is shell text of our own. A variable that the request sets is
 * left to tpp_script_environment. */
void tpp_script_export(struct tpp_script *script, const struct tpp_launch_request *request, const char *name,
                       const char *value, const char *reason);
/* What every framework gets: the allocator's setting, the variables of the request, the ones of `debug`. */
void tpp_script_environment(struct tpp_script *script, const struct tpp_launch_request *request);

/* "#!" line, #SBATCH lines when asked for, who made it, `set -euo pipefail`. */
void tpp_script_header(struct tpp_script *script, const struct tpp_launch_request *request);
/* Required variables of a job on several nodes without Slurm: MASTER_ADDR and NODE_RANK. */
void tpp_script_required_nodes(struct tpp_script *script, const struct tpp_launch_request *request);
/* A configuration file beside the script, or written by it; the shell variable `variable` becomes its path. `name` is
 * static and without a folder; no line of `content` may be "TP_PLAN_END". */
void tpp_script_config(struct tpp_script *script, const struct tpp_launch_request *request, const char *variable,
                       const char *name, const struct tpp_text *content);
/* Starts `entry` (shell text) with `arguments` (shell text) on every rank: torchrun, under srun when asked for. */
void tpp_script_torchrun(struct tpp_script *script, const struct tpp_launch_request *request, const char *entry,
                         const char *arguments);
/* The same with accelerate launch; sizes are those of the configuration file that the shell variable names. */
void tpp_script_accelerate(struct tpp_script *script, const struct tpp_launch_request *request, const char *variable,
                           const char *entry, const char *arguments);
/* Starts `program` (shell text), which starts the ranks of its node by itself from NPROC_PER_NODE, NNODES, NODE_RANK,
 * MASTER_ADDR and MASTER_PORT, once on every node. */
void tpp_script_per_node(struct tpp_script *script, const struct tpp_launch_request *request, const char *program,
                         const char *arguments);

/* TPP_E_UNSUPPORTED when an option was refused. */
enum tpp_code tpp_script_finish(const struct tpp_script *script, struct tpp_error *err);

#endif
