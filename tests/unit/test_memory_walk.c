/* Bytes of one stage from layers of made-up sizes, so that every sum can be done by hand: recomputation (4.2 E), gathered
 * parameters and buffers (4.4), the peak (4.5), engines (15.7), FSDP under recomputation (15.8). */
#include "costmodel/memory_walk.h"
#include "tests/support/shapes.h"

struct scene {
    struct tpp_hardware hardware;
    struct tpp_job job;
    struct tpp_stack stack;
    struct tpp_strategy strategy;
    struct tpp_layer decoder, embedding, head;
    struct tpp_walk walk;
    struct tpp_walk_stage stage;
};

/* Six layers, three micro-batches in flight. A layer keeps 2 + 30 + 8 (eager) + 60 (core) bytes; 7 of its backward. */
static void open_scene(struct scene *scene, enum tpp_framework framework)
{
    memset(scene, 0, sizeof *scene);
    scene->hardware = shape_cluster("dgx-h100");
    scene->job = shape_job(8, 4096, 8);
    tpp_stack_defaults(framework, &scene->hardware.gpu, &scene->job, &scene->stack);
    scene->strategy = tpp_strategy_defaults();
    scene->strategy.data_parallel = 8;
    scene->decoder = (struct tpp_layer){
        .bytes = {[TPP_TENSOR_INPUT] = 2, [TPP_TENSOR_SAVED] = 30, [TPP_TENSOR_EAGER] = 8, [TPP_TENSOR_REPEATED] = 60,
                  [TPP_TENSOR_SELECTED] = 11, [TPP_TENSOR_BACKWARD_MLP] = 7, [TPP_TENSOR_BACKWARD_ATTENTION] = 5,
                  [TPP_TENSOR_DUMMY] = 13},
        .parameters = 1000, .linear_parameters = 900, .trainable_parameters = 1000};
    scene->embedding = (struct tpp_layer){.parameters = 400, .trainable_parameters = 400};
    scene->head = (struct tpp_layer){
        .bytes = {[TPP_TENSOR_LOSS] = 17, [TPP_TENSOR_DUMMY] = 19}, .parameters = 500, .trainable_parameters = 500};
    scene->walk = (struct tpp_walk){.job = &scene->job, .stack = &scene->stack, .strategy = &scene->strategy,
                                    .hardware = &scene->hardware, .shard_ranks = 1, .expert_shard_ranks = 1};
    scene->stage = (struct tpp_walk_stage){.decoder = &scene->decoder, .num_layers = 6, .in_flight = 3};
}

static struct tpp_memory walk(const struct scene *scene)
{
    struct tpp_memory memory;
    tpp_walk_stage_memory(&scene->walk, &scene->stage, &memory);
    return memory;
}

static void recomputation_keeps_less_and_repeats_a_layer(void **state)
{
    (void)state;
    static const struct {
        enum tpp_framework framework;
        enum tpp_recompute recompute;
        enum tpp_recompute_method method;
        uint32_t layers;
        double activations, repeated;
    } rows[] = {
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_RECOMPUTE_NONE, TPP_RECOMPUTE_UNIFORM, 0, 3 * 6 * 100, 0},
        /* Selective drops the core, 60, and has one layer's of it alive. */
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_RECOMPUTE_SELECTIVE, TPP_RECOMPUTE_UNIFORM, 0, 3 * 6 * 40, 60},
        /* torchtitan keeps its own list, 2 + 11, and repeats the rest of 100. */
        {TPP_FRAMEWORK_TORCHTITAN, TPP_RECOMPUTE_SELECTIVE, TPP_RECOMPUTE_UNIFORM, 0, 3 * 6 * 13, 87},
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_RECOMPUTE_FULL, TPP_RECOMPUTE_UNIFORM, 0, 3 * 6 * 2, 98},
        /* Units of four layers: two inputs are kept, four whole layers are alive but for the input. */
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_RECOMPUTE_FULL, TPP_RECOMPUTE_UNIFORM, 4, 3 * 2 * 2, 398},
        /* The first five of the six. */
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_RECOMPUTE_FULL, TPP_RECOMPUTE_BLOCK, 5, 3 * (5 * 2 + 100), 98},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct scene scene;
        open_scene(&scene, rows[i].framework);
        scene.strategy.recompute = rows[i].recompute;
        scene.strategy.recompute_method = rows[i].method;
        scene.strategy.recompute_num_layers = rows[i].layers;
        const struct tpp_memory memory = walk(&scene);
        CHECK_NUMBER(memory.terms[TPP_MEMORY_ACTIVATIONS], rows[i].activations, 0);
        CHECK_NUMBER(memory.terms[TPP_MEMORY_RECOMPUTE_LAYER], rows[i].repeated, 0);
        CHECK_NUMBER(memory.terms[TPP_MEMORY_BACKWARD], 7, 0);
    }
}

