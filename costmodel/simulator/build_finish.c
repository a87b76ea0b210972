/* From the last backward pass to the end of the step: reductions that do not overlap, the tied embedding, the gradient norm
 * that all stages wait for, optimizer, offload, gathers that do not overlap, fixed time (5.4, 9.1). */
#include "costmodel/simulator/build.h"

#include <math.h>

static struct tpp_graph_task named(const char *name)
{
    return (struct tpp_graph_task){.name = name, .micro_batch = TPP_NO_TASK, .chunk = TPP_NO_TASK,
                                   .layer = TPP_NO_TASK};
}

struct stage_parameters {
    double elements[TPP_PARAMETERS_COUNT]; /* trainable ones of a rank */
    double gather_bytes[TPP_PARAMETERS_COUNT];
    double tensors;
};

static struct stage_parameters parameters_of(const struct tpp_build *build, uint32_t stage)
{
    const struct tpp_layer *layers[TPP_UNIT_COUNT] = {build->assembly.embedding, build->assembly.decoder,
                                                      build->assembly.moe, build->assembly.head};
    struct stage_parameters sum = {0};
    for (uint32_t g = 0; g < build->num_chunks; g++) {
        double counts[TPP_UNIT_COUNT];
        if (build->chunks[g].place.stage != stage)
            continue;
        tpp_chunk_count_units(&build->chunks[g], counts);
        for (int kind = 0; kind < TPP_UNIT_COUNT; kind++)
            sum.tensors += counts[kind] > 0 ? counts[kind] * layers[kind]->num_parameter_tensors : 0;
        for (int part = 0; part < TPP_PARAMETERS_COUNT; part++) {
            sum.elements[part] += build->chunks[g].elements[part];
            sum.gather_bytes[part] += build->chunks[g].gather_bytes[part];
        }
    }
    return sum;
}

/* Several collectives of the stage, as one event. All replicas take part: it waits for the compute of each. */
static uint32_t add_whole(struct tpp_build *build, uint32_t stage, enum tpp_track track, enum tpp_route_kind kind,
                          enum tpp_collective collective, double bytes, double seconds, const char *name)
{
    const struct tpp_graph_task like = named(name);
    const uint32_t task = tpp_build_collective(build, stage, track, kind, collective, bytes, seconds, &like);
    for (uint32_t r = 0; r < build->num_replicas; r++)
        tpp_graph_depend(build->graph, task, build->last_compute[r * build->num_stages + stage]);
    return task;
}

static void reduce_at_once(struct tpp_build *build, uint32_t stage, enum tpp_parameter_part part, double elements)
{
    const struct tpp_gradient_traffic *traffic = &build->traffic[part];
    if (!traffic->has_any || traffic->reduce_overlaps || elements <= 0)
        return;
    const double buckets = tpp_gradient_num_buckets(build->evaluator->stack, tpp_build_replicas(build, part), elements,
                                                    traffic->reduce_bucket_size);
    const double count = buckets * (traffic->reduces_each_micro_batch ? build->num_micro_batches : 1);
    const double bytes = build->evaluator->stack->reduce_bytes * elements / buckets;
    const enum tpp_route_kind kind =
        part == TPP_PARAMETERS_EXPERT ? TPP_ROUTE_EXPERT_REPLICAS : TPP_ROUTE_REPLICAS;
    const double seconds =
        count * tpp_collective_seconds(&build->evaluator->links, traffic->reduce, &build->groups[kind], bytes);
    const uint32_t task = add_whole(build, stage, TPP_TRACK_REDUCE, kind, traffic->reduce, count * bytes, seconds,
                                    "gradient reduction");
    for (uint32_t r = 0; r < build->num_replicas; r++)
        build->last_reduce[r * build->num_stages + stage] = task;
}

