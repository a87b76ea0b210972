/* swift_config.h - `swift sft FILE` and `megatron sft FILE`: ms-swift turns the keys of a YAML or JSON file into options
 * in front of those that follow it, and its ENV into variables that are not set yet (swift/cli/main.py). */
#ifndef TPP_PLANNER_LAUNCH_SWIFT_CONFIG_H
#define TPP_PLANNER_LAUNCH_SWIFT_CONFIG_H

#include "planner/launch/launch_line.h"
#include "planner/launch/problems.h"

struct tpp_swift_config; /* opaque: the words that were made */

/* Replaces line->arguments when the first of them is such a file, written by the script or beside it; sets nodes and
 * ranks that ENV says. *out (NULL: there was no file) owns the new words: freed behind the last use of the line. Fails
 * as tpp_config_read does. */
enum tpp_code tpp_swift_config_expand(struct tpp_launch_line *line, const struct tpp_shell_script *script,
                                      struct tpp_swift_config **out, struct tpp_problems *problems,
                                      struct tpp_error *err);
void tpp_swift_config_free(struct tpp_swift_config *config); /* NULL is fine */

#endif
