#include "calibrate/bench/host_bootstrap.h"

#include "calibrate/bench/host_socket.h"
#include "costmodel/base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC UINT32_C(0x54505042) /* "TPPB" */
#define NO_RANK UINT32_MAX

/* What precedes every message; a hello has its own fields in the same place. */
enum message_kind { HELLO = 1, GATHER, RESULT, BROADCAST, ABORT, BLAME };

struct message {
    uint32_t magic, kind, rank, size;
    uint64_t token; /* HELLO: of the job; else the number of the operation */
    uint64_t bytes; /* of what follows */
};

struct tpp_bootstrap {
    struct tpp_bootstrap_options options;
    int *sockets; /* rank 0: one a rank (its own -1); else one, to rank 0 */
    size_t num_sockets;
    uint64_t operation;
    bool is_broken; /* the others have been told, or told us */
};

static double deadline_of(const struct tpp_bootstrap *bootstrap)
{
    return tpp_bench_now() + bootstrap->options.timeout_seconds;
}

void tpp_bootstrap_free(struct tpp_bootstrap *bootstrap)
{
    if (!bootstrap) {
        return;
    }
    for (size_t i = 0; i < bootstrap->num_sockets; i++) {
        if (bootstrap->sockets[i] >= 0) {
            close(bootstrap->sockets[i]);
        }
    }
    free(bootstrap->sockets);
    free(bootstrap);
}

/* The rank at the other end of socket `index`. */
static uint32_t peer_of(const struct tpp_bootstrap *bootstrap, size_t index)
{
    return bootstrap->options.rank == 0 ? (uint32_t)index : 0;
}

static enum tpp_socket_state send_message(struct tpp_bootstrap *bootstrap, int socket, enum message_kind kind,
                                          const void *data, size_t bytes, double deadline)
{
    struct message message = {MAGIC, (uint32_t)kind, bootstrap->options.rank, bootstrap->options.size, 0, bytes};
    message.token = kind == HELLO ? bootstrap->options.token : bootstrap->operation;
    const enum tpp_socket_state state = tpp_socket_send(socket, &message, sizeof message, deadline);
    return state == TPP_SOCKET_OK ? tpp_socket_send(socket, data, bytes, deadline) : state;
}

/* Tells everybody whom we can reach, without waiting long for anybody. */
void tpp_bootstrap_abort(struct tpp_bootstrap *bootstrap, const char *message)
{
    if (!bootstrap || bootstrap->is_broken) {
        return;
    }
    bootstrap->is_broken = true;
    for (size_t i = 0; i < bootstrap->num_sockets; i++) {
        if (bootstrap->sockets[i] >= 0) {
            send_message(bootstrap, bootstrap->sockets[i], ABORT, message, strlen(message), tpp_bench_now() + 0.2);
        }
    }
}

/* Ends an operation: fills *err and passes the message on to the others. */
static enum tpp_code lost(struct tpp_bootstrap *bootstrap, const char *message, struct tpp_error *err)
{
    tpp_bootstrap_abort(bootstrap, message);
    return tpp_fail(err, TPP_E_IO, "bootstrap", "look at the output and the machine of that rank", "%s", message);
}

static enum tpp_code peer_failed(struct tpp_bootstrap *bootstrap, uint32_t rank, enum tpp_socket_state state,
                                 struct tpp_error *err)
{
    char message[160];
    if (state == TPP_SOCKET_TIMEOUT) {
        snprintf(message, sizeof message, "rank %u did not answer within %g s", rank,
                 bootstrap->options.timeout_seconds);
    } else if (state == TPP_SOCKET_CLOSED) {
        snprintf(message, sizeof message, "rank %u ended: it closed its connection", rank);
    } else {
        snprintf(message, sizeof message, "connection to rank %u failed: %s", rank, strerror(errno));
    }
    return lost(bootstrap, message, err);
}

