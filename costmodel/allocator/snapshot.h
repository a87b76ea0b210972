/* snapshot.h - a replayed step as the file that PyTorch's memory viewer opens (pytorch.org/memory_viz).
 *
 * The content is what torch.cuda.memory._dump_snapshot writes: a pickle (protocol 2) of {"segments": [...],
 * "device_traces": [[...]]}: the segments and blocks at the end of the step, and everything that happened in it. Where
 * PyTorch has Python stack frames, a block has two: the tensor's name, and the layer and micro-batch it belongs to. */
#ifndef TPP_COSTMODEL_ALLOCATOR_SNAPSHOT_H
#define TPP_COSTMODEL_ALLOCATOR_SNAPSHOT_H

#include "costmodel/allocator/replay.h"

/* Replays set-up and `num_steps` steps (1 or more) of the plan with the options' seed, and appends the pickle of the last
 * one, or of the one that ran out of memory, to *out: bytes, not text. Errors as tpp_replay_plan. */
enum tpp_code tpp_snapshot_write(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                                 const struct tpp_replay_options *options, uint32_t num_steps, struct tpp_text *out,
                                 struct tpp_error *err);

#endif
