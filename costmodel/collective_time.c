#include "costmodel/collective_time.h"

#include <math.h>

/* Hop latencies of NCCL's tree and NVLS paths and the all-to-all cost per peer node, cost-model 6.1 (NCCL's own tuning
 * constants, its source [S12]). */
static const double tree_hop_seconds = 1.2e-6;
static const double nvls_seconds = 6e-6;
static const double all_to_all_node_seconds = 6e-6;
static const double send_recv_latency_seconds = 25e-6;
static const double tree_network_fraction = 0.9;
/* NCCL's src/graph/tuning.cc: a tree over two nodes carries half of what its channels do, 0.92 of the bus or 23.6 GB/s a channel
 * on Ampere (18.5 on Volta), of which there is one for each network port; less of messages of less than 512 MiB. From Hopper on
 * the switch reduces (NVLSTree). */
static const double tree_bus_fraction = 0.92, tree_channel_bytes_per_second[] = {18.5e9, 23.6e9};
static const double nvls_capability = 9, ampere_capability = 8;
static const struct {
    double bytes, fraction;
} tree_sizes[] = {{512 << 20, 1}, {128 << 20, 0.9}, {64 << 20, 0.8}, {0, 0.7}};
static const double send_recv_bus_fraction = 0.8;

struct tpp_group tpp_group_place_by_hand(uint32_t size, uint32_t ranks_per_node)
{
    struct tpp_group group = {.size = size, .stride = 1, .ranks_per_node = ranks_per_node};
    if (group.ranks_per_node < 1)
        group.ranks_per_node = 1;
    if (group.ranks_per_node > size)
        group.ranks_per_node = size;
    group.num_nodes = (size + group.ranks_per_node - 1) / group.ranks_per_node;
    group.node_span = group.num_nodes;
    return group;
}

struct tpp_group tpp_group_place(uint32_t size, uint32_t stride, uint32_t gpus_per_node)
{
    struct tpp_group group = tpp_group_place_by_hand(size, stride >= gpus_per_node ? 1 : gpus_per_node / stride);
    group.stride = stride;
    group.node_span = (uint32_t)(((uint64_t)(size - 1) * stride) / gpus_per_node) + 1;
    return group;
}

static double tree_rate(const struct tpp_hardware *hardware)
{
    const double capability = hardware->gpu.compute_capability;
    if (hardware->node.has_nvlink && capability >= nvls_capability)
        return 0;
    const double channel = tree_channel_bytes_per_second[capability >= ampere_capability];
    return 0.5 * fmin(tree_bus_fraction * hardware->node.bus_bytes_per_second[TPP_ALL_REDUCE],
                      fmax(1, hardware->network.num_nics) * channel);
}

struct tpp_links tpp_links_make(const struct tpp_hardware *hardware, double ring_efficiency,
                                double send_recv_efficiency)
{
    struct tpp_links links = {
        .nic_bytes_per_second = tpp_hardware_nic_bytes_per_second_per_gpu(hardware),
        .ring_efficiency_fraction =
            ring_efficiency > 0 ? ring_efficiency : hardware->network.ring_efficiency_fraction,
        .send_recv_efficiency_fraction =
            send_recv_efficiency > 0 ? send_recv_efficiency : hardware->network.send_recv_efficiency_fraction,
        .half_rate_bytes = hardware->node.half_rate_bytes,
        .base_latency_seconds = hardware->node.base_latency_seconds,
        .hop_latency_seconds = hardware->node.hop_latency_seconds,
        .network_latency_seconds = hardware->network.hop_latency_seconds,
        .oversubscription = hardware->network.oversubscription,
        .nodes_per_leaf = hardware->network.nodes_per_leaf,
        .is_port_shared = !hardware->node.has_nvlink,
        .tree_bytes_per_second = tree_rate(hardware),
    };
    for (int i = 0; i < TPP_COLLECTIVE_COUNT; i++)
        links.bus_bytes_per_second[i] = hardware->node.bus_bytes_per_second[i];
    return links;
}

/* How much slower a group is that leaves its leaf switch. */
static double group_uplink_load(const struct tpp_links *links, const struct tpp_group *group)
{
    return links->nodes_per_leaf > 0 && group->node_span > links->nodes_per_leaf ? links->oversubscription : 1;
}

/* NIC rate of one GPU towards other nodes. */
static double nic_rate(const struct tpp_links *links, const struct tpp_group *group, double efficiency)
{
    return links->nic_bytes_per_second * efficiency / group_uplink_load(links, group);
}

