/* host_socket.h - sockets with a deadline: the layer below the bootstrap. Times are of tpp_bench_now. */
#ifndef TPP_CALIBRATE_BENCH_HOST_SOCKET_H
#define TPP_CALIBRATE_BENCH_HOST_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_socket_state {
    TPP_SOCKET_OK,
    TPP_SOCKET_TIMEOUT,
    TPP_SOCKET_CLOSED, /* the other end is gone */
    TPP_SOCKET_FAILED, /* errno says why */
};

double tpp_bench_now(void); /* seconds of the monotonic clock */

/* A listening socket at the address of `host`, or at all addresses when `host` is none of this machine; -1 and errno.
 */
int tpp_socket_listen(const char *host, uint16_t port);
/* Tries until the deadline, since the listener may come later. -1 when nobody answered; *why (static text) says what
 * the last try met. */
int tpp_socket_connect(const char *host, uint16_t port, double deadline, const char **why);
/* All sockets here are non-blocking. */
enum tpp_socket_state tpp_socket_send(int socket, const void *data, size_t bytes, double deadline);
enum tpp_socket_state tpp_socket_receive(int socket, void *data, size_t bytes, double deadline);
/* Waits until one of the sockets (-1: left out) can be read. False at the deadline. `ready` gets one flag each. */
bool tpp_socket_wait(const int *sockets, size_t count, bool *ready, double deadline);
/* Something can be read now, or the other end is gone. */
bool tpp_socket_has_news(int socket);
/* Looks at what can be read without taking it: TPP_SOCKET_TIMEOUT when it is less than `bytes`. */
enum tpp_socket_state tpp_socket_peek(int socket, void *data, size_t bytes);
/* Takes what is there, at most `bytes`: 0 when nothing is, -1 when the other end is gone or the socket failed. */
long tpp_socket_read_some(int socket, void *data, size_t bytes);
/* Accepts one connection that is there; -1 when none is. */
int tpp_socket_accept(int listener);

#endif
