#include "costmodel/base/units.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A decimal number as it was typed: digits[.digits][e[+-]digits], then the rest of the text. */
struct typed_number {
    const char *start;
    const char *point; /* the '.', or the end of the digits when there is none */
    const char *mantissa_end;
    const char *rest;
    int exponent; /* saturates far outside of what any result can hold */
    bool has_exponent;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static const char *skip_digits(const char *p)
{
    while (is_digit(*p)) {
        p++;
    }
    return p;
}

static void scan_exponent(struct typed_number *number)
{
    const char *p = number->mantissa_end;
    number->rest = p;
    if (*p != 'e' && *p != 'E') {
        return;
    }
    p++;
    const bool is_negative = *p == '-';
    if (*p == '+' || *p == '-') {
        p++;
    }
    if (!is_digit(*p)) {
        return;
    }
    int exponent = 0;
    for (; is_digit(*p); p++) {
        if (exponent < INT_MAX / 100) {
            exponent = 10 * exponent + (*p - '0');
        }
    }
    number->exponent = is_negative ? -exponent : exponent;
    number->has_exponent = true;
    number->rest = p;
}

static bool scan_number(const char *text, struct typed_number *number)
{
    *number = (struct typed_number){.start = text};
    number->point = skip_digits(text);
    if (number->point == text) {
        return false;
    }
    number->mantissa_end = number->point;
    if (*number->point == '.') {
        number->mantissa_end = skip_digits(number->point + 1);
        if (number->mantissa_end == number->point + 1) {
            return false;
        }
    }
    scan_exponent(number);
    return true;
}

/* What follows the number as a unit: one space may come before it. NULL when a space has nothing after it. */
static const char *unit_of(const char *rest)
{
    if (*rest != ' ') {
        return rest;
    }
    return rest[1] ? rest + 1 : NULL;
}

enum { MAX_SHOWN = 40 };

static enum tpp_code fail_text(struct tpp_error *err, enum tpp_code code, const char *where, const char *hint,
                               const char *what, const char *text)
{
    return tpp_fail(err, code, where, hint, "%s, found \"%.*s%s\"", what, MAX_SHOWN, text,
                    strlen(text) > MAX_SHOWN ? "..." : "");
}

_Bool tpp_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *out = product;
    return true;
}

_Bool tpp_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *out = sum;
    return true;
}

static bool append_digit(uint64_t *value, char digit)
{
    return tpp_mul_u64(*value, 10, value) && tpp_add_u64(*value, (uint64_t)(digit - '0'), value);
}

static const struct {
    const char *name;
    uint64_t bytes;
} byte_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", UINT64_C(1000)},
    {"KB", UINT64_C(1000)},
    {"MB", UINT64_C(1000000)},
    {"GB", UINT64_C(1000000000)},
    {"TB", UINT64_C(1000000000000)},
    {"KiB", TPP_KIB},
    {"MiB", TPP_MIB},
    {"GiB", TPP_GIB},
    {"TiB", UINT64_C(1024) * TPP_GIB},
    {"K", TPP_KIB},
    {"M", TPP_MIB},
    {"G", TPP_GIB},
    {"T", UINT64_C(1024) * TPP_GIB},
};

static uint64_t find_byte_unit(const char *unit)
{
    for (size_t i = 0; unit && i < sizeof byte_units / sizeof byte_units[0]; i++) {
        if (strcmp(unit, byte_units[i].name) == 0) {
            return byte_units[i].bytes;
        }
    }
    return 0;
}

/* 0.d1d2d3... from the last digit on: each step rounds once and divides what was rounded before by ten. */
static double fraction_of(const struct typed_number *number)
{
    double fraction = 0;
    for (const char *p = number->mantissa_end; p > number->point + 1; p--) {
        fraction = (fraction + (p[-1] - '0')) / 10;
    }
    return fraction;
}

