/* sharded_timeline.h - some layers of a backward pass with sharded parameters (ZeRO-3, FSDP) as text: compute, gathers of
 * weights and reductions of gradients, one row each.
 *
 *     compute |B71=====..B70=====B69=====|
 *     gather  |::G70---G69---G68--------|
 *     reduce  |R=====....................|
 *
 * "::" in front of a gather is its wait behind a reduction, the dots of compute are what the layer waited for. */
#ifndef TPP_CLI_SHARDED_TIMELINE_H
#define TPP_CLI_SHARDED_TIMELINE_H

#include "costmodel/base/text.h"
#include "costmodel/simulator/simulate.h"

/* Appends the rows of stage 0 and a legend: eight layers from the third reduction of the step on. Appends nothing for a plan
 * without such gathers, or with fewer reductions. No line is longer than `width` columns (TPP_TIMELINE_MIN_WIDTH when it is less). */
void tpp_sharded_timeline_append(const struct tpp_simulation *simulation, unsigned width, struct tpp_text *out);

#endif
