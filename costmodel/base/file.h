/* file.h - whole files in and out. */
#ifndef TPP_COSTMODEL_BASE_FILE_H
#define TPP_COSTMODEL_BASE_FILE_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Reads a regular file, a pipe or "-" (standard input) of at most `max_bytes` into a fresh terminated buffer that the
 * caller frees with free(). A folder, a device or a larger file is an error (TPP_E_IO); *length excludes the terminator.
 * On failure *data is NULL. */
enum tpp_code tpp_file_read(const char *path, size_t max_bytes, char **data, size_t *length, struct tpp_error *err);
/* Writes through a temporary file in the same folder and rename(2): the old file stays whole when anything fails.
 * `mode` are the permission bits (0644, 0755 for scripts). Through a symbolic link the file behind it is replaced; a
 * device or pipe is written in place. */
enum tpp_code tpp_file_write(const char *path, const char *data, size_t length, unsigned mode, struct tpp_error *err);
/* Whether two paths name one regular file: the same device and inode, through links too; of files that are not there yet,
 * the same name in the same folder. "-" and "" are no files. */
bool tpp_file_is_same(const char *left, const char *right);

#endif