enum tpp_code tpp_parse_bytes(const char *text, const char *where, uint64_t *out, struct tpp_error *err)
{
    static const char hint[] = "give bytes as a number, or with kB, MB, GB, TB (decimal) or KiB, MiB, GiB, TiB, K, M, "
                               "G, T (binary)";
    struct typed_number number;
    if (!scan_number(text, &number) || number.has_exponent) {
        return fail_text(err, TPP_E_SYNTAX, where, hint, "not a size", text);
    }
    const uint64_t unit_bytes = find_byte_unit(unit_of(number.rest));
    if (unit_bytes == 0) {
        return fail_text(err, TPP_E_SYNTAX, where, hint, "not a size", text);
    }
    const double fraction = fraction_of(&number);
    if (unit_bytes == 1 && fraction > 0) {
        return fail_text(err, TPP_E_SYNTAX, where, "round to whole bytes", "a part of a byte", text);
    }
    uint64_t bytes = 0;
    bool fits = true;
    for (const char *p = number.start; fits && p < number.point; p++) {
        fits = append_digit(&bytes, *p);
    }
    const uint64_t fraction_bytes = (uint64_t)floor(fraction * (double)unit_bytes + 0.5);
    if (!fits || !tpp_mul_u64(bytes, unit_bytes, &bytes) || !tpp_add_u64(bytes, fraction_bytes, &bytes) ||
        bytes > INT64_MAX) {
        return fail_text(err, TPP_E_RANGE, where, "the largest size is 9223372036854775807 bytes", "too large a size",
                         text);
    }
    *out = bytes;
    return TPP_OK;
}

/* The value of the number alone. strtod cannot read further than the scan did: it is given a text that begins with a
 * digit and is no hexadecimal number, because "0x" ends the scan at the 'x' and the callers refuse that rest. */
static bool to_double(const struct typed_number *number, double *value)
{
    *value = strtod(number->start, NULL);
    return isfinite(*value);
}

enum tpp_code tpp_parse_bandwidth(const char *text, const char *where, double *out_bytes_per_second,
                                  struct tpp_error *err)
{
    static const struct {
        const char *name;
        double bytes_per_second;
    } units[] = {
        {"", 1},        {"B/s", 1},        {"kB/s", 1e3},     {"MB/s", 1e6},      {"GB/s", 1e9},
        {"TB/s", 1e12}, {"Mb/s", 1e6 / 8}, {"Gb/s", 1e9 / 8}, {"Tb/s", 1e12 / 8},
    };
    static const char hint[] = "give bytes per second as a number, or with B/s, kB/s, MB/s, GB/s, TB/s, or bits with "
                               "Mb/s, Gb/s, Tb/s";
    struct typed_number number;
    const char *unit = scan_number(text, &number) ? unit_of(number.rest) : NULL;
    for (size_t i = 0; unit && i < sizeof units / sizeof units[0]; i++) {
        double value;
        if (strcmp(unit, units[i].name) != 0) {
            continue;
        }
        if (!to_double(&number, &value) || !isfinite(value * units[i].bytes_per_second)) {
            return fail_text(err, TPP_E_RANGE, where, NULL, "too large a bandwidth", text);
        }
        *out_bytes_per_second = value * units[i].bytes_per_second;
        return TPP_OK;
    }
    return fail_text(err, TPP_E_SYNTAX, where, hint, "not a bandwidth", text);
}

/* Powers of ten of the suffix after a count; -1 when it is none. */
static int count_suffix(const struct typed_number *number)
{
    static const struct {
        const char *name;
        int power;
    } suffixes[] = {{"k", 3}, {"K", 3}, {"M", 6}, {"G", 9}};
    if (*number->rest == '\0') {
        return 0;
    }
    for (size_t i = 0; !number->has_exponent && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (strcmp(number->rest, suffixes[i].name) == 0) {
            return suffixes[i].power;
        }
    }
    return -1;
}

/* The digits times ten to the `scale`, exactly. */
enum exactness { EXACT, NOT_WHOLE, TOO_LARGE };

static enum exactness scale_digits(const struct typed_number *number, int scale, uint64_t *out)
{
    const char *end = number->mantissa_end;
    scale -= number->mantissa_end > number->point ? (int)(number->mantissa_end - number->point - 1) : 0;
    for (; scale < 0 && end > number->start; end--) { /* a negative power is taken off trailing zeros */
        if (end[-1] == '.') {
            continue;
        }
        if (end[-1] != '0') {
            return NOT_WHOLE;
        }
        scale++;
    }
    uint64_t value = 0;
    for (const char *p = number->start; p < end; p++) {
        if (*p != '.' && !append_digit(&value, *p)) {
            return TOO_LARGE;
        }
    }
    for (; value > 0 && scale > 0; scale--) {
        if (!tpp_mul_u64(value, 10, &value)) {
            return TOO_LARGE;
        }
    }
    *out = value;
    return EXACT;
}

