/* uneven_pipeline.h - what micro-batches of different lengths make the stages of a pipeline wait for each other.
 *
 * Padded to its own longest sequence, every micro-batch takes another time, on all stages alike. A stage that has finished a short one
 * waits for the neighbour that has a long one, in the middle of the step too: a bubble beside fill and drain. It has no closed form;
 * the schedule's own operations are timed with lengths drawn from the job's distribution (schedules/schedule.h). */
#ifndef TPP_COSTMODEL_UNEVEN_PIPELINE_H
#define TPP_COSTMODEL_UNEVEN_PIPELINE_H

#include "costmodel/base/error.h"
#include "costmodel/job.h"
#include "costmodel/strategy.h"

/* Sequences of which a micro-batch takes the longest: its own, and with sharded parameters, which all data-parallel ranks wait
 * for in every micro-batch, theirs too (tpp_padded_length with one micro-batch). */
double tpp_uneven_draws(const struct tpp_strategy *strategy);

/* Lengths of a step's micro-batches over their mean, which is 1: quantiles (i + 1/2) / m of the longest of `draws` sequences, in
 * an order that `shuffle` stands for. Linear in the tokens: the scores, which grow with their square, are not told apart. */
void tpp_uneven_lengths(const struct tpp_job *job, double draws, uint32_t num_micro_batches, uint32_t shuffle,
                        double *relative);

/* Mean of so many orders. */
#define TPP_UNEVEN_SHUFFLES 4

/* What the step takes longer than with micro-batches of the mean length, in micro-batches of the slowest stage (F + B + W of the
 * mean one, a third each). The other stages take `others_fraction` of it each, in 64ths; the slowest is taken to be the last
 * one, which has the head: while it computes, shorter stages make up for what they waited. 0 with one stage, one micro-batch, or no padding. Of many micro-batches the first
 * hundreds are run. TPP_E_MEMORY, or what tpp_schedule_step says of the sizes. */
enum tpp_code tpp_uneven_wait(const struct tpp_job *job, const struct tpp_strategy *strategy, double others_fraction,
                              double *micro_batches, struct tpp_error *err);

/* The same, remembered: a search asks for few different ones. NULL is no cache yet. The caller frees it. */
struct tpp_uneven_cache;
enum tpp_code tpp_uneven_wait_cached(struct tpp_uneven_cache **cache, const struct tpp_job *job,
                                     const struct tpp_strategy *strategy, double others_fraction,
                                     double *micro_batches, struct tpp_error *err);
void tpp_uneven_cache_free(struct tpp_uneven_cache *cache); /* NULL is fine */

#endif
