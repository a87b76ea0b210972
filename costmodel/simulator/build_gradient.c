/* Gradients that leave in buckets while backward goes on, and parameters that arrive while forward goes on (9.1, 9.2). */
#include "costmodel/simulator/build.h"

#include <math.h>
#include <stdlib.h>

/* A bucket counts as full this much before: sums of equal shares are not exact. */
static const double full_tolerance = 1e-6;

static void remember(struct tpp_build *build, uint32_t task)
{
    if (build->num_shared == build->max_shared) {
        const uint32_t larger = build->max_shared ? 2 * build->max_shared : 256;
        uint32_t *shared = realloc(build->shared, larger * sizeof(*shared));
        if (!shared) {
            build->has_failed = true;
            return;
        }
        build->shared = shared;
        build->max_shared = larger;
    }
    build->shared[build->num_shared++] = task;
}

uint32_t tpp_build_joint(struct tpp_build *build, uint32_t device, enum tpp_track track, enum tpp_route_kind kind,
                         enum tpp_collective collective, double bytes, double seconds,
                         const struct tpp_graph_task *like, uint32_t after)
{
    uint32_t task = TPP_NO_TASK;
    if (device < build->num_stages) {
        task = tpp_build_collective(build, device, track, kind, collective, bytes, seconds, like);
        if (build->num_replicas > 1)
            remember(build, task);
    } else if (build->next_shared < build->num_shared) {
        task = build->shared[build->next_shared++];
    }
    tpp_graph_depend(build->graph, task, after);
    return task;
}

static struct tpp_graph_task named(const struct tpp_pen *pen, const char *name)
{
    return (struct tpp_graph_task){.name = name, .micro_batch = pen->micro_batch, .chunk = pen->chunk,
                                   .layer = TPP_NO_TASK};
}

static double bucket_elements(const struct tpp_build *build, enum tpp_parameter_part part, uint32_t chunk, uint64_t given)
{
    const double elements = build->chunks[chunk].elements[part];
    return elements / tpp_gradient_num_buckets(build->evaluator->stack, tpp_build_replicas(build, part), elements, given);
}

/* The gathers of a pass, of one part of the parameters. */
struct gatherer {
    struct tpp_pen *pen;
    enum tpp_parameter_part part;
    double size, left;   /* elements of a bucket, 0: nothing is gathered; what of the latest is not used yet */
    double bytes;        /* of a bucket */
    uint32_t mark;       /* task after which the next bucket may be asked for */
    uint32_t before;     /* task before the compute that is being written */
    bool is_aligned;     /* all buckets are asked for at once */
};

/* Waits for one more bucket. It was asked for when forward reached the one before: one is on its way ahead. */
static void gather_bucket(struct gatherer *gatherer, bool moves_mark)
{
    struct tpp_pen *pen = gatherer->pen;
    const bool is_expert = gatherer->part == TPP_PARAMETERS_EXPERT;
    const struct tpp_graph_task like = named(pen, is_expert ? "expert gather" : "parameter gather");
    if (!gatherer->is_aligned && moves_mark) {
        gatherer->mark = gatherer->before;
        gatherer->before = tpp_pen_flush(pen);
    }
    tpp_pen_wait(pen, tpp_build_joint(pen->build, pen->device, TPP_TRACK_GATHER,
                                      is_expert ? TPP_ROUTE_EXPERT_SHARD : TPP_ROUTE_SHARD, TPP_ALL_GATHER,
                                      gatherer->bytes, 0, &like, gatherer->mark));
    gatherer->left += gatherer->size;
}

/* All buckets that a unit needs, at its start. */
static void gather_whole(struct gatherer *gatherer, enum tpp_unit_kind kind)
{
    const double needed = gatherer->pen->build->units[kind].elements[gatherer->part];
    bool moves_mark = true;
    while (gatherer->size > 0 && needed - gatherer->left > gatherer->size * full_tolerance) {
        gather_bucket(gatherer, moves_mark);
        moves_mark = false;
    }
    gatherer->left -= needed;
}

/* Both parts of a unit that runs: cut where it comes to the next bucket of either. */
struct gatherers {
    struct gatherer parts[TPP_PARAMETERS_COUNT];
    const struct tpp_unit *unit;
};

static double until_next_bucket(void *context)
{
    struct gatherers *gatherers = context;
    double share = INFINITY;
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++) {
        struct gatherer *gatherer = &gatherers->parts[part];
        const double elements = gatherers->unit->elements[part];
        if (gatherer->size <= 0 || elements <= 0)
            continue;
        if (gatherer->left <= gatherer->size * full_tolerance)
            gather_bucket(gatherer, true);
        share = fmin(share, gatherer->left / elements);
    }
    return share;
}

