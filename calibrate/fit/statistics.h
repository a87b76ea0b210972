/* statistics.h - order statistics of small sets of numbers. */
#ifndef TPP_CALIBRATE_FIT_STATISTICS_H
#define TPP_CALIBRATE_FIT_STATISTICS_H

#include <stddef.h>

void tpp_sort_numbers(double *values, size_t count);
/* Value at `fraction` of the sorted numbers, between two of them where needed; 0 of none. */
double tpp_sorted_quantile(const double *sorted, size_t count, double fraction);

#endif
