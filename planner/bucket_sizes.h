/* bucket_sizes.h - bucket sizes worth simulating for a plan: from slack and burst (cost-model 9.4), few enough to try all. */
#ifndef TPP_PLANNER_BUCKET_SIZES_H
#define TPP_PLANNER_BUCKET_SIZES_H

#include "costmodel/evaluate.h"

#include <stddef.h>
#include <stdint.h>

enum tpp_bucket { TPP_BUCKET_REDUCE, TPP_BUCKET_GATHER, TPP_BUCKET_COUNT };
enum { TPP_MAX_BUCKET_SIZES = 2 };

/* Sizes in elements, two digits, into `sizes`; how many into *count. None when the plan gives this bucket, the framework has
 * no option for it, or its size changes nothing.
 * ZeRO-3 of DeepSpeed, whose bursts stall gathers: the largest burst that fits in the slack, and half of it. Buckets behind whole
 * passes (Megatron, ZeRO 0 to 2): latency may be a tenth of the smallest, and the largest is a burst of one layer's pass and a third
 * of the rank's parameters (10.2 item 10) at most. DeepSpeed's are never above its default, which bounds the memory.
 * TPP_E_STRATEGY as tpp_evaluator_cost. */
enum tpp_code tpp_bucket_sizes(struct tpp_evaluator *evaluator, const struct tpp_strategy *strategy,
                               enum tpp_bucket bucket, uint64_t sizes[TPP_MAX_BUCKET_SIZES], size_t *count,
                               struct tpp_error *err);

/* The strategy with the bucket set. */
void tpp_bucket_set(struct tpp_strategy *strategy, enum tpp_bucket bucket, uint64_t size);

#endif
