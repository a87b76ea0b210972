/* Gradient traffic against example E11 and sections 9.1 and 15.7 of the specification. */
#include "costmodel/data_parallel.h"
#include "tests/support/shapes.h"

static const double llama3_8b_parameters = 8030261248, llama3_8b_linear_parameters = 32 * 218103808.0;

struct scene {
    struct tpp_hardware hardware;
    struct tpp_links links;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_replicas replicas;
};

/* Llama-3-8B on 64 H100, data parallel alone, gradients reduced in `reduce_bytes` each. */
static struct scene scene_of(enum tpp_framework framework, uint32_t reduce_bytes, const char *strategy)
{
    struct scene scene = {.hardware = shape_cluster("dgx-h100"), .job = shape_job(64, 8192, 512)};
    scene.links = tpp_links_make(&scene.hardware, 0, 0);
    tpp_stack_defaults(framework, &scene.hardware.gpu, &scene.job, &scene.stack);
    scene.stack.reduce_bytes = reduce_bytes;
    scene.strategy = shape_strategy(strategy, &scene.job);
    scene.replicas = tpp_replicas_make(&scene.strategy, &scene.stack, scene.hardware.node.num_gpus);
    return scene;
}

/* Passes of `compute_seconds`, `compute_share` of them compute. */
static double exposed_seconds_of_share(const struct scene *scene, double compute_seconds, double compute_share)
{
    const struct tpp_gradient_step step = {
        .parts = {{&scene->replicas, llama3_8b_parameters, llama3_8b_parameters,
                   tpp_stack_gathered_bytes(&scene->stack, llama3_8b_parameters, llama3_8b_linear_parameters)}},
        .num_parts = 1,
        .last_backward_seconds = compute_seconds, .first_forward_seconds = compute_seconds,
        .backward_compute_share = compute_share, .forward_compute_share = compute_share};
    return tpp_gradient_exposed_seconds(&scene->hardware, &scene->links, &scene->stack, &scene->strategy, &step);
}

static double exposed_seconds(const struct scene *scene, double compute_seconds)
{
    return exposed_seconds_of_share(scene, compute_seconds, 1);
}

/* `num_buckets` collectives one after the other, of gradients or of bf16 parameters. */
static double transfer_seconds(const struct scene *scene, enum tpp_collective kind, double bytes, double num_buckets)
{
    return num_buckets *
           tpp_collective_seconds(&scene->links, kind, &scene->replicas.all, bytes * llama3_8b_parameters / num_buckets);
}

/* What stays of a transfer under any amount of compute: its last bucket, and sigma = 0.25 of the rest (9.1). */
static double least_seconds(double transfer, double num_buckets)
{
    return transfer / num_buckets + 0.25 * (transfer - transfer / num_buckets);
}

/* Stages r and p-1-r hold the same two stages. tp 8, pp 4, dp 2 on 64 GPUs: ranks 0, 8 of the first stage and 48, 56 of the
 * last, each alone in its node, which are 8 nodes apart. tp 1, pp 8 on 8 GPUs: both in the one node. */
static void dualpipe_reduces_over_both_copies(void **state)
{
    (void)state;
    const struct scene far = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "tp=8,pp=4,mbs=1,zero=1,schedule=dualpipe");
    assert_int_equal(far.replicas.all.size, 4);
    assert_int_equal(far.replicas.all.ranks_per_node, 1);
    assert_int_equal(far.replicas.all.num_nodes, 4);
    assert_int_equal(far.replicas.all.node_span, 8);
    assert_true(far.replicas.shard_ranks == 4 && far.replicas.replicate.size == 1);
    const struct scene halves = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "tp=8,pp=4,mbs=1,zero=1,shard=2,schedule=dualpipe");
    assert_true(halves.replicas.shard.size == 2 && halves.replicas.shard.node_span == 2); /* dp ranks of one stage */
    assert_true(halves.replicas.replicate.size == 2 && halves.replicas.replicate.node_span == 7); /* ranks 0 and 48 */
    struct scene near = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "tp=8,mbs=1");
    near.job = shape_job(8, 8192, 64);
    near.strategy = shape_strategy("tp=1,pp=8,mbs=1,schedule=dualpipe", &near.job);
    near.replicas = tpp_replicas_make(&near.strategy, &near.stack, 8);
    assert_true(near.replicas.all.size == 2 && near.replicas.all.num_nodes == 1 && near.replicas.all.ranks_per_node == 2);
    assert_true(tpp_gradient_traffic_of(&near.stack, &near.strategy, &near.replicas).has_any);
    /* Experts of ep 4 on 16 ranks of a stage: 4 replicas there, 8 with the other stage's. */
    near.job = shape_job(64, 8192, 64);
    near.strategy = shape_strategy("tp=1,pp=4,ep=4,mbs=1,schedule=dualpipe", &near.job);
    assert_int_equal(tpp_expert_replicas_make(&near.strategy, &near.stack, 8).all.size, 8);
}