/* Of 100 bytes a layer keeps, B frees the 2 of its input: two of three micro-batches in flight wait with 98 of 100, more than
 * the 32/34 that their number has them count for. */
static void micro_batches_that_wait_for_weight_gradients_keep_all_but_their_input(void **state)
{
    struct scene scene;
    (void)state;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    scene.stage.in_flight = 1 + 2 * (32.0 / 34);
    scene.stage.awaiting_weights = 2;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_ACTIVATIONS], 6 * (100 + 2 * 98), 1e-12);
    scene.decoder.bytes[TPP_TENSOR_INPUT] = 40; /* 40 of 138: 32/34 is more */
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_ACTIVATIONS], 6 * 138 * (1 + 2 * (32.0 / 34)), 1e-12);
}

static void the_peak_is_at_the_loss_or_in_a_layer(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    scene.stage.head = &scene.head;
    struct tpp_memory memory = walk(&scene); /* 17 at the loss, 7 in a layer */
    CHECK_NUMBER(memory.terms[TPP_MEMORY_LOGITS], 17, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_BACKWARD], 0, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_DUMMY_WGRAD], 13 + 19, 0);
    scene.strategy.recompute = TPP_RECOMPUTE_FULL; /* 98 + 7 in a layer */
    memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_LOGITS], 0, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_RECOMPUTE_LAYER] + memory.terms[TPP_MEMORY_BACKWARD], 105, 0);
}

static void sharded_weights_are_gathered_unit_by_unit(void **state)
{
    (void)state;
    /* 4.4: 2 units of 1000 parameters, each twice, 2 bytes; embedding and head, 2 bytes; fp32 gradients of a unit and the
     * larger end. */
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_TORCHTITAN);
    scene.strategy.zero_stage = 3;
    scene.walk.shard_ranks = 8;
    scene.stage.embedding = &scene.embedding;
    scene.stage.head = &scene.head;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_GATHERED], 8 * 1000 + 2 * 900 + 4 * (1000 + 500), 0);
    /* With pipeline stages all stay gathered, and gradients whole until the last micro-batch: 2 + 4 bytes of a stage's. */
    scene.strategy.pipeline_parallel = 2;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_GATHERED], 6 * (scene.stage.num_layers * 1000.0 + 400 + 500), 0);
    scene.strategy.pipeline_parallel = 1;
    /* Adapters: no gradients of the base; NF4 halves and more the linear layers' part. */
    scene.job.task = TPP_TASK_QLORA;
    const double nf4 = (4 + 8 / 64.0 + 32 / 16384.0) / 8;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_GATHERED], 4 * (900 * nf4 + 100 * 2) + 2 * 900, 1e-12);
    /* FSDP1's parameters are views of what arrives: once. */
    scene.stack.engine = TPP_ENGINE_FSDP1;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_GATHERED], 2 * (900 * nf4 + 100 * 2) + 2 * 900, 1e-12);
    /* DeepSpeed: prefetch bucket 5e7, two modules and the larger end, but never above 1e9 live parameters. */
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    scene.strategy.zero_stage = 3;
    scene.walk.shard_ranks = 8;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_GATHERED], 2 * (5e7 + 2000), 0);
    scene.decoder.parameters = 6e8;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_GATHERED], 2 * 1e9, 0);
}

static void engines_have_buffers_of_their_own(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    scene.strategy.zero_stage = 1;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_BUCKETS], 0, 0); /* reduces where the gradients are */
    /* DeepSpeed: two buckets of 16-bit gradients while they overlap, one else; no larger than the 6000 gradients. */
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    scene.strategy.zero_stage = 1;
    scene.strategy.reduce_bucket_size = 700;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_BUCKETS], 2 * 2 * 700, 0);
    scene.strategy.overlap_grad_reduce = false;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_BUCKETS], 2 * 700, 0);
    scene.strategy.reduce_bucket_size = 0;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_BUCKETS], 2 * 6000, 0);
    /* 15.7: its pipeline engine has 2 GB and the output of each of the three micro-batches in flight. */
    scene.stack.engine = TPP_ENGINE_DEEPSPEED_PIPELINE;
    scene.strategy.pipeline_parallel = 4;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_BUCKETS], 2e9 + 3 * 2, 0);
}

