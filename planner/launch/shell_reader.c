/* shell_reader.c - see shell_reader.h. */
#include "planner/launch/shell_parts.h"
#include "planner/launch/slurm_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Both are far above what any real script needs: reading 30 kB takes about 2 MiB and 100 000 steps. */
#define MAX_MEMORY_BYTES ((size_t)192 << 20)
#define MAX_STEPS ((size_t)20000000)

/* Characters with their lines. A NUL is no text; a carriage return in front of a newline is the editor's. */
static struct tpp_shell_text to_cells(struct tpp_shell_script *s, const char *text, size_t length)
{
    struct tpp_shell_cell *cells = tpp_shell_alloc(s, length + 1, sizeof *cells);
    size_t count = 0;
    uint32_t line = 1;
    for (size_t i = length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; cells != NULL && i < length; i++) {
        if (text[i] == '\r' && i + 1 < length && text[i + 1] == '\n')
            continue;
        cells[count++] = (struct tpp_shell_cell){line, 0, text[i] == '\0' ? '?' : text[i], TPP_SHELL_PLAIN};
        line += text[i] == '\n';
    }
    return (struct tpp_shell_text){cells, cells != NULL ? count : 0};
}

void tpp_shell_read_batch(struct tpp_shell_script *s, struct tpp_shell_text text)
{
    static const char mark[] = "#SBATCH";
    for (size_t begin = 0, end; begin < text.count && tpp_shell_step(s, 1); begin = end + 1) {
        for (end = begin; end < text.count && text.cells[end].byte != '\n'; end++)
            ;
        if (!tpp_shell_equals(tpp_shell_slice(text, begin, begin + sizeof mark - 1), mark))
            continue;
        struct tpp_shell_text rest = tpp_shell_slice(text, begin + sizeof mark - 1, end);
        for (size_t i = 0, first = 0; i <= rest.count; i++) {
            char c = tpp_shell_byte(rest, i);
            if (c != ' ' && c != '\t' && c != '\0' && c != '#')
                continue;
            if (i > first)
                tpp_shell_add_field(s, &s->batch, tpp_shell_slice(rest, first, i));
            if (c == '#')
                break;
            first = i + 1;
        }
    }
}

static void set_number(struct tpp_shell_script *s, const char *name, uint32_t number)
{
    char digits[16];
    if (number == 0)
        return;
    snprintf(digits, sizeof digits, "%u", number);
    tpp_shell_set(s, name, tpp_shell_from_string(s, digits, 1));
    tpp_shell_export(s, name);
}

/* What Slurm sets from the #SBATCH lines. */
static void set_slurm(struct tpp_shell_script *s)
{
    struct tpp_slurm_options options = {0};
    struct tpp_shell_words words = tpp_shell_words_of(s, &s->batch);
    tpp_slurm_options_read(words, &options);
    set_number(s, "SLURM_NNODES", options.nodes);
    set_number(s, "SLURM_JOB_NUM_NODES", options.nodes);
    set_number(s, "SLURM_NTASKS_PER_NODE", options.tasks_per_node);
    set_number(s, "SLURM_GPUS_ON_NODE", options.gpus_per_node);
    set_number(s, "SLURM_GPUS_PER_NODE", options.gpus_per_node);
    set_number(s, "SLURM_NTASKS", options.tasks > 0 ? options.tasks : options.nodes * options.tasks_per_node);
}

static bool is_no_arguments(const struct tpp_shell_setting *setting)
{
    return strcmp(setting->name, "#") == 0 && strcmp(setting->value, "0") == 0;
}

