/* tp-calibrate-gemm: matrix products of training through cuBLASLt. */
#include "calibrate/bench/device.h"
#include "calibrate/bench/gemm_lt.h"
#include "calibrate/bench/host_check.h"
#include "calibrate/bench/host_statistics.h"
#include "calibrate/bench/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NUM_CHECKS 16
#define MAX_COPIES 16
#define MAX_PIECES 512
/* Of the time budget, the part for the sustained rate; the rest is for the grid. */
#define SUSTAINED_SHARE 0.3

struct arguments {
    const char *types;
    uint64_t max_points, pool_bytes;
    double sustain_seconds;
    bool no_check;
};

static struct arguments arguments;

static const struct tpp_bench_option options[] = {
    {"types", TPP_BENCH_LIST, offsetof(struct arguments, types), "LIST", "bf16|fp16|fp8", "bf16,fp8", 0, 0,
     "number formats, with commas: bf16, fp16, fp8 (e4m3, skipped where the GPU has none)"},
    {"max-points", TPP_BENCH_COUNT, offsetof(struct arguments, max_points), "N", NULL, "100000", 1, 1e9,
     "shapes to measure at most, in each format"},
    {"memory", TPP_BENCH_BYTES, offsetof(struct arguments, pool_bytes), "SIZE", NULL, "0", 0, 0,
     "device memory to use, 0 is three quarters of what is free"},
    {"sustain", TPP_BENCH_NUMBER, offsetof(struct arguments, sustain_seconds), "SECONDS", NULL, "4", 0, 600,
     "how long each shape of the sustained rate runs, 0 leaves that rate out"},
    {"no-check", TPP_BENCH_FLAG, offsetof(struct arguments, no_check), .help = "do not check the results"},
    {.name = NULL},
};

/* A pool of random operands, and one for the results. Shapes take their operands at its beginning; copies further on
 * keep them out of the cache. */
struct bench {
    struct tpp_bench_run *run;
    struct tpp_device device;
    struct tpp_gemm_library *library;
    void *inputs, *outputs;
    uint64_t input_bytes, output_bytes;
    enum tpp_bench_type type;
};

/* One shape in the pools. */
struct shape {
    const struct bench *bench;
    const struct tpp_bench_gemm *gemm;
    struct tpp_gemm_plan *plan;
    uint64_t a_bytes, b_bytes, d_bytes; /* rounded up to 256 */
    uint32_t num_copies;
};

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static struct shape place(const struct bench *bench, const struct tpp_bench_gemm *gemm)
{
    const size_t in = tpp_bench_type_bytes(bench->type);
    const size_t out = tpp_bench_type_bytes(tpp_gemm_output_type(gemm, bench->type));
    struct shape shape = {.bench = bench,
                          .gemm = gemm,
                          .a_bytes = round_up(gemm->m * gemm->k * in),
                          .b_bytes = round_up(gemm->k * gemm->n * in),
                          .d_bytes = round_up(gemm->m * gemm->n * out)};
    /* Three times the cache is touched before a copy comes again, as far as the pools reach. */
    const uint64_t one = shape.a_bytes + shape.b_bytes;
    uint64_t copies = 3 * bench->device.l2_bytes / one + 1;
    copies = copies < bench->input_bytes / one ? copies : bench->input_bytes / one;
    copies = copies < bench->output_bytes / shape.d_bytes ? copies : bench->output_bytes / shape.d_bytes;
    shape.num_copies = (uint32_t)(copies < 1 ? 1 : copies > MAX_COPIES ? MAX_COPIES : copies);
    return shape;
}

static enum tpp_code launch(void *context, uint32_t turn, struct CUstream_st *stream, struct tpp_error *err)
{
    const struct shape *shape = context;
    const uint64_t copy = turn % shape->num_copies;
    const char *a = (const char *)shape->bench->inputs + copy * (shape->a_bytes + shape->b_bytes);
    return tpp_gemm_plan_run(shape->plan, a, a + shape->a_bytes, (char *)shape->bench->outputs + copy * shape->d_bytes,
                             stream, err);
}

