/* Contention risk of a simulated step: what each link was offered in every window, and who collided on it (9.4). */
#include "costmodel/simulator/contention.h"
#include "costmodel/simulator/simulation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WINDOWS = 8192, MAX_PAIRS = 32, MAX_OVERLAPS = 64 };

/* One transfer on one link. */
struct wish {
    double ready_seconds, end_seconds, bytes;
    const char *name;
    uint32_t stream;
};

struct wish_list {
    struct wish *items; /* of all resources, one after the other */
    uint32_t *first;    /* by resource; [num_resources] is the end */
};

static uint32_t uses_of(const struct tpp_build *build, const struct tpp_graph_task *task,
                        const struct tpp_flow_use **uses)
{
    uint32_t count;
    if (task->kind != TPP_GRAPH_TRANSFER || task->bytes <= 0)
        return 0;
    const struct tpp_graph_route *route = &tpp_graph_routes(build->graph, &count)[task->route];
    *uses = route->uses;
    return route->num_uses;
}

static bool make_wishes(const struct tpp_build *build, struct wish_list *list)
{
    uint32_t num_tasks;
    const struct tpp_graph_task *tasks = tpp_graph_tasks(build->graph, &num_tasks);
    const struct tpp_flow_use *uses = NULL;
    const uint32_t n = build->num_resources;
    list->first = calloc(n + 2, sizeof(*list->first));
    if (!list->first)
        return false;
    for (uint32_t i = 0; i < num_tasks; i++)
        for (uint32_t u = uses_of(build, &tasks[i], &uses); u-- > 0;)
            list->first[uses[u].resource + 2]++;
    for (uint32_t r = 0; r < n; r++)
        list->first[r + 2] += list->first[r + 1];
    list->items = malloc((list->first[n + 1] + 1) * sizeof(*list->items));
    if (!list->items)
        return false;
    /* first[r + 1] runs from the beginning of r to its end, and so becomes the beginning of r + 1. */
    for (uint32_t i = 0; i < num_tasks; i++)
        for (uint32_t u = uses_of(build, &tasks[i], &uses); u-- > 0;)
            list->items[list->first[uses[u].resource + 1]++] = (struct wish){
                tasks[i].ready_seconds, tasks[i].end_seconds, tasks[i].bytes * uses[u].bytes_per_byte, tasks[i].name,
                tasks[i].stream};
    return true;
}

static int compare_wishes(const void *left, const void *right)
{
    const struct wish *a = left, *b = right;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->ready_seconds != b->ready_seconds)
        return a->ready_seconds < b->ready_seconds ? -1 : 1;
    return (a->end_seconds > b->end_seconds) - (a->end_seconds < b->end_seconds);
}

static int compare_by_time(const void *left, const void *right)
{
    const struct wish *a = left, *b = right;
    if (a->ready_seconds != b->ready_seconds)
        return a->ready_seconds < b->ready_seconds ? -1 : 1;
    return compare_wishes(left, right);
}

/* Adds bytes that were made evenly from `from` to `to` to the windows. */
static void spread(double *windows, uint32_t num_windows, double width, double from, double to, double bytes)
{
    const double first = fmax(0, from / width), last = fmin(num_windows - 1e-9, to / width);
    uint32_t w = (uint32_t)fmin(num_windows - 1, first);
    if (last - first < 1e-9) {
        windows[w] += bytes;
        return;
    }
    for (; w < num_windows && w < last; w++)
        windows[w] += bytes * (fmin(last, w + 1.0) - fmax(first, w)) / (last - first);
}

/* Bytes offered in each window. The bytes of a transfer are what came up since the one before it on its stream, a window ago
 * at most: a bucket that is ready at one moment was filled over the layers before. */
static void offered(struct wish *wishes, uint32_t count, double width, double *windows, uint32_t num_windows)
{
    memset(windows, 0, num_windows * sizeof(*windows));
    qsort(wishes, count, sizeof(*wishes), compare_wishes);
    for (uint32_t i = 0; i < count; i++) {
        const bool has_before = i > 0 && wishes[i - 1].stream == wishes[i].stream;
        double from = wishes[i].ready_seconds - width;
        if (has_before)
            from = fmax(from, wishes[i - 1].ready_seconds);
        spread(windows, num_windows, width, fmax(0, from), wishes[i].ready_seconds, wishes[i].bytes);
    }
}

struct pair {
    const char *names[2];
    double seconds;
};

static void add_overlap(struct pair *pairs, uint32_t *num_pairs, const char *a, const char *b, double seconds)
{
    if (strcmp(a, b) > 0) {
        const char *swap = a;
        a = b;
        b = swap;
    }
    uint32_t i = 0;
    while (i < *num_pairs && (strcmp(pairs[i].names[0], a) != 0 || strcmp(pairs[i].names[1], b) != 0))
        i++;
    if (i == MAX_PAIRS)
        return;
    if (i == *num_pairs)
        pairs[(*num_pairs)++] = (struct pair){{a, b}, 0};
    pairs[i].seconds += seconds;
}

