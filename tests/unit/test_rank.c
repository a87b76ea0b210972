/* Checks planner/rank.h: classes, choices, and the bounded list. */
#include "planner/rank.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct tpp_plan make(uint32_t tensor_parallel, double step_seconds, double used_bytes, enum tpp_fit fit)
{
    struct tpp_plan plan = {.strategy = tpp_strategy_defaults()};
    plan.strategy.tensor_parallel = tensor_parallel;
    plan.cost.step_seconds = step_seconds;
    plan.cost.memory.device_total_bytes = used_bytes;
    plan.cost.memory.capacity_bytes = 1000;
    plan.cost.memory.fit = fit;
    return plan;
}

static void offer(struct tpp_ranking *ranking, struct tpp_plan plan)
{
    tpp_ranking_offer(ranking, &plan);
}

static uint32_t tensor_at(const struct tpp_ranking *ranking, size_t index)
{
    return tpp_ranking_at(ranking, index)->strategy.tensor_parallel;
}

static void classes_follow_fit_and_headroom(void **state)
{
    (void)state;
    const struct tpp_plan plan = make(1, 1, 901, TPP_FIT_FITS);
    assert_int_equal(tpp_rank_class(&plan.cost.memory, 0), TPP_RANK_FITS);
    assert_int_equal(tpp_rank_class(&plan.cost.memory, 0.1), TPP_RANK_DOES_NOT_FIT); /* 900 are left */
    assert_true(tpp_rank_missing_bytes(&plan.cost.memory, 0.1) == 1);
    assert_true(tpp_rank_missing_bytes(&plan.cost.memory, 0) == 0);
    const struct tpp_plan large = make(1, 1, 1250, TPP_FIT_DOES_NOT_FIT);
    assert_true(tpp_rank_missing_bytes(&large.cost.memory, 0.2) == 450);
    const struct tpp_plan refused = make(1, 1, 980, TPP_FIT_DOES_NOT_FIT);
    assert_true(tpp_rank_missing_bytes(&refused.cost.memory, 0) == 1);
}

static void tight_plans_come_after_all_that_fit(void **state)
{
    (void)state;
    struct tpp_ranking *ranking = tpp_ranking_new(TPP_RANK_BEST, 3, 0);
    offer(ranking, make(1, 1.0, 950, TPP_FIT_TIGHT));
    offer(ranking, make(2, 9.0, 500, TPP_FIT_FITS));
    offer(ranking, make(4, 0.5, 1100, TPP_FIT_DOES_NOT_FIT));
    assert_int_equal(tpp_ranking_count(ranking), 2);
    assert_int_equal(tensor_at(ranking, 0), 2);
    assert_int_equal(tensor_at(ranking, 1), 1);
    tpp_ranking_free(ranking);
}

static void equal_times_follow_the_order_of_strategies(void **state)
{
    (void)state;
    struct tpp_ranking *ranking = tpp_ranking_new(TPP_RANK_BEST, 3, 0);
    offer(ranking, make(8, 2.5, 1, TPP_FIT_FITS));
    offer(ranking, make(2, 2.5, 1, TPP_FIT_FITS));
    offer(ranking, make(4, 2.5, 1, TPP_FIT_FITS));
    offer(ranking, make(1, 2.5, 1, TPP_FIT_FITS)); /* pushes 8 out */
    assert_int_equal(tensor_at(ranking, 0), 1);
    assert_int_equal(tensor_at(ranking, 1), 2);
    assert_int_equal(tensor_at(ranking, 2), 4);
    tpp_ranking_free(ranking);
}

