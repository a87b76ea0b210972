#include "calibrate/bench/host_numbers.h"

#include <math.h>
#include <string.h>

/* A binary format: stored exponent and fraction bits below a sign. */
struct format {
    const char *name;
    size_t bytes;
    int exponent_bits, fraction_bits;
    uint32_t largest;  /* bits of the largest finite magnitude */
    uint32_t overflow; /* bits of what is above it */
    uint32_t nan;
};

static const struct format formats[TPP_BENCH_TYPE_COUNT] = {
    [TPP_BENCH_FP32] = {"fp32", 4, 8, 23, 0x7f7fffff, 0x7f800000, 0x7fc00000},
    [TPP_BENCH_BF16] = {"bf16", 2, 8, 7, 0x7f7f, 0x7f80, 0x7fc0},
    [TPP_BENCH_FP16] = {"fp16", 2, 5, 10, 0x7bff, 0x7c00, 0x7e00},
    [TPP_BENCH_FP8] = {"fp8", 1, 4, 3, 0x7e, 0x7e, 0x7f}, /* e4m3: no infinity, largest 448 */
};

size_t tpp_bench_type_bytes(enum tpp_bench_type type)
{
    return formats[type].bytes;
}

const char *tpp_bench_type_name(enum tpp_bench_type type)
{
    return formats[type].name;
}

double tpp_bench_type_rounding(enum tpp_bench_type type)
{
    return ldexp(1, -formats[type].fraction_bits - 1);
}

static int bias(const struct format *format)
{
    return (1 << (format->exponent_bits - 1)) - 1;
}

uint32_t tpp_bench_encode(enum tpp_bench_type type, float value)
{
    const struct format *format = &formats[type];
    const uint32_t sign = (signbit(value) ? 1u : 0u) << (8 * format->bytes - 1);
    const double magnitude = fabs((double)value);
    if (isnan(value)) {
        return sign | format->nan;
    }
    if (magnitude == 0 || isinf(magnitude)) {
        return sign | (magnitude == 0 ? 0 : format->overflow);
    }
    int exponent;
    frexp(magnitude, &exponent); /* magnitude = f 2^exponent, f in [0.5, 1) */
    int stored = exponent - 1 + bias(format);
    stored = stored < 1 ? 1 : stored; /* subnormal numbers share the smallest exponent */
    /* In units of the last place; nearbyint rounds ties to even in the default mode. A carry into the next binade comes
     * out right, because the fields are adjacent. */
    const double units = nearbyint(ldexp(magnitude, format->fraction_bits - (stored - bias(format))));
    const double bits = units + ldexp(stored - 1, format->fraction_bits);
    return sign | (bits > format->largest ? format->overflow : (uint32_t)bits);
}

float tpp_bench_decode(enum tpp_bench_type type, uint32_t bits)
{
    const struct format *format = &formats[type];
    const uint32_t sign = bits >> (8 * format->bytes - 1) & 1;
    const uint32_t magnitude = bits & ((UINT32_C(1) << (8 * format->bytes - 1)) - 1);
    const int stored = (int)(magnitude >> format->fraction_bits);
    const double fraction = magnitude & ((UINT32_C(1) << format->fraction_bits) - 1);
    double value;
    if (magnitude > format->largest) {
        value = magnitude == format->overflow ? INFINITY : NAN;
    } else if (stored == 0) {
        value = ldexp(fraction, 1 - bias(format) - format->fraction_bits);
    } else {
        value = ldexp(1 + ldexp(fraction, -format->fraction_bits), stored - bias(format));
    }
    return (float)(sign ? -value : value);
}

float tpp_bench_round(enum tpp_bench_type type, float value)
{
    uint32_t bits;
    if (type != TPP_BENCH_BF16 || !isfinite(value)) {
        return tpp_bench_decode(type, tpp_bench_encode(type, value));
    }
    /* bf16 is the upper half of fp32: add just less than half of a last place, and the rest when the last bit is odd.
     */
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float tpp_bench_element(enum tpp_bench_type type, const void *buffer, size_t index)
{
    const size_t bytes = formats[type].bytes;
    const unsigned char *at = (const unsigned char *)buffer + index * bytes;
    uint32_t bits = 0;
    memcpy(&bits, at, bytes); /* little-endian, as every host with an NVIDIA GPU */
    return tpp_bench_decode(type, bits);
}
