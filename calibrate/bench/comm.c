#include "calibrate/bench/comm.h"

#include "calibrate/bench/host_socket.h"

#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct tpp_comm {
    ncclComm_t comm;
    uint32_t size, position;
    double timeout_seconds;
};

void tpp_comm_library_version(char *version, size_t size)
{
    int number = 0;
    if (ncclGetVersion(&number) != ncclSuccess) {
        number = 0;
    }
    snprintf(version, size, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
}

static enum tpp_code nccl(const struct tpp_comm *comm, ncclResult_t result, const char *what, struct tpp_error *err)
{
    if (result == ncclSuccess) {
        return TPP_OK;
    }
    const char *last = ncclGetLastError(comm ? comm->comm : NULL);
    return tpp_fail(err, TPP_E_IO, what, "NCCL_DEBUG=INFO shows what NCCL tried", "NCCL: %s%s%.120s",
                    ncclGetErrorString(result), last && last[0] ? ": " : "", last ? last : "");
}

/* Non-blocking communicators answer "in progress" until a call is done. */
static enum tpp_code settle(const struct tpp_comm *comm, ncclResult_t result, const char *what,
                            struct tpp_bootstrap *bootstrap, struct tpp_error *err)
{
    const double deadline = tpp_bench_now() + comm->timeout_seconds;
    while (result == ncclInProgress) {
        const ncclResult_t asked = ncclCommGetAsyncError(comm->comm, &result);
        if (asked != ncclSuccess) {
            result = asked;
        }
        if (result != ncclInProgress) {
            break;
        }
        if (bootstrap) {
            const enum tpp_code code = tpp_bootstrap_check(bootstrap, err);
            if (code != TPP_OK) {
                return code;
            }
        }
        if (tpp_bench_now() > deadline) {
            return tpp_fail(err, TPP_E_IO, what, "NCCL_DEBUG=INFO shows what NCCL waits for",
                            "NCCL was not done within %g s", comm->timeout_seconds);
        }
        nanosleep(&(struct timespec){.tv_nsec = bootstrap ? 1000 * 1000 : 1000}, NULL);
    }
    return nccl(comm, result, what, err);
}

/* Every group's first rank makes an id; all ids go to all ranks, and each takes that of its group. */
static enum tpp_code exchange_ids(struct tpp_bench_run *run, const struct tpp_bench_groups *groups, bool is_member,
                                  ncclUniqueId *id, struct tpp_error *err)
{
    uint32_t group, position;
    struct {
        ncclUniqueId id;
        uint32_t group, is_leader;
    } mine, *all = calloc(run->world.size, sizeof *all);
    enum tpp_code code = all ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, "NCCL ids", NULL, "out of memory");
    memset(&mine, 0, sizeof mine);
    tpp_bench_group_of(groups, run->world.rank, &group, &position);
    mine.group = group;
    mine.is_leader = is_member && position == 0;
    if (code == TPP_OK && mine.is_leader) {
        code = nccl(NULL, ncclGetUniqueId(&mine.id), "ncclGetUniqueId", err);
    }
    code = code ? code : tpp_bootstrap_all_gather(run->bootstrap, &mine, sizeof mine, all, err);
    for (uint32_t rank = 0; rank < run->world.size && code == TPP_OK; rank++) {
        if (all[rank].is_leader && all[rank].group == group) {
            *id = all[rank].id;
        }
    }
    free(all);
    return code;
}

enum tpp_code tpp_comm_new(struct tpp_bench_run *run, const struct tpp_device *device,
                           const struct tpp_bench_groups *groups, bool is_member, struct tpp_comm **out,
                           struct tpp_error *err)
{
    uint32_t group;
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    struct tpp_comm *comm = calloc(1, sizeof *comm);
    *out = NULL;
    memset(&id, 0, sizeof id);
    if (!comm) {
        return tpp_fail(err, TPP_E_MEMORY, "NCCL", NULL, "out of memory");
    }
    comm->size = tpp_bench_group_size(groups);
    comm->timeout_seconds = device->timeout_seconds;
    tpp_bench_group_of(groups, run->world.rank, &group, &comm->position);
    enum tpp_code code = exchange_ids(run, groups, is_member, &id, err);
    if (code == TPP_OK && is_member) {
        config.blocking = 0;
        code = settle(comm, ncclCommInitRankConfig(&comm->comm, (int)comm->size, id, (int)comm->position, &config),
                      "ncclCommInitRankConfig", run->bootstrap, err);
    }
    if (code == TPP_OK && is_member) {
        *out = comm;
        return TPP_OK;
    }
    tpp_comm_abort(comm);
    return code;
}

