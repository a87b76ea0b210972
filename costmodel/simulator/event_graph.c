#include "costmodel/simulator/event_graph.h"

#include "costmodel/simulator/event_heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct edge {
    uint32_t task, next; /* a follower; TPP_NO_TASK ends the list */
};

struct device {
    uint32_t running;        /* compute task; TPP_NO_TASK */
    uint32_t num_slowing;    /* transfers in service that slow it */
    double remaining_seconds, updated_seconds; /* of the running task, at full speed */
};

struct tpp_graph {
    struct tpp_graph_setup setup;
    struct tpp_resource *resources;
    struct tpp_flow_network *network;
    struct device *devices;
    struct tpp_graph_stream *streams;
    struct tpp_graph_route *routes;
    struct tpp_graph_task *tasks;
    struct edge *edges;
    struct tpp_graph_link_sample *samples;
    double *last_sample;     /* of each resource, bytes a second */
    size_t num_samples, max_samples;
    uint32_t num_streams, max_streams, num_routes, max_routes, num_tasks, max_tasks, num_edges, max_edges;
    struct tpp_event_heap heap; /* by stream: end of its running compute or delay */
    uint32_t *running;          /* by stream: its running compute or delay */
    double now_seconds;
    uint64_t num_events, generation;
    uint32_t num_ended;
    bool is_started, has_failed;
};

const char *tpp_track_name(enum tpp_track track)
{
    static const char *const names[TPP_TRACK_COUNT] = {"compute",           "tensor parallel", "send activations",
                                                       "send gradients",    "gather parameters", "reduce gradients",
                                                       "host",              "head input",      "loss",
                                                       "head gradient",     "embedding"};
    return names[track];
}

enum tpp_code tpp_graph_new(const struct tpp_graph_setup *setup, struct tpp_graph **out, struct tpp_error *err)
{
    *out = NULL;
    struct tpp_graph *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    graph->setup = *setup;
    graph->devices = malloc((setup->num_devices + 1) * sizeof(*graph->devices));
    graph->resources = malloc((setup->num_resources + 1) * sizeof(*graph->resources));
    graph->last_sample = calloc(setup->num_resources + 1, sizeof(*graph->last_sample));
    enum tpp_code code =
        tpp_flow_network_new(setup->resources, setup->num_resources, setup->num_domains, &graph->network, err);
    if (code == TPP_OK && (!graph->devices || !graph->resources || !graph->last_sample))
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    if (code != TPP_OK) {
        tpp_graph_free(graph);
        return code;
    }
    if (setup->num_resources > 0)
        memcpy(graph->resources, setup->resources, setup->num_resources * sizeof(*graph->resources));
    graph->setup.resources = graph->resources;
    for (uint32_t i = 0; i < setup->num_devices; i++)
        graph->devices[i] = (struct device){.running = TPP_NO_TASK};
    *out = graph;
    return TPP_OK;
}

void tpp_graph_free(struct tpp_graph *graph)
{
    if (!graph)
        return;
    tpp_flow_network_free(graph->network);
    tpp_event_heap_release(&graph->heap);
    free(graph->resources);
    free(graph->devices);
    free(graph->streams);
    free(graph->routes);
    free(graph->tasks);
    free(graph->edges);
    free(graph->samples);
    free(graph->last_sample);
    free(graph->running);
    free(graph);
}

/* One more entry of a growing array; NULL (and remembered) when there is no memory. */
static void *grow(struct tpp_graph *graph, void *array, uint32_t count, uint32_t *max, size_t size)
{
    if (graph->has_failed || count < *max)
        return graph->has_failed ? NULL : array;
    const uint32_t larger = *max ? *max * 2 : 64;
    void *grown = larger > *max ? realloc(array, larger * size) : NULL;
    if (!grown) {
        graph->has_failed = true;
        return NULL;
    }
    *max = larger;
    return grown;
}

uint32_t tpp_graph_add_stream(struct tpp_graph *graph, uint32_t device, enum tpp_track track)
{
    void *streams = grow(graph, graph->streams, graph->num_streams, &graph->max_streams, sizeof(*graph->streams));
    if (!streams)
        return TPP_NO_TASK;
    graph->streams = streams;
    graph->streams[graph->num_streams] =
        (struct tpp_graph_stream){.device = device, .track = track, .first_task = TPP_NO_TASK, .last_task = TPP_NO_TASK};
    return graph->num_streams++;
}

