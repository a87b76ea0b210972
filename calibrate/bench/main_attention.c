/* tp-calibrate-attention: fused attention of cuDNN, forward and backward. */
#include "calibrate/bench/attention_graph.h"
#include "calibrate/bench/device.h"
#include "calibrate/bench/host_check.h"
#include "calibrate/bench/host_statistics.h"
#include "calibrate/bench/kernels.h"

#include <stdlib.h>
#include <string.h>

/* Rows longer than this are not checked: the host would need long for each. */
#define MAX_CHECKED_LENGTH 4096
#define MAX_CHECKED_SIZE 512

struct arguments {
    const char *type;
    uint64_t max_points, max_length, head_dim;
    bool no_check, forward_only;
};

static struct arguments arguments;

static const struct tpp_bench_option options[] = {
    {"type", TPP_BENCH_CHOICE, offsetof(struct arguments, type), NULL, "bf16|fp16", "bf16", 0, 0, "number format"},
    {"max-points", TPP_BENCH_COUNT, offsetof(struct arguments, max_points), "N", NULL, "100000", 1, 1e9,
     "shapes to measure at most"},
    {"max-length", TPP_BENCH_COUNT, offsetof(struct arguments, max_length), "TOKENS", NULL, "131072", 512, 131072,
     "longest sequence"},
    {"head-dim", TPP_BENCH_COUNT, offsetof(struct arguments, head_dim), "N", NULL, "0", 0, 256,
     "only heads of this size: 64, 128 or 256; 0 is all"},
    {"forward-only", TPP_BENCH_FLAG, offsetof(struct arguments, forward_only), .help = "leave the backward pass out"},
    {"no-check", TPP_BENCH_FLAG, offsetof(struct arguments, no_check), .help = "do not check the results"},
    {.name = NULL},
};

struct bench {
    struct tpp_bench_run *run;
    struct tpp_device device;
    struct tpp_attention_library *library;
    enum tpp_bench_type type;
    size_t num_measured, num_unsupported;
};

/* One shape with its tensors. */
struct attention {
    struct bench *bench;
    const struct tpp_bench_attention *shape;
    struct tpp_attention_plan *plan;
    struct tpp_attention_buffers buffers;
    enum tpp_attention_pass pass;
};

static enum tpp_code launch(void *context, uint32_t turn, struct CUstream_st *stream, struct tpp_error *err)
{
    const struct attention *attention = context;
    (void)turn;
    (void)stream; /* that of the library's handle */
    return tpp_attention_plan_run(attention->plan, &attention->buffers, err);
}

static uint64_t elements(const struct tpp_bench_attention *shape, uint64_t heads)
{
    return shape->batch * shape->length * heads * shape->head_dim;
}

static enum tpp_code allocate(struct attention *attention, struct tpp_error *err)
{
    const struct tpp_bench_attention *shape = attention->shape;
    const size_t bytes = tpp_bench_type_bytes(attention->bench->type);
    const uint64_t query = elements(shape, shape->num_heads) * bytes;
    const uint64_t key = elements(shape, shape->num_query_groups) * bytes;
    const uint64_t rows = shape->batch * shape->num_heads * shape->length * sizeof(float);
    struct tpp_attention_buffers *buffers = &attention->buffers;
    const struct {
        void **memory;
        uint64_t bytes;
        bool is_backward;
    } wanted[] = {
        {&buffers->q, query, false},
        {&buffers->k, key, false},
        {&buffers->v, key, false},
        {&buffers->o, query, false},
        {&buffers->stats, rows, false},
        {&buffers->d_o, query, true},
        {&buffers->d_q, query, true},
        {&buffers->d_k, key, true},
        {&buffers->d_v, key, true},
        {&buffers->sum, rows, true},
        {&buffers->dq_sum, elements(shape, shape->num_heads) * sizeof(float), true},
    };
    enum tpp_code code = TPP_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && code == TPP_OK; i++) {
        if (!wanted[i].is_backward || !arguments.forward_only) {
            code = tpp_device_alloc(wanted[i].bytes, wanted[i].memory, err);
        }
    }
    return code;
}

static void release(struct attention *attention)
{
    struct tpp_attention_buffers *buffers = &attention->buffers;
    void *const all[] = {buffers->q,   buffers->k,   buffers->v,   buffers->o,   buffers->stats,  buffers->d_o,
                         buffers->d_q, buffers->d_k, buffers->d_v, buffers->sum, buffers->dq_sum, buffers->workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        tpp_device_free(all[i]);
    }
}

/* q, k, v and the gradient of the output are random with seeds that follow each other. */
static enum tpp_code fill(struct attention *attention, struct tpp_error *err)
{
    const struct tpp_bench_attention *shape = attention->shape;
    const struct bench *bench = attention->bench;
    void *const tensors[] = {attention->buffers.q, attention->buffers.k, attention->buffers.v, attention->buffers.d_o};
    enum tpp_code code = TPP_OK;
    for (uint64_t i = 0; i < 4 && code == TPP_OK; i++) {
        const uint64_t heads = i == 1 || i == 2 ? shape->num_query_groups : shape->num_heads;
        if (tensors[i]) {
            code = tpp_cuda(tpp_kernel_fill_random(bench->type, tensors[i], elements(shape, heads),
                                                   bench->run->common.seed + i, bench->device.stream),
                            "the random operands", err);
        }
    }
    return code;
}

