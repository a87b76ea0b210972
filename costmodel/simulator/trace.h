/* trace.h - a simulated step as a Chrome trace (Trace Event Format, JSON object form), to be opened in Perfetto.
 *
 * A process is a simulated rank: a stage of a replica. Its threads are the streams, its counters the memory that passes hold
 * and the use of its links (when the options recorded links). Arrows go from a transfer between stages to the pass that
 * waited for it. */
#ifndef TPP_COSTMODEL_SIMULATOR_TRACE_H
#define TPP_COSTMODEL_SIMULATOR_TRACE_H

#include "costmodel/base/text.h"
#include "costmodel/simulator/simulate.h"

/* Appends the trace of a simulation that is done. A failed allocation is remembered in `out` (tpp_text_failed). */
void tpp_simulation_trace(const struct tpp_simulation *simulation, struct tpp_text *out);

#endif
