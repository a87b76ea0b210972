/* Defaults of the software stacks: bytes a parameter (cost-model 4.1, 15.7) and kernel generations (5.2, 15.1). */
#include "costmodel/stack.h"
#include "tests/support/shapes.h"

#include <string.h>

static struct tpp_stack defaults(enum tpp_framework framework, const char *cluster, enum tpp_precision precision)
{
    const struct tpp_hardware hardware = shape_cluster(cluster);
    struct tpp_job job = shape_job(8, 2048, 8);
    struct tpp_stack stack;
    job.precision = precision;
    tpp_stack_defaults(framework, &hardware.gpu, &job, &stack);
    return stack;
}

static void attention_follows_the_gpu(void **state)
{
    (void)state;
    assert_int_equal(defaults(TPP_FRAMEWORK_MEGATRON_LM, "dgx-h100", TPP_PRECISION_BF16).attention, TPP_ATTENTION_FLASH3);
    assert_int_equal(defaults(TPP_FRAMEWORK_MEGATRON_LM, "dgx-a100-80g", TPP_PRECISION_BF16).attention,
                     TPP_ATTENTION_FLASH2);
    assert_int_equal(defaults(TPP_FRAMEWORK_LLM_FOUNDRY, "dgx-h100", TPP_PRECISION_BF16).attention, TPP_ATTENTION_FLASH2);
    assert_int_equal(defaults(TPP_FRAMEWORK_MEGATRON_LM, "dgx1-v100-32g", TPP_PRECISION_FP16).attention,
                     TPP_ATTENTION_FUSED_SOFTMAX);
}

static void eager_stacks_are_eager(void **state)
{
    (void)state;
    const struct tpp_stack hf = defaults(TPP_FRAMEWORK_HF_TRAINER, "dgx-a100-80g", TPP_PRECISION_BF16);
    assert_int_equal(hf.norm_kernel, TPP_KERNEL_EAGER);
    assert_int_equal(hf.rope_kernel, TPP_KERNEL_EAGER);
    assert_int_equal(hf.loss_kernel, TPP_LOSS_EAGER);
    CHECK_NUMBER(hf.memory_bound_factor, 1.25, 0);
}

static void the_deepspeed_pipeline_accumulates_in_fp32(void **state)
{
    (void)state;
    const struct tpp_job job = shape_job(8, 2048, 8);
    struct tpp_stack stack = defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, "dgx-a100-80g", TPP_PRECISION_BF16);
    stack.engine = TPP_ENGINE_DEEPSPEED_PIPELINE;
    tpp_stack_set_dtypes(&stack, &job);
    assert_int_equal(stack.gradient_bytes, 2);
    assert_int_equal(stack.reduce_bytes, 4);
    assert_int_equal(stack.optimizer_bytes, 12);
}

static void impossible_stacks_are_refused(void **state)
{
    (void)state;
    const struct tpp_hardware a100 = shape_cluster("dgx-a100-80g"), v100 = shape_cluster("dgx1-v100-32g");
    struct tpp_job job = shape_job(8, 2048, 8);
    struct tpp_error err = {0};
    struct tpp_stack stack = defaults(TPP_FRAMEWORK_MEGATRON_LM, "dgx-a100-80g", TPP_PRECISION_BF16);
    stack.attention = TPP_ATTENTION_FLASH3;
    assert_int_equal(tpp_stack_check(&stack, &a100.gpu, &job, &err), TPP_E_UNSUPPORTED);
    stack.attention = TPP_ATTENTION_FLASH2;
    job.precision = TPP_PRECISION_FP8;
    assert_int_equal(tpp_stack_check(&stack, &a100.gpu, &job, &err), TPP_E_UNSUPPORTED);
    stack.attention = TPP_ATTENTION_FUSED_SOFTMAX;
    assert_int_equal(tpp_stack_check(&stack, &v100.gpu, &job, &err), TPP_E_UNSUPPORTED);
    assert_non_null(strstr(err.hint, "fp16")); /* V100 has no bf16 either */
    job.precision = TPP_PRECISION_BF16;
    assert_int_equal(tpp_stack_check(&stack, &v100.gpu, &job, &err), TPP_E_UNSUPPORTED);
}

