/* slices.h - what a stream of a simulated rank did, task by task: for drawings finer than whole passes. */
#ifndef TPP_COSTMODEL_SIMULATOR_SLICES_H
#define TPP_COSTMODEL_SIMULATOR_SLICES_H

#include "costmodel/simulator/event_graph.h"
#include "costmodel/simulator/simulate.h"

/* Calls `visit` with every task of the stage's stream that took time, in the order of the stream; of the first replica. The
 * simulation must be done; a stage or stream that is not there has no tasks. Tasks are borrowed for the call. */
void tpp_simulation_visit_slices(const struct tpp_simulation *simulation, uint32_t stage, enum tpp_track track,
                                 void (*visit)(const struct tpp_graph_task *task, void *context), void *context);

#endif
