/* Links of the simulated ranks, and what each transfer takes of them (cost-model 6.2, 9.4). */
#include "costmodel/simulator/build.h"

#include <math.h>

/* Resources of one device, in this order. */
enum { PORT_OUT, PORT_IN, NIC_OUT, NIC_IN, HOST_LINK, RESOURCES_PER_DEVICE };
/* Communicators of one stage. */
enum { REPLICAS_DOMAIN, SHARD_DOMAIN, REPLICATE_DOMAIN, EXPERT_DOMAIN, EXPERT_SHARD_DOMAIN, DOMAINS_PER_STAGE };
enum { MAX_USES = 64, MAX_REPLICAS = 8 };

static const struct tpp_hardware *hardware_of(const struct tpp_build *build)
{
    return build->evaluator->hardware;
}

static double port_rate(const struct tpp_build *build)
{
    double rate = 0;
    for (int i = 0; i < TPP_COLLECTIVE_COUNT; i++)
        rate = fmax(rate, build->evaluator->links.bus_bytes_per_second[i]);
    return rate;
}

static uint32_t leaf_of(const struct tpp_build *build, uint32_t stage)
{
    const uint64_t ranks = build->evaluator->job->num_gpus / build->num_stages;
    const uint32_t nodes = hardware_of(build)->network.nodes_per_leaf;
    return nodes == 0 ? 0 : (uint32_t)(stage * ranks / hardware_of(build)->node.num_gpus / nodes);
}

/* Ranks of a stage below its leaf switch: those for which the simulated one stands. */
static double ranks_in_leaf(const struct tpp_build *build)
{
    const double leaf = (double)hardware_of(build)->network.nodes_per_leaf * hardware_of(build)->node.num_gpus;
    return fmin(leaf, build->evaluator->job->num_gpus / build->num_stages);
}

static void place_groups(struct tpp_build *build)
{
    struct tpp_timing timing;
    tpp_evaluator_program(build->evaluator, build->strategy,
                          build->assembly.moe ? TPP_LAYER_MOE : TPP_LAYER_DECODER, TPP_PASSES_ALONE, &timing);
    const struct tpp_strategy *s = build->strategy;
    build->groups[TPP_ROUTE_REPLICAS] = build->assembly.replicas.all;
    build->groups[TPP_ROUTE_SHARD] = build->assembly.replicas.shard;
    build->groups[TPP_ROUTE_REPLICATE] = build->assembly.replicas.replicate;
    build->groups[TPP_ROUTE_EXPERT_REPLICAS] = build->assembly.expert_replicas.all;
    build->groups[TPP_ROUTE_EXPERT_SHARD] = build->assembly.expert_replicas.shard;
    build->groups[TPP_ROUTE_EXPERT] = timing.expert_group;
    build->groups[TPP_ROUTE_EXPERT_TENSOR] = timing.expert_tensor_group;
    build->groups[TPP_ROUTE_TENSOR] = timing.tensor_group;
    build->groups[TPP_ROUTE_CONTEXT] = timing.context_group;
    build->groups[TPP_ROUTE_ULYSSES] = timing.ulysses_group;
    const uint32_t stride = s->tensor_parallel * s->context_parallel * s->data_parallel * (s->pipeline_parallel - 1);
    build->groups[TPP_ROUTE_PIPELINE] = tpp_vocabulary_transfers(build->evaluator, s, &build->assembly).group;
    build->groups[TPP_ROUTE_TIED] = tpp_group_place(2, stride > 0 ? stride : 1, hardware_of(build)->node.num_gpus);
}

