/* Medians, quantiles, outliers, and how often to repeat. */
#include "calibrate/bench/host_statistics.h"
#include "costmodel/base/statistics.h"
#include "tests/support/check_number.h"

static void summary_of_odd_and_even_counts(void **state)
{
    (void)state;
    double odd[] = {9, 1, 4, 16, 25}; /* sorted 1 4 9 16 25; quartile positions 1 and 3 */
    const struct tpp_bench_summary five = tpp_bench_summarize(odd, 5);
    CHECK_NUMBER(five.median, 9, 0);
    CHECK_NUMBER(five.lower_quartile, 4, 0);
    CHECK_NUMBER(five.upper_quartile, 16, 0);
    CHECK_NUMBER(five.mean, 11, 1e-12); /* 55/5 */
    CHECK_NUMBER(five.min, 1, 0);
    CHECK_NUMBER(five.max, 25, 0);
    assert_int_equal(five.num_outliers, 0);
    double even[] = {10, 2, 4, 8}; /* 2 4 8 10: median 6; position 0.75 is 2 + 0.75 (4 - 2) = 3.5 */
    const struct tpp_bench_summary four = tpp_bench_summarize(even, 4);
    CHECK_NUMBER(four.median, 6, 0);
    CHECK_NUMBER(four.lower_quartile, 3.5, 0);
    CHECK_NUMBER(four.upper_quartile, 8.5, 0);
}

static void quantiles_lie_between_neighbours(void **state)
{
    (void)state;
    const double sorted[] = {1, 2, 4, 8};
    CHECK_NUMBER(tpp_sorted_quantile(sorted, 4, 0), 1, 0);
    CHECK_NUMBER(tpp_sorted_quantile(sorted, 4, 1), 8, 0);
    CHECK_NUMBER(tpp_sorted_quantile(sorted, 4, 0.9), 6.8, 1e-12); /* position 2.7: 4 + 0.7 x 4 */
    CHECK_NUMBER(tpp_sorted_quantile(sorted, 1, 0.3), 1, 0);
    CHECK_NUMBER(tpp_sorted_quantile(sorted, 0, 0.5), 0, 0);
}

static void outliers_are_far_in_robust_deviations(void **state)
{
    (void)state;
    /* Median 100; distances 2 1 1 0 1 1 2 are sorted 0 1 1 1 1 2 2 with the outlier's 30 behind them: MAD (1+1)/2 = 1,
     * limit 5 x 1.4826 = 7.4. */
    double values[] = {98, 99, 99, 100, 101, 101, 102, 130};
    const struct tpp_bench_summary far = tpp_bench_summarize(values, 8);
    CHECK_NUMBER(far.median, 100.5, 0);
    assert_int_equal(far.num_outliers, 1);
    double near[] = {98, 99, 99, 100, 101, 101, 102, 107};
    assert_int_equal(tpp_bench_summarize(near, 8).num_outliers, 0);
    double constant[] = {5, 5, 5, 5, 6}; /* MAD 0: whatever differs is an outlier */
    assert_int_equal(tpp_bench_summarize(constant, 5).num_outliers, 1);
}

static void nothing_and_one_value_have_a_summary(void **state)
{
    (void)state;
    double one[] = {3.25};
    assert_int_equal(tpp_bench_summarize(one, 0).count, 0);
    const struct tpp_bench_summary summary = tpp_bench_summarize(one, 1);
    CHECK_NUMBER(summary.median, 3.25, 0);
    CHECK_NUMBER(summary.upper_quartile, 3.25, 0);
    assert_int_equal(summary.num_outliers, 0);
}

static void repeats_fit_the_budget(void **state)
{
    (void)state;
    assert_int_equal(tpp_bench_num_repeats(0.02, 1.0, 3, 1000), 50);
    assert_int_equal(tpp_bench_num_repeats(2.0, 1.0, 3, 1000), 3);
    assert_int_equal(tpp_bench_num_repeats(1e-9, 1.0, 3, 1000), 1000);
    assert_int_equal(tpp_bench_num_repeats(0, 1.0, 3, 1000), 1000);
    assert_int_equal(tpp_bench_num_inner(7e-6, 1e-4, 64), 15); /* 14.3 rounded up */
    assert_int_equal(tpp_bench_num_inner(1e-3, 1e-4, 64), 1);
    assert_int_equal(tpp_bench_num_inner(1e-7, 1e-4, 64), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_of_odd_and_even_counts),
        cmocka_unit_test(quantiles_lie_between_neighbours),
        cmocka_unit_test(outliers_are_far_in_robust_deviations),
        cmocka_unit_test(nothing_and_one_value_have_a_summary),
        cmocka_unit_test(repeats_fit_the_budget),
    };
    return cmocka_run_group_tests_name("bench_statistics", tests, NULL, NULL);
}
