#include "costmodel/allocator/trace_order.h"

#include "costmodel/schedules/schedule.h"

#include <stdlib.h>
#include <string.h>

/* Chunks of the stage; row[g] becomes the index of chunk g among them. A second copy of the model lies on the stages as the first
 * does, from the last one on. */
static void find_chunks(const struct tpp_strategy *strategy, uint32_t num_layers, uint32_t stage, uint32_t *row,
                        struct tpp_trace_order *out)
{
    const enum tpp_placement placement = tpp_schedule_info(strategy->schedule)->placement;
    const uint32_t p = strategy->pipeline_parallel, copies = tpp_schedule_model_copies(strategy->schedule);
    const uint32_t chunks_a_copy = p * strategy->virtual_pipeline_stages;
    uint32_t first = 0;
    for (uint32_t g = 0; g < copies * chunks_a_copy; g++) {
        const uint32_t where = tpp_schedule_chunk_stage(placement, p, g), position = g % chunks_a_copy;
        const uint32_t layers =
            tpp_strategy_chunk_layers(strategy, num_layers, copies > 1 ? position : where, position / p);
        first = position == 0 ? 0 : first;
        if (where == stage) {
            row[g] = out->num_chunks;
            out->chunks[out->num_chunks++] =
                (struct tpp_trace_chunk){.first_layer = first, .num_layers = layers, .is_first = position == 0,
                                         .is_last = position + 1 == chunks_a_copy};
        }
        first += layers;
    }
}

static enum tpp_code copy_passes(const struct tpp_schedule_run *run, uint32_t stage, const uint32_t *row,
                                 struct tpp_trace_order *out, struct tpp_error *err)
{
    size_t count = 0;
    const struct tpp_schedule_op *ops = tpp_schedule_run_ops(run, stage, &count);
    out->passes = calloc(count + 1, sizeof(*out->passes));
    if (out->passes == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the passes of a step");
    for (size_t i = 0; i < count; i++)
        out->passes[out->num_passes++] = (struct tpp_pass){
            .micro_batch = ops[i].micro_batch, .chunk = row[ops[i].chunk],
            .kind = ops[i].kind == TPP_SCHEDULE_OP_FORWARD    ? TPP_PASS_FORWARD
                    : ops[i].kind == TPP_SCHEDULE_OP_BACKWARD ? TPP_PASS_BACKWARD
                                                     : TPP_PASS_WEIGHT};
    return TPP_OK;
}

/* Searched schedules order by times: all passes alike here. */
static enum tpp_code run_schedule(const struct tpp_strategy *strategy, uint32_t num_micro_batches, uint32_t num_chunks,
                                  struct tpp_schedule_run *run, struct tpp_error *err)
{
    struct tpp_schedule_problem problem = tpp_schedule_problem_of(strategy);
    struct tpp_schedule_chunk *chunks = calloc(num_chunks, sizeof(*chunks));
    if (chunks == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the schedule");
    for (uint32_t g = 0; g < num_chunks; g++)
        chunks[g] = (struct tpp_schedule_chunk){.forward_seconds = 1, .backward_seconds = 1, .weight_seconds = 1,
                                                .activation_bytes = 1, .weight_activation_bytes = 1};
    problem.num_micro_batches = num_micro_batches;
    if (problem.microbatch_group_size > num_micro_batches)
        problem.microbatch_group_size = num_micro_batches;
    problem.chunks = chunks;
    const enum tpp_code code = tpp_schedule_order(run, &problem, err);
    free(chunks);
    return code;
}

enum tpp_code tpp_trace_order_make(const struct tpp_strategy *strategy, uint32_t num_layers, uint32_t stage,
                                   uint32_t num_micro_batches, struct tpp_trace_order *out, struct tpp_error *err)
{
    const struct tpp_schedule_info *info = tpp_schedule_info(strategy->schedule);
    const uint32_t num_chunks = strategy->pipeline_parallel * strategy->virtual_pipeline_stages *
                                tpp_schedule_model_copies(strategy->schedule);
    memset(out, 0, sizeof(*out));
    if (strategy->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE)
        return tpp_fail(err, TPP_E_UNSUPPORTED, "strategy.vocabulary_parallel", "replay without vocab_parallel",
                        "the memory of vocabulary passes cannot be replayed");
    out->splits_backward = info->splits_backward;
    out->chunks = calloc(num_chunks, sizeof(*out->chunks));
    uint32_t *row = calloc(num_chunks, sizeof(*row));
    struct tpp_schedule_run *run = NULL;
    enum tpp_code code = out->chunks != NULL && row != NULL
                             ? tpp_schedule_run_new(&run, err)
                             : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the schedule");
    if (code == TPP_OK)
        code = run_schedule(strategy, num_micro_batches, num_chunks, run, err);
    if (code == TPP_OK) {
        find_chunks(strategy, num_layers, stage, row, out);
        code = copy_passes(run, stage, row, out, err);
    }
    tpp_schedule_run_free(run);
    free(row);
    if (code != TPP_OK)
        tpp_trace_order_release(out);
    return code;
}

void tpp_trace_order_release(struct tpp_trace_order *order)
{
    free(order->passes);
    free(order->chunks);
    memset(order, 0, sizeof(*order));
}
