/* The solver: it finds the values that made the times, says how sure it is, and leaves alone what the times do not
 * determine. Times are made with the planner's formulas from values chosen here, then disturbed. */
#include "calibrate/fit/solve.h"
#include "costmodel/base/statistics.h"
#include "costmodel/kernel_time.h"
#include "hwprofiles/profiles.h"

#include "tests/support/check_number.h"
#include "tests/support/random.h"
#include "tests/support/specification.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_POINTS = 600 };

static struct tpp_sample samples[MAX_POINTS];
static const struct tpp_sample *items[MAX_POINTS];

static struct tpp_points points_of(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        items[i] = &samples[i];
    }
    return (struct tpp_points){items, count};
}

static struct tpp_hardware base_profile(void)
{
    struct tpp_hardware hardware;
    hardware = tpp_specification_cluster("dgx-a100-80g", "a100-sxm4-80g");
    return hardware;
}

/* Sum of twelve uniform numbers: mean 0, deviation 1. */
static double normal(struct tpp_random *random)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += tpp_random_uniform(random, 0, 1);
    }
    return sum;
}

static double stream_seconds(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    return sample->memory.bytes / tpp_memory_rate_bytes_per_second(&hardware->gpu);
}

static size_t num_predictions;

static const struct tpp_unknown efficiency[] = {{"gpu.memory_efficiency_fraction", 0.05, 0.97, false}};

static void order_statistics_are_those_of_hand(void **state)
{
    (void)state;
    double values[] = {7, 1, 5, 3};
    tpp_sort_numbers(values, 4);
    CHECK_NUMBER(tpp_sorted_quantile(values, 4, 0), 1, 0);
    CHECK_NUMBER(tpp_sorted_quantile(values, 4, 0.5), 4, 0);
    CHECK_NUMBER(tpp_sorted_quantile(values, 4, 0.9), 6.4, 1e-12); /* at 2.7: 5 + 0.7 * 2 */
    CHECK_NUMBER(tpp_sorted_quantile(values, 4, 1), 7, 0);
    CHECK_NUMBER(tpp_sorted_quantile(values, 0, 0.5), 0, 0);
}

/* log t = log(bytes / bandwidth) - log(e): the least-squares e has the relative standard error s / sqrt(n) when the
 * logarithms scatter by s. 400 points at 4 %: 0.2 %; the biweight's 95 % efficiency makes it 0.205 %. */
static void standard_error_is_that_of_theory(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 11};
    struct tpp_hardware hardware = base_profile();
    const double rate = hardware.gpu.memory_bandwidth_bytes_per_second * 0.71;
    struct tpp_solution solution;
    for (int i = 0; i < 400; i++) {
        samples[i] = (struct tpp_sample){.kind = TPP_SAMPLE_MEMORY_BOUND};
        samples[i].memory.bytes = tpp_random_log_uniform(&random, 1e8, 1e10);
        samples[i].seconds = samples[i].memory.bytes / rate * exp(0.04 * normal(&random));
    }
    const struct tpp_points points = points_of(400);
    assert_int_equal(tpp_solve(&hardware, efficiency, 1, stream_seconds, &points, &solution, NULL), TPP_OK);
    assert_int_equal(solution.state[0], TPP_UNKNOWN_FITTED);
    CHECK_NUMBER(solution.error[0] / solution.value[0], 0.002, 0.15);
    assert_true(fabs(solution.value[0] - 0.71) < 4 * solution.error[0]);
    CHECK_NUMBER(solution.scale, 0.04, 0.15);
    CHECK_NUMBER(hardware.gpu.memory_efficiency_fraction, solution.value[0], 0);
}

static void a_tenth_of_outliers_does_not_move_the_value(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 12};
    struct tpp_hardware hardware = base_profile();
    const double rate = hardware.gpu.memory_bandwidth_bytes_per_second * 0.71;
    struct tpp_solution solution;
    for (int i = 0; i < 200; i++) {
        samples[i] = (struct tpp_sample){.kind = TPP_SAMPLE_MEMORY_BOUND};
        samples[i].memory.bytes = 1e9;
        samples[i].seconds = 1e9 / rate * exp(0.01 * normal(&random)) * (i % 10 == 3 ? 5 : 1);
    }
    const struct tpp_points points = points_of(200);
    assert_int_equal(tpp_solve(&hardware, efficiency, 1, stream_seconds, &points, &solution, NULL), TPP_OK);
    CHECK_NUMBER(solution.value[0], 0.71, 0.005); /* the mean of logarithms would be exp(-0.16) of it */
}

