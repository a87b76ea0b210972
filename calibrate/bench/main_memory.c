/* tp-calibrate-memory: memory-bound kernels, launch costs, and the memory that libraries take. */
#include "calibrate/bench/device.h"
#include "calibrate/bench/host_memory.h"
#include "calibrate/bench/host_socket.h"
#include "calibrate/bench/host_statistics.h"
#include "calibrate/bench/kernels.h"
#include "calibrate/bench/library_memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_CHECKED_ROWS 3
#define NUM_CHECKED_COLUMNS 64

struct arguments {
    bool no_check, no_libraries;
    uint64_t rows, width;
};

static struct arguments arguments;

static const struct tpp_bench_option options[] = {
    {"rows", TPP_BENCH_COUNT, offsetof(struct arguments, rows), "N", NULL, "0", 0, 1e7,
     "rows of the operands, 0 is several sizes"},
    {"width", TPP_BENCH_COUNT, offsetof(struct arguments, width), "N", NULL, "0", 0, 1e6,
     "elements of a row, a multiple of 8, 0 is several sizes"},
    {"no-check", TPP_BENCH_FLAG, offsetof(struct arguments, no_check), .help = "do not check the results"},
    {"no-libraries", TPP_BENCH_FLAG, offsetof(struct arguments, no_libraries),
     .help = "do not measure what the context and cuBLAS take, which needs a GPU that nobody else uses"},
    {.name = NULL},
};

struct bench {
    struct tpp_bench_run *run;
    struct tpp_device device;
};

#define MAX_COPIES 64

/* Every operand is there num_copies times, one behind the other, and launches take turns: what a kernel reads is not in
 * the cache from the launch before. */
struct operation {
    enum tpp_bench_memory kind;
    uint64_t rows, width;
    uint32_t num_copies;
    void *inputs[TPP_BENCH_MAX_OPERANDS], *outputs[TPP_BENCH_MAX_OPERANDS];
};

