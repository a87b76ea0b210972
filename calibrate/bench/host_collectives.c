#include "calibrate/bench/host_collectives.h"

#include <stdio.h>

const char *tpp_bench_collective_name(enum tpp_bench_collective collective)
{
    static const char *const names[TPP_BENCH_COLLECTIVE_COUNT] = {"all_gather", "reduce_scatter", "all_reduce",
                                                                  "all_to_all", "send_recv"};
    return names[collective];
}

double tpp_bench_bus_factor(enum tpp_bench_collective collective, uint32_t num_ranks)
{
    const double n = num_ranks;
    if (collective == TPP_BENCH_SEND_RECV) {
        return 1;
    }
    return (collective == TPP_BENCH_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

bool tpp_bench_has_in_place(enum tpp_bench_collective collective)
{
    return collective != TPP_BENCH_ALL_TO_ALL && collective != TPP_BENCH_SEND_RECV;
}

static bool is_whole(enum tpp_bench_collective collective)
{
    return collective == TPP_BENCH_ALL_REDUCE || collective == TPP_BENCH_SEND_RECV;
}

bool tpp_bench_message(enum tpp_bench_collective collective, uint64_t wanted_bytes, size_t element_bytes,
                       uint32_t num_ranks, uint64_t *bytes, uint64_t *count)
{
    const uint64_t parts = is_whole(collective) ? 1 : num_ranks;
    const uint64_t elements_of_16_bytes = element_bytes < 16 ? 16 / element_bytes : 1;
    *count = wanted_bytes / element_bytes / parts;
    if (parts > 1 && *count > elements_of_16_bytes) {
        *count -= *count % elements_of_16_bytes; /* parts begin at 16 bytes, as in nccl-tests */
    }
    *bytes = *count * parts * element_bytes;
    return *count > 0;
}

uint64_t tpp_bench_send_count(enum tpp_bench_collective collective, uint64_t count, uint32_t num_ranks)
{
    const bool sends_part = is_whole(collective) || collective == TPP_BENCH_ALL_GATHER;
    return sends_part ? count : count * num_ranks;
}

uint64_t tpp_bench_receive_count(enum tpp_bench_collective collective, uint64_t count, uint32_t num_ranks)
{
    const bool gets_part = is_whole(collective) || collective == TPP_BENCH_REDUCE_SCATTER;
    return gets_part ? count : count * num_ranks;
}

size_t tpp_bench_size_grid(uint64_t min_bytes, uint64_t max_bytes, double factor, uint64_t *sizes, size_t capacity)
{
    size_t count = 0;
    if (min_bytes < 1 || max_bytes < min_bytes || !(factor >= 1.01)) {
        return 0;
    }
    for (double size = (double)min_bytes; size < (double)max_bytes * 0.9999 && count < capacity; size *= factor) {
        if (count == 0 || (uint64_t)size > sizes[count - 1]) {
            sizes[count++] = (uint64_t)size;
        }
    }
    if (count < capacity) {
        sizes[count++] = max_bytes;
    }
    return count;
}

uint32_t tpp_bench_group_size(const struct tpp_bench_groups *groups)
{
    return groups->group_nodes * groups->per_node;
}

void tpp_bench_group_of(const struct tpp_bench_groups *groups, uint32_t rank, uint32_t *group, uint32_t *position)
{
    /* Local ranks fall into blocks of per_node * stride; in a block, ranks that are `stride` apart belong together. */
    const uint32_t node = rank / groups->ranks_per_node, local = rank % groups->ranks_per_node;
    const uint32_t block_size = groups->per_node * groups->stride;
    const uint32_t block = local / block_size, inside = local % block_size;
    const uint32_t groups_per_node = groups->ranks_per_node / groups->per_node;
    *group = node / groups->group_nodes * groups_per_node + block * groups->stride + inside % groups->stride;
    *position = node % groups->group_nodes * groups->per_node + inside / groups->stride;
}

struct plan_list {
    struct tpp_bench_groups *plans;
    size_t count;
    uint32_t num_nodes, ranks_per_node;
};

/* Adds a cut of the world when it is one and has at least two ranks a group: alone, and all groups at once. */
static void add(struct plan_list *list, const char *name, uint32_t group_nodes, uint32_t per_node, uint32_t stride)
{
    struct tpp_bench_groups plan = {
        .ranks_per_node = list->ranks_per_node, .group_nodes = group_nodes, .per_node = per_node, .stride = stride};
    if (group_nodes * per_node < 2 || list->ranks_per_node % (per_node * stride) != 0 ||
        list->num_nodes % group_nodes != 0) {
        return;
    }
    plan.num_groups = list->num_nodes * list->ranks_per_node / (group_nodes * per_node);
    snprintf(plan.name, sizeof plan.name, "%s", name);
    for (int all = 0; all <= (plan.num_groups > 1) && list->count < TPP_BENCH_MAX_GROUPS; all++) {
        plan.concurrent = all;
        list->plans[list->count++] = plan;
    }
}

size_t tpp_bench_group_plans(uint32_t num_nodes, uint32_t ranks_per_node, struct tpp_bench_groups *plans)
{
    struct plan_list list = {.plans = plans, .num_nodes = num_nodes, .ranks_per_node = ranks_per_node};
    char name[24];
    for (uint32_t size = 2; size < ranks_per_node; size *= 2) {
        snprintf(name, sizeof name, "node-%u", size);
        add(&list, name, 1, size, 1);
        if (size <= 4) {
            snprintf(name, sizeof name, "node-%u-strided", size);
            add(&list, name, 1, size, ranks_per_node / size);
        }
    }
    add(&list, "node", 1, ranks_per_node, 1);
    if (num_nodes > 1) {
        for (uint32_t size = 1; size < ranks_per_node; size *= 2) {
            snprintf(name, sizeof name, "across-%u", size);
            add(&list, name, num_nodes, size, 1);
        }
        add(&list, "world", num_nodes, ranks_per_node, 1);
    }
    return list.count;
}
