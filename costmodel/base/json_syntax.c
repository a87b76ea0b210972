#include "costmodel/base/json_syntax.h"

#include "costmodel/base/text.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    const char *text;
    const char *end;
    const char *at;
    const char *file;
    struct tpp_error *err;
};

/* Columns count characters, not bytes, as editors do. */
static void find_line_and_column(const struct scan *scan, const char *place, size_t *line, size_t *column)
{
    *line = 1;
    *column = 1;
    for (const char *p = scan->text; p < place; p++) {
        if (*p == '\n') {
            ++*line;
            *column = 1;
        } else if (((unsigned char)*p & 0xc0) != 0x80) {
            ++*column;
        }
    }
}

static enum tpp_code fail_at(const struct scan *scan, const char *place, enum tpp_code code, const char *hint,
                             const char *message)
{
    size_t line, column;
    char where[512];
    find_line_and_column(scan, place, &line, &column);
    snprintf(where, sizeof where, "%.200s:%zu:%zu", scan->file, line, column);
    return tpp_fail(scan->err, code, where, hint, "%s (line %zu, column %zu)", message, line, column);
}

/* "expected ..., found ..." at the place that was reached. */
static enum tpp_code fail_expected(const struct scan *scan, const char *expected, const char *hint)
{
    char message[128];
    const size_t left = (size_t)(scan->end - scan->at);
    const size_t length = tpp_utf8_length(scan->at, left);
    if (left == 0) {
        snprintf(message, sizeof message, "expected %s, found the end of the text", expected);
    } else if (length == 0 || (unsigned char)*scan->at <= 0x20) {
        snprintf(message, sizeof message, "expected %s, found the byte 0x%02x", expected, (unsigned char)*scan->at);
    } else {
        snprintf(message, sizeof message, "expected %s, found '%.*s'", expected, (int)length, scan->at);
    }
    return fail_at(scan, scan->at, TPP_E_SYNTAX, hint, message);
}

static bool is_at(const struct scan *scan, char c)
{
    return scan->at < scan->end && *scan->at == c;
}

static bool is_at_digit(const struct scan *scan)
{
    return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9';
}

static bool take(struct scan *scan, char c)
{
    const bool is_there = is_at(scan, c);
    scan->at += is_there;
    return is_there;
}

static void skip_space(struct scan *scan)
{
    while (is_at(scan, ' ') || is_at(scan, '\n') || is_at(scan, '\t') || is_at(scan, '\r')) {
        scan->at++;
    }
}

static void skip_digits(struct scan *scan)
{
    while (is_at_digit(scan)) {
        scan->at++;
    }
}

static enum tpp_code check_number_value(const struct scan *scan, const char *start)
{
    char copy[TPP_JSON_MAX_NUMBER_LENGTH + 1];
    const size_t length = (size_t)(scan->at - start);
    if (length > TPP_JSON_MAX_NUMBER_LENGTH) {
        return fail_at(scan, start, TPP_E_RANGE, "write it shorter, with an exponent",
                       "a number of more than 63 characters");
    }
    memcpy(copy, start, length);
    copy[length] = '\0';
    if (!isfinite(strtod(copy, NULL))) {
        return fail_at(scan, start, TPP_E_RANGE, "the largest number is about 1.8e308", "a number that is too large");
    }
    return TPP_OK;
}

/* -? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)? */
static enum tpp_code scan_number(struct scan *scan)
{
    const char *start = scan->at;
    take(scan, '-');
    if (take(scan, '0')) {
        if (is_at_digit(scan)) {
            return fail_at(scan, start, TPP_E_SYNTAX, "drop the zeros in front", "a number that begins with a zero");
        }
    } else if (!is_at_digit(scan)) {
        return fail_expected(scan, "a digit", NULL);
    }
    skip_digits(scan);
    if (take(scan, '.')) {
        if (!is_at_digit(scan)) {
            return fail_expected(scan, "a digit after the point", NULL);
        }
        skip_digits(scan);
    }
    if (take(scan, 'e') || take(scan, 'E')) {
        if (!take(scan, '+')) {
            take(scan, '-');
        }
        if (!is_at_digit(scan)) {
            return fail_expected(scan, "a digit in the exponent", NULL);
        }
        skip_digits(scan);
    }
    return check_number_value(scan, start);
}

/* The four hexadecimal digits after \u; -1 when they are none. */
static int scan_hex4(struct scan *scan)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const char c = scan->at < scan->end ? *scan->at : '\0';
        if (c >= '0' && c <= '9') {
            value = 16 * value + (c - '0');
        } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
            value = 16 * value + ((c | 0x20) - 'a' + 10);
        } else {
            return -1;
        }
        scan->at++;
    }
    return value;
}

/* The text after \u: one unit, or the first of a surrogate pair and then its second. */
static enum tpp_code scan_unicode_escape(struct scan *scan, const char *start)
{
    const int unit = scan_hex4(scan);
    if (unit < 0) {
        return fail_expected(scan, "four hexadecimal digits after \\u", NULL);
    }
    if (unit == 0) {
        return fail_at(scan, start, TPP_E_SYNTAX, "remove it", "\\u0000 in a string");
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        return TPP_OK;
    }
    if (unit <= 0xdbff && take(scan, '\\') && take(scan, 'u')) {
        const int second = scan_hex4(scan);
        if (second >= 0xdc00 && second <= 0xdfff) {
            return TPP_OK;
        }
    }
    return fail_at(scan, start, TPP_E_SYNTAX, "write the character itself, or both of its \\u parts",
                   "half of a surrogate pair");
}

