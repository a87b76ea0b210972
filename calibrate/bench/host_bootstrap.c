#include "calibrate/bench/host_bootstrap.h"

#include "calibrate/bench/host_bootstrap_parts.h"
#include "costmodel/base/text.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double tpp_bootstrap_deadline(const struct tpp_bootstrap *bootstrap)
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

enum tpp_socket_state tpp_bootstrap_send(struct tpp_bootstrap *bootstrap, int socket, enum tpp_message_kind kind,
                                         const void *data, size_t bytes, double deadline)
{
    struct tpp_message message = {
        TPP_MESSAGE_MAGIC, (uint32_t)kind, bootstrap->options.rank, bootstrap->options.size, 0, bytes};
    message.token = kind == TPP_MESSAGE_HELLO ? bootstrap->options.token : bootstrap->operation;
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
            tpp_bootstrap_send(bootstrap, bootstrap->sockets[i], TPP_MESSAGE_ABORT, message, strlen(message),
                               tpp_bench_now() + 0.2);
        }
    }
}

/* Ends an operation: fills *err and passes the message on to the others. */
static enum tpp_code lost(struct tpp_bootstrap *bootstrap, const char *message, struct tpp_error *err)
{
    tpp_bootstrap_abort(bootstrap, message);
    return tpp_fail(err, TPP_E_IO, "bootstrap", "look at the output and the machine of that rank", "%s", message);
}

enum tpp_code tpp_bootstrap_peer_failed(struct tpp_bootstrap *bootstrap, uint32_t rank, enum tpp_socket_state state,
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

/* Reads the text of an abort, which rank 0 passes on to the others, and ends with it. */
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
static enum tpp_code receive_head(struct tpp_bootstrap *bootstrap, size_t index, enum tpp_message_kind kind,
                                  double deadline, uint64_t *bytes, struct tpp_error *err)
{
    struct tpp_message message;
    char text[160];
    const uint32_t rank = peer_of(bootstrap, index);
    const enum tpp_socket_state state =
        tpp_socket_receive(bootstrap->sockets[index], &message, sizeof message, deadline);
    if (state != TPP_SOCKET_OK) {
        return tpp_bootstrap_peer_failed(bootstrap, rank, state, err);
    }
    if (message.magic == TPP_MESSAGE_MAGIC && message.kind == TPP_MESSAGE_ABORT) {
        return aborted(bootstrap, index, message.bytes, err);
    }
    if (message.magic != TPP_MESSAGE_MAGIC || message.kind != (uint32_t)kind || message.token != bootstrap->operation ||
        message.bytes > (uint64_t)TPP_BOOTSTRAP_MAX_BYTES * bootstrap->options.size) {
        snprintf(text, sizeof text, "rank %u is at another step of the program", rank);
        return lost(bootstrap, text, err);
    }
    *bytes = message.bytes;
    return TPP_OK;
}

static enum tpp_code receive_message(struct tpp_bootstrap *bootstrap, size_t index, enum tpp_message_kind kind,
                                     void *data, size_t bytes, double deadline, struct tpp_error *err)
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
    return state == TPP_SOCKET_OK ? TPP_OK
                                  : tpp_bootstrap_peer_failed(bootstrap, peer_of(bootstrap, index), state, err);
}

/* "rank 3", "ranks 3, 5 and 9", "ranks 3, 5, 9 and 40 more". */
static void name_ranks(struct tpp_text *text, const bool *is_named, uint32_t size)
{
    uint32_t total = 0, written = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        total += is_named[rank];
    }
    tpp_text_append(text, total > 1 ? "ranks " : "rank ");
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

enum tpp_code tpp_bootstrap_name_lost(struct tpp_bootstrap *bootstrap, const bool *is_named, const char *what,
                                      struct tpp_error *err)
{
    struct tpp_text text;
    tpp_text_init(&text);
    name_ranks(&text, is_named, bootstrap->options.size);
    tpp_text_format(&text, " %s", what);
    const enum tpp_code code = lost(bootstrap, tpp_text_get(&text), err);
    tpp_text_release(&text);
    return code;
}

/* Rank `rank` says that it waited for others in vain, while this rank went on to an operation. Takes that message. */
static bool takes_blame(struct tpp_bootstrap *bootstrap, uint32_t rank)
{
    struct tpp_message head;
    return tpp_socket_peek(bootstrap->sockets[rank], &head, sizeof head) == TPP_SOCKET_OK &&
           head.magic == TPP_MESSAGE_MAGIC && head.kind == TPP_MESSAGE_BLAME &&
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
    return tpp_bootstrap_name_lost(bootstrap, is_named, what, err);
}

/* Collects one message of `bytes` from every other rank, in the order in which they come, so that the first to fail is
 * the one that is named, and those that are late are named together. */
