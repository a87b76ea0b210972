/* failing_alloc.h - makes one allocation fail, for tests that try every one of them.
 *
 * A test that links failing_alloc_dep has malloc, calloc and realloc of the project's code and of cJSON replaced. Use:
 *
 *     for (uint64_t n = 0; ; n++) {
 *         tpp_failing_alloc_arm(n);
 *         code = load(...);
 *         if (!tpp_failing_alloc_disarm()) {
 *             break; // fewer than n + 1 allocations: code is TPP_OK here
 *         }
 *         assert_int_equal(code, TPP_E_MEMORY);
 *     } */
#ifndef TPP_TESTS_SUPPORT_FAILING_ALLOC_H
#define TPP_TESTS_SUPPORT_FAILING_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* From now on allocation number `n`, counted from 0, fails; those before and after it work. */
void tpp_failing_alloc_arm(uint64_t n);
/* Back to normal. True when an allocation has failed. */
bool tpp_failing_alloc_disarm(void);

#endif
