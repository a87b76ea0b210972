/* ZB-H2: twice the forwards of 1F1B before the first backward, so that the stages' work is a parallelogram; memory of
 * up to 2p - 1 micro-batches (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 2.2 and figure 3). */
#include "costmodel/schedules/schedule_parts.h"

static void order(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list)
{
    tpp_order_one_f_one_b(problem->num_micro_batches, stage, 2 * (problem->pipeline_parallel - 1 - stage), 2 * stage,
                          list);
}

const struct tpp_schedule_row tpp_schedule_zb_h2 = {
    .info = {.name = "zb-h2", .placement = TPP_PLACEMENT_LOOP, .splits_backward = true},
    .chunks_a_stage = 1,
    .order = order,
};
