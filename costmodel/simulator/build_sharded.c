/* ZeRO-3 and FSDP: every layer's weights are gathered before it runs and its gradients reduced behind it (9.2). */
#include "costmodel/simulator/build.h"

#include <math.h>

/* DeepSpeed's stage3_prefetch_bucket_size, elements [S5]: how far ahead it gathers, one layer at least. */
static const double deepspeed_prefetch_elements = 5e7;
/* FSDP and DeepSpeed gather no more layers ahead than this, whatever their size. */
static const uint32_t max_prefetch_layers = 8;
/* Reductions that DeepSpeed lets run before the host waits for the oldest [S5]. */
enum { DEEPSPEED_OUTSTANDING = 2, MAX_HISTORY = 16 };

/* Ends of the latest units, and the latest reductions; index 0 is the newest. */
struct history {
    uint32_t tasks[MAX_HISTORY];
};

static void history_fill(struct history *history, uint32_t task)
{
    for (int i = 0; i < MAX_HISTORY; i++)
        history->tasks[i] = task;
}

static void history_add(struct history *history, uint32_t task)
{
    for (int i = MAX_HISTORY - 1; i > 0; i--)
        history->tasks[i] = history->tasks[i - 1];
    history->tasks[0] = task;
}

static bool is_deepspeed(const struct tpp_build *build)
{
    return build->evaluator->stack->engine == TPP_ENGINE_DEEPSPEED;
}

static bool is_synchronous(const struct tpp_build *build)
{
    return build->evaluator->stack->synchronous_gather || build->evaluator->stack->launch_blocking;
}

/* All trainable parameters of a unit; experts are sharded like the rest here. */
static double unit_elements(const struct tpp_build *build, enum tpp_unit_kind kind)
{
    return build->units[kind].elements[TPP_PARAMETERS_DENSE] + build->units[kind].elements[TPP_PARAMETERS_EXPERT];
}

static uint32_t prefetch_layers(const struct tpp_build *build, enum tpp_unit_kind kind)
{
    if (is_synchronous(build))
        return 0;
    if (!is_deepspeed(build))
        return 1;
    const double layers = floor(deepspeed_prefetch_elements / fmax(1, unit_elements(build, kind)));
    return (uint32_t)fmin(max_prefetch_layers, fmax(1, layers));
}

static struct tpp_graph_task named(const struct tpp_pen *pen, const char *name)
{
    return (struct tpp_graph_task){.name = name, .micro_batch = pen->micro_batch, .chunk = pen->chunk,
                                   .layer = pen->layer};
}

/* `seconds`: 0 = what the collective takes. */
static uint32_t gather(struct tpp_pen *pen, const char *name, double bytes, double seconds, uint32_t after)
{
    const struct tpp_graph_task like = named(pen, name);
    return tpp_build_joint(pen->build, pen->device, TPP_TRACK_GATHER, TPP_ROUTE_SHARD, TPP_ALL_GATHER, bytes, seconds,
                           &like, after);
}

/* The gather of a layer that starts when compute reaches the layer `prefetch` before it. */
static uint32_t gather_layer(struct tpp_pen *pen, enum tpp_unit_kind kind, const struct history *ends)
{
    struct tpp_build *build = pen->build;
    const double seconds = build->evaluator->stack->synchronous_gather ? build->assembly.sharded.gather_seconds[0] : 0;
    return gather(pen, "layer gather", build->units[kind].gathered_bytes, seconds,
                  ends->tasks[prefetch_layers(build, kind)]);
}

static double gather_copy_seconds(const struct tpp_build *build, enum tpp_unit_kind kind)
{
    return tpp_gather_copy_seconds(&build->evaluator->hardware->gpu, build->evaluator->stack, &build->assembly.replicas,
                                   build->units[kind].gathered_bytes);
}

static double gradient_copy_seconds(const struct tpp_build *build, enum tpp_unit_kind kind)
{
    return tpp_gradient_copy_seconds(&build->evaluator->hardware->gpu, build->evaluator->stack, &build->assembly.replicas,
                                     unit_elements(build, kind));
}

void tpp_build_sharded_forward(struct tpp_pen *pen)
{
    struct tpp_build *build = pen->build;
    const struct tpp_chunk *chunk = &build->chunks[pen->chunk];
    const uint32_t before = build->last_compute[pen->device];
    struct history ends;
    history_fill(&ends, before);
    const double root = (chunk->has_embedding ? build->units[TPP_UNIT_EMBEDDING].gathered_bytes : 0) +
                        (chunk->has_head ? build->units[TPP_UNIT_HEAD].gathered_bytes : 0);
    if (root > 0)
        tpp_pen_wait(pen, gather(pen, "root gather", root, 0, before));
    uint32_t layer = 0;
    for (uint32_t i = 0; i < tpp_pen_num_units(pen); i++) {
        const enum tpp_unit_kind kind = tpp_pen_unit_at(pen, TPP_PASS_FORWARD, i);
        if (!tpp_unit_is_layer(kind)) {
            tpp_pen_unit(pen, kind, TPP_PASS_FORWARD);
            continue;
        }
        pen->layer = layer++;
        tpp_pen_wait(pen, gather_layer(pen, kind, &ends));
        tpp_pen_unit(pen, kind, TPP_PASS_FORWARD);
        tpp_pen_compute(pen, gather_copy_seconds(build, kind), 0);
        history_add(&ends, tpp_pen_flush(pen));
        build->before_head[pen->device] = pen->last;
    }
    pen->layer = TPP_NO_TASK;
}

