/* builder.h - private to the readers of documents: puts entries together, and bounds them. */
#ifndef TPP_PLANNER_LAUNCH_CONFIG_BUILDER_H
#define TPP_PLANNER_LAUNCH_CONFIG_BUILDER_H

#include "costmodel/base/arena.h"
#include "planner/launch/config/document.h"

struct tpp_config {
    struct tpp_arena *arena;
    struct tpp_config_entry *entries;
    size_t count, capacity;
    const struct tpp_config_entry **sorted; /* by path, then order; made by tpp_config_finish */
    size_t num_sorted;
    const char *file;
};

/* Where a reader stands: the path so far, in one buffer. */
struct tpp_config_path {
    char text[TPP_CONFIG_MAX_PATH];
    size_t length;
};

enum tpp_code tpp_config_fail(const struct tpp_config *config, enum tpp_code code, uint32_t line, uint32_t column,
                              const char *hint, struct tpp_error *err, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
/* Adds ".key" or ".index"; false when it becomes too long. */
bool tpp_config_path_key(struct tpp_config_path *path, const char *key);
bool tpp_config_path_index(struct tpp_config_path *path, uint32_t index);
/* Copies path and text. *index (may be NULL) is the entry's place. */
enum tpp_code tpp_config_add(struct tpp_config *config, const char *path, enum tpp_config_kind kind, const char *text,
                             uint32_t line, size_t *index, struct tpp_error *err);
/* Sorts, and marks what counts. */
enum tpp_code tpp_config_finish(struct tpp_config *config, struct tpp_error *err);
/* An integer with single underscores between digits, decimal or (has_prefixes) 0x, 0o, 0b, as decimal text in `out` of
 * 24 bytes. False when it is none, or does not fit. */
bool tpp_config_integer(const char *text, bool has_prefixes, char *out);
/* A decimal number with a point or an exponent, or inf and nan with a sign; underscores as above are taken out into
 * `out` of `size` bytes. `needs_point`: YAML 1.1, where 1e5 is a text. */
bool tpp_config_number(const char *text, bool needs_point, char *out, size_t size);

enum tpp_code tpp_config_read_yaml(struct tpp_config *config, const char *text, size_t length, struct tpp_error *err);
enum tpp_code tpp_config_read_toml(struct tpp_config *config, const char *text, size_t length, struct tpp_error *err);

#endif
