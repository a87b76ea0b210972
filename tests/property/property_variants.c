/* Laws of the real costs that the search relies on or that users expect, on random strategies of several frameworks. */
#include "costmodel/model/presets.h"
#include "hwprofiles/profiles.h"
#include "planner/bound.h"
#include "planner/space.h"
#include "planner/validity.h"
#include "tests/support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct tpp_hardware hardware; /* of a node of 8 A100-80GB; read once */

struct scene {
    const struct tpp_model *model;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_space_limits limits;
    struct tpp_space *space;
    struct tpp_evaluator *evaluator;
    struct tpp_validity validity;
};

static void open_scene(struct scene *scene, const char *model, enum tpp_framework framework, enum tpp_engine engine)
{
    struct tpp_error err = {.message = ""};
    scene->model = tpp_model_preset(model);
    assert_non_null(scene->model);
    scene->job = tpp_job_defaults();
    scene->job.num_gpus = 64;
    scene->job.sequence_length = 4096;
    scene->job.global_batch_size = 192;
    tpp_stack_defaults(framework, &hardware.gpu, &scene->job, &scene->stack);
    scene->stack.engine = engine;
    tpp_stack_set_dtypes(&scene->stack, &scene->job);
    scene->limits = tpp_space_limits_defaults();
    scene->limits.full_space = true;
    tpp_space_new(scene->model, hardware.node.num_gpus, &scene->job, &scene->stack, &scene->limits, &scene->space,
                  &err);
    assert_string_equal(err.message, "");
    tpp_evaluator_new(scene->model, &hardware, &scene->job, &scene->stack, &scene->evaluator, &err);
    assert_string_equal(err.message, "");
    tpp_validity_init(scene->model, hardware.gpu.compute_capability, &scene->job, &scene->stack, &scene->validity);
}

static void close_scene(struct scene *scene)
{
    tpp_space_free(scene->space);
    tpp_evaluator_free(scene->evaluator);
}

/* A random group of the space; false when that draw is none or cannot be run. */
static bool draw_group(struct scene *scene, struct tpp_random *random, struct tpp_strategy *strategy)
{
    static struct tpp_space_cell cell;
    struct tpp_cost cost;
    tpp_space_cell(scene->space, tpp_random_range(random, 0, tpp_space_num_cells(scene->space) - 1), &cell);
    return cell.num_groups > 0 &&
           tpp_space_group(scene->space, &cell, tpp_random_range(random, 0, cell.num_groups - 1), strategy) &&
           tpp_evaluator_cost(scene->evaluator, strategy, &cost, NULL) == TPP_OK;
}

static const struct {
    const char *model;
    enum tpp_framework framework;
    enum tpp_engine engine;
} stacks[] = {
    {"gpt3-175b", TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON},
    {"llama3.1-8b", TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON},
    {"llama2-13b", TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_ENGINE_DEEPSPEED},
    {"llama2-13b", TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_ENGINE_DEEPSPEED_PIPELINE},
    {"llama3.1-8b", TPP_FRAMEWORK_TORCHTITAN, TPP_ENGINE_FSDP2},
    {"llama3.1-8b", TPP_FRAMEWORK_OTHER, TPP_ENGINE_DDP},
};
enum { NUM_STACKS = sizeof stacks / sizeof stacks[0] };

static void expect_above(const struct tpp_cost *cost, const struct tpp_bound *bound)
{
    assert_true(cost->step_seconds >= bound->step_seconds);
    assert_true(tpp_rank_missing_bytes(&cost->memory, 0) >= bound->missing_bytes);
    assert_true(tpp_rank_class(&cost->memory, 0) >= bound->rank_class);
}

static void no_variant_is_below_the_bound_of_another(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 8128};
    for (int i = 0; i < NUM_STACKS; i++) {
        struct scene scene;
        uint64_t seen = 0;
        open_scene(&scene, stacks[i].model, stacks[i].framework, stacks[i].engine);
        for (int draw = 0; draw < 400; draw++) {
            struct tpp_strategy group;
            struct tpp_cost cost;
            if (!draw_group(&scene, &random, &group)) {
                continue;
            }
            assert_int_equal(tpp_evaluator_cost(scene.evaluator, &group, &cost, NULL), TPP_OK);
            const struct tpp_bound bound = tpp_bound_of_variants(&cost, 0);
            for (uint32_t k = 0; k < tpp_space_num_variants(scene.space, &group); k++, seen++) {
                struct tpp_strategy variant = group;
                tpp_space_set_variant(scene.space, k, &variant);
                assert_int_equal(tpp_evaluator_cost(scene.evaluator, &variant, &cost, NULL), TPP_OK);
                expect_above(&cost, &bound);
            }
        }
        assert_true(seen > 50);
        close_scene(&scene);
    }
}

