#include "calibrate/bench/cudnn_graph.h"

#include <cudnn.h>
#include <string.h>

static void fail(struct tpp_graph *graph, cudnnStatus_t status, const char *what)
{
    if (graph->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        graph->status = status;
        graph->what = what;
        cudnnGetLastErrorString(graph->reason, sizeof graph->reason);
        graph->reason[sizeof graph->reason - 1] = '\0';
    }
}

void tpp_graph_init(struct tpp_graph *graph)
{
    memset(graph, 0, sizeof *graph);
    graph->next_uid = 1;
}

void tpp_graph_release(struct tpp_graph *graph)
{
    while (graph->num_descriptors > 0) { /* what was made last refers to what was made before */
        cudnnBackendDestroyDescriptor(graph->descriptors[--graph->num_descriptors]);
    }
}

enum tpp_code tpp_graph_error(const struct tpp_graph *graph, struct tpp_error *err)
{
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        return TPP_OK;
    }
    const bool is_unsupported = CUDNN_STATUS_CATEGORY(graph->status) == CUDNN_STATUS_NOT_SUPPORTED;
    return tpp_fail(err, is_unsupported ? TPP_E_UNSUPPORTED : TPP_E_IO, graph->what, NULL, "cuDNN: %s: %.170s",
                    cudnnGetErrorString((cudnnStatus_t)graph->status), graph->reason);
}

void *tpp_graph_descriptor(struct tpp_graph *graph, int kind)
{
    cudnnBackendDescriptor_t descriptor = NULL;
    if (graph->status != CUDNN_STATUS_SUCCESS) {
        return NULL;
    }
    if (graph->num_descriptors == TPP_GRAPH_MAX_DESCRIPTORS) {
        fail(graph, CUDNN_STATUS_INTERNAL_ERROR, "too many descriptors");
        return NULL;
    }
    fail(graph, cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)kind, &descriptor),
         "cudnnBackendCreateDescriptor");
    if (descriptor) {
        graph->descriptors[graph->num_descriptors++] = descriptor;
    }
    return descriptor;
}

void tpp_graph_set(struct tpp_graph *graph, void *descriptor, int attribute, int type, int64_t count,
                   const void *values)
{
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        fail(graph,
             cudnnBackendSetAttribute(descriptor, (cudnnBackendAttributeName_t)attribute,
                                      (cudnnBackendAttributeType_t)type, count, values),
             "cudnnBackendSetAttribute");
    }
}

void tpp_graph_finalize(struct tpp_graph *graph, void *descriptor, const char *what)
{
    if (graph->status == CUDNN_STATUS_SUCCESS) {
        fail(graph, cudnnBackendFinalize(descriptor), what);
    }
}

