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

static void reasons_are_given_as_text_and_as_json(void **state)
{
    struct tpp_answer answer = {.width = 1000};
    struct tpp_plan plans[2] = {make_plan(4, 10), make_plan(8, 13)};
    struct tpp_json_writer writer;
    (void)state;
    plans[0].cost.time_terms[TPP_TIME_GEMM] = plans[1].cost.time_terms[TPP_TIME_GEMM] = 9;
    plans[0].cost.time_terms[TPP_TIME_TENSOR_COMM] = 1;
    plans[1].cost.time_terms[TPP_TIME_TENSOR_COMM] = 4;
    tpp_text_init(&answer.text);
    tpp_report_reasons(plans, NULL, 2, &answer);
    check_contains(&answer, "Compute binds", true);
    check_contains(&answer, "30.0 %", true); /* 13 / 10 */
    check_contains(&answer, "tensor_parallel, 3.00 s more", true);
    tpp_text_clear(&answer.text);
    tpp_json_writer_init(&writer);
    tpp_reasons_add_json(plans, NULL, 2, &writer, writer.root);
    assert_int_equal(tpp_json_print(&writer, &answer.text, NULL), TPP_OK);
    check_contains(&answer, "\"binding\": \"compute\"", true);
    check_contains(&answer, "\"compute\": 0.9", true); /* 9 of 10 seconds */
    check_contains(&answer, "\"runner_up_term_seconds\": 3", true);
    tpp_json_writer_release(&writer);
    tpp_text_release(&answer.text);
}

static void the_only_plan_has_no_runner_up(void **state)
{
    struct tpp_answer answer = {.width = 1000};
    struct tpp_plan plan = make_plan(8, 10);
    (void)state;
    plan.cost.time_terms[TPP_TIME_BUBBLE] = 6;
    plan.cost.time_terms[TPP_TIME_GEMM] = 4;
    tpp_text_init(&answer.text);
    tpp_report_reasons(&plan, NULL, 1, &answer);
    check_contains(&answer, "Bubble binds", true);
    check_contains(&answer, "second", false);
    tpp_text_release(&answer.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_are_one_everywhere_have_no_column),
        cmocka_unit_test(reasons_are_given_as_text_and_as_json),
        cmocka_unit_test(the_only_plan_has_no_runner_up),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