static double gemm_seconds(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    const struct tpp_gemm gemm = {sample->gemm.m, sample->gemm.n, sample->gemm.k, 1, TPP_GEMM_FORWARD, 2, false};
    return tpp_gemm_burst_seconds(&hardware->gpu, &gemm);
}

static const struct tpp_unknown gemm_unknowns[] = {
    {"gpu.gemm_max_fraction", 0.05, 1, true},
    {"gpu.gemm_half_k", 4, 2000, false},
    {"gpu.gemm_wave_quantization_fraction", 0, 1, true},
};

static void make_gemms(size_t count, const struct tpp_hardware *truth, double scatter)
{
    struct tpp_random random = {.state = 13};
    for (size_t i = 0; i < count; i++) {
        samples[i] = (struct tpp_sample){.kind = TPP_SAMPLE_GEMM};
        samples[i].gemm.m = (double)tpp_random_range(&random, 2, 40) * 128 - 17;
        samples[i].gemm.n = (double)tpp_random_range(&random, 2, 60) * 256;
        samples[i].gemm.k = (double)tpp_random_range(&random, 1, 100) * 64;
        samples[i].seconds = gemm_seconds(truth, &samples[i]) * exp(scatter * normal(&random));
    }
}

static void values_of_a_gemm_formula_are_found_again(void **state)
{
    (void)state;
    struct tpp_hardware truth = base_profile(), hardware = base_profile();
    struct tpp_solution solution;
    const double expected[3] = {0.87, 230, 0.4};
    truth.gpu.gemm_max_fraction = expected[0];
    truth.gpu.gemm_half_k = expected[1];
    truth.gpu.gemm_wave_quantization_fraction = expected[2];
    make_gemms(500, &truth, 0.03);
    const struct tpp_points points = points_of(500);
    assert_int_equal(tpp_solve(&hardware, gemm_unknowns, 3, gemm_seconds, &points, &solution, NULL), TPP_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(solution.state[i], TPP_UNKNOWN_FITTED);
        assert_true(solution.error[i] > 0 && solution.error[i] < 0.1 * expected[i]);
        assert_true(fabs(solution.value[i] - expected[i]) < 4 * solution.error[i]);
    }
}

static void few_points_keep_the_base(void **state)
{
    (void)state;
    struct tpp_hardware truth = base_profile(), hardware = base_profile();
    struct tpp_solution solution;
    truth.gpu.gemm_max_fraction = 0.6;
    make_gemms(11, &truth, 0); /* 3 unknowns need 12 */
    const struct tpp_points points = points_of(11);
    assert_int_equal(tpp_solve(&hardware, gemm_unknowns, 3, gemm_seconds, &points, &solution, NULL), TPP_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(solution.state[i], TPP_UNKNOWN_TOO_FEW_POINTS);
    }
    CHECK_NUMBER(hardware.gpu.gemm_max_fraction, 0.78, 0);
    assert_string_equal(tpp_unknown_state_name(solution.state[0]), "too few points");
}

static void what_the_points_do_not_determine_keeps_the_base(void **state)
{
    (void)state;
    struct tpp_hardware truth = base_profile(), hardware = base_profile();
    struct tpp_solution solution;
    truth.gpu.gemm_max_fraction = 0.6;
    make_gemms(100, &truth, 0.02);
    for (int i = 0; i < 100; i++) { /* one shape: nothing says how the rate depends on k */
        samples[i].gemm = (struct tpp_gemm_sample){.m = 4096, .n = 8192, .k = 4096};
        samples[i].seconds = gemm_seconds(&truth, &samples[i]) * (1 + 0.001 * (i % 7 - 3));
    }
    const struct tpp_points points = points_of(100);
    assert_int_equal(tpp_solve(&hardware, gemm_unknowns, 2, gemm_seconds, &points, &solution, NULL), TPP_OK);
    assert_int_equal(solution.state[0], TPP_UNKNOWN_FITTED);
    assert_int_equal(solution.state[1], TPP_UNKNOWN_UNDETERMINED);
    CHECK_NUMBER(hardware.gpu.gemm_half_k, 160, 0);
    CHECK_NUMBER(hardware.gpu.gemm_max_fraction, 0.6, 0.002);
}

