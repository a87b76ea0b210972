#include "costmodel/allocator/lengths.h"

#include "costmodel/base/file.h"
#include "costmodel/base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char option[] = "--seq-distribution";
static const char forms[] = "fixed, uniform:8k-32k, lognormal:MEAN,CV, bucketed:8k,16k=2,32k or file:PATH";
#define MAX_LENGTH (UINT64_C(1) << 27) /* the longest sequence of a job */
#define MAX_FILE_BYTES ((size_t)64 << 20)

static enum tpp_code bad(const char *text, struct tpp_error *err)
{
    return tpp_fail(err, TPP_E_USAGE, option, forms, "'%s' is not a distribution of lengths", text);
}

/* Digits and an optional k; *at moves behind them. False when there is no length of 1 .. 2^27. */
static bool read_length(const char **at, uint64_t *out)
{
    uint64_t value = 0;
    const char *start = *at;
    for (; isdigit((unsigned char)**at) && value <= MAX_LENGTH; (*at)++)
        value = value * 10 + (uint64_t)(**at - '0');
    if (*at == start)
        return false;
    if (**at == 'k' || **at == 'K') {
        value *= 1024;
        (*at)++;
    }
    *out = value;
    return value >= 1 && value <= MAX_LENGTH;
}

static bool parse_fixed(const char *at, struct tpp_lengths *out)
{
    return read_length(&at, &out->min) && *at == '\0';
}

static bool parse_uniform(const char *at, struct tpp_lengths *out)
{
    out->kind = TPP_LENGTHS_UNIFORM;
    if (!read_length(&at, &out->min) || *at++ != '-')
        return false;
    return read_length(&at, &out->max) && *at == '\0' && out->min <= out->max;
}

static bool parse_lognormal(const char *at, struct tpp_lengths *out)
{
    uint64_t mean = 0;
    out->kind = TPP_LENGTHS_LOGNORMAL;
    if (!read_length(&at, &mean) || *at++ != ',')
        return false;
    out->mean = (double)mean;
    return tpp_parse_number(at, option, &out->variation, NULL) == TPP_OK && out->variation > 0 && out->variation <= 100;
}

static enum tpp_code append(struct tpp_lengths *out, size_t *capacity, uint64_t value, double weight,
                            struct tpp_error *err)
{
    if (out->count == *capacity) {
        const size_t larger = *capacity > 0 ? 2 * *capacity : 16;
        uint64_t *values = realloc(out->values, larger * sizeof(*values));
        if (values != NULL)
            out->values = values;
        double *sums = values != NULL ? realloc(out->sums, larger * sizeof(*sums)) : NULL;
        if (sums == NULL)
            return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory for the lengths");
        out->sums = sums;
        *capacity = larger;
    }
    const double before = out->count > 0 ? out->sums[out->count - 1] : 0;
    out->values[out->count] = value;
    out->sums[out->count++] = before + weight;
    return TPP_OK;
}

/* "8k,16k=2,32k" */
static enum tpp_code parse_buckets(const char *text, const char *at, struct tpp_lengths *out, struct tpp_error *err)
{
    size_t capacity = 0;
    enum tpp_code code = TPP_OK;
    for (bool more = true; more && code == TPP_OK; at++) {
        uint64_t value = 0, weight = 1;
        if (!read_length(&at, &value))
            return bad(text, err);
        if (*at == '=') {
            at++;
            if (!read_length(&at, &weight))
                return bad(text, err);
        }
        if (*at != ',' && *at != '\0')
            return bad(text, err);
        code = append(out, &capacity, value, (double)weight, err);
        more = *at == ',';
    }
    return code;
}

static enum tpp_code parse_lines(const char *path, const char *data, size_t length, struct tpp_lengths *out,
                                 struct tpp_error *err)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    size_t capacity = 0, line = 1;
    enum tpp_code code = TPP_OK;
    const bool is_marked = strncmp(data, byte_order_mark, 3) == 0;
    for (const char *at = is_marked ? data + 3 : data; at < data + length && code == TPP_OK;) {
        uint64_t value = 0;
        if (isspace((unsigned char)*at)) {
            line += *at++ == '\n';
        } else if (read_length(&at, &value) && (*at == '\0' || isspace((unsigned char)*at))) {
            code = append(out, &capacity, value, 1, err);
        } else {
            char where[256];
            snprintf(where, sizeof where, "%.200s:%zu", path, line);
            return tpp_fail(err, TPP_E_SYNTAX, where, "one length a line, in tokens, at most 134217728",
                            "this line has no length of a sequence");
        }
    }
    if (code == TPP_OK && out->count == 0)
        return tpp_fail(err, TPP_E_SYNTAX, path, "one length a line, in tokens", "the file has no lengths");
    return code;
}