/* Reads the text of an ABORT, which rank 0 passes on to the others, and ends with it. */
static enum tpp_code aborted(struct tpp_bootstrap *bootstrap, size_t index, uint64_t bytes, struct tpp_error *err)
{
    char text[200];
    const size_t length = bytes < sizeof text ? (size_t)bytes : sizeof text - 1;
    const enum tpp_socket_state state =
        tpp_socket_receive(bootstrap->sockets[index], text, length, tpp_bench_now() + 1);
    text[state == TPP_SOCKET_OK ? length : 0] = '\0';
    if (!text[0]) {
        snprintf(text, sizeof text, "rank %u gave up", peer_of(bootstrap, index));
    }
    return lost(bootstrap, text, err);
}

/* Receives the head of the next message of socket `index`, which must be of `kind` and of this operation. */
static enum tpp_code receive_head(struct tpp_bootstrap *bootstrap, size_t index, enum message_kind kind,
                                  double deadline, uint64_t *bytes, struct tpp_error *err)
{
    struct message message;
    char text[160];
    const uint32_t rank = peer_of(bootstrap, index);
    const enum tpp_socket_state state =
        tpp_socket_receive(bootstrap->sockets[index], &message, sizeof message, deadline);
    if (state != TPP_SOCKET_OK) {
        return peer_failed(bootstrap, rank, state, err);
    }
    if (message.magic == MAGIC && message.kind == ABORT) {
        return aborted(bootstrap, index, message.bytes, err);
    }
    if (message.magic != MAGIC || message.kind != (uint32_t)kind || message.token != bootstrap->operation ||
        message.bytes > (uint64_t)TPP_BOOTSTRAP_MAX_BYTES * bootstrap->options.size) {
        snprintf(text, sizeof text, "rank %u is at another step of the program", rank);
        return lost(bootstrap, text, err);
    }
    *bytes = message.bytes;
    return TPP_OK;
}

static enum tpp_code receive_message(struct tpp_bootstrap *bootstrap, size_t index, enum message_kind kind, void *data,
                                     size_t bytes, double deadline, struct tpp_error *err)
{
    uint64_t announced = 0;
    const enum tpp_code code = receive_head(bootstrap, index, kind, deadline, &announced, err);
    if (code != TPP_OK) {
        return code;
    }
    if (announced != bytes) {
        char text[160];
        snprintf(text, sizeof text, "rank %u sent %llu bytes where %zu belong", peer_of(bootstrap, index),
                 (unsigned long long)announced, bytes);
        return lost(bootstrap, text, err);
    }
    const enum tpp_socket_state state = tpp_socket_receive(bootstrap->sockets[index], data, bytes, deadline);
    return state == TPP_SOCKET_OK ? TPP_OK : peer_failed(bootstrap, peer_of(bootstrap, index), state, err);
}

/* "3", "3, 5 and 9", "3, 5, 9 and 40 more". */
static void name_ranks(struct tpp_text *text, const bool *is_named, uint32_t size)
{
    uint32_t total = 0, written = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        total += is_named[rank];
    }
    for (uint32_t rank = 0; rank < size && written < 8; rank++) {
        if (is_named[rank]) {
            const bool is_last = ++written == total;
            tpp_text_format(text, "%s%u", written == 1 ? "" : is_last ? " and " : ", ", rank);
        }
    }
    if (written < total) {
        tpp_text_format(text, " and %u more", total - written);
    }
}

/* Ends with "rank(s) ... <what>". */
static enum tpp_code name_lost(struct tpp_bootstrap *bootstrap, const bool *is_named, const char *what,
                               struct tpp_error *err)
{
    struct tpp_text text;
    tpp_text_init(&text);
    tpp_text_append(&text, "rank ");
    name_ranks(&text, is_named, bootstrap->options.size);
    tpp_text_format(&text, " %s", what);
    const enum tpp_code code = lost(bootstrap, tpp_text_get(&text), err);
    tpp_text_release(&text);
    return code;
}

