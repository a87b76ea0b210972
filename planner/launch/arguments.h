/* arguments.h - the words behind a training program as options with values, by the option table of its framework.
 *
 * What the framework's own parser would stop at is a problem of severity error: an option that the release does not
 * have, a value of the wrong kind, a value too many. */
#ifndef TPP_PLANNER_LAUNCH_ARGUMENTS_H
#define TPP_PLANNER_LAUNCH_ARGUMENTS_H

#include "planner/launch/options.h"
#include "planner/launch/problems.h"
#include "planner/launch/shell_reader.h"

struct tpp_argument {
    const struct tpp_launch_option *option;
    const struct tpp_shell_word *word;   /* the option */
    const struct tpp_shell_word *values; /* the words behind it, or `joined` */
    size_t num_values;
    struct tpp_shell_word joined; /* of --name=value */
    bool is_known;                /* every value is, and right for the option */
    bool is_null;                 /* an override that takes the value away: key=null */
};

struct tpp_arguments {
    struct tpp_argument *items; /* owned */
    size_t count;
    char *texts; /* owned: values of overrides without their quotes */
};

/* How a framework reads its command line. */
struct tpp_argument_dialect {
    const char *framework; /* for messages */
    const struct tpp_launch_option *(*find)(const char *name);
    const char *(*nearest)(const char *name); /* a known name like it; NULL: none. May be NULL itself */
    enum tpp_release release;
    bool has_releases;  /* the table knows releases; messages name them */
    bool takes_foreign; /* the program may have options of its own: an unknown one is a warning */
    bool has_overrides; /* words of the form key=value, in Hydra's grammar, are options named "key" */
    bool is_partial;    /* the table has what matters alone: nothing is said about other options */
};

/* More words than any training has: a command line beyond it is refused, so that its time is bounded. */
#define TPP_ARGUMENTS_MAX_WORDS 8192

/* `script` names the reasons of unknown words; NULL when every word is known. The words must outlive *out, which the
 * caller releases. TPP_E_MEMORY, and TPP_E_UNSUPPORTED for more than TPP_ARGUMENTS_MAX_WORDS words. */
enum tpp_code tpp_arguments_read(struct tpp_shell_words words, const struct tpp_shell_script *script,
                                 const struct tpp_argument_dialect *dialect, struct tpp_arguments *out,
                                 struct tpp_problems *problems, struct tpp_error *err);
void tpp_arguments_release(struct tpp_arguments *arguments);

/* The last one of a name, which wins; NULL when it is not given. */
const struct tpp_argument *tpp_argument_find(const struct tpp_arguments *arguments, const char *name);
/* Line of the last one of a name, 0 when it is not given. */
uint32_t tpp_argument_line(const struct tpp_arguments *arguments, const char *name);

/* An integer as Python's int() takes it: single underscores between digits. */
bool tpp_argument_integer(const char *text, int64_t *out);
bool tpp_argument_number(const char *text, double *out);

/* Says why a word is not known; `needed`: the prediction cannot do without it. */
void tpp_argument_explain(const struct tpp_shell_script *script, const struct tpp_shell_word *word, const char *option,
                          bool needed, struct tpp_problems *problems);

#endif
