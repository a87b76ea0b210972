/* The grids of matrix products and attentions. */
#include "calibrate/bench/host_shapes.h"
#include "tests/support/check_number.h"

#include <string.h>

/* An H200: 132 SMs; 60 GB for the operands. */
static const struct tpp_bench_limits h200 = {
    .memory_bytes = UINT64_C(60000000000), .num_sms = 132, .element_bytes = 2, .multiple = 1};

static bool has(const struct tpp_bench_gemm_list *list, uint64_t m, uint64_t n, uint64_t k,
                enum tpp_bench_layout layout)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct tpp_bench_gemm *gemm = &list->items[i];
        if (gemm->m == m && gemm->n == n && gemm->k == k && gemm->layout == layout) {
            return true;
        }
    }
    return false;
}

/* Llama-3 8B, 4096 tokens, tensor parallel 2: the gated MLP is 2 x 14336 / 2 wide. */
static void the_projections_of_a_known_model_are_there_in_all_layouts(void **state)
{
    (void)state;
    struct tpp_bench_gemm_list list;
    assert_int_equal(tpp_bench_gemm_grid(&h200, &list, NULL), TPP_OK);
    assert_true(has(&list, 4096, 14336, 4096, TPP_BENCH_TN)); /* forward */
    assert_true(has(&list, 4096, 4096, 14336, TPP_BENCH_NN)); /* input gradient: n and k swapped */
    assert_true(has(&list, 14336, 4096, 4096, TPP_BENCH_NT)); /* weight gradient: out x in over tokens */
    assert_true(has(&list, 4096, 6144 / 2, 4096, TPP_BENCH_TN));
    assert_true(has(&list, 4096, 4096, 14336 / 2, TPP_BENCH_TN));
    tpp_bench_gemm_list_release(&list);
}

/* Each reason is among the first 40, so that a short budget sees them all. */
static void the_beginning_of_the_grid_is_a_fair_selection(void **state)
{
    (void)state;
    struct tpp_bench_gemm_list list;
    unsigned reasons = 0, layouts = 0;
    assert_int_equal(tpp_bench_gemm_grid(&h200, &list, NULL), TPP_OK);
    assert_true(list.count > 400 && list.count < 3000);
    for (size_t i = 0; i < 40; i++) {
        reasons |= 1u << list.items[i].reason;
        layouts |= 1u << list.items[i].layout;
    }
    assert_int_equal(reasons, (1u << TPP_BENCH_REASON_COUNT) - 1);
    assert_int_equal(layouts, 7);
    tpp_bench_gemm_list_release(&list);
}

static void no_shape_is_there_twice_and_all_fit(void **state)
{
    (void)state;
    const struct tpp_bench_limits small = {
        .memory_bytes = 300000000, .num_sms = 108, .element_bytes = 1, .multiple = 16};
    struct tpp_bench_gemm_list list;
    assert_int_equal(tpp_bench_gemm_grid(&small, &list, NULL), TPP_OK);
    assert_true(list.count > 100);
    for (size_t i = 0; i < list.count; i++) {
        const struct tpp_bench_gemm *gemm = &list.items[i];
        assert_true(tpp_bench_gemm_bytes(gemm, 1, 4) <= 300000000);
        assert_true(gemm->m % 16 == 0 && gemm->n % 16 == 0 && gemm->k % 16 == 0);
        for (size_t j = 0; j < i; j++) {
            const struct tpp_bench_gemm *other = &list.items[j];
            assert_false(gemm->m == other->m && gemm->n == other->n && gemm->k == other->k &&
                         gemm->layout == other->layout && gemm->accumulates == other->accumulates);
        }
    }
    tpp_bench_gemm_list_release(&list);
}

/* n = 2048 is 8 tiles of 256: two waves of 132 tiles end at 33 tile rows of 128, m = 4224. */
static void the_steps_bracket_the_end_of_a_wave(void **state)
{
    (void)state;
    struct tpp_bench_gemm_list list;
    assert_int_equal(tpp_bench_gemm_grid(&h200, &list, NULL), TPP_OK);
    assert_true(has(&list, 4224, 2048, 4096, TPP_BENCH_TN));
    assert_true(has(&list, 4224 + 16, 2048, 4096, TPP_BENCH_TN));
    assert_true(has(&list, 4224 + 128, 2048, 4096, TPP_BENCH_TN));
    assert_true(has(&list, 4097, 8192, 8192, TPP_BENCH_TN)); /* hardware.md 4: one row more */
    tpp_bench_gemm_list_release(&list);
}

