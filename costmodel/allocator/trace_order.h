/* trace_order.h - private to the trace: in which order a stage runs its passes.
 *
 * A view of schedules/schedule.h: one stage's list, with the layers of its chunks. */
#ifndef TPP_COSTMODEL_ALLOCATOR_TRACE_ORDER_H
#define TPP_COSTMODEL_ALLOCATOR_TRACE_ORDER_H

#include "costmodel/base/error.h"
#include "costmodel/strategy.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_pass_kind { TPP_PASS_FORWARD, TPP_PASS_BACKWARD, TPP_PASS_WEIGHT };

struct tpp_pass {
    uint32_t micro_batch;
    uint32_t chunk;          /* index into the stage's chunks */
    enum tpp_pass_kind kind;
};

struct tpp_trace_chunk {     /* of the stage, in model order */
    uint32_t first_layer, num_layers; /* of the copy that it belongs to */
    bool is_first, is_last;  /* holds the embedding, the head */
};

struct tpp_trace_order {
    struct tpp_pass *passes; /* owned */
    size_t num_passes;
    struct tpp_trace_chunk *chunks; /* owned */
    uint32_t num_chunks;
    bool splits_backward;    /* the weight gradients are passes of their own */
};

/* Passes of one step of `num_micro_batches`. TPP_E_UNSUPPORTED with vocabulary parallelism. */
enum tpp_code tpp_trace_order_make(const struct tpp_strategy *strategy, uint32_t num_layers, uint32_t stage,
                                   uint32_t num_micro_batches, struct tpp_trace_order *out, struct tpp_error *err);
void tpp_trace_order_release(struct tpp_trace_order *order);

#endif
