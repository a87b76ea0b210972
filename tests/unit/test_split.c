/* Checks planner/split.h on layer counts that do not divide. */
#include "planner/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct tpp_space_split splits[TPP_SPACE_MAX_VALUES];

static uint32_t list(uint32_t num_layers, uint32_t p, uint32_t v, bool is_balanced)
{
    return tpp_split_list(num_layers, p, v, is_balanced, splits, TPP_SPACE_MAX_VALUES);
}

static bool has(uint32_t count, uint32_t first, uint32_t last)
{
    for (uint32_t i = 0; i < count; i++) {
        if (splits[i].first_stage_layers == first && splits[i].last_stage_layers == last &&
            !splits[i].account_for_embedding && !splits[i].account_for_loss) {
            return true;
        }
    }
    return false;
}

static bool has_accounted(uint32_t count, bool embedding, bool loss)
{
    for (uint32_t i = 0; i < count; i++) {
        if (splits[i].account_for_embedding == embedding && splits[i].account_for_loss == loss) {
            return true;
        }
    }
    return false;
}

static void layers_that_divide_have_one_split(void **state)
{
    (void)state;
    assert_int_equal(list(96, 8, 3, false), 1);
    assert_int_equal(splits[0].first_stage_layers, 0);
    assert_int_equal(splits[0].virtual_pipeline_stages, 3);
    assert_int_equal(splits[0].max_stage_layers, 12);
}

static void sixty_two_layers_on_four_stages(void **state)
{
    (void)state;
    const uint32_t count = list(62, 4, 1, false);
    assert_true(has(count, 15, 15)); /* 32 over two */
    assert_true(has(count, 16, 16)); /* 30 over two */
    assert_true(has(count, 0, 14));  /* 48 over three */
    assert_true(has(count, 14, 0));
    assert_true(has_accounted(count, true, true)); /* 64 over four */
    assert_false(has_accounted(count, false, true));
}

static void sixty_two_layers_on_two_stages_of_two_chunks(void **state)
{
    (void)state;
    const uint32_t count = list(62, 2, 2, false); /* 31 a stage is odd: 30 and 32 */
    assert_true(has(count, 0, 32));
    assert_true(has(count, 32, 0));
    assert_true(has(count, 0, 30));
    assert_true(has_accounted(count, true, true)); /* 64 slots over four chunks */
}

static void sixty_two_layers_on_eight_stages(void **state)
{
    (void)state;
    const uint32_t count = list(62, 8, 1, false);
    assert_true(has(count, 7, 7));   /* 48 over six */
    assert_true(has(count, 0, 6));   /* 56 over seven */
    assert_true(has(count, 10, 10)); /* 42 over six */
    assert_true(has_accounted(count, true, true));
}

static void one_layer_less_on_the_ends(void **state)
{
    (void)state;
    const uint32_t count = list(126, 16, 1, false); /* Llama-3-405B: 7 and 7, 8 between */
    assert_true(has(count, 7, 7));
}

/* Every split that is proposed passes the checks of every framework, and names its fullest stage. */
static void every_split_can_be_run(void **state)
{
    (void)state;
    const struct tpp_stack stack = {.engine = TPP_ENGINE_MEGATRON};
    for (uint32_t num_layers = 5; num_layers <= 64; num_layers++) {
        for (uint32_t p = 2; p <= 12; p++) {
            for (uint32_t v = 1; v <= 4; v++) {
                struct tpp_model model = {.num_layers = num_layers, .num_attention_heads = 1, .num_query_groups = 1};
                struct tpp_job job = {.num_gpus = p, .sequence_length = 8, .global_batch_size = p};
                const uint32_t count = list(num_layers, p, v, false);
                for (uint32_t i = 0; i < count; i++) {
                    struct tpp_strategy s = tpp_strategy_defaults();
                    s.pipeline_parallel = p;
                    s.virtual_pipeline_stages = v;
                    s.first_stage_layers = splits[i].first_stage_layers;
                    s.last_stage_layers = splits[i].last_stage_layers;
                    s.account_for_embedding = splits[i].account_for_embedding;
                    s.account_for_loss = splits[i].account_for_loss;
                    assert_int_equal(tpp_strategy_complete(&s, &job, NULL), TPP_OK);
                    assert_int_equal(tpp_strategy_check(&s, &model, &job, &stack, NULL), TPP_OK);
                    assert_true(splits[i].max_stage_layers * p >= num_layers);
                    assert_true(splits[i].max_stage_layers <= num_layers);
                }
            }
        }
    }
}

static void deepspeed_balances(void **state)
{
    (void)state;
    assert_int_equal(list(62, 4, 1, true), 1);
    assert_true(splits[0].balanced_split);
    assert_int_equal(splits[0].max_stage_layers, 16);
    assert_int_equal(list(3, 4, 1, true), 0); /* too few layers */
}

static void one_stage_cannot_be_uneven(void **state)
{
    (void)state;
    assert_int_equal(list(7, 1, 1, false), 1);
    assert_int_equal(list(7, 1, 2, false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_divide_have_one_split),
        cmocka_unit_test(sixty_two_layers_on_four_stages),
        cmocka_unit_test(sixty_two_layers_on_two_stages_of_two_chunks),
        cmocka_unit_test(sixty_two_layers_on_eight_stages),
        cmocka_unit_test(one_layer_less_on_the_ends),
        cmocka_unit_test(every_split_can_be_run),
        cmocka_unit_test(deepspeed_balances),
        cmocka_unit_test(one_stage_cannot_be_uneven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
