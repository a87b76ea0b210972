/* The part of the CUDA runtime that the programs use, on the host. */
#include "tests/calibrate/fake_stream.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct piece {
    struct piece *next;
    int (*run)(void *context);
    _Alignas(16) char context[512];
};

struct CUstream_st {
    struct piece *first, *last;
};

struct CUevent_st {
    double seconds;
    cudaStream_t stream;
};

int fake_setting(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "1") == 0;
}

void fake_stream_push(struct CUstream_st *stream, int (*run)(void *context), const void *context, size_t size)
{
    struct piece *piece = calloc(1, sizeof *piece);
    if (!piece || size > sizeof piece->context) {
        abort();
    }
    piece->run = run;
    memcpy(piece->context, context, size);
    if (stream->last) {
        stream->last->next = piece;
    } else {
        stream->first = piece;
    }
    stream->last = piece;
}

/* A GPU that hangs: nothing is ever done, and what waits for it does not return. */
static bool is_stuck(void)
{
    return getenv("TPP_FAKE_STUCK") != NULL;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (is_stuck()) {
        return cudaErrorNotReady;
    }
    while (stream->first) {
        struct piece *piece = stream->first;
        if (piece->run(piece->context) != 0) {
            return cudaErrorNotReady;
        }
        stream->first = piece->next;
        stream->last = piece->next ? stream->last : NULL;
        free(piece);
    }
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    (void)flags;
    *stream = calloc(1, sizeof **stream);
    return *stream ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int record(void *context)
{
    cudaEvent_t event;
    memcpy(&event, context, sizeof event);
    event->seconds = now();
    return 0;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = calloc(1, sizeof **event);
    return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->stream = stream;
    event->seconds = 0;
    fake_stream_push(stream, record, &event, sizeof event);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return event->stream ? cudaStreamQuery(event->stream) : cudaErrorInvalidValue;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    if (from->seconds <= 0 || to->seconds <= 0) {
        return cudaErrorNotReady;
    }
    *milliseconds = (float)(1e3 * (to->seconds - from->seconds)) + 1e-4f;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)stream;
    (void)mode;
    return cudaErrorNotSupported;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    (void)stream;
    *graph = NULL;
    return cudaErrorNotSupported;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *graph, cudaGraph_t from, unsigned long long flags)
{
    (void)from;
    (void)flags;
    *graph = NULL;
    return cudaErrorNotSupported;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    (void)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    (void)graph;
    (void)stream;
    return cudaErrorNotSupported;
}

static size_t used_bytes;

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes ? bytes : 1);
    used_bytes += bytes;
    return *memory ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
    while (memory && is_stuck()) {
        pause();
    }
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cudaMalloc(memory, bytes);
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *total_bytes = (size_t)16 << 30;
    *free_bytes = *total_bytes - used_bytes;
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

struct transfer {
    void *to;
    const void *from;
    size_t bytes;
};

static int transfer(void *context)
{
    const struct transfer *transfer = context;
    if (transfer->from) {
        memcpy(transfer->to, transfer->from, transfer->bytes);
    } else {
        memset(transfer->to, 0, transfer->bytes);
    }
    return 0;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind;
    fake_stream_push(stream, transfer, &(struct transfer){to, from, bytes}, sizeof(struct transfer));
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    if (value != 0) {
        return cudaErrorInvalidValue;
    }
    fake_stream_push(stream, transfer, &(struct transfer){memory, NULL, bytes}, sizeof(struct transfer));
    return cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    memset(memory, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *value = getenv("TPP_FAKE_GPUS");
    *count = value ? atoi(value) : 8;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "Fake GPU");
    properties->major = 9;
    properties->multiProcessorCount = 4;
    properties->l2CacheSize = 65536;
    return device >= 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
    snprintf(text, (size_t)size, "0000:%02x:00.0", device & 0xff);
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 12040;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 12040;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    (void)device;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorNoDevice ? "no device" : "an error of the stand-in";
}

const char *cudaGetErrorName(cudaError_t error)
{
    (void)error;
    return "cudaErrorFake";
}
