#include "cli/command.h"

#include "cli/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct tpp_command *const tpp_commands[] = {
    &tpp_command_plan,      &tpp_command_predict, &tpp_command_launch,   &tpp_command_check, &tpp_command_validate,
    &tpp_command_calibrate, &tpp_command_models,  &tpp_command_hardware, &tpp_command_help,  NULL,
};

const struct tpp_command *tpp_command_find(const char *name)
{
    for (size_t i = 0; tpp_commands[i] != NULL; i++) {
        if (strcmp(tpp_commands[i]->name, name) == 0)
            return tpp_commands[i];
    }
    return NULL;
}

static enum tpp_code check_operands(const struct tpp_command *command, const struct tpp_operands *operands,
                                    struct tpp_error *err)
{
    char hint[160];
    snprintf(hint, sizeof hint, "usage: " TPP_PROGRAM_NAME " %s [OPTION]...%s%.80s", command->name,
             command->operands != NULL ? " " : "", command->operands != NULL ? command->operands : "");
    if (operands->count > command->max_operands)
        return tpp_fail(err, TPP_E_USAGE, command->name, hint, "the argument \"%.100s\" means nothing here",
                        operands->items[command->max_operands]);
    if (operands->count < command->min_operands)
        return tpp_fail(err, TPP_E_USAGE, command->name, hint, "%s is missing", command->operands);
    return TPP_OK;
}

/* `words` is a copy of the arguments that the parser may reorder. */
static enum tpp_code parse_and_run(const struct tpp_command *command, int argc, const char **words, void *arguments,
                                   struct tpp_answer *answer, struct tpp_error *err)
{
    struct tpp_operands operands;
    bool help;
    enum tpp_code code = tpp_options_parse(command->parts, argc, words, arguments, &operands, &help, err);
    if (code == TPP_OK && help)
        tpp_help_command(command, &answer->text);
    else if (code == TPP_OK)
        code = check_operands(command, &operands, err);
    if (code == TPP_OK && !help)
        code = command->run(arguments, &operands, answer, err);
    return code;
}

enum tpp_code tpp_command_run(const struct tpp_command *command, int argc, char *const *argv, struct tpp_answer *answer,
                              struct tpp_error *err)
{
    void *arguments = calloc(1, command->arguments_size);
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    enum tpp_code code;
    if (arguments == NULL || words == NULL) {
        code = tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    } else {
        for (int i = 0; i < argc; i++)
            words[i] = argv[i];
        code = parse_and_run(command, argc, words, arguments, answer, err);
    }
    free(words);
    free(arguments);
    return code;
}
