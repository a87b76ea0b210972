/* host_memory.h - the memory-bound operations that are measured: what they read and write, and what must come out.
 *
 * Rows by width elements of bf16, but for Adam (fp32 states, one row). Names are those of the published tables where
 * they have one. */
#ifndef TPP_CALIBRATE_BENCH_HOST_MEMORY_H
#define TPP_CALIBRATE_BENCH_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define TPP_BENCH_MAX_OPERANDS 4

enum tpp_bench_memory {
    TPP_BENCH_COPY,                   /* y = a */
    TPP_BENCH_ADD,                    /* y = a + b: residual */
    TPP_BENCH_NORM,                   /* y = x w / rms(x), w in inputs[1], one row: RMSNorm */
    TPP_BENCH_NORM_BACKWARD,          /* dx of x, w, dy */
    TPP_BENCH_SWIGLU,                 /* y = silu(g) u, input rows are g then u: 2 width */
    TPP_BENCH_SWIGLU_BACKWARD,        /* dg, du (one row of 2 width) of g, u and dy */
    TPP_BENCH_SOFTMAX,                /* y = softmax(x) */
    TPP_BENCH_CROSS_ENTROPY,          /* loss (fp32, one a row) of logits; the target is row % width */
    TPP_BENCH_CROSS_ENTROPY_BACKWARD, /* gradient of logits: softmax - onehot */
    TPP_BENCH_ADAM,                   /* gradient, m, v, weight: fp32; writes m, v, weight and a bf16 weight */
    TPP_BENCH_MEMORY_COUNT,
};

const char *tpp_bench_memory_name(enum tpp_bench_memory operation);
/* Bytes of input or output i; 0 when there is none. Adam works in place: its outputs 0, 1 and 2 are its inputs 1, 2, 3.
 */
uint64_t tpp_bench_memory_input_bytes(enum tpp_bench_memory operation, size_t i, uint64_t rows, uint64_t width);
uint64_t tpp_bench_memory_output_bytes(enum tpp_bench_memory operation, size_t i, uint64_t rows, uint64_t width);
/* The least traffic: every input read once, every output written once; w of the norm counts once. */
uint64_t tpp_bench_memory_bytes(enum tpp_bench_memory operation, uint64_t rows, uint64_t width);

/* What element `column` of a row's (first) output must be; `inputs` are the row's inputs as floats (as they are after
 * rounding to bf16), w included. Computed in double. */
double tpp_bench_memory_element(enum tpp_bench_memory operation, const float *const *inputs, uint64_t row,
                                uint64_t width, uint64_t column);
/* How far a bf16 (fp32 for the loss and Adam) result may be from it. */
double tpp_bench_memory_tolerance(enum tpp_bench_memory operation, double value);

/* The constants of Adam's step. */
#define TPP_BENCH_ADAM_BETA1 0.9f
#define TPP_BENCH_ADAM_BETA2 0.95f
#define TPP_BENCH_ADAM_RATE 1e-3f
#define TPP_BENCH_ADAM_EPSILON 1e-8f
#define TPP_BENCH_NORM_EPSILON 1e-5f

#endif
