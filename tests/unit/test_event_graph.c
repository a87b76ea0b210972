/* The event graph: streams, dependencies, slow-down of compute, communicators, and the error for a circle. */
#include "costmodel/simulator/event_graph.h"
#include "tests/support/check_number.h"

#include <math.h>

static const uint32_t device_zero[] = {0};
static const struct tpp_flow_use whole_port[] = {{0, 1}};

static struct tpp_graph *make_graph(double slowdown, bool records_links)
{
    static const struct tpp_resource port = {TPP_RESOURCE_NIC_OUT, 0, 10};
    const struct tpp_graph_setup setup = {.num_devices = 2, .resources = &port, .num_resources = 1, .num_domains = 1,
                                          .overlap_slowdown_fraction = slowdown, .records_links = records_links};
    struct tpp_graph *graph;
    assert_int_equal(tpp_graph_new(&setup, &graph, NULL), TPP_OK);
    return graph;
}

static uint32_t add_route(struct tpp_graph *graph, uint32_t domain, bool slows_compute)
{
    const struct tpp_graph_route route = {1, whole_port, domain, 1, device_zero, slows_compute};
    return tpp_graph_add_route(graph, &route);
}

static uint32_t add_compute(struct tpp_graph *graph, uint32_t stream, double seconds)
{
    const struct tpp_graph_task task = {.name = "work", .seconds = seconds, .slowed_fraction = 1, .stream = stream,
                                        .kind = TPP_GRAPH_COMPUTE};
    return tpp_graph_add_task(graph, &task);
}

static uint32_t add_transfer(struct tpp_graph *graph, uint32_t stream, uint32_t route, double bytes)
{
    const struct tpp_graph_task task = {.name = "move", .bytes = bytes, .max_bytes_per_second = INFINITY,
                                        .stream = stream, .route = route, .kind = TPP_GRAPH_TRANSFER};
    return tpp_graph_add_task(graph, &task);
}

static void run_to_end(struct tpp_graph *graph)
{
    bool done = false;
    while (!done)
        assert_int_equal(tpp_graph_run(graph, 3, &done, NULL), TPP_OK);
}

static double end_of(const struct tpp_graph *graph, uint32_t task)
{
    uint32_t count;
    return tpp_graph_tasks(graph, &count)[task].end_seconds;
}

static void streams_run_in_order_and_wait_for_what_they_need(void **state)
{
    (void)state;
    struct tpp_graph *graph = make_graph(0, false);
    const uint32_t a = tpp_graph_add_stream(graph, 0, TPP_TRACK_COMPUTE);
    const uint32_t b = tpp_graph_add_stream(graph, 1, TPP_TRACK_COMPUTE);
    const uint32_t first = add_compute(graph, a, 2), second = add_compute(graph, a, 3);
    const uint32_t other = add_compute(graph, b, 1), last = add_compute(graph, b, 4);
    tpp_graph_depend(graph, second, other);
    tpp_graph_depend(graph, last, second);
    run_to_end(graph);
    CHECK_NUMBER(end_of(graph, first), 2, 0);
    CHECK_NUMBER(end_of(graph, second), 5, 0);
    CHECK_NUMBER(end_of(graph, other), 1, 0);
    CHECK_NUMBER(end_of(graph, last), 9, 0);
    tpp_graph_free(graph);
}

static void compute_loses_sigma_of_the_overlap(void **state)
{
    (void)state;
    /* 4 s of work, a transfer of 10 B at 10 B/s in it, sigma 0.25: 4 + 0.25 * 1. */
    struct tpp_graph *graph = make_graph(0.25, false);
    const uint32_t compute = tpp_graph_add_stream(graph, 0, TPP_TRACK_COMPUTE);
    const uint32_t reduce = tpp_graph_add_stream(graph, 0, TPP_TRACK_REDUCE);
    const uint32_t first = add_compute(graph, compute, 1), work = add_compute(graph, compute, 4);
    const uint32_t transfer = add_transfer(graph, reduce, add_route(graph, TPP_NO_DOMAIN, true), 10);
    tpp_graph_depend(graph, transfer, first);
    run_to_end(graph);
    CHECK_NUMBER(end_of(graph, transfer), 2, 1e-12);
    CHECK_NUMBER(end_of(graph, work), 1 + 4.25, 1e-12);
    tpp_graph_free(graph);
}

