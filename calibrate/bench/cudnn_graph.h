/* cudnn_graph.h - building a graph of cuDNN's backend interface operation by operation.
 *
 * The first failure is kept in the graph and makes all later calls do nothing: check once, at tpp_graph_finish. All
 * descriptors belong to the graph. */
#ifndef TPP_CALIBRATE_BENCH_CUDNN_GRAPH_H
#define TPP_CALIBRATE_BENCH_CUDNN_GRAPH_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPP_GRAPH_MAX_DESCRIPTORS 160
#define TPP_GRAPH_MAX_OPERATIONS 48

/* A tensor of four dimensions; descriptors are those of cudnnBackendDescriptor_t. */
struct tpp_graph_tensor {
    void *descriptor;
    int64_t uid;
};

struct tpp_graph {
    void *descriptors[TPP_GRAPH_MAX_DESCRIPTORS];
    size_t num_descriptors;
    void *operations[TPP_GRAPH_MAX_OPERATIONS];
    size_t num_operations;
    int64_t next_uid;
    int status;       /* cudnnStatus_t of the first failure */
    const char *what; /* failed */
    char reason[256]; /* cuDNN's own words */
};

/* Where a tensor lives. */
enum tpp_graph_place {
    TPP_GRAPH_MEMORY,  /* the caller gives a pointer */
    TPP_GRAPH_VIRTUAL, /* inside the kernel only */
    TPP_GRAPH_VALUE,   /* one number of the host, given by a pointer to it */
};

void tpp_graph_init(struct tpp_graph *graph);
void tpp_graph_release(struct tpp_graph *graph);

/* `type` is a cudnnDataType_t. */
struct tpp_graph_tensor tpp_graph_tensor(struct tpp_graph *graph, int type, enum tpp_graph_place place,
                                         const int64_t dimensions[4], const int64_t strides[4]);
/* y = mode(x, b) or, with `t`, a choice by t; b and t may be NULL. `mode` is a cudnnPointwiseMode_t, `compute` the type
 * it computes in; `axis` counts for CUDNN_POINTWISE_GEN_INDEX only. */
void tpp_graph_pointwise(struct tpp_graph *graph, int mode, int compute, int64_t axis, struct tpp_graph_tensor x,
                         const struct tpp_graph_tensor *b, const struct tpp_graph_tensor *t, struct tpp_graph_tensor y);
/* `mode` is a cudnnReduceTensorOp_t: over every dimension that is 1 (or a divisor) in y. */
void tpp_graph_reduce(struct tpp_graph *graph, int mode, struct tpp_graph_tensor x, struct tpp_graph_tensor y);
void tpp_graph_matmul(struct tpp_graph *graph, struct tpp_graph_tensor a, struct tpp_graph_tensor b,
                      struct tpp_graph_tensor c);
void tpp_graph_reshape(struct tpp_graph *graph, struct tpp_graph_tensor x, struct tpp_graph_tensor y);

#define TPP_GRAPH_MAX_CONFIGURATIONS 8
/* Finishes the graph and asks the heuristic for configurations of kernels that can run it, best first. `handle` or
 * `properties` (a descriptor of a device) is given. Returns how many there are; 0 after a failure too. */
size_t tpp_graph_ask(struct tpp_graph *graph, void *handle, void *properties,
                     void *configurations[TPP_GRAPH_MAX_CONFIGURATIONS]);
/* Asks, and builds the first configuration that can be built. TPP_E_UNSUPPORTED when there is none. */
enum tpp_code tpp_graph_finish(struct tpp_graph *graph, void *handle, void *properties, void **plan,
                               int64_t *workspace_bytes, struct tpp_error *err);

/* Creates a descriptor of the graph; NULL after a failure. */
void *tpp_graph_descriptor(struct tpp_graph *graph, int kind);
void tpp_graph_set(struct tpp_graph *graph, void *descriptor, int attribute, int type, int64_t count,
                   const void *values);
void tpp_graph_finalize(struct tpp_graph *graph, void *descriptor, const char *what);
/* The failure so far as an error. */
enum tpp_code tpp_graph_error(const struct tpp_graph *graph, struct tpp_error *err);

#endif
