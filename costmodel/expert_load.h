/* expert_load.h - how many tokens each expert gets, as measured, and what the fullest rank of a split of the experts gets of them.
 *
 * Every rank waits for the fullest one, in each layer and pass: cost-model 7 "EP". Experts lie on ranks in order, E / e on each,
 * as Megatron-Core, DeepSpeed and torchtitan place them. What one layer's counts say is taken for all layers. */
#ifndef TPP_COSTMODEL_EXPERT_LOAD_H
#define TPP_COSTMODEL_EXPERT_LOAD_H

#include "costmodel/base/error.h"
#include "costmodel/job.h"

#include <stdint.h>

#define TPP_EXPERT_LOAD_MAX_EXPERTS 4096

/* Reads num_experts (1 .. TPP_EXPERT_LOAD_MAX_EXPERTS) numbers, none negative and not all 0, with commas or white space between
 * them, from the text or, when it is "file:PATH", from that file, and sets job->expert_splits from their sums. TPP_E_USAGE, or
 * TPP_E_IO and TPP_E_SYNTAX for a file; the job is then as it was. */
enum tpp_code tpp_expert_load_read(const char *text, uint32_t num_experts, struct tpp_job *job, struct tpp_error *err);

#endif
