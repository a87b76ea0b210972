/* source_file.h - files of the source tree in tests: TPP_SOURCE_ROOT names its root. */
#ifndef TPP_TESTS_SUPPORT_SOURCE_FILE_H
#define TPP_TESTS_SUPPORT_SOURCE_FILE_H

#include <stdio.h>
#include <stdlib.h>

/* Writes the path of `name` below the source's root into `path` and returns it. */
static inline const char *source_path(char *path, size_t size, const char *name)
{
    const char *root = getenv("TPP_SOURCE_ROOT");
    snprintf(path, size, "%s/%s", root ? root : ".", name);
    return path;
}

#endif