static uint32_t gather_at_once(struct tpp_build *build, uint32_t stage, enum tpp_parameter_part part,
                               const struct stage_parameters *parameters)
{
    const double elements = parameters->elements[part];
    const struct tpp_gradient_traffic *traffic = &build->traffic[part];
    if (!traffic->gathers || traffic->gather_overlaps || elements <= 0)
        return TPP_NO_TASK;
    const struct tpp_stack *stack = build->evaluator->stack;
    const double buckets =
        tpp_gradient_num_buckets(stack, tpp_build_replicas(build, part), elements, traffic->gather_bucket_size);
    const bool is_expert = part == TPP_PARAMETERS_EXPERT;
    const enum tpp_route_kind kind = is_expert ? TPP_ROUTE_EXPERT_SHARD : TPP_ROUTE_SHARD;
    const double seconds =
        tpp_gather_at_once_seconds(&build->evaluator->links, stack, &build->groups[kind], parameters->gather_bytes[part],
                                   buckets, is_expert ? 0 : parameters->tensors);
    return add_whole(build, stage, TPP_TRACK_GATHER, kind, TPP_ALL_GATHER, parameters->gather_bytes[part], seconds,
                     "parameter gather");
}

/* First and last stage sum the gradients of their copies of the embedding (2.1); a V-shaped schedule has both on one. */
static uint32_t reduce_tied(struct tpp_build *build)
{
    const bool is_on_one = build->num_stages <= 1 || build->chunks[build->num_chunks - 1].place.stage == 0;
    if (!build->evaluator->model->tied_embeddings || is_on_one || tpp_job_is_adapter(build->evaluator->job))
        return TPP_NO_TASK;
    const struct tpp_graph_task like = named("tied embedding");
    const uint32_t task = tpp_build_collective(
        build, 0, TPP_TRACK_REDUCE, TPP_ROUTE_TIED, TPP_ALL_REDUCE,
        build->evaluator->stack->reduce_bytes * build->assembly.head->parameters, 0, &like);
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t device = i * (build->num_stages - 1);
        tpp_graph_depend(build->graph, task, build->last_compute[device]);
        tpp_graph_depend(build->graph, task, build->last_reduce[device]);
    }
    return task;
}

/* Where all devices have to be before any goes on. */
static uint32_t add_barrier(struct tpp_build *build, const char *name, uint32_t also)
{
    struct tpp_pen pen = tpp_pen_start(build, 0, TPP_NO_TASK, TPP_NO_TASK, name);
    for (uint32_t d = 0; d < build->num_devices; d++) {
        tpp_pen_wait(&pen, build->last_compute[d]);
        tpp_pen_wait(&pen, build->last_reduce[d]);
    }
    tpp_pen_wait(&pen, also);
    return tpp_pen_flush(&pen);
}

static uint32_t add_host_task(struct tpp_build *build, uint32_t device, const char *name, double seconds, uint32_t after)
{
    struct tpp_graph_task task = named(name);
    task.kind = TPP_GRAPH_DELAY;
    task.seconds = seconds;
    task.stream = tpp_build_stream(build, device, TPP_TRACK_HOST);
    if (task.stream == TPP_NO_TASK)
        return TPP_NO_TASK;
    const uint32_t index = tpp_graph_add_task(build->graph, &task);
    tpp_graph_depend(build->graph, index, after);
    return index;
}

/* Gradients down, Adam on the host, weights up: 4 B and the weight's bytes a parameter (data_parallel.h). */
static uint32_t offload(struct tpp_build *build, uint32_t device, double shard, uint32_t after)
{
    const double weight = build->evaluator->stack->weight_bytes;
    const double link = build->evaluator->hardware->node.host_link_bytes_per_second;
    const double total = tpp_offload_seconds(build->evaluator->hardware, shard, weight);
    const struct tpp_graph_task down = named("gradients to host"), up = named("weights to device");
    const uint32_t first = tpp_build_host_copy(build, device, 4 * shard, &down);
    tpp_graph_depend(build->graph, first, after);
    const uint32_t adam =
        add_host_task(build, device, "host optimizer", fmax(0, total - (4 + weight) * shard / link), first);
    const uint32_t last = tpp_build_host_copy(build, device, weight * shard, &up);
    tpp_graph_depend(build->graph, last, adam);
    return last;
}