static void bucket_counts_are_example_e11(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 2, "zero=1");
    const double P = llama3_8b_parameters;
    CHECK_NUMBER(tpp_gradient_num_buckets(&scene.stack, &scene.replicas, P, 500000000), 17, 0);
    CHECK_NUMBER(tpp_gradient_num_buckets(&scene.stack, &scene.replicas, P, 200000000), 41, 0);
    CHECK_NUMBER(tpp_gradient_num_buckets(&scene.stack, &scene.replicas, P, 0), 126, 0); /* 64e6 each */
}

static void bytes_a_step_are_example_e11(void **state)
{
    (void)state;
    /* Reduce-scatter and all-gather of bf16, 63/64 of 2 + 2 bytes a parameter: 31,619,153,664. Seen as time on links
     * without latency and ramp, 1e9 bytes a second. */
    struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 2, "zero=1,overlap_grad_reduce=0,overlap_param_gather=0");
    scene.links = (struct tpp_links){.nic_bytes_per_second = 1e9, .ring_efficiency_fraction = 1, .oversubscription = 1};
    for (int i = 0; i < TPP_COLLECTIVE_COUNT; i++)
        scene.links.bus_bytes_per_second[i] = 1e9;
    CHECK_NUMBER(exposed_seconds(&scene, 0), 31.619153664, 1e-12); /* rounding */
    /* FP8 parameters: 6,979,321,856 of the gathered ones are one byte: 63/64 of 25,141,723,136. */
    scene.stack.framework = TPP_FRAMEWORK_NEMO;
    scene.job.precision = TPP_PRECISION_FP8;
    tpp_stack_set_dtypes(&scene.stack, &scene.job);
    scene.stack.reduce_bytes = 2;
    CHECK_NUMBER(exposed_seconds(&scene, 0), 24.748883712, 1e-12);
}

static void megatron_has_one_bucket_when_nothing_overlaps(void **state)
{
    (void)state;
    /* 9.1: no bucketing without overlap, so the latency of 63 ranks is paid once each way. */
    const struct scene scene =
        scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "zero=1,overlap_grad_reduce=0,overlap_param_gather=0");
    CHECK_NUMBER(exposed_seconds(&scene, 1),
                 transfer_seconds(&scene, TPP_REDUCE_SCATTER, 4, 1) + transfer_seconds(&scene, TPP_ALL_GATHER, 2, 1),
                 1e-12);
}

static void megatron_has_one_bucket_size_for_both_directions(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "zero=1,reduce_bucket=200000000");
    CHECK_NUMBER(exposed_seconds(&scene, 1e3),
                 least_seconds(transfer_seconds(&scene, TPP_REDUCE_SCATTER, 4, 41), 41) +
                     least_seconds(transfer_seconds(&scene, TPP_ALL_GATHER, 2, 41), 41),
                 1e-12);
}

/* Transfers longer than the pass follow one another from the first full bucket on: of 41 buckets 40 have a pass to hide
 * behind, whatever the slow-down. */
static void long_transfers_outlast_the_pass(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "zero=1,reduce_bucket=200000000,overlap_param_gather=0");
    const double reduce = transfer_seconds(&scene, TPP_REDUCE_SCATTER, 4, 41);
    const double gather = transfer_seconds(&scene, TPP_ALL_GATHER, 2, 41);
    CHECK_NUMBER(exposed_seconds(&scene, 0.2 * reduce), (1 - 0.2 * 40 / 41) * reduce + gather, 1e-12);
}

/* The half of a pass that waits for transfers of its own is not slowed by others. */
static void transfers_slow_compute_alone(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "zero=1,reduce_bucket=200000000,overlap_param_gather=0");
    const double reduce = transfer_seconds(&scene, TPP_REDUCE_SCATTER, 4, 41);
    const double gather = transfer_seconds(&scene, TPP_ALL_GATHER, 2, 41);
    CHECK_NUMBER(exposed_seconds_of_share(&scene, 1e3, 0.5), (1.0 / 41 + 0.125 * 40 / 41) * reduce + gather, 1e-12);
}

