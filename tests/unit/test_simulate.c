/* One simulated step: options that are refused, what stragglers and links do to a step by hand, memory that runs out. */
#include "costmodel/simulator/slices.h"
#include "tests/support/failing_alloc.h"
#include "tests/support/shapes.h"

#include <stdlib.h>

struct scene {
    struct tpp_model model;
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_evaluator *evaluator;
};

static void make_scene(struct scene *scene, enum tpp_framework framework, uint32_t num_gpus, uint64_t batch)
{
    scene->model = shape_preset("llama3.1-8b");
    scene->hardware = shape_cluster("dgx-h100");
    scene->job = shape_job(num_gpus, 4096, batch);
    tpp_stack_defaults(framework, &scene->hardware.gpu, &scene->job, &scene->stack);
    assert_int_equal(tpp_evaluator_new(&scene->model, &scene->hardware, &scene->job, &scene->stack, &scene->evaluator,
                                       NULL),
                     TPP_OK);
}

/* The result without its operations. */
static struct tpp_simulation_result run(struct scene *scene, const char *text,
                                        const struct tpp_simulation_options *options)
{
    const struct tpp_strategy strategy = shape_strategy(text, &scene->job);
    struct tpp_simulation *simulation;
    struct tpp_error err = {0};
    bool done = false;
    if (tpp_simulation_new(scene->evaluator, &strategy, options, &simulation, &err) != TPP_OK)
        fail_msg("%s (%s)", err.message, err.where);
    while (!done)
        assert_int_equal(tpp_simulation_run(simulation, 1000, &done, &err), TPP_OK);
    struct tpp_simulation_result result = *tpp_simulation_result(simulation);
    result.ops = NULL;
    tpp_simulation_free(simulation);
    return result;
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_simulation *simulation;
    struct tpp_error err;
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, 32, 64);
    const struct tpp_strategy strategy = shape_strategy("tp=2,pp=4,mbs=1,sp=1", &scene.job);
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    options.num_replicas = 9;
    assert_int_equal(tpp_simulation_new(scene.evaluator, &strategy, &options, &simulation, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "simulation.num_replicas");
    assert_null(simulation);
    options = tpp_simulation_options_defaults();
    options.slow_gpu.stage = 4;
    assert_int_equal(tpp_simulation_new(scene.evaluator, &strategy, &options, &simulation, &err), TPP_E_RANGE);
    assert_string_equal(err.message, "there is no stage 4 among 4");
    options = tpp_simulation_options_defaults();
    options.slow_nic.slowdown = 0.5;
    assert_int_equal(tpp_simulation_new(scene.evaluator, &strategy, &options, &simulation, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "simulation.slow_nic");
    options = tpp_simulation_options_defaults();
    options.jitter_fraction = NAN;
    assert_int_equal(tpp_simulation_new(scene.evaluator, &strategy, &options, &simulation, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "simulation.jitter_fraction");
    tpp_evaluator_free(scene.evaluator);
}

static void a_step_that_would_not_fit_in_memory_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_simulation *simulation;
    struct tpp_error err;
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, 8, 1 << 24);
    const struct tpp_strategy strategy = shape_strategy("tp=8,mbs=1,sp=1", &scene.job);
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    assert_int_equal(tpp_simulation_new(scene.evaluator, &strategy, &options, &simulation, &err), TPP_E_RANGE);
    assert_string_equal(err.where, "strategy.num_micro_batches");
    tpp_evaluator_free(scene.evaluator);
}

