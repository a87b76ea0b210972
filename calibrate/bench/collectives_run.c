#include "calibrate/bench/collectives_run.h"

#include "calibrate/bench/host_check.h"
#include "calibrate/bench/host_socket.h"
#include "calibrate/bench/host_statistics.h"
#include "calibrate/bench/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECKED_ELEMENTS 4096 /* of each end of each part */

/* Every wait of a step has the time-out; a step has at most four of them, and the bootstrap's patience. */
static void watch_step(const struct tpp_collectives *bench)
{
    tpp_bench_watch(bench->run, 6 * bench->run->common.timeout_seconds + 30);
}

#define HOST_NAME_SIZE 64

static bool is_same_host(const char *names, uint32_t a, uint32_t b)
{
    return strcmp(names + a * HOST_NAME_SIZE, names + b * HOST_NAME_SIZE) == 0;
}

/* Ranks of one node must follow each other, and nodes must be equal: the groups of a training job are cut that way. */
static enum tpp_code cut_into_nodes(struct tpp_collectives *bench, const char *names, struct tpp_error *err)
{
    struct tpp_bench_world *world = &bench->run->world;
    uint32_t per_node = 1;
    while (per_node < world->size && is_same_host(names, per_node, 0)) {
        per_node++;
    }
    for (uint32_t rank = 1; rank < world->size; rank++) {
        const bool is_first = rank % per_node == 0;
        if (world->size % per_node != 0 || is_first == is_same_host(names, rank, rank - 1)) {
            return tpp_fail(err, TPP_E_USAGE, "ranks",
                            "start the same number of ranks on every node, one node after the other (block order)",
                            "rank %u is not where it would be with %u ranks on every node", rank, per_node);
        }
    }
    world->ranks_per_node = per_node;
    bench->num_nodes = world->size / per_node;
    return TPP_OK;
}

/* Nodes are told apart by their host names. */
static enum tpp_code find_nodes(struct tpp_collectives *bench, struct tpp_error *err)
{
    struct tpp_bench_run *run = bench->run;
    char mine[HOST_NAME_SIZE] = "";
    gethostname(mine, sizeof mine - 1);
    bench->host_names = calloc(run->world.size, HOST_NAME_SIZE);
    bench->hosts = calloc(run->world.size, sizeof *bench->hosts);
    if (!bench->host_names || !bench->hosts) {
        return tpp_fail(err, TPP_E_MEMORY, "ranks", NULL, "out of memory");
    }
    enum tpp_code code = tpp_bootstrap_all_gather(run->bootstrap, mine, sizeof mine, bench->host_names, err);
    code = code ? code : cut_into_nodes(bench, bench->host_names, err);
    for (uint32_t node = 0; node < bench->num_nodes && code == TPP_OK; node++) {
        bench->hosts[node] = bench->host_names + (size_t)node * run->world.ranks_per_node * HOST_NAME_SIZE;
    }
    run->hosts = bench->hosts;
    run->num_hosts = bench->num_nodes;
    return code;
}

/* The largest buffer that all ranks can have twice. */
static enum tpp_code allocate(struct tpp_collectives *bench, uint64_t max_bytes, struct tpp_error *err)
{
    const uint32_t size = bench->run->world.size;
    uint64_t mine = 0, *all = calloc(size, sizeof *all);
    if (!all) {
        return tpp_fail(err, TPP_E_MEMORY, "buffers", NULL, "out of memory");
    }
    enum tpp_code code = tpp_device_free_bytes(&mine, err);
    /* Communicators need room too: cost-model 4.4 has up to 1.6 GiB. */
    mine = mine > (UINT64_C(4) << 30) ? (mine - (UINT64_C(3) << 30)) / 2 : mine / 8;
    code = code ? code : tpp_bootstrap_all_gather(bench->run->bootstrap, &mine, sizeof mine, all, err);
    for (uint32_t rank = 0; rank < size && code == TPP_OK; rank++) {
        max_bytes = all[rank] < max_bytes ? all[rank] : max_bytes;
    }
    free(all);
    bench->max_bytes = max_bytes;
    code = code ? code : tpp_device_alloc(max_bytes, &bench->send, err);
    code = code ? code : tpp_device_alloc(max_bytes, &bench->receive, err);
    void *const buffers[] = {bench->send, bench->receive};
    for (int i = 0; i < 2 && code == TPP_OK; i++) { /* what is not checked is not measured on zeros either */
        code = tpp_cuda(tpp_kernel_fill_random(TPP_BENCH_BF16, buffers[i], max_bytes / 2, bench->run->common.seed,
                                               bench->device.stream),
                        "the data of a collective", err);
    }
    return code;
}