/* Dense parameters and experts travel through the same ports: what they take adds up before it hides. */
static void experts_share_the_ports_of_the_rest(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "zero=1,reduce_bucket=200000000,overlap_param_gather=0");
    const double half = llama3_8b_parameters / 2; /* 21 buckets each */
    const double reduce = 2 * 21 * tpp_collective_seconds(&scene.links, TPP_REDUCE_SCATTER, &scene.replicas.all, 4 * half / 21);
    const double gather = 2 * 21 * tpp_collective_seconds(&scene.links, TPP_ALL_GATHER, &scene.replicas.shard, 2 * half / 21);
    const struct tpp_gradient_step step = {.parts = {{&scene.replicas, half, half, 2 * half},
                                                     {&scene.replicas, half, half, 2 * half}},
                                           .num_parts = 2, .last_backward_seconds = 0.2 * reduce,
                                           .backward_compute_share = 1};
    CHECK_NUMBER(tpp_gradient_exposed_seconds(&scene.hardware, &scene.links, &scene.stack, &scene.strategy, &step),
                 (1 - 0.2 * 20 / 21) * reduce + gather, 1e-12);
}

/* Megatron-Core on 4 stages of 2 chunks. With --align-grad-reduce, on by default, a chunk's gradients leave behind its last
 * pass: those of one hide behind the 4 micro-batches that run through the other, whose own have nothing left. */
static void aligned_chunks_reduce_behind_the_chunks_after_them(void **state)
{
    (void)state;
    const struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4,
                                        "pp=4,vp=2,zero=1,reduce_bucket=200000000,overlap_param_gather=0");
    const double reduce = transfer_seconds(&scene, TPP_REDUCE_SCATTER, 4, 41);
    const double gather = transfer_seconds(&scene, TPP_ALL_GATHER, 2, 41);
    /* A pass of a tenth of the reduction: a twentieth a chunk, four of them hide. */
    CHECK_NUMBER(exposed_seconds(&scene, 0.1 * reduce), (1 - 4 * 0.05) * reduce + gather, 1e-12);
    /* A long one hides a half, and is slowed by it. */
    CHECK_NUMBER(exposed_seconds(&scene, reduce), (0.5 + 0.25 * 0.5) * reduce + gather, 1e-12);
}

/* Without it every bucket leaves when it is full, on each stage at another time: 4 + 1 half passes of a fifth hide a half but
 * for the first bucket's share, and the passes of three other stages are slowed, 0.25 of them while they last 1/0.75. */
static void stages_that_reduce_on_their_own_slow_one_another(void **state)
{
    (void)state;
    const struct scene scene = scene_of(
        TPP_FRAMEWORK_MEGATRON_LM, 4, "pp=4,vp=2,zero=1,reduce_bucket=200000000,overlap_param_gather=0,align_grad_reduce=0");
    const double reduce = transfer_seconds(&scene, TPP_REDUCE_SCATTER, 4, 41);
    const double gather = transfer_seconds(&scene, TPP_ALL_GATHER, 2, 41);
    CHECK_NUMBER(exposed_seconds(&scene, 0.2 * reduce),
                 (1 - 5 * 0.1 + 0.2 / 41 + 3 * 0.25 * 0.2 * 40 / 41 / 0.75) * reduce + gather, 1e-12);
    /* The last chunk alone: its half pass, a fifth, hides all of a half but three tenths and the first bucket's share. */
    CHECK_NUMBER(exposed_seconds(&scene, 0.4 * reduce),
                 (0.5 - 0.2 + 0.4 / 41 + 3 * 0.25 * 0.4 * 40 / 41 / 0.75) * reduce + gather, 1e-12);
}

/* Without chunks the first stage alone reduces beside its last pass when they are aligned. */
static void the_first_stage_reduces_alone(void **state)
{
    (void)state;
    struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4,
                                  "pp=4,zero=1,reduce_bucket=200000000,overlap_param_gather=0");
    const double reduce = transfer_seconds(&scene, TPP_REDUCE_SCATTER, 4, 41);
    const double gather = transfer_seconds(&scene, TPP_ALL_GATHER, 2, 41);
    CHECK_NUMBER(exposed_seconds(&scene, 1e3), least_seconds(reduce, 41) + gather, 1e-12);
    scene.strategy.align_grad_reduce = false;
    CHECK_NUMBER(exposed_seconds(&scene, 1e3), least_seconds(reduce, 41) + 3 * 0.25 * 40 / 41 * reduce + gather, 1e-12);
}