/* Runs the product once and compares elements all over the result, the corners first. */
static enum tpp_code check_result(struct bench *bench, struct shape *shape, uint64_t *num_wrong, struct tpp_error *err)
{
    const struct tpp_bench_gemm *gemm = shape->gemm;
    const enum tpp_bench_type out = tpp_gemm_output_type(gemm, bench->type);
    const size_t out_bytes = tpp_bench_type_bytes(out);
    const uint64_t b_first = shape->a_bytes / tpp_bench_type_bytes(bench->type);
    enum tpp_code code = tpp_device_clear(&bench->device, bench->outputs, shape->d_bytes, err);
    code = code ? code : launch(shape, 0, bench->device.stream, err);
    code = code ? code : tpp_device_wait(&bench->device, bench->device.stream, "a matrix product", err);
    for (uint64_t i = 0; i < NUM_CHECKS && code == TPP_OK; i++) {
        const uint64_t place = tpp_bench_hash(bench->run->common.seed, i);
        const uint64_t row = i < 4 ? (i & 1) * (gemm->m - 1) : place % gemm->m;
        const uint64_t column = i < 4 ? (i >> 1) * (gemm->n - 1) : (place >> 32) % gemm->n;
        uint32_t bits = 0;
        code = tpp_device_copy_to_host(&bits, (char *)bench->outputs + (row * gemm->n + column) * out_bytes, out_bytes,
                                       err);
        const double found = tpp_bench_decode(out, bits);
        const double wanted =
            tpp_bench_gemm_element(gemm, bench->type, bench->run->common.seed, 0, b_first, row, column);
        *num_wrong += !(fabs(found - wanted) <= tpp_bench_gemm_tolerance(bench->type, out, gemm->k, wanted));
    }
    return code;
}

static void begin_row(struct bench *bench, const struct tpp_bench_gemm *gemm, const char *regime)
{
    struct tpp_bench_samples *samples = &bench->run->samples;
    tpp_bench_samples_begin(samples, "gemm");
    tpp_bench_samples_count(samples, "m", gemm->m);
    tpp_bench_samples_count(samples, "n", gemm->n);
    tpp_bench_samples_count(samples, "k", gemm->k);
    tpp_bench_samples_text(samples, "layout", tpp_bench_layout_name(gemm->layout));
    tpp_bench_samples_text(samples, "dtype", tpp_bench_type_name(bench->type));
    tpp_bench_samples_bool(samples, "accumulate", gemm->accumulates);
    tpp_bench_samples_text(samples, "reason", tpp_bench_reason_name(gemm->reason));
    tpp_bench_samples_text(samples, "regime", regime);
}

static enum tpp_code measure_burst(struct bench *bench, struct shape *shape, struct tpp_error *err)
{
    const struct tpp_work work = {launch, shape, "a matrix product", false};
    const size_t repeats = bench->run->common.repeats;
    uint64_t num_wrong = 0;
    double seconds[TPP_MAX_REPEATS], one = 0;
    enum tpp_code code = arguments.no_check ? TPP_OK : check_result(bench, shape, &num_wrong, err);
    code = code ? code : tpp_device_estimate(&bench->device, &work, &one, err);
    const uint32_t inner = (uint32_t)tpp_bench_num_inner(one, 5e-4, 128);
    code = code ? code : tpp_device_time(&bench->device, &work, inner, repeats, seconds, err);
    if (code != TPP_OK) {
        return code;
    }
    begin_row(bench, shape->gemm, "burst");
    tpp_bench_samples_count(&bench->run->samples, "launches_per_repeat", inner);
    tpp_bench_samples_count(&bench->run->samples, "operand_copies", shape->num_copies);
    if (!arguments.no_check) {
        tpp_bench_samples_count(&bench->run->samples, "wrong", num_wrong);
        bench->run->num_wrong += num_wrong;
    }
    tpp_bench_samples_numbers(&bench->run->samples, "seconds", seconds, repeats);
    tpp_device_add_state(bench->run, &bench->device);
    return tpp_bench_samples_end(&bench->run->samples, err);
}

