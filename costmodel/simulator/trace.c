/* Source of the format: "Trace Event Format", Google 2016: complete events (ph X), metadata (M), flow events (s, f),
 * counters (C); times in microseconds. */
#include "costmodel/simulator/trace.h"

#include "costmodel/simulator/simulation.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

struct writer {
    const struct tpp_build *build;
    const struct tpp_graph_task *tasks;
    const struct tpp_graph_stream *streams;
    const struct tpp_graph_route *routes;
    struct tpp_text *out;
    uint32_t num_arrows;
    bool is_first;
};

/* Whole nanoseconds, as Perfetto keeps them: rounding a length by itself would let a slice end inside the next one, which
 * viewers then draw as nested. */
static int64_t nanoseconds(double seconds)
{
    return llround(seconds * 1e9);
}

/* A member whose unit is microseconds; `name` with its quotes. */
static void write_time(struct writer *writer, const char *name, int64_t time_nanoseconds)
{
    tpp_text_format(writer->out, ",%s:%" PRId64 ".%03" PRId64, name, time_nanoseconds / 1000, time_nanoseconds % 1000);
}

/* Begins an event; the caller writes the rest of its members and the closing brace. */
static void begin_event(struct writer *writer, const char *phase, uint32_t process, const char *name)
{
    tpp_text_append(writer->out, writer->is_first ? "\n" : ",\n");
    writer->is_first = false;
    tpp_text_format(writer->out, "{\"ph\":\"%s\",\"pid\":%u,\"name\":\"%s\"", phase, process, name);
}

/* Names of things are static words of this program: none of them needs escaping. */
static void write_names(struct writer *writer)
{
    const struct tpp_build *build = writer->build;
    for (uint32_t d = 0; d < build->num_devices; d++) {
        begin_event(writer, "M", d, "process_name");
        if (build->num_replicas > 1)
            tpp_text_format(writer->out, ",\"args\":{\"name\":\"replica %u, stage %u\"}}", d / build->num_stages,
                            d % build->num_stages);
        else
            tpp_text_format(writer->out, ",\"args\":{\"name\":\"stage %u\"}}", d);
        begin_event(writer, "M", d, "process_sort_index");
        tpp_text_format(writer->out, ",\"args\":{\"sort_index\":%u}}", d);
        for (uint32_t track = 0; track < TPP_TRACK_COUNT; track++) {
            if (track > TPP_TRACK_HOST && build->streams[d][track] == TPP_NO_TASK)
                continue;
            begin_event(writer, "M", d, "thread_name");
            tpp_text_format(writer->out, ",\"tid\":%u,\"args\":{\"name\":\"%s\"}}", track,
                            tpp_track_name((enum tpp_track)track));
            begin_event(writer, "M", d, "thread_sort_index");
            tpp_text_format(writer->out, ",\"tid\":%u,\"args\":{\"sort_index\":%u}}", track, track);
        }
    }
}

static void write_arguments(struct writer *writer, const struct tpp_graph_task *task)
{
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{"micro_batch", task->micro_batch}, {"chunk", task->chunk}, {"layer", task->layer}};
    const char *separator = "";
    tpp_text_append(writer->out, ",\"args\":{");
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].value == TPP_NO_TASK)
            continue;
        tpp_text_format(writer->out, "%s\"%s\":%u", separator, numbers[i].name, numbers[i].value);
        separator = ",";
    }
    if (task->kind == TPP_GRAPH_TRANSFER) {
        tpp_text_format(writer->out, "%s\"bytes\":%.0f", separator, task->bytes);
        write_time(writer, "\"queued_us\"", nanoseconds(task->start_seconds) - nanoseconds(task->ready_seconds));
    }
    tpp_text_append(writer->out, "}}");
}

static void write_slice(struct writer *writer, const struct tpp_graph_task *task, uint32_t process, uint32_t track)
{
    begin_event(writer, "X", process, task->name);
    tpp_text_format(writer->out, ",\"cat\":\"%s\",\"tid\":%u",
                    task->kind == TPP_GRAPH_TRANSFER ? "transfer" : "compute", track);
    write_time(writer, "\"ts\"", nanoseconds(task->start_seconds));
    write_time(writer, "\"dur\"", nanoseconds(task->end_seconds) - nanoseconds(task->start_seconds));
    write_arguments(writer, task);
}

