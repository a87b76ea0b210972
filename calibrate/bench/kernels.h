/* kernels.h - our own kernels: random data, and the memory-bound operations of a transformer layer.
 *
 * All return a status of the CUDA runtime (0 is success) and only put work into the stream. Sizes are elements; widths
 * are multiples of 8. */
#ifndef TPP_CALIBRATE_BENCH_KERNELS_H
#define TPP_CALIBRATE_BENCH_KERNELS_H

#include "calibrate/bench/host_memory.h"
#include "calibrate/bench/host_numbers.h"

#include <stdint.h>

struct CUstream_st;

#ifdef __cplusplus
extern "C" {
#endif

/* buffer[i] = tpp_bench_random_value(seed, i), rounded to the type. */
int tpp_kernel_fill_random(enum tpp_bench_type type, void *buffer, uint64_t count, uint64_t seed,
                           struct CUstream_st *stream);
/* buffer[i] = tpp_bench_small_integer(seed, first + i). */
int tpp_kernel_fill_integers(enum tpp_bench_type type, void *buffer, uint64_t count, uint64_t seed, uint64_t first,
                             struct CUstream_st *stream);
/* One memory-bound operation: see host_memory.h for what the buffers hold. */
int tpp_kernel_memory(enum tpp_bench_memory operation, const void *const *inputs, void *const *outputs, uint64_t rows,
                      uint64_t width, struct CUstream_st *stream);
int tpp_kernel_empty(struct CUstream_st *stream);
/* One block that runs for `cycles` of the SM's clock. */
int tpp_kernel_spin(uint64_t cycles, struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif
