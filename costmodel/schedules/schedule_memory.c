/* Activations alive on a stage, operation by operation, in the order of its list (cost-model 4.3): F adds M_B, the end
 * of B leaves M_W of it when the backward is split and nothing otherwise, the end of W drops that too. */
#include "costmodel/schedules/schedule_parts.h"

#include <math.h>

struct alive {
    double bytes;
    uint32_t num_chunks; /* forward run, backward not */
};

static struct alive after_op(const struct tpp_schedule_problem *problem, const struct tpp_schedule_op *op,
                             bool is_split, struct alive alive)
{
    const struct tpp_schedule_chunk *chunk = tpp_problem_chunk(problem, op->chunk);
    const double kept = is_split ? chunk->weight_activation_bytes : 0;
    switch (op->kind) {
    case TPP_SCHEDULE_OP_BACKWARD:
        return (struct alive){alive.bytes - chunk->activation_bytes + kept, alive.num_chunks - 1};
    case TPP_SCHEDULE_OP_WEIGHT:
        return (struct alive){alive.bytes - kept, alive.num_chunks};
    default:
        return alive;
    }
}

void tpp_schedule_walk_memory(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem, uint32_t stage)
{
    const struct tpp_schedule_op *ops = tpp_run_list(run, stage);
    struct tpp_schedule_time *times = (struct tpp_schedule_time *)run->times.data + (size_t)stage * run->ops_a_stage;
    struct tpp_schedule_stage *summary = (struct tpp_schedule_stage *)run->stages.data + stage;
    const bool is_split = tpp_schedule_info(problem->schedule)->splits_backward;
    struct alive alive = {0};
    uint32_t most_chunks = 0;
    for (size_t first = 0, end; first < run->ops_a_stage; first = end) {
        for (end = first; end == first || ops[end - 1].is_paired; end++) {
            if (ops[end].kind != TPP_SCHEDULE_OP_FORWARD)
                continue;
            alive.bytes += tpp_problem_chunk(problem, ops[end].chunk)->activation_bytes;
            alive.num_chunks++;
        }
        summary->peak_activation_bytes = fmax(summary->peak_activation_bytes, alive.bytes);
        most_chunks = alive.num_chunks > most_chunks ? alive.num_chunks : most_chunks;
        for (size_t i = first; i < end; i++)
            times[i].activation_bytes = alive.bytes;
        for (size_t i = first; i < end; i++)
            alive = after_op(problem, &ops[i], is_split, alive);
    }
    summary->peak_micro_batches = (double)most_chunks / problem->virtual_pipeline_stages;
}
