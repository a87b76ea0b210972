/* Options of Megatron-LM as ms-swift and Megatron-Bridge spell them: names from the option lists of both. */
#include "planner/launch/option_spelling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void check(enum tpp_framework framework, const char *text, const char *expected)
{
    char out[256];
    tpp_spell_options(framework, text, out, sizeof out);
    assert_string_equal(out, expected);
}

static void test_ms_swift_joins_words_by_underscores(void **state)
{
    (void)state;
    check(TPP_FRAMEWORK_MS_SWIFT, "add --recompute-method uniform --recompute-num-layers 1",
          "add --recompute_method uniform --recompute_num_layers 1");
    check(TPP_FRAMEWORK_MS_SWIFT, "change --num-layers-per-virtual-pipeline-stage",
          "change --virtual_pipeline_model_parallel_size");
    check(TPP_FRAMEWORK_MS_SWIFT, "add --sequence-parallel, or drop --tp-comm-overlap",
          "add --sequence_parallel true, or drop --tp_comm_overlap");
    check(TPP_FRAMEWORK_MS_SWIFT, "add --no-rope-fusion", "add --apply_rope_fusion false");
}

static void test_megatron_bridge_takes_keys(void **state)
{
    (void)state;
    check(TPP_FRAMEWORK_NEMO, "full recomputation needs --recompute-method and --recompute-num-layers",
          "full recomputation needs model.recompute_method and model.recompute_num_layers");
    check(TPP_FRAMEWORK_NEMO, "add --recompute-method uniform --recompute-num-layers 1",
          "add model.recompute_method=uniform model.recompute_num_layers=1");
    check(TPP_FRAMEWORK_NEMO, "--overlap-param-gather needs --overlap-grad-reduce",
          "ddp.overlap_param_gather needs ddp.overlap_grad_reduce");
    check(TPP_FRAMEWORK_NEMO, "add --use-distributed-optimizer", "add ddp.use_distributed_optimizer=true");
    check(TPP_FRAMEWORK_NEMO, "use --cp-comm-type p2p or a smaller context parallel size",
          "use model.cp_comm_type=p2p or a smaller context parallel size");
    check(TPP_FRAMEWORK_NEMO, "use --bf16", "use mixed_precision=bf16_mixed");
}

static void test_what_has_no_other_name_stays(void **state)
{
    (void)state;
    check(TPP_FRAMEWORK_MEGATRON_LM, "add --sequence-parallel", "add --sequence-parallel");
    check(TPP_FRAMEWORK_NEMO, "use --no-such-option 3", "use --no-such-option 3");
    check(TPP_FRAMEWORK_MS_SWIFT, "a -- b --", "a -- b --");
    check(TPP_FRAMEWORK_NEMO, "", "");
}

static void test_text_is_cut_at_the_end_of_the_buffer(void **state)
{
    char out[24];
    (void)state;
    for (size_t size = 1; size <= sizeof out; size++) {
        memset(out, 'x', sizeof out);
        tpp_spell_options(TPP_FRAMEWORK_NEMO, "add --sequence-parallel", out, size);
        assert_true(strlen(out) < size);
        assert_memory_equal(out, "add model.sequence_parallel=true", strlen(out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ms_swift_joins_words_by_underscores),
        cmocka_unit_test(test_megatron_bridge_takes_keys),
        cmocka_unit_test(test_what_has_no_other_name_stays),
        cmocka_unit_test(test_text_is_cut_at_the_end_of_the_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
