/* What a run of nccl-tests measured, where its log does not say: from the relations between its columns. */
#include "calibrate/fit/nccl_log.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define BIT(operation) (1u << (operation))
#define ALL_OPERATIONS (BIT(TPP_OPERATION_UNKNOWN) - 1)

/* size = count * element for these, size = count * element * ranks for the others (collectives.md section 1). */
static const unsigned counts_buffer =
    BIT(TPP_ALL_REDUCE) | BIT(TPP_SEND_RECV) | BIT(TPP_OPERATION_BROADCAST) | BIT(TPP_OPERATION_REDUCE);
static const unsigned reduces = BIT(TPP_ALL_REDUCE) | BIT(TPP_REDUCE_SCATTER) | BIT(TPP_OPERATION_REDUCE);
static const unsigned has_a_root =
    BIT(TPP_OPERATION_BROADCAST) | BIT(TPP_OPERATION_REDUCE) | BIT(TPP_OPERATION_GATHER) | BIT(TPP_OPERATION_SCATTER);
/* Not checked, or found wrong, in place: the program has no in-place form of them. */
static const unsigned only_out_of_place = BIT(TPP_ALL_TO_ALL) | BIT(TPP_SEND_RECV);

int tpp_nccl_operation_in(const char *text)
{
    static const struct {
        const char *name;
        int operation;
    } names[] = {
        {"allreduce", TPP_ALL_REDUCE},      {"allgather", TPP_ALL_GATHER},    {"reducescatter", TPP_REDUCE_SCATTER},
        {"alltoall", TPP_ALL_TO_ALL},       {"sendrecv", TPP_SEND_RECV},      {"broadcast", TPP_OPERATION_BROADCAST},
        {"scatter", TPP_OPERATION_SCATTER}, {"gather", TPP_OPERATION_GATHER}, {"reduce", TPP_OPERATION_REDUCE},
    };
    char squeezed[256];
    size_t length = 0;
    for (; *text && length < sizeof squeezed - 1; text++) {
        if (*text != '_' && *text != '-') {
            squeezed[length++] = (char)tolower((unsigned char)*text);
        }
    }
    squeezed[length] = '\0';
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strstr(squeezed, names[i].name)) {
            return names[i].operation;
        }
    }
    return TPP_OPERATION_UNKNOWN;
}

/* Keeps `wanted` when something remains of it. */
static unsigned narrow(unsigned possible, unsigned wanted)
{
    return possible & wanted ? possible & wanted : possible;
}

/* size / (count * element size) of the rows: the same whole number in all of them, else 0. */
static uint32_t size_to_count_ratio(const struct tpp_nccl_run *run)
{
    uint64_t ratio = 0;
    for (size_t i = 0; i < run->num_rows; i++) {
        const struct tpp_nccl_row *row = &run->rows[i];
        if (row->bytes == 0 || row->count == 0 || row->count > row->bytes) {
            continue;
        }
        const uint64_t part = row->count * row->element_bytes; /* at most 2^53 * 8 */
        const uint64_t found = row->bytes % part == 0 ? row->bytes / part : 0;
        if (found == 0 || found > UINT32_MAX || (ratio != 0 && found != ratio)) {
            return 0;
        }
        ratio = found;
    }
    return (uint32_t)ratio;
}

/* Every row with content has a named reduction (or none has one). */
static bool all_reduce_operands(const struct tpp_nccl_run *run, bool expected)
{
    for (size_t i = 0; i < run->num_rows; i++) {
        if (run->rows[i].has_redop != expected) {
            return false;
        }
    }
    return true;
}

static bool in_place_is_never_right(const struct tpp_nccl_run *run)
{
    size_t num_judged = 0;
    for (size_t i = 0; i < run->num_rows; i++) {
        const struct tpp_nccl_half *out = &run->rows[i].halves[0], *in = &run->rows[i].halves[1];
        if (!in->is_present || !in->has_wrong || !out->has_wrong || out->num_wrong != 0) {
            continue;
        }
        if (in->num_wrong == 0) {
            return false;
        }
        num_judged++;
    }
    return num_judged > 0;
}

/* Bounds of bus * time / size that the printed digits of half `half` allow. False: too few digits to say anything. */
static bool factor_bounds(const struct tpp_nccl_row *row, const struct tpp_nccl_half *half, double *low, double *high)
{
    if (!half->is_present || row->bytes == 0 || half->bus_bytes_per_second < 50 * half->bus_half_step) {
        return false;
    }
    const double factor = half->bus_bytes_per_second * half->seconds / (double)row->bytes;
    const double rounding =
        1.05 * (half->bus_half_step / half->bus_bytes_per_second + half->seconds_half_step / half->seconds);
    *low = factor * (1 - rounding);
    *high = factor * (1 + rounding);
    return true;
}

