#include "costmodel/simulator/build.h"

#include <math.h>

const struct tpp_replicas *tpp_build_replicas(const struct tpp_build *build, enum tpp_parameter_part part)
{
    return part == TPP_PARAMETERS_EXPERT ? &build->assembly.expert_replicas : &build->assembly.replicas;
}

uint32_t tpp_build_stream(struct tpp_build *build, uint32_t device, enum tpp_track track)
{
    uint32_t *stream = &build->streams[device][track];
    if (*stream == TPP_NO_TASK)
        *stream = tpp_graph_add_stream(build->graph, device, track);
    return *stream;
}

struct tpp_op_tasks *tpp_build_op(struct tpp_build *build, uint32_t device, uint32_t chunk, uint32_t micro_batch,
                                  enum tpp_simulated_pass pass)
{
    const uint32_t replica = device / build->num_stages; /* a chunk is on one stage only */
    const size_t place = (size_t)replica * build->num_chunks + chunk;
    return &build->ops[(place * build->num_micro_batches + micro_batch) * TPP_PASS_COUNT + pass];
}

uint32_t tpp_build_transfer(struct tpp_build *build, uint32_t device, enum tpp_track track,
                            const struct tpp_build_route *route, double seconds, double latency_seconds, double bytes,
                            const struct tpp_graph_task *like)
{
    const uint32_t stream = tpp_build_stream(build, device, track);
    if (stream == TPP_NO_TASK || route->route == TPP_NO_TASK)
        return TPP_NO_TASK;
    /* Never so much latency that the rest could not move the bytes: alone, a transfer takes what its formula says. */
    const double latency = fmax(0, fmin(latency_seconds, seconds - bytes * route->seconds_per_byte));
    const bool has_bytes = bytes > 0 && seconds > latency;
    struct tpp_graph_task task = *like;
    task.kind = TPP_GRAPH_TRANSFER;
    task.stream = stream;
    task.route = route->route;
    task.seconds = has_bytes ? latency : seconds;
    task.bytes = has_bytes ? bytes : 0;
    task.max_bytes_per_second = has_bytes ? bytes / (seconds - latency) : 1;
    return tpp_graph_add_task(build->graph, &task);
}

