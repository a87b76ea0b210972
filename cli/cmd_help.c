#include "cli/command.h"
#include "cli/help.h"

#include <stdio.h>

struct help_arguments {
    bool man;
    const char *completion;
};

static const struct tpp_option help_options[] = {
    {"man", 0, TPP_OPTION_FLAG, offsetof(struct help_arguments, man), .help = "print the man page in roff"},
    {"completion", 0, TPP_OPTION_CHOICE, offsetof(struct help_arguments, completion), .choices = "bash",
     .help = "print the completion script of a shell"},
    {.name = NULL},
};
static const struct tpp_option_part help_parts[] = {{"Output", help_options, 0}, {NULL}};

static enum tpp_code run(const void *data, const struct tpp_operands *operands, struct tpp_answer *answer,
                         struct tpp_error *err)
{
    const struct help_arguments *arguments = data;
    if (operands->count + arguments->man + (arguments->completion != NULL) > 1)
        return tpp_fail(err, TPP_E_USAGE, "help", "give a command, or --man, or --completion=bash",
                        "more than one help is asked for");
    if (arguments->man) {
        tpp_help_man_page(&answer->text);
    } else if (arguments->completion != NULL) {
        tpp_help_bash_completion(&answer->text);
    } else if (operands->count == 0) {
        tpp_help_program(&answer->text);
    } else {
        const struct tpp_command *command = tpp_command_find(operands->items[0]);
        if (command == NULL)
            return tpp_fail(err, TPP_E_USAGE, "help", "see '" TPP_PROGRAM_NAME " --help' for the commands",
                            "unknown command \"%.100s\"", operands->items[0]);
        tpp_help_command(command, &answer->text);
    }
    return TPP_OK;
}

const struct tpp_command tpp_command_help = {
    .name = "help",
    .summary = "show the help of a command, the man page or a completion script",
    .about = "Shows the help of a command, or prints what a package installs: the man page and the shell completion.",
    .operands = "[COMMAND]",
    .max_operands = 1,
    .parts = help_parts,
    .examples = {{"tp-plan help plan", "the options of plan"}, {"tp-plan help --man | man -l -", "the man page"}},
    .arguments_size = sizeof(struct help_arguments),
    .hidden = true,
    .run = run,
};
