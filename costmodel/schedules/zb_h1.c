/* ZB-H1: 1F1B with the weight gradient split off and put where the stage would wait at the end; memory of 1F1B
 * (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.2 and figure 3). */
#include "costmodel/schedules/schedule_parts.h"

static void order(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list)
{
    tpp_order_one_f_one_b(problem->num_micro_batches, stage, problem->pipeline_parallel - 1 - stage, stage, list);
}

const struct tpp_schedule_row tpp_schedule_zb_h1 = {
    .info = {.name = "zb-h1", .placement = TPP_PLACEMENT_LOOP, .splits_backward = true},
    .chunks_a_stage = 1,
    .order = order,
};
