/* lengths.h - how long the sequences of a job are: the distribution of --seq-distribution, read and sampled.
 *
 *   fixed            every sequence as long as the job's        fixed:16k          or as long as given
 *   uniform:8k-32k   any length between, all alike              lognormal:12k,0.5  mean, and standard deviation over mean
 *   bucketed:8k,16k=2,32k   these lengths; =2: twice as often   file:PATH          lengths as measured, one a line
 *
 * A length is a whole number of tokens; k means 1024, as in the names of context sizes. Sampled lengths never pass the
 * job's sequence length: longer ones are cut, as a data loader does. */
#ifndef TPP_COSTMODEL_ALLOCATOR_LENGTHS_H
#define TPP_COSTMODEL_ALLOCATOR_LENGTHS_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_lengths_kind { TPP_LENGTHS_FIXED, TPP_LENGTHS_UNIFORM, TPP_LENGTHS_LOGNORMAL, TPP_LENGTHS_LIST };

struct tpp_lengths {
    enum tpp_lengths_kind kind;
    uint64_t min, max;      /* FIXED: min, 0 = the job's; UNIFORM: both included */
    double mean, variation; /* LOGNORMAL: tokens, and standard deviation over mean */
    uint64_t *values;       /* LIST: owned; with the running sums of their weights */
    double *sums;
    size_t count;
};

/* On success the caller owns *out (tpp_lengths_release). TPP_E_USAGE with the forms as a hint; TPP_E_IO, TPP_E_SYNTAX for a
 * file. On failure *out is the fixed distribution. */
enum tpp_code tpp_lengths_parse(const char *text, struct tpp_lengths *out, struct tpp_error *err);
/* TPP_E_USAGE when every length is above `limit`, the job's: all would be cut to it. */
enum tpp_code tpp_lengths_check(const struct tpp_lengths *lengths, uint64_t limit, struct tpp_error *err);
void tpp_lengths_release(struct tpp_lengths *lengths);
bool tpp_lengths_is_fixed(const struct tpp_lengths *lengths);

/* The next number of a sequence that a seed starts: splitmix64, the same on every machine. */
uint64_t tpp_lengths_random(uint64_t *state);
/* A length of 1 .. limit tokens. */
uint64_t tpp_lengths_sample(const struct tpp_lengths *lengths, uint64_t limit, uint64_t *state);

#endif
