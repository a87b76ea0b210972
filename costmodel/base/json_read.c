#include "costmodel/base/json_read.h"

#include "costmodel/base/json_write.h"
#include "costmodel/base/text.h"

#include <cjson/cJSON.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FIRST_INEXACT_INTEGER 0x1p53

enum tpp_code tpp_json_fail(struct tpp_json value, struct tpp_error *err, enum tpp_code code, const char *hint,
                            const char *format, ...)
{
    char message[sizeof err->message + 1];
    char where[sizeof err->where];
    va_list args;
    va_start(args, format);
    if (vsnprintf(message, sizeof message, format, args) < 0) {
        message[0] = '\0';
    }
    va_end(args);
    /* A long file name loses its beginning: the pointer and the end of the name say more. */
    const size_t room = sizeof where - 2 - strlen(value.pointer);
    const size_t length = strlen(value.file);
    snprintf(where, sizeof where, "%s#%s", length > room ? value.file + (length - room) : value.file, value.pointer);
    return tpp_fail(err, code, where, hint, "%s", message);
}

/* `"name"`, or `element 3`, or `the document`: the subject of a message. */
static const char *subject(struct tpp_json value, char *buffer, size_t size)
{
    const char *last = strrchr(value.pointer, '/');
    if (value.node->string) {
        snprintf(buffer, size, "\"%.*s\"", (int)tpp_utf8_cut(value.node->string, 60), value.node->string);
    } else if (last) {
        snprintf(buffer, size, "element %.24s", last + 1);
    } else {
        snprintf(buffer, size, "the document");
    }
    return buffer;
}

/* What stands there instead: `the text "80GB"`, `the number 3.5`, `true`, `an array`. */
static const char *found(struct tpp_json value, char *buffer, size_t size)
{
    char number[32];
    if (cJSON_IsString(value.node)) {
        const char *text = value.node->valuestring;
        const size_t length = tpp_utf8_cut(text, 60);
        snprintf(buffer, size, "the text \"%.*s%s\"", (int)length, text, text[length] ? "..." : "");
    } else if (cJSON_IsNumber(value.node)) {
        tpp_json_number_text(number, sizeof number, value.node->valuedouble);
        snprintf(buffer, size, "the number %s", number);
    } else {
        snprintf(buffer, size, "%s",
                 cJSON_IsObject(value.node)  ? "an object"
                 : cJSON_IsArray(value.node) ? "an array"
                 : cJSON_IsTrue(value.node)  ? "true"
                 : cJSON_IsFalse(value.node) ? "false"
                                             : "null");
    }
    return buffer;
}

/* `"name" must be <expected>, found <what is there>`. */
static enum tpp_code fail_must_be(struct tpp_json value, struct tpp_error *err, enum tpp_code code,
                                  const char *expected)
{
    char subject_text[80], found_text[96];
    return tpp_json_fail(value, err, code, NULL, "%s must be %s, found %s",
                         subject(value, subject_text, sizeof subject_text), expected,
                         found(value, found_text, sizeof found_text));
}

/* A range whose end is a type's own limit is shown without that end. */
static enum tpp_code fail_number_range(struct tpp_json value, double min, double max, struct tpp_error *err)
{
    char low[32], high[32], expected[96];
    tpp_json_number_text(low, sizeof low, min);
    tpp_json_number_text(high, sizeof high, max);
    if (max >= DBL_MAX) {
        snprintf(expected, sizeof expected, "at least %s", low);
    } else if (min <= -DBL_MAX) {
        snprintf(expected, sizeof expected, "at most %s", high);
    } else {
        snprintf(expected, sizeof expected, "from %s to %s", low, high);
    }
    return fail_must_be(value, err, TPP_E_RANGE, expected);
}

enum tpp_code tpp_json_as_number(struct tpp_json value, double min, double max, double *out, struct tpp_error *err)
{
    if (!cJSON_IsNumber(value.node)) {
        return fail_must_be(value, err, TPP_E_TYPE, "a number");
    }
    const double number = value.node->valuedouble;
    if (!(number >= min && number <= max)) {
        return fail_number_range(value, min, max, err);
    }
    *out = number;
    return TPP_OK;
}

enum tpp_code tpp_json_as_u64(struct tpp_json value, uint64_t min, uint64_t max, uint64_t *out, struct tpp_error *err)
{
    if (!cJSON_IsNumber(value.node)) {
        return fail_must_be(value, err, TPP_E_TYPE, "a whole number");
    }
    const double number = value.node->valuedouble;
    if (number != floor(number)) {
        return fail_must_be(value, err, TPP_E_TYPE, "a whole number");
    }
    const bool is_exact = number >= 0 && number < FIRST_INEXACT_INTEGER;
    if (!is_exact || (uint64_t)number < min || (uint64_t)number > max) {
        const uint64_t largest = (uint64_t)FIRST_INEXACT_INTEGER - 1;
        char expected[80];
        snprintf(expected, sizeof expected, "a whole number from %" PRIu64 " to %" PRIu64, min,
                 max < largest ? max : largest);
        return fail_must_be(value, err, TPP_E_RANGE, expected);
    }
    *out = (uint64_t)number;
    return TPP_OK;
}

enum tpp_code tpp_json_as_bool(struct tpp_json value, bool *out, struct tpp_error *err)
{
    if (!cJSON_IsBool(value.node)) {
        return fail_must_be(value, err, TPP_E_TYPE, "true or false");
    }
    *out = cJSON_IsTrue(value.node);
    return TPP_OK;
}

enum tpp_code tpp_json_as_string(struct tpp_json value, const char **out, struct tpp_error *err)
{
    if (!cJSON_IsString(value.node)) {
        return fail_must_be(value, err, TPP_E_TYPE, "a text");
    }
    *out = value.node->valuestring;
    return TPP_OK;
}

