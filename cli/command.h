/* command.h - the table of subcommands: what `tp-plan NAME` runs, and all that its help says. */
#ifndef TPP_CLI_COMMAND_H
#define TPP_CLI_COMMAND_H

#include "cli/options.h"
#include "costmodel/base/error.h"
#include "costmodel/base/text.h"

#include <stdbool.h>
#include <stddef.h>

#define TPP_PROGRAM_NAME "tp-plan"
/* Version of the JSON that is written: raised when a key changes its meaning. */
#define TPP_JSON_SCHEMA_VERSION 1

/* What a command answers. Printed at the end by main, so that an error never leaves half an answer on stdout. */
struct tpp_answer {
    struct tpp_text text;
    bool is_no;       /* exit 1: nothing fits, a check failed */
    unsigned width;   /* columns of the terminal, for text answers */
    bool on_terminal; /* stderr is a terminal: progress may be shown there */
};

#define TPP_COMMAND_EXAMPLES_MAX 3

struct tpp_command_example {
    const char *command;
    const char *about;
};

struct tpp_command {
    const char *name;     /* NULL ends the table */
    const char *summary;  /* one line without a full stop */
    const char *about;    /* one or two sentences for the command's own help */
    const char *operands; /* "SCRIPT", "[NAME|FILE]"; NULL: none */
    size_t min_operands, max_operands;
    const struct tpp_option_part *parts;
    struct tpp_command_example examples[TPP_COMMAND_EXAMPLES_MAX];
    size_t arguments_size; /* of the struct that the parts describe */
    bool hidden;           /* not in the list of commands */
    enum tpp_code (*run)(const void *arguments, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err);
};

/* In the order of the help; ended by a row without a name. */
extern const struct tpp_command *const tpp_commands[];
/* NULL when there is none of that exact name. */
const struct tpp_command *tpp_command_find(const char *name);

extern const struct tpp_command tpp_command_plan;
extern const struct tpp_command tpp_command_predict;
extern const struct tpp_command tpp_command_launch;
extern const struct tpp_command tpp_command_check;
extern const struct tpp_command tpp_command_validate;
extern const struct tpp_command tpp_command_calibrate;
extern const struct tpp_command tpp_command_models;
extern const struct tpp_command tpp_command_hardware;
extern const struct tpp_command tpp_command_help;

/* Parses argv[0 .. argc-1] (after the subcommand) and runs the command, or puts its help into the answer. */
enum tpp_code tpp_command_run(const struct tpp_command *command, int argc, char *const *argv, struct tpp_answer *answer,
                              struct tpp_error *err);

#endif