uint32_t tpp_graph_add_route(struct tpp_graph *graph, const struct tpp_graph_route *route)
{
    void *routes = grow(graph, graph->routes, graph->num_routes, &graph->max_routes, sizeof(*graph->routes));
    if (!routes)
        return TPP_NO_TASK;
    graph->routes = routes;
    graph->routes[graph->num_routes] = *route;
    return graph->num_routes++;
}

uint32_t tpp_graph_add_task(struct tpp_graph *graph, const struct tpp_graph_task *task)
{
    void *tasks = grow(graph, graph->tasks, graph->num_tasks, &graph->max_tasks, sizeof(*graph->tasks));
    if (!tasks)
        return TPP_NO_TASK;
    graph->tasks = tasks;
    const uint32_t index = graph->num_tasks++;
    struct tpp_graph_task *added = &graph->tasks[index];
    *added = *task;
    added->ready_seconds = added->start_seconds = added->end_seconds = -1;
    added->num_pending = 0;
    added->first_edge = added->last_edge = added->next_on_stream = TPP_NO_TASK;
    struct tpp_graph_stream *stream = &graph->streams[task->stream];
    if (stream->last_task == TPP_NO_TASK) {
        stream->first_task = index;
    } else {
        graph->tasks[stream->last_task].next_on_stream = index;
        added->num_pending = 1;
    }
    stream->last_task = index;
    return index;
}

void tpp_graph_depend(struct tpp_graph *graph, uint32_t task, uint32_t before)
{
    if (task == TPP_NO_TASK || before == TPP_NO_TASK)
        return;
    void *edges = grow(graph, graph->edges, graph->num_edges, &graph->max_edges, sizeof(*graph->edges));
    if (!edges)
        return;
    graph->edges = edges;
    struct tpp_graph_task *source = &graph->tasks[before];
    graph->edges[graph->num_edges] = (struct edge){task, TPP_NO_TASK};
    if (source->first_edge == TPP_NO_TASK)
        source->first_edge = graph->num_edges;
    else
        graph->edges[source->last_edge].next = graph->num_edges;
    source->last_edge = graph->num_edges++;
    graph->tasks[task].num_pending++;
}

/* Progress of the running task. A transfer that left compute nothing would never let it end: a hundredth stays. */
static double rate_of(const struct tpp_graph *graph, const struct device *device)
{
    if (device->num_slowing == 0)
        return 1;
    return fmax(0.01, 1 - graph->setup.overlap_slowdown_fraction * graph->tasks[device->running].slowed_fraction);
}

static void schedule_compute(struct tpp_graph *graph, struct device *device)
{
    const uint32_t stream = graph->tasks[device->running].stream;
    tpp_event_heap_set(&graph->heap, stream,
                       graph->now_seconds + device->remaining_seconds / rate_of(graph, device));
}

/* One transfer more (or less) slows the devices of its route. */
static void change_slowing(struct tpp_graph *graph, const struct tpp_graph_route *route, bool begins)
{
    if (!route->slows_compute)
        return;
    for (uint32_t i = 0; i < route->num_devices; i++) {
        struct device *device = &graph->devices[route->devices[i]];
        const double rate = device->running == TPP_NO_TASK ? 0 : rate_of(graph, device);
        device->num_slowing = begins ? device->num_slowing + 1 : device->num_slowing - 1;
        if (device->running == TPP_NO_TASK || rate_of(graph, device) == rate)
            continue;
        device->remaining_seconds -= rate * (graph->now_seconds - device->updated_seconds);
        device->remaining_seconds = fmax(0, device->remaining_seconds);
        device->updated_seconds = graph->now_seconds;
        schedule_compute(graph, device);
    }
}

static void transfer_begins(struct tpp_graph *graph, struct tpp_graph_task *task)
{
    task->start_seconds = graph->now_seconds;
    change_slowing(graph, &graph->routes[task->route], true);
}

static enum tpp_code start_transfer(struct tpp_graph *graph, uint32_t index, struct tpp_error *err)
{
    struct tpp_graph_task *task = &graph->tasks[index];
    const struct tpp_graph_route *route = &graph->routes[task->route];
    const struct tpp_flow flow = {
        .latency_seconds = task->seconds, .bytes = task->bytes, .max_bytes_per_second = task->max_bytes_per_second,
        .domain = route->domain, .num_uses = route->num_uses, .uses = route->uses,
    };
    bool has_begun;
    const enum tpp_code code = tpp_flow_start(graph->network, graph->now_seconds, &flow, index, &has_begun, err);
    if (code == TPP_OK && has_begun)
        transfer_begins(graph, task);
    return code;
}