/* Copies begin at whole 256 bytes. */
static uint64_t pitch(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static uint64_t input_pitch(const struct operation *operation, size_t i)
{
    return pitch(tpp_bench_memory_input_bytes(operation->kind, i, operation->rows, operation->width));
}

static uint64_t output_pitch(const struct operation *operation, size_t i)
{
    return pitch(tpp_bench_memory_output_bytes(operation->kind, i, operation->rows, operation->width));
}

static enum tpp_code launch(void *context, uint32_t turn, struct CUstream_st *stream, struct tpp_error *err)
{
    const struct operation *operation = context;
    const uint64_t copy = turn % operation->num_copies;
    const void *inputs[TPP_BENCH_MAX_OPERANDS];
    void *outputs[TPP_BENCH_MAX_OPERANDS];
    for (size_t i = 0; i < TPP_BENCH_MAX_OPERANDS; i++) {
        inputs[i] = (const char *)operation->inputs[i] + copy * input_pitch(operation, i);
        outputs[i] = (char *)operation->outputs[i] + copy * output_pitch(operation, i);
    }
    return tpp_cuda(tpp_kernel_memory(operation->kind, inputs, outputs, operation->rows, operation->width, stream),
                    tpp_bench_memory_name(operation->kind), err);
}

static enum tpp_bench_type type_of_inputs(enum tpp_bench_memory kind)
{
    return kind == TPP_BENCH_ADAM ? TPP_BENCH_FP32 : TPP_BENCH_BF16;
}

static enum tpp_bench_type type_of_result(enum tpp_bench_memory kind)
{
    return kind == TPP_BENCH_ADAM || kind == TPP_BENCH_CROSS_ENTROPY ? TPP_BENCH_FP32 : TPP_BENCH_BF16;
}

/* Allocates the operands; input i is random with seed + i. */
static enum tpp_code prepare(struct bench *bench, struct operation *operation, struct tpp_error *err)
{
    const enum tpp_bench_type type = type_of_inputs(operation->kind);
    const uint64_t bytes = tpp_bench_memory_bytes(operation->kind, operation->rows, operation->width);
    const uint64_t copies = 3 * bench->device.l2_bytes / bytes + 1;
    enum tpp_code code = TPP_OK;
    operation->num_copies = (uint32_t)(copies < MAX_COPIES ? copies : MAX_COPIES);
    for (size_t i = 0; i < TPP_BENCH_MAX_OPERANDS && code == TPP_OK; i++) {
        const uint64_t in = operation->num_copies * input_pitch(operation, i);
        const uint64_t out = operation->num_copies * output_pitch(operation, i);
        if (in > 0) {
            code = tpp_device_alloc(in, &operation->inputs[i], err);
            code = code ? code
                        : tpp_cuda(tpp_kernel_fill_random(type, operation->inputs[i], in / tpp_bench_type_bytes(type),
                                                          bench->run->common.seed + i, bench->device.stream),
                                   "the random operands", err);
        }
        const bool is_in_place = operation->kind == TPP_BENCH_ADAM && i < 3;
        if (out > 0 && !is_in_place && code == TPP_OK) {
            code = tpp_device_alloc(out, &operation->outputs[i], err);
        }
    }
    for (size_t i = 0; operation->kind == TPP_BENCH_ADAM && i < 3; i++) {
        operation->outputs[i] = operation->inputs[i + 1];
    }
    return code;
}

static void release(struct operation *operation)
{
    for (size_t i = 0; i < TPP_BENCH_MAX_OPERANDS; i++) {
        tpp_device_free(operation->inputs[i]);
        if (operation->kind != TPP_BENCH_ADAM || i == 3) {
            tpp_device_free(operation->outputs[i]);
        }
    }
}

/* The inputs of one row on the host, from their seeds. NULL when out of memory. */
static float *make_row(const struct bench *bench, const struct operation *operation, uint64_t row,
                       const float *inputs[TPP_BENCH_MAX_OPERANDS])
{
    const enum tpp_bench_type type = type_of_inputs(operation->kind);
    const size_t element_bytes = tpp_bench_type_bytes(type);
    float *all = malloc(TPP_BENCH_MAX_OPERANDS * 2 * operation->width * sizeof *all);
    for (size_t i = 0; all && i < TPP_BENCH_MAX_OPERANDS; i++) {
        const uint64_t one_row = tpp_bench_memory_input_bytes(operation->kind, i, 1, operation->width) / element_bytes;
        const uint64_t all_rows =
            tpp_bench_memory_input_bytes(operation->kind, i, operation->rows, operation->width) / element_bytes;
        const uint64_t first = all_rows == one_row ? 0 : row * one_row;
        float *values = all + i * 2 * operation->width;
        for (uint64_t j = 0; j < one_row; j++) {
            values[j] = tpp_bench_decode(
                type, tpp_bench_encode(type, tpp_bench_random_value(bench->run->common.seed + i, first + j)));
        }
        inputs[i] = values;
    }
    return all;
}

static enum tpp_code check_row(struct bench *bench, const struct operation *operation, uint64_t row, uint64_t *wrong,
                               struct tpp_error *err)
{
    const enum tpp_bench_type type = type_of_result(operation->kind);
    const size_t bytes = tpp_bench_type_bytes(type);
    const uint64_t columns = tpp_bench_memory_output_bytes(operation->kind, 0, 1, operation->width) / bytes;
    const float *inputs[TPP_BENCH_MAX_OPERANDS];
    float *row_inputs = make_row(bench, operation, row, inputs);
    enum tpp_code code = row_inputs ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, "check", NULL, "out of memory");
    for (uint64_t i = 0; i < NUM_CHECKED_COLUMNS && i < columns && code == TPP_OK; i++) {
        const uint64_t column = i == 0 ? columns - 1 : tpp_bench_hash(row, i) % columns;
        uint32_t bits = 0;
        code = tpp_device_copy_to_host(&bits, (const char *)operation->outputs[0] + (row * columns + column) * bytes,
                                       bytes, err);
        const double wanted = tpp_bench_memory_element(operation->kind, inputs, row, operation->width, column);
        const double found = tpp_bench_decode(type, bits);
        *wrong += !(fabs(found - wanted) <= tpp_bench_memory_tolerance(operation->kind, wanted));
    }
    free(row_inputs);
    return code;
}

