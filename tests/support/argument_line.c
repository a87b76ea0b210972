/* argument_line.c - see argument_line.h. */
#include "argument_line.h"

#include "planner/launch/launch_line.h"
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

/* The line as a script, each word in quotes. */
static struct tpp_shell_script *read_script(char *text)
{
    struct tpp_shell_script *script;
    struct tpp_text source;
    tpp_text_init(&source);
    tpp_text_append(&source, "torchrun --nproc_per_node 8 pretrain_gpt.py");
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        tpp_text_append(&source, " ");
        tpp_text_append_shell_word(&source, word);
    }
    if (tpp_shell_read(tpp_text_get(&source), source.length, "line", NULL, 0, &script, NULL) != TPP_OK)
        abort();
    tpp_text_release(&source);
    return script;
}

enum argument_verdict argument_line_read(char *text, enum tpp_release release, struct tpp_rule_settings *settings,
                                         char *reason, size_t size)
{
    static struct tpp_shell_script *script; /* holds the strings of the settings until the next call */
    struct tpp_launch_line line;
    struct tpp_arguments arguments;
    struct tpp_megatron_settings read;
    struct tpp_problems problems = {0};
    tpp_shell_free(script);
    script = read_script(text);
    *reason = '\0';
    if (tpp_launch_line_find(script, "line", &line, NULL) != TPP_OK ||
        tpp_megatron_read(line.arguments, script, line.entry, release, &arguments, &read, &problems, NULL) != TPP_OK)
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
