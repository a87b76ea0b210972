/* simulation.h - private to the simulator: what a simulation holds. */
#ifndef TPP_COSTMODEL_SIMULATOR_SIMULATION_H
#define TPP_COSTMODEL_SIMULATOR_SIMULATION_H

#include "costmodel/simulator/build.h"

struct tpp_simulation {
    struct tpp_strategy strategy;
    struct tpp_simulation_options options;
    struct tpp_build build;      /* points into the two above */
    struct tpp_simulation_result result;
    struct tpp_simulated_op *ops; /* of the result */
    bool has_result;
};

/* collect.c: fills the result when the graph has run. */
enum tpp_code tpp_simulation_collect(struct tpp_simulation *simulation, struct tpp_error *err);
/* link_load.c: the result's contention, worst first. */
enum tpp_code tpp_simulation_contention(struct tpp_simulation *simulation, struct tpp_error *err);

#endif
