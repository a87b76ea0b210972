/* From samples to a profile: what is fitted, what is kept and why, where the values say they come from. */
#include "calibrate/fit/fit_group.h"
#include "calibrate/fit/import.h"
#include "costmodel/base/json_read.h"
#include "costmodel/collective_time.h"
#include "costmodel/kernel_time.h"
#include "hwprofiles/profiles.h"

#include "tests/support/failing_alloc.h"
#include "tests/support/fit_case.h"

#include <stdio.h>
#include <string.h>

static void gemm_values_come_with_error_range_and_origin(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("runs/h100-gemm.jsonl", "samples");
    struct tpp_hardware truth = base;
    const struct tpp_fit_options options = {.date = "2026-11-29"};
    truth.gpu.gemm_max_fraction = 0.81;
    truth.gpu.gemm_half_k = 250;
    add_gemms(&samples, &truth.gpu, 0.04);
    assert_int_equal(tpp_fit_profile(&samples, &base, &options, &fitted, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.gemm_max_fraction, 0.81, 0.02);
    CHECK_NUMBER(fitted.gpu.gemm_half_k, 250, 0.1);
    const struct tpp_fit_group *group = group_of("gemm");
    assert_int_equal(group->num_samples, 300);
    assert_true(group->held_out_after.count > 60 && group->held_out_after.count < 120); /* 30 % of 300, by layers */
    assert_true(group->held_out_after.median < 0.03 && group->held_out_before.median > 0.1);
    assert_int_equal(group->num_residuals, 300);
    assert_non_null(strstr(group->range, "n 896 to 7"));
    const struct tpp_hardware_origin *origin = origin_of(&fitted, "gpu.gemm_max_fraction");
    assert_int_equal(origin->provenance, TPP_PROVENANCE_MEASURED);
    assert_non_null(strstr(origin->source, "2026-11-29: 300 samples of h100-gemm.jsonl on NVIDIA H100"));
    assert_int_equal(origin_of(&fitted, "gpu.num_sms")->provenance, TPP_PROVENANCE_DATASHEET);
    tpp_samples_release(&samples);
}

static void values_from_tables_are_published_ones(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("t.csv", "table");
    struct tpp_hardware truth = base;
    truth.gpu.gemm_max_fraction = 0.8;
    add_gemms(&samples, &truth.gpu, 0.02);
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    assert_int_equal(origin_of(&fitted, "gpu.gemm_max_fraction")->provenance, TPP_PROVENANCE_PUBLISHED);
    tpp_samples_release(&samples);
}

/* The profile already fits: what the fit makes of the scatter is no better on the samples held out, or hardly moves. */
static void a_fit_that_is_no_better_keeps_the_base(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("t.csv", "table");
    add_gemms(&samples, &base.gpu, 0.5);
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    const struct tpp_fit_group *group = group_of("gemm");
    const struct tpp_fit_value *value = value_of(group, "gpu.gemm_max_fraction");
    if (group->held_out_after.median + group->held_out_after.p90 >
        group->held_out_before.median + group->held_out_before.p90) {
        assert_string_equal(value->state, "no better on held-out samples");
        CHECK_NUMBER(fitted.gpu.gemm_max_fraction, base.gpu.gemm_max_fraction, 0);
        assert_string_equal(origin_of(&fitted, "gpu.gemm_max_fraction")->source,
                            origin_of(&base, "gpu.gemm_max_fraction")->source);
    } else {
        CHECK_NUMBER(value->value, base.gpu.gemm_max_fraction, 0.1);
    }
    tpp_samples_release(&samples);
}

static void attention_gives_rates_of_each_kernel_and_pass(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("a.jsonl", "samples");
    struct tpp_hardware truth = base;
    struct tpp_random random = {.state = 8};
    truth.gpu.flash_forward_fraction[TPP_ATTENTION_FLASH3] = 0.7;
    truth.gpu.flash_backward_fraction[TPP_ATTENTION_FLASH3] = 0.51;
    truth.gpu.flash_half_length = 700;
    truth.gpu.flash_block_constant = 0.9;
    for (int i = 0; i < 200; i++) {
        struct tpp_sample sample = {.kind = TPP_SAMPLE_ATTENTION};
        struct tpp_attention_sample *attention = &sample.attention;
        attention->batch = (double)tpp_random_range(&random, 1, 4);
        attention->num_heads = attention->num_query_groups = (double)tpp_random_range(&random, 4, 40);
        attention->query_length = attention->key_length = (double)tpp_random_range(&random, 8, 128) * 128;
        attention->qk_head_dim = attention->v_head_dim = 128;
        attention->is_causal = true;
        attention->is_backward = i % 3 == 0;
        attention->kernel = TPP_ATTENTION_FLASH3;
        const struct tpp_attention shape = {
            attention->batch, attention->num_heads, attention->query_length, attention->key_length, 128, 128, true,
            attention->kernel};
        sample.seconds = (attention->is_backward ? tpp_flash_backward_seconds(&truth.gpu, &shape)
                                                 : tpp_flash_forward_seconds(&truth.gpu, &shape)) *
                         exp(tpp_random_uniform(&random, -0.03, 0.03));
        add(&samples, sample);
    }
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.flash_forward_fraction[TPP_ATTENTION_FLASH3], 0.7, 0.03);
    CHECK_NUMBER(fitted.gpu.flash_backward_fraction[TPP_ATTENTION_FLASH3], 0.51, 0.03);
    CHECK_NUMBER(fitted.gpu.flash_half_length, 700, 0.1);
    CHECK_NUMBER(fitted.gpu.flash_block_constant, 0.9, 0.15);
    CHECK_NUMBER(fitted.gpu.flash_forward_fraction[TPP_ATTENTION_FLASH2],
                 base.gpu.flash_forward_fraction[TPP_ATTENTION_FLASH2], 0); /* not measured */
    tpp_samples_release(&samples);
}

