/* DualPipeV: half of DualPipe folded into a V, with one copy of the model; a stage holds chunks r and 2p-1-r, so that p
 * stages work like 2p of DualPipe (the cut-in-half schedule of the DualPipe project, 2025). */
#include "costmodel/schedules/schedule_parts.h"

static void order(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list)
{
    const struct tpp_two_chunks chunks = {
        .first = stage,
        .second = 2 * problem->pipeline_parallel - 1 - stage,
        .depth = stage,
        .num_depths = problem->pipeline_parallel,
        .num_micro_batches = problem->num_micro_batches,
    };
    tpp_order_two_chunks(&chunks, list);
}

static enum tpp_code check(const struct tpp_schedule_problem *problem, struct tpp_error *err)
{
    const uint32_t p = problem->pipeline_parallel, m = problem->num_micro_batches;
    if (m >= 2 * p)
        return TPP_OK;
    return tpp_fail(err, TPP_E_STRATEGY, "schedule", "take at least twice as many micro-batches as stages",
                    "the dualpipev schedule cannot run %u micro-batches on %u stages", m, p);
}

const struct tpp_schedule_row tpp_schedule_dualpipev = {
    .info = {.name = "dualpipev", .placement = TPP_PLACEMENT_V, .splits_backward = true},
    .chunks_a_stage = 2,
    .check = check,
    .order = order,
};
