/* Layouts as strategies: layers of first, middle and last chunk counted by hand. */
#include "planner/launch/plan_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct tpp_strategy check(const char *text, uint32_t pipeline_parallel, enum tpp_plan_layout expected)
{
    struct tpp_strategy strategy = tpp_strategy_defaults();
    strategy.pipeline_parallel = pipeline_parallel;
    assert_int_equal(tpp_plan_read_layout(text, &strategy), expected);
    return strategy;
}

static void test_even_chunks(void **state)
{
    (void)state;
    const struct tpp_strategy s = check("Et*8|(t*8|)*2t*8L", 2, TPP_PLAN_LAYOUT_SAME);
    assert_int_equal(s.virtual_pipeline_stages, 2);
    assert_int_equal(s.last_chunk_less, 0);
    assert_false(s.account_for_embedding);
}

/* DeepSeek-V3 of Megatron-Bridge: 15 chunks of 4 layers and one of 1 with the loss; and Et|(tt|)*30mL: 1 + 30 * 2. */
static void test_short_ends(void **state)
{
    (void)state;
    struct tpp_strategy s = check("Et*4|(t*4|)*14tmL", 16, TPP_PLAN_LAYOUT_SAME);
    assert_int_equal(s.virtual_pipeline_stages, 1);
    assert_int_equal(s.last_chunk_less, 3);
    assert_false(s.account_for_embedding);
    s = check("Et|(tt|)*30mL", 16, TPP_PLAN_LAYOUT_SAME);
    assert_int_equal(s.virtual_pipeline_stages, 2);
    assert_int_equal(s.last_chunk_less, 2);
    assert_true(s.account_for_embedding);
    s = check("Et*3|t*4L", 2, TPP_PLAN_LAYOUT_SAME);
    assert_true(s.account_for_embedding && s.last_chunk_less == 0);
}

static void test_what_a_strategy_cannot_hold(void **state)
{
    (void)state;
    assert_int_equal(check("Et*2|t*4|t*2|t*4L", 2, TPP_PLAN_LAYOUT_OTHER).virtual_pipeline_stages, 2);
    check("Et*4|t*4|t*4|t*6L", 4, TPP_PLAN_LAYOUT_OTHER);
    check("Et*4|t*4|t*4L", 2, TPP_PLAN_LAYOUT_BROKEN);
    check("tE|tL", 2, TPP_PLAN_LAYOUT_BROKEN);
    check("", 0, TPP_PLAN_LAYOUT_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_even_chunks),
        cmocka_unit_test(test_short_ends),
        cmocka_unit_test(test_what_a_strategy_cannot_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