/* 1 for long messages, 2 at half_rate_bytes and below. */
static double ramp(const struct tpp_links *links, double bytes)
{
    return 1 + fmin(1, links->half_rate_bytes / bytes);
}

static double all_to_all_seconds(const struct tpp_links *links, const struct tpp_group *group, double bytes)
{
    const double n = group->size, local = group->ranks_per_node;
    const double bus = links->bus_bytes_per_second[TPP_ALL_TO_ALL];
    if (group->num_nodes == 1)
        return links->base_latency_seconds + bytes * (n - 1) / n / bus * ramp(links, bytes);
    const double outside = bytes * (n - local) / n / nic_rate(links, group, links->ring_efficiency_fraction);
    const double inside = bytes * ((links->is_port_shared ? n : local) - 1) / n / bus;
    return links->base_latency_seconds + (group->num_nodes - 1) * all_to_all_node_seconds +
           fmax(outside, inside) * ramp(links, bytes);
}

/* What a ring that leaves its nodes carries between them. */
static double network_rate(const struct tpp_links *links, const struct tpp_group *group)
{
    const double ports = group->ranks_per_node * nic_rate(links, group, links->ring_efficiency_fraction);
    return links->ring_limit_bytes_per_second > 0 ? fmin(ports, links->ring_limit_bytes_per_second) : ports;
}

/* What a ring carries, and how long a byte takes once or twice around it. */
static double ring_rate(const struct tpp_links *links, enum tpp_collective kind, const struct tpp_group *group)
{
    const double bus = links->bus_bytes_per_second[kind];
    return group->num_nodes == 1 ? bus : fmin(bus, network_rate(links, group));
}

static double ring_latency_seconds(const struct tpp_links *links, const struct tpp_group *group, int passes)
{
    const double n = group->size, nodes = group->num_nodes;
    const double steps = (n - 1) * passes, network_steps = (nodes - 1) * passes;
    return links->base_latency_seconds + (steps - network_steps) * links->hop_latency_seconds +
           network_steps * links->network_latency_seconds;
}

/* Two nodes are the roots of a tree each, for half of the buffer: a node sends one half up and the other down, S in all, where
 * between more nodes, and in a ring, nearly 2 S leave it. 1.2 times the ports' nominal rate as bus bandwidth on H100 and H200 with
 * 8 x 400 Gb/s, 1.7 times on H100 with 8 x 200 Gb/s. */
static double two_trees_seconds(const struct tpp_links *links, const struct tpp_group *group, double bytes)
{
    const double n = group->size, outside = bytes / network_rate(links, group) * ramp(links, bytes);
    if (links->tree_bytes_per_second <= 0)
        return fmax(outside, 2 * (n - 1) / n * bytes / links->bus_bytes_per_second[TPP_ALL_REDUCE] * ramp(links, bytes));
    int i = 0;
    while (bytes < tree_sizes[i].bytes)
        i++;
    return fmax(outside, bytes / links->tree_bytes_per_second * ramp(links, bytes)) / tree_sizes[i].fraction;
}

/* Ring, and for all-reduce the better of ring and tree/NVLS (alt):
 *
 *     ring = base + (steps - xsteps) hop + xsteps net + passes (n-1)/n S/B ramp */
static double ring_or_tree_seconds(const struct tpp_links *links, enum tpp_collective kind,
                                   const struct tpp_group *group, double bytes)
{
    const int passes = kind == TPP_ALL_REDUCE ? 2 : 1;
    const double n = group->size, local = group->ranks_per_node, nodes = group->num_nodes;
    const double transfer = passes * (n - 1) / n * bytes / ring_rate(links, kind, group) * ramp(links, bytes);
    const double ring = ring_latency_seconds(links, group, passes) + transfer;
    if (kind != TPP_ALL_REDUCE || links->rings_only)
        return ring;
    const double tree_latency =
        nodes > 1 ? 2 * ((local - 1) * tree_hop_seconds + log2(nodes) * links->network_latency_seconds) : nvls_seconds;
    const double tree_transfer = nodes == 2 ? two_trees_seconds(links, group, bytes)
                                            : transfer / (nodes > 1 ? tree_network_fraction : 1.0);
    const double tree = links->base_latency_seconds + tree_latency + tree_transfer;
    return fmin(ring, tree);
}

