/* Layer programs against examples E5, E10, E13, E15 and E18 of the specification. */
#include "costmodel/layer.h"
#include "costmodel/memory_walk.h"
#include "costmodel/program.h"
#include "tests/support/shapes.h"
#include "tests/support/specification.h"

static struct tpp_layer_axes axes(uint32_t t, uint32_t c, uint32_t b, bool sequence_parallel)
{
    return (struct tpp_layer_axes){.kind = TPP_LAYER_DECODER, .tensor_parallel = t, .context_parallel = c,
                                   .micro_batch_size = b, .sequence_parallel = sequence_parallel};
}

static double kept_bytes(const struct tpp_program *program)
{
    double bytes = 0;
    for (uint32_t i = 0; i < program->num_tensors; i++) {
        const enum tpp_tensor_life life = program->tensors[i].life;
        if (life == TPP_TENSOR_INPUT || life == TPP_TENSOR_SAVED)
            bytes += program->tensors[i].bytes;
    }
    return bytes;
}

static void vocabulary_padding_is_example_e18(void **state)
{
    (void)state;
    assert_int_equal(tpp_padded_vocabulary(128256, 128, 2), 128256);
    assert_int_equal(tpp_padded_vocabulary(128256, 128, 4), 128512);
    assert_int_equal(tpp_padded_vocabulary(128256, 128, 8), 129024);
    assert_int_equal(tpp_padded_vocabulary(50257, 1, 8), 50257);
}

static void flash_activations_are_example_e5(void **state)
{
    (void)state;
    /* Llama-3-70B, t=8, SP: 34,336 bytes a token and layer; 140,640,256 at s=4096. */
    const struct tpp_model model = shape_preset("llama3-70b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    const struct tpp_job job = shape_job(8, 4096, 8);
    struct tpp_stack stack;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &h100.gpu, &job, &stack);
    const struct tpp_layer_axes a = axes(8, 1, 1, true);
    struct tpp_program program;
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(kept_bytes(&program), 140640256, 0);
    CHECK_NUMBER(kept_bytes(&program) / 4096, 34336 + 0, 1e-3);
}

static void local_activations_are_example_e5(void **state)
{
    (void)state;
    /* GPT-3 175B, t=8, s=2048, b=1, bytes a layer: TP 578,813,952; TP+SP 358,612,992; + selective 106,954,752. */
    const struct tpp_model model = shape_preset("gpt3-175b");
    const struct tpp_hardware a100 = shape_cluster("dgx-a100-80g");
    struct tpp_job job = shape_job(8, 2048, 8);
    const struct tpp_stack stack = shape_korthikanti_stack(&a100.gpu, &job);
    struct tpp_program program;
    struct tpp_layer_axes a = axes(8, 1, 1, false);
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(kept_bytes(&program), 578813952, 0);
    a.sequence_parallel = true;
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(kept_bytes(&program), 358612992, 0);
    a.recompute_modules = TPP_MODULE_CORE_ATTENTION;
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(kept_bytes(&program), 106954752, 0);
}

static struct tpp_layer korthikanti_22b(bool sequence_parallel)
{
    struct tpp_model model = shape_preset("gpt3-175b");
    model.hidden_size = 6144;
    model.num_attention_heads = model.num_query_groups = 64;
    model.head_dim = 96;
    model.ffn_hidden_size = 24576;
    const struct tpp_hardware a100 = tpp_specification_cluster("dgx-a100-80g", "a100-sxm4-80g");
    struct tpp_job job = shape_job(8, 2048, 4);
    const struct tpp_stack stack = shape_korthikanti_stack(&a100.gpu, &job);
    const struct tpp_links links = tpp_links_make(&a100, 0, 0);
    const struct tpp_timing timing = {.gpu = &a100.gpu, .links = &links, .context_links = &links,
                                      .overlap_slowdown_fraction = a100.overlap_slowdown_fraction,
                                      .memory_bound_factor = stack.memory_bound_factor,
                                      .tensor_group = tpp_group_place(8, 1, 8)};
    struct tpp_layer_axes a = axes(8, 1, 4, sequence_parallel);
    struct tpp_program program;
    struct tpp_layer layer;
    a.recompute_modules = TPP_MODULE_CORE_ATTENTION;
    tpp_program_build(&model, &job, &stack, &a, &program);
    tpp_layer_measure(&program, &timing, &layer);
    return layer;
}

