/* A run: checks the problem, makes the lists, times them, and sums up. */
#include "costmodel/schedules/schedule_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Lists and times of this many operations take 2 GB; plans that people run have fewer than a million. */
#define MAX_OPS (UINT64_C(1) << 26)

enum tpp_code tpp_buffer_reserve(struct tpp_buffer *buffer, size_t count, size_t size, struct tpp_error *err)
{
    if (count * size <= buffer->size)
        return TPP_OK;
    free(buffer->data);
    buffer->data = malloc(count * size);
    buffer->size = buffer->data ? count * size : 0;
    return buffer->data ? TPP_OK
                        : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the pipeline's operations");
}

enum tpp_code tpp_schedule_run_new(struct tpp_schedule_run **out, struct tpp_error *err)
{
    *out = calloc(1, sizeof(**out));
    return *out ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
}

void tpp_schedule_run_free(struct tpp_schedule_run *run)
{
    if (!run)
        return;
    struct tpp_buffer *buffers[] = {&run->ops,     &run->times,  &run->stages,   &run->finish,
                                    &run->cursors, &run->search, &run->candidate};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        free(buffers[i]->data);
    free(run);
}

struct tpp_schedule_problem tpp_schedule_problem_of(const struct tpp_strategy *strategy)
{
    return (struct tpp_schedule_problem){
        .schedule = strategy->schedule,
        .pipeline_parallel = strategy->pipeline_parallel,
        .virtual_pipeline_stages = strategy->virtual_pipeline_stages,
        .num_micro_batches =
            strategy->num_micro_batches < UINT32_MAX ? (uint32_t)strategy->num_micro_batches : UINT32_MAX,
        .microbatch_group_size = strategy->microbatch_group_size,
        .vocabulary_parallel = strategy->vocabulary_parallel,
    };
}

uint32_t tpp_problem_num_chunks(const struct tpp_schedule_problem *problem)
{
    const bool is_twice = tpp_schedule_info(problem->schedule)->placement == TPP_PLACEMENT_TWO_WAY;
    return problem->pipeline_parallel * (is_twice ? 2 : problem->virtual_pipeline_stages);
}

const struct tpp_schedule_chunk *tpp_problem_chunk(const struct tpp_schedule_problem *problem, uint32_t chunk)
{
    const bool is_twice = tpp_schedule_info(problem->schedule)->placement == TPP_PLACEMENT_TWO_WAY;
    return &problem->chunks[is_twice ? chunk % problem->pipeline_parallel : chunk];
}

double tpp_problem_memory_limit(const struct tpp_schedule_problem *problem)
{
    if (problem->memory_limit > 0)
        return problem->memory_limit;
    return tpp_schedule_row_of(problem->schedule)->memory_limit_in_stages * problem->pipeline_parallel;
}

/* Each copy of the model sees half of the micro-batches when there are two. */
static uint64_t count_ops_a_stage(const struct tpp_schedule_problem *problem)
{
    const struct tpp_schedule_info *info = tpp_schedule_info(problem->schedule);
    const uint64_t chunks = info->placement == TPP_PLACEMENT_TWO_WAY ? 1 : problem->virtual_pipeline_stages;
    const uint32_t vocabulary_ops = problem->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_NONE         ? 0
                                    : problem->vocabulary_parallel == TPP_VOCABULARY_PARALLEL_INTERLACED ? 1
                                                                                                         : 2;
    return chunks * problem->num_micro_batches * ((info->splits_backward ? 3 : 2) + vocabulary_ops);
}

static enum tpp_code check_sizes(const struct tpp_schedule_problem *problem, struct tpp_error *err)
{
    const struct tpp_schedule_row *row = tpp_schedule_row_of(problem->schedule);
    const uint32_t p = problem->pipeline_parallel, v = problem->virtual_pipeline_stages;
    if (p < 1 || p > TPP_MAX_PIPELINE_PARALLEL || v < 1 || (uint64_t)p * v > TPP_MAX_CHUNKS ||
        problem->num_micro_batches < 1)
        return tpp_fail(err, TPP_E_STRATEGY, "schedule", NULL,
                        "%u stages of %u chunks with %u micro-batches are not a pipeline", p, v,
                        problem->num_micro_batches);
    if (row->chunks_a_stage > 0 && v != row->chunks_a_stage)
        return tpp_fail(err, TPP_E_STRATEGY, "schedule", "set the virtual pipeline stages to what the schedule needs",
                        "the %s schedule has %u chunk(s) a stage, not %u", row->info.name, row->chunks_a_stage, v);
    if (problem->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE &&
        (problem->schedule != TPP_SCHEDULE_1F1B || p == 1))
        return tpp_fail(err, TPP_E_STRATEGY, "schedule", "use 1f1b on two stages or more",
                        "the %s schedule on %u stages does not share vocabulary layers", row->info.name, p);
    if (count_ops_a_stage(problem) > MAX_OPS / p)
        return tpp_fail(err, TPP_E_STRATEGY, "schedule", "use larger micro-batches",
                        "%u micro-batches on %u stages of %u chunks are too many operations to simulate",
                        problem->num_micro_batches, p, v);
    return row->check ? row->check(problem, err) : TPP_OK;
}

static bool is_amount(double value)
{
    return isfinite(value) && value >= 0;
}