/* Times by hand: 12 us + (n-1)/n S / 300 GB/s, from 8 kB to 4 GB; no ramp, so that the half-rate size is small. */
static void collectives_give_latency_and_bandwidth_of_each_group(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("c.jsonl", "samples");
    for (int i = 0; i < 40; i++) {
        struct tpp_sample sample = {.kind = TPP_SAMPLE_COLLECTIVE};
        sample.collective.operation = TPP_ALL_GATHER;
        sample.collective.bytes = (uint64_t)(8192 * pow(2, i * 0.48));
        sample.collective.num_ranks = 4;
        sample.collective.num_nodes = 1;
        sample.seconds = 12e-6 + 0.75 * (double)sample.collective.bytes / 300e9;
        add(&samples, sample);
        sample.collective.num_wrong = 3; /* wrong results do not count */
        sample.seconds *= 9;
        add(&samples, sample);
    }
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    const struct tpp_fit_group *group = group_of("all_gather, 4 ranks, 1 node");
    assert_int_equal(group->num_samples, 40);
    assert_false(group->is_in_profile);
    CHECK_NUMBER(value_of(group, "node.all_gather_bus_bytes_per_second")->value, 300e9, 0.02);
    CHECK_NUMBER(value_of(group, "node.base_latency_seconds")->value, 12e-6, 0.02);
    const struct tpp_fit_group *node = group_of("collectives inside a node");
    assert_true(node->is_in_profile);
    CHECK_NUMBER(fitted.node.bus_bytes_per_second[TPP_ALL_GATHER], 300e9, 0.02);
    CHECK_NUMBER(fitted.node.base_latency_seconds + 3 * fitted.node.hop_latency_seconds, 12e-6, 0.05);
    CHECK_NUMBER(fitted.node.bus_bytes_per_second[TPP_ALL_REDUCE], base.node.bus_bytes_per_second[TPP_ALL_REDUCE], 0);
    assert_int_equal(node->num_left_out, 40);
    tpp_samples_release(&samples);
}

static void values_measured_directly_are_medians(void **state)
{
    (void)state;
    static const char text[] = "{\"kind\":\"value\",\"key\":\"gpu.kernel_gap_seconds\",\"values\":[1e-6,9e-6,2e-6]}\n"
                               "{\"kind\":\"value\",\"key\":\"gpu.context_bytes\",\"values\":[500000001,500000002]}\n";
    struct tpp_samples samples;
    tpp_samples_init(&samples);
    assert_int_equal(tpp_import_text(text, sizeof text - 1, "v.jsonl", NULL, &samples, NULL), TPP_OK);
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.kernel_gap_seconds, 2e-6, 1e-12);
    assert_int_equal(fitted.gpu.context_bytes, 500000002); /* 500000001.5, to whole bytes */
    assert_int_equal(origin_of(&fitted, "gpu.kernel_gap_seconds")->provenance, TPP_PROVENANCE_MEASURED);
    tpp_samples_release(&samples);
}

