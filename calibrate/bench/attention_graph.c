#include "calibrate/bench/attention_graph.h"

#include "calibrate/bench/cudnn_graph.h"

#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tpp_attention_library {
    cudnnHandle_t handle; /* NULL: plans only */
    struct CUstream_st *stream;
    struct tpp_graph describes; /* owns the properties */
    void *properties;           /* of a GPU that is not here; NULL: of this one */
    char version[32];
};

#define MAX_BINDINGS 24

struct tpp_attention_plan {
    struct tpp_attention_library *library;
    struct tpp_graph graph;
    void *plan;
    int64_t workspace_bytes;
    uint64_t dq_sum_bytes; /* to be cleared before each run, by old releases */
    /* Tensors in memory: where their pointer is in struct tpp_attention_buffers. */
    int64_t uids[MAX_BINDINGS];
    size_t offsets[MAX_BINDINGS];
    size_t num_bindings;
    /* Numbers given by value. */
    int64_t value_uids[4];
    float values[4];
    size_t num_values;
};

static enum tpp_code check(cudnnStatus_t status, const char *what, struct tpp_error *err)
{
    if (status == CUDNN_STATUS_SUCCESS) {
        return TPP_OK;
    }
    char reason[200] = "";
    cudnnGetLastErrorString(reason, sizeof reason);
    const bool is_unsupported = CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED;
    return tpp_fail(err, is_unsupported ? TPP_E_UNSUPPORTED : TPP_E_IO, what, NULL, "cuDNN: %s: %.160s",
                    cudnnGetErrorString(status), reason);
}

static struct tpp_attention_library *new_library(struct tpp_error *err)
{
    struct tpp_attention_library *library = calloc(1, sizeof *library);
    const size_t version = cudnnGetVersion();
    if (!library) {
        tpp_fail(err, TPP_E_MEMORY, "cuDNN", NULL, "out of memory");
        return NULL;
    }
    tpp_graph_init(&library->describes);
    snprintf(library->version, sizeof library->version, "%zu.%zu.%zu", version / 10000, version / 100 % 100,
             version % 100);
    return library;
}

enum tpp_code tpp_attention_library_new(struct CUstream_st *stream, struct tpp_attention_library **out,
                                        struct tpp_error *err)
{
    struct tpp_attention_library *library = new_library(err);
    *out = NULL;
    if (!library) {
        return TPP_E_MEMORY;
    }
    library->stream = stream;
    enum tpp_code code = check(cudnnCreate(&library->handle), "cudnnCreate", err);
    code = code ? code : check(cudnnSetStream(library->handle, stream), "cudnnSetStream", err);
    if (code != TPP_OK) {
        tpp_attention_library_free(library);
        return code;
    }
    *out = library;
    return TPP_OK;
}

