/* host_check.h - are the results right? What a matrix product and a collective must have produced, element by element,
 * from the data that host_numbers.h generates. */
#ifndef TPP_CALIBRATE_BENCH_HOST_CHECK_H
#define TPP_CALIBRATE_BENCH_HOST_CHECK_H

#include "calibrate/bench/host_collectives.h"
#include "calibrate/bench/host_numbers.h"
#include "calibrate/bench/host_shapes.h"

/* One element of D = A B with random data as cuBLAS stores it for the layout (host_shapes.h). A begins at element
 * `a_first` and B at `b_first` of a buffer of tpp_bench_random_value(seed, index). Summed in double. */
double tpp_bench_gemm_element(const struct tpp_bench_gemm *gemm, enum tpp_bench_type type, uint64_t seed,
                              uint64_t a_first, uint64_t b_first, uint64_t row, uint64_t column);

/* How far a right result of a product over k terms of unit variance may be from the exact one: the rounding of the
 * accumulation, and that of the output, of the value and of parts of it. Below a fifth of
 * sqrt(k), the size of a result; a fortieth and less without fp8. */
double tpp_bench_gemm_tolerance(enum tpp_bench_type input, enum tpp_bench_type output, uint64_t k, double value);

/* Attention with random data: tensor t (0: q, 1: k, 2: v, 3: the gradient of the output) is
 * tpp_bench_random_value(seed + t, index), stored as batch, length, heads, head size (query groups for k and v).
 * One row of the output, and of the gradient of q, into `row_values` of head_dim numbers. `scratch` has `length`
 * numbers. Summed in double; k and v of the row's group are made anew, so a long row takes a while. */
void tpp_bench_attention_output_row(const struct tpp_bench_attention *shape, enum tpp_bench_type type, uint64_t seed,
                                    uint64_t batch, uint64_t head, uint64_t row, double *scratch, double *row_values);
void tpp_bench_attention_query_gradient_row(const struct tpp_bench_attention *shape, enum tpp_bench_type type,
                                            uint64_t seed, uint64_t batch, uint64_t head, uint64_t row, double *scratch,
                                            double *row_values);
/* Numbers of `found` that are further from `wanted` than rounding explains: the probabilities and their derivatives are
 * rounded to the type inside the kernel, so an error is compared with the size of the whole row. */
uint64_t tpp_bench_attention_count_wrong(enum tpp_bench_type type, const double *wanted, const void *found,
                                         uint64_t head_dim);

/* What element `index` of rank `position`'s result must be; the input of rank r is tpp_bench_small_integer with seed
 * `seed + r` over the index in r's own send buffer. `count` is elements of one part: the buffer of all_reduce and
 * send_recv, the part of one rank for the others. */
double tpp_bench_collective_element(enum tpp_bench_collective collective, uint64_t seed, uint32_t num_ranks,
                                    uint32_t position, uint64_t count, uint64_t index);
/* Exact for moves and for sums that the type holds exactly; else the rounding of num_ranks additions. */
double tpp_bench_collective_tolerance(enum tpp_bench_collective collective, enum tpp_bench_type type,
                                      uint32_t num_ranks);

/* Number of elements of `result` (memory of the host) that are wrong; `result` holds `count` elements whose indices in
 * the whole result begin at `first`. `part` is the count of the function above. */
uint64_t tpp_bench_count_wrong(enum tpp_bench_collective collective, enum tpp_bench_type type, uint64_t seed,
                               uint32_t num_ranks, uint32_t position, uint64_t part, uint64_t first, uint64_t count,
                               const void *result);

#endif
