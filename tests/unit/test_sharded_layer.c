/* Gathers and reductions of ZeRO-3 and FSDP against section 9.2 of the specification, layer by layer. */
#include "costmodel/sharded_layer.h"
#include "tests/support/shapes.h"

static const double parameters = 2e8; /* of a layer */

struct scene {
    struct tpp_hardware hardware;
    struct tpp_links links;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_replicas replicas;
};

/* 64 H100, gradients reduced in 4 bytes each. */
static struct scene scene_of(enum tpp_framework framework, const char *strategy)
{
    struct scene scene = {.hardware = shape_cluster("dgx-h100"), .job = shape_job(64, 8192, 512)};
    scene.links = tpp_links_make(&scene.hardware, 0, 0);
    tpp_stack_defaults(framework, &scene.hardware.gpu, &scene.job, &scene.stack);
    scene.stack.reduce_bytes = 4;
    scene.strategy = shape_strategy(strategy, &scene.job);
    scene.replicas = tpp_replicas_make(&scene.strategy, &scene.stack, scene.hardware.node.num_gpus);
    return scene;
}

static struct tpp_sharded_layer layer_of(const struct scene *scene, double forward_seconds, double backward_seconds)
{
    const struct tpp_sharded_work work = {.gathered_bytes = 2 * parameters, .reduced_parameters = parameters,
                                          .forward_seconds = forward_seconds, .backward_seconds = backward_seconds};
    return tpp_sharded_layer_time(&scene->hardware, &scene->links, &scene->stack, &scene->strategy, &scene->replicas,
                                  &work);
}

static double gather_of(const struct scene *scene, double elements)
{
    return tpp_collective_seconds(&scene->links, TPP_ALL_GATHER, &scene->replicas.shard, 2 * elements);
}

static double reduce_of(const struct scene *scene, double elements)
{
    return tpp_collective_seconds(&scene->links, TPP_REDUCE_SCATTER, &scene->replicas.shard, 4 * elements);
}

static const double rate = 3.35e12 * 0.85; /* bytes a second that copies reach */

/* FSDP2: 2 + 2 bytes a gathered parameter out of one buffer, in both passes; 2 + 4 a gradient into another, in fp32. */
static const double copy = 4 * 2e8 / rate, gradient_copy = 6 * 2e8 / rate;

static const struct tpp_sharded_ends no_ends;

/* Layers of a second hide everything but the first gather and the last reduction, and are slowed by a quarter of what
 * travels beside them. */
static void long_layers_hide_their_transfers(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, "zero=3");
    const struct tpp_sharded_layer layer = layer_of(&scene, 1, 2);
    const double G = gather_of(&scene, parameters), R = reduce_of(&scene, parameters);
    CHECK_NUMBER(tpp_sharded_forward_extra_seconds(&layer, &no_ends, 7), G + 7 * (copy + 0.25 * G), 1e-9);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &no_ends, 7), G + 7 * (copy + gradient_copy + 0.25 * (G + R)) + R, 1e-9);
}

/* Layers of a nanosecond: transfers follow one another, and what is copied meanwhile is hidden but in the last layer of the forward
 * pass, beside which nothing travels. Backward it is hidden behind the second gather and the last reduction but one. */
static void short_layers_wait_for_their_transfers(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, "zero=3");
    const struct tpp_sharded_layer layer = layer_of(&scene, 1e-9, 1e-9);
    const double G = gather_of(&scene, parameters), R = reduce_of(&scene, parameters);
    assert_true(copy + gradient_copy + 0.25 * (G + R) < R);
    CHECK_NUMBER(tpp_sharded_forward_extra_seconds(&layer, &no_ends, 7), 7 * G + copy, 1e-6);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &no_ends, 7),
                 7 * (G + R) + fmax(0, copy + gradient_copy - 0.75 * G), 1e-6);
}

