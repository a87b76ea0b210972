/* DualPipe: two copies of the model run through the stages in opposite directions, half of the micro-batches each;
 * every stage holds stage r of one copy and stage p-1-r of the other (DeepSeek-AI 2024, "DeepSeek-V3 Technical
 * Report", 3.2.1). */
#include "costmodel/schedules/schedule_parts.h"

static void order(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list)
{
    const uint32_t p = problem->pipeline_parallel, half = problem->num_micro_batches / 2;
    const bool is_upper = stage >= p / 2;
    const uint32_t there = stage, back = 2 * p - 1 - stage;
    const struct tpp_two_chunks chunks = {
        .first = is_upper ? back : there,
        .second = is_upper ? there : back,
        .first_base = is_upper ? half : 0,
        .second_base = is_upper ? 0 : half,
        .depth = is_upper ? p - 1 - stage : stage,
        .num_depths = p / 2,
        .num_micro_batches = half,
    };
    tpp_order_two_chunks(&chunks, list);
}

static enum tpp_code check(const struct tpp_schedule_problem *problem, struct tpp_error *err)
{
    const uint32_t p = problem->pipeline_parallel, m = problem->num_micro_batches;
    if (p % 2 == 0 && m % 2 == 0 && m >= 2 * p)
        return TPP_OK;
    return tpp_fail(err, TPP_E_STRATEGY, "schedule",
                    "take an even number of stages, and an even number of micro-batches of at least twice as many",
                    "the dualpipe schedule cannot run %u micro-batches on %u stages", m, p);
}

const struct tpp_schedule_row tpp_schedule_dualpipe = {
    .info = {.name = "dualpipe", .placement = TPP_PLACEMENT_TWO_WAY, .splits_backward = true},
    .chunks_a_stage = 1,
    .check = check,
    .order = order,
};
