/* Collective times and group placement against examples E9, E12, E13, E14 and E17 of the specification. */
#include "costmodel/collective_time.h"
#include "hwprofiles/profiles.h"
#include "tests/support/check_number.h"

static struct tpp_links links_of(const char *profile)
{
    struct tpp_hardware hardware;
    assert_int_equal(tpp_hardware_find(profile, &hardware, NULL), TPP_OK);
    return tpp_links_make(&hardware, 0, 0);
}

static void times_are_those_of_example_e9(void **state)
{
    (void)state;
    const struct tpp_links a100 = links_of("dgx-a100-80g"), h100 = links_of("dgx-h100");
    const struct tpp_group node = tpp_group_place(8, 1, 8);
    const struct tpp_group rails = tpp_group_place(64, 8, 8), whole = tpp_group_place(64, 1, 8);
    CHECK_NUMBER(tpp_collective_seconds(&a100, TPP_ALL_REDUCE, &node, 100663296), 0.81615e-3, 1e-4);
    CHECK_NUMBER(tpp_collective_seconds(&h100, TPP_ALL_GATHER, &node, 67108864), 0.22874e-3, 1e-4);
    CHECK_NUMBER(tpp_collective_seconds(&h100, TPP_REDUCE_SCATTER, &rails, 4e8), 10.400e-3, 1e-4);
    CHECK_NUMBER(tpp_collective_seconds(&h100, TPP_ALL_GATHER, &whole, 4.36e8), 1.5914e-3, 1e-4);
    CHECK_NUMBER(tpp_collective_seconds(&h100, TPP_ALL_TO_ALL, &whole, 469762048), 10.051e-3, 1e-4);
}

static void a_layer_gather_over_32_nodes_is_example_e12(void **state)
{
    (void)state;
    /* 106,956,800 bf16 parameters over 32 ranks, one a node, at 42.5 GB/s: 2*106956800*31/32/42.5e9 = 4.876 ms, without
     * latency (8.4 us + 31 hops of 12 us) and ramp. */
    const struct tpp_links h100 = links_of("dgx-h100");
    const struct tpp_group group = tpp_group_place(32, 8, 8);
    const double bytes = 2 * 106956800.0, transfer = bytes * 31 / 32 / 42.5e9;
    CHECK_NUMBER(transfer, 4.876e-3, 1e-4);
    CHECK_NUMBER(tpp_collective_seconds(&h100, TPP_ALL_GATHER, &group, bytes),
                 8.4e-6 + 31 * 12e-6 + transfer * (1 + 16e6 / bytes), 1e-9);
}

static void rank_order_places_groups_as_in_example_e17(void **state)
{
    (void)state;
    /* N=128, t=4, c=2, dp=4, p=4, G=8: strides 1, 4, 8, 32; dp and pp groups have one rank in each node. */
    assert_int_equal(tpp_group_place(4, 1, 8).ranks_per_node, 4);
    assert_int_equal(tpp_group_place(2, 4, 8).ranks_per_node, 2);
    assert_int_equal(tpp_group_place(4, 8, 8).ranks_per_node, 1);
    assert_int_equal(tpp_group_place(4, 32, 8).ranks_per_node, 1);
    assert_int_equal(tpp_group_place(4, 32, 8).num_nodes, 4);
    assert_int_equal(tpp_group_place(4, 32, 8).node_span, 13); /* ranks 0 .. 96: nodes 0 .. 12 */
}

static void a_message_to_a_neighbour_has_a_latency_and_a_rate(void **state)
{
    (void)state;
    /* 6.1 P2P: 25 us, then 0.8 of the bus inside a node and 0.85 of a 25 GB/s port outside it. */
    struct tpp_links a100 = links_of("dgx-a100-80g");
    a100.bus_bytes_per_second[TPP_SEND_RECV] = 200e9;
    CHECK_NUMBER(tpp_send_recv_seconds(&a100, 0, 1, 913e6), 25e-6 + 913e6 / 160e9, 1e-12);
    CHECK_NUMBER(tpp_send_recv_seconds(&a100, 1, 1, 913e6), 25e-6 + 913e6 / (0.85 * 25e9), 1e-12);
}

