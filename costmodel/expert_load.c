#include "costmodel/expert_load.h"

#include "costmodel/base/file.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char option[] = "--expert-tokens";
#define MAX_FILE_BYTES ((size_t)1 << 20)
/* Sums stay far from overflow, and a share of the smallest count is still a number. */
#define MAX_TOKENS 1e15

struct reading {
    const char *where; /* the option or the file */
    enum tpp_code code; /* of what cannot be read */
    uint32_t num_experts;
    double *tokens;
};

static enum tpp_code refuse(const struct reading *reading, const char *message, struct tpp_error *err)
{
    char hint[96];
    snprintf(hint, sizeof hint, "give one number for each of %u experts, as in 812,790,1043,...", reading->num_experts);
    return tpp_fail(err, reading->code, reading->where, hint, "%s", message);
}

static bool is_separator(char c)
{
    return c == ',' || isspace((unsigned char)c);
}

/* A decimal number without sign, hexadecimal digits or words. */
static bool read_count(const char **at, double *out)
{
    char *end;
    if (!isdigit((unsigned char)**at) || ((*at)[0] == '0' && ((*at)[1] == 'x' || (*at)[1] == 'X')))
        return false;
    *out = strtod(*at, &end);
    *at = end;
    return *out <= MAX_TOKENS && (**at == '\0' || is_separator(**at));
}

static enum tpp_code read_counts(const struct reading *reading, const char *at, struct tpp_error *err)
{
    char message[96];
    uint32_t count = 0;
    double sum = 0;
    for (;;) {
        while (is_separator(*at))
            at++;
        if (*at == '\0')
            break;
        double tokens;
        if (!read_count(&at, &tokens)) {
            snprintf(message, sizeof message, "number %u is no count of tokens", count + 1);
            return refuse(reading, message, err);
        }
        if (count == reading->num_experts)
            return refuse(reading, "there are more numbers than experts", err);
        reading->tokens[count++] = tokens;
        sum += tokens;
    }
    if (count < reading->num_experts) {
        snprintf(message, sizeof message, "%u numbers are fewer than the experts", count);
        return refuse(reading, message, err);
    }
    return sum > 0 ? TPP_OK : refuse(reading, "no expert has a token", err);
}

/* Tokens of the fullest of `ranks` ranks over the average. */
static double imbalance(const double *tokens, uint32_t num_experts, uint32_t ranks)
{
    const uint32_t local = num_experts / ranks;
    double fullest = 0, all = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        double sum = 0;
        for (uint32_t i = 0; i < local; i++)
            sum += tokens[rank * local + i];
        fullest = fmax(fullest, sum);
        all += sum;
    }
    return fmax(1, fullest / all * ranks);
}

static void set_splits(const double *tokens, uint32_t num_experts, struct tpp_job *job)
{
    job->num_expert_splits = 0;
    for (uint32_t ranks = 1; ranks <= num_experts && job->num_expert_splits < TPP_JOB_MAX_EXPERT_SPLITS; ranks++)
        if (num_experts % ranks == 0)
            job->expert_splits[job->num_expert_splits++] =
                (struct tpp_expert_split){ranks, imbalance(tokens, num_experts, ranks)};
}

static enum tpp_code read_file(struct reading *reading, struct tpp_error *err)
{
    char *data;
    size_t length;
    enum tpp_code code = tpp_file_read(reading->where, MAX_FILE_BYTES, &data, &length, err);
    if (code != TPP_OK)
        return code;
    reading->code = TPP_E_SYNTAX;
    code = strlen(data) < length ? refuse(reading, "the file holds a zero byte", err) : read_counts(reading, data, err);
    free(data);
    return code;
}

enum tpp_code tpp_expert_load_read(const char *text, uint32_t num_experts, struct tpp_job *job, struct tpp_error *err)
{
    double tokens[TPP_EXPERT_LOAD_MAX_EXPERTS];
    struct reading reading = {.where = option, .code = TPP_E_USAGE, .num_experts = num_experts, .tokens = tokens};
    if (num_experts == 0 || num_experts > TPP_EXPERT_LOAD_MAX_EXPERTS)
        return tpp_fail(err, TPP_E_USAGE, option, "give a model with 1 to 4096 experts, or drop it",
                        "tokens cannot be told apart for %u experts", num_experts);
    enum tpp_code code;
    if (strncmp(text, "file:", 5) == 0) {
        reading.where = text + 5;
        code = read_file(&reading, err);
    } else {
        code = read_counts(&reading, text, err);
    }
    if (code == TPP_OK)
        set_splits(tokens, num_experts, job);
    return code;
}
