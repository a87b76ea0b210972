#include "calibrate/bench/host_memory.h"

#include <math.h>

/* Elements per row of each operand, in halves of the width so that 2 width is 4, and their bytes. */
struct operand {
    unsigned half_widths; /* of rows x width; 0: none */
    unsigned element_bytes;
    int is_one_row; /* of width, whatever the rows are */
    int is_column;  /* one element a row */
};

static const struct {
    const char *name;
    struct operand inputs[TPP_BENCH_MAX_OPERANDS], outputs[TPP_BENCH_MAX_OPERANDS];
} operations[TPP_BENCH_MEMORY_COUNT] = {
    [TPP_BENCH_COPY] = {"copy", {{2, 2, 0, 0}}, {{2, 2, 0, 0}}},
    [TPP_BENCH_ADD] = {"add", {{2, 2, 0, 0}, {2, 2, 0, 0}}, {{2, 2, 0, 0}}},
    [TPP_BENCH_NORM] = {"input_layernorm", {{2, 2, 0, 0}, {2, 2, 1, 0}}, {{2, 2, 0, 0}}},
    [TPP_BENCH_NORM_BACKWARD] = {"input_layernorm_backward",
                                 {{2, 2, 0, 0}, {2, 2, 1, 0}, {2, 2, 0, 0}},
                                 {{2, 2, 0, 0}}},
    [TPP_BENCH_SWIGLU] = {"mlp_act", {{4, 2, 0, 0}}, {{2, 2, 0, 0}}},
    [TPP_BENCH_SWIGLU_BACKWARD] = {"mlp_act_backward", {{4, 2, 0, 0}, {2, 2, 0, 0}}, {{4, 2, 0, 0}}},
    [TPP_BENCH_SOFTMAX] = {"softmax", {{2, 2, 0, 0}}, {{2, 2, 0, 0}}},
    [TPP_BENCH_CROSS_ENTROPY] = {"cross_entropy", {{2, 2, 0, 0}}, {{2, 4, 0, 1}}},
    [TPP_BENCH_CROSS_ENTROPY_BACKWARD] = {"cross_entropy_backward", {{2, 2, 0, 0}}, {{2, 2, 0, 0}}},
    [TPP_BENCH_ADAM] = {"adam",
                        {{2, 4, 0, 0}, {2, 4, 0, 0}, {2, 4, 0, 0}, {2, 4, 0, 0}},
                        {{2, 4, 0, 0}, {2, 4, 0, 0}, {2, 4, 0, 0}, {2, 2, 0, 0}}},
};

const char *tpp_bench_memory_name(enum tpp_bench_memory operation)
{
    return operations[operation].name;
}

static uint64_t operand_bytes(const struct operand *operand, uint64_t rows, uint64_t width)
{
    const uint64_t row_elements = operand->is_column ? 1 : operand->half_widths * width / 2;
    return operand->half_widths == 0 ? 0 : (operand->is_one_row ? 1 : rows) * row_elements * operand->element_bytes;
}

uint64_t tpp_bench_memory_input_bytes(enum tpp_bench_memory operation, size_t i, uint64_t rows, uint64_t width)
{
    return operand_bytes(&operations[operation].inputs[i], rows, width);
}

uint64_t tpp_bench_memory_output_bytes(enum tpp_bench_memory operation, size_t i, uint64_t rows, uint64_t width)
{
    return operand_bytes(&operations[operation].outputs[i], rows, width);
}

uint64_t tpp_bench_memory_bytes(enum tpp_bench_memory operation, uint64_t rows, uint64_t width)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < TPP_BENCH_MAX_OPERANDS; i++) {
        bytes += tpp_bench_memory_input_bytes(operation, i, rows, width) +
                 tpp_bench_memory_output_bytes(operation, i, rows, width);
    }
    return bytes;
}

static double inverse_rms(const float *x, uint64_t width)
{
    double squares = 0;
    for (uint64_t i = 0; i < width; i++) {
        squares += (double)x[i] * x[i];
    }
    return 1 / sqrt(squares / (double)width + TPP_BENCH_NORM_EPSILON);
}

/* dx = r (w dy - x r^2 mean(w dy x)), r = 1 / rms(x): the derivative of y = x w r. */
static double norm_backward(const float *x, const float *w, const float *dy, uint64_t width, uint64_t column)
{
    const double r = inverse_rms(x, width);
    double mean = 0;
    for (uint64_t i = 0; i < width; i++) {
        mean += (double)w[i] * dy[i] * x[i] / (double)width;
    }
    return r * ((double)w[column] * dy[column] - x[column] * r * r * mean);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* d silu(g)/dg = s (1 + g (1 - s)); the row of the result is dg, then du. */
static double swiglu_backward(const float *gate_up, const float *dy, uint64_t width, uint64_t column)
{
    const uint64_t at = column % width;
    const double g = gate_up[at], u = gate_up[width + at], s = sigmoid(g);
    return column < width ? dy[at] * u * s * (1 + g * (1 - s)) : dy[at] * g * s;
}

static double log_sum_exp(const float *x, uint64_t width)
{
    double largest = x[0], sum = 0;
    for (uint64_t i = 1; i < width; i++) {
        largest = fmax(largest, x[i]);
    }
    for (uint64_t i = 0; i < width; i++) {
        sum += exp(x[i] - largest);
    }
    return largest + log(sum);
}

/* The new m: the first output. */
static double adam(const float *gradient, const float *m, uint64_t column)
{
    return (double)TPP_BENCH_ADAM_BETA1 * m[column] + (1 - (double)TPP_BENCH_ADAM_BETA1) * gradient[column];
}

double tpp_bench_memory_element(enum tpp_bench_memory operation, const float *const *inputs, uint64_t row,
                                uint64_t width, uint64_t column)
{
    const float *x = inputs[0];
    switch (operation) {
    case TPP_BENCH_ADD:
        return (double)x[column] + inputs[1][column];
    case TPP_BENCH_NORM:
        return x[column] * inverse_rms(x, width) * inputs[1][column];
    case TPP_BENCH_NORM_BACKWARD:
        return norm_backward(x, inputs[1], inputs[2], width, column);
    case TPP_BENCH_SWIGLU:
        return x[column] * sigmoid(x[column]) * x[width + column];
    case TPP_BENCH_SWIGLU_BACKWARD:
        return swiglu_backward(x, inputs[1], width, column);
    case TPP_BENCH_SOFTMAX:
        return exp(x[column] - log_sum_exp(x, width));
    case TPP_BENCH_CROSS_ENTROPY:
        return log_sum_exp(x, width) - x[row % width];
    case TPP_BENCH_CROSS_ENTROPY_BACKWARD:
        return exp(x[column] - log_sum_exp(x, width)) - (column == row % width);
    case TPP_BENCH_ADAM:
        return adam(x, inputs[1], column);
    default:
        return x[column];
    }
}

double tpp_bench_memory_tolerance(enum tpp_bench_memory operation, double value)
{
    /* bf16 rounds by 2^-9 of the value, and fp32 sums over a row by less; the fast exponential is good to 2^-21. */
    const int is_fp32 = operation == TPP_BENCH_CROSS_ENTROPY || operation == TPP_BENCH_ADAM;
    return is_fp32 ? 1e-4 * fabs(value) + 1e-5 : 0x1p-7 * fabs(value) + 1e-6;
}