/* Weights that stay, and reductions of 4 x 2e8 bytes that outlast layers of a millisecond: the first layer has nothing beside it and
 * the first reduction waits for all of it, then reductions follow one another. */
static void the_first_reduction_waits_for_a_layer(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, "zero=3,reshard=0");
    const struct tpp_sharded_layer layer = layer_of(&scene, 1e-3, 1e-3);
    const double R = reduce_of(&scene, parameters), first = 1e-3 + gradient_copy;
    assert_true(first < 0.75 * R);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &no_ends, 7), first + 7 * R - 7 * 1e-3, 1e-9);
}

/* Weights that stay are neither gathered nor copied again. */
static void kept_weights_are_gathered_once(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, "zero=3,reshard=0");
    const struct tpp_sharded_layer layer = layer_of(&scene, 1, 2);
    const double R = reduce_of(&scene, parameters);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &no_ends, 7), 7 * (gradient_copy + 0.25 * R) + R, 1e-9);
}

/* Transfers of the layer's own, here all of it, are not slowed by others. */
static void own_transfers_are_not_slowed(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, "zero=3");
    const struct tpp_sharded_work work = {.gathered_bytes = 2 * parameters, .reduced_parameters = parameters,
                                          .forward_seconds = 1, .backward_seconds = 2, .forward_transfer_seconds = 0.5,
                                          .backward_transfer_seconds = 2};
    const struct tpp_sharded_layer layer = tpp_sharded_layer_time(&scene.hardware, &scene.links, &scene.stack,
                                                                  &scene.strategy, &scene.replicas, &work);
    const double G = gather_of(&scene, parameters), R = reduce_of(&scene, parameters), both = copy + gradient_copy;
    CHECK_NUMBER(tpp_sharded_forward_extra_seconds(&layer, &no_ends, 1),
                 G + copy + 0.25 * (0.5 + copy) / (1 + copy) * G, 1e-9);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &no_ends, 1),
                 G + both + 0.25 * both / (2 + both) * (G + R) + R, 1e-9);
}

/* HSDP over the 8 GPUs of a node (7 "ZeRO-3/FSDP"): gather and reduce-scatter share a communicator, the all-reduce of the
 * shards over 8 nodes has a stream of its own. */
static void replicas_reduce_beside_the_shards(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, "zero=3,shard=8");
    const struct tpp_sharded_layer layer = layer_of(&scene, 1e-9, 1e-9);
    const double G = gather_of(&scene, parameters), R = reduce_of(&scene, parameters);
    const double A = tpp_collective_seconds(&scene.links, TPP_ALL_REDUCE, &scene.replicas.replicate, 4 * parameters / 8);
    assert_int_equal(scene.replicas.replicate.size, 8);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &no_ends, 100), 100 * fmax(G + R, A), 0.02); /* one layer's rest */
    CHECK_NUMBER(layer.replicate_seconds, A, 1e-12);
}

/* Embedding and head of 5e8 parameters each, the head computing for a second, which hides the first gather. FSDP2 reduces the
 * head's gradients first, behind the layers; FSDP1 has one unit of both, whose gradients leave last. */
static void ends_are_one_unit_or_two(void **state)
{
    (void)state;
    for (int is_one = 0; is_one < 2; is_one++) {
        const struct scene scene = scene_of(is_one ? TPP_FRAMEWORK_LLM_FOUNDRY : TPP_FRAMEWORK_TORCHTITAN, "zero=3");
        const struct tpp_sharded_ends ends =
            tpp_sharded_ends_time(&scene.links, &scene.stack, &scene.strategy, &scene.replicas, 5e8, 5e8, 1);
        const struct tpp_sharded_layer layer = layer_of(&scene, 1, 2);
        const double G = gather_of(&scene, parameters), R = reduce_of(&scene, parameters);
        /* FSDP1 casts a 64th of 2e8 parameters, 4 + 2 bytes each, and joins and casts gradients, 2 + 2 and 2 + 4 */
        const double before = is_one ? 6 * 2e8 / 64 / rate : copy, after = is_one ? 10 * 2e8 / rate : gradient_copy;
        CHECK_NUMBER(tpp_sharded_forward_extra_seconds(&layer, &ends, 7),
                     gather_of(&scene, 1e9) + G + 7 * (before + 0.25 * G), 1e-9);
        CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &ends, 7),
                     7 * (before + after + 0.25 * (G + R)) + R + reduce_of(&scene, is_one ? 1e9 : 5e8), 1e-9);
        const struct tpp_sharded_layer brief = layer_of(&scene, 1e-9, 1e-9);
        const double both = is_one ? reduce_of(&scene, 1e9) : 2 * reduce_of(&scene, 5e8);
        CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&brief, &ends, 7), 7 * (G + R) - G + both, 1e-6);
    }
}