static void a_framework_runs_with_its_own_engines(void **state)
{
    (void)state;
    assert_true(tpp_framework_has_engine(TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON));
    assert_false(tpp_framework_has_engine(TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_DDP));
    assert_true(tpp_framework_has_engine(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, TPP_ENGINE_DEEPSPEED_PIPELINE));
    for (int i = 0; i < TPP_FRAMEWORK_COUNT; i++) /* every default is one of them */
        assert_true(tpp_framework_has_engine((enum tpp_framework)i,
                                             defaults((enum tpp_framework)i, "dgx-h100", TPP_PRECISION_BF16).engine));
}

/* Cost-model 4.1: master weight, fp32 gradient copy and two moments make up the optimizer's bytes. */
static void states_have_names(void **state)
{
    (void)state;
    static const struct {
        enum tpp_framework framework;
        enum tpp_precision precision;
        struct tpp_state_bytes bytes; /* weights, gradients, master, gradient copy, moments */
    } cases[] = {
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_PRECISION_BF16, {2, 4, 4, 0, 8}},  /* 18 */
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_PRECISION_FP16, {2, 2, 4, 4, 8}},  /* 20 */
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_PRECISION_FP32, {4, 4, 0, 0, 8}},  /* 16 */
        {TPP_FRAMEWORK_TORCHTITAN, TPP_PRECISION_BF16, {4, 4, 0, 0, 8}},   /* fp32 shards */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tpp_stack stack = defaults(cases[i].framework, "dgx-a100-80g", cases[i].precision);
        const struct tpp_state_bytes bytes = tpp_stack_state_bytes(&stack);
        assert_memory_equal(&bytes, &cases[i].bytes, sizeof bytes);
    }
    struct tpp_stack pure = defaults(TPP_FRAMEWORK_HF_TRAINER, "dgx-a100-80g", TPP_PRECISION_BF16);
    pure.optimizer_bytes = 4; /* two bf16 moments and nothing else */
    assert_int_equal(tpp_stack_state_bytes(&pure).master_weights, 0);
    CHECK_NUMBER(tpp_stack_state_bytes(&pure).moments, 4, 0);
}

static struct tpp_stack with_job(enum tpp_framework framework, enum tpp_engine engine, const struct tpp_job *job)
{
    const struct tpp_hardware hardware = shape_cluster("dgx-a100-80g");
    struct tpp_stack stack;
    tpp_stack_defaults(framework, &hardware.gpu, job, &stack);
    tpp_stack_set_engine(&stack, engine, &hardware.gpu, job);
    return stack;
}

/* Moments in bf16 take 4 bytes; of the fp32 master Megatron-Core keeps the 2 that a bf16 weight lacks. bitsandbytes: a byte a moment and an fp32 scale for 256 elements, so
 * 2 + 8 / 256; DeepSpeed keeps its master weights and fp32 gradients beside them. */
static void optimizers_narrow_the_moments(void **state)
{
    struct tpp_job job = shape_job(8, 2048, 8);
    (void)state;
    job.optimizer = TPP_OPTIMIZER_ADAMW_BF16;
    struct tpp_stack stack = with_job(TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, &job);
    CHECK_NUMBER(stack.optimizer_bytes, 6, 0);
    CHECK_NUMBER(tpp_stack_state_bytes(&stack).moments, 4, 0);
    assert_int_equal(tpp_stack_state_bytes(&stack).master_weights, 2);
    job.optimizer = TPP_OPTIMIZER_ADAMW_8BIT;
    stack = with_job(TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP2, &job);
    CHECK_NUMBER(stack.optimizer_bytes, 2.03125, 0);
    stack = with_job(TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_DEEPSPEED, &job);
    CHECK_NUMBER(stack.optimizer_bytes, 10.03125, 0);
    assert_int_equal(tpp_stack_state_bytes(&stack).gradient_copies, 4);
}

