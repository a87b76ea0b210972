/* tp-calibrate-overlap: computing beside a collective, and two collectives on the same links. */
#include "calibrate/bench/collectives_run.h"
#include "calibrate/bench/gemm_lt.h"
#include "calibrate/bench/host_statistics.h"
#include "calibrate/bench/kernels.h"
#include "costmodel/base/statistics.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    uint64_t bytes, tokens, hidden;
};

static struct arguments arguments;

static const struct tpp_bench_option options[] = {
    {"bytes", TPP_BENCH_BYTES, offsetof(struct arguments, bytes), "SIZE", NULL, "128MiB", 4096, 1e11,
     "size of the collectives"},
    {"tokens", TPP_BENCH_COUNT, offsetof(struct arguments, tokens), "N", NULL, "4096", 128, 131072,
     "rows of the matrix product"},
    {"hidden", TPP_BENCH_COUNT, offsetof(struct arguments, hidden), "N", NULL, "8192", 256, 32768,
     "its columns and inner size: a multiple of 8"},
    {.name = NULL},
};

enum compute { GEMM, ADD, COMPUTE_COUNT };

struct bench {
    struct tpp_collectives all;
    struct tpp_gemm_library *library;
    struct tpp_gemm_plan *gemm;
    struct tpp_comm *second;          /* on the same ranks as all.comm */
    struct CUstream_st *other_stream; /* of the collectives */
    struct CUstream_st *third_stream; /* of the second one */
    void *a, *b, *d;
    enum compute compute;
    enum tpp_bench_collective collective;
    uint64_t count;
};

/* A chain of launches in a stream, with an event at each end. */
struct chain {
    enum tpp_code (*launch)(struct bench *bench, struct CUstream_st *stream, struct tpp_error *err);
    struct CUstream_st *stream;
    uint32_t length;
    double seconds; /* of the whole chain, after a run */
    cudaEvent_t begin, end;
};

static enum tpp_code launch_compute(struct bench *bench, struct CUstream_st *stream, struct tpp_error *err)
{
    if (bench->compute == GEMM) {
        return tpp_gemm_plan_run(bench->gemm, bench->a, bench->b, bench->d, stream, err);
    }
    const void *inputs[TPP_BENCH_MAX_OPERANDS] = {bench->a, bench->d, NULL, NULL};
    void *outputs[TPP_BENCH_MAX_OPERANDS] = {bench->d, NULL, NULL, NULL};
    return tpp_cuda(tpp_kernel_memory(TPP_BENCH_ADD, inputs, outputs, arguments.tokens, arguments.hidden, stream),
                    "add", err);
}

static enum tpp_code launch_first(struct bench *bench, struct CUstream_st *stream, struct tpp_error *err)
{
    return tpp_comm_launch(bench->all.comm, bench->collective, bench->all.type, bench->all.send, bench->all.receive,
                           bench->count, stream, err);
}

static enum tpp_code launch_second(struct bench *bench, struct CUstream_st *stream, struct tpp_error *err)
{
    /* The second half of the buffers. */
    const uint64_t half = bench->all.max_bytes / 2 / 256 * 256;
    return tpp_comm_launch(bench->second, bench->collective, bench->all.type, (char *)bench->all.send + half,
                           (char *)bench->all.receive + half, bench->count, stream, err);
}

/* Starts all chains behind a barrier of the ranks, waits, and reads the events. The first chain is launched first. */
static enum tpp_code run_chains(struct bench *bench, struct chain *chains, size_t count, struct tpp_error *err)
{
    enum tpp_code code = tpp_bootstrap_barrier(bench->all.run->bootstrap, err);
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        code = tpp_cuda(cudaEventCreate(&chains[i].begin), "cudaEventCreate", err);
        code = code ? code : tpp_cuda(cudaEventCreate(&chains[i].end), "cudaEventCreate", err);
        code = code ? code : tpp_cuda(cudaEventRecord(chains[i].begin, chains[i].stream), "cudaEventRecord", err);
        for (uint32_t j = 0; j < chains[i].length && code == TPP_OK; j++) {
            code = chains[i].launch(bench, chains[i].stream, err);
        }
        code = code ? code : tpp_cuda(cudaEventRecord(chains[i].end, chains[i].stream), "cudaEventRecord", err);
    }
    for (size_t i = 0; i < count && code == TPP_OK; i++) {
        float milliseconds = 0;
        code = tpp_collectives_wait(&bench->all, chains[i].stream, "overlapped work", err);
        code = code ? code
                    : tpp_cuda(cudaEventElapsedTime(&milliseconds, chains[i].begin, chains[i].end),
                               "cudaEventElapsedTime", err);
        chains[i].seconds = 1e-3 * milliseconds;
    }
    for (size_t i = 0; i < count; i++) {
        if (chains[i].begin) {
            cudaEventDestroy(chains[i].begin);
        }
        if (chains[i].end) {
            cudaEventDestroy(chains[i].end);
        }
        chains[i].begin = chains[i].end = NULL;
    }
    return code;
}

