/* trace_parts.h - private to the trace: its state, and the parts that write events. */
#ifndef TPP_COSTMODEL_ALLOCATOR_TRACE_PARTS_H
#define TPP_COSTMODEL_ALLOCATOR_TRACE_PARTS_H

#include "costmodel/allocator/trace.h"
#include "costmodel/allocator/trace_order.h"
#include "costmodel/evaluator.h"

#define TPP_NO_TENSOR UINT32_MAX

struct tpp_tensor_ids { /* a growing list */
    uint32_t *ids;      /* owned */
    size_t count, capacity;
};

/* What a micro-batch keeps on one chunk between its passes. */
struct tpp_trace_slot {
    struct tpp_tensor_ids kept;
    size_t *layer_starts; /* owned: first of each layer's tensors in `kept`, one more for the end */
    uint64_t *sizes;      /* owned: of the tensors that are on the host, by their place in `kept` */
    size_t num_sizes;
    uint64_t length;      /* tokens of its sequences */
    uint32_t output;      /* output buffer of DeepSpeed's pipeline engine */
};

#define TPP_TRACE_UNITS 2 /* layers whose parameters are gathered at once: the one in use, the prefetched one */

struct tpp_gathered_unit {
    uint32_t layer; /* TPP_TRACE_NO_LAYER: empty */
    struct tpp_tensor_ids tensors;
};

struct tpp_tracer {
    struct tpp_evaluator *evaluator;
    struct tpp_strategy strategy;
    uint32_t stage, num_micro_batches, num_steps;
    struct tpp_lengths fixed;
    const struct tpp_lengths *lengths;
    uint64_t random;
    struct tpp_replicas replicas, expert_replicas;
    struct tpp_trace_order order;
    bool has_embedding, has_head, is_sharded, keeps_gathered;
    struct tpp_layer_axes axes[TPP_LAYER_KIND_COUNT];
    struct tpp_program programs[TPP_LAYER_KIND_COUNT]; /* of `length` tokens */
    uint64_t length;
    struct tpp_trace_slot *slots;      /* owned: [micro_batch * num_chunks + chunk] */
    struct tpp_gathered_unit units[TPP_TRACE_UNITS];
    struct tpp_tensor_ids step_tensors; /* freed at the end of the step */
    struct tpp_tensor_ids scratch;     /* of the layer at work */
    struct tpp_tensor_ids gradients;   /* fresh ones, until the step */
    uint32_t upstream;                  /* in backward: gradient of the output of the layer at work, where layers have an order */
    bool has_dummies;
    struct tpp_trace_event *events;    /* owned */
    size_t num_events, capacity;
    uint32_t num_ids;
    struct tpp_tensor_ids free_ids;
    uint64_t *sizes;                   /* owned: of the tensor with that id */
    size_t sizes_capacity;
    uint64_t alive_bytes, peak_bytes;
    uint32_t micro_batch, layer;       /* where events are written now */
    enum tpp_trace_phase phase;
    bool failed;
};

/* trace_events.c. `bytes` of 0 or less write nothing and give TPP_NO_TENSOR, which may be freed. */
uint32_t tpp_trace_allocate(struct tpp_tracer *tracer, const char *name, double bytes, uint8_t stream);
void tpp_trace_release(struct tpp_tracer *tracer, uint32_t tensor);
void tpp_trace_record(struct tpp_tracer *tracer, uint32_t tensor, uint8_t stream);
void tpp_trace_finish(struct tpp_tracer *tracer);
void tpp_ids_push(struct tpp_tracer *tracer, struct tpp_tensor_ids *ids, uint32_t tensor);
void tpp_ids_drop(struct tpp_tensor_ids *ids); /* forgets the list; the tensors stay */
/* Frees from the last down to `count` of them. */
void tpp_ids_release(struct tpp_tracer *tracer, struct tpp_tensor_ids *ids, size_t count);

/* trace_setup.c: weights, gradients, master weights, buckets. */
void tpp_trace_static(struct tpp_tracer *tracer);
/* Gradients that are made in backward (memory_walk.h): of one layer, or of an end. */
void tpp_trace_fresh_gradients(struct tpp_tracer *tracer, const struct tpp_program *program);
/* The optimizer's step: moments the first time, its temporaries; then fresh gradients are dropped. */
void tpp_trace_optimizer(struct tpp_tracer *tracer, bool is_first);

/* trace_gather.c: parameters of ZeRO-3/FSDP. Nothing is written when they are not sharded. */
void tpp_trace_gather_root(struct tpp_tracer *tracer);     /* at the start of the step, until its end */
void tpp_trace_gather(struct tpp_tracer *tracer, uint32_t layer, uint32_t in_use); /* keeps `in_use`, another may go */
void tpp_trace_scatter_all(struct tpp_tracer *tracer);
/* Unsharded gradients of one layer, or (layer == TPP_TRACE_NO_LAYER) of the larger of embedding and head. */
uint32_t tpp_trace_unsharded_gradients(struct tpp_tracer *tracer, uint32_t layer);

/* trace_layer.c: layers whose operations are known one by one. `kept` gets what is kept for backward, which frees all of it:
 * `ids` is where the layer's begin. */
bool tpp_trace_layer_has_order(const struct tpp_tracer *tracer, const struct tpp_program *program);
void tpp_trace_forward_in_order(struct tpp_tracer *tracer, const struct tpp_program *program, struct tpp_tensor_ids *kept);
void tpp_trace_backward_in_order(struct tpp_tracer *tracer, const struct tpp_program *program, uint32_t *ids);

/* trace_pass.c */
void tpp_trace_forward(struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk, struct tpp_trace_slot *slot);
void tpp_trace_backward(struct tpp_tracer *tracer, const struct tpp_trace_chunk *chunk, struct tpp_trace_slot *slot);
void tpp_trace_weight(struct tpp_tracer *tracer, struct tpp_trace_slot *slot);

const struct tpp_program *tpp_trace_program(const struct tpp_tracer *tracer, uint32_t layer);

#endif