static enum tpp_code measure_sustained(struct bench *bench, struct shape *shape, struct tpp_error *err)
{
    const struct tpp_work work = {launch, shape, "a long run of matrix products", false};
    double seconds[MAX_PIECES], clocks[MAX_PIECES], one = 0;
    size_t count = 0;
    enum tpp_code code = tpp_device_estimate(&bench->device, &work, &one, err);
    code = code ? code
                : tpp_device_sustain(&bench->device, &work, one, arguments.sustain_seconds, 0.05, seconds, clocks,
                                     MAX_PIECES, &count, err);
    if (code != TPP_OK) {
        return code;
    }
    begin_row(bench, shape->gemm, "sustained");
    tpp_bench_samples_number(&bench->run->samples, "after_seconds", arguments.sustain_seconds / 2);
    tpp_bench_samples_numbers(&bench->run->samples, "seconds", seconds, count);
    tpp_bench_samples_numbers(&bench->run->samples, "sm_clocks_hz", clocks, bench->device.nvml ? count : 0);
    tpp_device_add_state(bench->run, &bench->device);
    return tpp_bench_samples_end(&bench->run->samples, err);
}

/* Measures one shape; what the library cannot do is left out and counted. */
static enum tpp_code measure_shape(struct bench *bench, const struct tpp_bench_gemm *gemm,
                                   enum tpp_code (*measure)(struct bench *, struct shape *, struct tpp_error *),
                                   size_t *num_unsupported, struct tpp_error *err)
{
    struct shape shape = place(bench, gemm);
    enum tpp_code code = tpp_gemm_plan_new(bench->library, gemm, bench->type, &shape.plan, err);
    code = code ? code : measure(bench, &shape, err);
    tpp_gemm_plan_free(shape.plan);
    if (code == TPP_E_UNSUPPORTED) {
        ++*num_unsupported;
        return TPP_OK;
    }
    return code;
}

static enum tpp_code run_grid(struct bench *bench, const struct tpp_bench_gemm_list *list, double until_left,
                              struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    size_t measured = 0, num_unsupported = 0;
    for (size_t i = 0; i < list->count && code == TPP_OK; i++) {
        if (measured >= arguments.max_points || tpp_bench_seconds_left(bench->run) <= until_left) {
            break;
        }
        code = measure_shape(bench, &list->items[i], measure_burst, &num_unsupported, err);
        measured++;
    }
    tpp_bench_say(bench->run, "%s: %zu of %zu shapes measured, %zu of them not supported by the library",
                  tpp_bench_type_name(bench->type), measured, list->count, num_unsupported);
    return code;
}

/* Shapes that take long enough to draw full power: 2 m n k of 1 TFLOP and more. */
static enum tpp_code run_sustained(struct bench *bench, const struct tpp_bench_gemm_list *list, double until_left,
                                   struct tpp_error *err)
{
    enum tpp_code code = TPP_OK;
    size_t num_unsupported = 0;
    for (size_t i = 0; i < list->count && code == TPP_OK && arguments.sustain_seconds > 0; i++) {
        const struct tpp_bench_gemm *gemm = &list->items[i];
        if (tpp_bench_seconds_left(bench->run) <= until_left + arguments.sustain_seconds) {
            break;
        }
        if (2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k >= 1e12) {
            code = measure_shape(bench, gemm, measure_sustained, &num_unsupported, err);
        }
    }
    return code;
}

/* Fp8 products exist as TN only before Blackwell; training frameworks transpose the operands for the gradients. */
static void make_fp8(struct tpp_bench_gemm_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        list->items[i].layout = TPP_BENCH_TN;
        list->items[i].accumulates = false;
    }
}

