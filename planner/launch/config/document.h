/* document.h - a YAML, JSON or TOML file as a flat list of settings, each with its path and the line it is written on.
 *
 * Mappings and lists become paths: `training: {seq_len: 4096}` is "training.seq_len", the second item of a list "a" is
 * "a.1". A dot inside a key is written "\.". Nothing in a file is ever executed: YAML tags, anchors and aliases are
 * refused, and so are several documents in one file. Time and memory are bounded for any input. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_DOCUMENT_H
#define TPP_PLANNER_LAUNCH_CONFIG_DOCUMENT_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPP_CONFIG_MAX_BYTES (1u << 20)
#define TPP_CONFIG_MAX_ENTRIES 20000
#define TPP_CONFIG_MAX_DEPTH 24
#define TPP_CONFIG_MAX_PATH 512

enum tpp_config_format { TPP_CONFIG_YAML /* and JSON */, TPP_CONFIG_TOML };

enum tpp_config_kind {
    TPP_CONFIG_NULL,
    TPP_CONFIG_BOOLEAN, /* text is "true" or "false" */
    TPP_CONFIG_INTEGER, /* text is decimal, without underscores; fits int64_t */
    TPP_CONFIG_NUMBER,  /* as strtod reads it */
    TPP_CONFIG_TEXT,
    TPP_CONFIG_LIST,  /* num_items */
    TPP_CONFIG_TABLE, /* num_items */
};

struct tpp_config_entry {
    const char *path; /* "" for the document itself */
    enum tpp_config_kind kind;
    const char *text; /* of a scalar; "" else */
    uint32_t line;    /* from 1 */
    uint32_t num_items;
    bool is_doubled;  /* a later one of the same path counts (YAML) */
    bool is_override; /* of tpp_config_override: meant to take another's place */
};

struct tpp_config; /* opaque */

/* TOML for a name that ends in .toml, or a text whose first line that says anything is [a table] or key = value; else
 * YAML. */
enum tpp_config_format tpp_config_format_of(const char *file, const char *text);

/* Reads `length` bytes; `file` is used in messages ("file:line:column"). TPP_E_SYNTAX, TPP_E_UNSUPPORTED (tags,
 * aliases, several documents, larger or deeper than the limits), TPP_E_MEMORY. On success the caller owns *out. */
enum tpp_code tpp_config_read(const char *text, size_t length, const char *file, enum tpp_config_format format,
                              struct tpp_config **out, struct tpp_error *err);
void tpp_config_free(struct tpp_config *config); /* NULL is fine */

/* In the order of the file; a table or list before what is in it. Valid until the document is freed. */
const struct tpp_config_entry *tpp_config_entries(const struct tpp_config *config, size_t *count);
/* The one that counts; NULL: there is none. */
const struct tpp_config_entry *tpp_config_find(const struct tpp_config *config, const char *path);
/* Adds or replaces a scalar, as a word of a command line does ("--training.seq_len=4096"): its kind is what TOML and
 * YAML would both make of the text. */
enum tpp_code tpp_config_override(struct tpp_config *config, const char *path, const char *text, uint32_t line,
                                  struct tpp_error *err);

/* Adds to every line: for a document that stands inside a script. */
void tpp_config_shift_lines(struct tpp_config *config, uint32_t lines);
/* Gives every entry one line: for a document in another file, the line that names it. */
void tpp_config_set_lines(struct tpp_config *config, uint32_t line);

#endif
