/* argument_line.h - the argument line of a Megatron-LM test vector as rule settings, through the reader of scripts.
 * Words are separated by spaces. */
#ifndef TPP_TESTS_SUPPORT_ARGUMENT_LINE_H
#define TPP_TESTS_SUPPORT_ARGUMENT_LINE_H

#include "planner/rules/rules.h"

#include <stddef.h>

enum argument_verdict {
    ARGUMENTS_READ,
    ARGUMENTS_REFUSED, /* the parser of that release stops: unknown option, wrong value */
};

/* `text` is changed; strings in the settings are valid until the next call. World size, environment and compute
 * capability of *settings are the caller's and stay; the rest is what the line says. `reason`: why it is refused. */
enum argument_verdict argument_line_read(char *text, enum tpp_release release, struct tpp_rule_settings *settings,
                                         char *reason, size_t size);

#endif
