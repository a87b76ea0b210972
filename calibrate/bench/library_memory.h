/* library_memory.h - memory that the CUDA context and cuBLAS take, and the link to the host. */
#ifndef TPP_CALIBRATE_BENCH_LIBRARY_MEMORY_H
#define TPP_CALIBRATE_BENCH_LIBRARY_MEMORY_H

#include "calibrate/bench/device.h"

struct tpp_library_memory {
    uint64_t context_bytes;          /* context, module code and cuBLAS, without the workspace; 0: unknown */
    uint64_t cublas_workspace_bytes; /* 0: unknown */
};

/* Call before anything in this process makes a context on the device. Others must not change their use of the GPU
 * meanwhile. TPP_E_NOT_BUILT when there is no GPU. */
enum tpp_code tpp_library_memory(int device, struct tpp_library_memory *memory, struct tpp_error *err);

/* Bytes per second of pinned copies to the GPU (`up`) and from it (`down`), `repeats` of each. */
enum tpp_code tpp_library_host_link(struct tpp_device *device, size_t repeats, double *up, double *down,
                                    struct tpp_error *err);

#endif
