#include "calibrate/bench/host_options.h"

#include "costmodel/base/units.h"

#include <string.h>

#define MAX_OPTIONS 64

bool tpp_bench_list_contains(const char *list, const char *word)
{
    const size_t length = strlen(word);
    if (!list) {
        return true;
    }
    for (const char *at = list; length > 0; at++) {
        const size_t run = strcspn(at, "|,");
        if (run == length && strncmp(at, word, length) == 0) {
            return true;
        }
        at += run;
        if (*at == '\0') {
            return false;
        }
    }
    return false;
}

static const struct tpp_bench_option *find(const struct tpp_bench_part *parts, const char *name, size_t length,
                                           void **arguments)
{
    for (; parts->options; parts++) {
        for (const struct tpp_bench_option *option = parts->options; option->name; option++) {
            if (strlen(option->name) == length && strncmp(option->name, name, length) == 0) {
                *arguments = parts->arguments;
                return option;
            }
        }
    }
    return NULL;
}

static enum tpp_code unknown_option(const struct tpp_bench_part *parts, const char *argument, struct tpp_error *err)
{
    const char *names[MAX_OPTIONS + 1] = {NULL};
    size_t count = 0;
    for (; parts->options; parts++) {
        for (const struct tpp_bench_option *option = parts->options; option->name && count < MAX_OPTIONS; option++) {
            names[count++] = option->name;
        }
    }
    char word[64];
    const size_t length = strcspn(argument + 2, "=");
    const size_t kept = length < sizeof word ? length : sizeof word - 1;
    memcpy(word, argument + 2, kept);
    word[kept] = '\0';
    const char *nearest = tpp_text_nearest(word, names);
    if (!nearest) {
        return tpp_fail(err, TPP_E_USAGE, argument, "see --help", "unknown option");
    }
    char hint[96] = "did you mean --";
    strncat(hint, nearest, sizeof hint - strlen(hint) - 1);
    return tpp_fail(err, TPP_E_USAGE, argument, hint, "unknown option");
}

