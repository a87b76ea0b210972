/* Screening of contention (9.4, example E12), and field note A6: for which layers a bucket of 5e8 elements hurts and one of
 * 2e8 does not. */
#include "costmodel/evaluator.h"
#include "costmodel/simulator/contention.h"
#include "tests/support/shapes.h"

/* E12: Llama-3-70B layer, t = 8: 106,956,800 parameters a rank; 32 nodes, 42.5 GB/s, bf16, no latency. */
static struct tpp_burst example_e12(double bucket_elements, double layer_seconds)
{
    return (struct tpp_burst){.bucket_elements = bucket_elements, .element_bytes = 2, .num_ranks = 32,
                              .bytes_per_second = 42.5e9, .layer_seconds = layer_seconds, .gather_seconds = 4.876e-3,
                              .prefetch_layers = 1, .layer_elements = 106956800};
}

static void bursts_are_those_of_example_e12(void **state)
{
    (void)state;
    struct tpp_burst burst = example_e12(5e8, 20e-3);
    CHECK_NUMBER(tpp_burst_seconds(&burst), 22.794e-3, 5e-5); /* 5e8 * 2 * 31/32 / 42.5e9 */
    CHECK_NUMBER(tpp_burst_period_layers(&burst), 5e8 / 106956800, 1e-12);
    burst.latency_seconds = 1e-3;
    CHECK_NUMBER(tpp_burst_seconds(&burst), 23.794e-3, 5e-5);
    burst = example_e12(2e8, 20e-3);
    CHECK_NUMBER(tpp_burst_seconds(&burst), 9.118e-3, 5e-5);
    CHECK_NUMBER(tpp_burst_slack_seconds(&burst), 15.124e-3, 1e-9); /* 20 - 4.876 */
}

static void the_claim_holds_between_the_two_bursts(void **state)
{
    (void)state;
    /* Slack from 9.1 to 22.8 ms: layers from 14.0 to 27.7 ms. */
    static const double hurting[] = {14.1e-3, 20e-3, 27.6e-3}, bound[] = {8e-3, 13.9e-3}, fine[] = {27.7e-3, 60e-3};
    for (int i = 0; i < 3; i++) {
        const struct tpp_burst large = example_e12(5e8, hurting[i]), small = example_e12(2e8, hurting[i]);
        assert_true(tpp_burst_stall_seconds(&large) > 0 && tpp_burst_stall_seconds(&small) == 0);
    }
    for (int i = 0; i < 2; i++) {
        const struct tpp_burst large = example_e12(5e8, bound[i]), small = example_e12(2e8, bound[i]);
        assert_true(tpp_burst_stall_seconds(&large) > 0 && tpp_burst_stall_seconds(&small) > 0);
        const struct tpp_burst large_fine = example_e12(5e8, fine[i]), small_fine = example_e12(2e8, fine[i]);
        assert_true(tpp_burst_stall_seconds(&large_fine) == 0 && tpp_burst_stall_seconds(&small_fine) == 0);
    }
    const struct tpp_burst burst = example_e12(5e8, 20e-3);
    CHECK_NUMBER(tpp_burst_stall_seconds(&burst), 22.794e-3 - 15.124e-3, 1e-4);
    CHECK_NUMBER(tpp_burst_fair_delay_seconds(&burst, 4.876e-3), 4.876e-3, 0);
    CHECK_NUMBER(tpp_burst_fair_delay_seconds(&burst, 1), 22.794e-3, 5e-5);
}

static void the_recommended_bucket_fills_the_slack(void **state)
{
    (void)state;
    /* Slack 15.124 ms less 0.5 ms of latency: 14.624e-3 * 42.5e9 * 32/31 / 2 = 320,786,000 elements. */
    struct tpp_burst burst = example_e12(0, 20e-3);
    burst.latency_seconds = 0.5e-3;
    burst.bucket_elements = tpp_burst_recommended_elements(&burst);
    CHECK_NUMBER(burst.bucket_elements, 320786000, 1e-4);
    CHECK_NUMBER(tpp_burst_seconds(&burst), tpp_burst_slack_seconds(&burst), 1e-6);
    /* No slack at all: latency stays a tenth, 0.5e-3 * 42.5e9 / 0.1 / 2 = 106,250,000. */
    burst.layer_seconds = 1e-3;
    CHECK_NUMBER(tpp_burst_recommended_elements(&burst), 106250000, 1e-9);
}