/* Rank `rank` says that it waited for others in vain, while this rank went on to an operation. Takes that message. */
static bool takes_blame(struct tpp_bootstrap *bootstrap, uint32_t rank)
{
    struct message head;
    return tpp_socket_peek(bootstrap->sockets[rank], &head, sizeof head) == TPP_SOCKET_OK && head.magic == MAGIC &&
           head.kind == BLAME &&
           tpp_socket_receive(bootstrap->sockets[rank], &head, sizeof head, tpp_bench_now()) == TPP_SOCKET_OK;
}

/* Ends a collection in which some ranks did not answer, or waited in vain for one that did. */
static enum tpp_code name_late(struct tpp_bootstrap *bootstrap, const int *waiting, const bool *has_blamed,
                               bool *is_named, struct tpp_error *err)
{
    char what[64] = "waited in vain for a collective that others have finished";
    uint32_t num_late = 0;
    for (uint32_t rank = 0; rank < bootstrap->options.size; rank++) {
        num_late += waiting[rank] >= 0;
    }
    if (num_late > 0) {
        snprintf(what, sizeof what, "did not answer within %g s", bootstrap->options.timeout_seconds);
    }
    for (uint32_t rank = 0; rank < bootstrap->options.size; rank++) {
        is_named[rank] = num_late > 0 ? waiting[rank] >= 0 : has_blamed[rank];
    }
    return name_lost(bootstrap, is_named, what, err);
}

/* Collects one message of `bytes` from every other rank, in the order in which they come, so that the first to fail is
 * the one that is named, and those that are late are named together. */
static enum tpp_code collect(struct tpp_bootstrap *bootstrap, size_t bytes, char *all, struct tpp_error *err)
{
    const uint32_t size = bootstrap->options.size;
    const double deadline = deadline_of(bootstrap);
    int *waiting = malloc(size * sizeof *waiting);
    bool *ready = calloc(size, sizeof *ready), *has_blamed = calloc(size, sizeof *has_blamed);
    enum tpp_code code =
        waiting && ready && has_blamed ? TPP_OK : tpp_fail(err, TPP_E_MEMORY, "bootstrap", NULL, "out of memory");
    uint32_t left = size - 1, num_blamed = 0;
    if (code == TPP_OK) {
        memcpy(waiting, bootstrap->sockets, size * sizeof *waiting);
    }
    while (code == TPP_OK && left > 0 && tpp_socket_wait(waiting, size, ready, deadline)) {
        for (uint32_t rank = 1; rank < size && code == TPP_OK; rank++) {
            if (!ready[rank]) {
                continue;
            }
            has_blamed[rank] = takes_blame(bootstrap, rank);
            num_blamed += has_blamed[rank];
            if (!has_blamed[rank]) {
                code = receive_message(bootstrap, rank, GATHER, all + rank * bytes, bytes, deadline, err);
            }
            waiting[rank] = -1;
            left--;
        }
    }
    if (code == TPP_OK && left + num_blamed > 0) {
        code = name_late(bootstrap, waiting, has_blamed, ready, err);
    }
    free(waiting);
    free(ready);
    free(has_blamed);
    return code;
}

static enum tpp_code send_to_all(struct tpp_bootstrap *bootstrap, enum message_kind kind, const void *data,
                                 size_t bytes, struct tpp_error *err)
{
    const double deadline = deadline_of(bootstrap);
    for (uint32_t rank = 1; rank < bootstrap->options.size; rank++) {
        const enum tpp_socket_state state =
            send_message(bootstrap, bootstrap->sockets[rank], kind, data, bytes, deadline);
        if (state != TPP_SOCKET_OK) {
            return peer_failed(bootstrap, rank, state, err);
        }
    }
    return TPP_OK;
}

