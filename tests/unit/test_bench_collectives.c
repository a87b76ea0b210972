/* Sizes, factors and groups of the measured collectives. */
#include "calibrate/bench/host_collectives.h"
#include "tests/support/check_number.h"

#include <string.h>

static void factors_are_those_of_nccl_tests(void **state)
{
    (void)state;
    CHECK_NUMBER(tpp_bench_bus_factor(TPP_BENCH_ALL_REDUCE, 7), 12.0 / 7, 1e-15);
    CHECK_NUMBER(tpp_bench_bus_factor(TPP_BENCH_ALL_GATHER, 7), 6.0 / 7, 1e-15);
    CHECK_NUMBER(tpp_bench_bus_factor(TPP_BENCH_REDUCE_SCATTER, 7), 6.0 / 7, 1e-15);
    CHECK_NUMBER(tpp_bench_bus_factor(TPP_BENCH_ALL_TO_ALL, 7), 6.0 / 7, 1e-15);
    CHECK_NUMBER(tpp_bench_bus_factor(TPP_BENCH_SEND_RECV, 7), 1, 0);
}

/* nccl-tests logs of 80 ranks show 33553920 for 32 MiB: 33554432 / 4 / 80 = 104857.6, down to whole 16 bytes 104856,
 * x 80 x 4. */
static void sizes_are_rounded_down_to_whole_parts(void **state)
{
    (void)state;
    uint64_t bytes = 0, count = 0;
    assert_true(tpp_bench_message(TPP_BENCH_ALL_GATHER, 33554432, 4, 80, &bytes, &count));
    assert_int_equal(bytes, 33553920);
    assert_int_equal(count, 104856);
    assert_true(tpp_bench_message(TPP_BENCH_ALL_REDUCE, 1001, 2, 7, &bytes, &count));
    assert_int_equal(bytes, 1000);
    assert_int_equal(count, 500);
    assert_true(tpp_bench_message(TPP_BENCH_ALL_TO_ALL, 1000, 4, 80, &bytes, &count)); /* 3 elements: no 16 bytes */
    assert_int_equal(bytes, 3 * 80 * 4);
    assert_false(tpp_bench_message(TPP_BENCH_ALL_TO_ALL, 100, 2, 64, &bytes, &count));
}

static void buffers_hold_one_part_or_all(void **state)
{
    (void)state;
    static const struct {
        enum tpp_bench_collective collective;
        uint64_t send, receive;
    } cases[] = {{TPP_BENCH_ALL_GATHER, 10, 70},
                 {TPP_BENCH_REDUCE_SCATTER, 70, 10},
                 {TPP_BENCH_ALL_REDUCE, 10, 10},
                 {TPP_BENCH_ALL_TO_ALL, 70, 70},
                 {TPP_BENCH_SEND_RECV, 10, 10}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(tpp_bench_send_count(cases[i].collective, 10, 7), cases[i].send);
        assert_int_equal(tpp_bench_receive_count(cases[i].collective, 10, 7), cases[i].receive);
    }
}

static void the_size_grid_begins_and_ends_where_it_should(void **state)
{
    (void)state;
    uint64_t sizes[64];
    assert_int_equal(tpp_bench_size_grid(1024, UINT64_C(4) << 30, 2, sizes, 64), 23); /* 2^10 .. 2^32 */
    assert_int_equal(sizes[0], 1024);
    assert_int_equal(sizes[1], 2048);
    assert_int_equal(sizes[22], UINT64_C(4) << 30);
    assert_int_equal(tpp_bench_size_grid(1000, 3000, 2, sizes, 64), 3);
    assert_int_equal(sizes[2], 3000);
    assert_int_equal(tpp_bench_size_grid(7, 7, 2, sizes, 64), 1);
    assert_int_equal(tpp_bench_size_grid(8, 7, 2, sizes, 64), 0);
    assert_int_equal(tpp_bench_size_grid(1, 100, 1, sizes, 64), 0);
    assert_int_equal(tpp_bench_size_grid(1, 1 << 30, 2, sizes, 5), 5);
}