static void levels_begin_where_the_specification_says(void **state)
{
    (void)state;
    CHECK_NUMBER(tpp_contention_load(8.5e8, 42.5e9, 25e-3), 0.8, 1e-12);
    assert_int_equal(tpp_contention_level_of(0.499), TPP_CONTENTION_LOW);
    assert_int_equal(tpp_contention_level_of(0.5), TPP_CONTENTION_MODERATE);
    assert_int_equal(tpp_contention_level_of(0.8), TPP_CONTENTION_HIGH);
    assert_int_equal(tpp_contention_level_of(1), TPP_CONTENTION_HIGH);
    assert_int_equal(tpp_contention_level_of(1.01), TPP_CONTENTION_SATURATED);
    assert_string_equal(tpp_contention_level_name(TPP_CONTENTION_SATURATED), "saturated");
    CHECK_NUMBER(tpp_contention_exposed_seconds(1.25, 0.02), 0.005, 1e-12);
    CHECK_NUMBER(tpp_contention_exposed_seconds(0.9, 0.02), 0, 0);
}

/* A6 as a plan: Llama-3-70B, TP8 inside the node and ZeRO-3 of DeepSpeed over 32 nodes on the same NIC; layers from fast to
 * slow by the factor of the GPUs. Nothing but the link is shared: sigma is 0. */
struct scene {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
};

static void make_scene(struct scene *scene)
{
    scene->model = shape_preset("llama3-70b");
    scene->hardware = shape_cluster("dgx-h100");
    scene->hardware.overlap_slowdown_fraction = 0;
    scene->job = shape_job(256, 4096, 64);
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, &scene->hardware.gpu, &scene->job, &scene->stack);
    assert_int_equal(scene->stack.engine, TPP_ENGINE_DEEPSPEED);
    assert_int_equal(scene->stack.reduce_bytes, 2);
}

struct outcome {
    double pipeline_seconds, layer_backward_seconds;
    struct tpp_simulated_contention nic;
};

static struct outcome run_a6(const struct scene *scene, uint64_t bucket, double slowdown)
{
    struct tpp_evaluator *evaluator;
    struct tpp_simulation *simulation;
    struct tpp_strategy strategy = shape_strategy("tp=8,mbs=2,zero=3,sp=1", &scene->job);
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    bool done = false;
    strategy.reduce_bucket_size = bucket;
    options.slow_gpu.slowdown = slowdown;
    assert_int_equal(tpp_evaluator_new(&scene->model, &scene->hardware, &scene->job, &scene->stack, &evaluator, NULL),
                     TPP_OK);
    assert_int_equal(tpp_simulation_new(evaluator, &strategy, &options, &simulation, NULL), TPP_OK);
    assert_int_equal(tpp_simulation_run(simulation, UINT64_MAX, &done, NULL), TPP_OK);
    const struct tpp_simulation_result *result = tpp_simulation_result(simulation);
    const struct tpp_layer *layer = tpp_evaluator_layer(evaluator, &strategy, TPP_LAYER_DECODER, TPP_PASSES_ALONE);
    double transfers = 0, seconds = 0;
    for (int s = TPP_SECTION_BACKWARD; s <= TPP_SECTION_WEIGHT; s++) {
        seconds += layer->section_seconds[s];
        transfers += layer->seconds[s][TPP_PART_TENSOR];
    }
    struct outcome outcome = {.pipeline_seconds = result->pipeline_seconds,
                              .layer_backward_seconds = (seconds - transfers) * slowdown + transfers};
    for (uint32_t i = 0; i < result->num_contentions; i++)
        if (result->contention[i].resource == TPP_RESOURCE_NIC_OUT)
            outcome.nic = result->contention[i];
    tpp_simulation_free(simulation);
    tpp_evaluator_free(evaluator);
    return outcome;
}