static double never(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    (void)hardware;
    (void)sample;
    return NAN;
}

static void a_formula_that_gives_no_number_is_said_not_to_converge(void **state)
{
    (void)state;
    struct tpp_hardware hardware = base_profile();
    struct tpp_solution solution;
    make_gemms(50, &hardware, 0);
    const struct tpp_points points = points_of(50);
    assert_int_equal(tpp_solve(&hardware, gemm_unknowns, 3, never, &points, &solution, NULL), TPP_OK);
    assert_int_equal(solution.state[0], TPP_UNKNOWN_DIVERGED);
    CHECK_NUMBER(hardware.gpu.gemm_max_fraction, 0.78, 0);
}

static void repeats_that_scatter_count_less(void **state)
{
    (void)state;
    struct tpp_hardware hardware = base_profile();
    const double rate = hardware.gpu.memory_bandwidth_bytes_per_second;
    struct tpp_solution solution;
    for (int i = 0; i < 100; i++) { /* half says 0.70, half 0.80 with a scatter of 50 %: weight 1 / (1 + 10^2) */
        samples[i] = (struct tpp_sample){.kind = TPP_SAMPLE_MEMORY_BOUND, .spread_fraction = i % 2 ? 0.5 : 0};
        samples[i].memory.bytes = 1e9;
        samples[i].seconds = 1e9 / rate / (i % 2 ? 0.80 : 0.70);
    }
    const struct tpp_points points = points_of(100);
    assert_int_equal(tpp_solve(&hardware, efficiency, 1, stream_seconds, &points, &solution, NULL), TPP_OK);
    CHECK_NUMBER(solution.value[0], 0.70, 0.01);
}

static double counted_seconds(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    num_predictions++;
    return stream_seconds(hardware, sample);
}

/* 100000 points, every 16th of which is at twice the time: those that are drawn follow no pattern of the list, so the
 * answer is that of most of them, and its error that of 8192: a scatter of 0.01 over the root of it. */
static void many_points_are_drawn_from_evenly(void **state)
{
    (void)state;
    enum { MANY = 100000 };
    struct tpp_hardware hardware = base_profile(), again = hardware;
    struct tpp_random random = {.state = 3};
    struct tpp_sample *many = calloc(MANY, sizeof *many);
    const struct tpp_sample **list = calloc(MANY, sizeof *list);
    const double rate = 0.7 * hardware.gpu.memory_bandwidth_bytes_per_second;
    assert_true(many && list);
    for (size_t i = 0; i < MANY; i++) {
        many[i].memory.bytes = 1e9;
        many[i].seconds = 1e9 / rate * exp(0.01 * normal(&random)) * (i % 16 == 0 ? 2 : 1);
        list[i] = &many[i];
    }
    struct tpp_solution solution, second;
    const struct tpp_points points = {list, MANY};
    num_predictions = 0;
    assert_int_equal(tpp_solve(&hardware, efficiency, 1, counted_seconds, &points, &solution, NULL), TPP_OK);
    assert_true(num_predictions % TPP_SOLVE_MAX_POINTS == 0 && num_predictions > 0);
    CHECK_NUMBER(hardware.gpu.memory_efficiency_fraction, 0.7, 1e-3);
    CHECK_NUMBER(solution.error[0], 0.7 * 0.01 / sqrt(8192), 0.2);
    assert_int_equal(tpp_solve(&again, efficiency, 1, counted_seconds, &points, &second, NULL), TPP_OK);
    assert_memory_equal(&solution.value[0], &second.value[0], sizeof solution.value[0]);
    free(many);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_statistics_are_those_of_hand),
        cmocka_unit_test(standard_error_is_that_of_theory),
        cmocka_unit_test(a_tenth_of_outliers_does_not_move_the_value),
        cmocka_unit_test(values_of_a_gemm_formula_are_found_again),
        cmocka_unit_test(few_points_keep_the_base),
        cmocka_unit_test(what_the_points_do_not_determine_keeps_the_base),
        cmocka_unit_test(a_formula_that_gives_no_number_is_said_not_to_converge),
        cmocka_unit_test(repeats_that_scatter_count_less),
        cmocka_unit_test(many_points_are_drawn_from_evenly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
