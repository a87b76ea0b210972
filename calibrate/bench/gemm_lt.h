/* gemm_lt.h - one matrix product through cuBLASLt, as the frameworks call it: the first algorithm of the heuristic. */
#ifndef TPP_CALIBRATE_BENCH_GEMM_LT_H
#define TPP_CALIBRATE_BENCH_GEMM_LT_H

#include "calibrate/bench/host_numbers.h"
#include "calibrate/bench/host_shapes.h"

#include <stdbool.h>

struct CUstream_st;
struct tpp_gemm_library; /* a handle and its workspace; opaque */
struct tpp_gemm_plan;    /* one shape, ready to run; opaque */

enum tpp_code tpp_gemm_library_new(struct tpp_gemm_library **out, struct tpp_error *err);
void tpp_gemm_library_free(struct tpp_gemm_library *library); /* NULL is fine */
const char *tpp_gemm_library_version(const struct tpp_gemm_library *library);
uint64_t tpp_gemm_library_workspace_bytes(const struct tpp_gemm_library *library);

/* D has type fp32 when the product accumulates, else bf16 (fp16 for fp16). TPP_E_UNSUPPORTED when the library has no
 * algorithm for it on this GPU. */
enum tpp_code tpp_gemm_plan_new(struct tpp_gemm_library *library, const struct tpp_bench_gemm *gemm,
                                enum tpp_bench_type type, struct tpp_gemm_plan **out, struct tpp_error *err);
void tpp_gemm_plan_free(struct tpp_gemm_plan *plan);
enum tpp_bench_type tpp_gemm_output_type(const struct tpp_bench_gemm *gemm, enum tpp_bench_type type);
enum tpp_code tpp_gemm_plan_run(const struct tpp_gemm_plan *plan, const void *a, const void *b, void *d,
                                struct CUstream_st *stream, struct tpp_error *err);

#endif