enum tpp_code tpp_attention_library_new_for(const char *properties, struct tpp_attention_library **out,
                                            struct tpp_error *err)
{
    *out = NULL;
#if CUDNN_VERSION >= 90800
    struct tpp_attention_library *library = new_library(err);
    if (!library) {
        return TPP_E_MEMORY;
    }
    struct tpp_graph *graph = &library->describes;
    library->properties = tpp_graph_descriptor(graph, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    tpp_graph_set(graph, library->properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  (int64_t)strlen(properties), properties);
    tpp_graph_finalize(graph, library->properties, "the description of a GPU");
    const enum tpp_code code = tpp_graph_error(graph, err);
    if (code != TPP_OK) {
        tpp_attention_library_free(library);
        return code;
    }
    *out = library;
    return TPP_OK;
#else
    (void)properties;
    return tpp_fail(err, TPP_E_NOT_BUILT, "cuDNN", "build with cuDNN 9.8 or newer",
                    "this cuDNN cannot plan for a GPU that is not here");
#endif
}

void tpp_attention_library_free(struct tpp_attention_library *library)
{
    if (!library) {
        return;
    }
    tpp_graph_release(&library->describes);
    if (library->handle) {
        cudnnDestroy(library->handle);
    }
    free(library);
}

const char *tpp_attention_library_version(const struct tpp_attention_library *library)
{
    return library->version;
}

/* ---- the graph */

/* What both passes need to know while they are built. */
struct builder {
    struct tpp_attention_plan *plan;
    struct tpp_graph *graph;
    const struct tpp_bench_attention *shape;
    int type;              /* cudnnDataType_t of the operands */
    int64_t b, h, g, s, d; /* batch, heads, query groups, length, head size */
};

static struct tpp_graph_tensor in_memory(struct builder *builder, int type, const int64_t dimensions[4],
                                         const int64_t strides[4], size_t offset)
{
    struct tpp_attention_plan *plan = builder->plan;
    const struct tpp_graph_tensor made = tpp_graph_tensor(builder->graph, type, TPP_GRAPH_MEMORY, dimensions, strides);
    plan->uids[plan->num_bindings] = made.uid;
    plan->offsets[plan->num_bindings++] = offset;
    return made;
}

#define BUFFER(member) offsetof(struct tpp_attention_buffers, member)

/* Rows of a head: batch, heads, length, size, stored as batch, length, heads, size. */
static struct tpp_graph_tensor rows(struct builder *builder, int64_t heads, size_t offset)
{
    const int64_t s = builder->s, d = builder->d;
    return in_memory(builder, builder->type, (const int64_t[]){builder->b, heads, s, d},
                     (const int64_t[]){s * heads * d, d, heads * d, 1}, offset);
}

/* The same memory with length and size exchanged. */
static struct tpp_graph_tensor columns(struct builder *builder, int64_t heads, size_t offset)
{
    const int64_t s = builder->s, d = builder->d;
    return in_memory(builder, builder->type, (const int64_t[]){builder->b, heads, d, s},
                     (const int64_t[]){s * heads * d, d, 1, heads * d}, offset);
}

/* One fp32 number a row: batch, heads, length, 1. */
static struct tpp_graph_tensor row_numbers(struct builder *builder, size_t offset)
{
    const int64_t h = builder->h, s = builder->s;
    return in_memory(builder, CUDNN_DATA_FLOAT, (const int64_t[]){builder->b, h, s, 1},
                     (const int64_t[]){h * s, s, 1, 1}, offset);
}

static struct tpp_graph_tensor virtual_row_numbers(struct builder *builder)
{
    const int64_t h = builder->h, s = builder->s;
    return tpp_graph_tensor(builder->graph, CUDNN_DATA_FLOAT, TPP_GRAPH_VIRTUAL, (const int64_t[]){builder->b, h, s, 1},
                            (const int64_t[]){h * s, s, 1, 1});
}

/* Scores: batch, heads, length, length. */
static struct tpp_graph_tensor scores(struct builder *builder, int type)
{
    const int64_t h = builder->h, s = builder->s;
    return tpp_graph_tensor(builder->graph, type, TPP_GRAPH_VIRTUAL, (const int64_t[]){builder->b, h, s, s},
                            (const int64_t[]){h * s * s, s * s, s, 1});
}

static struct tpp_graph_tensor number(struct builder *builder, float value)
{
    struct tpp_attention_plan *plan = builder->plan;
    const int64_t one[] = {1, 1, 1, 1};
    const struct tpp_graph_tensor made = tpp_graph_tensor(builder->graph, CUDNN_DATA_FLOAT, TPP_GRAPH_VALUE, one, one);
    plan->value_uids[plan->num_values] = made.uid;
    plan->values[plan->num_values++] = value;
    return made;
}

static struct tpp_graph_tensor pointwise(struct builder *builder, int mode, struct tpp_graph_tensor x,
                                         const struct tpp_graph_tensor *b, struct tpp_graph_tensor y)
{
    tpp_graph_pointwise(builder->graph, mode, CUDNN_DATA_FLOAT, 0, x, b, NULL, y);
    return y;
}

/* The index of the row (axis 2) or column (axis 3) of every score. */
static struct tpp_graph_tensor indices(struct builder *builder, struct tpp_graph_tensor x, int64_t axis)
{
    const struct tpp_graph_tensor y = scores(builder, CUDNN_DATA_INT32);
    tpp_graph_pointwise(builder->graph, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis, x, NULL, NULL, y);
    return y;
}

/* scale q k^T, with minus infinity above the diagonal when causal. */
static struct tpp_graph_tensor masked_scores(struct builder *builder, struct tpp_graph_tensor q,
                                             struct tpp_graph_tensor k_columns, const struct tpp_graph_tensor *scale)
{
    const struct tpp_graph_tensor product = scores(builder, CUDNN_DATA_FLOAT);
    tpp_graph_matmul(builder->graph, q, k_columns, product);
    const struct tpp_graph_tensor scaled =
        pointwise(builder, CUDNN_POINTWISE_MUL, product, scale, scores(builder, CUDNN_DATA_FLOAT));
    if (!builder->shape->is_causal) {
        return scaled;
    }
    const struct tpp_graph_tensor minus_infinity = number(builder, -INFINITY);
    const struct tpp_graph_tensor row = indices(builder, scaled, 2), column = indices(builder, scaled, 3);
    const struct tpp_graph_tensor is_seen = scores(builder, CUDNN_DATA_BOOLEAN);
    tpp_graph_pointwise(builder->graph, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, 0, row, &column, NULL, is_seen);
    const struct tpp_graph_tensor masked = scores(builder, CUDNN_DATA_FLOAT);
    tpp_graph_pointwise(builder->graph, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, 0, scaled, &minus_infinity,
                        &is_seen, masked);
    return masked;
}

/* o = softmax(scale q k^T) v; stats = log of the sum of the exponentials, for the backward pass. */
static void build_forward(struct builder *builder)
{
    struct tpp_graph *graph = builder->graph;
    const struct tpp_graph_tensor q = rows(builder, builder->h, BUFFER(q)), k = columns(builder, builder->g, BUFFER(k));
    const struct tpp_graph_tensor v = rows(builder, builder->g, BUFFER(v)), o = rows(builder, builder->h, BUFFER(o));
    const struct tpp_graph_tensor stats = row_numbers(builder, BUFFER(stats));
    const struct tpp_graph_tensor scale = number(builder, 1 / sqrtf((float)builder->d));
    const struct tpp_graph_tensor x = masked_scores(builder, q, k, &scale);
    const struct tpp_graph_tensor largest = virtual_row_numbers(builder), sum = virtual_row_numbers(builder);
    tpp_graph_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, x, largest);
    const struct tpp_graph_tensor shifted =
        pointwise(builder, CUDNN_POINTWISE_SUB, x, &largest, scores(builder, CUDNN_DATA_FLOAT));
    const struct tpp_graph_tensor exponential =
        pointwise(builder, CUDNN_POINTWISE_EXP, shifted, NULL, scores(builder, CUDNN_DATA_FLOAT));
    tpp_graph_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
    const struct tpp_graph_tensor log_sum =
        pointwise(builder, CUDNN_POINTWISE_LOG, sum, NULL, virtual_row_numbers(builder));
    pointwise(builder, CUDNN_POINTWISE_ADD, largest, &log_sum, stats);
    const struct tpp_graph_tensor p =
        pointwise(builder, CUDNN_POINTWISE_DIV, exponential, &sum, scores(builder, builder->type));
    tpp_graph_matmul(graph, p, v, o);
}

