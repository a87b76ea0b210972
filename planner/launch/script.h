/* script.h - writes bash: comments, arrays of options that exist in a release, and the command that starts the ranks.
 */
#ifndef TPP_PLANNER_LAUNCH_SCRIPT_H
#define TPP_PLANNER_LAUNCH_SCRIPT_H

#include "costmodel/base/text.h"
#include "planner/launch/launch.h"
#include "planner/launch/options.h"

#include <stdint.h>

/* A script for one release of Megatron-LM. The first option that the release does not have, or that does not take the
 * value, is remembered: check once, with tpp_script_finish. */
struct tpp_script {
    struct tpp_text *out;
    enum tpp_release release;
    const char *refused_option; /* NULL = none */
    char refused_value[64];
};

/* A comment of one line; control characters become '?', so that nothing can leave the comment. */
void tpp_script_comment(struct tpp_script *script, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Options, each on a line of an array that tpp_script_array_begin ("NAME=(") and _end (")") enclose. */
void tpp_script_array_begin(struct tpp_script *script, const char *name);
void tpp_script_array_end(struct tpp_script *script);
void tpp_script_flag(struct tpp_script *script, const char *name);
void tpp_script_integer(struct tpp_script *script, const char *name, int64_t value);
/* The shortest text that reads back equal. */
void tpp_script_number(struct tpp_script *script, const char *name, double value);
void tpp_script_word(struct tpp_script *script, const char *name, const char *value);
/* `expression` is shell text of our own ("\"$LR\""), written as it is. */
void tpp_script_expression(struct tpp_script *script, const char *name, const char *expression);

/* A variable that must be set when the script starts; `what` completes "set NAME to ...". */
void tpp_script_required(struct tpp_script *script, const char *name, const char *what);
/* export NAME=VALUE with the reason above it. */
void tpp_script_export(struct tpp_script *script, const char *name, const char *value, const char *reason);

/* "#!" line, #SBATCH lines when asked for, who made it, `set -euo pipefail`. */
void tpp_script_header(struct tpp_script *script, const struct tpp_launch_request *request, const char *framework);
/* Starts `entry` (shell text) with `arguments` (shell text) on every rank: torchrun, under srun when asked for. */
void tpp_script_torchrun(struct tpp_script *script, const struct tpp_launch_request *request, const char *entry,
                         const char *arguments);

/* TPP_E_UNSUPPORTED when an option was refused. */
enum tpp_code tpp_script_finish(const struct tpp_script *script, struct tpp_error *err);

#endif