/* Launch gaps of 2 us on one GPU and 9 us on another: only the one asked for is in the profile. */
static void values_of_another_device_are_left_out(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("s.jsonl", "samples");
    const struct tpp_fit_options options = {.device = "H100"};
    struct tpp_sample value = {.kind = TPP_SAMPLE_VALUE, .value = {.value = 2e-6}};
    assert_true(tpp_hardware_field_index("gpu.kernel_gap_seconds", &value.value.field));
    add(&samples, value);
    value.value.value = 9e-6;
    for (int i = 0; i < 2; i++) {
        snprintf(value.device, sizeof value.device, "NVIDIA A100");
        assert_int_equal(tpp_samples_add(&samples, &value, NULL), TPP_OK);
    }
    assert_int_equal(tpp_fit_profile(&samples, &base, &options, &fitted, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.kernel_gap_seconds, 2e-6, 1e-12);
    tpp_samples_release(&samples);
}

/* 300 bursts at 0.80 of the peak, and one shape again after seconds of load at 0.9 of its rate: what a step sustains. A
 * wrong result a hundred times as fast changes nothing. */
static void the_sustained_rate_is_the_one_that_counts(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("g.jsonl", "samples");
    struct tpp_hardware truth = base;
    truth.gpu.gemm_max_fraction = 0.8;
    add_gemms(&samples, &truth.gpu, 0.01);
    struct tpp_sample sample = samples.items[17];
    sample.seconds /= 0.9;
    sample.gemm.is_sustained = true;
    add(&samples, sample);
    sample = samples.items[18];
    sample.seconds /= 100;
    sample.is_wrong = true;
    add(&samples, sample);
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.gemm_max_fraction, 0.8, 0.02);
    CHECK_NUMBER(fitted.gpu.gemm_sustained_fraction, 0.9, 0.01);
    assert_int_equal(group_of("gemm")->num_samples, 300);
    assert_int_equal(group_of("gemm")->num_left_out, 1);
    tpp_samples_release(&samples);
}

static void samples_that_say_nothing_are_an_error(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("x", "samples");
    struct tpp_error err;
    const struct tpp_fit_options options = {.device = "B200"};
    add_gemms(&samples, &base.gpu, 0.02);
    assert_int_equal(tpp_fit_profile(&samples, &base, &options, &fitted, &report, &err), TPP_E_MISSING);
    assert_non_null(strstr(err.message, "300 samples"));
    tpp_samples_release(&samples);
}

static void a_report_is_printed_as_text_json_and_table(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("t.csv", "table");
    struct tpp_hardware truth = base;
    struct tpp_text text, table, json;
    struct tpp_json_writer writer;
    struct tpp_json_document *document;
    struct tpp_json groups, group, member;
    truth.gpu.gemm_max_fraction = 0.8;
    add_gemms(&samples, &truth.gpu, 0.02);
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    tpp_text_init(&text);
    tpp_text_init(&table);
    tpp_text_init(&json);
    tpp_json_writer_init(&writer);
    tpp_fit_report_text(&report, &text);
    tpp_fit_residual_table(&report, &table);
    tpp_fit_report_json(&report, &writer, writer.root);
    assert_non_null(strstr(text.data, "gpu.gemm_max_fraction"));
    size_t num_lines = 0;
    for (const char *p = table.data; (p = strchr(p, '\n')) != NULL; p++) {
        num_lines++;
    }
    assert_int_equal(num_lines, 301); /* a header and 300 samples */
    assert_int_equal(tpp_json_print(&writer, &json, NULL), TPP_OK);
    assert_int_equal(tpp_json_parse(json.data, json.length, "report", &document, NULL), TPP_OK);
    assert_true(tpp_json_member(tpp_json_root(document), "groups", &groups));
    assert_true(tpp_json_at(groups, 0, &group, NULL));
    static const char *const keys[] = {"name", "range", "samples", "values", "held_out_before", "held_out_after"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_true(tpp_json_member(group, keys[i], &member));
    }
    tpp_json_document_free(document);
    tpp_json_writer_release(&writer);
    tpp_text_release(&text);
    tpp_text_release(&table);
    tpp_text_release(&json);
    tpp_samples_release(&samples);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("x.jsonl", "samples");
    add_gemms(&samples, &base.gpu, 0.02);
    samples.count = 40; /* enough for a fit, and quick */
    struct tpp_sample sample = {.kind = TPP_SAMPLE_VALUE};
    assert_true(tpp_hardware_field_index("gpu.kernel_gap_seconds", &sample.value.field));
    sample.value.value = 2e-6;
    add(&samples, sample);
    for (uint64_t n = 0;; n++) {
        struct tpp_error err = {0};
        tpp_failing_alloc_arm(n);
        const enum tpp_code code = tpp_fit_profile(&samples, &base, NULL, &fitted, &report, &err);
        const bool has_failed = tpp_failing_alloc_disarm();
        assert_int_equal(code, has_failed ? TPP_E_MEMORY : TPP_OK);
        tpp_fit_report_release(&report);
        if (!has_failed) {
            assert_true(n > 10);
            break;
        }
    }
    tpp_samples_release(&samples);
}