static void use_up(void *context, double share)
{
    struct gatherers *gatherers = context;
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++)
        gatherers->parts[part].left -= share * gatherers->unit->elements[part];
}

/* Task after which Megatron's interleaved schedule has a chunk's parameters asked for on all stages at once
 * (--align-param-gather): the first two chunks when the step begins; each other one when its predecessor's first micro-batch comes
 * up in the order of the first stage, which on stage r is r forward passes earlier (schedules.py,
 * forward_step_helper_preprocess). Without chunks every stage asks for its first bucket when its first forward pass begins, so
 * that stage after stage is late. */
static uint32_t aligned_mark(const struct tpp_pen *pen)
{
    struct tpp_build *build = pen->build;
    const uint32_t p = build->num_stages, stage = pen->device % p, chunk = build->chunks[pen->chunk].place.position / p;
    if (build->strategy->schedule != TPP_SCHEDULE_INTERLEAVED || chunk < 2)
        return TPP_NO_TASK;
    const uint32_t wanted = tpp_strategy_group_size(build->strategy);
    const uint32_t group = wanted < build->num_micro_batches ? wanted : build->num_micro_batches;
    const uint32_t pass = (chunk - 1) * group - stage;
    return tpp_build_op(build, pen->device, pass / group * p + stage, pass % group, TPP_PASS_FORWARD)->before;
}

static struct gatherer start_gathers(struct tpp_pen *pen, enum tpp_parameter_part part)
{
    const struct tpp_build *build = pen->build;
    struct gatherer gatherer = {.pen = pen, .part = part, .mark = TPP_NO_TASK, .before = TPP_NO_TASK};
    if (!build->traffic[part].gather_overlaps || build->chunks[pen->chunk].elements[part] <= 0)
        return gatherer;
    const struct tpp_chunk *chunk = &build->chunks[pen->chunk];
    gatherer.size = bucket_elements(build, part, pen->chunk, build->traffic[part].gather_bucket_size);
    gatherer.bytes = gatherer.size * chunk->gather_bytes[part] / chunk->elements[part];
    gatherer.is_aligned = build->strategy->virtual_pipeline_stages > 1;
    gatherer.mark = gatherer.is_aligned ? aligned_mark(pen) : tpp_pen_flush(pen);
    gatherer.before = gatherer.mark;
    return gatherer;
}

void tpp_build_gathered_forward(struct tpp_pen *pen)
{
    struct gatherers gatherers = {.parts = {start_gathers(pen, TPP_PARAMETERS_DENSE),
                                            start_gathers(pen, TPP_PARAMETERS_EXPERT)}};
    const struct tpp_meter meter = {until_next_bucket, use_up, &gatherers};
    if (!pen->build->chunks[pen->chunk].passes_ends) { /* the first S asks for them, about now */
        gather_whole(&gatherers.parts[TPP_PARAMETERS_DENSE], TPP_UNIT_EMBEDDING);
        gather_whole(&gatherers.parts[TPP_PARAMETERS_DENSE], TPP_UNIT_HEAD);
    }
    for (uint32_t i = 0; i < tpp_pen_num_units(pen); i++) {
        const enum tpp_unit_kind kind = tpp_pen_unit_at(pen, TPP_PASS_FORWARD, i);
        gatherers.unit = &pen->build->units[kind];
        tpp_pen_metered_unit(pen, kind, TPP_PASS_FORWARD, &meter);
    }
}

/* Gradients of one part of the parameters on their way into buckets. */
struct filler {
    struct tpp_pen *pen;
    enum tpp_parameter_part part;
    double size, filled; /* elements of a bucket, 0: nothing is reduced */
};

/* Hands a bucket over. DeepSpeed's compute stream waits for the reduction of the one before first [S5]. */
static void send_bucket(struct filler *filler, double elements)
{
    struct tpp_pen *pen = filler->pen;
    struct tpp_build *build = pen->build;
    const struct tpp_stack *stack = build->evaluator->stack;
    const bool waits = tpp_engine_is_deepspeed(stack->engine);
    const bool is_expert = filler->part == TPP_PARAMETERS_EXPERT;
    const struct tpp_graph_task like = named(pen, is_expert ? "expert gradient bucket" : "gradient bucket");
    uint32_t after = tpp_pen_flush(pen);
    if (waits && build->last_reduce[pen->device] != TPP_NO_TASK) {
        tpp_pen_wait(pen, build->last_reduce[pen->device]);
        after = tpp_pen_flush(pen);
    }
    build->last_reduce[pen->device] =
        tpp_build_joint(build, pen->device, TPP_TRACK_REDUCE,
                        is_expert ? TPP_ROUTE_EXPERT_REPLICAS : TPP_ROUTE_REPLICAS, build->traffic[filler->part].reduce,
                        stack->reduce_bytes * elements, 0, &like, after);
    filler->filled = 0;
}