/* splitmix64, then Box-Muller: a normal number with mean 0 and variance 1. */
static double next_uniform(struct tpp_build *build)
{
    uint64_t z = (build->random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1.0p-53;
}

/* More ranks of a group than this do not move the expected slowest one by much, and cost draws. */
static const uint32_t max_jitter_ranks = 64;

/* How much longer the slowest of the t c ranks takes than the mean one: they wait for each other inside every layer. */
static double jitter_factor(struct tpp_build *build)
{
    const double sigma = build->options->jitter_fraction;
    if (sigma <= 0)
        return 1;
    const uint64_t ranks = (uint64_t)build->strategy->tensor_parallel * build->strategy->context_parallel;
    double slowest = -INFINITY;
    for (uint64_t i = 0; i < ranks && i < max_jitter_ranks; i++) {
        const double radius = sqrt(-2 * log(next_uniform(build)));
        slowest = fmax(slowest, radius * cos(2 * 3.14159265358979323846 * next_uniform(build)));
    }
    return fmax(0.1, 1 + sigma * slowest);
}

static double gpu_factor(const struct tpp_build *build, uint32_t device)
{
    const struct tpp_straggler *slow = &build->options->slow_gpu;
    const bool is_slow = device < build->num_stages && (slow->stage == TPP_EVERY_STAGE || slow->stage == device);
    return is_slow ? slow->slowdown : 1;
}

static double length_of(const struct tpp_build *build, uint32_t device, uint32_t micro_batch)
{
    const size_t replica = device / build->num_stages;
    return build->lengths && micro_batch < build->num_micro_batches
               ? build->lengths[replica * build->num_micro_batches + micro_batch]
               : 1;
}

struct tpp_pen tpp_pen_start(struct tpp_build *build, uint32_t device, uint32_t chunk, uint32_t micro_batch,
                             const char *name)
{
    return (struct tpp_pen){.build = build, .device = device, .chunk = chunk, .micro_batch = micro_batch, .name = name,
                            .layer = TPP_NO_TASK, .length = length_of(build, device, micro_batch), .first = TPP_NO_TASK, .last = TPP_NO_TASK,
                            .in_detail = build->is_always_in_detail};
}

static void collect(struct tpp_pen *pen, double compute_seconds, double other_seconds)
{
    const double compute =
        pen->length * compute_seconds * gpu_factor(pen->build, pen->device) * jitter_factor(pen->build);
    pen->pending_compute += compute;
    pen->pending_seconds += compute + pen->length * other_seconds;
}

/* Shares of a unit that differ by less are the same: sums of them are not exact. */
static const double share_tolerance = 1e-14;

void tpp_pen_compute(struct tpp_pen *pen, double compute_seconds, double other_seconds)
{
    const double seconds = compute_seconds + other_seconds;
    if (pen->is_counting) {
        pen->counted_seconds += seconds;
        return;
    }
    if (!pen->meter || seconds <= 0) {
        collect(pen, compute_seconds, other_seconds);
        return;
    }
    for (double left = seconds; left > share_tolerance * pen->unit_seconds;) {
        const double part = fmin(left, pen->meter->until_cut(pen->meter->context) * pen->unit_seconds);
        collect(pen, compute_seconds * part / seconds, other_seconds * part / seconds);
        pen->meter->has_run(pen->meter->context, part / pen->unit_seconds);
        left -= part;
    }
}

static uint32_t write_task(struct tpp_pen *pen)
{
    const uint32_t stream = tpp_build_stream(pen->build, pen->device, TPP_TRACK_COMPUTE);
    const uint32_t num_waits = pen->num_waits;
    const double seconds = pen->pending_seconds, slowed = seconds > 0 ? pen->pending_compute / seconds : 1;
    pen->pending_seconds = pen->pending_compute = 0;
    pen->num_waits = 0;
    if (stream == TPP_NO_TASK)
        return TPP_NO_TASK;
    const struct tpp_graph_task task = {.name = pen->name, .kind = TPP_GRAPH_COMPUTE, .stream = stream,
                                        .seconds = seconds, .slowed_fraction = slowed, .micro_batch = pen->micro_batch,
                                        .chunk = pen->chunk, .layer = pen->layer};
    const uint32_t index = tpp_graph_add_task(pen->build->graph, &task);
    for (uint32_t i = 0; i < num_waits; i++)
        tpp_graph_depend(pen->build->graph, index, pen->waits[i]);
    pen->last = pen->build->last_compute[pen->device] = index;
    if (pen->first == TPP_NO_TASK)
        pen->first = index;
    return index;
}

uint32_t tpp_pen_flush(struct tpp_pen *pen)
{
    if (pen->pending_seconds > 0 || pen->num_waits > 0 || pen->first == TPP_NO_TASK)
        write_task(pen);
    return pen->last;
}

void tpp_pen_wait(struct tpp_pen *pen, uint32_t task)
{
    if (task == TPP_NO_TASK)
        return;
    /* What was collected comes before the wait. */
    if (pen->pending_seconds > 0 || pen->num_waits == sizeof(pen->waits) / sizeof(pen->waits[0]))
        write_task(pen);
    pen->waits[pen->num_waits++] = task;
}

static enum tpp_route_kind route_of(enum tpp_group_kind group)
{
    static const enum tpp_route_kind routes[] = {
        [TPP_GROUP_TENSOR] = TPP_ROUTE_TENSOR,   [TPP_GROUP_CONTEXT] = TPP_ROUTE_CONTEXT,
        [TPP_GROUP_ULYSSES] = TPP_ROUTE_ULYSSES, [TPP_GROUP_EXPERT] = TPP_ROUTE_EXPERT,
        [TPP_GROUP_EXPERT_TENSOR] = TPP_ROUTE_EXPERT_TENSOR,
    };
    return routes[group];
}

/* Compute and its transfer: one after the other, or side by side from lead_seconds on. */
static void pen_segment(struct tpp_pen *pen, const struct tpp_segment *segment)
{
    if (segment->transfer_seconds <= 0 || pen->is_counting) {
        tpp_pen_compute(pen, segment->compute_seconds, 0);
        return;
    }
    const double before = segment->is_hidden ? segment->lead_seconds : segment->compute_seconds;
    tpp_pen_compute(pen, before, 0);
    tpp_pen_flush(pen);
    const struct tpp_graph_task like = {.name = segment->name, .micro_batch = pen->micro_batch, .chunk = pen->chunk,
                                        .layer = pen->layer};
    const uint32_t transfer =
        tpp_build_collective(pen->build, pen->device, TPP_TRACK_TENSOR, route_of(segment->group), segment->collective,
                             pen->length * segment->bytes, pen->length * segment->transfer_seconds, &like);
    tpp_graph_depend(pen->build->graph, transfer, pen->last);
    if (segment->compute_seconds > before)
        tpp_pen_compute(pen, segment->compute_seconds - before, 0);
    tpp_pen_wait(pen, transfer);
}

static void pen_plain(struct tpp_pen *pen, const struct tpp_unit *unit, enum tpp_simulated_pass pass)
{
    if (!unit->segments || !pen->in_detail) {
        tpp_pen_compute(pen, unit->compute_seconds[pass], unit->other_seconds[pass]);
        return;
    }
    for (uint32_t i = 0; i < unit->segments[pass].count; i++)
        pen_segment(pen, &unit->segments[pass].items[i]);
}

void tpp_pen_section(struct tpp_pen *pen, enum tpp_unit_kind kind, enum tpp_simulated_pass section)
{
    pen_plain(pen, &pen->build->units[kind], section);
}

void tpp_pen_unit(struct tpp_pen *pen, enum tpp_unit_kind kind, enum tpp_simulated_pass pass)
{
    struct tpp_build *build = pen->build;
    const bool hides = pen->is_in_pair && kind == TPP_UNIT_MOE && build->assembly.paired_moe;
    const struct tpp_unit *unit = hides ? &build->paired_moe : &build->units[kind];
    if (pass == TPP_PASS_BACKWARD && tpp_unit_is_layer(kind)) {
        /* Recomputation comes first. The share of layers that is recomputed is spread evenly. */
        const double share = build->chunks[pen->chunk].recomputed_fraction;
        if (share >= 1 && unit->skipped_seconds <= 0)
            pen_plain(pen, unit, TPP_PASS_FORWARD);
        else if (share > 0)
            tpp_pen_compute(pen, share * (unit->compute_seconds[TPP_PASS_FORWARD] - unit->skipped_seconds),
                            share * unit->other_seconds[TPP_PASS_FORWARD]);
    }
    if (pass == TPP_PASS_BACKWARD && unit->repeated_seconds > 0)
        tpp_pen_compute(pen, unit->repeated_seconds, 0);
    pen_plain(pen, unit, pass);
    /* In detail, the segments of BACKWARD hold both. */
    if (pass == TPP_PASS_BACKWARD && !build->splits_backward && !(unit->segments && pen->in_detail))
        pen_plain(pen, unit, TPP_PASS_WEIGHT);
}

void tpp_pen_metered_unit(struct tpp_pen *pen, enum tpp_unit_kind kind, enum tpp_simulated_pass pass,
                          const struct tpp_meter *meter)
{
    pen->is_counting = true;
    pen->counted_seconds = 0;
    tpp_pen_unit(pen, kind, pass);
    pen->is_counting = false;
    pen->unit_seconds = pen->counted_seconds;
    pen->meter = meter;
    if (pen->unit_seconds <= 0) /* all of it at once */
        for (double left = 1; left > share_tolerance;) {
            const double part = fmin(left, meter->until_cut(meter->context));
            meter->has_run(meter->context, part);
            left -= part;
        }
    tpp_pen_unit(pen, kind, pass);
    pen->meter = NULL;
}