/* The two different operations that want the link at once for the longest time. */
static void find_collision(struct wish *wishes, uint32_t count, struct tpp_simulated_contention *out)
{
    struct pair pairs[MAX_PAIRS];
    uint32_t num_pairs = 0;
    qsort(wishes, count, sizeof(*wishes), compare_by_time);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = i + 1; j < count && j <= i + MAX_OVERLAPS; j++) {
            const double seconds = fmin(wishes[i].end_seconds, wishes[j].end_seconds) - wishes[j].ready_seconds;
            if (wishes[j].ready_seconds >= wishes[i].end_seconds)
                break;
            if (seconds > 0 && strcmp(wishes[i].name, wishes[j].name) != 0)
                add_overlap(pairs, &num_pairs, wishes[i].name, wishes[j].name, seconds);
        }
    for (uint32_t i = 0; i < num_pairs; i++) {
        if (pairs[i].seconds <= out->collision_seconds)
            continue;
        out->collision_seconds = pairs[i].seconds;
        out->operations[0] = pairs[i].names[0];
        out->operations[1] = pairs[i].names[1];
    }
}

static uint32_t stage_of(const struct tpp_build *build, const struct tpp_resource *resource)
{
    switch (resource->kind) {
    case TPP_RESOURCE_LEAF_UPLINK:
    case TPP_RESOURCE_SPINE:
        return resource->owner;
    default:
        return resource->owner % build->num_stages;
    }
}

static void judge(const struct tpp_build *build, const struct wish_list *list, uint32_t index, double width,
                  double *windows, uint32_t num_windows, struct tpp_simulated_contention *worst)
{
    uint32_t count;
    const struct tpp_resource *resource = &tpp_graph_resources(build->graph, &count)[index];
    struct wish *wishes = &list->items[list->first[index]];
    const uint32_t num_wishes = list->first[index + 1] - list->first[index];
    if (num_wishes == 0)
        return;
    offered(wishes, num_wishes, width, windows, num_windows);
    uint32_t top = 0;
    for (uint32_t w = 1; w < num_windows; w++)
        if (windows[w] > windows[top])
            top = w;
    struct tpp_simulated_contention found = {
        .resource = resource->kind, .stage = stage_of(build, resource), .window_start_seconds = top * width,
        .window_seconds = width,
        .load_fraction = tpp_contention_load(windows[top], resource->bytes_per_second, width)};
    found.level = tpp_contention_level_of(found.load_fraction);
    struct tpp_simulated_contention *best = &worst[resource->kind];
    if (best->window_seconds > 0 && found.load_fraction <= best->load_fraction)
        return;
    find_collision(wishes, num_wishes, &found);
    *best = found;
}

/* Backward of the layers that fill one bucket, one layer at least: the representative period of 9.4. */
static double window_seconds(const struct tpp_build *build, double step_seconds)
{
    const bool is_dense = build->chunks[0].num_moe_layers < build->chunks[0].num_layers;
    const struct tpp_unit *layer = &build->units[is_dense ? TPP_UNIT_LAYER : TPP_UNIT_MOE];
    const double layer_elements = layer->elements[TPP_PARAMETERS_DENSE];
    const struct tpp_gradient_traffic *traffic = &build->traffic[TPP_PARAMETERS_DENSE];
    double seconds = layer->repeated_seconds;
    for (int pass = TPP_PASS_BACKWARD; pass <= TPP_PASS_WEIGHT; pass++)
        seconds += layer->compute_seconds[pass] + layer->other_seconds[pass];
    seconds += build->chunks[0].recomputed_fraction *
               (layer->compute_seconds[TPP_PASS_FORWARD] + layer->other_seconds[TPP_PASS_FORWARD] - layer->skipped_seconds);
    double layers = 1;
    const bool has_buckets = traffic->has_any || (build->is_sharded && build->evaluator->stack->engine ==
                                                                                 TPP_ENGINE_DEEPSPEED);
    if (has_buckets && layer_elements > 0) {
        const double elements = build->chunks[0].elements[TPP_PARAMETERS_DENSE];
        layers = elements /
                 tpp_gradient_num_buckets(build->evaluator->stack, &build->assembly.replicas, elements,
                                          build->is_sharded ? build->strategy->reduce_bucket_size
                                                            : traffic->reduce_bucket_size) /
                 layer_elements;
    }
    layers = fmax(1, fmin(layers, build->chunks[0].num_layers));
    return fmin(step_seconds, fmax(layers * seconds, step_seconds / MAX_WINDOWS));
}

static int compare_contention(const void *left, const void *right)
{
    const struct tpp_simulated_contention *a = left, *b = right;
    if (a->load_fraction != b->load_fraction)
        return a->load_fraction > b->load_fraction ? -1 : 1;
    return (a->resource > b->resource) - (a->resource < b->resource);
}

enum tpp_code tpp_simulation_contention(struct tpp_simulation *simulation, struct tpp_error *err)
{
    const struct tpp_build *build = &simulation->build;
    struct tpp_simulation_result *result = &simulation->result;
    if (result->step_seconds <= 0)
        return TPP_OK;
    const double width = window_seconds(build, result->step_seconds);
    const uint32_t num_windows = (uint32_t)fmax(1, ceil(result->step_seconds / width));
    struct tpp_simulated_contention worst[TPP_RESOURCE_KIND_COUNT] = {{0}};
    struct wish_list list = {NULL, NULL};
    double *windows = malloc(num_windows * sizeof(*windows));
    const bool has_memory = windows && make_wishes(build, &list);
    for (uint32_t r = 0; has_memory && r < build->num_resources; r++)
        judge(build, &list, r, width, windows, num_windows, worst);
    for (int kind = 0; kind < TPP_RESOURCE_KIND_COUNT; kind++)
        if (worst[kind].window_seconds > 0)
            result->contention[result->num_contentions++] = worst[kind];
    qsort(result->contention, result->num_contentions, sizeof(worst[0]), compare_contention);
    free(windows);
    free(list.items);
    free(list.first);
    return has_memory ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the links' loads");
}
