/* Checks planner/remedies.h with the real costs: what is proposed fits when it is costed again by itself. */
#include "planner/remedies.h"

#include "costmodel/model/presets.h"
#include "hwprofiles/profiles.h"
#include "planner/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static struct tpp_hardware hardware; /* nodes of 8 A100-80GB */
static struct tpp_remedy remedies[TPP_REMEDY_COUNT];

struct scene {
    const struct tpp_model *model;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_space_limits limits;
};

static struct scene make_scene(const char *model, uint32_t num_gpus, uint64_t sequence_length)
{
    struct scene scene = {.model = tpp_model_preset(model), .job = tpp_job_defaults()};
    assert_non_null(scene.model);
    scene.job.num_gpus = num_gpus;
    scene.job.sequence_length = sequence_length;
    scene.job.global_batch_size = 64;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &hardware.gpu, &scene.job, &scene.stack);
    scene.limits = tpp_space_limits_defaults();
    scene.limits.num_threads = 1;
    return scene;
}

static size_t find(const struct scene *scene)
{
    size_t count = 77;
    struct tpp_error err = {.message = ""};
    assert_int_equal(tpp_remedies_find(scene->model, &hardware, &scene->job, &scene->stack, &scene->limits, remedies,
                                       TPP_REMEDY_COUNT, &count, &err),
                     TPP_OK);
    assert_true(count <= TPP_REMEDY_COUNT);
    return count;
}

static bool has(size_t count, enum tpp_remedy_kind kind)
{
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        found = found || remedies[i].kind == kind;
    }
    return found;
}

static const struct tpp_remedy *get(size_t count, enum tpp_remedy_kind kind)
{
    assert_true(has(count, kind));
    size_t i = 0;
    while (i + 1 < count && remedies[i].kind != kind) {
        i++;
    }
    return &remedies[i];
}

static void expect_all_fit(const struct scene *scene, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tpp_evaluator *evaluator;
        struct tpp_cost cost;
        assert_int_equal(
            tpp_evaluator_new(scene->model, &hardware, &remedies[i].job, &remedies[i].stack, &evaluator, NULL), TPP_OK);
        assert_int_equal(tpp_evaluator_cost(evaluator, &remedies[i].plan.strategy, &cost, NULL), TPP_OK);
        assert_int_equal(tpp_rank_class(&cost.memory, scene->limits.memory_headroom_fraction), TPP_RANK_FITS);
        assert_true(cost.step_seconds == remedies[i].plan.cost.step_seconds);
        assert_true(i == 0 || remedies[i - 1].kind < remedies[i].kind); /* cheapest first */
        assert_non_null(strstr(remedies[i].sentence, "fits in"));
        tpp_evaluator_free(evaluator);
    }
}

/* 69e9 parameters at 18 bytes are 1242 GB, without the optimizer's 12 they are 414 GB. With a tenth of 85 GB cards left
 * free, a node of 8 has 612 GB and needs the states on the host; two nodes have 1224 GB, just not enough; four have
 * 2448. */
static void seventy_billion_on_one_node_need_the_host_or_more_nodes(void **state)
{
    (void)state;
    struct scene scene = make_scene("llama2-70b", 8, 4096);
    scene.limits.memory_headroom_fraction = 0.1;
    const size_t count = find(&scene);
    expect_all_fit(&scene, count);
    assert_true(has(count, TPP_REMEDY_OFFLOAD));
    assert_int_equal(get(count, TPP_REMEDY_OFFLOAD)->plan.strategy.offload, TPP_OFFLOAD_OPTIMIZER);
    const struct tpp_remedy *nodes = get(count, TPP_REMEDY_MORE_NODES);
    assert_int_equal(nodes->job.num_gpus, 32);
    assert_non_null(strstr(nodes->sentence, "32 GPUs on 4 nodes"));
    assert_false(has(count, TPP_REMEDY_MICRO_BATCH));      /* nothing is pinned */
    assert_false(has(count, TPP_REMEDY_SHORTER_SEQUENCE)); /* the states alone are too much */
}

/* 8e9 parameters at 18 bytes are 144 GB: one card of 80 GB is too small, a part of one node is enough. */
static void a_part_of_a_node_is_one_node(void **state)
{
    (void)state;
    const struct scene scene = make_scene("llama3.1-8b", 1, 4096);
    const struct tpp_remedy *nodes = get(find(&scene), TPP_REMEDY_MORE_NODES);
    assert_non_null(strstr(nodes->sentence, " GPUs on 1 node: "));
}

/* Without head-room two nodes hold the job at 99 % of the cards: too tight to be an advice. */
static void a_tight_plan_is_not_proposed(void **state)
{
    (void)state;
    const struct scene scene = make_scene("llama2-70b", 8, 4096);
    const size_t count = find(&scene);
    expect_all_fit(&scene, count);
    assert_int_equal(get(count, TPP_REMEDY_MORE_NODES)->job.num_gpus, 32);
}

static void a_pin_that_stands_in_the_way_is_named(void **state)
{
    (void)state;
    struct scene scene = make_scene("llama2-13b", 8, 32768);
    scene.limits.tensor_parallel = 8;
    scene.limits.micro_batch_size = 8; /* 262144 tokens at once */
    scene.limits.recompute = TPP_RECOMPUTE_NONE;
    const size_t count = find(&scene);
    expect_all_fit(&scene, count);
    const struct tpp_remedy *smaller = get(count, TPP_REMEDY_MICRO_BATCH);
    assert_true(smaller->plan.strategy.micro_batch_size < 8);
    assert_int_equal(smaller->plan.strategy.recompute, TPP_RECOMPUTE_NONE); /* the other pins hold */
    assert_int_equal(smaller->plan.strategy.tensor_parallel, 8);
    assert_true(has(count, TPP_REMEDY_RECOMPUTE));
    const struct tpp_remedy *shorter = get(count, TPP_REMEDY_SHORTER_SEQUENCE);
    assert_int_equal(shorter->plan.strategy.micro_batch_size, 8);
    assert_true(shorter->job.sequence_length < 32768 && shorter->job.sequence_length >= 1024);
}

static void sharded_parameters_help_replicas(void **state)
{
    (void)state;
    struct scene scene = make_scene("llama2-13b", 16, 4096);
    scene.job.global_batch_size = 16;
    scene.limits.tensor_parallel = scene.limits.pipeline_parallel = scene.limits.context_parallel = 1;
    const size_t count = find(&scene); /* 13e9 at 6 bytes are 78 GB on every card */
    expect_all_fit(&scene, count);
    const struct tpp_remedy *engine = get(count, TPP_REMEDY_ENGINE);
    assert_int_equal(engine->stack.engine, TPP_ENGINE_FSDP2);
    assert_int_equal(engine->plan.strategy.zero_stage, 3);
    assert_int_equal(engine->plan.strategy.data_parallel, 16);
    assert_true(has(count, TPP_REMEDY_LAYOUT));
}

static int read_hardware(void **state)
{
    (void)state;
    return tpp_hardware_find("dgx-a100-80g", &hardware, NULL) == TPP_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seventy_billion_on_one_node_need_the_host_or_more_nodes),
        cmocka_unit_test(a_part_of_a_node_is_one_node),
        cmocka_unit_test(a_tight_plan_is_not_proposed),
        cmocka_unit_test(a_pin_that_stands_in_the_way_is_named),
        cmocka_unit_test(sharded_parameters_help_replicas),
    };
    return cmocka_run_group_tests(tests, read_hardware, NULL);
}
