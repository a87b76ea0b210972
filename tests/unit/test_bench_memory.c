/* The memory-bound operations: their traffic and their formulas. */
#include "calibrate/bench/host_memory.h"
#include "tests/support/check_number.h"

#include <string.h>

/* Bytes by hand, of 3 rows of 16 columns: a bf16 matrix is 96. */
static void traffic_is_every_operand_once(void **state)
{
    (void)state;
    static const struct {
        enum tpp_bench_memory operation;
        const char *name;
        uint64_t bytes;
    } cases[] = {
        {TPP_BENCH_COPY, "copy", 2 * 96},
        {TPP_BENCH_ADD, "add", 3 * 96},
        {TPP_BENCH_NORM, "input_layernorm", 2 * 96 + 32}, /* and one row of weights */
        {TPP_BENCH_NORM_BACKWARD, "input_layernorm_backward", 3 * 96 + 32},
        {TPP_BENCH_SWIGLU, "mlp_act", 3 * 96},
        {TPP_BENCH_SWIGLU_BACKWARD, "mlp_act_backward", 5 * 96},
        {TPP_BENCH_SOFTMAX, "softmax", 2 * 96},
        {TPP_BENCH_CROSS_ENTROPY, "cross_entropy", 96 + 3 * 4}, /* one fp32 loss a row */
        {TPP_BENCH_CROSS_ENTROPY_BACKWARD, "cross_entropy_backward", 2 * 96},
        {TPP_BENCH_ADAM, "adam", 48 * (4 * 4 + 3 * 4 + 2)}, /* 30 bytes a parameter, cost-model 5.4 */
    };
    assert_int_equal(sizeof cases / sizeof cases[0], TPP_BENCH_MEMORY_COUNT);
    for (size_t i = 0; i < TPP_BENCH_MEMORY_COUNT; i++) {
        assert_string_equal(tpp_bench_memory_name(cases[i].operation), cases[i].name);
        assert_int_equal(tpp_bench_memory_bytes(cases[i].operation, 3, 16), cases[i].bytes);
    }
    assert_int_equal(tpp_bench_memory_input_bytes(TPP_BENCH_SWIGLU, 0, 3, 16), 192);
    assert_int_equal(tpp_bench_memory_input_bytes(TPP_BENCH_COPY, 1, 3, 16), 0);
    assert_int_equal(tpp_bench_memory_output_bytes(TPP_BENCH_ADAM, 3, 3, 16), 96);
}

static const float x[8] = {1, -2, 0.5f, 3, 0.25f, 1.5f, -1, 2};
static const float w[4] = {0.5f, 2, 1, -1};
static const float dy[4] = {1, 0.5f, -2, 0.25f};

static void known_rows(void **state)
{
    (void)state;
    const float *add[] = {x, w, NULL, NULL};
    CHECK_NUMBER(tpp_bench_memory_element(TPP_BENCH_ADD, add, 0, 4, 3), 2, 0);
    CHECK_NUMBER(tpp_bench_memory_element(TPP_BENCH_COPY, add, 0, 4, 1), -2, 0);
    /* rms of 1 -2 0.5 3: sqrt(14.25/4) = 1.887459; -2 x 2 / 1.887459 */
    CHECK_NUMBER(tpp_bench_memory_element(TPP_BENCH_NORM, add, 0, 4, 1), -4 / 1.8874586, 1e-5);
    /* silu(3) x 2: 3/(1+e^-3) = 2.857722 */
    CHECK_NUMBER(tpp_bench_memory_element(TPP_BENCH_SWIGLU, add, 0, 4, 3), 2 * 2.8577224, 1e-6);
    /* e^1 / (e^1 + e^-2 + e^0.5 + e^3) = 2.718282 / 24.587876 */
    CHECK_NUMBER(tpp_bench_memory_element(TPP_BENCH_SOFTMAX, add, 0, 4, 0), 0.11055375, 1e-6);
    /* The target of row 6 is 6 % 4 = 2: ln 24.587875 = 3.2022534, less 0.5 */
    CHECK_NUMBER(tpp_bench_memory_element(TPP_BENCH_CROSS_ENTROPY, add, 6, 4, 0), 2.7022534, 1e-6);
    CHECK_NUMBER(tpp_bench_memory_element(TPP_BENCH_CROSS_ENTROPY_BACKWARD, add, 6, 4, 2), 0.067054 - 1, 1e-5);
    CHECK_NUMBER(tpp_bench_memory_element(TPP_BENCH_ADAM, add, 0, 4, 1), 0.9 * 2 + 0.1 * -2, 1e-6);
}

/* sum(dy y) as a function of the inputs, for derivatives by differences. */
static double loss(enum tpp_bench_memory operation, const float *const *inputs, uint64_t width)
{
    double sum = 0;
    for (uint64_t i = 0; i < width; i++) {
        sum += dy[i] * tpp_bench_memory_element(operation, inputs, 0, width, i);
    }
    return sum;
}

static void backward_is_the_derivative_of_forward(void **state)
{
    (void)state;
    static const struct {
        enum tpp_bench_memory forward, backward;
        int num_inputs;
    } cases[] = {{TPP_BENCH_NORM, TPP_BENCH_NORM_BACKWARD, 4}, {TPP_BENCH_SWIGLU, TPP_BENCH_SWIGLU_BACKWARD, 8}};
    for (int c = 0; c < 2; c++) {
        for (int i = 0; i < cases[c].num_inputs; i++) {
            float up[8], down[8];
            memcpy(up, x, sizeof up);
            memcpy(down, x, sizeof down);
            up[i] += 0x1p-8f;
            down[i] -= 0x1p-8f;
            const float *above[] = {up, w, NULL, NULL}, *below[] = {down, w, NULL, NULL};
            const double difference =
                (loss(cases[c].forward, above, 4) - loss(cases[c].forward, below, 4)) / (2 * 0x1p-8);
            const float *norm[] = {x, w, dy, NULL}, *swiglu[] = {x, dy, NULL, NULL};
            const double derivative =
                tpp_bench_memory_element(cases[c].backward, c == 0 ? norm : swiglu, 0, 4, (uint64_t)i);
            CHECK_NUMBER(derivative, difference, 1e-3);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traffic_is_every_operand_once),
        cmocka_unit_test(known_rows),
        cmocka_unit_test(backward_is_the_derivative_of_forward),
    };
    return cmocka_run_group_tests_name("bench_memory", tests, NULL, NULL);
}
