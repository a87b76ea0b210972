/* fit_case.h - samples that are fitted, and what became of them; for the tests of the fit. */
#ifndef TPP_TESTS_SUPPORT_FIT_CASE_H
#define TPP_TESTS_SUPPORT_FIT_CASE_H

#include "calibrate/fit/fit.h"
#include "costmodel/kernel_time.h"

#include "tests/support/check_number.h"
#include "tests/support/random.h"
#include "tests/support/specification.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct tpp_hardware base, fitted; /* large */
static struct tpp_fit_report report;

static int set_up(void **state)
{
    (void)state;
    tpp_fit_report_init(&report);
    base = tpp_specification_cluster("dgx-h100", "h100-sxm5-80g");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tpp_fit_report_release(&report);
    return 0;
}

static inline const struct tpp_fit_group *group_of(const char *name)
{
    for (size_t i = 0; i < report.num_groups; i++) {
        if (strncmp(report.groups[i].name, name, strlen(name)) == 0) {
            return &report.groups[i];
        }
    }
    fail_msg("no group %s", name);
    return NULL;
}

static inline const struct tpp_fit_value *value_of(const struct tpp_fit_group *group, const char *key)
{
    for (size_t i = 0; i < group->num_values; i++) {
        if (strcmp(group->values[i].key, key) == 0) {
            return &group->values[i];
        }
    }
    fail_msg("no value %s", key);
    return NULL;
}

static inline const struct tpp_hardware_origin *origin_of(const struct tpp_hardware *hardware, const char *key)
{
    uint32_t index = 0;
    assert_true(tpp_hardware_field_index(key, &index));
    return &hardware->origins[index];
}

static inline struct tpp_samples begin(const char *source, const char *format)
{
    struct tpp_samples samples;
    tpp_samples_init(&samples);
    assert_int_equal(tpp_samples_begin_file(&samples, source, format, NULL), TPP_OK);
    return samples;
}

static inline void add(struct tpp_samples *samples, struct tpp_sample sample)
{
    snprintf(sample.device, sizeof sample.device, "NVIDIA H100");
    sample.num_repeats = 1;
    assert_int_equal(tpp_samples_add(samples, &sample, NULL), TPP_OK);
}

/* 300 products, as that GPU runs them, with a factor of exp(-scatter) to exp(scatter). */
static inline void add_gemms(struct tpp_samples *samples, const struct tpp_gpu *gpu, double scatter)
{
    struct tpp_random random = {.state = 5};
    for (int i = 0; i < 300; i++) {
        struct tpp_sample sample = {.kind = TPP_SAMPLE_GEMM};
        sample.gemm.m = (double)tpp_random_range(&random, 8, 60) * 128;
        sample.gemm.n = i == 0 ? 896 : (double)tpp_random_range(&random, 8, 60) * 128;
        sample.gemm.k = i == 1 ? 6400 : (double)tpp_random_range(&random, 8, 90) * 64;
        sample.gemm.num_products = 1;
        const struct tpp_gemm gemm = {sample.gemm.m, sample.gemm.n, sample.gemm.k, 1, TPP_GEMM_FORWARD, 2, false};
        sample.seconds = tpp_gemm_burst_seconds(gpu, &gemm) * exp(tpp_random_uniform(&random, -scatter, scatter));
        add(samples, sample);
    }
}

#endif
