/* host_bootstrap.h - ranks that find each other over TCP, exchange small things, and notice when one is lost.
 *
 * All ranks are connected to rank 0. An operation (barrier, gather, broadcast) is called by all ranks in the same
 * order. Nothing waits for ever: an operation that is not done in time, and a rank that ends, become an error that
 * names the rank, on every rank. After an error only tpp_bootstrap_free may be called. Not thread-safe. */
#ifndef TPP_CALIBRATE_BENCH_HOST_BOOTSTRAP_H
#define TPP_CALIBRATE_BENCH_HOST_BOOTSTRAP_H

#include "costmodel/base/error.h"

#include <stddef.h>
#include <stdint.h>

#define TPP_BOOTSTRAP_MAX_BYTES (1u << 20) /* of one rank in one operation */

struct tpp_bootstrap_options {
    uint32_t rank, size;
    const char *address; /* of rank 0, a name or a number */
    uint16_t port;
    uint64_t token;         /* the same on all ranks */
    double timeout_seconds; /* of the start and of every operation */
};

struct tpp_bootstrap; /* opaque */

/* Rank 0 listens and waits for all others; they try until rank 0 is there. A connection that does not know the token is
 * closed and does not count. TPP_E_IO names the ranks that did not come. */
enum tpp_code tpp_bootstrap_new(const struct tpp_bootstrap_options *options, struct tpp_bootstrap **out,
                                struct tpp_error *err);
void tpp_bootstrap_free(struct tpp_bootstrap *bootstrap); /* NULL is fine */

/* `all` gets size * bytes, in the order of the ranks, on every rank. */
enum tpp_code tpp_bootstrap_all_gather(struct tpp_bootstrap *bootstrap, const void *mine, size_t bytes, void *all,
                                       struct tpp_error *err);
/* Rank 0's data to all. */
enum tpp_code tpp_bootstrap_broadcast(struct tpp_bootstrap *bootstrap, void *data, size_t bytes, struct tpp_error *err);
enum tpp_code tpp_bootstrap_barrier(struct tpp_bootstrap *bootstrap, struct tpp_error *err);

/* Between operations, without waiting: is everybody still there? For loops that wait for something else. */
enum tpp_code tpp_bootstrap_check(struct tpp_bootstrap *bootstrap, struct tpp_error *err);

/* This rank cannot go on: tells the others why (`message`), so that their next operation or check ends with it. Rank 0
 * passes on what it hears from others. */
void tpp_bootstrap_abort(struct tpp_bootstrap *bootstrap, const char *message);

/* A rank waited for the others in vain: finds out who is silent. Every rank that waited calls it; rank 0 listens for
 * `grace_seconds` and names those that did not call. Returns TPP_E_IO always, with the names in `err`. */
enum tpp_code tpp_bootstrap_blame(struct tpp_bootstrap *bootstrap, const char *what, double grace_seconds,
                                  struct tpp_error *err);

#endif