/* A step of 3 s of everything else and 7.02 s / (g_max g_sus): 13 s when that is 0.702. */
static enum tpp_code made_up_step(const struct tpp_hardware *hardware, const void *context, double *seconds,
                                  struct tpp_error *err)
{
    (void)context;
    (void)err;
    *seconds = 3 + 7.02 / (hardware->gpu.gemm_max_fraction * hardware->gpu.gemm_sustained_fraction);
    return TPP_OK;
}

static const struct tpp_step_origin my_run = {.source = "my run", .date = "2026-11-30"};

static void one_measured_step_scales_the_gemm_rate(void **state)
{
    (void)state;
    struct tpp_error err;
    fitted = base;
    assert_int_equal(tpp_fit_one_step(&fitted, 13, &my_run, made_up_step, NULL, &err), TPP_OK);
    CHECK_NUMBER(fitted.gpu.gemm_max_fraction, base.gpu.gemm_max_fraction, 0);
    CHECK_NUMBER(fitted.gpu.gemm_sustained_fraction, 0.702 / base.gpu.gemm_max_fraction, 1e-9);
    assert_int_equal(origin_of(&fitted, "gpu.gemm_sustained_fraction")->provenance, TPP_PROVENANCE_MEASURED);
    assert_non_null(strstr(origin_of(&fitted, "gpu.gemm_sustained_fraction")->source, "2026-11-30: one measured step of 13 s (my run)"));
    fitted = base;
    assert_int_equal(tpp_fit_one_step(&fitted, 10, &my_run, made_up_step, NULL, &err), TPP_E_RANGE); /* below 10.02 */
    CHECK_NUMBER(fitted.gpu.gemm_sustained_fraction, base.gpu.gemm_sustained_fraction, 0);
    assert_non_null(strstr(err.message, "10.02"));
}

/* A g_sus of 2 is the greatest that a profile may have: with g_max = 0.02 no GEMM reaches more than 0.04 of the peak, and
 * the step of 3 s and 7.02 s / (g_max g_sus) takes no less than 178.5 s. */
static void a_fitted_rate_is_one_that_a_profile_may_have(void **state)
{
    (void)state;
    struct tpp_error err;
    fitted = base;
    fitted.gpu.gemm_max_fraction = 0.02;
    assert_int_equal(tpp_fit_one_step(&fitted, 100, &my_run, made_up_step, NULL, &err), TPP_E_RANGE);
    assert_non_null(strstr(err.message, "178.5"));
    assert_int_equal(tpp_hardware_check(&fitted, &err), TPP_OK);
}

/* Steps of 3 s and 7.02 s / (g_max g_sus), which ran at 0.61 to 0.64 of the peak, and one that took twice as long for
 * reasons of its own: the median does not see it. */
static const double rates[] = {0.62, 0.61, 0.62, 0.63, 0.64, 0.62, 0.62, 0.62, 0.62};
enum { NUM_STEPS = sizeof rates / sizeof rates[0] };

static enum tpp_code made_up_steps(const struct tpp_hardware *hardware, const void *context, size_t index,
                                   double *seconds, struct tpp_error *err)
{
    (void)index;
    return made_up_step(hardware, context, seconds, err);
}