/* 512 A100 on 64 nodes: 448 hops of 3.4 us inside them, 63 of 12 us between, 8.4 us to start, for each of 227 broadcasts (7 tensors
 * a layer of InternLM-7B and 3 more); together 14.6 GB at 8 * 0.85 * 25 GB/s, in parts of 64.3 MB, slower by 7 / 64.3. */
static void broadcasts_pay_the_whole_ring_each(void **state)
{
    (void)state;
    const struct tpp_links a100 = links_of("dgx-a100-80g");
    const struct tpp_group all = tpp_group_place(512, 1, 8), one = tpp_group_place(1, 1, 8), seven = tpp_group_place(7, 1, 8);
    CHECK_NUMBER(tpp_broadcasts_seconds(&a100, &all, 14.6e9, 227),
                 227 * (8.4e-6 + 448 * 3.4e-6 + 63 * 12e-6) + 14.6e9 / 170e9 * (1 + 7e6 * 227 / 14.6e9), 1e-9);
    /* In a node: 913 MB from each of 7 ranks at 225 GB/s, six hops. */
    CHECK_NUMBER(tpp_broadcasts_seconds(&a100, &seven, 7 * 913e6, 7),
                 7 * (8.4e-6 + 6 * 3.4e-6 + (913e6 + 7e6) / 225e9), 1e-9);
    assert_true(tpp_broadcasts_seconds(&a100, &one, 1e9, 1) == 0 && tpp_broadcasts_seconds(&a100, &all, 0, 5) == 0);
}

/* nccl-tests over two nodes of 8, 8 GiB: H200 with 8 x 400 Gb/s 33.17 ms (NVSwitch reduces), H100 with 8 x 200 Gb/s 47.5 ms, which is
 * more than the ports' nominal rate as bus bandwidth; A100 with 8 x 200 Gb/s 1 GiB in 11.3 ms, where the ring is as good. */
static void two_nodes_all_reduce_as_fast_as_measured(void **state)
{
    (void)state;
    const struct tpp_group two = tpp_group_place(16, 1, 8);
    const struct tpp_links h200 = links_of("dgx-h200"), a3 = links_of("gcp-a3-mega"), a100 = links_of("dgx-a100-80g");
    CHECK_NUMBER(tpp_collective_seconds(&h200, TPP_ALL_REDUCE, &two, 8589934592.0), 33.17e-3, 0.05);
    CHECK_NUMBER(tpp_collective_seconds(&a3, TPP_ALL_REDUCE, &two, 8589934592.0), 47.5e-3, 0.13); /* its training share of the ports */
    CHECK_NUMBER(tpp_collective_seconds(&a100, TPP_ALL_REDUCE, &two, 1073741824.0), 11.3e-3, 0.08);
}

/* 4 ports of 100 Gb/s for 8 A100, 0.85 of them for a ring: 42.5 GB/s a node. The ring takes 15/8 * 27 / 42.5 s, the trees 27 / 42.5 s,
 * which four channels of 23.6 GB/s carry at 47.2 GB/s inside; at 0.9 of that below 512 MiB. */
static void two_trees_cross_slow_ports_half_as_often(void **state)
{
    (void)state;
    struct tpp_hardware hardware;
    assert_int_equal(tpp_hardware_find("dgx-a100-80g", &hardware, NULL), TPP_OK);
    hardware.network.num_nics = 4;
    hardware.network.nic_bytes_per_second = 12.5e9;
    hardware.network.ring_efficiency_fraction = 0.85;
    hardware.node.half_rate_bytes = 0;
    hardware.node.base_latency_seconds = hardware.network.hop_latency_seconds = 0;
    struct tpp_links links = tpp_links_make(&hardware, 0, 0);
    const struct tpp_group two = tpp_group_place(16, 1, 8), three = tpp_group_place(24, 1, 8);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_REDUCE, &two, 27e9), 27 / 42.5, 1e-4);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_REDUCE, &two, 200e6), 0.2 / 42.5 / 0.9, 0.01);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_REDUCE, &three, 27e9), 2 * 23.0 / 24 * 27 / 42.5, 1e-3);
    /* Through one port of 10.625 GB/s. */
    links.ring_limit_bytes_per_second = 10.625e9;
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_REDUCE, &two, 27e9), 27 / 10.625, 1e-4);
    links.rings_only = true;
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_REDUCE, &two, 27e9), 2 * 15.0 / 16 * 27 / 10.625, 1e-3);
    links.rings_only = false;
    /* One rank in each node: nothing to save. */
    const struct tpp_group rails = tpp_group_place(2, 8, 8);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_REDUCE, &rails, 27e9),
                 tpp_collective_seconds(&links, TPP_ALL_GATHER, &rails, 2 * 27e9), 1e-4);
}