/* Median seconds of one launch of a chain alone, the largest of all ranks: all ranks get the same. */
static enum tpp_code time_alone(struct bench *bench, struct chain chain, double *seconds, struct tpp_error *err)
{
    const uint32_t size = bench->all.run->world.size;
    double own[3], *all = calloc(size, sizeof *all);
    enum tpp_code code = all ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, "ranks", NULL, "out of memory");
    chain.length = 10;
    for (int i = 0; i < 4 && code == TPP_OK; i++) { /* the first is the warm-up */
        code = run_chains(bench, &chain, 1, err);
        own[i > 0 ? i - 1 : 0] = chain.seconds / chain.length;
    }
    tpp_sort_numbers(own, 3);
    code = code ? code : tpp_bootstrap_all_gather(bench->all.run->bootstrap, &own[1], sizeof own[1], all, err);
    *seconds = 0;
    for (uint32_t rank = 0; rank < size && code == TPP_OK; rank++) {
        *seconds = fmax(*seconds, all[rank]);
    }
    free(all);
    return code;
}

/* Repeats of one chain: alone, and beside a second one that lasts longer. Values are of the chain's seconds. */
struct comparison {
    double alone[TPP_MAX_REPEATS], beside[TPP_MAX_REPEATS];
};

static enum tpp_code compare(struct bench *bench, struct chain measured, struct chain companion,
                             struct comparison *result, struct tpp_error *err)
{
    double measured_seconds, companion_seconds;
    enum tpp_code code = time_alone(bench, measured, &measured_seconds, err);
    code = code ? code : time_alone(bench, companion, &companion_seconds, err);
    if (code != TPP_OK) {
        return code;
    }
    /* About 20 ms, and a companion of twice that, so that it is there to the end although both slow down. */
    measured.length = (uint32_t)tpp_bench_num_inner(measured_seconds, 0.02, 2000);
    companion.length = (uint32_t)tpp_bench_num_inner(companion_seconds, 2.5 * measured.length * measured_seconds, 4000);
    for (size_t i = 0; i < bench->all.run->common.repeats && code == TPP_OK; i++) {
        tpp_bench_watch(bench->all.run, 6 * bench->all.run->common.timeout_seconds + 30);
        struct chain both[2] = {companion, measured};
        code = run_chains(bench, &measured, 1, err);
        result->alone[i] = measured.seconds / measured.length;
        code = code ? code : run_chains(bench, both, 2, err);
        result->beside[i] = both[1].seconds / measured.length;
    }
    return code;
}

static void begin_row(struct bench *bench, const char *kind)
{
    struct tpp_bench_samples *samples = &bench->all.run->samples;
    tpp_bench_samples_begin(samples, kind);
    tpp_bench_samples_text(samples, "collective", tpp_bench_collective_name(bench->collective));
    tpp_bench_samples_text(samples, "group", bench->all.plan.name);
    tpp_bench_samples_count(samples, "ranks", tpp_bench_group_size(&bench->all.plan));
    tpp_bench_samples_count(samples, "nodes", bench->all.plan.group_nodes);
    tpp_bench_samples_count(samples, "bytes", arguments.bytes);
}

static enum tpp_code end_row(struct bench *bench, const struct comparison *result, const char *alone,
                             const char *beside, struct tpp_error *err)
{
    struct tpp_bench_samples *samples = &bench->all.run->samples;
    tpp_bench_samples_numbers(samples, alone, result->alone, bench->all.run->common.repeats);
    tpp_bench_samples_numbers(samples, beside, result->beside, bench->all.run->common.repeats);
    tpp_device_add_state(bench->all.run, &bench->all.device);
    return tpp_bench_samples_end(samples, err);
}