/* One row of the result against the host. */
static enum tpp_code check_row(struct attention *attention, uint64_t head, uint64_t row, uint64_t *wrong,
                               struct tpp_error *err)
{
    const struct tpp_bench_attention *shape = attention->shape;
    const struct bench *bench = attention->bench;
    const size_t bytes = tpp_bench_type_bytes(bench->type);
    const bool is_forward = attention->pass == TPP_ATTENTION_FORWARD;
    const uint64_t batch = shape->batch - 1;
    const uint64_t first = ((batch * shape->length + row) * shape->num_heads + head) * shape->head_dim;
    const void *result = is_forward ? attention->buffers.o : attention->buffers.d_q;
    double wanted[MAX_CHECKED_SIZE], *scratch = malloc(shape->length * sizeof *scratch);
    char found[MAX_CHECKED_SIZE * 4];
    if (!scratch) {
        return tpp_fail(err, TPP_E_MEMORY, "check", NULL, "out of memory");
    }
    if (is_forward) {
        tpp_bench_attention_output_row(shape, bench->type, bench->run->common.seed, batch, head, row, scratch, wanted);
    } else {
        tpp_bench_attention_query_gradient_row(shape, bench->type, bench->run->common.seed, batch, head, row, scratch,
                                               wanted);
    }
    free(scratch);
    const enum tpp_code code =
        tpp_device_copy_to_host(found, (const char *)result + first * bytes, shape->head_dim * bytes, err);
    if (code == TPP_OK) {
        *wrong += tpp_bench_attention_count_wrong(bench->type, wanted, found, shape->head_dim);
    }
    return code;
}

/* Runs the pass once and checks a row in the middle and the last one. */
static enum tpp_code check(struct attention *attention, uint64_t *wrong, struct tpp_error *err)
{
    const struct tpp_bench_attention *shape = attention->shape;
    struct bench *bench = attention->bench;
    enum tpp_code code = launch(attention, 0, bench->device.stream, err);
    code = code ? code : tpp_device_wait(&bench->device, bench->device.stream, "attention", err);
    code = code ? code : check_row(attention, shape->num_heads - 1, shape->length / 2 + 1, wrong, err);
    return code ? code : check_row(attention, 0, shape->length - 1, wrong, err);
}

static enum tpp_code write_row(struct attention *attention, const double *seconds, uint32_t inner, bool is_checked,
                               uint64_t wrong, struct tpp_error *err)
{
    struct bench *bench = attention->bench;
    const struct tpp_bench_attention *shape = attention->shape;
    struct tpp_bench_samples *samples = &bench->run->samples;
    tpp_bench_samples_begin(samples, "attention");
    tpp_bench_samples_text(samples, "implementation", "cudnn");
    /* The generations of kernels as a profile names them: cuDNN's on Hopper and later are of the third. */
    tpp_bench_samples_text(samples, "kernel", bench->device.major >= 9 ? "flash3" : "flash2");
    tpp_bench_samples_text(samples, "pass", attention->pass == TPP_ATTENTION_FORWARD ? "forward" : "backward");
    tpp_bench_samples_count(samples, "batch", shape->batch);
    tpp_bench_samples_count(samples, "heads", shape->num_heads);
    tpp_bench_samples_count(samples, "kv_heads", shape->num_query_groups);
    tpp_bench_samples_count(samples, "query_length", shape->length);
    tpp_bench_samples_count(samples, "key_length", shape->length);
    tpp_bench_samples_count(samples, "qk_head_dim", shape->head_dim);
    tpp_bench_samples_count(samples, "v_head_dim", shape->head_dim);
    tpp_bench_samples_bool(samples, "causal", shape->is_causal);
    tpp_bench_samples_bool(samples, "deterministic", false);
    tpp_bench_samples_text(samples, "dtype", tpp_bench_type_name(bench->type));
    tpp_bench_samples_count(samples, "workspace_bytes", tpp_attention_plan_workspace_bytes(attention->plan));
    tpp_bench_samples_count(samples, "launches_per_repeat", inner);
    if (is_checked) {
        tpp_bench_samples_count(samples, "wrong", wrong);
        bench->run->num_wrong += wrong;
    }
    tpp_bench_samples_numbers(samples, "seconds", seconds, bench->run->common.repeats);
    tpp_device_add_state(bench->run, &bench->device);
    return tpp_bench_samples_end(samples, err);
}