static void one_rank_and_no_bytes_cost_nothing(void **state)
{
    (void)state;
    const struct tpp_links a100 = links_of("dgx-a100-80g");
    const struct tpp_group one = tpp_group_place(1, 1, 8), seven = tpp_group_place(7, 1, 8);
    assert_true(tpp_collective_seconds(&a100, TPP_ALL_REDUCE, &one, 1e9) == 0);
    assert_true(tpp_collective_seconds(&a100, TPP_ALL_GATHER, &seven, 0) == 0);
}

static void a_placement_by_hand_makes_tensor_parallelism_cross_nodes(void **state)
{
    (void)state;
    /* Field note A4: a TP4 group placed 2+2 uses two NICs of the node instead of NVLink: at least 4x slower. */
    const struct tpp_links a100 = links_of("dgx-a100-80g");
    const struct tpp_group inside = tpp_group_place(4, 1, 8), across = tpp_group_place_by_hand(4, 2);
    assert_int_equal(across.num_nodes, 2);
    assert_true(tpp_collective_seconds(&a100, TPP_ALL_GATHER, &across, 1e8) >
                4 * tpp_collective_seconds(&a100, TPP_ALL_GATHER, &inside, 1e8));
}

static void a_spine_with_fewer_uplinks_slows_groups_that_leave_a_leaf(void **state)
{
    (void)state;
    struct tpp_links a100 = links_of("dgx-a100-80g");
    const struct tpp_group near = tpp_group_place(16, 8, 8), far = tpp_group_place(32, 8, 8);
    const double near_before = tpp_collective_seconds(&a100, TPP_ALL_GATHER, &near, 1e10);
    const double far_before = tpp_collective_seconds(&a100, TPP_ALL_GATHER, &far, 1e10);
    a100.nodes_per_leaf = 20;
    a100.oversubscription = 2;
    assert_true(tpp_collective_seconds(&a100, TPP_ALL_GATHER, &near, 1e10) == near_before);
    CHECK_NUMBER(tpp_collective_seconds(&a100, TPP_ALL_GATHER, &far, 1e10), 2 * far_before, 0.01);
}

static void stages_that_send_through_the_spine_share_the_uplinks(void **state)
{
    (void)state;
    /* Leaves of 20 nodes, uplinks for a third of them. A stage of 40 nodes fills the leaf: a third of 0.85 * 25 GB/s. Of 9
     * nodes, 9 send at once through uplinks for 6.67: 1.35 times the time. Of 5 nodes, none waits. */
    struct tpp_links links = links_of("dgx-a100-80g");
    links.nodes_per_leaf = 20;
    links.oversubscription = 3;
    CHECK_NUMBER(tpp_stage_uplink_load(&links, 40), 3, 1e-12);
    CHECK_NUMBER(tpp_stage_uplink_load(&links, 9), 1.35, 1e-12);
    CHECK_NUMBER(tpp_send_recv_seconds(&links, 1, tpp_stage_uplink_load(&links, 9), 913e6),
                 25e-6 + 1.35 * 913e6 / (0.85 * 25e9), 1e-12);
    CHECK_NUMBER(tpp_send_recv_seconds(&links, 1, tpp_stage_uplink_load(&links, 5), 913e6),
                 25e-6 + 913e6 / (0.85 * 25e9), 1e-12);
    /* Context parallelism around a ring that leaves the leaf. */
    const struct tpp_group far = tpp_group_place(32, 8, 8);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_SEND_RECV, &far, 913e6), 25e-6 + 3 * 913e6 / (0.85 * 25e9), 1e-12);
    links.nodes_per_leaf = 0;
    CHECK_NUMBER(tpp_stage_uplink_load(&links, 40), 1, 1e-12);
}

