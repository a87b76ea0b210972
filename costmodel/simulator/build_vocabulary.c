/* Passes S and T of embedding and head that the stages share, and their transfers (schedules/vocabulary_order.c; vocab_parallel
 * _schedule.py of sail-sg/VocabularyParallelism). Every transfer is of all stages of a pipeline: each has its own part of it,
 * on its own ports, from the moment at which all are there. */
#include "costmodel/simulator/build.h"

static enum tpp_vocabulary_parallel kind_of(const struct tpp_build *build)
{
    return build->strategy->vocabulary_parallel;
}

static bool is_interlaced(const struct tpp_build *build)
{
    return kind_of(build) == TPP_VOCABULARY_PARALLEL_INTERLACED;
}

static struct tpp_vocabulary_tasks *tasks_of(const struct tpp_build *build, uint32_t device, uint32_t micro_batch)
{
    return &build->vocabulary[(size_t)device * build->num_micro_batches + micro_batch];
}

/* What a transfer is made of: `count` collectives of one size, and one of another. */
struct parts {
    enum tpp_collective collective;
    double count, bytes, other_bytes;
};

/* Nothing but a meeting of all stages in the comparable mode. */
static uint32_t transfer(const struct tpp_pen *pen, enum tpp_track track, const char *name, struct parts parts)
{
    struct tpp_build *build = pen->build;
    const struct tpp_graph_task like = {.name = name, .micro_batch = pen->micro_batch, .chunk = pen->chunk,
                                        .layer = TPP_NO_TASK};
    const struct tpp_links *links = &build->evaluator->links;
    const struct tpp_group *group = &build->groups[TPP_ROUTE_PIPELINE];
    if (build->options->mode == TPP_SIMULATION_COMPARABLE)
        return tpp_build_meeting(build, pen->device, track, &like);
    const double seconds = parts.count * tpp_collective_seconds(links, parts.collective, group, parts.bytes) +
                           (parts.other_bytes > 0
                                ? tpp_collective_seconds(links, parts.collective, group, parts.other_bytes)
                                : 0);
    return tpp_build_collective(build, pen->device, track, TPP_ROUTE_PIPELINE, parts.collective,
                                parts.count * parts.bytes + parts.other_bytes, seconds, &like);
}

/* The sections of the stage's share that the pass holds. */
static void compute(struct tpp_pen *pen, bool is_second)
{
    static const enum tpp_section sections[TPP_PASS_WEIGHT + 1] = {TPP_SECTION_FORWARD, TPP_SECTION_BACKWARD,
                                                                   TPP_SECTION_WEIGHT};
    for (int pass = TPP_PASS_FORWARD; pass <= TPP_PASS_WEIGHT; pass++)
        for (int end = 0; end < 2; end++)
            if (tpp_is_in_second_vocabulary_pass(pen->build->strategy, end == 1, sections[pass]) == is_second)
                tpp_pen_section(pen, end == 1 ? TPP_UNIT_HEAD : TPP_UNIT_EMBEDDING, (enum tpp_simulated_pass)pass);
}

/* F and B beside the transfers take longer; it is counted here, as the schedule has it. */
static void slow_down(struct tpp_pen *pen)
{
    struct tpp_build *build = pen->build;
    const struct tpp_strategy *strategy = build->strategy;
    const uint32_t index = build->chunks[pen->chunk].place.stage;
    struct tpp_stage stage;
    tpp_stage_time(build->evaluator, strategy, &build->assembly, index,
                   tpp_stage_layers(strategy, build->evaluator->model, index), &stage);
    if (build->options->mode == TPP_SIMULATION_COMPARABLE) {
        tpp_pen_compute(pen, 0, stage.vocabulary_exposed_seconds);
        return;
    }
    double ends_seconds[2];
    tpp_vocabulary_pass_seconds(strategy, &build->assembly, ends_seconds);
    const double layers_seconds = stage.forward_seconds + stage.backward_seconds + stage.recompute_seconds -
                                  ends_seconds[0] - ends_seconds[1];
    tpp_pen_compute(pen, tpp_vocabulary_slowdown_seconds(strategy, layers_seconds), 0);
}

