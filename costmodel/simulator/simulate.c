#include "costmodel/simulator/simulate.h"

#include "costmodel/schedules/schedule.h"
#include "costmodel/sequence_lengths.h"
#include "costmodel/simulator/simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPLICAS = 8 };
/* 1.5 GB of them. A unit operation by operation has some ten transfers a pass. */
static const uint64_t max_tasks = 10000000;
static const double tasks_per_unit_in_detail = 24, tasks_per_sharded_unit = 3;
static const double tasks_per_pass_with_vocabulary = 5;

struct tpp_simulation_options tpp_simulation_options_defaults(void)
{
    return (struct tpp_simulation_options){
        .mode = TPP_SIMULATION_EVENTS, .detail = TPP_DETAIL_AUTO, .num_replicas = 1,
        .max_tasks = max_tasks,
        .slow_gpu = {.stage = TPP_EVERY_STAGE, .slowdown = 1}, .slow_nic = {.stage = TPP_EVERY_STAGE, .slowdown = 1},
    };
}

static enum tpp_code check_straggler(const struct tpp_straggler *straggler, uint32_t num_stages, const char *where,
                                     struct tpp_error *err)
{
    if (straggler->stage != TPP_EVERY_STAGE && straggler->stage >= num_stages)
        return tpp_fail(err, TPP_E_RANGE, where, "name one of the strategy's stages, from 0 on",
                        "there is no stage %u among %u", straggler->stage, num_stages);
    if (!(straggler->slowdown >= 1 && straggler->slowdown <= 1000))
        return tpp_fail(err, TPP_E_RANGE, where, "give a number from 1 (as fast as the others) to 1000",
                        "a straggler cannot be %g times as slow", straggler->slowdown);
    return TPP_OK;
}

static enum tpp_code check_options(const struct tpp_simulation_options *options, const struct tpp_strategy *strategy,
                                   struct tpp_error *err)
{
    const uint32_t num_stages = strategy->pipeline_parallel;
    if (options->num_micro_batches > strategy->num_micro_batches)
        return tpp_fail(err, TPP_E_RANGE, "simulation.num_micro_batches", "give no more than the strategy has",
                        "%u micro-batches are more than the step has", options->num_micro_batches);
    if (options->max_tasks < 1 || options->max_tasks > max_tasks)
        return tpp_fail(err, TPP_E_RANGE, "simulation.max_tasks", "give 1 to 10000000",
                        "%llu tasks are out of range", (unsigned long long)options->max_tasks);
    if (options->num_replicas < 1 || options->num_replicas > MAX_REPLICAS)
        return tpp_fail(err, TPP_E_RANGE, "simulation.num_replicas", "give 1 to 8",
                        "%u pipelines cannot be simulated side by side", options->num_replicas);
    if (!(options->jitter_fraction >= 0 && options->jitter_fraction <= 1))
        return tpp_fail(err, TPP_E_RANGE, "simulation.jitter_fraction", "give a fraction from 0 to 1",
                        "a jitter of %g is not a fraction", options->jitter_fraction);
    const enum tpp_code code = check_straggler(&options->slow_gpu, num_stages, "simulation.slow_gpu", err);
    return code == TPP_OK ? check_straggler(&options->slow_nic, num_stages, "simulation.slow_nic", err) : code;
}

/* Sizes and per-device tables. */
static enum tpp_code start_build(struct tpp_build *build, struct tpp_error *err)
{
    const struct tpp_order_shape shape = tpp_order_shape(build->strategy);
    build->num_stages = build->strategy->pipeline_parallel;
    build->num_replicas = build->options->num_replicas;
    build->num_devices = build->num_stages * build->num_replicas;
    build->num_chunks = shape.num_chunks;
    build->splits_backward = shape.splits_backward;
    build->num_micro_batches = build->options->num_micro_batches > 0 ? build->options->num_micro_batches
                                                                     : (uint32_t)build->strategy->num_micro_batches;
    build->random = build->options->seed;
    build->is_sharded = build->assembly.is_sharded;
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++)
        build->traffic[part] = tpp_gradient_traffic_of(build->evaluator->stack, build->strategy,
                                                       tpp_build_replicas(build, (enum tpp_parameter_part)part));
    const size_t row = sizeof(uint32_t);
    build->streams = tpp_arena_alloc_array(build->arena, build->num_devices, sizeof(*build->streams));
    build->last_compute = tpp_arena_alloc_array(build->arena, build->num_devices, row);
    build->last_reduce = tpp_arena_alloc_array(build->arena, build->num_devices, row);
    build->before_head = tpp_arena_alloc_array(build->arena, build->num_devices, row);
    if (!build->streams || !build->last_compute || !build->last_reduce || !build->before_head)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    for (uint32_t d = 0; d < build->num_devices; d++) {
        build->last_compute[d] = build->last_reduce[d] = build->before_head[d] = TPP_NO_TASK;
        for (int track = 0; track < TPP_TRACK_COUNT; track++)
            build->streams[d][track] = TPP_NO_TASK;
    }
    return TPP_OK;
}