static enum tpp_code check_times(const struct tpp_schedule_problem *problem, struct tpp_error *err)
{
    if (!is_amount(problem->edge_seconds) || !is_amount(problem->transfer_seconds) ||
        !is_amount(problem->memory_limit) || !is_amount(problem->vocabulary_input_seconds) ||
        !is_amount(problem->vocabulary_loss_seconds) || !is_amount(problem->vocabulary_gradient_seconds))
        return tpp_fail(err, TPP_E_RANGE, "schedule", NULL,
                        "a transfer time or memory limit is negative or not finite");
    const uint32_t p = problem->pipeline_parallel, v = problem->virtual_pipeline_stages;
    for (uint32_t g = 0; g < p * v; g++) {
        const struct tpp_schedule_chunk *chunk = &problem->chunks[g];
        if (!is_amount(chunk->forward_seconds) || !is_amount(chunk->backward_seconds) ||
            !is_amount(chunk->weight_seconds) || !is_amount(chunk->activation_bytes) ||
            !is_amount(chunk->weight_activation_bytes) || !is_amount(chunk->hidden_forward_seconds) ||
            !is_amount(chunk->hidden_backward_seconds) || !is_amount(chunk->vocabulary_seconds) ||
            !is_amount(chunk->vocabulary_weight_seconds))
            return tpp_fail(err, TPP_E_RANGE, "schedule", NULL,
                            "a time or size of model chunk %u is negative or not finite", g);
    }
    return TPP_OK;
}

enum tpp_code tpp_schedule_order(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                 struct tpp_error *err)
{
    const struct tpp_schedule_row *row = tpp_schedule_row_of(problem->schedule);
    enum tpp_code code = check_sizes(problem, err);
    if (code == TPP_OK)
        code = check_times(problem, err);
    if (code != TPP_OK)
        return code;
    run->is_timed = false;
    run->num_stages = problem->pipeline_parallel;
    run->ops_a_stage = count_ops_a_stage(problem);
    code = tpp_buffer_reserve(&run->ops, run->num_stages * run->ops_a_stage, sizeof(struct tpp_schedule_op), err);
    if (code != TPP_OK)
        return code;
    if (problem->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE)
        return tpp_order_with_vocabulary(run, problem, err);
    if (row->search)
        return row->search(run, problem, err);
    for (uint32_t stage = 0; stage < run->num_stages; stage++) {
        struct tpp_op_list list = {.ops = tpp_run_list(run, stage)};
        row->order(problem, stage, &list);
    }
    return TPP_OK;
}

static struct tpp_schedule_summary sum_up(const struct tpp_schedule_run *run)
{
    const struct tpp_schedule_stage *stages = run->stages.data;
    struct tpp_schedule_summary summary = {.num_ops = (uint64_t)run->num_stages * run->ops_a_stage};
    double busy_seconds = 0;
    for (uint32_t stage = 0; stage < run->num_stages; stage++) {
        const struct tpp_schedule_stage *s = &stages[stage];
        busy_seconds += s->busy_seconds;
        summary.busy_seconds = fmax(summary.busy_seconds, s->busy_seconds);
        summary.makespan_seconds = fmax(summary.makespan_seconds, s->last_end_seconds);
        summary.span_seconds = fmax(summary.span_seconds, s->last_end_seconds - s->first_start_seconds);
        if (s->peak_activation_bytes > summary.peak_activation_bytes) {
            summary.peak_activation_bytes = s->peak_activation_bytes;
            summary.worst_stage = stage;
        }
    }
    const double p = run->num_stages;
    summary.imbalance_seconds = p * summary.busy_seconds - busy_seconds;
    if (summary.makespan_seconds > 0)
        summary.bubble_fraction = fmax(0, 1 - busy_seconds / (p * summary.makespan_seconds));
    if (summary.span_seconds > 0)
        summary.span_bubble_fraction = fmax(0, 1 - busy_seconds / (p * summary.span_seconds));
    return summary;
}

enum tpp_code tpp_schedule_step(struct tpp_schedule_run *run, const struct tpp_schedule_problem *problem,
                                struct tpp_schedule_summary *summary, struct tpp_error *err)
{
    enum tpp_code code = tpp_schedule_order(run, problem, err);
    if (code == TPP_OK)
        code =
            tpp_buffer_reserve(&run->times, run->num_stages * run->ops_a_stage, sizeof(struct tpp_schedule_time), err);
    if (code == TPP_OK)
        code = tpp_schedule_play(run, problem, err);
    if (code != TPP_OK)
        return code;
    for (uint32_t stage = 0; stage < run->num_stages; stage++)
        tpp_schedule_walk_memory(run, problem, stage);
    run->is_timed = true;
    *summary = sum_up(run);
    return TPP_OK;
}

const struct tpp_schedule_stage *tpp_schedule_run_stages(const struct tpp_schedule_run *run)
{
    return run->is_timed ? run->stages.data : NULL;
}

const struct tpp_schedule_op *tpp_schedule_run_ops(const struct tpp_schedule_run *run, uint32_t stage, size_t *count)
{
    *count = run->ops_a_stage;
    return tpp_run_list(run, stage);
}

const struct tpp_schedule_time *tpp_schedule_run_times(const struct tpp_schedule_run *run, uint32_t stage,
                                                       size_t *count)
{
    *count = run->is_timed ? run->ops_a_stage : 0;
    return run->is_timed ? (const struct tpp_schedule_time *)run->times.data + (size_t)stage * run->ops_a_stage : NULL;
}
