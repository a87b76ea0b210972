/* check_number.h - comparing doubles in cmocka tests, with a relative tolerance and both numbers in the message. */
#ifndef TPP_TESTS_SUPPORT_CHECK_NUMBER_H
#define TPP_TESTS_SUPPORT_CHECK_NUMBER_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Fails when `actual` is not within `relative` (0.001 = 0.1 %) of `expected`; an expected 0 must be met exactly. */
#define CHECK_NUMBER(actual, expected, relative)                                                                       \
    tpp_check_number((actual), (expected), (relative), #actual, __FILE__, __LINE__)

static inline void tpp_check_number(double actual, double expected, double relative, const char *text, const char *file,
                                    int line)
{
    if (isnan(actual) || fabs(actual - expected) > relative * fabs(expected)) {
        print_error("%s is %.10g, expected %.10g within %g (off by %.4f %%)\n", text, actual, expected, relative,
                    expected == 0 ? 0 : 100 * (actual / expected - 1));
        _fail(file, line);
    }
}

#endif
