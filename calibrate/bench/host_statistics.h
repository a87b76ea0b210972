/* host_statistics.h - what repeats of a measurement say: order statistics, outliers, and how many repeats to make. */
#ifndef TPP_CALIBRATE_BENCH_HOST_STATISTICS_H
#define TPP_CALIBRATE_BENCH_HOST_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

struct tpp_bench_summary {
    size_t count;
    double min, max, mean;
    double lower_quartile, median, upper_quartile;
    size_t num_outliers; /* further from the median than 5 robust standard deviations (1.4826 MAD) */
};

/* Sorts `values` in place. */
struct tpp_bench_summary tpp_bench_summarize(double *values, size_t count);

/* How often to repeat something that takes `seconds` so that it fits `budget_seconds`, within min .. max. */
size_t tpp_bench_num_repeats(double seconds, double budget_seconds, size_t min, size_t max);

/* How many launches to put between two events: enough for `target_seconds`, so that the 0.5 us of an event's clock does
 * not matter; at least 1, at most `max`. */
size_t tpp_bench_num_inner(double seconds, double target_seconds, size_t max);

#endif