/* T' = T + sigma T' while the collective runs all the time (cost-model 9.3), so sigma = 1 - T/T'. */
static enum tpp_code write_slowdown(struct bench *bench, const struct comparison *result, struct tpp_error *err)
{
    struct tpp_bench_samples *samples = &bench->all.run->samples;
    const size_t repeats = bench->all.run->common.repeats;
    double sigma[TPP_MAX_REPEATS];
    for (size_t i = 0; i < repeats; i++) {
        sigma[i] = fmax(0, 1 - result->alone[i] / result->beside[i]);
    }
    begin_row(bench, bench->compute == GEMM ? "value" : "overlap");
    if (bench->compute == GEMM) {
        tpp_bench_samples_text(samples, "key", "gpu.overlap_slowdown_fraction");
    }
    tpp_bench_samples_text(samples, "compute", bench->compute == GEMM ? "gemm" : "add");
    tpp_bench_samples_count(samples, "m", arguments.tokens);
    tpp_bench_samples_count(samples, "n", arguments.hidden);
    tpp_bench_samples_numbers(samples, "values", sigma, repeats);
    return end_row(bench, result, "compute_alone_seconds", "compute_beside_seconds", err);
}

/* Both ways: what the compute kernel loses, and what the collective loses. */
static enum tpp_code measure_overlap(struct bench *bench, struct tpp_error *err)
{
    const struct chain compute = {.launch = launch_compute, .stream = bench->all.device.stream};
    const struct chain collective = {.launch = launch_first, .stream = bench->other_stream};
    struct comparison *result = calloc(1, sizeof *result);
    if (!result) {
        return tpp_fail(err, TPP_E_MEMORY, "samples", NULL, "out of memory");
    }
    enum tpp_code code = compare(bench, compute, collective, result, err);
    code = code ? code : write_slowdown(bench, result, err);
    code = code ? code : compare(bench, collective, compute, result, err);
    if (code == TPP_OK) {
        begin_row(bench, "overlap");
        tpp_bench_samples_text(&bench->all.run->samples, "compute", bench->compute == GEMM ? "gemm" : "add");
        code = end_row(bench, result, "collective_alone_seconds", "collective_beside_seconds", err);
    }
    free(result);
    return code;
}

static enum tpp_code measure_sharing(struct bench *bench, struct tpp_error *err)
{
    const struct chain first = {.launch = launch_first, .stream = bench->other_stream};
    const struct chain second = {.launch = launch_second, .stream = bench->third_stream};
    struct comparison *result = calloc(1, sizeof *result);
    if (!result) {
        return tpp_fail(err, TPP_E_MEMORY, "samples", NULL, "out of memory");
    }
    enum tpp_code code = compare(bench, first, second, result, err);
    if (code == TPP_OK) {
        begin_row(bench, "contention");
        tpp_bench_samples_text(&bench->all.run->samples, "other", tpp_bench_collective_name(bench->collective));
        code = end_row(bench, result, "collective_alone_seconds", "collective_beside_seconds", err);
    }
    free(result);
    return code;
}

static enum tpp_code measure_collective(struct bench *bench, enum tpp_bench_collective collective,
                                        struct tpp_error *err)
{
    uint64_t bytes = 0;
    enum tpp_code code = TPP_OK;
    bench->collective = collective;
    const uint64_t half = bench->all.max_bytes / 2;
    if (!tpp_bench_message(collective, arguments.bytes < half ? arguments.bytes : half,
                           tpp_bench_type_bytes(bench->all.type), tpp_bench_group_size(&bench->all.plan), &bytes,
                           &bench->count)) {
        return TPP_OK;
    }
    for (int compute = 0; compute < COMPUTE_COUNT && code == TPP_OK; compute++) {
        bench->compute = (enum compute)compute;
        code = measure_overlap(bench, err);
    }
    return code ? code : measure_sharing(bench, err);
}

static enum tpp_code measure_plan(struct bench *bench, const struct tpp_bench_groups *plan, bool *out_of_time,
                                  struct tpp_error *err)
{
    static const enum tpp_bench_collective collectives[] = {TPP_BENCH_ALL_GATHER, TPP_BENCH_REDUCE_SCATTER,
                                                            TPP_BENCH_ALL_REDUCE, TPP_BENCH_SEND_RECV};
    enum tpp_code code = tpp_collectives_begin(&bench->all, plan, err);
    code = code ? code : tpp_comm_new(bench->all.run, &bench->all.device, plan, true, &bench->second, err);
    bench->all.watch.comms[1] = bench->second;
    tpp_bench_say(bench->all.run, "%s: groups of %u ranks", plan->name, tpp_bench_group_size(plan));
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0] && code == TPP_OK && !*out_of_time; i++) {
        code = measure_collective(bench, collectives[i], err);
        code = code ? code : tpp_collectives_out_of_time(&bench->all, out_of_time, err);
    }
    bench->all.watch.comms[1] = NULL;
    if (code == TPP_OK) {
        tpp_comm_free(bench->second);
    } else {
        tpp_comm_abort(bench->second);
    }
    bench->second = NULL;
    tpp_collectives_end(&bench->all, code);
    return code;
}