static void operands_lie_where_the_layout_says(void **state)
{
    (void)state;
    const struct tpp_bench_gemm tn = {.m = 3, .n = 5, .k = 7, .layout = TPP_BENCH_TN};
    const struct tpp_bench_gemm nn = {.m = 3, .n = 5, .k = 7, .layout = TPP_BENCH_NN};
    const struct tpp_bench_gemm nt = {.m = 3, .n = 5, .k = 7, .layout = TPP_BENCH_NT};
    assert_int_equal(tpp_bench_gemm_a_index(&tn, 2, 4), 2 * 7 + 4);
    assert_int_equal(tpp_bench_gemm_b_index(&tn, 4, 3), 3 * 7 + 4); /* weights are n x k */
    assert_int_equal(tpp_bench_gemm_a_index(&nn, 2, 4), 2 * 7 + 4);
    assert_int_equal(tpp_bench_gemm_b_index(&nn, 4, 3), 4 * 5 + 3); /* the same weights, now k x n */
    assert_int_equal(tpp_bench_gemm_a_index(&nt, 2, 4), 4 * 3 + 2); /* gradients are tokens x out */
    assert_int_equal(tpp_bench_gemm_b_index(&nt, 4, 3), 4 * 5 + 3);
    /* (21 + 35) x 2 + 15 x 4 */
    assert_int_equal(tpp_bench_gemm_bytes(&tn, 2, 4), 172);
}

static void attention_covers_what_it_should(void **state)
{
    (void)state;
    struct tpp_bench_attention_list list;
    bool causal = false, full = false, grouped = false, whole = false;
    uint64_t shortest = UINT64_MAX, longest = 0;
    unsigned sizes = 0;
    assert_int_equal(tpp_bench_attention_grid(&h200, &list, NULL), TPP_OK);
    for (size_t i = 0; i < list.count; i++) {
        const struct tpp_bench_attention *attention = &list.items[i];
        assert_true(tpp_bench_attention_bytes(attention, 2) <= h200.memory_bytes);
        assert_int_equal(attention->num_heads % attention->num_query_groups, 0);
        causal |= attention->is_causal;
        full |= !attention->is_causal;
        grouped |= attention->num_heads > attention->num_query_groups;
        whole |= attention->num_heads == attention->num_query_groups;
        shortest = attention->length < shortest ? attention->length : shortest;
        longest = attention->length > longest ? attention->length : longest;
        sizes |= (unsigned)attention->head_dim;
    }
    assert_true(causal && full && grouped && whole);
    assert_int_equal(shortest, 512);
    assert_int_equal(longest, 131072);
    assert_int_equal(sizes, 64 | 128 | 256);
    tpp_bench_attention_list_release(&list);
}

static void attention_counts_bytes_and_operations(void **state)
{
    (void)state;
    const struct tpp_bench_attention attention = {
        .batch = 2, .num_heads = 6, .num_query_groups = 3, .length = 512, .head_dim = 64, .is_causal = true};
    /* 4 x 2 x 6 x 512^2 x 64 / 2 */
    CHECK_NUMBER(tpp_bench_attention_flops(&attention), 402653184, 0);
    /* Rows 1024, query 1024 x 6 x 64 = 393216, key 196608: (4 + 2) x 393216 + 4 x 196608 = 3145728 elements of 2 bytes,
     * 393216 x 4 of fp32, 1024 x 6 x 8 of statistics. */
    assert_int_equal(tpp_bench_attention_bytes(&attention, 2), 3145728 * 2 + 1572864 + 49152);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_projections_of_a_known_model_are_there_in_all_layouts),
        cmocka_unit_test(the_beginning_of_the_grid_is_a_fair_selection),
        cmocka_unit_test(no_shape_is_there_twice_and_all_fit),
        cmocka_unit_test(the_steps_bracket_the_end_of_a_wave),
        cmocka_unit_test(operands_lie_where_the_layout_says),
        cmocka_unit_test(attention_covers_what_it_should),
        cmocka_unit_test(attention_counts_bytes_and_operations),
    };
    return cmocka_run_group_tests_name("bench_shapes", tests, NULL, NULL);
}