void tpp_comm_free(struct tpp_comm *comm)
{
    if (!comm) {
        return;
    }
    if (comm->comm) {
        ncclResult_t result = ncclCommFinalize(comm->comm);
        if (settle(comm, result, "ncclCommFinalize", NULL, NULL) == TPP_OK) {
            ncclCommDestroy(comm->comm);
        } else {
            ncclCommAbort(comm->comm);
        }
    }
    free(comm);
}

void tpp_comm_abort(struct tpp_comm *comm)
{
    if (comm && comm->comm) {
        ncclCommAbort(comm->comm);
    }
    free(comm);
}

uint32_t tpp_comm_size(const struct tpp_comm *comm)
{
    return comm->size;
}

uint32_t tpp_comm_position(const struct tpp_comm *comm)
{
    return comm->position;
}

static ncclDataType_t data_type(enum tpp_bench_type type)
{
    static const ncclDataType_t types[TPP_BENCH_TYPE_COUNT] = {ncclFloat32, ncclBfloat16, ncclFloat16, ncclUint8};
    return types[type];
}

/* Non-blocking communicators may be at work already inside a group: that is no failure, and what follows must be called. */
static bool has_failed(ncclResult_t result)
{
    return result != ncclSuccess && result != ncclInProgress;
}

/* Sends and receives of one rank in one group call: to all others, or to the next from the one before. */
static ncclResult_t exchange(struct tpp_comm *comm, enum tpp_bench_collective collective, enum tpp_bench_type type,
                             const char *send, char *receive, uint64_t count, struct CUstream_st *stream)
{
    const uint32_t n = comm->size;
    const uint64_t part = count * tpp_bench_type_bytes(type);
    ncclResult_t result = ncclGroupStart();
    if (collective == TPP_BENCH_SEND_RECV) {
        const int next = (int)((comm->position + 1) % n), previous = (int)((comm->position + n - 1) % n);
        result = has_failed(result) ? result : ncclSend(send, count, data_type(type), next, comm->comm, stream);
        result = has_failed(result) ? result : ncclRecv(receive, count, data_type(type), previous, comm->comm, stream);
    } else {
        for (uint32_t peer = 0; peer < n && !has_failed(result); peer++) {
            result = ncclSend(send + peer * part, count, data_type(type), (int)peer, comm->comm, stream);
            result = has_failed(result)
                         ? result
                         : ncclRecv(receive + peer * part, count, data_type(type), (int)peer, comm->comm, stream);
        }
    }
    const ncclResult_t ended = ncclGroupEnd();
    return has_failed(result) ? result : ended;
}

enum tpp_code tpp_comm_launch(struct tpp_comm *comm, enum tpp_bench_collective collective, enum tpp_bench_type type,
                              const void *send, void *receive, uint64_t count, struct CUstream_st *stream,
                              struct tpp_error *err)
{
    ncclResult_t result;
    switch (collective) {
    case TPP_BENCH_ALL_GATHER:
        result = ncclAllGather(send, receive, count, data_type(type), comm->comm, stream);
        break;
    case TPP_BENCH_REDUCE_SCATTER:
        result = ncclReduceScatter(send, receive, count, data_type(type), ncclSum, comm->comm, stream);
        break;
    case TPP_BENCH_ALL_REDUCE:
        result = ncclAllReduce(send, receive, count, data_type(type), ncclSum, comm->comm, stream);
        break;
    default:
        result = exchange(comm, collective, type, send, receive, count, stream);
        break;
    }
    return settle(comm, result, tpp_bench_collective_name(collective), NULL, err);
}

enum tpp_code tpp_comm_still_there(void *context, struct tpp_error *err)
{
    const struct tpp_comm_watch *watch = context;
    enum tpp_code code = tpp_bootstrap_check(watch->bootstrap, err);
    for (int i = 0; i < 2 && code == TPP_OK; i++) {
        const struct tpp_comm *comm = watch->comms[i];
        ncclResult_t result = ncclSuccess;
        if (comm && ncclCommGetAsyncError(comm->comm, &result) == ncclSuccess && result != ncclInProgress) {
            code = nccl(comm, result, "a collective", err);
        }
    }
    return code;
}

enum tpp_code tpp_comm_blame(const struct tpp_comm_watch *watch, const char *what, enum tpp_code code,
                             struct tpp_error *err)
{
    struct tpp_error own = {0};
    /* A time-out of this rank says nothing of who is late: ask. Anything else has been said already. */
    if (err && strstr(err->message, "was not done within")) {
        code = tpp_bootstrap_blame(watch->bootstrap, what, 5, &own);
        *err = own;
    }
    return code;
}