static const struct tpp_bench_groups *find(const struct tpp_bench_groups *plans, size_t count, const char *name,
                                           bool concurrent)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(plans[i].name, name) == 0 && plans[i].concurrent == concurrent) {
            return &plans[i];
        }
    }
    return NULL;
}

static void a_plan_gives_every_rank_one_place(void **state)
{
    (void)state;
    static const uint32_t worlds[][2] = {{1, 8}, {3, 8}, {2, 4}, {5, 1}, {1, 72}, {7, 6}, {1, 2}, {16, 3}};
    struct tpp_bench_groups plans[TPP_BENCH_MAX_GROUPS];
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        const uint32_t size = worlds[i][0] * worlds[i][1];
        const size_t count = tpp_bench_group_plans(worlds[i][0], worlds[i][1], plans);
        assert_true(count > 0);
        for (size_t j = 0; j < count; j++) {
            bool taken[128] = {false};
            const uint32_t group_size = tpp_bench_group_size(&plans[j]);
            assert_int_equal(plans[j].num_groups * group_size, size);
            for (uint32_t rank = 0; rank < size; rank++) {
                uint32_t group, position;
                tpp_bench_group_of(&plans[j], rank, &group, &position);
                assert_true(group < plans[j].num_groups && position < group_size);
                assert_false(taken[group * group_size + position]);
                taken[group * group_size + position] = true;
            }
        }
    }
}

/* Two nodes of eight: data parallelism beside full tensor parallelism joins ranks 3 and 11. */
static void groups_are_those_of_a_training_job(void **state)
{
    (void)state;
    struct tpp_bench_groups plans[TPP_BENCH_MAX_GROUPS];
    uint32_t group, position, other, other_position;
    const size_t count = tpp_bench_group_plans(2, 8, plans);
    const struct tpp_bench_groups *across = find(plans, count, "across-1", true);
    assert_non_null(across);
    assert_int_equal(across->num_groups, 8);
    tpp_bench_group_of(across, 3, &group, &position);
    tpp_bench_group_of(across, 11, &other, &other_position);
    assert_int_equal(group, other);
    assert_int_equal(position, 0);
    assert_int_equal(other_position, 1);
    /* Strided pairs of a node: 1 and 5. */
    const struct tpp_bench_groups *strided = find(plans, count, "node-2-strided", true);
    assert_non_null(strided);
    tpp_bench_group_of(strided, 1, &group, &position);
    tpp_bench_group_of(strided, 5, &other, &other_position);
    assert_int_equal(group, other);
    assert_int_equal(other_position, 1);
    /* Several a node: 4, 5, 6, 7 of both nodes. */
    const struct tpp_bench_groups *several = find(plans, count, "across-4", false);
    assert_non_null(several);
    assert_int_equal(tpp_bench_group_size(several), 8);
    tpp_bench_group_of(several, 4, &group, &position);
    tpp_bench_group_of(several, 15, &other, &other_position);
    assert_int_equal(group, other);
    assert_int_equal(other_position, 7);
    assert_non_null(find(plans, count, "world", false));
    assert_null(find(plans, count, "world", true)); /* there is one only */
    assert_null(find(plans, tpp_bench_group_plans(1, 8, plans), "across-1", false));
    assert_int_equal(tpp_bench_group_plans(1, 1, plans), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_are_those_of_nccl_tests),
        cmocka_unit_test(sizes_are_rounded_down_to_whole_parts),
        cmocka_unit_test(buffers_hold_one_part_or_all),
        cmocka_unit_test(the_size_grid_begins_and_ends_where_it_should),
        cmocka_unit_test(a_plan_gives_every_rank_one_place),
        cmocka_unit_test(groups_are_those_of_a_training_job),
    };
    return cmocka_run_group_tests_name("bench_collectives", tests, NULL, NULL);
}
