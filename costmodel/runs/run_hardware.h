/* run_hardware.h - from a published GPU name and fabric to a shipped profile and what differs from it. */
#ifndef TPP_COSTMODEL_RUNS_RUN_HARDWARE_H
#define TPP_COSTMODEL_RUNS_RUN_HARDWARE_H

#include "costmodel/base/error.h"
#include "costmodel/runs/run.h"
#include "costmodel/runs/run_facts.h"
#include "hwprofiles/hardware.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The GPU's name, with what else the source says of it: its power limit; torchao's benchmarks run on an H100 with 2.4 TB/s, "custom to
 * Meta's variant" (testing/training/roofline_utils.py), the one of the torchtitan pages. */
void tpp_run_gpu_name(const struct tpp_run_facts *facts, char *name, size_t size);

/* Chooses the profile by the GPU's name ("A100-SXM4-80GB") and reads the network's text ("8x HDR200 InfiniBand per
 * node"; "" or "single node" = nothing to read). False when no profile is known for the GPU. */
bool tpp_run_cluster_read(const char *gpu, const char *network, uint64_t num_gpus, uint64_t gpus_per_node,
                          struct tpp_run_cluster *cluster);

/* Puts what differs into a copy of the profile. */
void tpp_run_cluster_apply(const struct tpp_run_cluster *cluster, struct tpp_hardware *hardware);

/* Profiles that were looked up already, so that a file of a thousand rows loads each one once. */
struct tpp_run_profile {
    char name[64];
    struct tpp_hardware hardware;
};
struct tpp_run_profiles {           /* starts zeroed */
    struct tpp_run_profile **items; /* owned */
    size_t count;
};

/* Borrowed until the release; NULL and *err when there is no such profile. */
const struct tpp_hardware *tpp_run_profiles_find(struct tpp_run_profiles *profiles, const char *name,
                                                 struct tpp_error *err);
void tpp_run_profiles_release(struct tpp_run_profiles *profiles);

#endif
