/* options.h - the one description of a command line: what a subcommand accepts, its help, its man page, its completion.
 *
 * A subcommand has one table (in parts, so that parts can be shared) and one plain struct of arguments that the table
 * fills. Names are matched exactly: no abbreviations, so that a script does not break when an option is added.
 * `--name=value` and `--name value` mean the same; `--` ends the options; options and operands may be mixed. */
#ifndef TPP_CLI_OPTIONS_H
#define TPP_CLI_OPTIONS_H

#include "costmodel/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an option stores in the struct of arguments. "Absent" is what a field holds when the option was not given and
 * has no default. */
enum tpp_option_kind {
    TPP_OPTION_FLAG,      /* bool; absent false */
    TPP_OPTION_TEXT,      /* const char *, pointing into argv; absent NULL */
    TPP_OPTION_CHOICE,    /* const char *, one of `choices`; absent NULL */
    TPP_OPTION_COUNT,     /* int64_t; absent TPP_OPTION_ABSENT */
    TPP_OPTION_BYTES,     /* int64_t; absent TPP_OPTION_ABSENT */
    TPP_OPTION_NUMBER,    /* double, not negative; absent TPP_OPTION_ABSENT */
    TPP_OPTION_BANDWIDTH, /* double, bytes per second; absent TPP_OPTION_ABSENT */
    TPP_OPTION_LIST,      /* struct tpp_option_list: a text option that may be repeated */
};

#define TPP_OPTION_ABSENT (-1)
#define TPP_OPTION_LIST_MAX 64
/* 2^53 - 1: the largest count that JSON and double carry exactly. */
#define TPP_OPTION_COUNT_MAX 9007199254740991.0

struct tpp_option_list {
    const char *items[TPP_OPTION_LIST_MAX]; /* pointing into argv */
    size_t count;
};

struct tpp_option {
    const char *name; /* without dashes; NULL ends a table */
    char short_name;  /* 0: none */
    enum tpp_option_kind kind;
    size_t offset;        /* of the field in the part's struct */
    const char *metavar;  /* what the value is called; NULL for flags, and for choices the choices are shown */
    const char *choices;  /* "bf16|fp16|fp32": CHOICE only */
    const char *fallback; /* the default, in the form the user would type; NULL: absent */
    double min, max;      /* valid range of COUNT, BYTES, NUMBER, BANDWIDTH; max 0: no limit but the kind's */
    bool whole_digits;    /* COUNT: refuse 32k, which may mean 32000 or 32768 */
    bool required;
    const char *help; /* one sentence without a full stop */
};

/* A table, the heading it has in the help, and where its fields begin in the struct of arguments. */
struct tpp_option_part {
    const char *heading; /* NULL ends the parts */
    const struct tpp_option *options;
    size_t base;
};

struct tpp_operands {
    const char *const *items; /* the front of the argv given to tpp_options_parse */
    size_t count;
};

/* Parses argv[0 .. argc-1] (without program and subcommand). `arguments` is a zeroed struct that the tables describe;
 * every field gets its default first. Operands are moved to the front of `argv` in their order, and *operands refers to
 * them. TPP_E_USAGE names the option in `where` and the nearest known option or choice in `hint`; nothing is printed.
 * *help is set, and required options are not missed, when --help or -h is among the options. */
enum tpp_code tpp_options_parse(const struct tpp_option_part *parts, int argc, const char **argv, void *arguments,
                                struct tpp_operands *operands, bool *help, struct tpp_error *err);

/* "--name" or "-x" is a known option of the parts; NULL when there is none. */
const struct tpp_option *tpp_options_find(const struct tpp_option_part *parts, const char *name);

/* Position of `text` among the words "a|b|c"; it must be one of them. */
unsigned tpp_choice_index(const char *words, const char *text);

#endif
