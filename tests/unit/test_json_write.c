/* JSON output: its exact text, numbers that read back equal, and what makes it fail. */
#include "costmodel/base/json_write.h"

#include "tests/support/check_number.h"

#include <string.h>

static void check_printed(struct tpp_json_writer *writer, const char *expected)
{
    struct tpp_text text;
    struct tpp_error err;
    tpp_text_init(&text);
    assert_int_equal(tpp_json_print(writer, &text, &err), TPP_OK);
    assert_string_equal(tpp_text_get(&text), expected);
    tpp_text_release(&text);
    tpp_json_writer_release(writer);
}

static void keys_stay_in_order_and_levels_are_indented(void **state)
{
    (void)state;
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    tpp_json_add_u64(&writer, writer.root, "z", 1);
    struct cJSON *plan = tpp_json_add_object(&writer, writer.root, "plan");
    tpp_json_add_bool(&writer, plan, "fits", true);
    tpp_json_add_bool(&writer, plan, "is_slow", false);
    tpp_json_add_null(&writer, plan, "launch");
    tpp_json_add_string(&writer, plan, "hint", NULL);
    struct cJSON *numbers = tpp_json_add_array(&writer, writer.root, "numbers");
    tpp_json_add_number(&writer, numbers, NULL, 0.5);
    tpp_json_add_string(&writer, numbers, NULL, "x");
    struct cJSON *rows = tpp_json_add_array(&writer, writer.root, "rows");
    tpp_json_add_u64(&writer, tpp_json_add_object(&writer, rows, NULL), "a", 7);
    tpp_json_add_object(&writer, rows, NULL);
    tpp_json_add_object(&writer, writer.root, "empty");
    tpp_json_add_array(&writer, writer.root, "none");
    check_printed(&writer, "{\n"
                           "  \"z\": 1,\n"
                           "  \"plan\": {\n"
                           "    \"fits\": true,\n"
                           "    \"is_slow\": false,\n"
                           "    \"launch\": null,\n"
                           "    \"hint\": null\n"
                           "  },\n"
                           "  \"numbers\": [0.5, \"x\"],\n"
                           "  \"rows\": [\n"
                           "    {\n"
                           "      \"a\": 7\n"
                           "    },\n"
                           "    {}\n"
                           "  ],\n"
                           "  \"empty\": {},\n"
                           "  \"none\": []\n"
                           "}\n");
}

static void an_empty_object_is_printed_with_a_newline(void **state)
{
    (void)state;
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    check_printed(&writer, "{}\n");
    tpp_json_writer_release(&writer); /* twice is fine */
}

static void numbers_are_the_shortest_that_read_back_equal(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0.1, "0.1"},
        {0.1 + 0.2, "0.30000000000000004"}, /* the sum is the next double after 0.3 */
        {1.0 / 3, "0.3333333333333333"},    /* 16 digits are enough */
        {9007199254740991.0, "9007199254740991"},
        {1e15, "1e+15"},
        {0, "0"},
        {-0.0, "-0"},
        {-2.5, "-2.5"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {5e-324, "4.94065645841247e-324"},
    };
    char buffer[32];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(tpp_json_number_text(buffer, sizeof buffer, rows[i].value), rows[i].text);
    }
}

static void counts_keep_all_64_bits(void **state)
{
    (void)state;
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    tpp_json_add_u64(&writer, writer.root, "n", UINT64_MAX);
    check_printed(&writer, "{\n  \"n\": 18446744073709551615\n}\n");
}

static void texts_and_names_are_escaped_and_repaired(void **state)
{
    (void)state;
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    tpp_json_add_string(&writer, writer.root, "a\"\n", "\"\\\b\f\n\r\t\x01\x1f\x7f/ \xc3\xa9 \xf0\x9f\x98\x80");
    tpp_json_add_string(&writer, writer.root, "bad", "a\xff\xc3(\xe2\x82");
    tpp_json_add_string(&writer, writer.root, "\xc0", "");
    check_printed(&writer,
                  "{\n"
                  "  \"a\\\"\\n\": \"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\\u007f/ \xc3\xa9 \xf0\x9f\x98\x80\",\n"
                  "  \"bad\": \"a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\",\n"
                  "  \"\xef\xbf\xbd\": \"\"\n"
                  "}\n");
}

static void a_number_that_is_not_finite_is_our_bug(void **state)
{
    (void)state;
    static const double wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        struct tpp_json_writer writer;
        struct tpp_text text;
        struct tpp_error err;
        tpp_json_writer_init(&writer);
        tpp_text_init(&text);
        tpp_json_add_number(&writer, writer.root, "x", wrong[i]);
        assert_true(writer.failed);
        assert_int_equal(tpp_json_print(&writer, &text, &err), TPP_E_INTERNAL);
        assert_non_null(strstr(err.message, "not finite"));
        assert_string_equal(tpp_text_get(&text), "");
        tpp_text_release(&text);
        tpp_json_writer_release(&writer);
    }
}

static void without_a_parent_nothing_happens(void **state)
{
    (void)state;
    struct tpp_json_writer writer;
    tpp_json_writer_init(&writer);
    assert_null(tpp_json_add_object(&writer, NULL, "a"));
    assert_null(tpp_json_add_array(&writer, NULL, "a"));
    tpp_json_add_number(&writer, NULL, "a", NAN);
    tpp_json_add_u64(&writer, NULL, "a", 1);
    tpp_json_add_bool(&writer, NULL, "a", true);
    tpp_json_add_null(&writer, NULL, "a");
    tpp_json_add_string(&writer, NULL, "a", "b");
    tpp_json_add_string(&writer, NULL, "a", NULL);
    assert_false(writer.failed);
    check_printed(&writer, "{}\n");
}

static void printing_appends(void **state)
{
    (void)state;
    struct tpp_json_writer writer;
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_text_append(&text, "before\n");
    tpp_json_writer_init(&writer);
    assert_int_equal(tpp_json_print(&writer, &text, NULL), TPP_OK);
    assert_string_equal(tpp_text_get(&text), "before\n{}\n");
    tpp_text_release(&text);
    tpp_json_writer_release(&writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_stay_in_order_and_levels_are_indented),
        cmocka_unit_test(an_empty_object_is_printed_with_a_newline),
        cmocka_unit_test(numbers_are_the_shortest_that_read_back_equal),
        cmocka_unit_test(counts_keep_all_64_bits),
        cmocka_unit_test(texts_and_names_are_escaped_and_repaired),
        cmocka_unit_test(a_number_that_is_not_finite_is_our_bug),
        cmocka_unit_test(without_a_parent_nothing_happens),
        cmocka_unit_test(printing_appends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
