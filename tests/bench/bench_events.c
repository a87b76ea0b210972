/* How many events a second the simulator handles on one core: 1F1B-like streams of 16 and of 64 devices, each with transfers to the
 * next device, as one long graph; and the same without transfers. Building is not counted. Prints the median of several
 * repeats. */
#include "costmodel/simulator/event_graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NUM_REPEATS = 5, NUM_TASKS = 600000, MAX_DEVICES = 64 };

/* Time of this process: other programs on the machine do not count. */
static double now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void check(enum tpp_code code, const struct tpp_error *err)
{
    if (code != TPP_OK) {
        fprintf(stderr, "bench_events: %s\n", err->message);
        exit(1);
    }
}

static uint32_t add(struct tpp_graph *graph, uint32_t stream, uint32_t route, bool is_transfer, uint32_t i)
{
    const struct tpp_graph_task task = {.name = "work", .seconds = is_transfer ? 1e-5 : 1e-3 * (1 + i % 7 * 0.01),
                                        .slowed_fraction = 1, .bytes = 1e6, .max_bytes_per_second = 5e10, .stream = stream, .route = route,
                                        .kind = is_transfer ? TPP_GRAPH_TRANSFER : TPP_GRAPH_COMPUTE};
    return tpp_graph_add_task(graph, &task);
}

/* Every device works off its list; task i of device d needs task i of device d-1, through a transfer if asked for. */
static void build(struct tpp_graph *graph, uint32_t num_devices, bool has_transfers)
{
    static uint32_t devices[MAX_DEVICES];
    static struct tpp_flow_use uses[MAX_DEVICES];
    static uint32_t before[NUM_TASKS];
    uint32_t streams[MAX_DEVICES][2], routes[MAX_DEVICES];
    for (uint32_t d = 0; d < num_devices; d++) {
        devices[d] = d;
        uses[d] = (struct tpp_flow_use){d, 1};
        const struct tpp_graph_route route = {1, &uses[d], TPP_NO_DOMAIN, 1, &devices[d], true};
        routes[d] = tpp_graph_add_route(graph, &route);
        streams[d][0] = tpp_graph_add_stream(graph, d, TPP_TRACK_COMPUTE);
        streams[d][1] = tpp_graph_add_stream(graph, d, TPP_TRACK_SEND_FORWARD);
    }
    const uint32_t each = NUM_TASKS / num_devices / (has_transfers ? 2 : 1);
    for (uint32_t d = 0; d < num_devices; d++)
        for (uint32_t i = 0; i < each; i++) {
            const uint32_t task = add(graph, streams[d][0], 0, false, i);
            if (d > 0)
                tpp_graph_depend(graph, task, before[i]);
            before[i] = task;
            if (has_transfers) {
                before[i] = add(graph, streams[d][1], routes[d], true, i);
                tpp_graph_depend(graph, before[i], task);
            }
        }
}

static double one_rate(uint32_t num_devices, bool has_transfers)
{
    struct tpp_resource resources[MAX_DEVICES];
    for (uint32_t d = 0; d < num_devices; d++)
        resources[d] = (struct tpp_resource){TPP_RESOURCE_NIC_OUT, d, 5e10};
    const struct tpp_graph_setup setup = {.num_devices = num_devices, .resources = resources,
                                          .num_resources = num_devices, .overlap_slowdown_fraction = 0.25};
    struct tpp_graph *graph;
    struct tpp_error err;
    check(tpp_graph_new(&setup, &graph, &err), &err);
    build(graph, num_devices, has_transfers);
    bool done;
    const double start = now_seconds();
    check(tpp_graph_run(graph, UINT64_MAX, &done, &err), &err);
    const double rate = (double)tpp_graph_num_events(graph) / (now_seconds() - start);
    tpp_graph_free(graph);
    return rate;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    for (int row = 0; row < 4; row++) {
        const uint32_t num_devices = row % 2 ? 64 : 16;
        double rates[NUM_REPEATS];
        for (int i = 0; i < NUM_REPEATS; i++)
            rates[i] = one_rate(num_devices, row >= 2);
        qsort(rates, NUM_REPEATS, sizeof rates[0], compare);
        printf("%2u devices, %s: %.2f million events a second (%.2f to %.2f)\n", num_devices,
               row >= 2 ? "compute and transfers" : "compute", rates[NUM_REPEATS / 2] * 1e-6, rates[0] * 1e-6,
               rates[NUM_REPEATS - 1] * 1e-6);
    }
    return 0;
}
