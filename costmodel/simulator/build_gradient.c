/* Gradients that leave in buckets while backward goes on, and parameters that arrive while forward goes on (9.1, 9.2). */
#include "costmodel/simulator/build.h"

#include <math.h>
#include <stdlib.h>

/* A bucket counts as full this much before: sums of equal shares are not exact. */
static const double full_tolerance = 1e-9;

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

/* The gathers of a pass. */
struct gatherer {
    struct tpp_pen *pen;
    double size, left;   /* elements of a bucket; what of the latest is not used yet */
    uint32_t mark;       /* task after which the next bucket may be asked for */
    uint32_t before;     /* task before the compute that is being written */
    bool is_aligned;     /* all buckets are asked for at once */
};

/* Waits for one more bucket. It was asked for when forward reached the one before: one is on its way ahead. */
static void gather_bucket(struct gatherer *gatherer)
{
    struct tpp_pen *pen = gatherer->pen;
    const struct tpp_graph_task like = named(pen, "parameter gather");
    tpp_pen_wait(pen, tpp_build_joint(pen->build, pen->device, TPP_TRACK_GATHER, TPP_ROUTE_SHARD, TPP_ALL_GATHER,
                                      pen->build->evaluator->stack->weight_bytes * gatherer->size, 0, &like,
                                      gatherer->mark));
    gatherer->left += gatherer->size;
}

/* One unit, cut where it comes to the next bucket; in detail a unit is whole, and needs all its buckets at its start. */
static void use_buckets(struct gatherer *gatherer, enum tpp_unit_kind kind)
{
    struct tpp_pen *pen = gatherer->pen;
    const double elements = pen->build->units[kind].elements, slack = gatherer->size * full_tolerance;
    const bool is_whole = elements <= 0 || (pen->in_detail && kind == TPP_UNIT_LAYER);
    double needed = elements;
    bool is_marked = false;
    while (needed > slack) {
        if (gatherer->left <= slack) {
            if (!gatherer->is_aligned && (!is_whole || !is_marked)) {
                gatherer->mark = gatherer->before;
                gatherer->before = tpp_pen_flush(pen);
                is_marked = true;
            }
            gather_bucket(gatherer);
        }
        const double taken = fmin(needed, gatherer->left);
        pen->scale = taken / elements;
        if (!is_whole)
            tpp_pen_unit(pen, kind, TPP_PASS_FORWARD);
        needed -= taken;
        gatherer->left -= taken;
    }
    pen->scale = 1;
    if (is_whole)
        tpp_pen_unit(pen, kind, TPP_PASS_FORWARD);
}

void tpp_build_gathered_forward(struct tpp_pen *pen)
{
    struct tpp_build *build = pen->build;
    const double elements = build->chunks[pen->chunk].elements;
    const double count = tpp_gradient_num_buckets(build->evaluator->stack, &build->assembly.replicas, elements,
                                                  build->traffic.gather_bucket_size);
    /* Megatron's interleaved schedule has all stages ask for everything when the step begins (--align-param-gather); without
     * it the first bucket is asked for when the stage's first forward pass begins, so that stage after stage is late. */
    const bool is_aligned = build->strategy->virtual_pipeline_stages > 1;
    const uint32_t start = is_aligned ? TPP_NO_TASK : tpp_pen_flush(pen);
    struct gatherer gatherer = {.pen = pen, .size = elements / count, .mark = start, .before = start,
                                .is_aligned = is_aligned};
    for (uint32_t i = 0; i < tpp_pen_num_units(pen); i++)
        use_buckets(&gatherer, tpp_pen_unit_at(pen, TPP_PASS_FORWARD, i));
}

/* Hands a bucket over. DeepSpeed's compute stream waits for the reduction of the one before first [S5]. */
static void send_bucket(struct tpp_pen *pen, double elements)
{
    struct tpp_build *build = pen->build;
    const struct tpp_stack *stack = build->evaluator->stack;
    const bool waits = stack->engine == TPP_ENGINE_DEEPSPEED || stack->engine == TPP_ENGINE_DEEPSPEED_PIPELINE;
    const struct tpp_graph_task like = named(pen, "gradient bucket");
    uint32_t after = tpp_pen_flush(pen);
    if (waits && build->last_reduce[pen->device] != TPP_NO_TASK) {
        tpp_pen_wait(pen, build->last_reduce[pen->device]);
        after = tpp_pen_flush(pen);
    }
    build->last_reduce[pen->device] =
        tpp_build_joint(build, pen->device, TPP_TRACK_REDUCE, TPP_ROUTE_REPLICAS, build->traffic.reduce,
                        stack->reduce_bytes * elements, 0, &like, after);
}

/* One unit, cut where a bucket is full; in detail a unit is whole, and its buckets leave at its end. */
static double fill_buckets(struct tpp_pen *pen, enum tpp_simulated_pass pass, enum tpp_unit_kind kind, double size,
                           double filled)
{
    const double elements = pen->build->units[kind].elements;
    double left = elements;
    const bool is_whole = elements <= 0 || (pen->in_detail && kind == TPP_UNIT_LAYER);
    if (is_whole)
        tpp_pen_unit(pen, kind, pass);
    while (left > 0 && filled + left >= size * (1 - full_tolerance)) {
        const double taken = fmin(left, size - filled);
        pen->scale = taken / elements;
        if (!is_whole)
            tpp_pen_unit(pen, kind, pass);
        send_bucket(pen, size);
        left -= taken;
        filled = 0;
    }
    pen->scale = elements > 0 ? left / elements : 1;
    if (!is_whole && left > 0)
        tpp_pen_unit(pen, kind, pass);
    pen->scale = 1;
    return filled + left;
}

void tpp_build_bucketed_pass(struct tpp_pen *pen, enum tpp_simulated_pass pass)
{
    struct tpp_build *build = pen->build;
    const double elements = build->chunks[pen->chunk].elements;
    const double count = tpp_gradient_num_buckets(build->evaluator->stack, &build->assembly.replicas, elements,
                                                  build->traffic.reduce_bucket_size);
    const double size = elements / count;
    double filled = 0;
    for (uint32_t i = 0; i < tpp_pen_num_units(pen); i++)
        filled = fill_buckets(pen, pass, tpp_pen_unit_at(pen, pass, i), size, filled);
    if (filled > size * full_tolerance)
        send_bucket(pen, filled);
}
