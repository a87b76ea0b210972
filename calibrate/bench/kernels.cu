/* See kernels.h. Every memory-bound kernel moves 16 bytes a thread and step, which is what the device's memory wants;
 * rows are one block each, and what a row needs twice comes from the caches the second time. */
#include "calibrate/bench/kernels.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#define THREADS 256
#define ROW_THREADS 512

/* ---- random data */

struct random_source {
    uint64_t seed, first;
    bool is_integer;
    __device__ float at(uint64_t i) const
    {
        return is_integer ? tpp_bench_small_integer(seed, first + i) : tpp_bench_random_value(seed, first + i);
    }
};

__device__ static void store(float *to, float value)
{
    *to = value;
}
__device__ static void store(__nv_bfloat16 *to, float value)
{
    *to = __float2bfloat16_rn(value);
}
__device__ static void store(__half *to, float value)
{
    *to = __float2half_rn(value);
}
__device__ static void store(__nv_fp8_storage_t *to, float value)
{
    *to = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
}

template <typename T> __global__ static void fill(T *buffer, uint64_t count, struct random_source source)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count; i += step) {
        store(buffer + i, source.at(i));
    }
}

static int fill_type(enum tpp_bench_type type, void *buffer, uint64_t count, struct random_source source,
                     cudaStream_t stream)
{
    switch (type) {
    case TPP_BENCH_BF16:
        fill<<<2048, THREADS, 0, stream>>>((__nv_bfloat16 *)buffer, count, source);
        break;
    case TPP_BENCH_FP16:
        fill<<<2048, THREADS, 0, stream>>>((__half *)buffer, count, source);
        break;
    case TPP_BENCH_FP8:
        fill<<<2048, THREADS, 0, stream>>>((__nv_fp8_storage_t *)buffer, count, source);
        break;
    default:
        fill<<<2048, THREADS, 0, stream>>>((float *)buffer, count, source);
        break;
    }
    return cudaGetLastError();
}

extern "C" int tpp_kernel_fill_random(enum tpp_bench_type type, void *buffer, uint64_t count, uint64_t seed,
                                      struct CUstream_st *stream)
{
    const struct random_source source = {seed, 0, false};
    return fill_type(type, buffer, count, source, stream);
}

extern "C" int tpp_kernel_fill_integers(enum tpp_bench_type type, void *buffer, uint64_t count, uint64_t seed,
                                        uint64_t first, struct CUstream_st *stream)
{
    const struct random_source source = {seed, first, true};
    return fill_type(type, buffer, count, source, stream);
}

/* ---- eight bf16 at a time */

struct eight {
    float v[8];
};

__device__ static struct eight load8(const __nv_bfloat16 *from)
{
    const uint4 raw = *(const uint4 *)from;
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
    struct eight out;
    for (int i = 0; i < 4; i++) {
        out.v[2 * i] = __uint_as_float(words[i] << 16);
        out.v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
    return out;
}

__device__ static void store8(__nv_bfloat16 *to, const struct eight &in)
{
    uint32_t words[4];
    for (int i = 0; i < 4; i++) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(in.v[2 * i], in.v[2 * i + 1]);
        words[i] = *(const uint32_t *)&pair;
    }
    *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
}

/* The sum (or the largest) of a value over the block; every thread gets it. */
template <bool IS_MAX> __device__ static float block_reduce(float value)
{
    __shared__ float parts[32];
    __shared__ float result;
    for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = IS_MAX ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        value = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : (IS_MAX ? -INFINITY : 0.0f);
        for (int offset = 16; offset > 0; offset /= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, value, offset);
            value = IS_MAX ? fmaxf(value, other) : value + other;
        }
        if (threadIdx.x == 0) {
            result = value;
        }
    }
    __syncthreads();
    const float kept = result;
    __syncthreads(); /* the next reduction writes `parts` again */
    return kept;
}

/* ---- the operations */

__global__ static void copy_kernel(const __nv_bfloat16 *a, __nv_bfloat16 *y, uint64_t count8)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count8; i += step) {
        ((uint4 *)y)[i] = ((const uint4 *)a)[i];
    }
}

