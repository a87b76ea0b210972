#include "calibrate/bench/device.h"

#include "calibrate/bench/host_socket.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum tpp_code tpp_cuda(int status, const char *what, struct tpp_error *err)
{
    if (status == cudaSuccess) {
        return TPP_OK;
    }
    const cudaError_t error = (cudaError_t)status;
    const bool is_memory = error == cudaErrorMemoryAllocation;
    const bool has_no_code = error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction;
    return tpp_fail(err, has_no_code ? TPP_E_NOT_BUILT : TPP_E_IO, what,
                    is_memory     ? "is another program using the GPU? ask for smaller sizes"
                    : has_no_code ? "build the programs with a CUDA toolkit that knows this GPU"
                                  : "the GPU or its driver failed: look at dmesg and nvidia-smi",
                    "CUDA: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
}

static enum tpp_code find_device(int index, struct tpp_device *device, struct tpp_error *err)
{
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
        return tpp_fail(err, TPP_E_NOT_BUILT, "CUDA",
                        "run this on a machine with an NVIDIA GPU and its driver; nvidia-smi must list it",
                        "no GPU: %s", status == cudaSuccess ? "the driver sees none" : cudaGetErrorString(status));
    }
    if (index >= count) {
        return tpp_fail(err, TPP_E_NOT_BUILT, "CUDA", "start one rank a GPU; CUDA_VISIBLE_DEVICES may hide some",
                        "there is no GPU %d: this process sees %d", index, count);
    }
    device->index = index;
    device->num_devices = count;
    return TPP_OK;
}

static enum tpp_code describe(struct tpp_device *device, struct tpp_error *err)
{
    struct cudaDeviceProp properties;
    enum tpp_code code = tpp_cuda(cudaGetDeviceProperties(&properties, device->index), "cudaGetDeviceProperties", err);
    if (code != TPP_OK) {
        return code;
    }
    snprintf(device->name, sizeof device->name, "%s", properties.name);
    device->major = properties.major;
    device->minor = properties.minor;
    device->num_sms = (uint32_t)properties.multiProcessorCount;
    device->l2_bytes = (uint64_t)properties.l2CacheSize;
    code = tpp_cuda(cudaDeviceGetPCIBusId(device->pci_bus_id, sizeof device->pci_bus_id, device->index),
                    "cudaDeviceGetPCIBusId", err);
    code = code ? code : tpp_cuda(cudaDriverGetVersion(&device->driver_version), "cudaDriverGetVersion", err);
    return code ? code : tpp_cuda(cudaRuntimeGetVersion(&device->runtime_version), "cudaRuntimeGetVersion", err);
}

enum tpp_code tpp_device_open(int index, double timeout_seconds, struct tpp_device *device, struct tpp_error *err)
{
    size_t free_bytes = 0, total_bytes = 0;
    memset(device, 0, sizeof *device);
    device->timeout_seconds = timeout_seconds;
    enum tpp_code code = find_device(index, device, err);
    code = code ? code : describe(device, err);
    if (code == TPP_OK) {
        device->nvml = tpp_nvml_open(device->pci_bus_id);
        code = tpp_cuda(cudaSetDevice(index), "cudaSetDevice", err);
    }
    code = code ? code : tpp_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo", err);
    code = code ? code
                : tpp_cuda(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking), "cudaStreamCreate", err);
    device->memory_bytes = total_bytes;
    if (code != TPP_OK) {
        tpp_device_close(device);
    }
    return code;
}

void tpp_device_close(struct tpp_device *device)
{
    if (device->stream) {
        cudaStreamDestroy(device->stream);
    }
    tpp_nvml_close(device->nvml);
    device->stream = NULL;
    device->nvml = NULL;
}

enum tpp_code tpp_device_alloc(uint64_t bytes, void **out, struct tpp_error *err)
{
    char what[64];
    snprintf(what, sizeof what, "cudaMalloc of %llu bytes", (unsigned long long)bytes);
    *out = NULL;
    return tpp_cuda(cudaMalloc(out, bytes), what, err);
}

void tpp_device_free(void *memory)
{
    if (memory) {
        cudaFree(memory);
    }
}

enum tpp_code tpp_device_free_bytes(uint64_t *bytes, struct tpp_error *err)
{
    size_t free_bytes = 0, total_bytes = 0;
    const enum tpp_code code = tpp_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo", err);
    *bytes = free_bytes;
    return code;
}

enum tpp_code tpp_device_copy_to_host(void *to, const void *from, uint64_t bytes, struct tpp_error *err)
{
    return tpp_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy to the host", err);
}

enum tpp_code tpp_device_copy_to_device(void *to, const void *from, uint64_t bytes, struct tpp_error *err)
{
    return tpp_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the device", err);
}

enum tpp_code tpp_device_clear(const struct tpp_device *device, void *memory, uint64_t bytes, struct tpp_error *err)
{
    return tpp_cuda(cudaMemsetAsync(memory, 0, bytes, device->stream), "cudaMemsetAsync", err);
}

enum tpp_code tpp_device_give_up(const struct tpp_device *device, const char *what, struct tpp_error *err)
{
    struct tpp_error late;
    const enum tpp_code code = tpp_fail(&late, TPP_E_IO, what, "raise --timeout if it only is slow",
                                        "the GPU was not done within %g s", device->timeout_seconds);
    if (!device->still_there) { /* else others are asked first who is to blame */
        tpp_bench_last_words(&late, 5);
    }
    if (err) {
        *err = late;
    }
    return code;
}

enum tpp_code tpp_device_wait(const struct tpp_device *device, struct CUstream_st *stream, const char *what,
                              struct tpp_error *err)
{
    const double begin = tpp_bench_now();
    double next_question = begin + 0.2;
    for (;;) {
        const cudaError_t status = cudaStreamQuery(stream);
        const double now = tpp_bench_now();
        if (status != cudaErrorNotReady) {
            return tpp_cuda(status, what, err);
        }
        if (now > next_question && device->still_there) {
            const enum tpp_code code = device->still_there(device->still_there_context, err);
            if (code != TPP_OK) {
                return code;
            }
            next_question = now + 0.2;
        }
        if (now > begin + device->timeout_seconds) {
            return tpp_device_give_up(device, what, err);
        }
        if (now > begin + 0.01) {
            nanosleep(&(struct timespec){.tv_nsec = 200 * 1000}, NULL);
        }
    }
}