static enum tpp_code run_type(struct bench *bench, double share_begin, double share_end, struct tpp_error *err)
{
    const double budget = bench->run->common.budget_seconds;
    const double middle = share_end - SUSTAINED_SHARE * (share_end - share_begin);
    const size_t in = tpp_bench_type_bytes(bench->type);
    const struct tpp_bench_limits limits = {
        .memory_bytes = bench->input_bytes < bench->output_bytes ? bench->input_bytes : bench->output_bytes,
        .num_sms = bench->device.num_sms,
        .element_bytes = in,
        .multiple = bench->type == TPP_BENCH_FP8 ? 16 : 1,
    };
    struct tpp_bench_gemm_list list;
    enum tpp_code code = tpp_bench_gemm_grid(&limits, &list, err);
    if (code != TPP_OK) {
        return code;
    }
    if (bench->type == TPP_BENCH_FP8) {
        make_fp8(&list);
    }
    code = tpp_cuda(tpp_kernel_fill_random(bench->type, bench->inputs, bench->input_bytes / in, bench->run->common.seed,
                                           bench->device.stream),
                    "the random operands", err);
    code = code ? code : run_grid(bench, &list, budget * (1 - middle), err);
    code = code ? code : run_sustained(bench, &list, budget * (1 - share_end), err);
    tpp_bench_gemm_list_release(&list);
    return code;
}

static enum tpp_code allocate(struct bench *bench, struct tpp_error *err)
{
    uint64_t bytes = arguments.pool_bytes;
    enum tpp_code code = TPP_OK;
    if (bytes == 0) {
        code = tpp_device_free_bytes(&bytes, err);
        bytes = bytes / 4 * 3;
    }
    bench->input_bytes = bench->output_bytes = bytes / 2 / 256 * 256;
    if (code == TPP_OK && bench->input_bytes == 0) {
        return tpp_fail(err, TPP_E_IO, "--memory", NULL, "%llu bytes are not enough", (unsigned long long)bytes);
    }
    code = code ? code : tpp_device_alloc(bench->input_bytes, &bench->inputs, err);
    return code ? code : tpp_device_alloc(bench->output_bytes, &bench->outputs, err);
}

static enum tpp_code run_types(struct bench *bench, struct tpp_error *err)
{
    enum tpp_bench_type types[TPP_BENCH_TYPE_COUNT];
    size_t count = 0;
    enum tpp_code code = TPP_OK;
    for (int type = TPP_BENCH_BF16; type <= TPP_BENCH_FP8; type++) {
        if (!tpp_bench_list_contains(arguments.types, tpp_bench_type_name((enum tpp_bench_type)type))) {
            continue;
        }
        /* Tensor cores take bf16 from 8.0 on and fp8 from 8.9 on. */
        const int capability = 10 * bench->device.major + bench->device.minor;
        if (capability < (type == TPP_BENCH_FP8 ? 89 : type == TPP_BENCH_BF16 ? 80 : 70)) {
            tpp_bench_say(bench->run, "%s: this GPU has none", tpp_bench_type_name((enum tpp_bench_type)type));
            continue;
        }
        types[count++] = (enum tpp_bench_type)type;
    }
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        bench->type = types[i];
        code = run_type(bench, (double)i / (double)count, (double)(i + 1) / (double)count, err);
    }
    return code;
}

static enum tpp_code run(struct tpp_bench_run *run, struct tpp_error *err)
{
    struct bench bench = {.run = run};
    enum tpp_code code = tpp_device_open((int)run->common.device, run->common.timeout_seconds, &bench.device, err);
    if (code != TPP_OK) {
        return code;
    }
    code = tpp_gemm_library_new(&bench.library, err);
    if (code == TPP_OK) {
        const char *const libraries[] = {"cublaslt", tpp_gemm_library_version(bench.library), NULL};
        code = tpp_device_write_run(run, &bench.device, libraries, err);
    }
    code = code ? code : allocate(&bench, err);
    code = code ? code : run_types(&bench, err);
    tpp_device_free(bench.inputs);
    tpp_device_free(bench.outputs);
    tpp_gemm_library_free(bench.library);
    tpp_device_close(&bench.device);
    return code;
}

int main(int argc, char **argv)
{
    const struct tpp_bench_program program = {
        .name = "tp-calibrate-gemm",
        .about =
            "Measures the matrix products of transformer training with cuBLASLt on one GPU: projections whole and\n"
            "sharded, forward and both gradients, skinny, odd and large, around tile and wave ends; in bursts, and\n"
            "large ones until power and clocks have settled. Data are random, results are checked.",
        .options = options,
        .arguments = &arguments,
        .default_budget = "300",
        .run = run,
    };
    return tpp_bench_main(&program, argc, (const char *const *)argv);
}
