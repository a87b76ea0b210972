#include "calibrate/bench/mpi_world.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What rank 0 tells the others. */
struct meeting_point {
    char address[256];
    uint64_t token;
    uint32_t port;
};

enum tpp_code tpp_bench_mpi_world(struct tpp_bench_world *world, bool *is_started, struct tpp_error *err)
{
    int size = 1, rank = 0, local_rank = 0, local_size = 1;
    MPI_Comm local;
    struct meeting_point point = {.port = 0};
    *is_started = false;
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS) {
        return tpp_fail(err, TPP_E_IO, "MPI", NULL, "MPI_Init failed");
    }
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (size == 1) {
        return TPP_OK;
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &local_rank);
    MPI_Comm_size(local, &local_size);
    MPI_Comm_free(&local);
    if (rank == 0) {
        gethostname(point.address, sizeof point.address - 1);
        point.port = 20000 + (uint32_t)getpid() % 20000;
        point.token = (uint64_t)getpid();
    }
    MPI_Bcast(&point, sizeof point, MPI_BYTE, 0, MPI_COMM_WORLD);
    memset(world, 0, sizeof *world);
    world->launcher = TPP_BENCH_MPI;
    world->rank = (uint32_t)rank;
    world->size = (uint32_t)size;
    world->local_rank = (uint32_t)local_rank;
    world->ranks_per_node = (uint32_t)local_size;
    world->port = (uint16_t)point.port;
    world->token = point.token;
    snprintf(world->address, sizeof world->address, "%s", point.address);
    *is_started = true;
    return TPP_OK;
}

void tpp_bench_mpi_finish(bool has_failed)
{
    int is_initialized = 0;
    MPI_Initialized(&is_initialized);
    if (is_initialized && has_failed) {
        MPI_Abort(MPI_COMM_WORLD, 5);
    } else if (is_initialized) {
        MPI_Finalize();
    }
}
