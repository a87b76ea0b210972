#include "calibrate/bench/gemm_lt.h"

#include "calibrate/bench/device.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>

/* What PyTorch gives cuBLASLt on Hopper and later; on Ampere it gives less, which changes few shapes. */
#define WORKSPACE_BYTES (UINT64_C(32) << 20)

struct tpp_gemm_library {
    cublasLtHandle_t handle;
    void *workspace;
    float *one; /* on the device: the scales of fp8 operands */
    char version[32];
};

struct tpp_gemm_plan {
    struct tpp_gemm_library *library;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    float beta;
};

static enum tpp_code check(cublasStatus_t status, const char *what, struct tpp_error *err)
{
    if (status == CUBLAS_STATUS_SUCCESS) {
        return TPP_OK;
    }
    const bool is_unsupported = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
    return tpp_fail(err, is_unsupported ? TPP_E_UNSUPPORTED : TPP_E_IO, what, NULL, "cuBLASLt: %s",
                    cublasLtGetStatusString(status));
}

enum tpp_code tpp_gemm_library_new(struct tpp_gemm_library **out, struct tpp_error *err)
{
    struct tpp_gemm_library *library = calloc(1, sizeof *library);
    const float one = 1;
    *out = NULL;
    if (!library) {
        return tpp_fail(err, TPP_E_MEMORY, "cuBLASLt", NULL, "out of memory");
    }
    enum tpp_code code = check(cublasLtCreate(&library->handle), "cublasLtCreate", err);
    code = code ? code : tpp_device_alloc(WORKSPACE_BYTES, &library->workspace, err);
    void *scale = NULL;
    code = code ? code : tpp_device_alloc(sizeof one, &scale, err);
    library->one = scale;
    code = code ? code : tpp_device_copy_to_device(scale, &one, sizeof one, err);
    const size_t version = cublasLtGetVersion();
    snprintf(library->version, sizeof library->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    if (code != TPP_OK) {
        tpp_gemm_library_free(library);
        return code;
    }
    *out = library;
    return TPP_OK;
}

void tpp_gemm_library_free(struct tpp_gemm_library *library)
{
    if (!library) {
        return;
    }
    tpp_device_free(library->workspace);
    tpp_device_free(library->one);
    if (library->handle) {
        cublasLtDestroy(library->handle);
    }
    free(library);
}

const char *tpp_gemm_library_version(const struct tpp_gemm_library *library)
{
    return library->version;
}

uint64_t tpp_gemm_library_workspace_bytes(const struct tpp_gemm_library *library)
{
    (void)library;
    return WORKSPACE_BYTES;
}

enum tpp_bench_type tpp_gemm_output_type(const struct tpp_bench_gemm *gemm, enum tpp_bench_type type)
{
    if (gemm->accumulates) {
        return TPP_BENCH_FP32;
    }
    return type == TPP_BENCH_FP16 ? TPP_BENCH_FP16 : TPP_BENCH_BF16;
}

static cudaDataType_t data_type(enum tpp_bench_type type)
{
    static const cudaDataType_t types[TPP_BENCH_TYPE_COUNT] = {CUDA_R_32F, CUDA_R_16BF, CUDA_R_16F, CUDA_R_8F_E4M3};
    return types[type];
}

static enum tpp_code set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void *value,
                         size_t size, struct tpp_error *err)
{
    return check(cublasLtMatmulDescSetAttribute(operation, attribute, value, size), "cublasLtMatmulDescSetAttribute",
                 err);
}

/* cuBLAS thinks in columns: our row-wise D (m x n) is its D^T (n x m) = B^T A^T, so that B is its first operand. The
 * weights of the forward pass (n x k by rows) are k x n in its eyes and are transposed: "TN". */
