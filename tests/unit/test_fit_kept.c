/* What a fit leaves as it was, what it refuses, and what it says of values that were not fitted by a formula. */
#include "calibrate/fit/import.h"
#include "costmodel/collective_time.h"

#include "tests/support/fit_case.h"

/* Calls at half of the peak forward and 0.4 of it backward, for long sequences. */
static void add_attention(struct tpp_samples *samples, bool is_backward, int count)
{
    struct tpp_gpu gpu = base.gpu;
    gpu.flash_forward_fraction[TPP_ATTENTION_FLASH3] = 0.5;
    gpu.flash_backward_fraction[TPP_ATTENTION_FLASH3] = 0.4;
    for (int i = 0; i < count; i++) {
        struct tpp_sample sample = {.kind = TPP_SAMPLE_ATTENTION};
        const double tokens = 1024 + 512 * i;
        sample.attention = (struct tpp_attention_sample){
            .batch = 2, .num_heads = 16, .num_query_groups = 16, .query_length = tokens, .key_length = tokens,
            .qk_head_dim = 128, .v_head_dim = 128, .is_causal = true, .is_backward = is_backward,
            .kernel = TPP_ATTENTION_FLASH3};
        const struct tpp_attention call = {2, 16, tokens, tokens, 128, 128, true, TPP_ATTENTION_FLASH3};
        sample.seconds = is_backward ? tpp_flash_backward_seconds(&gpu, &call) : tpp_flash_forward_seconds(&gpu, &call);
        add(samples, sample);
    }
}

/* Two calls of a kernel that the base's GPU does not have say nothing, and many of one pass are half of it: it stays away.
 * Many of both say how fast it is. */
static void a_kernel_that_the_base_lacks_needs_enough_samples(void **state)
{
    (void)state;
    static const char forward[] = "gpu.flash3_forward_fraction";
    static const struct {
        int num_forward, num_backward;
        const char *state;
    } cases[] = {{2, 0, "too few points"}, {32, 0, "the other pass is not known"}, {32, 32, "fitted"}};
    base.gpu.flash_forward_fraction[TPP_ATTENTION_FLASH3] = 0;
    base.gpu.flash_backward_fraction[TPP_ATTENTION_FLASH3] = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_samples samples = begin("a.jsonl", "samples");
        add_attention(&samples, false, cases[i].num_forward);
        add_attention(&samples, true, cases[i].num_backward);
        assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
        const double fraction = fitted.gpu.flash_forward_fraction[TPP_ATTENTION_FLASH3];
        const struct tpp_fit_value *value = value_of(group_of("attention"), forward);
        CHECK_NUMBER(value->value, fraction, 0);
        assert_string_equal(value->state, cases[i].state);
        if (cases[i].num_backward > 0) {
            CHECK_NUMBER(fraction, 0.5, 0.02);
            CHECK_NUMBER(fitted.gpu.flash_backward_fraction[TPP_ATTENTION_FLASH3], 0.4, 0.02);
        } else {
            CHECK_NUMBER(fraction, 0, 0);
            CHECK_NUMBER(fitted.gpu.flash_backward_fraction[TPP_ATTENTION_FLASH3], 0, 0);
            assert_string_equal(origin_of(&fitted, forward)->source, origin_of(&base, forward)->source);
        }
        tpp_fit_report_release(&report);
        tpp_samples_release(&samples);
    }
}

/* Times of the base, whose tile is none of those that are tried: the best of these is no better on what was held out, and
 * nothing of it stays. */
static void the_tile_goes_back_with_the_other_values(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("t.csv", "table");
    base.gpu.gemm_tile_m = 256;
    base.gpu.gemm_tile_n = 64;
    add_gemms(&samples, &base.gpu, 0.02);
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    const struct tpp_fit_group *group = group_of("gemm");
    assert_string_equal(value_of(group, "gpu.gemm_max_fraction")->state, "no better on held-out samples");
    assert_int_equal(fitted.gpu.gemm_tile_m, 256);
    assert_int_equal(fitted.gpu.gemm_tile_n, 64);
    assert_string_equal(origin_of(&fitted, "gpu.gemm_tile_n")->source, origin_of(&base, "gpu.gemm_tile_n")->source);
    CHECK_NUMBER(group->all_after.median, group->all_before.median, 0);
    tpp_samples_release(&samples);
}