/* Finds a member: sets *is_there. Fails only when `object` is none. */
static enum tpp_code find(struct tpp_json object, const char *name, struct tpp_json *member, bool *is_there,
                          struct tpp_error *err)
{
    if (!cJSON_IsObject(object.node)) {
        char expected[96];
        snprintf(expected, sizeof expected, "an object with the key \"%.60s\"", name);
        return fail_must_be(object, err, TPP_E_TYPE, expected);
    }
    *is_there = tpp_json_member(object, name, member);
    return TPP_OK;
}

static enum tpp_code need(struct tpp_json object, const char *name, struct tpp_json *member, struct tpp_error *err)
{
    bool is_there = false;
    const enum tpp_code code = find(object, name, member, &is_there, err);
    if (code != TPP_OK || is_there) {
        return code;
    }
    char hint[128];
    snprintf(hint, sizeof hint, "add \"%.80s\" here", name);
    return tpp_json_fail(object, err, TPP_E_MISSING, hint, "the key \"%.80s\" is missing", name);
}

enum tpp_code tpp_json_need_number(struct tpp_json object, const char *name, double min, double max, double *out,
                                   struct tpp_error *err)
{
    struct tpp_json member;
    const enum tpp_code code = need(object, name, &member, err);
    return code != TPP_OK ? code : tpp_json_as_number(member, min, max, out, err);
}

enum tpp_code tpp_json_need_u64(struct tpp_json object, const char *name, uint64_t min, uint64_t max, uint64_t *out,
                                struct tpp_error *err)
{
    struct tpp_json member;
    const enum tpp_code code = need(object, name, &member, err);
    return code != TPP_OK ? code : tpp_json_as_u64(member, min, max, out, err);
}

enum tpp_code tpp_json_need_string(struct tpp_json object, const char *name, const char **out, struct tpp_error *err)
{
    struct tpp_json member;
    const enum tpp_code code = need(object, name, &member, err);
    return code != TPP_OK ? code : tpp_json_as_string(member, out, err);
}

enum tpp_code tpp_json_need_object(struct tpp_json object, const char *name, struct tpp_json *out,
                                   struct tpp_error *err)
{
    struct tpp_json member;
    const enum tpp_code code = need(object, name, &member, err);
    if (code != TPP_OK) {
        return code;
    }
    if (!cJSON_IsObject(member.node)) {
        return fail_must_be(member, err, TPP_E_TYPE, "an object");
    }
    *out = member;
    return TPP_OK;
}

enum tpp_code tpp_json_get_number(struct tpp_json object, const char *name, double min, double max, double *out,
                                  struct tpp_error *err)
{
    struct tpp_json member;
    bool is_there = false;
    const enum tpp_code code = find(object, name, &member, &is_there, err);
    return code != TPP_OK || !is_there ? code : tpp_json_as_number(member, min, max, out, err);
}

enum tpp_code tpp_json_get_u64(struct tpp_json object, const char *name, uint64_t min, uint64_t max, uint64_t *out,
                               struct tpp_error *err)
{
    struct tpp_json member;
    bool is_there = false;
    const enum tpp_code code = find(object, name, &member, &is_there, err);
    return code != TPP_OK || !is_there ? code : tpp_json_as_u64(member, min, max, out, err);
}

enum tpp_code tpp_json_get_bool(struct tpp_json object, const char *name, bool *out, struct tpp_error *err)
{
    struct tpp_json member;
    bool is_there = false;
    const enum tpp_code code = find(object, name, &member, &is_there, err);
    return code != TPP_OK || !is_there ? code : tpp_json_as_bool(member, out, err);
}

enum tpp_code tpp_json_get_string(struct tpp_json object, const char *name, const char **out, struct tpp_error *err)
{
    struct tpp_json member;
    bool is_there = false;
    const enum tpp_code code = find(object, name, &member, &is_there, err);
    return code != TPP_OK || !is_there ? code : tpp_json_as_string(member, out, err);
}

static bool is_in(const char *const *names, const char *name)
{
    for (; *names; names++) {
        if (strcmp(*names, name) == 0) {
            return true;
        }
    }
    return false;
}

/* `known here: a, b, c`, or as many as fit and `...`. */
static void list_names(const char *const *names, struct tpp_error *err)
{
    size_t used = (size_t)snprintf(err->hint, sizeof err->hint, "known here:");
    for (; *names; names++) {
        const size_t needed = strlen(*names) + sizeof " , ..."; /* so that the dots fit after it too */
        if (used + needed > sizeof err->hint) {
            snprintf(err->hint + used, sizeof err->hint - used, " ...");
            return;
        }
        used += (size_t)snprintf(err->hint + used, sizeof err->hint - used, " %s%s", *names, names[1] ? "," : "");
    }
}

enum tpp_code tpp_json_refuse_unknown(struct tpp_json object, const char *const *names, struct tpp_error *err)
{
    struct tpp_json member;
    const char *name;
    for (size_t i = 0; tpp_json_at(object, i, &member, &name); i++) {
        if (!tpp_json_is_object(object) || is_in(names, name)) {
            continue;
        }
        const char *nearest = tpp_text_nearest(name, names);
        char hint[256];
        snprintf(hint, sizeof hint, "did you mean \"%s\"?", nearest ? nearest : "");
        char subject_text[80];
        const enum tpp_code code = tpp_json_fail(member, err, TPP_E_SYNTAX, nearest ? hint : NULL, "unknown key %s",
                                                 subject(member, subject_text, sizeof subject_text));
        if (err && !nearest) {
            list_names(names, err);
        }
        return code;
    }
    return TPP_OK;
}
