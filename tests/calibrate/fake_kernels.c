/* Our kernels on the host. */
#include "calibrate/bench/kernels.h"
#include "tests/calibrate/fake_stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fill {
    enum tpp_bench_type type;
    char *buffer;
    uint64_t count, seed, first;
    int is_integer;
};

static int fill(void *context)
{
    const struct fill *fill = context;
    const size_t bytes = tpp_bench_type_bytes(fill->type);
    for (uint64_t i = 0; i < fill->count; i++) {
        const float value = fill->is_integer ? tpp_bench_small_integer(fill->seed, fill->first + i)
                                             : tpp_bench_random_value(fill->seed, fill->first + i);
        const uint32_t bits = tpp_bench_encode(fill->type, value);
        memcpy(fill->buffer + i * bytes, &bits, bytes);
    }
    return 0;
}

int tpp_kernel_fill_random(enum tpp_bench_type type, void *buffer, uint64_t count, uint64_t seed,
                           struct CUstream_st *stream)
{
    fake_stream_push(stream, fill, &(struct fill){type, buffer, count, seed, 0, 0}, sizeof(struct fill));
    return 0;
}

int tpp_kernel_fill_integers(enum tpp_bench_type type, void *buffer, uint64_t count, uint64_t seed, uint64_t first,
                             struct CUstream_st *stream)
{
    fake_stream_push(stream, fill, &(struct fill){type, buffer, count, seed, first, 1}, sizeof(struct fill));
    return 0;
}

struct operation {
    enum tpp_bench_memory kind;
    const void *inputs[TPP_BENCH_MAX_OPERANDS];
    void *outputs[TPP_BENCH_MAX_OPERANDS];
    uint64_t rows, width;
};

/* The inputs of a row as floats, 2 width each. */
static void read_row(const struct operation *operation, uint64_t row, float *values)
{
    const enum tpp_bench_type type = operation->kind == TPP_BENCH_ADAM ? TPP_BENCH_FP32 : TPP_BENCH_BF16;
    const uint64_t bytes = tpp_bench_type_bytes(type);
    for (size_t i = 0; i < TPP_BENCH_MAX_OPERANDS; i++) {
        const uint64_t one = tpp_bench_memory_input_bytes(operation->kind, i, 1, operation->width) / bytes;
        const uint64_t all =
            tpp_bench_memory_input_bytes(operation->kind, i, operation->rows, operation->width) / bytes;
        for (uint64_t j = 0; j < one; j++) {
            values[i * 2 * operation->width + j] =
                tpp_bench_element(type, operation->inputs[i], (all == one ? 0 : row * one) + j);
        }
    }
}

/* All columns of all rows: only small operations are run here. */
static int compute(void *context)
{
    const struct operation *operation = context;
    const int is_fp32 = operation->kind == TPP_BENCH_ADAM || operation->kind == TPP_BENCH_CROSS_ENTROPY;
    const enum tpp_bench_type type = is_fp32 ? TPP_BENCH_FP32 : TPP_BENCH_BF16;
    const uint64_t bytes = tpp_bench_type_bytes(type);
    const uint64_t columns = tpp_bench_memory_output_bytes(operation->kind, 0, 1, operation->width) / bytes;
    float *values = malloc(TPP_BENCH_MAX_OPERANDS * 2 * operation->width * sizeof *values);
    const float *inputs[TPP_BENCH_MAX_OPERANDS];
    for (size_t i = 0; i < TPP_BENCH_MAX_OPERANDS; i++) {
        inputs[i] = values + i * 2 * operation->width;
    }
    for (uint64_t row = 0; values && row < operation->rows; row++) {
        read_row(operation, row, values);
        for (uint64_t column = 0; column < columns; column++) {
            const double value = tpp_bench_memory_element(operation->kind, inputs, row, operation->width, column) +
                                 fake_setting("TPP_FAKE_WRONG");
            const uint32_t bits = tpp_bench_encode(type, (float)value);
            memcpy((char *)operation->outputs[0] + (row * columns + column) * bytes, &bits, bytes);
        }
    }
    free(values);
    return 0;
}

int tpp_kernel_memory(enum tpp_bench_memory kind, const void *const *inputs, void *const *outputs, uint64_t rows,
                      uint64_t width, struct CUstream_st *stream)
{
    struct operation operation = {.kind = kind, .rows = rows, .width = width};
    memcpy(operation.inputs, inputs, sizeof operation.inputs);
    memcpy(operation.outputs, outputs, sizeof operation.outputs);
    fake_stream_push(stream, compute, &operation, sizeof operation);
    return 0;
}

static int nothing(void *context)
{
    (void)context;
    return 0;
}

int tpp_kernel_empty(struct CUstream_st *stream)
{
    fake_stream_push(stream, nothing, "", 1);
    return 0;
}

/* 1 ns a cycle, and 2000 more for the launch. */
static int spin(void *context)
{
    struct timespec begin, at;
    uint64_t cycles;
    memcpy(&cycles, context, sizeof cycles);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        clock_gettime(CLOCK_MONOTONIC, &at);
    } while ((uint64_t)(at.tv_sec - begin.tv_sec) * 1000000000u + (uint64_t)at.tv_nsec - (uint64_t)begin.tv_nsec <
             cycles + 2000);
    return 0;
}

int tpp_kernel_spin(uint64_t cycles, struct CUstream_st *stream)
{
    fake_stream_push(stream, spin, &cycles, sizeof cycles);
    return 0;
}
