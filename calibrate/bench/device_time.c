/* Timing with events. */
#include "calibrate/bench/device.h"

#include "calibrate/bench/host_socket.h"
#include "calibrate/bench/host_statistics.h"
#include "costmodel/base/statistics.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <time.h>

static enum tpp_code launch_all(const struct tpp_work *work, uint32_t inner, struct CUstream_st *stream,
                                struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    for (uint32_t turn = 0; turn < inner && code == TPP_OK; turn++) {
        code = work->launch(work->context, turn, stream, err);
    }
    return code;
}

/* The launches as one graph; *graph stays NULL where they cannot be captured, which is no error. */
static enum tpp_code capture(const struct tpp_device *device, const struct tpp_work *work, uint32_t inner,
                             cudaGraphExec_t *graph)
{
    cudaGraph_t captured = NULL;
    *graph = NULL;
    if (cudaStreamBeginCapture(device->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
        cudaGetLastError(); /* forget it */
        return TPP_OK;
    }
    const enum tpp_code code = launch_all(work, inner, device->stream, NULL);
    const cudaError_t status = cudaStreamEndCapture(device->stream, &captured);
    if (code == TPP_OK && status == cudaSuccess && captured) {
        if (cudaGraphInstantiateWithFlags(graph, captured, 0) != cudaSuccess) {
            *graph = NULL;
        }
    }
    if (captured) {
        cudaGraphDestroy(captured);
    }
    cudaGetLastError();
    return TPP_OK;
}

static enum tpp_code run_once(const struct tpp_device *device, const struct tpp_work *work, uint32_t inner,
                              cudaGraphExec_t graph, struct tpp_error *err)
{
    return graph ? tpp_cuda(cudaGraphLaunch(graph, device->stream), work->what, err)
                 : launch_all(work, inner, device->stream, err);
}

static void destroy_events(cudaEvent_t *events, size_t count)
{
    for (size_t i = 0; events && i < count; i++) {
        if (events[i]) {
            cudaEventDestroy(events[i]);
        }
    }
    free(events);
}

static enum tpp_code make_events(size_t count, cudaEvent_t **out, struct tpp_error *err)
{
    cudaEvent_t *events = calloc(count, sizeof *events);
    enum tpp_code code = events ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, "events", NULL, "out of memory");
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        code = tpp_cuda(cudaEventCreate(&events[i]), "cudaEventCreate", err);
    }
    if (code != TPP_OK) {
        destroy_events(events, count);
        events = NULL;
    }
    *out = events;
    return code;
}

static enum tpp_code elapsed(cudaEvent_t from, cudaEvent_t to, uint32_t inner, double *seconds, struct tpp_error *err)
{
    float milliseconds = 0;
    const enum tpp_code code = tpp_cuda(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime", err);
    *seconds = 1e-3 * milliseconds / inner;
    return code;
}

enum tpp_code tpp_device_time(struct tpp_device *device, const struct tpp_work *work, uint32_t inner, size_t repeats,
                              double *seconds, struct tpp_error *err)
{
    cudaEvent_t *events = NULL;
    cudaGraphExec_t graph = NULL;
    enum tpp_code code = make_events(2 * repeats, &events, err);
    if (code == TPP_OK && inner > 1 && !work->no_graph) {
        code = capture(device, work, inner, &graph);
    }
    code = code ? code : run_once(device, work, inner, graph, err); /* warm-up */
    for (size_t i = 0; i < repeats && code == TPP_OK; i++) {
        code = tpp_cuda(cudaEventRecord(events[2 * i], device->stream), "cudaEventRecord", err);
        code = code ? code : run_once(device, work, inner, graph, err);
        code = code ? code : tpp_cuda(cudaEventRecord(events[2 * i + 1], device->stream), "cudaEventRecord", err);
    }
    code = code ? code : tpp_device_wait(device, device->stream, work->what, err);
    for (size_t i = 0; i < repeats && code == TPP_OK; i++) {
        code = elapsed(events[2 * i], events[2 * i + 1], inner, &seconds[i], err);
    }
    if (graph) {
        cudaGraphExecDestroy(graph);
    }
    destroy_events(events, 2 * repeats);
    return code;
}

enum tpp_code tpp_device_estimate(struct tpp_device *device, const struct tpp_work *work, double *seconds,
                                  struct tpp_error *err)
{
    double repeats[3];
    const struct tpp_work plain = {work->launch, work->context, work->what, true};
    const enum tpp_code code = tpp_device_time(device, &plain, 1, 3, repeats, err);
    if (code == TPP_OK) {
        tpp_sort_numbers(repeats, 3);
        *seconds = repeats[1];
    }
    return code;
}

/* Waits for an event, not longer than the time-out. */
static enum tpp_code wait_for_event(const struct tpp_device *device, cudaEvent_t event, const char *what,
                                    struct tpp_error *err)
{
    const double deadline = tpp_bench_now() + device->timeout_seconds;
    cudaError_t status = cudaEventQuery(event);
    while (status == cudaErrorNotReady && tpp_bench_now() < deadline) {
        nanosleep(&(struct timespec){.tv_nsec = 200 * 1000}, NULL);
        status = cudaEventQuery(event);
    }
    if (status == cudaErrorNotReady) {
        return tpp_device_give_up(device, what, err);
    }
    return tpp_cuda(status, what, err);
}

enum tpp_code tpp_device_sustain(struct tpp_device *device, const struct tpp_work *work, double one_seconds,
                                 double total_seconds, double piece_seconds, double *seconds, double *clocks,
                                 size_t capacity, size_t *count, struct tpp_error *err)
{
    const uint32_t inner = (uint32_t)tpp_bench_num_inner(one_seconds, piece_seconds, 100000);
    const size_t pieces = tpp_bench_num_repeats(inner * one_seconds, total_seconds, 4, 2 * capacity);
    cudaEvent_t *events = NULL;
    *count = 0;
    enum tpp_code code = make_events(pieces + 1, &events, err);
    code = code ? code : tpp_cuda(cudaEventRecord(events[0], device->stream), "cudaEventRecord", err);
    for (size_t i = 0; i < pieces && code == TPP_OK; i++) {
        /* Two pieces are always queued: the GPU never waits, and the clocks are read while a piece runs. */
        code = launch_all(work, inner, device->stream, err);
        code = code ? code : tpp_cuda(cudaEventRecord(events[i + 1], device->stream), "cudaEventRecord", err);
        if (code == TPP_OK && i > 0) {
            code = wait_for_event(device, events[i], work->what, err);
            const double clock = tpp_nvml_read(device->nvml).sm_clock_hz;
            if (i >= pieces / 2) {
                clocks[i - pieces / 2] = clock;
            }
        }
    }
    code = code ? code : tpp_device_wait(device, device->stream, work->what, err);
    for (size_t i = pieces / 2; i + 1 < pieces && code == TPP_OK; i++) {
        code = elapsed(events[i], events[i + 1], inner, &seconds[*count], err);
        ++*count;
    }
    destroy_events(events, pieces + 1);
    return code;
}