static void many_measured_steps_give_what_a_step_sustains(void **state)
{
    (void)state;
    double seconds[NUM_STEPS];
    for (size_t i = 0; i < NUM_STEPS; i++) {
        seconds[i] = (3 + 7.02 / rates[i]) * (i == 4 ? 2 : 1);
    }
    struct tpp_measured_steps steps = {seconds, NUM_STEPS, made_up_steps, NULL};
    struct tpp_step_origin origin = {.source = "runs.jsonl", .is_published = true};
    fitted = base;
    assert_int_equal(tpp_fit_steps(&fitted, &steps, &origin, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.gemm_max_fraction * fitted.gpu.gemm_sustained_fraction, 0.62, 1e-9);
    const struct tpp_fit_group *group = group_of("training steps");
    assert_int_equal(group->num_samples, NUM_STEPS);
    assert_int_equal(group->held_out_after.count, 3); /* 2, 5 and 8 of 0 to 8: all at 0.62, the median of the others too */
    CHECK_NUMBER(group->held_out_after.median + 1, 1, 1e-9);
    assert_non_null(strstr(origin_of(&fitted, "gpu.gemm_sustained_fraction")->source, "9 measured training steps"));
    assert_int_equal(origin_of(&fitted, "gpu.gemm_sustained_fraction")->provenance, TPP_PROVENANCE_PUBLISHED);
    /* One's own: measured, with the date. */
    origin = (struct tpp_step_origin){.source = "mine.jsonl", .date = "2026-11-30"};
    assert_int_equal(tpp_fit_steps(&fitted, &steps, &origin, &report, NULL), TPP_OK);
    assert_int_equal(origin_of(&fitted, "gpu.gemm_sustained_fraction")->provenance, TPP_PROVENANCE_MEASURED);
    assert_non_null(strstr(origin_of(&fitted, "gpu.gemm_sustained_fraction")->source,
                           "2026-11-30: 9 measured training steps (mine.jsonl), +-"));
    assert_non_null(strstr(origin_of(&fitted, "gpu.gemm_sustained_fraction")->source, "held out: median"));
    steps.count = 3;
    fitted = base;
    assert_int_equal(tpp_fit_steps(&fitted, &steps, &origin, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.gemm_sustained_fraction, base.gpu.gemm_sustained_fraction, 0);
    assert_string_equal(report.groups[2].values[0].state, "too few points");
}

/* Ten steps; of those held out, 2, 5 and 8, the second lasts 100 s and is off by a half when the others are right: nine
 * tenths of the time are within 50 %, not of the steps. At a rate of 0.62 of the peak the others take 3 + 7.02 / 0.62
 * = 14.3226 s. */
static void the_error_of_steps_weighs_them_by_their_time(void **state)
{
    (void)state;
    double seconds[10];
    const struct tpp_step_origin origin = {.source = "runs.jsonl"};
    const struct tpp_measured_steps steps = {seconds, 10, made_up_steps, NULL};
    for (size_t i = 0; i < 10; i++)
        seconds[i] = 3 + 7.02 / 0.62;
    seconds[5] = 200; /* 14.3226 / 200 - 1 = -0.928 */
    fitted = base;
    assert_int_equal(tpp_fit_steps(&fitted, &steps, &origin, &report, NULL), TPP_OK);
    const struct tpp_fit_errors *errors = &group_of("training steps")->held_out_after;
    CHECK_NUMBER(errors->time_p90, 0.928387, 1e-5); /* 200 of 228.6 s */
    CHECK_NUMBER(errors->p90, 0.8 * 0.928387, 1e-5); /* position 0.9 x 2 between 0 and it */
}

/* Steps of 2 s, less than the 3 s of everything else: no rate of GEMMs explains them, and the base value stays. */
static void steps_beyond_any_rate_keep_the_base(void **state)
{
    (void)state;
    double seconds[6] = {2, 2, 2, 2, 2, 2};
    const struct tpp_step_origin origin = {.source = "runs.jsonl"};
    const struct tpp_measured_steps steps = {seconds, 6, made_up_steps, NULL};
    fitted = base;
    assert_int_equal(tpp_fit_steps(&fitted, &steps, &origin, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.gemm_sustained_fraction, base.gpu.gemm_sustained_fraction, 0);
    assert_string_equal(group_of("training steps")->values[0].state, "not determined by these points");
    assert_string_equal(origin_of(&fitted, "gpu.gemm_sustained_fraction")->source,
                        origin_of(&base, "gpu.gemm_sustained_fraction")->source);
    assert_int_equal(report.num_notes, 1); /* at the peak 10.02 s: 401 % too long */
    assert_non_null(strstr(report.notes[0], "at 1 of the peak"));
    assert_non_null(strstr(report.notes[0], "401 % too long"));
}

/* What a profile could not be read back with is refused; the base's name is cut between characters: 55 bytes and a "é" of
 * two leave 55, as "-fitted" has room for 56. */
static void a_name_is_one_that_a_profile_may_have(void **state)
{
    (void)state;
    struct tpp_error err;
    char name[65];
    memset(name, 'n', sizeof name);
    name[64] = '\0';
    fitted = base;
    assert_int_equal(tpp_fit_name_profile(&fitted, name, &err), TPP_E_USAGE);
    assert_non_null(strstr(err.message, "64 bytes"));
    assert_int_equal(tpp_fit_name_profile(&fitted, "", &err), TPP_E_USAGE);
    assert_int_equal(tpp_fit_name_profile(&fitted, "a\xc3", &err), TPP_E_USAGE);
    assert_non_null(strstr(err.message, "byte 2"));
    assert_int_equal(tpp_fit_name_profile(&fitted, name + 1, &err), TPP_OK);
    assert_int_equal(strlen(fitted.name), 63);
    assert_int_equal(tpp_fit_name_profile(&fitted, "mine \xc3\xa9", &err), TPP_OK);
    assert_string_equal(fitted.name, "mine \xc3\xa9");
    snprintf(fitted.name, sizeof fitted.name, "%.55s\xc3\xa9nnn", name);
    assert_int_equal(tpp_fit_name_profile(&fitted, NULL, &err), TPP_OK);
    assert_int_equal(strlen(fitted.name), 62);
    assert_string_equal(fitted.name + 54, "n-fitted");
}

/* Two products at 1.01 of the peak beside 300 that are fitted; when most are, the profile is of another GPU. */
static void times_below_the_peaks_are_impossible(void **state)
{
    (void)state;
    struct tpp_error err;
    struct tpp_samples samples = begin("g.jsonl", "samples");
    struct tpp_hardware truth = base;
    truth.gpu.gemm_max_fraction = 0.8;
    add_gemms(&samples, &truth.gpu, 0.01);
    for (int i = 0; i < 2; i++) {
        struct tpp_sample sample = samples.items[i];
        sample.seconds = 2 * sample.gemm.m * sample.gemm.n * sample.gemm.k / (1.01 * base.gpu.bf16_flops_per_second);
        add(&samples, sample);
    }
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, &err), TPP_OK);
    assert_int_equal(group_of("gemm")->num_impossible, 2);
    assert_int_equal(group_of("gemm")->num_samples, 300);
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_fit_report_text(&report, &text);
    assert_non_null(strstr(text.data, "2 faster than the GPU's peak, physically impossible"));
    tpp_text_release(&text);
    for (size_t i = 0; i < samples.count; i++)
        samples.items[i].seconds /= 4;
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, &err), TPP_E_RANGE);
    assert_non_null(strstr(err.message, "samples are faster than the peak of H100-SXM5-80GB"));
    tpp_samples_release(&samples);
}