static void the_pipeline_engine_of_deepspeed_sums_bf16_gradients_in_fp32(void **state)
{
    (void)state;
    /* 15.7, bf16: 2 + 2 + 4 + 12/D even at stage 0; fp16: 4 + 16/D with stage 1. */
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_DEEPSPEED);
    scene.stack.engine = TPP_ENGINE_DEEPSPEED_PIPELINE;
    tpp_stack_set_dtypes(&scene.stack, &scene.job);
    struct tpp_static_bytes bytes = tpp_static_bytes_per_parameter(&scene.stack, &scene.strategy, 8);
    CHECK_NUMBER(bytes.weights + bytes.gradients, 2 + 2 + 4, 0);
    CHECK_NUMBER(bytes.optimizer, 1.5, 0);
    scene.job.precision = TPP_PRECISION_FP16;
    tpp_stack_set_dtypes(&scene.stack, &scene.job);
    scene.strategy.zero_stage = 1;
    bytes = tpp_static_bytes_per_parameter(&scene.stack, &scene.strategy, 8);
    CHECK_NUMBER(bytes.weights + bytes.gradients, 4, 0);
    CHECK_NUMBER(bytes.optimizer, 2, 0);
}

static void a_recomputed_layer_of_frozen_weights_is_alive_twice_under_fsdp(void **state)
{
    (void)state;
    /* 15.8, adapters: max(2 plain, plain + eager). Plain: 2 + 30 + 60 kept and 7 of backward, 99; eager norms: 8. Trained
     * weights: once, plain + eager. */
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_LLM_FOUNDRY);
    scene.strategy.zero_stage = 3;
    scene.strategy.recompute = TPP_RECOMPUTE_FULL;
    struct tpp_memory memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_RECOMPUTE_LAYER] + memory.terms[TPP_MEMORY_BACKWARD], 99 + 8 - 2, 0);
    scene.job.task = TPP_TASK_LORA;
    memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_RECOMPUTE_LAYER] + memory.terms[TPP_MEMORY_BACKWARD], 2 * 99 - 2, 0);
    scene.decoder.bytes[TPP_TENSOR_EAGER] = 200;
    memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_RECOMPUTE_LAYER] + memory.terms[TPP_MEMORY_BACKWARD], 99 + 200 - 2, 0);
}

static void gradients_appear_in_backward_and_copies_in_the_step(void **state)
{
    (void)state;
    /* FSDP, one micro-batch, sharded over 4: 4 B of weights, 4 of gradients and 8 of moments a parameter, all /4. Six layers
     * of 1000 parameters, 400 and 500 at the ends: 6900 in all, gradients 6900 bytes, moments 13800. */
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_LLM_FOUNDRY);
    scene.strategy.num_micro_batches = 1;
    scene.strategy.zero_stage = 3;
    scene.walk.shard_ranks = scene.walk.expert_shard_ranks = 4;
    scene.stage.embedding = &scene.embedding;
    scene.stage.head = &scene.head;
    scene.stage.in_flight = 1;
    struct tpp_memory memory = walk(&scene);
    /* Small activations. In the first layer's backward: gathered 2 x 2 x 1000 and 2 x 900, unsharded gradients 4 x 1000, and
     * the gradients of five layers and the head, 5500; in the step 6900 and a moment's width of copies, 6900: less. */
    CHECK_NUMBER(memory.terms[TPP_MEMORY_GRADIENTS], 5500, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_GATHERED], 4000 + 1800 + 4000, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_ACTIVATIONS], 100, 1e-12);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_OPTIMIZER_STEP], 0, 0);
    /* A layer that keeps 10000: the head's gradients alone are there when the last layer's backward begins. */
    scene.decoder.bytes[TPP_TENSOR_SAVED] = 10000;
    memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_GRADIENTS], 500, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_GATHERED], 4000 + 1800 + 4 * (1000 + 500), 0);
    /* A loss of 1e6: none. */
    scene.head.bytes[TPP_TENSOR_LOSS] = 1e6;
    memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_GRADIENTS], 0, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_LOGITS], 1e6, 0);
    /* Two micro-batches: all are there from the first one on. */
    scene.strategy.num_micro_batches = 2;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_GRADIENTS], 6900, 0);
    /* A single rank of pure 16-bit training: 2 + 2 + 2 x 2 bytes a parameter and copies of 2 more, 10 in all, beside the
     * scene's 13 of dummies. */
    open_scene(&scene, TPP_FRAMEWORK_HF_TRAINER);
    scene.stack.engine = TPP_ENGINE_DDP;
    scene.stack.weight_bytes = scene.stack.gradient_bytes = 2;
    scene.stack.optimizer_bytes = 4;
    scene.strategy.data_parallel = scene.strategy.num_micro_batches = 1;
    memory = walk(&scene);
    CHECK_NUMBER(memory.peak_allocated_bytes - memory.terms[TPP_MEMORY_WORKSPACES], 10 * 6000 + 13, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_OPTIMIZER_STEP], 2 * 6000, 0);
}

