/* host_launcher.h - which rank am I? From the environment of torchrun, of Slurm, or of our own --spawn. */
#ifndef TPP_CALIBRATE_BENCH_HOST_LAUNCHER_H
#define TPP_CALIBRATE_BENCH_HOST_LAUNCHER_H

#include "costmodel/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum tpp_bench_launcher {
    TPP_BENCH_ALONE,    /* no launcher: one rank */
    TPP_BENCH_TORCHRUN, /* RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT */
    TPP_BENCH_SLURM,    /* SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_NODELIST, ... */
    TPP_BENCH_MPI,
};

struct tpp_bench_world {
    enum tpp_bench_launcher launcher;
    uint32_t rank, size;
    uint32_t local_rank;
    uint32_t ranks_per_node; /* 0: the launcher does not say; the bootstrap finds it out */
    char address[256];       /* where rank 0 listens */
    uint16_t port;
    uint64_t token; /* of this job: strangers who connect by mistake do not know it */
};

/* Looks a variable up; NULL when it is not set. */
typedef const char *(*tpp_bench_lookup)(void *context, const char *name);

/* torchrun's variables win over Slurm's, since torchrun is started by srun on many clusters. Under torchrun's agent
 * MASTER_PORT belongs to its own store: the port after it is used. TPP_BOOTSTRAP_PORT overrides the port. TPP_E_USAGE
 * names the variable that is missing or makes no sense. */
enum tpp_code tpp_bench_world_find(tpp_bench_lookup lookup, void *context, struct tpp_bench_world *world,
                                   struct tpp_error *err);

const char *tpp_bench_launcher_name(enum tpp_bench_launcher launcher);

/* First host of a Slurm list: "gpu[07-12,20],login" gives "gpu07". TPP_E_USAGE when there is none. */
enum tpp_code tpp_bench_first_host(const char *list, char *host, size_t size, struct tpp_error *err);

#endif