static enum tpp_code parse_file(const char *path, struct tpp_lengths *out, struct tpp_error *err)
{
    char *data = NULL;
    size_t length = 0;
    enum tpp_code code = tpp_file_read(path, MAX_FILE_BYTES, &data, &length, err);
    if (code == TPP_OK)
        code = parse_lines(path, data, length, out, err);
    free(data);
    return code;
}

static enum tpp_code parse(const char *text, struct tpp_lengths *out, struct tpp_error *err)
{
    if (strcmp(text, "fixed") == 0)
        return TPP_OK;
    if (strncmp(text, "fixed:", 6) == 0)
        return parse_fixed(text + 6, out) ? TPP_OK : bad(text, err);
    if (strncmp(text, "uniform:", 8) == 0)
        return parse_uniform(text + 8, out) ? TPP_OK : bad(text, err);
    if (strncmp(text, "lognormal:", 10) == 0)
        return parse_lognormal(text + 10, out) ? TPP_OK : bad(text, err);
    out->kind = TPP_LENGTHS_LIST;
    if (strncmp(text, "bucketed:", 9) == 0)
        return parse_buckets(text, text + 9, out, err);
    if (strncmp(text, "file:", 5) == 0 && text[5] != '\0')
        return parse_file(text + 5, out, err);
    return bad(text, err);
}

enum tpp_code tpp_lengths_parse(const char *text, struct tpp_lengths *out, struct tpp_error *err)
{
    *out = (struct tpp_lengths){.kind = TPP_LENGTHS_FIXED};
    const enum tpp_code code = parse(text, out, err);
    if (code != TPP_OK)
        tpp_lengths_release(out);
    return code;
}

/* 1 where lengths have no least one, or are the job's. */
static uint64_t least_of(const struct tpp_lengths *lengths)
{
    uint64_t least = 1;
    if (lengths->kind == TPP_LENGTHS_FIXED || lengths->kind == TPP_LENGTHS_UNIFORM)
        least = lengths->min;
    if (lengths->kind == TPP_LENGTHS_LIST)
        least = lengths->values[0];
    for (size_t i = 1; i < lengths->count; i++)
        least = lengths->values[i] < least ? lengths->values[i] : least;
    return least;
}

enum tpp_code tpp_lengths_check(const struct tpp_lengths *lengths, uint64_t limit, struct tpp_error *err)
{
    const uint64_t least = least_of(lengths);
    if (least <= limit)
        return TPP_OK;
    return tpp_fail(err, TPP_E_USAGE, option, "give --seq-length the longest sequence, to which longer ones are cut",
                    "the shortest length, %llu, is above --seq-length, %llu: all would be cut", (unsigned long long)least,
                    (unsigned long long)limit);
}

void tpp_lengths_release(struct tpp_lengths *lengths)
{
    free(lengths->values);
    free(lengths->sums);
    *lengths = (struct tpp_lengths){.kind = TPP_LENGTHS_FIXED};
}

bool tpp_lengths_is_fixed(const struct tpp_lengths *lengths)
{
    return lengths->kind == TPP_LENGTHS_FIXED;
}

uint64_t tpp_lengths_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Above 0, at most 1. */
static double uniform(uint64_t *state)
{
    return ((double)(tpp_lengths_random(state) >> 11) + 1) * 0x1.0p-53;
}

/* Log-normal with the given mean and variation: sigma^2 = ln(1 + cv^2), mu = ln(mean) - sigma^2 / 2; the normal number by
 * Box and Muller (1958). */
static double lognormal(const struct tpp_lengths *lengths, uint64_t *state)
{
    const double variance = log1p(lengths->variation * lengths->variation);
    const double radius = sqrt(-2 * log(uniform(state))), angle = 2 * 3.14159265358979323846 * uniform(state);
    return exp(log(lengths->mean) - variance / 2 + sqrt(variance) * radius * cos(angle));
}

static uint64_t pick(const struct tpp_lengths *lengths, uint64_t *state)
{
    const double wanted = uniform(state) * lengths->sums[lengths->count - 1];
    size_t low = 0, high = lengths->count - 1;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (lengths->sums[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return lengths->values[low];
}

uint64_t tpp_lengths_sample(const struct tpp_lengths *lengths, uint64_t limit, uint64_t *state)
{
    uint64_t length = limit;
    switch (lengths->kind) {
    case TPP_LENGTHS_FIXED:
        length = lengths->min > 0 ? lengths->min : limit;
        break;
    case TPP_LENGTHS_UNIFORM:
        length = lengths->min + tpp_lengths_random(state) % (lengths->max - lengths->min + 1);
        break;
    case TPP_LENGTHS_LOGNORMAL: {
        const double drawn = lognormal(lengths, state);
        length = drawn >= (double)limit ? limit : (uint64_t)(drawn + 0.5);
        break;
    }
    case TPP_LENGTHS_LIST:
        length = pick(lengths, state);
        break;
    }
    return length < 1 ? 1 : length < limit ? length : limit;
}
