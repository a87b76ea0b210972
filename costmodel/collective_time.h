/* collective_time.h - who is in a communication group, and how long one collective of it takes (cost-model section 6). */
#ifndef TPP_COSTMODEL_COLLECTIVE_TIME_H
#define TPP_COSTMODEL_COLLECTIVE_TIME_H

#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stdint.h>

struct tpp_group {
    uint32_t size;           /* ranks */
    uint32_t ranks_per_node; /* of this group in one node */
    uint32_t num_nodes;      /* ceil(size / ranks_per_node) */
    uint32_t stride;         /* distance of neighbours in rank order */
    uint32_t node_span;      /* nodes between its first and its last rank, both counted */
};

/* Group of `size` ranks `stride` apart on nodes of `gpus_per_node`, cost-model 6.2 [exact]: E17. */
struct tpp_group tpp_group_place(uint32_t size, uint32_t stride, uint32_t gpus_per_node);
/* The same with the ranks in one node given instead of derived (`--placement`). */
struct tpp_group tpp_group_place_by_hand(uint32_t size, uint32_t ranks_per_node);

/* Rates a collective sees; made once for a job, so that a stack's own efficiencies (15.1, 15.6) enter in one place. */
struct tpp_links {
    double bus_bytes_per_second[TPP_COLLECTIVE_COUNT]; /* inside a node */
    double nic_bytes_per_second;           /* per GPU, nominal */
    double ring_efficiency_fraction, send_recv_efficiency_fraction;
    double ring_limit_bytes_per_second;    /* of one ring out of a node; 0: all its ranks' NICs */
    double half_rate_bytes;
    double base_latency_seconds, hop_latency_seconds, network_latency_seconds;
    double oversubscription;
    uint32_t nodes_per_leaf;
    double tree_bytes_per_second; /* of a tree over two nodes inside them, of the buffer; 0: NVLS reduces in the switch, as a ring */
    bool rings_only;         /* no trees, no reductions in the switch: NCCL_ALGO=Ring */
    bool is_port_shared;     /* no NVLink: what leaves the node passes the same PCIe as what stays in it */
};

/* `ring_efficiency`, `send_recv_efficiency`: 0 = the profile's. */
struct tpp_links tpp_links_make(const struct tpp_hardware *hardware, double ring_efficiency,
                                double send_recv_efficiency);

/* Seconds of one collective, cost-model 6.1 [fit]: E9. `bytes` is the full tensor: all-gather output, reduce-scatter
 * input, all-reduce buffer, all-to-all send buffer of one rank, send-recv message. A group of one rank costs nothing. */
double tpp_collective_seconds(const struct tpp_links *links, enum tpp_collective kind, const struct tpp_group *group,
                              double bytes);
/* Ranks of a group that broadcast their parts of `bytes` one after the other, on one communicator: each travels down the ring
 * in chunks, and the next root waits until it has passed, latency and all (nRanks hops in NCCL's src/graph/tuning.cc, where
 * an all-gather has them once):
 *
 *     t = k (base + (n - nodes) hop + (nodes - 1) net + S/(k B) ramp(S/k))
 *
 * k num_broadcasts, 1 or more. Checked by tests/unit/test_collective_time.c. */
double tpp_broadcasts_seconds(const struct tpp_links *links, const struct tpp_group *group, double bytes,
                              double num_broadcasts);
/* Tokens on their way to the experts of a group, each sent once to every node and once to every rank that has one of its
 * experts (DeepEP, HybridEP). */
struct tpp_token_dispatch {
    double bytes;                     /* of all tokens of one rank, one copy */
    double experts_per_token, num_experts;
    double num_groups, groups_per_token; /* node-limited routing: groups of experts, chosen first; 0: none */
};
/* Ranks of `parts` equal parts of the experts that one token's experts lie on, routing at random: parts times
 *
 *     1 - C(E - E/parts, k) / C(E, k)
 *
 * which is k at most. With G groups, of which a token takes q at random and its experts from these, E' = q E / G of them: for
 * parts inside a group (parts >= G)
 *
 *     parts q / G (1 - C(E' - E/parts, k) / C(E', k))
 *
 * and for parts of g = G / parts whole groups the sum of parts (1 - C(E' - j E/G, k) / C(E', k)) over the j of them that are
 * taken, each with its probability C(g, j) C(G - g, q - j) / C(G, q). Where g is no whole number, q parts at most. */
double tpp_expected_parts(const struct tpp_token_dispatch *dispatch, double parts);
double tpp_dispatch_seconds(const struct tpp_links *links, const struct tpp_group *group,
                            const struct tpp_token_dispatch *dispatch);
/* One message to a neighbour. uplink_load: what its leaf's uplinks are asked for by all that send with it, as a multiple of
 * what they carry; 1 or less: they do not slow it. */
double tpp_send_recv_seconds(const struct tpp_links *links, int crosses_nodes, double uplink_load, double bytes);
/* That load when a stage of `stage_nodes` nodes sends to the next one through the spine: all the leaf's nodes do, or as many
 * as a stage has. 1 without leaves. */
double tpp_stage_uplink_load(const struct tpp_links *links, double stage_nodes);

#endif