/* The whole node, and one rank a node: two groups that all ranks of are in one. */
static enum tpp_code measure_plans(struct bench *bench, struct tpp_error *err)
{
    struct tpp_bench_groups plans[TPP_BENCH_MAX_GROUPS];
    const uint32_t per_node = bench->all.run->world.ranks_per_node;
    const size_t count = tpp_bench_group_plans(bench->all.num_nodes, per_node, plans);
    enum tpp_code code = TPP_OK;
    bool out_of_time = false;
    for (size_t i = 0; i < count && code == TPP_OK && !out_of_time; i++) {
        const bool is_wanted = strcmp(plans[i].name, "node") == 0 || strcmp(plans[i].name, "across-1") == 0 ||
                               (per_node == 1 && strcmp(plans[i].name, "world") == 0);
        if (is_wanted && (plans[i].concurrent || plans[i].num_groups == 1)) {
            code = measure_plan(bench, &plans[i], &out_of_time, err);
        }
    }
    return code;
}

static enum tpp_code prepare(struct bench *bench, struct tpp_error *err)
{
    const struct tpp_bench_gemm gemm = {.m = arguments.tokens, .n = arguments.hidden, .k = arguments.hidden};
    const uint64_t activations = gemm.m * gemm.k * 2, weights = gemm.k * gemm.n * 2;
    struct CUstream_st *stream = bench->all.device.stream;
    const uint64_t seed = bench->all.run->common.seed;
    enum tpp_code code =
        tpp_cuda(cudaStreamCreateWithFlags(&bench->other_stream, cudaStreamNonBlocking), "cudaStreamCreate", err);
    code = code ? code
                : tpp_cuda(cudaStreamCreateWithFlags(&bench->third_stream, cudaStreamNonBlocking), "cudaStreamCreate",
                           err);
    code = code ? code : tpp_device_alloc(activations, &bench->a, err);
    code = code ? code : tpp_device_alloc(weights, &bench->b, err);
    code = code ? code : tpp_device_alloc(activations, &bench->d, err);
    code = code ? code
                : tpp_cuda(tpp_kernel_fill_random(TPP_BENCH_BF16, bench->a, activations / 2, seed, stream),
                           "the random operands", err);
    code = code ? code
                : tpp_cuda(tpp_kernel_fill_random(TPP_BENCH_BF16, bench->b, weights / 2, seed + 1, stream),
                           "the random operands", err);
    code = code ? code : tpp_device_clear(&bench->all.device, bench->d, activations, err);
    code = code ? code : tpp_gemm_library_new(&bench->library, err);
    return code ? code : tpp_gemm_plan_new(bench->library, &gemm, TPP_BENCH_BF16, &bench->gemm, err);
}

static enum tpp_code run(struct tpp_bench_run *run, struct tpp_error *err)
{
    struct bench bench;
    memset(&bench, 0, sizeof bench);
    if (arguments.hidden % 8 != 0) {
        return tpp_fail(err, TPP_E_USAGE, "--hidden", NULL, "%llu is no multiple of 8",
                        (unsigned long long)arguments.hidden);
    }
    enum tpp_code code = tpp_collectives_open(run, 2 * arguments.bytes + 4096, &bench.all, err);
    code = code ? code : prepare(&bench, err);
    code = code ? code : measure_plans(&bench, err);
    if (code == TPP_OK) {
        tpp_gemm_plan_free(bench.gemm);
        tpp_gemm_library_free(bench.library);
        tpp_device_free(bench.a);
        tpp_device_free(bench.b);
        tpp_device_free(bench.d);
        cudaStreamDestroy(bench.other_stream);
        cudaStreamDestroy(bench.third_stream);
    }
    tpp_collectives_close(&bench.all, code);
    return code;
}

int main(int argc, char **argv)
{
    const struct tpp_bench_program program = {
        .name = "tp-calibrate-overlap",
        .about = "Measures what a matrix product and a memory-bound kernel lose while a collective runs beside them,\n"
                 "what the collective loses, and what two collectives on the same links (inside a node; on one NIC)\n"
                 "take from each other. Start one rank a GPU with torchrun, srun or mpirun, or with --spawn N.",
        .options = options,
        .arguments = &arguments,
        .is_distributed = true,
        .default_budget = "300",
        .run = run,
    };
    return tpp_bench_main(&program, argc, (const char *const *)argv);
}