/* The links as the graph sees them: the straggler's ports are slower than the routes were made for. */
static enum tpp_code make_graph(struct tpp_build *build, struct tpp_error *err)
{
    const struct tpp_straggler *slow = &build->options->slow_nic;
    struct tpp_resource *links = malloc((build->num_resources + 1) * sizeof(*links));
    if (!links)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    for (uint32_t i = 0; i < build->num_resources; i++) {
        links[i] = build->resources[i];
        const bool is_nic = links[i].kind == TPP_RESOURCE_NIC_OUT || links[i].kind == TPP_RESOURCE_NIC_IN;
        if (is_nic && links[i].owner < build->num_stages &&
            (slow->stage == TPP_EVERY_STAGE || slow->stage == links[i].owner))
            links[i].bytes_per_second /= slow->slowdown;
    }
    const struct tpp_graph_setup setup = {
        .num_devices = build->num_devices, .resources = links, .num_resources = build->num_resources,
        .num_domains = build->num_domains, .records_links = build->options->records_links,
        .overlap_slowdown_fraction = build->evaluator->hardware->overlap_slowdown_fraction,
    };
    const enum tpp_code code = tpp_graph_new(&setup, &build->graph, err);
    free(links);
    return code;
}

/* A transfer and the compute up to it, which may be cut by operations too. */
static const double tasks_per_bucket = 3;

/* Buckets of the whole model that leave and that arrive in a step. */
static void count_buckets(const struct tpp_build *build, uint64_t micro_batches, double *reduced, double *gathered)
{
    const struct tpp_model *model = build->evaluator->model;
    const bool is_deepspeed = tpp_engine_is_deepspeed(build->evaluator->stack->engine);
    *reduced = *gathered = 0;
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++) {
        const struct tpp_gradient_traffic *traffic = &build->traffic[part];
        const struct tpp_replicas *replicas = tpp_build_replicas(build, (enum tpp_parameter_part)part);
        const double layer = fmax(build->units[TPP_UNIT_LAYER].elements[part], build->units[TPP_UNIT_MOE].elements[part]);
        const double elements = build->num_replicas * layer * model->num_layers;
        if (traffic->reduce_overlaps)
            *reduced += elements / tpp_gradient_bucket_size(build->evaluator->stack, replicas, traffic->reduce_bucket_size) *
                        (traffic->reduces_each_micro_batch ? (double)micro_batches : 1);
        else if (build->is_sharded && is_deepspeed)
            *reduced += elements / tpp_deepspeed_bucket_size(build->strategy->reduce_bucket_size) * (double)micro_batches;
        if (traffic->gather_overlaps)
            *gathered += elements / tpp_gradient_bucket_size(build->evaluator->stack, replicas, traffic->gather_bucket_size);
    }
}

static enum tpp_code check_buckets(const struct tpp_build *build, uint64_t micro_batches, struct tpp_error *err)
{
    double reduced, gathered;
    count_buckets(build, micro_batches, &reduced, &gathered);
    if (tasks_per_bucket * fmax(reduced, gathered) > (double)build->options->max_tasks)
        return tpp_fail(err, TPP_E_RANGE,
                        reduced >= gathered ? "strategy.reduce_bucket_size" : "strategy.allgather_bucket_size",
                        "give a larger size, or leave it out", "%.3g buckets are too many to simulate",
                        fmax(reduced, gathered));
    return TPP_OK;
}

static enum tpp_code check_size(const struct tpp_build *build, struct tpp_error *err)
{
    const uint64_t micro_batches =
        build->options->num_micro_batches > 0 ? build->num_micro_batches : build->strategy->num_micro_batches;
    const bool has_vocabulary = build->strategy->vocabulary_parallel != TPP_VOCABULARY_PARALLEL_NONE;
    const double passes = 2.0 * build->num_replicas * build->num_chunks * (double)micro_batches;
    const double units = build->evaluator->model->num_layers / (double)build->num_chunks + 1;
    const double tasks = build->is_always_in_detail ? tasks_per_unit_in_detail * units
                         : build->is_sharded        ? tasks_per_sharded_unit * units
                         : has_vocabulary           ? tasks_per_pass_with_vocabulary
                                                    : 2;
    if (passes * tasks > (double)build->options->max_tasks)
        return tpp_fail(err, TPP_E_RANGE, "strategy.num_micro_batches", "simulate a smaller global batch: steps repeat",
                        "%llu micro-batches are too many to simulate",
                        (unsigned long long)micro_batches);
    return check_buckets(build, micro_batches, err);
}

static enum tpp_code build_all(struct tpp_build *build, const struct tpp_cost *cost, struct tpp_error *err)
{
    enum tpp_code code = start_build(build, err);
    if (code == TPP_OK)
        code = tpp_build_links(build, err);
    if (code == TPP_OK)
        code = make_graph(build, err);
    if (code == TPP_OK)
        code = tpp_build_units(build, err);
    if (code == TPP_OK)
        code = check_size(build, err);
    if (code == TPP_OK)
        code = tpp_build_pipeline(build, err);
    if (code != TPP_OK)
        return code;
    tpp_build_finish(build, cost);
    return build->has_failed ? tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation") : TPP_OK;
}

