/* Collectives: cost-model 6.1. Latency, bandwidth and half-rate size of each operation on each number of ranks are
 * shown; the profile has one latency and half-rate size for a node and one bandwidth an operation, fitted over all of
 * them. */
#include "calibrate/fit/fit_group.h"
#include "costmodel/collective_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum level { INSIDE_NODE, BETWEEN_NODES };

enum { MAX_GROUPS = 64 };

/* One row of the table: an operation on so many ranks of so many nodes, so many of these groups at once. */
struct group_key {
    int operation;
    uint32_t num_ranks, num_nodes, concurrent_groups;
};

/* Rows of the table, or those of them with several groups at once. */
struct group_list {
    struct group_key keys[MAX_GROUPS];
    size_t count;
    bool is_cut; /* there were more */
};

/* Inside a node the profile's bandwidths are those of all its GPUs: of the most ranks that were measured. */
struct level_key {
    enum level level;
    uint32_t num_ranks; /* inside a node */
    const struct group_list *concurrent;
};

/* A measurement that the formula is for: of an operation with a rate, on more than one rank, of some bytes, right. */
static bool is_usable(const struct tpp_collective_sample *collective)
{
    return collective->operation < TPP_COLLECTIVE_COUNT && collective->num_ranks > 1 && collective->num_nodes > 0 &&
           collective->bytes > 0 && !(collective->num_wrong > 0);
}

static struct group_key key_of(const struct tpp_collective_sample *collective)
{
    const uint32_t groups = collective->concurrent_groups > 1 ? collective->concurrent_groups : 1;
    return (struct group_key){collective->operation, collective->num_ranks, collective->num_nodes, groups};
}

static bool is_same_group(const struct group_key *a, const struct group_key *b)
{
    return a->operation == b->operation && a->num_ranks == b->num_ranks && a->num_nodes == b->num_nodes &&
           a->concurrent_groups == b->concurrent_groups;
}

static void add_group(struct group_list *list, struct group_key key)
{
    size_t i = 0;
    while (i < list->count && !is_same_group(&list->keys[i], &key)) {
        i++;
    }
    if (i < MAX_GROUPS) {
        list->keys[i] = key;
        list->count = i == list->count ? i + 1 : list->count;
    } else {
        list->is_cut = true;
    }
}

static enum tpp_fit_use select_group(const struct tpp_sample *sample, const void *context)
{
    const struct group_key key = key_of(&sample->collective);
    return sample->kind == TPP_SAMPLE_COLLECTIVE && is_usable(&sample->collective) && is_same_group(&key, context)
               ? TPP_FIT_USE
               : TPP_FIT_OTHER;
}

/* A training job has all groups of a kind at work, and the model shares a node's ports among its GPUs: where groups were
 * measured both alone and at once, alone says what no step sees. */
static bool is_seen_by_steps(const struct tpp_collective_sample *collective, const struct group_list *concurrent)
{
    struct group_key key = key_of(collective);
    if (key.concurrent_groups > 1) {
        return true;
    }
    for (size_t i = 0; i < concurrent->count; i++) {
        key.concurrent_groups = concurrent->keys[i].concurrent_groups;
        if (is_same_group(&key, &concurrent->keys[i])) {
            return false;
        }
    }
    return true;
}

/* Messages have no ramp and a fixed latency in the model: they are fitted apart. */
static enum tpp_fit_use select_level(const struct tpp_sample *sample, const void *context)
{
    const struct level_key *key = context;
    const bool is_inside = key->level == INSIDE_NODE;
    const struct tpp_collective_sample *collective = &sample->collective;
    if (sample->kind != TPP_SAMPLE_COLLECTIVE) {
        return TPP_FIT_OTHER;
    }
    if (!is_usable(collective)) {
        return is_inside ? TPP_FIT_LEAVE_OUT : TPP_FIT_OTHER;
    }
    if (collective->operation == TPP_SEND_RECV || (collective->num_nodes == 1) != is_inside) {
        return TPP_FIT_OTHER;
    }
    return (is_inside && collective->num_ranks < key->num_ranks) || !is_seen_by_steps(collective, key->concurrent)
               ? TPP_FIT_LEAVE_OUT
               : TPP_FIT_USE;
}

static enum tpp_fit_use select_message(const struct tpp_sample *sample, const void *context)
{
    const struct level_key *key = context;
    const struct tpp_collective_sample *collective = &sample->collective;
    if (sample->kind != TPP_SAMPLE_COLLECTIVE || !is_usable(collective) || collective->operation != TPP_SEND_RECV ||
        collective->num_nodes < 2) {
        return TPP_FIT_OTHER;
    }
    return is_seen_by_steps(collective, key->concurrent) ? TPP_FIT_USE : TPP_FIT_LEAVE_OUT;
}

