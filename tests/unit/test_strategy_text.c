/* Checks tpp_strategy_parse and tpp_strategy_format: keys, errors, and that what is written reads back. */
#include "costmodel/strategy.h"
#include "tests/support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void expect_usage_error(const char *text, const char *where, const char *in_hint)
{
    struct tpp_strategy s = tpp_strategy_defaults();
    struct tpp_error err = {.code = TPP_OK};
    s.tensor_parallel = 77;
    assert_int_equal(tpp_strategy_parse(text, &s, &err), TPP_E_USAGE);
    assert_string_equal(err.where, where);
    assert_non_null(strstr(err.hint, in_hint));
    assert_int_equal(s.tensor_parallel, 77); /* untouched */
}

static void the_documented_line_is_read(void **state)
{
    (void)state;
    struct tpp_strategy s;
    assert_int_equal(
        tpp_strategy_parse("tp=4,pp=2,vp=1,dp=4,cp=1,ep=1,mbs=2,zero=1,recompute=selective,sp=1", &s, NULL), TPP_OK);
    assert_int_equal(s.tensor_parallel, 4);
    assert_int_equal(s.pipeline_parallel, 2);
    assert_int_equal(s.data_parallel, 4);
    assert_int_equal(s.micro_batch_size, 2);
    assert_int_equal(s.zero_stage, 1);
    assert_int_equal(s.recompute, TPP_RECOMPUTE_SELECTIVE);
    assert_true(s.sequence_parallel && s.overlap_grad_reduce && s.reshard_after_forward);
    assert_int_equal(s.num_micro_batches, 0); /* follows from the job */
}

static void every_key_is_read(void **state)
{
    (void)state;
    struct tpp_strategy s;
    assert_int_equal(
        tpp_strategy_parse("etp=2,gas=31,cp_kind=hybrid,ulysses=3,recompute=full,recompute_method=block,"
                           "recompute_layers=5,schedule=gpipe,first_layers=14,last_layers=13,account_embedding=1,"
                           "account_loss=true,balanced_split=1,shard=9,reduce_bucket=2e8,allgather_bucket=500000000,"
                           "overlap_grad_reduce=0,overlap_param_gather=false,tp_overlap=1,offload=optimizer,reshard=0,"
                           "placed_tp=2,placed_cp=1,dispatch=hybridep,ep_overlap=1,shared_overlap=1,last_chunk_less=3,"
                           "recompute_modules=moe_act+core_attn,align_grad_reduce=0,vocab_parallel=two-barriers,vp_group=6",
                           &s, NULL),
        TPP_OK);
    assert_int_equal(s.dispatch, TPP_DISPATCH_HYBRIDEP);
    assert_true(s.expert_overlap && s.shared_overlap);
    assert_int_equal(s.vocabulary_parallel, TPP_VOCABULARY_PARALLEL_TWO_BARRIERS);
    assert_int_equal(s.last_chunk_less, 3);
    assert_int_equal(s.microbatch_group_size, 6);
    assert_int_equal(s.recompute_modules, TPP_MODULE_EXPERT_ACTIVATION | TPP_MODULE_CORE_ATTENTION);
    assert_int_equal(s.expert_tensor_parallel, 2);
    assert_int_equal(s.num_micro_batches, 31);
    assert_int_equal(s.context_kind, TPP_CONTEXT_HYBRID);
    assert_int_equal(s.ulysses_parallel, 3);
    assert_int_equal(s.recompute_method, TPP_RECOMPUTE_BLOCK);
    assert_int_equal(s.recompute_num_layers, 5);
    assert_int_equal(s.schedule, TPP_SCHEDULE_GPIPE);
    assert_int_equal(s.first_stage_layers, 14);
    assert_int_equal(s.last_stage_layers, 13);
    assert_true(s.account_for_embedding && s.account_for_loss && s.balanced_split && s.tp_comm_overlap);
    assert_false(s.overlap_grad_reduce || s.overlap_param_gather || s.align_grad_reduce || s.reshard_after_forward);
    assert_int_equal(s.shard_group, 9);
    assert_int_equal(s.reduce_bucket_size, 200000000);
    assert_int_equal(s.allgather_bucket_size, 500000000);
    assert_int_equal(s.offload, TPP_OFFLOAD_OPTIMIZER);
    assert_int_equal(s.placed_tensor_ranks_per_node, 2);
    assert_int_equal(s.placed_context_ranks_per_node, 1);
}

static void full_with_a_depth_is_block_recomputation(void **state)
{
    (void)state;
    struct tpp_strategy s;
    assert_int_equal(tpp_strategy_parse("recompute=full:12", &s, NULL), TPP_OK);
    assert_int_equal(s.recompute, TPP_RECOMPUTE_FULL);
    assert_int_equal(s.recompute_method, TPP_RECOMPUTE_BLOCK);
    assert_int_equal(s.recompute_num_layers, 12);
    expect_usage_error("recompute=full:0", "strategy.recompute", "full:LAYERS");
    expect_usage_error("recompute=full:12x", "strategy.recompute", "full:LAYERS");
    expect_usage_error("recompute_layers=3,recompute=full:12", "strategy.recompute", "one of the two");
}

static void an_empty_text_is_the_default(void **state)
{
    (void)state;
    struct tpp_strategy s;
    const struct tpp_strategy defaults = tpp_strategy_defaults();
    assert_int_equal(tpp_strategy_parse("", &s, NULL), TPP_OK);
    assert_int_equal(tpp_strategy_compare(&s, &defaults), 0);
}

