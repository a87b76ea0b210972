/* slurm_options.c - see slurm_options.h. */
#include "planner/launch/slurm_options.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 1 << 20 };

/* "8", or the last number of "gpu:a100:8" and "gpu:8"; a range "4-8" and anything else is 0. */
static uint32_t size_of(const char *text)
{
    const char *colon = strrchr(text, ':');
    const char *digits = colon != NULL ? colon + 1 : text;
    char *end;
    if (*digits < '0' || *digits > '9')
        return 0;
    unsigned long value = strtoul(digits, &end, 10);
    return *end == '\0' && value <= MAX_SIZE ? (uint32_t)value : 0;
}

static uint32_t *field_of(struct tpp_slurm_options *options, const char *name, size_t length)
{
    const struct {
        const char *name;
        uint32_t *field;
    } names[] = {
        {"--nodes", &options->nodes},
        {"-N", &options->nodes},
        {"--ntasks", &options->tasks},
        {"-n", &options->tasks},
        {"--ntasks-per-node", &options->tasks_per_node},
        {"--tasks-per-node", &options->tasks_per_node},
        {"--gpus-per-node", &options->gpus_per_node},
        {"--gres", &options->gpus_per_node},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i].name) == length && memcmp(names[i].name, name, length) == 0)
            return names[i].field;
    }
    return NULL;
}

/* -N8 as well as -N 8 and --nodes=8. */
static size_t name_length(const char *word)
{
    if (word[0] == '-' && word[1] != '-' && word[1] != '\0')
        return 2;
    return strcspn(word, "=");
}

void tpp_slurm_options_read(struct tpp_shell_words words, struct tpp_slurm_options *options)
{
    for (size_t i = 0; i < words.count; i++) {
        const char *word = words.items[i].text;
        size_t length = name_length(word);
        uint32_t *field = field_of(options, word, length);
        if (field == NULL)
            continue;
        const char *value = word + length + (word[length] == '=');
        if (*value == '\0' && i + 1 < words.count)
            value = words.items[++i].text;
        if (length == 6 && memcmp(word, "--gres", 6) == 0 && strncmp(value, "gpu", 3) != 0)
            continue;
        *field = size_of(value);
    }
}