static void fp16_gradients_of_megatron_are_copied_in_the_step(void **state)
{
    (void)state;
    /* 2 + 2 bytes of weights and gradients and 12 of states a parameter of 6000; 4 of fp32 gradients in the step only. Layers
     * keep 3 x 6 x 100, 7 of backward, 13 of dummies. */
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    scene.job.precision = TPP_PRECISION_FP16;
    tpp_stack_set_dtypes(&scene.stack, &scene.job);
    scene.decoder.bytes[TPP_TENSOR_SAVED] = 10030; /* 3 x 6 x 10100: the peak is in backward */
    struct tpp_memory memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_OPTIMIZER], 12 * 6000, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_OPTIMIZER_STEP], 0, 0);
    CHECK_NUMBER(memory.peak_allocated_bytes - memory.terms[TPP_MEMORY_WORKSPACES], 16 * 6000 + 18 * 10100 + 7 + 13, 0);
    /* They are larger than activations and stay reserved beside them: 24000 where 4 % is less. */
    scene.stack.transformer_engine = false; /* no workspaces, but for those of a head */
    memory = walk(&scene);
    CHECK_NUMBER(memory.peak_reserved_bytes - memory.peak_allocated_bytes,
                 fmax(4 * 6000, round(0.04 * memory.peak_allocated_bytes)), 0);
    /* Layers that keep next to nothing: the peak is the step. */
    scene.decoder.bytes[TPP_TENSOR_SAVED] = 0;
    scene.decoder.bytes[TPP_TENSOR_REPEATED] = 0;
    memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_OPTIMIZER_STEP], 4 * 6000, 0);
    CHECK_NUMBER(memory.peak_allocated_bytes - memory.terms[TPP_MEMORY_WORKSPACES], 20 * 6000 + 13, 0);
}

static void narrow_moments_are_widened_in_the_step(void **state)
{
    (void)state;
    /* 6 bytes of states a parameter; 600 of a layer's 1000 are experts', 3600 of 6000. The step widens the larger set to
     * 4 + 4 bytes. */
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_NEMO);
    tpp_stack_set_optimizer(&scene.stack, TPP_OPTIMIZER_ADAMW_BF16);
    scene.decoder.expert_parameters = 600;
    struct tpp_memory memory = walk(&scene);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_OPTIMIZER], 6 * 6000, 0);
    CHECK_NUMBER(memory.terms[TPP_MEMORY_OPTIMIZER_STEP], 8 * 3600, 0);
    CHECK_NUMBER(tpp_optimizer_step_bytes(&scene.stack, &scene.strategy, 6 * 6000, 6 * 1000), 8 * 5000, 0);
    const struct tpp_state_bytes bytes = tpp_stack_state_bytes(&scene.stack);
    CHECK_NUMBER(bytes.moments, 4, 0);
    CHECK_NUMBER(bytes.master_weights, 2, 0);
    CHECK_NUMBER(bytes.gradient_copies, 0, 0);
    CHECK_NUMBER(tpp_optimizer_moment_fraction(&scene.stack), 1.0 / 3, 1e-15);
}

/* 6 layers of 1000 parameters, 900 of them in linears. 16-bit weights 6 * 1000 * 2 = 12000; FP8 copies of a linear: two
 * bytes on Hopper, one on Blackwell for one scale a tensor (6 * 900 = 5400 each), 2 (1 + 1/32) for MXFP8: 11137.5. Kept
 * alone they take the place of 6 * 900 * 2 = 10800. */