enum tpp_code tpp_build_links(struct tpp_build *build, struct tpp_error *err)
{
    const struct tpp_hardware *hardware = hardware_of(build);
    const double nic = build->evaluator->links.nic_bytes_per_second, host = hardware->node.host_link_bytes_per_second;
    build->num_leaves = hardware->network.nodes_per_leaf > 0 ? leaf_of(build, build->num_stages - 1) + 1 : 0;
    build->num_resources = build->num_devices * RESOURCES_PER_DEVICE + (build->num_leaves > 0 ? build->num_leaves + 1 : 0);
    build->num_domains = build->num_stages * DOMAINS_PER_STAGE;
    build->resources = tpp_arena_alloc_array(build->arena, build->num_resources, sizeof(*build->resources));
    build->routes = tpp_arena_alloc_array(build->arena, build->num_devices, sizeof(*build->routes));
    if (!build->resources || !build->routes)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the simulation");
    for (uint32_t d = 0; d < build->num_devices; d++) {
        struct tpp_resource *own = &build->resources[d * RESOURCES_PER_DEVICE];
        own[PORT_OUT] = (struct tpp_resource){TPP_RESOURCE_NVLINK_OUT, d, port_rate(build)};
        own[PORT_IN] = (struct tpp_resource){TPP_RESOURCE_NVLINK_IN, d, port_rate(build)};
        own[NIC_OUT] = (struct tpp_resource){TPP_RESOURCE_NIC_OUT, d, nic};
        own[NIC_IN] = (struct tpp_resource){TPP_RESOURCE_NIC_IN, d, nic};
        own[HOST_LINK] = (struct tpp_resource){TPP_RESOURCE_PCIE, d, host};
        for (int kind = 0; kind < TPP_ROUTE_COUNT; kind++)
            for (int c = 0; c < TPP_COLLECTIVE_COUNT; c++)
                build->routes[d][kind][c].route = TPP_NO_TASK;
    }
    const double leaf_ranks = (double)hardware->network.nodes_per_leaf * hardware->node.num_gpus;
    const double uplink = leaf_ranks * nic / hardware->network.oversubscription;
    struct tpp_resource *shared = &build->resources[build->num_devices * RESOURCES_PER_DEVICE];
    for (uint32_t leaf = 0; leaf < build->num_leaves; leaf++)
        shared[leaf] = (struct tpp_resource){TPP_RESOURCE_LEAF_UPLINK, leaf, uplink};
    if (build->num_leaves > 0) /* as wide as all uplinks: what is narrower is in the oversubscription */
        shared[build->num_leaves] = (struct tpp_resource){
            TPP_RESOURCE_SPINE, 0,
            fmax(1, ceil(build->evaluator->job->num_gpus / leaf_ranks)) * uplink};
    for (int leaves = 0; leaves < 2; leaves++)
        build->send_seconds[leaves] =
            tpp_stage_send_seconds(build->evaluator, build->strategy, &build->assembly, leaves != 0);
    place_groups(build);
    return TPP_OK;
}

/* A route that is being put together. */
struct draft {
    struct tpp_flow_use uses[MAX_USES];
    uint32_t devices[MAX_REPLICAS];
    uint32_t num_uses, num_devices;
};

static void add_use(struct draft *draft, uint32_t resource, double bytes_per_byte)
{
    if (bytes_per_byte <= 0 || draft->num_uses == MAX_USES)
        return;
    for (uint32_t i = 0; i < draft->num_uses; i++) {
        if (draft->uses[i].resource == resource) {
            draft->uses[i].bytes_per_byte += bytes_per_byte;
            return;
        }
    }
    draft->uses[draft->num_uses++] = (struct tpp_flow_use){resource, bytes_per_byte};
}

static void add_both(struct draft *draft, uint32_t device, int out, double bytes_per_byte)
{
    add_use(draft, device * RESOURCES_PER_DEVICE + (uint32_t)out, bytes_per_byte);
    add_use(draft, device * RESOURCES_PER_DEVICE + (uint32_t)out + 1, bytes_per_byte);
}

/* Uplink and spine, for all the ranks that the simulated one stands for. */
static void add_fabric(const struct tpp_build *build, struct draft *draft, uint32_t stage, double bytes_per_byte)
{
    if (build->num_leaves == 0)
        return;
    const uint32_t first = build->num_devices * RESOURCES_PER_DEVICE;
    add_use(draft, first + leaf_of(build, stage), ranks_in_leaf(build) * bytes_per_byte);
    add_use(draft, first + build->num_leaves,
            (double)build->evaluator->job->num_gpus / build->num_stages * bytes_per_byte);
}

/* Bytes through the node's ports for a byte through a network port: a ring of `local` ranks in each node leaves it through
 * one of its `local` rails at a time; all-to-all sends (local-1)/n inside and (n-local)/n outside (6.1). Without NVLink the
 * way to the network port is through the same PCIe; on a ring it is that of the rank that sends to no neighbour. */
