/* What people type and read: sizes, bandwidths, counts. Expected values are worked out by hand beside each. */
#include "costmodel/base/units.h"

#include "tests/support/check_number.h"

#include <string.h>

static uint64_t bytes(const char *text)
{
    uint64_t value = 12345;
    assert_int_equal(tpp_parse_bytes(text, "--size", &value, NULL), TPP_OK);
    return value;
}

static void sizes_have_decimal_and_binary_units(void **state)
{
    (void)state;
    assert_int_equal(bytes("0"), 0);
    assert_int_equal(bytes("7"), 7);
    assert_int_equal(bytes("7B"), 7);
    assert_int_equal(bytes("80GB"), UINT64_C(80000000000));
    assert_int_equal(bytes("80 GB"), UINT64_C(80000000000));
    assert_int_equal(bytes("3kB"), 3000);
    assert_int_equal(bytes("3KB"), 3000);
    assert_int_equal(bytes("913MB"), UINT64_C(913000000));
    assert_int_equal(bytes("2TB"), UINT64_C(2000000000000));
    assert_int_equal(bytes("3KiB"), 3072);
    assert_int_equal(bytes("5MiB"), 5242880);
    assert_int_equal(bytes("141GiB"), UINT64_C(151397597184)); /* 141 * 1073741824 */
    assert_int_equal(bytes("1TiB"), UINT64_C(1099511627776));
    assert_int_equal(bytes("3K"), 3072);
    assert_int_equal(bytes("5M"), 5242880);
    assert_int_equal(bytes("1G"), 1073741824);
    assert_int_equal(bytes("1T"), UINT64_C(1099511627776));
}

static void fractions_of_a_size_are_rounded_to_whole_bytes(void **state)
{
    (void)state;
    assert_int_equal(bytes("1.5GiB"), UINT64_C(1610612736));
    assert_int_equal(bytes("0.1KiB"), 102); /* 102.4 */
    assert_int_equal(bytes("0.0005kB"), 1); /* half a byte, upwards */
    assert_int_equal(bytes("28.21GiB"),
                     UINT64_C(30290256855)); /* 28 * 2^30 = 30064771072, + 0.21 * 2^30 = 225485783.04 */
    assert_int_equal(bytes("80.0"), 80);
}

static void largest_size_is_exact_and_the_next_is_refused(void **state)
{
    (void)state;
    struct tpp_error err;
    uint64_t value = 99;
    assert_int_equal(bytes("9223372036854775807"), INT64_MAX);
    assert_int_equal(tpp_parse_bytes("9223372036854775808", "--size", &value, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "--size");
    assert_int_equal(tpp_parse_bytes("99999999999999999999999", "--size", &value, &err), TPP_E_RANGE);
    assert_int_equal(tpp_parse_bytes("8388608TiB", "--size", &value, &err), TPP_E_RANGE); /* 2^23 * 2^40 = 2^63 */
    assert_int_equal(bytes("8388607TiB"), INT64_MAX - (INT64_C(1) << 40) + 1);
    assert_int_equal(value, 99);
}

static void what_is_no_size_is_refused_with_the_text_and_a_hint(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",       " 1",    "1 ",    "-1",  "+1",     "GB",   "80gb", "80Gb",
                                        "80 G B", "1e3",   "0x10",  "1.",  ".5",     "1..5", "nan",  "inf",
                                        "1,5",    "80GBx", "1  GB", "1\n", "80 GB ", "1.5B", "1.5"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct tpp_error err = {0};
        uint64_t value = 99;
        if (tpp_parse_bytes(wrong[i], "--size", &value, &err) != TPP_E_SYNTAX || value != 99) {
            fail_msg("\"%s\" was not refused as it should be", wrong[i]);
        }
        assert_true(err.hint[0] != '\0');
    }
    struct tpp_error err;
    uint64_t value;
    tpp_parse_bytes("80gb", "--size", &value, &err);
    assert_string_equal(err.message, "not a size, found \"80gb\"");
    tpp_parse_bytes("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "--size", &value, &err); /* 44 characters */
    assert_string_equal(err.message, "not a size, found \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"");
}

static double bandwidth(const char *text)
{
    double value = -1;
    assert_int_equal(tpp_parse_bandwidth(text, "link", &value, NULL), TPP_OK);
    return value;
}

static void bandwidths_are_bytes_or_bits_a_second(void **state)
{
    (void)state;
    CHECK_NUMBER(bandwidth("125"), 125, 0);
    CHECK_NUMBER(bandwidth("125B/s"), 125, 0);
    CHECK_NUMBER(bandwidth("3kB/s"), 3000, 0);
    CHECK_NUMBER(bandwidth("21.7 GB/s"), 21.7e9, 1e-15);
    CHECK_NUMBER(bandwidth("4.8TB/s"), 4.8e12, 1e-15);
    CHECK_NUMBER(bandwidth("913MB/s"), 913e6, 0);
    CHECK_NUMBER(bandwidth("400Gb/s"), 50e9, 0); /* 400 / 8 */
    CHECK_NUMBER(bandwidth("100Mb/s"), 12.5e6, 0);
    CHECK_NUMBER(bandwidth("1.6Tb/s"), 200e9, 1e-15);
    CHECK_NUMBER(bandwidth("1e9"), 1e9, 0);
}

static void what_is_no_bandwidth_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",   "fast", "-1",       "400Gbps", "400 GB",
                                        "1 ", "GB/s", "1 GB/s/s", "0x1p3",   "inf"};
    struct tpp_error err;
    double value = 99;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(tpp_parse_bandwidth(wrong[i], "link", &value, &err), TPP_E_SYNTAX);
        assert_true(err.hint[0] != '\0');
    }
    assert_int_equal(tpp_parse_bandwidth("1e999", "link", &value, &err), TPP_E_RANGE);
    assert_int_equal(tpp_parse_bandwidth("1e300TB/s", "link", &value, &err), TPP_E_RANGE);
    CHECK_NUMBER(value, 99, 0);
}

