/* The samples file: valid JSON lines, whatever the names are, and errors that are noticed. */
#include "calibrate/bench/host_samples.h"
#include "costmodel/base/json_read.h"
#include "tests/support/check_number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "bench-samples-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    strcpy(path, "bench-samples-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

/* The lines of the file; the caller frees *text. */
static size_t read_lines(char **text, char *lines[16])
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    *text = calloc(1, 65536);
    assert_non_null(*text);
    const size_t length = fread(*text, 1, 65535, file);
    fclose(file);
    assert_true(length > 0 && (*text)[length - 1] == '\n');
    size_t count = 0;
    for (char *line = strtok(*text, "\n"); line && count < 16; line = strtok(NULL, "\n")) {
        lines[count++] = line;
    }
    return count;
}

static void rows_read_back_as_they_were_written(void **state)
{
    (void)state;
    struct tpp_bench_samples samples;
    struct tpp_error err = {0};
    const double seconds[] = {1.25e-5, 0.1 + 0.2, 3};
    assert_int_equal(tpp_bench_samples_open(&samples, path, false, &err), TPP_OK);
    tpp_bench_samples_begin(&samples, "run");
    tpp_bench_samples_text(&samples, "device", "N\"V\\\x01 \xc3\xa9\xff");
    tpp_bench_samples_texts(&samples, "command", (const char *const[]){"a b", "c"}, 2);
    tpp_bench_samples_begin_object(&samples, "clocks");
    tpp_bench_samples_number(&samples, "sm_hz", 1.98e9);
    tpp_bench_samples_number(&samples, "memory_hz", 3.2e9);
    tpp_bench_samples_end_object(&samples);
    tpp_bench_samples_begin_object(&samples, "libraries");
    tpp_bench_samples_end_object(&samples);
    tpp_bench_samples_bool(&samples, "after", false);
    assert_int_equal(tpp_bench_samples_end(&samples, &err), TPP_OK);
    tpp_bench_samples_begin(&samples, "gemm");
    tpp_bench_samples_count(&samples, "m", 9007199254740991);
    tpp_bench_samples_bool(&samples, "accumulate", true);
    tpp_bench_samples_text(&samples, "note", NULL);
    tpp_bench_samples_numbers(&samples, "seconds", seconds, 3);
    assert_int_equal(tpp_bench_samples_end(&samples, &err), TPP_OK);
    assert_int_equal(samples.num_lines, 2);
    assert_int_equal(tpp_bench_samples_close(&samples, &err), TPP_OK);

    char *text, *lines[16];
    struct tpp_json_document *document;
    struct tpp_json member, item;
    const char *value = NULL;
    assert_int_equal(read_lines(&text, lines), 2);
    assert_int_equal(tpp_json_parse(lines[0], strlen(lines[0]), "first", &document, &err), TPP_OK);
    assert_int_equal(tpp_json_need_string(tpp_json_root(document), "device", &value, &err), TPP_OK);
    assert_non_null(strstr(
        lines[0], ",\"clocks\":{\"sm_hz\":1980000000,\"memory_hz\":3200000000},\"libraries\":{},\"after\":false}"));
    assert_string_equal(value, "N\"V\\\x01 \xc3\xa9\xef\xbf\xbd"); /* the stray byte is replaced */
    tpp_json_document_free(document);
    assert_int_equal(tpp_json_parse(lines[1], strlen(lines[1]), "second", &document, &err), TPP_OK);
    uint64_t m = 0;
    assert_int_equal(tpp_json_need_u64(tpp_json_root(document), "m", 0, 9007199254740991, &m, &err), TPP_OK);
    assert_int_equal(m, 9007199254740991);
    assert_true(tpp_json_member(tpp_json_root(document), "seconds", &member));
    assert_int_equal(tpp_json_size(member), 3);
    for (size_t i = 0; i < 3; i++) {
        double number = 0;
        tpp_json_at(member, i, &item, NULL);
        assert_int_equal(tpp_json_as_number(item, 0, 10, &number, &err), TPP_OK);
        assert_true(number == seconds[i]); /* to the last bit */
    }
    tpp_json_document_free(document);
    free(text);
}

static void a_number_that_is_not_finite_spoils_its_line_only(void **state)
{
    (void)state;
    struct tpp_bench_samples samples;
    struct tpp_error err = {0};
    char *text, *lines[16];
    assert_int_equal(tpp_bench_samples_open(&samples, path, false, &err), TPP_OK);
    tpp_bench_samples_begin(&samples, "gemm");
    tpp_bench_samples_number(&samples, "m", NAN);
    assert_int_equal(tpp_bench_samples_end(&samples, &err), TPP_E_INTERNAL);
    tpp_bench_samples_begin(&samples, "value");
    tpp_bench_samples_number(&samples, "x", 2);
    assert_int_equal(tpp_bench_samples_end(&samples, &err), TPP_OK);
    assert_int_equal(tpp_bench_samples_close(&samples, &err), TPP_OK);
    assert_int_equal(read_lines(&text, lines), 1);
    assert_string_equal(lines[0], "{\"kind\":\"value\",\"x\":2}");
    free(text);
}

