/* Kernels and overlaps of older releases, as the notes of the launch formats date them. */
#include "planner/rules/release_stack.h"
#include "tests/support/shapes.h"

#include <stdio.h>

static struct tpp_stack stack_for(const char *preset, enum tpp_framework framework, const char *release,
                                  enum tpp_precision precision)
{
    const struct tpp_model model = shape_preset(preset);
    const struct tpp_hardware h100 = shape_cluster("dgx-h100");
    struct tpp_job job = shape_job(8, 4096, 64);
    struct tpp_stack stack;
    job.precision = precision;
    tpp_stack_defaults(framework, &h100.gpu, &job, &stack);
    snprintf(stack.release, sizeof stack.release, "%s", release);
    tpp_stack_take_release(&stack, &model, &h100.gpu, &job);
    return stack;
}

static struct tpp_stack stack_of(enum tpp_framework framework, const char *release, enum tpp_precision precision)
{
    return stack_for("gpt3-175b", framework, release, precision);
}

static void megatron_has_transformer_engine_from_0_6_on(void **state)
{
    (void)state;
    static const struct {
        const char *release;
        bool transformer_engine;
        enum tpp_attention_kernel attention;
        bool overlap_p2p;
    } rows[] = {
        {"", true, TPP_ATTENTION_FLASH3, true},       {"main", true, TPP_ATTENTION_FLASH3, true},
        {"0.6", true, TPP_ATTENTION_FLASH3, true},    {"core_v0.14.0", true, TPP_ATTENTION_FLASH3, true},
        {"0.5", false, TPP_ATTENTION_FLASH2, true},   {"core_r0.4.0", false, TPP_ATTENTION_FLASH2, true},
        {"23.06", false, TPP_ATTENTION_FLASH2, true}, {"23.04", false, TPP_ATTENTION_FLASH2, false},
        {"v2.6", false, TPP_ATTENTION_FUSED_SOFTMAX, false}, {"one of mine", true, TPP_ATTENTION_FLASH3, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct tpp_stack stack = stack_of(TPP_FRAMEWORK_MEGATRON_LM, rows[i].release, TPP_PRECISION_BF16);
        assert_int_equal(stack.transformer_engine, rows[i].transformer_engine);
        assert_int_equal(stack.attention, rows[i].attention);
        assert_int_equal(stack.overlap_p2p, rows[i].overlap_p2p);
        CHECK_NUMBER(stack.memory_bound_factor, rows[i].transformer_engine ? 1.05 : 1.2, 0);
    }
    assert_true(stack_of(TPP_FRAMEWORK_MEGATRON_LM, "0.5", TPP_PRECISION_FP8).transformer_engine);
    assert_true(stack_for("llama3.1-8b", TPP_FRAMEWORK_MEGATRON_LM, "0.5", TPP_PRECISION_BF16).transformer_engine);
}

static void other_frameworks_count_their_own_releases(void **state)
{
    (void)state;
    assert_true(stack_of(TPP_FRAMEWORK_NEMO, "", TPP_PRECISION_FP8).fp8_weights);
    assert_true(stack_of(TPP_FRAMEWORK_NEMO, "25.02", TPP_PRECISION_FP8).fp8_weights);
    assert_true(stack_of(TPP_FRAMEWORK_NEMO, "0.2.0", TPP_PRECISION_FP8).fp8_weights); /* Megatron-Bridge */
    const struct tpp_stack launcher = stack_of(TPP_FRAMEWORK_NEMO, "24.07", TPP_PRECISION_FP8);
    assert_false(launcher.fp8_weights);
    assert_int_equal(launcher.gathered_linear_bytes, 2);
    assert_int_equal(stack_of(TPP_FRAMEWORK_TORCHTITAN, "", TPP_PRECISION_BF16).loss_kernel, TPP_LOSS_COMPILED);
    assert_int_equal(stack_of(TPP_FRAMEWORK_TORCHTITAN, "0.1.0", TPP_PRECISION_BF16).loss_kernel, TPP_LOSS_COMPILED);
    assert_int_equal(stack_of(TPP_FRAMEWORK_TORCHTITAN, "0.0.2", TPP_PRECISION_BF16).loss_kernel, TPP_LOSS_EAGER);
    static const struct {
        const char *release;
        enum tpp_attention_kernel attention;
        bool repeats;
    } titans[] = {{"", TPP_ATTENTION_FLASH3, false},      {"0.1.0", TPP_ATTENTION_FLASH2, false},
                  {"0.2.0", TPP_ATTENTION_FLASH3, true},  {"v0.2.0", TPP_ATTENTION_FLASH3, true},
                  {"0.2.1", TPP_ATTENTION_FLASH3, false}, {"0.2.2", TPP_ATTENTION_FLASH3, false}};
    for (size_t i = 0; i < sizeof titans / sizeof titans[0]; i++) { /* cuDNN's attention, and the policy that saves it */
        const struct tpp_stack stack = stack_of(TPP_FRAMEWORK_TORCHTITAN, titans[i].release, TPP_PRECISION_BF16);
        assert_int_equal(stack.attention, titans[i].attention);
        assert_int_equal(stack.policy_repeats_attention, titans[i].repeats);
    }
    assert_true(stack_of(TPP_FRAMEWORK_HF_TRAINER, "0.5", TPP_PRECISION_BF16).loss_kernel == TPP_LOSS_EAGER);
}

/* Megatron-LM's commit f27a04f, "Make MoE token dispatcher cuda graph-able if token-drop and padding", is in 0.11. */
static void padded_experts_are_waited_for_before_0_11(void **state)
{
    (void)state;
    assert_false(stack_of(TPP_FRAMEWORK_MEGATRON_LM, "", TPP_PRECISION_BF16).waits_when_padded);
    assert_false(stack_of(TPP_FRAMEWORK_MEGATRON_LM, "core_v0.11.0", TPP_PRECISION_BF16).waits_when_padded);
    assert_true(stack_of(TPP_FRAMEWORK_MEGATRON_LM, "0.10", TPP_PRECISION_BF16).waits_when_padded);
    assert_true(stack_of(TPP_FRAMEWORK_NEMO, "25.02", TPP_PRECISION_BF16).waits_when_padded);
    assert_false(stack_of(TPP_FRAMEWORK_NEMO, "25.04", TPP_PRECISION_BF16).waits_when_padded);
    assert_false(stack_of(TPP_FRAMEWORK_NEMO, "0.2.0", TPP_PRECISION_BF16).waits_when_padded); /* Megatron-Bridge */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_has_transformer_engine_from_0_6_on),
        cmocka_unit_test(other_frameworks_count_their_own_releases),
        cmocka_unit_test(padded_experts_are_waited_for_before_0_11),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