static uint64_t count(const char *text)
{
    uint64_t value = 12345;
    assert_int_equal(tpp_parse_count(text, "--count", &value, NULL), TPP_OK);
    return value;
}

static void counts_are_exact_whole_numbers(void **state)
{
    (void)state;
    assert_int_equal(count("0"), 0);
    assert_int_equal(count("1536"), 1536);
    assert_int_equal(count("5k"), 5000);
    assert_int_equal(count("5K"), 5000);
    assert_int_equal(count("1.5M"), 1500000);
    assert_int_equal(count("3G"), UINT64_C(3000000000));
    assert_int_equal(count("5e8"), 500000000);
    assert_int_equal(count("5E+8"), 500000000);
    assert_int_equal(count("1.25e3"), 1250);
    assert_int_equal(count("1200e-2"), 12);
    assert_int_equal(count("2.000"), 2);
    assert_int_equal(count("0e999999999999"), 0);
    assert_int_equal(count("0.0e-999999999999"), 0);
    assert_true(count("18446744073709551615") == UINT64_MAX);
    assert_true(count("9007199254740993") == UINT64_C(9007199254740993)); /* 2^53 + 1: no double holds it */
}

static void what_is_no_whole_number_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",     "-5",   "+5", "1.5", "1e-1", "1.25e1", "5T",
                                        "5e8k", "five", "5 ", "1e",  "0x5",  "1_000"};
    static const char *const too_large[] = {"18446744073709551616", "1e20", "18446744073709551615k", "1e999999999999"};
    struct tpp_error err;
    uint64_t value = 99;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(tpp_parse_count(wrong[i], "--count", &value, &err), TPP_E_SYNTAX);
        assert_true(err.hint[0] != '\0');
    }
    for (size_t i = 0; i < sizeof too_large / sizeof too_large[0]; i++) {
        assert_int_equal(tpp_parse_count(too_large[i], "--count", &value, &err), TPP_E_RANGE);
    }
    assert_int_equal(value, 99);
}

static void numbers_are_plain_decimals(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "-1", "nan", "inf", "1.", ".5", "1e", "0x1p3", "1 ", "1,5"};
    struct tpp_error err;
    double value = 99;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(tpp_parse_number(wrong[i], "--x", &value, &err), TPP_E_SYNTAX);
    }
    assert_int_equal(tpp_parse_number("1e309", "--x", &value, &err), TPP_E_RANGE);
    CHECK_NUMBER(value, 99, 0);
    assert_int_equal(tpp_parse_number("1.5e-3", "--x", &value, &err), TPP_OK);
    CHECK_NUMBER(value, 0.0015, 0);
}

static const char *shown(char *(*format)(char *, size_t, double), double value)
{
    static char buffer[64];
    return format(buffer, sizeof buffer, value);
}