static void fp8_weights_are_copies_or_all_there_is(void **state)
{
    static const struct {
        enum tpp_precision precision;
        double capability;
        bool fp8_weights;
        double weights;
    } rows[] = {
        {TPP_PRECISION_BF16, 9, true, 12000},
        {TPP_PRECISION_FP8, 9, false, 12000 + 10800},
        {TPP_PRECISION_FP8, 9, true, 12000},
        {TPP_PRECISION_FP8, 10, false, 12000 + 5400},
        {TPP_PRECISION_FP8, 10, true, 12000 - 5400},
        {TPP_PRECISION_FP8_BLOCK, 10, false, 12000 + 10800},
        {TPP_PRECISION_FP8_BLOCK, 9, true, 12000},
        {TPP_PRECISION_MXFP8, 10, false, 12000 + 11137.5},
        {TPP_PRECISION_MXFP8, 10, true, 12000 + 337.5},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene;
        open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
        scene.job.precision = rows[i].precision;
        scene.hardware.gpu.compute_capability = rows[i].capability;
        tpp_stack_set_dtypes(&scene.stack, &scene.job);
        tpp_stack_set_fp8_weights(&scene.stack, &scene.job, rows[i].fp8_weights);
        CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_WEIGHTS], rows[i].weights, 1e-12);
        scene.stack.transformer_engine = false; /* no FP8 of Transformer Engine, no copies */
        CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_WEIGHTS], 12000, 1e-12);
    }
}

/* Three dense layers of 70 bytes and three with experts of 130 keep 100 on average; the one that is run again is the last. */
static void one_layer_of_a_mixed_stage_is_the_last(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, TPP_FRAMEWORK_MEGATRON_LM);
    const struct tpp_layer dense = {.bytes = {[TPP_TENSOR_INPUT] = 2, [TPP_TENSOR_SAVED] = 8, [TPP_TENSOR_REPEATED] = 60,
                                              [TPP_TENSOR_BACKWARD_MLP] = 3, [TPP_TENSOR_DUMMY] = 41}};
    const struct tpp_layer experts = {.bytes = {[TPP_TENSOR_INPUT] = 2, [TPP_TENSOR_SAVED] = 60, [TPP_TENSOR_EAGER] = 8,
                                                [TPP_TENSOR_REPEATED] = 60, [TPP_TENSOR_BACKWARD_MLP] = 21,
                                                [TPP_TENSOR_DUMMY] = 37}};
    scene.stage.dense = &dense;
    scene.stage.last = &experts;
    scene.strategy.recompute = TPP_RECOMPUTE_FULL;
    const struct tpp_memory full = walk(&scene);
    CHECK_NUMBER(full.terms[TPP_MEMORY_ACTIVATIONS], 3 * 6 * 2, 0);
    CHECK_NUMBER(full.terms[TPP_MEMORY_RECOMPUTE_LAYER], 128, 0);
    CHECK_NUMBER(full.terms[TPP_MEMORY_BACKWARD], 21, 0);
    CHECK_NUMBER(full.terms[TPP_MEMORY_DUMMY_WGRAD], 41, 0);
    scene.strategy.recompute = TPP_RECOMPUTE_NONE;
    CHECK_NUMBER(walk(&scene).terms[TPP_MEMORY_ACTIVATIONS], 3 * 6 * 100, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputation_keeps_less_and_repeats_a_layer),
        cmocka_unit_test(micro_batches_that_wait_for_weight_gradients_keep_all_but_their_input),
        cmocka_unit_test(the_peak_is_at_the_loss_or_in_a_layer),
        cmocka_unit_test(sharded_weights_are_gathered_unit_by_unit),
        cmocka_unit_test(engines_have_buffers_of_their_own),
        cmocka_unit_test(the_pipeline_engine_of_deepspeed_sums_bf16_gradients_in_fp32),
        cmocka_unit_test(a_recomputed_layer_of_frozen_weights_is_alive_twice_under_fsdp),
        cmocka_unit_test(gradients_appear_in_backward_and_copies_in_the_step),
        cmocka_unit_test(fp16_gradients_of_megatron_are_copied_in_the_step),
        cmocka_unit_test(narrow_moments_are_widened_in_the_step),
        cmocka_unit_test(fp8_weights_are_copies_or_all_there_is),
        cmocka_unit_test(one_layer_of_a_mixed_stage_is_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