/* Ten nodes of one GPU, exactly as the base says: no fit can be better. The table shows latency and bandwidth all the same: 2
 * log2(10) hops of a tree, and the NIC's rate of a ring. */
static void groups_that_are_only_shown_are_shown(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("c.jsonl", "samples");
    const struct tpp_links links = tpp_links_make(&base, 0, 0);
    const struct tpp_group place = tpp_group_place_by_hand(10, 1);
    for (int i = 0; i < 24; i++) {
        struct tpp_sample sample = {.kind = TPP_SAMPLE_COLLECTIVE};
        sample.collective = (struct tpp_collective_sample){
            .operation = TPP_ALL_REDUCE, .bytes = UINT64_C(4096) << i, .num_ranks = 10, .num_nodes = 10};
        sample.seconds = tpp_collective_seconds(&links, TPP_ALL_REDUCE, &place, (double)sample.collective.bytes);
        add(&samples, sample);
    }
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    const struct tpp_fit_group *group = group_of("all_reduce, 10 ranks, 10 nodes");
    assert_string_equal(value_of(group, "node.all_reduce_bus_bytes_per_second")->state, "fitted");
    CHECK_NUMBER(value_of(group, "node.all_reduce_bus_bytes_per_second")->value,
                 base.network.nic_bytes_per_second * base.network.ring_efficiency_fraction, 0.02);
    CHECK_NUMBER(value_of(group, "node.base_latency_seconds")->value,
                 base.node.base_latency_seconds + 2 * log2(10) * base.network.hop_latency_seconds, 0.05);
    CHECK_NUMBER(fitted.network.ring_efficiency_fraction, base.network.ring_efficiency_fraction, 0.01);
    tpp_samples_release(&samples);
}

/* An all-gather of 1 to 60 GiB on 8 GPUs: 7 hops of 3.4 us are less than a percent of 3 ms, which such times do not show; of
 * 64 KiB to 4 MiB they are most of it, and times without them say that there are none. */
static void what_large_messages_cannot_show_is_kept(void **state)
{
    (void)state;
    static const char key[] = "node.hop_latency_seconds";
    for (int is_large = 0; is_large < 2; is_large++) {
        struct tpp_samples samples = begin("c.jsonl", "samples");
        struct tpp_hardware truth = base;
        truth.node.hop_latency_seconds = 0;
        const struct tpp_links links = tpp_links_make(&truth, 0, 0);
        const struct tpp_group place = tpp_group_place_by_hand(8, 8);
        for (int i = 0; i < 30; i++) {
            struct tpp_sample sample = {.kind = TPP_SAMPLE_COLLECTIVE};
            sample.collective = (struct tpp_collective_sample){.operation = TPP_ALL_GATHER, .num_ranks = 8, .num_nodes = 1};
            sample.collective.bytes = (UINT64_C(2) * (unsigned)i + 2) << (is_large ? 29 : 16);
            sample.seconds = tpp_collective_seconds(&links, TPP_ALL_GATHER, &place, (double)sample.collective.bytes) *
                             (0.98 + 0.01 * (i * 7 % 5)); /* 2 % of scatter */
            add(&samples, sample);
        }
        assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
        const struct tpp_fit_value *value = value_of(group_of("collectives inside a node"), key);
        if (is_large) {
            assert_string_equal(value->state, "not determined by these points");
            CHECK_NUMBER(fitted.node.hop_latency_seconds, base.node.hop_latency_seconds, 0);
        } else {
            assert_true(fitted.node.hop_latency_seconds < 0.01 * base.node.hop_latency_seconds);
        }
        tpp_fit_report_release(&report);
        tpp_samples_release(&samples);
    }
}

/* Eight ranks of eight nodes, with one port a node of 50 GB/s for eight GPUs: a group alone has the port for itself, eight at
 * once have an eighth each, which is what a step sees and the model says. */
