#include "calibrate/fit/lines.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool tpp_lines_next(struct tpp_lines *lines, const char **start, size_t *length)
{
    if (lines->at >= lines->length) {
        return false;
    }
    *start = lines->text + lines->at;
    const char *end = memchr(*start, '\n', lines->length - lines->at);
    *length = end ? (size_t)(end - *start) : lines->length - lines->at;
    lines->at += *length + 1;
    lines->number += lines->number < UINT32_MAX;
    return true;
}

void tpp_line_copy(char line[TPP_LINE_SIZE], const char *start, size_t length)
{
    const size_t kept = length < TPP_LINE_SIZE - 1 ? length : TPP_LINE_SIZE - 1;
    for (size_t i = 0; i < kept; i++) {
        const unsigned char c = (unsigned char)start[i];
        line[i] = c < ' ' || c == 0x7f ? ' ' : (char)c;
    }
    line[kept] = '\0';
}

size_t tpp_line_words(char *line, char **words, size_t max_words)
{
    size_t count = 0;
    char *p = line;
    while (*p) {
        while (*p == ' ') {
            *p++ = '\0';
        }
        if (!*p || count == max_words) {
            break;
        }
        words[count++] = p;
        while (*p && *p != ' ') {
            p++;
        }
    }
    return count;
}

bool tpp_word_u64(const char *word, uint64_t *value)
{
    uint64_t number = 0;
    if (!*word) {
        return false;
    }
    for (; *word; word++) {
        if (*word < '0' || *word > '9' || number > (UINT64_C(1) << 63) / 10 - 1) {
            return false;
        }
        number = number * 10 + (uint64_t)(*word - '0');
    }
    if (value) {
        *value = number;
    }
    return true;
}

/* [sign] digits [. digits] [e [sign] digits]; *decimals and *exponent say where the last digit stands. */
static bool is_decimal(const char *p, int *decimals, int *exponent)
{
    int digits = 0;
    *decimals = *exponent = 0;
    p += *p == '-' || *p == '+';
    for (; *p >= '0' && *p <= '9'; p++) {
        digits++;
    }
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++) {
            digits++;
            ++*decimals;
        }
    }
    if (digits == 0 || digits > 40) {
        return false;
    }
    if (*p == 'e' || *p == 'E') {
        char *end;
        const long power = strtol(p + 1, &end, 10);
        if (end == p + 1 || power > 300 || power < -300) {
            return false;
        }
        *exponent = (int)power;
        p = end;
    }
    return *p == '\0';
}

bool tpp_word_number(const char *word, double *value, double *half_step)
{
    int decimals, exponent;
    if (!is_decimal(word, &decimals, &exponent)) {
        return false;
    }
    *value = strtod(word, NULL);
    if (half_step) {
        *half_step = 0.5 * pow(10, exponent - decimals);
    }
    return isfinite(*value);
}
