/* host_shapes.h - which matrix products and attentions to measure.
 *
 * The grids are made of the shapes that training makes and of points that tell the terms of the cost model apart. They
 * are ordered so that any beginning of them is a fair selection: the time budget of a program simply stops somewhere.
 */
#ifndef TPP_CALIBRATE_BENCH_HOST_SHAPES_H
#define TPP_CALIBRATE_BENCH_HOST_SHAPES_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_bench_layout {
    TPP_BENCH_TN, /* forward: activations (m x k, rows whole) times weights (n x k, rows whole) transposed */
    TPP_BENCH_NN, /* input gradient: output gradients (m x k) times weights (k x n) */
    TPP_BENCH_NT, /* weight gradient: output gradients (k x m) transposed times activations (k x n) */
};

/* Why a shape is in the grid. */
enum tpp_bench_reason {
    TPP_BENCH_MODEL,  /* a projection of a transformer layer, whole or sharded by tensor parallelism */
    TPP_BENCH_STEP,   /* around the end of a tile or of a wave */
    TPP_BENCH_SKINNY, /* one dimension is small */
    TPP_BENCH_ODD,    /* dimensions that are no multiples of 64, of 8, of 2 */
    TPP_BENCH_LARGE,  /* long enough to meet the power limit */
    TPP_BENCH_DEPTH,  /* one m, n over many k */
    TPP_BENCH_REASON_COUNT,
};

/* D (m x n, rows whole) = A (m x k) B (k x n). */
struct tpp_bench_gemm {
    uint64_t m, n, k;
    enum tpp_bench_layout layout;
    enum tpp_bench_reason reason;
    bool accumulates; /* D += A B in fp32, as Megatron's weight gradients */
};

const char *tpp_bench_layout_name(enum tpp_bench_layout layout); /* "TN", "NN", "NT" */
const char *tpp_bench_reason_name(enum tpp_bench_reason reason); /* "model", ... */
/* Where A[row, inner] and B[inner, column] lie in their buffers. */
uint64_t tpp_bench_gemm_a_index(const struct tpp_bench_gemm *gemm, uint64_t row, uint64_t inner);
uint64_t tpp_bench_gemm_b_index(const struct tpp_bench_gemm *gemm, uint64_t inner, uint64_t column);
/* Bytes of A, B and D. */
uint64_t tpp_bench_gemm_bytes(const struct tpp_bench_gemm *gemm, size_t input_bytes, size_t output_bytes);

struct tpp_bench_limits {
    uint64_t memory_bytes; /* what A, B and D (attention: all tensors) may take together */
    uint32_t num_sms;
    size_t element_bytes;
    uint64_t multiple; /* every dimension is a multiple of it: 16 for fp8, 1 for the others */
};

struct tpp_bench_gemm_list {
    struct tpp_bench_gemm *items; /* owned */
    size_t count, capacity;
};

/* All shapes of the grid that fit, each once. TPP_E_MEMORY only. */
enum tpp_code tpp_bench_gemm_grid(const struct tpp_bench_limits *limits, struct tpp_bench_gemm_list *list,
                                  struct tpp_error *err);
void tpp_bench_gemm_list_release(struct tpp_bench_gemm_list *list);

struct tpp_bench_attention {
    uint64_t batch, num_heads, num_query_groups, length, head_dim;
    bool is_causal;
};

struct tpp_bench_attention_list {
    struct tpp_bench_attention *items; /* owned */
    size_t count, capacity;
};

/* Bytes of Q, K, V, O, their gradients, the statistics and the fp32 sum of the query gradient. */
uint64_t tpp_bench_attention_bytes(const struct tpp_bench_attention *attention, size_t element_bytes);
/* Multiplications and additions of the forward pass, 4 b h s^2 d, half of it when causal (kernels README). */
double tpp_bench_attention_flops(const struct tpp_bench_attention *attention);
/* Lengths 512 .. 131072, head sizes 64, 128, 256, one to many heads, grouped and not, causal and not. */
enum tpp_code tpp_bench_attention_grid(const struct tpp_bench_limits *limits, struct tpp_bench_attention_list *list,
                                       struct tpp_error *err);
void tpp_bench_attention_list_release(struct tpp_bench_attention_list *list);

#endif