static double port_bytes_per_network_byte(const struct tpp_build *build, enum tpp_collective collective,
                                          const struct tpp_group *group)
{
    const double n = group->size, local = group->ranks_per_node;
    const bool is_shared = !hardware_of(build)->node.has_nvlink;
    if (collective == TPP_ALL_TO_ALL)
        return (is_shared ? n - 1 : local - 1) / (n - local);
    return local > 1 || is_shared ? local : 0;
}

static void add_collective_uses(const struct tpp_build *build, struct draft *draft, uint32_t device,
                                enum tpp_collective collective, const struct tpp_group *group)
{
    const struct tpp_links *links = &build->evaluator->links;
    /* A collective that reaches less than the port's best rate still occupies the port. */
    const double port = port_rate(build) / links->bus_bytes_per_second[collective];
    if (group->num_nodes == 1) {
        add_both(draft, device, PORT_OUT, port);
        return;
    }
    double efficiency = collective == TPP_SEND_RECV ? links->send_recv_efficiency_fraction
                                                    : links->ring_efficiency_fraction;
    if (links->ring_limit_bytes_per_second > 0 && collective != TPP_SEND_RECV && collective != TPP_ALL_TO_ALL)
        efficiency = fmin(efficiency, links->ring_limit_bytes_per_second /
                                          (group->ranks_per_node * links->nic_bytes_per_second));
    add_both(draft, device, NIC_OUT, 1 / efficiency);
    add_both(draft, device, PORT_OUT, port * port_bytes_per_network_byte(build, collective, group));
}

static bool leaves_leaf(const struct tpp_build *build, const struct tpp_group *group)
{
    const uint32_t nodes = hardware_of(build)->network.nodes_per_leaf;
    return nodes > 0 && group->node_span > nodes;
}

static uint32_t domain_of(const struct tpp_build *build, uint32_t stage, enum tpp_route_kind kind)
{
    const bool is_one_group = build->groups[TPP_ROUTE_REPLICAS].size == build->groups[TPP_ROUTE_SHARD].size;
    const bool is_one_expert_group =
        build->groups[TPP_ROUTE_EXPERT_REPLICAS].size == build->groups[TPP_ROUTE_EXPERT_SHARD].size;
    switch (kind) {
    case TPP_ROUTE_REPLICAS:
        return stage * DOMAINS_PER_STAGE + REPLICAS_DOMAIN;
    case TPP_ROUTE_SHARD:
        return stage * DOMAINS_PER_STAGE + (is_one_group ? REPLICAS_DOMAIN : SHARD_DOMAIN);
    case TPP_ROUTE_REPLICATE:
        return stage * DOMAINS_PER_STAGE + REPLICATE_DOMAIN;
    case TPP_ROUTE_EXPERT_REPLICAS:
        return stage * DOMAINS_PER_STAGE + EXPERT_DOMAIN;
    case TPP_ROUTE_EXPERT_SHARD:
        return stage * DOMAINS_PER_STAGE + (is_one_expert_group ? EXPERT_DOMAIN : EXPERT_SHARD_DOMAIN);
    default:
        return TPP_NO_DOMAIN; /* its stream keeps it in order */
    }
}

/* Copies the draft into the graph. */
static void add_route(struct tpp_build *build, const struct draft *draft, uint32_t domain, bool slows_compute,
                      struct tpp_build_route *out)
{
    struct tpp_flow_use *uses = tpp_arena_alloc_array(build->arena, draft->num_uses + 1, sizeof(*uses));
    uint32_t *devices = tpp_arena_alloc_array(build->arena, draft->num_devices + 1, sizeof(*devices));
    if (!uses || !devices) {
        build->has_failed = true;
        return;
    }
    out->seconds_per_byte = 0;
    for (uint32_t i = 0; i < draft->num_uses; i++) {
        uses[i] = draft->uses[i];
        out->seconds_per_byte = fmax(out->seconds_per_byte, uses[i].bytes_per_byte /
                                                                build->resources[uses[i].resource].bytes_per_second);
    }
    for (uint32_t i = 0; i < draft->num_devices; i++)
        devices[i] = draft->devices[i];
    const struct tpp_graph_route route = {draft->num_uses, uses, domain, draft->num_devices, devices, slows_compute};
    out->route = tpp_graph_add_route(build->graph, &route);
}

static bool is_over_replicas(enum tpp_route_kind kind)
{
    return kind <= TPP_ROUTE_EXPERT_SHARD;
}

