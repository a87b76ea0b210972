#include "calibrate/bench/host_statistics.h"

#include "costmodel/base/statistics.h"

#include <math.h>

/* The median of |x - median| over sorted values, without memory of its own: the distances of the values below and above
 * the median are two sorted runs, which are merged up to their middle. */
static double median_distance(const double *sorted, size_t count, double median)
{
    size_t right = 0;
    while (right < count && sorted[right] < median) {
        right++;
    }
    size_t left = right;
    double previous = 0, current = 0;
    for (size_t taken = 0; taken <= count / 2; taken++) {
        previous = current;
        const bool take_left = right == count || (left > 0 && median - sorted[left - 1] <= sorted[right] - median);
        current = take_left ? median - sorted[--left] : sorted[right++] - median;
    }
    return count % 2 ? current : (previous + current) / 2;
}

struct tpp_bench_summary tpp_bench_summarize(double *values, size_t count)
{
    struct tpp_bench_summary summary = {.count = count};
    if (count == 0) {
        return summary;
    }
    tpp_sort_numbers(values, count);
    summary.min = values[0];
    summary.max = values[count - 1];
    summary.lower_quartile = tpp_sorted_quantile(values, count, 0.25);
    summary.median = tpp_sorted_quantile(values, count, 0.5);
    summary.upper_quartile = tpp_sorted_quantile(values, count, 0.75);
    /* 1.4826 MAD is the standard deviation of normal data. */
    const double limit = 5 * 1.4826 * median_distance(values, count, summary.median);
    for (size_t i = 0; i < count; i++) {
        summary.mean += values[i] / (double)count;
        summary.num_outliers += fabs(values[i] - summary.median) > limit;
    }
    return summary;
}

static size_t clamp(double wanted, size_t min, size_t max)
{
    if (!(wanted > (double)min)) {
        return min;
    }
    return wanted < (double)max ? (size_t)wanted : max;
}

size_t tpp_bench_num_repeats(double seconds, double budget_seconds, size_t min, size_t max)
{
    return seconds > 0 ? clamp(budget_seconds / seconds, min, max) : max;
}

size_t tpp_bench_num_inner(double seconds, double target_seconds, size_t max)
{
    return seconds > 0 ? clamp(ceil(target_seconds / seconds), 1, max) : max;
}
