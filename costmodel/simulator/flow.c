#include "costmodel/simulator/flow.h"

#include "costmodel/simulator/event_heap.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_SLOT UINT32_MAX

enum slot_state { SLOT_FREE, SLOT_QUEUED, SLOT_LATENT, SLOT_MOVING };

struct slot {
    struct tpp_flow flow;
    double remaining_bytes; /* at updated_seconds */
    double updated_seconds;
    double rate;            /* bytes a second */
    uint32_t tag;
    uint32_t next;          /* in the queue of its domain, in the list of begun flows, or of free slots */
    uint32_t moving_index;  /* place in network->moving */
    enum slot_state state;
    bool is_frozen;         /* scratch of the filling */
};

struct domain {
    uint32_t holder, first, last; /* slots; NO_SLOT */
};

struct load {
    double used;            /* bytes a second */
    double moved;           /* bytes of finished flows */
    uint32_t num_flows;     /* moving ones */
    double demand, taken;   /* scratch of the filling: unfrozen bytes per byte; frozen bytes a second */
};

struct tpp_flow_network {
    struct tpp_resource *resources;
    struct load *loads;
    uint32_t num_resources;
    struct domain *domains;
    struct slot *slots;
    uint32_t num_slots, first_free;
    uint32_t *moving; /* slots, in no order that matters */
    uint32_t num_moving;
    uint32_t first_begun, last_begun; /* left their queue, not reported yet */
    struct tpp_event_heap heap; /* by slot: end of latency or of the transfer */
    uint64_t generation;
};

const char *tpp_resource_kind_name(enum tpp_resource_kind kind)
{
    static const char *const names[TPP_RESOURCE_KIND_COUNT] = {"NVLink out",  "NVLink in", "NIC out", "NIC in",
                                                               "leaf uplink", "spine",     "PCIe"};
    return names[kind];
}

enum tpp_code tpp_flow_network_new(const struct tpp_resource *resources, uint32_t num_resources, uint32_t num_domains,
                                   struct tpp_flow_network **out, struct tpp_error *err)
{
    *out = NULL;
    struct tpp_flow_network *network = calloc(1, sizeof(*network));
    if (!network)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the links");
    network->num_resources = num_resources;
    network->first_free = network->first_begun = network->last_begun = NO_SLOT;
    network->resources = malloc((num_resources + 1) * sizeof(*network->resources));
    network->loads = calloc(num_resources + 1, sizeof(*network->loads));
    network->domains = malloc((num_domains + 1) * sizeof(*network->domains));
    if (!tpp_event_heap_init(&network->heap, 16) || !network->resources || !network->loads || !network->domains) {
        tpp_flow_network_free(network);
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the links");
    }
    if (num_resources > 0)
        memcpy(network->resources, resources, num_resources * sizeof(*resources));
    for (uint32_t i = 0; i < num_domains; i++)
        network->domains[i] = (struct domain){NO_SLOT, NO_SLOT, NO_SLOT};
    *out = network;
    return TPP_OK;
}

void tpp_flow_network_free(struct tpp_flow_network *network)
{
    if (!network)
        return;
    free(network->resources);
    free(network->loads);
    free(network->domains);
    free(network->slots);
    free(network->moving);
    tpp_event_heap_release(&network->heap);
    free(network);
}

static bool add_slots(struct tpp_flow_network *network)
{
    const uint32_t count = network->num_slots ? 2 * network->num_slots : 16;
    struct slot *slots = realloc(network->slots, count * sizeof(*slots));
    if (!slots)
        return false;
    network->slots = slots;
    uint32_t *moving = realloc(network->moving, count * sizeof(*moving));
    if (!moving)
        return false;
    network->moving = moving;
    if (!tpp_event_heap_grow(&network->heap, count))
        return false;
    for (uint32_t i = count; i-- > network->num_slots;) {
        slots[i].state = SLOT_FREE;
        slots[i].next = network->first_free;
        network->first_free = i;
    }
    network->num_slots = count;
    return true;
}

static double own_rate(const struct tpp_flow_network *network, const struct tpp_flow *flow)
{
    double rate = flow->max_bytes_per_second;
    for (uint32_t i = 0; i < flow->num_uses; i++)
        rate = fmin(rate, network->resources[flow->uses[i].resource].bytes_per_second / flow->uses[i].bytes_per_byte);
    return rate;
}

/* Gives a moving flow another rate from `now_seconds` on. */
static void set_rate(struct tpp_flow_network *network, uint32_t index, double now_seconds, double rate)
{
    struct slot *slot = &network->slots[index];
    if (rate == slot->rate)
        return;
    slot->remaining_bytes = fmax(0, slot->remaining_bytes - slot->rate * (now_seconds - slot->updated_seconds));
    slot->updated_seconds = now_seconds;
    for (uint32_t i = 0; i < slot->flow.num_uses; i++)
        network->loads[slot->flow.uses[i].resource].used += slot->flow.uses[i].bytes_per_byte * (rate - slot->rate);
    slot->rate = rate;
    tpp_event_heap_set(&network->heap, index, now_seconds + slot->remaining_bytes / rate);
    network->generation++;
}

