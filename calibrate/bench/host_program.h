/* host_program.h - what all measuring programs share: options, ranks, output, the end. */
#ifndef TPP_CALIBRATE_BENCH_HOST_PROGRAM_H
#define TPP_CALIBRATE_BENCH_HOST_PROGRAM_H

#include "calibrate/bench/host_launcher.h"
#include "calibrate/bench/host_options.h"
#include "calibrate/bench/host_samples.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tpp_bench_common {
    const char *output;
    bool append;
    double budget_seconds;
    double timeout_seconds;
    uint64_t repeats;
    uint64_t device; /* of a program of one rank; others take their local rank */
    uint64_t spawn;
    uint64_t seed;
};

struct tpp_bench_run;

struct tpp_bench_program {
    const char *name, *about;
    const struct tpp_bench_option *options; /* its own */
    void *arguments;
    bool is_distributed;        /* runs on many ranks */
    const char *default_budget; /* seconds, as text */
    /* Measures. The samples file is open on rank 0. */
    enum tpp_code (*run)(struct tpp_bench_run *run, struct tpp_error *err);
};

struct tpp_bootstrap;

/* What run() is given. */
struct tpp_bench_run {
    const struct tpp_bench_program *program;
    struct tpp_bench_common common;
    struct tpp_bench_world world;
    struct tpp_bootstrap *bootstrap; /* NULL when not distributed */
    struct tpp_bench_samples samples;
    const char *const *argv;
    int argc;
    const char *const *hosts; /* of the nodes; NULL: this one alone */
    size_t num_hosts;
    double start_seconds; /* of tpp_bench_now */
    uint64_t num_wrong;   /* results that were wrong so far: exit code 1 */
};

/* main() of a program. Returns the exit status. */
int tpp_bench_main(const struct tpp_bench_program *program, int argc, const char *const *argv);

/* Seconds of the time budget that are left, not below 0. */
double tpp_bench_seconds_left(const struct tpp_bench_run *run);
/* The last resort: a step that is not followed by another one within `seconds`, because a
 * call of a library never returns, ends the process with a message that names the rank. 0 stops the watch. */
void tpp_bench_watch(const struct tpp_bench_run *run, double seconds);
/* After a wait that timed out on one GPU: what is freed now may wait for it for ever. The program ends with this error,
 * exit code 5, when it has not ended by itself within `seconds`. */
void tpp_bench_last_words(const struct tpp_error *err, double seconds);
/* One line of progress on standard error, of rank 0 only. */
void tpp_bench_say(const struct tpp_bench_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
