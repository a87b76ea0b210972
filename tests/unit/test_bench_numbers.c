/* Number formats of the GPU on the host, and the random data. */
#include "calibrate/bench/host_numbers.h"
#include "tests/support/check_number.h"

#include <string.h>

/* Bit patterns by hand: sign, exponent with its bias (bf16, fp32 127; fp16 15; e4m3 7), fraction. */
static void known_values_have_known_bits(void **state)
{
    (void)state;
    static const struct {
        enum tpp_bench_type type;
        float value;
        uint32_t bits;
    } cases[] = {
        {TPP_BENCH_BF16, 1.0f, 0x3f80},     {TPP_BENCH_BF16, -2.0f, 0xc000},    {TPP_BENCH_BF16, 0.0f, 0},
        {TPP_BENCH_FP16, 1.0f, 0x3c00},     {TPP_BENCH_FP16, 65504.0f, 0x7bff}, {TPP_BENCH_FP16, -0.5f, 0xb800},
        {TPP_BENCH_FP16, 0x1p-24f, 1},      {TPP_BENCH_FP16, 0x1p-14f, 0x0400}, {TPP_BENCH_FP8, 1.0f, 0x38},
        {TPP_BENCH_FP8, 448.0f, 0x7e},      {TPP_BENCH_FP8, 0x1p-9f, 1},        {TPP_BENCH_FP8, -0x1p-6f, 0x88},
        {TPP_BENCH_FP32, 1.5f, 0x3fc00000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tpp_bench_encode(cases[i].type, cases[i].value), cases[i].bits);
        CHECK_NUMBER(tpp_bench_decode(cases[i].type, cases[i].bits), cases[i].value, 0);
    }
}

static void rounding_is_to_nearest_and_ties_go_to_even(void **state)
{
    (void)state;
    /* bf16 has 7 fraction bits: neighbours of 1 are 2^-7 apart. */
    assert_int_equal(tpp_bench_encode(TPP_BENCH_BF16, 1 + 0x1p-8f), 0x3f80);     /* tie to even: down */
    assert_int_equal(tpp_bench_encode(TPP_BENCH_BF16, 1 + 3 * 0x1p-8f), 0x3f82); /* tie to even: up */
    assert_int_equal(tpp_bench_encode(TPP_BENCH_BF16, 1 + 0x1.02p-8f), 0x3f81);  /* just above the tie */
    assert_int_equal(tpp_bench_encode(TPP_BENCH_BF16, 0x1.ffp0f), 0x4000);       /* carries into the exponent */
    assert_int_equal(tpp_bench_encode(TPP_BENCH_FP8, 17.0f), 0x58); /* 16 and 18 are neighbours: even is 16 */
    assert_int_equal(tpp_bench_encode(TPP_BENCH_FP8, 19.0f), 0x5a); /* 18 and 20: even is 20 */
}

static void what_is_too_large_saturates_or_overflows(void **state)
{
    (void)state;
    assert_int_equal(tpp_bench_encode(TPP_BENCH_FP8, 1e9f), 0x7e);
    assert_int_equal(tpp_bench_encode(TPP_BENCH_FP8, -1e9f), 0xfe);
    assert_int_equal(tpp_bench_encode(TPP_BENCH_FP16, 65519.0f), 0x7bff); /* below half way to 65536 */
    assert_int_equal(tpp_bench_encode(TPP_BENCH_FP16, 65520.0f), 0x7c00);
    assert_true(isinf(tpp_bench_decode(TPP_BENCH_BF16, 0x7f80)));
    assert_true(isnan(tpp_bench_decode(TPP_BENCH_BF16, 0x7fc0)));
    assert_true(isnan(tpp_bench_decode(TPP_BENCH_FP8, 0x7f)));
    assert_true(isnan(tpp_bench_decode(TPP_BENCH_FP16, tpp_bench_encode(TPP_BENCH_FP16, NAN))));
}

static void every_pattern_survives_decode_and_encode(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        for (int type = TPP_BENCH_BF16; type <= TPP_BENCH_FP8; type++) {
            if (type == TPP_BENCH_FP8 && bits > 0xff) {
                continue;
            }
            const float value = tpp_bench_decode((enum tpp_bench_type)type, bits);
            if (!isnan(value)) {
                assert_int_equal(tpp_bench_encode((enum tpp_bench_type)type, value), bits);
            }
        }
    }
}

/* fp32 is the host's own format: its bits are the reference for ours. */
static void fp32_agrees_with_the_machine(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        const uint32_t bits = (uint32_t)tpp_bench_hash(5, i);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (isfinite(value)) {
            assert_int_equal(tpp_bench_encode(TPP_BENCH_FP32, value), bits);
            CHECK_NUMBER(tpp_bench_decode(TPP_BENCH_FP32, bits), value, 0);
        }
    }
}

static void rounding_is_encoding_and_decoding(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 200000; i++) {
        const uint32_t bits = (uint32_t)tpp_bench_hash(6, i);
        float value;
        memcpy(&value, &bits, sizeof value);
        value = i % 2 ? value : (float)(i / 2) * 0x1p-9f; /* ties too */
        for (int type = TPP_BENCH_FP32; !isnan(value) && type <= TPP_BENCH_FP8; type++) {
            const float expected =
                tpp_bench_decode((enum tpp_bench_type)type, tpp_bench_encode((enum tpp_bench_type)type, value));
            assert_true(tpp_bench_round((enum tpp_bench_type)type, value) == expected);
        }
    }
}

static void random_values_have_mean_zero_and_deviation_one(void **state)
{
    (void)state;
    const int count = 100000;
    double sum = 0, squares = 0, largest = 0;
    for (int i = 0; i < count; i++) {
        const double value = tpp_bench_random_value(3, (uint64_t)i);
        sum += value / count;
        squares += value * value / count;
        largest = fmax(largest, fabs(value));
    }
    assert_true(fabs(sum) < 5 / sqrt(count)); /* 5 standard deviations of a mean */
    CHECK_NUMBER(squares, 1, 0.02);
    assert_true(largest > 2.5 && largest < 3.4642); /* the end of the sum of four uniforms is 2 sqrt(3) = 3.4641 */
    assert_true(tpp_bench_random_value(3, 7) != tpp_bench_random_value(4, 7));
}

static void small_integers_are_the_four_that_are_promised(void **state)
{
    (void)state;
    int seen[5] = {0};
    for (uint64_t i = 0; i < 4000; i++) {
        const float value = tpp_bench_small_integer(9, i);
        assert_true(value == -2 || value == -1 || value == 1 || value == 2);
        seen[(int)value + 2]++;
    }
    assert_true(seen[0] > 800 && seen[1] > 800 && seen[3] > 800 && seen[4] > 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values_have_known_bits),
        cmocka_unit_test(rounding_is_to_nearest_and_ties_go_to_even),
        cmocka_unit_test(what_is_too_large_saturates_or_overflows),
        cmocka_unit_test(every_pattern_survives_decode_and_encode),
        cmocka_unit_test(fp32_agrees_with_the_machine),
        cmocka_unit_test(rounding_is_encoding_and_decoding),
        cmocka_unit_test(random_values_have_mean_zero_and_deviation_one),
        cmocka_unit_test(small_integers_are_the_four_that_are_promised),
    };
    return cmocka_run_group_tests_name("bench_numbers", tests, NULL, NULL);
}
