/* property_ranked.c - what is ranked can be launched: on random jobs, for every framework, engine and release, either
 * the framework refuses the job as a whole (its model, precision, task), or every plan of the ranked list is written.
 * The costs are scattered (tests/support/fake_evaluator.c), so that plans of every kind come to the top. */
#include "planner/launch/launch.h"
#include "planner/rules/rules.h"
#include "planner/search.h"
#include "tests/support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ALL_SCENES = 140, NUM_SCENES = TPP_NUM_CASES(ALL_SCENES, 50) };

static uint32_t pick(struct tpp_random *random, const uint32_t *values, size_t count)
{
    return values[tpp_random_range(random, 0, count - 1)];
}
#define PICK(...)                                                                                                      \
    pick(random, (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

struct target {
    enum tpp_framework framework;
    enum tpp_engine engine;
    size_t min_written; /* plans of all scenes, or the jobs were not what they should be */
};
static const struct target targets[] = {
    {TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, 300},
    {TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_FSDP2, 40},
    {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_ENGINE_DEEPSPEED, 200},
    {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_ENGINE_DEEPSPEED_PIPELINE, 80},
    {TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, 300},
    {TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_MEGATRON, 300},
    {TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_DEEPSPEED, 80},
    {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_DEEPSPEED, 30},
    {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP1, 8},
    {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP2, 5},
    {TPP_FRAMEWORK_TORCHTITAN, TPP_ENGINE_FSDP2, 200},
    {TPP_FRAMEWORK_TORCHTITAN, TPP_ENGINE_DDP, 1},
    {TPP_FRAMEWORK_NANOTRON, TPP_ENGINE_DDP, 80},
    {TPP_FRAMEWORK_NANOTRON, TPP_ENGINE_MEGATRON, 80},
};

struct scene {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_space_limits limits;
};

static void random_model(struct tpp_random *random, struct tpp_model *model)
{
    *model = (struct tpp_model){.name = "random",
                                .num_layers = PICK(12, 30, 32, 62),
                                .hidden_size = 4096,
                                .num_attention_heads = PICK(28, 32),
                                .head_dim = 128,
                                .ffn_hidden_size = PICK(11008, 14336),
                                .gated_mlp = true,
                                .vocab_size = 32256,
                                .max_position_embeddings = 8192,
                                .position = TPP_POSITION_ROPE,
                                .rope_theta = 500000,
                                .rotary_fraction = 1,
                                .norm = TPP_NORM_RMS,
                                .norm_epsilon = 1e-5,
                                .activation = TPP_ACTIVATION_SILU,
                                .norms_per_layer = 2,
                                .final_norm = true};
    model->hidden_size = model->num_attention_heads * 128;
    model->num_query_groups = PICK(2, 4, model->num_attention_heads);
    model->tied_embeddings = PICK(0, 1);
    if (PICK(0, 1) == 0)
        return;
    model->num_experts = PICK(6, 8, 16);
    model->experts_per_token = PICK(1, 2);
    model->moe_layer_period = PICK(1, 1, 2);
    model->moe_ffn_hidden_size = PICK(1408, model->ffn_hidden_size);
    if (model->moe_layer_period == 1)
        model->ffn_hidden_size = 0;
}

static void random_limits(struct tpp_random *random, struct tpp_space_limits *limits)
{
    *limits = tpp_space_limits_defaults();
    limits->full_space = PICK(0, 1, 1) == 1;
    limits->max_micro_batch_size = PICK(1, 2, 4);
    limits->max_virtual_pipeline_stages = PICK(1, 2, 4);
    limits->num_threads = 1;
    limits->keep = 60;
    if (PICK(0, 0, 1) == 1)
        limits->tensor_parallel = PICK(1, 2, 4);
    if (PICK(0, 0, 1) == 1)
        limits->pipeline_parallel = PICK(1, 2, 4);
    if (PICK(0, 0, 1) == 1)
        limits->context_parallel = PICK(1, 2, 4);
    if (PICK(0, 0, 0, 1) == 1)
        limits->reduce_bucket_size = 20000000;
    if (PICK(0, 0, 0, 1) == 1)
        limits->allgather_bucket_size = 20000000;
    if (PICK(0, 0, 0, 1) == 1)
        limits->recompute = PICK(0, 1, 2);
    if (PICK(0, 0, 0, 1) == 1)
        limits->zero_stage = PICK(0, 1, 2, 3);
    if (PICK(0, 0, 0, 1) == 1)
        limits->offload = PICK(TPP_OFFLOAD_NONE, TPP_OFFLOAD_OPTIMIZER);
    if (PICK(0, 0, 0, 1) == 1)
        limits->sequence_parallel = PICK(0, 1);
    if (PICK(0, 0, 0, 1) == 1)
        limits->context_kind = PICK(0, 1, 2, 3);
}

static void set_stack(const struct target *target, struct scene *scene)
{
    tpp_stack_defaults(target->framework, &scene->hardware.gpu, &scene->job, &scene->stack);
    tpp_stack_set_engine(&scene->stack, target->engine, &scene->hardware.gpu, &scene->job);
}

static void random_scene(struct tpp_random *random, const struct target *target, struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    random_model(random, &scene->model);
    snprintf(scene->hardware.name, sizeof scene->hardware.name, "random");
    scene->hardware.node.num_gpus = PICK(4, 8);
    scene->hardware.gpu.memory_bytes = UINT64_C(80000000000);
    scene->hardware.gpu.compute_capability = PICK(8, 9, 10);
    scene->hardware.gpu.has_bf16 = true;
    scene->hardware.gpu.fp8_flops_per_second = 2e15;
    for (int i = 0; i < TPP_FLASH_KERNEL_COUNT; i++)
        scene->hardware.gpu.flash_forward_fraction[i] = 0.5;
    scene->job = tpp_job_defaults();
    scene->job.num_gpus = PICK(1, 4, 8, 16, 24, 32);
    scene->job.sequence_length = PICK(2048, 4096, 4100, 8192);
    scene->job.global_batch_size = PICK(32, 48, 96);
    scene->job.precision = (enum tpp_precision)PICK(0, 0, 0, 1, 2, 3, 4, 5);
    scene->job.task = (enum tpp_task)PICK(0, 0, 0, 1, 2, 3);
    scene->job.lora_rank = 16;
    scene->job.lora_targets = (enum tpp_lora_targets)PICK(0, 1, 2, 3);
    scene->job.hidden_dropout = PICK(0, 0, 0, 1) * 0.1;
    if (PICK(0, 0, 0, 0, 1) == 1) {
        scene->job.optimizer = (enum tpp_optimizer)PICK(0, 1, 2);
        scene->job.gradient_type = (enum tpp_gradient_type)PICK(0, 1, 2);
    }
    set_stack(target, scene);
    if (tpp_stack_check(&scene->stack, &scene->hardware.gpu, &scene->job, NULL) !=
        TPP_OK) { /* refused before a search */
        scene->job.optimizer = TPP_OPTIMIZER_ADAMW;
        scene->job.gradient_type = TPP_GRADIENT_DEFAULT;
        set_stack(target, scene);
    }
    if (target->framework == TPP_FRAMEWORK_MEGATRON_LM) {
        const enum tpp_release release =
            (enum tpp_release)tpp_random_range(random, TPP_RELEASE_23_04, TPP_RELEASE_COUNT - 1);
        snprintf(scene->stack.release, sizeof scene->stack.release, "%s", tpp_release_name(release));
    }
    if (tpp_engine_is_fsdp(target->engine) && target->framework == TPP_FRAMEWORK_HF_TRAINER)
        snprintf(scene->stack.release, sizeof scene->stack.release, "%s", PICK(0, 1) == 1 ? "1.9.0" : "1.10");
    random_limits(random, &scene->limits);
}

static struct tpp_launch_request request_of(const struct scene *scene, const struct tpp_strategy *strategy)
{
    const uint32_t per_node = scene->hardware.node.num_gpus, num_gpus = scene->job.num_gpus;
    struct tpp_launch_request request = {.model = &scene->model,
                                         .hardware = &scene->hardware,
                                         .job = &scene->job,
                                         .stack = &scene->stack,
                                         .strategy = strategy,
                                         .num_nodes = num_gpus > per_node ? num_gpus / per_node : 1,
                                         .gpus_per_node = num_gpus > per_node ? per_node : num_gpus};
    request.release = tpp_rules_release(&scene->stack);
    return request;
}

static void fail_at(const struct target *target, const struct scene *scene, unsigned long long seed,
                    const struct tpp_strategy *strategy, const struct tpp_error *err)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_strategy_format(strategy, &text);
    fail_msg("%s %s with %s, seed %llu, ranks %s, and refuses to launch it: %s (%s)",
             tpp_framework_name(target->framework), scene->stack.release, tpp_engine_name(target->engine), seed,
             tpp_text_get(&text), err->message, err->where);
}

/* How many of the ranked plans were written. */
static size_t check_scene(const struct target *target, unsigned long long seed)
{
    struct tpp_random random = {seed};
    struct scene scene;
    struct tpp_search *search;
    struct tpp_error err = {0}, job_err = {0};
    bool done = false;
    size_t count;
    random_scene(&random, target, &scene);
    assert_int_equal(
        tpp_search_new(&scene.model, &scene.hardware, &scene.job, &scene.stack, &scene.limits, &search, &err), TPP_OK);
    while (!done)
        assert_int_equal(tpp_search_step(search, UINT64_MAX, &done, &err), TPP_OK);
    const struct tpp_plan *plans = tpp_search_best(search, &count);
    const struct tpp_launch_request request = request_of(&scene, NULL);
    const bool is_refused = tpp_launch_check_job(&request, &job_err) != TPP_OK;
    for (size_t i = 0; i < count; i++) {
        const struct tpp_launch_request of_plan = request_of(&scene, &plans[i].strategy);
        const bool is_written = tpp_launch_can_express(&of_plan, &err);
        if (is_refused) { /* for one reason, whatever the plan */
            assert_false(is_written);
            assert_string_equal(err.message, job_err.message);
        } else if (!is_written) {
            fail_at(target, &scene, seed, &plans[i].strategy, &err);
        }
    }
    tpp_search_free(search);
    return is_refused ? 0 : count;
}

static void test_what_is_ranked_can_be_launched(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        size_t written = 0;
        for (unsigned long long seed = 1; seed <= NUM_SCENES; seed++)
            written += check_scene(&targets[i], 1000 * seed + i);
        print_message("# %s with %s: %zu plans written\n", tpp_framework_name(targets[i].framework),
                      tpp_engine_name(targets[i].engine), written);
        assert_true(NUM_SCENES < ALL_SCENES || written >= targets[i].min_written);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_ranked_can_be_launched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