/* A collective of replicas is a slice of each of them. */
static void write_task(struct writer *writer, const struct tpp_graph_task *task)
{
    const struct tpp_graph_stream *stream = &writer->streams[task->stream];
    if (task->end_seconds <= task->start_seconds)
        return; /* a wait: nothing to see */
    const struct tpp_graph_route *route = task->kind == TPP_GRAPH_TRANSFER ? &writer->routes[task->route] : NULL;
    if (!route || route->num_devices == 0) {
        write_slice(writer, task, stream->device, stream->track);
        return;
    }
    for (uint32_t i = 0; i < route->num_devices; i++)
        write_slice(writer, task, route->devices[i], stream->track);
}

struct arrow {
    struct writer *writer;
    const struct tpp_graph_task *from;
};

/* The first task of a pass may be an empty wait: the arrow ends at the task after it that takes time. */
static void write_arrow(uint32_t follower, void *context)
{
    const struct arrow *arrow = context;
    struct writer *writer = arrow->writer;
    const struct tpp_graph_task *to = &writer->tasks[follower];
    while (to->end_seconds <= to->start_seconds && to->next_on_stream != TPP_NO_TASK)
        to = &writer->tasks[to->next_on_stream];
    if (to->end_seconds <= to->start_seconds)
        return;
    const struct tpp_graph_stream *source = &writer->streams[arrow->from->stream];
    const struct tpp_graph_stream *target = &writer->streams[to->stream];
    const uint32_t id = ++writer->num_arrows;
    begin_event(writer, "s", source->device, arrow->from->name);
    tpp_text_format(writer->out, ",\"cat\":\"send\",\"id\":%u,\"tid\":%u", id, (unsigned)source->track);
    write_time(writer, "\"ts\"", nanoseconds(arrow->from->start_seconds));
    tpp_text_append(writer->out, "}");
    begin_event(writer, "f", target->device, arrow->from->name);
    tpp_text_format(writer->out, ",\"cat\":\"send\",\"id\":%u,\"bp\":\"e\",\"tid\":%u", id,
                    (unsigned)target->track);
    write_time(writer, "\"ts\"", nanoseconds(to->start_seconds));
    tpp_text_append(writer->out, "}");
}

static bool is_send(const struct writer *writer, const struct tpp_graph_task *task)
{
    const enum tpp_track track = writer->streams[task->stream].track;
    return (track == TPP_TRACK_SEND_FORWARD || track == TPP_TRACK_SEND_BACKWARD) &&
           task->end_seconds > task->start_seconds;
}

/* Another sample of the same link follows within the nanosecond. */
static bool is_replaced(const struct tpp_graph_link_sample *samples, size_t count, size_t index)
{
    const int64_t time = nanoseconds(samples[index].seconds);
    for (size_t i = index + 1; i < count && nanoseconds(samples[i].seconds) == time; i++)
        if (samples[i].resource == samples[index].resource)
            return true;
    return false;
}

/* Share of the link's capacity, over time. */
static void write_link_counters(struct writer *writer)
{
    const struct tpp_build *build = writer->build;
    size_t num_samples;
    uint32_t num_resources;
    const struct tpp_graph_link_sample *samples = tpp_graph_link_samples(build->graph, &num_samples);
    const struct tpp_resource *resources = tpp_graph_resources(build->graph, &num_resources);
    for (size_t i = 0; i < num_samples; i++) {
        const struct tpp_resource *resource = &resources[samples[i].resource];
        if (is_replaced(samples, num_samples, i))
            continue;
        const bool is_shared =
            resource->kind == TPP_RESOURCE_LEAF_UPLINK || resource->kind == TPP_RESOURCE_SPINE;
        begin_event(writer, "C", is_shared ? 0 : resource->owner, tpp_resource_kind_name(resource->kind));
        if (resource->kind == TPP_RESOURCE_LEAF_UPLINK)
            tpp_text_format(writer->out, ",\"id\":%u", resource->owner);
        write_time(writer, "\"ts\"", nanoseconds(samples[i].seconds));
        tpp_text_format(writer->out, ",\"args\":{\"used_percent\":%.2f}}",
                        100 * samples[i].bytes_per_second / resource->bytes_per_second);
    }
}