/* Rank 0 may itself wait for a late rank for the whole time-out, and then says who it is: give it a second more. */
static double patient_deadline(const struct tpp_bootstrap *bootstrap)
{
    return deadline_of(bootstrap) + 1 + 0.25 * bootstrap->options.timeout_seconds;
}

enum tpp_code tpp_bootstrap_all_gather(struct tpp_bootstrap *bootstrap, const void *mine, size_t bytes, void *all,
                                       struct tpp_error *err)
{
    const uint32_t size = bootstrap->options.size;
    bootstrap->operation++;
    if (bytes > TPP_BOOTSTRAP_MAX_BYTES) {
        return tpp_fail(err, TPP_E_INTERNAL, "bootstrap", NULL, "%zu bytes are too many", bytes);
    }
    if (bootstrap->options.rank == 0) {
        memmove(all, mine, bytes);
        const enum tpp_code code = collect(bootstrap, bytes, all, err);
        return code ? code : send_to_all(bootstrap, RESULT, all, size * bytes, err);
    }
    const enum tpp_socket_state state =
        send_message(bootstrap, bootstrap->sockets[0], GATHER, mine, bytes, deadline_of(bootstrap));
    if (state != TPP_SOCKET_OK && !tpp_socket_has_news(bootstrap->sockets[0])) {
        return peer_failed(bootstrap, 0, state, err);
    }
    return receive_message(bootstrap, 0, RESULT, all, size * bytes, patient_deadline(bootstrap), err);
}

enum tpp_code tpp_bootstrap_broadcast(struct tpp_bootstrap *bootstrap, void *data, size_t bytes, struct tpp_error *err)
{
    bootstrap->operation++;
    if (bootstrap->options.rank == 0) {
        return send_to_all(bootstrap, BROADCAST, data, bytes, err);
    }
    return receive_message(bootstrap, 0, BROADCAST, data, bytes, patient_deadline(bootstrap), err);
}

enum tpp_code tpp_bootstrap_barrier(struct tpp_bootstrap *bootstrap, struct tpp_error *err)
{
    char *all = malloc(bootstrap->options.size);
    if (!all) {
        return tpp_fail(err, TPP_E_MEMORY, "bootstrap", NULL, "out of memory");
    }
    const enum tpp_code code = tpp_bootstrap_all_gather(bootstrap, "b", 1, all, err);
    free(all);
    return code;
}

enum tpp_code tpp_bootstrap_check(struct tpp_bootstrap *bootstrap, struct tpp_error *err)
{
    for (size_t i = 0; i < bootstrap->num_sockets; i++) {
        struct message head;
        if (!tpp_socket_has_news(bootstrap->sockets[i])) {
            continue;
        }
        /* News is an end, an abort, or the head of the next operation, which stays in the socket. */
        const enum tpp_socket_state state = tpp_socket_peek(bootstrap->sockets[i], &head, sizeof head);
        if (state == TPP_SOCKET_CLOSED || state == TPP_SOCKET_FAILED) {
            return peer_failed(bootstrap, peer_of(bootstrap, i), state, err);
        }
        if (state == TPP_SOCKET_OK && head.magic == MAGIC && head.kind == ABORT) {
            uint64_t bytes = 0;
            return receive_head(bootstrap, i, ABORT, tpp_bench_now() + 1, &bytes, err);
        }
    }
    return TPP_OK;
}