__global__ static void add_kernel(const __nv_bfloat16 *a, const __nv_bfloat16 *b, __nv_bfloat16 *y, uint64_t count8)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count8; i += step) {
        struct eight left = load8(a + 8 * i);
        const struct eight right = load8(b + 8 * i);
        for (int j = 0; j < 8; j++) {
            left.v[j] += right.v[j];
        }
        store8(y + 8 * i, left);
    }
}

__device__ static float inverse_rms(const __nv_bfloat16 *x, uint64_t width)
{
    float squares = 0;
    for (uint64_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        const struct eight in = load8(x + i);
        for (int j = 0; j < 8; j++) {
            squares += in.v[j] * in.v[j];
        }
    }
    return rsqrtf(block_reduce<false>(squares) / (float)width + TPP_BENCH_NORM_EPSILON);
}

__global__ static void norm_kernel(const __nv_bfloat16 *x, const __nv_bfloat16 *w, __nv_bfloat16 *y, uint64_t width)
{
    x += blockIdx.x * width;
    y += blockIdx.x * width;
    const float r = inverse_rms(x, width);
    for (uint64_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        struct eight in = load8(x + i);
        const struct eight scale = load8(w + i);
        for (int j = 0; j < 8; j++) {
            in.v[j] *= r * scale.v[j];
        }
        store8(y + i, in);
    }
}

__global__ static void norm_backward_kernel(const __nv_bfloat16 *x, const __nv_bfloat16 *w, const __nv_bfloat16 *dy,
                                            __nv_bfloat16 *dx, uint64_t width)
{
    x += blockIdx.x * width;
    dy += blockIdx.x * width;
    dx += blockIdx.x * width;
    float squares = 0, dot = 0;
    for (uint64_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        const struct eight in = load8(x + i), scale = load8(w + i), gradient = load8(dy + i);
        for (int j = 0; j < 8; j++) {
            squares += in.v[j] * in.v[j];
            dot += in.v[j] * scale.v[j] * gradient.v[j];
        }
    }
    const float r = rsqrtf(block_reduce<false>(squares) / (float)width + TPP_BENCH_NORM_EPSILON);
    const float mean = block_reduce<false>(dot) / (float)width;
    for (uint64_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        struct eight in = load8(x + i);
        const struct eight scale = load8(w + i), gradient = load8(dy + i);
        for (int j = 0; j < 8; j++) {
            in.v[j] = r * (scale.v[j] * gradient.v[j] - in.v[j] * r * r * mean);
        }
        store8(dx + i, in);
    }
}

/* Rows of the input are 2 width: gate, then up. */
__global__ static void swiglu_kernel(const __nv_bfloat16 *x, __nv_bfloat16 *y, uint64_t count8, uint64_t width)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count8; i += step) {
        const uint64_t row = i * 8 / width, column = i * 8 % width;
        struct eight gate = load8(x + row * 2 * width + column);
        const struct eight up = load8(x + row * 2 * width + width + column);
        for (int j = 0; j < 8; j++) {
            gate.v[j] = gate.v[j] / (1 + __expf(-gate.v[j])) * up.v[j];
        }
        store8(y + 8 * i, gate);
    }
}

__global__ static void swiglu_backward_kernel(const __nv_bfloat16 *x, const __nv_bfloat16 *dy, __nv_bfloat16 *dx,
                                              uint64_t count8, uint64_t width)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count8; i += step) {
        const uint64_t row = i * 8 / width, column = i * 8 % width, at = row * 2 * width + column;
        struct eight gate = load8(x + at), up = load8(x + at + width);
        const struct eight gradient = load8(dy + 8 * i);
        for (int j = 0; j < 8; j++) {
            const float g = gate.v[j], u = up.v[j], s = 1 / (1 + __expf(-g));
            gate.v[j] = gradient.v[j] * u * s * (1 + g * (1 - s));
            up.v[j] = gradient.v[j] * g * s;
        }
        store8(dx + at, gate);
        store8(dx + at + width, up);
    }
}