/* Millions of buckets would be made before anyone could stop. */
static void too_small_buckets_are_refused(void **state)
{
    (void)state;
    static const struct {
        enum tpp_framework framework;
        const char *strategy, *where;
    } cases[] = {{TPP_FRAMEWORK_MEGATRON_LM, "tp=2,mbs=1,zero=1,sp=1,reduce_bucket=100", "strategy.reduce_bucket_size"},
                 {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, "tp=2,mbs=1,zero=2,sp=1,reduce_bucket=1", "strategy.reduce_bucket_size"},
                 {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, "tp=2,mbs=1,zero=1,sp=1,overlap_param_gather=1,allgather_bucket=1",
                  "strategy.allgather_bucket_size"},
                 {TPP_FRAMEWORK_MEGATRON_DEEPSPEED, "tp=2,mbs=1,zero=3,sp=1,reduce_bucket=1", "strategy.reduce_bucket_size"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct scene scene;
        struct tpp_simulation *simulation;
        struct tpp_error err;
        make_scene(&scene, cases[i].framework, 16, 16);
        const struct tpp_strategy strategy = shape_strategy(cases[i].strategy, &scene.job);
        const struct tpp_simulation_options options = tpp_simulation_options_defaults();
        assert_int_equal(tpp_simulation_new(scene.evaluator, &strategy, &options, &simulation, &err), TPP_E_RANGE);
        assert_string_equal(err.where, cases[i].where);
        assert_null(simulation);
        tpp_evaluator_free(scene.evaluator);
    }
}

/* A stage alone waits for nobody: no bubble, and not a little less than none. */
static void one_stage_has_no_bubble(void **state)
{
    (void)state;
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    for (uint64_t batch = 8; batch <= 40; batch += 8) {
        struct scene scene;
        make_scene(&scene, TPP_FRAMEWORK_MEGATRON_DEEPSPEED, 8, batch);
        const double bubble = run(&scene, "mbs=1,zero=3", &options).bubble_fraction;
        assert_true(bubble >= 0 && bubble < 1e-12);
        tpp_evaluator_free(scene.evaluator);
    }
}

static void offloaded_activations_lengthen_the_passes(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_cost cost;
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, 8, 64);
    const struct tpp_strategy strategy = shape_strategy("mbs=2,zero=1,offload_layers=20", &scene.job);
    assert_int_equal(tpp_evaluator_cost(scene.evaluator, &strategy, &cost, NULL), TPP_OK);
    assert_true(cost.time_terms[TPP_TIME_OFFLOAD] > 0.05 * cost.step_seconds);
    CHECK_NUMBER(run(&scene, "mbs=2,zero=1,offload_layers=20", &options).step_seconds, cost.step_seconds, 1e-3);
    tpp_evaluator_free(scene.evaluator);
}

static void passes_are_reported_stage_by_stage(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_simulation *simulation;
    bool done;
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, 32, 64);
    const struct tpp_strategy strategy = shape_strategy("tp=2,pp=4,mbs=1,sp=1", &scene.job);
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    assert_int_equal(tpp_simulation_new(scene.evaluator, &strategy, &options, &simulation, NULL), TPP_OK);
    assert_null(tpp_simulation_result(simulation));
    assert_int_equal(tpp_simulation_run(simulation, UINT64_MAX, &done, NULL), TPP_OK);
    const struct tpp_simulation_result *result = tpp_simulation_result(simulation);
    assert_int_equal(result->num_ops, 4 * 16 * 2); /* dp = 4: 16 micro-batches, forward and backward */
    for (size_t i = 0; i < result->num_ops; i++) {
        const struct tpp_simulated_op *op = &result->ops[i];
        assert_int_equal(op->stage, i / 32);
        assert_true(op->end_seconds > op->start_seconds);
        if (i % 32 > 0)
            assert_true(op->start_seconds >= result->ops[i - 1].end_seconds - 1e-12);
    }
    /* The parts of the step are all of it. */
    CHECK_NUMBER(result->pipeline_seconds + result->gradient_exposed_seconds + result->optimizer_seconds +
                     result->fixed_seconds,
                 result->step_seconds, 1e-9);
    tpp_simulation_free(simulation);
    tpp_evaluator_free(scene.evaluator);
}

static void a_slow_network_port_slows_what_passes_it(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    static const char *const text = "tp=8,mbs=1,sp=1,overlap_grad_reduce=0,overlap_param_gather=0";
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, 64, 64);
    const struct tpp_simulation_result healthy = run(&scene, text, &options);
    options.slow_nic.slowdown = 3;
    const struct tpp_simulation_result slow = run(&scene, text, &options);
    /* All-reduce over 8 nodes, almost all of it bytes: three times as long; compute is as before. */
    CHECK_NUMBER(slow.gradient_exposed_seconds, 3 * healthy.gradient_exposed_seconds, 0.02);
    CHECK_NUMBER(slow.pipeline_seconds, healthy.pipeline_seconds, 1e-9);
    options = tpp_simulation_options_defaults();
    options.slow_gpu.slowdown = 1.5;
    const struct tpp_simulation_result hot = run(&scene, text, &options);
    assert_true(hot.pipeline_seconds > 1.1 * healthy.pipeline_seconds); /* not its transfers inside layers */
    assert_true(hot.pipeline_seconds < 1.5 * healthy.pipeline_seconds);
    CHECK_NUMBER(hot.gradient_exposed_seconds, healthy.gradient_exposed_seconds, 1e-9);
    tpp_evaluator_free(scene.evaluator);
}

static void add_bytes(const struct tpp_graph_task *task, void *context)
{
    *(double *)context += task->bytes;
}

