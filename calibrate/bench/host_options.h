/* host_options.h - the command line of a measuring program: one table drives the parser and --help.
 *
 * A program has parts (its own table, the common one); each row fills a field of that part's struct. `--name VALUE` and
 * `--name=VALUE` mean the same; names are matched exactly. The programs take no operands. */
#ifndef TPP_CALIBRATE_BENCH_HOST_OPTIONS_H
#define TPP_CALIBRATE_BENCH_HOST_OPTIONS_H

#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tpp_bench_option_kind {
    TPP_BENCH_FLAG,   /* bool */
    TPP_BENCH_TEXT,   /* const char *, into argv */
    TPP_BENCH_CHOICE, /* const char *, one of `choices` */
    TPP_BENCH_LIST,   /* const char *, words of `choices` with commas between them */
    TPP_BENCH_COUNT,  /* uint64_t */
    TPP_BENCH_BYTES,  /* uint64_t */
    TPP_BENCH_NUMBER, /* double */
};

struct tpp_bench_option {
    const char *name; /* without dashes; NULL ends a table */
    enum tpp_bench_option_kind kind;
    size_t offset;        /* of the field in the part's struct */
    const char *metavar;  /* what the value is called; NULL: the choices */
    const char *choices;  /* "bf16|fp16|fp8" */
    const char *fallback; /* as a user would type it; NULL: false, NULL or 0 */
    double min, max;      /* range of numbers; max 0: no limit */
    const char *help;     /* one sentence without a full stop */
};

struct tpp_bench_part {
    const struct tpp_bench_option *options; /* NULL ends the parts */
    void *arguments;                        /* struct that the table describes */
};

/* Parses argv[1 .. argc-1] after every field got its default. *help is set when --help or -h is there. TPP_E_USAGE
 * names the option in `where` and the nearest known name in `hint`. */
enum tpp_code tpp_bench_options_parse(const struct tpp_bench_part *parts, int argc, const char *const *argv, bool *help,
                                      struct tpp_error *err);

/* Appends usage line, `about`, the options with their defaults, and the exit codes. */
void tpp_bench_options_help(const struct tpp_bench_part *parts, const char *program, const char *about,
                            struct tpp_text *out);

/* True when `word` is one of the words of `list`, which are separated by one of "|,". A NULL list contains all. */
bool tpp_bench_list_contains(const char *list, const char *word);

#endif