/* The scores with rows and columns exchanged. */
static struct tpp_graph_tensor transposed(struct builder *builder, struct tpp_graph_tensor x)
{
    const int64_t h = builder->h, s = builder->s;
    const struct tpp_graph_tensor y =
        tpp_graph_tensor(builder->graph, builder->type, TPP_GRAPH_VIRTUAL, (const int64_t[]){builder->b, h, s, s},
                         (const int64_t[]){h * s * s, s * s, 1, s});
    tpp_graph_reshape(builder->graph, x, y);
    return y;
}

/* x^T times rows: the gradient of k or v. With grouped queries, every head's part is summed over its group. */
static void key_gradient(struct builder *builder, struct tpp_graph_tensor x, struct tpp_graph_tensor other,
                         size_t offset)
{
    const int64_t h = builder->h, s = builder->s, d = builder->d;
    const struct tpp_graph_tensor gradient = rows(builder, builder->g, offset);
    const struct tpp_graph_tensor turned = transposed(builder, x);
    if (builder->g == h) {
        tpp_graph_matmul(builder->graph, turned, other, gradient);
        return;
    }
    const struct tpp_graph_tensor of_heads =
        tpp_graph_tensor(builder->graph, builder->type, TPP_GRAPH_VIRTUAL, (const int64_t[]){builder->b, h, s, d},
                         (const int64_t[]){h * s * d, s * d, d, 1});
    tpp_graph_matmul(builder->graph, turned, other, of_heads);
    tpp_graph_reduce(builder->graph, CUDNN_REDUCE_TENSOR_ADD, of_heads, gradient);
}

/* sum over the head size of do o: what the derivative of softmax subtracts from each row. It lies in memory between two
 * kernels. */
static struct tpp_graph_tensor row_sums(struct builder *builder, struct tpp_graph_tensor d_o, struct tpp_graph_tensor o,
                                        const struct tpp_graph_tensor *one)
{
    const int64_t h = builder->h, s = builder->s, d = builder->d;
    const struct tpp_graph_tensor product =
        tpp_graph_tensor(builder->graph, CUDNN_DATA_FLOAT, TPP_GRAPH_VIRTUAL, (const int64_t[]){builder->b, h, s, d},
                         (const int64_t[]){h * s * d, s * d, h * d, 1});
    pointwise(builder, CUDNN_POINTWISE_MUL, d_o, &o, product);
    const struct tpp_graph_tensor reduced = virtual_row_numbers(builder);
    tpp_graph_reduce(builder->graph, CUDNN_REDUCE_TENSOR_ADD, product, reduced);
    return pointwise(builder, CUDNN_POINTWISE_MUL, reduced, one, row_numbers(builder, BUFFER(sum)));
}

