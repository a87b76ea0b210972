/* host_collectives.h - the collectives that are measured, their sizes and bandwidths as nccl-tests defines them, and
 * the groups of ranks of a training job. */
#ifndef TPP_CALIBRATE_BENCH_HOST_COLLECTIVES_H
#define TPP_CALIBRATE_BENCH_HOST_COLLECTIVES_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_bench_collective {
    TPP_BENCH_ALL_GATHER,
    TPP_BENCH_REDUCE_SCATTER,
    TPP_BENCH_ALL_REDUCE,
    TPP_BENCH_ALL_TO_ALL,
    TPP_BENCH_SEND_RECV, /* every rank sends to the next of its group and receives from the one before */
    TPP_BENCH_COLLECTIVE_COUNT,
};

const char *tpp_bench_collective_name(enum tpp_bench_collective collective); /* "all_gather", ... */
/* busbw = algbw x factor (nccl-tests, doc/PERFORMANCE.md). */
double tpp_bench_bus_factor(enum tpp_bench_collective collective, uint32_t num_ranks);
/* The collective has a form in which input and output share one buffer. */
bool tpp_bench_has_in_place(enum tpp_bench_collective collective);

/* One size: `bytes` is the size column of nccl-tests (the whole buffer), rounded down so that every rank's
 * part is whole 16 bytes (whole elements, where it is less);
 * `count` is elements of one part (the whole buffer for all_reduce and send_recv). False when nothing is left. */
bool tpp_bench_message(enum tpp_bench_collective collective, uint64_t wanted_bytes, size_t element_bytes,
                       uint32_t num_ranks, uint64_t *bytes, uint64_t *count);
/* Elements that a rank sends and receives for `count`. */
uint64_t tpp_bench_send_count(enum tpp_bench_collective collective, uint64_t count, uint32_t num_ranks);
uint64_t tpp_bench_receive_count(enum tpp_bench_collective collective, uint64_t count, uint32_t num_ranks);

/* min, min*factor, ... and max itself. Returns how many were written, at most `capacity`. */
size_t tpp_bench_size_grid(uint64_t min_bytes, uint64_t max_bytes, double factor, uint64_t *sizes, size_t capacity);

/* A way to cut the world into groups that all look the same. Rank = node * ranks_per_node + local rank. */
struct tpp_bench_groups {
    char name[24];           /* "node", "node-2-strided", "across-1", "across-4", "world" */
    uint32_t ranks_per_node; /* of the machine */
    uint32_t group_nodes;    /* nodes in one group */
    uint32_t per_node;       /* ranks of one group on one of its nodes */
    uint32_t stride;         /* distance of their local ranks */
    uint32_t num_groups;
    bool concurrent; /* all groups work at once; else group 0 alone, the others wait */
};

#define TPP_BENCH_MAX_GROUPS 64

/* The groups of a training job on num_nodes nodes of ranks_per_node ranks: inside a node (tensor parallel: 2, 4, ...
 * and all ranks; neighbours and, for 2 and 4, strided), one rank a node (data parallel beside full tensor parallelism),
 * several ranks a node, and the world. Groups that exist more than once are there alone and concurrent. Returns how
 * many were written, at most TPP_BENCH_MAX_GROUPS. */
size_t tpp_bench_group_plans(uint32_t num_nodes, uint32_t ranks_per_node, struct tpp_bench_groups *plans);
uint32_t tpp_bench_group_size(const struct tpp_bench_groups *groups);
/* The group of a rank and its position inside. */
void tpp_bench_group_of(const struct tpp_bench_groups *groups, uint32_t rank, uint32_t *group, uint32_t *position);

#endif
