/* attention_graph.h - fused attention of cuDNN, forward and backward, as a graph of its backend interface.
 *
 * The graph is the chain of operations that cuDNN's fused kernels are recognised by: products, scale, mask, softmax,
 * and for the backward pass their derivatives. Tensors lie in memory as batch, sequence, heads, head size. */
#ifndef TPP_CALIBRATE_BENCH_ATTENTION_GRAPH_H
#define TPP_CALIBRATE_BENCH_ATTENTION_GRAPH_H

#include "calibrate/bench/host_numbers.h"
#include "calibrate/bench/host_shapes.h"

#include <stdbool.h>

struct CUstream_st;
struct tpp_attention_library; /* a handle of cuDNN; opaque */
struct tpp_attention_plan;    /* one shape and pass, ready to run; opaque */

enum tpp_attention_pass { TPP_ATTENTION_FORWARD, TPP_ATTENTION_BACKWARD };

/* The stream is that of all runs. */
enum tpp_code tpp_attention_library_new(struct CUstream_st *stream, struct tpp_attention_library **out,
                                        struct tpp_error *err);
/* Without a GPU: plans can be made for the GPU that `properties` describe (cuDNN's JSON), and not be run. */
enum tpp_code tpp_attention_library_new_for(const char *properties, struct tpp_attention_library **out,
                                            struct tpp_error *err);
void tpp_attention_library_free(struct tpp_attention_library *library); /* NULL is fine */
const char *tpp_attention_library_version(const struct tpp_attention_library *library);

/* TPP_E_UNSUPPORTED when cuDNN has no kernel for it on this GPU; the message has cuDNN's reason. `type` is bf16 or
 * fp16. */
enum tpp_code tpp_attention_plan_new(struct tpp_attention_library *library, const struct tpp_bench_attention *shape,
                                     enum tpp_bench_type type, enum tpp_attention_pass pass,
                                     struct tpp_attention_plan **out, struct tpp_error *err);
/* How many configurations of kernels cuDNN knows for it, without building one: 0 when it has no fused kernel. */
enum tpp_code tpp_attention_count_kernels(struct tpp_attention_library *library,
                                          const struct tpp_bench_attention *shape, enum tpp_bench_type type,
                                          enum tpp_attention_pass pass, size_t *count, struct tpp_error *err);
void tpp_attention_plan_free(struct tpp_attention_plan *plan);
uint64_t tpp_attention_plan_workspace_bytes(const struct tpp_attention_plan *plan);

/* Device memory of the tensors: q, o and their gradients (batch, length, heads, size), k, v and theirs (with the query
 * groups for heads), stats and sum (fp32: batch, heads, length), dq_sum (fp32: batch, heads, length, size). */
struct tpp_attention_buffers {
    void *q, *k, *v, *o, *stats;                /* forward: o and stats are written */
    void *d_o, *d_q, *d_k, *d_v, *sum, *dq_sum; /* backward */
    void *workspace;
};

enum tpp_code tpp_attention_plan_run(const struct tpp_attention_plan *plan, const struct tpp_attention_buffers *buffers,
                                     struct tpp_error *err);

#endif
