#include "costmodel/simulator/order.h"

#include "costmodel/schedules/plan_schedule.h"

#include <stdlib.h>

struct tpp_order {
    struct tpp_schedule_run *run;
};

struct tpp_order_shape tpp_order_shape(const struct tpp_strategy *strategy)
{
    const struct tpp_schedule_info *info = tpp_schedule_info(strategy->schedule);
    const uint32_t chunks = strategy->pipeline_parallel * strategy->virtual_pipeline_stages;
    return (struct tpp_order_shape){info->placement == TPP_PLACEMENT_TWO_WAY ? 2 * strategy->pipeline_parallel : chunks,
                                    info->splits_backward};
}

struct tpp_order_chunk tpp_order_chunk(const struct tpp_strategy *strategy, uint32_t chunk)
{
    const enum tpp_placement placement = tpp_schedule_info(strategy->schedule)->placement;
    const uint32_t p = strategy->pipeline_parallel, num_chunks = tpp_order_shape(strategy).num_chunks;
    return (struct tpp_order_chunk){
        .stage = tpp_schedule_chunk_stage(placement, p, chunk),
        .previous = tpp_schedule_previous_chunk(placement, p, chunk),
        .next = tpp_schedule_next_chunk(placement, p, num_chunks, chunk),
        .position = placement == TPP_PLACEMENT_TWO_WAY ? chunk % p : chunk,
    };
}

enum tpp_code tpp_order_new(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                            uint32_t num_micro_batches, struct tpp_order **out, struct tpp_error *err)
{
    *out = NULL;
    struct tpp_schedule_problem problem;
    struct tpp_schedule_chunk *chunks = calloc(tpp_order_shape(strategy).num_chunks, sizeof(*chunks));
    struct tpp_order *order = calloc(1, sizeof(*order));
    enum tpp_code code = chunks && order ? tpp_schedule_run_new(&order->run, err)
                                         : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the schedule");
    if (code == TPP_OK)
        code = tpp_plan_schedule(evaluator, strategy, chunks, &problem, err);
    problem.num_micro_batches = num_micro_batches;
    if (code == TPP_OK)
        code = tpp_schedule_order(order->run, &problem, err);
    free(chunks);
    if (code == TPP_OK)
        *out = order;
    else
        tpp_order_free(order);
    return code;
}

void tpp_order_free(struct tpp_order *order)
{
    if (!order)
        return;
    tpp_schedule_run_free(order->run);
    free(order);
}

size_t tpp_order_count(const struct tpp_order *order, uint32_t stage)
{
    size_t count;
    tpp_schedule_run_ops(order->run, stage, &count);
    return count;
}

struct tpp_order_op tpp_order_op(const struct tpp_order *order, uint32_t stage, size_t index)
{
    size_t count;
    const struct tpp_schedule_op *op = &tpp_schedule_run_ops(order->run, stage, &count)[index];
    return (struct tpp_order_op){op->micro_batch, op->chunk, op->kind, op->is_paired};
}
