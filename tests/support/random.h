/* random.h - seeded numbers for property tests: splitmix64, the same on every machine. */
#ifndef TPP_TESTS_SUPPORT_RANDOM_H
#define TPP_TESTS_SUPPORT_RANDOM_H

#include <math.h>
#include <stdint.h>

/* How many cases a test makes. Under the address sanitizer, which is several times as slow, the first of the same. */
#if defined(__SANITIZE_ADDRESS__)
#define TPP_NUM_CASES(plain, sanitized) (sanitized)
#else
#define TPP_NUM_CASES(plain, sanitized) (plain)
#endif

struct tpp_random {
    uint64_t state;
};

static inline uint64_t tpp_random_next(struct tpp_random *random)
{
    uint64_t z = (random->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* min .. max, both included. */
static inline uint64_t tpp_random_range(struct tpp_random *random, uint64_t min, uint64_t max)
{
    return min + tpp_random_next(random) % (max - min + 1);
}

static inline double tpp_random_uniform(struct tpp_random *random, double min, double max)
{
    return min + (max - min) * ((double)(tpp_random_next(random) >> 11) * 0x1.0p-53);
}

static inline double tpp_random_log_uniform(struct tpp_random *random, double min, double max)
{
    return exp(tpp_random_uniform(random, log(min), log(max)));
}

#endif