/* Activations of one micro-batch on a chunk, and what a rank of the stage holds all the time. */
static double activation_bytes(const struct tpp_build *build, const struct tpp_chunk *chunk, double *fixed_bytes)
{
    struct tpp_stage stage;
    struct tpp_memory memory;
    const uint32_t index = chunk->place.stage;
    const struct tpp_stage_layers layers = tpp_stage_layers(build->strategy, build->evaluator->model, index);
    tpp_stage_time(build->evaluator, build->strategy, &build->assembly, index, layers, &stage);
    tpp_stage_memory(build->evaluator, build->strategy, &build->assembly, &stage, index, &memory);
    *fixed_bytes = memory.terms[TPP_MEMORY_WEIGHTS] + memory.terms[TPP_MEMORY_GRADIENTS] +
                   memory.terms[TPP_MEMORY_OPTIMIZER];
    return tpp_stage_micro_batch_bytes(build->evaluator, build->strategy, &build->assembly, &stage, index) *
           chunk->num_layers / fmax(1, layers.total);
}

struct change {
    double seconds, bytes;
};

static int compare_changes(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    if (a->seconds != b->seconds)
        return a->seconds < b->seconds ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes); /* what is freed first */
}

/* A forward pass holds its activations from its start to the end of the backward pass; where that is split, most of them to the
 * end of the weight gradients (4.3). */
static void write_memory_counter(struct writer *writer, uint32_t device, struct change *changes)
{
    const struct tpp_build *build = writer->build;
    const uint32_t stage = device % build->num_stages, replica = device / build->num_stages;
    size_t count = 0;
    double held = 0;
    for (uint32_t g = 0; g < build->num_chunks; g++) {
        if (build->chunks[g].place.stage != stage)
            continue;
        const double bytes = activation_bytes(build, &build->chunks[g], &held);
        const size_t place = (size_t)replica * build->num_chunks + g;
        for (uint32_t i = 0; i < build->num_micro_batches; i++) {
            const struct tpp_op_tasks *ops = &build->ops[(place * build->num_micro_batches + i) * TPP_PASS_COUNT];
            if (ops[TPP_PASS_FORWARD].first == TPP_NO_TASK)
                continue;
            changes[count++] = (struct change){writer->tasks[ops[TPP_PASS_FORWARD].first].start_seconds, bytes};
            const double kept = build->splits_backward ? TPP_WEIGHT_ACTIVATION_FRACTION * bytes : 0;
            changes[count++] = (struct change){writer->tasks[ops[TPP_PASS_BACKWARD].last].end_seconds, kept - bytes};
            if (build->splits_backward)
                changes[count++] = (struct change){writer->tasks[ops[TPP_PASS_WEIGHT].last].end_seconds, -kept};
        }
    }
    qsort(changes, count, sizeof(*changes), compare_changes);
    double alive = held;
    for (size_t i = 0; i < count; i++) {
        alive += changes[i].bytes;
        if (i + 1 < count && changes[i + 1].seconds == changes[i].seconds)
            continue;
        begin_event(writer, "C", device, "memory");
        write_time(writer, "\"ts\"", nanoseconds(changes[i].seconds));
        tpp_text_format(writer->out, ",\"args\":{\"weights_and_states_bytes\":%.0f,\"activation_bytes\":%.0f}}", held,
                        fmax(0, alive - held));
    }
}

static void write_memory_counters(struct writer *writer)
{
    const struct tpp_build *build = writer->build;
    struct change *changes = malloc(3 * (size_t)build->num_chunks * build->num_micro_batches * sizeof(*changes));
    if (!changes) {
        writer->out->failed = true;
        return;
    }
    for (uint32_t d = 0; d < build->num_devices; d++)
        write_memory_counter(writer, d, changes);
    free(changes);
}

void tpp_simulation_trace(const struct tpp_simulation *simulation, struct tpp_text *out)
{
    const struct tpp_build *build = &simulation->build;
    uint32_t num_tasks, ignored;
    struct writer writer = {.build = build, .out = out, .is_first = true};
    writer.tasks = tpp_graph_tasks(build->graph, &num_tasks);
    writer.streams = tpp_graph_streams(build->graph, &ignored);
    writer.routes = tpp_graph_routes(build->graph, &ignored);
    tpp_text_append(out, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    write_names(&writer);
    for (uint32_t i = 0; i < num_tasks; i++) {
        write_task(&writer, &writer.tasks[i]);
        struct arrow arrow = {&writer, &writer.tasks[i]};
        if (is_send(&writer, &writer.tasks[i]))
            tpp_graph_visit_followers(build->graph, i, write_arrow, &arrow);
    }
    write_link_counters(&writer);
    write_memory_counters(&writer);
    tpp_text_append(out, "\n]}\n");
}