static enum tpp_code start(struct tpp_graph *graph, uint32_t index, struct tpp_error *err)
{
    struct tpp_graph_task *task = &graph->tasks[index];
    task->ready_seconds = graph->now_seconds;
    /* What the end of the task touches is in the cache by then: streams of many devices lie far apart in memory. A task may
     * lie on two lines. Not in a function of its own, whose calls GCC drops. */
    if (task->next_on_stream != TPP_NO_TASK) {
        __builtin_prefetch(&graph->tasks[task->next_on_stream].seconds);
        __builtin_prefetch(&graph->tasks[task->next_on_stream].route);
    }
    if (task->first_edge != TPP_NO_TASK) {
        __builtin_prefetch(&graph->tasks[graph->edges[task->first_edge].task].seconds);
        __builtin_prefetch(&graph->tasks[graph->edges[task->first_edge].task].route);
    }
    if (task->kind == TPP_GRAPH_TRANSFER)
        return start_transfer(graph, index, err);
    task->start_seconds = graph->now_seconds;
    graph->running[task->stream] = index;
    if (task->kind == TPP_GRAPH_DELAY) {
        tpp_event_heap_set(&graph->heap, task->stream, graph->now_seconds + task->seconds);
        return TPP_OK;
    }
    struct device *device = &graph->devices[graph->streams[task->stream].device];
    device->running = index;
    device->remaining_seconds = task->seconds;
    device->updated_seconds = graph->now_seconds;
    schedule_compute(graph, device);
    return TPP_OK;
}

static enum tpp_code release(struct tpp_graph *graph, uint32_t index, struct tpp_error *err)
{
    return --graph->tasks[index].num_pending == 0 ? start(graph, index, err) : TPP_OK;
}

/* The task has ended: whoever waited for nothing else starts. */
static enum tpp_code end(struct tpp_graph *graph, uint32_t index, struct tpp_error *err)
{
    struct tpp_graph_task *task = &graph->tasks[index];
    task->end_seconds = graph->now_seconds;
    graph->num_ended++;
    enum tpp_code code = TPP_OK;
    if (task->next_on_stream != TPP_NO_TASK)
        code = release(graph, task->next_on_stream, err);
    for (uint32_t e = task->first_edge; e != TPP_NO_TASK && code == TPP_OK; e = graph->edges[e].next)
        code = release(graph, graph->edges[e].task, err);
    return code;
}

static enum tpp_code compute_event(struct tpp_graph *graph, struct tpp_error *err)
{
    const struct tpp_event_entry event = graph->heap.entries[0];
    tpp_event_heap_remove(&graph->heap, event.id);
    graph->now_seconds = event.seconds;
    const uint32_t index = graph->running[event.id];
    if (graph->tasks[index].kind == TPP_GRAPH_COMPUTE)
        graph->devices[graph->streams[event.id].device].running = TPP_NO_TASK;
    return end(graph, index, err);
}

static enum tpp_code flow_event(struct tpp_graph *graph, double seconds, struct tpp_error *err)
{
    uint32_t index;
    graph->now_seconds = fmax(graph->now_seconds, seconds);
    switch (tpp_flow_step(graph->network, graph->now_seconds, &index)) {
    case TPP_FLOW_BEGAN:
        transfer_begins(graph, &graph->tasks[index]);
        return TPP_OK;
    case TPP_FLOW_FINISHED:
        change_slowing(graph, &graph->routes[graph->tasks[index].route], false);
        return end(graph, index, err);
    default:
        return TPP_OK; /* a latency was over */
    }
}

/* Appends what has changed on the links since the last sample. */
static void sample_links(struct tpp_graph *graph)
{
    if (tpp_flow_generation(graph->network) == graph->generation)
        return;
    graph->generation = tpp_flow_generation(graph->network);
    for (uint32_t r = 0; r < graph->setup.num_resources; r++) {
        const double used = tpp_flow_used_bytes_per_second(graph->network, r);
        if (used == graph->last_sample[r])
            continue;
        if (graph->num_samples == graph->max_samples) {
            const size_t larger = graph->max_samples ? 2 * graph->max_samples : 256;
            void *samples = realloc(graph->samples, larger * sizeof(*graph->samples));
            if (!samples) {
                graph->has_failed = true;
                return;
            }
            graph->samples = samples;
            graph->max_samples = larger;
        }
        graph->last_sample[r] = used;
        graph->samples[graph->num_samples++] =
            (struct tpp_graph_link_sample){graph->now_seconds, used, r};
    }
}