static void settings_are_one_choice(void **state)
{
    (void)state;
    struct tpp_strategy a = tpp_strategy_defaults(), b = a;
    b.reduce_bucket_size = 7;
    b.allgather_bucket_size = 8;
    b.overlap_grad_reduce = b.overlap_param_gather = false;
    b.tp_comm_overlap = true;
    b.offload = TPP_OFFLOAD_OPTIMIZER;
    b.virtual_pipeline_stages = 4;
    b.micro_batch_size = 2;
    b.num_micro_batches = 64;
    b.context_kind = TPP_CONTEXT_ULYSSES;
    b.first_stage_layers = 14;
    assert_true(tpp_rank_same_choice(&a, &b));
    b.recompute = TPP_RECOMPUTE_FULL;
    assert_false(tpp_rank_same_choice(&a, &b));
    a.recompute = TPP_RECOMPUTE_FULL;
    a.recompute_method = TPP_RECOMPUTE_BLOCK;
    a.recompute_num_layers = 5;
    assert_true(tpp_rank_same_choice(&a, &b));
    a.zero_stage = 1;
    assert_false(tpp_rank_same_choice(&a, &b));
}

static void the_best_of_a_choice_is_listed_once(void **state)
{
    (void)state;
    struct tpp_ranking *ranking = tpp_ranking_new(TPP_RANK_BEST, 2, 0);
    struct tpp_plan small = make(1, 3.0, 1, TPP_FIT_FITS);
    struct tpp_plan better = make(1, 1.0, 1, TPP_FIT_FITS);
    better.strategy.reduce_bucket_size = 99;
    offer(ranking, small);
    offer(ranking, make(2, 2.0, 1, TPP_FIT_FITS));
    offer(ranking, better);
    offer(ranking, small);
    assert_int_equal(tpp_ranking_count(ranking), 2);
    assert_int_equal(tensor_at(ranking, 0), 1);
    assert_int_equal(tpp_ranking_at(ranking, 0)->strategy.reduce_bucket_size, 99);
    assert_int_equal(tensor_at(ranking, 1), 2);
    tpp_ranking_free(ranking);
}

static void what_fits_least_badly_is_nearest(void **state)
{
    (void)state;
    struct tpp_ranking *ranking = tpp_ranking_new(TPP_RANK_NEAREST, 2, 0);
    offer(ranking, make(1, 1.0, 3000, TPP_FIT_DOES_NOT_FIT));
    offer(ranking, make(2, 5.0, 1500, TPP_FIT_DOES_NOT_FIT));
    offer(ranking, make(4, 1.0, 900, TPP_FIT_FITS));
    offer(ranking, make(8, 9.0, 1200, TPP_FIT_DOES_NOT_FIT));
    assert_int_equal(tpp_ranking_count(ranking), 2);
    assert_int_equal(tensor_at(ranking, 0), 8);
    assert_int_equal(tensor_at(ranking, 1), 2);
    tpp_ranking_free(ranking);
}

static void a_bound_is_excluded_only_when_strictly_worse(void **state)
{
    (void)state;
    struct tpp_ranking *ranking = tpp_ranking_new(TPP_RANK_BEST, 1, 0);
    struct tpp_bound bound = {TPP_RANK_FITS, 0, 2.0};
    assert_false(tpp_ranking_excludes(ranking, &bound)); /* there is room */
    offer(ranking, make(2, 2.0, 1, TPP_FIT_FITS));
    assert_false(tpp_ranking_excludes(ranking, &bound)); /* a tie may win by order */
    bound.step_seconds = 2.0000001;
    assert_true(tpp_ranking_excludes(ranking, &bound));
    bound = (struct tpp_bound){TPP_RANK_TIGHT, 0, 1.0};
    assert_true(tpp_ranking_excludes(ranking, &bound));
    tpp_ranking_free(ranking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_follow_fit_and_headroom),
        cmocka_unit_test(tight_plans_come_after_all_that_fit),
        cmocka_unit_test(equal_times_follow_the_order_of_strategies),
        cmocka_unit_test(settings_are_one_choice),
        cmocka_unit_test(the_best_of_a_choice_is_listed_once),
        cmocka_unit_test(what_fits_least_badly_is_nearest),
        cmocka_unit_test(a_bound_is_excluded_only_when_strictly_worse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
