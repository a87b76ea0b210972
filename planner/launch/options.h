/* options.h - the command-line options of Megatron-LM: name, kind, default, choices, and the releases that know them.
 *
 * One table for both directions: what is emitted must exist in the chosen release, what is read is looked up here. */
#ifndef TPP_PLANNER_LAUNCH_OPTIONS_H
#define TPP_PLANNER_LAUNCH_OPTIONS_H

#include "planner/rules/release.h"

#include <stdbool.h>
#include <stddef.h>

enum tpp_launch_option_kind {
    TPP_LAUNCH_OPTION_ON,  /* no value; absent = false */
    TPP_LAUNCH_OPTION_OFF, /* no value; absent = true ("--no-...", "--disable-...") */
    TPP_LAUNCH_OPTION_INT, /* digits, underscores between them, a sign; no exponent */
    TPP_LAUNCH_OPTION_FLOAT,
    TPP_LAUNCH_OPTION_TEXT,
    TPP_LAUNCH_OPTION_PATTERN, /* a number or a Python list expression: "([0]*3+[1]*58)" */
};

struct tpp_launch_option {
    const char *name; /* "--micro-batch-size": the only spelling, there are no abbreviations */
    enum tpp_launch_option_kind kind;
    char num_values; /* '0', '1', '3', '+' (one or more), '*' */
    enum tpp_release first, last;
    /* Values with the releases they hold in, newest first: "optim@0.18..|no_shard@..0.17"; no '@' = always.
     * Default "none": not set. */
    const char *defaults;
    const char *choices; /* "torch|zarr@..0.15"; "" = any */
};

/* What became of an option. */
struct tpp_launch_rename {
    const char *old_name;
    const char *new_name;   /* with its value where the old one had none: "--fp8-format hybrid"; NULL: it is gone */
    enum tpp_release since; /* first release to use the new one in */
    bool ends_program;      /* since that release the parser knows the old name only to stop with a message */
};

/* Sorted by name (bytes). */
const struct tpp_launch_option *tpp_launch_options(size_t *count);
/* NULL when no release has an option of that exact name. */
const struct tpp_launch_option *tpp_launch_option_find(const char *name);
bool tpp_launch_option_in(const struct tpp_launch_option *option, enum tpp_release release);
/* True when the option takes any value or `value` is one of its choices in that release. */
bool tpp_launch_option_allows(const struct tpp_launch_option *option, enum tpp_release release, const char *value);
/* True when `value` is the default in that release ("none" for one that is not set). */
bool tpp_launch_option_is_default(const struct tpp_launch_option *option, enum tpp_release release, const char *value);

/* The row of an old name; NULL when it was never renamed. */
const struct tpp_launch_rename *tpp_launch_rename_find(const char *old_name);
const struct tpp_launch_rename *tpp_launch_renames(size_t *count);

#endif