/* The largest value and the sum of exp(x - largest) of a row, in one pass: a thread rescales its sum when it meets a
 * larger value. */
__device__ static void softmax_statistics(const __nv_bfloat16 *x, uint64_t width, float *largest, float *sum)
{
    float own_largest = -INFINITY, own_sum = 0;
    for (uint64_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        const struct eight in = load8(x + i);
        float here = own_largest;
        for (int j = 0; j < 8; j++) {
            here = fmaxf(here, in.v[j]);
        }
        own_sum *= __expf(own_largest - here);
        own_largest = here;
        for (int j = 0; j < 8; j++) {
            own_sum += __expf(in.v[j] - here);
        }
    }
    *largest = block_reduce<true>(own_largest);
    /* A thread without elements has -inf and 0. */
    *sum = block_reduce<false>(own_sum == 0 ? 0 : own_sum * __expf(own_largest - *largest));
}

__global__ static void softmax_kernel(const __nv_bfloat16 *x, __nv_bfloat16 *y, uint64_t width)
{
    float largest, sum;
    x += blockIdx.x * width;
    y += blockIdx.x * width;
    softmax_statistics(x, width, &largest, &sum);
    for (uint64_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        struct eight in = load8(x + i);
        for (int j = 0; j < 8; j++) {
            in.v[j] = __expf(in.v[j] - largest) / sum;
        }
        store8(y + i, in);
    }
}

__global__ static void cross_entropy_kernel(const __nv_bfloat16 *x, float *loss, uint64_t width)
{
    float largest, sum;
    x += blockIdx.x * width;
    softmax_statistics(x, width, &largest, &sum);
    if (threadIdx.x == 0) {
        loss[blockIdx.x] = largest + logf(sum) - __bfloat162float(x[blockIdx.x % width]);
    }
}

__global__ static void cross_entropy_backward_kernel(const __nv_bfloat16 *x, __nv_bfloat16 *dx, uint64_t width)
{
    float largest, sum;
    x += blockIdx.x * width;
    dx += blockIdx.x * width;
    const uint64_t target = blockIdx.x % width;
    softmax_statistics(x, width, &largest, &sum);
    for (uint64_t i = threadIdx.x * 8; i < width; i += blockDim.x * 8) {
        struct eight in = load8(x + i);
        for (int j = 0; j < 8; j++) {
            in.v[j] = __expf(in.v[j] - largest) / sum - (i + j == target ? 1.0f : 0.0f);
        }
        store8(dx + i, in);
    }
}

__global__ static void adam_kernel(const float4 *gradient, float4 *m, float4 *v, float4 *weight, __nv_bfloat162 *out,
                                   uint64_t count4)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < count4; i += step) {
        const float4 g4 = gradient[i];
        float4 m4 = m[i], v4 = v[i], w4 = weight[i];
        const float *g = &g4.x;
        float *first = &m4.x, *second = &v4.x, *w = &w4.x;
        for (int j = 0; j < 4; j++) {
            first[j] = TPP_BENCH_ADAM_BETA1 * first[j] + (1 - TPP_BENCH_ADAM_BETA1) * g[j];
            /* The data of a measurement are random: |v| keeps the root real. */
            second[j] = TPP_BENCH_ADAM_BETA2 * fabsf(second[j]) + (1 - TPP_BENCH_ADAM_BETA2) * g[j] * g[j];
            w[j] -= TPP_BENCH_ADAM_RATE * first[j] / (sqrtf(second[j]) + TPP_BENCH_ADAM_EPSILON);
        }
        m[i] = m4;
        v[i] = v4;
        weight[i] = w4;
        out[2 * i] = __floats2bfloat162_rn(w4.x, w4.y);
        out[2 * i + 1] = __floats2bfloat162_rn(w4.z, w4.w);
    }
}

/* Blocks for an elementwise kernel: each thread does a few steps of 16 bytes. */
static unsigned blocks_for(uint64_t steps)
{
    const uint64_t blocks = (steps + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 1048576 ? blocks : 1048576);
}