static enum tpp_code describe(struct tpp_gemm_plan *plan, const struct tpp_bench_gemm *gemm, enum tpp_bench_type type,
                              struct tpp_error *err)
{
    const cublasOperation_t first = gemm->layout == TPP_BENCH_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = gemm->layout == TPP_BENCH_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
    const uint64_t m = gemm->m, n = gemm->n, k = gemm->k;
    const bool first_t = first == CUBLAS_OP_T, second_t = second == CUBLAS_OP_T;
    enum tpp_code code = check(cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                               "cublasLtMatmulDescCreate", err);
    code = code ? code : set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first, err);
    code = code ? code : set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second, err);
    code = code ? code
                : check(cublasLtMatrixLayoutCreate(&plan->a, data_type(type), first_t ? k : n, first_t ? n : k,
                                                   (int64_t)(first_t ? k : n)),
                        "cublasLtMatrixLayoutCreate", err);
    code = code ? code
                : check(cublasLtMatrixLayoutCreate(&plan->b, data_type(type), second_t ? m : k, second_t ? k : m,
                                                   (int64_t)(second_t ? m : k)),
                        "cublasLtMatrixLayoutCreate", err);
    code =
        code
            ? code
            : check(cublasLtMatrixLayoutCreate(&plan->d, data_type(tpp_gemm_output_type(gemm, type)), n, m, (int64_t)n),
                    "cublasLtMatrixLayoutCreate", err);
    if (code == TPP_OK && type == TPP_BENCH_FP8) {
        const float *one = plan->library->one;
        const int8_t fast = 1; /* what Transformer Engine uses forward */
        code = set(plan->operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &one, sizeof one, err);
        code = code ? code : set(plan->operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &one, sizeof one, err);
        code = code ? code : set(plan->operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast, err);
    }
    return code;
}

static enum tpp_code choose(struct tpp_gemm_plan *plan, struct tpp_error *err)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result;
    const size_t workspace = WORKSPACE_BYTES;
    int found = 0;
    enum tpp_code code = check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate", err);
    code = code ? code
                : check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                             &workspace, sizeof workspace),
                        "cublasLtMatmulPreferenceSetAttribute", err);
    code = code ? code
                : check(cublasLtMatmulAlgoGetHeuristic(plan->library->handle, plan->operation, plan->a, plan->b,
                                                       plan->d, plan->d, preference, 1, &result, &found),
                        "cublasLtMatmulAlgoGetHeuristic", err);
    if (code == TPP_OK && found == 0) {
        code = tpp_fail(err, TPP_E_UNSUPPORTED, "cublasLtMatmulAlgoGetHeuristic", NULL,
                        "cuBLASLt has no algorithm for this product");
    }
    if (code == TPP_OK) {
        plan->algorithm = result.algo;
    }
    if (preference) {
        cublasLtMatmulPreferenceDestroy(preference);
    }
    return code;
}

enum tpp_code tpp_gemm_plan_new(struct tpp_gemm_library *library, const struct tpp_bench_gemm *gemm,
                                enum tpp_bench_type type, struct tpp_gemm_plan **out, struct tpp_error *err)
{
    struct tpp_gemm_plan *plan = calloc(1, sizeof *plan);
    *out = NULL;
    if (!plan) {
        return tpp_fail(err, TPP_E_MEMORY, "cuBLASLt", NULL, "out of memory");
    }
    plan->library = library;
    plan->beta = gemm->accumulates ? 1 : 0;
    enum tpp_code code = describe(plan, gemm, type, err);
    code = code ? code : choose(plan, err);
    if (code != TPP_OK) {
        tpp_gemm_plan_free(plan);
        return code;
    }
    *out = plan;
    return TPP_OK;
}

void tpp_gemm_plan_free(struct tpp_gemm_plan *plan)
{
    if (!plan) {
        return;
    }
    cublasLtMatrixLayout_t layouts[] = {plan->a, plan->b, plan->d};
    for (int i = 0; i < 3; i++) {
        if (layouts[i]) {
            cublasLtMatrixLayoutDestroy(layouts[i]);
        }
    }
    if (plan->operation) {
        cublasLtMatmulDescDestroy(plan->operation);
    }
    free(plan);
}

enum tpp_code tpp_gemm_plan_run(const struct tpp_gemm_plan *plan, const void *a, const void *b, void *d,
                                struct CUstream_st *stream, struct tpp_error *err)
{
    const float alpha = 1;
    return check(cublasLtMatmul(plan->library->handle, plan->operation, &alpha, b, plan->a, a, plan->b, &plan->beta, d,
                                plan->d, d, plan->d, &plan->algorithm, plan->library->workspace, WORKSPACE_BYTES,
                                stream),
                 "cublasLtMatmul", err);
}
