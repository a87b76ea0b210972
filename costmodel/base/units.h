/* units.h - the only place where GB, GiB, us, Gb/s and TFLOP/s exist: parsing what people type, printing what they read.
 * Inside the program everything is bytes, seconds, bytes per second and FLOP per second. */
#ifndef TPP_COSTMODEL_BASE_UNITS_H
#define TPP_COSTMODEL_BASE_UNITS_H

#include "costmodel/base/error.h"

#include <stddef.h>
#include <stdint.h>

#define TPP_KIB UINT64_C(1024)
#define TPP_MIB (UINT64_C(1024) * TPP_KIB)
#define TPP_GIB (UINT64_C(1024) * TPP_MIB)

/* Parsers: the whole text must be used; no sign, NaN or infinity; one space may stand between number and unit; `where`
 * names the option or key in the error. On failure *out is untouched. The decimal point is a point: the program never
 * calls setlocale.
 * Bytes: digits, optional fraction, optional unit B, kB, KB, MB, GB, TB (decimal) or KiB, MiB, GiB, TiB, or the short
 * K M G T (binary, as the allocator settings use); rounded to a whole byte. Range 0 .. 2^63-1. */
enum tpp_code tpp_parse_bytes(const char *text, const char *where, uint64_t *out, struct tpp_error *err);
/* Bandwidth: a number with B/s, kB/s, MB/s, GB/s, TB/s, or Mb/s, Gb/s, Tb/s (bits); a bare number is bytes per second. */
enum tpp_code tpp_parse_bandwidth(const char *text, const char *where, double *out_bytes_per_second,
                                  struct tpp_error *err);
/* Whole number >= 0 with optional k/K, M, G (decimal: 1e3, 1e6, 1e9) or exponent form of an integral value ("5e8"). */
enum tpp_code tpp_parse_count(const char *text, const char *where, uint64_t *out, struct tpp_error *err);
/* Finite decimal number >= 0, with optional fraction and exponent. */
enum tpp_code tpp_parse_number(const char *text, const char *where, double *out, struct tpp_error *err);

/* Printers write at most `size` bytes with the terminator and return `buffer`. A negative value keeps its sign. Rates
 * stay in GB/s and TFLOP/s however large they are, so that numbers of one table compare. */
char *tpp_format_bytes(char *buffer, size_t size, double bytes);      /* "28.21 GiB" */
char *tpp_format_seconds(char *buffer, size_t size, double seconds);  /* "13.82 s", "4.876 ms", "8.4 us" */
char *tpp_format_bandwidth(char *buffer, size_t size, double bytes_per_second); /* "42.5 GB/s" */
char *tpp_format_flops_rate(char *buffer, size_t size, double flops_per_second); /* "312.0 TFLOP/s" */
char *tpp_format_count(char *buffer, size_t size, uint64_t count);    /* "33,343,000,000" */

/* Checked arithmetic for exact sizes: false on overflow, *out untouched. */
_Bool tpp_mul_u64(uint64_t a, uint64_t b, uint64_t *out);
_Bool tpp_add_u64(uint64_t a, uint64_t b, uint64_t *out);

#endif
