/* host_numbers.h - number formats of the GPU on the host, and the random data of every measurement.
 *
 * An element of a buffer is a function of (seed, index), so that the host can say what any element is without reading
 * the buffer. The functions marked for both sides are compiled by nvcc too: host and device must agree bit for bit. */
#ifndef TPP_CALIBRATE_BENCH_HOST_NUMBERS_H
#define TPP_CALIBRATE_BENCH_HOST_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define TPP_BENCH_BOTH static __host__ __device__ inline
#else
#define TPP_BENCH_BOTH static inline
#endif

enum tpp_bench_type { TPP_BENCH_FP32, TPP_BENCH_BF16, TPP_BENCH_FP16, TPP_BENCH_FP8, TPP_BENCH_TYPE_COUNT };

/* splitmix64 of a counter. */
TPP_BENCH_BOTH uint64_t tpp_bench_hash(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Bell-shaped: the sum of four 16-bit uniforms, scaled to standard deviation 1 (4 sqrt(1/12) = 1/sqrt(3) ... each
 * uniform on [0,1) has variance 1/12, four of them 1/3). All steps are exact in fp32 but the last product. */
TPP_BENCH_BOTH float tpp_bench_random_value(uint64_t seed, uint64_t index)
{
    const uint64_t bits = tpp_bench_hash(seed, index);
    const uint32_t sum = (uint32_t)(bits & 0xffff) + (uint32_t)((bits >> 16) & 0xffff) +
                         (uint32_t)((bits >> 32) & 0xffff) + (uint32_t)(bits >> 48);
    return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

/* -2, -1, 1 or 2: sums of them over 64 ranks are exact in bf16. */
TPP_BENCH_BOTH float tpp_bench_small_integer(uint64_t seed, uint64_t index)
{
    const uint32_t bits = (uint32_t)(tpp_bench_hash(seed, index) >> 62);
    const float size = (bits & 1) ? 2.0f : 1.0f;
    return (bits & 2) ? -size : size;
}

size_t tpp_bench_type_bytes(enum tpp_bench_type type);
const char *tpp_bench_type_name(enum tpp_bench_type type); /* "fp32", "bf16", "fp16", "fp8" (e4m3) */
/* Half the relative distance of two neighbours: 2^-24, 2^-8, 2^-11, 2^-4. */
double tpp_bench_type_rounding(enum tpp_bench_type type);
/* To the nearest, ties to even; fp8 is e4m3 and saturates at 448, fp16 goes to infinity. */
uint32_t tpp_bench_encode(enum tpp_bench_type type, float value);
float tpp_bench_decode(enum tpp_bench_type type, uint32_t bits);
/* The value after rounding to the type: decode(encode(value)), fast for bf16, which checks ask for by the million. */
float tpp_bench_round(enum tpp_bench_type type, float value);
/* Element `index` of a buffer in memory. */
float tpp_bench_element(enum tpp_bench_type type, const void *buffer, size_t index);

#endif
