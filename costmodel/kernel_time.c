#include "costmodel/kernel_time.h"

#include <math.h>

/* Smaller tiles and what they reach relative to the preferred one [fit], cost-model 5.1. */
struct tile {
    double m, n, fraction;
};

double tpp_memory_rate_bytes_per_second(const struct tpp_gpu *gpu)
{
    return gpu->memory_bandwidth_bytes_per_second * gpu->memory_efficiency_fraction;
}

double tpp_memory_bound_seconds(const struct tpp_gpu *gpu, double bytes, double factor, double kernels)
{
    return bytes / tpp_memory_rate_bytes_per_second(gpu) * factor + kernels * gpu->kernel_gap_seconds;
}

/* Product time with one tile shape:
 *
 *     t = 2 B M N K * wave * pad / (peak * g_max * q * K / (K + k0))
 *
 * wave: share of the last, partly filled wave of tiles; pad: work on the padding of edge tiles.
 * Source: cost-model 5.1, fitted to 183 A100 and 514 B200 published shapes. */
static double product_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm, const struct tile *tile,
                              double peak_flops_per_second)
{
    const double rows = ceil(gemm->m / tile->m), columns = ceil(gemm->n / tile->n);
    const double waves = gemm->batch * rows * columns / gpu->num_sms;
    const double softening = waves > 1 ? gpu->gemm_wave_quantization_fraction : 1.0;
    const double wave = 1 + (ceil(waves) / waves - 1) * softening;
    const double pad = 1 + 0.7 * (rows * tile->m * columns * tile->n / (gemm->m * gemm->n) - 1);
    const double efficiency = gpu->gemm_max_fraction * tile->fraction * gemm->k / (gemm->k + gpu->gemm_half_k);
    return 2 * gemm->batch * gemm->m * gemm->n * gemm->k * wave * pad / (peak_flops_per_second * efficiency);
}

/* Rate of block-scaled products over that of products with one scale a tensor: on the 464 shapes of 4096 and more that both
 * aiconfigurator tables of H100 SXM have, median 0.552 against 0.619 of the FP8 peak. DeepGEMM's best on the same GPU
 * reach 0.72 (1426 TFLOP/s): a good kernel loses nothing, the usual one a tenth. */
static const double block_scaling_fraction = 0.89;
/* Rate of products with a scale for each row over that of products with one scale a tensor [fit on torchao's rowwise step of Llama 3 8B
 * on H100 against its bf16 and tensorwise ones; held against four rowwise steps of torchtitan, which it leaves 19 to 32 % too fast,
 * and two of MI300X]. */
static const double row_scaling_fraction = 0.86;
/* Traffic of quantising by rows, bytes an element of the first and of the second operand (torchao, testing/training/roofline_utils.py,
 * "rowwise"). Forward: both read and written once, 2 + 1. The weight again along its columns, which goes through a transposed copy:
 * 2 + 2, 2 + 1. The weight gradient wants both operands along their other dimension: the transposed copy comes with the first
 * cast, 2, and is read and written, 2 + 1. */
static const double row_cast_bytes[][2] = {
    [TPP_CASTS_FORWARD] = {3, 3}, [TPP_CASTS_DGRAD] = {3, 7}, [TPP_CASTS_WGRAD] = {5, 5}};
/* One scale of 8 bits for 32 elements. */
static const double mx_element_bytes = 1 + 1.0 / 32;

/* Bytes an element of the first operand, those of the second included. MXFP8: each of the two operands of each product is read
 * and written once, 2 + 1 and its scale ("mxfp8_cublas"). */
static double torchao_cast_bytes(const struct tpp_gemm *gemm)
{
    const double mx = 2 + mx_element_bytes, second = gemm->n / gemm->m;
    if (gemm->number == TPP_NUMBER_MXFP8_APART)
        return mx + mx * second;
    return row_cast_bytes[gemm->casts][0] + row_cast_bytes[gemm->casts][1] * second;
}

/* Twice the peak less what FP8 loses of it, r, for the inner loop alone: a tile's start and its 16-bit result take as long as
 * in bf16, where they weigh as k0 columns,
 *
 *     t = t_bf16 (K / r + k0) / (K + k0)
 *
 * Held against the best products of both aiconfigurator tables by K: 1.48, 1.57, 1.70, 1.73 times as fast on H100 at 512, 1024,
 * 2048 and 4096, here 1.42, 1.54, 1.62, 1.67. And the cast of the first operand: 3 bytes an element in each product of the
 * per-tensor recipes [fit on 30 published rows]. The block-scaled recipes quantise the input of forward and the
 * gradient of the output once, along rows and columns at once: 2 bytes read, two copies written; the weight
 * gradient multiplies the second copies (Transformer Engine, MXFP8BlockScaling and Float8BlockScaling). */