/* Level at which the first of the unfrozen flows has to stop rising: its own limit, or a full resource of its route. */
static double next_level(const struct tpp_flow_network *network)
{
    double level = INFINITY;
    for (uint32_t m = 0; m < network->num_moving; m++) {
        const struct slot *slot = &network->slots[network->moving[m]];
        if (slot->is_frozen)
            continue;
        level = fmin(level, slot->flow.max_bytes_per_second);
        for (uint32_t i = 0; i < slot->flow.num_uses; i++) {
            const uint32_t resource = slot->flow.uses[i].resource;
            const struct load *load = &network->loads[resource];
            level = fmin(level, (network->resources[resource].bytes_per_second - load->taken) / load->demand);
        }
    }
    return level;
}

/* Relative slack within which a resource counts as full at a level. */
static const double full_tolerance = 1e-12;

static bool must_stop(const struct tpp_flow_network *network, const struct slot *slot, double level)
{
    if (slot->flow.max_bytes_per_second <= level)
        return true;
    for (uint32_t i = 0; i < slot->flow.num_uses; i++) {
        const uint32_t resource = slot->flow.uses[i].resource;
        const struct load *load = &network->loads[resource];
        const double capacity = network->resources[resource].bytes_per_second;
        if (load->taken + level * load->demand >= capacity * (1 - full_tolerance))
            return true;
    }
    return false;
}

static void freeze(struct tpp_flow_network *network, struct slot *slot, double rate)
{
    slot->is_frozen = true;
    for (uint32_t i = 0; i < slot->flow.num_uses; i++) {
        struct load *load = &network->loads[slot->flow.uses[i].resource];
        load->demand = fmax(0, load->demand - slot->flow.uses[i].bytes_per_byte);
        load->taken += rate * slot->flow.uses[i].bytes_per_byte;
    }
}

static void begin_filling(struct tpp_flow_network *network)
{
    for (uint32_t m = 0; m < network->num_moving; m++) {
        const struct tpp_flow *flow = &network->slots[network->moving[m]].flow;
        for (uint32_t i = 0; i < flow->num_uses; i++)
            network->loads[flow->uses[i].resource].demand = network->loads[flow->uses[i].resource].taken = 0;
    }
    for (uint32_t m = 0; m < network->num_moving; m++) {
        struct slot *slot = &network->slots[network->moving[m]];
        slot->is_frozen = false;
        for (uint32_t i = 0; i < slot->flow.num_uses; i++)
            network->loads[slot->flow.uses[i].resource].demand += slot->flow.uses[i].bytes_per_byte;
    }
}

/* Progressive filling, cost-model 9.4: max-min fair rates of all moving flows. At least one is frozen a round. Who has to
 * stop is decided for the whole round before anybody is frozen, so that the order of the flows does not matter. */
static void fill(struct tpp_flow_network *network, double now_seconds)
{
    begin_filling(network);
    for (uint32_t left = network->num_moving; left > 0;) {
        const double level = next_level(network);
        uint32_t stopped = 0;
        for (uint32_t pass = 0; pass < 2; pass++) {
            for (uint32_t m = 0; m < network->num_moving; m++) {
                struct slot *slot = &network->slots[network->moving[m]];
                if (pass == 0 && !slot->is_frozen && must_stop(network, slot, level)) {
                    slot->next = network->moving[m]; /* marked: a moving slot is in no list */
                    stopped++;
                } else if (pass == 1 && slot->next == network->moving[m]) {
                    slot->next = NO_SLOT;
                    freeze(network, slot, level);
                    set_rate(network, network->moving[m], now_seconds, level);
                }
            }
        }
        assert(stopped > 0);
        left -= stopped;
    }
}

static bool shares_a_resource(const struct tpp_flow_network *network, const struct tpp_flow *flow, uint32_t others)
{
    for (uint32_t i = 0; i < flow->num_uses; i++)
        if (network->loads[flow->uses[i].resource].num_flows > others)
            return true;
    return false;
}

/* Latency is over: the flow takes its share of the links. */
static void begin_moving(struct tpp_flow_network *network, uint32_t index, double now_seconds)
{
    struct slot *slot = &network->slots[index];
    const bool is_shared = shares_a_resource(network, &slot->flow, 0);
    slot->state = SLOT_MOVING;
    slot->next = NO_SLOT;
    slot->updated_seconds = now_seconds;
    slot->moving_index = network->num_moving;
    network->moving[network->num_moving++] = index;
    for (uint32_t i = 0; i < slot->flow.num_uses; i++)
        network->loads[slot->flow.uses[i].resource].num_flows++;
    if (is_shared)
        fill(network, now_seconds);
    else
        set_rate(network, index, now_seconds, own_rate(network, &slot->flow));
}

