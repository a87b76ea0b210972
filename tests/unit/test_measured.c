/* A measured step beside the predicted one: what physics forbids is called impossible. */
#include "cli/measured.h"

#include "tests/support/check_number.h"

#include <string.h>

/* Field note A4: 33B, 16K, 128 sequences on 32 A100. 5.1e17 FLOP / (32 * 312e12 FLOP/s) = 51.08 s. */
static void make_job(struct tpp_job_inputs *inputs, struct tpp_cost *cost)
{
    memset(inputs, 0, sizeof *inputs);
    memset(cost, 0, sizeof *cost);
    inputs->job = tpp_job_defaults();
    inputs->job.num_gpus = 32;
    inputs->hardware.gpu.bf16_flops_per_second = 312e12;
    inputs->hardware.gpu.fp8_flops_per_second = 624e12;
    inputs->hardware.gpu.fp32_flops_per_second = 19.5e12;
    inputs->hardware.gpu.tf32_flops_per_second = 156e12;
    cost->necessary_flops = 5.1e17;
    cost->step_seconds = 110;
    cost->step_seconds_low = 100;
    cost->step_seconds_high = 120;
}

static void a_step_faster_than_all_peaks_is_impossible(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_cost cost;
    (void)state;
    make_job(&inputs, &cost);
    const struct tpp_measured measured = tpp_measured_compare(4.7, &inputs, &cost);
    assert_false(measured.is_possible);
    CHECK_NUMBER(measured.least_seconds, 51.0817, 1e-5);
    CHECK_NUMBER(measured.utilization, 10.8684, 1e-5); /* 51.0817 / 4.7 */
    assert_false(measured.is_inside_interval);
    assert_false(tpp_measured_compare(51.0, &inputs, &cost).is_possible);
    assert_true(tpp_measured_compare(51.1, &inputs, &cost).is_possible);
}

static void an_honest_measurement_has_an_error(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_cost cost;
    (void)state;
    make_job(&inputs, &cost);
    const struct tpp_measured measured = tpp_measured_compare(116.4, &inputs, &cost);
    assert_true(measured.is_possible && measured.is_inside_interval);
    CHECK_NUMBER(measured.error_fraction, -0.0549828, 1e-5); /* 110 / 116.4 - 1 */
    assert_false(tpp_measured_compare(99.9, &inputs, &cost).is_inside_interval);
}

/* 110 s predicted are 0.6 of 183.3 s. */
static void a_far_too_slow_step_has_another_cause(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_cost cost;
    (void)state;
    make_job(&inputs, &cost);
    assert_false(tpp_measured_compare(183.0, &inputs, &cost).is_cause_outside);
    assert_true(tpp_measured_compare(183.7, &inputs, &cost).is_cause_outside);
}

static void the_peak_is_that_of_the_precision(void **state)
{
    struct tpp_job_inputs inputs;
    struct tpp_cost cost;
    (void)state;
    make_job(&inputs, &cost);
    inputs.job.precision = TPP_PRECISION_FP8;
    CHECK_NUMBER(tpp_measured_compare(30, &inputs, &cost).least_seconds, 25.54087, 1e-5); /* half of 51.0817 */
    inputs.job.precision = TPP_PRECISION_FP32;
    CHECK_NUMBER(tpp_measured_compare(30, &inputs, &cost).least_seconds, 102.1635, 1e-5); /* tf32: twice 51.0817 */
    inputs.job.precision = TPP_PRECISION_BF16;
    inputs.job.task = TPP_TASK_LORA; /* no weight gradients of frozen layers: two thirds */
    CHECK_NUMBER(tpp_measured_compare(30, &inputs, &cost).least_seconds, 34.0545, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_faster_than_all_peaks_is_impossible),
        cmocka_unit_test(an_honest_measurement_has_an_error),
        cmocka_unit_test(a_far_too_slow_step_has_another_cause),
        cmocka_unit_test(the_peak_is_that_of_the_precision),
    };
    return cmocka_run_group_tests_name("measured", tests, NULL, NULL);
}