/* A stage of Megatron gathers when its first pass comes, one after the other; interleaved ones when the step begins. */
static void stages_gather_one_after_the_other(void **state)
{
    (void)state;
    struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "pp=4,zero=1,reduce_bucket=200000000");
    scene.stack.reduce_bytes = 0; /* gathers alone */
    const double gather = transfer_seconds(&scene, TPP_ALL_GATHER, 2, 41);
    CHECK_NUMBER(exposed_seconds(&scene, 1e3), 4 * least_seconds(gather, 41), 1e-12);
    CHECK_NUMBER(exposed_seconds(&scene, 0.2 * gather), 4 * (1 - 0.2 * 40 / 41) * gather, 1e-12);
    scene.strategy.virtual_pipeline_stages = 2;
    scene.strategy.schedule = TPP_SCHEDULE_INTERLEAVED;
    CHECK_NUMBER(exposed_seconds(&scene, 1e3), least_seconds(gather, 41), 1e-12);
}

static void deepspeed_has_a_bucket_size_for_each_direction(void **state)
{
    (void)state;
    /* 15.7: stage 1 reduces by all-reduce and gathers the parameters after it. */
    const struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, 2,
                                        "zero=1,reduce_bucket=200000000,allgather_bucket=500000000,overlap_param_gather=0");
    CHECK_NUMBER(exposed_seconds(&scene, 1e3),
                 least_seconds(transfer_seconds(&scene, TPP_ALL_REDUCE, 2, 41), 41) +
                     transfer_seconds(&scene, TPP_ALL_GATHER, 2, 17),
                 1e-12);
}

/* InternEvo's ZeRO-1: gradients are all-reduced whole, in bf16; each rank broadcasts the tensors it owns behind the optimizer. Of
 * 64 ranks all own some of 195 tensors, and 40 of 40. */
static void ranks_broadcast_the_tensors_that_they_own(void **state)
{
    (void)state;
    struct scene scene = scene_of(TPP_FRAMEWORK_OTHER, 2, "zero=1,overlap_param_gather=0");
    tpp_stack_set_engine(&scene.stack, TPP_ENGINE_DEEPSPEED, &scene.hardware.gpu, &scene.job);
    scene.stack.reduce_bytes = 2;
    const double bytes = 2 * llama3_8b_parameters, plain = exposed_seconds(&scene, 1e3);
    const double gather = transfer_seconds(&scene, TPP_ALL_GATHER, 2, 17);
    scene.stack.broadcasts_parameters = true;
    CHECK_NUMBER(exposed_seconds(&scene, 1e3),
                 plain - gather + tpp_broadcasts_seconds(&scene.links, &scene.replicas.shard, bytes, 64), 1e-9);
    CHECK_NUMBER(tpp_gather_at_once_seconds(&scene.links, &scene.stack, &scene.replicas.shard, bytes, 17, 195),
                 tpp_broadcasts_seconds(&scene.links, &scene.replicas.shard, bytes, 64), 0);
    CHECK_NUMBER(tpp_gather_at_once_seconds(&scene.links, &scene.stack, &scene.replicas.shard, bytes, 17, 40),
                 tpp_broadcasts_seconds(&scene.links, &scene.replicas.shard, bytes, 40), 0);
}

static void optimizers_move_the_bytes_of_section_5_4(void **state)
{
    (void)state;
    /* Memory at 0.85 * 3.35e12 bytes a second. Megatron, 8 shards: 34 / 8 for the update, 2 * 4 for clearing and norm. */
    const double P = 1e9, rate = 0.85 * 3.35e12;
    struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "zero=1");
    CHECK_NUMBER(tpp_optimizer_seconds(&scene.hardware.gpu, &scene.stack, &scene.strategy, 8, P, 300),
                 P * (34 / 8.0 + 8) / rate, 1e-12);
    scene.strategy.offload = TPP_OFFLOAD_OPTIMIZER; /* the update is the host's */
    CHECK_NUMBER(tpp_optimizer_seconds(&scene.hardware.gpu, &scene.stack, &scene.strategy, 8, P, 300), P * 8 / rate,
                 1e-12);
    /* FSDP2: 44 of a shard, but 5 us for each tensor at least. */
    scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, 4, "zero=3");
    CHECK_NUMBER(tpp_optimizer_seconds(&scene.hardware.gpu, &scene.stack, &scene.strategy, 8, P, 300), P / 8 * 44 / rate,
                 1e-12);
    CHECK_NUMBER(tpp_optimizer_seconds(&scene.hardware.gpu, &scene.stack, &scene.strategy, 64, P, 300), 300 * 5e-6,
                 1e-12);
}

