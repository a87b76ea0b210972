/* Checks planner/simulated_ranking.h: the order of simulated steps, tight plans, and where a plan came from. */
#include "planner/simulated_ranking.h"
#include "tests/support/shapes.h"

enum { NUM_PLANS = 4 };

static struct tpp_plan make_plan(struct tpp_evaluator *evaluator, const struct tpp_job *job, const char *text)
{
    struct tpp_plan plan = {.strategy = shape_strategy(text, job)};
    struct tpp_error err = {0};
    if (tpp_evaluator_cost(evaluator, &plan.strategy, &plan.cost, &err) != TPP_OK)
        fail_msg("%s (%s)", err.message, err.where);
    plan.cost.memory.fit = TPP_FIT_FITS;
    plan.cost.memory.device_total_bytes = 0.5 * plan.cost.memory.capacity_bytes;
    return plan;
}

/* The same layout with 4, 32, 8 and 16 micro-batches: by hand the bubbles are (p - 1)/m of the ideal step, so that fewer
 * micro-batches come behind. */
static void order_is_that_of_the_simulated_steps(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("llama3.1-8b");
    const struct tpp_hardware hardware = shape_cluster("dgx-h100");
    const struct tpp_job job = shape_job(8, 4096, 32);
    struct tpp_stack stack;
    struct tpp_evaluator *evaluator;
    struct tpp_simulated_plan ranked[NUM_PLANS];
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_LM, &hardware.gpu, &job, &stack);
    assert_int_equal(tpp_evaluator_new(&model, &hardware, &job, &stack, &evaluator, NULL), TPP_OK);
    struct tpp_plan plans[NUM_PLANS] = {
        make_plan(evaluator, &job, "tp=2,pp=4,mbs=8,sp=1"),
        make_plan(evaluator, &job, "tp=2,pp=4,mbs=1,sp=1"),
        make_plan(evaluator, &job, "tp=2,pp=4,mbs=4,sp=1"),
        make_plan(evaluator, &job, "tp=2,pp=4,mbs=2,sp=1"),
    };
    plans[1].cost.memory.fit = TPP_FIT_TIGHT;
    assert_int_equal(
        tpp_simulated_ranking(&model, &hardware, &job, &stack, 0, plans, NUM_PLANS, ranked, NULL), TPP_OK);
    const size_t order[NUM_PLANS] = {3, 2, 0, 1}; /* the fastest one is tight, and so the last */
    for (size_t i = 0; i < NUM_PLANS; i++) {
        assert_int_equal(ranked[i].estimated_index, order[i]);
        assert_true(ranked[i].is_simulated && ranked[i].simulated_seconds > 0);
        assert_true(ranked[i].plan.cost.step_seconds == plans[order[i]].cost.step_seconds);
    }
    assert_true(ranked[3].simulated_seconds < ranked[0].simulated_seconds);
    tpp_evaluator_free(evaluator);
}

/* Layers of 21 ms of test_contention.c: a burst of 22.8 ms, for whose end gathers of 4.9 ms wait, stalls 17 times some 7 ms: 4 % of
 * the step. */
static void buckets_left_to_the_framework_are_chosen_and_given_ones_kept(void **state)
{
    (void)state;
    const struct tpp_model model = shape_preset("llama3-70b");
    const struct tpp_hardware hardware = shape_cluster("dgx-h100");
    const struct tpp_job job = shape_job(256, 8192, 64);
    struct tpp_stack stack;
    struct tpp_evaluator *evaluator;
    struct tpp_simulated_plan ranked[4];
    tpp_stack_defaults(TPP_FRAMEWORK_MEGATRON_DEEPSPEED, &hardware.gpu, &job, &stack);
    assert_int_equal(tpp_evaluator_new(&model, &hardware, &job, &stack, &evaluator, NULL), TPP_OK);
    const struct tpp_plan plans[4] = {
        make_plan(evaluator, &job, "tp=8,mbs=2,zero=3,sp=1,reduce_bucket=500000000"),
        make_plan(evaluator, &job, "tp=8,mbs=2,zero=3,sp=1"),
        make_plan(evaluator, &job, "tp=8,mbs=2,zero=1,sp=1"),
        make_plan(evaluator, &job, "tp=8,mbs=2,zero=1,sp=1,reduce_bucket=500000000,allgather_bucket=500000000"),
    };
    assert_int_equal(tpp_simulated_ranking(&model, &hardware, &job, &stack, 0, plans, 4, ranked, NULL), TPP_OK);
    const struct tpp_simulated_plan *of_plan[4] = {NULL};
    for (size_t i = 0; i < 4; i++)
        of_plan[ranked[i].estimated_index] = &ranked[i];
    assert_int_equal(of_plan[0]->plan.strategy.reduce_bucket_size, 500000000);
    assert_int_equal(of_plan[3]->plan.strategy.reduce_bucket_size, 500000000);
    assert_true(of_plan[0]->bucket_gain_fraction == 0 && of_plan[3]->bucket_gain_fraction == 0);
    /* The default is 5e8, too; a burst as long as the slack of 16 ms has 3.5e8 elements. */
    assert_in_range(of_plan[1]->plan.strategy.reduce_bucket_size, 50000000, 350000000);
    assert_true(of_plan[1]->bucket_gain_fraction > 0.01 && of_plan[1]->bucket_gain_fraction < 0.06);
    CHECK_NUMBER(of_plan[1]->simulated_seconds,
                 of_plan[0]->simulated_seconds * (1 - of_plan[1]->bucket_gain_fraction), 1e-9);
    assert_true(of_plan[1]->has_chosen[TPP_BUCKET_REDUCE] && !of_plan[1]->has_chosen[TPP_BUCKET_GATHER]);
    /* ZeRO-1: what of the last bucket of 1 GB, 23 ms, is exposed, less what more latencies cost. */
    assert_true(of_plan[2]->has_chosen[TPP_BUCKET_REDUCE]);
    assert_in_range(of_plan[2]->plan.strategy.reduce_bucket_size, 20000000, 400000000);
    assert_true(of_plan[2]->bucket_gain_fraction > 0.001 &&
                of_plan[2]->bucket_gain_fraction * of_plan[3]->simulated_seconds < 2 * 23e-3);
    CHECK_NUMBER(of_plan[2]->simulated_seconds,
                 of_plan[3]->simulated_seconds * (1 - of_plan[2]->bucket_gain_fraction), 1e-9);
    /* As it is, the plan keeps the default, whose step is that of the same size given. */
    struct tpp_simulated_plan own;
    assert_int_equal(tpp_simulated_step(&model, &hardware, &job, &stack, &plans[1], &own, NULL), TPP_OK);
    assert_int_equal(own.plan.strategy.reduce_bucket_size, 0);
    assert_true(own.is_simulated);
    CHECK_NUMBER(own.simulated_seconds, of_plan[0]->simulated_seconds, 1e-9);
    tpp_evaluator_free(evaluator);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_that_of_the_simulated_steps),
        cmocka_unit_test(buckets_left_to_the_framework_are_chosen_and_given_ones_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