enum tpp_code tpp_collectives_open(struct tpp_bench_run *run, uint64_t max_bytes, struct tpp_collectives *bench,
                                   struct tpp_error *err)
{
    memset(bench, 0, sizeof *bench);
    bench->run = run;
    bench->type = TPP_BENCH_BF16;
    bench->watch.bootstrap = run->bootstrap;
    /* No GPU is said before too few ranks: it is the fault that a user has to mend first. */
    enum tpp_code code = tpp_device_open((int)run->world.local_rank, run->common.timeout_seconds, &bench->device, err);
    if (code == TPP_OK && run->world.size < 2) {
        return tpp_fail(err, TPP_E_USAGE, run->program->name,
                        "start one rank a GPU with torchrun, srun or mpirun, or give --spawn N",
                        "a collective needs at least 2 ranks");
    }
    bench->device.still_there = tpp_comm_still_there;
    bench->device.still_there_context = &bench->watch;
    code = code ? code : find_nodes(bench, err);
    if (code == TPP_OK && run->world.rank == 0) {
        char version[32];
        tpp_comm_library_version(version, sizeof version);
        code = tpp_device_write_run(run, &bench->device, (const char *const[]){"nccl", version, NULL}, err);
    }
    return code ? code : allocate(bench, max_bytes, err);
}

void tpp_collectives_close(struct tpp_collectives *bench, enum tpp_code code)
{
    tpp_bench_watch(bench->run, 0);
    if (code == TPP_OK) {
        tpp_device_free(bench->send);
        tpp_device_free(bench->receive);
    }
    bench->run->hosts = NULL;
    free(bench->host_names);
    free(bench->hosts);
    tpp_device_close(&bench->device);
}

enum tpp_code tpp_collectives_begin(struct tpp_collectives *bench, const struct tpp_bench_groups *plan,
                                    struct tpp_error *err)
{
    uint32_t group, position;
    watch_step(bench);
    bench->plan = *plan;
    tpp_bench_group_of(plan, bench->run->world.rank, &group, &position);
    const enum tpp_code code =
        tpp_comm_new(bench->run, &bench->device, plan, plan->concurrent || group == 0, &bench->comm, err);
    bench->watch.comms[0] = bench->comm;
    return code;
}

void tpp_collectives_end(struct tpp_collectives *bench, enum tpp_code code)
{
    if (code == TPP_OK) {
        tpp_comm_free(bench->comm);
    } else {
        tpp_comm_abort(bench->comm);
    }
    bench->comm = bench->watch.comms[0] = NULL;
}

enum tpp_code tpp_collectives_wait(struct tpp_collectives *bench, struct CUstream_st *stream, const char *what,
                                   struct tpp_error *err)
{
    const enum tpp_code code = tpp_device_wait(&bench->device, stream, what, err);
    return code ? tpp_comm_blame(&bench->watch, what, code, err) : TPP_OK;
}

/* Where a collective's buffers begin. */
struct message {
    struct tpp_collectives *bench;
    enum tpp_bench_collective collective;
    uint64_t bytes, count;
    const void *send;
    void *receive;
    char what[96];
};

static struct message place(struct tpp_collectives *bench, const struct tpp_collective_point *point)
{
    struct message message = {.bench = bench, .collective = point->collective};
    const uint32_t n = tpp_bench_group_size(&bench->plan);
    const size_t element = tpp_bench_type_bytes(bench->type);
    if (!tpp_bench_message(point->collective, point->bytes, element, n, &message.bytes, &message.count)) {
        message.count = 0;
    }
    const uint64_t part = message.count * element * (bench->comm ? tpp_comm_position(bench->comm) : 0);
    message.send = bench->send;
    message.receive = bench->receive;
    if (point->in_place && point->collective == TPP_BENCH_ALL_GATHER) {
        message.send = (const char *)bench->receive + part;
    } else if (point->in_place && point->collective == TPP_BENCH_REDUCE_SCATTER) {
        message.receive = (char *)bench->send + part;
    } else if (point->in_place) {
        message.send = bench->receive;
    }
    snprintf(message.what, sizeof message.what, "%s of %llu bytes in %s of %u ranks",
             tpp_bench_collective_name(point->collective), (unsigned long long)message.bytes, bench->plan.name, n);
    return message;
}

