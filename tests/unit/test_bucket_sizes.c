/* Checks planner/bucket_sizes.h: sizes by hand, and where there is nothing to choose. */
#include "costmodel/evaluator.h"
#include "planner/bucket_sizes.h"
#include "tests/support/shapes.h"

#include <stdio.h>

struct scene {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_evaluator *evaluator;
    uint64_t sizes[TPP_MAX_BUCKET_SIZES];
};

/* Llama-3-70B at TP 8 over 32 nodes of H100 at 42.5 GB/s a GPU. */
static void make_scene(struct scene *scene, enum tpp_framework framework, const char *text)
{
    scene->model = shape_preset("llama3-70b");
    scene->hardware = shape_cluster("dgx-h100");
    scene->job = shape_job(256, 8192, 64);
    tpp_stack_defaults(framework, &scene->hardware.gpu, &scene->job, &scene->stack);
    scene->strategy = shape_strategy(text, &scene->job);
}

static size_t list(struct scene *scene, enum tpp_bucket bucket)
{
    size_t count = 99;
    assert_int_equal(tpp_evaluator_new(&scene->model, &scene->hardware, &scene->job, &scene->stack, &scene->evaluator,
                                       NULL),
                     TPP_OK);
    assert_int_equal(tpp_bucket_sizes(scene->evaluator, &scene->strategy, bucket, scene->sizes, &count, NULL), TPP_OK);
    return count;
}

static void check_two_digits(uint64_t size, double exact)
{
    assert_true((double)size <= exact && (double)size > 0.9 * exact);
    while (size >= 100) {
        assert_int_equal(size % 10, 0);
        size /= 10;
    }
}

/* The default bucket, 4e7 elements of 4 bytes, moves at 42.5 GB/s / (1 + 16 MB / 160 MB) = 38.64 GB/s; latency 8.4 us +
 * 31 * 12 us = 380.4 us. A tenth of latency: 380.4e-6 * 38.64e9 / 0.1 / 4 = 3.67e7. A burst as long as a layer's backward t_w:
 * (t_w - 380.4e-6) * 38.64e9 * 32/31 / 4. */
static void megatron_buckets_lie_between_latency_and_a_layer(void **state)
{
    (void)state;
    struct scene scene;
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, "tp=8,mbs=2,zero=1,sp=1");
    assert_int_equal(scene.stack.reduce_bytes, 4);
    assert_int_equal(list(&scene, TPP_BUCKET_REDUCE), 2);
    assert_int_equal(scene.sizes[0], 36000000);
    const struct tpp_layer *layer = tpp_evaluator_layer(scene.evaluator, &scene.strategy, TPP_LAYER_DECODER, TPP_PASSES_ALONE);
    const double backward = layer->section_seconds[TPP_SECTION_BACKWARD] + layer->section_seconds[TPP_SECTION_WEIGHT];
    check_two_digits(scene.sizes[1], 1.001 * (backward - 380.4e-6) * 38.64e9 * 32 / 31 / 4);
    tpp_evaluator_free(scene.evaluator);
    assert_int_equal(list(&scene, TPP_BUCKET_GATHER), 0); /* one size serves both */
    tpp_evaluator_free(scene.evaluator);
}

/* 80 layers of 106971136 parameters over 8 stages, a third: 356.6e6, which a slow layer's burst would pass. */
static void no_bucket_is_above_a_third_of_the_parameters(void **state)
{
    (void)state;
    struct scene scene;
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, "tp=8,pp=8,mbs=8,zero=1,sp=1");
    scene.hardware.gpu.gemm_max_fraction *= 0.1;
    assert_int_equal(list(&scene, TPP_BUCKET_REDUCE), 2);
    check_two_digits(scene.sizes[1], 10 * 106971136.0 / 3);
    tpp_evaluator_free(scene.evaluator);
}

/* Bursts of ZeRO-3: E12; a slack of some 16 ms at 42.5 GB/s is 3.4e8 elements of 2 bytes. ZeRO-1's and 2's have a default above
 * which memory would grow. */
static void deepspeed_buckets_are_below_its_default(void **state)
{
    (void)state;
    struct scene scene;
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_DEEPSPEED, "tp=8,mbs=2,zero=3,sp=1");
    assert_int_equal(list(&scene, TPP_BUCKET_REDUCE), 2);
    assert_in_range(scene.sizes[0], 250000000, 350000000);
    check_two_digits(scene.sizes[1], 0.5 * (double)scene.sizes[0]);
    tpp_evaluator_free(scene.evaluator);
    assert_int_equal(list(&scene, TPP_BUCKET_GATHER), 0); /* it gathers layer by layer */
    tpp_evaluator_free(scene.evaluator);
    for (int stage = 1; stage <= 2; stage++)
        for (int bucket = 0; bucket < TPP_BUCKET_COUNT; bucket++) {
            make_scene(&scene, TPP_FRAMEWORK_MEGATRON_DEEPSPEED, stage == 1 ? "tp=8,mbs=2,zero=1,sp=1" : "tp=8,mbs=2,zero=2,sp=1");
            const size_t count = list(&scene, (enum tpp_bucket)bucket);
            assert_true(count >= 1);
            for (size_t i = 0; i < count; i++)
                assert_in_range(scene.sizes[i], 10000000, 499999999);
            tpp_evaluator_free(scene.evaluator);
        }
}

static void there_is_nothing_to_choose_without_an_option_or_when_it_is_given(void **state)
{
    (void)state;
    static const struct {
        enum tpp_framework framework;
        const char *text, *release;
    } cases[] = {
        {TPP_FRAMEWORK_MEGATRON_LM, "tp=8,mbs=2,zero=1,sp=1,reduce_bucket=70000000", ""},
        {TPP_FRAMEWORK_MEGATRON_LM, "tp=8,mbs=2,zero=1,sp=1,overlap_grad_reduce=0", ""},
        {TPP_FRAMEWORK_MEGATRON_LM, "tp=8,mbs=2,zero=1,sp=1", "0.6"}, /* --ddp-bucket-size came with 0.7 */
        {TPP_FRAMEWORK_MS_SWIFT, "tp=8,mbs=2,zero=1,sp=1", ""},
        {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, "tp=8,mbs=2,zero=0,sp=1", ""},
        {TPP_FRAMEWORK_TORCHTITAN, "tp=8,mbs=2,zero=3", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene scene;
        make_scene(&scene, cases[i].framework, cases[i].text);
        snprintf(scene.stack.release, sizeof scene.stack.release, "%s", cases[i].release);
        assert_int_equal(list(&scene, TPP_BUCKET_REDUCE), 0);
        tpp_evaluator_free(scene.evaluator);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_buckets_lie_between_latency_and_a_layer),
        cmocka_unit_test(no_bucket_is_above_a_third_of_the_parameters),
        cmocka_unit_test(deepspeed_buckets_are_below_its_default),
        cmocka_unit_test(there_is_nothing_to_choose_without_an_option_or_when_it_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