static void begin(struct tpp_flow_network *network, uint32_t index, double now_seconds)
{
    struct slot *slot = &network->slots[index];
    slot->state = SLOT_LATENT;
    tpp_event_heap_set(&network->heap, index, now_seconds + slot->flow.latency_seconds);
}

enum tpp_code tpp_flow_start(struct tpp_flow_network *network, double now_seconds, const struct tpp_flow *flow,
                             uint32_t tag, bool *has_begun, struct tpp_error *err)
{
    if (network->first_free == NO_SLOT && !add_slots(network))
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the transfers");
    const uint32_t index = network->first_free;
    struct slot *slot = &network->slots[index];
    network->first_free = slot->next;
    *slot = (struct slot){.flow = *flow, .remaining_bytes = flow->bytes, .tag = tag, .next = NO_SLOT};
    struct domain *domain = flow->domain == TPP_NO_DOMAIN ? NULL : &network->domains[flow->domain];
    *has_begun = !domain || domain->holder == NO_SLOT;
    if (*has_begun) {
        if (domain)
            domain->holder = index;
        begin(network, index, now_seconds);
        return TPP_OK;
    }
    slot->state = SLOT_QUEUED;
    if (domain->first == NO_SLOT)
        domain->first = index;
    else
        network->slots[domain->last].next = index;
    domain->last = index;
    return TPP_OK;
}

double tpp_flow_next_seconds(const struct tpp_flow_network *network)
{
    return network->first_begun != NO_SLOT ? -INFINITY : tpp_event_heap_first_seconds(&network->heap);
}

/* The next flow of the domain begins; it is reported by a later step. */
static void hand_over(struct tpp_flow_network *network, struct domain *domain, double now_seconds)
{
    const uint32_t index = domain->first;
    domain->holder = index;
    if (index == NO_SLOT)
        return;
    domain->first = network->slots[index].next;
    if (domain->first == NO_SLOT)
        domain->last = NO_SLOT;
    begin(network, index, now_seconds);
    network->slots[index].next = NO_SLOT;
    if (network->first_begun == NO_SLOT)
        network->first_begun = index;
    else
        network->slots[network->last_begun].next = index;
    network->last_begun = index;
}

static void finish(struct tpp_flow_network *network, uint32_t index, double now_seconds)
{
    struct slot *slot = &network->slots[index];
    const struct tpp_flow flow = slot->flow;
    if (slot->state == SLOT_MOVING) {
        const uint32_t last = network->moving[--network->num_moving];
        network->moving[slot->moving_index] = last;
        network->slots[last].moving_index = slot->moving_index;
        for (uint32_t i = 0; i < flow.num_uses; i++) {
            struct load *load = &network->loads[flow.uses[i].resource];
            load->moved += flow.bytes * flow.uses[i].bytes_per_byte;
            load->num_flows--;
            /* Exactly 0 when nobody is left, whatever the rounding of the sums before. */
            load->used = load->num_flows == 0 ? 0 : load->used - slot->rate * flow.uses[i].bytes_per_byte;
        }
        network->generation++;
    }
    slot->state = SLOT_FREE;
    slot->next = network->first_free;
    network->first_free = index;
    if (flow.domain != TPP_NO_DOMAIN)
        hand_over(network, &network->domains[flow.domain], now_seconds);
    if (shares_a_resource(network, &flow, 0))
        fill(network, now_seconds);
}

enum tpp_flow_event tpp_flow_step(struct tpp_flow_network *network, double now_seconds, uint32_t *tag)
{
    if (network->first_begun != NO_SLOT) {
        struct slot *slot = &network->slots[network->first_begun];
        *tag = slot->tag;
        network->first_begun = slot->next;
        slot->next = NO_SLOT;
        return TPP_FLOW_BEGAN;
    }
    while (tpp_event_heap_first_seconds(&network->heap) <= now_seconds) {
        const struct tpp_event_entry event = network->heap.entries[0];
        struct slot *slot = &network->slots[event.id];
        if (slot->state == SLOT_LATENT && slot->flow.bytes > 0) {
            begin_moving(network, event.id, event.seconds);
            continue;
        }
        tpp_event_heap_remove(&network->heap, event.id);
        *tag = slot->tag;
        finish(network, event.id, event.seconds);
        return TPP_FLOW_FINISHED;
    }
    return TPP_FLOW_NOTHING;
}

double tpp_flow_used_bytes_per_second(const struct tpp_flow_network *network, uint32_t resource)
{
    return network->loads[resource].used;
}

double tpp_flow_moved_bytes(const struct tpp_flow_network *network, uint32_t resource)
{
    return network->loads[resource].moved;
}

uint64_t tpp_flow_generation(const struct tpp_flow_network *network)
{
    return network->generation;
}
