/* cuBLASLt and the little of cuBLAS that the programs use: matrices by columns, as the documents of cuBLAS say. */
#include "calibrate/bench/host_numbers.h"
#include "tests/calibrate/fake_stream.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <stdlib.h>
#include <string.h>

struct layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t pitch;
};

struct description {
    cublasOperation_t a, b;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = calloc(1, 8);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130002;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the stand-in";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusString(status);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    struct description *made = calloc(1, sizeof *made);
    made->a = made->b = CUBLAS_OP_N;
    *description = (cublasLtMatmulDesc_t)(void *)made;
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description)
{
    free(description);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value, size_t size)
{
    struct description *made = (struct description *)(void *)description;
    if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) {
        memcpy(&made->a, value, size);
    } else if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) {
        memcpy(&made->b, value, size);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t pitch)
{
    struct layout *made = calloc(1, sizeof *made);
    *made = (struct layout){type, rows, columns, pitch};
    *layout = (cublasLtMatrixLayout_t)(void *)made;
    return pitch >= (int64_t)rows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = calloc(1, 8);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t size)
{
    (void)preference;
    (void)attribute;
    (void)value;
    return size > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static enum tpp_bench_type type_of(cudaDataType_t type)
{
    return type == CUDA_R_32F    ? TPP_BENCH_FP32
           : type == CUDA_R_16BF ? TPP_BENCH_BF16
           : type == CUDA_R_16F  ? TPP_BENCH_FP16
                                 : TPP_BENCH_FP8;
}

/* Rows and columns of an operand after its operation must fit; 8-bit operands are TN only, as on Hopper. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    const struct description *made = (struct description *)(void *)description;
    const struct layout *x = (struct layout *)(void *)a, *y = (struct layout *)(void *)b,
                        *z = (struct layout *)(void *)d;
    const int a_t = made->a == CUBLAS_OP_T, b_t = made->b == CUBLAS_OP_T;
    (void)handle;
    (void)c;
    (void)preference;
    memset(results, 0, (size_t)wanted * sizeof *results);
    *found = 0;
    if ((a_t ? x->columns : x->rows) != z->rows || (b_t ? y->rows : y->columns) != z->columns ||
        (a_t ? x->rows : x->columns) != (b_t ? y->columns : y->rows)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (type_of(x->type) == TPP_BENCH_FP8 && (!a_t || b_t)) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

struct product {
    struct description description;
    struct layout a, b, d;
    const void *x, *y;
    void *z;
    float beta;
};

/* A matrix as floats, by rows of its operated form. */
static float *read_matrix(const struct layout *layout, const void *memory, int is_transposed)
{
    const uint64_t rows = is_transposed ? layout->columns : layout->rows;
    const uint64_t columns = is_transposed ? layout->rows : layout->columns;
    float *values = malloc(rows * columns * sizeof *values);
    for (uint64_t i = 0; values && i < rows; i++) {
        for (uint64_t j = 0; j < columns; j++) {
            const uint64_t at = is_transposed ? i * (uint64_t)layout->pitch + j : j * (uint64_t)layout->pitch + i;
            values[i * columns + j] = tpp_bench_element(type_of(layout->type), memory, at);
        }
    }
    return values;
}

static struct product last; /* repeated launches of a measurement are not computed again */

/* sum += one element of a times a row of b, for all elements of a row of a: one row of the result. */
static void multiply_row(const float *a, const float *b, uint64_t k, uint64_t columns, float *sum)
{
    for (uint64_t l = 0; l < k; l++) {
        for (uint64_t j = 0; j < columns; j++) {
            sum[j] += a[l] * b[l * columns + j];
        }
    }
}

static int multiply(void *context)
{
    const struct product *product = context;
    const enum tpp_bench_type type = type_of(product->d.type);
    const size_t bytes = tpp_bench_type_bytes(type);
    const uint64_t columns = product->d.columns;
    const int a_t = product->description.a == CUBLAS_OP_T;
    const uint64_t k = a_t ? product->a.rows : product->a.columns;
    if (memcmp(&last, product, sizeof last) == 0) {
        return 0;
    }
    float *a = read_matrix(&product->a, product->x, a_t);
    float *b = read_matrix(&product->b, product->y, product->description.b == CUBLAS_OP_T);
    float *sum = malloc(columns * sizeof *sum);
    for (uint64_t i = 0; a && b && sum && i < product->d.rows; i++) {
        for (uint64_t j = 0; j < columns; j++) {
            const float before = tpp_bench_element(type, product->z, j * (uint64_t)product->d.pitch + i);
            sum[j] = (product->beta != 0 ? before : 0) + (float)fake_setting("TPP_FAKE_WRONG");
        }
        multiply_row(a + i * k, b, k, columns, sum);
        for (uint64_t j = 0; j < columns; j++) {
            const uint32_t bits = tpp_bench_encode(type, sum[j]);
            memcpy((char *)product->z + (j * (uint64_t)product->d.pitch + i) * bytes, &bits, bytes);
        }
    }
    free(a);
    free(b);
    free(sum);
    last = *product;
    return 0;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha,
                              const void *x, cublasLtMatrixLayout_t a, const void *y, cublasLtMatrixLayout_t b,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *z,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    struct product product;
    memset(&product, 0, sizeof product);
    (void)handle;
    (void)c_layout;
    (void)algorithm;
    (void)workspace;
    (void)workspace_bytes;
    memcpy(&product.description, description, sizeof product.description);
    memcpy(&product.a, a, sizeof product.a);
    memcpy(&product.b, b, sizeof product.b);
    memcpy(&product.d, d, sizeof product.d);
    memcpy(&product.beta, beta, sizeof product.beta);
    product.x = x;
    product.y = y;
    product.z = z;
    fake_stream_push(stream, multiply, &product, sizeof product);
    return c == z && *(const float *)alpha == 1 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    *handle = calloc(1, 8);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t a, cublasOperation_t b, int m, int n, int k,
                            const void *alpha, const void *x, cudaDataType a_type, int lda, const void *y,
                            cudaDataType b_type, int ldb, const void *beta, void *z, cudaDataType d_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    (void)handle, (void)a, (void)b, (void)m, (void)n, (void)k, (void)alpha, (void)x, (void)a_type, (void)lda, (void)y;
    (void)b_type, (void)ldb, (void)beta, (void)z, (void)d_type, (void)ldc, (void)compute, (void)algorithm;
    return CUBLAS_STATUS_SUCCESS;
}