static double quantised_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm, double plain_seconds)
{
    double rate = 2 * gpu->gemm_fp8_fraction, cast_bytes = 3;
    if (gemm->number == TPP_NUMBER_FP8_BLOCK)
        rate *= block_scaling_fraction;
    if (gemm->number == TPP_NUMBER_FP8_ROWS)
        rate *= row_scaling_fraction;
    if (gemm->number == TPP_NUMBER_FP8_ROWS || gemm->number == TPP_NUMBER_MXFP8_APART)
        cast_bytes = torchao_cast_bytes(gemm);
    else if (gemm->number != TPP_NUMBER_FP8)
        cast_bytes = gemm->reuses_copies ? 0 : 2 + 2 * mx_element_bytes;
    const double depth = (gemm->k / rate + gpu->gemm_half_k) / (gemm->k + gpu->gemm_half_k);
    return plain_seconds * depth +
           cast_bytes * gemm->batch * gemm->m * gemm->k / tpp_memory_rate_bytes_per_second(gpu);
}

static double gemm_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm, double sustained_fraction)
{
    const struct tile tiles[] = {
        {gpu->gemm_tile_m, gpu->gemm_tile_n, 1.00}, {128, 128, 0.93}, {64, 128, 0.80}};
    const bool is_fp32 = gemm->element_bytes > 2;
    /* fp32 products run as tf32 where the GPU has it (the default of the training frameworks costed here). */
    const double tf32 = gpu->tf32_flops_per_second > 0 ? gpu->tf32_flops_per_second : gpu->fp32_flops_per_second;
    const double peak = (is_fp32 ? tf32 : gpu->bf16_flops_per_second) * sustained_fraction;
    double seconds = INFINITY;
    for (int i = 0; i < 3; i++)
        seconds = fmin(seconds, product_seconds(gpu, gemm, &tiles[i], peak));
    if (gemm->kind == TPP_GEMM_WGRAD)
        seconds /= gpu->gemm_wgrad_fraction;
    const double result_bytes = gemm->kind == TPP_GEMM_WGRAD ? 8 : gemm->element_bytes;
    const double bytes = gemm->batch * (gemm->element_bytes * gemm->k * (gemm->m + gemm->n) +
                                        gemm->m * gemm->n * result_bytes);
    seconds = fmax(seconds, bytes / tpp_memory_rate_bytes_per_second(gpu)) + gpu->kernel_gap_seconds;
    return gemm->number == TPP_NUMBER_PLAIN ? seconds : quantised_seconds(gpu, gemm, seconds);
}

double tpp_gemm_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm)
{
    return gemm_seconds(gpu, gemm, gpu->gemm_sustained_fraction);
}

double tpp_gemm_burst_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm)
{
    return gemm_seconds(gpu, gemm, 1);
}

/* Loss of one group, rows; of a weight gradient, factor; and the start of one group [measured on A100 and B200 tables]. */
static const double group_rows_lost = 110, group_wgrad_factor = 1.35, group_seconds = 0.3e-6;

/* One product with the rows of all groups, times (M + 110) / M with M the rows of one group: tokens of an expert in
 * forward and dgrad, weight rows in wgrad. */
double tpp_grouped_gemm_seconds(const struct tpp_gpu *gpu, const struct tpp_gemm *gemm)
{
    if (gemm->batch <= 1)
        return tpp_gemm_seconds(gpu, gemm);
    struct tpp_gemm joined = *gemm;
    joined.m = gemm->m * gemm->batch;
    joined.batch = 1;
    const double loss = (gemm->m + group_rows_lost) / gemm->m;
    const double factor = gemm->kind == TPP_GEMM_WGRAD ? group_wgrad_factor : 1;
    return tpp_gemm_seconds(gpu, &joined) * loss * factor + gemm->batch * group_seconds;
}

/* r_d: heads of 64 and less, and those whose keys are wider than their values (latent attention). */
static double head_fraction(const struct tpp_gpu *gpu, const struct tpp_attention *attention)
{
    if (attention->kernel == TPP_ATTENTION_FLASH3 && attention->qk_head_dim > attention->v_head_dim)
        return gpu->flash3_wide_head_fraction;
    return attention->qk_head_dim <= 64 ? gpu->flash_small_head_fraction[attention->kernel] : 1;
}

/* Share of the kernel's best rate at this shape, cost-model 5.2:
 *
 *     e = blk / (blk + kappa * SMs) * s_kv / (s_kv + s0 * (causal ? 2 : 1)) * r_d,   blk = b a' ceil(s_q / 128) */
static double flash_shape_fraction(const struct tpp_gpu *gpu, const struct tpp_attention *attention)
{
    const double blocks = attention->batch * attention->heads * ceil(attention->query_length / 128);
    const double half_length = gpu->flash_half_length * (attention->causal ? 2 : 1);
    return blocks / (blocks + gpu->flash_block_constant * gpu->num_sms) * attention->key_length /
           (attention->key_length + half_length) * head_fraction(gpu, attention);
}