static double predict(const struct tpp_hardware *hardware, const struct tpp_sample *sample)
{
    const struct tpp_collective_sample *collective = &sample->collective;
    const struct tpp_links links = tpp_links_make(hardware, 0, 0);
    const struct tpp_group group =
        tpp_group_place_by_hand(collective->num_ranks, collective->num_ranks / collective->num_nodes);
    return tpp_collective_seconds(&links, (enum tpp_collective)collective->operation, &group,
                                  (double)collective->bytes);
}

static uint64_t shape(const struct tpp_sample *sample)
{
    const struct tpp_collective_sample *collective = &sample->collective;
    uint64_t digest = tpp_fit_mix(UINT64_C(0x4e43434c), collective->operation);
    digest = tpp_fit_mix(tpp_fit_mix(digest, collective->num_ranks), collective->num_nodes);
    return tpp_fit_mix(digest, (double)collective->bytes);
}

static double size(const struct tpp_sample *sample)
{
    return (double)sample->collective.bytes;
}

static void describe(const struct tpp_fit_set *set, char *range, size_t range_size)
{
    double low = INFINITY, high = 0;
    uint32_t least_ranks = UINT32_MAX, most_ranks = 0;
    for (size_t i = 0; i < set->points.count; i++) {
        const struct tpp_collective_sample *collective = &set->points.items[i]->collective;
        low = fmin(low, (double)collective->bytes);
        high = fmax(high, (double)collective->bytes);
        least_ranks = collective->num_ranks < least_ranks ? collective->num_ranks : least_ranks;
        most_ranks = collective->num_ranks > most_ranks ? collective->num_ranks : most_ranks;
    }
    snprintf(range, range_size, "%.0f to %.3g bytes, %u to %u ranks", low, high, least_ranks, most_ranks);
}

#define LATENCY_LIMITS 2e-7, 1e-2
#define BANDWIDTH_LIMITS 1e7, 1e13
#define HALF_RATE_LIMITS 1e3, 1e10 /* the lower one: no ramp */

static const char *const bus_keys[TPP_COLLECTIVE_COUNT] = {
    "node.all_reduce_bus_bytes_per_second",     "node.all_gather_bus_bytes_per_second",
    "node.reduce_scatter_bus_bytes_per_second", "node.all_to_all_bus_bytes_per_second",
    "node.send_recv_bus_bytes_per_second",
};

/* The formula with one latency and one bandwidth: no hops, and a network that limits nothing, so that
 * t = latency + factor S / bandwidth * ramp. All-to-all between nodes is limited by the network alone. */
static void flatten(struct tpp_hardware *hardware, const struct group_key *key)
{
    hardware->node.hop_latency_seconds = 0;
    hardware->network.hop_latency_seconds = 0;
    hardware->network.ring_efficiency_fraction = 1;
    hardware->network.oversubscription = 1;
    if (key->operation != TPP_ALL_TO_ALL || key->num_nodes == 1) {
        hardware->network.nic_bytes_per_second = 1e15;
    } else {
        hardware->network.num_nics = hardware->node.num_gpus; /* the value found is the rate of one GPU */
        hardware->node.bus_bytes_per_second[TPP_ALL_TO_ALL] = 1e15;
    }
}