static void groups_that_share_a_port_are_what_counts(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("c.jsonl", "samples");
    const struct tpp_group place = tpp_group_place_by_hand(8, 1);
    struct tpp_hardware truth = base;
    truth.network.ring_efficiency_fraction = 0.7;
    for (int i = 0; i < 24; i++) {
        for (int at_once = 0; at_once < 2; at_once++) {
            struct tpp_sample sample = {.kind = TPP_SAMPLE_COLLECTIVE};
            truth.network.num_nics = at_once ? 1 : 8;
            const struct tpp_links links = tpp_links_make(&truth, 0, 0);
            sample.collective = (struct tpp_collective_sample){
                .operation = TPP_ALL_GATHER, .bytes = UINT64_C(1048576) << (i / 2), .num_ranks = 8, .num_nodes = 8,
                .in_place = i % 2, .concurrent_groups = at_once ? 8 : 1};
            sample.seconds = tpp_collective_seconds(&links, TPP_ALL_GATHER, &place, (double)sample.collective.bytes) *
                             (1 + 0.01 * (i % 3));
            add(&samples, sample);
        }
    }
    base.network.num_nics = 1;
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.network.ring_efficiency_fraction, 0.7, 0.03);
    assert_int_equal(group_of("collectives between nodes")->num_samples, 24);
    assert_int_equal(group_of("collectives between nodes")->num_left_out, 24);
    CHECK_NUMBER(value_of(group_of("all_gather, 8 ranks, 8 nodes, 8 at once"), "node.all_gather_bus_bytes_per_second")->value,
                 50e9 * 0.7 / 8, 0.02);
    tpp_samples_release(&samples);
}

/* Nine values, all of them in the report with their error: 2 us with quartiles 1.5 and 5.5 us; of two files that say 6 and
 * 10 us without repeats the middle, and the distance of their quartiles (7 and 9) in half. */
static void values_measured_directly_have_an_error_each(void **state)
{
    (void)state;
    static const char text[] = "{\"kind\":\"value\",\"key\":\"gpu.kernel_gap_seconds\",\"values\":[1e-6,9e-6,2e-6]}\n"
                               "{\"kind\":\"value\",\"key\":\"gpu.host_launch_seconds\",\"values\":6e-6}\n"
                               "{\"kind\":\"value\",\"key\":\"gpu.host_launch_seconds\",\"values\":10e-6}\n"
                               "{\"kind\":\"value\",\"key\":\"gpu.context_bytes\",\"values\":500000000}\n"
                               "{\"kind\":\"value\",\"key\":\"gpu.cublas_workspace_bytes\",\"values\":30000000}\n"
                               "{\"kind\":\"value\",\"key\":\"gpu.memory_bytes\",\"values\":80000000000}\n"
                               "{\"kind\":\"value\",\"key\":\"gpu.overlap_slowdown_fraction\",\"values\":0.2}\n"
                               "{\"kind\":\"value\",\"key\":\"node.host_link_bytes_per_second\",\"values\":5e10}\n"
                               "{\"kind\":\"value\",\"key\":\"network.nccl_communicator_bytes\",\"values\":600000000}\n"
                               "{\"kind\":\"value\",\"key\":\"network.nccl_all_to_all_bytes\",\"values\":700000000}\n";
    struct tpp_samples samples;
    tpp_samples_init(&samples);
    assert_int_equal(tpp_import_text(text, sizeof text - 1, "v.jsonl", NULL, &samples, NULL), TPP_OK);
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    const struct tpp_fit_group *group = group_of("values measured directly");
    assert_int_equal(group->num_samples, 10);
    assert_int_equal(group->num_values, 9);
    assert_true(group->is_in_profile);
    CHECK_NUMBER(value_of(group, "gpu.kernel_gap_seconds")->error, 2e-6, 1e-9);
    CHECK_NUMBER(value_of(group, "gpu.host_launch_seconds")->value, 8e-6, 1e-9);
    CHECK_NUMBER(value_of(group, "gpu.host_launch_seconds")->error, 1e-6, 1e-9);
    assert_non_null(strstr(origin_of(&fitted, "gpu.host_launch_seconds")->source, "2 samples of v.jsonl"));
    assert_non_null(strstr(origin_of(&fitted, "gpu.host_launch_seconds")->source, "+-12 %"));
    CHECK_NUMBER(fitted.network.nccl_all_to_all_bytes, 700000000, 0);
    tpp_samples_release(&samples);
}

/* Five shapes after seconds of load at 0.78 to 0.82 of their burst rate: the median, its error (quartiles 0.79 and 0.81:
 * 1.2533 x 0.7413 x 0.02 / sqrt(5) = 0.0083, of 0.8 1 %), and how many shapes it is of. */
