/* device.h - one GPU: opening it, memory, waiting with a time-out, and timing with events.
 *
 * The headers here name no CUDA type, so that they compile where the toolkit is not: a stream is struct CUstream_st *,
 * a status of the runtime is its number. */
#ifndef TPP_CALIBRATE_BENCH_DEVICE_H
#define TPP_CALIBRATE_BENCH_DEVICE_H

#include "calibrate/bench/host_program.h"
#include "calibrate/bench/nvml.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

struct tpp_device {
    int index, num_devices;
    char name[128];
    char pci_bus_id[32];
    int major, minor; /* compute capability */
    uint32_t num_sms;
    uint64_t memory_bytes; /* total that the program sees */
    uint64_t l2_bytes;
    int driver_version, runtime_version; /* CUDA, 1000 major + 10 minor */
    struct CUstream_st *stream;
    double timeout_seconds;
    struct tpp_nvml *nvml; /* NULL where there is none */
    /* Asked while the program waits for the GPU; NULL: nobody. Another code than TPP_OK ends the wait. */
    enum tpp_code (*still_there)(void *context, struct tpp_error *err);
    void *still_there_context;
};

/* TPP_E_NOT_BUILT (exit code 4) when there is no driver, no GPU, or not this one. */
enum tpp_code tpp_device_open(int index, double timeout_seconds, struct tpp_device *device, struct tpp_error *err);
void tpp_device_close(struct tpp_device *device);

/* Turns a status of the CUDA runtime into an error; TPP_OK for cudaSuccess. */
enum tpp_code tpp_cuda(int status, const char *what, struct tpp_error *err);

enum tpp_code tpp_device_alloc(uint64_t bytes, void **out, struct tpp_error *err);
void tpp_device_free(void *memory);
enum tpp_code tpp_device_free_bytes(uint64_t *bytes, struct tpp_error *err);
enum tpp_code tpp_device_copy_to_host(void *to, const void *from, uint64_t bytes, struct tpp_error *err);
enum tpp_code tpp_device_copy_to_device(void *to, const void *from, uint64_t bytes, struct tpp_error *err);
/* All bytes to zero, in the device's stream. */
enum tpp_code tpp_device_clear(const struct tpp_device *device, void *memory, uint64_t bytes, struct tpp_error *err);
/* The error of work that was not done within the time-out. */
enum tpp_code tpp_device_give_up(const struct tpp_device *device, const char *what, struct tpp_error *err);
/* Waits for all work of `stream`; TPP_E_IO after the time-out, or when still_there says so. */
enum tpp_code tpp_device_wait(const struct tpp_device *device, struct CUstream_st *stream, const char *what,
                              struct tpp_error *err);

/* Puts one piece of work into `stream`. `turn` counts up, so that operands can rotate. */
typedef enum tpp_code (*tpp_launch)(void *context, uint32_t turn, struct CUstream_st *stream, struct tpp_error *err);

struct tpp_work {
    tpp_launch launch;
    void *context;
    const char *what; /* for messages */
    bool no_graph;    /* never capture the launches */
};

#define TPP_MAX_REPEATS 10000
/* Times `repeats` times `inner` launches between two events, after a warm-up of one such run; seconds[i] is the mean of
 * repeat i. More than one launch is replayed from a CUDA graph where it can be captured, so that the host's launch time
 * does not count. */
enum tpp_code tpp_device_time(struct tpp_device *device, const struct tpp_work *work, uint32_t inner, size_t repeats,
                              double *seconds, struct tpp_error *err);
/* Seconds of one launch, roughly, after a warm-up: to choose `inner`. */
enum tpp_code tpp_device_estimate(struct tpp_device *device, const struct tpp_work *work, double *seconds,
                                  struct tpp_error *err);
/* Launches for `total_seconds` without a pause and times pieces of about `piece_seconds`; the first half of the time is
 * not kept, so that clocks and power have settled. *count is at most `capacity`; clocks[i] (Hz) are those of the piece.
 */
enum tpp_code tpp_device_sustain(struct tpp_device *device, const struct tpp_work *work, double one_seconds,
                                 double total_seconds, double piece_seconds, double *seconds, double *clocks,
                                 size_t capacity, size_t *count, struct tpp_error *err);

/* The "run" line: program, device, driver, clocks, topology, command line, ranks. `libraries` is pairs of a name and a
 * version, ended by NULL. */
enum tpp_code tpp_device_write_run(struct tpp_bench_run *run, const struct tpp_device *device,
                                   const char *const *libraries, struct tpp_error *err);
/* Adds the state of the GPU now (clocks, power, temperature, throttle reasons) to the line that is being built. */
void tpp_device_add_state(struct tpp_bench_run *run, const struct tpp_device *device);

#endif