static void two_transfers_at_once_slow_compute_once(void **state)
{
    (void)state;
    /* Both share the port: 10 B each are done after 2 s. Work 4 s loses 0.25 * 2. A quiet route loses nothing. */
    for (int slows = 0; slows < 2; slows++) {
        struct tpp_graph *graph = make_graph(0.25, false);
        const uint32_t compute = tpp_graph_add_stream(graph, 0, TPP_TRACK_COMPUTE);
        const uint32_t work = add_compute(graph, compute, 4);
        const uint32_t route = add_route(graph, TPP_NO_DOMAIN, slows == 1);
        for (int i = 0; i < 2; i++)
            add_transfer(graph, tpp_graph_add_stream(graph, 0, TPP_TRACK_REDUCE), route, 10);
        run_to_end(graph);
        CHECK_NUMBER(end_of(graph, work), slows ? 4.5 : 4, 1e-12);
        tpp_graph_free(graph);
    }
}

static void a_queued_transfer_starts_when_its_communicator_is_free(void **state)
{
    (void)state;
    struct tpp_graph *graph = make_graph(0.5, true);
    const uint32_t compute = tpp_graph_add_stream(graph, 0, TPP_TRACK_COMPUTE);
    const uint32_t route = add_route(graph, 0, true);
    const uint32_t first = add_transfer(graph, tpp_graph_add_stream(graph, 0, TPP_TRACK_REDUCE), route, 20);
    const uint32_t second = add_transfer(graph, tpp_graph_add_stream(graph, 0, TPP_TRACK_GATHER), route, 10);
    const uint32_t work = add_compute(graph, compute, 2);
    run_to_end(graph);
    uint32_t count;
    const struct tpp_graph_task *tasks = tpp_graph_tasks(graph, &count);
    assert_int_equal(count, 3);
    CHECK_NUMBER(tasks[first].end_seconds, 2, 1e-12);
    assert_true(tasks[second].ready_seconds == 0);
    CHECK_NUMBER(tasks[second].start_seconds, 2, 1e-12);
    CHECK_NUMBER(tasks[second].end_seconds, 3, 1e-12);
    /* Half rate for 3 s, then 0.5 s more. */
    CHECK_NUMBER(tasks[work].end_seconds, 3.5, 1e-12);
    size_t num_samples;
    const struct tpp_graph_link_sample *samples = tpp_graph_link_samples(graph, &num_samples);
    assert_true(num_samples >= 2 && samples[num_samples - 1].bytes_per_second == 0);
    CHECK_NUMBER(samples[num_samples - 1].seconds, 3, 1e-12);
    tpp_graph_free(graph);
}

static void a_circle_is_reported(void **state)
{
    (void)state;
    struct tpp_graph *graph = make_graph(0, false);
    const uint32_t a = add_compute(graph, tpp_graph_add_stream(graph, 0, TPP_TRACK_COMPUTE), 1);
    const uint32_t b = add_compute(graph, tpp_graph_add_stream(graph, 1, TPP_TRACK_COMPUTE), 1);
    tpp_graph_depend(graph, a, b);
    tpp_graph_depend(graph, b, a);
    bool done;
    struct tpp_error err;
    assert_int_equal(tpp_graph_run(graph, UINT64_MAX, &done, &err), TPP_E_INTERNAL);
    assert_string_equal(err.message, "the simulated step waits for itself: work of micro-batch 0");
    tpp_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_run_in_order_and_wait_for_what_they_need),
        cmocka_unit_test(compute_loses_sigma_of_the_overlap),
        cmocka_unit_test(two_transfers_at_once_slow_compute_once),
        cmocka_unit_test(a_queued_transfer_starts_when_its_communicator_is_free),
        cmocka_unit_test(a_circle_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