static void set_descriptor(struct tpp_graph *graph, void *descriptor, int attribute, void *value)
{
    tpp_graph_set(graph, descriptor, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_type(struct tpp_graph *graph, void *descriptor, int attribute, int type)
{
    const cudnnDataType_t value = (cudnnDataType_t)type;
    tpp_graph_set(graph, descriptor, attribute, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

struct tpp_graph_tensor tpp_graph_tensor(struct tpp_graph *graph, int type, enum tpp_graph_place place,
                                         const int64_t dimensions[4], const int64_t strides[4])
{
    const bool is_virtual = place == TPP_GRAPH_VIRTUAL, is_value = place == TPP_GRAPH_VALUE;
    const int64_t alignment = 16; /* bytes */
    struct tpp_graph_tensor tensor = {tpp_graph_descriptor(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR), graph->next_uid++};
    void *descriptor = tensor.descriptor;
    set_type(graph, descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    tpp_graph_set(graph, descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dimensions);
    tpp_graph_set(graph, descriptor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
    tpp_graph_set(graph, descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &tensor.uid);
    tpp_graph_set(graph, descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    tpp_graph_set(graph, descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    tpp_graph_set(graph, descriptor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &is_value);
    tpp_graph_finalize(graph, descriptor, "a tensor");
    return tensor;
}

/* Every operation ends here. */
static void add_operation(struct tpp_graph *graph, void *operation, const char *what)
{
    tpp_graph_finalize(graph, operation, what);
    if (graph->num_operations < TPP_GRAPH_MAX_OPERATIONS) {
        graph->operations[graph->num_operations++] = operation;
    } else {
        fail(graph, CUDNN_STATUS_INTERNAL_ERROR, "too many operations");
    }
}

void tpp_graph_pointwise(struct tpp_graph *graph, int mode, int compute, int64_t axis, struct tpp_graph_tensor x,
                         const struct tpp_graph_tensor *b, const struct tpp_graph_tensor *t, struct tpp_graph_tensor y)
{
    const cudnnPointwiseMode_t value = (cudnnPointwiseMode_t)mode;
    void *kind = tpp_graph_descriptor(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    tpp_graph_set(graph, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &value);
    set_type(graph, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, compute);
    if (mode == CUDNN_POINTWISE_GEN_INDEX) {
        tpp_graph_set(graph, kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    }
    tpp_graph_finalize(graph, kind, "a pointwise kind");
    void *operation = tpp_graph_descriptor(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.descriptor);
    if (b) {
        set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor);
    }
    if (t) {
        set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->descriptor);
    }
    add_operation(graph, operation, "a pointwise operation");
}

void tpp_graph_reduce(struct tpp_graph *graph, int mode, struct tpp_graph_tensor x, struct tpp_graph_tensor y)
{
    const cudnnReduceTensorOp_t value = (cudnnReduceTensorOp_t)mode;
    void *kind = tpp_graph_descriptor(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_type(graph, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    tpp_graph_set(graph, kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &value);
    tpp_graph_finalize(graph, kind, "a reduction kind");
    void *operation = tpp_graph_descriptor(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
    add_operation(graph, operation, "a reduction");
}

void tpp_graph_matmul(struct tpp_graph *graph, struct tpp_graph_tensor a, struct tpp_graph_tensor b,
                      struct tpp_graph_tensor c)
{
    void *kind = tpp_graph_descriptor(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_type(graph, kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    tpp_graph_finalize(graph, kind, "a product kind");
    void *operation = tpp_graph_descriptor(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
    add_operation(graph, operation, "a product");
}

void tpp_graph_reshape(struct tpp_graph *graph, struct tpp_graph_tensor x, struct tpp_graph_tensor y)
{
    void *operation = tpp_graph_descriptor(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
    add_operation(graph, operation, "a reshape");
}

static void *ask_heuristic(struct tpp_graph *graph, void *operations, void *properties)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    void *heuristic = tpp_graph_descriptor(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
    tpp_graph_set(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
#if CUDNN_VERSION >= 90800
    if (properties) {
        set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
    }
#else
    (void)properties;
#endif
    tpp_graph_finalize(graph, heuristic, "the heuristic");
    return heuristic;
}

size_t tpp_graph_ask(struct tpp_graph *graph, void *handle, void *properties,
                     void *configurations[TPP_GRAPH_MAX_CONFIGURATIONS])
{
    int64_t count = 0;
    void *operations = tpp_graph_descriptor(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    tpp_graph_set(graph, operations, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                  (int64_t)graph->num_operations, graph->operations);
    if (handle) {
        tpp_graph_set(graph, operations, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    }
    tpp_graph_finalize(graph, operations, "the graph of attention");
    void *heuristic = ask_heuristic(graph, operations, properties);
    for (int i = 0; i < TPP_GRAPH_MAX_CONFIGURATIONS; i++) {
        configurations[i] = tpp_graph_descriptor(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    }
    if (graph->status != CUDNN_STATUS_SUCCESS) {
        return 0;
    }
    fail(graph,
         cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                  TPP_GRAPH_MAX_CONFIGURATIONS, &count, configurations),
         "the heuristic's answer");
    if (graph->status != CUDNN_STATUS_SUCCESS || count < 0) {
        return 0;
    }
    return count < TPP_GRAPH_MAX_CONFIGURATIONS ? (size_t)count : TPP_GRAPH_MAX_CONFIGURATIONS;
}

/* One configuration as a plan; *plan stays NULL when cuDNN cannot build it, which is kept in graph->reason only. */
static void try_plan(struct tpp_graph *graph, void *configuration, void *handle, void *properties, void **plan,
                     int64_t *workspace_bytes)
{
    void *candidate = tpp_graph_descriptor(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_descriptor(graph, candidate, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
    if (handle) {
        tpp_graph_set(graph, candidate, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    }
#if CUDNN_VERSION >= 90800
    if (properties) {
        set_descriptor(graph, candidate, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties);
    }
#else
    (void)properties;
#endif
    if (graph->status != CUDNN_STATUS_SUCCESS) {
        return;
    }
    if (cudnnBackendFinalize(candidate) != CUDNN_STATUS_SUCCESS) {
        cudnnGetLastErrorString(graph->reason, sizeof graph->reason);
        return;
    }
    int64_t count = 0;
    fail(graph,
         cudnnBackendGetAttribute(candidate, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                  workspace_bytes),
         "the size of the workspace");
    *plan = candidate;
}

enum tpp_code tpp_graph_finish(struct tpp_graph *graph, void *handle, void *properties, void **plan,
                               int64_t *workspace_bytes, struct tpp_error *err)
{
    void *configurations[TPP_GRAPH_MAX_CONFIGURATIONS];
    *plan = NULL;
    *workspace_bytes = 0;
    const size_t count = tpp_graph_ask(graph, handle, properties, configurations);
    for (size_t i = 0; i < count && !*plan && graph->status == CUDNN_STATUS_SUCCESS; i++) {
        try_plan(graph, configurations[i], handle, properties, plan, workspace_bytes);
    }
    const enum tpp_code code = tpp_graph_error(graph, err);
    if (code == TPP_OK && !*plan) {
        return tpp_fail(err, TPP_E_UNSUPPORTED, "cuDNN", NULL, "cuDNN has no kernel for it: %.200s", graph->reason);
    }
    return code;
}
