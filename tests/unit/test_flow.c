/* Transfers on shared links: the fair and the FIFO end times of example E12, and laws of max-min fair sharing. */
#include "costmodel/simulator/flow.h"
#include "tests/support/check_number.h"
#include "tests/support/random.h"

#include <math.h>
#include <string.h>

enum { MAX_FLOWS = 24, MAX_RESOURCES = 6 };

struct arrival {
    double seconds;
    struct tpp_flow flow;
    struct tpp_flow_use uses[3];
};

/* Runs the flows to their ends. `arrivals` in order of time; checks every resource at every event. */
static void run_flows(const struct tpp_resource *resources, uint32_t num_resources, uint32_t num_domains,
                      const struct arrival *arrivals, uint32_t count, double *ends)
{
    struct tpp_flow_network *network;
    assert_int_equal(tpp_flow_network_new(resources, num_resources, num_domains, &network, NULL), TPP_OK);
    for (uint32_t next = 0, finished = 0; finished < count;) {
        const double event = tpp_flow_next_seconds(network);
        uint32_t tag;
        if (next < count && arrivals[next].seconds < event) {
            struct tpp_flow flow = arrivals[next].flow;
            flow.uses = arrivals[next].uses;
            bool has_begun;
            assert_int_equal(tpp_flow_start(network, arrivals[next].seconds, &flow, next, &has_begun, NULL), TPP_OK);
            next++;
        } else if (tpp_flow_step(network, event, &tag) == TPP_FLOW_FINISHED) {
            ends[tag] = event;
            finished++;
        }
        for (uint32_t r = 0; r < num_resources; r++)
            assert_true(tpp_flow_used_bytes_per_second(network, r) <= resources[r].bytes_per_second * (1 + 1e-9));
    }
    for (uint32_t r = 0; r < num_resources; r++) { /* what went in came out */
        double sum = 0;
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t u = 0; u < arrivals[i].flow.num_uses; u++)
                sum += arrivals[i].uses[u].resource == r ? arrivals[i].flow.bytes * arrivals[i].uses[u].bytes_per_byte
                                                         : 0;
        CHECK_NUMBER(tpp_flow_moved_bytes(network, r), sum, 1e-12);
        assert_true(tpp_flow_used_bytes_per_second(network, r) == 0);
    }
    assert_true(tpp_flow_next_seconds(network) == INFINITY);
    tpp_flow_network_free(network);
}

static const struct tpp_resource nic = {TPP_RESOURCE_NIC_OUT, 0, 42.5e9};

static struct arrival on_nic(double seconds, double bytes, uint32_t domain)
{
    return (struct arrival){.seconds = seconds,
                            .flow = {.bytes = bytes, .max_bytes_per_second = INFINITY, .domain = domain, .num_uses = 1},
                            .uses = {{0, 1}}};
}

static void fair_sharing_is_example_e12(void **state)
{
    (void)state;
    /* 1 GB from 0, 0.1 GB from 5 ms, 42.5 GB/s: both at half rate from 5 ms; small 5 + 0.1/21.25 = 9.706 ms, then
     * big has 0.7875 - 0.1 GB left: 9.706 + 16.176 = 25.882 ms. */
    const struct arrival arrivals[] = {on_nic(0, 1e9, TPP_NO_DOMAIN), on_nic(5e-3, 1e8, TPP_NO_DOMAIN)};
    double ends[2];
    run_flows(&nic, 1, 0, arrivals, 2, ends);
    CHECK_NUMBER(ends[1], 9.706e-3, 5e-5);
    CHECK_NUMBER(ends[0], 25.882e-3, 5e-5);
}

static void one_communicator_is_first_come_first_served(void **state)
{
    (void)state;
    const struct arrival arrivals[] = {on_nic(0, 1e9, 0), on_nic(5e-3, 1e8, 0)};
    double ends[2];
    run_flows(&nic, 1, 1, arrivals, 2, ends);
    CHECK_NUMBER(ends[0], 23.529e-3, 5e-5);
    CHECK_NUMBER(ends[1], 25.882e-3, 5e-5);
}

