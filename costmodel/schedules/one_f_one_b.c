/* 1F1B: as many forwards first as stages follow, then forward and backward in turns (Narayanan et al. 2021, "Efficient
 * Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2.1). */
#include "costmodel/schedules/schedule_parts.h"

void tpp_order_one_f_one_b(uint32_t num_micro_batches, uint32_t stage, uint32_t warm_up, uint32_t delay,
                           struct tpp_op_list *list)
{
    const uint32_t m = num_micro_batches, first = warm_up < m ? warm_up : m;
    for (uint32_t i = 0; i < first; i++)
        tpp_op_add(list, TPP_SCHEDULE_OP_FORWARD, stage, i);
    for (uint32_t i = 0; i < m; i++) {
        if (first + i < m)
            tpp_op_add(list, TPP_SCHEDULE_OP_FORWARD, stage, first + i);
        tpp_op_add(list, TPP_SCHEDULE_OP_BACKWARD, stage, i);
        if (i >= delay)
            tpp_op_add(list, TPP_SCHEDULE_OP_WEIGHT, stage, i - delay);
    }
    if (delay == TPP_NO_WEIGHT_OPS)
        return;
    for (uint32_t i = m > delay ? m - delay : 0; i < m; i++)
        tpp_op_add(list, TPP_SCHEDULE_OP_WEIGHT, stage, i);
}

static void order(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list)
{
    tpp_order_one_f_one_b(problem->num_micro_batches, stage, problem->pipeline_parallel - 1 - stage, TPP_NO_WEIGHT_OPS,
                          list);
}

const struct tpp_schedule_row tpp_schedule_1f1b = {
    .info = {.name = "1f1b", .placement = TPP_PLACEMENT_LOOP},
    .chunks_a_stage = 1,
    .order = order,
};