static enum tpp_code launch(void *context, uint32_t turn, struct CUstream_st *stream, struct tpp_error *err)
{
    const struct message *message = context;
    (void)turn;
    return tpp_comm_launch(message->bench->comm, message->collective, message->bench->type, message->send,
                           message->receive, message->count, stream, err);
}

/* Compares one stretch of the result with what it must be. */
static enum tpp_code check_stretch(const struct message *message, uint64_t first, uint64_t count, char *host,
                                   uint64_t *wrong, struct tpp_error *err)
{
    const struct tpp_collectives *bench = message->bench;
    const size_t element = tpp_bench_type_bytes(bench->type);
    const enum tpp_code code =
        tpp_device_copy_to_host(host, (const char *)message->receive + first * element, count * element, err);
    if (code == TPP_OK) {
        *wrong +=
            tpp_bench_count_wrong(message->collective, bench->type, bench->run->common.seed, tpp_comm_size(bench->comm),
                                  tpp_comm_position(bench->comm), message->count, first, count, host);
    }
    return code;
}

/* Runs it once on fresh data, and checks both ends of every part of the result. */
static enum tpp_code check(struct message *message, uint64_t *wrong, struct tpp_error *err)
{
    struct tpp_collectives *bench = message->bench;
    char *host = malloc(CHECKED_ELEMENTS * sizeof(float));
    const uint32_t n = tpp_comm_size(bench->comm);
    const uint64_t seed = bench->run->common.seed + tpp_comm_position(bench->comm);
    const uint64_t received = tpp_bench_receive_count(message->collective, message->count, n);
    enum tpp_code code = host ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, "check", NULL, "out of memory");
    code = code ? code
                : tpp_cuda(tpp_kernel_fill_integers(bench->type, (void *)(uintptr_t)message->send,
                                                    tpp_bench_send_count(message->collective, message->count, n), seed,
                                                    0, bench->device.stream),
                           "the data of a collective", err);
    code = code ? code : launch(message, 0, bench->device.stream, err);
    code = code ? code : tpp_collectives_wait(bench, bench->device.stream, message->what, err);
    for (uint64_t part = 0; part < received && code == TPP_OK; part += message->count) {
        const uint64_t stretch = message->count < CHECKED_ELEMENTS ? message->count : CHECKED_ELEMENTS;
        code = check_stretch(message, part, stretch, host, wrong, err);
        if (code == TPP_OK && stretch < message->count) {
            code = check_stretch(message, part + message->count - stretch, stretch, host, wrong, err);
        }
    }
    free(host);
    return code;
}

/* What each rank found out; gathered at rank 0. */
struct finding {
    uint64_t wrong;
    double estimate; /* 0: stays out */
};

/* All ranks learn the same number of launches: by the slowest estimate. */
static enum tpp_code agree(struct tpp_collectives *bench, const struct finding *mine, uint32_t *inner, uint64_t *wrong,
                           struct tpp_error *err)
{
    const uint32_t size = bench->run->world.size;
    struct finding *all = calloc(size, sizeof *all);
    double slowest = 0;
    enum tpp_code code = all ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, "ranks", NULL, "out of memory");
    code = code ? code : tpp_bootstrap_all_gather(bench->run->bootstrap, mine, sizeof *mine, all, err);
    for (uint32_t rank = 0; rank < size && code == TPP_OK; rank++) {
        *wrong += all[rank].wrong;
        slowest = all[rank].estimate > slowest ? all[rank].estimate : slowest;
    }
    free(all);
    *inner = (uint32_t)tpp_bench_num_inner(slowest, 2e-3, 20); /* nccl-tests has 20 iterations */
    return code;
}

