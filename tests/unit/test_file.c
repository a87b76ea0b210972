/* Whole files in and out: what may be read, what is left behind when writing fails. */
#include "costmodel/base/file.h"

#include "tests/support/check_number.h"
#include "tests/support/failing_alloc.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "file_test_XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[2][300];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "file_test_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* How many files the folder holds; removes them too when asked. */
static int count_files(bool is_removing)
{
    int count = 0;
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries)) {
        if (entry->d_name[0] != '.') {
            count++;
            if (is_removing) {
                remove(in_folder(entry->d_name));
            }
        }
    }
    closedir(entries);
    return count;
}

static int remove_folder(void **state)
{
    (void)state;
    count_files(true);
    return rmdir(folder);
}

static void check_content(const char *path, const char *expected)
{
    char *data;
    size_t length;
    struct tpp_error err;
    if (tpp_file_read(path, 1 << 20, &data, &length, &err) != TPP_OK) {
        fail_msg("%s: %s", err.where, err.message);
    }
    assert_int_equal(length, strlen(expected));
    assert_string_equal(data, expected);
    free(data);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    struct tpp_error err;
    struct stat info;
    const mode_t mask = umask(077);
    assert_int_equal(tpp_file_write(in_folder("a"), "first", 5, 0755, &err), TPP_OK);
    check_content(in_folder("a"), "first");
    assert_int_equal(tpp_file_write(in_folder("a"), "", 0, 0644, &err), TPP_OK);
    umask(mask);
    check_content(in_folder("a"), "");
    assert_int_equal(stat(in_folder("a"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0644);
    assert_int_equal(count_files(false), 1);
}

static void bytes_and_sizes_are_exact(void **state)
{
    (void)state;
    enum { SIZE = 100003 }; /* several times the buffer, no multiple of it */
    char *written = malloc(SIZE), *data;
    size_t length;
    struct tpp_error err;
    assert_non_null(written);
    for (size_t i = 0; i < SIZE; i++) {
        written[i] = (char)(i * 7);
    }
    assert_int_equal(tpp_file_write(in_folder("a"), written, SIZE, 0644, &err), TPP_OK);
    assert_int_equal(tpp_file_read(in_folder("a"), SIZE, &data, &length, &err), TPP_OK);
    assert_int_equal(length, SIZE);
    assert_memory_equal(data, written, SIZE);
    assert_int_equal(data[SIZE], '\0');
    free(data);
    assert_int_equal(tpp_file_read(in_folder("a"), SIZE - 1, &data, &length, &err), TPP_E_IO);
    assert_string_equal(err.message, "larger than the 100002 bytes that are read at most");
    assert_null(data);
    free(written);
}

static void check_unreadable(const char *path, const char *message)
{
    char *data = (char *)-1;
    size_t length;
    struct tpp_error err = {0};
    assert_int_equal(tpp_file_read(path, 1000, &data, &length, &err), TPP_E_IO);
    assert_null(data);
    assert_string_equal(err.message, message);
    assert_string_equal(err.where, path);
    assert_true(err.hint[0] != '\0');
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    check_unreadable(in_folder("absent"), "cannot read: No such file or directory");
    check_unreadable("", "cannot read: No such file or directory");
    check_unreadable(folder, "cannot read a folder");
    check_unreadable("/dev/zero", "cannot read a device or socket");
}

/* Runs `text` through a named pipe or, with a NULL name, through standard input. */
static void check_pipe(const char *name, const char *text)
{
    int ends[2];
    const int saved = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], text, strlen(text)), (ssize_t)strlen(text));
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    close(ends[0]);
    check_content(name ? name : "-", text);
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void pipes_and_standard_input_are_read(void **state)
{
    (void)state;
    check_pipe(NULL, "from standard input");
    check_pipe("/dev/stdin", "through a pipe");
}

static void a_folder_as_standard_input_is_refused(void **state)
{
    (void)state;
    const int saved = dup(STDIN_FILENO);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0 && saved >= 0);
    dup2(fd, STDIN_FILENO);
    close(fd);
    check_unreadable("-", "cannot read a folder");
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void what_cannot_be_written_says_why(void **state)
{
    (void)state;
    struct tpp_error err;
    assert_int_equal(tpp_file_write(in_folder("no/such"), "x", 1, 0644, &err), TPP_E_IO);
    assert_string_equal(err.message, "cannot write: No such file or directory");
    assert_true(err.hint[0] != '\0');
    assert_int_equal(tpp_file_write(folder, "x", 1, 0644, &err), TPP_E_IO);
    assert_string_equal(err.message, "cannot write a folder");
    assert_int_equal(tpp_file_write("/dev/full", "x", 1, 0644, &err), TPP_E_IO);
    assert_string_equal(err.message, "cannot write: No space left on device");
    assert_int_equal(count_files(false), 0);
}

