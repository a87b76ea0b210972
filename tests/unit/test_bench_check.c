/* Checking results: right ones pass, and one wrong element is found. */
#include "calibrate/bench/host_check.h"
#include "tests/support/check_number.h"

#include <stdlib.h>
#include <string.h>

/* A product by three loops over explicit matrices in the layout's storage, for one element. */
static void an_element_is_the_sum_over_its_row_and_column(void **state)
{
    (void)state;
    for (int layout = 0; layout < 3; layout++) {
        const struct tpp_bench_gemm gemm = {.m = 4, .n = 6, .k = 11, .layout = (enum tpp_bench_layout)layout};
        double a[4][11], b[11][6];
        for (uint64_t i = 0; i < 11; i++) {
            for (uint64_t row = 0; row < 4; row++) {
                const uint64_t at = layout == TPP_BENCH_NT ? i * 4 + row : row * 11 + i;
                a[row][i] = tpp_bench_decode(TPP_BENCH_BF16,
                                             tpp_bench_encode(TPP_BENCH_BF16, tpp_bench_random_value(1, 30 + at)));
            }
            for (uint64_t column = 0; column < 6; column++) {
                const uint64_t at = layout == TPP_BENCH_TN ? column * 11 + i : i * 6 + column;
                b[i][column] = tpp_bench_decode(TPP_BENCH_BF16,
                                                tpp_bench_encode(TPP_BENCH_BF16, tpp_bench_random_value(1, 500 + at)));
            }
        }
        for (uint64_t row = 0; row < 4; row++) {
            for (uint64_t column = 0; column < 6; column++) {
                double sum = 0;
                for (int i = 0; i < 11; i++) {
                    sum += a[row][i] * b[i][column];
                }
                CHECK_NUMBER(tpp_bench_gemm_element(&gemm, TPP_BENCH_BF16, 1, 30, 500, row, column), sum, 1e-12);
            }
        }
    }
}

/* The tolerance must lie between what rounding does and the size of a result, sqrt(k). */
static void the_tolerance_admits_rounding_and_finds_a_wrong_operand(void **state)
{
    (void)state;
    for (uint64_t k = 64; k <= 65536; k *= 4) {
        const double value = sqrt((double)k);
        const double fine = tpp_bench_gemm_tolerance(TPP_BENCH_BF16, TPP_BENCH_FP32, k, value);
        assert_true(fine >= (double)k * 0x1p-24 && fine < 0.1);
        /* Rounding to bf16 may be off by half a last place, 2^-9 of the value, and so may 8 parts of sqrt(k/8). */
        const double coarse = tpp_bench_gemm_tolerance(TPP_BENCH_BF16, TPP_BENCH_BF16, k, value);
        assert_true(coarse >= value * 0x1p-9 + 8 * sqrt((double)k / 8) * 0x1p-9 && coarse < value / 20);
        assert_true(tpp_bench_gemm_tolerance(TPP_BENCH_FP8, TPP_BENCH_BF16, k, value) < value / 5);
    }
}

/* What a group of ranks would produce, by moving and adding whole buffers. */
static void simulate(enum tpp_bench_collective collective, uint32_t n, uint32_t position, uint64_t count, float *result)
{
    const uint64_t send = tpp_bench_send_count(collective, count, n);
    float *buffers = malloc(n * send * sizeof *buffers);
    assert_non_null(buffers);
    for (uint32_t rank = 0; rank < n; rank++) {
        for (uint64_t i = 0; i < send; i++) {
            buffers[rank * send + i] = tpp_bench_small_integer(100 + rank, i);
        }
    }
    for (uint64_t i = 0; i < tpp_bench_receive_count(collective, count, n); i++) {
        result[i] = 0;
        for (uint32_t rank = 0; rank < n; rank++) {
            const float *from = buffers + rank * send;
            const bool is_part = i / count == rank;
            switch (collective) {
            case TPP_BENCH_ALL_GATHER:
                result[i] += is_part ? from[i % count] : 0;
                break;
            case TPP_BENCH_ALL_TO_ALL:
                result[i] += is_part ? from[position * count + i % count] : 0;
                break;
            case TPP_BENCH_REDUCE_SCATTER:
                result[i] += from[position * count + i];
                break;
            case TPP_BENCH_ALL_REDUCE:
                result[i] += from[i];
                break;
            default:
                result[i] += rank == (position + n - 1) % n ? from[i] : 0;
                break;
            }
        }
    }
    free(buffers);
}

static void right_results_pass_and_a_wrong_one_is_counted(void **state)
{
    (void)state;
    const uint64_t count = 13;
    const uint32_t n = 5;
    float result[13 * 5];
    uint16_t coded[13 * 5];
    for (int collective = 0; collective < TPP_BENCH_COLLECTIVE_COUNT; collective++) {
        const enum tpp_bench_collective kind = (enum tpp_bench_collective)collective;
        const uint64_t received = tpp_bench_receive_count(kind, count, n);
        for (uint32_t position = 0; position < n; position++) {
            simulate(kind, n, position, count, result);
            assert_int_equal(tpp_bench_count_wrong(kind, TPP_BENCH_FP32, 100, n, position, count, 0, received, result),
                             0);
            for (uint64_t i = 0; i < received; i++) {
                coded[i] = (uint16_t)tpp_bench_encode(TPP_BENCH_BF16, result[i]);
            }
            assert_int_equal(tpp_bench_count_wrong(kind, TPP_BENCH_BF16, 100, n, position, count, 0, received, coded),
                             0);
            assert_int_equal(/* the middle alone */
                             tpp_bench_count_wrong(kind, TPP_BENCH_BF16, 100, n, position, count, 4, received - 4,
                                                   coded + 4),
                             0);
            result[7] += 1;
            result[9] = NAN;
            assert_int_equal(tpp_bench_count_wrong(kind, TPP_BENCH_FP32, 100, n, position, count, 0, received, result),
                             2);
        }
    }
}

static void sums_that_fit_the_type_must_be_exact(void **state)
{
    (void)state;
    CHECK_NUMBER(tpp_bench_collective_tolerance(TPP_BENCH_ALL_REDUCE, TPP_BENCH_FP32, 4096), 0, 0);
    CHECK_NUMBER(tpp_bench_collective_tolerance(TPP_BENCH_ALL_REDUCE, TPP_BENCH_BF16, 64), 0, 0);
    assert_true(tpp_bench_collective_tolerance(TPP_BENCH_ALL_REDUCE, TPP_BENCH_BF16, 1024) > 0);
    CHECK_NUMBER(tpp_bench_collective_tolerance(TPP_BENCH_ALL_GATHER, TPP_BENCH_BF16, 1024), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_is_the_sum_over_its_row_and_column),
        cmocka_unit_test(the_tolerance_admits_rounding_and_finds_a_wrong_operand),
        cmocka_unit_test(right_results_pass_and_a_wrong_one_is_counted),
        cmocka_unit_test(sums_that_fit_the_type_must_be_exact),
    };
    return cmocka_run_group_tests_name("bench_check", tests, NULL, NULL);
}