/* Gradients of a unit that has run: buckets leave at its end. */
static void fill_whole(struct filler *filler, enum tpp_unit_kind kind)
{
    double left = filler->pen->build->units[kind].elements[filler->part];
    while (filler->size > 0 && left > 0 && filler->filled + left >= filler->size * (1 - full_tolerance)) {
        left -= fmin(left, filler->size - filler->filled);
        send_bucket(filler, filler->size);
    }
    filler->filled += left;
}

/* Both parts of a unit that runs: cut where a bucket of either is full. */
struct fillers {
    struct filler parts[TPP_PARAMETERS_COUNT];
    const struct tpp_unit *unit;
};

static double until_full(void *context)
{
    const struct fillers *fillers = context;
    double share = INFINITY;
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++) {
        const struct filler *filler = &fillers->parts[part];
        if (filler->size > 0 && fillers->unit->elements[part] > 0)
            share = fmin(share, (filler->size - filler->filled) / fillers->unit->elements[part]);
    }
    return share;
}

static void fill(void *context, double share)
{
    struct fillers *fillers = context;
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++) {
        struct filler *filler = &fillers->parts[part];
        filler->filled += share * fillers->unit->elements[part];
        if (filler->size > 0 && filler->filled >= filler->size * (1 - full_tolerance))
            send_bucket(filler, filler->size);
    }
}

static struct filler start_buckets(struct tpp_pen *pen, enum tpp_parameter_part part)
{
    const struct tpp_build *build = pen->build;
    struct filler filler = {.pen = pen, .part = part};
    if (build->traffic[part].reduce_overlaps && build->chunks[pen->chunk].elements[part] > 0)
        filler.size = bucket_elements(build, part, pen->chunk, build->traffic[part].reduce_bucket_size);
    return filler;
}

void tpp_build_start_reductions(struct tpp_build *build, uint32_t device, uint32_t chunk)
{
    struct tpp_pen pen = tpp_pen_start(build, device, chunk, TPP_NO_TASK, NULL);
    pen.first = pen.last = build->last_compute[device]; /* nothing to write before the buckets leave */
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++) {
        struct filler filler = start_buckets(&pen, (enum tpp_parameter_part)part);
        for (double left = build->chunks[chunk].elements[part]; filler.size > 0 && left > filler.size * full_tolerance;
             left -= filler.size)
            send_bucket(&filler, filler.size);
    }
}

void tpp_build_bucketed_pass(struct tpp_pen *pen, enum tpp_simulated_pass pass)
{
    struct fillers fillers = {.parts = {start_buckets(pen, TPP_PARAMETERS_DENSE), start_buckets(pen, TPP_PARAMETERS_EXPERT)}};
    struct filler *dense = &fillers.parts[TPP_PARAMETERS_DENSE];
    const struct tpp_meter meter = {until_full, fill, &fillers};
    if (!pen->build->chunks[pen->chunk].passes_ends) { /* complete since the last T, which comes before the last B */
        fill_whole(dense, TPP_UNIT_HEAD);
        fill_whole(dense, TPP_UNIT_EMBEDDING);
    }
    for (uint32_t i = 0; i < tpp_pen_num_units(pen); i++) {
        const enum tpp_unit_kind kind = tpp_pen_unit_at(pen, pass, i);
        fillers.unit = &pen->build->units[kind];
        if (tpp_unit_is_layer(kind)) {
            tpp_pen_metered_unit(pen, kind, pass, &meter);
        } else { /* one tensor each, whose gradient is there at its end */
            tpp_pen_unit(pen, kind, pass);
            fill_whole(dense, kind);
        }
    }
    for (int part = 0; part < TPP_PARAMETERS_COUNT; part++)
        if (fillers.parts[part].size > 0 && fillers.parts[part].filled > fillers.parts[part].size * full_tolerance)
            send_bucket(&fillers.parts[part], fillers.parts[part].filled);
}