static enum tpp_code collect(struct tpp_bootstrap *bootstrap, size_t bytes, char *all, struct tpp_error *err)
{
    const uint32_t size = bootstrap->options.size;
    const double deadline = tpp_bootstrap_deadline(bootstrap);
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
                code = receive_message(bootstrap, rank, TPP_MESSAGE_GATHER, all + rank * bytes, bytes, deadline, err);
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

static enum tpp_code send_to_all(struct tpp_bootstrap *bootstrap, enum tpp_message_kind kind, const void *data,
                                 size_t bytes, struct tpp_error *err)
{
    const double deadline = tpp_bootstrap_deadline(bootstrap);
    for (uint32_t rank = 1; rank < bootstrap->options.size; rank++) {
        const enum tpp_socket_state state =
            tpp_bootstrap_send(bootstrap, bootstrap->sockets[rank], kind, data, bytes, deadline);
        if (state != TPP_SOCKET_OK) {
            return tpp_bootstrap_peer_failed(bootstrap, rank, state, err);
        }
    }
    return TPP_OK;
}

/* Rank 0 may itself wait for a late rank for the whole time-out, and then says who it is: give it a second more. */
static double patient_deadline(const struct tpp_bootstrap *bootstrap)
{
    return tpp_bootstrap_deadline(bootstrap) + 1 + 0.25 * bootstrap->options.timeout_seconds;
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
        return code ? code : send_to_all(bootstrap, TPP_MESSAGE_RESULT, all, size * bytes, err);
    }
    const enum tpp_socket_state state = tpp_bootstrap_send(bootstrap, bootstrap->sockets[0], TPP_MESSAGE_GATHER, mine,
                                                           bytes, tpp_bootstrap_deadline(bootstrap));
    if (state != TPP_SOCKET_OK && !tpp_socket_has_news(bootstrap->sockets[0])) {
        return tpp_bootstrap_peer_failed(bootstrap, 0, state, err);
    }
    return receive_message(bootstrap, 0, TPP_MESSAGE_RESULT, all, size * bytes, patient_deadline(bootstrap), err);
}

enum tpp_code tpp_bootstrap_broadcast(struct tpp_bootstrap *bootstrap, void *data, size_t bytes, struct tpp_error *err)
{
    bootstrap->operation++;
    if (bootstrap->options.rank == 0) {
        return send_to_all(bootstrap, TPP_MESSAGE_BROADCAST, data, bytes, err);
    }
    return receive_message(bootstrap, 0, TPP_MESSAGE_BROADCAST, data, bytes, patient_deadline(bootstrap), err);
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
        struct tpp_message head;
        if (!tpp_socket_has_news(bootstrap->sockets[i])) {
            continue;
        }
        /* News is an end, an abort, or the head of the next operation, which stays in the socket. */
        const enum tpp_socket_state state = tpp_socket_peek(bootstrap->sockets[i], &head, sizeof head);
        if (state == TPP_SOCKET_CLOSED || state == TPP_SOCKET_FAILED) {
            return tpp_bootstrap_peer_failed(bootstrap, peer_of(bootstrap, i), state, err);
        }
        if (state == TPP_SOCKET_OK && head.magic == TPP_MESSAGE_MAGIC && head.kind == TPP_MESSAGE_ABORT) {
            uint64_t bytes = 0;
            return receive_head(bootstrap, i, TPP_MESSAGE_ABORT, tpp_bench_now() + 1, &bytes, err);
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
        tpp_bootstrap_send(bootstrap, bootstrap->sockets[0], TPP_MESSAGE_BLAME, NULL, 0, tpp_bench_now() + 1);
        /* Only an abort can come: it ends with its text. */
        return receive_head(bootstrap, 0, TPP_MESSAGE_ABORT, tpp_bench_now() + 2 * grace_seconds + 1, &bytes, err);
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
            struct tpp_message head;
            if (!ready[rank]) {
                continue;
            }
            waiting[rank] = -1;
            /* One that blames, and one that went on to the next operation, are not the ones that are late. */
            silent[rank] =
                tpp_socket_receive(bootstrap->sockets[rank], &head, sizeof head, deadline) != TPP_SOCKET_OK ||
                head.magic != TPP_MESSAGE_MAGIC || (head.kind != TPP_MESSAGE_BLAME && head.kind != TPP_MESSAGE_GATHER);
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
        code = tpp_bootstrap_name_lost(bootstrap, silent, text, err);
    } else {
        snprintf(text, sizeof text, "all ranks waited in vain in %s: the network or a GPU is stuck", what);
        code = lost(bootstrap, text, err);
    }
    free(silent);
    free(ready);
    free(waiting);
    return code;
}