/* Megatron's --grad-reduce-in-bf16 sums in bf16 too; FSDP's reduce_dtype is that of the wire alone. */
static void gradients_take_the_type_that_is_asked_for(void **state)
{
    struct tpp_job job = shape_job(8, 2048, 8);
    (void)state;
    job.gradient_type = TPP_GRADIENT_BF16;
    struct tpp_stack stack = with_job(TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, &job);
    assert_int_equal(stack.gradient_bytes, 2);
    assert_int_equal(stack.reduce_bytes, 2);
    stack = with_job(TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP2, &job);
    assert_int_equal(stack.gradient_bytes, 4);
    assert_int_equal(stack.reduce_bytes, 2);
    job.gradient_type = TPP_GRADIENT_FP32;
    assert_int_equal(with_job(TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP2, &job).reduce_bytes, 4);
    /* Summed in fp32, fp16 gradients need no copy for the optimizer: 2 + 4 + 12 bytes, as of bf16, in place of 20. */
    job.precision = TPP_PRECISION_FP16;
    job.gradient_type = TPP_GRADIENT_FP32;
    stack = with_job(TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, &job);
    assert_int_equal(stack.gradient_bytes, 4);
    assert_int_equal(stack.reduce_bytes, 4);
    CHECK_NUMBER(stack.optimizer_bytes, 12, 0);
    assert_int_equal(tpp_stack_state_bytes(&stack).gradient_copies, 0);
}

/* accelerate, FullyShardedDataParallelPlugin.set_mixed_precision: MixedPrecision(param_dtype=dtype, reduce_dtype=dtype,
 * buffer_dtype=dtype). torchtitan's mixed_precision_reduce and llm-foundry's DEFAULT are fp32. */
static void accelerate_reduces_what_it_computes_in(void **state)
{
    struct tpp_job job = shape_job(8, 2048, 8);
    (void)state;
    const struct tpp_stack stack = with_job(TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP1, &job);
    assert_int_equal(stack.reduce_bytes, 2);
    assert_int_equal(stack.gradient_bytes, 4);
    assert_int_equal(with_job(TPP_FRAMEWORK_TORCHTITAN, TPP_ENGINE_FSDP2, &job).reduce_bytes, 4);
    assert_int_equal(with_job(TPP_FRAMEWORK_LLM_FOUNDRY, TPP_ENGINE_FSDP1, &job).reduce_bytes, 4);
    job.precision = TPP_PRECISION_FP32;
    assert_int_equal(with_job(TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_FSDP1, &job).reduce_bytes, 4);
}