/* dq = ds k, summed in fp32 in memory, since blocks of columns add to it, and then rounded. */
static void query_gradient(struct builder *builder, struct tpp_graph_tensor ds, struct tpp_graph_tensor k_columns)
{
    const int64_t h = builder->h, g = builder->g, s = builder->s, d = builder->d;
    const struct tpp_graph_tensor d_q = rows(builder, h, BUFFER(d_q));
    const struct tpp_graph_tensor k_rows =
        tpp_graph_tensor(builder->graph, builder->type, TPP_GRAPH_VIRTUAL, (const int64_t[]){builder->b, g, s, d},
                         (const int64_t[]){s * g * d, d, g * d, 1});
    tpp_graph_reshape(builder->graph, k_columns, k_rows);
    const struct tpp_graph_tensor sum = in_memory(builder, CUDNN_DATA_FLOAT, (const int64_t[]){builder->b, h, s, d},
                                                  (const int64_t[]){h * s * d, s * d, d, 1}, BUFFER(dq_sum));
    tpp_graph_matmul(builder->graph, ds, k_rows, sum);
    pointwise(builder, CUDNN_POINTWISE_IDENTITY, sum, NULL, d_q);
    builder->plan->dq_sum_bytes = (uint64_t)(builder->b * h * s * d) * sizeof(float);
}

/* p = exp(x - stats); dv = p^T do; dp = do v^T; ds = scale p (dp - sum); dk = ds^T q; dq = ds k. */
static void build_backward(struct builder *builder)
{
    const struct tpp_graph_tensor q = rows(builder, builder->h, BUFFER(q)), k = columns(builder, builder->g, BUFFER(k));
    const struct tpp_graph_tensor v = columns(builder, builder->g, BUFFER(v)), o = rows(builder, builder->h, BUFFER(o));
    const struct tpp_graph_tensor d_o = rows(builder, builder->h, BUFFER(d_o)),
                                  stats = row_numbers(builder, BUFFER(stats));
    const struct tpp_graph_tensor scale = number(builder, 1 / sqrtf((float)builder->d)), one = number(builder, 1);
    const struct tpp_graph_tensor sum = row_sums(builder, d_o, o, &one);
    const struct tpp_graph_tensor x = masked_scores(builder, q, k, &scale);
    const struct tpp_graph_tensor shifted =
        pointwise(builder, CUDNN_POINTWISE_SUB, x, &stats, scores(builder, CUDNN_DATA_FLOAT));
    const struct tpp_graph_tensor p =
        pointwise(builder, CUDNN_POINTWISE_EXP, shifted, NULL, scores(builder, CUDNN_DATA_FLOAT));
    key_gradient(builder, p, d_o, BUFFER(d_v));
    const struct tpp_graph_tensor dp = scores(builder, CUDNN_DATA_FLOAT);
    tpp_graph_matmul(builder->graph, d_o, v, dp);
    const struct tpp_graph_tensor centred =
        pointwise(builder, CUDNN_POINTWISE_SUB, dp, &sum, scores(builder, CUDNN_DATA_FLOAT));
    const struct tpp_graph_tensor weighted =
        pointwise(builder, CUDNN_POINTWISE_MUL, centred, &p, scores(builder, CUDNN_DATA_FLOAT));
    const struct tpp_graph_tensor ds =
        pointwise(builder, CUDNN_POINTWISE_MUL, weighted, &scale, scores(builder, builder->type));
    key_gradient(builder, ds, q, BUFFER(d_k));
    query_gradient(builder, ds, k);
}

/* A plan with its graph of operations, not finished. NULL when out of memory. */
static struct tpp_attention_plan *build(struct tpp_attention_library *library, const struct tpp_bench_attention *shape,
                                        enum tpp_bench_type type, enum tpp_attention_pass pass, struct tpp_error *err)
{
    struct tpp_attention_plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        tpp_fail(err, TPP_E_MEMORY, "cuDNN", NULL, "out of memory");
        return NULL;
    }
    plan->library = library;
    tpp_graph_init(&plan->graph);
    struct builder builder = {.plan = plan,
                              .graph = &plan->graph,
                              .shape = shape,
                              .type = type == TPP_BENCH_FP16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16,
                              .b = (int64_t)shape->batch,
                              .h = (int64_t)shape->num_heads,
                              .g = (int64_t)shape->num_query_groups,
                              .s = (int64_t)shape->length,
                              .d = (int64_t)shape->head_dim};
    if (pass == TPP_ATTENTION_FORWARD) {
        build_forward(&builder);
    } else {
        build_backward(&builder);
    }
    return plan;
}