static void megatron_handles_tensor_by_tensor(void **state)
{
    (void)state;
    /* 300 tensors, 4 launches of 6 us: 7.2 ms, 8 with moments in bf16; without a distributed optimizer, and elsewhere, the
     * kernels take all at once. */
    struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "zero=1");
    CHECK_NUMBER(tpp_optimizer_host_seconds(&scene.hardware.gpu, &scene.stack, &scene.strategy, 300), 7.2e-3, 1e-12);
    scene.stack.optimizer = TPP_OPTIMIZER_ADAMW_BF16;
    CHECK_NUMBER(tpp_optimizer_host_seconds(&scene.hardware.gpu, &scene.stack, &scene.strategy, 300), 14.4e-3, 1e-12);
    scene.strategy.zero_stage = 0;
    CHECK_NUMBER(tpp_optimizer_host_seconds(&scene.hardware.gpu, &scene.stack, &scene.strategy, 300), 0, 0);
    scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, 4, "zero=3");
    CHECK_NUMBER(tpp_optimizer_host_seconds(&scene.hardware.gpu, &scene.stack, &scene.strategy, 300), 0, 0);
}

static void gradients_are_summed_outside_the_products_but_in_megatron(void **state)
{
    (void)state;
    const double P = 1e9, rate = 0.85 * 3.35e12;
    struct scene scene = scene_of(TPP_FRAMEWORK_MEGATRON_LM, 4, "zero=1");
    assert_true(tpp_accumulation_seconds(&scene.hardware.gpu, &scene.stack, P, 300) == 0);
    /* DeepSpeed: reads the new one, reads and writes the sum, 2 bytes each. */
    scene = scene_of(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, 2, "zero=1");
    CHECK_NUMBER(tpp_accumulation_seconds(&scene.hardware.gpu, &scene.stack, P, 300), 6 * P / rate, 1e-12);
    /* Its pipeline engine in bf16: 2 + 4 to copy, 4 + 4 + 4 to add, 2 to clear. Blocking: three launches a tensor, 45 us. */
    scene.stack.engine = TPP_ENGINE_DEEPSPEED_PIPELINE;
    scene.stack.launch_blocking = true;
    tpp_stack_set_dtypes(&scene.stack, &scene.job);
    CHECK_NUMBER(tpp_accumulation_seconds(&scene.hardware.gpu, &scene.stack, P, 300), 20 * P / rate + 300 * 3 * 45e-6,
                 1e-12);
}

/* torchtitan's stages gather once, from the first micro-batch on, and reduce behind the last pass; without stages, in the layers. */
static void torchtitan_stages_reduce_once_behind_the_last_pass(void **state)
{
    (void)state;
    struct scene scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, 4, "pp=4,zero=3,overlap_param_gather=0");
    const double reduce = transfer_seconds(&scene, TPP_REDUCE_SCATTER, 4, ceil(llama3_8b_parameters / 5e8));
    const double gather = transfer_seconds(&scene, TPP_ALL_GATHER, 2, ceil(llama3_8b_parameters / 5e8));
    CHECK_NUMBER(exposed_seconds(&scene, 10 * reduce), reduce + gather, 1e-12);
    scene = scene_of(TPP_FRAMEWORK_TORCHTITAN, 4, "zero=3");
    CHECK_NUMBER(exposed_seconds(&scene, 10 * reduce), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dualpipe_reduces_over_both_copies),
        cmocka_unit_test(bucket_counts_are_example_e11),
        cmocka_unit_test(bytes_a_step_are_example_e11),
        cmocka_unit_test(megatron_has_one_bucket_when_nothing_overlaps),
        cmocka_unit_test(megatron_has_one_bucket_size_for_both_directions),
        cmocka_unit_test(long_transfers_outlast_the_pass),
        cmocka_unit_test(transfers_slow_compute_alone),
        cmocka_unit_test(experts_share_the_ports_of_the_rest),
        cmocka_unit_test(aligned_chunks_reduce_behind_the_chunks_after_them),
        cmocka_unit_test(stages_that_reduce_on_their_own_slow_one_another),
        cmocka_unit_test(the_first_stage_reduces_alone),
        cmocka_unit_test(stages_gather_one_after_the_other),
        cmocka_unit_test(deepspeed_has_a_bucket_size_for_each_direction),
        cmocka_unit_test(torchtitan_stages_reduce_once_behind_the_last_pass),
        cmocka_unit_test(ranks_broadcast_the_tensors_that_they_own),
        cmocka_unit_test(optimizers_move_the_bytes_of_section_5_4),
        cmocka_unit_test(megatron_handles_tensor_by_tensor),
        cmocka_unit_test(gradients_are_summed_outside_the_products_but_in_megatron),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