static void the_sustained_rate_has_an_error_and_its_own_samples(void **state)
{
    (void)state;
    struct tpp_samples samples = begin("g.jsonl", "samples");
    add_gemms(&samples, &base.gpu, 0.01);
    for (int i = 0; i < 5; i++) {
        struct tpp_sample sample = samples.items[20 + i];
        sample.seconds /= 0.78 + 0.01 * i;
        sample.gemm.is_sustained = true;
        add(&samples, sample);
    }
    base.gpu.gemm_sustained_fraction = 0.9;
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    const struct tpp_fit_value *value = value_of(group_of("gemm under load"), "gpu.gemm_sustained_fraction");
    CHECK_NUMBER(value->value, 0.8, 1e-9);
    CHECK_NUMBER(value->error, 1.2533 * 0.7413 * 0.02 / sqrt(5), 1e-6);
    const char *source = origin_of(&fitted, "gpu.gemm_sustained_fraction")->source;
    assert_non_null(strstr(source, "5 samples of g.jsonl"));
    assert_non_null(strstr(source, "+-1 %"));
    tpp_fit_report_release(&report);
    base.gpu.gemm_sustained_fraction = 0.7; /* steps showed less: bursts and load have no part in the rest */
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
    CHECK_NUMBER(fitted.gpu.gemm_sustained_fraction, 0.7, 0);
    CHECK_NUMBER(value_of(group_of("gemm under load"), "gpu.gemm_sustained_fraction")->value, 0.7, 0);
    tpp_samples_release(&samples);
}

static void samples_of_another_gpu_than_the_base_are_noted(void **state)
{
    (void)state;
    static const struct {
        const char *base, *device;
        bool is_other;
    } cases[] = {
        {"H100-SXM5-80GB", "NVIDIA H100 80GB HBM3", false}, {"RTX4090-24GB", "NVIDIA GeForce RTX 4090", false},
        {"A100-SXM4-80GB", "a100-80g", false},              {"MI300X-192GB", "AMD Instinct MI300X", false},
        {"V100-SXM2-32GB", "Tesla V100-SXM2-32GB", false},  {"H100-SXM5-80GB", "", false},
        {"H100-SXM5-80GB", "NVIDIA H200", true},            {"B200-SXM6-180GB", "NVIDIA GB200", true},
        {"L40S-48GB", "NVIDIA L40", true},                  {"A10-24GB", "NVIDIA A10G", true},
        {"RTX4090-24GB", "NVIDIA GeForce RTX", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tpp_samples samples = begin("m.jsonl", "samples");
        struct tpp_sample sample = {.kind = TPP_SAMPLE_MEMORY_BOUND, .seconds = 1e-3, .num_repeats = 1};
        snprintf(sample.memory.operation, sizeof sample.memory.operation, "copy");
        snprintf(sample.device, sizeof sample.device, "%s", cases[i].device);
        sample.memory.bytes = 0.8 * base.gpu.memory_bandwidth_bytes_per_second * 1e-3;
        assert_int_equal(tpp_samples_add(&samples, &sample, NULL), TPP_OK);
        snprintf(base.gpu.name, sizeof base.gpu.name, "%s", cases[i].base);
        assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, NULL), TPP_OK);
        bool is_noted = false;
        for (uint32_t j = 0; j < report.num_notes; j++) {
            is_noted = is_noted || strstr(report.notes[j], "is --base the right one?");
        }
        if (is_noted != cases[i].is_other) {
            fail_msg("%s on a base of %s", cases[i].device, cases[i].base);
        }
        tpp_fit_report_release(&report);
        tpp_samples_release(&samples);
    }
}

/* Of 300 products 180 are faster than the peak: the others are no measurement of this GPU either. */
static void a_profile_of_a_slower_gpu_is_refused(void **state)
{
    (void)state;
    struct tpp_error err;
    struct tpp_samples samples = begin("g.jsonl", "samples");
    add_gemms(&samples, &base.gpu, 0.01);
    for (size_t i = 0; i < 180; i++) {
        samples.items[i].seconds /= 4;
    }
    assert_int_equal(tpp_fit_profile(&samples, &base, NULL, &fitted, &report, &err), TPP_E_RANGE);
    assert_string_equal(err.message,
                        "180 of 300 samples are faster than the peak of H100-SXM5-80GB: physically impossible");
    tpp_samples_release(&samples);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_kernel_that_the_base_lacks_needs_enough_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_tile_goes_back_with_the_other_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(groups_that_are_only_shown_are_shown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_large_messages_cannot_show_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(groups_that_share_a_port_are_what_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(values_measured_directly_have_an_error_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_sustained_rate_has_an_error_and_its_own_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(samples_of_another_gpu_than_the_base_are_noted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_profile_of_a_slower_gpu_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