static void a_framework_accepts_all_variants_of_a_group_or_none(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 496};
    for (int i = 0; i < NUM_STACKS; i++) {
        struct scene scene;
        uint64_t accepted = 0;
        open_scene(&scene, stacks[i].model, stacks[i].framework, stacks[i].engine);
        for (int draw = 0; draw < 400; draw++) {
            struct tpp_strategy group;
            if (!draw_group(&scene, &random, &group)) {
                continue;
            }
            const bool is_accepted = tpp_validity_accepts(&scene.validity, &group);
            accepted += is_accepted;
            for (uint32_t k = 1; k < tpp_space_num_variants(scene.space, &group); k++) {
                struct tpp_strategy variant = group;
                tpp_space_set_variant(scene.space, k, &variant);
                assert_int_equal(tpp_validity_accepts(&scene.validity, &variant), is_accepted);
            }
        }
        assert_true(accepted > 10); /* or the space and the rules have nothing in common */
        close_scene(&scene);
    }
}

/* The answer does not depend on what was asked before. */
static void an_answer_of_the_rules_does_not_depend_on_the_one_before(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 33550336};
    for (int i = 0; i < NUM_STACKS; i++) {
        static struct tpp_space_cell cell;
        struct scene scene;
        open_scene(&scene, stacks[i].model, stacks[i].framework, stacks[i].engine);
        for (int draw = 0; draw < 100; draw++) {
            tpp_space_cell(scene.space, tpp_random_range(&random, 0, tpp_space_num_cells(scene.space) - 1), &cell);
            const uint64_t first = cell.num_groups > 0 ? tpp_random_range(&random, 0, cell.num_groups - 1) : 0;
            for (uint64_t group = first; group < cell.num_groups && group < first + 40; group++) {
                struct tpp_strategy strategy;
                struct tpp_validity fresh;
                if (tpp_space_group(scene.space, &cell, group, &strategy)) {
                    tpp_validity_init(scene.model, hardware.gpu.compute_capability, &scene.job, &scene.stack, &fresh);
                    assert_int_equal(tpp_validity_accepts(&scene.validity, &strategy),
                                     tpp_validity_accepts(&fresh, &strategy));
                }
            }
        }
        close_scene(&scene);
    }
}

static void memory_never_grows_with_the_zero_stage(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 28};
    struct scene scene;
    open_scene(&scene, "llama2-13b", TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_ENGINE_DEEPSPEED);
    for (int draw = 0; draw < 300; draw++) {
        struct tpp_strategy strategy;
        struct tpp_cost cost, before = {.memory = {.device_total_bytes = 1e30}};
        if (!draw_group(&scene, &random, &strategy) || strategy.pipeline_parallel > 1) {
            continue;
        }
        strategy.offload = TPP_OFFLOAD_NONE;
        /* Stage 1 has communication buckets that stage 0 has not: sharded state must be compared without them. */
        for (strategy.zero_stage = 0; strategy.zero_stage < 3; strategy.zero_stage++) {
            assert_int_equal(tpp_evaluator_cost(scene.evaluator, &strategy, &cost, NULL), TPP_OK);
            const double total = cost.memory.peak_allocated_bytes - cost.memory.terms[TPP_MEMORY_BUCKETS];
            assert_true(total <= before.memory.device_total_bytes);
            before.memory.device_total_bytes = total;
        }
    }
    close_scene(&scene);
}

static void more_bandwidth_is_never_slower(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 6};
    for (int i = 0; i < NUM_STACKS; i++) {
        struct scene scene;
        struct tpp_hardware faster = hardware;
        struct tpp_evaluator *evaluator;
        open_scene(&scene, stacks[i].model, stacks[i].framework, stacks[i].engine);
        faster.network.nic_bytes_per_second *= tpp_random_uniform(&random, 1, 9);
        for (int k = 0; k < TPP_COLLECTIVE_COUNT; k++) {
            faster.node.bus_bytes_per_second[k] *= 1.7;
        }
        assert_int_equal(tpp_evaluator_new(scene.model, &faster, &scene.job, &scene.stack, &evaluator, NULL), TPP_OK);
        for (int draw = 0; draw < 300; draw++) {
            struct tpp_strategy strategy;
            struct tpp_cost slow, fast;
            if (!draw_group(&scene, &random, &strategy)) {
                continue;
            }
            assert_int_equal(tpp_evaluator_cost(scene.evaluator, &strategy, &slow, NULL), TPP_OK);
            assert_int_equal(tpp_evaluator_cost(evaluator, &strategy, &fast, NULL), TPP_OK);
            assert_true(fast.step_seconds <= slow.step_seconds * (1 + 1e-12)); /* sums round */
        }
        tpp_evaluator_free(evaluator);
        close_scene(&scene);
    }
}

static int read_hardware(void **state)
{
    (void)state;
    return tpp_hardware_find("dgx-a100-80g", &hardware, NULL) == TPP_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_variant_is_below_the_bound_of_another),
        cmocka_unit_test(a_framework_accepts_all_variants_of_a_group_or_none),
        cmocka_unit_test(an_answer_of_the_rules_does_not_depend_on_the_one_before),
        cmocka_unit_test(memory_never_grows_with_the_zero_stage),
        cmocka_unit_test(more_bandwidth_is_never_slower),
    };
    return cmocka_run_group_tests(tests, read_hardware, NULL);
}