static void layer_times_are_example_e10(void **state)
{
    (void)state;
    /* Korthikanti 22B layer: plain 7.978 and 11.708 ms (measured 7.7, 11.9); SP + selective 7.501 and 13.211 ms (7.2, 13.1).
     * The example leaves out the gradients of the biases, column sums of 2 n (3h + 4h)/8 bytes and of 2 n 2h, with SP of
     * 2 n/8 2h: 289.4 and 113.2 MB at 1.2 / (0.88 * 2.039 TB/s), and four gaps of 1.2 us: 0.198 and 0.081 ms. */
    const struct tpp_layer plain = korthikanti_22b(false), selective = korthikanti_22b(true);
    CHECK_NUMBER(plain.section_seconds[TPP_SECTION_FORWARD], 7.978e-3, 5e-4);
    CHECK_NUMBER(plain.section_seconds[TPP_SECTION_BACKWARD] + plain.section_seconds[TPP_SECTION_WEIGHT], 11.906e-3,
                 5e-4);
    CHECK_NUMBER(selective.section_seconds[TPP_SECTION_FORWARD], 7.501e-3, 5e-4);
    CHECK_NUMBER(selective.section_seconds[TPP_SECTION_BACKWARD] + selective.section_seconds[TPP_SECTION_WEIGHT] +
                     selective.repeated_seconds,
                 13.292e-3, 5e-4);
}

static double sent_bytes(const struct tpp_program *program, enum tpp_section section, enum tpp_collective kind)
{
    double bytes = 0;
    for (uint32_t i = 0; i < program->num_ops; i++) {
        const struct tpp_op *op = &program->ops[i];
        if (op->kind == TPP_OP_COMMUNICATION && op->section == section && op->collective == kind)
            bytes += op->count * op->bytes;
    }
    return bytes;
}

static void context_parallel_volumes_are_example_e13(void **state)
{
    (void)state;
    /* Llama-3-70B, s=131072, c=8, t=1: 67,108,864 bytes a ring step, 7 of them forward, twice that backward; Ulysses
     * sends 7/8 of its buffers: 528,482,304. */
    const struct tpp_model model = shape_preset("llama3-70b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    const struct tpp_job job = shape_job(8, 131072, 1);
    struct tpp_stack stack;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &h100.gpu, &job, &stack);
    struct tpp_layer_axes a = axes(1, 8, 1, false);
    struct tpp_program program;
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(sent_bytes(&program, TPP_SECTION_FORWARD, TPP_SEND_RECV), 7 * 67108864.0, 0);
    CHECK_NUMBER(sent_bytes(&program, TPP_SECTION_BACKWARD, TPP_SEND_RECV), 939524096, 0);
    a.context_kind = TPP_CONTEXT_ULYSSES;
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(sent_bytes(&program, TPP_SECTION_FORWARD, TPP_ALL_TO_ALL) * 7 / 8, 528482304, 0);
}

static double flash_scores(const struct tpp_program *program, enum tpp_section section)
{
    double scores = 0;
    for (uint32_t i = 0; i < program->num_ops; i++) {
        const struct tpp_op *op = &program->ops[i];
        if (op->section == section && (op->kind == TPP_OP_FLASH_FORWARD || op->kind == TPP_OP_FLASH_BACKWARD))
            scores += op->count * op->attention.query_length * op->attention.key_length * op->attention.heads *
                      (op->attention.causal ? 0.5 : 1);
    }
    return scores;
}

/* Transformer Engine's context_parallel.py: with gathered keys and values a query attends to its window alone, as with
 * the exchange of heads. A rank of 8 has 16384 of 131072 queries of all 32 heads, or all of 4 heads: 4096 keys each. */
static void windows_are_kept_where_keys_are_gathered(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("mistral-7b-v0.1");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    const struct tpp_job job = shape_job(8, 131072, 1);
    struct tpp_stack stack;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &h100.gpu, &job, &stack);
    struct tpp_layer_axes a = axes(1, 8, 1, false);
    struct tpp_program program;
    const enum tpp_context_kind kinds[] = {TPP_CONTEXT_ALL_GATHER, TPP_CONTEXT_ULYSSES};
    for (size_t i = 0; i < 2; i++) {
        a.context_kind = kinds[i];
        tpp_program_build(&model, &job, &stack, &a, &program);
        CHECK_NUMBER(flash_scores(&program, TPP_SECTION_FORWARD), 131072.0 * 4096 * 4, 0);
        CHECK_NUMBER(flash_scores(&program, TPP_SECTION_BACKWARD), 131072.0 * 4096 * 4, 0);
    }
    /* A ring knows no window between ranks: 7 steps of 16384 x 8192 beside its own chunk. */
    a.context_kind = TPP_CONTEXT_RING;
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(flash_scores(&program, TPP_SECTION_FORWARD), (16384.0 * 4096 + 7.0 * 16384 * 8192) * 32, 0);
}