static const struct tpp_build_route *group_route(struct tpp_build *build, uint32_t device, enum tpp_route_kind kind,
                                                 enum tpp_collective collective)
{
    struct tpp_build_route *route = &build->routes[device][kind][collective];
    if (route->route != TPP_NO_TASK)
        return route;
    struct draft draft = {.num_uses = 0};
    const struct tpp_group *group = &build->groups[kind];
    const uint32_t stage = device % build->num_stages;
    const uint32_t replicas = is_over_replicas(kind) ? build->num_replicas : 1;
    for (uint32_t r = 0; r < replicas; r++) {
        const uint32_t member = is_over_replicas(kind) ? r * build->num_stages + stage : device;
        draft.devices[draft.num_devices++] = member;
        add_collective_uses(build, &draft, member, collective, group);
    }
    if (kind == TPP_ROUTE_TIED && build->num_stages > 1) { /* the last stage too */
        draft.devices[draft.num_devices++] = device + build->num_stages - 1;
        add_collective_uses(build, &draft, device + build->num_stages - 1, collective, group);
    }
    if (leaves_leaf(build, group))
        add_fabric(build, &draft, stage, 1 / build->evaluator->links.ring_efficiency_fraction);
    /* The slow-down by transfers inside layers is in the layer's own times (7). */
    add_route(build, &draft, domain_of(build, stage, kind), is_over_replicas(kind), route);
    return route;
}

/* Bytes on the busiest port of one rank: of its network port when the group spans nodes, else of the one in the node. */
static double port_bytes(enum tpp_collective collective, const struct tpp_group *group, double bytes)
{
    const double n = group->size, local = group->ranks_per_node;
    const double rails = group->num_nodes > 1 ? local : 1;
    switch (collective) {
    case TPP_ALL_REDUCE:
        return 2 * (n - 1) / n * bytes / rails;
    case TPP_ALL_TO_ALL:
        return bytes * (group->num_nodes > 1 ? n - local : n - 1) / n;
    case TPP_SEND_RECV:
        return bytes;
    default:
        return (n - 1) / n * bytes / rails;
    }
}

uint32_t tpp_build_collective(struct tpp_build *build, uint32_t device, enum tpp_track track, enum tpp_route_kind kind,
                              enum tpp_collective collective, double bytes, double seconds,
                              const struct tpp_graph_task *like)
{
    const struct tpp_links *links =
        kind == TPP_ROUTE_TENSOR ? &build->evaluator->tensor_links : &build->evaluator->links;
    const struct tpp_group *group = &build->groups[kind];
    const struct tpp_build_route *route = group_route(build, device, kind, collective);
    const double alone = seconds > 0 ? seconds : tpp_collective_seconds(links, collective, group, bytes);
    const double latency = tpp_collective_seconds(links, collective, group, 1);
    double port = port_bytes(collective, group, bytes);
    if (collective == TPP_ALL_REDUCE && group->num_nodes == 2) /* trees send less than rings: what fits in the time */
        port = fmin(port, fmax(0, alone - latency) * links->nic_bytes_per_second * links->ring_efficiency_fraction);
    return tpp_build_transfer(build, device, track, route, alone, latency, port, like);
}

uint32_t tpp_build_meeting(struct tpp_build *build, uint32_t device, enum tpp_track track,
                           const struct tpp_graph_task *like)
{
    const struct tpp_build_route *route =
        group_route(build, device, TPP_ROUTE_PIPELINE, TPP_ALL_REDUCE);
    return tpp_build_transfer(build, device, track, route, 0, 0, 0, like);
}

static bool sends_leave_leaf(const struct tpp_build *build, uint32_t stage, uint32_t other)
{
    return tpp_stages_leave_leaf(build->evaluator, build->strategy, stage < other ? stage : other,
                                 stage < other ? other : stage);
}

double tpp_build_send_seconds(const struct tpp_build *build, uint32_t stage, uint32_t other)
{
    if (build->options->mode == TPP_SIMULATION_COMPARABLE) /* as the closed forms, one time for all */
        return build->assembly.send_seconds;
    return build->send_seconds[sends_leave_leaf(build, stage, other)];
}

