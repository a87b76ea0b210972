/* json_write.h - building JSON output: fixed key order, numbers that read back equal, one final newline.
 *
 * A tree is made of cJSON nodes. A failed allocation or a number that is not finite is remembered in the writer
 * (tpp_json_writer.failed) instead of being returned by every call: check once, at tpp_json_print. */
#ifndef TPP_COSTMODEL_BASE_JSON_WRITE_H
#define TPP_COSTMODEL_BASE_JSON_WRITE_H

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;
struct tpp_json_writer {
    struct cJSON *root;  /* owned */
    bool failed;
    bool has_bad_number; /* that is why it failed */
};

/* Starts with an empty object as the root. */
void tpp_json_writer_init(struct tpp_json_writer *writer);
void tpp_json_writer_release(struct tpp_json_writer *writer);

/* `parent` is an object (name given) or an array (name NULL). The returned node belongs to the tree; NULL (and failed
 * set) when out of memory; every function accepts a NULL parent and then does nothing. */
struct cJSON *tpp_json_add_object(struct tpp_json_writer *writer, struct cJSON *parent, const char *name);
struct cJSON *tpp_json_add_array(struct tpp_json_writer *writer, struct cJSON *parent, const char *name);
/* The shortest of %.15g, %.16g, %.17g that reads back equal; NaN and infinity set failed. */
void tpp_json_add_number(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, double value);
void tpp_json_add_u64(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, uint64_t value);
void tpp_json_add_bool(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, bool value);
void tpp_json_add_null(struct tpp_json_writer *writer, struct cJSON *parent, const char *name);
/* Bytes of names and values that are not valid UTF-8 are replaced by U+FFFD. NULL is written as null. */
void tpp_json_add_string(struct tpp_json_writer *writer, struct cJSON *parent, const char *name, const char *value);
/* Appends the text, indented by two spaces a level, and a newline; TPP_E_MEMORY when an allocation failed (also earlier
 * ones of `out`), TPP_E_INTERNAL when a number was not finite. */
enum tpp_code tpp_json_print(struct tpp_json_writer *writer, struct tpp_text *out, struct tpp_error *err);

/* What tpp_json_add_number writes for a finite value; 32 bytes are enough for any. Returns `buffer`. */
char *tpp_json_number_text(char *buffer, size_t size, double value);

#endif