static enum tpp_code check_result(struct bench *bench, struct operation *operation, uint64_t *wrong,
                                  struct tpp_error *err)
{
    enum tpp_code code = launch(operation, 0, bench->device.stream, err);
    code = code ? code : tpp_device_wait(&bench->device, bench->device.stream, "a memory-bound kernel", err);
    for (uint64_t i = 0; i < NUM_CHECKED_ROWS && code == TPP_OK; i++) {
        const uint64_t row = i == 0 ? operation->rows - 1 : tpp_bench_hash(3, i) % operation->rows;
        code = check_row(bench, operation, row, wrong, err);
    }
    return code;
}

static enum tpp_code measure(struct bench *bench, struct operation *operation, struct tpp_error *err)
{
    const struct tpp_work work = {launch, operation, "a memory-bound kernel", false};
    struct tpp_bench_samples *samples = &bench->run->samples;
    const size_t repeats = bench->run->common.repeats;
    const uint64_t bytes = tpp_bench_memory_bytes(operation->kind, operation->rows, operation->width);
    double seconds[TPP_MAX_REPEATS], one = 0;
    uint64_t wrong = 0;
    enum tpp_code code = prepare(bench, operation, err);
    if (code == TPP_OK && !arguments.no_check) {
        code = check_result(bench, operation, &wrong, err);
    }
    code = code ? code : tpp_device_estimate(&bench->device, &work, &one, err);
    const uint32_t inner = (uint32_t)tpp_bench_num_inner(one, 5e-4, 256);
    code = code ? code : tpp_device_time(&bench->device, &work, inner, repeats, seconds, err);
    if (code == TPP_OK) {
        tpp_bench_samples_begin(samples, "memory_bound");
        tpp_bench_samples_text(samples, "operation", tpp_bench_memory_name(operation->kind));
        tpp_bench_samples_count(samples, "bytes", bytes);
        tpp_bench_samples_count(samples, "rows", operation->rows);
        tpp_bench_samples_count(samples, "width", operation->width);
        tpp_bench_samples_count(samples, "operand_copies", operation->num_copies);
        tpp_bench_samples_count(samples, "launches_per_repeat", inner);
        if (!arguments.no_check) {
            tpp_bench_samples_count(samples, "wrong", wrong);
            bench->run->num_wrong += wrong;
        }
        tpp_bench_samples_numbers(samples, "seconds", seconds, repeats);
        tpp_device_add_state(bench->run, &bench->device);
        code = tpp_bench_samples_end(samples, err);
    }
    release(operation);
    return code;
}

/* All operations at each size, the sizes that leave the caches first. */
static enum tpp_code run_operations(struct bench *bench, struct tpp_error *err)
{
    static const uint64_t rows[] = {4096, 16384, 1024, 8192, 2048, 256, 32};
    static const uint64_t widths[] = {8192, 4096, 12288, 2048};
    enum tpp_code code = TPP_OK;
    const size_t num_rows = arguments.rows ? 1 : sizeof rows / sizeof rows[0];
    const size_t num_widths = arguments.width ? 1 : sizeof widths / sizeof widths[0];
    for (size_t r = 0; r < num_rows; r++) {
        for (size_t w = 0; w < num_widths; w++) {
            for (int kind = 0; kind < TPP_BENCH_MEMORY_COUNT && code == TPP_OK; kind++) {
                struct operation operation = {.kind = (enum tpp_bench_memory)kind,
                                              .rows = arguments.rows ? arguments.rows : rows[r],
                                              .width = arguments.width ? arguments.width : widths[w]};
                if (operation.kind == TPP_BENCH_CROSS_ENTROPY || operation.kind == TPP_BENCH_CROSS_ENTROPY_BACKWARD) {
                    operation.width *= 16; /* vocabularies of 32K to 192K */
                }
                if (tpp_bench_seconds_left(bench->run) <= 0) {
                    return TPP_OK;
                }
                code = measure(bench, &operation, err);
            }
        }
    }
    return code;
}