/* $1 ... that the caller gives; those between are not known. */
static void set_arguments(struct tpp_shell_script *s, const struct tpp_shell_setting *settings, size_t count)
{
    struct tpp_shell_text arguments[100] = {{NULL, 0}};
    bool is_given[100] = {false}; /* an empty text has no cells */
    struct tpp_shell_fields fields = {0};
    size_t last = 0;
    bool has_none = false;
    for (size_t i = 0; i < count; i++) {
        has_none = has_none || is_no_arguments(&settings[i]);
        size_t number = strtoul(settings[i].name, NULL, 10);
        if (number < 1 || number >= sizeof arguments / sizeof *arguments)
            continue;
        arguments[number] = tpp_shell_from_string(s, settings[i].value, 1);
        is_given[number] = true;
        last = number > last ? number : last;
    }
    for (size_t i = 1; i <= last; i++) {
        char name[16];
        snprintf(name, sizeof name, "%zu", i);
        tpp_shell_add_field(s, &fields,
                            is_given[i] ? arguments[i] : tpp_shell_unknown(s, tpp_shell_missing(s, name, 1), 1));
    }
    s->scope.arguments = fields.items;
    s->scope.num_arguments = fields.count;
    s->scope.has_arguments = last > 0 || has_none;
}

static void set_settings(struct tpp_shell_script *s, const struct tpp_shell_setting *settings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if ((settings[i].name[0] >= '0' && settings[i].name[0] <= '9') || is_no_arguments(&settings[i]))
            continue;
        tpp_shell_give(s, settings[i].name, tpp_shell_from_string(s, settings[i].value, 1));
    }
    set_arguments(s, settings, count);
}

static void read_script(struct tpp_shell_script *s, const char *text, size_t length,
                        const struct tpp_shell_setting *settings, size_t num_settings)
{
    if (length > TPP_SHELL_MAX_BYTES) {
        tpp_shell_fail(s, TPP_E_UNSUPPORTED, 1, "give a launch script", "the script is larger than %u bytes",
                       TPP_SHELL_MAX_BYTES);
        return;
    }
    struct tpp_shell_text source = to_cells(s, text, length);
    tpp_shell_read_batch(s, source);
    set_slurm(s);
    set_settings(s, settings, num_settings);
    struct tpp_shell_node *tree = tpp_shell_parse(s, source);
    if (!tpp_shell_failed(s))
        tpp_shell_run(s, tree);
    s->batch_words = tpp_shell_words_of(s, &s->batch);
}

enum tpp_code tpp_shell_read(const char *text, size_t length, const char *file,
                             const struct tpp_shell_setting *settings, size_t num_settings,
                             struct tpp_shell_script **out, struct tpp_error *err)
{
    return tpp_shell_read_with(text, length, file, settings, num_settings, NULL, out, err);
}

enum tpp_code tpp_shell_read_with(const char *text, size_t length, const char *file,
                                  const struct tpp_shell_setting *settings, size_t num_settings,
                                  const struct tpp_shell_source *source, struct tpp_shell_script **out,
                                  struct tpp_error *err)
{
    struct tpp_shell_script *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL || (s->arena = tpp_arena_new()) == NULL) {
        free(s);
        return tpp_fail(err, TPP_E_MEMORY, NULL, NULL, "out of memory while reading the script");
    }
    s->file = file;
    s->source = source;
    s->bytes_left = MAX_MEMORY_BYTES;
    s->steps_left = MAX_STEPS;
    read_script(s, text, length, settings, num_settings);
    if (tpp_shell_failed(s)) {
        enum tpp_code code = s->code;
        if (err != NULL)
            *err = s->error;
        tpp_shell_free(s);
        return code;
    }
    *out = s;
    return TPP_OK;
}

void tpp_shell_free(struct tpp_shell_script *script)
{
    if (script == NULL)
        return;
    tpp_arena_free(script->arena);
    free(script);
}

const struct tpp_shell_command *tpp_shell_commands(const struct tpp_shell_script *script, size_t *count)
{
    *count = script->num_commands;
    return script->commands;
}

const struct tpp_shell_file *tpp_shell_files(const struct tpp_shell_script *script, size_t *count)
{
    *count = script->num_files;
    return script->files;
}

const struct tpp_shell_note *tpp_shell_notes(const struct tpp_shell_script *script, size_t *count)
{
    *count = script->num_notes;
    return script->notes;
}

struct tpp_shell_words tpp_shell_batch_options(const struct tpp_shell_script *script)
{
    return script->batch_words;
}

const struct tpp_shell_note *tpp_shell_note_of(const struct tpp_shell_script *script, const struct tpp_shell_word *word)
{
    return word->note == 0 ? NULL : &script->notes[word->note - 1];
}