/* Ten copies at 0.9 of the bandwidth, exactly: three held out are no 90 % point, and cannot narrow what the base says. With
 * ten times as many they can. */
static void few_samples_do_not_narrow_the_error(void **state)
{
    (void)state;
    for (int count = 10; count <= 100; count *= 10) {
        struct tpp_samples samples = begin("m.jsonl", "samples");
        for (int i = 0; i < count; i++) {
            struct tpp_sample sample = {.kind = TPP_SAMPLE_MEMORY_BOUND};
            snprintf(sample.memory.operation, sizeof sample.memory.operation, "copy");
            sample.memory.bytes = 2e8 * (i + 1);
            sample.seconds = sample.memory.bytes / (0.9 * base.gpu.memory_bandwidth_bytes_per_second) *
                                 (1 + (i % 2 ? 0.02 : -0.02)) + base.gpu.kernel_gap_seconds;
            add(&samples, sample);
        }
        assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
        if (count == 10) {
            CHECK_NUMBER(fitted.gpu.memory_error_fraction, base.gpu.memory_error_fraction, 0);
            assert_non_null(strstr(report.notes[0], "only 3 samples held out"));
        } else {
            assert_true(fitted.gpu.memory_error_fraction > 0.015 && fitted.gpu.memory_error_fraction < 0.03);
        }
        assert_non_null(strstr(origin_of(&fitted, "gpu.memory_efficiency_fraction")->source, "held out: median 2"));
        tpp_fit_report_release(&report);
        tpp_samples_release(&samples);
    }
}