/* DeepSpeed collects buckets of 3e8 elements: 7 layers of 2e8 and ends of 1e9 fill eight, and nothing is left; 8 layers leave
 * 2e8 that go last, at the rate of a bucket. */
static void deepspeed_leaves_what_fills_no_bucket(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, "zero=3,reduce_bucket=300000000");
    const struct tpp_sharded_ends ends =
        tpp_sharded_ends_time(&scene.links, &scene.stack, &scene.strategy, &scene.replicas, 5e8, 5e8, 0);
    const struct tpp_sharded_layer layer = layer_of(&scene, 1, 2);
    const double G = gather_of(&scene, parameters), bucket = reduce_of(&scene, 3e8), R = bucket * 2 / 3;
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &ends, 7), G + 7 * (2 * copy + 0.25 * (G + R)), 1e-9);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &ends, 8), G + 8 * (2 * copy + 0.25 * (G + R)) + R, 1e-9);
    const struct tpp_sharded_layer brief = layer_of(&scene, 1e-9, 1e-9);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&brief, &ends, 7), 7 * G + 8 * bucket, 1e-6);
}

/* Old releases of DeepSpeed wait for every transfer (issue 1174: 24 GB/s at most), and copy the 64 ranks' parts of each of four
 * parameters one by one, 6 us each: 1.536 ms behind a gather, as much before a reduction. Every stack whose launches block waits too. */
static void synchronous_gathers_hide_nothing(void **state)
{
    (void)state;
    struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, "zero=3");
    const double R = reduce_of(&scene, parameters);
    scene.stack.synchronous_gather = true;
    struct tpp_sharded_layer layer = layer_of(&scene, 1, 2);
    CHECK_NUMBER(tpp_sharded_forward_extra_seconds(&layer, &no_ends, 7), 7 * (4e8 / 24e9 + 1.536e-3), 1e-9);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &no_ends, 7), 7 * (4e8 / 24e9 + 1.536e-3 + R + 1.536e-3), 1e-9);
    scene.stack.synchronous_gather = false;
    scene.stack.launch_blocking = true;
    layer = layer_of(&scene, 1, 2);
    const double G = gather_of(&scene, parameters);
    CHECK_NUMBER(tpp_sharded_forward_extra_seconds(&layer, &no_ends, 7), 7 * (G + copy), 1e-9);
    CHECK_NUMBER(tpp_sharded_backward_extra_seconds(&layer, &no_ends, 7), 7 * (G + R + 2 * copy), 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_layers_hide_their_transfers),  cmocka_unit_test(short_layers_wait_for_their_transfers),
        cmocka_unit_test(the_first_reduction_waits_for_a_layer),
        cmocka_unit_test(kept_weights_are_gathered_once),    cmocka_unit_test(own_transfers_are_not_slowed),
        cmocka_unit_test(replicas_reduce_beside_the_shards), cmocka_unit_test(ends_are_one_unit_or_two),
        cmocka_unit_test(deepspeed_leaves_what_fills_no_bucket),
        cmocka_unit_test(synchronous_gathers_hide_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
