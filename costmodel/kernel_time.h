/* kernel_time.h - seconds of one kernel on one GPU: GEMM, flash attention, memory-bound kernels (cost-model section 5).
 *
 * Pure functions of a tpp_gpu; sizes are elements and must be at least 1. All include the gap to the next kernel. */
#ifndef TPP_COSTMODEL_KERNEL_TIME_H
#define TPP_COSTMODEL_KERNEL_TIME_H

#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stdint.h>

enum tpp_gemm_kind {
    TPP_GEMM_FORWARD, /* forward and input gradient: 2-byte result */
    TPP_GEMM_WGRAD,   /* weight gradient accumulated into fp32 */
};

/* Products of a linear layer, whose operands are quantised along different dimensions. */
enum tpp_casts { TPP_CASTS_FORWARD, TPP_CASTS_DGRAD, TPP_CASTS_WGRAD };

/* Format of the operands of a product. */
enum tpp_number {
    TPP_NUMBER_PLAIN,     /* element_bytes each */
    TPP_NUMBER_FP8,       /* one scale a tensor */
    TPP_NUMBER_FP8_ROWS,  /* one scale a row of each operand (torchao's rowwise recipe) */
    TPP_NUMBER_FP8_BLOCK, /* one scale for 1 x 128 or 128 x 128 elements, applied outside the tensor cores */
    TPP_NUMBER_MXFP8_APART, /* MXFP8 quantised by one kernel for each dimension, the weight too (torchao) */
    TPP_NUMBER_MXFP8,     /* one scale for 32 elements, applied by the tensor cores (Blackwell) */
};

struct tpp_gemm {
    double m, n, k;    /* (m x k) times (k x n) */
    double batch;      /* independent products of that shape, 1 or more */
    enum tpp_gemm_kind kind;
    double element_bytes; /* of inputs and output: 2; 4 for fp32 */
    enum tpp_number number; /* cost-model 5.1 "FP8": faster product plus the cast of the first operand */
    enum tpp_casts casts;   /* torchao's numbers: which product of a linear layer */
    bool reuses_copies;     /* a weight gradient: the block-scaled recipes quantised both operands before */
};

/* A GEMM of a training step, cost-model 5.1 [fit] with g_max * g_sus for its g_max: the clocks sag under the power limit,
 * and other kernels share the caches. Checked by E10 in tests/unit/test_kernel_time.c. */
double tpp_gemm_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm);
/* The same run alone, in bursts: what kernel benchmarks measure. */
double tpp_gemm_burst_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm);

/* Products of all local experts in one launch, cost-model 5.1 "Grouped GEMM" [measured]: `gemm` is one expert's, `batch` of
 * them. A group of few rows wastes most of its tiles. */
double tpp_grouped_gemm_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm);

struct tpp_attention {
    double batch, heads;       /* sequences and local query heads */
    double query_length, key_length;
    double qk_head_dim, v_head_dim;
    bool causal;
    enum tpp_attention_kernel kernel; /* one of the flash kernels */
    bool deterministic;               /* backward: sums have one order */
    bool quantised;                   /* operands in MXFP8 */
};

/* Accumulators of the queries' gradients in flash-attention 2: 1, or with `deterministic` one for each of the blocks of threads
 * that walk over the keys of a head, of which there are as many as fill the GPU's `num_sms` (csrc/flash_attn/flash_api.cpp,
 * mha_bwd: nsplits). `heads`: of all sequences. */
double tpp_flash2_accumulators(double num_sms, double heads, bool deterministic);

/* Cost-model 5.2 [fit]; E10. Forward, and the backward that recomputes the scores. A deterministic backward of flash-attention 2 has g
 * blocks of threads a head instead of one for each of the nn columns of 128 keys; one runs on an SM at a time:
 *
 *     share of the rate = min(1, nn b a' / SMs / max(ceil(nn / g), ceil(g b a' / SMs) nn / g)),   g = ceil(SMs / (b a')), nn at most
 *
 * and clears and sums g accumulators instead of one. Of cuDNN and flash-attention 3: a share that was measured. */
double tpp_flash_forward_seconds(const struct tpp_gpu *gpu, const struct tpp_attention *attention);
double tpp_flash_backward_seconds(const struct tpp_gpu *gpu, const struct tpp_attention *attention);

/* One batched GEMM of unfused attention: x = batch * heads * query * key scores of head dim d, cost-model 5.2 and 15.3
 * (head dims that are not a multiple of 8 leave the tensor cores). Seconds without U and without the gap. */
double tpp_attention_gemm_seconds(const struct tpp_gpu *gpu, double scores, double rows, double head_dim);

/* bytes / (HBM rate reached) * factor + kernels * gap, cost-model 5.3. */
double tpp_memory_bound_seconds(const struct tpp_gpu *gpu, double bytes, double factor, double kernels);
/* HBM rate that memory-bound kernels reach, bytes per second. */
double tpp_memory_rate_bytes_per_second(const struct tpp_gpu *gpu);

#endif
