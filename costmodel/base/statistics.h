/* statistics.h - order statistics of small sets of numbers. */
#ifndef TPP_COSTMODEL_BASE_STATISTICS_H
#define TPP_COSTMODEL_BASE_STATISTICS_H

#include <stddef.h>

void tpp_sort_numbers(double *values, size_t count);
/* Quantile of sorted numbers, 0 <= fraction <= 1, with linear interpolation between neighbours (position fraction (n-1)); 0
 * when there are none. */
double tpp_sorted_quantile(const double *sorted, size_t count, double fraction);

#endif
