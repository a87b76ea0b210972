/* What came out of the events of a step. */
#include "costmodel/simulator/simulation.h"

#include <math.h>
#include <stdlib.h>

static int compare_ops(const void *left, const void *right)
{
    const struct tpp_simulated_op *a = left, *b = right;
    if (a->stage != b->stage)
        return a->stage < b->stage ? -1 : 1;
    if (a->start_seconds != b->start_seconds)
        return a->start_seconds < b->start_seconds ? -1 : 1;
    if (a->end_seconds != b->end_seconds)
        return a->end_seconds < b->end_seconds ? -1 : 1;
    if (a->pass != b->pass)
        return a->pass < b->pass ? -1 : 1;
    return (a->chunk > b->chunk) - (a->chunk < b->chunk);
}

static enum tpp_code collect_ops(struct tpp_simulation *simulation, struct tpp_error *err)
{
    struct tpp_build *build = &simulation->build;
    struct tpp_simulation_result *result = &simulation->result;
    uint32_t num_tasks;
    const struct tpp_graph_task *tasks = tpp_graph_tasks(build->graph, &num_tasks);
    const size_t most = (size_t)build->num_chunks * build->num_micro_batches * TPP_PASS_COUNT;
    simulation->ops = malloc(most * sizeof(*simulation->ops));
    if (!simulation->ops)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the result of the simulation");
    for (uint32_t g = 0; g < build->num_chunks; g++)
        for (uint32_t i = 0; i < build->num_micro_batches; i++)
            for (int pass = 0; pass < TPP_PASS_COUNT; pass++) {
                const uint32_t stage = build->chunks[g].place.stage;
                const struct tpp_op_tasks *op = tpp_build_op(build, stage, g, i, (enum tpp_simulated_pass)pass);
                if (op->first == TPP_NO_TASK)
                    continue;
                simulation->ops[result->num_ops++] = (struct tpp_simulated_op){
                    .start_seconds = tasks[op->first].start_seconds, .end_seconds = tasks[op->last].end_seconds,
                    .stage = stage, .chunk = g, .micro_batch = i, .pass = (enum tpp_simulated_pass)pass};
                result->pipeline_seconds = fmax(result->pipeline_seconds, tasks[op->last].end_seconds);
            }
    qsort(simulation->ops, result->num_ops, sizeof(*simulation->ops), compare_ops);
    result->ops = simulation->ops;
    return TPP_OK;
}

/* Of all stages: time inside a pass, exposed transfers of its layers included. */
static double busy_seconds(const struct tpp_simulation_result *result)
{
    double busy = 0;
    for (size_t i = 0; i < result->num_ops; i++)
        busy += result->ops[i].end_seconds - result->ops[i].start_seconds;
    return busy;
}

enum tpp_code tpp_simulation_collect(struct tpp_simulation *simulation, struct tpp_error *err)
{
    const struct tpp_build *build = &simulation->build;
    struct tpp_simulation_result *result = &simulation->result;
    uint32_t num_tasks;
    const struct tpp_graph_task *tasks = tpp_graph_tasks(build->graph, &num_tasks);
    const enum tpp_code code = collect_ops(simulation, err);
    if (code != TPP_OK)
        return code;
    const double barrier = tasks[build->finish.barrier].end_seconds;
    const double optimized = tasks[build->finish.optimizer].end_seconds;
    const struct tpp_graph_task *last = &tasks[build->finish.end];
    result->step_seconds = last->end_seconds;
    if (simulation->options.mode == TPP_SIMULATION_EVENTS) {
        result->fixed_seconds = last->end_seconds - last->start_seconds;
        result->optimizer_seconds = optimized - barrier;
        result->gradient_exposed_seconds = barrier - result->pipeline_seconds + last->start_seconds - optimized;
    }
    /* The sum of a stage that never waits may round to a little more than the pipeline's seconds. */
    result->bubble_fraction = fmax(0, 1 - busy_seconds(result) / (build->num_stages * result->pipeline_seconds));
    result->num_events = tpp_graph_num_events(build->graph);
    result->num_tasks = num_tasks;
    result->num_bytes = tpp_graph_bytes(build->graph) + result->num_ops * sizeof(*result->ops) +
                        (size_t)build->num_replicas * build->num_chunks * build->num_micro_batches * TPP_PASS_COUNT *
                            sizeof(*build->ops);
    result->has_operations = build->has_operations;
    return tpp_simulation_contention(simulation, err);
}
