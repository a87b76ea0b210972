/* check_config.h - the configuration file of a framework, by itself or in the script that writes and launches it. */
#ifndef TPP_CLI_CHECK_CONFIG_H
#define TPP_CLI_CHECK_CONFIG_H

#include "cli/check_script.h"

/* True when the text is a configuration file and no script: by the ending of its name (.toml, .yaml, .yml, .json), else
 * by its keys. */
bool tpp_check_is_config(const char *path, const char *text, size_t length);
/* Reads check->text as a configuration, and judges it. */
enum tpp_code tpp_check_config(struct tpp_check *check, struct tpp_error *err);

/* True for frameworks whose script names a configuration file. */
bool tpp_check_has_config(enum tpp_framework framework);
/* The file that check->line names, which the script must write by itself; options behind it win over it. `world_size`
 * 0: not known. */
enum tpp_code tpp_check_config_of_script(struct tpp_check *check, int64_t world_size, struct tpp_error *err);

#endif