static void a_flow_at_its_limit_leaves_the_rest_to_others(void **state)
{
    (void)state;
    /* Limits 5 and none on 42.5 GB/s: 0.1 GB at 5 GB/s takes 20 ms; 0.75 GB at 37.5 GB/s takes 20 ms as well. */
    struct arrival arrivals[] = {on_nic(0, 1e8, TPP_NO_DOMAIN), on_nic(0, 7.5e8, TPP_NO_DOMAIN)};
    arrivals[0].flow.max_bytes_per_second = 5e9;
    double ends[2];
    run_flows(&nic, 1, 0, arrivals, 2, ends);
    CHECK_NUMBER(ends[0], 20e-3, 1e-9);
    CHECK_NUMBER(ends[1], 20e-3, 1e-9);
}

static void the_textbook_line_of_links_is_shared_max_min(void **state)
{
    (void)state;
    /* Links of 10 and 16: the long flow crosses both, one short flow on each. Level 5 fills the first link; the short one
     * of the second link takes what is left of it, 11. Bytes 5, 5, 11: all end after 1 s. */
    const struct tpp_resource links[] = {{TPP_RESOURCE_NVLINK_OUT, 0, 10}, {TPP_RESOURCE_NIC_OUT, 0, 16}};
    const struct tpp_flow plain = {.max_bytes_per_second = INFINITY, .domain = TPP_NO_DOMAIN, .num_uses = 1};
    struct arrival arrivals[3] = {{.flow = plain, .uses = {{0, 1}, {1, 1}}},
                                  {.flow = plain, .uses = {{0, 1}}},
                                  {.flow = plain, .uses = {{1, 1}}}};
    arrivals[0].flow.num_uses = 2;
    arrivals[0].flow.bytes = arrivals[1].flow.bytes = 5;
    arrivals[2].flow.bytes = 11;
    double ends[3];
    run_flows(links, 2, 0, arrivals, 3, ends);
    for (int i = 0; i < 3; i++)
        CHECK_NUMBER(ends[i], 1, 1e-12);
}

static void latency_holds_the_domain_but_no_bandwidth(void **state)
{
    (void)state;
    /* First: 3 ms latent, then 0.0425 GB in 1 ms alone. Second, same communicator: 4 + 3 + 1. Third, another one: only the
     * wire, free until 3 ms: 0.0425 GB by 1 ms. */
    struct arrival arrivals[] = {on_nic(0, 4.25e7, 0), on_nic(0, 4.25e7, 0), on_nic(0, 4.25e7, 1)};
    arrivals[0].flow.latency_seconds = arrivals[1].flow.latency_seconds = 3e-3;
    double ends[3];
    run_flows(&nic, 1, 2, arrivals, 3, ends);
    CHECK_NUMBER(ends[0], 4e-3, 1e-9);
    CHECK_NUMBER(ends[1], 8e-3, 1e-9);
    CHECK_NUMBER(ends[2], 1e-3, 1e-9);
}

static void make_case(struct tpp_random *random, struct tpp_resource *resources, uint32_t *num_resources,
                      struct arrival *arrivals, uint32_t *count)
{
    *num_resources = (uint32_t)tpp_random_range(random, 1, MAX_RESOURCES);
    *count = (uint32_t)tpp_random_range(random, 1, MAX_FLOWS);
    for (uint32_t r = 0; r < *num_resources; r++)
        resources[r] = (struct tpp_resource){TPP_RESOURCE_NIC_OUT, r, tpp_random_log_uniform(random, 1, 100)};
    double now = 0;
    for (uint32_t i = 0; i < *count; i++) {
        struct arrival *arrival = &arrivals[i];
        now += tpp_random_range(random, 0, 1) ? tpp_random_uniform(random, 0, 2) : 0;
        *arrival = (struct arrival){.seconds = now,
                                    .flow = {.latency_seconds = tpp_random_range(random, 0, 2) ? 0 : 0.3,
                                             .bytes = tpp_random_log_uniform(random, 0.1, 300),
                                             .max_bytes_per_second = tpp_random_log_uniform(random, 0.5, 200),
                                             .domain = TPP_NO_DOMAIN}};
        const uint32_t first = (uint32_t)tpp_random_range(random, 0, *num_resources - 1);
        const uint32_t most = *num_resources < 3 ? *num_resources : 3;
        arrival->flow.num_uses = (uint32_t)tpp_random_range(random, 1, most);
        for (uint32_t u = 0; u < arrival->flow.num_uses; u++)
            arrival->uses[u] = (struct tpp_flow_use){(first + u) % *num_resources, tpp_random_uniform(random, 0.2, 3)};
    }
}