/* The means over the members, and the largest, of every repeat; and each member's median. */
static void summarize(double *all, uint32_t size, size_t repeats, double *means, double *largest, double *medians,
                      size_t *num_members)
{
    *num_members = 0;
    for (size_t i = 0; i < repeats; i++) {
        means[i] = largest[i] = 0;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        double *own = all + rank * repeats;
        if (own[0] <= 0) {
            continue; /* stayed out */
        }
        for (size_t i = 0; i < repeats; i++) {
            means[i] += own[i];
            largest[i] = own[i] > largest[i] ? own[i] : largest[i];
        }
        medians[(*num_members)++] = tpp_bench_summarize(own, repeats).median;
    }
    for (size_t i = 0; i < repeats && *num_members > 0; i++) {
        means[i] /= (double)*num_members;
    }
}

static enum tpp_code write_row(struct tpp_collectives *bench, const struct message *message,
                               const struct tpp_collective_point *point, uint32_t inner, uint64_t wrong, double *all,
                               struct tpp_error *err)
{
    struct tpp_bench_samples *samples = &bench->run->samples;
    const size_t repeats = bench->run->common.repeats;
    double means[TPP_MAX_REPEATS], largest[TPP_MAX_REPEATS];
    double *medians = malloc(bench->run->world.size * sizeof *medians);
    size_t num_members = 0;
    if (!medians) {
        return tpp_fail(err, TPP_E_MEMORY, "samples", NULL, "out of memory");
    }
    summarize(all, bench->run->world.size, repeats, means, largest, medians, &num_members);
    tpp_bench_samples_begin(samples, "collective");
    tpp_bench_samples_text(samples, "collective", tpp_bench_collective_name(point->collective));
    tpp_bench_samples_count(samples, "bytes", message->bytes);
    tpp_bench_samples_count(samples, "ranks", tpp_bench_group_size(&bench->plan));
    tpp_bench_samples_count(samples, "nodes", bench->plan.group_nodes);
    tpp_bench_samples_text(samples, "group", bench->plan.name);
    tpp_bench_samples_count(samples, "ranks_per_node", bench->plan.per_node);
    tpp_bench_samples_count(samples, "stride", bench->plan.stride);
    tpp_bench_samples_count(samples, "concurrent_groups", bench->plan.concurrent ? bench->plan.num_groups : 1);
    tpp_bench_samples_text(samples, "dtype", bench->type == TPP_BENCH_FP32 ? "float" : "bfloat16"); /* of nccl-tests */
    tpp_bench_samples_bool(samples, "in_place", point->in_place);
    if (point->check) {
        tpp_bench_samples_count(samples, "wrong", wrong);
        bench->run->num_wrong += wrong;
    }
    tpp_bench_samples_count(samples, "launches_per_repeat", inner);
    tpp_bench_samples_numbers(samples, "seconds", largest, repeats);
    tpp_bench_samples_numbers(samples, "mean_of_ranks_seconds", means, repeats);
    tpp_bench_samples_numbers(samples, "rank_median_seconds", medians, num_members);
    tpp_device_add_state(bench->run, &bench->device);
    free(medians);
    return tpp_bench_samples_end(samples, err);
}

/* Every rank's repeats go to rank 0; one that stays out sends zeros. */
static enum tpp_code gather_and_write(struct tpp_collectives *bench, const struct message *message,
                                      const struct tpp_collective_point *point, uint32_t inner, uint64_t wrong,
                                      const double *seconds, struct tpp_error *err)
{
    const size_t repeats = bench->run->common.repeats;
    double *all = calloc(bench->run->world.size * repeats, sizeof *all);
    enum tpp_code code = all ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, "samples", NULL, "out of memory");
    code = code ? code : tpp_bootstrap_all_gather(bench->run->bootstrap, seconds, repeats * sizeof *seconds, all, err);
    if (code == TPP_OK && bench->run->world.rank == 0) {
        code = write_row(bench, message, point, inner, wrong, all, err);
    }
    free(all);
    return code;
}

