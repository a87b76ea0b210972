/* script_config.h - the configuration file that a launch script names: written by the script, or beside it. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_SCRIPT_CONFIG_H
#define TPP_PLANNER_LAUNCH_CONFIG_SCRIPT_CONFIG_H

#include "planner/launch/config/document.h"
#include "planner/launch/shell_reader.h"

/* Reads the file at `path`, which `word` of the script gives; of "FILE.filled.yaml", FILE is read. Lines are those of
 * the script. *out is NULL when the script neither writes the file nor has it beside it; else the caller owns it. Fails
 * as tpp_config_read does. */
enum tpp_code tpp_config_of_script(const struct tpp_shell_script *script, const struct tpp_shell_word *word,
                                   const char *path, enum tpp_config_format format, struct tpp_config **out,
                                   struct tpp_error *err);

#endif
