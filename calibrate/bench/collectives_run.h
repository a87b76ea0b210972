/* collectives_run.h - measuring collectives on all ranks together; shared by the programs of many ranks.
 *
 * Every function is called by all ranks in the same order, those outside the group under test included: they wait at
 * the barriers. Only rank 0 writes. */
#ifndef TPP_CALIBRATE_BENCH_COLLECTIVES_RUN_H
#define TPP_CALIBRATE_BENCH_COLLECTIVES_RUN_H

#include "calibrate/bench/comm.h"

struct tpp_collectives {
    struct tpp_bench_run *run;
    struct tpp_device device;
    struct tpp_comm_watch watch;
    enum tpp_bench_type type;
    uint32_t num_nodes;
    char *host_names; /* of all ranks, and one of each node */
    const char **hosts;
    uint64_t max_bytes; /* of one buffer */
    void *send, *receive;
    struct tpp_bench_groups plan; /* under test */
    struct tpp_comm *comm;        /* NULL: this rank stays out */
};

struct tpp_collective_point {
    enum tpp_bench_collective collective;
    uint64_t bytes; /* wanted; rounded down as nccl-tests does */
    bool in_place, check;
};

/* Opens the GPU of this rank, finds out who is on which node, writes the "run" line, and allocates two buffers of
 * max_bytes, or less where they do not fit (the same on all ranks). */
enum tpp_code tpp_collectives_open(struct tpp_bench_run *run, uint64_t max_bytes, struct tpp_collectives *bench,
                                   struct tpp_error *err);
/* `code` is how the run ended: after a failure communicators are ended at once. */
void tpp_collectives_close(struct tpp_collectives *bench, enum tpp_code code);

/* Makes the communicators of a plan, and takes them away. */
enum tpp_code tpp_collectives_begin(struct tpp_collectives *bench, const struct tpp_bench_groups *plan,
                                    struct tpp_error *err);
void tpp_collectives_end(struct tpp_collectives *bench, enum tpp_code code);

/* One point: checked, warmed up, timed, gathered, written. A size without one element a rank is left out. */
enum tpp_code tpp_collectives_measure(struct tpp_collectives *bench, const struct tpp_collective_point *point,
                                      struct tpp_error *err);
/* Rank 0's clock decides for all. */
enum tpp_code tpp_collectives_out_of_time(struct tpp_collectives *bench, bool *out_of_time, struct tpp_error *err);
/* Device memory of a communicator of the world after its first all_reduce, and more after its first all_to_all. */
enum tpp_code tpp_collectives_memory(struct tpp_collectives *bench, struct tpp_error *err);

/* Waits for a stream with a time-out that names the rank that is late. */
enum tpp_code tpp_collectives_wait(struct tpp_collectives *bench, struct CUstream_st *stream, const char *what,
                                   struct tpp_error *err);

#endif
