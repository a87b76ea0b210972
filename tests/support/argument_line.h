/* argument_line.h - the argument line of a Megatron-LM test vector as rule settings. Words are separated by spaces. */
#ifndef TPP_TESTS_SUPPORT_ARGUMENT_LINE_H
#define TPP_TESTS_SUPPORT_ARGUMENT_LINE_H

#include "planner/rules/rules.h"

enum argument_verdict {
    ARGUMENTS_READ,        /* the settings say all that the line says */
    ARGUMENTS_REFUSED,     /* the parser of that release stops: unknown option, wrong value */
    ARGUMENTS_NOT_COVERED, /* an option that the settings do not have */
};

/* `text` is changed and must outlive the settings. `settings` starts from the defaults; world size and environment are
 * the caller's. *word is the option that decided, for messages. */
enum argument_verdict argument_line_read(char *text, enum tpp_release release, struct tpp_rule_settings *settings,
                                         const char **word);

#endif
