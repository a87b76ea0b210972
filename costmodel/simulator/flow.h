/* flow.h - transfers on shared links as a fluid: who gets which rate, and when each is done (cost-model 9.4).
 *
 * A resource is one direction of a named link with a capacity. A flow has bytes to move, a route (the resources it uses and
 * how many bytes on each a byte of the flow is) and a limit of its own, the rate it reaches alone. At every start and
 * finish the rates are assigned by progressive filling (max-min fair): all rates rise equally until a resource is full or a
 * flow is at its limit, those flows are frozen, the rest go on.
 *
 * A serialisation domain (one communicator, one stream) moves one flow at a time; the others wait in the order in which they
 * came. A flow is first latent for latency_seconds, when it holds its domain but no bandwidth, and then moves its bytes. */
#ifndef TPP_COSTMODEL_SIMULATOR_FLOW_H
#define TPP_COSTMODEL_SIMULATOR_FLOW_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum tpp_resource_kind {
    TPP_RESOURCE_NVLINK_OUT, /* port of one GPU inside its node; PCIe where a node has no NVLink */
    TPP_RESOURCE_NVLINK_IN,
    TPP_RESOURCE_NIC_OUT,    /* network port of one GPU: its share of the node's NICs */
    TPP_RESOURCE_NIC_IN,
    TPP_RESOURCE_LEAF_UPLINK, /* of one leaf switch towards the spine, all of its nodes together */
    TPP_RESOURCE_SPINE,
    TPP_RESOURCE_PCIE,       /* between one GPU and its host */
    TPP_RESOURCE_KIND_COUNT,
};
const char *tpp_resource_kind_name(enum tpp_resource_kind kind); /* "NVLink out", "NIC in", "leaf uplink", ... */

struct tpp_resource {
    enum tpp_resource_kind kind;
    uint32_t owner;          /* device, leaf; 0 for the spine */
    double bytes_per_second; /* capacity, above 0 */
};

struct tpp_flow_use {
    uint32_t resource;
    double bytes_per_byte; /* above 0; 1/efficiency, ranks that share the link, rails of a ring, ... */
};

#define TPP_NO_DOMAIN UINT32_MAX

struct tpp_flow {
    double latency_seconds;       /* 0 or more */
    double bytes;                 /* 0 or more */
    double max_bytes_per_second;  /* above 0, may be infinite when the route has a resource */
    uint32_t domain;              /* TPP_NO_DOMAIN: starts at once */
    uint32_t num_uses;
    const struct tpp_flow_use *uses; /* each resource at most once; borrowed until the flow has finished */
};

struct tpp_flow_network; /* opaque */

/* `resources` is copied. On success the caller owns *out. */
enum tpp_code tpp_flow_network_new(const struct tpp_resource *resources, uint32_t num_resources, uint32_t num_domains,
                                   struct tpp_flow_network **out, struct tpp_error *err);
void tpp_flow_network_free(struct tpp_flow_network *network); /* NULL is fine */

/* Hands over a flow at `now_seconds`, which is not before any earlier call's time. `tag` comes back in its events.
 * *has_begun: false when it waits for its domain; TPP_FLOW_BEGAN follows then. TPP_E_MEMORY is the only failure. */
enum tpp_code tpp_flow_start(struct tpp_flow_network *network, double now_seconds, const struct tpp_flow *flow,
                             uint32_t tag, bool *has_begun, struct tpp_error *err);

/* Time of the next event; infinity when nothing is on its way. */
double tpp_flow_next_seconds(const struct tpp_flow_network *network);

enum tpp_flow_event { TPP_FLOW_NOTHING, TPP_FLOW_BEGAN, TPP_FLOW_FINISHED };
/* Handles one event at or before `now_seconds`, in order of time: a flow that left its domain's queue or that is done.
 * TPP_FLOW_NOTHING when none is left; call until then. */
enum tpp_flow_event tpp_flow_step(struct tpp_flow_network *network, double now_seconds, uint32_t *tag);

/* Bytes a second on a resource now, and bytes moved on it by the flows that have finished. */
double tpp_flow_used_bytes_per_second(const struct tpp_flow_network *network, uint32_t resource);
double tpp_flow_moved_bytes(const struct tpp_flow_network *network, uint32_t resource);
/* Counts how often rates changed: a caller that records link use compares it. */
uint64_t tpp_flow_generation(const struct tpp_flow_network *network);

#endif