static enum tpp_code write_value(struct bench *bench, const char *key, const double *values, size_t count,
                                 const char *method, struct tpp_error *err)
{
    struct tpp_bench_samples *samples = &bench->run->samples;
    tpp_bench_samples_begin(samples, "value");
    tpp_bench_samples_text(samples, "key", key);
    tpp_bench_samples_text(samples, "method", method);
    tpp_bench_samples_numbers(samples, "values", values, count);
    return tpp_bench_samples_end(samples, err);
}

static enum tpp_code write_facts(struct bench *bench, struct tpp_error *err)
{
    const double memory = (double)bench->device.memory_bytes, sms = bench->device.num_sms;
    const double capability = bench->device.major + 0.1 * bench->device.minor;
    enum tpp_code code = write_value(bench, "gpu.memory_bytes", &memory, 1, "total of cudaMemGetInfo", err);
    code = code ? code : write_value(bench, "gpu.num_sms", &sms, 1, "cudaGetDeviceProperties", err);
    return code ? code : write_value(bench, "gpu.compute_capability", &capability, 1, "cudaGetDeviceProperties", err);
}

static enum tpp_code launch_spin(void *context, uint32_t turn, struct CUstream_st *stream, struct tpp_error *err)
{
    (void)turn;
    return tpp_cuda(tpp_kernel_spin(*(const uint64_t *)context, stream), "the waiting kernel", err);
}

/* Host time of a bare launch. It is not the profile's gpu.host_launch_seconds, which is of an operation of a framework:
 * it goes beside the gap under a name of its own. */
static enum tpp_code time_host_launch(struct bench *bench, double *seconds, struct tpp_error *err)
{
    enum { LAUNCHES = 400 }; /* fewer than the queue holds: the host never waits for the GPU */
    const size_t repeats = bench->run->common.repeats;
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < repeats + 1 && code == TPP_OK; i++) {
        const double begin = tpp_bench_now();
        for (int j = 0; j < LAUNCHES && code == TPP_OK; j++) {
            code = tpp_cuda(tpp_kernel_empty(bench->device.stream), "the empty kernel", err);
        }
        if (i > 0) { /* the first is the warm-up */
            seconds[i - 1] = (tpp_bench_now() - begin) / LAUNCHES;
        }
        code = code ? code : tpp_device_wait(&bench->device, bench->device.stream, "the empty kernel", err);
    }
    return code;
}

/* Time of one kernel of c cycles in a long row of them is c/f + gap. Two lengths give f and the gap; both are short
 * enough for the clock to be the same, and longer than a launch takes the host. */
static enum tpp_code time_gap(struct bench *bench, double *gaps, size_t *count, struct tpp_error *err)
{
    uint64_t short_cycles = 10000, long_cycles = 30000;
    const struct tpp_work brief = {launch_spin, &short_cycles, "the launch gap", true};
    const struct tpp_work longer = {launch_spin, &long_cycles, "the launch gap", true};
    const size_t repeats = bench->run->common.repeats;
    double a[TPP_MAX_REPEATS], b[TPP_MAX_REPEATS];
    enum tpp_code code = tpp_device_time(&bench->device, &longer, 400, repeats, b, err); /* also a warm-up */
    code = code ? code : tpp_device_time(&bench->device, &brief, 400, repeats, a, err);
    code = code ? code : tpp_device_time(&bench->device, &longer, 400, repeats, b, err);
    *count = 0;
    for (size_t i = 0; i < repeats && code == TPP_OK; i++) {
        const double cycle = (b[i] - a[i]) / (double)(long_cycles - short_cycles);
        const double gap = a[i] - (double)short_cycles * cycle;
        if (gap > 0) {
            gaps[(*count)++] = gap;
        }
    }
    return code;
}

