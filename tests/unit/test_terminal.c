/* Text that came from strangers is safe on a terminal, and tables fit. */
#include "cli/terminal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

/* cmocka.h needs setjmp.h, stdarg.h, stddef.h and stdint.h before it. */
#include <cmocka.h>

static void check_safe(const char *text, const char *expected)
{
    struct tpp_text out;
    tpp_text_init(&out);
    tpp_terminal_append(&out, text);
    assert_string_equal(tpp_text_get(&out), expected);
    tpp_text_release(&out);
}

static void control_characters_become_question_marks(void **state)
{
    (void)state;
    check_safe("plain-name", "plain-name");
    check_safe("a\x1b[31mred", "a?[31mred");
    check_safe("line\nbreak\r\t\x7f", "line?break???");
    check_safe("\xc2\x9b"
               "31m",
               "?31m"); /* CSI as a C1 control in UTF-8 */
    check_safe("a\xe2\x80\xae"
               "b",
               "a?b"); /* right-to-left override */
    check_safe("\xef\xbb\xbf"
               "x",
               "?x"); /* byte order mark */
}

static void text_in_utf8_stays_and_the_rest_goes(void **state)
{
    (void)state;
    check_safe("\xe6\xa8\xa1\xe5\x9e\x8b", "\xe6\xa8\xa1\xe5\x9e\x8b");
    check_safe("\xff\xfe", "??");
    check_safe("\xc0\xaf", "??"); /* an overlong slash */
    check_safe("cut\xe6\xa8", "cut??");
}

static void wrapped_lines_keep_to_the_width(void **state)
{
    struct tpp_text out;
    (void)state;
    tpp_text_init(&out);
    tpp_terminal_append_wrapped(&out, "one two  three four", 0, 2, 9);
    assert_string_equal(tpp_text_get(&out), "one two\n  three\n  four\n");
    tpp_text_clear(&out);
    tpp_terminal_append_wrapped(&out, "averyverylongword x", 0, 0, 5);
    assert_string_equal(tpp_text_get(&out), "averyverylongword\nx\n");
    tpp_text_release(&out);
}

static const struct tpp_table_column columns[] = {
    {"NAME", true, 0}, {"SIZE", false, 1}, {"NOTE", true, 2}, {"TIME", false, 0}};

static struct tpp_table *small_table(void)
{
    struct tpp_table *table = tpp_table_new(columns, 4);
    tpp_table_cell(table, "%s", "first");
    tpp_table_cell(table, "%d", 7);
    tpp_table_cell(table, "%s", "short");
    tpp_table_cell(table, "%s", "1.5 s");
    tpp_table_cell(table, "%s", "b");
    tpp_table_cell(table, "%d", 123456);
    tpp_table_cell(table, "%s", "");
    tpp_table_cell(table, "%s", "12 s");
    return table;
}

static void columns_are_aligned(void **state)
{
    struct tpp_text out;
    struct tpp_table *table = small_table();
    (void)state;
    tpp_text_init(&out);
    assert_true(tpp_table_append(table, 80, &out));
    assert_string_equal(tpp_text_get(&out), "NAME     SIZE  NOTE    TIME\n"
                                            "first       7  short  1.5 s\n"
                                            "b      123456          12 s\n");
    tpp_table_free(table);
    tpp_text_release(&out);
}

static void narrow_tables_lose_columns_by_priority_and_say_so(void **state)
{
    struct tpp_text out;
    struct tpp_table *table = small_table();
    (void)state;
    tpp_text_init(&out);
    assert_true(tpp_table_append(table, 26, &out)); /* the whole table is 5+2+6+2+5+2+5 = 27 wide */
    assert_string_equal(tpp_text_get(&out), "NAME     SIZE   TIME\n"
                                            "first       7  1.5 s\n"
                                            "b      123456   12 s\n"
                                            "(too narrow for: NOTE)\n");
    tpp_text_clear(&out);
    assert_true(tpp_table_append(table, 1, &out)); /* columns of priority 0 always stay */
    assert_non_null(strstr(tpp_text_get(&out), "NAME    TIME\n"));
    assert_non_null(strstr(tpp_text_get(&out), "(too narrow for: SIZE, NOTE)\n"));
    tpp_table_free(table);
    tpp_text_release(&out);
}

static void an_incomplete_row_is_no_table(void **state)
{
    struct tpp_text out;
    struct tpp_table *table = small_table();
    (void)state;
    tpp_text_init(&out);
    tpp_table_cell(table, "%s", "lonely");
    assert_false(tpp_table_append(table, 80, &out));
    tpp_table_free(table);
    tpp_text_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_characters_become_question_marks),
        cmocka_unit_test(text_in_utf8_stays_and_the_rest_goes),
        cmocka_unit_test(wrapped_lines_keep_to_the_width),
        cmocka_unit_test(columns_are_aligned),
        cmocka_unit_test(narrow_tables_lose_columns_by_priority_and_say_so),
        cmocka_unit_test(an_incomplete_row_is_no_table),
    };
    return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