/* The first tasks of all streams that wait for nothing. */
static enum tpp_code start_all(struct tpp_graph *graph, struct tpp_error *err)
{
    graph->is_started = true;
    graph->running = malloc((graph->num_streams + 1) * sizeof(*graph->running));
    if (!graph->running || !tpp_event_heap_init(&graph->heap, graph->num_streams))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    for (uint32_t i = 0; i < graph->num_streams; i++) {
        const uint32_t first = graph->streams[i].first_task;
        if (first == TPP_NO_TASK || graph->tasks[first].num_pending > 0 || graph->tasks[first].ready_seconds >= 0)
            continue;
        const enum tpp_code code = start(graph, first, err);
        if (code != TPP_OK)
            return code;
    }
    return TPP_OK;
}

static enum tpp_code report_end(const struct tpp_graph *graph, struct tpp_error *err)
{
    if (graph->num_ended == graph->num_tasks)
        return TPP_OK;
    uint32_t stuck = 0;
    while (stuck + 1 < graph->num_tasks && graph->tasks[stuck].end_seconds >= 0)
        stuck++;
    return tpp_fail(err, TPP_E_INTERNAL, NULL, NULL, "the simulated step waits for itself: %s of micro-batch %u",
                    graph->tasks[stuck].name, graph->tasks[stuck].micro_batch);
}

enum tpp_code tpp_graph_run(struct tpp_graph *graph, uint64_t max_events, bool *done, struct tpp_error *err)
{
    *done = false;
    enum tpp_code code = TPP_OK;
    if (!graph->is_started && !graph->has_failed)
        code = start_all(graph, err);
    for (uint64_t i = 0; i < max_events && code == TPP_OK && !graph->has_failed; i++) {
        const double flow = tpp_flow_next_seconds(graph->network);
        const double compute = tpp_event_heap_first_seconds(&graph->heap);
        if (flow == INFINITY && compute == INFINITY) {
            *done = true;
            return report_end(graph, err);
        }
        code = flow <= compute ? flow_event(graph, flow, err) : compute_event(graph, err);
        graph->num_events++;
        if (graph->setup.records_links)
            sample_links(graph);
    }
    if (graph->has_failed)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    return code;
}

const struct tpp_graph_task *tpp_graph_tasks(const struct tpp_graph *graph, uint32_t *count)
{
    *count = graph->num_tasks;
    return graph->tasks;
}

const struct tpp_graph_stream *tpp_graph_streams(const struct tpp_graph *graph, uint32_t *count)
{
    *count = graph->num_streams;
    return graph->streams;
}

const struct tpp_graph_route *tpp_graph_routes(const struct tpp_graph *graph, uint32_t *count)
{
    *count = graph->num_routes;
    return graph->routes;
}

const struct tpp_resource *tpp_graph_resources(const struct tpp_graph *graph, uint32_t *count)
{
    *count = graph->setup.num_resources;
    return graph->resources;
}

const struct tpp_graph_link_sample *tpp_graph_link_samples(const struct tpp_graph *graph, size_t *count)
{
    *count = graph->num_samples;
    return graph->samples;
}

const struct tpp_flow_network *tpp_graph_network(const struct tpp_graph *graph)
{
    return graph->network;
}

double tpp_graph_now_seconds(const struct tpp_graph *graph)
{
    return graph->now_seconds;
}

uint64_t tpp_graph_num_events(const struct tpp_graph *graph)
{
    return graph->num_events;
}

size_t tpp_graph_bytes(const struct tpp_graph *graph)
{
    return sizeof(*graph) + graph->setup.num_devices * sizeof(*graph->devices) +
           graph->max_streams * (sizeof(*graph->streams) + sizeof(*graph->running)) +
           graph->max_routes * sizeof(*graph->routes) + (size_t)graph->max_tasks * sizeof(*graph->tasks) +
           (size_t)graph->max_edges * sizeof(*graph->edges) + graph->max_samples * sizeof(*graph->samples);
}

void tpp_graph_visit_followers(const struct tpp_graph *graph, uint32_t task,
                                void (*visit)(uint32_t follower, void *context), void *context)
{
    for (uint32_t e = graph->tasks[task].first_edge; e != TPP_NO_TASK; e = graph->edges[e].next)
        visit(graph->edges[e].task, context);
}
