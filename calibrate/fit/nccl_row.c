/* One row of an nccl-tests table, in every layout the program has had:
 *
 *     size count type [redop] [root] time algbw busbw error  time algbw busbw error
 *
 * redop is blank or "none" for collectives without a reduction, root is missing in old versions, the errors are whole
 * numbers, N/A, or 2e-07. Rows may stand behind a launcher's prefix, which may also come back in the middle. */
#include "calibrate/fit/nccl_log.h"

#include <math.h>
#include <string.h>

enum { MAX_WORDS = 64 };
static const uint64_t largest_bytes = UINT64_C(1) << 53; /* 8 PiB: what a double holds; times 8 it fits 64 bits */

uint32_t tpp_nccl_element_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        uint32_t bytes;
    } types[] = {
        {"float", 4},    {"half", 2},     {"double", 8},  {"bfloat16", 2}, {"int8", 1},        {"uint8", 1},
        {"char", 1},     {"int", 4},      {"int32", 4},   {"uint32", 4},   {"int64", 8},       {"uint64", 8},
        {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"f8e4m3", 1},  {"f8e5m2", 1},   {"float8_e4m3", 1}, {"float8_e5m2", 1},
        {"float16", 2},  {"float32", 4},  {"float64", 8}, {"fp16", 2},     {"bf16", 2},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(dtype, types[i].name) == 0) {
            return types[i].bytes;
        }
    }
    return 0;
}