void tpp_build_vocabulary_pass(struct tpp_pen *pen, enum tpp_simulated_pass pass)
{
    struct tpp_build *build = pen->build;
    struct tpp_vocabulary_tasks *tasks = tasks_of(build, pen->device, pen->micro_batch);
    const struct tpp_vocabulary_transfers sent =
        tpp_vocabulary_transfers(build->evaluator, build->strategy, &build->assembly);
    const bool has_two_barriers = kind_of(build) == TPP_VOCABULARY_PARALLEL_TWO_BARRIERS;
    if (pass == TPP_PASS_VOCABULARY_WEIGHT) {
        tpp_pen_wait(pen, tasks->loss);
        compute(pen, true);
        tasks->second = tpp_pen_flush(pen);
        if (has_two_barriers)
            tasks->gradient = transfer(pen, TPP_TRACK_VOCABULARY_GRADIENT, "head gradient",
                                       (struct parts){TPP_ALL_REDUCE, 1, sent.hidden_bytes, 0});
        return;
    }
    tasks->input = transfer(pen, TPP_TRACK_VOCABULARY_INPUT, "head input",
                            (struct parts){TPP_ALL_GATHER, 1, sent.input_bytes, 0});
    tpp_pen_wait(pen, tasks->input);
    slow_down(pen);
    compute(pen, false);
    tasks->first = tpp_pen_flush(pen);
    tasks->loss = transfer(pen, TPP_TRACK_VOCABULARY_LOSS, "loss",
                           (struct parts){TPP_ALL_REDUCE, TPP_VOCABULARY_LOSS_REDUCTIONS, sent.loss_bytes,
                                          has_two_barriers ? 0 : sent.hidden_bytes});
    const uint32_t output = transfer(pen, TPP_TRACK_VOCABULARY_EMBEDDING, "embedding output",
                                     (struct parts){TPP_ALL_REDUCE, 1, sent.hidden_bytes, 0});
    const uint32_t gradient = transfer(pen, TPP_TRACK_VOCABULARY_EMBEDDING, "embedding gradient",
                                       (struct parts){TPP_ALL_GATHER, 1, sent.hidden_bytes, 0});
    tpp_graph_depend(build->graph, output, is_interlaced(build) ? tasks->loss : tasks->first);
    tpp_graph_depend(build->graph, gradient, output);
    if (!is_interlaced(build))
        return;
    tpp_pen_wait(pen, tasks->loss);
    tpp_pen_wait(pen, gradient);
    tpp_pen_flush(pen);
}

/* Waits of one micro-batch between the stages of a pipeline, when all passes are written. */
static void connect(struct tpp_build *build, uint32_t first_device, uint32_t micro_batch)
{
    struct tpp_graph *graph = build->graph;
    const uint32_t p = build->num_stages, last = first_device + p - 1;
    const struct tpp_vocabulary_tasks *at_last = tasks_of(build, last, micro_batch);
    const struct tpp_op_tasks *forward = tpp_build_op(build, last, p - 1, micro_batch, TPP_PASS_FORWARD);
    const struct tpp_op_tasks *backward = tpp_build_op(build, last, p - 1, micro_batch, TPP_PASS_BACKWARD);
    for (uint32_t stage = 0; stage < p; stage++) {
        const struct tpp_vocabulary_tasks *tasks = tasks_of(build, first_device + stage, micro_batch);
        tpp_graph_depend(graph, tasks->input, forward->block_last);
        for (uint32_t other = 0; other < p; other++) {
            const struct tpp_vocabulary_tasks *others = tasks_of(build, first_device + other, micro_batch);
            tpp_graph_depend(graph, tasks->loss, others->first);
            tpp_graph_depend(graph, tasks->gradient, others->second);
            if (is_interlaced(build)) /* who gets there first waits */
                tpp_graph_depend(graph, tasks->input,
                                 tpp_build_op(build, first_device + other, other, micro_batch, TPP_PASS_VOCABULARY)->before);
        }
    }
    tpp_graph_depend(graph, backward->block_first, at_last->gradient != TPP_NO_TASK ? at_last->gradient : at_last->loss);
}

void tpp_build_connect_vocabulary(struct tpp_build *build)
{
    if (kind_of(build) == TPP_VOCABULARY_PARALLEL_NONE)
        return;
    for (uint32_t replica = 0; replica < build->num_replicas; replica++)
        for (uint32_t i = 0; i < build->num_micro_batches; i++)
            connect(build, replica * build->num_stages, i);
}