static enum tpp_code measure_launches(struct bench *bench, struct tpp_error *err)
{
    struct tpp_bench_samples *samples = &bench->run->samples;
    double gaps[TPP_MAX_REPEATS], host[TPP_MAX_REPEATS];
    size_t count = 0;
    enum tpp_code code = time_gap(bench, gaps, &count, err);
    code = code ? code : time_host_launch(bench, host, err);
    if (code != TPP_OK || count == 0) {
        return code;
    }
    tpp_bench_samples_begin(samples, "value");
    tpp_bench_samples_text(samples, "key", "gpu.kernel_gap_seconds");
    tpp_bench_samples_text(samples, "method", "rows of 400 waiting kernels of two lengths");
    tpp_bench_samples_numbers(samples, "values", gaps, count);
    tpp_bench_samples_numbers(samples, "bare_host_launch_seconds", host, bench->run->common.repeats);
    return tpp_bench_samples_end(samples, err);
}

static enum tpp_code measure_host_link(struct bench *bench, struct tpp_error *err)
{
    double up[TPP_MAX_REPEATS], down[TPP_MAX_REPEATS];
    const size_t repeats = bench->run->common.repeats;
    const enum tpp_code code = tpp_library_host_link(&bench->device, repeats, up, down, err);
    if (code != TPP_OK) {
        return code;
    }
    tpp_bench_samples_begin(&bench->run->samples, "value");
    tpp_bench_samples_text(&bench->run->samples, "key", "node.host_link_bytes_per_second");
    tpp_bench_samples_text(&bench->run->samples, "method", "pinned copies of 256 MiB to the GPU");
    tpp_bench_samples_numbers(&bench->run->samples, "values", up, repeats);
    tpp_bench_samples_numbers(&bench->run->samples, "to_host", down, repeats);
    return tpp_bench_samples_end(&bench->run->samples, err);
}

static enum tpp_code write_library_memory(struct bench *bench, const struct tpp_library_memory *memory,
                                          struct tpp_error *err)
{
    const double context = (double)memory->context_bytes, workspace = (double)memory->cublas_workspace_bytes;
    enum tpp_code code = TPP_OK;
    if (memory->context_bytes > 0) {
        code = write_value(bench, "gpu.context_bytes", &context, 1,
                           "used memory of the device before and after the first product of cuBLAS, less its workspace",
                           err);
    } else {
        tpp_bench_say(bench->run, "the memory of the context is not known: NVML says nothing of it");
    }
    if (code == TPP_OK && memory->cublas_workspace_bytes > 0) {
        code = write_value(bench, "gpu.cublas_workspace_bytes", &workspace, 1,
                           "free memory before and after the first product of a cuBLAS handle", err);
    }
    return code;
}

static enum tpp_code run(struct tpp_bench_run *run, struct tpp_error *err)
{
    struct bench bench = {.run = run};
    struct tpp_library_memory memory = {0};
    enum tpp_code code = TPP_OK;
    if (arguments.width % 8 != 0) {
        return tpp_fail(err, TPP_E_USAGE, "--width", NULL, "%llu is no multiple of 8",
                        (unsigned long long)arguments.width);
    }
    if (!arguments.no_libraries) { /* before anything else makes a context */
        code = tpp_library_memory((int)run->common.device, &memory, err);
    }
    code = code ? code : tpp_device_open((int)run->common.device, run->common.timeout_seconds, &bench.device, err);
    if (code != TPP_OK) {
        return code;
    }
    code = tpp_device_write_run(run, &bench.device, NULL, err);
    code = code ? code : write_facts(&bench, err);
    code = code ? code : write_library_memory(&bench, &memory, err);
    code = code ? code : measure_launches(&bench, err);
    code = code ? code : measure_host_link(&bench, err);
    code = code ? code : run_operations(&bench, err);
    tpp_bench_say(run, "%llu lines written", (unsigned long long)run->samples.num_lines);
    tpp_device_close(&bench.device);
    return code;
}

int main(int argc, char **argv)
{
    const struct tpp_bench_program program = {
        .name = "tp-calibrate-memory",
        .about =
            "Measures on one GPU what memory bounds: norm, SwiGLU, residual, softmax and cross-entropy kernels and\n"
            "an optimizer step, the gap between kernels, the host's launch cost, copies to and from the host, and\n"
            "the memory that the context and cuBLAS take (that of communicators: tp-calibrate-collectives).",
        .options = options,
        .arguments = &arguments,
        .default_budget = "60",
        .run = run,
    };
    return tpp_bench_main(&program, argc, (const char *const *)argv);
}