/* Bounds that all rows allow together; false when there is no such row or they contradict each other. */
static bool run_factor_bounds(const struct tpp_nccl_run *run, double *low, double *high)
{
    bool is_bounded = false;
    *low = 0;
    *high = INFINITY;
    for (size_t i = 0; i < run->num_rows; i++) {
        for (int j = 0; j < 2; j++) {
            double row_low, row_high;
            if (factor_bounds(&run->rows[i], &run->rows[i].halves[j], &row_low, &row_high)) {
                *low = fmax(*low, row_low);
                *high = fmin(*high, row_high);
                is_bounded = true;
            }
        }
    }
    return is_bounded && *low <= *high;
}

/* Of the whole numbers low .. high, the one a cluster most likely has: a power of two, else a multiple of 8, else of 4,
 * else the only one; 0 when none stands out. */
static uint32_t likely_ranks(double low, double high)
{
    const uint32_t first = (uint32_t)fmax(2, ceil(low)), last = (uint32_t)fmin(1e6, floor(high));
    if (first > last || low > 1e6) {
        return 0;
    }
    if (first == last) {
        return first;
    }
    for (uint32_t power = 2; power <= last; power *= 2) {
        if (power >= first) {
            return power;
        }
    }
    for (uint32_t step = 8; step >= 4; step /= 2) {
        const uint32_t multiple = (first + step - 1) / step * step;
        if (multiple <= last && multiple + step > last) {
            return multiple;
        }
    }
    return 0;
}

uint32_t tpp_nccl_infer_ranks(const struct tpp_nccl_run *run, int operation)
{
    double low, high;
    if (operation != TPP_ALL_REDUCE) {
        const uint32_t ratio = size_to_count_ratio(run);
        return ratio >= 2 && !(BIT(operation) & counts_buffer) ? ratio : 0;
    }
    if (!run_factor_bounds(run, &low, &high) || low >= 2) {
        return 0;
    }
    /* factor = 2 (n-1)/n, so n = 2 / (2 - factor) */
    return likely_ranks(2 / (2 - low), high < 2 ? 2 / (2 - high) : 1e6);
}

bool tpp_nccl_ranks_fit(const struct tpp_nccl_run *run, int operation, uint32_t num_ranks)
{
    double low, high;
    const double factor = tpp_sample_bus_factor(operation, num_ranks);
    return !run_factor_bounds(run, &low, &high) || (factor >= low * 0.999 && factor <= high * 1.001);
}

/* Whether some number of ranks gives the factor of the rows: from 1 to 2 for all_reduce, 1 for operations that pass the
 * buffer on, from 1/2 to 1 for the others. */
static bool fits_some_ranks(const struct tpp_nccl_run *run, int operation)
{
    double low, high;
    if (!run_factor_bounds(run, &low, &high)) {
        return true;
    }
    const double least = operation == TPP_ALL_REDUCE || BIT(operation) & counts_buffer ? 1 : 0.5;
    return low <= (operation == TPP_ALL_REDUCE ? 2 : 1) * 1.001 && high >= least * 0.999;
}

unsigned tpp_nccl_possible_operations(const struct tpp_nccl_run *run, uint32_t num_ranks)
{
    unsigned possible = ALL_OPERATIONS;
    const uint32_t ratio = size_to_count_ratio(run);
    if (ratio >= 2) {
        possible = narrow(possible, ~counts_buffer);
    } else if (ratio == 1 && num_ranks != 1) {
        possible = narrow(possible, counts_buffer);
    }
    if (all_reduce_operands(run, true)) {
        possible = narrow(possible, reduces | BIT(TPP_SEND_RECV)); /* send-recv prints "sum" too */
    } else if (all_reduce_operands(run, false)) {
        possible = narrow(possible, ~reduces);
    }
    if (run->num_rows > 0 && run->rows[0].has_root) {
        possible = narrow(possible, run->rows[0].root >= 0 ? has_a_root : ~has_a_root);
    }
    if (in_place_is_never_right(run)) {
        possible = narrow(possible, only_out_of_place);
    } else if (run->has_header && !run->has_redop_column) {
        possible = narrow(possible, BIT(TPP_ALL_GATHER) | BIT(TPP_OPERATION_BROADCAST)); /* of the first versions */
    }
    unsigned fitting = 0;
    for (int i = 0; i < TPP_OPERATION_UNKNOWN; i++) {
        const bool fits = num_ranks > 1 ? tpp_nccl_ranks_fit(run, i, num_ranks) : fits_some_ranks(run, i);
        fitting |= fits ? BIT(i) : 0;
    }
    return narrow(possible, fitting);
}