static const struct tpp_op *memory_op(const struct tpp_program *program, const char *name, enum tpp_section section)
{
    for (uint32_t i = 0; i < program->num_ops; i++)
        if (program->ops[i].section == section && strcmp(program->ops[i].name, name) == 0)
            return &program->ops[i];
    return NULL;
}

/* gpt-oss, 64 heads of 64 and 8 of keys, every second layer with a window of 128: MXFP8's backward computes half of 4096 x 4096 in
 * both kinds of layers; forward skips. Casts read 2 bytes of q, k, v (5120 elements a token) and of the output's gradient (4096), and write
 * two copies of 1 + 1/32. */
static void mxfp8_attention_casts_and_skips_no_window_backward(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("gpt-oss-120b");
    const struct tpp_hardware gb200 = shape_cluster("gb200-nvl72");
    struct tpp_job job = shape_job(8, 4096, 8);
    struct tpp_stack stack;
    struct tpp_program program;
    job.precision = TPP_PRECISION_MXFP8;
    tpp_stack_defaults(TPP_FRAMEWORK_NEMO, &gb200.gpu, &job, &stack);
    struct tpp_layer_axes a = axes(1, 1, 1, false);
    a.expert_parallel = a.expert_tensor_parallel = 1;
    tpp_program_build(&model, &job, &stack, &a, &program);
    const double whole = 4096.0 * 4096 / 2 * 64, window = 4096.0 * 128 * 64;
    CHECK_NUMBER(flash_scores(&program, TPP_SECTION_BACKWARD), (whole + window) / 2, 1e-12);
    assert_null(memory_op(&program, "attention casts", TPP_SECTION_FORWARD));
    stack.fp8_attention = true;
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(flash_scores(&program, TPP_SECTION_FORWARD), (whole + window) / 2, 1e-12);
    CHECK_NUMBER(flash_scores(&program, TPP_SECTION_BACKWARD), whole, 1e-12);
    CHECK_NUMBER(memory_op(&program, "attention casts", TPP_SECTION_FORWARD)->bytes, 4.0625 * 5120 * 4096, 1e-12);
    CHECK_NUMBER(memory_op(&program, "attention casts", TPP_SECTION_BACKWARD)->bytes, 4.0625 * 4096 * 4096, 1e-12);
}

