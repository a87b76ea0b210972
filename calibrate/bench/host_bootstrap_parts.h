/* host_bootstrap_parts.h - what the two files of the bootstrap share: the wire format, and how a lost rank is told. */
#ifndef TPP_CALIBRATE_BENCH_HOST_BOOTSTRAP_PARTS_H
#define TPP_CALIBRATE_BENCH_HOST_BOOTSTRAP_PARTS_H

#include "calibrate/bench/host_bootstrap.h"
#include "calibrate/bench/host_socket.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TPP_MESSAGE_MAGIC UINT32_C(0x54505042) /* "TPPB" */

/* What precedes every message; a hello has its own fields in the same place. */
enum tpp_message_kind {
    TPP_MESSAGE_HELLO = 1,
    TPP_MESSAGE_GATHER,
    TPP_MESSAGE_RESULT,
    TPP_MESSAGE_BROADCAST,
    TPP_MESSAGE_ABORT,
    TPP_MESSAGE_BLAME
};

struct tpp_message {
    uint32_t magic, kind, rank, size;
    uint64_t token; /* of a hello that of the job; else the number of the operation */
    uint64_t bytes; /* of what follows */
};

struct tpp_bootstrap {
    struct tpp_bootstrap_options options;
    int *sockets; /* rank 0: one a rank (its own -1); else one, to rank 0 */
    size_t num_sockets;
    uint64_t operation;
    bool is_broken; /* the others have been told, or told us */
};

/* When an operation that begins now is over (tpp_bench_now). */
double tpp_bootstrap_deadline(const struct tpp_bootstrap *bootstrap);
/* Sends the head of a message and `bytes` of data behind it. */
enum tpp_socket_state tpp_bootstrap_send(struct tpp_bootstrap *bootstrap, int socket, enum tpp_message_kind kind,
                                         const void *data, size_t bytes, double deadline);
/* Both end an operation: they fill *err, tell all others the same, and return TPP_E_IO. The one says what became of the
 * connection to `rank`, the other "rank 3 <what>" or "ranks 3 and 5 <what>" of all that are named (by rank). */
enum tpp_code tpp_bootstrap_peer_failed(struct tpp_bootstrap *bootstrap, uint32_t rank, enum tpp_socket_state state,
                                        struct tpp_error *err);
enum tpp_code tpp_bootstrap_name_lost(struct tpp_bootstrap *bootstrap, const bool *is_named, const char *what,
                                      struct tpp_error *err);

#endif