enum tpp_code tpp_bootstrap_blame(struct tpp_bootstrap *bootstrap, const char *what, double grace_seconds,
                                  struct tpp_error *err)
{
    const uint32_t size = bootstrap->options.size;
    if (bootstrap->options.rank != 0) {
        uint64_t bytes = 0;
        send_message(bootstrap, bootstrap->sockets[0], BLAME, NULL, 0, tpp_bench_now() + 1);
        /* Only an ABORT can come: it ends with its text. */
        return receive_head(bootstrap, 0, ABORT, tpp_bench_now() + 2 * grace_seconds + 1, &bytes, err);
    }
    const double deadline = tpp_bench_now() + grace_seconds;
    bool *silent = calloc(size, sizeof *silent), *ready = calloc(size, sizeof *ready);
    int *waiting = malloc(size * sizeof *waiting);
    uint32_t num_silent = 0;
    if (!silent || !ready || !waiting) {
        free(silent);
        free(ready);
        free(waiting);
        return tpp_fail(err, TPP_E_MEMORY, "bootstrap", NULL, "out of memory");
    }
    memcpy(waiting, bootstrap->sockets, size * sizeof *waiting);
    while (tpp_socket_wait(waiting, size, ready, deadline)) {
        for (uint32_t rank = 1; rank < size; rank++) {
            struct message head;
            if (!ready[rank]) {
                continue;
            }
            waiting[rank] = -1;
            /* One that blames, and one that went on to the next operation, are not the ones that are late. */
            silent[rank] =
                tpp_socket_receive(bootstrap->sockets[rank], &head, sizeof head, deadline) != TPP_SOCKET_OK ||
                head.magic != MAGIC || (head.kind != BLAME && head.kind != GATHER);
        }
    }
    for (uint32_t rank = 1; rank < size; rank++) {
        silent[rank] = silent[rank] || waiting[rank] >= 0;
        num_silent += silent[rank];
    }
    char text[160];
    enum tpp_code code;
    if (num_silent > 0) {
        snprintf(text, sizeof text, "kept the others waiting in %s", what);
        code = name_lost(bootstrap, silent, text, err);
    } else {
        snprintf(text, sizeof text, "all ranks waited in vain in %s: the network or a GPU is stuck", what);
        code = lost(bootstrap, text, err);
    }
    free(silent);
    free(ready);
    free(waiting);
    return code;
}

/* A connection that has not said yet who it is. */
struct pending {
    int socket;
    struct message hello;
    size_t received;
};

#define MAX_PENDING 256

/* Reads on at a pending connection. True when it is decided: accepted as a rank, or closed. */
static bool decide(struct tpp_bootstrap *bootstrap, struct pending *pending, uint32_t *num_joined)
{
    const struct message *hello = &pending->hello;
    const size_t wanted = sizeof pending->hello - pending->received;
    const long got = tpp_socket_read_some(pending->socket, (char *)&pending->hello + pending->received, wanted);
    if (got > 0) {
        pending->received += (size_t)got;
    }
    if (got >= 0 && pending->received < sizeof pending->hello) {
        return false;
    }
    if (got < 0 || hello->magic != MAGIC || hello->kind != HELLO || hello->token != bootstrap->options.token ||
        hello->size != bootstrap->options.size || hello->rank == 0 || hello->rank >= hello->size ||
        bootstrap->sockets[hello->rank] >= 0) {
        close(pending->socket);
        return true;
    }
    bootstrap->sockets[hello->rank] = pending->socket;
    (*num_joined)++;
    return true;
}

/* Waits at the listener and at all connections that have not said who they are; strangers are dropped. */
static void welcome(struct tpp_bootstrap *bootstrap, int listener, double deadline, uint32_t *num_joined)
{
    struct pending pending[MAX_PENDING];
    int sockets[MAX_PENDING + 1];
    bool ready[MAX_PENDING + 1];
    size_t count = 0;
    while (*num_joined < bootstrap->options.size) {
        for (size_t i = 0; i < count; i++) {
            sockets[i] = pending[i].socket;
        }
        sockets[count] = count < MAX_PENDING ? listener : -1;
        if (!tpp_socket_wait(sockets, count + 1, ready, deadline)) {
            break;
        }
        const int fd = ready[count] ? tpp_socket_accept(listener) : -1;
        for (size_t i = count; i-- > 0;) {
            if (ready[i] && decide(bootstrap, &pending[i], num_joined)) {
                pending[i] = pending[--count];
            }
        }
        if (fd >= 0) {
            pending[count++] = (struct pending){.socket = fd};
        }
    }
    for (size_t i = 0; i < count; i++) {
        close(pending[i].socket);
    }
}

