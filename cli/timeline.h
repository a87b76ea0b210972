/* timeline.h - the pipeline of a step as text: one row a stage, time from left to right.
 *
 *     stage 0 |F0-F1-F2-F3-.........B0====B1====| 38 % idle
 *
 * A pass begins with its letter (F forward, B backward, W weight gradients) and the number of its micro-batch, when there is
 * room; a letter a, b, ... behind it names the chunk of the stage. When passes would be too short to tell apart, the
 * beginning and the end of the step are shown, where the pipeline fills and drains. */
#ifndef TPP_CLI_TIMELINE_H
#define TPP_CLI_TIMELINE_H

#include "costmodel/base/text.h"
#include "costmodel/simulator/simulate.h"

#define TPP_TIMELINE_MIN_WIDTH 40

/* Appends the rows, a line that says what the columns are, and a legend. `ops` as a simulation gives them: stage by stage, in
 * order of time. No line is longer than `width` columns (TPP_TIMELINE_MIN_WIDTH when it is less). */
void tpp_timeline_append(const struct tpp_simulated_op *ops, size_t num_ops, uint32_t num_stages, unsigned width,
                         struct tpp_text *out);

#endif
