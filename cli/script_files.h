/* script_files.h - files beside a script that is checked: what it sources, and configurations that it names. */
#ifndef TPP_CLI_SCRIPT_FILES_H
#define TPP_CLI_SCRIPT_FILES_H

#include "planner/launch/shell_reader.h"

/* Regular files at most as large as a script, in the script's folder, the one above it (when that is not the root), and
 * below: a script of someone else cannot name what else this machine holds. `script` is borrowed; a script from
 * standard input ("-") has no files. */
struct tpp_shell_source tpp_script_files(const char *script);

#endif
