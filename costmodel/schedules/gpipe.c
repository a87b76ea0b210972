/* GPipe: all forwards, then all backwards (Huang et al. 2019, "GPipe", section 2.3). */
#include "costmodel/schedules/schedule_parts.h"

static void order(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list)
{
    for (uint32_t i = 0; i < problem->num_micro_batches; i++)
        tpp_op_add(list, TPP_SCHEDULE_OP_FORWARD, stage, i);
    for (uint32_t i = 0; i < problem->num_micro_batches; i++)
        tpp_op_add(list, TPP_SCHEDULE_OP_BACKWARD, stage, i);
}

const struct tpp_schedule_row tpp_schedule_gpipe = {
    .info = {.name = "gpipe", .placement = TPP_PLACEMENT_LOOP},
    .chunks_a_stage = 1,
    .order = order,
};