static enum tpp_code scan_escape(struct scan *scan)
{
    const char *start = scan->at++;
    if (take(scan, 'u')) {
        return scan_unicode_escape(scan, start);
    }
    if (scan->at < scan->end && *scan->at && strchr("\"\\/bfnrt", *scan->at)) {
        scan->at++;
        return TPP_OK;
    }
    return fail_expected(scan, "one of \" \\ / b f n r t u after a backslash", "write \\\\ for a backslash");
}

static enum tpp_code scan_string(struct scan *scan)
{
    const char *start = scan->at++;
    while (!take(scan, '"')) {
        if (scan->at == scan->end) {
            return fail_at(scan, start, TPP_E_SYNTAX, "close it with \"", "a string without an end");
        }
        if (*scan->at == '\\') {
            const enum tpp_code code = scan_escape(scan);
            if (code != TPP_OK) {
                return code;
            }
            continue;
        }
        if ((unsigned char)*scan->at < 0x20) {
            return fail_at(scan, scan->at, TPP_E_SYNTAX,
                           "write it as an escape such as \\n or \\t, or close the string",
                           "a control character in a string");
        }
        const size_t length = tpp_utf8_length(scan->at, (size_t)(scan->end - scan->at));
        if (length == 0) {
            return fail_at(scan, scan->at, TPP_E_SYNTAX, "save the file as UTF-8", "a byte that is not UTF-8");
        }
        scan->at += length;
    }
    return TPP_OK;
}

static enum tpp_code scan_value(struct scan *scan, unsigned depth);

static enum tpp_code scan_member(struct scan *scan, unsigned depth)
{
    skip_space(scan);
    if (!is_at(scan, '"')) {
        return fail_expected(scan, "a name in double quotes", is_at(scan, '}') ? "remove the last comma" : NULL);
    }
    const char *start = scan->at;
    const enum tpp_code code = scan_string(scan);
    if (code != TPP_OK) {
        return code;
    }
    if (scan->at - start == 2) {
        return fail_at(scan, start, TPP_E_SYNTAX, "give it a name or remove it", "a member with an empty name");
    }
    skip_space(scan);
    if (!take(scan, ':')) {
        return fail_expected(scan, "':' after a name", NULL);
    }
    return scan_value(scan, depth);
}

static enum tpp_code scan_element(struct scan *scan, unsigned depth)
{
    skip_space(scan);
    if (is_at(scan, ']')) {
        return fail_expected(scan, "a value", "remove the last comma");
    }
    return scan_value(scan, depth);
}

/* An array or object: `depth` levels are around it. */
static enum tpp_code scan_container(struct scan *scan, unsigned depth)
{
    const bool is_object = *scan->at == '{';
    const char closing = is_object ? '}' : ']';
    if (depth >= TPP_JSON_MAX_DEPTH) {
        return fail_at(scan, scan->at, TPP_E_RANGE, "at most 128 arrays and objects may stand inside each other",
                       "nested too deep");
    }
    scan->at++;
    skip_space(scan);
    if (take(scan, closing)) {
        return TPP_OK;
    }
    for (;;) {
        const enum tpp_code code = is_object ? scan_member(scan, depth + 1) : scan_element(scan, depth + 1);
        if (code != TPP_OK) {
            return code;
        }
        skip_space(scan);
        if (take(scan, closing)) {
            return TPP_OK;
        }
        if (!take(scan, ',')) {
            return fail_expected(scan, is_object ? "',' or '}'" : "',' or ']'", NULL);
        }
    }
}

static bool take_word(struct scan *scan, const char *word)
{
    const size_t length = strlen(word);
    if ((size_t)(scan->end - scan->at) < length || memcmp(scan->at, word, length) != 0) {
        return false;
    }
    scan->at += length;
    return true;
}

static enum tpp_code scan_value(struct scan *scan, unsigned depth)
{
    skip_space(scan);
    if (is_at(scan, '{') || is_at(scan, '[')) {
        return scan_container(scan, depth);
    }
    if (is_at(scan, '"')) {
        return scan_string(scan);
    }
    if (is_at(scan, '-') || is_at_digit(scan)) {
        return scan_number(scan);
    }
    if (take_word(scan, "true") || take_word(scan, "false") || take_word(scan, "null")) {
        return TPP_OK;
    }
    const bool is_not_finite = is_at(scan, 'N') || is_at(scan, 'I');
    return fail_expected(scan, "a value", is_not_finite ? "JSON has no NaN or Infinity: use null or a number" : NULL);
}

enum tpp_code tpp_json_check_syntax(const char *text, size_t length, const char *file, struct tpp_error *err)
{
    struct scan scan = {.text = text, .end = text + length, .at = text, .file = file, .err = err};
    const enum tpp_code code = scan_value(&scan, 0);
    if (code != TPP_OK) {
        return code;
    }
    skip_space(&scan);
    if (scan.at != scan.end) {
        return fail_expected(&scan, "the end of the text", "one value a file: remove what follows it");
    }
    return TPP_OK;
}