static void what_a_framework_lacks_is_refused(void **state)
{
    static const struct {
        enum tpp_framework framework;
        enum tpp_engine engine;
        enum tpp_optimizer optimizer;
        enum tpp_gradient_type gradients;
        const char *where; /* NULL: it has them */
    } cases[] = {
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, TPP_OPTIMIZER_ADAMW_BF16, TPP_GRADIENT_BF16, NULL},
        {TPP_FRAMEWORK_MEGATRON_LM, TPP_ENGINE_MEGATRON, TPP_OPTIMIZER_ADAMW_8BIT, TPP_GRADIENT_DEFAULT,
         "job.optimizer"},
        {TPP_FRAMEWORK_TORCHTITAN, TPP_ENGINE_FSDP2, TPP_OPTIMIZER_ADAMW_BF16, TPP_GRADIENT_DEFAULT, "job.optimizer"},
        {TPP_FRAMEWORK_TORCHTITAN, TPP_ENGINE_FSDP2, TPP_OPTIMIZER_ADAMW, TPP_GRADIENT_BF16, "job.gradient_type"},
        {TPP_FRAMEWORK_TORCHTITAN, TPP_ENGINE_FSDP2, TPP_OPTIMIZER_ADAMW, TPP_GRADIENT_FP32, NULL},
        {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_DEEPSPEED, TPP_OPTIMIZER_ADAMW_8BIT, TPP_GRADIENT_DEFAULT, NULL},
        {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_DEEPSPEED, TPP_OPTIMIZER_ADAMW, TPP_GRADIENT_FP32, NULL},
        {TPP_FRAMEWORK_HF_TRAINER, TPP_ENGINE_DEEPSPEED, TPP_OPTIMIZER_ADAMW, TPP_GRADIENT_BF16, "job.gradient_type"},
        {TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_MEGATRON, TPP_OPTIMIZER_ADAMW, TPP_GRADIENT_BF16, "job.gradient_type"},
        {TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_MEGATRON, TPP_OPTIMIZER_ADAMW, TPP_GRADIENT_FP32, NULL},
        {TPP_FRAMEWORK_MS_SWIFT, TPP_ENGINE_MEGATRON, TPP_OPTIMIZER_ADAMW_BF16, TPP_GRADIENT_BF16, NULL},
        {TPP_FRAMEWORK_NEMO, TPP_ENGINE_MEGATRON, TPP_OPTIMIZER_ADAMW, TPP_GRADIENT_BF16, NULL},
        {TPP_FRAMEWORK_NANOTRON, TPP_ENGINE_MEGATRON, TPP_OPTIMIZER_ADAMW, TPP_GRADIENT_BF16, "job.gradient_type"},
        {TPP_FRAMEWORK_LLM_FOUNDRY, TPP_ENGINE_FSDP1, TPP_OPTIMIZER_ADAMW_8BIT, TPP_GRADIENT_DEFAULT, "job.optimizer"},
    };
    const struct tpp_hardware hardware = shape_cluster("dgx-a100-80g");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tpp_job job = shape_job(8, 2048, 8);
        struct tpp_error err = {.code = TPP_OK};
        job.optimizer = cases[i].optimizer;
        job.gradient_type = cases[i].gradients;
        const struct tpp_stack stack = with_job(cases[i].framework, cases[i].engine, &job);
        const enum tpp_code code = tpp_stack_check(&stack, &hardware.gpu, &job, &err);
        assert_int_equal(code, cases[i].where == NULL ? TPP_OK : TPP_E_UNSUPPORTED);
        if (cases[i].where != NULL)
            assert_string_equal(err.where, cases[i].where);
    }
}

static void names_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < TPP_FRAMEWORK_COUNT; i++) {
        enum tpp_framework framework;
        assert_true(tpp_framework_parse(tpp_framework_name((enum tpp_framework)i), &framework));
        assert_int_equal(framework, i);
    }
    for (int i = 0; i < TPP_ENGINE_COUNT; i++) {
        enum tpp_engine engine;
        assert_true(tpp_engine_parse(tpp_engine_name((enum tpp_engine)i), &engine));
        assert_int_equal(engine, i);
    }
    enum tpp_engine engine;
    assert_false(tpp_engine_parse("Megatron", &engine));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_follows_the_gpu),
        cmocka_unit_test(eager_stacks_are_eager),
        cmocka_unit_test(the_deepspeed_pipeline_accumulates_in_fp32),
        cmocka_unit_test(impossible_stacks_are_refused),
        cmocka_unit_test(a_framework_runs_with_its_own_engines),
        cmocka_unit_test(states_have_names),
        cmocka_unit_test(optimizers_narrow_the_moments),
        cmocka_unit_test(gradients_take_the_type_that_is_asked_for),
        cmocka_unit_test(accelerate_reduces_what_it_computes_in),
        cmocka_unit_test(what_a_framework_lacks_is_refused),
        cmocka_unit_test(names_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