enum tpp_code tpp_collectives_measure(struct tpp_collectives *bench, const struct tpp_collective_point *point,
                                      struct tpp_error *err)
{
    struct message message = place(bench, point);
    const struct tpp_work work = {launch, &message, message.what, true};
    double seconds[TPP_MAX_REPEATS] = {0};
    struct finding mine = {0};
    uint64_t wrong = 0;
    uint32_t inner = 1;
    if (message.count == 0) {
        return TPP_OK;
    }
    watch_step(bench);
    enum tpp_code code = TPP_OK;
    if (bench->comm && point->check) {
        code = check(&message, &mine.wrong, err);
    }
    if (bench->comm && code == TPP_OK) {
        code = tpp_device_estimate(&bench->device, &work, &mine.estimate, err);
        code = code ? tpp_comm_blame(&bench->watch, message.what, code, err) : TPP_OK;
    }
    code = code ? code : agree(bench, &mine, &inner, &wrong, err); /* also the barrier before the timing */
    if (bench->comm && code == TPP_OK) {
        code = tpp_device_time(&bench->device, &work, inner, bench->run->common.repeats, seconds, err);
        code = code ? tpp_comm_blame(&bench->watch, message.what, code, err) : TPP_OK;
    }
    return code ? code : gather_and_write(bench, &message, point, inner, wrong, seconds, err);
}

enum tpp_code tpp_collectives_out_of_time(struct tpp_collectives *bench, bool *out_of_time, struct tpp_error *err)
{
    unsigned char is_over = tpp_bench_seconds_left(bench->run) <= 0;
    watch_step(bench);
    const enum tpp_code code = tpp_bootstrap_broadcast(bench->run->bootstrap, &is_over, sizeof is_over, err);
    *out_of_time = is_over != 0;
    return code;
}

static enum tpp_code write_memory(struct tpp_collectives *bench, const char *key, double bytes, struct tpp_error *err)
{
    struct tpp_bench_samples *samples = &bench->run->samples;
    if (bench->run->world.rank != 0) {
        return TPP_OK;
    }
    tpp_bench_samples_begin(samples, "value");
    tpp_bench_samples_text(samples, "key", key);
    tpp_bench_samples_text(samples, "method", "free device memory of rank 0 before and after");
    tpp_bench_samples_count(samples, "ranks", bench->run->world.size);
    tpp_bench_samples_count(samples, "nodes", bench->num_nodes);
    tpp_bench_samples_numbers(samples, "values", &bytes, 1);
    return tpp_bench_samples_end(samples, err);
}

/* One small collective, so that its connections are made. */
static enum tpp_code connect_all(struct tpp_collectives *bench, enum tpp_bench_collective collective,
                                 uint64_t *free_bytes, struct tpp_error *err)
{
    const struct tpp_collective_point point = {.collective = collective, .bytes = UINT64_C(4) << 20};
    struct message message = place(bench, &point);
    enum tpp_code code = TPP_OK;
    if (message.bytes > 0 && message.bytes <= bench->max_bytes) {
        code = launch(&message, 0, bench->device.stream, err);
        code = code ? code : tpp_collectives_wait(bench, bench->device.stream, message.what, err);
    }
    return code ? code : tpp_device_free_bytes(free_bytes, err);
}

enum tpp_code tpp_collectives_memory(struct tpp_collectives *bench, struct tpp_error *err)
{
    const struct tpp_bench_groups world = {.name = "world",
                                           .ranks_per_node = bench->run->world.ranks_per_node,
                                           .group_nodes = bench->num_nodes,
                                           .per_node = bench->run->world.ranks_per_node,
                                           .stride = 1,
                                           .num_groups = 1};
    uint64_t before = 0, with_ring = 0, with_pairs = 0;
    enum tpp_code code = tpp_device_free_bytes(&before, err);
    code = code ? code : tpp_collectives_begin(bench, &world, err);
    code = code ? code : connect_all(bench, TPP_BENCH_ALL_REDUCE, &with_ring, err);
    code = code ? code : connect_all(bench, TPP_BENCH_ALL_TO_ALL, &with_pairs, err);
    tpp_collectives_end(bench, code);
    if (code == TPP_OK && before > with_ring) {
        code = write_memory(bench, "network.nccl_communicator_bytes", (double)(before - with_ring), err);
    }
    if (code == TPP_OK && with_ring > with_pairs) {
        code = write_memory(bench, "network.nccl_all_to_all_bytes", (double)(with_ring - with_pairs), err);
    }
    return code;
}