uint32_t tpp_build_send(struct tpp_build *build, uint32_t device, uint32_t to_stage, enum tpp_track track,
                        const struct tpp_graph_task *like)
{
    const uint32_t p = build->num_stages, stage = device % p;
    const bool is_up = to_stage == (stage + 1) % p, is_plain = build->options->mode == TPP_SIMULATION_COMPARABLE;
    struct tpp_build_route *route =
        &build->routes[device][is_up ? TPP_ROUTE_SEND_UP : TPP_ROUTE_SEND_DOWN][TPP_SEND_RECV];
    const struct tpp_links *links = &build->evaluator->links;
    const bool crosses = build->evaluator->job->num_gpus > hardware_of(build)->node.num_gpus;
    if (route->route == TPP_NO_TASK) {
        const uint32_t to = device - stage + to_stage;
        const double port = port_rate(build) / links->bus_bytes_per_second[TPP_SEND_RECV];
        const double weight = crosses ? 1 / links->send_recv_efficiency_fraction : port;
        struct draft draft = {.num_uses = 0};
        if (!is_plain) {
            add_use(&draft, device * RESOURCES_PER_DEVICE + (crosses ? NIC_OUT : PORT_OUT), weight);
            add_use(&draft, to * RESOURCES_PER_DEVICE + (crosses ? NIC_IN : PORT_IN), weight);
            if (sends_leave_leaf(build, stage, to_stage))
                add_fabric(build, &draft, stage, weight);
        }
        add_route(build, &draft, TPP_NO_DOMAIN, false, route);
    }
    const double bytes = tpp_stage_send_bytes(build->evaluator, build->strategy, &build->assembly);
    return tpp_build_transfer(build, device, track, route, tpp_build_send_seconds(build, stage, to_stage),
                              tpp_send_recv_seconds(links, crosses, 1, 1), is_plain ? 0 : bytes, like);
}

uint32_t tpp_build_host_copy(struct tpp_build *build, uint32_t device, double bytes, const struct tpp_graph_task *like)
{
    struct tpp_build_route *route = &build->routes[device][TPP_ROUTE_HOST][TPP_SEND_RECV];
    if (route->route == TPP_NO_TASK) {
        struct draft draft = {.num_uses = 0};
        add_use(&draft, device * RESOURCES_PER_DEVICE + HOST_LINK, 1);
        add_route(build, &draft, TPP_NO_DOMAIN, false, route);
    }
    const double seconds = bytes / hardware_of(build)->node.host_link_bytes_per_second;
    return tpp_build_transfer(build, device, TPP_TRACK_HOST, route, seconds, 0, bytes, like);
}

struct link_set {
    bool port, nic;
};

static void add_links(const struct tpp_build *build, const struct tpp_group *group, struct link_set *set)
{
    if (group->size <= 1)
        return;
    const bool crosses = group->num_nodes > 1;
    set->nic |= crosses;
    set->port |= !crosses || group->ranks_per_node > 1 || !hardware_of(build)->node.has_nvlink;
}

bool tpp_build_layers_share_links(const struct tpp_build *build, bool *with_sends)
{
    struct link_set layers = {false, false}, others = {false, false};
    add_links(build, &build->groups[TPP_ROUTE_TENSOR], &layers);
    add_links(build, &build->groups[TPP_ROUTE_CONTEXT], &layers);
    add_links(build, &build->groups[TPP_ROUTE_ULYSSES], &layers);
    if (build->assembly.moe) {
        add_links(build, &build->groups[TPP_ROUTE_EXPERT], &layers);
        add_links(build, &build->groups[TPP_ROUTE_EXPERT_TENSOR], &layers);
    }
    *with_sends = build->num_stages > 1 && layers.nic &&
                  build->evaluator->job->num_gpus > hardware_of(build)->node.num_gpus;
    const struct tpp_gradient_traffic *dense = &build->traffic[TPP_PARAMETERS_DENSE];
    const struct tpp_gradient_traffic *expert = &build->traffic[TPP_PARAMETERS_EXPERT];
    if (build->is_sharded || dense->reduce_overlaps || dense->gather_overlaps)
        add_links(build, &build->groups[TPP_ROUTE_REPLICAS], &others);
    if (expert->reduce_overlaps || expert->gather_overlaps)
        add_links(build, &build->groups[TPP_ROUTE_EXPERT_REPLICAS], &others);
    if (build->is_sharded)
        add_links(build, &build->groups[TPP_ROUTE_SHARD], &others);
    return (layers.port && others.port) || (layers.nic && others.nic) || *with_sends;
}
