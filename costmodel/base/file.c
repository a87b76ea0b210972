#include "costmodel/base/file.h"

#include "costmodel/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum tpp_code fail_errno(struct tpp_error *err, const char *path, const char *hint, const char *action)
{
    const int number = errno;
    char reason[128];
    if (strerror_r(number, reason, sizeof reason) != 0) {
        snprintf(reason, sizeof reason, "error %d", number);
    }
    return tpp_fail(err, TPP_E_IO, path, hint, "%s: %s", action, reason);
}

/* Standard input may also be a terminal or another character device: whoever started the program chose it. */
static enum tpp_code check_readable_kind(const struct stat *info, bool is_stdin, const char *path,
                                         struct tpp_error *err)
{
    if (S_ISREG(info->st_mode) || S_ISFIFO(info->st_mode)) {
        return TPP_OK;
    }
    if (is_stdin && (S_ISCHR(info->st_mode) || S_ISSOCK(info->st_mode))) {
        return TPP_OK;
    }
    if (S_ISDIR(info->st_mode)) {
        return tpp_fail(err, TPP_E_IO, path, "name a file in it", "cannot read a folder");
    }
    return tpp_fail(err, TPP_E_IO, path, "name a regular file or a pipe", "cannot read a device or socket");
}

/* Looks at the kind before opening, because opening a device can already do something. */
static enum tpp_code open_to_read(const char *path, int *fd, struct tpp_error *err)
{
    struct stat info;
    const bool is_stdin = strcmp(path, "-") == 0;
    const char *hint = "check the name, and that you may read it";
    if (is_stdin) {
        *fd = STDIN_FILENO;
    } else {
        if (stat(path, &info) != 0) {
            return fail_errno(err, path, hint, "cannot read");
        }
        const enum tpp_code code = check_readable_kind(&info, false, path, err);
        if (code != TPP_OK) {
            return code;
        }
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (*fd < 0) {
            return fail_errno(err, path, hint, "cannot read");
        }
    }
    enum tpp_code code = TPP_OK;
    if (fstat(*fd, &info) != 0) {
        code = fail_errno(err, path, hint, "cannot read");
    } else {
        code = check_readable_kind(&info, is_stdin, path, err);
    }
    if (code != TPP_OK && !is_stdin) {
        close(*fd);
    }
    return code;
}

static bool read_some(int fd, char *data, size_t size, size_t *got)
{
    ssize_t n;
    do {
        n = read(fd, data, size);
    } while (n < 0 && errno == EINTR);
    *got = n > 0 ? (size_t)n : 0;
    return n >= 0;
}

/* Reads to the end into *data (which the caller frees, also on failure). The size that the system reports is not
 * trusted: pipes have none, and a file can grow while it is read. */
static enum tpp_code read_all(int fd, const char *path, size_t max_bytes, char **data, size_t *length,
                              struct tpp_error *err)
{
    size_t capacity = 0, used = 0;
    for (;;) {
        if (used + 1 >= capacity) {
            capacity = capacity ? 2 * capacity : 16 * 1024;
            char *grown = realloc(*data, capacity);
            if (!grown) {
                return tpp_fail(err, TPP_E_MEMORY, path, NULL, "out of memory after reading %zu bytes", used);
            }
            *data = grown;
        }
        size_t got;
        if (!read_some(fd, *data + used, capacity - used - 1, &got)) {
            return fail_errno(err, path, NULL, "cannot read");
        }
        used += got;
        if (used > max_bytes) {
            return tpp_fail(err, TPP_E_IO, path, "check that this is the right file",
                            "larger than the %zu bytes that are read at most", max_bytes);
        }
        if (got == 0) {
            (*data)[used] = '\0';
            *length = used;
            return TPP_OK;
        }
    }
}

enum tpp_code tpp_file_read(const char *path, size_t max_bytes, char **data, size_t *length, struct tpp_error *err)
{
    int fd = -1;
    *data = NULL;
    *length = 0;
    enum tpp_code code = open_to_read(path, &fd, err);
    if (code != TPP_OK) {
        return code;
    }
    const char *shown = fd == STDIN_FILENO ? "standard input" : path;
    code = read_all(fd, shown, max_bytes, data, length, err);
    if (fd != STDIN_FILENO) {
        close(fd);
    }
    if (code != TPP_OK) {
        free(*data);
        *data = NULL;
    }
    return code;
}