static int elementwise(enum tpp_bench_memory operation, const void *const *inputs, void *const *outputs, uint64_t rows,
                       uint64_t width, cudaStream_t stream)
{
    const __nv_bfloat16 *a = (const __nv_bfloat16 *)inputs[0], *b = (const __nv_bfloat16 *)inputs[1];
    __nv_bfloat16 *y = (__nv_bfloat16 *)outputs[0];
    const uint64_t count8 = rows * width / 8;
    const unsigned blocks = blocks_for(count8);
    switch (operation) {
    case TPP_BENCH_COPY:
        copy_kernel<<<blocks, THREADS, 0, stream>>>(a, y, count8);
        break;
    case TPP_BENCH_ADD:
        add_kernel<<<blocks, THREADS, 0, stream>>>(a, b, y, count8);
        break;
    case TPP_BENCH_SWIGLU:
        swiglu_kernel<<<blocks, THREADS, 0, stream>>>(a, y, count8, width);
        break;
    default:
        swiglu_backward_kernel<<<blocks, THREADS, 0, stream>>>(a, b, y, count8, width);
        break;
    }
    return cudaGetLastError();
}

static int rowwise(enum tpp_bench_memory operation, const void *const *inputs, void *const *outputs, uint64_t rows,
                   uint64_t width, cudaStream_t stream)
{
    const __nv_bfloat16 *x = (const __nv_bfloat16 *)inputs[0], *w = (const __nv_bfloat16 *)inputs[1];
    __nv_bfloat16 *y = (__nv_bfloat16 *)outputs[0];
    const unsigned blocks = (unsigned)rows;
    switch (operation) {
    case TPP_BENCH_NORM:
        norm_kernel<<<blocks, ROW_THREADS, 0, stream>>>(x, w, y, width);
        break;
    case TPP_BENCH_NORM_BACKWARD:
        norm_backward_kernel<<<blocks, ROW_THREADS, 0, stream>>>(x, w, (const __nv_bfloat16 *)inputs[2], y, width);
        break;
    case TPP_BENCH_SOFTMAX:
        softmax_kernel<<<blocks, ROW_THREADS, 0, stream>>>(x, y, width);
        break;
    case TPP_BENCH_CROSS_ENTROPY:
        cross_entropy_kernel<<<blocks, ROW_THREADS, 0, stream>>>(x, (float *)outputs[0], width);
        break;
    default:
        cross_entropy_backward_kernel<<<blocks, ROW_THREADS, 0, stream>>>(x, y, width);
        break;
    }
    return cudaGetLastError();
}

extern "C" int tpp_kernel_memory(enum tpp_bench_memory operation, const void *const *inputs, void *const *outputs,
                                 uint64_t rows, uint64_t width, struct CUstream_st *stream)
{
    switch (operation) {
    case TPP_BENCH_ADAM:
        adam_kernel<<<blocks_for(rows * width / 4), THREADS, 0, stream>>>(
            (const float4 *)inputs[0], (float4 *)outputs[0], (float4 *)outputs[1], (float4 *)outputs[2],
            (__nv_bfloat162 *)outputs[3], rows * width / 4);
        return cudaGetLastError();
    case TPP_BENCH_COPY:
    case TPP_BENCH_ADD:
    case TPP_BENCH_SWIGLU:
    case TPP_BENCH_SWIGLU_BACKWARD:
        return elementwise(operation, inputs, outputs, rows, width, stream);
    default:
        return rowwise(operation, inputs, outputs, rows, width, stream);
    }
}

/* ---- launch costs */

__global__ static void empty_kernel(void)
{
}

__global__ static void spin_kernel(uint64_t cycles)
{
    const long long begin = clock64();
    while ((uint64_t)(clock64() - begin) < cycles) {
    }
}

extern "C" int tpp_kernel_empty(struct CUstream_st *stream)
{
    empty_kernel<<<1, 32, 0, stream>>>();
    return cudaGetLastError();
}

extern "C" int tpp_kernel_spin(uint64_t cycles, struct CUstream_st *stream)
{
    spin_kernel<<<1, 1, 0, stream>>>(cycles);
    return cudaGetLastError();
}