/* Bytes of the parameters that the first stage gathers. */
static double gather_bytes(const struct scene *scene, const char *text)
{
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    const struct tpp_strategy strategy = shape_strategy(text, &scene->job);
    struct tpp_simulation *simulation;
    bool done;
    double bytes = 0;
    assert_int_equal(tpp_simulation_new(scene->evaluator, &strategy, &options, &simulation, NULL), TPP_OK);
    assert_int_equal(tpp_simulation_run(simulation, UINT64_MAX, &done, NULL), TPP_OK);
    tpp_simulation_visit_slices(simulation, 0, TPP_TRACK_GATHER, add_bytes, &bytes);
    tpp_simulation_free(simulation);
    return bytes;
}

static void count_slice(const struct tpp_graph_task *task, void *context)
{
    (void)task;
    ++*(uint32_t *)context;
}

static uint32_t compute_slices(const struct scene *scene, const char *text, enum tpp_simulation_detail detail)
{
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    const struct tpp_strategy strategy = shape_strategy(text, &scene->job);
    struct tpp_simulation *simulation;
    bool done;
    uint32_t count = 0;
    options.detail = detail;
    assert_int_equal(tpp_simulation_new(scene->evaluator, &strategy, &options, &simulation, NULL), TPP_OK);
    assert_int_equal(tpp_simulation_run(simulation, UINT64_MAX, &done, NULL), TPP_OK);
    tpp_simulation_visit_slices(simulation, 0, TPP_TRACK_COMPUTE, count_slice, &count);
    tpp_simulation_free(simulation);
    return count;
}

/* A bucket leaves when it is full, inside a layer too, whether or not its operations are simulated. Of 8.030e9 parameters a rank
 * has half; embedding and head, 128256 * 4096 / 2 = 262.7e6 each, are full at once: the layers' 3.490e9 are 349 buckets of 1e7. */
static void buckets_leave_when_they_are_full(void **state)
{
    (void)state;
    struct scene scene;
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, 16, 16);
    for (int detail = TPP_DETAIL_LAYERS; detail <= TPP_DETAIL_OPS; detail++) {
        const uint32_t cut = compute_slices(
            &scene, "tp=2,mbs=1,sp=1,reduce_bucket=10000000,overlap_param_gather=0", (enum tpp_simulation_detail)detail);
        const uint32_t whole = compute_slices(&scene, "tp=2,mbs=1,sp=1,overlap_grad_reduce=0,overlap_param_gather=0",
                                              (enum tpp_simulation_detail)detail);
        assert_in_range(cut - whole, 345, 355);
    }
    tpp_evaluator_free(scene.evaluator);
}

static void fp8_parameters_are_gathered_in_a_byte(void **state)
{
    (void)state;
    struct scene scene;
    /* 6.979e9 of 8.030e9 parameters are in linears. FSDP gathers layers a second time for backward, embedding and head once. */
    static const struct {
        const char *text;
        enum tpp_engine engine;
        double expected;
    } rows[] = {
        {"tp=8,mbs=1,zero=1,sp=1,overlap_grad_reduce=0,overlap_param_gather=0", TPP_ENGINE_MEGATRON, (1.051 * 2 + 6.979) / 16.06},
        {"tp=8,mbs=1,zero=1,sp=1", TPP_ENGINE_MEGATRON, (1.051 * 2 + 6.979) / 16.06},
        {"mbs=1,zero=3", TPP_ENGINE_FSDP2, (1.051 * 2 + 2 * 6.979) / (1.051 * 2 + 4 * 6.979)},
    };
    make_scene(&scene, TPP_FRAMEWORK_NEMO, 64, 64);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        scene.stack.engine = rows[i].engine;
        scene.stack.gathered_linear_bytes = 2;
        const double bf16 = gather_bytes(&scene, rows[i].text);
        scene.stack.gathered_linear_bytes = 1;
        const double fp8 = gather_bytes(&scene, rows[i].text);
        CHECK_NUMBER(fp8 / bf16, rows[i].expected, 0.002);
    }
    tpp_evaluator_free(scene.evaluator);
}

