/* A layer's time from programs of one or two operations: what transfers hide (7, 9.3), what the host adds (5.5, 15.5). */
#include "costmodel/layer.h"
#include "tests/support/shapes.h"

struct scene {
    struct tpp_hardware hardware;
    struct tpp_links links;
    struct tpp_timing timing;
    struct tpp_program program;
};

/* A product and an all-gather over the 8 GPUs of a node that starts with it. */
static void open_scene(struct scene *scene)
{
    memset(scene, 0, sizeof *scene);
    scene->hardware = shape_cluster("dgx-a100-80g");
    scene->links = tpp_links_make(&scene->hardware, 0, 0);
    const struct tpp_group node = tpp_group_place(8, 1, 8), alone = tpp_group_place(1, 1, 8);
    scene->timing = (struct tpp_timing){
        .gpu = &scene->hardware.gpu, .links = &scene->links, .context_links = &scene->links,
        .overlap_slowdown_fraction = 0.25, .memory_bound_factor = 1, .tensor_group = node, .context_group = alone,
        .ulysses_group = alone};
    scene->program.num_ops = 2;
    scene->program.ops[0] = (struct tpp_op){
        .kind = TPP_OP_GEMM, .section = TPP_SECTION_BACKWARD, .part = TPP_PART_LINEAR, .count = 1,
        .gemm = {.m = 8192, .n = 2304, .k = 6144, .batch = 1, .element_bytes = 2}, .hidden_behind = TPP_NO_OP};
    scene->program.ops[1] = (struct tpp_op){
        .kind = TPP_OP_COMMUNICATION, .section = TPP_SECTION_BACKWARD, .part = TPP_PART_TENSOR, .count = 1,
        .bytes = 100e6, .collective = TPP_ALL_GATHER, .group = TPP_GROUP_TENSOR, .hidden_behind = 0};
}

static double exposed(const struct scene *scene)
{
    struct tpp_layer layer;
    tpp_layer_measure(&scene->program, &scene->timing, &layer);
    return layer.seconds[TPP_SECTION_BACKWARD][TPP_PART_TENSOR];
}

static void a_transfer_hides_behind_nine_tenths_of_a_product(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    const double product = tpp_op_seconds(&scene.program.ops[0], &scene.timing); /* 1.06 ms: E10 */
    const double less = tpp_op_seconds(&scene.program.ops[1], &scene.timing);    /* 0.4 ms */
    assert_true(less < 0.9 * product);
    CHECK_NUMBER(exposed(&scene), 0.25 * less, 1e-12);
    scene.program.ops[1].bytes = 1e9;
    const double more = tpp_op_seconds(&scene.program.ops[1], &scene.timing);
    assert_true(more > product);
    CHECK_NUMBER(exposed(&scene), more - 0.9 * product + 0.25 * product, 1e-12);
    scene.timing.tensor_comm_overlap = true; /* rho = 0.5 */
    CHECK_NUMBER(exposed(&scene), 0.5 * (more - 0.9 * product + 0.25 * product), 1e-12);
    scene.program.ops[1].hidden_behind = TPP_NO_OP;
    scene.timing.tensor_comm_overlap = false;
    CHECK_NUMBER(exposed(&scene), more, 0);
    scene.program.ops[1].hidden_behind = 0; /* a ring step slows nothing and may use all of its attention step */
    scene.program.ops[1].each_step = true;
    scene.program.ops[1].count = 7;
    CHECK_NUMBER(exposed(&scene), 7 * (more - product), 1e-12);
}

static void a_transfer_hides_behind_several_operations(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene);
    scene.program.num_ops = 4;
    scene.program.ops[2] = scene.program.ops[3] = scene.program.ops[0];
    scene.program.ops[3].count = 3;
    scene.program.ops[1].bytes = 2e9;
    scene.program.ops[1].hidden_behind = 2;
    const double product = tpp_op_seconds(&scene.program.ops[0], &scene.timing);
    const double transfer = tpp_op_seconds(&scene.program.ops[1], &scene.timing);
    assert_true(transfer > 4 * product);
    CHECK_NUMBER(exposed(&scene), transfer - 0.9 * product + 0.25 * product, 1e-12);
    scene.program.ops[1].num_hiding = 2; /* one and three runs of the other */
    CHECK_NUMBER(exposed(&scene), transfer - 0.9 * 4 * product + 0.25 * 4 * product, 1e-12);
    scene.program.ops[1].bytes = 100e6;
    CHECK_NUMBER(exposed(&scene), 0.25 * tpp_op_seconds(&scene.program.ops[1], &scene.timing), 1e-12);
}

static void the_host_adds_what_the_gpu_does_not_cover(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_layer layer;
    open_scene(&scene);
    scene.program.num_ops = 1;
    scene.program.forward_launches = 16;
    scene.program.backward_launches = 30;
    tpp_layer_measure(&scene.program, &scene.timing, &layer);
    const double product = layer.seconds[TPP_SECTION_BACKWARD][TPP_PART_LINEAR];
    /* 5.5: 6 us a launch; nothing on the GPU in forward, 30 * 6 us below the product in backward. */
    CHECK_NUMBER(layer.section_seconds[TPP_SECTION_FORWARD], 16 * 6e-6, 1e-12);
    CHECK_NUMBER(layer.section_seconds[TPP_SECTION_BACKWARD], product, 0);
    scene.program.forward_operations = 3; /* of Megatron's Python: 45 us */
    tpp_layer_measure(&scene.program, &scene.timing, &layer);
    CHECK_NUMBER(layer.section_seconds[TPP_SECTION_FORWARD], 16 * 6e-6 + 3 * 45e-6, 1e-12);
    scene.program.forward_operations = 0;
    scene.timing.launch_blocking = true; /* 15.5: 45 us each, added instead of hidden */
    tpp_layer_measure(&scene.program, &scene.timing, &layer);
    CHECK_NUMBER(layer.section_seconds[TPP_SECTION_FORWARD], 16 * 45e-6, 1e-12);
    CHECK_NUMBER(layer.section_seconds[TPP_SECTION_BACKWARD], product + 30 * 45e-6, 1e-12);
}

static void full_recomputation_leaves_out_what_backward_does_not_need(void **state)
{
    (void)state;
    struct scene scene;
    struct tpp_layer layer;
    open_scene(&scene);
    scene.program.ops[1] = scene.program.ops[0];
    scene.program.ops[0].section = scene.program.ops[1].section = TPP_SECTION_FORWARD;
    scene.program.ops[1].skipped_fraction = 0.5;
    tpp_layer_measure(&scene.program, &scene.timing, &layer);
    const double product = tpp_op_seconds(&scene.program.ops[0], &scene.timing);
    CHECK_NUMBER(layer.section_seconds[TPP_SECTION_FORWARD], 2 * product, 1e-12);
    CHECK_NUMBER(tpp_layer_recompute_seconds(&layer), 1.5 * product, 1e-12);
    const struct tpp_layer blend = tpp_layer_blend(&layer, 1, &layer, 3);
    CHECK_NUMBER(tpp_layer_recompute_seconds(&blend), 1.5 * product, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_transfer_hides_behind_nine_tenths_of_a_product),
        cmocka_unit_test(a_transfer_hides_behind_several_operations),
        cmocka_unit_test(the_host_adds_what_the_gpu_does_not_cover),
        cmocka_unit_test(full_recomputation_leaves_out_what_backward_does_not_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
