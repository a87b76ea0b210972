#include "costmodel/base/statistics.h"

#include <stdlib.h>

static int compare_numbers(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

void tpp_sort_numbers(double *values, size_t count)
{
    if (count > 1) /* of no numbers there may be no array */
        qsort(values, count, sizeof *values, compare_numbers);
}

double tpp_sorted_quantile(const double *sorted, size_t count, double fraction)
{
    if (count == 0) {
        return 0;
    }
    const double at = fraction * (double)(count - 1);
    const size_t low = (size_t)at;
    const size_t high = low + 1 < count ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}
