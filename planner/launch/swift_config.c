#include "planner/launch/swift_config.h"

#include "planner/launch/arguments.h"
#include "planner/launch/config/document.h"
#include "planner/launch/config/script_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 1000000

struct tpp_swift_config {
    struct tpp_config *document; /* the texts of values */
    struct tpp_shell_word *words;
    char *names; /* "--key" of every key, one after the other */
};

static bool ends_with(const char *text, const char *ending)
{
    const size_t length = strlen(text), wanted = strlen(ending);
    return length >= wanted && strcmp(text + length - wanted, ending) == 0;
}

static bool is_file(const struct tpp_shell_word *word)
{
    return word->note == 0 &&
           (ends_with(word->text, ".yaml") || ends_with(word->text, ".yml") || ends_with(word->text, ".json"));
}

/* As Python's str() writes it. */
static const char *text_of(const struct tpp_config_entry *entry)
{
    if (entry->kind == TPP_CONFIG_NULL)
        return "None";
    if (entry->kind == TPP_CONFIG_BOOLEAN)
        return strcmp(entry->text, "true") == 0 ? "True" : "False";
    return entry->text;
}

/* The part of a path behind the last dot is an index of the list around it. */
static bool is_item(const char *path)
{
    const char *dot = strchr(path, '.');
    return dot != NULL && dot[1] != '\0' && strspn(dot + 1, "0123456789") == strlen(dot + 1);
}

/* Keys and values in the order of the file; what is inside tables is text of JSON there, and means nothing here. */
static size_t make_words(struct tpp_swift_config *config)
{
    size_t count, used = 0;
    char *name = config->names;
    const struct tpp_config_entry *entries = tpp_config_entries(config->document, &count);
    for (size_t i = 0; i < count; i++) {
        const struct tpp_config_entry *entry = &entries[i];
        const bool is_key = *entry->path != '\0' && strchr(entry->path, '.') == NULL && strcmp(entry->path, "ENV") != 0;
        if (is_key && !entry->is_doubled && entry->kind != TPP_CONFIG_TABLE) {
            config->words[used++] = (struct tpp_shell_word){.text = name, .line = entry->line};
            name += sprintf(name, "--%s", entry->path) + 1;
        }
        if (!entry->is_doubled && entry->kind < TPP_CONFIG_LIST && (is_key || is_item(entry->path)))
            config->words[used++] = (struct tpp_shell_word){.text = text_of(entry), .line = entry->line};
    }
    return used;
}

static void set_from_file(const struct tpp_config *document, const char *path, int64_t *size, uint32_t *line)
{
    int64_t number;
    const struct tpp_config_entry *entry = tpp_config_find(document, path);
    if (entry == NULL || *line != 0 || !tpp_argument_integer(entry->text, &number) || number < 1 || number > MAX_RANKS)
        return;
    *size = number;
    *line = entry->line;
}

/* Room for the words of the file and those behind it. */
static bool reserve(struct tpp_swift_config *config, size_t num_behind)
{
    size_t count, bytes = 1;
    const struct tpp_config_entry *entries = tpp_config_entries(config->document, &count);
    for (size_t i = 0; i < count; i++)
        bytes += strlen(entries[i].path) + sizeof "--";
    config->words = calloc(2 * count + num_behind + 1, sizeof *config->words);
    config->names = malloc(bytes);
    return config->words != NULL && config->names != NULL;
}

enum tpp_code tpp_swift_config_expand(struct tpp_launch_line *line, const struct tpp_shell_script *script,
                                      struct tpp_swift_config **out, struct tpp_problems *problems,
                                      struct tpp_error *err)
{
    const struct tpp_shell_words given = line->arguments;
    *out = NULL;
    if (given.count == 0 || !is_file(&given.items[0]))
        return TPP_OK;
    struct tpp_swift_config *config = calloc(1, sizeof *config);
    if (config == NULL)
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    enum tpp_code code =
        tpp_config_of_script(script, &given.items[0], given.items[0].text, TPP_CONFIG_YAML, &config->document, err);
    line->arguments = (struct tpp_shell_words){given.items + 1, given.count - 1};
    if (code != TPP_OK || config->document == NULL) {
        if (code == TPP_OK)
            tpp_problems_add(problems, "unknown-config", TPP_SEVERITY_WARNING, given.items[0].line,
                             "put it beside the script, or write it there with a here-document, to have it checked",
                             "the configuration is not written by the script, and not beside it: %.150s",
                             given.items[0].text);
        tpp_swift_config_free(config);
        return code;
    }
    if (!reserve(config, given.count)) {
        tpp_swift_config_free(config);
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory");
    }
    const size_t made = make_words(config);
    memcpy(config->words + made, given.items + 1, (given.count - 1) * sizeof *given.items);
    line->arguments = (struct tpp_shell_words){config->words, made + given.count - 1};
    set_from_file(config->document, "ENV.NPROC_PER_NODE", &line->ranks_per_node, &line->ranks_line);
    set_from_file(config->document, "ENV.NNODES", &line->nodes, &line->nodes_line);
    *out = config;
    return TPP_OK;
}

void tpp_swift_config_free(struct tpp_swift_config *config)
{
    if (config == NULL)
        return;
    tpp_config_free(config->document);
    free(config->words);
    free(config->names);
    free(config);
}