static enum tpp_code fit_one(struct tpp_fit_run *run, const struct group_key *key, struct tpp_error *err)
{
    const bool is_network = key->operation == TPP_ALL_TO_ALL && key->num_nodes > 1;
    const struct tpp_unknown unknowns[] = {
        {is_network ? "network.nic_bytes_per_second" : bus_keys[key->operation], BANDWIDTH_LIMITS, false},
        {"node.base_latency_seconds", LATENCY_LIMITS, false},
        {"node.half_rate_bytes", HALF_RATE_LIMITS, false, true},
    };
    char name[64];
    struct tpp_fit_set set;
    struct tpp_hardware *flat = malloc(sizeof *flat);
    if (!flat) {
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    *flat = *run->base;
    flatten(flat, key);
    const int length = snprintf(name, sizeof name, "%s, %u ranks, %u node%s", tpp_sample_operation_name(key->operation),
                                key->num_ranks, key->num_nodes, key->num_nodes == 1 ? "" : "s");
    if (key->concurrent_groups > 1) {
        snprintf(name + length, sizeof name - (size_t)length, ", %u at once", key->concurrent_groups);
    }
    const struct tpp_fit_plan plan = {name, unknowns, 3, predict, shape, size, describe, false, NULL};
    enum tpp_code code = tpp_fit_collect(run, select_group, key, &set, err);
    code = code ? code : tpp_fit_group(run, flat, &plan, &set, err);
    tpp_fit_set_release(&set);
    free(flat);
    return code;
}

/* The groups that occur: those of the table, which has no messages, or those at once. */
static void list_groups(const struct tpp_fit_run *run, bool is_concurrent, struct group_list *list)
{
    memset(list, 0, sizeof *list);
    for (size_t i = 0; i < run->samples->count; i++) {
        const struct tpp_sample *sample = &run->samples->items[i];
        const struct tpp_collective_sample *collective = &sample->collective;
        if (sample->kind == TPP_SAMPLE_COLLECTIVE && is_usable(collective) &&
            (is_concurrent ? collective->concurrent_groups > 1 : collective->operation != TPP_SEND_RECV)) {
            add_group(list, key_of(collective));
        }
    }
}

/* The table: every operation but messages, on every number of ranks and nodes that occurs. */
static enum tpp_code fit_table(struct tpp_fit_run *run, struct tpp_error *err)
{
    struct group_list list;
    enum tpp_code code = TPP_OK;
    list_groups(run, false, &list);
    if (list.is_cut) {
        tpp_fit_note(run->report, "only the first %d of operations, ranks and nodes are shown apart", MAX_GROUPS);
    }
    for (size_t i = 0; i < list.count && code == TPP_OK; i++) {
        code = fit_one(run, &list.keys[i], err);
    }
    return code;
}

static uint32_t most_ranks(const struct tpp_fit_run *run)
{
    uint32_t most = 0;
    for (size_t i = 0; i < run->samples->count; i++) {
        const struct tpp_sample *sample = &run->samples->items[i];
        const struct tpp_collective_sample *collective = &sample->collective;
        if (sample->kind == TPP_SAMPLE_COLLECTIVE && is_usable(collective) && collective->num_nodes == 1 &&
            collective->operation != TPP_SEND_RECV && collective->num_ranks > most) {
            most = collective->num_ranks;
        }
    }
    return most;
}

static enum tpp_code fit_inside_node(struct tpp_fit_run *run, const struct group_list *concurrent, struct tpp_error *err)
{
    const struct level_key key = {INSIDE_NODE, most_ranks(run), concurrent};
    struct tpp_unknown unknowns[TPP_COLLECTIVE_COUNT + 2];
    bool has[TPP_COLLECTIVE_COUNT] = {false};
    size_t count = 0;
    struct tpp_fit_set set;
    enum tpp_code code = tpp_fit_collect(run, select_level, &key, &set, err);
    if (code == TPP_OK) {
        for (size_t i = 0; i < set.points.count; i++) {
            has[set.points.items[i]->collective.operation] = true;
        }
        for (int i = 0; i < TPP_COLLECTIVE_COUNT; i++) {
            if (has[i]) {
                unknowns[count++] = (struct tpp_unknown){bus_keys[i], BANDWIDTH_LIMITS, false};
            }
        }
        unknowns[count++] = (struct tpp_unknown){"node.half_rate_bytes", HALF_RATE_LIMITS, false, true};
        unknowns[count++] = (struct tpp_unknown){"node.hop_latency_seconds", 1e-8, 1e-3, false, true};
        const struct tpp_fit_plan plan = {
            "collectives inside a node", unknowns, count, predict, shape, size, describe, true,
            "node.collective_error_fraction"};
        code = tpp_fit_group(run, run->hardware, &plan, &set, err);
    }
    tpp_fit_set_release(&set);
    return code;
}

static enum tpp_code fit_between_nodes(struct tpp_fit_run *run, const struct group_list *concurrent,
                                       struct tpp_error *err)
{
    static const struct tpp_unknown ring[] = {
        {"network.ring_efficiency_fraction", 0.02, 1, true},
        {"network.hop_latency_seconds", 1e-7, 1e-2, false},
    };
    static const struct tpp_unknown message[] = {{"network.send_recv_efficiency_fraction", 0.02, 1, true}};
    static const struct tpp_fit_plan plans[] = {
        {"collectives between nodes", ring, 2, predict, shape, size, describe, true, "network.collective_error_fraction"},
        {"messages between nodes", message, 1, predict, shape, size, describe, true, NULL},
    };
    const struct level_key key = {BETWEEN_NODES, 0, concurrent};
    enum tpp_code code = TPP_OK;
    for (int i = 0; i < 2 && code == TPP_OK; i++) {
        struct tpp_fit_set set;
        code = tpp_fit_collect(run, i == 0 ? select_level : select_message, &key, &set, err);
        code = code ? code : tpp_fit_group(run, run->hardware, &plans[i], &set, err);
        tpp_fit_set_release(&set);
    }
    return code;
}

enum tpp_code tpp_fit_collectives(struct tpp_fit_run *run, struct tpp_error *err)
{
    struct group_list concurrent;
    enum tpp_code code = fit_table(run, err);
    list_groups(run, true, &concurrent);
    code = code ? code : fit_inside_node(run, &concurrent, err);
    return code ? code : fit_between_nodes(run, &concurrent, err);
}
