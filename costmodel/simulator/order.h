/* order.h - private to the simulator: which stage runs which pass of which micro-batch in which order.
 *
 * A thin view of schedules/schedule.h: the lists of one plan, and where its chunks are. */
#ifndef TPP_COSTMODEL_SIMULATOR_ORDER_H
#define TPP_COSTMODEL_SIMULATOR_ORDER_H

#include "costmodel/evaluate.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPP_ORDER_NO_CHUNK UINT32_MAX

struct tpp_order_op {
    uint32_t micro_batch, chunk;
    uint8_t pass; /* enum tpp_simulated_pass, which has the order of enum tpp_schedule_op_kind */
    bool is_paired; /* one block with the next op of the list */
};

struct tpp_order; /* opaque */

/* Where chunks are, before any times are known. */
struct tpp_order_shape {
    uint32_t num_chunks;
    bool splits_backward;
};
struct tpp_order_shape tpp_order_shape(const struct tpp_strategy *strategy);
struct tpp_order_chunk {
    uint32_t stage, previous, next; /* TPP_ORDER_NO_CHUNK at the ends of the model */
    uint32_t position;              /* in the model: 0 .. p v - 1; of both copies, where there are two */
};
struct tpp_order_chunk tpp_order_chunk(const struct tpp_strategy *strategy, uint32_t chunk);

/* The lists of the plan's own chunk times (searched schedules order by them). On success the caller owns *out. */
enum tpp_code tpp_order_new(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                            uint32_t num_micro_batches, struct tpp_order **out, struct tpp_error *err);
void tpp_order_free(struct tpp_order *order); /* NULL is fine */
size_t tpp_order_count(const struct tpp_order *order, uint32_t stage);
struct tpp_order_op tpp_order_op(const struct tpp_order *order, uint32_t stage, size_t index);

#endif
