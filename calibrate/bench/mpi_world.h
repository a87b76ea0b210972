/* mpi_world.h - ranks from MPI, when the programs are built with it. */
#ifndef TPP_CALIBRATE_BENCH_MPI_WORLD_H
#define TPP_CALIBRATE_BENCH_MPI_WORLD_H

#include "calibrate/bench/host_launcher.h"

#include <stdbool.h>

/* *is_started is false when the program was not started by mpirun (one rank): another launcher may have been. Else
 * fills *world; rank 0's address and a free port are broadcast, and the bootstrap goes on over TCP. */
enum tpp_code tpp_bench_mpi_world(struct tpp_bench_world *world, bool *is_started, struct tpp_error *err);
/* After a failure MPI_Abort, since MPI_Finalize would wait for ranks that are gone. */
void tpp_bench_mpi_finish(bool has_failed);

#endif
