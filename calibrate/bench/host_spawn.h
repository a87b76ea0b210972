/* host_spawn.h - one node without a launcher: start the ranks as processes of this machine and wait for them. */
#ifndef TPP_CALIBRATE_BENCH_HOST_SPAWN_H
#define TPP_CALIBRATE_BENCH_HOST_SPAWN_H

#include "costmodel/base/error.h"

#include <stdint.h>

/* Starts `count` processes of argv[0] with the environment of torchrun, on loopback, and waits for all. When one fails,
 * the others get `grace_seconds` to notice by themselves and are then ended. *status is the exit status of the first
 * that failed (128 + the number of a signal), or of one that failed by something else than the loss of another (status
 * 5); 0 when all succeeded. `err` names the rank. */
enum tpp_code tpp_bench_spawn(const char *const *argv, uint32_t count, double grace_seconds, int *status,
                              struct tpp_error *err);

#endif