double tpp_broadcasts_seconds(const struct tpp_links *links, const struct tpp_group *group, double bytes,
                              double num_broadcasts)
{
    if (group->size <= 1 || bytes <= 0)
        return 0;
    const double part = bytes / num_broadcasts;
    return num_broadcasts * (ring_latency_seconds(links, group, 1) +
                             part / ring_rate(links, TPP_ALL_GATHER, group) * ramp(links, part));
}

double tpp_send_recv_seconds(const struct tpp_links *links, int crosses_nodes, double uplink_load, double bytes)
{
    const double rate = crosses_nodes
                            ? links->nic_bytes_per_second * links->send_recv_efficiency_fraction / fmax(1, uplink_load)
                            : send_recv_bus_fraction * links->bus_bytes_per_second[TPP_SEND_RECV];
    return send_recv_latency_seconds + bytes / rate;
}

double tpp_stage_uplink_load(const struct tpp_links *links, double stage_nodes)
{
    return links->nodes_per_leaf == 0 ? 1 : links->oversubscription * fmin(1, stage_nodes / links->nodes_per_leaf);
}

/* Probability that none of the k experts, drawn from `all` without putting back, is among `inside` of them. */
static double missed_share(double all, double inside, double k)
{
    double missed = 1;
    for (double i = 0; i < k; i++)
        missed *= fmax(0, all - inside - i) / (all - i);
    return missed;
}

static double choose(double n, double k)
{
    double product = 1;
    for (double i = 0; i < k; i++)
        product *= fmax(0, n - i) / (k - i);
    return product;
}

double tpp_expected_parts(const struct tpp_token_dispatch *dispatch, double parts)
{
    const double E = dispatch->num_experts, k = dispatch->experts_per_token, G = dispatch->num_groups;
    const double q = dispatch->groups_per_token, reachable = G > 0 ? q * E / G : E;
    if (G <= 0)
        return parts * (1 - missed_share(E, E / parts, k));
    if (parts >= G)
        return parts * q / G * (1 - missed_share(reachable, E / parts, k));
    const double g = G / parts;
    if (g != floor(g))
        return fmin(q, parts * (1 - missed_share(E, E / parts, k)));
    double hit = 0;
    for (double j = 1; j <= fmin(g, q); j++)
        hit += choose(g, j) * choose(G - g, q - j) / choose(G, q) * (1 - missed_share(reachable, j * E / G, k));
    return parts * hit;
}

/* Share of the nominal rate of a NIC that one-sided writes of tokens reach: 90 GB/s on 2 nodes and 61 GB/s on 4, of which
 * the local node's share, 1/2 and 1/4, does not cross a NIC of 50 GB/s (deepseek-ai/DeepEP, README). */
static const double dispatch_nic_fraction = 0.9;

/* Both networks work at the same time, on tokens one behind the other. Every token goes once to each of the other nodes it
 * is wanted on, and once to each of the ranks it is wanted on. */
double tpp_dispatch_seconds(const struct tpp_links *links, const struct tpp_group *group,
                            const struct tpp_token_dispatch *dispatch)
{
    const double n = group->size, nodes = group->num_nodes;
    if (n <= 1 || dispatch->bytes <= 0)
        return 0;
    const double inside =
        dispatch->bytes * tpp_expected_parts(dispatch, n) * (n - 1) / n / links->bus_bytes_per_second[TPP_ALL_TO_ALL];
    const double outside = nodes > 1 ? dispatch->bytes * tpp_expected_parts(dispatch, nodes) * (nodes - 1) / nodes /
                                           nic_rate(links, group, dispatch_nic_fraction)
                                     : 0;
    const double latency = links->base_latency_seconds + (nodes > 1 ? links->network_latency_seconds : 0);
    return latency + fmax(inside, outside) * ramp(links, dispatch->bytes * tpp_expected_parts(dispatch, n));
}

double tpp_collective_seconds(const struct tpp_links *links, enum tpp_collective kind, const struct tpp_group *group,
                              double bytes)
{
    if (group->size <= 1 || bytes <= 0)
        return 0;
    if (kind == TPP_ALL_TO_ALL)
        return all_to_all_seconds(links, group, bytes);
    if (kind == TPP_SEND_RECV)
        return tpp_send_recv_seconds(links, group->num_nodes > 1, group_uplink_load(links, group), bytes);
    return ring_or_tree_seconds(links, kind, group, bytes);
}