static void a_ring_of_one_port_is_as_fast_as_that_port(void **state)
{
    (void)state;
    /* Four ports of 12.5 GB/s for 8 GPUs, 0.3 of them for rings: 8 ranks of a node have 15 GB/s, but 10.625 through one port;
     * 2 ranks have 3.75. All-gather of 27 GB over 8 nodes: 63/64 * 27 / 10.625 s, and 15/16 * 27 / 3.75 s. Inside a node
     * nothing changes. */
    struct tpp_links links = links_of("dgx-a100-80g");
    links.base_latency_seconds = links.hop_latency_seconds = links.network_latency_seconds = links.half_rate_bytes = 0;
    links.nic_bytes_per_second = 6.25e9;
    links.ring_efficiency_fraction = 0.3;
    const struct tpp_group all = tpp_group_place(64, 1, 8), quarter = tpp_group_place(16, 4, 8);
    const struct tpp_group node = tpp_group_place(8, 1, 8);
    const double inside = tpp_collective_seconds(&links, TPP_ALL_GATHER, &node, 27e9);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_GATHER, &all, 27e9), 63.0 / 64 * 27 / 15, 1e-9);
    links.ring_limit_bytes_per_second = 0.85 * 12.5e9;
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_GATHER, &all, 27e9), 63.0 / 64 * 27 / 10.625, 1e-9);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_GATHER, &quarter, 27e9), 15.0 / 16 * 27 / 3.75, 1e-9);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_GATHER, &node, 27e9), inside, 0);
}

static void what_leaves_a_node_without_nvlink_passes_its_pcie(void **state)
{
    (void)state;
    /* 64 ranks, 8 a node, exchange 6.4 GB each: 56/64 of it leaves through a port of 10 GB/s, 0.56 s; 63/64 of it passes a PCIe
     * of 5 GB/s, 1.26 s. With NVLink at that rate 7/64 of it did, 0.14 s. */
    struct tpp_links links = links_of("l40s-pcie");
    const struct tpp_group all = tpp_group_place(64, 1, 8);
    links.half_rate_bytes = links.base_latency_seconds = 0;
    links.nic_bytes_per_second = 10e9;
    links.ring_efficiency_fraction = links.oversubscription = 1;
    links.bus_bytes_per_second[TPP_ALL_TO_ALL] = 5e9;
    const double latency = 7 * 6e-6; /* 6.1: for every other node */
    assert_true(links.is_port_shared && !links_of("dgx-h100").is_port_shared);
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_TO_ALL, &all, 6.4e9), 1.26 + latency, 1e-9);
    links.is_port_shared = false;
    CHECK_NUMBER(tpp_collective_seconds(&links, TPP_ALL_TO_ALL, &all, 6.4e9), 0.56 + latency, 1e-9);
}

static void a_token_is_sent_once_to_every_node_it_is_wanted_on(void **state)
{
    (void)state;
    /* DeepSeek-V3 over 64 ranks, 8 a node: 8 of 256 experts at random lie on 8 (1 - C(224,8)/C(256,8)) = 5.294652 of 8
     * nodes and on 64 (1 - C(252,8)/C(256,8)) = 7.675750 of 64 ranks. */
    const struct tpp_token_dispatch dispatch = {.bytes = 4096 * 7168 * 2.0, .experts_per_token = 8, .num_experts = 256};
    CHECK_NUMBER(tpp_expected_parts(&dispatch, 8), 5.294652, 1e-6);
    CHECK_NUMBER(tpp_expected_parts(&dispatch, 64), 7.675750, 1e-6);
    CHECK_NUMBER(tpp_expected_parts(&dispatch, 1), 1, 1e-12);
    const struct tpp_token_dispatch all = {.bytes = 1, .experts_per_token = 7, .num_experts = 7};
    CHECK_NUMBER(tpp_expected_parts(&all, 7), 7, 1e-12);
}

