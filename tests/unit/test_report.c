/* Plans as text: the table, and why the first one wins. */
#include "cli/report.h"

#include "tests/support/check_number.h"

#include <string.h>

static struct tpp_plan make_plan(uint32_t tensor_parallel, double step_seconds)
{
    struct tpp_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.strategy = tpp_strategy_defaults();
    plan.strategy.tensor_parallel = tensor_parallel;
    plan.strategy.data_parallel = 32 / tensor_parallel;
    plan.strategy.num_micro_batches = 4;
    plan.cost.step_seconds = step_seconds;
    plan.cost.step_seconds_low = 0.9 * step_seconds;
    plan.cost.step_seconds_high = 1.1 * step_seconds;
    plan.cost.memory.capacity_bytes = 80e9;
    plan.cost.memory.device_total_bytes = 60e9;
    return plan;
}

static void check_contains(const struct tpp_answer *answer, const char *text, bool expected)
{
    if ((strstr(tpp_text_get(&answer->text), text) != NULL) != expected)
        fail_msg("\"%s\" is %s in:\n%s", text, expected ? "not" : "wrongly", tpp_text_get(&answer->text));
}

static void sizes_that_are_one_everywhere_have_no_column(void **state)
{
    struct tpp_answer answer = {.width = 200};
    struct tpp_plan plans[2] = {make_plan(4, 10), make_plan(8, 11)};
    (void)state;
    tpp_text_init(&answer.text);
    assert_true(tpp_report_table(plans, 2, &answer));
    check_contains(&answer, " CP ", false);
    check_contains(&answer, " EP ", false);
    check_contains(&answer, "TP", true);
    tpp_text_clear(&answer.text);
    plans[1].strategy.context_parallel = 2;
    assert_true(tpp_report_table(plans, 2, &answer));
    check_contains(&answer, "CP", true);
    check_contains(&answer, "11.00 s", true);
    tpp_text_release(&answer.text);
}

static void reasons_name_where_the_second_loses(void **state)
{
    struct tpp_answer answer = {.width = 1000};
    struct tpp_plan plans[2] = {make_plan(4, 10), make_plan(8, 13)};
    (void)state;
    plans[0].cost.time_terms[TPP_TIME_GEMM] = plans[1].cost.time_terms[TPP_TIME_GEMM] = 9;
    plans[0].cost.time_terms[TPP_TIME_TENSOR_COMM] = 1;
    plans[1].cost.time_terms[TPP_TIME_TENSOR_COMM] = 4;
    tpp_text_init(&answer.text);
    tpp_report_reasons(plans, 2, &answer);
    check_contains(&answer, "Bound by compute", true);
    check_contains(&answer, "longer (30.0 %)", true); /* 13 / 10; intervals 9..11 and 11.7..14.3 do not meet */
    check_contains(&answer, "it loses 3.00 s in tensor_parallel", true);
    tpp_text_clear(&answer.text);
    plans[1] = make_plan(8, 10.5); /* 9.45 .. 11.55 meets 9 .. 11 */
    tpp_report_reasons(plans, 2, &answer);
    check_contains(&answer, "inside the error of both predictions", true);
    tpp_text_clear(&answer.text);
    plans[1] = make_plan(8, 10.0001);
    tpp_report_reasons(plans, 2, &answer);
    check_contains(&answer, "as fast", true);
    tpp_text_release(&answer.text);
}

static void what_binds_is_named(void **state)
{
    struct tpp_answer answer = {.width = 1000};
    struct tpp_plan plan = make_plan(8, 10);
    (void)state;
    plan.cost.exposed_communication_fraction = 0.41;
    tpp_text_init(&answer.text);
    tpp_report_reasons(&plan, 1, &answer);
    check_contains(&answer, "Bound by the network", true);
    tpp_text_clear(&answer.text);
    plan.cost.exposed_communication_fraction = 0;
    plan.cost.bubble_fraction = 0.6;
    tpp_report_reasons(&plan, 1, &answer);
    check_contains(&answer, "Bound by the pipeline bubble", true);
    tpp_text_release(&answer.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_are_one_everywhere_have_no_column),
        cmocka_unit_test(reasons_name_where_the_second_loses),
        cmocka_unit_test(what_binds_is_named),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