/* Every word of `value` is a word of the choices. */
static bool are_choices(const struct tpp_bench_option *option, const char *value)
{
    if (option->kind == TPP_BENCH_CHOICE) {
        return !strpbrk(value, "|,") && tpp_bench_list_contains(option->choices, value);
    }
    for (const char *at = value;; at++) {
        char word[64];
        const size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof word) {
            return false;
        }
        memcpy(word, at, length);
        word[length] = '\0';
        if (strchr(word, '|') || !tpp_bench_list_contains(option->choices, word)) {
            return false;
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}

static enum tpp_code check_range(const struct tpp_bench_option *option, double value, struct tpp_error *err)
{
    if (value >= option->min && (option->max == 0 || value <= option->max)) {
        return TPP_OK;
    }
    return tpp_fail(err, TPP_E_USAGE, option->name, option->help, "%g is outside %g .. %g", value, option->min,
                    option->max);
}

static enum tpp_code store(const struct tpp_bench_option *option, void *arguments, const char *value,
                           struct tpp_error *err)
{
    char *field = (char *)arguments + option->offset;
    uint64_t count = 0;
    double number = 0;
    enum tpp_code code = TPP_OK;
    switch (option->kind) {
    case TPP_BENCH_FLAG:
        memcpy(field, &(bool){true}, sizeof(bool));
        return TPP_OK;
    case TPP_BENCH_CHOICE:
    case TPP_BENCH_LIST:
        if (!are_choices(option, value)) {
            return tpp_fail(err, TPP_E_USAGE, option->name, option->choices, "\"%.60s\" is none of the choices", value);
        }
        memcpy(field, &value, sizeof value);
        return TPP_OK;
    case TPP_BENCH_TEXT:
        memcpy(field, &value, sizeof value);
        return TPP_OK;
    case TPP_BENCH_NUMBER:
        code = tpp_parse_number(value, option->name, &number, err);
        if (code == TPP_OK && (code = check_range(option, number, err)) == TPP_OK) {
            memcpy(field, &number, sizeof number);
        }
        break;
    default:
        code = option->kind == TPP_BENCH_BYTES ? tpp_parse_bytes(value, option->name, &count, err)
                                               : tpp_parse_count(value, option->name, &count, err);
        if (code == TPP_OK && (code = check_range(option, (double)count, err)) == TPP_OK) {
            memcpy(field, &count, sizeof count);
        }
        break;
    }
    if (code != TPP_OK && err) {
        err->code = TPP_E_USAGE; /* a bad number on a command line is a usage error, whatever the parser calls it */
    }
    return code == TPP_OK ? TPP_OK : TPP_E_USAGE;
}

static enum tpp_code set_defaults(const struct tpp_bench_part *parts, struct tpp_error *err)
{
    for (; parts->options; parts++) {
        for (const struct tpp_bench_option *option = parts->options; option->name; option++) {
            const enum tpp_code code =
                option->fallback ? store(option, parts->arguments, option->fallback, err) : TPP_OK;
            if (code != TPP_OK) {
                return code;
            }
        }
    }
    return TPP_OK;
}

enum tpp_code tpp_bench_options_parse(const struct tpp_bench_part *parts, int argc, const char *const *argv, bool *help,
                                      struct tpp_error *err)
{
    *help = false;
    enum tpp_code code = set_defaults(parts, err);
    for (int i = 1; code == TPP_OK && i < argc; i++) {
        const char *argument = argv[i];
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            *help = true;
            continue;
        }
        if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
            return tpp_fail(err, TPP_E_USAGE, argument, "options begin with --; see --help", "unexpected argument");
        }
        void *arguments = NULL;
        const size_t length = strcspn(argument + 2, "=");
        const struct tpp_bench_option *option = find(parts, argument + 2, length, &arguments);
        const char *value = argument[2 + length] == '=' ? argument + 2 + length + 1 : NULL;
        if (!option) {
            return unknown_option(parts, argument, err);
        }
        if (option->kind == TPP_BENCH_FLAG && value) {
            return tpp_fail(err, TPP_E_USAGE, option->name, NULL, "the option takes no value");
        }
        if (option->kind != TPP_BENCH_FLAG && !value) {
            if (++i == argc) {
                return tpp_fail(err, TPP_E_USAGE, option->name, option->help, "the option needs a value");
            }
            value = argv[i];
        }
        code = store(option, arguments, value, err);
    }
    return code;
}

static void append_option(const struct tpp_bench_option *option, struct tpp_text *out)
{
    char name[128];
    struct tpp_text left;
    tpp_text_init(&left);
    tpp_text_format(&left, "--%s", option->name);
    if (option->kind != TPP_BENCH_FLAG) {
        tpp_text_format(&left, " %s", option->metavar ? option->metavar : option->choices);
    }
    strncpy(name, tpp_text_get(&left), sizeof name - 1);
    name[sizeof name - 1] = '\0';
    tpp_text_release(&left);
    if (strlen(name) > 27) {
        tpp_text_format(out, "  %s\n%30s", name, "");
    } else {
        tpp_text_format(out, "  %-28s", name);
    }
    tpp_text_append(out, option->help);
    if (option->fallback) {
        tpp_text_format(out, " (default %s)", option->fallback);
    }
    tpp_text_append(out, "\n");
}

void tpp_bench_options_help(const struct tpp_bench_part *parts, const char *program, const char *about,
                            struct tpp_text *out)
{
    tpp_text_format(out, "usage: %s [OPTION...]\n\n%s\n\noptions:\n", program, about);
    for (; parts->options; parts++) {
        for (const struct tpp_bench_option *option = parts->options; option->name; option++) {
            append_option(option, out);
        }
    }
    tpp_text_format(out, "  %-28sprint this and exit\n", "-h, --help");
    tpp_text_append(out, "\nexit codes: 0 done; 1 a result was wrong; 2 usage; 4 no device, or a library is missing;\n"
                         "            5 writing failed or a rank was lost; 70 a bug of this program\n");
}