static void a_failed_write_leaves_the_old_file_and_nothing_else(void **state)
{
    (void)state;
    struct tpp_error err;
    struct rlimit old, small;
    char data[2000];
    memset(data, 'n', sizeof data);
    assert_int_equal(tpp_file_write(in_folder("a"), "old", 3, 0644, &err), TPP_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 1000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const enum tpp_code code = tpp_file_write(in_folder("a"), data, sizeof data, 0644, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(code, TPP_E_IO);
    assert_string_equal(err.message, "cannot write: File too large");
    check_content(in_folder("a"), "old");
    assert_int_equal(count_files(false), 1);
}

static void links_and_devices_stay_what_they_are(void **state)
{
    (void)state;
    struct tpp_error err;
    struct stat info;
    assert_int_equal(tpp_file_write(in_folder("real"), "old", 3, 0644, &err), TPP_OK);
    assert_int_equal(symlink("real", in_folder("link")), 0);
    assert_int_equal(tpp_file_write(in_folder("link"), "new", 3, 0644, &err), TPP_OK);
    check_content(in_folder("real"), "new");
    assert_int_equal(lstat(in_folder("link"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(tpp_file_write("/dev/null", "x", 1, 0644, &err), TPP_OK);
    assert_int_equal(stat("/dev/null", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

/* A hard link and a symbolic one are the file itself, a copy is not; what is not there is known by folder and name. */
static void one_file_is_known_by_all_its_names(void **state)
{
    (void)state;
    char path[300];
    assert_int_equal(tpp_file_write(in_folder("a"), "x", 1, 0644, NULL), TPP_OK);
    assert_int_equal(tpp_file_write(in_folder("copy"), "x", 1, 0644, NULL), TPP_OK);
    assert_int_equal(symlink("a", in_folder("soft")), 0);
    assert_int_equal(link(in_folder("a"), in_folder("hard")), 0);
    assert_true(tpp_file_is_same(in_folder("a"), in_folder("soft")));
    assert_true(tpp_file_is_same(in_folder("hard"), in_folder("a")));
    assert_false(tpp_file_is_same(in_folder("copy"), in_folder("a")));
    assert_false(tpp_file_is_same(in_folder("new"), in_folder("a")));
    snprintf(path, sizeof path, "./%s//new", folder);
    assert_true(tpp_file_is_same(in_folder("new"), path));
    assert_false(tpp_file_is_same(in_folder("newer"), path));
    assert_false(tpp_file_is_same("new", path)); /* another folder */
    assert_false(tpp_file_is_same("-", "-"));
    assert_false(tpp_file_is_same("/dev/null", "/dev/null")); /* keeps nothing */
}

static void running_out_of_memory_is_an_error_like_any_other(void **state)
{
    (void)state;
    static char large[100000];
    struct tpp_error err;
    uint64_t n = 0;
    assert_int_equal(tpp_file_write(in_folder("a"), large, sizeof large, 0644, &err), TPP_OK);
    for (;; n++) {
        char *data = NULL;
        size_t length;
        tpp_failing_alloc_arm(n);
        enum tpp_code code = tpp_file_read(in_folder("a"), sizeof large, &data, &length, &err);
        if (code == TPP_OK) {
            code = tpp_file_write(in_folder("b"), data, length, 0644, &err);
        }
        const bool has_failed = tpp_failing_alloc_disarm();
        free(data);
        assert_int_equal(code, has_failed ? TPP_E_MEMORY : TPP_OK);
        if (!has_failed) {
            break;
        }
    }
    assert_true(n >= 4);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_written_is_read_back),
        IN_FOLDER(bytes_and_sizes_are_exact),
        IN_FOLDER(what_is_no_file_is_refused),
        IN_FOLDER(pipes_and_standard_input_are_read),
        IN_FOLDER(a_folder_as_standard_input_is_refused),
        IN_FOLDER(what_cannot_be_written_says_why),
        IN_FOLDER(a_failed_write_leaves_the_old_file_and_nothing_else),
        IN_FOLDER(links_and_devices_stay_what_they_are),
        IN_FOLDER(one_file_is_known_by_all_its_names),
        IN_FOLDER(running_out_of_memory_is_an_error_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
