/* NCCL between processes of this machine: every message is a file in a folder of the run, named by communicator,
 * number, sender and receiver. A receiver waits until it is there, as a stream does. */
#include "calibrate/bench/host_numbers.h"
#include "tests/calibrate/fake_stream.h"

#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ncclComm {
    unsigned long id;
    int size, rank;
    unsigned long number; /* of the next collective */
    unsigned long groups; /* of sends and receives so far */
};

struct move {
    struct ncclComm comm; /* as it was when the work was put in */
    int collective;       /* 0 gather, 1 scatter of sums, 2 sum, 3 send, 4 receive */
    int peer;
    const char *send;
    char *receive;
    size_t count;
    ncclDataType_t type;
    int is_sent;
};

static unsigned num_collectives;
static struct move group[512];
static struct CUstream_st *group_stream;
static ncclComm_t group_comm; /* one communicator a group is all that is needed */
static int in_group;
static size_t group_size;

static enum tpp_bench_type type_of(ncclDataType_t type)
{
    return type == ncclFloat32 ? TPP_BENCH_FP32 : type == ncclBfloat16 ? TPP_BENCH_BF16 : TPP_BENCH_FP16;
}

static void path_of(char *path, size_t size, const struct move *move, int from, int to)
{
    snprintf(path, size, "%s/%lx-%lu-%d-%d", getenv("TPP_FAKE_FOLDER"), move->comm.id, move->comm.number, from, to);
}

static void write_message(const struct move *move, int to, const char *data, size_t bytes)
{
    char path[300], temporary[320];
    path_of(path, sizeof path, move, move->comm.rank, to);
    snprintf(temporary, sizeof temporary, "%s.part", path);
    FILE *file = fopen(temporary, "w");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0 || rename(temporary, path) != 0) {
        abort();
    }
}

/* 0 when it was there. */
static int read_message(const struct move *move, int from, int to, char *data, size_t bytes)
{
    char path[300];
    path_of(path, sizeof path, move, from, to);
    FILE *file = fopen(path, "r");
    if (!file) {
        return 1;
    }
    if (fread(data, 1, bytes, file) != bytes) {
        abort();
    }
    fclose(file);
    return 0;
}

/* Adds the parts of all ranks, or puts them one behind the other. */
static int combine(struct move *move)
{
    const enum tpp_bench_type type = type_of(move->type);
    const size_t element = tpp_bench_type_bytes(type), n = (size_t)move->comm.size;
    const size_t sent = move->count * (move->collective == 1 ? n : 1);
    const size_t first = move->collective == 1 ? (size_t)move->comm.rank * move->count : 0;
    char *parts = malloc(n * sent * element);
    int missing = 0;
    for (int rank = 0; rank < move->comm.size; rank++) {
        missing |= read_message(move, rank, -1, parts + (size_t)rank * sent * element, sent * element);
    }
    for (size_t i = 0; !missing && i < move->count * (move->collective == 0 ? n : 1); i++) {
        float value = (float)fake_setting("TPP_FAKE_WRONG");
        for (size_t rank = 0; rank < n && move->collective != 0; rank++) {
            value += tpp_bench_element(type, parts, rank * sent + first + i);
        }
        value += move->collective == 0 ? tpp_bench_element(type, parts, i) : 0;
        const uint32_t bits = tpp_bench_encode(type, value);
        memcpy(move->receive + i * element, &bits, element);
    }
    free(parts);
    return missing;
}

static int run(void *context)
{
    struct move *move = context;
    const size_t bytes = move->count * tpp_bench_type_bytes(type_of(move->type));
    if (move->collective == 3) {
        write_message(move, move->peer, move->send, bytes);
        return 0;
    }
    if (move->collective == 4) {
        return read_message(move, move->peer, move->comm.rank, move->receive, bytes);
    }
    if (!move->is_sent) {
        write_message(move, -1, move->send, bytes * (move->collective == 1 ? (size_t)move->comm.size : 1));
        move->is_sent = 1;
    }
    return combine(move);
}

/* TPP_FAKE_KILL=2:5 and TPP_FAKE_STOP=2:5: the setting is for this rank and this collective. */
static int is_chosen(const char *name)
{
    const char *value = getenv(name), *rank = getenv("RANK") ? getenv("RANK") : getenv("OMPI_COMM_WORLD_RANK");
    unsigned chosen_rank, number;
    return value && rank && sscanf(value, "%u:%u", &chosen_rank, &number) == 2 && chosen_rank == (unsigned)atoi(rank) &&
           number == num_collectives;
}

static ncclResult_t add(struct move move, struct CUstream_st *stream)
{
    if (in_group) {
        if (group_size == sizeof group / sizeof group[0]) {
            return ncclInternalError;
        }
        group[group_size++] = move;
        group_stream = stream;
        return ncclSuccess;
    }
    num_collectives++;
    if (is_chosen("TPP_FAKE_KILL")) {
        raise(SIGKILL);
    }
    if (is_chosen("TPP_FAKE_STOP")) {
        sleep(60);
    }
    fake_stream_push(stream, run, &move, sizeof move);
    return ncclSuccess;
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = 22805;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const unsigned long value = (unsigned long)getpid() * 100000ul + (unsigned long)rand();
    memset(id, 0, sizeof *id);
    memcpy(id, &value, sizeof value);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    *comm = calloc(1, sizeof **comm);
    memcpy(&(*comm)->id, &id, sizeof(*comm)->id);
    (*comm)->size = size;
    (*comm)->rank = rank;
    return config->blocking == 0 ? ncclInProgress : ncclInvalidArgument;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    *error = ncclSuccess;
    return comm ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return comm ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    free(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return ncclCommDestroy(comm);
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess ? "no error" : "an error of the stand-in";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

static ncclResult_t collective(int kind, const void *send, void *receive, size_t count, ncclDataType_t type,
                               ncclComm_t comm, struct CUstream_st *stream)
{
    const struct move move = {*comm, kind, 0, send, receive, count, type, 0};
    comm->number++;
    return add(move, stream);
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective(0, send, receive, count, type, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return op == ncclSum ? collective(1, send, receive, count, type, comm, stream) : ncclInvalidArgument;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return op == ncclSum ? collective(2, send, receive, count, type, comm, stream) : ncclInvalidArgument;
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    group_comm = comm;
    return in_group ? add((struct move){*comm, 3, peer, send, NULL, count, type, 0}, stream) : ncclInvalidUsage;
}

ncclResult_t ncclRecv(void *receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    return in_group ? add((struct move){*comm, 4, peer, NULL, receive, count, type, 0}, stream) : ncclInvalidUsage;
}

ncclResult_t ncclGroupStart(void)
{
    in_group = 1;
    group_size = 0;
    return ncclSuccess;
}

/* Sends before receives: all messages of a group are on their way before anybody waits. */
ncclResult_t ncclGroupEnd(void)
{
    /* Groups have numbers of their own, far from those of the collectives. */
    const unsigned long this_group = 1000000000ul + (group_comm ? group_comm->groups++ : 0);
    in_group = 0;
    for (int kind = 3; kind <= 4; kind++) {
        for (size_t i = 0; i < group_size; i++) {
            if (group[i].collective == kind) {
                group[i].comm.number = this_group;
                fake_stream_push(group_stream, run, &group[i], sizeof group[i]);
            }
        }
    }
    return ncclSuccess;
}