enum tpp_code tpp_parse_count(const char *text, const char *where, uint64_t *out, struct tpp_error *err)
{
    static const char hint[] = "give a whole number such as 5000, 5k, 5M or 5e9";
    struct typed_number number;
    if (!scan_number(text, &number) || count_suffix(&number) < 0) {
        return fail_text(err, TPP_E_SYNTAX, where, hint, "not a count", text);
    }
    const enum exactness exactness = scale_digits(&number, number.exponent + count_suffix(&number), out);
    if (exactness == NOT_WHOLE) {
        return fail_text(err, TPP_E_SYNTAX, where, hint, "not a whole number", text);
    }
    if (exactness == TOO_LARGE) {
        return fail_text(err, TPP_E_RANGE, where, "the largest count is 18446744073709551615", "too large a count",
                         text);
    }
    return TPP_OK;
}

enum tpp_code tpp_parse_number(const char *text, const char *where, double *out, struct tpp_error *err)
{
    struct typed_number number;
    double value;
    if (!scan_number(text, &number) || *number.rest) {
        return fail_text(err, TPP_E_SYNTAX, where, "give a number such as 0.9 or 1.5e-3", "not a number", text);
    }
    if (!to_double(&number, &value)) {
        return fail_text(err, TPP_E_RANGE, where, NULL, "too large a number", text);
    }
    *out = value;
    return TPP_OK;
}

struct printed_unit {
    double size;
    const char *name;
    int decimals;
};

/* `units` go from the largest down to the base unit; the first in which the value does not round below 1 is taken. */
static char *format_in(char *buffer, size_t size, double value, const struct printed_unit *units, size_t num_units)
{
    size_t i = 0;
    for (; i + 1 < num_units; i++) {
        /* In the next smaller unit the value would be printed with its decimals: does that reach one of ours? */
        const double step = pow(10, -units[i + 1].decimals);
        if (fabs(value) >= units[i].size - 0.5 * step * units[i + 1].size) {
            break;
        }
    }
    snprintf(buffer, size, "%.*f %s", units[i].decimals, value / units[i].size, units[i].name);
    return buffer;
}

#define FORMAT_IN(buffer, size, value, units)                                                                          \
    format_in((buffer), (size), (value), (units), sizeof(units) / sizeof((units)[0]))

char *tpp_format_bytes(char *buffer, size_t size, double bytes)
{
    static const struct printed_unit units[] = {
        {0x1p40, "TiB", 2}, {0x1p30, "GiB", 2}, {0x1p20, "MiB", 2}, {0x1p10, "KiB", 2}, {1, "B", 0},
    };
    return FORMAT_IN(buffer, size, bytes, units);
}

char *tpp_format_seconds(char *buffer, size_t size, double seconds)
{
    static const struct printed_unit units[] = {{1, "s", 2}, {1e-3, "ms", 3}, {1e-6, "us", 1}, {1e-9, "ns", 1}};
    if (seconds == 0) {
        snprintf(buffer, size, "0 s");
        return buffer;
    }
    return FORMAT_IN(buffer, size, seconds, units);
}

char *tpp_format_bandwidth(char *buffer, size_t size, double bytes_per_second)
{
    static const struct printed_unit units[] = {{1e9, "GB/s", 1}, {1e6, "MB/s", 1}, {1e3, "kB/s", 1}, {1, "B/s", 1}};
    return FORMAT_IN(buffer, size, bytes_per_second, units);
}

char *tpp_format_flops_rate(char *buffer, size_t size, double flops_per_second)
{
    static const struct printed_unit units[] = {
        {1e12, "TFLOP/s", 1}, {1e9, "GFLOP/s", 1}, {1e6, "MFLOP/s", 1}, {1e3, "kFLOP/s", 1}, {1, "FLOP/s", 1},
    };
    return FORMAT_IN(buffer, size, flops_per_second, units);
}

char *tpp_format_count(char *buffer, size_t size, uint64_t count)
{
    char text[32]; /* 20 digits and 6 commas at most, written from the end */
    char *p = text + sizeof text;
    *--p = '\0';
    for (int num_digits = 0; num_digits == 0 || count > 0; count /= 10) {
        if (num_digits > 0 && num_digits % 3 == 0) {
            *--p = ',';
        }
        *--p = (char)('0' + count % 10);
        num_digits++;
    }
    snprintf(buffer, size, "%s", p);
    return buffer;
}
