/* json_syntax.h - the grammar of RFC 8259, checked before a text is given to cJSON.
 *
 * cJSON takes more than JSON (01, 1., 1e999, control characters, text after the value), cuts strings at \u0000 and
 * recurses up to 1000 levels. Here such a text is refused with line and column; what passes, cJSON reads right. */
#ifndef TPP_COSTMODEL_BASE_JSON_SYNTAX_H
#define TPP_COSTMODEL_BASE_JSON_SYNTAX_H

#include "costmodel/base/error.h"

#include <stddef.h>

#define TPP_JSON_MAX_DEPTH 128        /* arrays and objects inside each other */
#define TPP_JSON_MAX_NUMBER_LENGTH 63 /* cJSON cuts a number after 63 characters */

/* Checks that `text` is one JSON value of valid UTF-8, without empty names, numbers that are not finite, or NUL in a
 * string. Recursion is limited to TPP_JSON_MAX_DEPTH. `file` is used in messages. */
enum tpp_code tpp_json_check_syntax(const char *text, size_t length, const char *file, struct tpp_error *err);

#endif
