/* sequence_lengths.h - what lengths that differ cost: padding of micro-batches, packing, and who waits for whom.
 *
 * Without packing the b sequences of a micro-batch are filled up to the longest of them; with it documents are put together to
 * the job's sequence length, and attention stays inside each (block-diagonal masks, field note A8). A job carries its
 * distribution as equally likely lengths, quantiles: what a maximum is on average follows from them without drawing. */
#ifndef TPP_COSTMODEL_SEQUENCE_LENGTHS_H
#define TPP_COSTMODEL_SEQUENCE_LENGTHS_H

#include "costmodel/allocator/lengths.h"
#include "costmodel/job.h"

/* Gives the job its lengths, cut at its sequence length. `packs`: job->packed_fraction becomes what first-fit decreasing leaves
 * of tokens that are no padding, over all packs but the one begun last, and attention_block_length, when it is 0, the
 * length of equal documents with the same scores, E[l^2] / E[l]. Fixed lengths of the job's own change nothing. */
void tpp_job_set_lengths(struct tpp_job *job, const struct tpp_lengths *lengths, bool packs);

/* True when micro-batches are padded. */
bool tpp_job_pads(const struct tpp_job *job);

struct tpp_padded_length {
    double tokens;   /* of one sequence of a micro-batch, padding included */
    double attended; /* the same number of scores has a sequence of `tokens` cut into blocks of so many: E[max^2] / E[max] */
};
/* Of a micro-batch of `micro_batch_size` on the rank that takes longest in a step. `ranks` data-parallel ones wait for each other
 * after `num_micro_batches` micro-batches each:
 *
 *     E[max_b]   = sum_i l_i (F_i^b - F_(i-1)^b)        l_i quantiles, F_i = i/K, b sequences drawn on their own
 *     of ranks that wait after every micro-batch (num_micro_batches 1): b times the ranks instead of b
 *     after m:     E[max_b] + z(ranks) sigma / sqrt(m)    the largest of so many normal sums
 *
 * z(n) = Phi^-1((n - 0.375) / (n + 0.25)), Blom 1958 "Statistical Estimates and Transformed Beta-Variables", within 0.03 of the
 * exact mean; sigma^2 = E[max_b^2] - E[max_b]^2. Never above the longest quantile. */
struct tpp_padded_length tpp_padded_length(const struct tpp_job *job, uint32_t micro_batch_size, uint32_t ranks,
                                           uint64_t num_micro_batches);

/* The job as a rank with such micro-batches sees it: sequences of that many tokens, attention over `attended`. */
struct tpp_job tpp_padded_job(const struct tpp_job *job, uint32_t micro_batch_size, uint32_t ranks,
                              uint64_t num_micro_batches);

/* Tokens of one sequence (or pack) that are no padding, on average; and the length of equal documents that have its scores. */
double tpp_job_useful_tokens(const struct tpp_job *job);
double tpp_job_document_tokens(const struct tpp_job *job);

#endif
