#include "calibrate/bench/host_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

double tpp_bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Milliseconds until the deadline for poll, rounded up so that a wait never spins. */
static int milliseconds_until(double deadline)
{
    const double left = deadline - tpp_bench_now();
    if (left <= 0) {
        return 0;
    }
    return left > 60 ? 60000 : (int)(left * 1000) + 1;
}

static int prepare(int fd)
{
    const int on = 1;
    const int flags = fcntl(fd, F_GETFL, 0);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on); /* a host that lost power is noticed in the end */
    return fd;
}

static struct addrinfo *resolve(const char *host, uint16_t port)
{
    char service[8];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE};
    struct addrinfo *found = NULL;
    snprintf(service, sizeof service, "%u", port);
    return getaddrinfo(host, service, &hints, &found) == 0 ? found : NULL;
}

static int listen_at(const struct addrinfo *address)
{
    const int on = 1;
    const int fd = socket(address->ai_family, SOCK_STREAM, 0);
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) != 0 || listen(fd, 1024) != 0) {
        const int failure = errno;
        close(fd);
        errno = failure;
        return -1;
    }
    return prepare(fd);
}

int tpp_socket_listen(const char *host, uint16_t port)
{
    /* Where MASTER_ADDR is an address in front of this machine (a container, a floating address) it cannot be bound:
     * listen everywhere then. */
    const char *const hosts[] = {host, NULL};
    int fd = -1;
    for (int i = 0; i < 2 && fd < 0; i++) {
        struct addrinfo *addresses = resolve(hosts[i], port);
        for (struct addrinfo *at = addresses; at && fd < 0; at = at->ai_next) {
            fd = listen_at(at);
        }
        if (addresses) {
            freeaddrinfo(addresses);
        }
        if (fd < 0 && errno == EADDRINUSE) {
            return -1;
        }
    }
    return fd;
}

static int connect_to(const struct addrinfo *address, double deadline)
{
    int fd = socket(address->ai_family, SOCK_STREAM, 0);
    if (fd < 0 || (fd = prepare(fd)) < 0) {
        return -1;
    }
    int failure = 0;
    socklen_t size = sizeof failure;
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0) {
        return fd;
    }
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    if (errno == EINPROGRESS && poll(&wait, 1, milliseconds_until(deadline)) == 1 &&
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) == 0 && failure == 0) {
        return fd;
    }
    close(fd);
    errno = failure ? failure : ETIMEDOUT;
    return -1;
}

int tpp_socket_connect(const char *host, uint16_t port, double deadline, const char **why)
{
    *why = "nobody answered";
    do {
        struct addrinfo *addresses = resolve(host, port);
        *why = addresses ? *why : "the name of the host cannot be resolved";
        for (struct addrinfo *at = addresses; at; at = at->ai_next) {
            const double try_until = tpp_bench_now() + 2;
            const int fd = connect_to(at, try_until < deadline ? try_until : deadline);
            if (fd >= 0) {
                freeaddrinfo(addresses);
                return fd;
            }
            *why = errno == ECONNREFUSED ? "nobody listens there (yet)" : "nobody answered";
        }
        if (addresses) {
            freeaddrinfo(addresses);
        }
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
    } while (tpp_bench_now() < deadline);
    return -1;
}

static enum tpp_socket_state state_of_errno(void)
{
    return errno == EPIPE || errno == ECONNRESET ? TPP_SOCKET_CLOSED : TPP_SOCKET_FAILED;
}

/* Waits for `events`; TPP_SOCKET_OK when they are there. */
static enum tpp_socket_state wait_for(int socket, short events, double deadline)
{
    for (;;) {
        struct pollfd wait = {.fd = socket, .events = events};
        const int found = poll(&wait, 1, milliseconds_until(deadline));
        if (found > 0) {
            return TPP_SOCKET_OK;
        }
        if (found < 0 && errno != EINTR) {
            return TPP_SOCKET_FAILED;
        }
        if (tpp_bench_now() >= deadline) {
            return TPP_SOCKET_TIMEOUT;
        }
    }
}

enum tpp_socket_state tpp_socket_send(int socket, const void *data, size_t bytes, double deadline)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
        if (sent >= 0) {
            at += sent;
            bytes -= (size_t)sent;
            continue;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            return state_of_errno();
        }
        const enum tpp_socket_state state = wait_for(socket, POLLOUT, deadline);
        if (state != TPP_SOCKET_OK) {
            return state;
        }
    }
    return TPP_SOCKET_OK;
}

enum tpp_socket_state tpp_socket_receive(int socket, void *data, size_t bytes, double deadline)
{
    char *at = data;
    while (bytes > 0) {
        const ssize_t got = recv(socket, at, bytes, 0);
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
            continue;
        }
        if (got == 0) {
            return TPP_SOCKET_CLOSED;
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
            return state_of_errno();
        }
        const enum tpp_socket_state state = wait_for(socket, POLLIN, deadline);
        if (state != TPP_SOCKET_OK) {
            return state;
        }
    }
    return TPP_SOCKET_OK;
}

bool tpp_socket_wait(const int *sockets, size_t count, bool *ready, double deadline)
{
    struct pollfd *waits = calloc(count ? count : 1, sizeof *waits);
    int found = 0;
    for (size_t i = 0; waits && i < count; i++) {
        waits[i] = (struct pollfd){.fd = sockets[i], .events = POLLIN};
        ready[i] = false;
    }
    while (waits && (found = poll(waits, count, milliseconds_until(deadline))) <= 0 && tpp_bench_now() < deadline) {
    }
    for (size_t i = 0; found > 0 && i < count; i++) {
        ready[i] = waits[i].fd >= 0 && waits[i].revents != 0;
    }
    free(waits);
    return found > 0;
}

bool tpp_socket_has_news(int socket)
{
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    return socket >= 0 && poll(&wait, 1, 0) > 0;
}

enum tpp_socket_state tpp_socket_peek(int socket, void *data, size_t bytes)
{
    const ssize_t got = recv(socket, data, bytes, MSG_PEEK);
    if (got < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? TPP_SOCKET_TIMEOUT : state_of_errno();
    }
    if (got == 0) {
        return TPP_SOCKET_CLOSED;
    }
    return (size_t)got == bytes ? TPP_SOCKET_OK : TPP_SOCKET_TIMEOUT;
}

long tpp_socket_read_some(int socket, void *data, size_t bytes)
{
    const ssize_t got = recv(socket, data, bytes, 0);
    if (got < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
    }
    return got == 0 ? -1 : (long)got;
}

int tpp_socket_accept(int listener)
{
    const int fd = accept(listener, NULL, NULL);
    return fd < 0 ? -1 : prepare(fd);
}