static void adapter_and_quantised_sizes_are_example_e15(void **state)
{
    (void)state;
    /* Llama-3-8B: 6,979,321,856 quantised weights in 32 layers, NF4 3,600,416,768 bytes; LoRA r=16: 41,943,040. */
    const struct tpp_model model = shape_preset("llama3.1-8b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    struct tpp_job job = shape_job(1, 4096, 1);
    job.task = TPP_TASK_QLORA;
    struct tpp_stack stack;
    tpp_stack_defaults(TPP_FRAMEWORK_HF_TRAINER, &h100.gpu, &job, &stack);
    const struct tpp_layer_axes a = axes(1, 1, 1, false);
    struct tpp_program program;
    tpp_program_build(&model, &job, &stack, &a, &program);
    CHECK_NUMBER(32 * program.linear_parameters, 6979321856, 0);
    CHECK_NUMBER(32 * program.linear_parameters * TPP_NF4_BYTES, 3600416768, 1e-6);
    CHECK_NUMBER(32 * program.trainable_parameters, 41943040, 0);
}

static void frozen_linears_have_no_weight_gradient(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("llama3.1-8b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    struct tpp_job job = shape_job(1, 4096, 1);
    job.task = TPP_TASK_LORA;
    struct tpp_stack stack;
    tpp_stack_defaults(TPP_FRAMEWORK_HF_TRAINER, &h100.gpu, &job, &stack);
    const struct tpp_layer_axes a = axes(1, 1, 1, false);
    struct tpp_program program;
    tpp_program_build(&model, &job, &stack, &a, &program);
    double flops = 0;
    for (uint32_t i = 0; i < program.num_ops; i++)
        if (program.ops[i].section == TPP_SECTION_WEIGHT)
            flops += 2 * program.ops[i].gemm.m * program.ops[i].gemm.n * program.ops[i].gemm.k;
    /* Only the adapters': 2 n r (in + out), 2 * 4096 * 41,943,040 / 32. */
    CHECK_NUMBER(flops, 2 * 4096 * 41943040.0 / 32, 1e-12);
}

static void block_masks_divide_the_attention_work(void **state)
{
    (void)state;
    /* Field note A8: 32K cut in 4 x 8K blocks computes a quarter of the scores. */
    const struct tpp_model model = shape_preset("codellama-13b");
    const struct tpp_hardware a100 = shape_cluster("dgx-a100-80g");
    struct tpp_job job = shape_job(8, 32768, 8);
    struct tpp_stack stack;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &a100.gpu, &job, &stack);
    double scores[2] = {0};
    for (int packed = 0; packed < 2; packed++) {
        job.attention_block_length = packed ? 8192 : 0;
        const struct tpp_layer_axes a = axes(2, 1, 1, true);
        struct tpp_program program;
        tpp_program_build(&model, &job, &stack, &a, &program);
        for (uint32_t i = 0; i < program.num_ops; i++)
            if (program.ops[i].kind == TPP_OP_FLASH_FORWARD)
                scores[packed] += program.ops[i].count * program.ops[i].attention.batch *
                                  program.ops[i].attention.query_length * program.ops[i].attention.key_length;
    }
    CHECK_NUMBER(scores[0], 4 * scores[1], 1e-12);
}

static void blocking_launches_overlap_nothing(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("llama3.1-8b");
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    const struct tpp_job job = shape_job(8, 4096, 8);
    struct tpp_stack stack;
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &h100.gpu, &job, &stack);
    struct tpp_program program;
    static const enum tpp_layer_kind kinds[] = {TPP_LAYER_DECODER, TPP_LAYER_EMBEDDING, TPP_LAYER_HEAD};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        int num_hidden[2] = {0};
        for (int blocking = 0; blocking < 2; blocking++) {
            struct tpp_layer_axes a = axes(4, 1, 1, true);
            a.kind = kinds[k];
            stack.launch_blocking = blocking;
            tpp_program_build(&model, &job, &stack, &a, &program);
            for (uint32_t i = 0; i < program.num_ops; i++)
                num_hidden[blocking] += program.ops[i].hidden_behind != TPP_NO_OP;
        }
        assert_true(kinds[k] == TPP_LAYER_EMBEDDING || num_hidden[0] > 0);
        assert_int_equal(num_hidden[1], 0);
    }
}

struct volumes {
    int counts[TPP_SECTION_COUNT][TPP_COLLECTIVE_COUNT];
};

static struct volumes tensor_collectives(const struct tpp_program *program)
{
    struct volumes volumes = {{{0}}};
    for (uint32_t i = 0; i < program->num_ops; i++)
        if (program->ops[i].kind == TPP_OP_COMMUNICATION && program->ops[i].group == TPP_GROUP_TENSOR)
            volumes.counts[program->ops[i].section][program->ops[i].collective]++;
    return volumes;
}

/* Aleph-Alpha/scaling: src/scaling/core/nn/mlp.py has dense_in and siglu_weight, each a ColumnParallelLinear with its
 * copy_to_tensor_model_parallel_region, which reduces the gradient of its input; attention.py has q, k and v in one unless
 * there are fewer key heads. norm/rms_norm.py gathers behind the norm, under autograd: what is gathered stays for backward.
 * Megatron-LM: one reduction a block, and the norm output is gathered again (cost-model 7 "TP"). */
