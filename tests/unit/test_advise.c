/* Checks planner/advise.h: shares of a step, what the second plan loses, shortages, and why no strategy is valid. */
#include "planner/advise.h"
#include "tests/support/check_number.h"

#include <string.h>

static struct tpp_plan make_plan(uint32_t tensor_parallel, double gemm, double tensor_comm, double bubble)
{
    struct tpp_plan plan = {.strategy = tpp_strategy_defaults()};
    plan.strategy.tensor_parallel = tensor_parallel;
    plan.strategy.data_parallel = 3;
    plan.cost.time_terms[TPP_TIME_GEMM] = gemm;
    plan.cost.time_terms[TPP_TIME_TENSOR_COMM] = tensor_comm;
    plan.cost.time_terms[TPP_TIME_BUBBLE] = bubble;
    plan.cost.step_seconds = gemm + tensor_comm + bubble;
    plan.cost.memory.capacity_bytes = 80e9;
    plan.cost.memory.device_total_bytes = 60e9;
    return plan;
}

static void the_winner_is_explained_by_shares(void **state)
{
    (void)state;
    struct tpp_plan plan = make_plan(7, 6, 1, 2);
    struct tpp_reasons reasons;
    plan.cost.time_terms[TPP_TIME_RECOMPUTE] = 0.5;
    plan.cost.time_terms[TPP_TIME_OPTIMIZER] = 0.25;
    plan.cost.time_terms[TPP_TIME_FIXED] = 0.25;
    plan.cost.step_seconds = 10;
    tpp_reasons_find(&plan, NULL, 1, &reasons);
    CHECK_NUMBER(reasons.fractions[TPP_BINDING_COMPUTE], 0.65, 1e-12);
    CHECK_NUMBER(reasons.fractions[TPP_BINDING_NETWORK], 0.1, 1e-12);
    CHECK_NUMBER(reasons.fractions[TPP_BINDING_BUBBLE], 0.2, 1e-12);
    CHECK_NUMBER(reasons.fractions[TPP_BINDING_MEMORY], 0.025, 1e-12);
    CHECK_NUMBER(reasons.fractions[TPP_BINDING_HOST], 0.025, 1e-12);
    CHECK_NUMBER(reasons.device_memory_fraction, 0.75, 1e-12);
    assert_int_equal(reasons.binding, TPP_BINDING_COMPUTE);
    assert_int_equal(reasons.loss, TPP_BINDING_BUBBLE);
    assert_false(reasons.has_runner_up);
    assert_non_null(strstr(reasons.winner, "compute binds: 65 %"));
}

static void every_leaf_of_the_time_tree_is_counted_once(void **state)
{
    (void)state;
    struct tpp_plan plan = make_plan(1, 0, 0, 0);
    struct tpp_reasons reasons;
    double sum = 0;
    for (int i = 0; i < TPP_TIME_TERM_COUNT; i++) {
        plan.cost.time_terms[i] = i + 1;
        plan.cost.step_seconds += i + 1;
    }
    tpp_reasons_find(&plan, NULL, 1, &reasons);
    for (int i = 0; i < TPP_BINDING_COUNT; i++) {
        assert_true(reasons.fractions[i] > 0);
        sum += reasons.fractions[i];
    }
    CHECK_NUMBER(sum, 1, 1e-12);
}

static void the_second_loses_in_a_named_term(void **state)
{
    (void)state;
    const struct tpp_plan plans[] = {make_plan(4, 8, 1, 1), make_plan(8, 7.5, 3.5, 0.5)};
    struct tpp_reasons reasons;
    tpp_reasons_find(plans, NULL, 2, &reasons);
    assert_true(reasons.has_runner_up);
    CHECK_NUMBER(reasons.runner_up_loss_seconds, 1.5, 1e-12);
    CHECK_NUMBER(reasons.runner_up_loss_fraction, 0.15, 1e-12);
    assert_int_equal(reasons.runner_up_term, TPP_TIME_TENSOR_COMM);
    CHECK_NUMBER(reasons.runner_up_term_seconds, 2.5, 1e-12);
    assert_non_null(strstr(reasons.runner_up, "(tp 8, dp 3, mbs 1) loses 1.5"));
    assert_non_null(strstr(reasons.runner_up, "tensor_parallel"));
}

/* 10 s; 10.29 s is 2.9 % more, 10.31 s 3.1 %. What comes behind a plan that can be told apart is not listed. */
static void near_plans_are_said_to_be_equal(void **state)
{
    (void)state;
    struct tpp_reasons reasons;
    const struct tpp_plan plans[] = {make_plan(1, 10, 0, 0), make_plan(2, 10.2, 0, 0), make_plan(4, 10.29, 0, 0),
                                     make_plan(8, 10.31, 0, 0)};
    tpp_reasons_find(plans, NULL, 4, &reasons);
    assert_int_equal(reasons.num_equal, 3);
    assert_non_null(strstr(reasons.equal, "the first 3 plans"));
    const struct tpp_plan apart[] = {plans[0], plans[3], plans[1]};
    tpp_reasons_find(apart, NULL, 3, &reasons);
    assert_int_equal(reasons.num_equal, 1);
    assert_string_equal(reasons.equal, "");
    /* a tight plan that is much faster is another choice, one that is a little faster is not */
    const struct tpp_plan faster[] = {plans[3], plans[0], make_plan(8, 9, 0, 0)};
    tpp_reasons_find(faster, NULL, 3, &reasons);
    assert_int_equal(reasons.num_equal, 1);
    const struct tpp_plan little[] = {plans[2], plans[0]};
    tpp_reasons_find(little, NULL, 2, &reasons);
    assert_int_equal(reasons.num_equal, 2);
}