/* Nobody is faster than alone: latency + bytes over the smallest of the limit and the links. */
static void check_alone(const struct tpp_resource *resources, const struct arrival *arrivals, uint32_t count,
                        const double *ends)
{
    for (uint32_t i = 0; i < count; i++) {
        double rate = arrivals[i].flow.max_bytes_per_second;
        for (uint32_t u = 0; u < arrivals[i].flow.num_uses; u++)
            rate = fmin(rate, resources[arrivals[i].uses[u].resource].bytes_per_second /
                                  arrivals[i].uses[u].bytes_per_byte);
        const double alone = arrivals[i].flow.latency_seconds + arrivals[i].flow.bytes / rate;
        assert_true(ends[i] - arrivals[i].seconds >= alone * (1 - 1e-9));
    }
}

static double last_of(const double *ends, uint32_t count)
{
    double last = 0;
    for (uint32_t i = 0; i < count; i++)
        last = fmax(last, ends[i]);
    return last;
}

static void conservation_capacity_and_lower_bounds_hold(void **state)
{
    (void)state;
    struct tpp_random random = {20261129};
    for (int i = 0; i < 3000; i++) {
        struct tpp_resource resources[MAX_RESOURCES];
        struct arrival arrivals[MAX_FLOWS];
        uint32_t num_resources, count;
        double ends[MAX_FLOWS];
        make_case(&random, resources, &num_resources, arrivals, &count);
        run_flows(resources, num_resources, 0, arrivals, count, ends);
        check_alone(resources, arrivals, count, ends);
    }
}

static void more_bandwidth_is_never_slower(void **state)
{
    (void)state;
    /* On one shared link, flow by flow: on several, a faster link may let a flow take more of another one, so that single
     * flows can end later. */
    struct tpp_random random = {7};
    for (int i = 0; i < 2000; i++) {
        struct tpp_resource resources[MAX_RESOURCES];
        struct arrival arrivals[MAX_FLOWS];
        uint32_t num_resources, count;
        double before[MAX_FLOWS], after[MAX_FLOWS];
        make_case(&random, resources, &num_resources, arrivals, &count);
        for (uint32_t f = 0; f < count; f++) {
            arrivals[f].flow.num_uses = 1;
            arrivals[f].uses[0].resource = 0;
        }
        run_flows(resources, 1, 0, arrivals, count, before);
        resources[0].bytes_per_second *= tpp_random_uniform(&random, 1, 5);
        run_flows(resources, 1, 0, arrivals, count, after);
        for (uint32_t f = 0; f < count; f++)
            assert_true(after[f] <= before[f] * (1 + 1e-9));
    }
}

static void all_links_faster_by_one_factor_end_sooner(void **state)
{
    (void)state;
    struct tpp_random random = {8};
    for (int i = 0; i < 2000; i++) {
        struct tpp_resource resources[MAX_RESOURCES];
        struct arrival arrivals[MAX_FLOWS];
        uint32_t num_resources, count;
        double before[MAX_FLOWS], after[MAX_FLOWS];
        make_case(&random, resources, &num_resources, arrivals, &count);
        for (uint32_t f = 0; f < count; f++) { /* a batch: then time only scales */
            arrivals[f].seconds = 0;
            arrivals[f].flow.latency_seconds = 0;
            arrivals[f].flow.max_bytes_per_second = INFINITY;
        }
        run_flows(resources, num_resources, 0, arrivals, count, before);
        for (uint32_t r = 0; r < num_resources; r++)
            resources[r].bytes_per_second *= 1.7;
        run_flows(resources, num_resources, 0, arrivals, count, after);
        CHECK_NUMBER(last_of(after, count), last_of(before, count) / 1.7, 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fair_sharing_is_example_e12),
        cmocka_unit_test(one_communicator_is_first_come_first_served),
        cmocka_unit_test(a_flow_at_its_limit_leaves_the_rest_to_others),
        cmocka_unit_test(the_textbook_line_of_links_is_shared_max_min),
        cmocka_unit_test(latency_holds_the_domain_but_no_bandwidth),
        cmocka_unit_test(conservation_capacity_and_lower_bounds_hold),
        cmocka_unit_test(more_bandwidth_is_never_slower),
        cmocka_unit_test(all_links_faster_by_one_factor_end_sooner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
