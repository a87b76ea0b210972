/* Interleaved 1F1B: v chunks a stage, worked on in groups of N micro-batches (Narayanan et al. 2021, "Efficient
 * Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", section 2.2.2; N is Megatron-LM's
 * --microbatch-group-size-per-virtual-pipeline-stage, p when not given). */
#include "costmodel/schedules/schedule_parts.h"

/* Position in the order of all (chunk, micro-batch) of a stage: for each group, for each chunk, the group's
 * micro-batches. */
struct turn {
    uint32_t group_start, group_size, chunk, offset;
};

static uint32_t group_size_of(const struct tpp_schedule_problem *problem)
{
    return problem->microbatch_group_size > 0 ? problem->microbatch_group_size : problem->pipeline_parallel;
}

static struct turn first_turn(const struct tpp_schedule_problem *problem)
{
    const uint32_t N = group_size_of(problem), m = problem->num_micro_batches;
    return (struct turn){.group_size = N < m ? N : m};
}

static void next_turn(const struct tpp_schedule_problem *problem, struct turn *turn)
{
    if (++turn->offset < turn->group_size)
        return;
    turn->offset = 0;
    if (++turn->chunk < problem->virtual_pipeline_stages)
        return;
    turn->chunk = 0;
    turn->group_start += turn->group_size;
    const uint32_t left = problem->num_micro_batches - turn->group_start;
    turn->group_size = turn->group_size < left ? turn->group_size : left;
}

static void add_forward(const struct tpp_schedule_problem *problem, uint32_t stage, struct turn *turn,
                        struct tpp_op_list *list)
{
    tpp_op_add(list, TPP_SCHEDULE_OP_FORWARD, turn->chunk * problem->pipeline_parallel + stage,
               turn->group_start + turn->offset);
    next_turn(problem, turn);
}

/* Backward takes the chunks from the last to the first. */
static void add_backward(const struct tpp_schedule_problem *problem, uint32_t stage, struct turn *turn,
                         struct tpp_op_list *list)
{
    const uint32_t chunk = problem->virtual_pipeline_stages - 1 - turn->chunk;
    tpp_op_add(list, TPP_SCHEDULE_OP_BACKWARD, chunk * problem->pipeline_parallel + stage,
               turn->group_start + turn->offset);
    next_turn(problem, turn);
}

static void order(const struct tpp_schedule_problem *problem, uint32_t stage, struct tpp_op_list *list)
{
    const uint64_t total = (uint64_t)problem->num_micro_batches * problem->virtual_pipeline_stages;
    const uint64_t wanted = 2 * (uint64_t)(problem->pipeline_parallel - 1 - stage) +
                            (uint64_t)(problem->virtual_pipeline_stages - 1) * group_size_of(problem);
    const uint64_t warm_up = wanted < total ? wanted : total;
    struct turn forward = first_turn(problem), backward = first_turn(problem);
    for (uint64_t k = 0; k < warm_up; k++)
        add_forward(problem, stage, &forward, list);
    for (uint64_t k = 0; k < total; k++) {
        if (warm_up + k < total)
            add_forward(problem, stage, &forward, list);
        add_backward(problem, stage, &backward, list);
    }
}

/* A chunk must not be asked for before the group has come round through all stages (launch-formats ML-29): the stages
 * would wait for each other. */
static enum tpp_code check(const struct tpp_schedule_problem *problem, struct tpp_error *err)
{
    const uint32_t N = group_size_of(problem), m = problem->num_micro_batches, p = problem->pipeline_parallel;
    if (problem->virtual_pipeline_stages == 1 || (N >= p && N <= m && (m % N == 0 || m % N >= p)))
        return TPP_OK;
    return tpp_fail(err, TPP_E_STRATEGY, "schedule",
                    "choose a number of micro-batches that is a multiple of the pipeline size",
                    "the interleaved schedule cannot run %u micro-batches in groups of %u on %u stages", m, N, p);
}

const struct tpp_schedule_row tpp_schedule_interleaved = {
    .info = {.name = "interleaved", .placement = TPP_PLACEMENT_LOOP},
    .check = check,
    .order = order,
};