static enum tpp_code gather_ranks(struct tpp_bootstrap *bootstrap, struct tpp_error *err)
{
    const struct tpp_bootstrap_options *options = &bootstrap->options;
    const int listener = tpp_socket_listen(options->address, options->port);
    uint32_t num_joined = 1;
    if (listener < 0) {
        return tpp_fail(err, TPP_E_IO, options->address, "set MASTER_PORT or TPP_BOOTSTRAP_PORT to a free port",
                        "rank 0 cannot listen at port %u: %s", options->port, strerror(errno));
    }
    welcome(bootstrap, listener, deadline_of(bootstrap), &num_joined);
    close(listener);
    if (num_joined == options->size) {
        return TPP_OK;
    }
    bool *missing = calloc(options->size, sizeof *missing);
    char what[64];
    if (!missing) {
        return tpp_fail(err, TPP_E_MEMORY, "bootstrap", NULL, "out of memory");
    }
    for (uint32_t rank = 1; rank < options->size; rank++) {
        missing[rank] = bootstrap->sockets[rank] < 0;
    }
    snprintf(what, sizeof what, "did not come within %g s", options->timeout_seconds);
    const enum tpp_code code = name_lost(bootstrap, missing, what, err);
    free(missing);
    return code;
}

static enum tpp_code join(struct tpp_bootstrap *bootstrap, struct tpp_error *err)
{
    const struct tpp_bootstrap_options *options = &bootstrap->options;
    const double deadline = deadline_of(bootstrap);
    const char *why = NULL;
    bootstrap->sockets[0] = tpp_socket_connect(options->address, options->port, deadline, &why);
    if (bootstrap->sockets[0] < 0) {
        return tpp_fail(err, TPP_E_IO, options->address, "is rank 0 running there, and is the port open between nodes?",
                        "rank %u cannot reach rank 0 at port %u within %g s: %s", options->rank, options->port,
                        options->timeout_seconds, why);
    }
    const enum tpp_socket_state state = send_message(bootstrap, bootstrap->sockets[0], HELLO, NULL, 0, deadline);
    return state == TPP_SOCKET_OK ? TPP_OK : peer_failed(bootstrap, 0, state, err);
}

enum tpp_code tpp_bootstrap_new(const struct tpp_bootstrap_options *options, struct tpp_bootstrap **out,
                                struct tpp_error *err)
{
    struct tpp_bootstrap *bootstrap = calloc(1, sizeof *bootstrap);
    *out = NULL;
    if (!bootstrap) {
        return tpp_fail(err, TPP_E_MEMORY, "bootstrap", NULL, "out of memory");
    }
    bootstrap->options = *options;
    bootstrap->num_sockets = options->rank == 0 ? options->size : 1;
    bootstrap->sockets = malloc(bootstrap->num_sockets * sizeof *bootstrap->sockets);
    enum tpp_code code = TPP_OK;
    if (!bootstrap->sockets) {
        bootstrap->num_sockets = 0;
        code = tpp_fail(err, TPP_E_MEMORY, "bootstrap", NULL, "out of memory");
    }
    for (size_t i = 0; i < bootstrap->num_sockets; i++) {
        bootstrap->sockets[i] = -1;
    }
    if (code == TPP_OK && options->size > 1) {
        code = options->rank == 0 ? gather_ranks(bootstrap, err) : join(bootstrap, err);
        /* Everybody learns here that all have come, or who has not. */
        code = code ? code : tpp_bootstrap_barrier(bootstrap, err);
    }
    if (code != TPP_OK) {
        tpp_bootstrap_free(bootstrap);
        return code;
    }
    *out = bootstrap;
    return TPP_OK;
}