static void the_simulation_finds_the_band_of_field_note_a6(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t num_hurt = 0, num_fine = 0;
    make_scene(&scene);
    for (double slowdown = 1; slowdown < 4.5; slowdown += 0.125) {
        const struct outcome large = run_a6(&scene, 500000000, slowdown), small = run_a6(&scene, 200000000, slowdown);
        const double saved = large.pipeline_seconds - small.pipeline_seconds;
        const struct tpp_burst burst = example_e12(5e8, large.layer_backward_seconds);
        const double stall = tpp_burst_stall_seconds(&burst);
        assert_true(large.nic.operations[0] != NULL && large.nic.collision_seconds > 0);
        assert_string_equal(large.nic.operations[0], "gradient reduction");
        assert_string_equal(large.nic.operations[1], "layer gather");
        if (large.layer_backward_seconds > 15e-3 && stall > 1e-3) {
            /* 80 layers at 4.67 a bucket: 17 bursts. Copies make the layer up to half a millisecond longer than its compute, and
             * latencies the bursts. */
            assert_true(saved > 17 * (stall - 0.6e-3) && saved < 17 * (stall + 0.2e-3));
            num_hurt++;
        } else if (large.layer_backward_seconds > 28e-3) {
            assert_true(fabs(saved) < 0.1e-3);
            num_fine++;
        }
    }
    assert_true(num_hurt >= 8 && num_fine >= 3);
}

static void the_burst_of_the_plan_is_that_of_example_e12(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_evaluator *evaluator;
    struct tpp_burst burst;
    bool has_burst;
    make_scene(&scene);
    assert_int_equal(tpp_evaluator_new(&scene.model, &scene.hardware, &scene.job, &scene.stack, &evaluator, NULL),
                     TPP_OK);
    struct tpp_strategy strategy = shape_strategy("tp=8,mbs=2,zero=3,sp=1,reduce_bucket=500000000", &scene.job);
    assert_int_equal(tpp_burst_of_plan(evaluator, &strategy, &burst, &has_burst, NULL), TPP_OK);
    assert_true(has_burst);
    /* The example divides the two norms by t as well; every rank holds them whole: 2 * 8192 * 7/8 more. */
    CHECK_NUMBER(burst.layer_elements, 106956800 + 14336, 0);
    /* 50 GB/s at 85 %; half-rate 16 MB of a message of 1 GB: 1.6 % slower. Latency 8.4 us + 31 * 12 us. */
    CHECK_NUMBER(burst.bytes_per_second, 42.5e9 / 1.016, 1e-3);
    CHECK_NUMBER(burst.latency_seconds, 380.4e-6, 1e-3);
    CHECK_NUMBER(tpp_burst_seconds(&burst), 380.4e-6 + 1.016 * 22.794e-3, 1e-3);
    assert_true(burst.gather_seconds > 4.876e-3 && burst.gather_seconds < 1.2 * 4.876e-3);
    strategy.zero_stage = 1;
    assert_int_equal(tpp_burst_of_plan(evaluator, &strategy, &burst, &has_burst, NULL), TPP_OK);
    assert_false(has_burst);
    tpp_evaluator_free(evaluator);
}

static void the_recommended_bucket_does_not_stall_the_simulated_plan(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_evaluator *evaluator;
    struct tpp_burst burst;
    bool has_burst;
    make_scene(&scene);
    scene.job.sequence_length = 8192; /* layers of 21 ms */
    assert_int_equal(tpp_evaluator_new(&scene.model, &scene.hardware, &scene.job, &scene.stack, &evaluator, NULL),
                     TPP_OK);
    const struct tpp_strategy strategy = shape_strategy("tp=8,mbs=2,zero=3,sp=1", &scene.job);
    assert_int_equal(tpp_burst_of_plan(evaluator, &strategy, &burst, &has_burst, NULL), TPP_OK);
    tpp_evaluator_free(evaluator);
    assert_true(has_burst && tpp_burst_stall_seconds(&burst) > 0); /* DeepSpeed's default of 5e8 */
    const double best = tpp_burst_recommended_elements(&burst);
    const double stalled = run_a6(&scene, 0, 1).pipeline_seconds;
    const double recommended = run_a6(&scene, (uint64_t)best, 1).pipeline_seconds;
    const double smaller = run_a6(&scene, (uint64_t)(best / 3), 1).pipeline_seconds;
    assert_true(recommended < stalled - 0.02);
    CHECK_NUMBER(recommended, smaller, 0.003);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursts_are_those_of_example_e12),
        cmocka_unit_test(the_claim_holds_between_the_two_bursts),
        cmocka_unit_test(the_recommended_bucket_fills_the_slack),
        cmocka_unit_test(levels_begin_where_the_specification_says),
        cmocka_unit_test(the_burst_of_the_plan_is_that_of_example_e12),
        cmocka_unit_test(the_recommended_bucket_does_not_stall_the_simulated_plan),
        cmocka_unit_test(the_simulation_finds_the_band_of_field_note_a6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