static void separate_linears_reduce_their_gradients_apart(void **state)
{
    (void)state;
    const struct tpp_hardware a100 = shape_cluster("dgx-a100-80g");
    const struct tpp_job job = shape_job(8, 4096, 8);
    const struct {
        const char *model;
        bool autograd;
        int all_reduces, gathers; /* backward: of a layer without, with sequence parallelism */
    } cases[] = {{"llama2-13b", false, 2, 4}, {"llama2-13b", true, 3, 2}, {"llama3.1-8b", true, 5, 2},
                 {"gpt3-175b", true, 2, 2}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const struct tpp_model model = shape_preset(cases[k].model);
        struct tpp_stack stack;
        struct tpp_program program;
        struct tpp_layer_axes a = axes(8, 1, 1, false);
        tpp_stack_defaults(TPP_FRAMEWORK_OTHER, &a100.gpu, &job, &stack);
        stack.tensor_parallel_autograd = cases[k].autograd;
        tpp_program_build(&model, &job, &stack, &a, &program);
        const double without = kept_bytes(&program);
        struct volumes volumes = tensor_collectives(&program);
        assert_int_equal(volumes.counts[TPP_SECTION_FORWARD][TPP_ALL_REDUCE], 2);
        assert_int_equal(volumes.counts[TPP_SECTION_BACKWARD][TPP_ALL_REDUCE], cases[k].all_reduces);
        a.sequence_parallel = true;
        tpp_program_build(&model, &job, &stack, &a, &program);
        volumes = tensor_collectives(&program);
        assert_int_equal(volumes.counts[TPP_SECTION_FORWARD][TPP_ALL_GATHER], 2);
        assert_int_equal(volumes.counts[TPP_SECTION_FORWARD][TPP_REDUCE_SCATTER], 2);
        assert_int_equal(volumes.counts[TPP_SECTION_BACKWARD][TPP_ALL_GATHER], cases[k].gathers);
        assert_int_equal(volumes.counts[TPP_SECTION_BACKWARD][TPP_REDUCE_SCATTER], 2);
        /* Of the four tensors of n h (two residuals, two norm outputs; eager norms keep copies elsewhere) 7/8 go, or of two. */
        const double token_bytes = 2.0 * 4096 * model.hidden_size, saved = (without - kept_bytes(&program)) / token_bytes;
        CHECK_NUMBER(saved, (cases[k].autograd ? 2 : 4) * 7.0 / 8, 1e-9);
    }
}

/* Paddle, distributed/fleet/layers/mpu: ColumnParallelLinear copies its input with c_identity, the product keeps the copy, and the
 * backward of c_identity is an all-reduce. Llama has five of them a layer (q, k, v, gate, up): 3 n h more than two norm outputs. */
static void paddle_copies_what_its_linears_read(void **state)
{
    (void)state;
    const struct tpp_hardware a100 = shape_cluster("dgx-a100-80g");
    const struct tpp_model model = shape_preset("llama2-13b");
    const struct tpp_job job = shape_job(2, 4096, 2);
    struct tpp_stack stack;
    struct tpp_program program;
    for (uint32_t t = 1; t <= 2; t++) {
        const struct tpp_layer_axes a = axes(t, 1, 1, false);
        tpp_stack_defaults(TPP_FRAMEWORK_OTHER, &a100.gpu, &job, &stack);
        tpp_program_build(&model, &job, &stack, &a, &program);
        const double shared = kept_bytes(&program);
        stack.tensor_parallel_autograd = stack.tensor_parallel_copies = true;
        tpp_program_build(&model, &job, &stack, &a, &program);
        CHECK_NUMBER(kept_bytes(&program) - shared, t == 1 ? 0 : 3 * 2.0 * 4096 * 5120, 1e-9);
        assert_int_equal(tensor_collectives(&program).counts[TPP_SECTION_BACKWARD][TPP_ALL_REDUCE], t == 1 ? 0 : 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vocabulary_padding_is_example_e18),
        cmocka_unit_test(flash_activations_are_example_e5),
        cmocka_unit_test(local_activations_are_example_e5),
        cmocka_unit_test(layer_times_are_example_e10),
        cmocka_unit_test(context_parallel_volumes_are_example_e13),
        cmocka_unit_test(windows_are_kept_where_keys_are_gathered),
        cmocka_unit_test(mxfp8_attention_casts_and_skips_no_window_backward),
        cmocka_unit_test(adapter_and_quantised_sizes_are_example_e15),
        cmocka_unit_test(frozen_linears_have_no_weight_gradient),
        cmocka_unit_test(block_masks_divide_the_attention_work),
        cmocka_unit_test(blocking_launches_overlap_nothing),
        cmocka_unit_test(separate_linears_reduce_their_gradients_apart),
        cmocka_unit_test(paddle_copies_what_its_linears_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
