/* The reference of attention: against explicit matrices, and its derivative against differences. */
#include "calibrate/bench/host_check.h"
#include "tests/support/check_number.h"

#include <string.h>

enum { B = 2, H = 4, G = 2, S = 6, D = 8 };

static const struct tpp_bench_attention causal = {
    .batch = B, .num_heads = H, .num_query_groups = G, .length = S, .head_dim = D, .is_causal = true};
static const struct tpp_bench_attention full = {
    .batch = B, .num_heads = H, .num_query_groups = G, .length = S, .head_dim = D, .is_causal = false};

/* A tensor of `heads` heads as it lies in memory. */
static void make(double *values, int heads, uint64_t seed)
{
    for (int i = 0; i < B * S * heads * D; i++) {
        values[i] = tpp_bench_decode(TPP_BENCH_BF16,
                                     tpp_bench_encode(TPP_BENCH_BF16, tpp_bench_random_value(seed, (uint64_t)i)));
    }
}

#define AT(heads, b, s, h, i) ((((b)*S + (s)) * (heads) + (h)) * D + (i))

/* One row of the output for a q that is given: softmax(q k^T / sqrt(8)) v over heads 2h/4 of k and v. */
static void output(const double *q, const double *k, const double *v, int b, int h, int row, bool is_causal, double *o)
{
    double p[S], sum = 0;
    const int seen = is_causal ? row + 1 : S, g = h / (H / G);
    for (int j = 0; j < seen; j++) {
        double score = 0;
        for (int i = 0; i < D; i++) {
            score += q[i] * k[AT(G, b, j, g, i)];
        }
        p[j] = exp(score / sqrt(8.0));
        sum += p[j];
    }
    for (int i = 0; i < D; i++) {
        o[i] = 0;
        for (int j = 0; j < seen; j++) {
            o[i] += p[j] / sum * v[AT(G, b, j, g, i)];
        }
    }
}

static double q[B * S * H * D], k[B * S * G * D], v[B * S * G * D], d_o[B * S * H * D];

static int make_all(void **state)
{
    (void)state;
    make(q, H, 9);
    make(k, G, 10);
    make(v, G, 11);
    make(d_o, H, 12);
    return 0;
}

static void rows_of_the_output_are_those_of_the_formula(void **state)
{
    (void)state;
    double scratch[S], row_values[D], expected[D];
    for (int is_causal = 0; is_causal < 2; is_causal++) {
        for (int h = 0; h < H; h++) {
            for (int row = 0; row < S; row++) {
                output(&q[AT(H, 1, row, h, 0)], k, v, 1, h, row, is_causal, expected);
                tpp_bench_attention_output_row(is_causal ? &causal : &full, TPP_BENCH_BF16, 9, 1, (uint64_t)h,
                                               (uint64_t)row, scratch, row_values);
                for (int i = 0; i < D; i++) {
                    CHECK_NUMBER(row_values[i], expected[i], 1e-9);
                }
            }
        }
    }
}

static double loss(const double *row, int b, int h, int at, bool is_causal)
{
    double o[D], sum = 0;
    output(row, k, v, b, h, at, is_causal, o);
    for (int i = 0; i < D; i++) {
        sum += o[i] * d_o[AT(H, b, at, h, i)];
    }
    return sum;
}

static void the_query_gradient_is_the_derivative(void **state)
{
    (void)state;
    double scratch[S], row_values[D];
    const int b = 1, h = 3, row = 4;
    for (int is_causal = 0; is_causal < 2; is_causal++) {
        tpp_bench_attention_query_gradient_row(is_causal ? &causal : &full, TPP_BENCH_BF16, 9, 1, 3, 4, scratch,
                                               row_values);
        for (int i = 0; i < D; i++) {
            double up[D], down[D];
            memcpy(up, &q[AT(H, b, row, h, 0)], sizeof up);
            memcpy(down, up, sizeof down);
            up[i] += 1e-5;
            down[i] -= 1e-5;
            const double difference = (loss(up, b, h, row, is_causal) - loss(down, b, h, row, is_causal)) / 2e-5;
            CHECK_NUMBER(row_values[i], difference, 1e-5);
        }
    }
}

static void rounded_rows_pass_and_a_missing_mask_does_not(void **state)
{
    (void)state;
    double scratch[S], masked[D], unmasked[D];
    uint16_t coded[D];
    tpp_bench_attention_output_row(&causal, TPP_BENCH_BF16, 9, 0, 1, 2, scratch, masked);
    tpp_bench_attention_output_row(&full, TPP_BENCH_BF16, 9, 0, 1, 2, scratch, unmasked);
    for (int i = 0; i < D; i++) {
        coded[i] = (uint16_t)tpp_bench_encode(TPP_BENCH_BF16, (float)masked[i]);
    }
    assert_int_equal(tpp_bench_attention_count_wrong(TPP_BENCH_BF16, masked, coded, D), 0);
    assert_true(tpp_bench_attention_count_wrong(TPP_BENCH_BF16, unmasked, coded, D) >= D / 2);
    coded[3] = 0x7fc0; /* not a number */
    assert_int_equal(tpp_bench_attention_count_wrong(TPP_BENCH_BF16, masked, coded, D), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_the_output_are_those_of_the_formula),
        cmocka_unit_test(the_query_gradient_is_the_derivative),
        cmocka_unit_test(rounded_rows_pass_and_a_missing_mask_does_not),
    };
    return cmocka_run_group_tests_name("bench_attention", tests, make_all, NULL);
}