/* Launches of one call: the kernel and its epilogue; dO*O, the kernel, and the conversions of the accumulators. */
static const double flash_forward_kernels = 2, flash_backward_kernels = 4;

static double flash_flops(const struct tpp_attention *attention)
{
    return 2 * attention->batch * attention->heads * attention->query_length * attention->key_length *
           (attention->qk_head_dim + attention->v_head_dim) * (attention->causal ? 0.5 : 1.0);
}

/* Rate of MXFP8 attention over that in 16 bits: cuDNN 9.22, causal, on GB200 and GB300, medians of lengths 2048 to 32768 and of both
 * (NVIDIA/cudnn-frontend, benchmark/sdpa_benchmark_training/results, 24 April 2026). Heads of 128 as Llama's, wide ones of DeepSeek-V3
 * and Kimi K2, gpt-oss's of 64; at 4096 the backward of heads of 128 is slower than in 16 bits, at 32768 faster. */
static double quantised_fraction(const struct tpp_attention *attention, bool forward)
{
    if (!attention->quantised)
        return 1;
    if (attention->qk_head_dim > attention->v_head_dim)
        return forward ? 1.46 : 1.34;
    return forward ? (attention->qk_head_dim <= 64 ? 1.08 : 1.3) : 0.97;
}

double tpp_flash_forward_seconds(const struct tpp_gpu *gpu, const struct tpp_attention *attention)
{
    const double rate = gpu->bf16_flops_per_second * gpu->flash_forward_fraction[attention->kernel] *
                        flash_shape_fraction(gpu, attention) * quantised_fraction(attention, true);
    return flash_flops(attention) / rate + flash_forward_kernels * gpu->kernel_gap_seconds;
}

double tpp_flash2_accumulators(double num_sms, double heads, bool deterministic)
{
    return deterministic ? ceil(num_sms / heads) : 1;
}

/* Deterministic over fast backward of cuDNN, causal: 0.842 to 0.915 on H200 (2k to 16k), 0.855 to 0.910 on GB200 (4k to 32k); of
 * FlashAttention's newer package on H200 0.811 to 0.925 (NVIDIA/cudnn-frontend, benchmark/attention_training). */
static const double flash3_deterministic_fraction = 0.875;
static const double keys_per_column = 128;

/* Held against cudnn-frontend's ten pairs of flash-attention 2 on A100, 2 x 64 heads of 128: 0.53 to 0.61, here 0.59. */
static double deterministic_fraction(const struct tpp_gpu *gpu, const struct tpp_attention *attention)
{
    if (!attention->deterministic || attention->kernel == TPP_ATTENTION_FLASH1)
        return 1;
    if (attention->kernel == TPP_ATTENTION_FLASH3)
        return flash3_deterministic_fraction;
    const double heads = attention->batch * attention->heads, columns = ceil(attention->key_length / keys_per_column);
    const double blocks = fmin(columns, tpp_flash2_accumulators(gpu->num_sms, heads, true));
    const double longest = fmax(ceil(columns / blocks), ceil(blocks * heads / gpu->num_sms) * columns / blocks);
    return fmin(1, columns * heads / gpu->num_sms / longest);
}

/* Of accumulators beyond the first, fp32: cleared, and read for the sum. */
static double accumulator_seconds(const struct tpp_gpu *gpu, const struct tpp_attention *attention)
{
    if (!attention->deterministic || attention->kernel != TPP_ATTENTION_FLASH2)
        return 0;
    const double heads = attention->batch * attention->heads;
    const double more = tpp_flash2_accumulators(gpu->num_sms, heads, true) - 1;
    return more * 8 * heads * attention->query_length * attention->qk_head_dim / tpp_memory_rate_bytes_per_second(gpu);
}

double tpp_flash_backward_seconds(const struct tpp_gpu *gpu, const struct tpp_attention *attention)
{
    const double rate = gpu->bf16_flops_per_second * gpu->flash_backward_fraction[attention->kernel] *
                        flash_shape_fraction(gpu, attention) * deterministic_fraction(gpu, attention) *
                        quantised_fraction(attention, false);
    return 2.5 * flash_flops(attention) / rate + accumulator_seconds(gpu, attention) +
           flash_backward_kernels * gpu->kernel_gap_seconds;
}

double tpp_attention_gemm_seconds(const struct tpp_gpu *gpu, double scores, double rows, double head_dim)
{
    /* 15.3 [fit]: an unaligned head dim leaves the tensor cores, 0.04 instead of 0.55 of the peak. */
    const double fraction = fmod(head_dim, 8) != 0 ? 0.04 : 0.55;
    const double compute = 2 * scores * head_dim / (fraction * gpu->bf16_flops_per_second);
    const double memory = (2 * scores + 4 * rows * head_dim) / tpp_memory_rate_bytes_per_second(gpu);
    return fmax(compute, memory);
}
