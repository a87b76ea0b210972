/* comm.h - NCCL communicators of the groups of a run, their collectives, and waiting for them without hanging. */
#ifndef TPP_CALIBRATE_BENCH_COMM_H
#define TPP_CALIBRATE_BENCH_COMM_H

#include "calibrate/bench/device.h"
#include "calibrate/bench/host_bootstrap.h"
#include "calibrate/bench/host_collectives.h"
#include "calibrate/bench/host_numbers.h"

struct tpp_comm; /* one communicator of this rank; opaque */

/* Version of the library, as text in `version`. */
void tpp_comm_library_version(char *version, size_t size);

/* One communicator a group. All ranks of the world call it together, those that stay out with is_member false (*out is
 * NULL then). A rank that does not come is named after the time-out. */
enum tpp_code tpp_comm_new(struct tpp_bench_run *run, const struct tpp_device *device,
                           const struct tpp_bench_groups *groups, bool is_member, struct tpp_comm **out,
                           struct tpp_error *err);
void tpp_comm_free(struct tpp_comm *comm); /* NULL is fine */
/* Ends it at once, also in the middle of a collective that cannot end. */
void tpp_comm_abort(struct tpp_comm *comm);
uint32_t tpp_comm_size(const struct tpp_comm *comm);
uint32_t tpp_comm_position(const struct tpp_comm *comm);

/* Puts one collective into the stream; `count` is that of host_collectives.h. In place: `send` and `receive` overlap as
 * NCCL wants it (the part of this rank inside the whole). */
enum tpp_code tpp_comm_launch(struct tpp_comm *comm, enum tpp_bench_collective collective, enum tpp_bench_type type,
                              const void *send, void *receive, uint64_t count, struct CUstream_st *stream,
                              struct tpp_error *err);

/* For tpp_device.still_there: asks the bootstrap and the communicators of this rank. */
struct tpp_comm_watch {
    struct tpp_bootstrap *bootstrap;
    struct tpp_comm *comms[2];
};
enum tpp_code tpp_comm_still_there(void *context, struct tpp_error *err);
/* After a failed wait on a collective: finds out who is to blame, ends the communicators, and returns the error. */
enum tpp_code tpp_comm_blame(const struct tpp_comm_watch *watch, const char *what, enum tpp_code code,
                             struct tpp_error *err);

#endif