static enum tpp_code measure(struct attention *attention, struct tpp_error *err)
{
    struct bench *bench = attention->bench;
    const struct tpp_work work = {launch, attention, "attention", false};
    const bool is_checked = !arguments.no_check && attention->shape->length <= MAX_CHECKED_LENGTH;
    double seconds[TPP_MAX_REPEATS], one = 0;
    uint64_t wrong = 0;
    enum tpp_code code = is_checked ? check(attention, &wrong, err) : TPP_OK;
    code = code ? code : tpp_device_estimate(&bench->device, &work, &one, err);
    const uint32_t inner = (uint32_t)tpp_bench_num_inner(one, 5e-4, 64);
    code = code ? code : tpp_device_time(&bench->device, &work, inner, bench->run->common.repeats, seconds, err);
    return code ? code : write_row(attention, seconds, inner, is_checked, wrong, err);
}

/* One pass of a shape; what cuDNN has no kernel for is left out and counted. */
static enum tpp_code run_pass(struct attention *attention, enum tpp_attention_pass pass, bool *is_supported,
                              struct tpp_error *err)
{
    struct bench *bench = attention->bench;
    attention->pass = pass;
    enum tpp_code code =
        tpp_attention_plan_new(bench->library, attention->shape, bench->type, pass, &attention->plan, err);
    *is_supported = code != TPP_E_UNSUPPORTED;
    if (!*is_supported) {
        bench->num_unsupported++;
        return TPP_OK;
    }
    const uint64_t workspace = code == TPP_OK ? tpp_attention_plan_workspace_bytes(attention->plan) : 0;
    if (code == TPP_OK && workspace > 0) {
        code = tpp_device_alloc(workspace, &attention->buffers.workspace, err);
    }
    code = code ? code : measure(attention, err);
    tpp_device_free(attention->buffers.workspace);
    attention->buffers.workspace = NULL;
    tpp_attention_plan_free(attention->plan);
    attention->plan = NULL;
    return code;
}

/* The backward pass reads what the forward pass wrote. */
static enum tpp_code run_shape(struct bench *bench, const struct tpp_bench_attention *shape, struct tpp_error *err)
{
    struct attention attention = {.bench = bench, .shape = shape};
    bool is_supported = false;
    enum tpp_code code = allocate(&attention, err);
    code = code ? code : fill(&attention, err);
    code = code ? code : run_pass(&attention, TPP_ATTENTION_FORWARD, &is_supported, err);
    if (code == TPP_OK && is_supported && !arguments.forward_only) {
        code = run_pass(&attention, TPP_ATTENTION_BACKWARD, &is_supported, err);
    }
    release(&attention);
    return code;
}

static enum tpp_code run_grid(struct bench *bench, struct tpp_error *err)
{
    struct tpp_bench_limits limits = {
        .num_sms = bench->device.num_sms, .element_bytes = tpp_bench_type_bytes(bench->type), .multiple = 1};
    struct tpp_bench_attention_list list;
    enum tpp_code code = tpp_device_free_bytes(&limits.memory_bytes, err);
    limits.memory_bytes = limits.memory_bytes / 4 * 3;
    code = code ? code : tpp_bench_attention_grid(&limits, &list, err);
    if (code != TPP_OK) {
        return code;
    }
    for (size_t i = 0; i < list.count && code == TPP_OK; i++) {
        const struct tpp_bench_attention *shape = &list.items[i];
        if (bench->num_measured >= arguments.max_points || tpp_bench_seconds_left(bench->run) <= 0) {
            break;
        }
        if (shape->length <= arguments.max_length &&
            (arguments.head_dim == 0 || shape->head_dim == arguments.head_dim)) {
            code = run_shape(bench, shape, err);
            bench->num_measured++;
        }
    }
    tpp_bench_say(bench->run, "%zu of %zu shapes measured, %zu passes without a kernel", bench->num_measured,
                  list.count, bench->num_unsupported);
    tpp_bench_attention_list_release(&list);
    return code;
}

static enum tpp_code run(struct tpp_bench_run *run, struct tpp_error *err)
{
    struct bench bench = {.run = run, .type = strcmp(arguments.type, "fp16") == 0 ? TPP_BENCH_FP16 : TPP_BENCH_BF16};
    enum tpp_code code = tpp_device_open((int)run->common.device, run->common.timeout_seconds, &bench.device, err);
    if (code != TPP_OK) {
        return code;
    }
    code = tpp_attention_library_new(bench.device.stream, &bench.library, err);
    if (code == TPP_OK) {
        const char *const libraries[] = {"cudnn", tpp_attention_library_version(bench.library), NULL};
        code = tpp_device_write_run(run, &bench.device, libraries, err);
    }
    code = code ? code : run_grid(&bench, err);
    tpp_attention_library_free(bench.library);
    tpp_device_close(&bench.device);
    return code;
}

int main(int argc, char **argv)
{
    const struct tpp_bench_program program = {
        .name = "tp-calibrate-attention",
        .about =
            "Measures cuDNN's fused attention on one GPU, forward and backward: causal and not, heads of 64, 128 and\n"
            "256, grouped queries, 512 to 131072 tokens as memory allows. Data are random, results are checked.",
        .options = options,
        .arguments = &arguments,
        .default_budget = "240",
        .run = run,
    };
    return tpp_bench_main(&program, argc, (const char *const *)argv);
}