static void printed_sizes_pick_their_unit(void **state)
{
    (void)state;
    assert_string_equal(shown(tpp_format_bytes, 0), "0 B");
    assert_string_equal(shown(tpp_format_bytes, 1023), "1023 B");
    assert_string_equal(shown(tpp_format_bytes, 1536), "1.50 KiB");
    assert_string_equal(shown(tpp_format_bytes, 30290256855.0), "28.21 GiB");
    assert_string_equal(shown(tpp_format_bytes, 0x1p30 - 1), "1.00 GiB"); /* never 1024.00 MiB */
    assert_string_equal(shown(tpp_format_bytes, -1.5 * 0x1p30), "-1.50 GiB");
    assert_string_equal(shown(tpp_format_bytes, 3 * 0x1p40), "3.00 TiB");
    assert_string_equal(shown(tpp_format_bytes, NAN), "nan B");
}

static void printed_times_and_rates_pick_their_unit(void **state)
{
    (void)state;
    assert_string_equal(shown(tpp_format_seconds, 0), "0 s");
    assert_string_equal(shown(tpp_format_seconds, 13.82), "13.82 s");
    assert_string_equal(shown(tpp_format_seconds, 0.004876), "4.876 ms");
    assert_string_equal(shown(tpp_format_seconds, 8.4e-6), "8.4 us");
    assert_string_equal(shown(tpp_format_seconds, 0.9999999), "1.00 s");
    assert_string_equal(shown(tpp_format_seconds, 31e-9), "31.0 ns");
    assert_string_equal(shown(tpp_format_bandwidth, 42.5e9), "42.5 GB/s");
    assert_string_equal(shown(tpp_format_bandwidth, 3350e9), "3350.0 GB/s");
    assert_string_equal(shown(tpp_format_bandwidth, 700e6), "700.0 MB/s");
    assert_string_equal(shown(tpp_format_flops_rate, 312e12), "312.0 TFLOP/s");
    assert_string_equal(shown(tpp_format_flops_rate, 1.979e15), "1979.0 TFLOP/s");
}

static void printed_counts_have_commas_and_fit_their_buffer(void **state)
{
    (void)state;
    char buffer[64];
    assert_string_equal(tpp_format_count(buffer, sizeof buffer, 0), "0");
    assert_string_equal(tpp_format_count(buffer, sizeof buffer, 999), "999");
    assert_string_equal(tpp_format_count(buffer, sizeof buffer, 1000), "1,000");
    assert_string_equal(tpp_format_count(buffer, sizeof buffer, UINT64_C(33343000000)), "33,343,000,000");
    assert_string_equal(tpp_format_count(buffer, sizeof buffer, UINT64_MAX), "18,446,744,073,709,551,615");
    memset(buffer, '#', sizeof buffer);
    assert_string_equal(tpp_format_count(buffer, 4, 123456), "123");
    assert_int_equal(buffer[4], '#');
    assert_string_equal(tpp_format_bytes(buffer, 3, 1023), "10");
    assert_int_equal(buffer[4], '#');
}

static void checked_arithmetic_tells_overflow_and_keeps_the_result(void **state)
{
    (void)state;
    uint64_t value = 99;
    assert_false(tpp_mul_u64(UINT64_C(1) << 32, UINT64_C(1) << 32, &value));
    assert_false(tpp_add_u64(UINT64_MAX, 1, &value));
    assert_int_equal(value, 99);
    assert_true(tpp_mul_u64(UINT64_C(4294967295), UINT64_C(4294967297), &value)); /* (2^32-1)(2^32+1) = 2^64-1 */
    assert_true(value == UINT64_MAX);
    assert_true(tpp_add_u64(UINT64_MAX - 1, 1, &value));
    assert_true(value == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_decimal_and_binary_units),
        cmocka_unit_test(fractions_of_a_size_are_rounded_to_whole_bytes),
        cmocka_unit_test(largest_size_is_exact_and_the_next_is_refused),
        cmocka_unit_test(what_is_no_size_is_refused_with_the_text_and_a_hint),
        cmocka_unit_test(bandwidths_are_bytes_or_bits_a_second),
        cmocka_unit_test(what_is_no_bandwidth_is_refused),
        cmocka_unit_test(counts_are_exact_whole_numbers),
        cmocka_unit_test(what_is_no_whole_number_is_refused),
        cmocka_unit_test(numbers_are_plain_decimals),
        cmocka_unit_test(printed_sizes_pick_their_unit),
        cmocka_unit_test(printed_times_and_rates_pick_their_unit),
        cmocka_unit_test(printed_counts_have_commas_and_fit_their_buffer),
        cmocka_unit_test(checked_arithmetic_tells_overflow_and_keeps_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
