/* keys.h - one table of keys a framework, for both directions: which field of its settings a key sets, and how the
 * field is written. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_KEYS_H
#define TPP_PLANNER_LAUNCH_CONFIG_KEYS_H

#include "costmodel/base/text.h"
#include "planner/launch/config/document.h"
#include "planner/launch/problems.h"

/* An optional number that is not given, as in rule settings. */
#define TPP_KEY_UNSET INT64_MIN

enum tpp_key_kind {
    TPP_KEY_INTEGER, /* int64_t; null: TPP_KEY_UNSET */
    TPP_KEY_NUMBER,  /* double */
    TPP_KEY_BOOLEAN, /* bool */
    TPP_KEY_CHOICE,  /* unsigned (an enum): index in `choices`, without regard to case; a word that is not there is an
                        error, and the number of choices */
    TPP_KEY_TEXT,    /* const char *, borrowed from the document; NULL: not given. With `choices`, a list of
                        texts may stand there: the first one */
    TPP_KEY_LISTED,  /* bool: the list has `choices` as an item */
    TPP_KEY_SECTION, /* a table whose keys have rows of their own, or null */
    TPP_KEY_OTHER,   /* known to the framework, without meaning here; with what is inside it */
};
enum tpp_key_write {
    TPP_WRITE_CHANGED, /* when it is not the framework's default */
    TPP_WRITE_ALWAYS,
    TPP_WRITE_NEVER, /* read only: an older spelling, or what a plan does not choose */
};
struct tpp_config_key {
    const char *path;
    enum tpp_key_kind kind;
    size_t offset; /* of the field in the settings */
    const char *choices;
    enum tpp_key_write write;
    bool is_needed; /* a prediction cannot do without it: a value that is not known leaves the plan open */
};
struct tpp_key_table {
    const char *framework; /* for messages */
    const struct tpp_config_key *keys;
    size_t count;
    enum tpp_severity unknown; /* what an unknown key is */
};

/* Sets the fields of `settings`, which hold the framework's defaults, from the document. Unknown keys and values of the
 * wrong kind become problems. A text with a variable of the shell in it ("${STEPS}", "$(...)"), or one that a script
 * fills in ("@STEPS@"), is not known: the field keeps its default, and *is_incomplete (may be NULL) is set when the key
 * is needed. */
void tpp_config_keys_read(const struct tpp_key_table *table, const struct tpp_config *config, void *settings,
                          bool *is_incomplete, struct tpp_problems *problems);
/* Line of a key, 0 when the document does not have it. */
uint32_t tpp_config_line(const struct tpp_config *config, const char *path);

/* Appends the keys that are to be written, in the order of the table, as YAML or TOML. Keys of one section must stand
 * together. Texts are quoted. */
void tpp_config_keys_write(const struct tpp_key_table *table, const void *settings, const void *defaults,
                           enum tpp_config_format format, struct tpp_text *out);
/* The same as words of a command line, one a line: "    --section.key value". */
void tpp_config_keys_write_options(const struct tpp_key_table *table, const void *settings, const void *defaults,
                                   struct tpp_text *out);

#endif