/* Twelve copies that scatter by a factor of 1.3 either way: the few held out cannot say how far off the fit is, the scatter
 * around it does: more than the base's. */
static void few_samples_that_scatter_widen_the_error(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("m.jsonl", "samples");
    base.gpu.memory_error_fraction = 0.1;
    base.gpu.memory_efficiency_fraction = 0.2;
    for (int i = 0; i < 12; i++) {
        struct tpp_sample sample = {.kind = TPP_SAMPLE_MEMORY_BOUND};
        snprintf(sample.memory.operation, sizeof sample.memory.operation, "copy");
        sample.memory.bytes = 2e8 * (i + 1);
        sample.seconds = sample.memory.bytes / (0.5 * base.gpu.memory_bandwidth_bytes_per_second) * (i % 2 ? 1.3 : 1 / 1.3);
        add(&samples, sample);
    }
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    assert_string_equal(group_of("memory-bound")->values[0].state, "fitted");
    /* log 1.3 = 0.262 is every distance: 1.4826 x 0.262 x 1.645 = 0.640, and more for the dozen samples */
    assert_true(fitted.gpu.memory_error_fraction > 0.63 && fitted.gpu.memory_error_fraction < 0.8);
    assert_non_null(strstr(origin_of(&fitted, "gpu.memory_error_fraction")->source, "by the covariance: only"));
    tpp_samples_release(&samples);
}

/* 65 numbers of ranks: 64 rows of the table, and a word about the rest. */
static void a_table_that_is_cut_says_so(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("c.jsonl", "samples");
    for (uint32_t ranks = 2; ranks < 67; ranks++) {
        struct tpp_sample sample = {.kind = TPP_SAMPLE_COLLECTIVE, .seconds = 1e-3};
        sample.collective.operation = TPP_ALL_GATHER;
        sample.collective.bytes = 1 << 20;
        sample.collective.num_ranks = ranks;
        sample.collective.num_nodes = 1;
        add(&samples, sample);
    }
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    assert_int_equal(report.num_groups, 65); /* and the one of the node */
    assert_non_null(strstr(report.notes[0], "only the first 64"));
    tpp_samples_release(&samples);
}

/* A path that is cut inside a character, and bytes that are none, still make a source that is read back. */
static void a_source_is_text_that_can_be_read_back(void **state)
{
    (void)state;
    struct tpp_hardware_origin origin;
    char text[300];
    memset(text, 'x', sizeof text);
    text[0] = '\xff';
    memcpy(text + 198, "\xc3\xa9", 2);
    text[299] = '\0';
    tpp_fit_write_source(&origin, text);
    assert_int_equal(origin.source[0], '?');
    assert_int_equal(strlen(origin.source), 198); /* "é" would end at byte 200, of 199 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gemm_values_come_with_error_range_and_origin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(values_from_tables_are_published_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fit_that_is_no_better_keeps_the_base, set_up, tear_down),
        cmocka_unit_test_setup_teardown(attention_gives_rates_of_each_kernel_and_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(collectives_give_latency_and_bandwidth_of_each_group, set_up, tear_down),
        cmocka_unit_test_setup_teardown(values_measured_directly_are_medians, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_sustained_rate_is_the_one_that_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(samples_that_say_nothing_are_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_report_is_printed_as_text_json_and_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_failed_allocation_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_measured_step_scales_the_gemm_rate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fitted_rate_is_one_that_a_profile_may_have, set_up, tear_down),
        cmocka_unit_test_setup_teardown(values_of_another_device_are_left_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_measured_steps_give_what_a_step_sustains, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_error_of_steps_weighs_them_by_their_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(steps_beyond_any_rate_keep_the_base, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_is_one_that_a_profile_may_have, set_up, tear_down),
        cmocka_unit_test_setup_teardown(times_below_the_peaks_are_impossible, set_up, tear_down),
        cmocka_unit_test_setup_teardown(few_samples_do_not_narrow_the_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(few_samples_that_scatter_widen_the_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_table_that_is_cut_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_source_is_text_that_can_be_read_back, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
