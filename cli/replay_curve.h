/* replay_curve.h - what the steps of a replay reserve and allocate, as text: one row a step, or a few steps, a bar each.
 *
 *     Peaks by step: # allocated, - reserved beyond it, of 77.57 GiB
 *           1 |################--------        |  40.25  48.10 GiB
 *           2 |#################-----------    |  42.60  56.91 GiB  1 retry
 */
#ifndef TPP_CLI_REPLAY_CURVE_H
#define TPP_CLI_REPLAY_CURVE_H

#include "costmodel/allocator/replay.h"
#include "costmodel/base/text.h"

/* Rows of at most `width` columns (40 or more), no more than 20: a row stands for as many steps as that takes, and shows
 * their largest peaks; below them the distribution of all. Nothing for fewer than two steps. */
void tpp_replay_curve_append(const struct tpp_replay *replay, unsigned width, struct tpp_text *out);

#endif