struct reducer {
    struct tpp_pen *pen;
    struct history reductions;
    double filled;             /* elements of the bucket, DeepSpeed; of the unit that is not whole yet, FSDP1 */
};

/* Reduce-scatter inside the shard group, then all-reduce of the shard between its replicas (HSDP). */
static void reduce(struct reducer *reducer, double elements)
{
    struct tpp_pen *pen = reducer->pen;
    struct tpp_build *build = pen->build;
    const struct tpp_replicas *replicas = &build->assembly.replicas;
    const double bytes = build->evaluator->stack->reduce_bytes * elements;
    const struct tpp_graph_task like = named(pen, "gradient reduction"), across = named(pen, "shard all-reduce");
    uint32_t task = tpp_build_joint(build, pen->device, TPP_TRACK_REDUCE, TPP_ROUTE_SHARD, TPP_REDUCE_SCATTER, bytes, 0,
                                    &like, tpp_pen_flush(pen));
    if (replicas->replicate.size > 1)
        task = tpp_build_joint(build, pen->device, TPP_TRACK_REDUCE, TPP_ROUTE_REPLICATE, TPP_ALL_REDUCE,
                               bytes / replicas->shard.size, 0, &across, task);
    history_add(&reducer->reductions, task);
    build->last_reduce[pen->device] = task;
}

/* FSDP1 has one flat parameter for all that no layer holds: head and embedding leave together. */
static bool is_part_of_root(const struct reducer *reducer, enum tpp_unit_kind kind)
{
    const struct tpp_build *build = reducer->pen->build;
    return kind == TPP_UNIT_HEAD && build->evaluator->stack->engine == TPP_ENGINE_FSDP1 &&
           build->chunks[reducer->pen->chunk].has_embedding;
}

/* After backward of a unit. DeepSpeed collects a bucket, and its host blocks while more than two reductions are outstanding.
 * FSDP has one input buffer: the unit after the next copies into it when the reduction is over; with a single hardware
 * queue even the next unit waits. */
static void reduce_unit(struct reducer *reducer, enum tpp_unit_kind kind)
{
    struct tpp_build *build = reducer->pen->build;
    const double elements = unit_elements(build, kind);
    const double bucket = tpp_deepspeed_bucket_size(build->strategy->reduce_bucket_size);
    if (elements <= 0)
        return;
    if (is_part_of_root(reducer, kind)) { /* the embedding brings the rest */
        reducer->filled = elements;
        return;
    }
    if (!is_deepspeed(build)) {
        const bool at_once = is_synchronous(build) || build->options->has_single_connection;
        const uint32_t before = reducer->reductions.tasks[0];
        reduce(reducer, elements + reducer->filled * (kind == TPP_UNIT_EMBEDDING));
        reducer->filled *= kind != TPP_UNIT_EMBEDDING;
        tpp_pen_wait(reducer->pen, at_once ? reducer->reductions.tasks[0] : before);
        return;
    }
    reducer->filled += elements;
    while (reducer->filled >= bucket || (is_synchronous(build) && reducer->filled > 0)) {
        reduce(reducer, fmin(bucket, reducer->filled));
        reducer->filled -= fmin(bucket, reducer->filled);
        tpp_pen_wait(reducer->pen, reducer->reductions.tasks[is_synchronous(build) ? 0 : DEEPSPEED_OUTSTANDING]);
    }
}

void tpp_build_sharded_backward(struct tpp_pen *pen, enum tpp_simulated_pass pass)
{
    struct tpp_build *build = pen->build;
    const bool gathers = pass == TPP_PASS_BACKWARD && build->strategy->reshard_after_forward;
    const bool reduces = pass == TPP_PASS_WEIGHT || !build->splits_backward;
    struct reducer reducer = {.pen = pen};
    struct history ends;
    history_fill(&reducer.reductions, TPP_NO_TASK);
    history_fill(&ends, build->last_compute[pen->device]);
    /* The last layer's weights come back while the head runs. */
    uint32_t first = build->chunks[pen->chunk].has_head && !is_synchronous(build) ? build->before_head[pen->device]
                                                                                   : TPP_NO_TASK;
    uint32_t layer = build->chunks[pen->chunk].num_layers;
    for (uint32_t i = 0; i < tpp_pen_num_units(pen); i++) {
        const enum tpp_unit_kind kind = tpp_pen_unit_at(pen, pass, i);
        pen->layer = tpp_unit_is_layer(kind) ? --layer : TPP_NO_TASK;
        if (tpp_unit_is_layer(kind) && gathers) {
            struct history early = ends;
            if (first != TPP_NO_TASK)
                history_fill(&early, first);
            first = TPP_NO_TASK;
            tpp_pen_wait(pen, gather_layer(pen, kind, &early));
        }
        tpp_pen_unit(pen, kind, pass);
        if (tpp_unit_is_layer(kind) && pass == TPP_PASS_BACKWARD)
            tpp_pen_compute(pen, (gathers ? gather_copy_seconds(build, kind) : 0) + gradient_copy_seconds(build, kind), 0);
        history_add(&ends, tpp_pen_flush(pen));
        if (reduces)
            reduce_unit(&reducer, kind);
    }
    if (reducer.filled > 0)
        reduce(&reducer, reducer.filled);
    pen->layer = TPP_NO_TASK;
}
