/* --placement: how many ranks of a group sit on one node. */
#include "cli/strategy_option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* cmocka.h needs the four headers before string.h. */
#include <cmocka.h>

static void check_placement(const char *text, uint32_t tensor_parallel, uint32_t context_parallel,
                            uint32_t tensor_ranks, uint32_t context_ranks)
{
    uint32_t tensor = 99, context = 99;
    struct tpp_error err = {.code = TPP_OK};
    assert_int_equal(tpp_placement_parse(text, tensor_parallel, context_parallel, &tensor, &context, &err), TPP_OK);
    assert_int_equal(tensor, tensor_ranks);
    assert_int_equal(context, context_ranks);
}

static void refuse_placement(const char *text, uint32_t tensor_parallel, uint32_t context_parallel)
{
    uint32_t tensor, context;
    struct tpp_error err = {.code = TPP_OK};
    assert_int_equal(tpp_placement_parse(text, tensor_parallel, context_parallel, &tensor, &context, &err),
                     TPP_E_USAGE);
    assert_string_equal(err.where, "--placement");
    assert_true(err.message[0] != '\0' && err.hint[0] != '\0');
}

static void a_group_over_two_nodes_has_half_its_ranks_on_each(void **state)
{
    (void)state;
    check_placement("tp=2+2", 4, 1, 2, 0); /* field note A4 */
    check_placement("tp=4", 4, 1, 4, 0);
    check_placement("cp=1+1+1+1", 8, 4, 0, 1);
    check_placement("cp=4+4,tp=8", 8, 8, 8, 4);
}

static void placements_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    refuse_placement("", 4, 1);
    refuse_placement("tp=", 4, 1);
    refuse_placement("tp=2+", 2, 1);
    refuse_placement("tp=+2", 2, 1);
    refuse_placement("tp=2+2,", 4, 1);
    refuse_placement("tp=2 + 2", 4, 1);
    refuse_placement("tp=2+2,tp=2+2", 4, 1);
    refuse_placement("pp=2+2", 4, 1);
    refuse_placement("tp=0+4", 4, 1);
    refuse_placement("tp=-2+6", 4, 1);
    refuse_placement("tp=99999999999999999999999999", 4, 1);
}

static void sums_must_match_the_strategy_and_be_even(void **state)
{
    (void)state;
    refuse_placement("tp=2+2", 8, 1);
    refuse_placement("tp=3+1", 4, 1);
    refuse_placement("cp=2+2", 4, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_over_two_nodes_has_half_its_ranks_on_each),
        cmocka_unit_test(placements_that_mean_nothing_are_refused),
        cmocka_unit_test(sums_must_match_the_strategy_and_be_even),
    };
    return cmocka_run_group_tests_name("strategy_option", tests, NULL, NULL);
}