static bool is_reduction(const char *word)
{
    static const char *const names[] = {"sum", "prod", "min", "max", "avg", "mulsum", "all"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(word, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Blanks the tags that mpirun --tag-output puts before each piece of output: [1,0]<stdout>: */
static void blank_tags(char *line)
{
    for (char *p = strchr(line, '['); p; p = strchr(p + 1, '[')) {
        char *end = strchr(p, ']');
        if (!end) {
            return;
        }
        if (strncmp(end, "]<stdout>:", 10) == 0 || strncmp(end, "]<stderr>:", 10) == 0) {
            memset(p, ' ', (size_t)(end - p) + 10);
        }
    }
}

/* The index of the size column: the first words "number number type". -1: none. */
static int find_start(char **words, size_t count)
{
    for (size_t i = 0; i + 2 < count; i++) {
        if (tpp_word_u64(words[i], NULL) && tpp_word_u64(words[i + 1], NULL) && tpp_nccl_element_bytes(words[i + 2])) {
            return (int)i;
        }
    }
    return -1;
}

/* Takes words that also stand in front of the row out of the rest of it (behind the type), and labels such as "3:" of
 * other ranks. */
static size_t drop_prefix_words(char **words, size_t count, size_t start)
{
    size_t kept = start + 3;
    for (size_t i = start + 3; i < count; i++) {
        const size_t length = strlen(words[i]);
        bool is_prefix = length > 1 && words[i][length - 1] == ':' && words[i][0] >= '0' && words[i][0] <= '9';
        for (size_t j = 0; j < start && !is_prefix; j++) {
            is_prefix = strcmp(words[i], words[j]) == 0 && !tpp_word_number(words[i], &(double){0}, NULL);
        }
        if (!is_prefix) {
            words[kept++] = words[i];
        }
    }
    return kept;
}

/* A row that was cut or mixed: it begins like one, or has a type among many numbers. */
static bool looks_like_row(char **words, size_t count)
{
    size_t num_numbers = 0, first = 0;
    bool has_type = false;
    double value;
    for (size_t i = 0; i < count; i++) {
        num_numbers += tpp_word_number(words[i], &value, NULL);
        has_type = has_type || (i > 0 && tpp_nccl_element_bytes(words[i]));
    }
    while (first < count && (strchr(words[first], ':') || (first + 1 < count && strcmp(words[first + 1], "|") == 0))) {
        first += words[first + 1 < count ? first + 1 : first][0] == '|' ? 2 : 1;
    }
    const bool begins_so = first < count && tpp_word_u64(words[first], NULL) &&
                           (first + 1 == count || tpp_word_u64(words[first + 1], NULL));
    return begins_so || (has_type && num_numbers >= 4);
}

/* time algbw busbw [error] at words[0]. False when the first three are not numbers of one measurement: then
 * size/time is not algbw within their rounding, nor busbw (the layout before 2020 printed both with the factor in). */
static bool parse_half(char **words, size_t count, uint64_t bytes, struct tpp_nccl_half *half)
{
    double algorithm, algorithm_half_step;
    memset(half, 0, sizeof *half);
    if (count < 3 || !tpp_word_number(words[0], &half->seconds, &half->seconds_half_step) ||
        !tpp_word_number(words[1], &algorithm, &algorithm_half_step) ||
        !tpp_word_number(words[2], &half->bus_bytes_per_second, &half->bus_half_step) || half->seconds <= 0 ||
        half->seconds > 1e13 || algorithm < 0 || half->bus_bytes_per_second < 0) {
        return false;
    }
    half->has_wrong = count > 3;
    half->num_wrong = -1;
    if (half->has_wrong && !tpp_word_number(words[3], &half->num_wrong, NULL) && strcmp(words[3], "N/A") != 0) {
        half->has_wrong = false;
    }
    const double expected = (double)bytes / half->seconds / 1e3; /* bytes per microsecond, in GB/s */
    const double slack = algorithm_half_step * 1.02 + expected * (half->seconds_half_step / half->seconds + 0.003);
    const bool is_old = algorithm == half->bus_bytes_per_second && algorithm < expected && algorithm > 0.49 * expected;
    half->is_present = fabs(expected - algorithm) <= slack || is_old;
    half->seconds /= 1e6;
    half->seconds_half_step /= 1e6;
    half->bus_bytes_per_second *= 1e9;
    half->bus_half_step *= 1e9;
    return half->is_present;
}

/* Everything after the type column. */
static bool parse_rest(char **words, size_t count, enum tpp_nccl_root root, struct tpp_nccl_row *row)
{
    double value;
    row->has_redop = count > 0 && is_reduction(words[0]);
    if (count > 0 && (row->has_redop || strcmp(words[0], "none") == 0)) {
        words++;
        count--;
    }
    row->has_root = false;
    if (root == TPP_NCCL_ROOT_PRESENT ||
        (root == TPP_NCCL_ROOT_OPEN && !parse_half(words, count, row->bytes, &row->halves[0]))) {
        if (count == 0 || !tpp_word_number(words[0], &value, NULL) || value != floor(value) || fabs(value) > 1e6) {
            return false;
        }
        row->has_root = true;
        row->root = (int)value;
        words++;
        count--;
    }
    if (!parse_half(words, count, row->bytes, &row->halves[0])) {
        return false;
    }
    const size_t used = row->halves[0].has_wrong ? 4 : 3;
    row->is_partial = !parse_half(words + used, count - used, row->bytes, &row->halves[1]) && count > used;
    return true;
}

enum tpp_nccl_line tpp_nccl_parse_row(char line[TPP_LINE_SIZE], enum tpp_nccl_root root, struct tpp_nccl_row *row)
{
    char *words[MAX_WORDS];
    blank_tags(line);
    size_t count = tpp_line_words(line, words, MAX_WORDS);
    if (count == 0 || words[0][0] == '#') {
        return TPP_NCCL_NO_ROW;
    }
    const int start = find_start(words, count);
    if (start < 0) {
        return looks_like_row(words, count) ? TPP_NCCL_BROKEN : TPP_NCCL_NO_ROW;
    }
    count = drop_prefix_words(words, count, (size_t)start);
    char **columns = words + start;
    memset(row, 0, sizeof *row);
    tpp_word_u64(columns[0], &row->bytes);
    tpp_word_u64(columns[1], &row->count);
    row->element_bytes = tpp_nccl_element_bytes(columns[2]);
    memcpy(row->dtype, columns[2], strlen(columns[2]) + 1); /* a known name: shorter than dtype */
    if (row->bytes > largest_bytes || row->count > largest_bytes) {
        return TPP_NCCL_BROKEN;
    }
    if (!parse_rest(columns + 3, count - (size_t)start - 3, root, row)) {
        return TPP_NCCL_BROKEN;
    }
    return TPP_NCCL_ROW;
}