static void groups_of_experts_limit_the_nodes_of_a_token(void **state)
{
    (void)state;
    /* DeepSeek-V3 takes 4 of 8 groups of 32 experts, then 8 of their 128. 8 nodes: 8 4/8 (1 - C(96,8)/C(128,8)); 64 ranks:
     * 64 4/8 (1 - C(124,8)/C(128,8)). 2 nodes of 4 groups: 0 to 4 of a node's are taken, (1, 16, 36, 16, 1) / 70, and hit with
     * 1 - C(128 - 32 j, 8)/C(128,8). */
    const struct tpp_token_dispatch dispatch = {.bytes = 1, .experts_per_token = 8, .num_experts = 256, .num_groups = 8,
                                                .groups_per_token = 4};
    CHECK_NUMBER(tpp_expected_parts(&dispatch, 8), 3.629010924, 1e-9);
    CHECK_NUMBER(tpp_expected_parts(&dispatch, 64), 7.359370078, 1e-9);
    CHECK_NUMBER(tpp_expected_parts(&dispatch, 4), 2.928209787, 1e-9);
    CHECK_NUMBER(tpp_expected_parts(&dispatch, 2), 1.925842139, 1e-9);
    CHECK_NUMBER(tpp_expected_parts(&dispatch, 1), 1, 1e-12);
    assert_true(tpp_expected_parts(&dispatch, 3) <= 4); /* no whole groups a node */
    /* All groups are no limit but for the order of the draw. */
    const struct tpp_token_dispatch all = {.experts_per_token = 8, .num_experts = 256, .num_groups = 8,
                                           .groups_per_token = 8};
    const struct tpp_token_dispatch none = {.experts_per_token = 8, .num_experts = 256};
    for (double parts = 1; parts <= 256; parts *= 2)
        CHECK_NUMBER(tpp_expected_parts(&all, parts), tpp_expected_parts(&none, parts), 1e-12);
}

static void token_dispatch_reaches_the_published_rates(void **state)
{
    (void)state;
    /* DeepEP's README counts what a token's nodes receive, its own among them: 90 GB/s on 2 nodes and 61 GB/s on 4 with a
     * 400 Gb/s NIC for each GPU. 61 GB/s is 45.75 over the wire, 90 is 45: within 2 %. */
    struct tpp_links links = links_of("dgx-h100");
    links.bus_bytes_per_second[TPP_ALL_TO_ALL] = 1e15; /* the NIC alone */
    links.base_latency_seconds = links.network_latency_seconds = links.half_rate_bytes = 0;
    const struct tpp_token_dispatch dispatch = {.bytes = 4096 * 7168 * 2.0, .experts_per_token = 8, .num_experts = 256};
    const struct tpp_group two = tpp_group_place(16, 1, 8), four = tpp_group_place(32, 1, 8);
    CHECK_NUMBER(dispatch.bytes * tpp_expected_parts(&dispatch, 2) / tpp_dispatch_seconds(&links, &two, &dispatch), 90e9,
                 0.02);
    CHECK_NUMBER(dispatch.bytes * tpp_expected_parts(&dispatch, 4) / tpp_dispatch_seconds(&links, &four, &dispatch), 61e9,
                 0.02);
    /* One node: once to each rank, 7/8 of it over NVLink at 100 GB/s. 8 (1 - C(224,8)/C(256,8)) copies. */
    links.bus_bytes_per_second[TPP_ALL_TO_ALL] = 100e9;
    const struct tpp_group one = tpp_group_place(8, 1, 8);
    CHECK_NUMBER(tpp_dispatch_seconds(&links, &one, &dispatch), 58720256.0 * 5.294652 * 7 / 8 / 100e9, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_those_of_example_e9),
        cmocka_unit_test(a_layer_gather_over_32_nodes_is_example_e12),
        cmocka_unit_test(rank_order_places_groups_as_in_example_e17),
        cmocka_unit_test(a_message_to_a_neighbour_has_a_latency_and_a_rate),
        cmocka_unit_test(broadcasts_pay_the_whole_ring_each),
        cmocka_unit_test(two_nodes_all_reduce_as_fast_as_measured),
        cmocka_unit_test(two_trees_cross_slow_ports_half_as_often),
        cmocka_unit_test(one_rank_and_no_bytes_cost_nothing),
        cmocka_unit_test(a_placement_by_hand_makes_tensor_parallelism_cross_nodes),
        cmocka_unit_test(stages_that_send_through_the_spine_share_the_uplinks),
        cmocka_unit_test(a_ring_of_one_port_is_as_fast_as_that_port),
        cmocka_unit_test(what_leaves_a_node_without_nvlink_passes_its_pcie),
        cmocka_unit_test(a_token_is_sent_once_to_every_node_it_is_wanted_on),
        cmocka_unit_test(groups_of_experts_limit_the_nodes_of_a_token),
        cmocka_unit_test(token_dispatch_reaches_the_published_rates),
        cmocka_unit_test(a_spine_with_fewer_uplinks_slows_groups_that_leave_a_leaf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
