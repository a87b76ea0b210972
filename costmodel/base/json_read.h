/* json_read.h - reading JSON from a stranger: every access is checked and every error names file#/pointer.
 *
 * Parsing refuses what is not JSON (RFC 8259: also text after the value and numbers such as 01 or 1.), bytes that are no
 * UTF-8, \u0000, empty names, numbers that are not finite and nesting deeper than 128, and reports line:column; doubled
 * keys are reported as file#/pointer. Integers must be integral and below 2^53. A member that is null counts as absent.
 * Size and access by index take the same time for any size. */
#ifndef TPP_COSTMODEL_BASE_JSON_READ_H
#define TPP_COSTMODEL_BASE_JSON_READ_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;
struct tpp_json_document; /* opaque: the parsed tree and the file's name */

struct tpp_json {         /* a place in a document: a value to copy, valid as long as the document */
    const struct cJSON *node;
    const struct tpp_json_document *document;
    const char *file;
    char pointer[160];    /* RFC 6901; cut with "..." when longer */
};

#define TPP_JSON_MAX_FILE_BYTES (64u * 1024u * 1024u)

/* Parses `length` bytes; a byte order mark in front is skipped. `file` (copied) is used in messages. The caller owns *out (tpp_json_document_free). */
enum tpp_code tpp_json_parse(const char *text, size_t length, const char *file, struct tpp_json_document **out,
                             struct tpp_error *err);
/* Reads and parses a file ("-" is standard input) of at most TPP_JSON_MAX_FILE_BYTES. */
enum tpp_code tpp_json_load(const char *path, struct tpp_json_document **out, struct tpp_error *err);
void tpp_json_document_free(struct tpp_json_document *document); /* NULL is fine */
struct tpp_json tpp_json_root(const struct tpp_json_document *document);

bool tpp_json_is_object(struct tpp_json value);
bool tpp_json_is_array(struct tpp_json value);
bool tpp_json_is_string(struct tpp_json value);
bool tpp_json_is_number(struct tpp_json value);
bool tpp_json_is_bool(struct tpp_json value);
/* True and *out set when `object` has a member of that exact name that is not null. */
bool tpp_json_member(struct tpp_json object, const char *name, struct tpp_json *out);
/* Number of elements of an array or members of an object; 0 for anything else. */
size_t tpp_json_size(struct tpp_json value);
/* Element `index` of an array, or member `index` of an object (then *out_name is its name; may be NULL). */
bool tpp_json_at(struct tpp_json value, size_t index, struct tpp_json *out, const char **out_name);

/* The value itself, with type and range (both ends included) checked. On failure *out is untouched. */
enum tpp_code tpp_json_as_number(struct tpp_json value, double min, double max, double *out, struct tpp_error *err);
enum tpp_code tpp_json_as_u64(struct tpp_json value, uint64_t min, uint64_t max, uint64_t *out, struct tpp_error *err);
enum tpp_code tpp_json_as_bool(struct tpp_json value, bool *out, struct tpp_error *err);
/* *out points into the document. */
enum tpp_code tpp_json_as_string(struct tpp_json value, const char **out, struct tpp_error *err);

/* A required member: TPP_E_MISSING names the key when absent or null, TPP_E_TYPE when `object` is no object. */
enum tpp_code tpp_json_need_number(struct tpp_json object, const char *name, double min, double max, double *out,
                                   struct tpp_error *err);
enum tpp_code tpp_json_need_u64(struct tpp_json object, const char *name, uint64_t min, uint64_t max, uint64_t *out,
                                struct tpp_error *err);
enum tpp_code tpp_json_need_string(struct tpp_json object, const char *name, const char **out, struct tpp_error *err);
enum tpp_code tpp_json_need_object(struct tpp_json object, const char *name, struct tpp_json *out,
                                   struct tpp_error *err);

/* An optional member: *out keeps its value when absent or null; a wrong type or range is still an error, and so is an
 * `object` that is none. */
enum tpp_code tpp_json_get_number(struct tpp_json object, const char *name, double min, double max, double *out,
                                  struct tpp_error *err);
enum tpp_code tpp_json_get_u64(struct tpp_json object, const char *name, uint64_t min, uint64_t max, uint64_t *out,
                               struct tpp_error *err);
enum tpp_code tpp_json_get_bool(struct tpp_json object, const char *name, bool *out, struct tpp_error *err);
enum tpp_code tpp_json_get_string(struct tpp_json object, const char *name, const char **out, struct tpp_error *err);

/* Fails with the nearest valid name as the hint when `object` has a member not in `names` (NULL-terminated). */
enum tpp_code tpp_json_refuse_unknown(struct tpp_json object, const char *const *names, struct tpp_error *err);
/* tpp_fail with `where` made from the place: "file#/pointer". */
enum tpp_code tpp_json_fail(struct tpp_json value, struct tpp_error *err, enum tpp_code code, const char *hint,
                            const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
