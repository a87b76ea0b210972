/* help.h - what the command table says to people and to shells: help texts, the man page, the bash completion. */
#ifndef TPP_CLI_HELP_H
#define TPP_CLI_HELP_H

#include "cli/command.h"
#include "costmodel/base/text.h"

/* `tp-plan --help`: the commands and the exit codes. */
void tpp_help_program(struct tpp_text *out);
/* `tp-plan NAME --help`: usage, one sentence, options in table order, examples, exit codes. Lines of at most 100 bytes.
 */
void tpp_help_command(const struct tpp_command *command, struct tpp_text *out);
/* tp-plan.1 in roff (man macros). */
void tpp_help_man_page(struct tpp_text *out);
/* A bash completion script. */
void tpp_help_bash_completion(struct tpp_text *out);

#endif
