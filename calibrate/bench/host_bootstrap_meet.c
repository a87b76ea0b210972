/* How the ranks find each other: rank 0 listens, the others join. */
#include "calibrate/bench/host_bootstrap_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A connection that has not said yet who it is. */
struct pending {
    int socket;
    struct tpp_message hello;
    size_t received;
};

#define MAX_PENDING 256

/* Reads on at a pending connection. True when it is decided: accepted as a rank, or closed. */
static bool decide(struct tpp_bootstrap *bootstrap, struct pending *pending, uint32_t *num_joined)
{
    const struct tpp_message *hello = &pending->hello;
    const size_t wanted = sizeof pending->hello - pending->received;
    const long got = tpp_socket_read_some(pending->socket, (char *)&pending->hello + pending->received, wanted);
    if (got > 0) {
        pending->received += (size_t)got;
    }
    if (got >= 0 && pending->received < sizeof pending->hello) {
        return false;
    }
    if (got < 0 || hello->magic != TPP_MESSAGE_MAGIC || hello->kind != TPP_MESSAGE_HELLO ||
        hello->token != bootstrap->options.token || hello->size != bootstrap->options.size || hello->rank == 0 ||
        hello->rank >= hello->size || bootstrap->sockets[hello->rank] >= 0) {
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
    welcome(bootstrap, listener, tpp_bootstrap_deadline(bootstrap), &num_joined);
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
    const enum tpp_code code = tpp_bootstrap_name_lost(bootstrap, missing, what, err);
    free(missing);
    return code;
}

static enum tpp_code join(struct tpp_bootstrap *bootstrap, struct tpp_error *err)
{
    const struct tpp_bootstrap_options *options = &bootstrap->options;
    const double deadline = tpp_bootstrap_deadline(bootstrap);
    const char *why = NULL;
    bootstrap->sockets[0] = tpp_socket_connect(options->address, options->port, deadline, &why);
    if (bootstrap->sockets[0] < 0) {
        return tpp_fail(err, TPP_E_IO, options->address, "is rank 0 running there, and is the port open between nodes?",
                        "rank %u cannot reach rank 0 at port %u within %g s: %s", options->rank, options->port,
                        options->timeout_seconds, why);
    }
    const enum tpp_socket_state state =
        tpp_bootstrap_send(bootstrap, bootstrap->sockets[0], TPP_MESSAGE_HELLO, NULL, 0, deadline);
    return state == TPP_SOCKET_OK ? TPP_OK : tpp_bootstrap_peer_failed(bootstrap, 0, state, err);
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