static void a_faster_second_is_tight(void **state)
{
    (void)state;
    struct tpp_plan plans[] = {make_plan(4, 8, 1, 1), make_plan(8, 7, 1, 1)};
    struct tpp_reasons reasons;
    plans[1].cost.memory.device_total_bytes = 76e9;
    tpp_reasons_find(plans, NULL, 2, &reasons);
    CHECK_NUMBER(reasons.runner_up_loss_seconds, -1, 1e-12);
    assert_non_null(strstr(reasons.runner_up, "memory is tight: 95 %"));
}

static void a_shortage_names_the_largest_part(void **state)
{
    (void)state;
    struct tpp_plan plan = make_plan(8, 1, 0, 0);
    struct tpp_shortage shortage;
    plan.cost.memory.fit = TPP_FIT_DOES_NOT_FIT;
    plan.cost.memory.device_total_bytes = 91e9;
    plan.cost.memory.terms[TPP_MEMORY_WEIGHTS] = 20e9;
    plan.cost.memory.terms[TPP_MEMORY_OPTIMIZER] = 57e9;
    tpp_shortage_find(&plan, 0.1, &shortage);
    CHECK_NUMBER(shortage.missing_bytes, 19e9, 1e-12); /* 91 - 0.9 * 80 */
    assert_int_equal(shortage.largest_term, TPP_MEMORY_OPTIMIZER);
    CHECK_NUMBER(shortage.largest_bytes, 57e9, 1e-12);
    assert_non_null(strstr(shortage.sentence, "misses 17.7"));
    assert_non_null(strstr(shortage.sentence, "optimizer_states with 53.0"));
}

static void layouts_are_said_in_words(void **state)
{
    (void)state;
    char buffer[160], tiny[9];
    struct tpp_strategy s = tpp_strategy_defaults();
    assert_string_equal(tpp_layout_words(buffer, sizeof buffer, &s), "mbs 1");
    s.tensor_parallel = 8;
    s.pipeline_parallel = 5;
    s.micro_batch_size = 3;
    s.zero_stage = 1;
    s.recompute = TPP_RECOMPUTE_FULL;
    s.offload = TPP_OFFLOAD_OPTIMIZER;
    assert_string_equal(tpp_layout_words(buffer, sizeof buffer, &s),
                        "tp 8, pp 5, mbs 3, ZeRO 1, full recomputation, optimizer offloaded");
    s.recompute_method = TPP_RECOMPUTE_BLOCK;
    s.recompute_num_layers = 11;
    s.zero_stage = 3;
    assert_string_equal(tpp_layout_words(buffer, sizeof buffer, &s),
                        "tp 8, pp 5, mbs 3, ZeRO 3, 11 layers of a stage recomputed, optimizer offloaded");
    assert_string_equal(tpp_layout_words(tiny, sizeof tiny, &s), "tp 8, pp");
}

static const struct tpp_model model = {.num_layers = 40,
                                       .hidden_size = 5120,
                                       .num_attention_heads = 40,
                                       .num_query_groups = 40,
                                       .head_dim = 128,
                                       .ffn_hidden_size = 13824,
                                       .vocab_size = 32000,
                                       .gated_mlp = true};

static void expect_reason(uint32_t num_gpus, uint64_t batch, const struct tpp_stack *stack,
                          const struct tpp_space_limits *limits, const char *text)
{
    static const struct tpp_hardware hardware = {.node = {.num_gpus = 8}, .gpu = {.compute_capability = 8}};
    struct tpp_job job = tpp_job_defaults();
    struct tpp_error err;
    job.num_gpus = num_gpus;
    job.global_batch_size = batch;
    job.sequence_length = 4096;
    assert_int_equal(tpp_no_valid_plan(&model, &hardware, &job, stack, limits, &err), TPP_E_STRATEGY);
    assert_non_null(strstr(err.message, text));
    assert_true(err.hint[0] != '\0');
}

static void the_reason_for_no_strategy_is_named(void **state)
{
    (void)state;
    const struct tpp_stack megatron = {.framework = TPP_FRAMEWORK_MEGATRON_LM, .engine = TPP_ENGINE_MEGATRON};
    const struct tpp_stack deepspeed = {.framework = TPP_FRAMEWORK_MEGATRON_DEEPSPEED, .engine = TPP_ENGINE_DEEPSPEED};
    struct tpp_space_limits limits = tpp_space_limits_defaults();
    expect_reason(61, 60, &megatron, &limits, "60 sequences does not divide by dp * mbs = 61 * 1");
    limits.tensor_parallel = 3;
    expect_reason(64, 64, &megatron, &limits, "64 GPUs do not divide by tp * pp * cp = 3 * 1 * 1");
    limits.tensor_parallel = 16;
    expect_reason(64, 64, &megatron, &limits, "40 attention heads do not divide by tp = 16");
    limits = tpp_space_limits_defaults();
    limits.zero_stage = 2;
    expect_reason(64, 64, &megatron, &limits, "ZeRO stage 2");
    limits = tpp_space_limits_defaults();
    limits.tensor_parallel = 2;
    limits.context_parallel = 2;
    expect_reason(64, 64, &deepspeed, &limits, "MD-3"); /* Ulysses only, and without tensor parallelism */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_winner_is_explained_by_shares),
        cmocka_unit_test(every_leaf_of_the_time_tree_is_counted_once),
        cmocka_unit_test(the_second_loses_in_a_named_term),
        cmocka_unit_test(near_plans_are_said_to_be_equal),
        cmocka_unit_test(a_faster_second_is_tight),
        cmocka_unit_test(a_shortage_names_the_largest_part),
        cmocka_unit_test(layouts_are_said_in_words),
        cmocka_unit_test(the_reason_for_no_strategy_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
