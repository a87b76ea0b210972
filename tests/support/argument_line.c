/* argument_line.c - see argument_line.h. */
#include "argument_line.h"

#include "planner/launch/megatron_arguments.h"

#include <stdlib.h>
#include <string.h>

static enum argument_verdict verdict_of(const struct tpp_problems *problems, char *reason, size_t size)
{
    for (size_t i = 0; i < problems->count; i++) {
        if (problems->items[i].severity != TPP_SEVERITY_ERROR)
            continue;
        strncpy(reason, problems->items[i].message, size - 1);
        reason[size - 1] = '\0';
        return ARGUMENTS_REFUSED;
    }
    return ARGUMENTS_READ;
}

enum argument_verdict argument_line_read(char *text, enum tpp_release release, struct tpp_rule_settings *settings,
                                         char *reason, size_t size)
{
    static struct tpp_shell_word words[1024];
    size_t count = 0;
    struct tpp_arguments arguments;
    struct tpp_megatron_settings read;
    struct tpp_problems problems = {0};
    for (char *w = strtok(text, " "); w != NULL && count < sizeof words / sizeof *words; w = strtok(NULL, " "))
        words[count++] = (struct tpp_shell_word){.text = w, .line = 1};
    *reason = '\0';
    if (tpp_megatron_read((struct tpp_shell_words){words, count}, NULL, NULL, release, &arguments, &read, &problems,
                          NULL) != TPP_OK)
        abort();
    read.rules.world_size = settings->world_size;
    read.rules.compute_capability = settings->compute_capability;
    read.rules.cuda_device_max_connections = settings->cuda_device_max_connections;
    *settings = read.rules;
    enum argument_verdict verdict = verdict_of(&problems, reason, size);
    tpp_problems_release(&problems);
    tpp_arguments_release(&arguments);
    return verdict;
}
