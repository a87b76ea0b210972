#include "costmodel/sequence_lengths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Phi^-1 by bisection: 60 halvings of -8 .. 8. */
static double normal_quantile(double probability)
{
    double low = -8, high = 8;
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        if (0.5 * erfc(-middle / sqrt(2)) < probability)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* First of a list's lengths, in the list's order, whose running weight reaches `share` of all. */
static double listed(const struct tpp_lengths *lengths, double share)
{
    const double wanted = share * lengths->sums[lengths->count - 1];
    size_t i = 0;
    while (i + 1 < lengths->count && lengths->sums[i] < wanted)
        i++;
    return (double)lengths->values[i];
}

/* Length below which `probability` of all lie; of a list, one of its lengths, in no order. */
static double quantile(const struct tpp_lengths *lengths, double probability, double limit)
{
    const double variance = log1p(lengths->variation * lengths->variation);
    switch (lengths->kind) {
    case TPP_LENGTHS_UNIFORM:
        return (double)lengths->min + probability * ((double)lengths->max - (double)lengths->min);
    case TPP_LENGTHS_LOGNORMAL:
        return exp(log(lengths->mean) - variance / 2 + sqrt(variance) * normal_quantile(probability));
    case TPP_LENGTHS_LIST:
        return listed(lengths, probability);
    default:
        return lengths->min > 0 ? (double)lengths->min : limit;
    }
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double mean_power(const struct tpp_job *job, int power)
{
    double sum = 0;
    for (int i = 0; i < TPP_JOB_LENGTHS; i++)
        sum += power == 1 ? job->lengths[i] : job->lengths[i] * job->lengths[i];
    return sum / TPP_JOB_LENGTHS;
}

/* Tokens that are no padding when the lengths are packed first-fit decreasing. Every pack holds one at least. */
static double packed_fraction(const struct tpp_job *job)
{
    const double capacity = (double)job->sequence_length;
    double room[TPP_JOB_LENGTHS], used = 0;
    int num_packs = 0;
    for (int i = TPP_JOB_LENGTHS - 1; i >= 0; i--) {
        int pack = 0;
        while (pack < num_packs && room[pack] < job->lengths[i])
            pack++;
        if (pack == num_packs)
            room[num_packs++] = capacity;
        room[pack] -= job->lengths[i];
    }
    if (num_packs == 1)
        return 1;
    for (int pack = 0; pack + 1 < num_packs; pack++)
        used += capacity - room[pack];
    return used / (capacity * (num_packs - 1));
}

void tpp_job_set_lengths(struct tpp_job *job, const struct tpp_lengths *lengths, bool packs)
{
    const double limit = (double)job->sequence_length;
    job->num_lengths = 0;
    job->packed_fraction = 0;
    if (tpp_lengths_is_fixed(lengths) && (lengths->min == 0 || lengths->min >= job->sequence_length))
        return;
    job->num_lengths = TPP_JOB_LENGTHS;
    for (int i = 0; i < TPP_JOB_LENGTHS; i++)
        job->lengths[i] = fmin(limit, fmax(1, round(quantile(lengths, (i + 0.5) / TPP_JOB_LENGTHS, limit))));
    qsort(job->lengths, TPP_JOB_LENGTHS, sizeof *job->lengths, compare);
    if (!packs)
        return;
    job->packed_fraction = packed_fraction(job);
    if (job->attention_block_length == 0)
        job->attention_block_length = (uint64_t)llround(tpp_job_document_tokens(job));
}

bool tpp_job_pads(const struct tpp_job *job)
{
    return job->num_lengths > 0 && job->packed_fraction == 0;
}

/* E[max^power] of `draws` lengths. */
static double mean_of_longest(const struct tpp_job *job, double draws, int power)
{
    double sum = 0, below = 0;
    for (int i = 0; i < TPP_JOB_LENGTHS; i++) {
        const double up_to = pow((i + 1.0) / TPP_JOB_LENGTHS, draws), length = job->lengths[i];
        sum += (power == 1 ? length : length * length) * (up_to - below);
        below = up_to;
    }
    return sum;
}

struct tpp_padded_length tpp_padded_length(const struct tpp_job *job, uint32_t micro_batch_size, uint32_t ranks,
                                           uint64_t num_micro_batches)
{
    const double draws = micro_batch_size * (num_micro_batches > 1 ? 1.0 : ranks);
    const double mean = mean_of_longest(job, draws, 1), square = mean_of_longest(job, draws, 2);
    struct tpp_padded_length padded = {mean, square / mean};
    if (num_micro_batches <= 1 || ranks <= 1)
        return padded;
    const double z = normal_quantile((ranks - 0.375) / (ranks + 0.25)), sigma = sqrt(fmax(0, square - mean * mean));
    padded.tokens = fmin(mean + z * sigma / sqrt((double)num_micro_batches), job->lengths[TPP_JOB_LENGTHS - 1]);
    padded.attended *= padded.tokens / mean;
    return padded;
}

struct tpp_job tpp_padded_job(const struct tpp_job *job, uint32_t micro_batch_size, uint32_t ranks,
                              uint64_t num_micro_batches)
{
    const struct tpp_padded_length padded = tpp_padded_length(job, micro_batch_size, ranks, num_micro_batches);
    struct tpp_job result = *job;
    result.sequence_length = (uint64_t)llround(fmax(1, padded.tokens));
    result.attention_block_length = (uint64_t)llround(fmax(1, padded.attended));
    return result;
}

double tpp_job_useful_tokens(const struct tpp_job *job)
{
    if (job->num_lengths == 0)
        return (double)job->sequence_length;
    return tpp_job_pads(job) ? mean_power(job, 1) : job->packed_fraction * (double)job->sequence_length;
}

double tpp_job_document_tokens(const struct tpp_job *job)
{
    if (job->num_lengths == 0 || (!tpp_job_pads(job) && job->attention_block_length > 0))
        return (double)job->attention_block_length;
    return mean_power(job, 2) / mean_power(job, 1);
}