static void appending_keeps_what_was_there(void **state)
{
    (void)state;
    struct tpp_bench_samples samples;
    char *text, *lines[16];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tpp_bench_samples_open(&samples, path, i > 0, NULL), TPP_OK);
        tpp_bench_samples_begin(&samples, "run");
        tpp_bench_samples_count(&samples, "i", (uint64_t)i);
        assert_int_equal(tpp_bench_samples_end(&samples, NULL), TPP_OK);
        assert_int_equal(tpp_bench_samples_close(&samples, NULL), TPP_OK);
    }
    assert_int_equal(read_lines(&text, lines), 2);
    assert_string_equal(lines[1], "{\"kind\":\"run\",\"i\":1}");
    free(text);
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Opened and closed without a line, as by a program that finds no GPU, a file keeps its samples; with one it loses them. */
static void a_file_is_emptied_with_the_first_line(void **state)
{
    (void)state;
    struct tpp_bench_samples samples;
    char *text, *lines[16];
    write_text("{\"kind\":\"run\",\"i\":7}\n{\"kind\":\"run\",\"i\":8}\n");
    assert_int_equal(tpp_bench_samples_open(&samples, path, false, NULL), TPP_OK);
    assert_int_equal(tpp_bench_samples_close(&samples, NULL), TPP_OK);
    assert_int_equal(read_lines(&text, lines), 2);
    free(text);
    assert_int_equal(tpp_bench_samples_open(&samples, path, false, NULL), TPP_OK);
    for (uint64_t i = 1; i < 4; i++) {
        tpp_bench_samples_begin(&samples, "run");
        tpp_bench_samples_count(&samples, "i", i);
        assert_int_equal(tpp_bench_samples_end(&samples, NULL), TPP_OK);
    }
    assert_int_equal(tpp_bench_samples_close(&samples, NULL), TPP_OK);
    assert_int_equal(read_lines(&text, lines), 3);
    assert_string_equal(lines[0], "{\"kind\":\"run\",\"i\":1}");
    free(text);
}

/* The run before was killed in the middle of a line: this run's first line is one of its own. */
static void appending_ends_a_line_that_was_cut(void **state)
{
    (void)state;
    struct tpp_bench_samples samples;
    char *text, *lines[16];
    write_text("{\"kind\":\"run\",\"i\":7}\n{\"kind\":\"ge");
    assert_int_equal(tpp_bench_samples_open(&samples, path, true, NULL), TPP_OK);
    tpp_bench_samples_begin(&samples, "run");
    assert_int_equal(tpp_bench_samples_end(&samples, NULL), TPP_OK);
    assert_int_equal(tpp_bench_samples_close(&samples, NULL), TPP_OK);
    assert_int_equal(read_lines(&text, lines), 3);
    assert_string_equal(lines[1], "{\"kind\":\"ge");
    assert_string_equal(lines[2], "{\"kind\":\"run\"}");
    free(text);
}

static void a_place_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    struct tpp_bench_samples samples;
    struct tpp_error err = {0};
    assert_int_equal(tpp_bench_samples_open(&samples, "no/such/folder/x", false, &err), TPP_E_IO);
    assert_string_equal(err.where, "no/such/folder/x");
    assert_int_equal(tpp_bench_samples_close(&samples, NULL), TPP_OK);
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(tpp_bench_samples_open(&samples, "/dev/full", false, &err), TPP_OK);
        tpp_bench_samples_begin(&samples, "run");
        assert_int_equal(tpp_bench_samples_end(&samples, &err), TPP_E_IO);
        assert_int_equal(tpp_bench_samples_close(&samples, &err), TPP_E_IO);
    }
}

static void the_writer_of_nothing_takes_rows_too(void **state)
{
    (void)state;
    struct tpp_bench_samples samples;
    tpp_bench_samples_open_nothing(&samples);
    tpp_bench_samples_begin(&samples, "run");
    assert_int_equal(tpp_bench_samples_end(&samples, NULL), TPP_OK);
    assert_int_equal(samples.num_lines, 0);
    assert_int_equal(tpp_bench_samples_close(&samples, NULL), TPP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_read_back_as_they_were_written, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_number_that_is_not_finite_spoils_its_line_only, make_file, remove_file),
        cmocka_unit_test_setup_teardown(appending_keeps_what_was_there, make_file, remove_file),
        cmocka_unit_test_setup_teardown(a_file_is_emptied_with_the_first_line, make_file, remove_file),
        cmocka_unit_test_setup_teardown(appending_ends_a_line_that_was_cut, make_file, remove_file),
        cmocka_unit_test(a_place_that_cannot_be_written_is_an_error),
        cmocka_unit_test(the_writer_of_nothing_takes_rows_too),
    };
    return cmocka_run_group_tests_name("bench_samples", tests, NULL, NULL);
}
