#include "calibrate/bench/library_memory.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <string.h>

static enum tpp_code cublas(cublasStatus_t status, const char *what, struct tpp_error *err)
{
    return status == CUBLAS_STATUS_SUCCESS
               ? TPP_OK
               : tpp_fail(err, TPP_E_IO, what, NULL, "cuBLAS: %s", cublasGetStatusString(status));
}

/* A bf16 product of 1024^3 through the plain interface, whose handle brings a workspace of its own; twice, so that what
 * is loaded lazily is there. */
static enum tpp_code first_product(cublasHandle_t handle, const void *a, const void *b, void *d, struct tpp_error *err)
{
    const float alpha = 1, beta = 0;
    enum tpp_code code = TPP_OK;
    for (int i = 0; i < 2 && code == TPP_OK; i++) {
        code = cublas(cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, 1024, 1024, 1024, &alpha, a, CUDA_R_16BF, 1024, b,
                                   CUDA_R_16BF, 1024, &beta, d, CUDA_R_16BF, 1024, CUBLAS_COMPUTE_32F,
                                   CUBLAS_GEMM_DEFAULT),
                      "cublasGemmEx", err);
    }
    return code ? code : tpp_cuda(cudaDeviceSynchronize(), "cublasGemmEx", err);
}

/* Free bytes taken by creating a handle and using it: workspace, and code that is loaded on the first use. A second
 * handle takes the workspace alone. */
static enum tpp_code measure_handles(const void *a, const void *b, void *d, uint64_t *workspace, struct tpp_error *err)
{
    cublasHandle_t handles[2] = {NULL, NULL};
    uint64_t free_bytes[3] = {0};
    enum tpp_code code = TPP_OK;
    for (int i = 0; i < 2 && code == TPP_OK; i++) {
        code = tpp_device_free_bytes(&free_bytes[i], err);
        code = code ? code : cublas(cublasCreate(&handles[i]), "cublasCreate", err);
        code = code ? code : first_product(handles[i], a, b, d, err);
    }
    code = code ? code : tpp_device_free_bytes(&free_bytes[2], err);
    *workspace = code == TPP_OK && free_bytes[1] > free_bytes[2] ? free_bytes[1] - free_bytes[2] : 0;
    for (int i = 0; i < 2; i++) {
        if (handles[i]) {
            cublasDestroy(handles[i]);
        }
    }
    return code;
}

/* A context, and in it a product of cuBLAS: all that a training process has before it allocates. */
static enum tpp_code fill_context(struct tpp_nvml *nvml, uint64_t used_before, struct tpp_library_memory *memory,
                                  struct tpp_error *err)
{
    enum { BYTES = 1024 * 1024 * 2 }; /* one operand; whole pages of the device's memory */
    void *operands[3] = {NULL, NULL, NULL};
    enum tpp_code code = tpp_cuda(cudaFree(NULL), "making a context", err);
    for (int i = 0; i < 3 && code == TPP_OK; i++) {
        code = tpp_device_alloc(BYTES, &operands[i], err);
        code = code ? code : tpp_cuda(cudaMemset(operands[i], 0, BYTES), "cudaMemset", err);
    }
    code = code ? code : measure_handles(operands[0], operands[1], operands[2], &memory->cublas_workspace_bytes, err);
    for (int i = 0; i < 3; i++) {
        tpp_device_free(operands[i]);
    }
    /* Both handles are gone, and with them their workspaces; the context and the loaded code stay. */
    const uint64_t used = tpp_nvml_read(nvml).used_bytes;
    if (code == TPP_OK && used_before > 0 && used > used_before) {
        memory->context_bytes = used - used_before;
    }
    return code;
}

enum tpp_code tpp_library_memory(int device, struct tpp_library_memory *memory, struct tpp_error *err)
{
    char pci_bus_id[32];
    int count = 0;
    memset(memory, 0, sizeof *memory);
    /* Neither call makes a context. */
    if (cudaGetDeviceCount(&count) != cudaSuccess || device >= count) {
        return TPP_OK; /* opening the device says what is wrong */
    }
    enum tpp_code code =
        tpp_cuda(cudaDeviceGetPCIBusId(pci_bus_id, sizeof pci_bus_id, device), "cudaDeviceGetPCIBusId", err);
    if (code != TPP_OK) {
        return code;
    }
    struct tpp_nvml *nvml = tpp_nvml_open(pci_bus_id);
    const uint64_t used_before = tpp_nvml_read(nvml).used_bytes;
    code = tpp_cuda(cudaSetDevice(device), "cudaSetDevice", err); /* from CUDA 12 on, this makes the context */
    code = code ? code : fill_context(nvml, used_before, memory, err);
    tpp_nvml_close(nvml);
    return code;
}

struct copy {
    void *to;
    const void *from;
    uint64_t bytes;
    enum cudaMemcpyKind kind;
};

static enum tpp_code launch_copy(void *context, uint32_t turn, struct CUstream_st *stream, struct tpp_error *err)
{
    const struct copy *copy = context;
    (void)turn;
    return tpp_cuda(cudaMemcpyAsync(copy->to, copy->from, copy->bytes, copy->kind, stream), "a pinned copy", err);
}

enum tpp_code tpp_library_host_link(struct tpp_device *device, size_t repeats, double *up, double *down,
                                    struct tpp_error *err)
{
    const uint64_t bytes = UINT64_C(256) << 20;
    void *host = NULL, *memory = NULL;
    enum tpp_code code = tpp_cuda(cudaMallocHost(&host, bytes), "cudaMallocHost", err);
    code = code ? code : tpp_device_alloc(bytes, &memory, err);
    if (code == TPP_OK) {
        memset(host, 1, bytes); /* its pages are there before they are timed */
        struct copy to_device = {memory, host, bytes, cudaMemcpyHostToDevice};
        struct copy to_host = {host, memory, bytes, cudaMemcpyDeviceToHost};
        const struct tpp_work upward = {launch_copy, &to_device, "a pinned copy", true};
        const struct tpp_work downward = {launch_copy, &to_host, "a pinned copy", true};
        code = tpp_device_time(device, &upward, 1, repeats, up, err);
        code = code ? code : tpp_device_time(device, &downward, 1, repeats, down, err);
    }
    for (size_t i = 0; i < repeats && code == TPP_OK; i++) {
        up[i] = (double)bytes / up[i];
        down[i] = (double)bytes / down[i];
    }
    tpp_device_free(memory);
    if (host) {
        cudaFreeHost(host);
    }
    return code;
}