static void mistakes_are_named_with_a_remedy(void **state)
{
    (void)state;
    expect_usage_error("tq=4", "strategy", "mean tp?");
    expect_usage_error("recompue=full", "strategy", "mean recompute?");
    expect_usage_error("tensor_parallel=4", "strategy", "mean tp?");
    expect_usage_error("micro_batch_size=4", "strategy", "mean mbs?");
    expect_usage_error("tp=4,tp=4", "strategy", "once");
    expect_usage_error("tp=4,", "strategy", "key=value");
    expect_usage_error(",tp=4", "strategy", "key=value");
    expect_usage_error("tp", "strategy", "key=value");
    expect_usage_error("tp=", "strategy", "key=value");
    expect_usage_error("=4", "strategy", "key=value");
    expect_usage_error("tp=4,,pp=2", "strategy", "key=value");
    expect_usage_error("tp=-4", "strategy.tp", "whole number");
    expect_usage_error("tp=four", "strategy.tp", "whole number");
    expect_usage_error("tp=4=4", "strategy.tp", "whole number");
    expect_usage_error("tp=4294967296", "strategy.tp", "whole number"); /* 2^32 */
    expect_usage_error("sp=2", "strategy.sp", "0 or 1");
    expect_usage_error("schedule=zb", "strategy.schedule", "interleaved");
    expect_usage_error("offload=cpu", "strategy.offload", "optimizer");
}

static void a_very_long_word_is_refused(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    expect_usage_error(text, "strategy", "key=value");
    memcpy(text, "tp=", 3);
    expect_usage_error(text, "strategy", "key=value");
}

static uint32_t some(struct tpp_random *random, uint32_t max)
{
    return (uint32_t)tpp_random_range(random, 0, max);
}

static bool coin(struct tpp_random *random)
{
    return tpp_random_range(random, 0, 1) == 1;
}

static struct tpp_strategy random_strategy(struct tpp_random *random)
{
    return (struct tpp_strategy){
        .tensor_parallel = some(random, 9),
        .pipeline_parallel = some(random, 99),
        .virtual_pipeline_stages = some(random, 3),
        .context_parallel = some(random, 5),
        .expert_parallel = some(random, 5),
        .expert_tensor_parallel = some(random, 2),
        .data_parallel = some(random, 2),
        .micro_batch_size = some(random, UINT32_MAX),
        .num_micro_batches = tpp_random_range(random, 0, 1) << 40,
        .sequence_parallel = coin(random),
        .context_kind = (enum tpp_context_kind)some(random, 3),
        .ulysses_parallel = some(random, 2),
        .zero_stage = some(random, 3),
        .shard_group = some(random, 2),
        .reshard_after_forward = coin(random),
        .recompute = (enum tpp_recompute)some(random, 2),
        .recompute_method = (enum tpp_recompute_method)some(random, 1),
        .recompute_num_layers = some(random, 2),
        .schedule = (enum tpp_schedule)some(random, TPP_SCHEDULE_COUNT - 1),
        .microbatch_group_size = some(random, 3),
        .first_stage_layers = some(random, 2),
        .last_stage_layers = some(random, 2),
        .account_for_embedding = coin(random),
        .account_for_loss = coin(random),
        .balanced_split = coin(random),
        .reduce_bucket_size = tpp_random_range(random, 0, 1) * 500000001,
        .overlap_grad_reduce = coin(random),
        .allgather_bucket_size = tpp_random_range(random, 0, 1) << 45,
        .overlap_param_gather = coin(random),
        .align_grad_reduce = coin(random),
        .tp_comm_overlap = coin(random),
        .shared_overlap = coin(random),
        .offload = (enum tpp_offload)some(random, 1),
        .offload_percent = some(random, 100),
        .offload_layers = some(random, 5),
        .placed_tensor_ranks_per_node = some(random, 2),
        .placed_context_ranks_per_node = some(random, 2),
    };
}

static void what_is_written_reads_back_equal(void **state)
{
    (void)state;
    struct tpp_random random = {.state = 20260};
    struct tpp_text text;
    tpp_text_init(&text);
    for (int i = 0; i < 3000; i++) {
        const struct tpp_strategy s = random_strategy(&random);
        struct tpp_strategy back;
        tpp_text_clear(&text);
        tpp_strategy_format(&s, &text);
        assert_int_equal(tpp_strategy_parse(tpp_text_get(&text), &back, NULL), TPP_OK);
        assert_int_equal(tpp_strategy_compare(&s, &back), 0);
    }
    tpp_text_release(&text);
}

static void sizes_are_always_written_and_the_rest_when_it_differs(void **state)
{
    (void)state;
    struct tpp_strategy s = tpp_strategy_defaults();
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_strategy_format(&s, &text);
    assert_string_equal(tpp_text_get(&text), "tp=1,pp=1,vp=1,cp=1,ep=1,mbs=1,zero=0,sp=0,recompute=none");
    s.data_parallel = 3;
    s.num_micro_batches = 17;
    s.reduce_bucket_size = 200000000;
    s.overlap_grad_reduce = false;
    tpp_text_clear(&text);
    tpp_strategy_format(&s, &text);
    assert_string_equal(tpp_text_get(&text), "tp=1,pp=1,vp=1,dp=3,cp=1,ep=1,mbs=1,gas=17,zero=0,sp=0,recompute=none,"
                                             "reduce_bucket=200000000,overlap_grad_reduce=0");
    tpp_text_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_line_is_read),
        cmocka_unit_test(every_key_is_read),
        cmocka_unit_test(full_with_a_depth_is_block_recomputation),
        cmocka_unit_test(an_empty_text_is_the_default),
        cmocka_unit_test(mistakes_are_named_with_a_remedy),
        cmocka_unit_test(a_very_long_word_is_refused),
        cmocka_unit_test(what_is_written_reads_back_equal),
        cmocka_unit_test(sizes_are_always_written_and_the_rest_when_it_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
