/* trace.h - what one rank allocates and frees, in order: set-up, then step after step.
 *
 * Read from the same layer programs as the memory walk (memory_walk.h), tensor by tensor: weights, gradients, optimizer
 * states, communication buffers, activations kept for backward, what a recomputed layer brings back, transients of
 * backward, gathered parameters, the loss. With fixed lengths the most that is alive is the walk's peak; where the walk
 * rounds up, the trace stays below it:
 *
 *   - block recomputation: by the time a layer is run again, the layers of its chunk that are not recomputed have been freed;
 *   - the loss of ZeRO-3/FSDP: no layer's gradients are gathered yet;
 *   - units of recomputed layers where gradients are made in backward: those of the unit are not there yet;
 *   - uneven chunks or units, and stages that mix dense and MoE layers: the walk counts with an average layer, which at the
 *     loss of ZeRO-3/FSDP, where two MoE layers are gathered, is 1 % less than the trace.
 *
 * Dense layers of Megatron-Core with Transformer Engine are written operation by operation (trace_layer.c). Megatron's
 * distributed optimizer makes parameters one by one before they are flat, and a rank's states are those of whole parameters;
 * at the end of backward the embedding's gradient is there whole (the walk does not count it: it is written where something
 * else is the peak).
 *
 * The optimizer's moments are made at the end of the first step, as by torch.optim and Megatron (DeepSpeed makes them at
 * set-up): the first step leaves them where activations were. */
#ifndef TPP_COSTMODEL_ALLOCATOR_TRACE_H
#define TPP_COSTMODEL_ALLOCATOR_TRACE_H

#include "costmodel/allocator/lengths.h"
#include "costmodel/evaluate.h"

#include <stddef.h>
#include <stdint.h>

enum tpp_trace_kind {
    TPP_TRACE_ALLOCATE,
    TPP_TRACE_RECORD, /* the tensor is used on `stream` too (record_stream) */
    TPP_TRACE_FREE,
    TPP_TRACE_FINISH, /* what was issued on `stream` up to here is done */
};

/* What the rank is at when it allocates or frees. */
enum tpp_trace_phase {
    TPP_TRACE_OUTSIDE, /* set-up, the start of a step, and what is made once for good: no micro-batch's */
    TPP_TRACE_FORWARD,
    TPP_TRACE_LOSS,
    TPP_TRACE_BACKWARD,
    TPP_TRACE_WEIGHT, /* weight gradients, where they are passes of their own */
    TPP_TRACE_OPTIMIZER,
};

#define TPP_TRACE_COMPUTE_STREAM 0
#define TPP_TRACE_COMMUNICATION_STREAM 1
#define TPP_TRACE_NO_LAYER UINT32_MAX

struct tpp_trace_event {
    uint8_t kind;         /* enum tpp_trace_kind */
    uint8_t stream;
    uint8_t phase;        /* enum tpp_trace_phase */
    uint32_t tensor;      /* a number that is used again once freed: below tpp_tracer_num_tensors */
    uint64_t bytes;       /* ALLOCATE */
    const char *name;     /* ALLOCATE: static text */
    uint32_t micro_batch; /* 0 outside the passes */
    uint32_t layer;       /* of the model; TPP_TRACE_NO_LAYER outside the layers */
};

struct tpp_trace_options {
    const struct tpp_lengths *lengths; /* NULL: fixed; borrowed */
    bool packing;                      /* sequences are filled up with short ones: all as long as the job's */
    uint64_t seed;                     /* of the lengths */
};

struct tpp_tracer; /* opaque */

/* `evaluator` is borrowed and must outlive the tracer; the strategy is copied (tpp_strategy_complete has filled it) and
 * checked. On success the caller owns *out. Fixed lengths: micro-batches beyond a few rounds of the pipeline repeat what
 * came before and are left out. */
enum tpp_code tpp_tracer_new(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy, uint32_t stage,
                             const struct tpp_trace_options *options, struct tpp_tracer **out, struct tpp_error *err);
void tpp_tracer_free(struct tpp_tracer *tracer); /* NULL is fine */

/* Events of set-up (the first call after new), or of the next step. Borrowed until the next call. */
enum tpp_code tpp_tracer_setup(struct tpp_tracer *tracer, struct tpp_error *err);
enum tpp_code tpp_tracer_step(struct tpp_tracer *tracer, struct tpp_error *err);
const struct tpp_trace_event *tpp_tracer_events(const struct tpp_tracer *tracer, size_t *count);
/* Tensors alive at once so far: room that a replay needs. */
uint32_t tpp_tracer_num_tensors(const struct tpp_tracer *tracer);
/* Most bytes alive since the end of set-up, as asked for, without rounding. (Set-up itself may hold more: weights twice.) */
uint64_t tpp_tracer_peak_bytes(const struct tpp_tracer *tracer);

#endif