static void optimize(struct tpp_build *build, uint32_t device, uint32_t after)
{
    const struct stage_parameters parameters = parameters_of(build, device % build->num_stages);
    struct tpp_pen pen = tpp_pen_start(build, device, TPP_NO_TASK, TPP_NO_TASK, "optimizer");
    const struct tpp_gpu *gpu = &build->evaluator->hardware->gpu;
    const struct tpp_stack *stack = build->evaluator->stack;
    double shard = 0, seconds = 0;
    tpp_pen_wait(&pen, after);
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++) {
        const double ranks = tpp_build_replicas(build, (enum tpp_parameter_part)part)->shard_ranks;
        const double tensors = part == TPP_PARAMETERS_DENSE ? parameters.tensors : 0;
        if (parameters.elements[part] <= 0 && part != TPP_PARAMETERS_DENSE)
            continue;
        shard += parameters.elements[part] / ranks;
        seconds += tpp_optimizer_seconds(gpu, stack, build->strategy, ranks, parameters.elements[part], tensors);
    }
    tpp_pen_compute(&pen, fmax(seconds, tpp_optimizer_host_seconds(gpu, stack, build->strategy, parameters.tensors)), 0);
    const uint32_t task = tpp_pen_flush(&pen);
    if (build->strategy->offload == TPP_OFFLOAD_OPTIMIZER) {
        tpp_pen_wait(&pen, offload(build, device, tpp_strategy_offload_fraction(build->strategy) * shard, task));
        tpp_pen_flush(&pen);
    }
}

/* Everything once a step as its closed form. */
static void finish_comparable(struct tpp_build *build, const struct tpp_cost *cost)
{
    static const enum tpp_time_term terms[] = {TPP_TIME_GRADIENT_COMM, TPP_TIME_OPTIMIZER, TPP_TIME_OFFLOAD,
                                               TPP_TIME_FIXED};
    uint32_t last = build->finish.barrier;
    for (size_t i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
        last = add_host_task(build, 0, tpp_time_term_name(terms[i]), cost->time_terms[terms[i]], last);
    build->finish.optimizer = build->finish.end = last;
}

void tpp_build_finish(struct tpp_build *build, const struct tpp_cost *cost)
{
    if (build->options->mode == TPP_SIMULATION_COMPARABLE) {
        build->finish.barrier = add_barrier(build, "all stages done", TPP_NO_TASK);
        finish_comparable(build, cost);
        return;
    }
    for (uint32_t stage = 0; stage < build->num_stages; stage++) {
        const struct stage_parameters parameters = parameters_of(build, stage);
        for (int part = 0; part < TPP_PARAMETERS_COUNT; part++)
            reduce_at_once(build, stage, (enum tpp_parameter_part)part, parameters.elements[part]);
    }
    build->finish.barrier = add_barrier(build, "gradient norm", reduce_tied(build));
    for (uint32_t d = 0; d < build->num_devices; d++)
        optimize(build, d, build->finish.barrier);
    build->finish.optimizer = add_barrier(build, "optimizer done", TPP_NO_TASK);
    struct tpp_pen pen = tpp_pen_start(build, 0, TPP_NO_TASK, TPP_NO_TASK, "gathers done");
    for (uint32_t stage = 0; stage < build->num_stages; stage++) {
        const struct stage_parameters parameters = parameters_of(build, stage);
        for (int part = 0; part < TPP_PARAMETERS_COUNT; part++)
            tpp_pen_wait(&pen, gather_at_once(build, stage, (enum tpp_parameter_part)part, &parameters));
    }
    build->finish.end =
        add_host_task(build, 0, "fixed", build->evaluator->stack->fixed_seconds, tpp_pen_flush(&pen));
}