enum tpp_code tpp_simulation_new(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 const struct tpp_simulation_options *options, struct tpp_simulation **out,
                                 struct tpp_error *err)
{
    *out = NULL;
    struct tpp_cost cost;
    enum tpp_code code = tpp_evaluator_cost(evaluator, strategy, &cost, err);
    if (code == TPP_OK)
        code = check_options(options, strategy, err);
    if (code != TPP_OK)
        return code;
    struct tpp_simulation *simulation = calloc(1, sizeof(*simulation));
    if (!simulation)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    simulation->strategy = *strategy;
    simulation->options = *options;
    struct tpp_build *build = &simulation->build;
    build->evaluator = evaluator;
    build->strategy = &simulation->strategy;
    build->options = &simulation->options;
    build->arena = tpp_arena_new();
    code = build->arena ? tpp_assemble(evaluator, strategy, &build->assembly, err)
                        : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    if (code == TPP_OK)
        code = build_all(build, &cost, err);
    free(build->shared);
    build->shared = NULL;
    tpp_order_free(build->order);
    build->order = NULL;
    if (code == TPP_OK)
        *out = simulation;
    else
        tpp_simulation_free(simulation);
    return code;
}

void tpp_simulation_free(struct tpp_simulation *simulation)
{
    if (!simulation)
        return;
    tpp_graph_free(simulation->build.graph);
    tpp_arena_free(simulation->build.arena);
    free(simulation->ops);
    free(simulation);
}

enum tpp_code tpp_simulation_run(struct tpp_simulation *simulation, uint64_t max_events, bool *done,
                                 struct tpp_error *err)
{
    *done = simulation->has_result;
    if (*done)
        return TPP_OK;
    enum tpp_code code = tpp_graph_run(simulation->build.graph, max_events, done, err);
    if (code == TPP_OK && *done)
        code = tpp_simulation_collect(simulation, err);
    simulation->has_result = code == TPP_OK && *done;
    return code;
}

const struct tpp_simulation_result *tpp_simulation_result(const struct tpp_simulation *simulation)
{
    return simulation->has_result ? &simulation->result : NULL;
}

enum tpp_code tpp_simulation_step_seconds(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                          const struct tpp_simulation_options *options, double *step_seconds,
                                          struct tpp_error *err)
{
    struct tpp_simulation *simulation = NULL;
    bool done = false;
    enum tpp_code code = tpp_simulation_new(evaluator, strategy, options, &simulation, err);
    if (code == TPP_OK)
        code = tpp_simulation_run(simulation, UINT64_MAX, &done, err);
    if (code == TPP_OK)
        *step_seconds = tpp_simulation_result(simulation)->step_seconds;
    tpp_simulation_free(simulation);
    return code;
}

enum tpp_code tpp_simulation_periodic_step_seconds(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                                   const struct tpp_simulation_options *options, double *step_seconds,
                                                   struct tpp_error *err)
{
    /* Fill and drain hold up to 2p - 1 micro-batches; DualPipe's directions take turns, hence twice the period. */
    const struct tpp_schedule_info *info = tpp_schedule_info(strategy->schedule);
    const bool has_two_chunks = info->placement != TPP_PLACEMENT_LOOP;
    const uint64_t period = (has_two_chunks ? 2 : 1) * (uint64_t)strategy->pipeline_parallel;
    const uint64_t m = strategy->num_micro_batches, shorter = 3 * period + m % period, longer = shorter + period;
    struct tpp_simulation_options part = *options;
    double seconds[2];
    const bool waits = strategy->schedule == TPP_SCHEDULE_INTERLEAVED && !evaluator->stack->overlap_p2p;
    const bool has_groups = strategy->microbatch_group_size > 0; /* their size and p need not share a period */
    const bool is_uneven = tpp_job_pads(evaluator->job) && strategy->pipeline_parallel > 1;
    const bool repeats = !info->is_searched && !is_uneven && !waits && !has_groups &&
                         (strategy->zero_stage < 3 || strategy->pipeline_parallel == 1);
    if (m <= shorter + longer || !repeats || options->num_micro_batches > 0)
        return tpp_simulation_step_seconds(evaluator, strategy, options, step_seconds, err);
    for (int i = 0; i < 2; i++) {
        part.num_micro_batches = (uint32_t)(i == 0 ? shorter : longer);
        const enum tpp_code code = tpp_simulation_step_seconds(evaluator, strategy, &part, &seconds[i], err);
        if (code != TPP_OK)
            return code;
    }
    *step_seconds = seconds[1] + (double)(m - longer) / (double)period * (seconds[1] - seconds[0]);
    return TPP_OK;
}