enum tpp_code tpp_attention_plan_new(struct tpp_attention_library *library, const struct tpp_bench_attention *shape,
                                     enum tpp_bench_type type, enum tpp_attention_pass pass,
                                     struct tpp_attention_plan **out, struct tpp_error *err)
{
    struct tpp_attention_plan *plan = build(library, shape, type, pass, err);
    *out = NULL;
    if (!plan) {
        return TPP_E_MEMORY;
    }
    const enum tpp_code code =
        tpp_graph_finish(&plan->graph, library->handle, library->properties, &plan->plan, &plan->workspace_bytes, err);
    if (code != TPP_OK) {
        tpp_attention_plan_free(plan);
        return code;
    }
    *out = plan;
    return TPP_OK;
}

enum tpp_code tpp_attention_count_kernels(struct tpp_attention_library *library,
                                          const struct tpp_bench_attention *shape, enum tpp_bench_type type,
                                          enum tpp_attention_pass pass, size_t *count, struct tpp_error *err)
{
    void *configurations[TPP_GRAPH_MAX_CONFIGURATIONS];
    struct tpp_attention_plan *plan = build(library, shape, type, pass, err);
    *count = 0;
    if (!plan) {
        return TPP_E_MEMORY;
    }
    *count = tpp_graph_ask(&plan->graph, library->handle, library->properties, configurations);
    const enum tpp_code code = tpp_graph_error(&plan->graph, err);
    tpp_attention_plan_free(plan);
    return code == TPP_E_UNSUPPORTED ? TPP_OK : code;
}

void tpp_attention_plan_free(struct tpp_attention_plan *plan)
{
    if (plan) {
        tpp_graph_release(&plan->graph);
        free(plan);
    }
}

uint64_t tpp_attention_plan_workspace_bytes(const struct tpp_attention_plan *plan)
{
    return plan->workspace_bytes > 0 ? (uint64_t)plan->workspace_bytes : 0;
}

/* Binds pointers and numbers to the tensors. */
static void bind(const struct tpp_attention_plan *plan, const struct tpp_attention_buffers *buffers,
                 struct tpp_graph *pack, void *variant)
{
    int64_t uids[MAX_BINDINGS + 4];
    void *pointers[MAX_BINDINGS + 4];
    size_t count = 0;
    for (size_t i = 0; i < plan->num_bindings; i++, count++) {
        uids[count] = plan->uids[i];
        memcpy(&pointers[count], (const char *)buffers + plan->offsets[i], sizeof pointers[count]);
    }
    for (size_t i = 0; i < plan->num_values; i++, count++) {
        uids[count] = plan->value_uids[i];
        pointers[count] = (void *)(uintptr_t)&plan->values[i];
    }
    tpp_graph_set(pack, variant, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, (int64_t)count, pointers);
    tpp_graph_set(pack, variant, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, (int64_t)count, uids);
    tpp_graph_set(pack, variant, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &buffers->workspace);
    tpp_graph_finalize(pack, variant, "the pointers of attention");
}

enum tpp_code tpp_attention_plan_run(const struct tpp_attention_plan *plan, const struct tpp_attention_buffers *buffers,
                                     struct tpp_error *err)
{
    struct tpp_graph pack;
    tpp_graph_init(&pack);
    void *variant = tpp_graph_descriptor(&pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    bind(plan, buffers, &pack, variant);
    enum tpp_code code = tpp_graph_error(&pack, err);
    if (code == TPP_OK && plan->dq_sum_bytes > 0 && cudnnGetVersion() < 90600 &&
        cudaMemsetAsync(buffers->dq_sum, 0, plan->dq_sum_bytes, plan->library->stream) != cudaSuccess) {
        code = tpp_fail(err, TPP_E_IO, "cudaMemsetAsync", NULL, "the sum of the query gradient cannot be cleared");
    }
    if (code == TPP_OK) {
        code = check(cudnnBackendExecute(plan->library->handle, plan->plan, variant), "cudnnBackendExecute", err);
    }
    tpp_graph_release(&pack);
    return code;
}
