#include "calibrate/bench/host_check.h"

#include <math.h>

/* Data as they are after the rounding to `type`. */
static double stored(enum tpp_bench_type type, uint64_t seed, uint64_t index)
{
    return tpp_bench_round(type, tpp_bench_random_value(seed, index));
}

double tpp_bench_gemm_element(const struct tpp_bench_gemm *gemm, enum tpp_bench_type type, uint64_t seed,
                              uint64_t a_first, uint64_t b_first, uint64_t row, uint64_t column)
{
    double sum = 0;
    for (uint64_t i = 0; i < gemm->k; i++) {
        sum += stored(type, seed, a_first + tpp_bench_gemm_a_index(gemm, row, i)) *
               stored(type, seed, b_first + tpp_bench_gemm_b_index(gemm, i, column));
    }
    return sum;
}

double tpp_bench_gemm_tolerance(enum tpp_bench_type input, enum tpp_bench_type output, uint64_t k, double value)
{
    /* The partial sums of k products of unit variance grow to sqrt(k); each of k roundings adds half a last place of
     * them at random, so sqrt(k) of them add up: in all sqrt(k) sqrt(k) 2^-24 = k 2^-24. Hopper adds fp8 products in 14
     * bits before it moves them to fp32 (DeepSeek-V3 report, section 3.3.2). A kernel that splits k may round parts of
     * size sqrt(k) to the output's type before it adds them. The factors are wide; what a wrong layout, a missing tile
     * or a wrong operand makes is as large as the result, sqrt(k). */
    const double accumulation = 8 * (double)k * (input == TPP_BENCH_FP8 ? 0x1p-14 : 0x1p-24);
    const double rounding = tpp_bench_type_rounding(output);
    return accumulation + 2 * rounding * fabs(value) + 4 * rounding * sqrt((double)k) + 1e-6;
}

static double reduced_element(uint64_t seed, uint32_t num_ranks, uint64_t index)
{
    double sum = 0;
    for (uint32_t rank = 0; rank < num_ranks; rank++) {
        sum += tpp_bench_small_integer(seed + rank, index);
    }
    return sum;
}

double tpp_bench_collective_element(enum tpp_bench_collective collective, uint64_t seed, uint32_t num_ranks,
                                    uint32_t position, uint64_t count, uint64_t index)
{
    const uint64_t part = index / count, inside = index % count;
    switch (collective) {
    case TPP_BENCH_ALL_GATHER: /* part p is all of what rank p sent */
        return tpp_bench_small_integer(seed + part, inside);
    case TPP_BENCH_REDUCE_SCATTER:
        return reduced_element(seed, num_ranks, position * count + index);
    case TPP_BENCH_ALL_REDUCE:
        return reduced_element(seed, num_ranks, index);
    case TPP_BENCH_ALL_TO_ALL: /* part p is the part for this rank of what rank p sent */
        return tpp_bench_small_integer(seed + part, position * count + inside);
    default:
        return tpp_bench_small_integer(seed + (position + num_ranks - 1) % num_ranks, index);
    }
}

double tpp_bench_collective_tolerance(enum tpp_bench_collective collective, enum tpp_bench_type type,
                                      uint32_t num_ranks)
{
    const bool reduces = collective == TPP_BENCH_ALL_REDUCE || collective == TPP_BENCH_REDUCE_SCATTER;
    const double largest = 2.0 * num_ranks; /* of any partial sum */
    /* Whole numbers up to 1 / (2 rounding) are exact: 128 x 2 for bf16. */
    if (!reduces || largest * tpp_bench_type_rounding(type) <= 1) {
        return 0;
    }
    return num_ranks * largest * tpp_bench_type_rounding(type);
}

uint64_t tpp_bench_count_wrong(enum tpp_bench_collective collective, enum tpp_bench_type type, uint64_t seed,
                               uint32_t num_ranks, uint32_t position, uint64_t part, uint64_t first, uint64_t count,
                               const void *result)
{
    const double tolerance = tpp_bench_collective_tolerance(collective, type, num_ranks);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double expected = tpp_bench_collective_element(collective, seed, num_ranks, position, part, first + i);
        const double found = tpp_bench_element(type, result, i);
        wrong += !(fabs(found - expected) <= tolerance);
    }
    return wrong;
}