static bool write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        const ssize_t n = write(fd, data, length);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            data += n;
            length -= (size_t)n;
        }
    }
    return true;
}

/* A pipe or a device is written as it is: there is no old content to keep, and a rename would replace the device. */
static enum tpp_code write_in_place(const char *path, const char *data, size_t length, struct tpp_error *err)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return fail_errno(err, path, NULL, "cannot write");
    }
    const bool is_written = write_all(fd, data, length);
    const int number = errno;
    if (close(fd) == 0 && is_written) {
        return TPP_OK;
    }
    if (!is_written) {
        errno = number;
    }
    return fail_errno(err, path, NULL, "cannot write");
}

/* Writes, flushes and closes the temporary file; false with errno set. */
static bool fill_and_close(int fd, const char *data, size_t length, unsigned mode)
{
    const bool is_filled = write_all(fd, data, length) && fchmod(fd, (mode_t)mode) == 0 && fsync(fd) == 0;
    const int number = errno;
    const bool is_closed = close(fd) == 0;
    if (!is_filled) {
        errno = number;
    }
    return is_filled && is_closed;
}

static enum tpp_code write_and_rename(const char *path, const char *data, size_t length, unsigned mode,
                                      struct tpp_error *err)
{
    struct tpp_text temporary;
    tpp_text_init(&temporary);
    tpp_text_format(&temporary, "%s.XXXXXX", path);
    enum tpp_code code = TPP_OK;
    if (tpp_text_failed(&temporary)) {
        code = tpp_fail(err, TPP_E_MEMORY, path, NULL, "out of memory");
        goto out;
    }
    const int fd = mkstemp(temporary.data);
    if (fd < 0) {
        code = fail_errno(err, path, "check that the folder exists and that you may write there", "cannot write");
        goto out;
    }
    if (!fill_and_close(fd, data, length, mode) || rename(temporary.data, path) != 0) {
        code = fail_errno(err, path, "check the free space and the permissions of the folder", "cannot write");
        unlink(temporary.data);
    }
out:
    tpp_text_release(&temporary);
    return code;
}

enum tpp_code tpp_file_write(const char *path, const char *data, size_t length, unsigned mode, struct tpp_error *err)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return write_and_rename(path, data, length, mode, err);
    }
    if (S_ISDIR(info.st_mode)) {
        return tpp_fail(err, TPP_E_IO, path, "name a file in it", "cannot write a folder");
    }
    if (!S_ISREG(info.st_mode)) {
        return write_in_place(path, data, length, err);
    }
    char *target = realpath(path, NULL); /* the file behind a link is replaced, not the link */
    if (!target) {
        return fail_errno(err, path, NULL, "cannot write");
    }
    const enum tpp_code code = write_and_rename(target, data, length, mode, err);
    free(target);
    return code;
}

static bool is_same_inode(const struct stat *left, const struct stat *right)
{
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino;
}

/* The folder that a path without a file behind it is in. */
static bool stat_folder(const char *path, struct stat *info)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    const bool is_there = folder && stat(folder, info) == 0;
    free(folder);
    return is_there;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool tpp_file_is_same(const char *left, const char *right)
{
    struct stat left_info, right_info;
    if (!left[0] || !right[0] || strcmp(left, "-") == 0 || strcmp(right, "-") == 0) {
        return false;
    }
    const bool has_left = stat(left, &left_info) == 0, has_right = stat(right, &right_info) == 0;
    if (has_left || has_right) {
        return has_left && has_right && S_ISREG(left_info.st_mode) && is_same_inode(&left_info, &right_info);
    }
    return strcmp(name_of(left), name_of(right)) == 0 && stat_folder(left, &left_info) &&
           stat_folder(right, &right_info) && is_same_inode(&left_info, &right_info);
}
