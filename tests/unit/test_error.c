/* The error value: what goes in, what is cut, what is replaced, and what each code means outside. */
#include "costmodel/base/error.h"

#include "tests/support/check_number.h"

#include <string.h>

static void an_error_is_filled_in_one_line(void **state)
{
    (void)state;
    struct tpp_error err;
    memset(&err, 'x', sizeof err);
    assert_int_equal(tpp_fail(&err, TPP_E_RANGE, "a.json#/b", "use %d", "%d of %s", 7, "nine"), TPP_E_RANGE);
    assert_int_equal(err.code, TPP_E_RANGE);
    assert_string_equal(err.message, "7 of nine");
    assert_string_equal(err.where, "a.json#/b");
    assert_string_equal(err.hint, "use %d"); /* a hint is no format */
}

static void where_and_hint_may_be_absent(void **state)
{
    (void)state;
    struct tpp_error err;
    memset(&err, 'x', sizeof err);
    tpp_fail(&err, TPP_E_IO, NULL, NULL, "no");
    assert_string_equal(err.where, "");
    assert_string_equal(err.hint, "");
}

static void without_an_error_value_the_code_is_returned(void **state)
{
    (void)state;
    assert_int_equal(tpp_fail(NULL, TPP_E_MEMORY, "x", "y", "%s", "z"), TPP_E_MEMORY);
}

static void an_error_can_be_made_from_its_own_texts(void **state)
{
    (void)state;
    struct tpp_error err;
    tpp_fail(&err, TPP_E_IO, "place", "advice", "inner");
    tpp_fail(&err, TPP_E_SYNTAX, err.hint, err.where, "outer: %s", err.message);
    assert_string_equal(err.message, "outer: inner");
    assert_string_equal(err.where, "advice");
    assert_string_equal(err.hint, "place");
}

static void long_texts_are_cut_between_characters(void **state)
{
    (void)state;
    struct tpp_error err;
    char text[400];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    tpp_fail(&err, TPP_E_IO, text, text, "%s", text);
    assert_int_equal(strlen(err.message), 255);
    assert_int_equal(strlen(err.where), 255);
    assert_int_equal(strlen(err.hint), 255);
    text[255] = '\0';
    tpp_fail(&err, TPP_E_IO, NULL, NULL, "%s", text);
    assert_string_equal(err.message, text); /* 255 characters fit whole */
    memcpy(text + 253, "\xe2\x82\xac", 4);  /* a euro sign, 3 bytes, of which 2 would fit */
    tpp_fail(&err, TPP_E_IO, text, text, "%s", text);
    assert_int_equal(strlen(err.message), 253);
    assert_int_equal(strlen(err.where), 253);
    memcpy(text + 252, "\xe2\x82\xac", 4); /* now it just fits */
    tpp_fail(&err, TPP_E_IO, text, text, "%s", text);
    assert_string_equal(err.message, text);
    assert_string_equal(err.hint, text);
}

static void controls_cannot_reach_the_terminal(void **state)
{
    (void)state;
    struct tpp_error err;
    tpp_fail(&err, TPP_E_IO, "\r\x1b[2J", "\x7f\t",
             "a\nb\x1b]0;c\x07 \xc2\x9b"
             "31m \xc3\xa9");
    assert_string_equal(err.message, "a?b?]0;c? ??31m \xc3\xa9");
    assert_string_equal(err.where, "??[2J");
    assert_string_equal(err.hint, "??");
}

static void codes_have_their_names_and_exit_codes(void **state)
{
    (void)state;
    static const struct {
        enum tpp_code code;
        const char *name;
        int exit_status;
    } rows[] = {
        {TPP_OK, "ok", 0},
        {TPP_E_USAGE, "usage", 2},
        {TPP_E_SYNTAX, "syntax", 3},
        {TPP_E_TYPE, "type", 3},
        {TPP_E_RANGE, "range", 3},
        {TPP_E_MISSING, "missing", 3},
        {TPP_E_UNSUPPORTED, "unsupported", 3},
        {TPP_E_STRATEGY, "strategy", 2},
        {TPP_E_NOT_BUILT, "not_built", 4},
        {TPP_E_IO, "io", 5},
        {TPP_E_MEMORY, "memory", 70},
        {TPP_E_INTERNAL, "internal", 70},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(rows[i].code, i);
        assert_string_equal(tpp_code_name(rows[i].code), rows[i].name);
        assert_int_equal(tpp_code_exit_status(rows[i].code), rows[i].exit_status);
    }
    assert_string_equal(tpp_code_name((enum tpp_code)12), "internal");
    assert_int_equal(tpp_code_exit_status((enum tpp_code)12), 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_is_filled_in_one_line),
        cmocka_unit_test(where_and_hint_may_be_absent),
        cmocka_unit_test(without_an_error_value_the_code_is_returned),
        cmocka_unit_test(an_error_can_be_made_from_its_own_texts),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(controls_cannot_reach_the_terminal),
        cmocka_unit_test(codes_have_their_names_and_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