/* Whatever trained weights are kept in, a frozen base in four bits travels as it is stored. */
static void a_quantised_base_is_gathered_as_it_is_stored(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_cost plain, fp8;
    static const char *const text = "mbs=1,zero=3";
    make_scene(&scene, TPP_FRAMEWORK_NEMO, 64, 64);
    tpp_evaluator_free(scene.evaluator);
    scene.job.task = TPP_TASK_QLORA;
    scene.job.lora_rank = 16;
    tpp_stack_set_engine(&scene.stack, TPP_ENGINE_FSDP2, &scene.hardware.gpu, &scene.job);
    assert_int_equal(tpp_evaluator_new(&scene.model, &scene.hardware, &scene.job, &scene.stack, &scene.evaluator, NULL),
                     TPP_OK);
    const struct tpp_strategy strategy = shape_strategy(text, &scene.job);
    const double bytes = gather_bytes(&scene, text);
    assert_int_equal(tpp_evaluator_cost(scene.evaluator, &strategy, &plain, NULL), TPP_OK);
    scene.stack.gathered_linear_bytes = 1;
    CHECK_NUMBER(gather_bytes(&scene, text), bytes, 1e-12);
    assert_int_equal(tpp_evaluator_cost(scene.evaluator, &strategy, &fp8, NULL), TPP_OK);
    CHECK_NUMBER(fp8.step_seconds, plain.step_seconds, 1e-12);
    tpp_evaluator_free(scene.evaluator);
}

static void a_single_hardware_queue_takes_the_overlap_from_fsdp(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    make_scene(&scene, TPP_FRAMEWORK_TORCHTITAN, 64, 64);
    const double free_order = run(&scene, "mbs=1,zero=3", &options).step_seconds;
    options.has_single_connection = true;
    assert_true(run(&scene, "mbs=1,zero=3", &options).step_seconds > 1.01 * free_order);
    tpp_evaluator_free(scene.evaluator);
}

static void tensor_parallelism_across_nodes_meets_gradients_on_the_port(void **state)
{
    (void)state;
    struct scene scene;
    const struct tpp_simulation_options options = tpp_simulation_options_defaults();
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, 32, 32);
    /* Field note A4: TP4 as 2 + 2. In rank order nothing in the layers uses the network. */
    const struct tpp_simulation_result apart = run(&scene, "tp=4,mbs=1,sp=1,zero=1,placed_tp=2", &options);
    assert_true(apart.has_operations && apart.num_contentions > 0);
    assert_true(apart.contention[0].resource == TPP_RESOURCE_NIC_OUT ||
                apart.contention[0].resource == TPP_RESOURCE_NIC_IN);
    assert_true(apart.contention[0].collision_seconds > 0 && apart.contention[0].operations[1] != NULL);
    const struct tpp_simulation_result together = run(&scene, "tp=8,mbs=1,sp=1,zero=1", &options);
    assert_false(together.has_operations); /* NVLink inside layers, the network for gradients */
    assert_true(apart.step_seconds > together.step_seconds);
    tpp_evaluator_free(scene.evaluator);
}

static void running_out_of_memory_is_reported_wherever_it_happens(void **state)
{
    (void)state;
    static const char *const texts[] = {"tp=2,pp=4,mbs=2,zero=1,sp=1", "tp=4,pp=2,mbs=2,zero=1,sp=1,placed_tp=2"};
    struct scene scene;
    make_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM, 32, 64);
    struct tpp_simulation_options options = tpp_simulation_options_defaults();
    options.num_replicas = 2;
    options.records_links = true;
    for (int i = 0; i < 2; i++) {
        const struct tpp_strategy strategy = shape_strategy(texts[i], &scene.job);
        bool has_failed = true;
        for (uint64_t n = 0; has_failed; n++) {
            struct tpp_simulation *simulation = NULL;
            bool done = false;
            tpp_failing_alloc_arm(n);
            enum tpp_code code = tpp_simulation_new(scene.evaluator, &strategy, &options, &simulation, NULL);
            if (code == TPP_OK)
                code = tpp_simulation_run(simulation, UINT64_MAX, &done, NULL);
            has_failed = tpp_failing_alloc_disarm();
            assert_int_equal(code, has_failed ? TPP_E_MEMORY : TPP_OK);
            assert_true(has_failed || done);
            tpp_simulation_free(simulation);
        }
    }
    tpp_evaluator_free(scene.evaluator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(a_step_that_would_not_fit_in_memory_is_refused),
        cmocka_unit_test(too_small_buckets_are_refused),
        cmocka_unit_test(one_stage_has_no_bubble),
        cmocka_unit_test(offloaded_activations_lengthen_the_passes),
        cmocka_unit_test(passes_are_reported_stage_by_stage),
        cmocka_unit_test(a_slow_network_port_slows_what_passes_it),
        cmocka_unit_test(buckets_leave_when_they_are_full),
        cmocka_unit_test(fp8_parameters_are_gathered_in_a_byte),
        cmocka_unit_test(a_quantised_base_is_gathered_as_it_is_stored),
        cmocka_unit_test(a_single_hardware_queue_takes_the_overlap_from_fsdp),
        cmocka_unit_test(tensor_parallelism_across_nodes_meets_gradients_on_the_port),
        cmocka_unit_test(running_out_of_memory_is_reported_wherever_it_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
